/*
 * tests/support/failing_memory.h - an allocator that runs out of memory on request, for a test
 * program that includes this once.
 *
 *     memory_fails_at(3, FAILS_ONCE);
 *     status = call();
 *     if (memory_has_failed()) assert_int_equal(status, OLE_ERROR_MEMORY);
 *
 * It stands in for that of every library too.  Under AddressSanitizer, which brings its own, it is
 * not there, and MEMORY_FAILS is 0.
 */
#ifndef OLE_TESTS_FAILING_MEMORY_H
#define OLE_TESTS_FAILING_MEMORY_H

#include "test.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef enum memory_failure {
    FAILS_ONCE,   /* one allocation fails */
    FAILS_ALWAYS, /* so do all after it */
} memory_failure;

static _Atomic int64_t memory_left = INT64_MAX; /* allocations that still succeed */
static _Atomic int64_t memory_failures;
static memory_failure memory_mode;
static const char *memory_spared; /* names of libraries that always get memory, or NULL */

/* The n-th allocation from here on (from 0) fails. */
static inline void memory_fails_at(int64_t n, memory_failure mode) {
    memory_mode = mode;
    memory_failures = 0;
    memory_left = n;
}

/* Ends the failures; whether there was one. */
static inline bool memory_has_failed(void) {
    memory_left = INT64_MAX;
    return memory_failures > 0;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(OLE_SANITIZED) && defined(__GLIBC__)
enum { MEMORY_FAILS = 1 };

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t line, size_t bytes);

/* Libraries find these only where they are visible. */
#pragma GCC visibility push(default)
void *malloc(size_t bytes);
void *calloc(size_t items, size_t bytes);
void *realloc(void *memory, size_t bytes);
void *aligned_alloc(size_t line, size_t bytes);
int posix_memalign(void **memory, size_t line, size_t bytes);
#pragma GCC visibility pop

static bool memory_is_spared(const void *caller) {
    Dl_info about;
    char name[64];
    if (!memory_spared || !dladdr(caller, &about)) return false;
    const char *slash = strrchr(about.dli_fname, '/'), *file = slash ? slash + 1 : about.dli_fname;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(file, "."), file);
    return strstr(memory_spared, name) != NULL;
}

static bool memory_refused(const void *caller) {
    int64_t left = memory_left--;
    if (left > 0 || (left < 0 && memory_mode == FAILS_ONCE)) return false;
    memory_failures++; /* it is this allocation's turn, spared or not */
    if (memory_is_spared(caller)) return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes) {
    return memory_refused(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t items, size_t bytes) {
    return memory_refused(__builtin_return_address(0)) ? NULL : __libc_calloc(items, bytes);
}

void *realloc(void *memory, size_t bytes) {
    return memory_refused(__builtin_return_address(0)) ? NULL : __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t line, size_t bytes) {
    return memory_refused(__builtin_return_address(0)) ? NULL : __libc_memalign(line, bytes);
}

int posix_memalign(void **memory, size_t line, size_t bytes) {
    *memory = memory_refused(__builtin_return_address(0)) ? NULL : __libc_memalign(line, bytes);
    return *memory ? 0 : ENOMEM;
}
#else
enum { MEMORY_FAILS = 0 };
#endif

/*
 * Makes each allocation of a call fail in turn, alone and with all that follow.  The call, which
 * frees what it makes, must succeed or return OLE_ERROR_MEMORY and say so.  `spared` are names of
 * libraries whose allocations succeed, or NULL.
 */
static inline void fail_each(ole_status (*call)(ole_error *error), const char *spared) {
    if (!MEMORY_FAILS) skip();
    int64_t failures = 0;
    memory_spared = spared;
    for (int mode = FAILS_ONCE; mode <= FAILS_ALWAYS; mode++) {
        bool failed = true;
        for (int64_t n = 0; failed; n++) {
            ole_error error = {.status = OLE_OK};
            memory_fails_at(n, (memory_failure)mode);
            ole_status status = call(&error);
            failed = memory_has_failed();
            if (status != OLE_OK && (status != OLE_ERROR_MEMORY || !failed))
                fail_msg("allocation %lld: %s: %s", (long long)n, ole_status_name(status),
                         error.message);
            if (status != OLE_OK && !strstr(error.message, "memory"))
                fail_msg("allocation %lld: '%s' does not speak of memory", (long long)n,
                         error.message);
            failures += status != OLE_OK;
        }
    }
    assert_true(failures > 0);
}

#endif
