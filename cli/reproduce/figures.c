/*
 * cli/reproduce/figures.c - trained runs, measured and drawn, softmax beside OLÉ: their features
 * (the paper's Figs. 1, 2 and 7), their learning curves (Fig. 3), and known against novel classes
 * (Fig. 6), with verification of pairs of novel samples.
 */
#include "reproduce/reproduce.h"

#include "common/common.h"
#include "common/figure_output.h"
#include "common/trained_data.h"
#include "report/run_view.h"
#include "study/by_kind.h"
#include <ole/train/history.h>
#include <ole/train/novelty.h>
#include <ole/verify.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FOLDS = 10, BARS = 20 };

static const char auroc[] = "AUROC of known and novel";

/* ---- Which runs --------------------------------------------------------------------------- */

/* The first run of a side that finished; of OLÉ alone, with `best`, the best one, as in the paper.
 * -1: there is none, and stderr says why. */
static int64_t pick_run(const row *r, int side, bool best) {
    const ole_study_run *runs = r->study.runs;
    int64_t picked = -1;
    bool diverged = false;
    for (int64_t i = 0; i < r->study.run_count; i++) {
        if (r->marks[i].side != side) continue;
        diverged |= runs[i].state == OLE_STUDY_DIVERGED;
        if (runs[i].state != OLE_STUDY_FINISHED) continue;
        if (picked < 0 || (best && row_is_alone(r) && runs[i].knn1_error < runs[picked].knn1_error))
            picked = i;
    }
    if (picked < 0)
        tell_command("reproduce", "%s: %s of %s: nothing to show", r->asked.name,
                     diverged ? "all runs diverged" : "no run is finished", side_name(r, side));
    return picked;
}

/* Whether the figures show these runs and no others. */
static bool are_shown(const row *r, const int64_t *runs, int64_t count) {
    const char *draw = r->asked.draw ? r->asked.draw : "";
    int64_t same = 0;
    if (!ole_run_has(r->folder, "figures.html") || r->measures.old_figures) return false;
    for (int i = 0; i < r->measures.count; i++) {
        const ole_measure *note = &r->measures.items[i];
        if (strcmp(note->name, OLE_MEASURE_FIGURES) != 0) continue;
        if (same == count || strcmp(note->run.digest, r->marks[runs[same]].digest) != 0 ||
            strncmp(note->value, draw, sizeof note->value - 1) != 0)
            return false;
        same++;
    }
    return same == count;
}

/* Notes that the figures, which have been written, show these runs. */
static bool note_shown(row *r, const int64_t *runs, int64_t count) {
    ole_measures_remove(&r->measures, OLE_MEASURE_FIGURES);
    for (int64_t i = 0; i < count; i++)
        ole_measures_add(&r->measures, &r->marks[runs[i]], OLE_MEASURE_FIGURES,
                         r->asked.draw ? r->asked.draw : "");
    return row_write(r, r->folder);
}

/* ---- A trained run ------------------------------------------------------------------------ */

/* A run with its model at the end of training; must stay where it is. */
typedef struct trained_run {
    ole_run_view view;
    ole_report_options report;
    char weights[ROW_PATH];
    progress line;
    ole_error error;
} trained_run;

/* Nothing is loaded yet.  Close the view either way. */
static bool open_run(trained_run *t, const row *r, int64_t run, int threads) {
    char folder[ROW_PATH];
    join_path(folder, r->runs_folder, r->study.runs[run].folder);
    join_path(t->weights, folder, "last.safetensors");
    t->line = progress_start();
    ole_report_options_init(&t->report);
    t->report.threads = threads;
    t->report.device = "cpu";
    t->report.callback = progress_stoppable;
    t->report.callback_context = &t->line;
    bool good = ole_run_view_open(&t->view, folder, &t->error) == OLE_OK;
    t->view.weights = t->weights;
    t->view.options.data = r->train.data; /* which may have been moved since */
    return good;
}

/* The end of a measurement: whether it went well; if not, why. */
static bool end_run(trained_run *t, const row *r, int64_t run, bool good) {
    progress_clear(&t->line);
    if (good && t->view.changed) tell_data_changed("reproduce", t->view.options.data);
    if (!good && !interrupted())
        fail_command("reproduce", "%s: %s: %s", r->asked.name, r->study.runs[run].folder,
                     t->view.without[0] ? t->view.without : t->error.message);
    return good && !interrupted();
}

/* ---- Features ----------------------------------------------------------------------------- */

