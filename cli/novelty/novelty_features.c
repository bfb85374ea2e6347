/*
 * cli/novelty/novelty_features.c - reads features and labels, fits a map and a classifier to the
 * known ones, measures all scores, and saves the map with the chosen score and its threshold.
 */
#include "novelty/novelty_features.h"

#include "common/common.h"
#include "common/embedding.h"
#include "common/progress.h"
#include "novelty/novelty_report.h"

#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

/* What is open. */
typedef struct files {
    embedding known, test, novel;
    const char *names[5];
} files;

/* Cuts "X,y" at its last comma into two names; false after an error. */
static bool cut(const char *flag, char *pair, const char **x, const char **y) {
    char *comma = strrchr(pair, ',');
    if (comma && comma != pair && comma[1]) {
        *comma = '\0';
        *x = pair;
        *y = comma + 1;
        return true;
    }
    return refuse("novelty", "--%s '%s': expected two files, as FEATURES.npy,LABELS.npy", flag,
                  pair);
}

/* Cuts the copies of the two pairs; the names point into them. */
static bool read_names(const novelty_arguments *a, char *known, char *test, files *o) {
    if (!known || (a->test && !test)) return refuse("novelty", "out of memory");
    o->names[4] = a->data[1];
    return cut("known", known, &o->names[0], &o->names[1]) &&
           (!test || cut("test", test, &o->names[2], &o->names[3]));
}

static bool open_files(const novelty_arguments *a, files *o) {
    const embedding_reader reader = {.command = "novelty"};
    if (!embedding_open(&o->known, &reader, o->names[0], o->names[1])) return false;
    if (a->test && (!embedding_open(&o->test, &reader, o->names[2], o->names[3]) ||
                    !embedding_share_names(&o->known, &o->test, "novelty")))
        return false;
    return !a->data[1] || embedding_open(&o->novel, &reader, o->names[4], NULL);
}

static void close_files(files *o) {
    embedding_close(&o->known);
    embedding_close(&o->test);
    embedding_close(&o->novel);
}

/* ---- The result ------------------------------------------------------------------------------ */

/* Writes the model with the threshold of the score. */
static int save(const novelty_arguments *a, const ole_novelty *n, const ole_model *model,
                ole_score score) {
    ole_error error;
    ole_status status = ole_model_save(model, a->save, &error);
    if (status == OLE_OK) status = ole_novelty_store(n, score, a->save, &error);
    return status == OLE_OK ? EXIT_DONE : fail_command("novelty", "%s", error.message);
}

/* What classes are called where there is no model to say so. */
typedef struct class_names {
    int count;
    const char **name;
    char (*room)[LABEL_ROOM];
} class_names;

/* Of the known labels, by rising label; false after an error.  Free name and room. */
static bool name_classes(class_names *names, const embedding *known) {
    size_t rows = (size_t)known->rows;
    int64_t *label = malloc((rows + 1) * sizeof *label);
    if (label) memcpy(label, known->labels, rows * sizeof *label);
    if (label) qsort(label, rows, sizeof *label, ole_by_rising_integer);
    for (size_t i = 0; i < rows && label; i++)
        if (label[i] >= 0 && (names->count == 0 || label[i] != label[names->count - 1]))
            label[names->count++] = label[i];
    names->name = malloc(((size_t)names->count + 1) * sizeof *names->name);
    names->room = malloc(((size_t)names->count + 1) * sizeof *names->room);
    bool good = label && names->name && names->room;
    for (int c = 0; c < names->count && good; c++)
        names->name[c] = embedding_label(known, label[c], names->room[c]);
    free(label);
    if (!good) fail_command("novelty", "out of memory for the names of classes");
    return good;
}

static int report(const novelty_arguments *a, const ole_novelty *n, const ole_model *model,
                  const class_names *names) {
    static const char *const novel[] = {"novel"};
    const ole_model_info *info = model ? ole_model_get_info(model) : NULL;
    const ole_model_info bare = {.classes = names->count, .class_names = names->name};
    if (!info) info = &bare;
    const ole_dataset_info known = {.classes = info->classes, .class_names = info->class_names};
    const ole_dataset_info strange = {.classes = 1, .class_names = novel};
    novelty_report r = {.result = n,
                        .model = info,
                        .set = {&known, a->data[1] ? &strange : NULL},
                        .score = a->score != OLE_SCORE_NONE ? a->score : n->choice.score,
                        .path = a->save,
                        .of_features = true,
                        .tested = a->test != NULL,
                        .temperature_given = a->options.temperature > 0.0};
    int code = novelty_draw(&r, &a->figures);
    if (a->scores && novelty_write_scores(&r, a->scores) != EXIT_DONE) code = EXIT_FAILED;
    if (a->save && code == EXIT_DONE) code = save(a, n, model, r.score);
    r.stored = a->save && code == EXIT_DONE;
    novelty_tell_calibration(n);
    if (r.stored) novelty_tell_export("novelty", r.score, &n->choice);
    (a->json ? novelty_print_json : novelty_print_text)(&r);
    if (code == EXIT_DONE && !a->json) figure_output_tell(&a->figures, 20);
    return code;
}

/* ---- The command -------------------------------------------------------------------------- */

static int measure(const novelty_arguments *a, const files *o) {
    progress line = progress_start();
    ole_novelty_options options = a->options;
    options.callback = progress_images;
    options.callback_context = &line;
    catch_interrupts();
    const ole_embedding known = embedding_view(&o->known), test = embedding_view(&o->test),
                        novel = embedding_view(&o->novel);
    ole_novelty n = {0};
    ole_model *model;
    ole_error error;
    ole_status status = ole_novelty_fit(&n, &model, &known, o->known.names, o->known.classes,
                                        a->test ? &test : NULL, a->data[1] ? &novel : NULL,
                                        &a->embed, &options, &error);
    progress_clear(&line);
    if (status != OLE_OK) return fail_command("novelty", "%s", error.message);
    class_names names = {0};
    int code = EXIT_FAILED;
    if (n.interrupted)
        code = end_interrupted("novelty", "nothing was written");
    else if (name_classes(&names, &o->known))
        code = report(a, &n, model, &names);
    free(names.name);
    free(names.room);
    ole_novelty_free(&n);
    ole_model_free(model);
    return code;
}

int novelty_features_run(const novelty_arguments *a) {
    files o = {0};
    char *known = strdup(a->data[0]), *test = a->test ? strdup(a->test) : NULL;
    int code = EXIT_USAGE;
    if (read_names(a, known, test, &o)) code = open_files(a, &o) ? measure(a, &o) : EXIT_FAILED;
    close_files(&o);
    free(known);
    free(test);
    return code;
}
