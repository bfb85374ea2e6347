/*
 * src/features/subspace.c - principal subspaces from Gram matrices.
 *
 * For a class X_c of n rows the smaller of X_c X_c^T and X_c^T X_c is formed in float64 and
 * decomposed: its eigenvalues are σ², its eigenvectors the left or right singular vectors. Squaring
 * loses only directions with σ/σ_max under 1e-8, far below the share of energy that counts here.
 * Rows are scaled by a power of two first, so that squares neither overflow nor vanish.
 */
#include "features/subspace.h"

#include "base/error.h"
#include "base/sort.h"
#include "linalg/eigen.h"
#include "linalg/kernels.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- A class without one of its rows ------------------------------------------------------ */

/*
 * Leaves one row out without decomposing the class again.  In the coordinates of the class's
 * eigenvectors, X_c^T X_c less x x^T is Λ - z z^T, and so is -(-Λ + z z^T): the eigenvalues μ are
 * the roots of a secular equation, Σ z_j²/(λ_j - μ) = 1, and the eigenvectors are
 * u ~ z_j/(λ_j - μ).  Therefore (z·u)² = 1 / Σ z_j²/(λ_j - μ)²: what a direction of the smaller
 * class holds of x follows from its root alone, in O(n) per direction.
 *
 * Eigenvalues that z does not reach, or that coincide, pass through unchanged and hold nothing of
 * x.
 */

/* How many directions a subspace has (see ole/analyze.h). */
typedef struct subspace_rule {
    double energy;   /* share of the energy that the directions hold together */
    double resolved; /* directions that hold less than this share are left out */
    int most;        /* directions at most */
} subspace_rule;

static const double unreached = 1e-30; /* z_j² of ‖z‖² */
static const double coincide = 1e-14;  /* a gap, of the largest eigenvalue */

/* The roots are asked for one after the other; `same` are the eigenvalues that pass through. */
typedef struct secular {
    double *pole, *square, *same;
    int64_t poles, sames;
    double total; /* of `square` */
} secular;

static secular deflate(const double *lambda, const double *z, int64_t n, double norm,
                       double *scratch) {
    secular s = {.pole = scratch, .square = scratch + n + 8, .same = scratch + 2 * (n + 8)};
    for (int64_t j = 0; j < n; j++) {
        double square = z[j] * z[j];
        bool twin = s.poles > 0 && -lambda[j] - s.pole[s.poles - 1] <= coincide * lambda[0];
        if (square > unreached * norm && !twin) {
            s.pole[s.poles] = -lambda[j];
            s.square[s.poles++] = square;
        } else {
            if (twin) s.square[s.poles - 1] += square;
            s.same[s.sames++] = lambda[j];
        }
    }
    for (int64_t j = 0; j < s.poles; j++)
        s.total += s.square[j];
    for (int64_t j = s.poles; j < s.poles + 8; j++) {
        s.pole[j] = HUGE_VAL;
        s.square[j] = 0.0;
    }
    return s;
}

/* (z·u)² for the eigenvector u of the root pole[origin] + offset. */
static double energy_along(const secular *s, int64_t origin, double offset) {
    double sum = 0.0;
    for (int64_t j = 0; j < s->poles; j++) {
        double distance = s->pole[origin] - s->pole[j] + offset;
        sum += s->square[j] / (distance * distance);
    }
    return 1.0 / sum;
}

/* Takes directions by falling eigenvalue until they hold the share wanted; what x has in them. */
static double energy_inside(const secular *s, double total, subspace_rule rule) {
    double held = 0.0, inside = 0.0, value = 0.0, offset = 0.0;
    int64_t root = 0, same = 0, origin = 0;
    bool known = false;
    for (int size = 0; size < rule.most && held < rule.energy * total; size++) {
        if (!known && root < s->poles) {
            offset = ole_kernels_get()->secular_root(s->pole, s->square, s->poles, root, s->total,
                                                     &origin);
            value = -(s->pole[origin] + offset);
            known = true;
        }
        bool by_root = known && (same == s->sames || value >= s->same[same]);
        if (!by_root && same == s->sames) break;
        double next = by_root ? value : s->same[same];
        if (!(next > rule.resolved * total)) break;
        held += next;
        if (by_root) {
            inside += energy_along(s, origin, offset);
            root++;
            known = false;
        } else {
            same++;
        }
    }
    return inside;
}

