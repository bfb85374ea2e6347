/* src/ranks/mpi/watch.c - the thread that notices lost ranks, and what it tells the others. */
#include "ranks/mpi/watch.h"

#include "base/clock.h"
#include "base/error.h"
#include "ranks/launcher.h"
#include "ranks/mpi/wire.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* What each rank tells of itself at the start. */
typedef struct rank_info {
    char host[64], task[64], version[16];
    int64_t pid, network; /* which network namespace: two of them do not share a loopback */
    int64_t ranks_on_host;
} rank_info;

/* A rank that this one is connected to. */
typedef struct peer {
    ole_wire wire;
    double heard; /* when */
    bool left;    /* said goodbye */
} peer;

typedef enum stage { WATCHING, FAILING, LOST, LEAVING, ENDED } stage;

struct ole_watch {
    int rank, size;
    double silence, beat; /* seconds */
    ole_ranks_lost *lost;
    void *lost_context;
    rank_info *infos; /* of every rank */
    peer *peers;      /* rank 0: of every rank; the others: peers[0] */
    struct pollfd *polls;
    ole_launcher launcher;
    double looked, beaten; /* when the thread last went round, and when it sent its last beat */
    double slept;          /* how long this process was itself stopped, last time ... */
    double woke;           /* ... and until when */

    pthread_t thread;
    int wake;              /* an eventfd: the stage has changed */
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    stage stage;
    char reason[400]; /* of FAILING */
};

/* How long the end waits for what was sent to arrive: less than launchers give before they kill. */
static const double linger_seconds = 0.3;
static const double fail_seconds = 2, leave_seconds = 5;
/* How long a rank that hears of another's failure waits for its own: it may be that of all. */
static const double own_seconds = 0.4;

/* ---- Telling and ending ------------------------------------------------------------------- */

static bool is_hub(const ole_watch *watch) {
    return watch->rank == 0;
}

static int peer_count(const ole_watch *watch) {
    return is_hub(watch) ? watch->size : 1;
}

static struct timespec after(double seconds) {
    struct timespec date;
    clock_gettime(CLOCK_MONOTONIC, &date);
    date.tv_nsec += (long)((seconds - floor(seconds)) * 1e9);
    date.tv_sec += (time_t)floor(seconds) + date.tv_nsec / 1000000000;
    date.tv_nsec %= 1000000000;
    return date;
}

static void tell(ole_watch *watch, ole_note_kind kind, const char *text) {
    for (int r = 0; r < peer_count(watch); r++)
        if (!watch->peers[r].left) ole_wire_send(&watch->peers[r].wire, kind, text);
}

static stage get_stage(ole_watch *watch) {
    pthread_mutex_lock(&watch->mutex);
    stage now = watch->stage;
    pthread_mutex_unlock(&watch->mutex);
    return now;
}

static void set_stage(ole_watch *watch, stage next) {
    pthread_mutex_lock(&watch->mutex);
    watch->stage = next;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
}

/*
 * Until the others have closed their ends.  Ending with notes unread would reset the connections,
 * and what was told last might not be heard.
 */
static void linger(ole_watch *watch, double seconds) {
    double deadline = ole_clock() + seconds;
    for (int r = 0; r < peer_count(watch); r++) {
        ole_wire *wire = &watch->peers[r].wire;
        if (wire->fd >= 0) shutdown(wire->fd, SHUT_WR);
        ole_note note;
        int got = 0;
        while (wire->fd >= 0 && got >= 0 && ole_clock() < deadline) {
            while ((got = ole_wire_receive(wire, &note)) > 0)
                ;
            struct pollfd p = {.fd = wire->fd, .events = POLLIN};
            if (got == 0) poll(&p, 1, 20);
        }
        ole_wire_close(wire);
    }
}

/*
 * The end of this process, or, when it is about to end by itself for a reason of its own, of this
 * thread.  As soon as one process ends, the launcher sends SIGTERM to the others, who still have to
 * say why.
 */
