/*
 * cli/reproduce/results.c - results.json, results.md, report.html and the printed table of a folder
 * of `ole reproduce`: four views of the rows' outcomes.
 *
 * The files are rewritten from what the folder holds after each run, so several commands can add to
 * one folder, and it can be read while one is at work.
 */
#include "reproduce/reproduce.h"

#include "base/memory_file.h"
#include "common/common.h"
#include "formats/json.h"
#include "report/page.h"
#include "study/add_curve.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- What the folder holds ---------------------------------------------------------------- */

/* A row of the folder.  One that was begun and cannot be read has a reason in `why` and nothing
 * else but its name. */
typedef struct shown {
    char name[RECIPE_NAME];
    ole_error why;
    row row;
    outcomes outcomes;
    char changes[256];
    char *command;
    char *runs; /* "6 of 6 runs, ..." */
} shown;

typedef struct all_rows {
    shown *item;
    int count;
} all_rows;

static int order_of(const char *name) {
    for (int i = 0; i < recipe_count(); i++)
        if (strcmp(recipe_name(i), name) == 0) return i;
    return recipe_count();
}

/* In the paper's order; for scandir(). */
static int compare_entries(const struct dirent **a, const struct dirent **b) {
    int difference = order_of((*a)->d_name) - order_of((*b)->d_name);
    return difference ? difference : strcmp((*a)->d_name, (*b)->d_name);
}

static int is_candidate(const struct dirent *entry) {
    return entry->d_name[0] != '.' && strlen(entry->d_name) < RECIPE_NAME;
}

static void close_shown(shown *s) {
    row_close(&s->row);
    free(s->command);
    free(s->runs);
}

static void close_rows(all_rows *all) {
    for (int i = 0; i < all->count; i++)
        close_shown(&all->item[i]);
    free(all->item);
}

/* "6 of 6 runs, 1 of them diverged, 3 min in all, on cuda in bf16, the last on 2018-06-18; 5000
 * training samples, 8000 test samples. λ chosen on the validation set: 0.25; the paper's: 0.25." */
static char *runs_text(const shown *s) {
    const outcomes *o = &s->outcomes;
    ole_memory_file text;
    char time[32];
    if (!ole_memory_file_open(&text)) return NULL;
    fprintf(text.file, "%" PRId64 " of %" PRId64 " runs", o->ended, o->total);
    if (o->diverged > 0) fprintf(text.file, ", %" PRId64 " of them diverged", o->diverged);
    fprintf(text.file, ", %s in all", duration_text(o->seconds, time));
    if (o->devices[0])
        fprintf(text.file, ", on %s in %s, the last on %.10s", o->devices, row_precision(&s->row),
                o->date);
    fprintf(text.file, "; %" PRId64 " training samples, %" PRId64 " test samples.", o->samples[0],
            o->samples[1]);
    if (isfinite(o->chosen)) {
        fprintf(text.file, " λ chosen on the validation set: %g", o->chosen);
        if (isfinite(s->row.asked.chosen))
            fprintf(text.file, "; the paper's: %g", s->row.asked.chosen);
        fprintf(text.file, ".");
    }
    return ole_memory_file_close(&text);
}

static char *command_text(const shown *s, const char *out) {
    ole_memory_file text;
    if (!ole_memory_file_open(&text)) return NULL;
    put_command(text.file, &s->row, out, s->outcomes.quick);
    return ole_memory_file_close(&text);
}

/* False: the row has not begun. */
static bool open_shown(shown *s, const char *name, const char *out) {
    *s = (shown){0};
    snprintf(s->name, sizeof s->name, "%.*s", RECIPE_NAME - 1, name);
    if (row_open_made(&s->row, name, out) && row_outcomes(&s->row, &s->outcomes, &s->why)) {
        s->why.message[0] = '\0';
        row_changes(&s->row, s->outcomes.part, s->changes);
        s->command = command_text(s, out);
        s->runs = runs_text(s);
        if (s->command && s->runs) return true;
    }
    return s->why.message[0] != '\0';
}

static bool open_rows(all_rows *all, const char *out) {
    struct dirent **entries = NULL;
    int count = scandir(out, &entries, is_candidate, compare_entries);
    *all = (all_rows){.item = calloc((size_t)(count > 0 ? count : 0) + 1, sizeof *all->item)};
    for (int i = 0; i < count; i++) {
        char path[ROW_PATH];
        join_path(path, out, entries[i]->d_name);
        if (all->item && ole_run_has(path, "recipe.yaml")) {
            shown *s = &all->item[all->count];
            if (open_shown(s, entries[i]->d_name, out))
                all->count++;
            else
                close_shown(s);
        }
        free(entries[i]);
    }
    free(entries);
    if (!all->item) fail_command("reproduce", "out of memory");
    return all->item != NULL;
}