/*
 * The share of ‖x‖² that lies in the principal subspace of the class's other rows.  X_c^T X_c has
 * the eigenvalues lambda[n], falling, none negative; z[n] are the coordinates of the row x along
 * the eigenvectors.  0 when nothing is left without x.  scratch[3 * (n + 8)].
 */
static double share_one_out(const double *lambda, const double *z, int64_t n, subspace_rule rule,
                            double *scratch) {
    double norm = 0.0, whole = 0.0;
    for (int64_t j = 0; j < n; j++) {
        norm += z[j] * z[j];
        whole += lambda[j];
    }
    double total = whole - norm;
    if (!(norm > 0.0) || !(total > rule.resolved * whole)) return 0.0;
    secular s = deflate(lambda, z, n, norm, scratch);
    return fmin(1.0, energy_inside(&s, total, rule) / norm);
}

enum { CHUNK = 256 }; /* rows gathered at once where a class has more rows than dimensions */
static const double resolved = 1e-10; /* the least share of energy of a direction */

/* What the tasks of one call share. */
typedef struct job {
    const ole_subspaces *subspaces;
    const ole_embedding *embedding;
    const ole_classes *classes;
    subspace_rule rule;
    const ole_one_out *one_out; /* or NULL */
    double *scratch;            /* of all workers */
    int64_t scratch_size;
    bool *converged; /* [classes] */
} job;

/* A worker's scratch, cut into what one class of `rows` rows needs. */
typedef struct workspace {
    double *gram;     /* [pad, pad], 64-byte aligned */
    double *work;     /* the same size */
    double *values;   /* [pad] */
    double *scratch;  /* of ole_eigen() */
    double *gathered; /* [min(rows, chunk), dim] */
    double *panels;   /* gathered, packed; then of ole_eigen() */
    double *spare;    /* for leaving rows out */
    int64_t size;     /* doubles in all */
} workspace;

static int64_t round_up(int64_t n, int64_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

static bool is_tall(int64_t rows, int64_t dim) {
    return rows > dim;
}

static workspace cut_workspace(double *memory, int64_t rows, int64_t dim) {
    int64_t width = ole_kernels_get()->width;
    int64_t side = is_tall(rows, dim) ? dim : rows;
    int64_t pad = ole_eigen_pad(side);
    int64_t gathered = is_tall(rows, dim) && rows > CHUNK ? CHUNK : rows;
    int64_t depth = is_tall(rows, dim) ? gathered : dim;
    int64_t packed = round_up(side, width) * depth, eigen = ole_eigen_panels(side);
    const int64_t sizes[] = {pad * pad,
                             pad * pad,
                             pad,
                             ole_eigen_scratch(side),
                             gathered * dim,
                             packed > eigen ? packed : eigen,
                             4 * side + 3 * (side + 8)};
    double *at[sizeof sizes / sizeof *sizes] = {0};
    int64_t used = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (memory) at[i] = memory + used;
        used += round_up(sizes[i], 8); /* 64 bytes */
    }
    return (workspace){at[0], at[1], at[2], at[3], at[4], at[5], at[6], used};
}

/* ---- One class ---------------------------------------------------------------------------- */

/* Rows of the class order. */
static ole_row_set ordered_rows(const job *j) {
    return ole_embedding_rows(j->embedding, j->classes->order, j->classes->rows);
}

/* The power of two that brings the largest element of the class into [0.5, 1); 0 for all zero. */
static int class_exponent(const job *j, int64_t begin, int64_t end) {
    const ole_row_set set = ordered_rows(j);
    double largest = 0.0;
    for (int64_t i = begin; i < end; i++)
        largest = fmax(largest, ole_row_largest(&set, i));
    int exponent;
    frexp(largest, &exponent);
    return exponent;
}

/* Copies rows [begin, end) of the order, times 2^-exponent (in two steps: one may overflow). */
static void gather(const job *j, int64_t begin, int64_t end, int exponent, double *to) {
    const ole_row_set set = ordered_rows(j);
    double first = ldexp(1.0, -(exponent / 2)), second = ldexp(1.0, exponent / 2 - exponent);
    for (int64_t i = begin; i < end; i++, to += set.dim) {
        ole_row_copy(&set, i, to);
        for (int64_t k = 0; k < set.dim; k++)
            to[k] = to[k] * first * second;
    }
}

