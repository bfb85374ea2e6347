/*
 * cli/reproduce_results.c - results.json, results.md and report.html of a folder of `ole
 * reproduce`.
 *
 * They are made anew from what the folder holds, after each run: several commands add to the same
 * page, and it can be read while one is at work.
 */
#include "reproduce.h"

#include "commands.h"

#include <ole/json.h>

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- What is there ------------------------------------------------------------------------ */

typedef struct shown {
    row row;
    outcomes outcomes;
    char changes[256];
} shown;

typedef struct all_rows {
    shown *item;
    int count;
} all_rows;

static int order_of(const char *name) {
    for (int i = 0; i < paper_count(); i++)
        if (strcmp(paper_name(i), name) == 0) return i;
    return paper_count();
}

static int compare_names(const void *a, const void *b) {
    const char *x = a, *y = b;
    int difference = order_of(x) - order_of(y);
    return difference ? difference : strcmp(x, y);
}

/* The names of the folders with a recipe, in the paper's order. */
static int list_names(const char *out, char names[ROW_MOST][PAPER_NAME]) {
    int count = 0;
    DIR *folder = opendir(out);
    for (const struct dirent *entry; folder && count < ROW_MOST && (entry = readdir(folder));) {
        char path[ROW_PATH];
        if (entry->d_name[0] == '.' || strlen(entry->d_name) >= PAPER_NAME) continue;
        join_path(path, out, entry->d_name);
        if (is_there(path, "recipe.yaml")) strcpy(names[count++], entry->d_name);
    }
    if (folder) closedir(folder);
    qsort(names, (size_t)count, PAPER_NAME, compare_names);
    return count;
}

static void close_rows(all_rows *all) {
    for (int i = 0; i < all->count; i++)
        row_close(&all->item[i].row);
    free(all->item);
}

/* Rows that have not begun are left out. */
static bool open_rows(all_rows *all, const char *out) {
    char(*names)[PAPER_NAME] = calloc(ROW_MOST, sizeof *names);
    *all = (all_rows){.item = calloc(ROW_MOST, sizeof *all->item)};
    if (!names || !all->item) {
        free(names);
        free(all->item);
        fail_command("reproduce", "out of memory");
        return false;
    }
    int count = list_names(out, names);
    for (int i = 0; i < count; i++) {
        shown *s = &all->item[all->count];
        if (row_open_made(&s->row, names[i], out) && row_outcomes(&s->row, &s->outcomes)) {
            row_changes(&s->row, s->changes);
            all->count++;
        } else {
            row_close(&s->row);
        }
    }
    free(names);
    return true;
}

/* The command that makes a row again. */
static const char *command_text(const shown *s, char out[320]) {
    const ole_train_options *o = &s->row.train;
    char epochs[40] = "", precision[40] = "";
    if (o->epochs != s->row.runs->train.epochs)
        snprintf(epochs, sizeof epochs, " --epochs %" PRId64, o->epochs);
    if (strstr(s->changes, "samples a class")) snprintf(epochs, sizeof epochs, " --quick");
    if (o->precision && strcmp(o->precision, "fp32") != 0)
        snprintf(precision, sizeof precision, " --precision %.20s", o->precision);
    snprintf(out, 320, "ole reproduce %s --seeds %" PRId64 "%s%s", s->row.asked.name, o->seeds,
             epochs, precision);
    return out;
}

/* ---- results.json ------------------------------------------------------------------------- */

static void put_sides(ole_json *w, const char *key, const ole_study_error e[SIDES],
                      const int64_t *runs) {
    static const char *const names[SIDES] = {"softmax", "ole"};
    ole_json_open(w, key, '{');
    for (int side = 0; side < SIDES; side++) {
        ole_json_open(w, names[side], '{');
        ole_json_number(w, "mean", e[side].mean);
        ole_json_number(w, "std", e[side].std);
        if (runs) ole_json_integer(w, "runs", runs[side]);
        ole_json_close(w);
    }
    ole_json_close(w);
}

