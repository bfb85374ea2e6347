/*
 * cli/common/model_and_data.c - opening a model and a data set for it.
 */
#include "common/model_and_data.h"

#include "common/common.h"
#include "common/download.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void model_and_data_init(model_and_data *s, arg_positional positionals[2],
                         ole_option options[MODEL_AND_DATA_OPTIONS]) {
    *s = (model_and_data){.flags = {.samples_per_class = -1},
                          .split = OLE_SPLIT_TEST,
                          .threads = default_threads(),
                          .line = progress_start()};
    const arg_positional both[2] = {
        {"MODEL", &s->model_path, MODEL_HELP},
        {"DATA", &s->data,
         "NAME[:PATH]: digits, mnist, cifar10, folder:photos, ... (default: the run's)"},
    };
    memcpy(positionals, both, sizeof both);
    const ole_option rows[MODEL_AND_DATA_OPTIONS] = {
        {"split", OLE_CHOICE, &s->split, "train|test|validation", .heading = "Data",
         .help = "part of the data"},
        {"classes", OLE_TEXT, &s->flags.classes, "A,B,...",
         .help =
             "use only these classes (default for the run's data, here and below: as in the run)"},
        {"val-split", OLE_SHARE, &s->flags.validation, "10%", .given = &s->flags.has_validation,
         .help = "share held out for validation (default for other data: 0)"},
        {"seed", OLE_SEED, &s->flags.seed, "N", .given = &s->flags.has_seed,
         .help = "seed of the splits (default for other data: 0)"},
        {"samples-per-class", OLE_INTEGER, &s->flags.samples_per_class, "K",
         .help = "training samples per class; 0: all (default for other data: 0)", .min = 0,
         .max = INT_MAX},
        {"test-share", OLE_SHARE, &s->flags.test_share, "20%", .given = &s->flags.has_test_share,
         .help = "share held out for testing, if the data have no test set (default for other "
                 "data: 20%)"},
        {"skip-bad", OLE_SWITCH, .to = &s->flags.skip_bad,
         .help = "skip unreadable images of a folder"},
        ALIGN_OPTION(&s->flags.align),
        THREADS_OPTION(&s->threads),
    };
    memcpy(options, rows, sizeof rows);
}

void fit_folder(ole_dataset_options *options, const char *data, const ole_model_info *model) {
    bool folder = strncmp(data, "folder:", 7) == 0;
    options->resize = folder ? model->height : 0;
    options->resize_width = folder ? model->width : 0;
    options->channels = folder ? model->channels : 0;
}

/* Whether a set has test files of its own. */
static bool has_test_part(const char *data) {
    if (strncmp(data, "npy:", 4) == 0) {
        const char *comma = strchr(data, ',');
        return comma && strchr(comma + 1, ',');
    }
    if (strncmp(data, "folder:", 7) != 0) return true;
    char train[4096], test[4096];
    snprintf(train, sizeof train, "%s/train", data + 7);
    snprintf(test, sizeof test, "%s/test", data + 7);
    return access(train, F_OK) == 0 && access(test, F_OK) == 0;
}

/* Reports that of data new to the model only a share is used. */
static void tell_share(const model_and_data *s, const char *command) {
    const int64_t *count = ole_dataset_get_info(s->set)->count;
    if (s->run.same || s->split != OLE_SPLIT_TEST || s->flags.has_test_share ||
        has_test_part(s->data))
        return;
    fprintf(stderr,
            "ole %s: %lld of the %lld samples of %s, a share of each class; '--test-share 0 "
            "--split train' uses all\n",
            command, (long long)count[OLE_SPLIT_TEST],
            (long long)count[OLE_SPLIT_TRAIN] + count[OLE_SPLIT_TEST] + count[OLE_SPLIT_VALIDATION],
            s->data);
}

int open_dataset(const char *command, const char *data, const ole_dataset_options *options,
                 ole_dataset **set) {
    ole_error error;
    progress line = progress_start();
    progress_wait(&line, "reading");
    ole_status status = ole_dataset_open(set, data, options, &error);
    progress_clear(&line);
    return status == OLE_OK ? EXIT_DONE : fail_with(command, &error);
}

int model_and_data_open(model_and_data *s, const char *command) {
    ole_dataset_options options;
    int code = open_model(command, s->model_path, s->threads, &s->model);
    if (code == EXIT_DONE)
        code = trained_data_open(&s->run, command, s->model_path, s->data, &s->flags, &options);
    if (code != EXIT_DONE) return code;
    bool named = s->data;
    s->data = s->run.data;
    trained_data_tell(&s->run, command, &s->flags);
    trained_data_warn(&s->run, command, &options, s->split == OLE_SPLIT_TEST,
                      s->split == OLE_SPLIT_VALIDATION);
    fit_folder(&options, s->data, ole_model_get_info(s->model));
    options.threads = s->threads;
    code = open_dataset(command, s->data, &options, &s->set);
    if (code != EXIT_DONE && !named)
        tell_data_moved(command, s->run.recipe,
                        strcmp(command, "predict") == 0 ? "name files" : "name them after MODEL");
    if (code != EXIT_DONE) return code;
    trained_data_compare(&s->run, command, &s->flags, s->model, s->set);
    if (ole_model_fitted_on(s->model, s->set, (ole_split)s->split))
        tell_fitted_on(command, s->data);
    tell_share(s, command);
    ole_model_watch(s->model, progress_images, &s->line);
    catch_interrupts();
    return EXIT_DONE;
}

int model_and_data_open_files(model_and_data *s, const char *command) {
    int code = open_model(command, s->model_path, s->threads, &s->model);
    if (code != EXIT_DONE) return code;
    const ole_model_info *info = ole_model_get_info(s->model);
    if (info->height == 1 && info->width == 1) {
        if (!s->flags.align) return EXIT_DONE;
        return fail_usage(command, "--align is for images, but %s takes vectors; omit it",
                          s->model_path);
    }
    code = alignment_open(&s->marks, command, &s->run, s->model_path, s->flags.align);
    s->marks.line = &s->line;
    return code;
}

const char *sample_path(const model_and_data *s, ole_split split, int64_t i, char path[PATH_MAX]) {
    char folder[PATH_MAX];
    const char *name = ole_dataset_file_name(s->set, split, i);
    if (!name) return NULL;
    if (ole_dataset_locate(s->data, folder, sizeof folder, NULL) != OLE_OK) return name;
    size_t length = strlen(folder);
    bool ends = length == 0 || folder[length - 1] == '/';
    snprintf(path, PATH_MAX, "%.*s%s%s", (int)length, folder, ends ? "" : "/", name);
    return path;
}

void model_and_data_close(model_and_data *s) {
    ole_dataset_close(s->set);
    ole_model_free(s->model);
    alignment_close(&s->marks);
    trained_data_close(&s->run);
}
