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
    IF_TRAIN(ROW(demo, "Training", LONG_WORK)                                                      \
             ROW(train, "Training", RANKS | LONG_WORK)                                             \
             ROW(tune, "Training", RANKS | LONG_WORK)                                              \
             ROW(sweep, "Training", RANKS | LONG_WORK)                                             \
             ROW(compare, "Training", RANKS | LONG_WORK)                                           \
             ROW(reproduce, "Training", RANKS | LONG_WORK)                                         \
             ROW(report, "Training", 0)                                                            \
             ROW(eval, "Models", LONG_WORK)                                                        \
             ROW(predict, "Models", 0)                                                             \
             ROW(features, "Models", LONG_WORK)                                                    \
             ROW(novelty, "Models", LONG_WORK)                                                     \
             ROW(export, "Models", 0)                                                              \
             ROW(fit, "Embeddings", LONG_WORK)                                                     \
             ROW(apply, "Embeddings", LONG_WORK))                                                  \
    ROW(score, "Embeddings", LONG_WORK)                                                            \
    ROW(analyze, "Embeddings", LONG_WORK)                                                          \
    ROW(verify, "Embeddings", 0)                                                                   \
    ROW(align, "Embeddings", LONG_WORK)                                                            \
    ROW(tsne, "Embeddings", LONG_WORK)                                                             \
    IF_TRAIN(ROW(data, "Data and tools", 0)                                                        \
             ROW(net, "Data and tools", 0)                                                         \
             ROW(bench, "Data and tools", RANKS | LONG_WORK))                                      \
    ROW(info, "Data and tools", 0)                                                                 \
    ROW(completion, "Data and tools", 0)                                                           \
    ROW(man, "Data and tools", 0)

#define DECLARE(name, heading, traits)                                                             \
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