/* ---- results.json ------------------------------------------------------------------------- */

static void put_row(ole_json *w, const shown *s) {
    const recipe *p = &s->row.asked;
    const outcomes *all = &s->outcomes;
    ole_json_open(w, NULL, '{');
    ole_json_string(w, "name", s->name);
    ole_json_string(w, "shows", p->shows);
    ole_json_string(w, "title", p->title);
    ole_json_string(w, "command", s->command);
    ole_json_string(w, "changes", s->changes);
    ole_json_integer(w, "runs", all->total);
    ole_json_integer(w, "ended", all->ended);
    ole_json_integer(w, "diverged", all->diverged);
    ole_json_bool(w, "complete", all->ended == all->total);
    ole_json_integer(w, "epochs", s->row.train.epochs);
    ole_json_integer(w, "seeds", s->row.train.seeds);
    ole_json_integer(w, "train_samples", all->samples[0]);
    ole_json_integer(w, "test_samples", all->samples[1]);
    ole_json_number(w, "seconds", all->seconds);
    ole_json_string(w, "device", all->devices);
    ole_json_string(w, "precision", row_precision(&s->row));
    ole_json_string(w, "date", all->date);
    if (p->kind == RECIPE_TUNE) {
        ole_json_number(w, "lambda_paper", p->chosen);
        ole_json_number(w, "lambda_ours", all->chosen);
    }
    ole_json_open(w, "measures", '[');
    for (const outcome *o = all->item; o < all->item + all->count; o++) {
        ole_json_open(w, NULL, '{');
        ole_json_string(w, "measure", o->measure);
        ole_json_string(w, "unit", o->unit);
        for (int ours = 0; ours < 2; ours++) {
            ole_json_open(w, ours ? "ours" : "paper", '{');
            for (int side = 0; side < SIDES; side++) {
                const ole_study_error *e = ours ? &o->ours[side] : &o->paper[side];
                ole_json_open(w, ole_side_name(side), '{');
                ole_json_number(w, "mean", e->mean);
                ole_json_number(w, "std", e->std);
                if (ours) ole_json_integer(w, "runs", o->runs[side]);
                if (ours) ole_json_integer(w, "diverged", o->diverged[side]);
                ole_json_close(w);
            }
            ole_json_close(w);
        }
        ole_json_close(w);
    }
    ole_json_close(w);
    ole_json_close(w);
}

static void print_json(const all_rows *all, FILE *file) {
    ole_json w;
    ole_json_init(&w, file, 2);
    ole_json_open(&w, NULL, '{');
    ole_json_open(&w, "rows", '[');
    for (int i = 0; i < all->count; i++)
        if (all->item[i].command) put_row(&w, &all->item[i]);
    ole_json_close(&w);
    ole_json_open(&w, "unread", '[');
    for (int i = 0; i < all->count; i++) {
        if (all->item[i].command) continue;
        ole_json_open(&w, NULL, '{');
        ole_json_string(&w, "name", all->item[i].name);
        ole_json_string(&w, "reason", all->item[i].why.message);
        ole_json_close(&w);
    }
    ole_json_close(&w);
    ole_json_close(&w);
}

/* ---- The table ---------------------------------------------------------------------------- */

enum { COLUMNS = 11, CELL = 160 };
static const char *const column_names[COLUMNS] = {
    "row",           "of the paper",   "measure", "paper: softmax", "paper: with OLÉ",
    "ours: softmax", "ours: with OLÉ", "runs",    "made on",        "last run",
    "differs"};

typedef char table_row[COLUMNS][CELL];

