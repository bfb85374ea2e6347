/*
 * src/loss/ranks/ranks_loss.c - the loss of a batch on several ranks: memory, what the ranks tell
 * each other of their rows, and the way of a batch through the route that ranks_cost.c
 * chooses.
 */
#include "loss/ranks/ranks_loss.h"

#include "base/error.h"
#include "base/min_max.h"
#include "linalg/kernels.h"
#include "loss/checks.h"
#include "loss/ranks/ranks_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Elements of a batch up to which memory for gathered rows is planned: 32 bytes each, or more. */
static const int64_t GATHERED = 1 << 23;

/* What a rank says of its batch, before its labels. */
enum { SAID_STATUS, SAID_ROWS, SAID_BAD, SAID_CAPACITY, SAID_WANT, SAID_UPSTREAM, SAID_FIELDS };

/* ---- agreeing ----------------------------------------------------------------------------- */

/* The error of the first rank that has one, on every rank; `here` is this rank's. */
static ole_status agree(const ole_ranks_loss *loss, const ole_error *here, ole_error *error) {
    ole_error all = *here;
    ole_status status = ole_ranks_agree(loss->ranks, here->status, &all);
    if (status != OLE_OK && error) *error = all;
    return status;
}

/* What a rank's plan is like, for the others. */
typedef struct plan_said {
    int64_t max_rows, dim, route, threads;
    char kernels[16];
} plan_said;

/* ---- planning ----------------------------------------------------------------------------- */

static ole_status check_plan(int64_t max_rows, int64_t dim, const ole_loss_options *options,
                             ole_ranks_loss_route route, ole_error *error) {
    ole_status status = ole_loss_check_options(options, error);
    if (status == OLE_OK) status = ole_loss_check_dim(dim, error);
    if (status != OLE_OK) return status;
    if (max_rows < 0 || max_rows > OLE_MAX_SIDE)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "max_rows is %" PRId64 "; must be 0 to %d",
                        max_rows, OLE_MAX_SIDE);
    if (options->device != OLE_DEVICE_CPU)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.device: the loss over ranks takes features in host memory; use "
                        "OLE_DEVICE_CPU");
    if (route < OLE_RANKS_LOSS_AUTO || route > OLE_RANKS_LOSS_GRAM)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "route is %d; must be one of ole_ranks_loss_route", (int)route);
    return OLE_OK;
}

/* Takes in what the others say of their plans. */
static ole_status meet(ole_ranks_loss *loss, ole_error *error) {
    int size = ole_ranks_size(loss->ranks);
    plan_said mine = {loss->max_rows, loss->dim, loss->forced, loss->options.threads, ""};
    strncpy(mine.kernels, ole_kernels_name(), sizeof mine.kernels - 1);
    plan_said *all = calloc((size_t)size, sizeof *all);
    ole_error here = {OLE_OK, ""};
    if (!all) ole_fail(&here, OLE_ERROR_MEMORY, "out of memory");
    ole_status status = agree(loss, &here, error);
    if (status != OLE_OK || !all) {
        free(all);
        return status;
    }
    for (int r = 0; r < size; r++)
        loss->message[r] = sizeof mine;
    ole_ranks_gather(loss->ranks, &mine, loss->message, all);
    loss->threads = (int)all[0].threads;
    for (int r = 0; r < size; r++) {
        loss->most[r] = all[r].max_rows;
        loss->max_total += all[r].max_rows;
        loss->threads = (int)ole_min(loss->threads, all[r].threads);
        loss->mixed |= strcmp(all[r].kernels, all[0].kernels) != 0;
        if (status == OLE_OK && (all[r].dim != all[0].dim || all[r].route != all[0].route))
            status = ole_fail(error, OLE_ERROR_ARGUMENT,
                              "rank %d plans OLE for %" PRId64 " features by route %" PRId64
                              ", rank 0 for %" PRId64 " by %" PRId64 "; plan the same on all ranks",
                              r, all[r].dim, all[r].route, all[0].dim, all[0].route);
    }
    free(all);
    if (status == OLE_OK && (loss->max_total < 1 || loss->max_total > OLE_MAX_SIDE))
        status = ole_fail(error, OLE_ERROR_ARGUMENT,
                          "max_rows of all ranks together is %" PRId64 "; must be 1 to %d",
                          loss->max_total, OLE_MAX_SIDE);
    return status;
}

