/*
 * cli/novelty_report.c - printing and drawing what `ole novelty` found.
 *
 * The figures are those of the paper's Fig. 6: accuracy on the known against the share of novel
 * samples accepted, and histograms of the largest score; and reliability before and after scaling.
 */
#include "novelty_report.h"

#include "base/memory_file.h"
#include "common/common.h"
#include "common/outputs.h"

#include "formats/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BARS = 40, CELL = 24 };

static const char *const titles[OLE_SCORES] = {"softmax", "softmax, calibrated",
                                               "residual to class subspace", "cosine to class",
                                               "energy (log-sum-exp)"};

/* ---- Text --------------------------------------------------------------------------------- */

/* "-" where there are no novel samples to measure on. */
static const char *cell_text(char text[CELL], const char *format, double value) {
    if (isnan(value)) return "-";
    snprintf(text, CELL, format, value);
    return text;
}

static void print_scores(const ole_novelty *n) {
    printf("\n%-10s %6s %6s %6s %8s %10s %8s %8s %8s\n", "score", "AUROC", "AUPR", "AUPR-n",
           "FPR95", "threshold", "kept", "right", "accepted");
    for (int i = 0; i < OLE_SCORES; i++) {
        const ole_novelty_score *s = &n->score[i];
        char text[5][CELL];
        printf("%-10s %6s %6s %6s %8s %10.4g %6.1f %% %6.1f %% %8s\n", ole_score_name(s->score),
               cell_text(text[0], "%.4f", s->roc.auroc),
               cell_text(text[1], "%.4f", s->roc.ap_positive),
               cell_text(text[2], "%.4f", s->roc.ap_negative),
               cell_text(text[3], "%.1f %%", 100.0 * s->roc.fpr95), s->threshold, s->kept,
               s->accuracy, cell_text(text[4], "%.1f %%", s->accepted));
    }
    printf("\nat the threshold: known samples kept, kept and right; novel samples accepted\n\n");
}

/* The score that tells these novel samples best; OLE_SCORE_NONE without any. */
static ole_score best_score(const ole_novelty *n) {
    ole_score best = OLE_SCORE_NONE;
    for (int i = 0; i < OLE_SCORES && n->novel_count > 0; i++)
        if (best == OLE_SCORE_NONE || n->score[i].roc.auroc > n->score[best - 1].roc.auroc)
            best = n->score[i].score;
    return best;
}

static const char *temperature_note(const novelty_report *r) {
    if (r->temperature_given) return " (given)";
    if (r->model->classes < 2) return " (not fitted: of one class every score is 1)";
    if (!r->result->temperature_fitted)
        return " (not fitted: no better than chance on the validation samples)";
    return r->result->validation_accuracy == 100.0
               ? " (no mistake among the validation samples: by their number)"
               : "";
}

void novelty_print_text(const novelty_report *r) {
    const ole_novelty *n = r->result;
    printf("%-20s %" PRId64 " known, %" PRId64 " novel; the threshold from %" PRId64
           " for validation\n",
           "samples", n->known_count, n->novel_count, n->validation_count);
    printf("%-20s %.2f %% of the known\n", "accuracy", n->accuracy);
    printf("%-20s %.4g%s\n", "temperature", n->after.temperature, temperature_note(r));
    printf("%-20s %.2f %%, before scaling %.2f %%\n", "calibration error", 100.0 * n->after.ece,
           100.0 * n->before.ece);
    print_scores(n);
    ole_score best = best_score(n);
    if (best != OLE_SCORE_NONE)
        printf("best on these novel samples: %s, AUROC %.4f%s%s\n", ole_score_name(best),
               n->score[best - 1].roc.auroc, best != r->score ? "; store it with --score " : "",
               best != r->score ? ole_score_name(best) : "");
    if (r->stored)
        printf("%s: unknown under %.4g (%s)\n", r->path, ole_novelty_get(n, r->score)->threshold,
               ole_score_name(r->score));
}

/* ---- JSON --------------------------------------------------------------------------------- */

static void json_column(ole_json *w, const char *key, const double *values, int64_t count) {
    ole_json_open(w, key, '[');
    for (int64_t i = 0; i < count; i++)
        ole_json_number(w, NULL, values[i]);
    ole_json_close(w);
}

