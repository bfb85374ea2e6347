/*
 * src/study/work.c - trains the runs of a study in a job pool (train/ranks/job_pool.h): several at
 * once if requested, and distributed over ranks.  The results are rewritten after each run.
 */
#include "base/clock.h"
#include "base/error.h"
#include "study/study.h"
#include "train/ranks/job_pool.h"
#include "train/ranks/rank_resources.h"
#include "train/run/train_once.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A run at work. */
typedef struct job {
    ole_study *study;
    ole_job_pool *pool;
    int64_t run;
} job;

/* ---- Reports to the caller ---------------------------------------------------------------- */

/* From the pace of this process so far; every run counts by its cost. */
static double seconds_left(const ole_study *study) {
    const ole_study_result *r = &study->result;
    double done = 0.0, left = 0.0;
    for (int64_t i = 0; i < r->total; i++) {
        if (i >= r->run_count) { /* retrained on all training data */
            left += 1.0;
            continue;
        }
        const ole_run_share *share = &study->shares[i];
        double cost = ole_study_cost(study, &r->points[r->runs[i].point]);
        done += cost * (share->now - share->before);
        if (r->runs[i].state == OLE_STUDY_WAITS) left += cost * (1.0 - share->now);
    }
    return done > 0.0 ? left * (ole_clock() - study->started) / done : NAN;
}

/* With the pool locked. */
static void tell(const ole_study *study, ole_job_pool *pool, int64_t run,
                 const ole_train_progress *train) {
    const ole_study_options *o = study->given;
    if (!o->callback || ole_job_pool_stops(pool)) return;
    const ole_study_progress progress = {
        .result = &study->result, .run = run, .train = train, .seconds_left = seconds_left(study)};
    if (o->callback(o->callback_context, &progress)) ole_job_pool_stop(pool);
}

/* An ole_train_callback. */
static bool pass_progress(void *context, const ole_train_progress *p) {
    const job *j = context;
    ole_study *study = j->study;
    ole_job_pool_lock(j->pool);
    ole_run_share *share = &study->shares[j->run];
    double epoch = p->epoch_done ? 0.0 : (double)p->step / (double)p->steps - 1.0;
    double now = ((double)p->epoch + epoch) / (double)p->epochs;
    if (share->now == 0.0) share->before = now; /* done by other processes, and this one's start */
    if (study->started == 0.0) study->started = ole_clock();
    share->now = now;
    tell(study, j->pool, j->run, p);
    bool stop = ole_job_pool_stops(j->pool);
    ole_job_pool_unlock(j->pool);
    return stop;
}

/* Whether two messages differ in their numbers alone. */
static bool same_message(const char *a, const char *b) {
    static const char digits[] = "0123456789";
    for (;; a++, b++) {
        a += strspn(a, digits);
        b += strspn(b, digits);
        if (*a != *b || !*a) return *a == *b;
    }
}

/* An ole_train_message: forwards messages that no other run has sent. */
static void pass_message(void *context, const char *text) {
    const job *j = context;
    ole_said *said = &j->study->said;
    ole_job_pool_lock(j->pool);
    bool known = false;
    for (int i = 0; i < OLE_SAID && i < said->count; i++)
        known |= same_message(said->text[i], text);
    if (!known) {
        snprintf(said->text[said->count++ % OLE_SAID], sizeof said->text[0], "%s", text);
        ole_study_say(j->study, "%s", text);
    }
    ole_job_pool_unlock(j->pool);
}

/* ---- A run -------------------------------------------------------------------------------- */

/* How many of `runs` train at once. */
static int count_jobs(const ole_study *study, int64_t runs) {
    int64_t jobs = study->given->jobs, ranks = ole_ranks_size(study->ranks);
    int64_t most = (runs + ranks - 1) / ranks;
    if (jobs == 0) jobs = ole_device_queues(study->train.device) ? study->result.seeds : 1;
    jobs = jobs < most ? jobs : most;
    return jobs < 1 ? 1 : (int)jobs;
}

/* The threads of a run, which its bits depend on: its share of the processors among all runs of
 * the study, however many are left, unless a number is given. */
static int threads_of(const ole_study *study) {
    int given = study->train.threads, jobs = count_jobs(study, study->result.total);
    if (given > 0 || jobs == 1 || ole_device_queues(study->train.device)) return given;
    int each = ole_rank_threads(0, study->ranks) / jobs;
    return each > 1 ? each : 1;
}