/* How many rows each route is planned for: ranks_cost.c chooses among those that have enough.
 */
static void set_limits(ole_ranks_loss *loss) {
    int64_t total = loss->max_total, dim = loss->dim;
    bool alone = ole_ranks_size(loss->ranks) == 1;
    switch (loss->forced) {
    case OLE_RANKS_LOSS_AUTO:
        loss->max_everywhere = alone ? total : ole_min(total, GATHERED / dim);
        if (loss->mixed) loss->max_everywhere = 0; /* each rank would get its own bits */
        loss->max_split = alone ? 0 : ole_min(total, ole_max(2 * dim, GATHERED / dim));
        loss->max_gram = alone ? 0 : total;
        break;
    case OLE_RANKS_LOSS_EVERYWHERE:
        loss->max_everywhere = total;
        break;
    case OLE_RANKS_LOSS_SPLIT:
        loss->max_split = total;
        break;
    case OLE_RANKS_LOSS_GRAM:
        loss->max_split = ole_min(total, dim);
        loss->max_gram = total;
        break;
    }
    if (loss->max_gram <= dim) loss->max_gram = 0;
}

static void place(ole_ranks_loss *loss, ole_arena *arena) {
    int64_t size = ole_ranks_size(loss->ranks), here = loss->max_rows, dim = loss->dim;
    int64_t total = loss->max_total;
    loss->said = ole_arena_take(arena, SAID_FIELDS + here, sizeof(int64_t));
    loss->heard = ole_arena_take(arena, size * SAID_FIELDS + total, sizeof(int64_t));
    loss->labels = ole_arena_take(arena, total, sizeof(int64_t));
    loss->sent = ole_arena_take(arena, size + 1, sizeof(int64_t));
    loss->next = ole_arena_take(arena, size, sizeof(int64_t));
    ole_groups_lay_out(&loss->mine, arena, here);
    loss->rows = ole_arena_take(arena, here * dim, sizeof(float));
    loss->direction = ole_arena_take(arena, here * dim, sizeof(double));
    ole_groups_lay_out(&loss->groups, arena, total);
    loss->classes = ole_arena_take(arena, total, sizeof *loss->classes);
    loss->own = ole_arena_take(arena, total, sizeof *loss->own);
    loss->place = ole_arena_take(arena, total, sizeof(int64_t));
    loss->received = ole_arena_take(arena, total * dim, sizeof(float));
    if (loss->max_everywhere > 0)
        ole_route_gram_lay_out(&loss->everywhere, arena, loss->max_everywhere, dim,
                               loss->options.threads);
    if (loss->max_split > 0) ole_ranks_loss_split_lay_out(loss, arena);
    if (loss->max_gram > 0) ole_ranks_loss_gram_lay_out(loss, arena);
}

static ole_status allocate(ole_ranks_loss *loss, ole_error *error) {
    ole_arena arena = {0};
    place(loss, &arena);
    loss->bytes = arena.used;
    loss->memory = ole_arena_reserve(&arena);
    if (!loss->memory)
        return ole_fail(error, OLE_ERROR_MEMORY,
                        "out of memory: OLE over ranks for %" PRId64 " x %" PRId64
                        " features, %" PRId64 " of them here, needs %.3g GiB",
                        loss->max_total, loss->dim, loss->max_rows,
                        (double)loss->bytes / 1073741824.0);
    place(loss, &arena);
    return ole_pool_create(&loss->pool, loss->options.threads, error);
}

/* The steps of planning that can fail here or elsewhere: all ranks take each of them. */
static ole_status plan(ole_ranks_loss *loss, ole_error *error) {
    ole_error here = {OLE_OK, ""};
    check_plan(loss->max_rows, loss->dim, &loss->options, loss->forced, &here);
    ole_status status = agree(loss, &here, error);
    if (status == OLE_OK) status = meet(loss, error);
    if (status != OLE_OK) return status;
    loss->cut = ole_loss_cut(&loss->options, OLE_F32);
    set_limits(loss);
    here = (ole_error){OLE_OK, ""};
    allocate(loss, &here);
    return agree(loss, &here, error);
}