/* The lower triangle of the smaller Gram matrix; for a class that is not tall, gathers it whole. */
static void form_gram(const job *j, int64_t begin, int64_t end, int exponent, const workspace *w) {
    const ole_kernels *k = ole_kernels_get();
    int64_t dim = j->subspaces->dim;
    if (!is_tall(end - begin, dim)) {
        int64_t n = end - begin;
        gather(j, begin, end, exponent, w->gathered);
        k->pack_f64(w->panels, w->gathered, dim, 1, n, dim);
        k->multiply(w->panels, w->panels, n, n, dim, 1.0, w->gram, ole_eigen_pad(n), 0, 0, true,
                    OLE_STORE_SET);
        return;
    }
    for (int64_t i = begin; i < end; i += CHUNK) {
        int64_t stop = i + CHUNK < end ? i + CHUNK : end;
        gather(j, i, stop, exponent, w->gathered);
        k->pack_f64(w->panels, w->gathered, 1, dim, dim, stop - i);
        k->multiply(w->panels, w->panels, dim, dim, stop - i, 1.0, w->gram, ole_eigen_pad(dim), 0,
                    0, true, i == begin ? OLE_STORE_SET : OLE_STORE_ADD);
    }
}

/* The eigenvalues by falling size, none negative, an equal one in its order; returns how many hold
 * the share of the rule. */
static int64_t choose(const double *values, int64_t count, subspace_rule rule, ole_ranked *rank) {
    double total = 0.0, held = 0.0;
    for (int64_t i = 0; i < count; i++) {
        rank[i] = (ole_ranked){fmax(values[i], 0.0), i};
        total += rank[i].value;
    }
    qsort(rank, (size_t)count, sizeof *rank, ole_by_falling_value);
    int64_t size = 0;
    while (size < rule.most && size < count && held < rule.energy * total &&
           rank[size].value > rule.resolved * total)
        held += rank[size++].value;
    return size;
}

/* Makes row `i` of the basis orthogonal to those before it, twice for full accuracy, and unit. */
static void orthonormalise(double *basis, int64_t i, int64_t dim) {
    const ole_kernels *k = ole_kernels_get();
    double *v = basis + i * dim;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t p = 0; p < i; p++) {
            const double *before = basis + p * dim;
            k->axpy(v, -k->dot_f64(v, before, dim), before, dim);
        }
        double scale = 1.0 / sqrt(k->dot_f64(v, v, dim));
        for (int64_t c = 0; c < dim; c++)
            v[c] *= scale;
    }
}

/*
 * What each wanted row has in the subspace of the class's other rows.  The eigenvectors, rows of
 * w->gram, are right singular vectors for a tall class and left ones for another: there a row's
 * coordinates are σ times its elements in them.
 */
static void leave_each_out(const job *j, int64_t c, int exponent, const workspace *w) {
    const ole_kernels *k = ole_kernels_get();
    int64_t dim = j->subspaces->dim, begin = j->classes->begin[c], end = j->classes->begin[c + 1];
    bool tall = is_tall(end - begin, dim);
    int64_t side = tall ? dim : end - begin, pad = ole_eigen_pad(side);
    const ole_ranked *rank = (const ole_ranked *)w->spare; /* choose() has filled it */
    double *lambda = w->spare + 2 * side, *z = lambda + side, *scratch = z + side;
    for (int64_t i = 0; i < side; i++)
        lambda[i] = rank[i].value;
    for (int64_t r = begin; r < end; r++) {
        int64_t row = j->classes->order[r];
        if (!j->one_out->wanted[row]) continue;
        if (tall) gather(j, r, r + 1, exponent, w->gathered);
        for (int64_t i = 0; i < side; i++) {
            const double *vector = w->gram + rank[i].at * pad;
            z[i] =
                tall ? k->dot_f64(vector, w->gathered, dim) : sqrt(lambda[i]) * vector[r - begin];
        }
        j->one_out->share[row] = share_one_out(lambda, z, side, j->rule, scratch);
    }
}

