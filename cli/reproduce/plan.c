/*
 * cli/reproduce/plan.c - what `ole reproduce` could make (--list), would make (--dry-run) and is
 * about to make, with the time that takes.
 */
#include "reproduce/reproduce.h"

#include "base/memory_file.h"
#include "bench/bench.h"
#include "common/common.h"
#include "common/trained_data.h"
#include "formats/json.h"
#include "train/options/option_table.h"
#include <ole/train/history.h>
#include <ole/train/net.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 6, FEW = 2 };
static const double STEP_SECONDS = 0.6; /* that one step may take */
static const double FIRST_FLOP = 2e9;   /* of the first step, which decides on the batch */

/* ---- Time ---------------------------------------------------------------------------------
 *
 * A few steps of the net are timed on the device.  An image costs the same in steps of any size
 * that is worth timing; one that is only evaluated costs a third, as the backward pass takes twice
 * as long as the forward pass.  Figures are not counted. */

typedef struct watch {
    bool one_by_one; /* each call is a step; else the device runs them by itself */
    int steps;
    double last, seconds, least; /* of all but the first, which has things to set up; of one */
} watch;

/* An ole_part_callback of ole_bench(). */
static bool note_step(void *context, const char *part, int64_t done, int64_t total) {
    (void)done, (void)total;
    watch *w = context;
    double now = progress_clock();
    w->one_by_one |= strcmp(part, "warm-up") == 0;
    if (w->steps++ > 0) {
        w->seconds += now - w->last;
        w->least = fmin(w->least, now - w->last);
    }
    w->last = now;
    bool enough = w->steps >= STEPS || (w->steps > 1 && w->seconds > STEP_SECONDS);
    return interrupted() || (w->one_by_one && enough);
}

/* Seconds, and of the fastest one; NaN where it cannot be timed. */
static double time_step(ole_bench_options *o, int64_t batch, double *least, ole_error *error) {
    watch w = {.least = INFINITY};
    ole_bench_result result;
    o->batch_size = batch;
    o->callback_context = &w;
    if (ole_bench(o, &result, error) != OLE_OK || interrupted()) return NAN;
    *least = result.interrupted ? w.least : 1e-3 * result.step_ms;
    return result.interrupted ? w.seconds / (w.steps - 1) : *least;
}

/* Seconds of an image that is trained on.  Steps get as many as they have in the runs, or as many
 * as a step that is not too long has. */
static double time_image(const row *r, const ole_dataset_info *info, ole_error *error) {
    const ole_train_options *train = &r->train;
    ole_bench_options o;
    ole_net *net;
    ole_bench_options_init(&o);
    o.net = train->net;
    o.channels = info->channels;
    o.height = info->height;
    o.width = info->width;
    o.classes = info->classes;
    o.threads = train->threads;
    o.seconds = 0.2;
    o.step_only = true;
    o.callback = note_step;
    if (train->device) o.device = train->device;
    if (train->precision) o.precision = train->precision;
    if (train->conv) o.conv = train->conv;
    if (ole_net_create(&net, o.net, o.channels, o.height, o.width, o.classes, error) != OLE_OK)
        return NAN;
    double flop = 3.0 * (double)ole_net_totals(net).flop, most = (double)train->batch_size;
    ole_net_destroy(net);
    double batch = fmin(most, floor(fmax(FEW, FIRST_FLOP / flop)));
    if (ole_device_queues(o.device)) batch = most;
    double least = NAN, seconds = time_step(&o, (int64_t)batch, &least, error);
    if (!isfinite(seconds)) return NAN;
    double larger = fmin(most, floor(batch * STEP_SECONDS / least));
    if (larger <= batch) return seconds / batch;
    return time_step(&o, (int64_t)larger, &least, error) / larger;
}

/* Epochs that a run has behind it. */
static double epochs_done(const row *r, const ole_study_run *run) {
    char folder[ROW_PATH];
    ole_history h;
    join_path(folder, r->runs_folder, run->folder);
    if (ole_history_read(&h, folder, NULL) != OLE_OK) return 0.0;
    double done = h.count > 0 ? (double)h.epochs[h.count - 1].epoch : 0.0;
    ole_history_free(&h);
    return done;
}

/* A run, in images that are trained on: what is left of it after `done` epochs.  `again`: with the
 * λ that a tuning chose. */