static void fill_row(const shown *s, const outcome *o, table_row cells) {
    const int64_t *runs = o->runs, *diverged = o->diverged;
    char text[OLE_ERROR_TEXT];
    snprintf(cells[0], CELL, "%s", s->name);
    snprintf(cells[1], CELL, "%.150s", s->row.asked.shows);
    snprintf(cells[2], CELL, "%s%s%s", o->measure, *o->unit ? ", " : "", o->unit);
    for (int side = 0; side < SIDES; side++) {
        snprintf(cells[3 + side], CELL, "%s", ole_study_error_text(o->paper[side], "", text));
        snprintf(cells[5 + side], CELL, "%s", ole_study_error_text(o->ours[side], "", text));
    }
    snprintf(cells[7], CELL, "%" PRId64, runs[WITH_OLE]);
    if (runs[SOFTMAX] != runs[WITH_OLE])
        snprintf(cells[7], CELL, "%" PRId64 " and %" PRId64, runs[SOFTMAX], runs[WITH_OLE]);
    if (diverged[SOFTMAX] + diverged[WITH_OLE] > 0)
        snprintf(cells[7], CELL,
                 "%" PRId64 " and %" PRId64 " (%" PRId64 " and %" PRId64 " diverged)",
                 runs[SOFTMAX], runs[WITH_OLE], diverged[SOFTMAX], diverged[WITH_OLE]);
    snprintf(cells[8], CELL, "%.40s, %.20s", *s->outcomes.devices ? s->outcomes.devices : "-",
             row_precision(&s->row));
    snprintf(cells[9], CELL, "%.10s", s->outcomes.date);
    snprintf(cells[10], CELL, "%.150s", s->changes);
}

/* All lines, in `text`; free() it.  NULL: out of memory. */
static table_row *make_table(const all_rows *all, int64_t *count) {
    size_t lines = 1;
    for (int i = 0; i < all->count; i++)
        lines += (size_t)all->item[i].outcomes.count;
    table_row *text = calloc(lines, sizeof *text);
    *count = 0;
    for (int i = 0; i < all->count && text; i++)
        for (int k = 0; k < all->item[i].outcomes.count; k++)
            fill_row(&all->item[i], &all->item[i].outcomes.item[k], text[(*count)++]);
    return text;
}

/* ---- results.md --------------------------------------------------------------------------- */

static void print_markdown(const all_rows *all, FILE *file) {
    int64_t count;
    table_row *table = make_table(all, &count);
    fprintf(file,
            "# The paper and ours\n\nErrors and accuracies in %%, at the end of training; mean "
            "± standard deviation over the seeds.\n\n|");
    for (int c = 0; c < COLUMNS; c++)
        fprintf(file, " %s |", column_names[c]);
    fprintf(file, "\n|");
    for (int c = 0; c < COLUMNS; c++)
        fprintf(file, "---|");
    for (int64_t k = 0; k < count; k++) {
        fprintf(file, "\n|");
        for (int c = 0; c < COLUMNS; c++) {
            fprintf(file, " ");
            for (const char *text = table[k][c]; *text; text++) {
                if (*text == '|') fputc('\\', file); /* a bar would end the cell */
                fputc(*text == '\n' ? ' ' : *text, file);
            }
            fprintf(file, " |");
        }
    }
    fprintf(file, "\n");
    free(table);
    for (int i = 0; i < all->count; i++) {
        const shown *s = &all->item[i];
        const recipe *p = &s->row.asked;
        if (!s->command) continue;
        fprintf(file, "\n## %s: %s\n\n    %s\n\n%s", p->shows, p->title, s->command, s->runs);
        if (p->reports) fprintf(file, " The paper: %s.", p->reports);
        fprintf(file, "%s%s\n", p->note ? " " : "", p->note ? p->note : "");
    }
    for (int i = 0; i < all->count; i++)
        if (!all->item[i].command)
            fprintf(file, "\n## %s\n\nCannot be read: %s\n", all->item[i].name,
                    all->item[i].why.message);
}

/* ---- report.html -------------------------------------------------------------------------- */

static void add_table(ole_page *page, const all_rows *all) {
    int64_t count;
    table_row *text = make_table(all, &count);
    const char **cells = calloc((size_t)(count + 1) * COLUMNS, sizeof *cells);
    if (!text || !cells) ole_page_fail(page, OLE_ERROR_MEMORY, "page: out of memory");
    for (int64_t i = 0; text && cells && i < count * COLUMNS; i++)
        cells[i] = text[i / COLUMNS][i % COLUMNS];
    if (text && cells && count > 0)
        ole_page_table(page,
                       "At the end of training; mean ± standard deviation over the seeds. Nothing "
                       "is chosen on a test set except the 'best run', which is how the paper "
                       "reports it.",
                       count, COLUMNS, column_names, cells);
    free(text);
    free(cells);
}

