/*
 * src/train/ranks/job_pool.c - threads that do runs, and the meetings in which ranks share them
 * out.
 */
#include "train/ranks/job_pool.h"

#include "base/error.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Seconds between two meetings: short when something has happened, doubled while nothing does. */
static const double SHORTEST = 0.001, LONGEST = 0.1;

/* The mutex guards all but the plan. */
struct ole_crew {
    const ole_crew_plan *plan;
    pthread_mutex_t mutex;
    pthread_cond_t change;
    int64_t *mine;  /* runs of this rank, [plan->count] */
    int64_t handed; /* so many of them are there, */
    int64_t begun;  /* and so many were begun */
    int64_t ended;  /* runs of all ranks */
    int running;
    int workers;
    bool all_handed; /* no more will come */
    bool stop;
    ole_status status; /* the first failure here */
    ole_error error;
    char *news; /* of runs that ended here and the others do not know of: number, result */
    int64_t news_count;
};

/* What a rank says when they meet. */
typedef struct report {
    int64_t room;    /* runs it could begin */
    int64_t pending; /* runs that it has and that did not end before this meeting */
    int64_t news;    /* runs that ended since the last one */
    int64_t stop;
} report;

void ole_crew_lock(ole_crew *crew) {
    pthread_mutex_lock(&crew->mutex);
}

void ole_crew_unlock(ole_crew *crew) {
    pthread_mutex_unlock(&crew->mutex);
}

void ole_crew_stop(ole_crew *crew) {
    crew->stop = true;
    pthread_cond_broadcast(&crew->change);
}

bool ole_crew_stops(const ole_crew *crew) {
    return crew->stop;
}

static void fail(ole_crew *crew, ole_status status, const ole_error *error) {
    if (crew->status == OLE_OK) {
        crew->status = status;
        crew->error = *error;
    }
    ole_crew_stop(crew);
}

/* ---- Workers ------------------------------------------------------------------------------ */

static size_t entry_bytes(const ole_crew *crew) {
    return sizeof(int64_t) + crew->plan->result_bytes;
}

/* The next run to do; -1: none will come. */
static int64_t take_run(ole_crew *crew) {
    int64_t number = -1;
    ole_crew_lock(crew);
    while (!crew->stop && !crew->all_handed && crew->begun == crew->handed)
        pthread_cond_wait(&crew->change, &crew->mutex);
    if (!crew->stop && crew->begun < crew->handed) {
        number = crew->mine[crew->begun++];
        crew->running++;
    }
    ole_crew_unlock(crew);
    return number;
}

/* Under the lock. */
static void hear(ole_crew *crew, int64_t number, int rank, const void *result) {
    const ole_crew_plan *plan = crew->plan;
    ole_error error = {0};
    crew->ended++;
    ole_status status = plan->ended(plan->context, crew, number, rank, result, &error);
    if (status != OLE_OK) fail(crew, status, &error);
}

/* A run that ended here; under the lock. */
static void note(ole_crew *crew, int64_t number, const void *result) {
    if (!crew->plan->ranks) {
        hear(crew, number, 0, result);
        return;
    }
    char *entry = crew->news + (size_t)crew->news_count++ * entry_bytes(crew);
    memcpy(entry, &number, sizeof number);
    memcpy(entry + sizeof number, result, crew->plan->result_bytes);
}

static void *work(void *context) {
    ole_crew *crew = context;
    const ole_crew_plan *plan = crew->plan;
    void *result = malloc(plan->result_bytes);
    for (int64_t number; (number = take_run(crew)) >= 0;) {
        ole_error error = {0};
        bool stopped = false;
        ole_status status = ole_fail(&error, OLE_ERROR_MEMORY, "out of memory");
        if (result) status = plan->run(plan->context, crew, number, result, &stopped, &error);
        ole_crew_lock(crew);
        crew->running--;
        if (status != OLE_OK)
            fail(crew, status, &error);
        else if (!stopped)
            note(crew, number, result);
        ole_crew_unlock(crew);
    }
    free(result);
    return NULL;
}

/* ---- Meetings ----------------------------------------------------------------------------- */

/* What the meetings of a rank need: the same on all of them, but for `news`. */
typedef struct meetings {
    ole_crew *crew;
    int size;
    report *reports; /* [size] */
    int64_t *bytes;  /* [size] */
    char *news;      /* told here; [plan->count] entries */
    char *heard;     /* by all; likewise */
    int64_t next;    /* of plan->order, to be handed out */
    double pause;
} meetings;

static report make_report(const ole_crew *crew) {
    int64_t waiting = crew->stop ? 0 : crew->handed - crew->begun;
    return (report){.room = crew->stop ? 0 : crew->workers - crew->running - waiting,
                    .pending = waiting + crew->running + crew->news_count,
                    .news = crew->news_count,
                    .stop = crew->stop};
}

/* Who has how many; then what they have to tell. */
static void gather_reports(meetings *m) {
    ole_crew *crew = m->crew;
    ole_ranks *ranks = crew->plan->ranks;
    ole_crew_lock(crew);
    report mine = make_report(crew);
    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): allocated where there are ranks */
    memcpy(m->news, crew->news, (size_t)mine.news * entry_bytes(crew));
    crew->news_count = 0;
    ole_crew_unlock(crew);
    for (int r = 0; r < m->size; r++)
        m->bytes[r] = sizeof mine;
    ole_ranks_gather(ranks, &mine, m->bytes, m->reports);
    int64_t news = 0;
    for (int r = 0; r < m->size; r++) {
        m->bytes[r] = m->reports[r].news * (int64_t)entry_bytes(crew);
        news += m->reports[r].news;
    }
    if (news > 0) ole_ranks_gather(ranks, m->news, m->bytes, m->heard);
}