static double images_of(const row *r, const ole_dataset_info *info, bool again, int64_t samples,
                        double done) {
    const ole_train_options *o = &r->train;
    double held = (double)info->count[OLE_SPLIT_VALIDATION];
    double train = (double)info->count[OLE_SPLIT_TRAIN], test = (double)info->count[OLE_SPLIT_TEST];
    double left = (double)o->epochs - done;
    double looks = again ? 1.0 : ceil(left / (double)(o->eval_every > 0 ? o->eval_every : 1));
    if (samples > 0) train = (double)samples * info->classes;
    if (row_study_kind(r) == OLE_STUDY_TUNE) {
        double all = train + held, share = o->val_split > 0.0 ? o->val_split : 0.1;
        held = again ? 0.0 : share * all;
        train = all - held;
        test = again ? test : 0.0;
    }
    double neighbours = o->loss == OLE_LOSS_OLE ? looks : 1.0; /* 1-NN has the training set too */
    return left * train + (looks * (test + held) + neighbours * train) / 3.0;
}

/* Runs of a study that has not begun. */
static double images_of_all(const row *r, const ole_dataset_info *info) {
    const recipe *p = r->runs;
    double images = 0.0;
    for (int i = 0; i < p->sample_count || i == 0; i++)
        images += (double)p->lambda_count *
                  images_of(r, info, false, p->sample_count ? p->samples[i] : 0, 0);
    if (row_study_kind(r) == OLE_STUDY_TUNE) images += 2.0 * images_of(r, info, true, 0, 0.0);
    return images * (double)r->train.seeds;
}

/* Runs that have not ended. */
static double images_left(const row *r, const ole_dataset_info *info, const ole_study_result *s) {
    double images = 0.0;
    for (int64_t i = 0; i < s->run_count; i++) {
        const ole_study_run *run = &s->runs[i];
        const ole_study_point *point = &s->points[run->point];
        if (run->state == OLE_STUDY_WAITS)
            images +=
                images_of(r, info, point->part == OLE_STUDY_RETRAIN,
                          s->kind == OLE_STUDY_SWEEP ? point->samples : 0, epochs_done(r, run));
    }
    return images + (double)(s->total - s->run_count) * images_of(r, info, true, 0, 0.0);
}

typedef struct row_time {
    int64_t runs;    /* left to make */
    double seconds;  /* about, here, one after the other; NaN: not known */
    ole_error error; /* then: why */
} row_time;

/* Times a few steps, for a second or two; Ctrl-C ends that.  The data must have been found. */
static row_time time_left(const row *r) {
    ole_study_result s = {0};
    progress line = progress_start();
    row_time time = {.runs = row_count_runs(r), .seconds = NAN};
    bool begun = ole_run_has(r->runs_folder, "study.json");
    if (begun && !row_look(r, &s, &time.error)) return time;
    if (begun) time.runs = s.total - s.ended;
    progress_wait(&line, "timing a few steps");
    ole_dataset *set;
    const ole_dataset_options options = run_dataset_options(&r->train, default_threads());
    if (time.runs == 0) {
        time.seconds = 0.0;
    } else if (ole_dataset_open(&set, r->train.data, &options, &time.error) == OLE_OK) {
        const ole_dataset_info *info = ole_dataset_get_info(set);
        time.seconds = begun ? images_left(r, info, &s) : images_of_all(r, info);
        time.seconds *= time_image(r, info, &time.error);
        ole_dataset_close(set);
    }
    progress_clear(&line);
    ole_study_result_free(&s);
    return time;
}

/* ---- --list ------------------------------------------------------------------------------- */

/* ", about 12 min 00 s each on an H200 in bf16", or "" where the recipe does not know. */
static const char *usual_time(const row *r, char out[80]) {
    char time[32];
    out[0] = '\0';
    if (r->runs->minutes > 0.0)
        snprintf(out, 80, ", about %s each on an H200 in bf16",
                 duration_text(60.0 * r->runs->minutes, time));
    return out;
}

/* What the paper reports. */
static const char *reported_text(const recipe *p, char out[256]) {
    char softmax[OLE_ERROR_TEXT], ole[OLE_ERROR_TEXT];
    if (isfinite(p->reported[SOFTMAX].mean))
        snprintf(out, 256, "%s: softmax %s %%, with OLÉ %s %%", p->measure ? p->measure : "",
                 ole_study_error_text(p->reported[SOFTMAX], "", softmax),
                 ole_study_error_text(p->reported[WITH_OLE], "", ole));
    else
        snprintf(out, 256, "%s", p->reports ? p->reports : "no numbers");
    return out;
}