static void end_here(ole_watch *watch, const char *sentence) {
    pthread_mutex_lock(&watch->mutex);
    bool by_itself = watch->stage == FAILING || watch->stage == ENDED;
    if (!by_itself) watch->stage = LOST;
    pthread_mutex_unlock(&watch->mutex);
    signal(SIGTERM, SIG_IGN);
    linger(watch, linger_seconds);
    if (by_itself) {
        set_stage(watch, ENDED);
        return;
    }
    if (watch->lost) watch->lost(watch->lost_context, sentence);
    _exit(1);
}

/*
 * A rank fails, and all end.  A mistake of all ranks is one that each is about to tell by itself:
 * who is the first to do so is not to blame.
 */
static void end_failed(ole_watch *watch, const char *sentence) {
    struct timespec until = after(own_seconds);
    signal(SIGTERM, SIG_IGN);
    pthread_mutex_lock(&watch->mutex);
    while (watch->stage == WATCHING)
        if (pthread_cond_timedwait(&watch->changed, &watch->mutex, &until) != 0) break;
    pthread_mutex_unlock(&watch->mutex);
    end_here(watch, sentence);
}

/* Something was noticed here: everyone is told, and ends. */
static void lose(ole_watch *watch, const char *sentence) {
    tell(watch, OLE_NOTE_LOST, sentence);
    end_here(watch, sentence);
}

static void name_rank(const ole_watch *watch, int rank, bool with_pid, char out[128]) {
    const rank_info *c = &watch->infos[rank];
    if (with_pid)
        snprintf(out, 128, "rank %d (%s, pid %lld)", rank, c->host, (long long)c->pid);
    else
        snprintf(out, 128, "rank %d (%s)", rank, c->host);
}

/* "rank 2 (host): reason"; a reason that all ranks have agreed on names its rank already. */
static void blame(const ole_watch *watch, int rank, const char *reason, char out[600]) {
    char name[128];
    name_rank(watch, rank, false, name);
    if (strncmp(reason, "rank ", 5) == 0)
        snprintf(out, 600, "%.450s", reason);
    else
        snprintf(out, 600, "%s: %.450s", name, reason);
}

/* ---- What can be noticed ------------------------------------------------------------------ */

/* The other end is gone. Who was stopped for long finds all others gone, and is itself to blame. */
static void notice_end(ole_watch *watch, int rank) {
    char name[128], sentence[320];
    bool myself = watch->slept > watch->silence / 2 && ole_clock() - watch->woke < 5;
    name_rank(watch, myself ? watch->rank : rank, true, name);
    if (myself)
        snprintf(sentence, sizeof sentence,
                 "%s was stopped for %.0f s, and the others have ended without it", name,
                 watch->slept);
    else
        snprintf(sentence, sizeof sentence, "%s was killed or ended", name);
    lose(watch, sentence);
}

static void notice_silence(ole_watch *watch, int rank) {
    char name[128], sentence[256];
    name_rank(watch, rank, true, name);
    snprintf(sentence, sizeof sentence, "%s has not answered for %.0f s: stopped, or cut off", name,
             watch->silence);
    tell(watch, OLE_NOTE_LOST, sentence);
    ole_wire_close(&watch->peers[rank].wire);
    end_here(watch, sentence);
}

static void notice_launcher(ole_watch *watch) {
    char sentence[192];
    snprintf(sentence, sizeof sentence, "the launcher (%s on %s, pid %ld) has ended",
             watch->launcher.name, watch->infos[watch->rank].host, watch->launcher.pid);
    lose(watch, sentence);
}

static void take_note(ole_watch *watch, int from, const ole_note *note) {
    char sentence[600];
    if (note->kind == OLE_NOTE_BYE) watch->peers[from].left = true;
    if (note->kind == OLE_NOTE_FAIL && is_hub(watch)) {
        blame(watch, from, note->text, sentence);
        tell(watch, OLE_NOTE_FAIL, sentence);
        end_failed(watch, sentence);
    }
    if (note->kind == OLE_NOTE_FAIL && !is_hub(watch)) end_failed(watch, note->text);
    if (note->kind == OLE_NOTE_LOST && is_hub(watch)) lose(watch, note->text);
    if (note->kind == OLE_NOTE_LOST && !is_hub(watch)) end_here(watch, note->text);
}

