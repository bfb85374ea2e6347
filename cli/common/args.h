/*
 * cli/common/args.h - command lines: a table lists what a command takes; parsing, errors and help
 * follow.
 *
 *     bool json = false;
 *     const ole_option options[] = {{"json", OLE_SWITCH, .to = &json, .help = "print JSON"}, {0}};
 *     const arg_command command = {.name = "info", .summary = "...", .options = options};
 *     int code;
 *     if (!args_parse(&command, argc, argv, &code)) return code;
 *
 * Options are rows of base/option.h: `--name value` or `--name=value`, anywhere on the line; `--`
 * ends them; the last of several counts.  A few also have a letter, `-c value`.  A switch that is
 * on by default is turned off by `--no-name`.
 *
 * The same tables give the manual pages (cli/man.c) and what the shell completes (completion.c).
 */
#ifndef OLE_CLI_COMMON_ARGS_H
#define OLE_CLI_COMMON_ARGS_H

#include "base/option.h"

/* What the program returns to the shell. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

/* Options that many commands have. */
#define JSON_OPTION(variable)                                                                      \
    { "json", OLE_SWITCH, variable, .help = "print JSON" }
#define THREADS_OPTION(variable)                                                                   \
    {                                                                                              \
        "threads", OLE_INTEGER, variable, "N", .help = "threads (default: all processors)",        \
                                               .min = 1, .max = 1024                               \
    }

/* An argument without a name; in their order. */
typedef struct arg_positional {
    const char *name; /* NULL ends a table */
    const char **to;
    const char *help;
} arg_positional;

/* A command by its name: those of the program, or `get` of `ole data get`. */
typedef struct arg_action {
    const char *name; /* NULL ends a table */
    const char *summary;
    int (*run)(int argc, char **argv); /* argv[0] is the name; returns the exit code */
    unsigned traits;                   /* of the program's commands (commands.h) */
    const char *heading;               /* of their group in the list; of others NULL */
} arg_action;

typedef struct arg_command {
    const char *name;
    const char *summary;               /* one line, for the list of commands */
    const char *example;               /* the help starts with it; whole lines */
    const char *about;                 /* what it does; the help breaks its lines */
    const arg_positional *positionals; /* may be NULL */
    bool none_will_do;                 /* all positionals may be omitted together */
    bool last_optional;                /* the last positional may be omitted */
    int *many; /* or NULL: the last positional takes all words that follow, at least one, into */
               /* `to`, which may be argv + 1: they are read; their number goes here */
    const ole_option *options;   /* their variables hold the defaults; may be NULL */
    const arg_action *actions;   /* of args_act(); else NULL */
    const arg_positional *files; /* written into the output folder, for the manual; or NULL */
} arg_command;

/*
 * Sets the variables from argv[1] on (argv[0] is the command's name).  False when the program
 * should end at once with *code: after --help, or after a mistake, which is explained on stderr.
 */
bool args_parse(const arg_command *command, int argc, char **argv, int *code);

/* Runs the action that argv[1] names; the exit code. */
int args_act(const arg_command *command, int argc, char **argv);

/* The one of a table; NULL: there is none of that name. */
const arg_action *args_find(const arg_action *actions, const char *name);

/* An option as help shows it: "-c, --config FILE.yaml", and what it is, with its default. */
enum { ARG_LEFT = 128, ARG_HELP = 512 };
void args_option_text(const ole_option *option, char left[ARG_LEFT], char help[ARG_HELP]);

/*
 * If not NULL, commands do nothing but hand their tables and words to this function.  Of the words
 * the last is not finished, so it names no action.
 */
typedef void arg_reader(const arg_command *command, int argc, char **argv);
extern arg_reader *args_reader;

#endif
