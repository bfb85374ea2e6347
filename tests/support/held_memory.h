/*
 * tests/support/held_memory.h - memory that holds whoever touches it: a call of the library that
 * writes its result there stands still, in the middle, until the test lets it go on.
 *
 *     double *out = held_make(8 * sizeof *out);
 *     ... a second thread starts a call that writes to `out` ...
 *     held_wait();    // until that call has come as far as writing
 *     ...             // what a call at the same time does
 *     held_let_go();  // and join the thread
 *     held_free();
 *
 * One at a time.  The pages are without permissions, and a handler of SIGSEGV waits.
 */
#ifndef OLE_TESTS_HELD_MEMORY_H
#define OLE_TESTS_HELD_MEMORY_H

#include "test.h"

#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

static struct {
    char *memory;
    size_t size;
    sem_t touched, released;
    struct sigaction before;
} held;

static void held_stand_still(int number, siginfo_t *info, void *context) {
    (void)context;
    char *at = info->si_addr;
    if (at < held.memory || at >= held.memory + held.size) {
        signal(number, SIG_DFL); /* a real one: it comes again */
        return;
    }
    sem_post(&held.touched);
    while (sem_wait(&held.released) != 0)
        ;
    mprotect(held.memory, held.size, PROT_READ | PROT_WRITE);
}

static inline void *held_make(size_t size) {
    held.size = size;
    held.memory = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(held.memory, MAP_FAILED);
    sem_init(&held.touched, 0, 0);
    sem_init(&held.released, 0, 0);
    struct sigaction action = {.sa_sigaction = held_stand_still, .sa_flags = SA_SIGINFO};
    assert_int_equal(sigaction(SIGSEGV, &action, &held.before), 0);
    return held.memory;
}

static inline void held_wait(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    if (sem_timedwait(&held.touched, &until) != 0) fail_msg("nothing was written for 60 s");
}

static inline void held_let_go(void) {
    sem_post(&held.released);
}

static inline void held_free(void) {
    sigaction(SIGSEGV, &held.before, NULL);
    munmap(held.memory, held.size);
    sem_destroy(&held.touched);
    sem_destroy(&held.released);
}

#endif