/* Under the lock. */
static int64_t hear_news(meetings *m) {
    const char *entry = m->heard;
    int64_t news = 0;
    for (int r = 0; r < m->size; r++)
        for (int64_t i = 0; i < m->reports[r].news; i++, news++) {
            int64_t number;
            memcpy(&number, entry, sizeof number);
            hear(m->crew, number, r, entry + sizeof number);
            entry += entry_bytes(m->crew);
        }
    return news;
}

/* One to each in turn, as long as there is room; under the lock. How many were handed out. */
static int64_t hand_out(meetings *m) {
    const ole_crew_plan *plan = m->crew->plan;
    int64_t before = m->next, turn = -1;
    while (m->next < plan->count && turn != m->next) {
        turn = m->next;
        for (int r = 0; r < m->size && m->next < plan->count; r++) {
            if (m->reports[r].room <= 0) continue;
            m->reports[r].room--;
            if (r == plan->ranks->rank) m->crew->mine[m->crew->handed++] = plan->order[m->next];
            m->next++;
        }
    }
    if (m->next > before) pthread_cond_broadcast(&m->crew->change);
    return m->next - before;
}

/* True while there is something to wait for. */
static bool meet(meetings *m) {
    ole_crew *crew = m->crew;
    int64_t pending = 0, stop = 0;
    gather_reports(m);
    for (int r = 0; r < m->size; r++) {
        pending += m->reports[r].pending;
        stop += m->reports[r].stop;
    }
    ole_crew_lock(crew);
    int64_t happened = hear_news(m);
    if (stop > 0)
        ole_crew_stop(crew);
    else
        happened += hand_out(m);
    ole_crew_unlock(crew);
    m->pause = happened > 0 ? SHORTEST : m->pause < LONGEST / 2 ? 2.0 * m->pause : LONGEST;
    return pending > 0 || (stop == 0 && (m->next < crew->plan->count || happened > 0));
}

static void wait_a_while(double seconds) {
    struct timespec time = {.tv_nsec = (long)(seconds * 1e9)};
    nanosleep(&time, NULL);
}

static void meet_others(meetings *m) {
    while (meet(m))
        wait_a_while(m->pause);
    ole_crew_lock(m->crew);
    m->crew->all_handed = true;
    pthread_cond_broadcast(&m->crew->change);
    ole_crew_unlock(m->crew);
}

static bool open_meetings(meetings *m, ole_crew *crew) {
    size_t size = (size_t)ole_ranks_size(crew->plan->ranks);
    size_t entries = (size_t)crew->plan->count * entry_bytes(crew) + 1;
    *m = (meetings){.crew = crew,
                    .size = (int)size,
                    .reports = calloc(size, sizeof *m->reports),
                    .bytes = calloc(size, sizeof *m->bytes),
                    .news = malloc(entries),
                    .heard = malloc(entries),
                    .pause = SHORTEST};
    crew->news = malloc(entries);
    return m->reports && m->bytes && m->news && m->heard && crew->news;
}

static void close_meetings(meetings *m) {
    free(m->reports);
    free(m->bytes);
    free(m->news);
    free(m->heard);
    free(m->crew->news);
}

/* ---- The crew ----------------------------------------------------------------------------- */

/* Threads as far as the system has them. */
static int start_workers(ole_crew *crew, pthread_t *threads, int count) {
    int started = 0;
    while (started < count && pthread_create(&threads[started], NULL, work, crew) == 0)
        started++;
    return started;
}

/* The calling thread is one of the workers, so that a system without more still gets on. */
static void work_alone(ole_crew *crew, pthread_t *threads) {
    memcpy(crew->mine, crew->plan->order, (size_t)crew->plan->count * sizeof *crew->mine);
    crew->handed = crew->plan->count;
    crew->all_handed = true;
    int started = start_workers(crew, threads, crew->plan->jobs - 1);
    work(crew);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

static void work_with_others(ole_crew *crew, meetings *m, pthread_t *threads) {
    ole_error error;
    crew->workers = start_workers(crew, threads, crew->plan->jobs);
    if (crew->workers == 0)
        fail(crew, ole_fail(&error, OLE_ERROR_MEMORY, "the system has no thread for a run"),
             &error);
    meet_others(m);
    for (int i = 0; i < crew->workers; i++)
        pthread_join(threads[i], NULL);
}

ole_status ole_crew_work(const ole_crew_plan *plan, bool *stopped, ole_error *error) {
    ole_crew crew = {.plan = plan, .mine = calloc((size_t)plan->count + 1, sizeof *crew.mine)};
    meetings m = {.crew = &crew};
    pthread_t *threads = calloc((size_t)plan->jobs, sizeof *threads);
    bool enough = crew.mine && threads && (!plan->ranks || open_meetings(&m, &crew));
    ole_error first = {0};
    ole_status status =
        enough ? OLE_OK : ole_fail(&first, OLE_ERROR_MEMORY, "out of memory for runs");
    status = ole_ranks_agree(plan->ranks, status, &first);
    if (status == OLE_OK) {
        pthread_mutex_init(&crew.mutex, NULL);
        pthread_cond_init(&crew.change, NULL);
        if (plan->ranks)
            work_with_others(&crew, &m, threads);
        else
            work_alone(&crew, threads);
        pthread_cond_destroy(&crew.change);
        pthread_mutex_destroy(&crew.mutex);
        first = crew.error;
        status = ole_ranks_agree(plan->ranks, crew.status, &first);
    }
    *stopped = crew.ended < plan->count;
    if (status != OLE_OK && error) *error = first;
    close_meetings(&m);
    free(crew.mine);
    free(threads);
    return status;
}
