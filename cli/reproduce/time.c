/*
 * cli/reproduce/time.c - how long the runs of a row that are left will take here: a few steps of
 * its net are timed on the device.
 *
 * An image costs the same in steps of any size that is worth timing; one that is only evaluated
 * costs a third, for the way back is twice the way there.  Figures are not counted.
 */
#include "reproduce/reproduce.h"

#include "common/common.h"
#include "common/trained_data.h"

#include <ole/train/bench.h>
#include <ole/train/history.h>
#include <ole/train/net.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 6, FEW = 2 };
static const double STEP_SECONDS = 0.6; /* that one step may take */
static const double FIRST_FLOP = 2e9;   /* of the step that says how many images that are */

/* ---- A step ------------------------------------------------------------------------------- */

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
    double least, seconds = time_step(&o, (int64_t)batch, &least, error);
    if (!isfinite(seconds)) return NAN;
    double larger = fmin(most, floor(batch * STEP_SECONDS / least));
    if (larger <= batch) return seconds / batch;
    return time_step(&o, (int64_t)larger, &least, error) / larger;
}

/* ---- The runs ----------------------------------------------------------------------------- */

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

row_time row_time_left(const row *r) {
    ole_study_result s = {0};
    row_time time = {.runs = row_count_runs(r), .seconds = NAN};
    bool begun = ole_run_has(r->runs_folder, "study.json");
    if (begun && !row_look(r, &s, &time.error)) return time;
    if (begun) time.runs = s.total - s.ended;
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
    ole_study_result_free(&s);
    return time;
}
