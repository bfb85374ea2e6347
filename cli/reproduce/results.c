/*
 * cli/reproduce/results.c - the paper's numbers and ours: results.json, results.md, report.html and
 * the printed table of a folder of `ole reproduce`.
 *
 * Errors come from the studies; what training does not measure comes from numbers.csv.  The files
 * are rewritten from what the folder holds after each run, so several commands can add to one
 * folder, and it can be read while one is at work.
 */
#include "reproduce/reproduce.h"

#include "common/common.h"
#include "study/by_kind.h"
#include <ole/train/history.h>

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A line of the table. */
typedef struct line {
    char measure[80];
    const char *unit; /* "%", "°" or "" */
    ole_study_error paper[SIDES], ours[SIDES];
    int64_t runs[SIDES], diverged[SIDES]; /* in the mean; not in it */
} line;

/* What a row's folder holds.  One that cannot be read has a reason in `why`, and no command. */
enum { MOST_LINES = 24 };
typedef struct outcome {
    char name[RECIPE_NAME];
    ole_error why;
    row row;
    line lines[MOST_LINES];
    int count;
    int64_t diverged;          /* runs */
    double seconds;            /* of all that ended */
    double chosen;             /* λ of a tuning; NaN */
    int64_t samples[2];        /* of training and test; 0: not recorded */
    char changes[ROW_TEXT];    /* from the recipe */
    char made[64], device[40]; /* "cpu and cuda, bf16"; without the precision */
    char date[32];             /* of the last run */
    char *command;             /* that makes it again */
} outcome;

typedef struct outcomes {
    outcome *item;
    int count;
} outcomes;

/* ---- The lines of a row ------------------------------------------------------------------- */

/* The line of a measure, which is added where there is none.  The last one takes what is too much.
 */
static line *line_of(outcome *o, const char *measure, const char *unit) {
    const ole_study_error nothing = {NAN, NAN};
    for (line *l = o->lines; l < o->lines + o->count; l++)
        if (strcmp(l->measure, measure) == 0) return l;
    if (o->count < MOST_LINES) o->count++;
    line *l = &o->lines[o->count - 1];
    *l = (line){.unit = unit, .paper = {nothing, nothing}, .ours = {nothing, nothing}};
    snprintf(l->measure, sizeof l->measure, "%s", measure);
    return l;
}

/* Ours of a point's side; `accuracy`: 100 less an error. */
static void set_ours(outcome *o, const char *measure, const ole_study_point *point,
                     ole_study_error error, bool accuracy) {
    line *l = line_of(o, measure, "%");
    int side = point->lambda > 0.0 ? WITH_OLE : SOFTMAX;
    l->ours[side] = (ole_study_error){accuracy ? 100.0 - error.mean : error.mean, error.std};
    l->runs[side] = point->finished;
    l->diverged[side] = point->diverged;
}

/* The errors at the end of training.  OLÉ alone has no classifier: those of 1-NN, of a comparison
 * also of the best run, as the paper reports it. */
static void add_points(outcome *o) {
    const ole_study_result *s = &o->row.study;
    recipe_kind kind = (recipe_kind)o->row.asked.kind;
    bool alone = row_is_alone(&o->row), tuned = kind == RECIPE_TUNE;
    if (tuned && s->picked < 0) return;
    if (tuned) o->chosen = s->points[s->picked].lambda;
    for (const ole_study_point *p = s->points; p < s->points + s->point_count; p++) {
        if (tuned && p->lambda > 0.0 && p->lambda != o->chosen) continue;
        if (tuned && p->part == OLE_STUDY_GRID) {
            set_ours(o, "validation error", p, p->validation, false);
        } else if (tuned) {
            set_ours(o, alone ? "error of 1-NN" : "test error", p, alone ? p->knn1 : p->test, 0);
        } else if (kind == RECIPE_SWEEP) {
            const ole_short_text name = ole_printed("accuracy%s, %" PRId64 " samples per class",
                                                    alone ? " of 1-NN" : "", p->samples);
            set_ours(o, name.text, p, alone ? p->knn1 : p->test, true);
        } else if (alone) {
            ole_study_error best = {NAN, NAN};
            for (int64_t i = 0; i < s->run_count; i++)
                if (&s->points[s->runs[i].point] == p)
                    best.mean = fmin(best.mean, s->runs[i].knn1_error); /* NaNs lose */
            set_ours(o, "accuracy of 1-NN, best run", p, best, true);
            set_ours(o, "accuracy of 1-NN, all runs, last epoch", p, p->knn1, true);
        } else if (!o->row.asked.from) {
            set_ours(o, "test error", p, p->test, false);
            set_ours(o, "error of 1-NN", p, p->knn1, false);
        }
    }
    if (o->count > 0 && !tuned && kind != RECIPE_SWEEP)
        memcpy(o->lines[0].paper, o->row.asked.reported, sizeof o->lines[0].paper);
}

