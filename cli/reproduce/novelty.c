/*
 * cli/reproduce/novelty.c - the paper's Fig. 6: known and novel classes, softmax beside OLÉ; and
 * verification of pairs of novel samples.
 */
#include "reproduce/reproduce.h"

#include "common/common.h"
#include "common/figure_output.h"
#include "common/model_and_data.h"

#include <ole/train/novelty.h>
#include <ole/verify.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FOLDS = 10, BARS = 20 };

static const char auroc[] = "AUROC of known and novel";

/* A run's model and its data. */
typedef struct subjects {
    ole_model *model;
    ole_dataset *known, *novel;
} subjects;

static void close_subjects(subjects *s) {
    ole_dataset_close(s->known);
    ole_dataset_close(s->novel);
    ole_model_free(s->model);
}

static bool open_sets(const row *r, uint64_t seed, int threads, subjects *s, ole_error *error) {
    ole_train_options run = r->train;
    run.seed = seed;
    ole_dataset_options options = run_dataset_options(&run, threads);
    if (ole_dataset_open(&s->known, run.data, &options, error) != OLE_OK) return false;
    options.classes = r->asked.novel_classes;
    options.validation = 0.0;
    options.samples_per_class = 0;
    return ole_dataset_open(&s->novel, r->asked.novel ? r->novel : run.data, &options, error) ==
           OLE_OK;
}

/* The model as it is at the end of training, as everywhere in the paper. */
static bool open_subjects(const row *r, const made_run *made, int threads, subjects *s) {
    char path[ROW_PATH];
    ole_error error;
    join_path(path, made->folder, "last.safetensors");
    bool good = ole_model_load(&s->model, path, threads, &error) == OLE_OK &&
                open_sets(r, made->seed, threads, s, &error);
    if (!good) fail_command("reproduce", "%s: %s", r->asked.name, error.message);
    return good;
}

/* A class that both sets have, of the same data; NULL: there is none. */
static const char *find_shared(const row *r, const subjects *s) {
    const ole_dataset_info *known = ole_dataset_get_info(s->known),
                           *novel = ole_dataset_get_info(s->novel);
    for (int i = 0; i < known->classes && !r->asked.novel; i++)
        for (int k = 0; k < novel->classes; k++)
            if (strcmp(known->class_names[i], novel->class_names[k]) == 0)
                return known->class_names[i];
    return NULL;
}

bool check_novel(const row *r, int threads, char why[600]) {
    if (r->asked.kind != PAPER_NOVELTY || row_is_whole(r)) return true;
    subjects s = {0};
    ole_error error;
    bool good = open_sets(r, r->train.seed, threads, &s, &error);
    const char *shared = good ? find_shared(r, &s) : NULL;
    if (!good) snprintf(why, 600, "%s: %.500s", r->asked.name, error.message);
    if (shared)
        snprintf(why, 600, "%s: paper: novel_classes: '%.100s' is among the known classes",
                 r->asked.name, shared);
    close_subjects(&s);
    return good && !shared;
}

/* ---- Verification ------------------------------------------------------------------------- */

/* count * part / all, for counts of pairs, whose product an int64_t may not hold. */
static int64_t share_of_pairs(int64_t count, int64_t part, int64_t all) {
    return (int64_t)((__int128)count * part / all);
}

/* All pairs of one class, and as many of different classes, evenly taken.  False: out of memory. */
static bool make_pairs(ole_pairs *pairs, const int32_t *labels, int64_t count) {
    int64_t all[2] = {0, 0}, seen[2] = {0, 0};
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = i + 1; k < count; k++)
            all[labels[i] == labels[k]]++;
    int64_t each = all[0] < all[1] ? all[0] : all[1];
    *pairs =
        (ole_pairs){.folds = FOLDS, .pair = malloc(((size_t)each * 2 + 1) * sizeof *pairs->pair)};
    for (int64_t i = 0; i < count && pairs->pair; i++)
        for (int64_t k = i + 1; k < count; k++) {
            bool same = labels[i] == labels[k];
            int64_t before = share_of_pairs(seen[same]++, each, all[same]);
            if (share_of_pairs(seen[same], each, all[same]) == before) continue;
            pairs->pair[pairs->count++] =
                (ole_pair){.a = i, .b = k, .same = same, .fold = (int)(before % FOLDS)};
        }
    return pairs->pair != NULL;
}

