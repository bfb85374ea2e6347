/*
 * cli/reproduce/figures.c - trained runs, measured and drawn, softmax beside OLÉ: their features
 * (the paper's Figs. 1, 2 and 7), their learning curves (Fig. 3), and known against novel classes
 * (Fig. 6), with verification of pairs of novel samples.
 */
#include "reproduce/reproduce.h"

#include "common/common.h"
#include "common/figure_output.h"
#include "common/trained_data.h"
#include "report/drawing.h"
#include <ole/analyze.h>
#include <ole/train/history.h>
#include <ole/train/novelty.h>
#include <ole/verify.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FEATURES = 10000, FOLDS = 10, BARS = 20 };

static const char auroc[] = "AUROC of known and novel";

/* ---- Trained runs ------------------------------------------------------------------------- */

/* A run's options, its model at the end of training, and the data it was trained on. */
typedef struct trained_run {
    ole_train_options options;
    ole_recipe *config; /* owns their texts */
    ole_model *model;
    ole_dataset *set;
} trained_run;

/* `line` shows how far the model is with a split.  Close it either way. */
static bool trained_open(trained_run *t, const row *r, const made *m, int64_t run, int threads,
                         progress *line, ole_error *error) {
    char folder[ROW_PATH], path[ROW_PATH];
    *t = (trained_run){0};
    join_path(folder, r->runs_folder, m->study.runs[run].folder);
    join_path(path, folder, "config.yaml");
    ole_train_options_init(&t->options);
    if (ole_recipe_read(&t->config, path, &t->options, error) != OLE_OK) return false;
    t->options.data = r->train.data; /* which may have been moved since */
    ole_dataset_options options = run_dataset_options(&t->options, threads);
    options.skip_test = t->options.skip_test;
    join_path(path, folder, "last.safetensors");
    if (ole_model_load(&t->model, path, threads, error) != OLE_OK ||
        ole_dataset_open(&t->set, t->options.data, &options, error) != OLE_OK)
        return false;
    const trained_data data = {.options = t->options, .same = true};
    trained_data_compare(&data, "reproduce", &(data_flags){.samples_per_class = -1}, t->model,
                         t->set);
    ole_model_watch(t->model, progress_images, line);
    return true;
}

static void trained_close(trained_run *t) {
    ole_dataset_close(t->set);
    ole_model_free(t->model);
    ole_recipe_free(t->config);
}

/* Features and labels of splits, given as bits 1 << split; free() both either way. */
static bool trained_features(ole_model *model, const ole_dataset *set, unsigned splits,
                             float **features, int64_t **labels, int64_t *count, ole_error *error) {
    const ole_dataset_info *info = ole_dataset_get_info(set);
    int64_t dim = ole_model_get_info(model)->features, total = 0;
    *count = 0;
    for (int split = 0; split <= OLE_SPLIT_VALIDATION; split++)
        if (splits >> split & 1) total += info->count[split];
    *features = malloc((size_t)(total * dim + 1) * sizeof **features);
    *labels = malloc((size_t)(total + 1) * sizeof **labels);
    snprintf(error->message, sizeof error->message, "out of memory");
    bool good = *features && *labels;
    for (int split = 0; split <= OLE_SPLIT_VALIDATION && good; split++) {
        if (!(splits >> split & 1) || info->count[split] == 0) continue;
        const int32_t *truth = ole_dataset_labels(set, (ole_split)split);
        good = ole_model_run_split(model, set, (ole_split)split, *features + *count * dim, NULL,
                                   error) == OLE_OK &&
               !interrupted();
        for (int64_t i = 0; i < info->count[split]; i++)
            (*labels)[(*count)++] = truth[i];
    }
    return good;
}

/* OUT/NAME/figures.html and OUT/NAME/figures; must stay where it is. */
typedef struct row_figures {
    char page[ROW_PATH], folder[ROW_PATH];
    figure_options options;
    figure_output output;
} row_figures;

