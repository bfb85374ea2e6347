/*
 * cli/reproduce/plan.c - what `ole reproduce` could make (--list), would make (--dry-run) and is
 * about to make, with the time that takes.
 */
#include "reproduce/reproduce.h"

#include "common/common.h"
#include "formats/json.h"
#include "report/text_table.h"
#include "study/by_kind.h"
#include "train/options/option_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of an H200, for rows whose data are not here, and their times unknown but for an H200's: half a
 * minute for a run of stl10+-cnn5. */
static const double H200_FLOPS = 3e13;
static const double DAY = 86400.0;

/* What is known about a row before it runs. */
typedef struct plan {
    bool here;       /* its data */
    const row *with; /* the row above whose runs these are, or NULL */
    char part[ROW_TEXT];
    int64_t runs; /* in all */
    ole_study_time left;
    ole_error error; /* why its time is not known; "" */
} plan;

/* With `flops` above 0 the time is rough (see ole_study_estimate()); else a few steps are timed. */
static plan make_plan(row *r, const row *with, double flops) {
    const recipe *p = r->runs;
    int64_t again = p->kind == RECIPE_TUNE ? 2 : 0; /* once λ is chosen */
    int64_t points = p->lambda_count * (p->sample_count > 0 ? p->sample_count : 1) + again;
    char why[ROW_WHY];
    plan made = {.with = with, .here = row_locate(r, why), .runs = points * r->train.seeds};
    if (made.here) row_part(r, made.part);
    if (with) return made;
    const ole_study_options options = row_study(r);
    progress line = progress_start();
    progress_wait(&line, "timing a few steps");
    made.left = ole_study_estimate(row_study_kind(r), &options, flops, interrupted, &made.error);
    progress_clear(&line);
    if (made.left.runs < 0) made.left = (ole_study_time){made.runs, NAN};
    if (!made.here && made.left.runs > 0 && flops > 0.0)
        made.left.seconds = 60.0 * p->minutes * (double)made.left.runs * H200_FLOPS / flops;
    return made;
}

/* The command that makes one of the runs, without what differs between them. */
static void put_training(FILE *to, const row *r) {
    ole_train_options run = r->train, usual;
    ole_train_options_init(&usual);
    if (r->runs->kind == RECIPE_TUNE) {
        if (run.val_split == 0.0) run.val_split = 0.1;
        run.skip_test = true;
    }
    if (r->runs->sample_count > 0) run.samples_per_class = 0;
    run.out = NULL;
    run.lambda = usual.lambda;
    run.seed = usual.seed;
    run.seeds = usual.seeds;
    fprintf(to, "ole train");
    put_word(to, run.data);
    ole_train_put_flags(to, &run, 0);
}

/* What the paper reports. */
static ole_short_text reported_text(const recipe *p) {
    if (isfinite(p->reported[SOFTMAX].mean))
        return ole_printed("%s: softmax %s %%, with OLÉ %s %%", p->measure ? p->measure : "",
                           ole_study_error_text(p->reported[SOFTMAX], "").text,
                           ole_study_error_text(p->reported[WITH_OLE], "").text);
    return ole_printed("%s", p->reports ? p->reports : "no numbers");
}

static void put_plan(ole_json *w, const row *r, const plan *p, const char *command) {
    const recipe *asked = &r->asked;
    const ole_train_options *o = &r->train;
    const ole_short_text reported = reported_text(asked);
    ole_json_open(w, NULL, '{');
    ole_json_put(w, J("name", asked->name), J("shows", asked->shows), J("title", asked->title));
    if (asked->from) ole_json_string(w, "from", asked->from);
    ole_json_put(w, J("data", r->runs->train.data), J("here", p->here), J("part", p->part),
                 J("net", o->net), J("lambda", o->lambda), J("epochs", o->epochs),
                 J("batch_size", o->batch_size), J("opt", o->opt ? o->opt : "sgd"), J("lr", o->lr),
                 J("weight_decay", o->weight_decay), J("augment", o->augment ? o->augment : ""),
                 J("init", o->init ? o->init : ""), J("command", command));
    ole_json_numbers(w, "lambdas", r->runs->lambdas, r->runs->lambda_count);
    ole_json_integers(w, "samples", r->runs->samples, r->runs->sample_count);
    ole_json_put(
        w, J("seeds", o->seeds), J("runs", p->runs), J("runs_left", p->left.runs),
        J("seconds_left", p->left.seconds), J("minutes_a_run", r->runs->minutes),
        J("softmax", asked->reported[SOFTMAX].mean), J("softmax_std", asked->reported[SOFTMAX].std),
        J("ole", asked->reported[WITH_OLE].mean), J("ole_std", asked->reported[WITH_OLE].std),
        J("paper", (const char *)reported.text), J("folder", r->folder));
    ole_json_close(w);
}

static ole_short_text runs_text(int64_t runs) {
    return ole_printed("%" PRId64 " run%s", runs, runs == 1 ? "" : "s");
}