static void hear(ole_watch *watch, int rank) {
    peer *p = &watch->peers[rank];
    ole_note note;
    int got;
    while (p->wire.fd >= 0 && (got = ole_wire_receive(&p->wire, &note)) != 0) {
        if (got > 0) {
            p->heard = ole_clock();
            take_note(watch, rank, &note);
        } else if (p->left || get_stage(watch) == LEAVING) {
            ole_wire_close(&p->wire);
            p->left = true;
        } else if (get_stage(watch) == FAILING) {
            ole_wire_close(&p->wire); /* the others end, as they should */
            if (!is_hub(watch)) set_stage(watch, ENDED);
        } else {
            ole_wire_close(&p->wire);
            notice_end(watch, rank);
        }
    }
}

/* A process that was stopped itself has not listened: nobody is silent for that. */
static void notice_own_sleep(ole_watch *watch, double now) {
    double gap = now - watch->looked;
    watch->looked = now;
    if (gap < 4 * watch->beat) return;
    watch->slept = gap;
    watch->woke = now;
    for (int r = 0; r < peer_count(watch); r++)
        watch->peers[r].heard += gap;
}

/* ---- The thread --------------------------------------------------------------------------- */

/* When the next beat is due, or a rank has been silent for too long. */
static double next_date(const ole_watch *watch) {
    double date = watch->beaten + watch->beat;
    for (int r = 0; r < peer_count(watch); r++) {
        const peer *p = &watch->peers[r];
        double end = p->heard + watch->silence;
        if (p->wire.fd >= 0 && !p->left && end < date) date = end;
    }
    return date;
}

static void wait_for_news(ole_watch *watch) {
    int count = peer_count(watch);
    for (int r = 0; r < count; r++)
        watch->polls[r] = (struct pollfd){.fd = watch->peers[r].wire.fd, .events = POLLIN};
    watch->polls[count] = (struct pollfd){.fd = watch->wake, .events = POLLIN};
    double left = next_date(watch) - ole_clock();
    watch->polls[count + 1] = (struct pollfd){.fd = watch->launcher.fd, .events = POLLIN};
    poll(watch->polls, (nfds_t)count + 2, left > 0 ? (int)(left * 1e3) + 1 : 0);
    eventfd_t value;
    if (watch->polls[count].revents) eventfd_read(watch->wake, &value);
    if (watch->polls[count + 1].revents && get_stage(watch) == WATCHING) notice_launcher(watch);
}

/*
 * Rank 0's beats leave at the same time, so that all others notice its silence at the same time: a
 * launcher gives them no more than a second after the first has ended.
 */
static void look_around(ole_watch *watch) {
    double now = ole_clock();
    notice_own_sleep(watch, now);
    for (int r = 0; r < peer_count(watch); r++)
        hear(watch, r);
    for (int r = 0; r < peer_count(watch); r++) {
        peer *p = &watch->peers[r];
        if (p->wire.fd < 0 || p->left || now < p->heard + watch->silence) continue;
        p->heard = now;
        if (get_stage(watch) == WATCHING) notice_silence(watch, r);
    }
    if (now < watch->beaten + watch->beat) return;
    watch->beaten = now;
    if (get_stage(watch) != WATCHING) return;
    tell(watch, OLE_NOTE_BEAT, "");
    if (ole_launcher_ended(&watch->launcher)) notice_launcher(watch);
}

/* Says goodbye and waits for that of the others. */
static void leave(ole_watch *watch) {
    double deadline = ole_clock() + leave_seconds;
    tell(watch, OLE_NOTE_BYE, "");
    bool all = false;
    while (!all && ole_clock() < deadline) {
        all = true;
        for (int r = 0; r < peer_count(watch); r++) {
            hear(watch, r);
            all = all && (watch->peers[r].left || watch->peers[r].wire.fd < 0);
        }
        watch->beaten = ole_clock();
        if (!all) wait_for_news(watch);
    }
    linger(watch, linger_seconds);
    set_stage(watch, ENDED);
}

