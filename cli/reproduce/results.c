/*
 * cli/reproduce/results.c - results.json, results.md, report.html and the printed table of a folder
 * of `ole reproduce`: four views of the rows' outcomes.
 *
 * The files are rewritten from what the folder holds after each run, so several commands can add to
 * one folder, and it can be read while one is at work.
 */
#include "reproduce/reproduce.h"

#include "common/common.h"
#include "formats/json.h"
#include "report/text_table.h"
#include "study/by_kind.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- What the folder holds ---------------------------------------------------------------- */

typedef struct all_rows {
    outcomes *item;
    int count;
} all_rows;

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

static void close_rows(all_rows *all) {
    for (int i = 0; i < all->count; i++)
        outcomes_free(&all->item[i]);
    free(all->item);
}

static bool open_rows(all_rows *all, const char *out) {
    struct dirent **entries = NULL;
    int count = scandir(out, &entries, is_candidate, compare_entries);
    *all = (all_rows){.item = calloc((size_t)(count > 0 ? count : 0) + 1, sizeof *all->item)};
    for (int i = 0; i < count; i++) {
        char path[ROW_PATH];
        join_path(path, out, entries[i]->d_name);
        if (all->item && ole_run_has(path, "recipe.yaml")) {
            if (outcomes_read(&all->item[all->count], entries[i]->d_name, out))
                all->count++;
            else
                outcomes_free(&all->item[all->count]);
        }
        free(entries[i]);
    }
    free(entries);
    if (!all->item) fail_command("reproduce", "out of memory");
    return all->item != NULL;
}

/* ---- results.json ------------------------------------------------------------------------- */

static void put_line(ole_json *w, const outcome *line) {
    ole_json_open(w, NULL, '{');
    ole_json_put(w, J("measure", line->measure), J("unit", line->unit));
    for (int ours = 0; ours < 2; ours++) {
        ole_json_open(w, ours ? "ours" : "paper", '{');
        for (int side = 0; side < SIDES; side++) {
            const ole_study_error *e = ours ? &line->ours[side] : &line->paper[side];
            ole_json_open(w, ole_side_name(side), '{');
            ole_json_put(w, J("mean", e->mean), J("std", e->std));
            if (ours) ole_json_integer(w, "runs", line->runs[side]);
            if (ours) ole_json_integer(w, "diverged", line->diverged[side]);
            ole_json_close(w);
        }
        ole_json_close(w);
    }
    ole_json_close(w);
}

static void put_row(ole_json *w, const outcomes *o) {
    const recipe *p = &o->row.asked;
    const ole_study_result *s = &o->row.study;
    ole_json_open(w, NULL, '{');
    ole_json_put(w, J("name", o->name), J("shows", p->shows), J("title", p->title),
                 J("command", o->command), J("changes", o->changes), J("runs", s->total),
                 J("ended", s->ended), J("diverged", o->diverged),
                 J("complete", (bool)(s->ended == s->total)), J("epochs", o->row.train.epochs),
                 J("seeds", o->row.train.seeds), J("train_samples", o->samples[0]),
                 J("test_samples", o->samples[1]), J("seconds", o->seconds),
                 J("device", o->devices), J("precision", row_precision(&o->row)),
                 J("date", o->date));
    if (p->kind == RECIPE_TUNE)
        ole_json_put(w, J("lambda_paper", p->chosen), J("lambda_ours", o->chosen));
    ole_json_open(w, "measures", '[');
    for (int i = 0; i < o->count; i++)
        put_line(w, &o->item[i]);
    ole_json_close(w);
    ole_json_close(w);
}

static bool print_json(const all_rows *all, FILE *file) {
    ole_json w = ole_json_begin(file, 2, '{');
    ole_json_open(&w, "rows", '[');
    for (int i = 0; i < all->count; i++)
        if (all->item[i].command) put_row(&w, &all->item[i]);
    ole_json_close(&w);
    ole_json_open(&w, "unread", '[');
    for (int i = 0; i < all->count; i++) {
        if (all->item[i].command) continue;
        ole_json_object(&w, NULL, J("name", all->item[i].name),
                        J("reason", all->item[i].why.message));
    }
    ole_json_close(&w);
    ole_json_close(&w);
    return ole_json_good(&w);
}