/* The novel samples' features, pair by pair. */
static bool verify(const subjects *s, const made_run *run, numbers *n) {
    static const ole_split splits[] = {OLE_SPLIT_TRAIN, OLE_SPLIT_TEST};
    const ole_dataset_info *info = ole_dataset_get_info(s->novel);
    int64_t dim = ole_model_get_info(s->model)->features, count = 0;
    int64_t total = info->count[OLE_SPLIT_TRAIN] + info->count[OLE_SPLIT_TEST];
    float *features = malloc((size_t)(total * dim + 1) * sizeof *features);
    int32_t *labels = malloc((size_t)(total + 1) * sizeof *labels);
    ole_error error = {.message = "out of memory"};
    bool good = features && labels;
    for (int i = 0; i < 2 && good; i++) {
        int64_t part = info->count[splits[i]];
        if (part == 0) continue;
        good = ole_model_run_split(s->model, s->novel, splits[i], features + count * dim, NULL,
                                   &error) == OLE_OK;
        memcpy(labels + count, ole_dataset_labels(s->novel, splits[i]),
               (size_t)part * sizeof *labels);
        count += part;
    }
    ole_pairs pairs = {0};
    ole_verification v;
    good = good && make_pairs(&pairs, labels, count);
    if (good && pairs.count < 2 * FOLDS) {
        fprintf(stderr, "ole reproduce: without verification: too few pairs of novel samples\n");
    } else if (good) {
        good = ole_verify(&v, count, dim, OLE_F32, features, &pairs, NULL, NULL, &error) == OLE_OK;
        if (good) {
            good = numbers_add(n, run, "verification AUC, novel pairs", 100.0 * v.roc.auroc) &&
                   numbers_add(n, run, "verification accuracy, novel pairs", v.accuracy);
            ole_verification_free(&v);
        }
    }
    if (!good) fail_command("reproduce", "verification: %s", error.message);
    ole_pairs_free(&pairs);
    free(features);
    free(labels);
    return good;
}

/* ---- Novelty ------------------------------------------------------------------------------ */

static bool measure(const row *r, const made_run *run, int threads, ole_novelty *novelty,
                    numbers *n) {
    subjects s = {0};
    progress line = progress_start();
    ole_novelty_options options;
    ole_novelty_options_init(&options);
    options.threads = threads;
    options.callback = progress_images;
    options.callback_context = &line;
    ole_error error;
    bool good = open_subjects(r, run, threads, &s);
    if (good &&
        ole_novelty_measure(novelty, s.model, s.known, s.novel, &options, &error) != OLE_OK) {
        good = false;
        fail_command("reproduce", "%s: %s", r->asked.name, error.message);
    }
    progress_clear(&line);
    good = good && !novelty->interrupted;
    if (good && !numbers_have(n, run, auroc)) {
        const ole_novelty_score *score = ole_novelty_get(novelty, OLE_SCORE_SOFTMAX);
        good =
            numbers_add(n, run, auroc, 100.0 * score->roc.auroc) &&
            numbers_add(n, run, "novel accepted, 95 % of known kept", 100.0 * score->roc.fpr95) &&
            numbers_add(n, run, "accuracy on the known", novelty->accuracy);
        if (good && r->asked.verify) good = verify(&s, run, n);
    }
    close_subjects(&s);
    return good;
}

/* Accuracy on the known against the share of the novel over the threshold; a side without novel
 * samples has no run, here and below. */
static void draw_curve(const row *r, const ole_novelty n[SIDES], figure_output *p) {
    static double x[SIDES][CURVE_POINTS], y[SIDES][CURVE_POINTS];
    ole_series series[SIDES];
    int count = 0;
    for (int side = 0; side < SIDES; side++) {
        if (n[side].novel_count == 0) continue;
        const ole_novelty_score *s = ole_novelty_get(&n[side], OLE_SCORE_SOFTMAX);
        series[count++] = thin_curve(side_name(r, side), s->roc.points, s->roc.fpr, s->accuracy_at,
                                     x[side], y[side]);
    }
    ole_figure f;
    ole_figure_init(&f);
    f.x_label = "share of the novel over the threshold";
    f.y_label = "accuracy on the known, %";
    f.series = series;
    f.series_count = count;
    figure_output_add(
        p, &f, "novelty",
        "A threshold on the softmax score, from high (left) to low; up and to the left is "
        "better. The paper's Fig. 6 (a).");
}