static void tell_own_failure(ole_watch *watch) {
    char sentence[600];
    if (is_hub(watch)) {
        blame(watch, 0, watch->reason, sentence);
        tell(watch, OLE_NOTE_FAIL, sentence);
        end_here(watch, sentence);
    } else {
        tell(watch, OLE_NOTE_FAIL, watch->reason);
    }
}

static void *keep_watch(void *argument) {
    ole_watch *watch = argument;
    bool told = false;
    for (stage now = WATCHING; now != ENDED; now = get_stage(watch)) {
        if (now == LEAVING) {
            leave(watch);
        } else if (now == FAILING && !told) {
            told = true;
            tell_own_failure(watch);
        } else {
            look_around(watch);
            if (get_stage(watch) == WATCHING || told) wait_for_news(watch);
        }
    }
    return NULL;
}

/* ---- The start ---------------------------------------------------------------------------- */

static void free_watch(ole_watch *watch) {
    for (int r = 0; watch->peers && r < peer_count(watch); r++)
        ole_wire_close(&watch->peers[r].wire);
    if (watch->wake >= 0) close(watch->wake);
    ole_launcher_close(&watch->launcher);
    pthread_mutex_destroy(&watch->mutex);
    pthread_cond_destroy(&watch->changed);
    free(watch->infos);
    free(watch->peers);
    free(watch->polls);
    free(watch);
}

static ole_watch *allocate_watch(const ole_ranks *ranks) {
    ole_watch *watch = calloc(1, sizeof *watch);
    if (!watch) return NULL;
    watch->rank = ranks->rank;
    watch->size = ranks->size;
    watch->launcher = ole_launcher_find();
    watch->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&watch->mutex, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    watch->peers = calloc((size_t)peer_count(watch), sizeof *watch->peers);
    watch->polls = calloc((size_t)peer_count(watch) + 2, sizeof *watch->polls);
    for (int r = 0; watch->peers && r < peer_count(watch); r++)
        watch->peers[r].wire.fd = -1;
    if (watch->wake >= 0 && watch->peers && watch->polls) return watch;
    free_watch(watch);
    return NULL;
}

static ole_status exchange_infos(ole_watch *watch, ole_ranks *ranks, const char *task,
                                 ole_error *error) {
    struct stat network = {0};
    stat("/proc/self/ns/net", &network);
    rank_info mine = {
        .pid = getpid(), .network = (int64_t)network.st_ino, .ranks_on_host = ranks->ranks_on_host};
    snprintf(mine.host, sizeof mine.host, "%s", ranks->host);
    snprintf(mine.task, sizeof mine.task, "%s", task ? task : "");
    snprintf(mine.version, sizeof mine.version, "%s", ole_version());
    watch->infos = ole_ranks_gather_records(ranks, &mine, sizeof mine, error);
    return watch->infos ? OLE_OK : OLE_ERROR_MEMORY;
}

/* Ranks that were started for different things would wait for each other for ever. */
static ole_status compare_infos(const ole_watch *watch, ole_error *error) {
    const rank_info *first = &watch->infos[0];
    for (int r = 1; r < watch->size; r++) {
        const rank_info *c = &watch->infos[r];
        char name[128];
        name_rank(watch, r, true, name);
        if (strcmp(c->version, first->version) != 0)
            return ole_fail(error, OLE_ERROR_ARGUMENT,
                            "%s runs version %s, rank 0 version %s: install the same on all hosts",
                            name, c->version, first->version);
        if (strcmp(c->task, first->task) != 0)
            return ole_fail(error, OLE_ERROR_ARGUMENT,
                            "%s runs '%s', rank 0 '%s': start all ranks alike", name, c->task,
                            first->task);
    }
    return OLE_OK;
}

static bool on_one_host(const ole_watch *watch) {
    for (int r = 0; r < watch->size; r++)
        if (watch->infos[r].ranks_on_host != watch->size ||
            watch->infos[r].network != watch->infos[0].network)
            return false;
    return true;
}

