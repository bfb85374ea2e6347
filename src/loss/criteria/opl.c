/*
 * src/loss/criteria/opl.c - Orthogonal Projection Loss (Ranasinghe et al., ICCV 2021) on unit rows:
 *
 *     value = 1 − mean cosine of pairs of one class + gamma |mean cosine of other pairs|
 *
 * The paper has the absolute value, the authors' code has not: absolute=no.  A kind of pair that
 * the batch lacks adds nothing.
 */
#include "loss/criteria/criterion.h"

#include <math.h>

static bool eval(ole_criterion_call *c, double *value) {
    double gamma = c->param[0], same = 0.0, other = 0.0, sames = 0.0;
    int64_t n = c->rows;
    ole_criterion_cosines(c);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) {
            bool alike = c->labels[i] == c->labels[j];
            sames += alike;
            *(alike ? &same : &other) += c->square[0][i * n + j];
        }
    double others = (double)(n * (n - 1) / 2) - sames;
    same = sames > 0.0 ? same / sames : 1.0;
    other = others > 0.0 ? other / others : 0.0;
    double sign = c->param[1] == 0.0 || other > 0.0 ? 1.0 : other < 0.0 ? -1.0 : 0.0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            c->square[1][i * n + j] =
                c->labels[i] == c->labels[j] ? -1.0 / sames : gamma * sign / others;
    ole_criterion_cosines_backward(c);
    *value = 1.0 - same + gamma * sign * other;
    return true;
}

const ole_criterion ole_opl = {
    .name = "opl",
    .title = "OPL",
    .traits = OLE_CRITERION_BESIDE | OLE_CRITERION_ALONE,
    .weight = 1.0,
    .param = {{.name = "gamma", .initial = 0.5, .min = 0.0, .max = 1e3},
              {.name = "absolute",
               .initial = 1.0,
               .min = 0.0,
               .max = 1.0,
               .whole = true,
               .words = "no|yes"}},
    .weight_grid = {0.03, 0.1, 0.3, 1.0, 3.0},
    .tuned = "gamma",
    .grid = {0.25, 0.5, 1.0, 2.0, 4.0},
    .eval = eval,
};
