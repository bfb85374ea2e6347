/*
 * tests/support/faults.c - faults on demand, preloaded into the program by tests/cli/outputs.py:
 *
 *   FAULT_ALLOCATION=N   the N-th allocation, from 1, has no memory; N+: nor has any after it
 *   FAULT_COUNT=FILE     how many there were goes into FILE when the program ends
 *   FAULT_TRUNCATE=NAME  a file whose path ends so loses its second half once it is mapped
 *
 * Counted are the allocations of Olé and of what it calls in the C library, dlopen() excepted;
 * other libraries have their own ways to fail, and numbers that vary from run to run.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);

/* ---- Memory ------------------------------------------------------------------------------- */

enum { MOST_RANGES = 16 };
static struct { uintptr_t first, end; } ranges[MOST_RANGES];
static int range_count;
static long fails_at;
static bool fails_on;
static _Atomic long allocations;

/* Code of the program itself, which has no name here, of libole, liboletrain and the C library. */
static int add_ranges(struct dl_phdr_info *info, size_t size, void *context) {
    const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;
    (void)size;
    (void)context;
    if (*name && strncmp(name, "libole.so", 9) != 0 && strncmp(name, "liboletrain.so", 14) != 0 &&
        strncmp(name, "libc.so", 7) != 0)
        return 0;
    for (int i = 0; i < info->dlpi_phnum && range_count < MOST_RANGES; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        ranges[range_count].first = info->dlpi_addr + part->p_vaddr;
        ranges[range_count++].end = info->dlpi_addr + part->p_vaddr + part->p_memsz;
    }
    return 0;
}

__attribute__((constructor)) static void start(void) {
    const char *text = getenv("FAULT_ALLOCATION");
    fails_at = text ? strtol(text, NULL, 10) : 0;
    fails_on = text && strchr(text, '+');
    dl_iterate_phdr(add_ranges, NULL);
    allocations = 0;
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("FAULT_COUNT");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    if (fd < 0) return;
    dprintf(fd, "%ld\n", (long)allocations);
    close(fd);
}

/*
 * glibc 2.36 crashes when a failing dlopen() finds no memory for the reason (_dlerror_run), which
 * no caller can prevent.  Olé opens its modules by their whole paths, so it does not matter that
 * the search starts from here.
 */
static _Thread_local bool opening;

void *dlopen(const char *path, int mode) {
    void *(*open_library)(const char *, int) =
        (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    opening = true;
    void *handle = open_library(path, mode);
    opening = false;
    return handle;
}

/* Whether an allocation asked for from there fails. */
static bool fails(const void *from) {
    bool counts = false;
    for (int i = 0; i < range_count; i++)
        counts |= (uintptr_t)from >= ranges[i].first && (uintptr_t)from < ranges[i].end;
    if (!counts || opening) return false;
    long number = ++allocations;
    if (number != fails_at && !(fails_on && number > fails_at)) return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(memory, bytes);
}

/* The C library's own would count for every library that calls it, and fontconfig's calls crash. */
char *strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = fails(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

/* ---- Files -------------------------------------------------------------------------------- */

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
    void *map = (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
    const char *end = fd >= 0 ? getenv("FAULT_TRUNCATE") : NULL;
    char link[64], path[4096];
    if (!end || map == MAP_FAILED) return map;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < (ssize_t)strlen(end)) return map;
    path[length] = '\0';
    if (strcmp(path + length - strlen(end), end) == 0 && truncate(path, (off_t)size / 2) != 0)
        return MAP_FAILED;
    return map;
}
