/* src/ranks/mpi/watch.c - the thread that notices lost ranks, and what it tells the others. */
#include "ranks/mpi/watch.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "ranks/launcher.h"
#include "ranks/mpi/wire.h"

#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
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
    int wake;            /* an eventfd: the stage has changed */
    _Atomic stage stage; /* this thread and the caller's move it */
    char reason[400];    /* of FAILING, written before it */
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

static void tell(ole_watch *watch, ole_note_kind kind, const char *text) {
    for (int r = 0; r < peer_count(watch); r++)
        if (!watch->peers[r].left) ole_wire_send(&watch->peers[r].wire, kind, text);
}

/*
 * Until the others have closed their ends.  Ending with notes unread would reset the connections,
 * and what was told last might not be heard.
 */
static void linger(ole_watch *watch) {
    double deadline = ole_clock() + linger_seconds;
    for (int r = 0; r < peer_count(watch); r++)
        if (watch->peers[r].wire.fd >= 0) shutdown(watch->peers[r].wire.fd, SHUT_WR);
    for (bool open = true; open; poll(NULL, 0, open ? 5 : 0)) {
        bool late = ole_clock() >= deadline;
        open = false;
        for (int r = 0; r < peer_count(watch); r++) {
            ole_wire *wire = &watch->peers[r].wire;
            ole_note note;
            int got = -1;
            while (wire->fd >= 0 && (got = ole_wire_receive(wire, &note)) > 0)
                ;
            if (got < 0 || late) ole_wire_close(wire);
            open |= wire->fd >= 0;
        }
    }
}

/*
 * The end of this process, or, when it is about to end by itself for a reason of its own, of this
 * thread.  As soon as one process ends, the launcher sends SIGTERM to the others and soon kills
 * them: who has to say why does so before it lets the others go.
 */
static void end_here(ole_watch *watch, const char *sentence) {
    stage now = watch->stage;
    while (now != FAILING && now != ENDED &&
           !atomic_compare_exchange_weak(&watch->stage, &now, LOST))
        ;
    signal(SIGTERM, SIG_IGN);
    bool by_itself = now == FAILING || now == ENDED;
    if (!by_itself && watch->lost) watch->lost(watch->lost_context, sentence);
    linger(watch);
    if (!by_itself) _exit(1);
    watch->stage = ENDED;
}

/* Everyone is told, and ends.  `gone` is not waited for; NULL: it is not a rank that was lost. */
__attribute__((format(printf, 3, 4))) static void lose(ole_watch *watch, peer *gone,
                                                       const char *format, ...) {
    char sentence[600];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    tell(watch, OLE_NOTE_LOST, sentence);
    if (gone) ole_wire_close(&gone->wire);
    end_here(watch, sentence);
}

/* "rank 2 (host, pid 99)" */
static const char *name_rank(const ole_watch *watch, int rank, char name[128]) {
    const rank_info *c = &watch->infos[rank];
    snprintf(name, 128, "rank %d (%s, pid %lld)", rank, c->host, (long long)c->pid);
    return name;
}

/* ---- What can be noticed ------------------------------------------------------------------ */

/* The other end is gone. Who was stopped for long finds all others gone, and is itself to blame. */
static void notice_end(ole_watch *watch, int rank) {
    char name[128];
    if (watch->slept > watch->silence / 2 && ole_clock() - watch->woke < 5)
        lose(watch, NULL, "%s was stopped for %.0f s, and the others ended without it",
             name_rank(watch, watch->rank, name), watch->slept);
    else
        lose(watch, NULL, "%s was killed or ended", name_rank(watch, rank, name));
}

/*
 * A mistake of all ranks is one that each is about to tell by itself: who is the first to do so is
 * not to blame.
 */
static void notice_failure(ole_watch *watch, const char *sentence) {
    double deadline = ole_clock() + own_seconds;
    tell(watch, OLE_NOTE_FAIL, sentence);
    signal(SIGTERM, SIG_IGN);
    while (watch->stage == WATCHING && ole_clock() < deadline)
        poll(NULL, 0, 5);
    end_here(watch, sentence);
}

