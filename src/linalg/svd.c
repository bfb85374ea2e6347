/*
 * src/linalg/svd.c - the SVD route: dgesdd, and dgesvd where that fails to converge.
 *
 * LAPACK is column-major, so it is handed the transpose: its left vectors are the rows of vt.
 *
 * One decomposition at a time in a process: Debian's serial OpenBLAS hands the same buffer to two
 * threads that call it at once, and both get wrong numbers.
 */
#include "linalg/svd.h"

#include "base/min_max.h"

#include <lapack.h>
#include <math.h>
#include <pthread.h>

/* The work space with which either method runs at its best block size. */
static int64_t best_work(int m, int n) {
    int k = (int)ole_min(m, n), query = -1, info, iunused = 0;
    double unused = 0.0, sdd = 0.0, svd = 0.0;
    LAPACK_dgesdd("S", &m, &n, &unused, &m, &unused, &unused, &m, &unused, &k, &sdd, &query,
                  &iunused, &info);
    LAPACK_dgesvd("S", "S", &m, &n, &unused, &m, &unused, &unused, &m, &unused, &k, &svd, &query,
                  &info);
    return (int64_t)fmax(sdd, svd);
}

/* Enough for every matrix of up to rows x cols: the formulas grow with both, with 64 as block. */
static int64_t enough_work(int64_t rows, int64_t cols) {
    int64_t k = ole_min(rows, cols), most = 5 * k * k + 8 * k + 64 * (rows + cols) + 64;
    int64_t best = best_work((int)cols, (int)rows);
    return ole_min(most > best ? most : best, INT32_MAX);
}

void ole_svd_lay_out(ole_svd_space *space, ole_arena *arena, int64_t rows, int64_t cols) {
    int64_t k = ole_min(rows, cols);
    space->work_size = enough_work(rows, cols);
    space->a = ole_arena_take(arena, rows * cols, sizeof(double));
    space->u = ole_arena_take(arena, rows * k, sizeof(double));
    space->sigma = ole_arena_take(arena, k, sizeof(double));
    space->vt = ole_arena_take(arena, k * cols, sizeof(double));
    space->work = ole_arena_take(arena, space->work_size, sizeof(double));
    space->iwork = ole_arena_take(arena, 8 * k, sizeof(int));
    space->left = ole_arena_take(arena, ole_panels_size(rows, k), sizeof(double));
    space->right = ole_arena_take(arena, ole_panels_size(cols, k), sizeof(double));
}

static double element(const ole_operand *s, int64_t i, int64_t p) {
    int64_t at = i * s->item_stride + p * s->depth_stride;
    return s->dtype == OLE_F32 ? ((const float *)s->data)[at] : ((const double *)s->data)[at];
}

/* The exponent that brings the largest element into [1/2, 1). */
static int common_exponent(const ole_operand *s) {
    double largest = 0.0;
    for (int64_t i = 0; i < s->items; i++)
        for (int64_t p = 0; p < s->depth; p++) {
            double size = fabs(element(s, i, p));
            if (size > largest) largest = size; /* fmax() here crashes GCC 12.2 for arm64 */
        }
    int exponent = 0;
    frexp(largest, &exponent);
    return exponent;
}

static void copy_scaled(const ole_operand *s, int exponent, double *to) {
    for (int64_t i = 0; i < s->items; i++)
        for (int64_t p = 0; p < s->depth; p++)
            to[i * s->depth + p] = ldexp(element(s, i, p), -exponent);
}

/* ---- One at a time ------------------------------------------------------------------------ */

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static void lock_turn(void) {
    pthread_mutex_lock(&turn);
}

static void end_turn(void) {
    pthread_mutex_unlock(&turn);
}

/* A child of fork() must not find the turn taken by a thread that it does not have. */
static void keep_through_forks(void) {
    pthread_atfork(lock_turn, end_turn, end_turn);
}

static void take_turn(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, keep_through_forks);
    lock_turn();
}

/* ---- Decomposing -------------------------------------------------------------------------- */

static int decompose(const ole_operand *source, int exponent, ole_svd_space *space) {
    int m = (int)source->depth, n = (int)source->items, k = (int)ole_min(m, n), info;
    int lwork = (int)ole_min(space->work_size, best_work(m, n));
    copy_scaled(source, exponent, space->a);
    LAPACK_dgesdd("S", &m, &n, space->a, &m, space->sigma, space->vt, &m, space->u, &k, space->work,
                  &lwork, space->iwork, &info);
    if (info == 0) return 0;
    copy_scaled(source, exponent, space->a);
    LAPACK_dgesvd("S", "S", &m, &n, space->a, &m, space->sigma, space->vt, &m, space->u, &k,
                  space->work, &lwork, &info);
    return info;
}

bool ole_svd_of(const ole_operand *source, ole_svd_space *space) {
    int exponent = common_exponent(source);
    take_turn();
    int info = decompose(source, exponent, space);
    end_turn();
    int64_t k = ole_min(source->items, source->depth);
    for (int64_t i = 0; i < k; i++)
        space->sigma[i] = ldexp(space->sigma[i], exponent);
    return info == 0;
}

double ole_svd_norm(const ole_svd_space *space, int64_t k) {
    double norm = 0.0;
    for (int64_t i = k - 1; i >= 0; i--)
        norm += space->sigma[i];
    return norm;
}

int64_t ole_svd_rank(const ole_svd_space *space, int64_t k, ole_cut cut) {
    double threshold = ole_cut_at(cut, space->sigma[0]);
    int64_t rank = 0;
    while (rank < k && space->sigma[rank] > threshold)
        rank++;
    return rank;
}

void ole_svd_polar(ole_pool *pool, ole_svd_space *space, int64_t rows, int64_t cols, int64_t rank,
                   const ole_product *product) {
    ole_operand u = {space->u, OLE_F64, rows, rank, ole_min(rows, cols), 1, false};
    ole_operand v = {space->vt, OLE_F64, cols, rank, 1, cols, false};
    ole_multiply(pool, &u, space->left, &v, space->right, product);
}

/* ---- Inverting ---------------------------------------------------------------------------- */

bool ole_invert_definite(double *a, int64_t n, double *logdet) {
    int size = (int)n, info;
    *logdet = 0.0;
    take_turn();
    LAPACK_dpotrf("U", &size, a, &size, &info); /* of the lower triangle, row by row */
    for (int64_t i = 0; i < n && info == 0; i++)
        *logdet += 2.0 * log(a[i * n + i]);
    if (info == 0) LAPACK_dpotri("U", &size, a, &size, &info);
    end_turn();
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            a[j * n + i] = a[i * n + j];
    return info == 0;
}
