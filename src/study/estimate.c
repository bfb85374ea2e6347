/*
 * src/study/estimate.c - how long the runs of a study take on this machine.
 *
 * A few steps of the network are timed on the device.  An image costs the same in steps of any size
 * that is worth timing; one that is only evaluated costs a third, as the backward pass takes twice
 * as long as the forward pass.
 */
#include "base/clock.h"
#include "bench/bench.h"
#include "model/network.h"
#include "ole/train/history.h"
#include "ole/train/net.h"
#include "study/by_kind.h"
#include "study/study.h"
#include "train/options/options.h"

#include <math.h>
#include <string.h>

/* ---- Images ------------------------------------------------------------------------------- */

static double epochs_done(const ole_study *study, const ole_study_run *run) {
    char folder[OLE_RUN_PATH];
    ole_history h;
    if (ole_run_path(folder, study->train.out, run->folder, NULL) != OLE_OK ||
        ole_history_read(&h, folder, NULL) != OLE_OK)
        return 0.0;
    double done = h.count > 0 ? (double)h.epochs[h.count - 1].epoch : 0.0;
    ole_history_free(&h);
    return done;
}

/* The rest of a run after `done` epochs, in images to train on.  `info` is that of the
 * study's options. */
static double images_of(const ole_train_options *o, const ole_dataset_info *info, bool sweep,
                        double done) {
    double held = (double)info->count[OLE_SPLIT_VALIDATION], left = (double)o->epochs - done;
    double all = sweep ? (double)o->samples_per_class * info->classes
                       : (double)info->count[OLE_SPLIT_TRAIN] + held;
    double test = o->skip_test ? 0.0 : (double)info->count[OLE_SPLIT_TEST];
    double looks = ceil(left / (double)(o->eval_every > 0 ? o->eval_every : 1));
    held = sweep ? o->val_split * all : o->val_split > 0.0 ? held : 0.0;
    double neighbours =
        !(o->loss & OLE_LOSS_CLASSIFIERS) ? looks : 1.0; /* 1-NN has the training set too */
    return left * (all - held) + (looks * (test + held) + neighbours * (all - held)) / 3.0;
}

static double images_left(const ole_study *study, const ole_dataset_info *info) {
    const ole_study_result *r = &study->result;
    bool sweep = study->kind == OLE_STUDY_SWEEP;
    double images = 0.0;
    for (const ole_study_run *run = r->runs; run < r->runs + r->run_count; run++) {
        const ole_train_options o = ole_study_run_options(study, run);
        if (run->state == OLE_STUDY_WAITS)
            images += images_of(&o, info, sweep, epochs_done(study, run));
    }
    ole_train_options again = study->train; /* of runs that follow once λ is chosen */
    again.val_split = 0.0;
    again.eval_every = again.epochs;
    return images + (double)(r->total - r->run_count) * images_of(&again, info, false, 0.0);
}

/* ---- Seconds per image -------------------------------------------------------------------- */

enum { STEPS = 6, FEW = 2 };
static const double STEP_SECONDS = 0.6; /* that one step may take */
static const double FIRST_FLOP = 2e9;   /* of the first step, which decides on the batch */

typedef struct watch {
    bool (*stopped)(void);
    bool one_by_one; /* each call is a step; else the device runs them by itself */
    int steps;
    double last, seconds, least; /* of all but the first, which has things to set up; of one */
} watch;

/* An ole_part_callback of ole_bench(). */
static bool note_step(void *context, const char *part, int64_t done, int64_t total) {
    (void)done, (void)total;
    watch *w = context;
    double now = ole_clock();
    w->one_by_one |= strcmp(part, "warm-up") == 0;
    if (w->steps++ > 0) {
        w->seconds += now - w->last;
        w->least = fmin(w->least, now - w->last);
    }
    w->last = now;
    bool enough = w->steps >= STEPS || (w->steps > 1 && w->seconds > STEP_SECONDS);
    return w->stopped() || (w->one_by_one && enough);
}

/* Seconds, and those of the fastest one; NaN if it cannot be timed. */
static double time_step(ole_bench_options *o, int64_t batch, bool (*stopped)(void), double *least,
                        ole_error *error) {
    watch w = {.stopped = stopped, .least = INFINITY};
    ole_bench_result result;
    o->batch_size = batch;
    o->callback_context = &w;
    if (ole_bench(o, &result, error) != OLE_OK || stopped()) return NAN;
    *least = result.interrupted ? w.least : 1e-3 * result.step_ms;
    return result.interrupted ? w.seconds / (w.steps - 1) : *least;
}

/* The FLOP of an image that is trained on; NaN for a network that cannot be built. */
static double image_flop(const ole_bench_options *o, ole_error *error) {
    ole_net *net;
    if (ole_net_create(&net, o->net, o->channels, o->height, o->width, o->classes, error) != OLE_OK)
        return NAN;
    double flop = 3.0 * (double)ole_net_totals(net).flop;
    ole_net_destroy(net);
    return flop;
}

/* Seconds of an image that is trained on.  Steps get `most` images, as in the runs, or as many as a
 * step that is not too long has. */
static double time_image(ole_bench_options *o, double most, bool (*stopped)(void),
                         ole_error *error) {
    double batch = fmin(most, floor(fmax(FEW, FIRST_FLOP / image_flop(o, error))));
    if (ole_device_queues(o->device)) batch = most;
    o->seconds = 0.2;
    o->step_only = true;
    o->callback = note_step;
    double least = NAN, seconds = time_step(o, (int64_t)batch, stopped, &least, error);
    if (!isfinite(seconds)) return NAN;
    double larger = fmin(most, floor(batch * STEP_SECONDS / least));
    if (larger <= batch) return seconds / batch;
    return time_step(o, (int64_t)larger, stopped, &least, error) / larger;
}

static ole_bench_options bench_options(const ole_train_options *train) {
    ole_bench_options o;
    ole_bench_options_init(&o);
    o.threads = train->threads;
    if (train->device) o.device = train->device;
    if (train->precision) o.precision = train->precision;
    if (train->conv) o.conv = train->conv;
    return o;
}

double ole_machine_flops(const ole_train_options *train, bool (*stopped)(void), ole_error *error) {
    ole_bench_options o = bench_options(train);
    o.net = "cnn5"; /* few weights and much arithmetic: small steps are as fast as large ones */
    o.height = o.width = 96;
    double flop = image_flop(&o, error);
    return flop / time_image(&o, 32.0, stopped, error);
}

double ole_study_seconds_left(const ole_study *study, double flops, bool (*stopped)(void),
                              ole_error *error) {
    ole_dataset *set;
    ole_dataset_options options;
    if (study->result.ended == study->result.total) return 0.0;
    ole_train_dataset_options(&study->train, &options);
    options.threads = ole_threads(study->train.threads);
    if (ole_dataset_open(&set, study->train.data, &options, error) != OLE_OK) return NAN;
    const ole_dataset_info *info = ole_dataset_get_info(set);
    double images = images_left(study, info);
    ole_bench_options o = bench_options(&study->train);
    o.net = study->train.net;
    o.channels = info->channels;
    o.height = info->height;
    o.width = info->width;
    o.classes = info->classes;
    ole_dataset_close(set);
    if (flops > 0.0) return images * image_flop(&o, error) / flops;
    return images * time_image(&o, (double)study->train.batch_size, stopped, error);
}
