/*
 * src/loss/across.c - the loss of a batch on several ranks: memory, what the ranks tell each other
 * of their rows, and the way of a batch through the route that across_cost.c chooses.
 */
#include "loss/across.h"

#include "base/error.h"
#include "linalg/kernels.h"
#include "loss/across_parts.h"
#include "loss/frame.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Elements of a batch up to which memory for gathered rows is planned: 32 bytes each, or more. */
static const int64_t GATHERED = 1 << 23;

/* What a rank says of its batch, before its labels. */
enum { SAID_STATUS, SAID_ROWS, SAID_BAD, SAID_CAPACITY, SAID_WANT, SAID_UPSTREAM, SAID_FIELDS };

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- agreeing ------------------------------------------------------------------------------- */

/* The error of the first rank that has one, on every rank; `here` is this rank's. */
static ole_status agree(const ole_across *across, const ole_error *here, ole_error *error) {
    ole_error all = *here;
    ole_status status = ole_ranks_agree(across->ranks, here->status, &all);
    if (status != OLE_OK && error) *error = all;
    return status;
}

/* What a rank's plan is like, for the others. */
typedef struct plan_said {
    int64_t max_rows, dim, route, threads;
    char kernels[16];
} plan_said;

/* ---- planning ------------------------------------------------------------------------------- */

static ole_status check_plan(int64_t max_rows, int64_t dim, const ole_loss_options *options,
                             ole_across_route route, ole_error *error) {
    ole_status status = ole_loss_check_options(options, error);
    if (status == OLE_OK) status = ole_loss_check_dim(dim, error);
    if (status != OLE_OK) return status;
    if (max_rows < 0 || max_rows > OLE_MAX_SIDE)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "max_rows is %" PRId64 ": give 0 to %d",
                        max_rows, OLE_MAX_SIDE);
    if (options->device != OLE_DEVICE_CPU)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.device: the loss over ranks takes features in host memory: give "
                        "OLE_DEVICE_CPU");
    if (route < OLE_ACROSS_AUTO || route > OLE_ACROSS_GRAM)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "route is %d: give one of ole_across_route",
                        (int)route);
    return OLE_OK;
}

/* Takes in what the others say of their plans. */
static ole_status meet(ole_across *across, ole_error *error) {
    int size = ole_ranks_size(across->ranks);
    plan_said mine = {across->max_rows, across->dim, across->forced, across->options.threads, ""};
    strncpy(mine.kernels, ole_kernels_name(), sizeof mine.kernels - 1);
    plan_said *all = calloc((size_t)size, sizeof *all);
    ole_error here = {OLE_OK, ""};
    if (!all) ole_fail(&here, OLE_ERROR_MEMORY, "out of memory");
    ole_status status = agree(across, &here, error);
    if (status != OLE_OK) {
        free(all);
        return status;
    }
    for (int r = 0; r < size; r++)
        across->message[r] = sizeof mine;
    ole_ranks_gather(across->ranks, &mine, across->message, all);
    across->threads = (int)all[0].threads;
    for (int r = 0; r < size; r++) {
        across->most[r] = all[r].max_rows;
        across->max_total += all[r].max_rows;
        across->threads = (int)smaller(across->threads, all[r].threads);
        across->mixed |= strcmp(all[r].kernels, all[0].kernels) != 0;
        if (status == OLE_OK && (all[r].dim != all[0].dim || all[r].route != all[0].route))
            status = ole_fail(error, OLE_ERROR_ARGUMENT,
                              "rank %d plans OLE for %" PRId64 " features by route %" PRId64
                              ", rank 0 for %" PRId64 " by %" PRId64 ": give all ranks the same",
                              r, all[r].dim, all[r].route, all[0].dim, all[0].route);
    }
    free(all);
    if (status == OLE_OK && (across->max_total < 1 || across->max_total > OLE_MAX_SIDE))
        status = ole_fail(error, OLE_ERROR_ARGUMENT,
                          "max_rows of all ranks together is %" PRId64 ": give 1 to %d",
                          across->max_total, OLE_MAX_SIDE);
    return status;
}

/* How many rows each route is planned for: across_cost.c chooses among those that have enough. */
static void set_limits(ole_across *across) {
    int64_t total = across->max_total, dim = across->dim;
    bool alone = ole_ranks_size(across->ranks) == 1;
    switch (across->forced) {
    case OLE_ACROSS_AUTO:
        across->max_everywhere = alone ? total : smaller(total, GATHERED / dim);
        if (across->mixed) across->max_everywhere = 0; /* each rank would get its own bits */
        across->max_split = alone ? 0 : smaller(total, larger(2 * dim, GATHERED / dim));
        across->max_gram = alone ? 0 : total;
        break;
    case OLE_ACROSS_EVERYWHERE:
        across->max_everywhere = total;
        break;
    case OLE_ACROSS_SPLIT:
        across->max_split = total;
        break;
    case OLE_ACROSS_GRAM:
        across->max_split = smaller(total, dim);
        across->max_gram = total;
        break;
    }
    if (across->max_gram <= dim) across->max_gram = 0;
}