static void put_row(ole_json *w, const shown *s) {
    const paper *p = &s->row.asked;
    char command[320];
    ole_json_open(w, NULL, '{');
    ole_json_string(w, "name", p->name);
    ole_json_string(w, "shows", p->shows);
    ole_json_string(w, "title", p->title);
    ole_json_string(w, "command", command_text(s, command));
    ole_json_string(w, "changes", s->changes);
    ole_json_integer(w, "runs", s->outcomes.total);
    ole_json_integer(w, "ended", s->outcomes.ended);
    ole_json_bool(w, "complete", s->outcomes.ended == s->outcomes.total);
    ole_json_integer(w, "epochs", s->row.train.epochs);
    ole_json_integer(w, "seeds", s->row.train.seeds);
    ole_json_integer(w, "train_samples", s->outcomes.samples[0]);
    ole_json_integer(w, "test_samples", s->outcomes.samples[1]);
    ole_json_number(w, "seconds", s->outcomes.seconds);
    if (p->kind == PAPER_TUNE) {
        ole_json_number(w, "lambda_paper", p->chosen);
        ole_json_number(w, "lambda_ours", s->outcomes.chosen);
    }
    ole_json_open(w, "measures", '[');
    for (int i = 0; i < s->outcomes.count; i++) {
        const outcome *o = &s->outcomes.item[i];
        ole_json_open(w, NULL, '{');
        ole_json_string(w, "measure", o->measure);
        ole_json_string(w, "unit", o->unit);
        put_sides(w, "paper", o->paper, NULL);
        put_sides(w, "ours", o->ours, o->runs);
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
        put_row(&w, &all->item[i]);
    ole_json_close(&w);
    ole_json_close(&w);
}

/* ---- results.md --------------------------------------------------------------------------- */

enum { COLUMNS = 9, CELL = 160 };
static const char *const column_names[COLUMNS] = {
    "row",           "of the paper",   "measure", "paper: softmax", "paper: with OLÉ",
    "ours: softmax", "ours: with OLÉ", "runs",    "differs"};

typedef char table_row[COLUMNS][CELL];

/* The line of an outcome; the first of a row has its name. */
static void fill_row(const shown *s, int i, table_row cells) {
    const outcome *o = &s->outcomes.item[i];
    char text[NUMBER_ROOM];
    snprintf(cells[0], CELL, "%s", s->row.asked.name);
    snprintf(cells[1], CELL, "%.150s", s->row.asked.shows);
    snprintf(cells[2], CELL, "%s%s%s", o->measure, *o->unit ? ", " : "", o->unit);
    for (int side = 0; side < SIDES; side++) {
        snprintf(cells[3 + side], CELL, "%s", number_text(o->paper[side], text));
        snprintf(cells[5 + side], CELL, "%s", number_text(o->ours[side], text));
    }
    snprintf(cells[7], CELL, "%" PRId64, o->runs[WITH_OLE]);
    if (o->runs[SOFTMAX] != o->runs[WITH_OLE])
        snprintf(cells[7], CELL, "%" PRId64 " and %" PRId64, o->runs[SOFTMAX], o->runs[WITH_OLE]);
    snprintf(cells[8], CELL, "%.150s", s->changes);
}

static void print_markdown(const all_rows *all, FILE *file) {
    fprintf(file,
            "# The paper and ours\n\nErrors and accuracies in %%, at the end of training; mean "
            "± standard deviation over the seeds.\n\n|");
    for (int c = 0; c < COLUMNS; c++)
        fprintf(file, " %s |", column_names[c]);
    fprintf(file, "\n|");
    for (int c = 0; c < COLUMNS; c++)
        fprintf(file, "---|");
    fprintf(file, "\n");
    for (int i = 0; i < all->count; i++)
        for (int k = 0; k < all->item[i].outcomes.count; k++) {
            table_row cells;
            fill_row(&all->item[i], k, cells);
            for (int c = 0; c < COLUMNS; c++)
                fprintf(file, "%s%s", c ? " | " : "| ", cells[c]);
            fprintf(file, " |\n");
        }
    for (int i = 0; i < all->count; i++) {
        const shown *s = &all->item[i];
        char command[320], time[32];
        fprintf(file,
                "\n## %s: %s\n\n    %s\n\n%" PRId64 " of %" PRId64 " runs, %s in all; %" PRId64
                " samples to train on, %" PRId64 " to test.",
                s->row.asked.shows, s->row.asked.title, command_text(s, command), s->outcomes.ended,
                s->outcomes.total, duration_text(s->outcomes.seconds, time), s->outcomes.samples[0],
                s->outcomes.samples[1]);
        if (isfinite(s->outcomes.chosen))
            fprintf(file, " λ chosen: %g; the paper's: %g.", s->outcomes.chosen,
                    s->row.asked.chosen);
        if (s->row.asked.reports) fprintf(file, " The paper: %s.", s->row.asked.reports);
        fprintf(file, "%s%s\n", s->row.asked.note ? " " : "",
                s->row.asked.note ? s->row.asked.note : "");
    }
}

/* ---- report.html -------------------------------------------------------------------------- */

static void add_table(ole_page *page, const all_rows *all) {
    size_t rows = 0, at = 0;
    for (int i = 0; i < all->count; i++)
        rows += (size_t)all->item[i].outcomes.count;
    table_row *text = calloc(rows + 1, sizeof *text);
    const char **cells = calloc((rows + 1) * COLUMNS, sizeof *cells);
    for (int i = 0; text && cells && i < all->count; i++)
        for (int k = 0; k < all->item[i].outcomes.count; k++, at++) {
            fill_row(&all->item[i], k, text[at]);
            for (int c = 0; c < COLUMNS; c++)
                cells[at * COLUMNS + (size_t)c] = text[at][c];
        }
    if (at > 0)
        ole_page_table(page,
                       "At the end of training; mean ± standard deviation over the seeds. Nothing "
                       "is chosen on a test set, but for 'best run', which is the paper's way.",
                       (int64_t)at, COLUMNS, column_names, cells);
    free(text);
    free(cells);
}

static void add_row(ole_page *page, const shown *s) {
    const paper *p = &s->row.asked;
    char heading[200], text[1200], command[320], time[32];
    snprintf(heading, sizeof heading, "%.90s: %.90s", p->shows, p->title);
    ole_page_section(page, heading);
    snprintf(text, sizeof text,
             "%s. %" PRId64 " of %" PRId64 " runs, %s in all; %" PRId64
             " samples to train on, %" PRId64 " to test.%s%s%s%s%.600s",
             command_text(s, command), s->outcomes.ended, s->outcomes.total,
             duration_text(s->outcomes.seconds, time), s->outcomes.samples[0],
             s->outcomes.samples[1], *s->changes ? " Not as in the recipe: " : "", s->changes,
             *s->changes ? "." : "", p->note ? " " : "", p->note ? p->note : "");
    ole_page_text(page, text);
    if (isfinite(s->outcomes.chosen)) {
        snprintf(text, sizeof text, "λ chosen on the held-out tenth: %g; the paper's: %g.",
                 s->outcomes.chosen, p->chosen);
        ole_page_text(page, text);
    }
    if (is_there(s->row.folder, "figures.html")) {
        snprintf(text, sizeof text, "Figures: %s/figures.html, and files in %s/figures.", p->name,
                 p->name);
        ole_page_text(page, text);
    }
    const ole_study_options o = row_study(&s->row);
    if (p->kind != PAPER_FEATURES && s->outcomes.ended > 0)
        ole_study_add_curve(page, row_study_kind(&s->row), &o, NULL);
}

static bool write_page(const all_rows *all, const char *path) {
    ole_page *page;
    ole_error error;
    int64_t ended = 0, total = 0;
    char value[64], note[64], time[32];
    double seconds = 0.0;
    if (ole_page_create(&page, "The paper, reproduced", "OLÉ: Orthogonal Low-rank Embedding, 2018",
                        &error) != OLE_OK) {
        fail_command("reproduce", "%s", error.message);
        return false;
    }
    for (int i = 0; i < all->count; i++) {
        if (all->item[i].row.asked.from) continue; /* another row's runs */
        ended += all->item[i].outcomes.ended;
        total += all->item[i].outcomes.total;
        seconds += all->item[i].outcomes.seconds;
    }
    snprintf(value, sizeof value, "%" PRId64 " of %" PRId64, ended, total);
    snprintf(note, sizeof note, "%s of training", duration_text(seconds, time));
    ole_page_headline(page, "runs", value, note);
    ole_page_section(page, "Paper and ours");
    add_table(page, all);
    for (int i = 0; i < all->count; i++)
        add_row(page, &all->item[i]);
    bool good = ole_page_write(page, path, &error) == OLE_OK;
    if (!good) fail_command("reproduce", "%s", error.message);
    ole_page_free(page);
    return good;
}

/* ---- All of them -------------------------------------------------------------------------- */

static bool write_text(const all_rows *all, const char *out, const char *name,
                       void (*print)(const all_rows *, FILE *)) {
    char path[ROW_PATH], *text = NULL;
    size_t size = 0;
    join_path(path, out, name);
    FILE *memory = open_memstream(&text, &size);
    if (memory) print(all, memory);
    bool good = memory && fclose(memory) == 0 && put_file(path, text, size);
    free(text);
    return good;
}

bool write_results(const char *out) {
    all_rows all;
    char path[ROW_PATH];
    if (!open_rows(&all, out)) return false;
    join_path(path, out, "report.html");
    bool good = write_text(&all, out, "results.json", print_json) &&
                write_text(&all, out, "results.md", print_markdown) && write_page(&all, path);
    close_rows(&all);
    return good;
}

/* In columns; "±" and "°" are one column of two bytes. */
static void print_cell(const char *text, int width) {
    int columns = 0;
    for (const char *c = text; *c; c++)
        columns += ((unsigned char)*c & 0xc0) != 0x80;
    printf("%s%*s", text, columns < width ? width - columns : 1, "");
}

void print_results(const char *out, const char *const *names, int count) {
    all_rows all;
    if (!open_rows(&all, out)) return;
    printf("%-24s%-42s%-15s%-15s%-15s%-15s%s\n", "row", "measure", "paper: softmax", "with OLE",
           "ours: softmax", "with OLE", "runs");
    for (int i = 0; i < all.count; i++) {
        const shown *s = &all.item[i];
        bool asked = count == 0;
        for (int k = 0; k < count; k++)
            asked |= strcmp(names[k], s->row.asked.name) == 0;
        for (int k = 0; k < s->outcomes.count && asked; k++) {
            table_row cells;
            fill_row(s, k, cells);
            print_cell(cells[0], 24);
            print_cell(cells[2], 42);
            for (int c = 3; c < 7; c++)
                print_cell(*cells[c] ? cells[c] : "-", 15);
            printf("%s%s%s\n", cells[7], *s->changes ? "   " : "", s->changes);
        }
        if (asked && isfinite(s->outcomes.chosen))
            printf("%-24s%-42s%-15s%-15g%-15s%g\n", s->row.asked.name, "lambda chosen", "",
                   s->row.asked.chosen, "", s->outcomes.chosen);
    }
    close_rows(&all);
}