ole_status ole_ranks_loss_create(ole_ranks_loss **result, ole_ranks *ranks, int64_t max_rows,
                                 int64_t dim, const ole_loss_options *options,
                                 ole_ranks_loss_route route, ole_error *error) {
    *result = NULL;
    size_t size = (size_t)ole_ranks_size(ranks);
    ole_ranks_loss *loss = calloc(1, sizeof *loss);
    int64_t *of_ranks = calloc(3 * size + 1, sizeof *of_ranks);
    ole_status status =
        loss && of_ranks ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    status = ole_ranks_agree(ranks, status, error); /* nobody waits for one that is not there */
    if (status != OLE_OK) {
        free(loss);
        free(of_ranks);
        return status;
    }
    *loss = (ole_ranks_loss){
        .ranks = ranks, .dim = dim, .forced = route, .max_rows = max_rows, .most = of_ranks};
    loss->message = of_ranks + size;
    loss->begin = of_ranks + 2 * size;
    ole_loss_options_init(&loss->options);
    if (options) loss->options = *options;
    status = plan(loss, error);
    if (status == OLE_OK)
        *result = loss;
    else
        ole_ranks_loss_destroy(loss);
    return status;
}

void ole_ranks_loss_destroy(ole_ranks_loss *loss) {
    if (!loss) return;
    ole_pool_destroy(loss->pool);
    free(loss->memory);
    free(loss->most);
    free(loss);
}

size_t ole_ranks_loss_bytes(const ole_ranks_loss *loss) {
    return sizeof *loss + loss->bytes;
}

ole_ranks_loss_route ole_ranks_loss_taken(const ole_ranks_loss *loss) {
    return loss->taken;
}

/* ---- what the ranks tell each other ------------------------------------------------------- */

static ole_status check_mine(const ole_ranks_loss *loss, const ole_loss_batch *mine,
                             const ole_loss_gradient *gradient, const ole_loss_result *result,
                             ole_error *error) {
    if (!mine || !result)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s is NULL", !mine ? "batch" : "result");
    if (mine->rows < 0 || mine->rows > loss->max_rows)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "batch.rows is %" PRId64 ": the plan takes 0 to %" PRId64, mine->rows,
                        loss->max_rows);
    return ole_loss_check_call(loss->dim, mine, gradient, error);
}

/* Sorts this rank's rows by class; returns the first that holds NaN or Inf, or -1. */
static int64_t take_rows(ole_ranks_loss *loss, const ole_loss_batch *mine) {
    int64_t dim = loss->dim, stride = mine->stride ? mine->stride : dim, bad = -1;
    ole_groups_fill(&loss->mine, mine->labels, mine->label_type, mine->rows);
    for (int64_t i = 0; i < loss->mine.rows; i++) {
        int64_t row = loss->mine.order[i];
        const float *from = (const float *)mine->features + row * stride;
        memcpy(loss->rows + i * dim, from, (size_t)dim * sizeof *from);
        /* The copy as doubles is scratch: what counts is whether it is finite. */
        bool finite = ole_kernels_get()->copy_finite_f32(loss->direction, from, dim);
        if (!finite && (bad < 0 || row < bad)) bad = row;
    }
    return bad;
}

static void say(ole_ranks_loss *loss, const ole_loss_batch *mine, const ole_loss_gradient *gradient,
                const ole_loss_result *result, const ole_error *here) {
    int64_t *said = loss->said;
    memset(said, 0, (size_t)(SAID_FIELDS + loss->max_rows) * sizeof *said);
    said[SAID_STATUS] = here->status;
    if (here->status != OLE_OK) return;
    said[SAID_ROWS] = mine->rows;
    said[SAID_BAD] = take_rows(loss, mine);
    said[SAID_CAPACITY] = ole_loss_capacity(result);
    said[SAID_WANT] = gradient != NULL;
    if (gradient) memcpy(&said[SAID_UPSTREAM], &gradient->upstream, sizeof(double));
    for (int64_t i = 0; i < mine->rows; i++)
        said[SAID_FIELDS + i] = ole_label_at(mine->labels, mine->label_type, i);
}