/* The features of the test set: their analysis, and numbers of it. */
static bool measure_features(row *r, int64_t run, int threads, trained_run *t) {
    const ole_analysis *a = &t->view.analysis;
    ole_analyze_options options;
    ole_analyze_options_init(&options);
    options.map = r->asked.draws >> OLE_DRAW_MAP & 1;
    bool good = open_run(t, r, run, threads) &&
                ole_run_view_measure(&t->view, &t->report, &options, &t->error) == OLE_OK &&
                t->view.measured;
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"angle inside classes, median", a->angles.within.median},
                   {"angle between classes, median", a->angles.between.median},
                   {"effective rank of all features", a->spectra.all.effective_rank},
                   {"OLE loss of the test features", a->spectra.loss}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && good; i++)
        ole_measures_add_number(&r->measures, &r->marks[run], numbers[i].name, numbers[i].value);
    return end_run(t, r, run, good);
}

/* Each kind of figure of both sides, one beside the other, as far as they have runs. */
static bool draw_features(const row *r, const trained_run runs[SIDES], figure_output *p) {
    ole_error error;
    bool good = true;
    for (int kind = 0; kind < OLE_DRAWINGS && good && !p->failed; kind++) {
        ole_drawing *drawings[SIDES];
        ole_figure figures[SIDES];
        int sides[SIDES], count = 0;
        for (int side = 0; side < SIDES && good && r->asked.draws >> kind & 1; side++) {
            if (!runs[side].view.measured) continue;
            good = ole_analysis_draw(&drawings[count], &runs[side].view.analysis,
                                     (ole_drawing_kind)kind, &error) == OLE_OK;
            if (!good || !drawings[count]) continue;
            figures[count] = *ole_drawing_figure(drawings[count]);
            sides[count++] = side;
        }
        ole_figures_share_y(figures, count);
        for (int i = 0; i < count; i++) {
            const char *side = side_name(r, sides[i]);
            const ole_short_text title = ole_printed("%s, %s", figures[i].title, side);
            figures[i].title = title.text;
            figure_output_add(
                p, &figures[i],
                ole_printed("%s-%s", ole_side_name(sides[i]), ole_drawing_name(drawings[i])).text,
                ole_printed("%s. %s", side, ole_drawing_caption(drawings[i])).text);
            ole_drawing_free(drawings[i]);
        }
    }
    if (!good) fail_command("reproduce", "%s: %s", r->asked.name, error.message);
    return good;
}

static bool add_features(row *r, const int64_t runs[SIDES], int threads, figure_output *p) {
    trained_run *trained = calloc(SIDES, sizeof *trained);
    bool good = trained != NULL;
    if (!good) fail_command("reproduce", "out of memory");
    for (int side = 0; side < SIDES && good; side++)
        good = runs[side] < 0 || measure_features(r, runs[side], threads, &trained[side]);
    ole_page_section(p->page, "Features");
    good = good && draw_features(r, trained, p);
    for (int side = 0; side < SIDES && trained; side++)
        ole_run_view_close(&trained[side].view);
    free(trained);
    return good;
}

/* ---- Learning curves ---------------------------------------------------------------------- */

typedef struct curve_place {
    figure_output *output;
    const char *name;
} curve_place;

static void add_curve(void *context, const ole_figure *figure) {
    const curve_place *to = context;
    figure_output_add(to->output, figure, to->name,
                      "After each epoch: mean of the runs that did not diverge; band: standard "
                      "deviation over the seeds.");
}