static void hear(ole_watch *watch, int rank) {
    peer *p = &watch->peers[rank];
    ole_note note;
    int got = 0;
    while (p->wire.fd >= 0 && (got = ole_wire_receive(&p->wire, &note)) > 0) {
        p->heard = ole_clock();
        if (note.kind == OLE_NOTE_BYE) p->left = true;
        if (note.kind == OLE_NOTE_FAIL) notice_failure(watch, note.text);
        if (note.kind == OLE_NOTE_LOST) lose(watch, NULL, "%s", note.text);
    }
    if (p->wire.fd < 0 || got == 0) return;
    ole_wire_close(&p->wire);
    if (watch->stage == LEAVING)
        p->left = true;
    else if (watch->stage == FAILING && !is_hub(watch)) /* the others end, as they should */
        watch->stage = ENDED;
    else if (watch->stage != FAILING && !p->left)
        notice_end(watch, rank);
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

static void wait_for_news(ole_watch *watch) {
    int count = peer_count(watch);
    for (int r = 0; r < count; r++)
        watch->polls[r] = (struct pollfd){.fd = watch->peers[r].wire.fd, .events = POLLIN};
    watch->polls[count] = (struct pollfd){.fd = watch->wake, .events = POLLIN};
    poll(watch->polls, (nfds_t)count + 1, (int)(1e3 * watch->beat / 8) + 1);
    eventfd_t value;
    if (watch->polls[count].revents) eventfd_read(watch->wake, &value);
}

/*
 * Rank 0's beats leave at the same time, so that all others notice its silence at the same time: a
 * launcher gives them no more than a second after the first has ended.
 */
static void look_around(ole_watch *watch) {
    double now = ole_clock();
    char name[128];
    notice_own_sleep(watch, now);
    for (int r = 0; r < peer_count(watch); r++)
        hear(watch, r);
    for (int r = 0; r < peer_count(watch) && watch->stage == WATCHING; r++) {
        peer *p = &watch->peers[r];
        if (p->wire.fd >= 0 && !p->left && now >= p->heard + watch->silence)
            lose(watch, p, "%s has not answered for %.0f s: stopped, or cut off",
                 name_rank(watch, r, name), watch->silence);
    }
    if (watch->stage != WATCHING) return;
    if (ole_launcher_ended(&watch->launcher))
        lose(watch, NULL, "the launcher (%s on %s, pid %ld) ended", watch->launcher.name,
             watch->infos[watch->rank].host, watch->launcher.pid);
    if (now < watch->beaten + watch->beat) return;
    watch->beaten = now;
    tell(watch, OLE_NOTE_BEAT, "");
}

/* Says goodbye and waits for that of the others. */
static void leave(ole_watch *watch) {
    double deadline = ole_clock() + leave_seconds;
    tell(watch, OLE_NOTE_BYE, "");
    for (bool all = false; !all && ole_clock() < deadline;) {
        all = true;
        for (int r = 0; r < peer_count(watch); r++) {
            hear(watch, r);
            all = all && (watch->peers[r].left || watch->peers[r].wire.fd < 0);
        }
        if (!all) wait_for_news(watch);
    }
    linger(watch);
    watch->stage = ENDED;
}

/* "rank 2 (host): reason"; a reason that all ranks have agreed on names its rank already. */
static void tell_own_failure(ole_watch *watch) {
    char name[128] = "", sentence[600];
    if (strncmp(watch->reason, "rank ", 5) != 0)
        snprintf(name, sizeof name, "rank %d (%s): ", watch->rank, watch->infos[watch->rank].host);
    snprintf(sentence, sizeof sentence, "%s%s", name, watch->reason);
    tell(watch, OLE_NOTE_FAIL, sentence);
    if (is_hub(watch)) end_here(watch, sentence);
}

static void *keep_watch(void *argument) {
    ole_watch *watch = argument;
    bool told = false;
    while (watch->stage != ENDED) {
        if (watch->stage == LEAVING) {
            leave(watch);
        } else if (watch->stage == FAILING && !told) {
            told = true;
            tell_own_failure(watch);
        } else {
            look_around(watch);
            if (watch->stage == WATCHING || told) wait_for_news(watch);
        }
    }
    return NULL;
}

/* ---- The start ---------------------------------------------------------------------------- */

static void free_watch(ole_watch *watch) {
    for (int r = 0; watch->peers && r < peer_count(watch); r++)
        ole_wire_close(&watch->peers[r].wire);
    if (watch->wake >= 0) close(watch->wake);
    free(watch->infos);
    free(watch->peers);
    free(watch->polls);
    free(watch);
}

static ole_watch *allocate_watch(const ole_ranks *ranks, const ole_ranks_options *options) {
    ole_watch *watch = calloc(1, sizeof *watch);
    if (!watch) return NULL;
    *watch = (ole_watch){.rank = ranks->rank,
                         .size = ranks->size,
                         .silence = options->silence,
                         .beat = options->silence < 4 ? options->silence / 4 : 1,
                         .lost = options->lost,
                         .lost_context = options->lost_context,
                         .launcher = ole_launcher_find(),
                         .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    watch->peers = calloc((size_t)peer_count(watch), sizeof *watch->peers);
    watch->polls = calloc((size_t)peer_count(watch) + 1, sizeof *watch->polls);
    for (int r = 0; watch->peers && r < peer_count(watch); r++)
        watch->peers[r].wire.fd = -1;
    if (watch->wake >= 0 && watch->peers && watch->polls) return watch;
    free_watch(watch);
    return NULL;
}

/* Ranks that were started for different things would wait for each other for ever. */
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
    if (!watch->infos) return OLE_ERROR_MEMORY;
    const rank_info *first = &watch->infos[0];
    for (int r = 1; r < watch->size; r++) {
        const rank_info *c = &watch->infos[r];
        char name[128];
        name_rank(watch, r, name);
        if (strcmp(c->version, first->version) != 0)
            return ole_fail(
                error, OLE_ERROR_ARGUMENT,
                "%s runs version %s, rank 0 version %s; install the same version on all hosts",
                name, c->version, first->version);
        if (strcmp(c->task, first->task) != 0)
            return ole_fail(error, OLE_ERROR_ARGUMENT,
                            "%s runs '%s', rank 0 '%s'; start all ranks with the same command",
                            name, c->task, first->task);
    }
    return OLE_OK;
}

static ole_status connect_all(ole_watch *watch, ole_ranks *ranks, ole_error *error) {
    ole_invitation invitation = {0};
    ole_status status = OLE_OK;
    int listener = -1;
    bool one_host = true;
    for (int r = 0; r < watch->size; r++)
        one_host = one_host && watch->infos[r].ranks_on_host == watch->size &&
                   watch->infos[r].network == watch->infos[0].network;
    if (is_hub(watch)) status = ole_wire_listen(one_host, &listener, &invitation, error);
    status = ole_ranks_agree(ranks, status, error);
    if (status != OLE_OK) return status;
    ole_ranks_broadcast(ranks, &invitation, (int64_t)sizeof invitation, 0);
    if (!is_hub(watch))
        status = ole_wire_connect(&invitation, watch->rank, &watch->peers[0].wire, error);
    double deadline = ole_clock() + watch->silence + 10;
    for (int missing = is_hub(watch) ? watch->size - 1 : 0; missing > 0 && status == OLE_OK;) {
        ole_wire wire;
        int rank =
            ole_wire_accept(listener, &invitation, watch->size, deadline - ole_clock(), &wire);
        if (rank < 0) {
            status = ole_fail(error, OLE_ERROR_IO, "ranks: %d of %d ranks did not connect", missing,
                              watch->size - 1);
            break;
        }
        if (watch->peers[rank].wire.fd < 0) missing--;
        ole_wire_close(&watch->peers[rank].wire);
        watch->peers[rank].wire = wire;
    }
    if (listener >= 0) close(listener);
    return ole_ranks_agree(ranks, status, error);
}

ole_status ole_watch_start(ole_watch **out, ole_ranks *ranks, const ole_ranks_options *options,
                           ole_error *error) {
    *out = NULL;
    if (ranks->size == 1) return OLE_OK;
    ole_status status = OLE_OK;
    bool started = false;
    ole_watch *watch = allocate_watch(ranks, options);
    if (!watch)
        status = ole_fail(error, OLE_ERROR_MEMORY, "ranks: out of memory for the failure watch");
    status = ole_ranks_agree(ranks, status, error);
    if (status == OLE_OK) status = exchange_infos(watch, ranks, options->task, error);
    if (status == OLE_OK) status = connect_all(watch, ranks, error);
    if (status == OLE_OK) {
        watch->looked = watch->beaten = ole_clock();
        for (int r = 0; r < peer_count(watch); r++)
            watch->peers[r].heard = watch->looked;
        int failed = ole_thread_start(&watch->thread, keep_watch, watch);
        started = failed == 0;
        if (!started)
            status = ole_fail(error, OLE_ERROR_MEMORY, "ranks: cannot start a thread: %s",
                              strerror(failed));
        status = ole_ranks_agree(ranks, status, error);
    }
    if (status == OLE_OK)
        *out = watch;
    else if (started)
        ole_watch_close(watch);
    else if (watch)
        free_watch(watch);
    return status;
}

void ole_watch_fail(ole_watch *watch, const char *reason) {
    double deadline = ole_clock() + fail_seconds;
    stage now = WATCHING;
    if (watch->stage == WATCHING) snprintf(watch->reason, sizeof watch->reason, "%s", reason);
    if (atomic_compare_exchange_strong(&watch->stage, &now, FAILING)) eventfd_write(watch->wake, 1);
    while (ole_clock() < deadline && (watch->stage == FAILING || watch->stage == LOST))
        poll(NULL, 0, 5); /* LOST: the process ends meanwhile */
}

void ole_watch_close(ole_watch *watch) {
    watch->stage = LEAVING;
    eventfd_write(watch->wake, 1);
    pthread_join(watch->thread, NULL);
    free_watch(watch);
}