/* What all ranks say together. */
typedef struct talk {
    int64_t bad; /* the first row with NaN or Inf, or -1 */
    int64_t capacity;
    double upstream; /* the largest */
} talk;

/* Exchanges what the ranks report and combines it; false if a rank's arguments are wrong. */
static bool listen(ole_ranks_loss *loss, talk *all) {
    int size = ole_ranks_size(loss->ranks);
    for (int r = 0; r < size; r++)
        loss->message[r] = (SAID_FIELDS + loss->most[r]) * (int64_t)sizeof(int64_t);
    ole_ranks_gather(loss->ranks, loss->said, loss->message, loss->heard);
    *all = (talk){.bad = -1, .capacity = INT64_MAX};
    loss->want = false;
    loss->begin[0] = 0;
    bool fine = true;
    const int64_t *said = loss->heard;
    for (int r = 0; r < size; said += SAID_FIELDS + loss->most[r++]) {
        int64_t first = loss->begin[r], rows = said[SAID_ROWS];
        fine &= said[SAID_STATUS] == OLE_OK;
        loss->begin[r + 1] = first + rows;
        memcpy(loss->labels + first, said + SAID_FIELDS, (size_t)rows * sizeof *said);
        double upstream;
        memcpy(&upstream, &said[SAID_UPSTREAM], sizeof upstream);
        if (all->bad < 0 && said[SAID_BAD] >= 0) all->bad = first + said[SAID_BAD];
        if (fabs(upstream) > fabs(all->upstream)) all->upstream = upstream;
        all->capacity = ole_min(all->capacity, said[SAID_CAPACITY]);
        loss->want |= said[SAID_WANT] != 0;
    }
    return fine;
}

/* The rows of the whole batch by class, and where this rank's are among them. */
static ole_status group(ole_ranks_loss *loss, const talk *all, ole_error *error) {
    ole_groups *groups = &loss->groups;
    int rank = ole_ranks_rank(loss->ranks);
    int64_t low = loss->begin[rank], high = loss->begin[rank + 1], local = 0;
    int64_t rows = loss->begin[ole_ranks_size(loss->ranks)];
    ole_groups_fill(groups, loss->labels, OLE_I64, rows);
    ole_status status = ole_loss_list_classes(groups, rows, all->capacity, loss->classes, error);
    if (status != OLE_OK) return status;
    for (int64_t c = 0; c < groups->classes; c++) {
        ole_ranks_loss_class *own = &loss->own[c];
        *own = (ole_ranks_loss_class){.local = local};
        for (int64_t i = groups->start[c]; i < groups->start[c + 1]; i++) {
            own->first += groups->order[i] < low;
            own->count += groups->order[i] >= low && groups->order[i] < high;
        }
        local += own->count;
    }
    if (all->bad < 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_DATA,
                    "features: row %" PRId64 " holds NaN or Inf; check what produced it", all->bad);
}

/* ---- routes ------------------------------------------------------------------------------- */

/* Counts the rows that each rank sends, and where each row of the groups will be received. */
static void plan_gather(ole_ranks_loss *loss, int64_t limit) {
    const ole_groups *groups = &loss->groups;
    int size = ole_ranks_size(loss->ranks);
    memset(loss->next, 0, (size_t)size * sizeof *loss->next);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t c = 0; c < groups->classes; c++) {
            if (loss->classes[c].count > limit) continue;
            int r = 0;
            for (int64_t i = groups->start[c]; i < groups->start[c + 1]; i++) {
                while (groups->order[i] >= loss->begin[r + 1])
                    r++;
                loss->place[i] = loss->next[r]++;
            }
        }
        if (pass > 0) break;
        loss->sent[0] = 0;
        for (int r = 0; r < size; r++) {
            loss->sent[r + 1] = loss->sent[r] + loss->next[r];
            loss->next[r] = loss->sent[r];
        }
    }
}

