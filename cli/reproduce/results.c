/*
 * cli/reproduce/results.c - results.json, results.md and report.html of a folder of `ole
 * reproduce`.
 *
 * They are made anew from what the folder holds, after each run: several commands add to the same
 * page, and it can be read while one is at work.
 */
#include "reproduce/reproduce.h"

#include "base/memory_file.h"
#include "common/common.h"

#include "formats/json.h"
#include "study/add_curve.h"

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
    char *command;
} shown;

/* A row that was begun and cannot be read. */
typedef struct unread {
    char name[PAPER_NAME];
    ole_error why;
} unread;

typedef struct all_rows {
    shown *item;
    unread *unread;
    int count, unread_count;
} all_rows;

static const char *precision_of(const shown *s) {
    return s->row.train.precision ? s->row.train.precision : "fp32";
}

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

/* The names of the folders with a recipe, in the paper's order; free() them.  -1 without memory. */
static int list_names(const char *out, char (**names)[PAPER_NAME]) {
    int count = 0;
    DIR *folder = opendir(out);
    *names = NULL;
    for (const struct dirent *entry; folder && count >= 0 && (entry = readdir(folder));) {
        char path[ROW_PATH];
        if (entry->d_name[0] == '.' || strlen(entry->d_name) >= PAPER_NAME) continue;
        join_path(path, out, entry->d_name);
        if (!is_there(path, "recipe.yaml")) continue;
        char(*more)[PAPER_NAME] = realloc(*names, ((size_t)count + 1) * sizeof *more);
        if (more) *names = more;
        if (more) strcpy(more[count], entry->d_name);
        count = more ? count + 1 : -1;
    }
    if (folder) closedir(folder);
    if (count > 0) qsort(*names, (size_t)count, PAPER_NAME, compare_names);
    return count;
}

static void close_rows(all_rows *all) {
    for (int i = 0; i < all->count; i++) {
        row_close(&all->item[i].row);
        free(all->item[i].command);
    }
    free(all->item);
    free(all->unread);
}

/* False where the row has not begun, or cannot be read: then with the reason in `error`. */
static bool open_shown(shown *s, const char *name, const char *out, ole_error *error) {
    error->message[0] = '\0';
    if (row_open_made(&s->row, name, out) && row_outcomes(&s->row, &s->outcomes, error)) {
        row_changes(&s->row, s->outcomes.part, s->changes);
        s->command = row_command(&s->row, out, s->outcomes.quick);
        if (s->command) return true;
    }
    row_close(&s->row);
    return false;
}

static void add_folder(all_rows *all, const char *name, const char *out) {
    unread *u = &all->unread[all->unread_count];
    if (open_shown(&all->item[all->count], name, out, &u->why)) {
        all->count++;
    } else if (u->why.message[0]) {
        snprintf(u->name, sizeof u->name, "%s", name);
        all->unread_count++;
    }
}

/* Rows that have not begun are left out. */
static bool open_rows(all_rows *all, const char *out) {
    char(*names)[PAPER_NAME];
    int count = list_names(out, &names);
    *all = (all_rows){.item = count >= 0 ? calloc((size_t)count + 1, sizeof *all->item) : NULL,
                      .unread = count >= 0 ? calloc((size_t)count + 1, sizeof *all->unread) : NULL};
    bool good = all->item && all->unread;
    for (int i = 0; good && i < count; i++)
        add_folder(all, names[i], out);
    free(names);
    if (good) return true;
    close_rows(all);
    fail_command("reproduce", "out of memory");
    return false;
}

/* "6 of 6 runs, 1 of them diverged, 3 min in all, on cuda in bf16, the last on 2018-06-18; 5000
 * samples to train on, 8000 to test." */