static void add_row(ole_page *page, const shown *s) {
    const recipe *p = &s->row.asked;
    char heading[200], text[1200];
    snprintf(heading, sizeof heading, "%.90s: %.90s", p->shows, p->title);
    ole_page_section(page, heading);
    ole_page_text(page, s->command);
    snprintf(text, sizeof text, "%.700s%s%s%s", s->runs,
             *s->changes ? " Not as in the recipe: " : "", s->changes, *s->changes ? "." : "");
    ole_page_text(page, text);
    if (p->note) ole_page_text(page, p->note);
    if (s->outcomes.figures != FIGURES_NONE) {
        snprintf(text, sizeof text, "Figures: %s/figures.html, and files in %s/figures%s.", s->name,
                 s->name,
                 s->outcomes.figures == FIGURES_OLD
                     ? ", of runs that were trained again since: the command draws them again"
                     : "");
        ole_page_text(page, text);
    }
    const ole_study_options o = row_study(&s->row);
    ole_error error;
    if (p->kind != RECIPE_FEATURES && s->outcomes.ended > 0 &&
        ole_study_add_curve(page, row_study_kind(&s->row), &o, &error) == OLE_ERROR_MEMORY)
        ole_page_fail(page, OLE_ERROR_MEMORY, error.message);
}

static void fill_page(ole_page *page, const all_rows *all) {
    int64_t ended = 0, total = 0, diverged = 0;
    char value[64], note[64], time[32];
    double seconds = 0.0;
    for (int i = 0; i < all->count; i++) {
        if (all->item[i].row.asked.from) continue; /* another row's runs */
        ended += all->item[i].outcomes.ended;
        total += all->item[i].outcomes.total;
        diverged += all->item[i].outcomes.diverged;
        seconds += all->item[i].outcomes.seconds;
    }
    snprintf(value, sizeof value, "%" PRId64 " of %" PRId64, ended, total);
    snprintf(note, sizeof note, "%s of training", duration_text(seconds, time));
    ole_page_headline(page, "runs", value, note);
    snprintf(value, sizeof value, "%" PRId64, diverged);
    if (diverged > 0) ole_page_headline(page, "diverged", value, "runs, in no mean");
    ole_page_section(page, "Paper and ours");
    add_table(page, all);
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
                             void (*print)(const all_rows *, FILE *), ole_error *error) {
    ole_memory_file memory;
    if (ole_memory_file_open(&memory)) print(all, memory.file);
    char *text = ole_memory_file_close(&memory);
    ole_status status = ole_run_put(out, name, text, memory.size, error);
    free(text);
    return status;
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

/* Cells in columns: "±" and "°" are one column of two bytes. */
static void print_cells(const table_row cells) {
    static const int columns[] = {0, 2, 3, 4, 5, 6}, widths[] = {24, 42, 15, 15, 15, 15};
    for (int i = 0; i < 6; i++) {
        const char *text = cells[columns[i]];
        int wide = 0;
        if (i > 1 && !*text) text = "-";
        for (const char *c = text; *c; c++)
            wide += ((unsigned char)*c & 0xc0) != 0x80;
        print_lines("%s%*s", text, wide < widths[i] ? widths[i] - wide : 1, "");
    }
    print_lines("%s   %s, %s%s%s\n", cells[7], cells[8], cells[9], *cells[10] ? "   " : "",
                cells[10]);
}

/* Rows without numbers, such as learning curves, print nothing. */
void print_results(const char *out, const char *const *names, int count) {
    all_rows all;
    bool begun = false;
    if (!open_rows(&all, out)) return;
    for (int i = 0; i < all.count; i++) {
        const shown *s = &all.item[i];
        bool asked = count == 0;
        for (int k = 0; k < count; k++)
            asked |= strcmp(names[k], s->name) == 0;
        if (!s->command)
            fail_command("reproduce", "row %s is not in the results: %s", s->name, s->why.message);
        if (!s->command || !asked || s->outcomes.count == 0) continue;
        if (!begun)
            printf("%-24s%-42s%-15s%-15s%-15s%-15s%s\n", "row", "measure", "paper: softmax",
                   "with OLE", "ours: softmax", "with OLE", "runs, made on");
        begun = true;
        for (int k = 0; k < s->outcomes.count; k++) {
            table_row cells;
            fill_row(s, &s->outcomes.item[k], cells);
            print_cells(cells);
        }
        char theirs[32] = "-";
        if (isfinite(s->row.asked.chosen))
            snprintf(theirs, sizeof theirs, "%g", s->row.asked.chosen);
        if (isfinite(s->outcomes.chosen))
            print_lines("%-24s%-42s%-15s%-15s%-15s%g\n", s->name, "lambda chosen", "", theirs, "",
                        s->outcomes.chosen);
    }
    close_rows(&all);
}