/* `part`: of the data that are here. */
static void list_json(const row *r, ole_json *w, const char *data, bool here, const char *part) {
    const recipe *p = &r->asked;
    char reports[256];
    ole_json_open(w, NULL, '{');
    ole_json_string(w, "name", p->name);
    ole_json_string(w, "shows", p->shows);
    ole_json_string(w, "title", p->title);
    ole_json_string(w, "data", data);
    ole_json_bool(w, "here", here);
    ole_json_string(w, "part", part);
    ole_json_string(w, "net", r->train.net);
    ole_json_number(w, "lambda", r->train.lambda);
    ole_json_integer(w, "epochs", r->train.epochs);
    ole_json_integer(w, "batch_size", r->train.batch_size);
    ole_json_string(w, "opt", r->train.opt ? r->train.opt : "sgd");
    ole_json_number(w, "lr", r->train.lr);
    ole_json_number(w, "weight_decay", r->train.weight_decay);
    ole_json_string(w, "augment", r->train.augment ? r->train.augment : "");
    ole_json_string(w, "init", r->train.init ? r->train.init : "");
    ole_json_integer(w, "seeds", r->train.seeds);
    ole_json_integer(w, "runs", row_count_runs(r));
    ole_json_number(w, "minutes_a_run", r->runs->minutes);
    ole_json_number(w, "softmax", p->reported[SOFTMAX].mean);
    ole_json_number(w, "softmax_std", p->reported[SOFTMAX].std);
    ole_json_number(w, "ole", p->reported[WITH_OLE].mean);
    ole_json_number(w, "ole_std", p->reported[WITH_OLE].std);
    ole_json_string(w, "paper", reported_text(p, reports));
    ole_json_close(w);
}

static void list_text(const row *r, const char *data, bool here, const char *part) {
    const recipe *p = &r->asked;
    char state[640], reports[256], time[80];
    if (here)
        snprintf(state, sizeof state, "here%s%s", *part ? ": " : "", part);
    else if (r->runs->needs)
        snprintf(state, sizeof state, "not here: it needs %.500s",
                 p->needs ? p->needs : r->runs->needs);
    else
        snprintf(state, sizeof state, "not here: 'ole data get %.100s'", data);
    print_lines(
        "%s\n    %s: %s\n    paper  %s\n    data   %s, %s\n    time   %" PRId64 " runs%s%s%s\n\n",
        p->name, p->shows, p->title, reported_text(p, reports), data, state, row_count_runs(r),
        usual_time(r, time), p->from ? ", shared with " : "", p->from ? p->from : "");
}

int list_rows(const char *const *names, int count, const reproduction *how, bool json) {
    ole_json w;
    int all = count > 0 ? count : recipe_count();
    bool good = true;
    ole_json_init(&w, stdout, 2);
    if (json) ole_json_open(&w, NULL, '[');
    for (int i = 0; i < all && good; i++) {
        row r;
        char why[600], part[PART_ROOM] = "";
        good = row_open(&r, count > 0 ? names[i] : recipe_name(i), how);
        const char *data = r.train.data; /* as the recipe calls it */
        bool here = good && row_locate(&r, why);
        if (here) row_part(&r, part);
        if (good && json) list_json(&r, &w, data, here, part);
        if (good && !json) list_text(&r, data, here, part);
        row_close(&r);
    }
    if (json && good) ole_json_close(&w);
    return good ? EXIT_DONE : EXIT_USAGE;
}

/* ---- --dry-run ---------------------------------------------------------------------------- */

/* The command that makes one of the runs, without what differs between them; free() it.  NULL: out
 * of memory. */
static char *training_command(const row *r) {
    static const char *const elsewhere[] = {"data", "out", "resume", "lambda", "seed", "seeds"};
    ole_train_options run = r->train, usual;
    ole_memory_file memory;
    if (!ole_memory_file_open(&memory)) return NULL;
    ole_train_options_init(&usual);
    if (r->runs->kind == RECIPE_TUNE) {
        if (run.val_split == 0.0) run.val_split = 0.1;
        run.skip_test = true;
    }
    fprintf(memory.file, "ole train");
    put_word(memory.file, run.data);
    for (const ole_option *o = ole_train_table; o->name; o++) {
        char value[OLE_OPTION_VALUE], flag[OLE_OPTION_FLAG];
        const char *text = ole_option_text(o, &run, value);
        bool planned = r->runs->sample_count > 0 && strcmp(o->name, "samples_per_class") == 0;
        for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
            planned |= strcmp(o->name, elsewhere[i]) == 0;
        if (!text || planned || !ole_option_differs(o, &run, &usual)) continue;
        bool off = o->kind == OLE_SWITCH && strcmp(text, "false") == 0;
        fprintf(memory.file, " --%s%s", off ? "no-" : "", ole_option_flag(o, flag) + 2);
        if (o->kind != OLE_SWITCH) put_word(memory.file, text);
    }
    return ole_memory_file_close(&memory);
}

/* What is known about a row before it runs. */
typedef struct plan {
    bool here;        /* its data */
    const char *with; /* the row above whose runs these are, or NULL */
    char part[PART_ROOM];
    char *command;
    row_time left;
} plan;