enum { RUNS_ROOM = 400 };
static const char *runs_text(const shown *s, char out[RUNS_ROOM]) {
    const outcomes *o = &s->outcomes;
    char time[32], diverged[64] = "", place[200] = "";
    if (o->diverged > 0)
        snprintf(diverged, sizeof diverged, ", %" PRId64 " of them diverged", o->diverged);
    if (o->devices[0])
        snprintf(place, sizeof place, ", on %s in %.20s, the last on %.10s", o->devices,
                 precision_of(s), o->date);
    snprintf(out, RUNS_ROOM,
             "%" PRId64 " of %" PRId64 " runs%s, %s in all%s; %" PRId64
             " samples to train on, %" PRId64 " to test.",
             o->ended, o->total, diverged, duration_text(o->seconds, time), place, o->samples[0],
             o->samples[1]);
    return out;
}

/* "λ chosen on what is held out: 0.25; the paper's: 0.25." */
enum { CHOSEN_ROOM = 120 };
static const char *chosen_text(const shown *s, char out[CHOSEN_ROOM]) {
    char theirs[40] = "";
    if (isfinite(s->row.asked.chosen))
        snprintf(theirs, sizeof theirs, "; the paper's: %g", s->row.asked.chosen);
    snprintf(out, CHOSEN_ROOM, "λ chosen on what is held out: %g%s.", s->outcomes.chosen, theirs);
    return out;
}

/* ---- results.json ------------------------------------------------------------------------- */

static void put_sides(ole_json *w, const char *key, const ole_study_error e[SIDES],
                      const int64_t *runs, const int64_t *diverged) {
    ole_json_open(w, key, '{');
    for (int side = 0; side < SIDES; side++) {
        ole_json_open(w, side_words[side], '{');
        ole_json_number(w, "mean", e[side].mean);
        ole_json_number(w, "std", e[side].std);
        if (runs) ole_json_integer(w, "runs", runs[side]);
        if (diverged) ole_json_integer(w, "diverged", diverged[side]);
        ole_json_close(w);
    }
    ole_json_close(w);
}

static void put_row(ole_json *w, const shown *s) {
    const paper *p = &s->row.asked;
    ole_json_open(w, NULL, '{');
    ole_json_string(w, "name", p->name);
    ole_json_string(w, "shows", p->shows);
    ole_json_string(w, "title", p->title);
    ole_json_string(w, "command", s->command);
    ole_json_string(w, "changes", s->changes);
    ole_json_integer(w, "runs", s->outcomes.total);
    ole_json_integer(w, "ended", s->outcomes.ended);
    ole_json_integer(w, "diverged", s->outcomes.diverged);
    ole_json_bool(w, "complete", s->outcomes.ended == s->outcomes.total);
    ole_json_integer(w, "epochs", s->row.train.epochs);
    ole_json_integer(w, "seeds", s->row.train.seeds);
    ole_json_integer(w, "train_samples", s->outcomes.samples[0]);
    ole_json_integer(w, "test_samples", s->outcomes.samples[1]);
    ole_json_number(w, "seconds", s->outcomes.seconds);
    ole_json_string(w, "device", s->outcomes.devices);
    ole_json_string(w, "precision", precision_of(s));
    ole_json_string(w, "date", s->outcomes.date);
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
        put_sides(w, "paper", o->paper, NULL, NULL);
        put_sides(w, "ours", o->ours, o->runs, o->diverged);
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
    ole_json_open(&w, "unread", '[');
    for (int i = 0; i < all->unread_count; i++) {
        ole_json_open(&w, NULL, '{');
        ole_json_string(&w, "name", all->unread[i].name);
        ole_json_string(&w, "reason", all->unread[i].why.message);
        ole_json_close(&w);
    }
    ole_json_close(&w);
    ole_json_close(&w);
}

/* ---- results.md --------------------------------------------------------------------------- */

