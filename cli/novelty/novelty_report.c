/*
 * cli/novelty/novelty_report.c - printing and drawing what `ole novelty` found.
 *
 * The figures are those of the paper's Fig. 6: accuracy on the known against the share of novel
 * samples accepted, and histograms of the largest score; and reliability before and after scaling.
 */
#include "novelty/novelty_report.h"

#include "base/memory_file.h"
#include "common/common.h"
#include "common/outputs.h"

#include "formats/json.h"
#include "model/threshold_words.h"
#include "report/model_page.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BARS = 40 };

/* ---- Text --------------------------------------------------------------------------------- */

/* "-" where there are no novel samples to measure on. */
static ole_short_text cell_text(double value, int decimals, const char *unit) {
    return isnan(value) ? (ole_short_text){"-"} : ole_printed("%.*f%s", decimals, value, unit);
}

static void print_scores(const ole_novelty *n) {
    printf("\n%-11s %6s %6s %6s %8s %10s %8s %8s %8s\n", "score", "AUROC", "AUPR", "AUPR-n",
           "FPR95", "threshold", "kept", "right", "accepted");
    for (int i = 0; i < OLE_SCORES; i++) {
        const ole_novelty_score *s = &n->score[i];
        printf("%-11s %6s %6s %6s %8s %10.4g %6.1f %% %6.1f %% %8s\n", ole_score_name(s->score),
               cell_text(s->roc.auroc, 4, "").text, cell_text(s->roc.ap_positive, 4, "").text,
               cell_text(s->roc.ap_negative, 4, "").text,
               cell_text(100.0 * s->roc.fpr95, 1, " %").text, s->threshold, s->kept, s->accuracy,
               cell_text(s->accepted, 1, " %").text);
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
    if (r->model->classes < 2) return " (not fitted: with one class every score is 1)";
    if (!r->result->temperature_fitted)
        return " (not fitted: no better than chance on the validation samples)";
    return r->result->validation_accuracy == 100.0
               ? " (no mistakes among the validation samples; set by their number)"
               : "";
}

/* Without novel samples: groups of known classes that played them. */
void novelty_print_choice(const ole_novelty_choice *c, bool exported) {
    if (c->score == OLE_SCORE_NONE) return;
    if (c->groups == 0) {
        printf("score by default: %s; choosing one takes three classes with two samples each\n\n",
               ole_score_name(c->score));
        return;
    }
    printf("AUROC of held-out known samples against known classes left out of the fit:\n\n%-11s "
           "%6s",
           "score", "mean");
    for (int g = 0; g < c->groups; g++)
        printf("  group %d", g + 1);
    printf("\n");
    for (int s = 0; s < OLE_SCORES; s++) {
        printf("%-11s %6.4f", ole_score_name((ole_score)(s + 1)), c->mean[s]);
        for (int g = 0; g < c->groups; g++)
            printf(" %8.4f", c->auroc[s][g]);
        printf("\n");
    }
    printf("\nchosen without novel samples%s: %s%s\n\n",
           exported ? ", of the scores that can be exported" : "", ole_score_name(c->score),
           c->map_refitted ? "" : " (the network has seen all classes: the AUROCs are too high)");
}

void novelty_tell_export(const char *command, ole_score score, const ole_novelty_choice *c) {
    if (ole_score_exports(score)) return;
    int best = -1;
    for (int s = 0; s < OLE_SCORES && c->groups > 0; s++)
        if (ole_score_exports((ole_score)(s + 1)) && (best < 0 || c->mean[s] > c->mean[best]))
            best = s;
    if (best >= 0)
        tell_command(command,
                     "a model with the score %s cannot be exported as ONNX; of the scores that "
                     "can, %s has the highest mean AUROC: --score %s",
                     ole_score_name(score), ole_score_name((ole_score)(best + 1)),
                     ole_score_name((ole_score)(best + 1)));
    else
        tell_command(command,
                     "a model with the score %s cannot be exported as ONNX; one with --score "
                     "softmax, calibrated, energy, residual or cosine can",
                     ole_score_name(score));
}

void novelty_tell_calibration(const ole_novelty *n) {
    if (!(n->after.ece > n->before.ece)) return;
    tell_command("novelty",
                 "warning: the temperature %.4g makes the calibration worse (error %.2f %%, "
                 "without it %.2f %%); --temperature 1 keeps the scores as trained",
                 n->after.temperature, 100.0 * n->after.ece, 100.0 * n->before.ece);
}

void novelty_print_text(const novelty_report *r) {
    const ole_novelty *n = r->result;
    printf("%-20s %" PRId64 " known%s, %" PRId64 " novel; the threshold from %" PRId64 "%s\n",
           "samples", n->known_count, r->of_features && !r->tested ? " (held out)" : "",
           n->novel_count, n->validation_count, r->of_features ? " held out" : " for validation");
    printf("%-20s %.2f %% of the known samples\n", "accuracy", n->accuracy);
    printf("%-20s %.4g%s\n", "temperature", n->after.temperature, temperature_note(r));
    printf("%-20s %.2f %%, before scaling %.2f %%\n", "calibration error", 100.0 * n->after.ece,
           100.0 * n->before.ece);
    print_scores(n);
    novelty_print_choice(&n->choice, false);
    ole_score best = best_score(n);
    if (best != OLE_SCORE_NONE)
        printf("best on these novel samples: %s, AUROC %.4f; %s: %.4f\n", ole_score_name(best),
               n->score[best - 1].roc.auroc, ole_score_name(r->score),
               n->score[r->score - 1].roc.auroc);
    if (r->stored)
        printf("%s: unknown under %.4g (%s)\n", r->path, ole_novelty_get(n, r->score)->threshold,
               ole_score_name(r->score));
}

bool novelty_parse_score(const char *command, const char *name, ole_score *score) {
    *score = OLE_SCORE_NONE;
    if (strcmp(name, "auto") == 0) return true;
    if (ole_score_parse(name, score) && *score != OLE_SCORE_NONE) return true;
    char names[256];
    size_t used = 0;
    for (int i = 1; i <= OLE_SCORES && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 1 ? ", " : "",
                                 ole_score_name((ole_score)i));
    return refuse(command, "--score '%s': expected auto or one of %s", name, names);
}

/* ---- JSON --------------------------------------------------------------------------------- */

static void json_calibration(ole_json *w, const char *key, const ole_calibration *c) {
    ole_json_open(w, key, '{');
    ole_json_put(w, J("temperature", c->temperature), J("ece", c->ece), J("nll", c->nll));
    ole_json_integers(w, "count", c->count, OLE_CALIBRATION_BINS);
    ole_json_numbers(w, "score", c->score, OLE_CALIBRATION_BINS);
    ole_json_numbers(w, "accuracy", c->accuracy, OLE_CALIBRATION_BINS);
    ole_json_close(w);
}

static void json_score(ole_json *w, const ole_novelty_score *s) {
    ole_json_open(w, NULL, '{');
    ole_json_put(w, J("score", ole_score_name(s->score)), J("auroc", s->roc.auroc),
                 J("aupr_known", s->roc.ap_positive), J("aupr_novel", s->roc.ap_negative),
                 J("fpr95", s->roc.fpr95), J("threshold", s->threshold), J("kept", s->kept),
                 J("accuracy", s->accuracy), J("accepted", s->accepted));
    double x[CURVE_POINTS], y[CURVE_POINTS];
    const ole_series curve =
        thin_curve(NULL, s->roc.points, s->roc.fpr, s->accuracy_at, x, y); /* the paper's Fig. 6 */
    ole_json_open(w, "curve", '{');
    ole_json_numbers(w, "novel_accepted", curve.x, curve.count);
    ole_json_numbers(w, "known_accuracy", curve.y, curve.count);
    ole_json_close(w);
    ole_json_close(w);
}

void novelty_json_choice(ole_json *w, const ole_novelty_choice *c) {
    ole_json_open(w, "choice", '{');
    ole_json_put(w, J("score", ole_score_name(c->score)), J("groups", c->groups),
                 J("map_refitted", c->map_refitted), J("rows", c->rows),
                 J("held_out", c->held_out));
    ole_json_open(w, "auroc", '{');
    for (int s = 0; s < OLE_SCORES && c->groups > 0; s++) {
        ole_json_open(w, ole_score_name((ole_score)(s + 1)), '{');
        ole_json_number(w, "mean", c->mean[s]);
        ole_json_numbers(w, "groups", c->auroc[s], c->groups);
        ole_json_close(w);
    }
    ole_json_close(w);
    ole_json_close(w);
}

void novelty_print_json(const novelty_report *r) {
    const ole_novelty *n = r->result;
    ole_json w = ole_json_begin(stdout, 2, '{');
    ole_json_put(&w, J("validation", n->validation_count), J("known", n->known_count),
                 J("novel", n->novel_count), J("accuracy", n->accuracy),
                 J("validation_accuracy", n->validation_accuracy),
                 J("temperature", n->after.temperature),
                 J("temperature_fitted", n->temperature_fitted));
    json_calibration(&w, "before", &n->before);
    json_calibration(&w, "after", &n->after);
    ole_json_open(&w, "scores", '[');
    for (int i = 0; i < OLE_SCORES; i++)
        json_score(&w, &n->score[i]);
    ole_json_close(&w);
    novelty_json_choice(&w, &n->choice);
    ole_json_string(&w, "best", ole_score_name(best_score(n)));
    ole_json_object(
        &w, "stored", J("score", r->stored ? ole_score_name(r->score) : "none"),
        J("threshold", r->stored ? ole_novelty_get(n, r->score)->threshold : (double)NAN));
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
    return put_memory("novelty", path, &memory);
}

/* ---- Figures ------------------------------------------------------------------------------ */

/* The curves of the score in use, of softmax, and of the best others. */
enum { CURVES = 6 };

static int choose_curves(const novelty_report *r, int chosen[CURVES]) {
    const ole_novelty *n = r->result;
    bool taken[OLE_SCORES] = {false};
    int count = 0;
    chosen[count++] = (int)r->score - 1;
    taken[r->score - 1] = true;
    if (!taken[OLE_SCORE_SOFTMAX - 1]) chosen[count++] = OLE_SCORE_SOFTMAX - 1;
    taken[OLE_SCORE_SOFTMAX - 1] = true;
    while (count < CURVES) {
        int best = -1;
        for (int i = 0; i < OLE_SCORES; i++)
            if (!taken[i] && (best < 0 || n->score[i].roc.auroc > n->score[best].roc.auroc))
                best = i;
        taken[best] = true;
        chosen[count++] = best;
    }
    return count;
}

/* Where the axis of accuracy begins: at the curves' lowest point beyond 5 % of the novel samples,
 * in tens.  The strictest thresholds keep no sample, so that each curve begins at 0. */
static double lowest_accuracy(const ole_series *series, int count) {
    double lowest = 90.0;
    for (int i = 0; i < count; i++)
        for (int64_t k = 0; k < series[i].count; k++)
            if (series[i].x[k] >= 5.0) lowest = fmin(lowest, series[i].y[k]);
    return 10.0 * floor(lowest / 10.0);
}

static void draw_curves(figure_output *p, const novelty_report *r) {
    ole_series series[CURVES];
    double x[CURVES][CURVE_POINTS], y[CURVES][CURVE_POINTS];
    int chosen[CURVES], count = choose_curves(r, chosen);
    for (int i = 0; i < count; i++) {
        const ole_novelty_score *s = &r->result->score[chosen[i]];
        series[i] = thin_curve(ole_score_name(s->score), s->roc.points, s->roc.fpr, s->accuracy_at,
                               x[i], y[i]);
        for (int64_t k = 0; k < series[i].count; k++)
            x[i][k] *= 100.0;
    }
    ole_figure figure;
    ole_figure_init(&figure);
    figure.title = "Accuracy on the known against novel samples accepted";
    figure.x_label = "novel samples accepted, %";
    figure.y_label = "accuracy on known samples, %";
    figure.x_min = 0.0;
    figure.x_max = 100.0;
    figure.y_min = lowest_accuracy(series, count);
    figure.y_max = 100.0;
    figure.series = series;
    figure.series_count = count;
    figure_output_add(p, &figure, "novelty",
                      "Each point is a threshold on the score: samples below it are called "
                      "unknown. Up and to the left is better.");
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
    if (s->score <= OLE_SCORE_RESIDUAL || s->score == OLE_SCORE_NECO) { /* a share */
        low = 0.0;
        high = 1.0;
    }
    const ole_series series[2] = {
        share_bars("known", n->known_count, s->known, low, high, BARS, edges, bars[0]),
        share_bars("novel", n->novel_count, s->novel, low, high, BARS, edges, bars[1])};
    char accepted[64] = "";
    bool novel = n->novel_count > 0;
    const ole_short_text title =
        ole_printed("%s: %s", ole_score_name(s->score), ole_score_title(s->score));
    if (novel) snprintf(accepted, sizeof accepted, " and %.1f %% of the novel", s->accepted);
    ole_figure figure;
    ole_figure_init(&figure);
    figure.kind = OLE_FIGURE_HISTOGRAM;
    figure.title = title.text;
    figure.x_label = "score";
    figure.y_label = "share of samples";
    figure.series = series;
    figure.series_count = novel ? 2 : 1;
    const ole_mark threshold = {s->threshold, "threshold"};
    figure.marks = &threshold;
    figure.mark_count = 1;
    figure_output_add(p, &figure, ole_printed("scores-%s", ole_score_name(s->score)).text,
                      ole_printed("%.1f %% of the known%s samples reach the threshold %.4g.%s",
                                  s->kept, accepted, s->threshold,
                                  s->score == r->score ? " This score is used." : "")
                          .text);
}

static void draw_reliability(figure_output *p, const ole_novelty *n) {
    static const double diagonal[2] = {0.0, 1.0};
    const ole_series series[3] = {
        {.name = "before scaling",
         .count = OLE_CALIBRATION_BINS,
         .x = n->before.score,
         .y = n->before.accuracy},
        {.name = "after scaling",
         .count = OLE_CALIBRATION_BINS,
         .x = n->after.score,
         .y = n->after.accuracy},
        {.name = "perfect", .count = 2, .x = diagonal, .y = diagonal, .dotted = true}};
    ole_figure figure;
    ole_figure_init(&figure);
    figure.title = "Reliability";
    figure.x_label = "score";
    figure.y_label = "accuracy";
    figure.x_min = figure.y_min = 0.0;
    figure.x_max = figure.y_max = 1.0;
    figure.series = series;
    figure.series_count = 3;
    figure_output_add(
        p, &figure, "reliability",
        ole_printed("Accuracy against the mean score in %d bins of the score. Expected calibration "
                    "error %.2f %% before and %.2f %% after scaling by the temperature %.4g.",
                    OLE_CALIBRATION_BINS, 100.0 * n->before.ece, 100.0 * n->after.ece,
                    n->after.temperature)
            .text);
}

static void add_table(ole_page *page, const novelty_report *r) {
    const ole_novelty *n = r->result;
    static const char *const names[] = {"score",       "threshold",      "known kept",
                                        "known right", "novel accepted", "AUROC",
                                        "AUPR, known", "AUPR, novel",    "FPR at 95 % TPR"};
    bool novel = n->novel_count > 0;
    ole_text_table table = {.columns = novel ? sizeof names / sizeof *names : 4, .names = names};
    for (int i = 0; i < OLE_SCORES; i++) {
        const ole_novelty_score *s = &n->score[i];
        ole_text_table_add(&table, "%s%s", ole_score_name(s->score),
                           s->score == r->score ? " (used)" : "");
        ole_text_table_add(&table, "%.4g", s->threshold);
        ole_text_table_add(&table, "%.1f %%", s->kept);
        ole_text_table_add(&table, "%.1f %%", s->accuracy);
        if (!novel) continue;
        ole_text_table_add(&table, "%.1f %%", s->accepted);
        ole_text_table_add(&table, "%.4f", s->roc.auroc);
        ole_text_table_add(&table, "%.4f", s->roc.ap_positive);
        ole_text_table_add(&table, "%.4f", s->roc.ap_negative);
        ole_text_table_add(&table, "%.1f %%", 100.0 * s->roc.fpr95);
    }
    ole_text_table_add_to_page(&table, page,
                               novel
                                   ? "At each score's threshold: known samples kept, known "
                                     "samples kept and classified right, novel samples accepted. "
                                     "The section Scores says what each score measures."
                                   : "At each score's threshold: known samples kept, and kept and "
                                     "classified right. The section Scores says what each score "
                                     "measures; --novel tests them on other samples.");
}

int novelty_draw(const novelty_report *r, const figure_options *options) {
    const ole_novelty *n = r->result;
    const ole_novelty_score *s = ole_novelty_get(n, r->score);
    figure_output p;
    if (!figures_requested(options)) return EXIT_DONE;
    int code = figure_output_open(&p, "novelty", options, "Known and novel", r->path);
    if (code != EXIT_DONE) return code;
    bool novel = n->novel_count > 0;
    if (novel) {
        ole_score best = best_score(n);
        ole_page_headline(p.page, "AUROC", ole_printed("%.4f", s->roc.auroc).text,
                          ole_score_title(r->score));
        ole_page_headline(
            p.page, "best here", ole_score_name(best),
            ole_printed("AUROC %.4f on these novel samples", n->score[best - 1].roc.auroc).text);
        ole_page_headline(p.page, "novel samples accepted",
                          ole_printed("%.1f %%", s->accepted).text,
                          ole_printed("while %.1f %% of the known ones are kept", s->kept).text);
    } else {
        ole_page_headline(p.page, "samples kept", ole_printed("%.1f %%", s->kept).text,
                          "of the known");
    }
    ole_page_headline(p.page, "calibration error",
                      ole_printed("%.2f %%", 100.0 * n->after.ece).text,
                      ole_printed("%.2f %% before scaling", 100.0 * n->before.ece).text);
    ole_page_section(p.page, novel ? "Known against novel" : "Thresholds");
    if (novel) draw_curves(&p, r);
    add_table(p.page, r);
    if (n->choice.groups > 0) ole_page_add_choice(p.page, &n->choice);
    ole_page_section(p.page, "Scores");
    for (int i = 0; i < OLE_SCORES; i++)
        draw_histogram(&p, r, i);
    ole_page_section(p.page, "Calibration");
    draw_reliability(&p, n);
    return figure_output_close(&p);
}
