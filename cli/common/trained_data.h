/*
 * cli/common/trained_data.h - the data of a run, for commands that use its model: what was held
 * out, so that no model is judged by samples it was trained on.
 *
 *     trained_data run;
 *     ole_dataset_options options;
 *     int code = trained_data_open(&run, "eval", model_path, data, &flags, &options);
 *     if (code == EXIT_DONE) ... // ole_dataset_open(&set, data, &options, &error)
 *     trained_data_close(&run);      // after the set is open
 */
#ifndef OLE_CLI_COMMON_TRAINED_DATA_H
#define OLE_CLI_COMMON_TRAINED_DATA_H

#include "common/args.h"

#include <ole/train/data.h>
#include <ole/train/model.h>
#include <ole/train/train.h>

/* From the command line; what is not given is as in the run. */
typedef struct data_flags {
    const char *classes; /* NULL: not given */
    double validation, test_share;
    int samples_per_class; /* < 0: not given */
    uint64_t seed;
    bool has_validation, has_test_share, has_seed; /* whether they are given */
    bool skip_bad;
    const char *align; /* NULL: not given */
} data_flags;

typedef struct trained_data {
    ole_train_options options; /* of the run, where `recipe` is not NULL */
    ole_recipe *recipe;        /* its config.yaml, which owns the texts */
    const char *data;          /* as given, or those of the run */
    char path[4096];           /* of the config.yaml */
    bool same;                 /* the data are those of the run */
} trained_data;

/*
 * Fills the options for `data` (NULL: those of the run beside the model) from the flags, the rest
 * from the run beside the model where it was trained on the same data, else with the defaults.
 * EXIT_DONE, or the exit code after a mistake, explained in the name of `command`; close it either
 * way.
 */
int trained_data_open(trained_data *r, const char *command, const char *model, const char *data,
                      const data_flags *flags, ole_dataset_options *options);
void trained_data_close(trained_data *r);

/* Reads the options of the run beside the model alone, for image files; without one that can be
 * read, recipe is NULL. */
void trained_data_read_run(trained_data *r, const char *command, const char *model);

/* Prints what was taken from the run, unless all of it is the default. */
void trained_data_tell(const trained_data *r, const char *command, const data_flags *flags);

/* Warns if flags would judge the run by samples that it was trained on. */
void trained_data_warn(const trained_data *r, const char *command,
                       const ole_dataset_options *options, bool test, bool validation);

/* Warns that a folder or file has changed since the run: other samples are held out then. */
void tell_data_changed(const char *command, const char *data);

/* Warns that a map of embeddings was fitted on some of these rows. */
void tell_fitted_on(const char *command, const char *data);

/* Prints, after the data of a run could not be opened, where they were and what to do: `how`. */
void tell_data_moved(const char *command, const ole_recipe *recipe, const char *how);

/* As tell_data_changed(), if that is so. */
void trained_data_compare(const trained_data *r, const char *command, const data_flags *flags,
                          const ole_model *model, const ole_dataset *set);

/*
 * Whether two names of data sets mean the same files, however they are written; *there: those of
 * the first can be seen from here.
 */
bool same_data(const char *a, const char *b, bool *there);

/* The name of the column of labels in the .csv file that a run was trained on; false: there is
 * none. */
bool run_label_column(const char *model, char *name, size_t size);

/* The set that "cifar10" or "cifar10:path" names, as it is published; NULL: one that is not. */
const ole_known_dataset *known_dataset(const char *data);

/* The data of a run, as it was trained with these options. */
ole_dataset_options run_dataset_options(const ole_train_options *run, int threads);

#endif