enum { COLUMNS = 11, CELL = 160 };
static const char *const column_names[COLUMNS] = {
    "row",           "of the paper",   "measure", "paper: softmax", "paper: with OLÉ",
    "ours: softmax", "ours: with OLÉ", "runs",    "made on",        "last run",
    "differs"};

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
    if (o->diverged[SOFTMAX] + o->diverged[WITH_OLE] > 0)
        snprintf(cells[7], CELL,
                 "%" PRId64 " and %" PRId64 " (%" PRId64 " and %" PRId64 " diverged)",
                 o->runs[SOFTMAX], o->runs[WITH_OLE], o->diverged[SOFTMAX], o->diverged[WITH_OLE]);
    snprintf(cells[8], CELL, "%.40s, %.20s", *s->outcomes.devices ? s->outcomes.devices : "-",
             precision_of(s));
    snprintf(cells[9], CELL, "%.10s", s->outcomes.date);
    snprintf(cells[10], CELL, "%.150s", s->changes);
}

/* A bar would end the cell. */
static void put_cell(FILE *file, const char *text) {
    fprintf(file, " ");
    for (; *text; text++) {
        if (*text == '|') fputc('\\', file);
        fputc(*text == '\n' ? ' ' : *text, file);
    }
    fprintf(file, " |");
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
            fprintf(file, "|");
            for (int c = 0; c < COLUMNS; c++)
                put_cell(file, cells[c]);
            fprintf(file, "\n");
        }
    for (int i = 0; i < all->count; i++) {
        const shown *s = &all->item[i];
        char runs[RUNS_ROOM], chosen[CHOSEN_ROOM];
        fprintf(file, "\n## %s: %s\n\n    %s\n\n%s", s->row.asked.shows, s->row.asked.title,
                s->command, runs_text(s, runs));
        if (isfinite(s->outcomes.chosen)) fprintf(file, " %s", chosen_text(s, chosen));
        if (s->row.asked.reports) fprintf(file, " The paper: %s.", s->row.asked.reports);
        fprintf(file, "%s%s\n", s->row.asked.note ? " " : "",
                s->row.asked.note ? s->row.asked.note : "");
    }
    for (int i = 0; i < all->unread_count; i++)
        fprintf(file, "\n## %s\n\nCannot be read: %s\n", all->unread[i].name,
                all->unread[i].why.message);
}

/* ---- report.html -------------------------------------------------------------------------- */

static void add_table(ole_page *page, const all_rows *all) {
    size_t rows = 0, at = 0;
    for (int i = 0; i < all->count; i++)
        rows += (size_t)all->item[i].outcomes.count;
    table_row *text = calloc(rows + 1, sizeof *text);
    const char **cells = calloc((rows + 1) * COLUMNS, sizeof *cells);
    if (!text || !cells) ole_page_fail(page, OLE_ERROR_MEMORY, "page: out of memory");
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
    char heading[200], text[1200], runs[RUNS_ROOM], chosen[CHOSEN_ROOM];
    snprintf(heading, sizeof heading, "%.90s: %.90s", p->shows, p->title);
    ole_page_section(page, heading);
    ole_page_text(page, s->command);
    snprintf(text, sizeof text, "%s%s%s%s", runs_text(s, runs),
             *s->changes ? " Not as in the recipe: " : "", s->changes, *s->changes ? "." : "");
    ole_page_text(page, text);
    if (p->note) ole_page_text(page, p->note);
    if (isfinite(s->outcomes.chosen)) ole_page_text(page, chosen_text(s, chosen));
    figures_state figures = figures_look(&s->row);
    if (figures != FIGURES_NONE) {
        snprintf(text, sizeof text, "Figures: %s/figures.html, and files in %s/figures%s.", p->name,
                 p->name,
                 figures == FIGURES_OLD ? ", of runs that were made anew since: the command draws "
                                          "them again"
                                        : "");
        ole_page_text(page, text);
    }
    const ole_study_options o = row_study(&s->row);
    ole_error error;
    if (p->kind != PAPER_FEATURES && s->outcomes.ended > 0 &&
        ole_study_add_curve(page, row_study_kind(&s->row), &o, &error) == OLE_ERROR_MEMORY)
        ole_page_fail(page, OLE_ERROR_MEMORY, error.message);
}