/* ---- The table ---------------------------------------------------------------------------- */

static const char *const column_names[] = {
    "row",           "of the paper",   "measure", "paper: softmax", "paper: with OLÉ",
    "ours: softmax", "ours: with OLÉ", "runs",    "made on",        "last run",
    "differs"};

/* Widths of the columns that are printed. */
static const int widths[] = {24, 0, 42, 17, 17, 17, 17, 8, 14, 13, 1};

enum { COLUMNS = sizeof widths / sizeof *widths };

static void add_lines(ole_text_table *t, const outcomes *o) {
    for (const outcome *line = o->item; line < o->item + o->count; line++) {
        const int64_t *runs = line->runs, *diverged = line->diverged;
        char count[64], lost[64] = "";
        snprintf(count, sizeof count, "%" PRId64, runs[WITH_OLE]);
        if (diverged[SOFTMAX] + diverged[WITH_OLE] > 0)
            snprintf(lost, sizeof lost, " (%" PRId64 " and %" PRId64 " diverged)",
                     diverged[SOFTMAX], diverged[WITH_OLE]);
        if (*lost || runs[SOFTMAX] != runs[WITH_OLE])
            snprintf(count, sizeof count, "%" PRId64 " and %" PRId64, runs[SOFTMAX],
                     runs[WITH_OLE]);
        ole_text_table_row(t, "%s|%s|%s%s%s|%s|%s|%s|%s|%s%s|%s, %s|%.10s|%s", o->name,
                           o->row.asked.shows, line->measure, *line->unit ? ", " : "", line->unit,
                           ole_study_error_text(line->paper[SOFTMAX], "").text,
                           ole_study_error_text(line->paper[WITH_OLE], "").text,
                           ole_study_error_text(line->ours[SOFTMAX], "").text,
                           ole_study_error_text(line->ours[WITH_OLE], "").text, count, lost,
                           *o->devices ? o->devices : "-", row_precision(&o->row), o->date,
                           o->changes);
    }
}

static ole_text_table table_of(const all_rows *all) {
    ole_text_table table = {.columns = COLUMNS, .names = column_names};
    for (int i = 0; i < all->count; i++)
        add_lines(&table, &all->item[i]);
    return table;
}

/* "6 of 6 runs, 1 of them diverged, 3 min in all, on cuda in bf16, the last on 2018-06-18; 5000
 * training samples, 8000 test samples. λ chosen on the validation set: 0.25; the paper's: 0.25." */
static void print_runs(const outcomes *o, FILE *file) {
    const ole_study_result *s = &o->row.study;
    char time[32];
    fprintf(file, "%" PRId64 " of %" PRId64 " runs", s->ended, s->total);
    if (o->diverged > 0) fprintf(file, ", %" PRId64 " of them diverged", o->diverged);
    fprintf(file, ", %s in all", duration_text(o->seconds, time));
    if (o->devices[0])
        fprintf(file, ", on %s in %s, the last on %.10s", o->devices, row_precision(&o->row),
                o->date);
    fprintf(file, "; %" PRId64 " training samples, %" PRId64 " test samples.", o->samples[0],
            o->samples[1]);
    if (isfinite(o->chosen)) {
        fprintf(file, " λ chosen on the validation set: %g", o->chosen);
        if (isfinite(o->row.asked.chosen)) fprintf(file, "; the paper's: %g", o->row.asked.chosen);
        fprintf(file, ".");
    }
}

/* ---- results.md --------------------------------------------------------------------------- */

static bool print_markdown(const all_rows *all, FILE *file) {
    ole_text_table table = table_of(all);
    fprintf(file, "# The paper and ours\n\nErrors and accuracies in %%, at the end of training; "
                  "mean ± standard deviation over the seeds.\n\n");
    ole_text_table_print_markdown(&table, file);
    ole_text_table_free(&table);
    for (int i = 0; i < all->count; i++) {
        const outcomes *o = &all->item[i];
        const recipe *p = &o->row.asked;
        if (!o->command) continue;
        fprintf(file, "\n## %s: %s\n\n    %s\n\n", p->shows, p->title, o->command);
        print_runs(o, file);
        if (p->reports) fprintf(file, " The paper: %s.", p->reports);
        fprintf(file, "%s%s\n", p->note ? " " : "", p->note ? p->note : "");
    }
    for (int i = 0; i < all->count; i++)
        if (!all->item[i].command)
            fprintf(file, "\n## %s\n\nCannot be read: %s\n", all->item[i].name,
                    all->item[i].why.message);
    return !table.out_of_memory;
}