/* Sends the rows of the classes of up to `limit` rows to every rank. */
static void gather_rows(ole_ranks_loss *loss, int64_t limit) {
    int64_t dim = loss->dim, row = dim * (int64_t)sizeof(float), count = 0;
    const float *out = loss->rows;
    int rank = ole_ranks_rank(loss->ranks), size = ole_ranks_size(loss->ranks);
    plan_gather(loss, limit);
    if (loss->sent[size] == 0) return;
    if (loss->sent[rank + 1] - loss->sent[rank] < loss->mine.rows) {
        float *packed = (float *)loss->direction; /* not in use yet */
        for (int64_t c = 0; c < loss->groups.classes; c++) {
            const ole_ranks_loss_class *own = &loss->own[c];
            if (loss->classes[c].count > limit) continue;
            memcpy(packed + count * dim, loss->rows + own->local * dim, (size_t)(own->count * row));
            count += own->count;
        }
        out = packed;
    }
    for (int r = 0; r < size; r++)
        loss->message[r] = (loss->sent[r + 1] - loss->sent[r]) * row;
    ole_ranks_gather(loss->ranks, out, loss->message, loss->received);
}

bool ole_ranks_loss_counts(const ole_ranks_loss *loss, int64_t class, double norm) {
    bool over = norm > loss->options.delta_floor;
    return class < 0 ? loss->groups.classes > 1 || !over : over;
}

/* All of it here, as ole_loss_eval() does: the same rows in the same order give the same bits. */
static bool solve_everywhere(ole_ranks_loss *loss) {
    const ole_groups *groups = &loss->groups;
    int64_t dim = loss->dim;
    for (int64_t i = 0; i < groups->rows; i++)
        ole_kernels_get()->copy_finite_f32(loss->everywhere.rows + i * dim,
                                           loss->received + loss->place[i] * dim, dim);
    ole_route_job job = {
        .pool = loss->pool,
        .groups = groups,
        .dim = dim,
        .floor = loss->options.delta_floor,
        .cut = loss->cut,
        .want_direction = loss->want,
        .classes = loss->classes,
    };
    if (!ole_route_gram_run(&loss->everywhere, &job)) return false;
    loss->norm = job.norm;
    loss->rank = job.rank;
    for (int64_t c = 0; c < groups->classes && loss->want; c++) {
        const ole_ranks_loss_class *own = &loss->own[c];
        memcpy(loss->direction + own->local * dim,
               job.direction + (groups->start[c] + own->first) * dim,
               (size_t)(own->count * dim) * sizeof(double));
    }
    return true;
}

static bool solve(ole_ranks_loss *loss) {
    loss->taken = ole_ranks_loss_choose(loss);
    bool gram = loss->taken == OLE_RANKS_LOSS_GRAM;
    int64_t limit = gram ? loss->dim : INT64_MAX;
    gather_rows(loss, limit);
    if (loss->taken == OLE_RANKS_LOSS_EVERYWHERE) return solve_everywhere(loss);
    memset(loss->direction, 0, (size_t)(loss->mine.rows * loss->dim) * sizeof *loss->direction);
    bool solved = ole_ranks_loss_split_solve(loss, limit, !gram);
    if (solved && gram) solved = ole_ranks_loss_gram_solve(loss, limit);
    if (loss->groups.classes == 1) {
        loss->classes[0].norm = loss->norm;
        loss->classes[0].rank = loss->rank;
    }
    return solved;
}

ole_status ole_ranks_loss_eval(ole_ranks_loss *loss, const ole_loss_batch *mine,
                               const ole_loss_gradient *gradient, ole_loss_result *result,
                               ole_error *error) {
    ole_error here = {OLE_OK, ""};
    talk all;
    check_mine(loss, mine, gradient, result, &here);
    say(loss, mine, gradient, result, &here);
    if (!listen(loss, &all)) return agree(loss, &here, error);
    ole_status status = group(loss, &all, error);
    if (status != OLE_OK) return status;
    if (!solve(loss)) return ole_loss_not_solved(loss->groups.rows, loss->dim, error);
    ole_loss_found found = {&loss->groups, loss->classes, loss->norm, loss->rank};
    double factor;
    status = ole_loss_finish(&loss->options, OLE_F32, &found, all.upstream, result, &factor, error);
    if (status == OLE_OK && gradient)
        ole_loss_write_gradient(&loss->mine, loss->dim, OLE_F32, mine, gradient, loss->direction,
                                factor * gradient->upstream);
    return status;
}