/* A line for each measure of runs, in the order of the file. */
static void add_measures(outcome *o) {
    const ole_measures *m = &o->row.measures;
    for (const ole_measure *item = m->items; item < m->items + m->count; item++) {
        int side = item->run.side;
        if (side == OLE_SIDE_NONE || strcmp(item->name, OLE_MEASURE_FIGURES) == 0) continue;
        bool bare = strstr(item->name, "rank") || strstr(item->name, "loss");
        line *l = line_of(o, item->name, strstr(item->name, "angle") ? "°" : bare ? "" : "%");
        ole_spread spread = ole_measures_spread(m, side, item->name);
        l->runs[side] = spread.count;
        l->ours[side] = (ole_study_error){ole_spread_mean(&spread), ole_spread_deviation(&spread)};
        if (o->row.asked.kind == RECIPE_NOVELTY) /* measured for every seed, like the errors */
            memcpy(l->diverged, o->lines[0].diverged, sizeof l->diverged);
    }
}

static void read_runs(outcome *o) {
    const ole_study_result *s = &o->row.study;
    for (const ole_study_run *run = s->runs; run < s->runs + s->run_count; run++) {
        char folder[ROW_PATH];
        ole_history h;
        join_path(folder, o->row.runs_folder, run->folder);
        o->diverged += run->state == OLE_STUDY_DIVERGED;
        if (isfinite(run->seconds)) o->seconds += run->seconds;
        if (run->state != OLE_STUDY_FINISHED || ole_history_read(&h, folder, NULL) != OLE_OK)
            continue;
        size_t used = strlen(o->device), room = sizeof o->device - used;
        if (h.device[0] && !strstr(o->device, h.device))
            snprintf(o->device + used, room, "%s%s", used ? " and " : "", h.device);
        if (strcmp(h.date, o->date) > 0) snprintf(o->date, sizeof o->date, "%s", h.date);
        ole_history_free(&h);
    }
    snprintf(o->made, sizeof o->made, "%s, %.20s", *o->device ? o->device : "-",
             row_precision(&o->row));
}

/* What is not as in the recipe. */
static void read_changes(outcome *o) {
    const row *r = &o->row;
    const ole_train_options *is = &r->train, *was = &r->runs->train;
    char part[ROW_TEXT];
    row_read_samples(r, o->samples, part);
    if (is->epochs != was->epochs)
        add_item(o->changes, "%" PRId64 " of %" PRId64 " epochs", is->epochs, was->epochs);
    if (is->samples_per_class != was->samples_per_class)
        add_item(o->changes, "%" PRId64 " samples per class", is->samples_per_class);
    if (is->precision && (!was->precision || strcmp(is->precision, was->precision) != 0))
        add_item(o->changes, "%.20s", is->precision);
    if (*part) add_item(o->changes, "%s", part);
}

/* The command that makes a row again.  --quick alone takes other samples than the recipe. */
static void put_command(FILE *to, const row *r, const char *out) {
    const ole_train_options *is = &r->train, *was = &r->runs->train;
    const recipe *p = r->runs;
    char path[ROW_PATH];
    bool quick = is->samples_per_class != was->samples_per_class;
    for (int64_t i = 0; i < r->study.point_count && p->sample_count > 0; i++) {
        int k = 0;
        while (k < p->sample_count && p->samples[k] != r->study.points[i].samples)
            k++;
        quick |= k == p->sample_count;
    }
    join_path(path, r->folder, "recipe.yaml");
    fprintf(to, "ole reproduce");
    put_word(to, recipe_is_original(&r->asked) ? r->asked.name : path);
    fprintf(to, "%s --seeds %" PRId64, quick ? " --quick" : "", is->seeds);
    if (is->epochs != (quick ? QUICK_EPOCHS : was->epochs))
        fprintf(to, " --epochs %" PRId64, is->epochs);
    if (is->eval_every != (quick ? QUICK_EPOCHS : was->eval_every))
        fprintf(to, " --eval-every %" PRId64, is->eval_every);
    if (is->precision && strcmp(is->precision, was->precision ? was->precision : "fp32") != 0)
        fprintf(to, " --precision %s", is->precision);
    if (strcmp(out, quick ? "reproduced-quick" : "reproduced") == 0) return;
    fprintf(to, " --out");
    put_word(to, out);
}