/* ---- report.html -------------------------------------------------------------------------- */

static void add_row(ole_page *page, const outcomes *o) {
    const recipe *p = &o->row.asked;
    char heading[200], text[400];
    ole_memory_file runs;
    snprintf(heading, sizeof heading, "%.90s: %.90s", p->shows, p->title);
    ole_page_section(page, heading);
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
    if (o->figures != FIGURES_NONE) {
        snprintf(text, sizeof text, "Figures: %s/figures.html, and files in %s/figures%s.", o->name,
                 o->name,
                 o->figures == FIGURES_OLD
                     ? ", drawn before some runs were trained again: the command redraws them"
                     : "");
        ole_page_text(page, text);
    }
    const ole_study_options study = row_study(&o->row);
    ole_error error;
    if (p->kind != RECIPE_FEATURES && o->row.study.ended > 0 &&
        ole_study_add_curve(page, row_study_kind(&o->row), &study, &error) == OLE_ERROR_MEMORY)
        ole_page_fail(page, OLE_ERROR_MEMORY, error.message);
}

static void fill_page(ole_page *page, const all_rows *all) {
    int64_t ended = 0, total = 0, diverged = 0;
    char value[64], note[64], time[32];
    double seconds = 0.0;
    for (const outcomes *o = all->item; o < all->item + all->count; o++) {
        if (o->row.asked.from) continue; /* another row's runs */
        ended += o->row.study.ended;
        total += o->row.study.total;
        diverged += o->diverged;
        seconds += o->seconds;
    }
    snprintf(value, sizeof value, "%" PRId64 " of %" PRId64, ended, total);
    snprintf(note, sizeof note, "%s of training", duration_text(seconds, time));
    ole_page_headline(page, "runs", value, note);
    snprintf(value, sizeof value, "%" PRId64, diverged);
    if (diverged > 0) ole_page_headline(page, "diverged", value, "runs, excluded from the means");
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

static ole_status write_page(const all_rows *all, const char *out, ole_error *error) {
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

static ole_status write_text(const all_rows *all, const char *out, const char *name,
                             bool (*print)(const all_rows *, FILE *), ole_error *error) {
    ole_memory_file memory;
    if (ole_memory_file_open(&memory)) memory.failed |= !print(all, memory.file);
    return ole_run_put_memory(out, name, &memory, error);
}

bool write_results(const char *out) {
    all_rows all;
    ole_error error;
    if (!open_rows(&all, out)) return false;
    /* The page first: with it in the folder, the others are known to be ours. */
    ole_status status = write_page(&all, out, &error);
    if (status == OLE_OK) status = write_text(&all, out, "results.json", print_json, &error);
    if (status == OLE_OK) status = write_text(&all, out, "results.md", print_markdown, &error);
    if (status != OLE_OK) fail_command("reproduce", "%s", error.message);
    close_rows(&all);
    return status == OLE_OK;
}

/* Rows without numbers, such as learning curves, print nothing. */
void print_results(const char *out, const char *const *names, int count) {
    all_rows all;
    ole_text_table table = {.columns = COLUMNS, .names = column_names};
    if (!open_rows(&all, out)) return;
    for (int i = 0; i < all.count; i++) {
        const outcomes *o = &all.item[i];
        bool asked = count == 0;
        for (int k = 0; k < count; k++)
            asked |= strcmp(names[k], o->name) == 0;
        if (!o->command)
            fail_command("reproduce", "row %s is not in the results: %s", o->name, o->why.message);
        if (!asked) continue;
        add_lines(&table, o);
        char paper[32] = "";
        if (isfinite(o->row.asked.chosen)) snprintf(paper, sizeof paper, "%g", o->row.asked.chosen);
        if (isfinite(o->chosen))
            ole_text_table_row(&table, "%s||lambda chosen||%s||%g", o->name, paper, o->chosen);
    }
    if (table.count > 0) print_table(&table, widths);
    close_rows(&all);
}