static ole_status train(job *j, ole_train_summary *summary, ole_error *error) {
    const ole_study *study = j->study;
    const ole_study_run *run = &study->result.runs[j->run];
    char out[OLE_RUN_PATH];
    ole_status status = ole_run_output_folder(out, study->train.out, run->folder, error);
    if (status != OLE_OK) return status;
    ole_train_options options = ole_study_run_options(study, run);
    options.out = out;
    options.resume = ole_run_has(out, "config.yaml");
    options.threads = threads_of(study);
    options.beside = study->ranks;
    options.callback = pass_progress;
    options.message = pass_message;
    options.callback_context = j;
    return ole_train_once(&options, 1, 1, summary, error);
}

/* How the run ended, from its folder, in which a divergence is recorded first. */
static ole_status take_over(const job *j, ole_status ended, const ole_error *why,
                            ole_study_run *run, ole_error *error) {
    const ole_study *study = j->study;
    *run = study->result.runs[j->run];
    if (ended == OLE_OK) return ole_record_read_run(study, run, error);
    if (ended != OLE_ERROR_NUMERIC)
        return ole_fail(error, ended, "%s: %s", run->folder, why->message);
    run->state = OLE_STUDY_DIVERGED;
    return ole_record_diverged(study, run, why->message, error);
}

/* An ole_job_plan's run. */
static ole_status do_run(void *context, ole_job_pool *pool, int64_t number, void *result,
                         bool *stopped, ole_error *error) {
    job j = {context, pool, number};
    ole_train_summary summary = {0};
    ole_error why;
    ole_status ended = train(&j, &summary, &why);
    *stopped = ended == OLE_OK && summary.interrupted;
    if (*stopped) return OLE_OK;
    ole_status status = take_over(&j, ended, &why, result, error);
    if (status != OLE_OK || ended == OLE_OK) return status;
    ole_job_pool_lock(pool);
    ole_study_say(j.study, "%s: %s", j.study->result.runs[number].folder, why.message);
    ole_job_pool_unlock(pool);
    return OLE_OK;
}

/* An ole_job_plan's ended: the results grow by a run of this or another rank. */
static ole_status take_in(void *context, ole_job_pool *pool, int64_t number, int rank,
                          const void *result, ole_error *error) {
    ole_study *study = context;
    ole_study_run *run = &study->result.runs[number];
    const char *folder = run->folder; /* the text is each rank's own */
    memcpy(run, result, sizeof *run);
    run->folder = folder;
    study->shares[number].now = 1.0;
    ole_study_sum_up(study);
    ole_status status = ole_study_write(study, error);
    bool here = rank == ole_ranks_rank(study->ranks);
    if (!here && ole_study_leads(study) && run->state == OLE_STUDY_DIVERGED)
        ole_study_say(study, "%s: diverged on rank %d; see its failed.txt", run->folder, rank);
    if (status == OLE_OK && (here || ole_study_leads(study))) tell(study, pool, number, NULL);
    return status;
}

/* ---- All of them -------------------------------------------------------------------------- */

/* The waiting runs, in the order of the study; with ranks the longest first, so that no rank is
 * left with a long run while the others are idle. */
static int64_t order_runs(const ole_study *study, int64_t *order) {
    const ole_study_result *r = &study->result;
    int64_t count = 0;
    for (int64_t i = 0; i < r->run_count; i++) {
        double cost = ole_study_cost(study, &r->points[r->runs[i].point]);
        int64_t at = count;
        if (r->runs[i].state != OLE_STUDY_WAITS) continue;
        for (; study->ranks && at > 0; at--) {
            if (ole_study_cost(study, &r->points[r->runs[order[at - 1]].point]) >= cost) break;
            order[at] = order[at - 1];
        }
        order[at] = i;
        count++;
    }
    return count;
}

ole_status ole_study_work(ole_study *study, ole_error *error) {
    int64_t *order = calloc((size_t)study->result.run_count + 1, sizeof *order);
    ole_status status = order ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    status = ole_ranks_agree(study->ranks, status, error);
    if (status == OLE_OK) {
        int64_t count = order_runs(study, order);
        const ole_job_plan plan = {.ranks = study->ranks,
                                   .order = order,
                                   .count = count,
                                   .jobs = count_jobs(study, count),
                                   .result_bytes = sizeof(ole_study_run),
                                   .run = do_run,
                                   .ended = take_in,
                                   .context = study};
        bool stopped;
        status = ole_job_pool_run(&plan, &stopped, error);
        study->result.interrupted = status == OLE_OK && stopped;
    }
    free(order);
    return status;
}
