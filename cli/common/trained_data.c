/*
 * cli/common/trained_data.c - the config.yaml beside a model, and what of it holds for a data set.
 *
 * A folder of photos has no test part of its own: which samples a run was not trained on is known
 * from its options alone.
 */
#include "common/trained_data.h"

#include "common/common.h"

#include "formats/input.h"
#include "train/options/option_table.h"
#include "train/options/recipe.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The run ------------------------------------------------------------------------------ */

/*
 * Reads the config.yaml of the run folder that `model` is, or is a file of; none is no error, and
 * r->recipe is NULL.  *folder: `model` is the folder.
 */
static ole_status read_config(trained_data *r, const char *model, bool *folder, ole_error *error) {
    struct stat about;
    *folder = stat(model, &about) == 0 && S_ISDIR(about.st_mode);
    const char *slash = strrchr(model, '/');
    int length = *folder ? (int)strlen(model) : slash ? (int)(slash - model) : 0;
    snprintf(r->path, sizeof r->path, "%.*s%sconfig.yaml", length, model,
             length || slash == model ? "/" : "");
    ole_train_options_init(&r->options);
    r->recipe = NULL;
    if (access(r->path, F_OK) != 0) return OLE_OK;
    ole_status status = ole_recipe_read(&r->recipe, r->path, &r->options, error);
    if (status != OLE_OK) r->recipe = NULL;
    return status;
}

/* A config.yaml that cannot be read is a mistake in a run folder; beside a file it may be another
 * program's. */
static bool read_run(trained_data *r, const char *command, const char *model) {
    bool folder;
    ole_error error;
    if (read_config(r, model, &folder, &error) == OLE_OK) return true;
    if (folder) return refuse(command, "%s", error.message);
    tell_command(
        command,
        "warning: the folder's config.yaml is ignored, as it was not written by 'ole train': %s",
        error.message);
    return true;
}

void trained_data_read_run(trained_data *r, const char *command, const char *model) {
    bool folder;
    ole_error error;
    *r = (trained_data){0};
    if (read_config(r, model, &folder, &error) != OLE_OK && folder)
        tell_command(command, "warning: whether the run aligned its images is unknown: %s",
                     error.message);
}

/* ---- The same data? ----------------------------------------------------------------------- */

/* The names of the data sets, without their paths, are one; its length, or 0. */
static size_t same_kind(const char *a, const char *b) {
    size_t length = strcspn(a, ":");
    return strcspn(b, ":") == length && memcmp(a, b, length) == 0 ? length : 0;
}

const ole_known_dataset *known_dataset(const char *data) {
    size_t count;
    const ole_known_dataset *sets = ole_known_datasets(&count);
    for (size_t i = 0; i < count; i++)
        if (same_kind(sets[i].name, data)) return &sets[i];
    return NULL;
}

/* The next of npy's files behind `*at`; the whole path of other sets. */
static bool next_path(const char **at, bool several, char path[4096]) {
    size_t length = several ? strcspn(*at, ",") : strlen(*at);
    if (length == 0 || length >= 4096) return false;
    memcpy(path, *at, length);
    path[length] = '\0';
    *at += length + (several && (*at)[length] == ',');
    return true;
}

/* Whether both are one file, or one column or array of it; *there: the first is. */
static bool same_input(const char *a, const char *b, bool *there) {
    char one[PATH_MAX], other[PATH_MAX];
    const char *first = ole_input_file(a, one), *second = ole_input_file(b, other);
    *there = access(one, F_OK) == 0;
    return *there && same_file(one, other) && strcmp(first ? first : "", second ? second : "") == 0;
}

bool same_data(const char *a, const char *b, bool *there) {
    char first[4096], second[4096], one[4096], other[4096];
    size_t kind = same_kind(a, b);
    *there = true;
    if (strcmp(a, b) == 0) return true;
    if (kind == 0) return false;
    *there = ole_dataset_locate(a, first, sizeof first, NULL) == OLE_OK;
    if (!*there || ole_dataset_locate(b, second, sizeof second, NULL) != OLE_OK) return false;
    bool several = strncmp(a, "npy:", 4) == 0, same = true;
    const char *x = first, *y = second;
    while (*x && same) {
        if (!next_path(&x, several, one)) return false;
        same = next_path(&y, several, other) && same_input(one, other, there);
    }
    return same && !*y;
}

