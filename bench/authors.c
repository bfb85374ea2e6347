/*
 * bench/authors.c - the authors' algorithm on sgesvd and sgemm, from a threaded OpenBLAS loaded
 * beside the serial one that the library links, or from the serial one if there is no other.
 */
#include "authors.h"

#include <dlfcn.h>
#include <lapack.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void sgesvd_function(const char *, const char *, const int *, const int *, float *,
                             const int *, float *, float *, const int *, float *, const int *,
                             float *, const int *, int *, size_t, size_t);
typedef void sgemm_function(const char *, const char *, const int *, const int *, const int *,
                            const float *, const float *, const int *, const float *, const int *,
                            const float *, float *, const int *, size_t, size_t);
void sgesvd_(const char *, const char *, const int *, const int *, float *, const int *, float *,
             float *, const int *, float *, const int *, float *, const int *, int *, size_t,
             size_t);
void sgemm_(const char *, const char *, const int *, const int *, const int *, const float *,
            const float *, const int *, const float *, const int *, const float *, float *,
            const int *, size_t, size_t);

struct authors {
    void *handle;
    sgesvd_function *sgesvd;
    sgemm_function *sgemm;
    void (*set_threads)(int);
    char name[200];
    /* Work space, grown as needed and kept. */
    float *block, *u, *s, *vt, *work, *polar;
    int64_t *list;
    int64_t block_size, work_size;
};

/* OpenBLAS picks its kernels when it is loaded; tell it what the CPU can do if nobody else has. */
static void choose_kernels(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
        setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
    else if (__builtin_cpu_supports("avx2"))
        setenv("OPENBLAS_CORETYPE", "Haswell", 0);
#endif
}

/* A function of the loaded library; by memcpy, since C has no cast from void * to a function. */
static void find(void *handle, const char *symbol, void *function) {
    void *found = dlsym(handle, symbol);
    memcpy(function, &found, sizeof found);
}

authors *authors_open(void) {
    authors *a = calloc(1, sizeof *a);
    if (!a) abort();
    const char *path = getenv("OLE_BENCH_BLAS");
    if (!path) path = "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0";
    choose_kernels();
    /* Deep binding: both libraries have the same symbols inside, and must not share them. */
    a->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!a->handle) {
        a->sgesvd = sgesvd_;
        a->sgemm = sgemm_;
        snprintf(a->name, sizeof a->name, "the linked OpenBLAS (no %s)", path);
        return a;
    }
    char *(*config)(void) = NULL, *(*core)(void) = NULL;
    find(a->handle, "sgesvd_", &a->sgesvd);
    find(a->handle, "sgemm_", &a->sgemm);
    find(a->handle, "openblas_set_num_threads", &a->set_threads);
    find(a->handle, "openblas_get_config", &config);
    find(a->handle, "openblas_get_corename", &core);
    if (!a->sgesvd || !a->sgemm) {
        fprintf(stderr, "%s has no sgesvd_ or sgemm_\n", path);
        exit(1);
    }
    snprintf(a->name, sizeof a->name, "%.60s, %s kernels", config ? config() : path,
             core ? core() : "its");
    return a;
}

void authors_close(authors *a) {
    free(a->block);
    free(a->u);
    free(a->s);
    free(a->vt);
    free(a->work);
    free(a->polar);
    free(a->list);
    if (a->handle) dlclose(a->handle);
    free(a);
}

const char *authors_library(const authors *a) {
    return a->name;
}

void authors_set_threads(authors *a, int threads) {
    if (a->set_threads) a->set_threads(threads);
}

static void *grown(void *p, size_t bytes) {
    free(p);
    p = malloc(bytes);
    if (!p) abort();
    return p;
}

static void make_room(authors *a, int64_t n, int64_t d) {
    size_t k = (size_t)(n < d ? n : d);
    if (a->block_size == n * d) return;
    a->block_size = n * d;
    a->block = grown(a->block, (size_t)(n * d) * sizeof(float));
    a->polar = grown(a->polar, (size_t)(n * d) * sizeof(float));
    a->u = grown(a->u, (size_t)n * k * sizeof(float));
    a->vt = grown(a->vt, (size_t)d * k * sizeof(float));
    a->s = grown(a->s, k * sizeof(float));
    a->list = grown(a->list, (size_t)n * sizeof *a->list);
    int m = (int)d, rows = (int)n, kk = (int)k, query = -1, info;
    float best;
    a->sgesvd("S", "S", &m, &rows, a->block, &m, a->s, a->vt, &m, a->u, &kk, &best, &query, &info,
              1, 1);
    a->work_size = (int64_t)best + 8 * (n + d);
    a->work = grown(a->work, (size_t)a->work_size * sizeof(float));
}

/* Nuclear norm of the listed rows, and sign * polar added to their gradient rows if `always` or
   the norm exceeds 1. */
static double add_block(authors *a, const float *x, int64_t d, int64_t count, bool always,
                        float sign, float *gradient) {
    int m = (int)d, n = (int)count, k = m < n ? m : n, lwork = (int)a->work_size, info, rank = 0;
    for (int64_t i = 0; i < count; i++)
        memcpy(a->block + i * d, x + a->list[i] * d, (size_t)d * sizeof(float));
    a->sgesvd("S", "S", &m, &n, a->block, &m, a->s, a->vt, &m, a->u, &k, a->work, &lwork, &info, 1,
              1);
    double norm = 0.0;
    for (int i = 0; i < k; i++)
        norm += a->s[i];
    while (rank < k && a->s[rank] >= 1e-6f)
        rank++;
    if (!always && norm <= 1.0) return norm;
    float one = 1.0f, zero = 0.0f;
    a->sgemm("N", "N", &m, &n, &rank, &one, a->vt, &m, a->u, &k, &zero, a->polar, &m, 1, 1);
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < d; j++)
            gradient[a->list[i] * d + j] += sign * a->polar[i * d + j];
    return norm;
}

double authors_evaluate(authors *a, const float *x, const int64_t *labels, int64_t n, int64_t d,
                        float *gradient) {
    make_room(a, n, d);
    memset(gradient, 0, (size_t)(n * d) * sizeof *gradient);
    double loss = 0.0;
    int64_t classes = 0;
    for (int64_t i = 0; i < n; i++)
        if (labels[i] >= classes) classes = labels[i] + 1;
    for (int64_t c = 0; c < classes; c++) {
        int64_t count = 0;
        for (int64_t i = 0; i < n; i++)
            if (labels[i] == c) a->list[count++] = i;
        if (count == 0) continue;
        double norm = add_block(a, x, d, count, false, 1.0f, gradient);
        loss += norm > 1.0 ? norm : 1.0;
    }
    for (int64_t i = 0; i < n; i++)
        a->list[i] = i;
    loss -= add_block(a, x, d, n, true, -1.0f, gradient);
    float scale = 1.0f / (float)n;
    for (int64_t i = 0; i < n * d; i++)
        gradient[i] *= scale;
    return loss / (double)n;
}
