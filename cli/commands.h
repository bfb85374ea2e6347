/*
 * cli/commands.h - the commands of the program, one file each.
 *
 * A new command is a row here, a source in CMakeLists.txt, and in that source `run_NAME`, which
 * returns the exit code (argv[0] is the name), and `NAME_summary`, its line in `ole --help`.
 */
#ifndef OLE_CLI_COMMANDS_H
#define OLE_CLI_COMMANDS_H

#include "common/args.h"

enum {
    RANKS = 1,     /* the processes of a launch work together; else the first one works alone */
    LONG_WORK = 2, /* of several threads */
};

#ifdef OLE_TRAIN
#define IF_TRAIN(...) __VA_ARGS__
#else
#define IF_TRAIN(...)
#endif

/* clang-format off */
#define COMMANDS(ROW)                                                                              \
    IF_TRAIN(ROW(demo, LONG_WORK)                                                                  \
             ROW(train, RANKS | LONG_WORK)                                                         \
             ROW(tune, RANKS | LONG_WORK)                                                          \
             ROW(sweep, RANKS | LONG_WORK)                                                         \
             ROW(reproduce, RANKS | LONG_WORK)                                                     \
             ROW(eval, LONG_WORK)                                                                  \
             ROW(predict, 0)                                                                       \
             ROW(report, 0)                                                                        \
             ROW(features, LONG_WORK)                                                              \
             ROW(novelty, LONG_WORK)                                                               \
             ROW(export, 0))                                                                       \
    ROW(score, LONG_WORK)                                                                          \
    ROW(analyze, LONG_WORK)                                                                        \
    ROW(verify, 0)                                                                                 \
    ROW(tsne, LONG_WORK)                                                                           \
    IF_TRAIN(ROW(bench, RANKS | LONG_WORK)                                                         \
             ROW(data, 0)                                                                          \
             ROW(net, 0))                                                                          \
    ROW(info, 0)                                                                                   \
    ROW(completion, 0)                                                                             \
    ROW(man, 0)

#define DECLARE(name, traits)                                                                      \
    int run_##name(int argc, char **argv);                                                         \
    extern const char name##_summary[];
COMMANDS(DECLARE)
#undef DECLARE
/* clang-format on */

/* All of them, and lines that show some at work. */
extern const arg_action ole_commands[];
extern const char program_examples[];

/* What may follow in the last of these words, which the shell has of the line (completion.c). */
int complete_words(int argc, char **argv);

#endif
