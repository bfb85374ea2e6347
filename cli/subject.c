/*
 * cli/subject.c - opening a model and a data set for it.
 */
#include "subject.h"

#include "commands.h"

#include <string.h>

void subject_init(subject *s, arg_positional positionals[2], arg_option options[SUBJECT_OPTIONS]) {
    *s = (subject){.split = OLE_SPLIT_TEST, .threads = default_threads(), .line = progress_start()};
    ole_dataset_options_init(&s->set_options);
    const arg_positional both[2] = {
        {"MODEL", &s->model_path, "a .safetensors file or a run folder"},
        {"DATA", &s->data, "NAME[:PATH]: digits, mnist, cifar10, folder:photos, ..."},
    };
    memcpy(positionals, both, sizeof both);
    const arg_option rows[SUBJECT_OPTIONS] = {
        {"split", ARG_CHOICE, &s->split, "train|test|validation",
         .help = "which part of the data (default test)"},
        {"classes", ARG_STRING, &s->set_options.classes, "A,B,...",
         .help = "only these classes, as in training"},
        {"val-split", ARG_STRING, &s->validation, "10%",
         .help = "held out of the training set, as in training"},
        {"seed", ARG_SEED, &s->seed, "N", .help = "of the validation split (default 0)"},
        {"test-share", ARG_NUMBER, &s->set_options.test_share, "X",
         .help = "of a set without a test part (default 0.2)", .min = 0, .max = 0.99},
        {"skip-bad", ARG_FLAG, .to = &s->set_options.skip_bad,
         .help = "leave out unreadable images of a folder"},
        {"threads", ARG_INTEGER, &s->threads, "N", .help = "threads (default: all processors)",
         .min = 1, .max = 1024},
    };
    memcpy(options, rows, sizeof rows);
}

void fit_folder(ole_dataset_options *options, const char *data, const ole_model_info *model) {
    bool folder = strncmp(data, "folder:", 7) == 0;
    options->resize = folder ? model->height : 0;
    options->resize_width = folder ? model->width : 0;
    options->channels = folder ? model->channels : 0;
}

int subject_open(subject *s, const char *command) {
    double *validation = &s->set_options.validation;
    if (s->validation && (!parse_share(s->validation, validation) || *validation >= 1.0)) {
        fail_command(command, "--val-split %s: a share such as 10%% or 0.1 expected",
                     s->validation);
        return EXIT_USAGE;
    }
    ole_error error;
    if (ole_model_load(&s->model, s->model_path, s->threads, &error) != OLE_OK)
        return fail_command(command, "%s", error.message);
    fit_folder(&s->set_options, s->data, ole_model_get_info(s->model));
    s->set_options.seed = s->seed.value;
    s->set_options.threads = s->threads;
    progress_wait(&s->line, "reading");
    ole_status status = ole_dataset_open(&s->set, s->data, &s->set_options, &error);
    progress_clear(&s->line);
    if (status != OLE_OK) return fail_with(command, &error);
    ole_model_watch(s->model, progress_images, &s->line);
    catch_interrupts();
    return EXIT_DONE;
}

void subject_close(subject *s) {
    ole_dataset_close(s->set);
    ole_model_free(s->model);
}

ole_dataset_options run_dataset_options(const ole_train_options *run, int threads) {
    ole_dataset_options options;
    ole_dataset_options_init(&options);
    options.validation = run->val_split;
    options.samples_per_class = run->samples_per_class;
    options.classes = run->classes;
    options.seed = run->seed;
    options.resize = run->resize;
    options.channels = run->channels;
    options.skip_bad = run->skip_bad;
    options.test_share = run->test_share;
    options.threads = threads;
    return options;
}