static void json_calibration(ole_json *w, const char *key, const ole_calibration *c) {
    ole_json_open(w, key, '{');
    ole_json_number(w, "temperature", c->temperature);
    ole_json_number(w, "ece", c->ece);
    ole_json_number(w, "nll", c->nll);
    ole_json_open(w, "count", '[');
    for (int b = 0; b < OLE_CALIBRATION_BINS; b++)
        ole_json_integer(w, NULL, c->count[b]);
    ole_json_close(w);
    json_column(w, "score", c->score, OLE_CALIBRATION_BINS);
    json_column(w, "accuracy", c->accuracy, OLE_CALIBRATION_BINS);
    ole_json_close(w);
}

static void json_score(ole_json *w, const ole_novelty_score *s) {
    ole_json_open(w, NULL, '{');
    ole_json_string(w, "score", ole_score_name(s->score));
    ole_json_number(w, "auroc", s->roc.auroc);
    ole_json_number(w, "aupr_known", s->roc.ap_positive);
    ole_json_number(w, "aupr_novel", s->roc.ap_negative);
    ole_json_number(w, "fpr95", s->roc.fpr95);
    ole_json_number(w, "threshold", s->threshold);
    ole_json_number(w, "kept", s->kept);
    ole_json_number(w, "accuracy", s->accuracy);
    ole_json_number(w, "accepted", s->accepted);
    double x[CURVE_POINTS], y[CURVE_POINTS];
    const ole_series curve =
        thin_curve(NULL, s->roc.points, s->roc.fpr, s->accuracy_at, x, y); /* the paper's Fig. 6 */
    ole_json_open(w, "curve", '{');
    json_column(w, "novel_accepted", curve.x, curve.count);
    json_column(w, "known_accuracy", curve.y, curve.count);
    ole_json_close(w);
    ole_json_close(w);
}

void novelty_print_json(const novelty_report *r) {
    const ole_novelty *n = r->result;
    ole_json w;
    ole_json_init(&w, stdout, 2);
    ole_json_open(&w, NULL, '{');
    ole_json_integer(&w, "validation", n->validation_count);
    ole_json_integer(&w, "known", n->known_count);
    ole_json_integer(&w, "novel", n->novel_count);
    ole_json_number(&w, "accuracy", n->accuracy);
    ole_json_number(&w, "validation_accuracy", n->validation_accuracy);
    ole_json_number(&w, "temperature", n->after.temperature);
    ole_json_bool(&w, "temperature_fitted", n->temperature_fitted);
    json_calibration(&w, "before", &n->before);
    json_calibration(&w, "after", &n->after);
    ole_json_open(&w, "scores", '[');
    for (int i = 0; i < OLE_SCORES; i++)
        json_score(&w, &n->score[i]);
    ole_json_close(&w);
    ole_json_string(&w, "recommended", ole_score_name(best_score(n)));
    ole_json_open(&w, "stored", '{');
    ole_json_string(&w, "score", r->stored ? ole_score_name(r->score) : "none");
    ole_json_number(&w, "threshold",
                    r->stored ? ole_novelty_get(n, r->score)->threshold : (double)NAN);
    ole_json_close(&w);
    ole_json_close(&w);
}

/* ---- Scores of all samples ---------------------------------------------------------------- */

static void print_samples(FILE *out, const novelty_report *r, bool novel) {
    const ole_novelty *n = r->result;
    const int32_t *label = novel ? n->novel_label : n->known_label;
    const int32_t *predicted = novel ? n->novel_predicted : n->known_predicted;
    int64_t count = novel ? n->novel_count : n->known_count;
    for (int64_t i = 0; i < count; i++) {
        fputs(novel ? "novel," : "known,", out);
        print_csv_name(out, r->set[novel]->class_names[label[i]]);
        fputc(',', out);
        print_csv_name(out, r->model->class_names[predicted[i]]);
        for (int s = 0; s < OLE_SCORES; s++)
            fprintf(out, ",%.17g", (novel ? n->score[s].novel : n->score[s].known)[i]);
        fputc('\n', out);
    }
}

int novelty_write_scores(const novelty_report *r, const char *path) {
    ole_memory_file memory;
    if (!ole_memory_file_open(&memory)) return fail_command("novelty", "out of memory");
    FILE *out = memory.file;
    fputs("set,class,predicted", out);
    for (int s = 1; s <= OLE_SCORES; s++)
        fprintf(out, ",%s", ole_score_name((ole_score)s));
    fputc('\n', out);
    print_samples(out, r, false);
    print_samples(out, r, true);
    char *text = ole_memory_file_close(&memory);
    int code = text ? put_text("novelty", path, text, memory.size)
                    : fail_command("novelty", "out of memory for the scores");
    free(text);
    return code;
}