/* False: the row has not begun. */
static bool read_outcome(outcome *o, const char *name, const char *out) {
    ole_memory_file text;
    *o = (outcome){.chosen = NAN};
    snprintf(o->name, sizeof o->name, "%.*s", RECIPE_NAME - 1, name);
    if (!row_open_made(&o->row, name, out)) return false;
    if (!row_read(&o->row, o->row.folder, &o->why)) return true;
    read_runs(o);
    read_changes(o);
    add_points(o);
    add_measures(o);
    if (ole_memory_file_open(&text)) put_command(text.file, &o->row, out);
    o->command = ole_memory_file_close(&text);
    return o->command != NULL;
}

/* ---- All rows of the folder --------------------------------------------------------------- */

/* In the paper's order; for scandir(). */
static int compare_entries(const struct dirent **a, const struct dirent **b) {
    int first = recipe_find((*a)->d_name), second = recipe_find((*b)->d_name);
    if (first < 0) first = recipe_count(); /* the user's own come last */
    if (second < 0) second = recipe_count();
    return first != second ? first - second : strcmp((*a)->d_name, (*b)->d_name);
}

static int is_candidate(const struct dirent *entry) {
    return entry->d_name[0] != '.' && strlen(entry->d_name) < RECIPE_NAME;
}

static void free_outcome(outcome *o) {
    row_close(&o->row);
    free(o->command);
}

static void close_all(outcomes *all) {
    for (int i = 0; i < all->count; i++)
        free_outcome(&all->item[i]);
    free(all->item);
}

static bool open_all(outcomes *all, const char *out) {
    struct dirent **entries = NULL;
    int count = scandir(out, &entries, is_candidate, compare_entries);
    *all = (outcomes){.item = calloc((size_t)(count > 0 ? count : 0) + 1, sizeof *all->item)};
    for (int i = 0; i < count; i++) {
        if (all->item && read_outcome(&all->item[all->count], entries[i]->d_name, out))
            all->count++;
        else if (all->item)
            free_outcome(&all->item[all->count]);
        free(entries[i]);
    }
    free(entries);
    return all->item || refuse("reproduce", "out of memory");
}

/* ---- results.json ------------------------------------------------------------------------- */

static void put_line(ole_json *w, const line *l) {
    ole_json_open(w, NULL, '{');
    ole_json_put(w, J("measure", l->measure), J("unit", l->unit));
    for (int ours = 0; ours < 2; ours++) {
        ole_json_open(w, ours ? "ours" : "paper", '{');
        for (int side = 0; side < SIDES; side++) {
            const ole_study_error *e = ours ? &l->ours[side] : &l->paper[side];
            ole_json_open(w, ole_side_name(side), '{');
            ole_json_put(w, J("mean", e->mean), J("std", e->std));
            if (ours) ole_json_put(w, J("runs", l->runs[side]), J("diverged", l->diverged[side]));
            ole_json_close(w);
        }
        ole_json_close(w);
    }
    ole_json_close(w);
}