static bool row_figures_open(row_figures *f, const row *r) {
    join_path(f->page, r->folder, "figures.html");
    join_path(f->folder, r->folder, "figures");
    f->options = (figure_options){.folder = f->folder, .page = f->page};
    return figure_output_open(&f->output, "reproduce", &f->options, r->asked.title,
                              r->asked.shows) == EXIT_DONE;
}

static void add_figure(figure_output *p, const char *name, const char *caption, const char *x_label,
                       const char *y_label, const ole_series *series, int count,
                       ole_figure_kind kind) {
    ole_figure f;
    ole_figure_init(&f);
    f.kind = kind;
    f.x_label = x_label;
    f.y_label = y_label;
    f.y_free = strstr(y_label, "accuracy") != NULL;
    f.series = series;
    f.series_count = count;
    if (count > 0) figure_output_add(p, &f, name, caption);
}

/* ---- Features ----------------------------------------------------------------------------- */

static bool draw_features(const row *r, const ole_analysis *analysis, int side, figure_output *p,
                          ole_error *error) {
    figure_output_section(p, side_name(r, side));
    for (int kind = 0; kind < OLE_DRAWINGS && !p->failed; kind++) {
        ole_drawing *drawing;
        if (ole_analysis_draw(&drawing, analysis, (ole_drawing_kind)kind, error) != OLE_OK)
            return false;
        if (drawing && recipe_draws(&r->asked, ole_drawing_name(drawing))) {
            char name[96], caption[400];
            snprintf(name, sizeof name, "%s-%s", ole_side_name(side), ole_drawing_name(drawing));
            snprintf(caption, sizeof caption, "%s. %.300s", side_name(r, side),
                     ole_drawing_caption(drawing));
            figure_output_add(p, ole_drawing_figure(drawing), name, caption);
        }
        ole_drawing_free(drawing);
    }
    return true;
}

/* At most MOST_FEATURES rows, evenly taken. */
static int64_t thin_out(float *features, int64_t *labels, int64_t count, int64_t dim) {
    int64_t keep = count < MOST_FEATURES ? count : MOST_FEATURES;
    for (int64_t k = 0; k < keep; k++) {
        int64_t from = k * count / keep;
        memmove(features + k * dim, features + from * dim, (size_t)dim * sizeof *features);
        labels[k] = labels[from];
    }
    return keep;
}

static bool analyze(const row *r, const trained_run *t, int threads, progress *line,
                    ole_analysis *analysis, ole_error *error) {
    const ole_model_info *info = ole_model_get_info(t->model);
    bool tested = ole_dataset_get_info(t->set)->count[OLE_SPLIT_TEST] > 0;
    ole_embedding e = {.dim = info->features, .dtype = OLE_F32};
    float *features;
    int64_t *labels;
    ole_analyze_options options;
    ole_analyze_options_init(&options);
    options.map = recipe_draws(&r->asked, "map");
    options.threads = threads;
    options.progress = progress_share;
    options.context = line;
    options.names = info->class_names;
    options.name_count = info->classes;
    bool good =
        trained_features(t->model, t->set, 1u << (tested ? OLE_SPLIT_TEST : OLE_SPLIT_VALIDATION),
                         &features, &labels, &e.rows, error);
    if (good && e.rows == 0) {
        snprintf(error->message, sizeof error->message, "%.400s has no test part", r->train.data);
        good = false;
    }
    if (good) {
        e.rows = thin_out(features, labels, e.rows, e.dim);
        e.features = features;
        e.labels = labels;
        good = ole_analyze(analysis, &e, &options, error) == OLE_OK;
    }
    free(features);
    free(labels);
    return good;
}