static void solve_class(void *context, int64_t c, int worker) {
    const job *j = context;
    const ole_kernels *k = ole_kernels_get();
    ole_subspace *s = &j->subspaces->of[c];
    int64_t dim = j->subspaces->dim, begin = j->classes->begin[c], end = j->classes->begin[c + 1];
    int64_t n = end - begin;
    workspace w = cut_workspace(j->scratch + worker * j->scratch_size, n, dim);
    int exponent = class_exponent(j, begin, end);
    form_gram(j, begin, end, exponent, &w);

    int64_t side = is_tall(n, dim) ? dim : n, pad = ole_eigen_pad(side);
    j->converged[c] = ole_eigen(NULL, w.gram, side, w.values, w.work, w.panels, w.scratch);
    ole_ranked *rank = (ole_ranked *)w.spare;
    s->size = choose(w.values, side, j->rule, rank);
    for (int64_t i = 0; i < s->size; i++) {
        const double *vector = w.gram + rank[i].at * pad;
        double *v = s->basis + i * dim;
        if (is_tall(n, dim)) {
            memcpy(v, vector, (size_t)dim * sizeof *v);
            continue;
        }
        memset(v, 0, (size_t)dim * sizeof *v);
        for (int64_t r = 0; r < n; r++)
            k->axpy(v, vector[r], w.gathered + r * dim, dim);
        orthonormalise(s->basis, i, dim);
    }
    if (j->one_out && j->converged[c]) leave_each_out(j, c, exponent, &w);
}

/* ---- All classes -------------------------------------------------------------------------- */

static int64_t max_size(int64_t rows, int64_t dim) {
    int64_t side = rows < dim ? rows : dim;
    return side < OLE_SUBSPACE_MAX ? side : OLE_SUBSPACE_MAX;
}

/* Allocates the subspaces and the scratch; sets labels and where each basis lies. */
static bool allocate(ole_subspaces *s, job *j, int threads) {
    const int64_t *begin = j->classes->begin;
    int64_t total = 0;
    for (int64_t c = 0; c < s->classes; c++) {
        int64_t n = begin[c + 1] - begin[c];
        int64_t need = cut_workspace(NULL, n, s->dim).size;
        if (need > j->scratch_size) j->scratch_size = need;
        total += max_size(n, s->dim) * s->dim;
    }
    size_t classes = s->classes > 0 ? (size_t)s->classes : 0;
    s->of = calloc(classes, sizeof *s->of);
    s->memory = malloc((size_t)total * sizeof *s->memory);
    j->converged = calloc(classes, sizeof *j->converged);
    j->scratch = aligned_alloc(64, (size_t)(threads * j->scratch_size) * sizeof *j->scratch);
    if (!s->of || !s->memory || !j->converged || !j->scratch) return false;
    double *next = s->memory;
    for (int64_t c = 0; c < s->classes; c++) {
        s->of[c] = (ole_subspace){.label = j->classes->label[c], .basis = next};
        next += max_size(begin[c + 1] - begin[c], s->dim) * s->dim;
    }
    return true;
}

ole_status ole_subspaces_of(ole_subspaces *s, const ole_embedding *embedding,
                            const ole_classes *classes, double energy, const ole_one_out *one_out,
                            ole_pool *pool, int threads, ole_error *error) {
    *s = (ole_subspaces){.dim = embedding->dim, .classes = classes->classes};
    if (s->classes <= 0) return OLE_OK;
    job j = {.subspaces = s,
             .embedding = embedding,
             .classes = classes,
             .rule = {energy, resolved, OLE_SUBSPACE_MAX},
             .one_out = one_out};
    ole_status status = OLE_OK;
    if (!allocate(s, &j, threads)) {
        status = ole_fail(error, OLE_ERROR_MEMORY,
                          "out of memory for %" PRId64 " classes of %" PRId64 " dimensions",
                          s->classes, s->dim);
    } else {
        ole_pool_run(pool, s->classes, solve_class, &j);
        for (int64_t c = 0; c < s->classes && status == OLE_OK; c++)
            if (!j.converged[c])
                status = ole_fail(error, OLE_ERROR_NUMERIC,
                                  "the eigenvalues of class %" PRId64 " do not converge",
                                  s->of[c].label);
    }
    free(j.converged);
    free(j.scratch);
    if (status != OLE_OK) ole_subspaces_destroy(s);
    return status;
}

ole_status ole_subspaces_create(ole_subspaces *subspaces, const ole_embedding *e, double energy,
                                ole_pool *pool, int threads, ole_error *error) {
    *subspaces = (ole_subspaces){0};
    ole_classes classes;
    ole_status status = ole_classes_create(&classes, e->rows, e->labels, error);
    if (status != OLE_OK) return status;
    status = ole_classes_check_finite(&classes, e, pool, error);
    if (status == OLE_OK)
        status = ole_subspaces_of(subspaces, e, &classes, energy, NULL, pool, threads, error);
    ole_classes_destroy(&classes);
    return status;
}

void ole_subspaces_destroy(ole_subspaces *subspaces) {
    free(subspaces->of);
    free(subspaces->memory);
    *subspaces = (ole_subspaces){0};
}