static void put_row(ole_json *w, const outcome *o) {
    const recipe *p = &o->row.asked;
    const ole_study_result *s = &o->row.study;
    ole_json_open(w, NULL, '{');
    ole_json_put(w, J("name", o->name), J("shows", p->shows), J("title", p->title),
                 J("command", o->command), J("changes", o->changes), J("runs", s->total),
                 J("ended", s->ended), J("diverged", o->diverged),
                 J("complete", (bool)(s->ended == s->total)), J("epochs", o->row.train.epochs),
                 J("seeds", o->row.train.seeds), J("train_samples", o->samples[0]),
                 J("test_samples", o->samples[1]), J("seconds", o->seconds), J("device", o->device),
                 J("precision", row_precision(&o->row)), J("date", o->date));
    if (p->kind == RECIPE_TUNE)
        ole_json_put(w, J("lambda_paper", p->chosen), J("lambda_ours", o->chosen));
    ole_json_open(w, "measures", '[');
    for (int i = 0; i < o->count; i++)
        put_line(w, &o->lines[i]);
    ole_json_close(w);
    ole_json_close(w);
}

static bool print_json(const outcomes *all, FILE *file) {
    ole_json w = ole_json_begin(file, 2, '{');
    ole_json_open(&w, "rows", '[');
    for (int i = 0; i < all->count; i++)
        if (all->item[i].command) put_row(&w, &all->item[i]);
    ole_json_close(&w);
    ole_json_open(&w, "unread", '[');
    for (int i = 0; i < all->count; i++)
        if (!all->item[i].command)
            ole_json_object(&w, NULL, J("name", all->item[i].name),
                            J("reason", all->item[i].why.message));
    ole_json_close(&w);
    ole_json_close(&w);
    return ole_json_good(&w);
}

/* ---- The table, and the words below it ------------------------------------------------------ */

static const char *const column_names[] = {
    "row",           "of the paper",   "measure", "paper: softmax", "paper: with OLÉ",
    "ours: softmax", "ours: with OLÉ", "runs",    "made on",        "last run",
    "differs"};

enum { COLUMNS = sizeof column_names / sizeof *column_names };

/* "3", or "2 and 1 (0 and 1 diverged)" of the two sides. */
static ole_short_text count_text(const line *l) {
    const int64_t *runs = l->runs, *diverged = l->diverged;
    if (diverged[SOFTMAX] + diverged[WITH_OLE] > 0)
        return ole_printed("%" PRId64 " and %" PRId64 " (%" PRId64 " and %" PRId64 " diverged)",
                           runs[SOFTMAX], runs[WITH_OLE], diverged[SOFTMAX], diverged[WITH_OLE]);
    if (runs[SOFTMAX] != runs[WITH_OLE])
        return ole_printed("%" PRId64 " and %" PRId64, runs[SOFTMAX], runs[WITH_OLE]);
    return ole_printed("%" PRId64, runs[WITH_OLE]);
}

static void add_lines(ole_text_table *t, const outcome *o) {
    for (const line *l = o->lines; l < o->lines + o->count; l++)
        ole_text_table_row(t, "%s|%s|%s%s%s|%s|%s|%s|%s|%s|%s|%.10s|%s", o->name,
                           o->row.asked.shows, l->measure, *l->unit ? ", " : "", l->unit,
                           ole_study_error_text(l->paper[SOFTMAX], "").text,
                           ole_study_error_text(l->paper[WITH_OLE], "").text,
                           ole_study_error_text(l->ours[SOFTMAX], "").text,
                           ole_study_error_text(l->ours[WITH_OLE], "").text, count_text(l).text,
                           o->made, o->date, o->changes);
}

static ole_text_table table_of(const outcomes *all) {
    ole_text_table table = {.columns = COLUMNS, .names = column_names};
    for (int i = 0; i < all->count; i++)
        add_lines(&table, &all->item[i]);
    return table;
}

/* "6 of 6 runs, 1 of them diverged, 3 min in all, on cuda in bf16, the last on 2018-06-18; 5000
 * training samples, 8000 test samples. λ chosen on the validation set: 0.25; the paper's: 0.25." */
static void print_runs(const outcome *o, FILE *file) {
    const ole_study_result *s = &o->row.study;
    fprintf(file, "%" PRId64 " of %" PRId64 " runs", s->ended, s->total);
    if (o->diverged > 0) fprintf(file, ", %" PRId64 " of them diverged", o->diverged);
    fprintf(file, ", %s in all", duration_text(o->seconds).text);
    if (*o->device)
        fprintf(file, ", on %s in %s, the last on %.10s", o->device, row_precision(&o->row),
                o->date);
    fprintf(file, "; %" PRId64 " training samples, %" PRId64 " test samples.", o->samples[0],
            o->samples[1]);
    if (!isfinite(o->chosen)) return;
    fprintf(file, " λ chosen on the validation set: %g", o->chosen);
    if (isfinite(o->row.asked.chosen)) fprintf(file, "; the paper's: %g", o->row.asked.chosen);
    fprintf(file, ".");
}

