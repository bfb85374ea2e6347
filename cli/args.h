/*
 * cli/args.h - command lines: a table says what a command takes; parsing, errors and help follow.
 *
 *     bool json = false;
 *     const arg_option options[] = {{"json", ARG_FLAG, .to = &json, .help = "print JSON"}, {0}};
 *     const arg_command command = {.name = "info", .summary = "...", .options = options};
 *     int code;
 *     if (!args_parse(&command, argc, argv, &code)) return code;
 *
 * Options are long, `--name value` or `--name=value`, anywhere on the line; `--` ends them; the
 * last of several counts.  A few also have a letter, `-c value`.
 */
#ifndef OLE_CLI_ARGS_H
#define OLE_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the program returns to the shell. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

typedef enum arg_kind {
    ARG_FLAG,    /* bool: set by its presence */
    ARG_STRING,  /* const char * */
    ARG_PAIR,    /* const char *[2]: two words, `--name A B` */
    ARG_NUMBER,  /* double, finite, min to max */
    ARG_INTEGER, /* int, min to max */
    ARG_SEED,    /* arg_seed: any seed that a run may have */
    ARG_CHOICE,  /* int: which of the words in `value`, split at '|' */
} arg_kind;

typedef struct arg_seed {
    bool given;
    uint64_t value; /* 0 where it is not */
} arg_seed;

typedef struct arg_option {
    const char *name; /* without the dashes; NULL ends a table */
    arg_kind kind;
    void *to;             /* what the kind says; holds the default */
    const char *value;    /* how the help calls the value: "N", "G.npy", "mean|sum" */
    const char *help;     /* one line, with the default */
    double min, max;      /* of a number or an integer */
    const char *special;  /* a word a number may also be, such as "auto" */
    double special_value; /* what the word stands for */
    char letter;          /* a short form, as -c; 0: none */
} arg_option;

/* An argument without a name; in their order. */
typedef struct arg_positional {
    const char *name; /* NULL ends a table */
    const char **to;
    const char *help;
} arg_positional;

typedef struct arg_command {
    const char *name;
    const char *summary;               /* one line, for the list of commands */
    const char *example;               /* the help starts with it; whole lines */
    const char *about;                 /* what it does; whole lines */
    const arg_positional *positionals; /* may be NULL */
    bool none_will_do;                 /* all positionals may be left out together */
    int *many; /* or NULL: the last positional takes all words that follow, at least one, into */
               /* `to`, which has room for argc of them; their number goes here */
    const arg_option *options; /* may be NULL; --help is always there */
} arg_command;

/*
 * Fills the targets from argv[1] on (argv[0] is the command's name).  False when the program should
 * end at once with *code: after --help, or after a mistake, which is then explained on stderr.
 */
bool args_parse(const arg_command *command, int argc, char **argv, int *code);

#endif
