/*
 * src/features/one_out.c - leaving one row out without decomposing the class again.
 *
 * In the coordinates of the class's eigenvectors, X_c^T X_c less x x^T is Λ - z z^T, and so is
 * -(-Λ + z z^T): the eigenvalues μ are the roots of a secular equation, Σ z_j²/(λ_j - μ) = 1, and
 * the eigenvectors are u ~ z_j/(λ_j - μ).  Therefore (z·u)² = 1 / Σ z_j²/(λ_j - μ)²: what a
 * direction of the smaller class holds of x follows from its root alone, in O(n) for each
 * direction.
 *
 * Eigenvalues that z does not reach, or that coincide, pass through unchanged and hold nothing of
 * x.
 */
#include "features/one_out.h"

#include "linalg/kernels.h"

#include <math.h>
#include <stdbool.h>

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
static double energy_inside(const secular *s, double total, ole_subspace_rule rule) {
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

double ole_share_one_out(const double *lambda, const double *z, int64_t n, ole_subspace_rule rule,
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