static bool print_markdown(const outcomes *all, FILE *file) {
    ole_text_table table = table_of(all);
    fprintf(file, "# The paper and ours\n\nErrors and accuracies in %%, at the end of training; "
                  "mean ± standard deviation over the seeds.\n\n");
    ole_text_table_print_markdown(&table, file);
    ole_text_table_free(&table);
    for (const outcome *o = all->item; o < all->item + all->count; o++) {
        const recipe *p = &o->row.asked;
        if (!o->command) continue;
        fprintf(file, "\n## %s: %s\n\n    %s\n\n", p->shows, p->title, o->command);
        print_runs(o, file);
        if (p->reports) fprintf(file, " The paper: %s.", p->reports);
        fprintf(file, "%s%s\n", p->note ? " " : "", p->note ? p->note : "");
    }
    for (const outcome *o = all->item; o < all->item + all->count; o++)
        if (!o->command) fprintf(file, "\n## %s\n\nCannot be read: %s\n", o->name, o->why.message);
    return !table.out_of_memory;
}

/* ---- report.html -------------------------------------------------------------------------- */

/* Where the figures are, and whether they show runs that were trained again since. */
static void add_figures(ole_page *page, const outcome *o) {
    const ole_measures *m = &o->row.measures;
    bool current = false;
    if (!ole_run_has(o->row.folder, "figures.html")) return;
    for (int i = 0; i < m->count; i++)
        current |= strcmp(m->items[i].name, OLE_MEASURE_FIGURES) == 0;
    ole_page_text(
        page,
        ole_printed("Figures: %s/figures.html, and files in %s/figures%s.", o->name, o->name,
                    current && !m->old_figures
                        ? ""
                        : ", drawn before some runs were trained again: the command redraws them")
            .text);
}

static void add_row(ole_page *page, const outcome *o) {
    const recipe *p = &o->row.asked;
    const ole_study_options study = row_study(&o->row);
    ole_memory_file runs;
    ole_error error;
    ole_page_section(page, ole_printed("%.90s: %.90s", p->shows, p->title).text);
    ole_page_text(page, o->command);
    if (ole_memory_file_open(&runs)) {
        print_runs(o, runs.file);
        if (*o->changes) fprintf(runs.file, " Not as in the recipe: %s.", o->changes);
    }
    char *paragraph = ole_memory_file_close(&runs);
    if (paragraph)
        ole_page_text(page, paragraph);
    else
        ole_page_fail(page, OLE_ERROR_MEMORY, "page: out of memory");
    free(paragraph);
    if (p->note) ole_page_text(page, p->note);
    add_figures(page, o);
    if (p->kind != RECIPE_FEATURES && o->row.study.ended > 0 &&
        ole_study_add_curve(page, row_study_kind(&o->row), &study, &error) == OLE_ERROR_MEMORY)
        ole_page_fail(page, OLE_ERROR_MEMORY, error.message);
}

static void fill_page(ole_page *page, const outcomes *all) {
    int64_t ended = 0, total = 0, diverged = 0;
    double seconds = 0.0;
    for (const outcome *o = all->item; o < all->item + all->count; o++) {
        if (o->row.asked.from) continue; /* another row's runs */
        ended += o->row.study.ended;
        total += o->row.study.total;
        diverged += o->diverged;
        seconds += o->seconds;
    }
    ole_page_headline(page, "runs", ole_printed("%" PRId64 " of %" PRId64, ended, total).text,
                      ole_printed("%s of training", duration_text(seconds).text).text);
    if (diverged > 0)
        ole_page_headline(page, "diverged", ole_printed("%" PRId64, diverged).text,
                          "runs, excluded from the means");
    ole_page_section(page, "Paper and ours");
    ole_text_table table = table_of(all);
    ole_text_table_add_to_page(
        &table, page,
        "At the end of training; mean ± standard deviation over the seeds. "
        "Nothing is chosen on a test set except the 'best run', which is how the "
        "paper reports it.");
    for (int i = 0; i < all->count; i++)
        if (all->item[i].command) add_row(page, &all->item[i]);
    for (int i = 0; i < all->count; i++) {
        if (all->item[i].command) continue;
        ole_page_section(page, all->item[i].name);
        ole_page_text(page, all->item[i].why.message);
    }
}