static void print_plan(const row *r, const plan *p, const char *command) {
    static const char *const what[] = {"with and without OLE", "lambda on a held-out tenth",
                                       "samples per class",    "known and novel classes",
                                       "features of runs of",  "learning curves of runs of"};
    const recipe *asked = &r->asked, *runs = r->runs;
    char missing[ROW_WHY];
    print_lines("%s: %s, %s%s%s\n  %s\n  paper: %s\n  %s\n  lambda", asked->name, asked->shows,
                what[asked->kind], asked->from ? " " : "", asked->from ? asked->from : "",
                asked->title, reported_text(asked).text, command);
    for (int i = 0; i < runs->lambda_count; i++)
        printf(" %g", runs->lambdas[i]);
    for (int i = 0; i < runs->sample_count; i++)
        printf("%s%" PRId64, i ? " " : "; samples per class ", runs->samples[i]);
    printf("; %" PRId64 " seed%s: %s", r->train.seeds, r->train.seeds == 1 ? "" : "s",
           runs_text(p->runs).text);
    if (runs->minutes > 0.0)
        printf(", about %s each on an H200 in bf16", duration_text(60.0 * runs->minutes).text);
    if (p->with)
        print_lines("\n  its runs are those of %s", p->with->asked.name);
    else if (p->left.runs == 0)
        printf("\n  all runs are finished");
    else if (!p->here)
        print_lines("\n  not timed: %s", row_missing(r, missing));
    else if (!isfinite(p->left.seconds))
        print_lines("\n  not timed%s%s", *p->error.message ? ": " : "", p->error.message);
    else
        printf("\n  %s to train, about %s here, one after the other, estimated from a few steps",
               runs_text(p->left.runs).text, duration_text(p->left.seconds).text);
    if (*p->part) print_lines("\n  uses part of the data: %s", p->part);
    print_lines("\n  into %s\n", r->folder);
}

static void add_to_list(ole_text_table *t, const row *r, const plan *p) {
    const ole_study_error *paper = r->asked.reported;
    const char *shows = r->asked.shows, *by = strstr(shows, ", by ");
    double seconds = p->left.seconds;
    ole_short_text reported = {""}, left = {"done"};
    if (isfinite(paper[SOFTMAX].mean) && isfinite(paper[WITH_OLE].mean))
        reported = ole_printed("%.2f, %.2f", paper[SOFTMAX].mean, paper[WITH_OLE].mean);
    if (p->left.runs != 0) /* "?" for NaN */
        left =
            seconds >= 2 * DAY ? ole_printed("%.0f days", seconds / DAY) : duration_text(seconds);
    ole_text_table_row(t, "%s|%.*s|%s|%s|%s", r->asked.name, by ? (int)(by - shows) : 40, shows,
                       reported.text,
                       !p->here   ? "missing"
                       : *p->part ? "partly"
                                  : "here",
                       left.text);
}

int plan_rows(row *rows, int count, bool list, bool json) {
    static const char *const names[] = {"row", "in the paper", "paper, %", "data", "here, about"};
    static const int widths[] = {23, 22, 14, 8, 1};
    ole_text_table table = {.columns = 5, .names = names};
    ole_error error;
    ole_json w;
    double flops = list && count > 0 ? ole_machine_flops(&rows[0].train, interrupted, &error) : 0.0;
    bool good = true;
    ole_json_init(&w, stdout, 2);
    if (json) ole_json_open(&w, NULL, '[');
    for (int i = 0; i < count && good; i++) {
        const row *first = list ? &rows[i] : row_with_runs(rows, count, &rows[i]);
        ole_memory_file memory;
        plan p = make_plan(&rows[i], first == &rows[i] ? NULL : first, flops);
        if (ole_memory_file_open(&memory)) put_training(memory.file, &rows[i]);
        char *command = ole_memory_file_close(&memory);
        good = command != NULL;
        if (good && json)
            put_plan(&w, &rows[i], &p, command);
        else if (good && list)
            add_to_list(&table, &rows[i], &p);
        else if (good)
            print_plan(&rows[i], &p, command);
        free(command);
    }
    if (json) ole_json_close(&w);
    if (list && !json) {
        print_table(&table, widths);
        printf("\n"
               "Paper: softmax, then with OLE. Times are estimates for the remaining runs, one\n"
               "after the other, from the speed of the CNN-5 here; '--dry-run ROW' times\n"
               "the row itself and prints how to get missing data.\n");
    }
    return good ? EXIT_DONE : fail_command("reproduce", "out of memory");
}

void announce_rows(row *rows, int count, const reproduction *how) {
    double seconds = 0.0;
    int timed = 0;
    for (row *r = rows; r < rows + count && !interrupted(); r++) {
        if (row_with_runs(rows, count, r) != r) continue;
        plan p = make_plan(r, NULL, 0.0);
        char text[ROW_TEXT] = "";
        add_item(text, "%s to train", runs_text(p.left.runs).text);
        if (p.left.runs > 0 && isfinite(p.left.seconds))
            add_item(text, "about %s here", duration_text(p.left.seconds).text);
        if (p.left.runs > 0 && !how->quick && how->epochs <= 0 && r->runs->minutes > 0.0)
            add_item(text, "about %s on an H200 in bf16",
                     duration_text(60.0 * r->runs->minutes * (double)p.left.runs).text);
        if (p.left.runs > 1 && strstr(text, "about")) add_item(text, "one after the other");
        tell_command("reproduce", "%s, %s: %s; %s", r->asked.name, r->asked.shows, r->asked.title,
                     text);
        if (*p.part)
            tell_command("reproduce", "%s: the data here are part of the published set: %s",
                         r->asked.name, p.part);
        seconds += p.left.seconds;
        timed++;
    }
    if (timed > 1 && isfinite(seconds))
        tell_command("reproduce", "about %s here in all", duration_text(seconds).text);
}