/* The largest scores of the novel samples. */
static void draw_scores(const row *r, const ole_novelty n[SIDES], figure_output *p) {
    double edges[BARS + 1], bars[SIDES][BARS] = {{0}};
    ole_series series[SIDES];
    int count = 0;
    for (int i = 0; i <= BARS; i++)
        edges[i] = (double)i / BARS;
    for (int side = 0; side < SIDES; side++) {
        if (n[side].novel_count == 0) continue;
        const ole_novelty_score *s = ole_novelty_get(&n[side], OLE_SCORE_SOFTMAX);
        for (int64_t i = 0; i < n[side].novel_count; i++) {
            int bar = (int)(BARS * s->novel[i]);
            bars[side][bar < 0       ? 0
                       : bar >= BARS ? BARS - 1
                                     : bar] += 1.0 / (double)n[side].novel_count;
        }
        series[count++] =
            (ole_series){.name = side_name(r, side), .count = BARS, .x = edges, .y = bars[side]};
    }
    ole_figure f;
    ole_figure_init(&f);
    f.kind = OLE_FIGURE_HISTOGRAM;
    f.x_label = "largest softmax score";
    f.y_label = "share of the novel samples";
    f.series = series;
    f.series_count = count;
    figure_output_add(
        p, &f, "novel-scores",
        "How sure the networks are of samples of classes they do not know. The paper's "
        "Fig. 6 (b, c).");
}

static bool draw(const row *r, const ole_novelty n[SIDES]) {
    char page[ROW_PATH], folder[ROW_PATH];
    join_path(page, r->folder, "figures.html");
    join_path(folder, r->folder, "figures");
    const figure_options options = {.folder = folder, .page = page};
    figure_output p;
    if (figure_output_open(&p, "reproduce", &options, r->asked.title, r->asked.shows) != EXIT_DONE)
        return false;
    figure_output_section(&p, "Known and novel");
    draw_curve(r, n, &p);
    draw_scores(r, n, &p);
    return figure_output_close(&p) == EXIT_DONE;
}

/* Measures what is not measured yet; the figures are of the first run of each side. */
static bool look_at_runs(const row *r, const made_runs *runs, int threads, numbers *n) {
    ole_novelty shown[SIDES] = {{0}};
    const made_run *first[SIDES] = {runs_first(runs, SOFTMAX), runs_first(runs, WITH_OLE)};
    bool good = true, drawn = figures_show(r, first, SIDES);
    for (int i = 0; i < runs->count && good; i++) {
        const made_run *run = &runs->item[i];
        bool show = run == first[run->side] && !drawn;
        if (run->state != OLE_STUDY_FINISHED || (!show && numbers_have(n, run, auroc))) continue;
        ole_novelty novelty = {0};
        good = measure(r, run, threads, &novelty, n) && numbers_write(n, r);
        if (show)
            shown[run->side] = novelty;
        else
            ole_novelty_free(&novelty);
    }
    if (good && !drawn) good = draw(r, shown) && figures_note(r, first, SIDES);
    for (int side = SOFTMAX; side <= WITH_OLE; side++)
        ole_novelty_free(&shown[side]);
    return good;
}

bool look_at_novelty(const row *r, int threads) {
    numbers n;
    made_runs runs;
    if (!runs_read(&runs, r)) return false;
    bool there[SIDES] = {runs_have_side(&runs, r, SOFTMAX), runs_have_side(&runs, r, WITH_OLE)};
    bool good = numbers_read(&n, r);
    if (good && (there[SOFTMAX] || there[WITH_OLE])) good = look_at_runs(r, &runs, threads, &n);
    numbers_free(&n);
    runs_free(&runs);
    return good;
}