static void place(ole_across *across, ole_arena *arena) {
    int64_t size = ole_ranks_size(across->ranks), here = across->max_rows, dim = across->dim;
    int64_t total = across->max_total;
    across->said = ole_arena_take(arena, SAID_FIELDS + here, sizeof(int64_t));
    across->heard = ole_arena_take(arena, size * SAID_FIELDS + total, sizeof(int64_t));
    across->labels = ole_arena_take(arena, total, sizeof(int64_t));
    across->sent = ole_arena_take(arena, size + 1, sizeof(int64_t));
    across->next = ole_arena_take(arena, size, sizeof(int64_t));
    ole_groups_place(&across->mine, arena, here);
    across->rows = ole_arena_take(arena, here * dim, sizeof(float));
    across->direction = ole_arena_take(arena, here * dim, sizeof(double));
    ole_groups_place(&across->groups, arena, total);
    across->classes = ole_arena_take(arena, total, sizeof *across->classes);
    across->own = ole_arena_take(arena, total, sizeof *across->own);
    across->place = ole_arena_take(arena, total, sizeof(int64_t));
    across->received = ole_arena_take(arena, total * dim, sizeof(float));
    if (across->max_everywhere > 0)
        ole_route_gram_place(&across->everywhere, arena, across->max_everywhere, dim,
                             across->options.threads);
    if (across->max_split > 0) ole_across_split_place(across, arena);
    if (across->max_gram > 0) ole_across_gram_place(across, arena);
}

static ole_status allocate(ole_across *across, ole_error *error) {
    ole_arena arena = {0};
    place(across, &arena);
    across->bytes = arena.used;
    across->memory = ole_arena_allocate(arena.used);
    if (!across->memory)
        return ole_fail(error, OLE_ERROR_MEMORY,
                        "out of memory: OLE over ranks for %" PRId64 " x %" PRId64
                        " features, %" PRId64 " of them here, needs %.3g GiB",
                        across->max_total, across->dim, across->max_rows,
                        (double)across->bytes / 1073741824.0);
    arena = (ole_arena){.base = across->memory};
    place(across, &arena);
    return ole_pool_create(&across->pool, across->options.threads, error);
}

/* The steps of planning that can fail here or elsewhere: all ranks take each of them. */
static ole_status plan(ole_across *across, ole_error *error) {
    ole_error here = {OLE_OK, ""};
    check_plan(across->max_rows, across->dim, &across->options, across->forced, &here);
    ole_status status = agree(across, &here, error);
    if (status == OLE_OK) status = meet(across, error);
    if (status != OLE_OK) return status;
    across->cut = ole_loss_cut(&across->options, OLE_F32);
    set_limits(across);
    here = (ole_error){OLE_OK, ""};
    allocate(across, &here);
    return agree(across, &here, error);
}

ole_status ole_across_create(ole_across **result, ole_ranks *ranks, int64_t max_rows, int64_t dim,
                             const ole_loss_options *options, ole_across_route route,
                             ole_error *error) {
    *result = NULL;
    size_t size = (size_t)ole_ranks_size(ranks);
    ole_across *across = calloc(1, sizeof *across);
    int64_t *of_ranks = calloc(3 * size + 1, sizeof *of_ranks);
    ole_status status =
        across && of_ranks ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    status = ole_ranks_agree(ranks, status, error); /* nobody waits for one that is not there */
    if (status != OLE_OK) {
        free(across);
        free(of_ranks);
        return status;
    }
    *across = (ole_across){
        .ranks = ranks, .dim = dim, .forced = route, .max_rows = max_rows, .most = of_ranks};
    across->message = of_ranks + size;
    across->begin = of_ranks + 2 * size;
    ole_loss_options_init(&across->options);
    if (options) across->options = *options;
    status = plan(across, error);
    if (status == OLE_OK)
        *result = across;
    else
        ole_across_destroy(across);
    return status;
}

void ole_across_destroy(ole_across *across) {
    if (!across) return;
    ole_pool_destroy(across->pool);
    free(across->memory);
    free(across->most);
    free(across);
}

size_t ole_across_bytes(const ole_across *across) {
    return sizeof *across + across->bytes;
}

ole_across_route ole_across_taken(const ole_across *across) {
    return across->taken;
}

/* ---- what the ranks tell each other --------------------------------------------------------- */

