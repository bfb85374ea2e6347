/*
 * cli/reproduce/plan.c - `ole reproduce --dry-run`: the runs that would be made, and how long they
 * will take.
 */
#include "reproduce/reproduce.h"

#include "base/memory_file.h"
#include "common/common.h"
#include "train/options/option_table.h"

#include "formats/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the plan has elsewhere: the data, and what differs between the runs. */
static bool is_planned(const row *r, const char *name) {
    static const char *const names[] = {"data", "out", "resume", "lambda", "seed", "seeds"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return r->sample_count > 0 && strcmp(name, "samples_per_class") == 0;
}

/* The command that makes one of the runs, but for what differs between them; free() it.  NULL
 * without memory. */
static char *training_command(const row *r) {
    ole_train_options run = r->train, usual;
    ole_memory_file memory;
    if (!ole_memory_file_open(&memory)) return NULL;
    FILE *out = memory.file;
    ole_train_options_init(&usual);
    if (r->runs->kind == PAPER_TUNE) {
        if (run.val_split == 0.0) run.val_split = 0.1;
        run.skip_test = true;
    }
    fprintf(out, "ole train");
    put_word(out, run.data);
    for (const ole_option *o = ole_train_table; o->name; o++) {
        char value[OLE_OPTION_VALUE], flag[OLE_OPTION_FLAG];
        const char *text = ole_option_text(o, &run, value);
        if (!text || is_planned(r, o->name) || !ole_option_differs(o, &run, &usual)) continue;
        bool off = o->kind == OLE_SWITCH && strcmp(text, "false") == 0;
        fprintf(out, off ? " --no-%s" : " --%s", ole_option_flag(o, flag) + 2);
        if (o->kind != OLE_SWITCH) put_word(out, text);
    }
    return ole_memory_file_close(&memory);
}

/* What is known of a row before it runs. */
typedef struct plan {
    bool here;        /* its data */
    const char *with; /* the row above whose runs these are, or NULL */
    char part[PART_ROOM];
    char *command;
    row_time left;
} plan;

static const char *const what[] = {"with and without OLE", "lambda on a held-out tenth",
                                   "samples a class",      "known and novel classes",
                                   "features of runs of",  "learning curves of runs of"};

/* Beside the runs in an H200's time, where that is known: what they take here. */
static void print_time(const plan *p) {
    char time[32];
    if (!p->here)
        printf("  not timed here, where its data are missing\n");
    else if (p->with)
        print_lines("  its runs are those of %s\n", p->with);
    else if (p->left.runs == 0)
        printf("  all runs are there\n");
    else if (!isfinite(p->left.seconds))
        print_lines("  not timed here%s%s\n", *p->left.error.message ? ": " : "",
                    p->left.error.message);
    else
        printf("  %" PRId64 " run%s to make, about %s here, one after the other, by a few steps "
               "timed\n",
               p->left.runs, p->left.runs == 1 ? "" : "s", duration_text(p->left.seconds, time));
}

static void print_plan(const row *r, const plan *p) {
    char time[USUAL_ROOM];
    print_lines("%s: %s, %s%s%s\n  %s\n  lambda", r->asked.name, r->asked.shows,
                what[r->asked.kind], r->asked.from ? " " : "", r->asked.from ? r->asked.from : "",
                p->command);
    for (int i = 0; i < r->lambda_count; i++)
        printf(" %g", r->lambdas[i]);
    for (int i = 0; i < r->sample_count; i++)
        printf("%s%" PRId64, i ? " " : "; samples a class ", r->samples[i]);
    int64_t seeds = r->train.seeds, runs = row_count_runs(r);
    printf("; %" PRId64 " seed%s: %" PRId64 " run%s%s\n", seeds, seeds == 1 ? "" : "s", runs,
           runs == 1 ? "" : "s", row_usual_time(r, time));
    print_time(p);
    if (*p->part) print_lines("  on a part of the data: %s\n", p->part);
    print_lines("  into %s\n", r->folder);
}

static void put_plan(const row *r, const plan *p, ole_json *w) {
    ole_json_open(w, NULL, '{');
    ole_json_string(w, "name", r->asked.name);
    ole_json_string(w, "shows", r->asked.shows);
    ole_json_string(w, "title", r->asked.title);
    if (r->asked.from) ole_json_string(w, "from", r->asked.from);
    ole_json_string(w, "command", p->command);
    ole_json_open(w, "lambdas", '[');
    for (int i = 0; i < r->lambda_count; i++)
        ole_json_number(w, NULL, r->lambdas[i]);
    ole_json_close(w);
    ole_json_open(w, "samples", '[');
    for (int i = 0; i < r->sample_count; i++)
        ole_json_integer(w, NULL, r->samples[i]);
    ole_json_close(w);
    ole_json_integer(w, "seeds", r->train.seeds);
    ole_json_integer(w, "runs", row_count_runs(r));
    ole_json_integer(w, "runs_left", p->left.runs);
    ole_json_number(w, "seconds_left", p->left.seconds);
    ole_json_number(w, "minutes_a_run", r->runs->minutes);
    ole_json_bool(w, "here", p->here);
    ole_json_string(w, "part", p->part);
    ole_json_string(w, "folder", r->folder);
    ole_json_close(w);
}

bool plan_rows(row *rows, int count, bool json) {
    ole_json w;
    bool good = true;
    ole_json_init(&w, stdout, 2);
    if (json) ole_json_open(&w, NULL, '[');
    for (int i = 0; i < count && good; i++) {
        row *r = &rows[i];
        progress line = progress_start();
        plan p = {.left = {.runs = row_count_runs(r), .seconds = NAN}};
        char why[600];
        p.here = row_locate(r, why); /* without them the line has the recipe's names */
        row_part(r, p.part);
        progress_wait(&line, "timing a few steps");
        const row *first = row_with_runs(rows, count, r);
        p.with = first != r ? first->asked.name : NULL;
        if (p.with)
            p.left = (row_time){.runs = 0};
        else if (p.here)
            p.left = row_time_left(r);
        progress_clear(&line);
        p.command = training_command(r);
        good = p.command != NULL;
        if (good && json) put_plan(r, &p, &w);
        if (good && !json) print_plan(r, &p);
        free(p.command);
    }
    if (json) ole_json_close(&w);
    if (!good) fail_command("reproduce", "out of memory");
    return good;
}
