/*
 * fuzz/run.c - runs a target: under libFuzzer, or on the files and folders that are its arguments.
 *
 * What a small input may cost is checked as strictly as what it may do: a second of the processor
 * and 200 MB, in a build with sanitizers, which slow it down several times.  Without them there is
 * no limit: valgrind runs such a build.
 */
#include "fuzz.h"

#include <dirent.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Of the sanitizers' runtime, where there is one; gcc 12 has no header for them. */
int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void *, size_t),
                                              void (*)(const volatile void *))
    __attribute__((weak));
size_t __sanitizer_get_allocated_size(const volatile void *) __attribute__((weak));

enum { SMALL = 1 << 20, MOST_BYTES = 200000000 };
static const double most_seconds = 1.0;

static const char *working = ""; /* the file at work */

void require(bool condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "fuzz: %s%s%s\n", working, *working ? ": " : "", what);
    abort();
}

/* ---- Files ---------------------------------------------------------------------------------- */

static char folder[40];

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk) {
    (void)status, (void)type, (void)walk;
    return remove(path);
}

void remove_folder(const char *path) {
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void remove_all(void) {
    remove_folder(folder);
}

const char *fuzz_folder(void) {
    if (*folder) return folder;
    strcpy(folder,
           access("/dev/shm", W_OK) == 0 ? "/dev/shm/ole-fuzz-XXXXXX" : "/tmp/ole-fuzz-XXXXXX");
    require(mkdtemp(folder) != NULL, "cannot make a folder for temporary files");
    atexit(remove_all);
    return folder;
}

const char *fuzz_path(const char *name) {
    static char paths[4][100];
    static int turn;
    turn = (turn + 1) % 4;
    int length = snprintf(paths[turn], sizeof paths[turn], "%s/%s", fuzz_folder(), name);
    require(length < (int)sizeof paths[turn], "too long a name");
    return paths[turn];
}

const char *put_file(const char *name, const void *bytes, size_t size) {
    const char *path = fuzz_path(name);
    FILE *file = fopen(path, "wb");
    require(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0,
            "cannot write a temporary file");
    return path;
}

/* ---- Checks --------------------------------------------------------------------------------- */

void check_error(ole_status status, const ole_error *error) {
    require(error->status == status, "the error has another status");
    require(memchr(error->message, '\0', sizeof error->message) != NULL, "no end of the message");
    require(error->message[0] != '\0', "the message is empty");
    require(strpbrk(error->message, "\n\r\x1b") == NULL, "the message is not one plain line");
}

static volatile unsigned sink;

void touch(const void *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        sink += ((const unsigned char *)bytes)[i];
}

/* ---- Limits --------------------------------------------------------------------------------- */

static atomic_llong held, most_held; /* bytes allocated now, and at most since the input began */

static void count_allocation(const volatile void *block, size_t size) {
    (void)block;
    long long now = atomic_fetch_add(&held, (long long)size) + (long long)size;
    long long most = atomic_load(&most_held);
    while (now > most && !atomic_compare_exchange_weak(&most_held, &most, now)) {
    }
}

static void count_free(const volatile void *block) {
    if (block) atomic_fetch_sub(&held, (long long)__sanitizer_get_allocated_size(block));
}

static double processor_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static bool counting;
    if (!__sanitizer_install_malloc_and_free_hooks) {
        fuzz_one(bytes, size);
        return 0;
    }
    if (!counting) __sanitizer_install_malloc_and_free_hooks(count_allocation, count_free);
    counting = true;
    long long before = atomic_load(&held);
    atomic_store(&most_held, before);
    double start = processor_seconds();
    fuzz_one(bytes, size);
    double seconds = processor_seconds() - start;
    long long taken = atomic_load(&most_held) - before;
    if (size > SMALL || (seconds <= most_seconds && taken <= MOST_BYTES)) return 0;
    char words[120];
    snprintf(words, sizeof words, "%zu bytes cost %.2f s of the processor and %.0f MB", size,
             seconds, (double)taken / 1e6);
    require(false, words);
    return 0;
}

/* ---- Without libFuzzer ---------------------------------------------------------------------- */

#ifndef OLE_LIBFUZZER

static long runs;

static void run_file(const char *path) {
    FILE *file = fopen(path, "rb");
    struct stat status;
    working = path;
    require(file && fstat(fileno(file), &status) == 0, "cannot read it");
    size_t size = (size_t)status.st_size;
    uint8_t *bytes = malloc(size + !size); /* of this very size: reads behind the end show */
    require(bytes && fread(bytes, 1, size, file) == size, "cannot read it");
    fclose(file);
    LLVMFuzzerTestOneInput(bytes, size);
    free(bytes);
    runs++;
}

static int run_entry(const char *path, const struct stat *status, int type, struct FTW *walk) {
    (void)status, (void)walk;
    if (type == FTW_F) run_file(path);
    return 0;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        require(nftw(argv[i], run_entry, 16, FTW_PHYS) == 0, "cannot read the folder");
    printf("%ld inputs\n", runs);
    return runs > 0 ? 0 : 1;
}

#endif