static ole_status check_mine(const ole_across *across, const ole_loss_batch *mine,
                             const ole_loss_gradient *gradient, const ole_loss_result *result,
                             ole_error *error) {
    if (!mine || !result)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s is NULL", !mine ? "batch" : "result");
    if (mine->rows < 0 || mine->rows > across->max_rows)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "batch.rows is %" PRId64 ": planned were 0 to %" PRId64, mine->rows,
                        across->max_rows);
    return ole_loss_check_call(across->dim, mine, gradient, error);
}

/* Sorts this rank's rows by class; returns the first that holds NaN or Inf, or -1. */
static int64_t take_rows(ole_across *across, const ole_loss_batch *mine) {
    int64_t dim = across->dim, stride = mine->stride ? mine->stride : dim, bad = -1;
    ole_groups_fill(&across->mine, mine->labels, mine->label_type, mine->rows);
    for (int64_t i = 0; i < across->mine.rows; i++) {
        int64_t row = across->mine.order[i];
        const float *from = (const float *)mine->features + row * stride;
        memcpy(across->rows + i * dim, from, (size_t)dim * sizeof *from);
        /* The copy as doubles is scratch: what counts is whether it is finite. */
        bool finite = ole_kernels_get()->copy_finite_f32(across->direction, from, dim);
        if (!finite && (bad < 0 || row < bad)) bad = row;
    }
    return bad;
}

static void say(ole_across *across, const ole_loss_batch *mine, const ole_loss_gradient *gradient,
                const ole_loss_result *result, const ole_error *here) {
    int64_t *said = across->said;
    memset(said, 0, (size_t)(SAID_FIELDS + across->max_rows) * sizeof *said);
    said[SAID_STATUS] = here->status;
    if (here->status != OLE_OK) return;
    said[SAID_ROWS] = mine->rows;
    said[SAID_BAD] = take_rows(across, mine);
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

/* Exchanges what is said and puts it together; false if a rank's arguments are wrong. */
static bool listen(ole_across *across, talk *all) {
    int size = ole_ranks_size(across->ranks);
    for (int r = 0; r < size; r++)
        across->message[r] = (SAID_FIELDS + across->most[r]) * (int64_t)sizeof(int64_t);
    ole_ranks_gather(across->ranks, across->said, across->message, across->heard);
    *all = (talk){.bad = -1, .capacity = INT64_MAX};
    across->want = false;
    across->begin[0] = 0;
    bool fine = true;
    const int64_t *said = across->heard;
    for (int r = 0; r < size; said += SAID_FIELDS + across->most[r++]) {
        int64_t first = across->begin[r], rows = said[SAID_ROWS];
        fine &= said[SAID_STATUS] == OLE_OK;
        across->begin[r + 1] = first + rows;
        memcpy(across->labels + first, said + SAID_FIELDS, (size_t)rows * sizeof *said);
        double upstream;
        memcpy(&upstream, &said[SAID_UPSTREAM], sizeof upstream);
        if (all->bad < 0 && said[SAID_BAD] >= 0) all->bad = first + said[SAID_BAD];
        if (fabs(upstream) > fabs(all->upstream)) all->upstream = upstream;
        all->capacity = smaller(all->capacity, said[SAID_CAPACITY]);
        across->want |= said[SAID_WANT] != 0;
    }
    return fine;
}

/* The rows of the whole batch by class, and where this rank's are among them. */
static ole_status group(ole_across *across, const talk *all, ole_error *error) {
    ole_groups *groups = &across->groups;
    int rank = ole_ranks_rank(across->ranks);
    int64_t low = across->begin[rank], high = across->begin[rank + 1], local = 0;
    int64_t rows = across->begin[ole_ranks_size(across->ranks)];
    ole_groups_fill(groups, across->labels, OLE_I64, rows);
    ole_status status = ole_loss_list_classes(groups, rows, all->capacity, across->classes, error);
    if (status != OLE_OK) return status;
    for (int64_t c = 0; c < groups->classes; c++) {
        ole_across_class *own = &across->own[c];
        *own = (ole_across_class){.local = local};
        for (int64_t i = groups->start[c]; i < groups->start[c + 1]; i++) {
            own->first += groups->order[i] < low;
            own->count += groups->order[i] >= low && groups->order[i] < high;
        }
        local += own->count;
    }
    if (all->bad < 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_DATA,
                    "features: row %" PRId64 " holds NaN or Inf: look at what produced it",
                    all->bad);
}

/* ---- routes --------------------------------------------------------------------------------- */

/* Counts the rows that each rank sends, and where each row of the groups will be received. */
static void plan_gather(ole_across *across, int64_t limit) {
    const ole_groups *groups = &across->groups;
    int size = ole_ranks_size(across->ranks);
    memset(across->next, 0, (size_t)size * sizeof *across->next);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t c = 0; c < groups->classes; c++) {
            if (across->classes[c].count > limit) continue;
            int r = 0;
            for (int64_t i = groups->start[c]; i < groups->start[c + 1]; i++) {
                while (groups->order[i] >= across->begin[r + 1])
                    r++;
                across->place[i] = across->next[r]++;
            }
        }
        if (pass > 0) break;
        across->sent[0] = 0;
        for (int r = 0; r < size; r++) {
            across->sent[r + 1] = across->sent[r] + across->next[r];
            across->next[r] = across->sent[r];
        }
    }
}

