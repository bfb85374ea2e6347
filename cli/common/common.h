/* cli/common/common.h - what most commands need: messages, exit codes, inputs and outputs. */
#ifndef OLE_CLI_COMMON_COMMON_H
#define OLE_CLI_COMMON_COMMON_H

#include "common/args.h"

#include "base/cpu.h"
#include "formats/json.h"
#include <ole/base.h>

#include <stdio.h>

/*
 * Prints a foreign text, such as a file's name: in messages and on a terminal with its control
 * characters as \xNN, so that it cannot steer the terminal; elsewhere as it is.
 */
void print_name(FILE *out, const char *text);

/* The same, cut off after `width` characters; returns how many were printed. */
int print_cut(FILE *out, const char *text, int width);

/* The same in a column of a table: cut off, or followed by spaces, to be `width` characters. */
void print_column(FILE *out, const char *text, int width);

/* The columns that the longest of the names takes there, from `least` to `most`. */
int names_width(FILE *out, const char *const *names, int count, int least, int most);

/* printf() of lines with foreign text in them; what would be control characters, line ends aside,
 * goes to a terminal as by print_name(). */
void print_lines(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints "ole NAME: message" to stderr, as by print_name(). */
void tell_command(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same; returns EXIT_FAILED.  Likewise for a wrong command line, and in functions that return
 * whether all is well. */
int fail_command(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define fail_usage(...) (fail_command(__VA_ARGS__), EXIT_USAGE)
#define refuse(...) (fail_command(__VA_ARGS__), false)

/*
 * From now on failures are kept, not printed: a process of several asks the others first who should
 * print them (launch.h).  take_failures() gives back what was kept, to be freed, or NULL; then they
 * are printed again.  failures() is where they go.
 */
void keep_failures(void);
char *take_failures(void);
FILE *failures(void);

/* Prints what was stopped and saved, and the command, quoted for the shell, that resumes it. */
void tell_resume(const char *command, const char *stopped, const char *out);

/* "ole VERB RUN OPTIONWHAT", quoted for the shell; `what` may be NULL.  To be freed; NULL without
 * memory. */
char *next_command(const char *verb, const char *run, const char *option, const char *what);

/* Prints what one may do next, the last lines of a result, and frees the commands; NULLs are
 * skipped. */
void print_next(char *const *commands, int count);

/* The exit code of what the library returned: EXIT_USAGE for a wrong request. */
int exit_code(ole_status status);

/* fail_command() with an error of the library; returns its exit_code(). */
int fail_with(const char *name, const ole_error *error);

/* Prints "ole NAME: interrupted; " and what that means; returns EXIT_INTERRUPTED. */
int end_interrupted(const char *name, const char *what);

/* --input: "3x32x32" (channels, height, width), or "784" for vectors, which are 784x1x1.  False
 * after a message. */
bool parse_shape(const char *command, const char *text, int shape[3]);

/* "KEY": [channels, height, width] */
void json_shape(ole_json *w, const char *key, int64_t channels, int64_t height, int64_t width);

/* "KEY": mean and, with `deviation`, "KEY_std" */
void json_spread(ole_json *w, const char *key, double mean, double std, bool deviation);

/* The default of --threads. */
static inline int default_threads(void) {
    return ole_threads(0);
}

/* Whether both names are there and mean the same file. */
bool same_file(const char *a, const char *b);

/*
 * Whether the outputs are different files, and none of them is an input: a file, a file of a run
 * folder, one of npy:X.npy,y.npy, an image in a folder, a file of another data set, or one of the
 * data of a run.  False after a message.  NULLs are skipped.
 */
bool spares_inputs(const char *command, const char *const *outputs, int output_count,
                   const char *const *inputs, int input_count);

#endif
