/*
 * cli/reproduce/novelty.c - the paper's Fig. 6: known and novel classes, softmax beside OLÉ; and
 * verification of pairs of novel samples.
 */
#include "reproduce/reproduce.h"

#include "common/common.h"
#include "common/trained_data.h"

#include <ole/train/novelty.h>
#include <ole/verify.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FOLDS = 10, BARS = 20 };

static const char auroc[] = "AUROC of known and novel";

/* The novel samples, read as the known ones of these options. */
static bool open_novel(const row *r, const ole_train_options *known, int threads, ole_dataset **set,
                       ole_error *error) {
    ole_dataset_options options = run_dataset_options(known, threads);
    options.classes = r->asked.novel_classes;
    options.validation = 0.0;
    options.samples_per_class = 0;
    *set = NULL;
    return ole_dataset_open(set, r->asked.novel ? r->novel : known->data, &options, error) ==
           OLE_OK;
}

bool check_novel(const row *r, int threads, char why[600]) {
    if (r->asked.kind != RECIPE_NOVELTY || row_is_whole(r)) return true;
    ole_dataset *known = NULL, *novel = NULL;
    ole_error error;
    const ole_dataset_options options = run_dataset_options(&r->train, threads);
    bool good = ole_dataset_open(&known, r->train.data, &options, &error) == OLE_OK &&
                open_novel(r, &r->train, threads, &novel, &error);
    if (!good) snprintf(why, 600, "%s: %.500s", r->asked.name, error.message);
    if (good && !r->asked.novel) { /* classes of one data set must not be in both */
        const ole_dataset_info *a = ole_dataset_get_info(known), *b = ole_dataset_get_info(novel);
        for (int i = 0; i < a->classes * b->classes && good; i++) {
            const char *name = a->class_names[i / b->classes];
            good = strcmp(name, b->class_names[i % b->classes]) != 0;
            if (!good)
                snprintf(why, 600, "%s: paper: novel_classes: '%.100s' is among the known classes",
                         r->asked.name, name);
        }
    }
    ole_dataset_close(known);
    ole_dataset_close(novel);
    return good;
}

/* ---- Verification ------------------------------------------------------------------------- */

/* count * part / all, for counts of pairs, whose product an int64_t may not hold. */
static int64_t share_of_pairs(int64_t count, int64_t part, int64_t all) {
    return (int64_t)((__int128)count * part / all);
}

/* All pairs of one class, and as many of different classes, evenly taken.  False: out of memory. */
static bool make_pairs(ole_pairs *pairs, const int64_t *labels, int64_t count) {
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

/* Verifies pairs of novel samples by their features. */
static bool verify(ole_model *model, const ole_dataset *novel, const ole_run_mark *run,
                   ole_measures *to, ole_error *error) {
    int64_t dim = ole_model_get_info(model)->features, count, *labels;
    float *features;
    ole_pairs pairs = {0};
    ole_verification v;
    bool good = trained_features(model, novel, 1u << OLE_SPLIT_TRAIN | 1u << OLE_SPLIT_TEST,
                                 &features, &labels, &count, error);
    if (good && !make_pairs(&pairs, labels, count)) {
        snprintf(error->message, sizeof error->message, "verification: out of memory");
        good = false;
    } else if (good && pairs.count < 2 * FOLDS) {
        fprintf(stderr, "ole reproduce: skipped verification: too few pairs of novel samples\n");
    } else if (good) {
        good = ole_verify(&v, count, dim, OLE_F32, features, &pairs, NULL, NULL, error) == OLE_OK;
        if (good) {
            ole_measures_add_number(to, run, "verification AUC, novel pairs", 100.0 * v.roc.auroc);
            ole_measures_add_number(to, run, "verification accuracy, novel pairs", v.accuracy);
            ole_verification_free(&v);
        }
    }
    ole_pairs_free(&pairs);
    free(features);
    free(labels);
    return good;
}

/* ---- Novelty ------------------------------------------------------------------------------ */

static bool measure(const row *r, made *m, int64_t number, int threads, ole_novelty *novelty) {
    const ole_run_mark *run = &m->marks[number];
    ole_measures *to = &m->measures;
    trained_run t;
    ole_dataset *novel = NULL;
    progress line = progress_start();
    ole_novelty_options options;
    ole_novelty_options_init(&options);
    options.threads = threads;
    options.callback = progress_images;
    options.callback_context = &line;
    ole_error error;
    bool good = trained_open(&t, r, m, number, threads, &line, &error) &&
                open_novel(r, &t.options, threads, &novel, &error) &&
                ole_novelty_measure(novelty, t.model, t.set, novel, &options, &error) == OLE_OK;
    if (good && !novelty->interrupted && !ole_measures_find(to, run, auroc)) {
        const ole_roc *roc = &ole_novelty_get(novelty, OLE_SCORE_SOFTMAX)->roc;
        ole_measures_add_number(to, run, auroc, 100.0 * roc->auroc);
        ole_measures_add_number(to, run, "novel accepted, 95 % of known kept", 100.0 * roc->fpr95);
        ole_measures_add_number(to, run, "accuracy on the known", novelty->accuracy);
        if (r->asked.verify) good = verify(t.model, novel, run, to, &error);
    }
    progress_clear(&line);
    if (!good && !interrupted()) fail_command("reproduce", "%s: %s", r->asked.name, error.message);
    ole_dataset_close(novel);
    trained_close(&t);
    return good && !interrupted();
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
    row_figures f;
    if (!row_figures_open(&f, r)) return false;
    figure_output_section(&f.output, "Known and novel");
    draw_curve(r, n, &f.output);
    draw_scores(r, n, &f.output);
    return figure_output_close(&f.output) == EXIT_DONE;
}

/* Measures what is not measured yet; the figures are of the first run of each side. */
static bool measure_runs(const row *r, made *m, int threads) {
    ole_novelty shown[SIDES] = {{0}};
    const int64_t first[SIDES] = {made_first(m, SOFTMAX), made_first(m, WITH_OLE)};
    bool good = true, drawn = made_shows(m, r, first, SIDES);
    for (int64_t i = 0; i < m->study.run_count && good; i++) {
        int side = m->marks[i].side;
        bool show = i == first[side] && !drawn;
        if (m->study.runs[i].state != OLE_STUDY_FINISHED ||
            (!show && ole_measures_find(&m->measures, &m->marks[i], auroc)))
            continue;
        ole_novelty novelty = {0};
        good = measure(r, m, i, threads, &novelty) && made_write(m, r->folder);
        if (show)
            shown[side] = novelty;
        else
            ole_novelty_free(&novelty);
    }
    if (good && !drawn) {
        good = draw(r, shown);
        if (good) made_note_shown(m, r, first, SIDES);
        good = good && made_write(m, r->folder);
    }
    for (int side = 0; side < SIDES; side++)
        ole_novelty_free(&shown[side]);
    return good;
}

bool show_novelty(const row *r, int threads) {
    made m;
    ole_error error;
    bool good = made_read(&m, r, &error);
    if (!good) fail_command("reproduce", "%s", error.message);
    if (good) {
        bool softmax = made_has_side(&m, r, SOFTMAX), ole = made_has_side(&m, r, WITH_OLE);
        good = (!softmax && !ole) || measure_runs(r, &m, threads);
    }
    made_free(&m);
    return good;
}