/* Rank 0: takes the connections of all others. */
static ole_status accept_all(ole_watch *watch, int listener, const ole_invitation *invitation,
                             ole_error *error) {
    double deadline = ole_clock() + watch->silence + 10;
    for (int missing = watch->size - 1; missing > 0;) {
        ole_wire wire;
        int rank =
            ole_wire_accept(listener, invitation, watch->size, deadline - ole_clock(), &wire);
        if (rank < 0)
            return ole_fail(error, OLE_ERROR_IO, "ranks: %d of %d ranks did not connect", missing,
                            watch->size - 1);
        if (watch->peers[rank].wire.fd < 0) missing--;
        ole_wire_close(&watch->peers[rank].wire);
        watch->peers[rank].wire = wire;
    }
    return OLE_OK;
}

static ole_status connect_all(ole_watch *watch, ole_ranks *ranks, ole_error *error) {
    ole_invitation invitation = {0};
    ole_status status = OLE_OK;
    int listener = -1;
    if (is_hub(watch)) status = ole_wire_listen(on_one_host(watch), &listener, &invitation, error);
    status = ole_ranks_agree(ranks, status, error);
    if (status != OLE_OK) return status;
    ole_ranks_broadcast(ranks, &invitation, (int64_t)sizeof invitation, 0);
    if (is_hub(watch))
        status = accept_all(watch, listener, &invitation, error);
    else
        status = ole_wire_connect(&invitation, watch->rank, &watch->peers[0].wire, error);
    if (listener >= 0) close(listener);
    return ole_ranks_agree(ranks, status, error);
}

static ole_status start_thread(ole_watch *watch, ole_error *error) {
    watch->looked = watch->beaten = ole_clock();
    for (int r = 0; r < peer_count(watch); r++)
        watch->peers[r].heard = watch->looked;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the other threads */
    int failed = pthread_create(&watch->thread, NULL, keep_watch, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed == 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_MEMORY, "ranks: cannot start a thread: %s", strerror(failed));
}

ole_status ole_watch_start(ole_watch **out, ole_ranks *ranks, const ole_ranks_options *options,
                           ole_error *error) {
    *out = NULL;
    if (ranks->size == 1) return OLE_OK;
    ole_status status = OLE_OK;
    ole_watch *watch = allocate_watch(ranks);
    if (!watch) status = ole_fail(error, OLE_ERROR_MEMORY, "ranks: no memory for the watch");
    status = ole_ranks_agree(ranks, status, error);
    if (status == OLE_OK) {
        watch->silence = options->silence;
        watch->beat = options->silence < 4 ? options->silence / 4 : 1;
        watch->lost = options->lost;
        watch->lost_context = options->lost_context;
        status = exchange_infos(watch, ranks, options->task, error);
    }
    if (status == OLE_OK) status = compare_infos(watch, error);
    if (status == OLE_OK) status = connect_all(watch, ranks, error);
    if (status == OLE_OK) {
        status = start_thread(watch, error);
        bool started = status == OLE_OK;
        status = ole_ranks_agree(ranks, status, error);
        if (status != OLE_OK && started) ole_watch_close(watch);
        if (status != OLE_OK && started) watch = NULL;
    }
    if (status != OLE_OK && watch) free_watch(watch);
    if (status == OLE_OK) *out = watch;
    return status;
}

void ole_watch_fail(ole_watch *watch, const char *reason) {
    struct timespec until = after(fail_seconds);
    pthread_mutex_lock(&watch->mutex);
    bool first = watch->stage == WATCHING;
    if (first) {
        snprintf(watch->reason, sizeof watch->reason, "%s", reason);
        watch->stage = FAILING;
        pthread_cond_broadcast(&watch->changed);
        eventfd_write(watch->wake, 1);
    }
    while (watch->stage == FAILING || watch->stage == LOST) /* LOST: the process ends meanwhile */
        if (pthread_cond_timedwait(&watch->changed, &watch->mutex, &until) != 0) break;
    pthread_mutex_unlock(&watch->mutex);
}

void ole_watch_close(ole_watch *watch) {
    set_stage(watch, LEAVING);
    eventfd_write(watch->wake, 1);
    pthread_join(watch->thread, NULL);
    free_watch(watch);
}
