/*
 * src/study/work.c - the runs of a study: several at once where that is asked for, each in a thread
 * of its own; after each of them the results are written anew.
 */
#include "base/clock.h"
#include "base/error.h"
#include "study/study.h"
#include "train/network.h"
#include "train/seeds.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the workers share; the mutex guards all of it, and the study. */
typedef struct crew {
    ole_study *study;
    int jobs;
    pthread_mutex_t mutex;
    int64_t next; /* the first run that none has looked at */
    bool stop;
    ole_status status; /* the first failure */
    ole_error error;
} crew;

/* A run at work. */
typedef struct job {
    crew *all;
    int64_t run;
} job;

static void fail_all(crew *all, ole_status status, const ole_error *error) {
    if (all->status == OLE_OK) {
        all->status = status;
        all->error = *error;
    }
    all->stop = true;
}

/* ---- What the caller hears ---------------------------------------------------------------- */

/* From the pace of what this process has done; every run counts by what it costs. */
static double seconds_left(const ole_study *study) {
    const ole_study_result *r = &study->result;
    double done = 0.0, left = 0.0;
    for (int64_t i = 0; i < r->total; i++) {
        if (i >= r->run_count) { /* trained again, on everything */
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

static void tell(crew *all, int64_t run, const ole_train_progress *train) {
    const ole_study *study = all->study;
    const ole_study_options *o = study->given;
    if (!o->callback || all->stop) return;
    const ole_study_progress progress = {
        .result = &study->result, .run = run, .train = train, .seconds_left = seconds_left(study)};
    all->stop = o->callback(o->callback_context, &progress);
}

/* An ole_train_callback. */
static bool pass_progress(void *context, const ole_train_progress *p) {
    const job *j = context;
    crew *all = j->all;
    pthread_mutex_lock(&all->mutex);
    ole_run_share *share = &all->study->shares[j->run];
    double epoch = p->epoch_done ? 0.0 : (double)p->step / (double)p->steps - 1.0;
    double now = ((double)p->epoch + epoch) / (double)p->epochs;
    if (share->now == 0.0) /* one step may have been done, or many before this process */
        share->before = fmax(0.0, now - 1.0 / (double)(p->epochs * p->steps));
    share->now = now;
    tell(all, j->run, p);
    bool stop = all->stop;
    pthread_mutex_unlock(&all->mutex);
    return stop;
}

/* Whether two messages are the same but for their numbers. */
static bool same_message(const char *a, const char *b) {
    static const char digits[] = "0123456789";
    for (;; a++, b++) {
        a += strspn(a, digits);
        b += strspn(b, digits);
        if (*a != *b || !*a) return *a == *b;
    }
}

/* An ole_train_message: what one run says, the others need not say again. */
static void pass_message(void *context, const char *text) {
    crew *all = ((const job *)context)->all;
    pthread_mutex_lock(&all->mutex);
    ole_said *said = &all->study->said;
    bool known = false;
    for (int i = 0; i < OLE_SAID && i < said->count; i++)
        known |= same_message(said->text[i], text);
    if (!known) {
        snprintf(said->text[said->count++ % OLE_SAID], sizeof said->text[0], "%s", text);
        ole_study_say(all->study, "%s", text);
    }
    pthread_mutex_unlock(&all->mutex);
}

/* ---- A run -------------------------------------------------------------------------------- */

/* The threads of a run: its share of the processors, unless a number is given. */
static int threads_of(const crew *all) {
    int given = all->study->train.threads;
    if (given > 0 || all->jobs == 1 || ole_device_queues(all->study->train.device)) return given;
    int each = ole_threads(0) / all->jobs;
    return each > 1 ? each : 1;
}

static ole_status train(const job *j, ole_train_summary *summary, ole_error *error) {
    const crew *all = j->all;
    const ole_study *study = all->study;
    const ole_study_run *run = &study->result.runs[j->run];
    char out[OLE_RUN_PATH];
    ole_status status = ole_run_path(out, study->train.out, run->folder, error);
    if (status != OLE_OK) return status;
    ole_train_options options = ole_study_run_options(study, run);
    options.out = out;
    options.resume = ole_run_has(out, "config.yaml");
    options.threads = threads_of(all);
    options.callback = pass_progress;
    options.message = pass_message;
    options.callback_context = (void *)j;
    return ole_train_once(&options, 1, 1, summary, error);
}

/* Takes over how the run ended, and writes that down; under the mutex. */
static ole_status take_over(crew *all, ole_study_run *run, ole_status ended, const ole_error *why,
                            ole_error *error) {
    ole_study *study = all->study;
    ole_status status = OLE_OK;
    if (ended == OLE_OK) {
        status = ole_record_read_run(study, run, error);
    } else if (ended == OLE_ERROR_NUMERIC) {
        run->state = OLE_STUDY_DIVERGED;
        status = ole_record_diverged(study, run, why->message, error);
        ole_study_say(study, "%s: %s", run->folder, why->message);
    } else {
        return ole_fail(error, ended, "%s: %s", run->folder, why->message);
    }
    ole_study_sum_up(study);
    if (status == OLE_OK) status = ole_study_write_results(study, error);
    if (status == OLE_OK) status = ole_study_write_report(study, error);
    return status;
}

static void do_run(crew *all, int64_t number) {
    job j = {all, number};
    ole_study_run *run = &all->study->result.runs[number];
    ole_train_summary summary = {0};
    ole_error why, error;
    ole_status ended = train(&j, &summary, &why);
    pthread_mutex_lock(&all->mutex);
    if (ended == OLE_OK && summary.interrupted) {
        all->study->result.interrupted = true;
    } else {
        ole_status status = take_over(all, run, ended, &why, &error);
        if (status != OLE_OK) fail_all(all, status, &error);
        if (run->state != OLE_STUDY_WAITS) all->study->shares[number].now = 1.0;
        if (status == OLE_OK) tell(all, number, NULL);
    }
    pthread_mutex_unlock(&all->mutex);
}

/* ---- All of them -------------------------------------------------------------------------- */

/* The next run to do; -1: none. */
static int64_t take_run(crew *all) {
    const ole_study_result *r = &all->study->result;
    int64_t run = -1;
    pthread_mutex_lock(&all->mutex);
    while (!all->stop && run < 0 && all->next < r->run_count) {
        if (r->runs[all->next].state == OLE_STUDY_WAITS) run = all->next;
        all->next++;
    }
    pthread_mutex_unlock(&all->mutex);
    return run;
}

static void *work(void *context) {
    crew *all = context;
    for (int64_t run; (run = take_run(all)) >= 0;)
        do_run(all, run);
    return NULL;
}

static int count_jobs(const ole_study *study) {
    int64_t waiting = 0, jobs = study->given->jobs;
    for (int64_t i = 0; i < study->result.run_count; i++)
        waiting += study->result.runs[i].state == OLE_STUDY_WAITS;
    if (jobs == 0) jobs = ole_device_queues(study->train.device) ? study->result.seeds : 1;
    jobs = jobs < waiting ? jobs : waiting;
    return jobs < 1 ? 1 : (int)jobs;
}

/* The calling thread is one of the workers, so that a system without more still gets on. */
ole_status ole_study_work(ole_study *study, ole_error *error) {
    crew *all = calloc(1, sizeof *all);
    int jobs = count_jobs(study), started = 0;
    pthread_t *threads = calloc((size_t)jobs, sizeof *threads);
    ole_status status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    if (all && threads) {
        *all = (crew){.study = study, .jobs = jobs};
        pthread_mutex_init(&all->mutex, NULL);
        while (started < jobs - 1 && pthread_create(&threads[started], NULL, work, all) == 0)
            started++;
        work(all);
        for (int i = 0; i < started; i++)
            pthread_join(threads[i], NULL);
        pthread_mutex_destroy(&all->mutex);
        status = all->status;
        if (status != OLE_OK && error) *error = all->error;
        bool waits = study->result.ended < study->result.run_count;
        if (status == OLE_OK && all->stop && waits) study->result.interrupted = true;
    }
    free(all);
    free(threads);
    return status;
}
