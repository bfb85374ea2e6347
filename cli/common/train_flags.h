/*
 * cli/common/train_flags.h - the options of ole/train/train.h as flags, for every command that
 * trains.
 *
 *     train_flags flags = {.command = "train"};
 *     ole_option options[TRAIN_FLAGS + 1] = {{0}};
 *     train_flags_rows(&flags, NULL, options);
 *     if (!args_parse(&command, argc, argv, &code)) return code;
 *     train_setup setup;
 *     if (train_flags_read(&flags, &setup)) ...
 *     train_setup_free(&setup);
 */
#ifndef OLE_CLI_COMMON_TRAIN_FLAGS_H
#define OLE_CLI_COMMON_TRAIN_FLAGS_H

#include "common/args.h"
#include "train/options/option_table.h"

#include <ole/train/train.h>

enum { TRAIN_FLAGS = OLE_TRAIN_MOST_OPTIONS + 1 };

typedef struct train_flags {
    const char *command;       /* whose flags they are, for messages */
    bool study;                /* of many runs: with other defaults */
    bool holds_out;            /* the command needs a validation split */
    bool calibrates;           /* of people's own data, holds some out for a threshold */
    ole_train_options options; /* what the flags set */
    bool given[OLE_TRAIN_MOST_OPTIONS];
    const char *data;
    const char *recipe;
} train_flags;

typedef struct train_setup {
    ole_train_options options;
    ole_recipe *recipes[2]; /* the folder's own, and the one given */
    char settings[300];     /* flags for what was chosen to suit photos, or "" */
} train_setup;

/*
 * The rows of a command's table, TRAIN_FLAGS at most; returns the next free row.  `without`: names
 * of options that the command does not take, NULL at the end; or NULL.
 */
ole_option *train_flags_rows(train_flags *flags, const char *const *without, ole_option *rows);

/*
 * Defaults, then what a resumed folder began with, then the recipe, then the flags.  False after a
 * mistake, which has been explained; the setup is to be freed either way.  `out` and `net` may be
 * NULL.
 */
bool train_flags_read(const train_flags *flags, train_setup *setup);
void train_setup_free(train_setup *setup);

/* Reports the settings that were chosen for photos, if any. */
void train_setup_tell(const train_setup *setup, const char *command);

#endif