/* Features at the end of training: figures and numbers of one run. */
static bool add_features(const row *r, made *m, int64_t run, int threads, figure_output *p) {
    const ole_run_mark *mark = &m->marks[run];
    ole_measures *to = &m->measures;
    progress line = progress_start();
    ole_error error;
    ole_analysis a;
    trained_run t;
    bool good = trained_open(&t, r, m, run, threads, &line, &error) &&
                analyze(r, &t, threads, &line, &a, &error);
    progress_clear(&line);
    if (good) {
        good = draw_features(r, &a, mark->side, p, &error);
        ole_measures_add_number(to, mark, "angle inside classes, median", a.angles.within.median);
        ole_measures_add_number(to, mark, "angle between classes, median", a.angles.between.median);
        ole_measures_add_number(to, mark, "effective rank of all features",
                                a.spectra.all.effective_rank);
        ole_measures_add_number(to, mark, "OLE loss of the test features", a.spectra.loss);
        ole_analysis_free(&a);
    }
    if (!good && !interrupted())
        fail_command("reproduce", "%s: %s: %s", r->asked.name, m->study.runs[run].folder,
                     error.message);
    trained_close(&t);
    return good && !p->failed && !interrupted();
}

/* ---- Learning curves ---------------------------------------------------------------------- */

/* A number of each epoch of both sides, as one figure. */
static void add_curve(figure_output *p, const row *r, const ole_history history[SIDES],
                      const char *caption, size_t offset, const char *name, const char *y_label,
                      bool accuracy) {
    ole_series series[SIDES];
    int64_t room = history[SOFTMAX].count + history[WITH_OLE].count, used = 0;
    double *x = malloc((2 * (size_t)room + 1) * sizeof *x), *y = x ? x + room : NULL;
    int count = 0;
    for (int side = 0; side < SIDES && x; side++) {
        int64_t first = used;
        for (int64_t i = 0; i < history[side].count; i++) {
            double value;
            memcpy(&value, (const char *)&history[side].epochs[i] + offset, sizeof value);
            if (!isfinite(value)) continue;
            x[used] = (double)history[side].epochs[i].epoch;
            y[used++] = accuracy ? 100.0 - value : value;
        }
        if (used > first)
            series[count++] = (ole_series){
                .name = side_name(r, side), .count = used - first, .x = x + first, .y = y + first};
    }
    if (!x) p->failed = fail_command(p->command, "out of memory") != EXIT_DONE;
    add_figure(p, name, caption, "epoch", y_label, series, count, OLE_FIGURE_LINES);
    free(x);
}

/* A side may have no run. */
static bool add_curves(const row *r, const made *m, const int64_t runs[SIDES], figure_output *p) {
    ole_history h[SIDES] = {{0}};
    char caption[120] = "After each epoch", folder[ROW_PATH];
    bool good = true;
    for (int side = 0; side < SIDES && good; side++) {
        ole_error error;
        size_t used = strlen(caption);
        if (runs[side] < 0) continue;
        join_path(folder, r->runs_folder, m->study.runs[runs[side]].folder);
        good = ole_history_read(&h[side], folder, &error) == OLE_OK;
        if (!good) fail_command("reproduce", "%s: %s", r->asked.name, error.message);
        snprintf(caption + used, sizeof caption - used, "%s seed %" PRIu64 " of %s",
                 used > strlen("After each epoch") ? "," : ":", m->marks[runs[side]].seed,
                 side_name(r, side));
    }
    if (good) {
        snprintf(caption + strlen(caption), sizeof caption - strlen(caption), ".");
        figure_output_section(p, "Learning curves");
        add_curve(p, r, h, caption, offsetof(ole_epoch, ole_loss), "ole-loss", "OLÉ loss", false);
        add_curve(p, r, h, caption, offsetof(ole_epoch, softmax_loss), "softmax-loss",
                  "softmax loss", false);
        add_curve(p, r, h, caption, offsetof(ole_epoch, test_error), "accuracy", "test accuracy, %",
                  true);
        add_curve(p, r, h, caption, offsetof(ole_epoch, train_error), "training-accuracy",
                  "training accuracy, %", true);
    }
    for (int side = 0; side < SIDES; side++)
        ole_history_free(&h[side]);
    return good && !p->failed;
}

/* ---- Known and novel classes --------------------------------------------------------------- */

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