/* Sets r->same; warns where that cannot be known. */
static void compare_data(trained_data *r, const char *command, const char *data) {
    bool there = true, ignored;
    const char *at = ole_recipe_data_at(r->recipe);
    r->same = r->recipe && r->options.data && same_data(r->options.data, data, &there);
    if (!r->same && at) r->same = same_data(at, data, &ignored);
    if (r->same || there || !same_kind(r->options.data, data)) return;
    tell_command(
        command,
        "warning: the run's data, %s, cannot be found from this folder; %s is treated as other "
        "data, which the model was not trained on",
        r->options.data, data);
}

/* ---- The options -------------------------------------------------------------------------- */

ole_dataset_options run_dataset_options(const ole_train_options *run, int threads) {
    ole_dataset_options options;
    ole_train_dataset_options(run, &options);
    options.threads = threads;
    return options;
}

int trained_data_open(trained_data *r, const char *command, const char *model, const char *data,
                      const data_flags *flags, ole_dataset_options *options) {
    *r = (trained_data){.data = data};
    if (!read_run(r, command, model)) return EXIT_FAILED;
    if (!data && !(r->recipe && r->options.data))
        return fail_usage(
            command, "%s: no config.yaml beside it records the data it was trained on; name %s",
            model,
            strcmp(command, "predict") == 0 ? "files, such as X.npy or cat.jpg"
                                            : "the data, such as npy:X.npy,y.npy or folder:photos");
    if (!data) tell_command(command, "%s, the run's data", r->data = r->options.data);
    compare_data(r, command, r->data);
    ole_dataset_options_init(options);
    if (r->same) *options = run_dataset_options(&r->options, 1);
    if (flags->classes) options->classes = flags->classes;
    if (flags->samples_per_class >= 0) options->samples_per_class = flags->samples_per_class;
    if (flags->has_seed) options->seed = flags->seed;
    if (flags->has_validation) {
        options->validation = flags->validation;
        options->calibration = 0.0;
    }
    if (flags->has_test_share) options->test_share = flags->test_share;
    options->skip_bad |= flags->skip_bad;
    if (flags->align) options->align = strcmp(flags->align, "none") == 0 ? "" : flags->align;
    return EXIT_DONE;
}

bool run_label_column(const char *model, char *name, size_t size) {
    trained_data r = {0};
    char path[4096], file[PATH_MAX] = "";
    const char *at = NULL, *column = NULL;
    bool folder;
    if (read_config(&r, model, &folder, NULL) != OLE_OK || !r.recipe) return false;
    if (r.options.data && strncmp(r.options.data, "npy:", 4) == 0) at = r.options.data + 4;
    if (at && next_path(&at, true, path) && next_path(&at, true, path))
        column = ole_input_file(path, file);
    size_t length = strlen(file);
    bool found = column && length > 4 && strcmp(file + length - 4, ".csv") == 0 &&
                 snprintf(name, size, "%s", column) < (int)size;
    trained_data_close(&r);
    return found;
}

void trained_data_close(trained_data *r) {
    ole_recipe_free(r->recipe);
    r->recipe = NULL;
}

/* ---- Messages ----------------------------------------------------------------------------- */

/* Sets of their own test part do not follow --test-share. */
static bool has_share(const trained_data *r) {
    return same_kind(r->options.data, "folder:") || same_kind(r->options.data, "npy:");
}