/* ---- All of them -------------------------------------------------------------------------- */

static ole_status write_page(const outcomes *all, const char *out, ole_error *error) {
    char path[ROW_PATH];
    ole_page *page;
    join_path(path, out, "report.html");
    ole_status status = ole_page_create(&page, "The paper, reproduced",
                                        "OLÉ: Orthogonal Low-rank Embedding, 2018", error);
    if (status != OLE_OK) return status;
    fill_page(page, all);
    status = ole_page_write(page, path, error);
    ole_page_free(page);
    return status;
}

static ole_status write_text(const outcomes *all, const char *out, const char *name,
                             bool (*print)(const outcomes *, FILE *), ole_error *error) {
    ole_memory_file memory;
    if (ole_memory_file_open(&memory)) memory.failed |= !print(all, memory.file);
    return ole_run_put_memory(out, name, &memory, error);
}

bool write_results(const char *out) {
    outcomes all;
    ole_error error;
    if (!open_all(&all, out)) return false;
    /* The page first: with it in the folder, the others are known to be ours. */
    ole_status status = write_page(&all, out, &error);
    if (status == OLE_OK) status = write_text(&all, out, "results.json", print_json, &error);
    if (status == OLE_OK) status = write_text(&all, out, "results.md", print_markdown, &error);
    if (status != OLE_OK) fail_command("reproduce", "%s", error.message);
    close_all(&all);
    return status == OLE_OK;
}

/* ---- The printed table -------------------------------------------------------------------- */

/* The lines of a row under its name, narrower than in the files: they fit a terminal. */
static void add_printed(ole_text_table *t, const outcome *o) {
    if (o->count == 0 && !isfinite(o->chosen)) return;
    ole_text_table_row(t, "%s: %s, %.10s%s%s|||||", o->name, o->made, o->date,
                       *o->changes ? "; " : "", o->changes);
    for (const line *l = o->lines; l < o->lines + o->count; l++)
        ole_text_table_row(t, "  %s%s%s|%s|%s|%s|%s|%s", l->measure, *l->unit ? ", " : "", l->unit,
                           ole_study_error_text(l->paper[SOFTMAX], "").text,
                           ole_study_error_text(l->paper[WITH_OLE], "").text,
                           ole_study_error_text(l->ours[SOFTMAX], "").text,
                           ole_study_error_text(l->ours[WITH_OLE], "").text, count_text(l).text);
    double paper = o->row.asked.chosen;
    if (isfinite(o->chosen))
        ole_text_table_row(t, "  lambda chosen||%s||%g|",
                           isfinite(paper) ? ole_printed("%g", paper).text : "", o->chosen);
}

/* Rows without numbers, such as learning curves, print nothing. */
void print_results(const char *out, const char *const *names, int count) {
    static const char *const printed[] = {"row and measure", "paper:",   "with OLÉ",
                                          "ours:",           "with OLÉ", "runs"};
    enum { NUMBER = 13, PRINTED = sizeof printed / sizeof *printed };
    int widths[PRINTED] = {20, NUMBER, NUMBER, NUMBER, NUMBER, 1};
    outcomes all;
    ole_text_table table = {.columns = PRINTED, .names = printed};
    if (!open_all(&all, out)) return;
    for (const outcome *o = all.item; o < all.item + all.count; o++) {
        bool asked = count == 0;
        for (int k = 0; k < count; k++)
            asked |= strcmp(names[k], o->name) == 0;
        if (!o->command)
            fail_command("reproduce", "row %s is not in the results: %s", o->name, o->why.message);
        if (asked) add_printed(&table, o);
    }
    for (int64_t i = 0; i < table.count; i += PRINTED)
        if (table.cells[i][0] == ' ' && (int)strlen(table.cells[i]) >= widths[0])
            widths[0] = (int)strlen(table.cells[i]) + 1;
    if (table.count > 0) print_table(&table, widths);
    close_all(&all);
}