static bool measure_run(const row *r, made *m, int64_t number, int threads, ole_novelty *novelty) {
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
    add_figure(p, "novelty",
               "A threshold on the softmax score, from high (left) to low; up and to the left is "
               "better. The paper's Fig. 6 (a).",
               "share of the novel over the threshold", "accuracy on the known, %", series, count,
               OLE_FIGURE_LINES);
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
    add_figure(p, "novel-scores",
               "How sure the networks are of samples of classes they do not know. The paper's "
               "Fig. 6 (b, c).",
               "largest softmax score", "share of the novel samples", series, count,
               OLE_FIGURE_HISTOGRAM);
}

/* Measures what is not measured yet; the figures are of the first run of each side. */
static bool measure_novelty(const row *r, made *m, int threads) {
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
        good = measure_run(r, m, i, threads, &novelty) && made_write(m, r->folder);
        if (show)
            shown[side] = novelty;
        else
            ole_novelty_free(&novelty);
    }
    if (good && !drawn) {
        row_figures f;
        good = row_figures_open(&f, r);
        if (good) {
            figure_output_section(&f.output, "Known and novel");
            draw_curve(r, shown, &f.output);
            draw_scores(r, shown, &f.output);
            good = figure_output_close(&f.output) == EXIT_DONE;
        }
        if (good) made_note_shown(m, r, first, SIDES);
        good = good && made_write(m, r->folder);
    }
    for (int side = 0; side < SIDES; side++)
        ole_novelty_free(&shown[side]);
    return good;
}

/* ---- All of them -------------------------------------------------------------------------- */

/* Runs for the features, then runs for the curves; -1 where a side has none. */
typedef int64_t shown_runs[2 * SIDES];

/* The figures first, then numbers.csv, which says what they show: what it says is true. */
static bool draw_runs(const row *r, made *m, const shown_runs runs, int threads) {
    row_figures f;
    if (!row_figures_open(&f, r)) return false;
    figure_output *p = &f.output;
    bool good = true;
    ole_measures_remove(&m->measures, NULL);
    for (int side = 0; side < SIDES && good; side++)
        good = runs[side] < 0 || add_features(r, m, runs[side], threads, p);
    if (runs[SIDES + SOFTMAX] >= 0 || runs[SIDES + WITH_OLE] >= 0)
        good = good && add_curves(r, m, runs + SIDES, p);
    p->failed |= !good;
    good = figure_output_close(p) == EXIT_DONE;
    if (good) made_note_shown(m, r, runs, 2 * SIDES);
    return good && made_write(m, r->folder);
}

/* A side whose runs all diverged is omitted. */
bool show_runs(const row *r, int threads) {
    bool novelty = r->asked.kind == RECIPE_NOVELTY, features = r->asked.kind != RECIPE_CURVES;
    bool curves = !features || recipe_draws(&r->asked, "curves"), any = false;
    made m;
    ole_error error;
    shown_runs runs = {-1, -1, -1, -1};
    if (!novelty && features && !r->asked.draw) return true;
    bool good = made_read(&m, r, &error);
    if (!good) fail_command("reproduce", "%s", error.message);
    for (int side = 0; side < SIDES && good; side++) {
        if (!made_has_side(&m, r, side)) continue;
        int64_t first = made_first(&m, side), best = first;
        /* Of OLÉ alone the best run is shown, as in the paper. */
        for (int64_t i = 0; i < m.study.run_count && r->train.loss == OLE_LOSS_OLE; i++)
            if (m.marks[i].side == side &&
                m.study.runs[i].knn1_error < m.study.runs[best].knn1_error)
                best = i;
        if (features) runs[side] = best;
        if (curves) runs[SIDES + side] = first;
        any = true;
    }
    if (good && any && novelty)
        good = measure_novelty(r, &m, threads);
    else if (good && any)
        good = made_shows(&m, r, runs, 2 * SIDES) || draw_runs(r, &m, runs, threads);
    made_free(&m);
    return good;
}
