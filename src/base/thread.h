/* src/base/thread.h - threads that are the library's own business. */
#ifndef OLE_SRC_BASE_THREAD_H
#define OLE_SRC_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

/* As pthread_create(), but the program's signals are left to its other threads, except for those
 * that the thread's own mistakes raise. */
static inline int ole_thread_start(pthread_t *thread, void *(*work)(void *), void *argument) {
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t others, before;
    sigfillset(&others);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&others, own[i]);
    pthread_sigmask(SIG_BLOCK, &others, &before);
    int failed = pthread_create(thread, NULL, work, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

#endif