/* Sends the rows of the classes of up to `limit` rows to every rank. */
static void gather_rows(ole_across *across, int64_t limit) {
    int64_t dim = across->dim, row = dim * (int64_t)sizeof(float), count = 0;
    const float *out = across->rows;
    int rank = ole_ranks_rank(across->ranks), size = ole_ranks_size(across->ranks);
    plan_gather(across, limit);
    if (across->sent[size] == 0) return;
    if (across->sent[rank + 1] - across->sent[rank] < across->mine.rows) {
        float *packed = (float *)across->direction; /* not in use yet */
        for (int64_t c = 0; c < across->groups.classes; c++) {
            const ole_across_class *own = &across->own[c];
            if (across->classes[c].count > limit) continue;
            memcpy(packed + count * dim, across->rows + own->local * dim,
                   (size_t)(own->count * row));
            count += own->count;
        }
        out = packed;
    }
    for (int r = 0; r < size; r++)
        across->message[r] = (across->sent[r + 1] - across->sent[r]) * row;
    ole_ranks_gather(across->ranks, out, across->message, across->received);
}

bool ole_across_counts(const ole_across *across, int64_t class, double norm) {
    bool over = norm > across->options.delta_floor;
    return class < 0 ? across->groups.classes > 1 || !over : over;
}

/* All of it here, as ole_loss_eval() does: the same rows in the same order give the same bits. */
static bool solve_everywhere(ole_across *across) {
    const ole_groups *groups = &across->groups;
    int64_t dim = across->dim;
    for (int64_t i = 0; i < groups->rows; i++)
        ole_kernels_get()->copy_finite_f32(across->everywhere.rows + i * dim,
                                           across->received + across->place[i] * dim, dim);
    ole_route_job job = {
        .pool = across->pool,
        .groups = groups,
        .dim = dim,
        .floor = across->options.delta_floor,
        .cut = across->cut,
        .want_direction = across->want,
        .classes = across->classes,
    };
    if (!ole_route_gram_run(&across->everywhere, &job)) return false;
    across->norm = job.norm;
    across->rank = job.rank;
    for (int64_t c = 0; c < groups->classes && across->want; c++) {
        const ole_across_class *own = &across->own[c];
        memcpy(across->direction + own->local * dim,
               job.direction + (groups->start[c] + own->first) * dim,
               (size_t)(own->count * dim) * sizeof(double));
    }
    return true;
}

static bool solve(ole_across *across) {
    across->taken = ole_across_choose(across);
    bool gram = across->taken == OLE_ACROSS_GRAM;
    int64_t limit = gram ? across->dim : INT64_MAX;
    gather_rows(across, limit);
    if (across->taken == OLE_ACROSS_EVERYWHERE) return solve_everywhere(across);
    memset(across->direction, 0,
           (size_t)(across->mine.rows * across->dim) * sizeof *across->direction);
    bool solved = ole_across_split_solve(across, limit, !gram);
    if (solved && gram) solved = ole_across_gram_solve(across, limit);
    if (across->groups.classes == 1) {
        across->classes[0].norm = across->norm;
        across->classes[0].rank = across->rank;
    }
    return solved;
}

ole_status ole_across_eval(ole_across *across, const ole_loss_batch *mine,
                           const ole_loss_gradient *gradient, ole_loss_result *result,
                           ole_error *error) {
    ole_error here = {OLE_OK, ""};
    talk all;
    check_mine(across, mine, gradient, result, &here);
    say(across, mine, gradient, result, &here);
    if (!listen(across, &all)) return agree(across, &here, error);
    ole_status status = group(across, &all, error);
    if (status != OLE_OK) return status;
    if (!solve(across)) return ole_loss_not_solved(across->groups.rows, across->dim, error);
    ole_loss_found found = {&across->groups, across->classes, across->norm, across->rank};
    double factor;
    status =
        ole_loss_finish(&across->options, OLE_F32, &found, all.upstream, result, &factor, error);
    if (status == OLE_OK && gradient)
        ole_loss_write_gradient(&across->mine, across->dim, OLE_F32, mine, gradient,
                                across->direction, factor * gradient->upstream);
    return status;
}
