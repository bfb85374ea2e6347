/*
 * cli/common/study_command.h - what `ole tune`, `ole sweep` and `ole reproduce` share: the flags of
 * training and of a grid, progress, and the end of a study.
 */
#ifndef OLE_CLI_COMMON_STUDY_COMMAND_H
#define OLE_CLI_COMMON_STUDY_COMMAND_H

#include "common/progress.h"
#include "common/train_flags.h"

#include "report/text_table.h"
#include <ole/train/study.h>

typedef struct study_command {
    const char *name; /* "tune" */
    const char *summary, *example, *about;
    const char *const *without; /* options of training that the grid sets, NULL at the end */
    const ole_option *own;      /* flags of this command alone, {0} at the end */
    const char *lambdas_help;
    bool holds_out; /* it needs a validation split */
    ole_study_kind kind;
    void (*print)(const ole_study_result *); /* the result, for people */
    /* What one may do next with a result in the folder `out`: two commands, to be freed, or NULL */
    void (*next)(const ole_study_result *, const char *out, char *commands[2]);
} study_command;

/* What the command's own flags set. */
typedef struct study_flags {
    const char *samples; /* NULL: not given */
    bool baseline;
} study_flags;

/* Reads the command line, conducts the study and prints; returns the exit code. */
int study_run(const study_command *command, const study_flags *flags, int argc, char **argv);

/*
 * Reads "A,B,..." into `values`, doubles or int64_t as the training option has them, with room for
 * `most`, and counts them.  False: `word` is not a value of the option, or one too many.
 */
enum { WORD_ROOM = 64 };
bool study_read_list(const char *option, const char *text, int64_t most, void *values,
                     int64_t *count, char word[WORD_ROOM]);

/* Progress of a study on stderr: its callback and its messages, with a view as their context. */
typedef struct study_view {
    const char *name; /* of the command */
    progress line;
    bool quiet; /* another rank prints */
} study_view;

/* The folder of the first run of a point that is finished, in `path`; false: there is none. */
bool study_find_run(const ole_study_result *result, int64_t point, const char *out,
                    char path[4096]);

/* What one does with the model of a run: judges it on the run's data, and exports it. */
void next_of_run(const char *run, char *commands[2]);

bool study_show(void *view, const ole_study_progress *progress);
void study_say(void *view, const char *text);

/* Conducts a study whose callbacks get a view, as above.  EXIT_DONE with a result to free, or the
 * exit code after printing an error. */
int study_conduct(ole_study_kind kind, const ole_study_options *options, ole_study_result *result);

/* Prints a file of the folder as it is; the exit code. */
int study_print_json(const char *command, const char *out, const char *name);

/* Prints a table in columns of these widths (0: omitted), and frees it; empty cells are "-", and a
 * row of its first cell alone is a heading. */
void print_table(ole_text_table *table, const int *widths);

#endif