static bool write_page(const all_rows *all, const char *path) {
    ole_page *page;
    ole_error error;
    int64_t ended = 0, total = 0, diverged = 0;
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
        add_row(page, &all->item[i]);
    for (int i = 0; i < all->unread_count; i++) {
        ole_page_section(page, all->unread[i].name);
        ole_page_text(page, all->unread[i].why.message);
    }
    bool good = ole_page_write(page, path, &error) == OLE_OK;
    if (!good) fail_command("reproduce", "%s", error.message);
    ole_page_free(page);
    return good;
}

/* ---- All of them -------------------------------------------------------------------------- */

static bool write_text(const all_rows *all, const char *out, const char *name,
                       void (*print)(const all_rows *, FILE *)) {
    char path[ROW_PATH];
    join_path(path, out, name);
    ole_memory_file memory;
    if (ole_memory_file_open(&memory)) print(all, memory.file);
    char *text = ole_memory_file_close(&memory);
    bool good = text && put_file(path, text, memory.size);
    free(text);
    return good;
}

bool write_results(const char *out) {
    all_rows all;
    char path[ROW_PATH];
    if (!open_rows(&all, out)) return false;
    join_path(path, out, "report.html");
    /* The page first: with it in the folder, the others are known to be ours. */
    bool good = write_page(&all, path) && write_text(&all, out, "results.json", print_json) &&
                write_text(&all, out, "results.md", print_markdown);
    close_rows(&all);
    return good;
}

/* In columns; "±" and "°" are one column of two bytes. */
static void print_cell(const char *text, int width) {
    int columns = 0;
    for (const char *c = text; *c; c++)
        columns += ((unsigned char)*c & 0xc0) != 0x80;
    print_lines("%s%*s", text, columns < width ? width - columns : 1, "");
}

static bool is_asked(const shown *s, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], s->row.asked.name) == 0) return true;
    return count == 0;
}

static void print_outcome(const shown *s, int number) {
    table_row cells;
    fill_row(s, number, cells);
    print_cell(cells[0], 24);
    print_cell(cells[2], 42);
    for (int c = 3; c < 7; c++)
        print_cell(*cells[c] ? cells[c] : "-", 15);
    print_lines("%s   %s, %s%s%s\n", cells[7], cells[8], cells[9], *s->changes ? "   " : "",
                s->changes);
}

static void print_chosen(const shown *s) {
    char theirs[32] = "-";
    if (isfinite(s->row.asked.chosen)) snprintf(theirs, sizeof theirs, "%g", s->row.asked.chosen);
    print_lines("%-24s%-42s%-15s%-15s%-15s%g\n", s->row.asked.name, "lambda chosen", "", theirs, "",
                s->outcomes.chosen);
}

/* Of rows without numbers, as learning curves are, nothing. */
void print_results(const char *out, const char *const *names, int count) {
    all_rows all;
    bool begun = false;
    if (!open_rows(&all, out)) return;
    for (int i = 0; i < all.count; i++) {
        const shown *s = &all.item[i];
        if (!is_asked(s, names, count)) continue;
        if (!begun && s->outcomes.count > 0) {
            printf("%-24s%-42s%-15s%-15s%-15s%-15s%s\n", "row", "measure", "paper: softmax",
                   "with OLE", "ours: softmax", "with OLE", "runs, made on");
            begun = true;
        }
        for (int k = 0; k < s->outcomes.count; k++)
            print_outcome(s, k);
        if (isfinite(s->outcomes.chosen)) print_chosen(s);
    }
    for (int i = 0; i < all.unread_count; i++)
        fail_command("reproduce", "row %s is not in the results: %s", all.unread[i].name,
                     all.unread[i].why.message);
    close_rows(&all);
}