void trained_data_tell(const trained_data *r, const char *command, const data_flags *flags) {
    const ole_train_options *o = &r->options;
    bool share = r->same && !flags->has_test_share && has_share(r) && o->test_share != 0.2;
    bool held_out = r->same && !flags->has_validation && o->val_split > 0.0;
    bool few = r->same && flags->samples_per_class < 0 && o->samples_per_class > 0;
    bool seed = r->same && !flags->has_seed && o->seed != 0 &&
                (held_out || few || flags->has_validation || flags->samples_per_class > 0);
    bool classes = r->same && !flags->classes && o->classes;
    bool skip_bad = r->same && !flags->skip_bad && o->skip_bad;
    bool align = r->same && !flags->align && *o->align;
    if (!(share || held_out || few || seed || classes || skip_bad || align)) return;
    fprintf(stderr, "ole %s: as in ", command);
    print_name(stderr, r->path);
    fprintf(stderr, ":");
    if (share) fprintf(stderr, " --test-share %g%%", 100.0 * o->test_share);
    if (held_out) fprintf(stderr, " --val-split %g%%", 100.0 * o->val_split);
    if (few) fprintf(stderr, " --samples-per-class %" PRId64, o->samples_per_class);
    if (seed) fprintf(stderr, " --seed %" PRIu64, o->seed);
    if (classes) {
        fprintf(stderr, " --classes ");
        print_name(stderr, o->classes);
    }
    if (skip_bad) fprintf(stderr, " --skip-bad");
    if (align) {
        fprintf(stderr, " --align ");
        print_name(stderr, o->align);
    }
    fprintf(stderr, "\n");
}

void trained_data_warn(const trained_data *r, const char *command,
                       const ole_dataset_options *options, bool test, bool validation) {
    static const char effect[] = "errors will be too low, thresholds too high";
    const ole_train_options *o = &r->options;
    if (!r->same) return;
    if (test && has_share(r) && options->test_share > o->test_share)
        fprintf(stderr,
                "ole %s: warning: the run held out %g%% for the test, so --test-share includes "
                "samples it was trained on; %s\n",
                command, 100.0 * o->test_share, effect);
    double share = options->validation > 0.0 ? options->validation : options->calibration;
    if (!validation || share == 0.0) return;
    double held_out = o->val_split > 0.0 ? o->val_split : o->calibration;
    bool moved = has_share(r) && options->test_share != o->test_share; /* the rest is dealt anew */
    if (held_out == 0.0)
        fprintf(stderr,
                "ole %s: warning: the run held out no samples, so it was trained on those that "
                "--val-split selects; %s\n",
                command, effect);
    else if (options->seed != o->seed || share > held_out || moved)
        fprintf(stderr,
                "ole %s: warning: the run held out other samples; the validation set %s includes "
                "some it was trained on; %s\n",
                command, moved ? "that remains after --test-share" : "of --val-split and --seed",
                effect);
}

void tell_data_changed(const char *command, const char *data) {
    tell_command(command,
                 "warning: the samples of %s have changed since the run: the model was trained on "
                 "some that are held out now; errors will be too low, thresholds too high",
                 data);
}

void tell_fitted_on(const char *command, const char *data) {
    tell_command(command,
                 "warning: the model was fitted on rows of %s; errors will be too low, thresholds "
                 "too high",
                 data);
}

void tell_data_moved(const char *command, const ole_recipe *recipe, const char *how) {
    const char *at = ole_recipe_data_at(recipe);
    tell_command(command, "these are the data of the run%s%s; if they have moved, %s",
                 at ? ", which were at " : "", at ? at : "", how);
}

/* Flags make another training split; so does a set that has changed. */
void trained_data_compare(const trained_data *r, const char *command, const data_flags *flags,
                          const ole_model *model, const ole_dataset *set) {
    bool flagged = flags->has_validation || flags->has_test_share ||
                   flags->samples_per_class >= 0 || flags->has_seed ||
                   (flags->classes && *flags->classes);
    const char *normalize = r->options.normalize;
    bool automatic = !normalize || strcmp(normalize, "auto") == 0;
    if (!r->same || flagged || !has_share(r) || !automatic || ole_model_trained_on(model, set))
        return;
    tell_data_changed(command, r->options.data);
}