/* ---- Figures ------------------------------------------------------------------------------ */

static void draw_curves(figure_output *p, const ole_novelty *n) {
    ole_series series[OLE_SCORES];
    double x[OLE_SCORES][CURVE_POINTS], y[OLE_SCORES][CURVE_POINTS];
    for (int i = 0; i < OLE_SCORES; i++) {
        const ole_novelty_score *s = &n->score[i];
        series[i] = thin_curve(titles[i], s->roc.points, s->roc.fpr, s->accuracy_at, x[i], y[i]);
    }
    ole_figure figure;
    ole_figure_init(&figure);
    figure.title = "Accuracy on the known against novel samples accepted";
    figure.x_label = "share of novel samples accepted";
    figure.y_label = "known samples accepted and right, %";
    figure.x_min = figure.y_min = 0.0;
    figure.x_max = 1.0;
    figure.y_max = 100.0;
    figure.series = series;
    figure.series_count = OLE_SCORES;
    figure_output_add(
        p, &figure, "novelty",
        "Each point is a threshold on the score: samples under it are called unknown. Up "
        "and to the left is better.");
}

/* Shares of the scores in bars from `low` to `high`. */
static void fill_bars(const double *scores, int64_t count, double low, double high, double *bars) {
    memset(bars, 0, BARS * sizeof *bars);
    for (int64_t i = 0; i < count; i++) {
        double place = high > low ? BARS * (scores[i] - low) / (high - low) : 0.0;
        int bar = place < 0.0 ? 0 : place >= BARS ? BARS - 1 : (int)place;
        bars[bar] += 1.0 / (double)count;
    }
}

static void draw_histogram(figure_output *p, const novelty_report *r, int which) {
    const ole_novelty *n = r->result;
    const ole_novelty_score *s = &n->score[which];
    double low = INFINITY, high = -INFINITY, edges[BARS + 1], bars[2][BARS];
    for (int novel = 0; novel < 2; novel++)
        for (int64_t i = 0; i < (novel ? n->novel_count : n->known_count); i++) {
            low = fmin(low, (novel ? s->novel : s->known)[i]);
            high = fmax(high, (novel ? s->novel : s->known)[i]);
        }
    if (s->score != OLE_SCORE_ENERGY) {
        low = s->score == OLE_SCORE_COSINE ? fmin(low, 0.0) : 0.0;
        high = 1.0;
    }
    for (int i = 0; i <= BARS; i++)
        edges[i] = low + (high - low) * i / BARS;
    fill_bars(s->known, n->known_count, low, high, bars[0]);
    fill_bars(s->novel, n->novel_count, low, high, bars[1]);
    const ole_series series[2] = {{.name = "known", .count = BARS, .x = edges, .y = bars[0]},
                                  {.name = "novel", .count = BARS, .x = edges, .y = bars[1]}};
    char title[96], name[64], caption[256], accepted[64] = "";
    bool novel = n->novel_count > 0;
    snprintf(title, sizeof title, "%s: %s", novel ? "Known and novel" : "Known", titles[which]);
    snprintf(name, sizeof name, "scores-%s", ole_score_name(s->score));
    if (novel) snprintf(accepted, sizeof accepted, " and %.1f %% of the novel", s->accepted);
    snprintf(caption, sizeof caption, "%.1f %% of the known%s samples reach the threshold %.4g.%s",
             s->kept, accepted, s->threshold,
             s->score == best_score(n) ? " Recommended: it tells these novel samples best." : "");
    ole_figure figure;
    ole_figure_init(&figure);
    figure.kind = OLE_FIGURE_HISTOGRAM;
    figure.title = title;
    figure.x_label = "score";
    figure.y_label = "share of samples";
    figure.series = series;
    figure.series_count = novel ? 2 : 1;
    const ole_mark threshold = {s->threshold, "threshold"};
    figure.marks = &threshold;
    figure.mark_count = 1;
    figure_output_add(p, &figure, name, caption);
}