static bool add_curves(const row *r, figure_output *p) {
    static const struct {
        const char *name;
        ole_epoch_number number;
    } curves[] = {
        {"ole-loss", {offsetof(ole_epoch, ole_loss), false, "OLÉ loss"}},
        {"softmax-loss", {offsetof(ole_epoch, softmax_loss), false, "softmax loss"}},
        {"accuracy", {offsetof(ole_epoch, test_error), true, "test accuracy, %"}},
        {"training-accuracy", {offsetof(ole_epoch, train_error), true, "training accuracy, %"}},
    };
    ole_error error;
    bool good = true;
    ole_page_section(p->page, "Learning curves");
    for (size_t i = 0; i < sizeof curves / sizeof *curves && good; i++) {
        curve_place to = {p, curves[i].name};
        good = ole_study_draw_epochs(&r->study, &r->train, &curves[i].number, add_curve, &to,
                                     &error) == OLE_OK;
    }
    if (!good) fail_command("reproduce", "%s: %s", r->asked.name, error.message);
    return good;
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

bool check_novel(row *r, int threads, char why[ROW_WHY]) {
    if (r->asked.kind != RECIPE_NOVELTY || row_is_whole(r)) return true;
    ole_dataset *known = NULL, *novel = NULL;
    ole_error error;
    const ole_dataset_options options = run_dataset_options(&r->train, threads);
    bool good = ole_dataset_open(&known, r->train.data, &options, &error) == OLE_OK &&
                open_novel(r, &r->train, threads, &novel, &error);
    if (!good) snprintf(why, ROW_WHY, "%s: %.500s", r->asked.name, error.message);
    if (good && !r->asked.novel) { /* classes of one data set must not be in both */
        const ole_dataset_info *a = ole_dataset_get_info(known), *b = ole_dataset_get_info(novel);
        for (int i = 0; i < a->classes * b->classes && good; i++) {
            const char *name = a->class_names[i / b->classes];
            good = strcmp(name, b->class_names[i % b->classes]) != 0;
            if (!good)
                snprintf(why, ROW_WHY,
                         "%s: paper: novel_classes: '%.100s' is among the known classes",
                         r->asked.name, name);
        }
    }
    ole_dataset_close(known);
    ole_dataset_close(novel);
    return good;
}

/* ---- Verification ------------------------------------------------------------------------- */

/* Verifies pairs of novel samples by their features: all pairs of one class, and as many of two. */
static bool verify(ole_model *model, const ole_dataset *novel, const ole_run_mark *run,
                   ole_measures *to, ole_error *error) {
    const ole_dataset_info *info = ole_dataset_get_info(novel);
    int64_t dim = ole_model_get_info(model)->features, count = 0;
    size_t most = (size_t)(info->count[OLE_SPLIT_TRAIN] + info->count[OLE_SPLIT_TEST]);
    float *features = malloc((most * (size_t)dim + 1) * sizeof *features);
    int64_t *labels = malloc((most + 1) * sizeof *labels);
    ole_pairs pairs = {0};
    ole_verification v;
    bool good = features && labels;
    snprintf(error->message, sizeof error->message, "verification: out of memory");
    for (int split = OLE_SPLIT_TRAIN; split <= OLE_SPLIT_TEST && good; split++) {
        const int32_t *truth = ole_dataset_labels(novel, (ole_split)split);
        if (info->count[split] == 0) continue;
        good = ole_model_run_split(model, novel, (ole_split)split, features + count * dim, NULL,
                                   error) == OLE_OK &&
               !interrupted();
        for (int64_t i = 0; i < info->count[split]; i++)
            labels[count++] = truth[i];
    }
    if (good && ole_pairs_draw(&pairs, count, labels, INT64_MAX, FOLDS, 0, error) != OLE_OK) {
        good = error->status == OLE_ERROR_ARGUMENT; /* too few samples */
        if (good)
            tell_command("reproduce", "skipped verification of novel pairs: %s", error->message);
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

static bool measure_run(row *r, int64_t number, int threads, ole_novelty *novelty) {
    const ole_run_mark *run = &r->marks[number];
    ole_measures *to = &r->measures;
    trained_run *t = calloc(1, sizeof *t);
    if (!t) return refuse("reproduce", "out of memory");
    ole_dataset *novel = NULL;
    ole_novelty_options options;
    ole_novelty_options_init(&options);
    options.choose = false;
    options.threads = threads;
    options.callback = progress_images;
    options.callback_context = &t->line;
    bool good =
        open_run(t, r, number, threads) &&
        ole_run_view_load(&t->view, &t->report, &t->error) == OLE_OK && !t->view.without[0] &&
        open_novel(r, &t->view.options, threads, &novel, &t->error) &&
        ole_novelty_measure(novelty, t->view.model, t->view.set, novel, &options, &t->error) ==
            OLE_OK;
    if (good && !novelty->interrupted && !ole_measures_find(to, run, auroc)) {
        const ole_roc *roc = &ole_novelty_get(novelty, OLE_SCORE_SOFTMAX)->roc;
        ole_measures_add_number(to, run, auroc, 100.0 * roc->auroc);
        ole_measures_add_number(to, run, "novel accepted, 95 % of known kept", 100.0 * roc->fpr95);
        ole_measures_add_number(to, run, "accuracy on the known", novelty->accuracy);
        ole_model_watch(t->view.model, progress_images, &t->line);
        if (r->asked.verify) good = verify(t->view.model, novel, run, to, &t->error);
    }
    good = end_run(t, r, number, good);
    ole_dataset_close(novel);
    ole_run_view_close(&t->view);
    free(t);
    return good;
}

/* Both figures of the paper's Fig. 6; a side without a run has no novel samples. */
static void draw_novelty(const row *r, const ole_novelty n[SIDES], figure_output *p) {
    static double x[SIDES][CURVE_POINTS], y[SIDES][CURVE_POINTS];
    double edges[BARS + 1], bars[SIDES][BARS];
    ole_series curves[SIDES], scores[SIDES];
    ole_figure figure;
    int count = 0;
    for (int side = 0; side < SIDES; side++) {
        if (n[side].novel_count == 0) continue;
        const ole_novelty_score *s = ole_novelty_get(&n[side], OLE_SCORE_SOFTMAX);
        curves[count] = thin_curve(side_name(r, side), s->roc.points, s->roc.fpr, s->accuracy_at,
                                   x[side], y[side]);
        scores[count++] = share_bars(side_name(r, side), n[side].novel_count, s->novel, 0.0, 1.0,
                                     BARS, edges, bars[side]);
    }
    ole_page_section(p->page, "Known and novel");
    ole_figure_init(&figure);
    figure.x_label = "share of novel samples above the threshold";
    figure.y_label = "accuracy on known samples, %";
    figure.y_free = true;
    figure.series = curves;
    figure.series_count = count;
    figure_output_add(p, &figure, "novelty",
                      "A threshold on the softmax score, from high (left) to low; up and to the "
                      "left is better. The paper's Fig. 6 (a).");
    figure.kind = OLE_FIGURE_HISTOGRAM;
    figure.x_label = "largest softmax score";
    figure.y_label = "share of novel samples";
    figure.y_free = false;
    figure.series = scores;
    figure_output_add(p, &figure, "novel-scores",
                      "How sure the networks are of samples of classes they do not know. The "
                      "paper's Fig. 6 (b, c).");
}

/* ---- All of them -------------------------------------------------------------------------- */

/* Measures what is not measured yet, and what is to be drawn: the first run of each side. */
static bool measure_novelty(row *r, const int64_t sides[SIDES], bool drawn, int threads,
                            ole_novelty shown[SIDES]) {
    bool good = true;
    for (int64_t i = 0; i < r->study.run_count && good; i++) {
        int side = r->marks[i].side;
        bool show = !drawn && i == sides[side];
        if (r->study.runs[i].state != OLE_STUDY_FINISHED ||
            (!show && ole_measures_find(&r->measures, &r->marks[i], auroc)))
            continue;
        ole_novelty novelty = {0};
        good = measure_run(r, i, threads, &novelty) && row_write(r, r->folder);
        if (show)
            shown[side] = novelty;
        else
            ole_novelty_free(&novelty);
    }
    return good;
}

/* OUT/NAME/figures.html and OUT/NAME/figures.  The figures first, then numbers.csv, which says what
 * they show: what it says is true. */
static bool draw_runs(row *r, const int64_t sides[SIDES], const ole_novelty novelty[SIDES],
                      bool curves, int threads) {
    char page[ROW_PATH], folder[ROW_PATH];
    const figure_options options = {.folder = folder, .page = page};
    figure_output p;
    bool good = true;
    join_path(page, r->folder, "figures.html");
    join_path(folder, r->folder, "figures");
    if (figure_output_open(&p, "reproduce", &options, r->asked.title, r->asked.shows) != EXIT_DONE)
        return false;
    if (r->asked.kind == RECIPE_NOVELTY)
        draw_novelty(r, novelty, &p);
    else
        ole_measures_remove(&r->measures, NULL);
    if (r->asked.kind != RECIPE_NOVELTY && r->asked.kind != RECIPE_CURVES)
        good = add_features(r, sides, threads, &p);
    p.failed |= !good || (curves && !add_curves(r, &p));
    return figure_output_close(&p) == EXIT_DONE;
}

bool show_runs(row *r, int threads) {
    bool novelty = r->asked.kind == RECIPE_NOVELTY, features = r->asked.kind != RECIPE_CURVES;
    bool curves = !novelty && (!features || r->asked.draws >> DRAW_CURVES & 1);
    ole_novelty measured[SIDES] = {{0}};
    ole_error error;
    if (!novelty && features && !r->asked.draw) return true;
    bool good = row_read(r, r->folder, &error);
    int64_t sides[SIDES], count = 0;
    int64_t *shown = good ? calloc((size_t)r->study.run_count + SIDES, sizeof *shown) : NULL;
    if (!shown) return refuse("reproduce", "%s", good ? "out of memory" : error.message);
    for (int side = 0; side < SIDES; side++) { /* one whose runs all diverged is omitted */
        sides[side] = pick_run(r, side, !novelty);
        if (features && sides[side] >= 0) shown[count++] = sides[side];
    }
    for (int64_t i = 0; i < r->study.run_count && curves; i++)
        if (r->study.runs[i].state == OLE_STUDY_FINISHED) shown[count++] = i;
    bool drawn = count == 0 || are_shown(r, shown, count);
    if (novelty) good = measure_novelty(r, sides, drawn, threads, measured);
    if (good && !drawn)
        good = draw_runs(r, sides, measured, curves, threads) && note_shown(r, shown, count);
    for (int side = 0; side < SIDES; side++)
        ole_novelty_free(&measured[side]);
    free(shown);
    return good;
}
