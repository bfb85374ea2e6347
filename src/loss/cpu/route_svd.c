/*
 * src/loss/cpu/route_svd.c - the loss of float64 features: one SVD per class and one of the whole.
 */
#include "loss/route.h"

void ole_route_svd_lay_out(ole_route_svd *route, ole_arena *arena, int64_t max_rows, int64_t dim) {
    route->rows = ole_arena_take(arena, max_rows * dim, sizeof(double));
    ole_svd_lay_out(&route->svd, arena, max_rows, dim);
    route->direction = ole_arena_take(arena, max_rows * dim, sizeof(double));
}

/* Norm and rank of rows first to last-1 of X, from a decomposition left in route->svd. */
static bool decompose(ole_route_svd *route, const ole_route_job *job, int64_t first, int64_t last,
                      double *norm, int64_t *rank) {
    int64_t dim = job->dim, rows = last - first, k = rows < dim ? rows : dim;
    ole_operand block = {route->rows + first * dim, OLE_F64, rows, dim, dim, 1, false};
    if (!ole_svd_of(&block, &route->svd)) return false;
    *norm = ole_svd_norm(&route->svd, k);
    *rank = ole_svd_rank(&route->svd, k, job->cut);
    return true;
}

/* direction[first:last] (+)= alpha U1 V1^T of the decomposition left in route->svd. */
static void add_polar(ole_route_svd *route, const ole_route_job *job, int64_t first, int64_t last,
                      int64_t rank, double alpha, ole_store store) {
    ole_product product = {alpha, route->direction + first * job->dim, job->dim, store, false};
    ole_svd_polar(job->pool, &route->svd, last - first, job->dim, rank, &product);
}

bool ole_route_svd_run(ole_route_svd *route, ole_route_job *job) {
    const ole_groups *groups = job->groups;
    job->direction = route->direction;
    bool several = groups->classes > 1;
    for (int64_t c = 0; c < groups->classes && several; c++) {
        ole_loss_class *class = &job->classes[c];
        int64_t first = groups->start[c], last = groups->start[c + 1];
        if (!decompose(route, job, first, last, &class->norm, &class->rank)) return false;
        int64_t rank = class->norm > job->floor ? class->rank : 0;
        if (job->want_direction) add_polar(route, job, first, last, rank, 1.0, OLE_STORE_SET);
    }
    if (!decompose(route, job, 0, groups->rows, &job->norm, &job->rank)) return false;
    if (!several) {
        job->classes[0].norm = job->norm;
        job->classes[0].rank = job->rank;
    }
    if (!job->want_direction) return true;
    /* A class that is the whole batch cancels against it. */
    bool cancels = !several && job->norm > job->floor;
    add_polar(route, job, 0, groups->rows, cancels ? 0 : job->rank, -1.0,
              several ? OLE_STORE_ADD : OLE_STORE_SET);
    return true;
}