static void draw_reliability(figure_output *p, const ole_novelty *n) {
    static const double diagonal[2] = {0.0, 1.0};
    const ole_series series[3] = {
        {.name = "before",
         .count = OLE_CALIBRATION_BINS,
         .x = n->before.score,
         .y = n->before.accuracy},
        {.name = "after",
         .count = OLE_CALIBRATION_BINS,
         .x = n->after.score,
         .y = n->after.accuracy},
        {.name = "calibrated", .count = 2, .x = diagonal, .y = diagonal, .dotted = true}};
    char caption[256];
    snprintf(caption, sizeof caption,
             "Accuracy against the mean score in %d bins of the score. Expected calibration error "
             "%.2f %% before and %.2f %% after scaling by the temperature %.4g.",
             OLE_CALIBRATION_BINS, 100.0 * n->before.ece, 100.0 * n->after.ece,
             n->after.temperature);
    ole_figure figure;
    ole_figure_init(&figure);
    figure.title = "Reliability";
    figure.x_label = "score";
    figure.y_label = "accuracy";
    figure.x_min = figure.y_min = 0.0;
    figure.x_max = figure.y_max = 1.0;
    figure.series = series;
    figure.series_count = 3;
    figure_output_add(p, &figure, "reliability", caption);
}

static void add_table(ole_page *page, const ole_novelty *n) {
    static const char *const names[] = {"score",       "AUROC",           "AUPR, known",
                                        "AUPR, novel", "FPR at 95 % TPR", "threshold",
                                        "known kept",  "kept, right",     "novel accepted"};
    page_table table = {.columns = sizeof names / sizeof *names};
    for (int i = 0; i < OLE_SCORES; i++) {
        const ole_novelty_score *s = &n->score[i];
        char text[5][CELL];
        page_table_print(&table, s->score == best_score(n) ? "%s (recommended)" : "%s", titles[i]);
        page_table_print(&table, "%s", cell_text(text[0], "%.4f", s->roc.auroc));
        page_table_print(&table, "%s", cell_text(text[1], "%.4f", s->roc.ap_positive));
        page_table_print(&table, "%s", cell_text(text[2], "%.4f", s->roc.ap_negative));
        page_table_print(&table, "%s", cell_text(text[3], "%.1f %%", 100.0 * s->roc.fpr95));
        page_table_print(&table, "%.4f", s->threshold);
        page_table_print(&table, "%.1f %%", s->kept);
        page_table_print(&table, "%.1f %%", s->accuracy);
        page_table_print(&table, "%s", cell_text(text[4], "%.1f %%", s->accepted));
    }
    page_table_add(page, &table, names, "The scores side by side");
}

int novelty_draw(const novelty_report *r, const figure_options *options) {
    const ole_novelty *n = r->result;
    const ole_novelty_score *s = ole_novelty_get(n, r->score);
    figure_output p;
    if (!figures_requested(options)) return EXIT_DONE;
    int code = figure_output_open(&p, "novelty", options, "Known and novel", r->path);
    if (code != EXIT_DONE) return code;
    char value[64], note[96];
    bool novel = n->novel_count > 0;
    if (novel) {
        snprintf(value, sizeof value, "%.4f", s->roc.auroc);
        ole_page_headline(p.page, "AUROC", value, titles[r->score - 1]);
        ole_score best = best_score(n);
        snprintf(note, sizeof note, "AUROC %.4f on these novel samples",
                 n->score[best - 1].roc.auroc);
        ole_page_headline(p.page, "recommended score", ole_score_name(best), note);
    }
    snprintf(value, sizeof value, "%.1f %%", novel ? s->accepted : s->kept);
    snprintf(note, sizeof note, novel ? "while %.1f %% of the known ones are kept" : "of the known",
             s->kept);
    ole_page_headline(p.page, novel ? "novel samples accepted" : "samples kept", value, note);
    snprintf(value, sizeof value, "%.2f %%", 100.0 * n->after.ece);
    snprintf(note, sizeof note, "%.2f %% before scaling", 100.0 * n->before.ece);
    ole_page_headline(p.page, "calibration error", value, note);
    ole_page_section(p.page, novel ? "Known against novel" : "Thresholds");
    if (novel) draw_curves(&p, n);
    add_table(p.page, n);
    ole_page_section(p.page, "Scores");
    for (int i = 0; i < OLE_SCORES; i++)
        draw_histogram(&p, r, i);
    ole_page_section(p.page, "Calibration");
    draw_reliability(&p, n);
    return figure_output_close(&p);
}