static void print_plan(const row *r, const plan *p) {
    static const char *const what[] = {"with and without OLE", "lambda on a held-out tenth",
                                       "samples per class",    "known and novel classes",
                                       "features of runs of",  "learning curves of runs of"};
    char time[80];
    int64_t seeds = r->train.seeds, runs = row_count_runs(r), left = p->left.runs;
    print_lines("%s: %s, %s%s%s\n  %s\n  lambda", r->asked.name, r->asked.shows,
                what[r->asked.kind], r->asked.from ? " " : "", r->asked.from ? r->asked.from : "",
                p->command);
    for (int i = 0; i < r->runs->lambda_count; i++)
        printf(" %g", r->runs->lambdas[i]);
    for (int i = 0; i < r->runs->sample_count; i++)
        printf("%s%" PRId64, i ? " " : "; samples per class ", r->runs->samples[i]);
    printf("; %" PRId64 " seed%s: %" PRId64 " run%s%s\n", seeds, seeds == 1 ? "" : "s", runs,
           runs == 1 ? "" : "s", usual_time(r, time));
    if (!p->here)
        printf("  not timed: its data are not here\n");
    else if (p->with)
        print_lines("  its runs are those of %s\n", p->with);
    else if (left == 0)
        printf("  all runs are finished\n");
    else if (!isfinite(p->left.seconds))
        print_lines("  not timed%s%s\n", *p->left.error.message ? ": " : "", p->left.error.message);
    else
        printf("  %" PRId64 " run%s to make, about %s here, one after the other, estimated from a "
               "few steps\n",
               left, left == 1 ? "" : "s", duration_text(p->left.seconds, time));
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
    for (int i = 0; i < r->runs->lambda_count; i++)
        ole_json_number(w, NULL, r->runs->lambdas[i]);
    ole_json_close(w);
    ole_json_open(w, "samples", '[');
    for (int i = 0; i < r->runs->sample_count; i++)
        ole_json_integer(w, NULL, r->runs->samples[i]);
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

int plan_rows(row *rows, int count, bool json) {
    ole_json w;
    bool good = true;
    ole_json_init(&w, stdout, 2);
    if (json) ole_json_open(&w, NULL, '[');
    for (int i = 0; i < count && good; i++) {
        row *r = &rows[i];
        const row *first = row_with_runs(rows, count, r);
        char why[600];
        plan p = {.with = first != r ? first->asked.name : NULL,
                  .left = {.runs = row_count_runs(r), .seconds = NAN}};
        p.here = row_locate(r, why); /* if not, the command has the recipe's names */
        row_part(r, p.part);
        if (p.with)
            p.left = (row_time){.runs = 0};
        else if (p.here)
            p.left = time_left(r);
        p.command = training_command(r);
        good = p.command != NULL;
        if (good && json) put_plan(r, &p, &w);
        if (good && !json) print_plan(r, &p);
        free(p.command);
    }
    if (json) ole_json_close(&w);
    return good ? EXIT_DONE : fail_command("reproduce", "out of memory");
}

/* ---- Before the runs ---------------------------------------------------------------------- */

void name_row(const row *r) {
    fprintf(stderr, "ole reproduce: ");
    print_name(stderr, r->asked.name);
    fprintf(stderr, ", ");
    print_name(stderr, r->asked.shows);
    fprintf(stderr, ": ");
    print_name(stderr, r->asked.title);
}

void announce_rows(row *rows, int count, const reproduction *how) {
    double seconds = 0.0;
    int timed = 0;
    char time[32], part[PART_ROOM];
    for (int i = 0; i < count && !interrupted(); i++) {
        const row *r = &rows[i];
        if (row_with_runs(rows, count, r) != r) continue;
        row_time left = time_left(r);
        bool here = left.runs > 0 && isfinite(left.seconds);
        bool there = left.runs > 0 && !how->quick && how->epochs <= 0 && r->runs->minutes > 0.0;
        name_row(r);
        fprintf(stderr, "; %" PRId64 " run%s to make", left.runs, left.runs == 1 ? "" : "s");
        if (here) fprintf(stderr, ", about %s here", duration_text(left.seconds, time));
        if (there)
            fprintf(stderr, ", about %s on an H200 in bf16",
                    duration_text(60.0 * r->runs->minutes * (double)left.runs, time));
        fprintf(stderr, (here || there) && left.runs > 1 ? ", one after the other\n" : "\n");
        row_part(r, part);
        if (*part)
            tell_command("reproduce", "%s: the data here are a part of what is published: %s",
                         r->asked.name, part);
        seconds += left.seconds;
        timed++;
    }
    if (timed > 1 && isfinite(seconds))
        fprintf(stderr, "ole reproduce: about %s here in all\n", duration_text(seconds, time));
}
