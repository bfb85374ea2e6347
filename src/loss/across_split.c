/*
 * src/loss/across_split.c - matrices whose rows all ranks have: each is solved by one of them.
 *
 * The owner of a matrix A, [n, D], hands out ‖A‖_*, its rank and the inverse root K of the smaller
 * side.  Each rank then computes its own rows of polar(A): rows of K times A for n <= D, its rows
 * of A times K otherwise.  So what is sent back is n x n, not n x D.
 */
#include "loss/across_parts.h"

#include "linalg/eigen.h"

#include <math.h>
#include <string.h>

enum { HEAD = 2 }; /* doubles of an answer before the root: norm and rank */

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- memory --------------------------------------------------------------------------------- */

static void place_space(ole_across_space *space, ole_arena *arena, int64_t rows, int64_t m,
                        int64_t k, int64_t dim) {
    space->rows = ole_arena_take(arena, rows * dim, sizeof(float));
    ole_spectrum_place(&space->spectrum, arena, m, k);
}

void ole_across_split_place(ole_across *across, ole_arena *arena) {
    int64_t dim = across->dim, total = across->max_total;
    int64_t rows = larger(smaller(total, dim), across->max_split); /* of the largest matrix */
    int64_t m = smaller(rows, dim), k = larger(rows, dim);
    int64_t length = HEAD * (total + 1) + (total + m) * (m + 1) / 2;
    across->tasks = ole_arena_take(arena, total + 1, sizeof *across->tasks);
    across->answers = ole_arena_take(arena, length, sizeof(double));
    across->answered = ole_arena_take(arena, length, sizeof(double));
    place_space(&across->large, arena, rows, m, k, dim);
    int threads = across->options.threads;
    across->small = ole_arena_take(arena, threads, sizeof *across->small);
    for (int t = 0; t < threads; t++) {
        ole_across_space counted;
        place_space(arena->base ? &across->small[t] : &counted, arena,
                    dim > OLE_SMALL_CLASS ? smaller(rows, OLE_SMALL_CLASS) : rows,
                    smaller(m, OLE_SMALL_CLASS), k, dim);
    }
}

/* ---- tasks ---------------------------------------------------------------------------------- */

/* Doubles of the root of a task: a lower triangle of the smaller side. */
static int64_t root_size(const ole_across *across, const ole_across_task *task) {
    int64_t m = smaller(task->rows, across->dim);
    return across->want ? m * (m + 1) / 2 : 0;
}

static void list_tasks(ole_across *across, int64_t limit, bool whole) {
    const ole_groups *groups = &across->groups;
    across->task_count = 0;
    if (whole)
        across->tasks[across->task_count++] = (ole_across_task){.class = -1, .rows = groups->rows};
    for (int64_t c = 0; c < groups->classes && groups->classes > 1; c++)
        if (across->classes[c].count <= limit)
            across->tasks[across->task_count++] =
                (ole_across_task){.class = c, .rows = across->classes[c].count};
}

/*
 * Hands the tasks to the ranks in their order: a rank takes more while it has less than an even
 * share of what is left.  Also where each answer stands, and how many bytes each rank answers.
 */
static void assign_tasks(ole_across *across) {
    int size = ole_ranks_size(across->ranks), rank = ole_ranks_rank(across->ranks), owner = 0;
    double left = 0.0, load = 0.0;
    for (int64_t t = 0; t < across->task_count; t++)
        left += ole_across_work(across->tasks[t].rows, across->dim);
    memset(across->message, 0, (size_t)size * sizeof *across->message);
    int64_t at = 0;
    double share = left / size;
    for (int64_t t = 0; t < across->task_count; t++) {
        ole_across_task *task = &across->tasks[t];
        double work = ole_across_work(task->rows, across->dim);
        if (load > 0.0 && load + 0.5 * work > share && owner < size - 1) {
            owner++;
            share = left / (size - owner);
            load = 0.0;
        }
        load += work;
        left -= work;
        int64_t length = HEAD + root_size(across, task);
        task->owner = owner;
        task->answer = at;
        if (owner == rank && across->message[owner] == 0) across->first_answer = at;
        at += length;
        across->message[owner] += length * (int64_t)sizeof(double);
    }
}

/* The rows of a task, one after the other: the whole as it was received, a class collected. */
static ole_operand rows_of(const ole_across *across, const ole_across_task *task,
                           ole_across_space *space) {
    int64_t dim = across->dim;
    const float *rows = across->received;
    if (task->class >= 0) {
        const int64_t *place = across->place + across->groups.start[task->class];
        for (int64_t i = 0; i < task->rows; i++)
            memcpy(space->rows + i * dim, across->received + place[i] * dim,
                   (size_t)dim * sizeof *rows);
        rows = space->rows;
    }
    return (ole_operand){rows, OLE_F32, task->rows, dim, dim, 1, false};
}

/* ---- solving -------------------------------------------------------------------------------- */

static void solve(const ole_across *across, const ole_across_task *task, ole_pool *pool,
                  ole_across_space *space, double *answer) {
    ole_operand a = rows_of(across, task, space);
    if (a.items > across->dim) a = ole_operand_transposed(a);
    ole_spectrum found;
    bool solved = ole_spectrum_of(pool, &a, false, false, across->cut, &space->spectrum, &found);
    answer[0] = solved ? found.norm : NAN;
    answer[1] = solved ? (double)found.rank : 0.0;
    if (!across->want) return;
    double *root = answer + HEAD;
    if (!solved || !ole_across_counts(across, task->class, found.norm)) {
        memset(root, 0, (size_t)root_size(across, task) * sizeof *root);
        return;
    }
    int64_t ld = ole_eigen_pad(a.items);
    double *square = space->spectrum.square[1];
    ole_spectrum_inverse_root(pool, &found, &space->spectrum, square, ld);
    for (int64_t i = 0; i < a.items; root += ++i)
        memcpy(root, square + i * ld, (size_t)(i + 1) * sizeof *root);
}

static bool is_small(const ole_across *across, const ole_across_task *task) {
    return task->class >= 0 && smaller(task->rows, across->dim) <= OLE_SMALL_CLASS;
}

/* Where this rank writes the answer to one of its tasks. */
static double *answer_here(const ole_across *across, const ole_across_task *task) {
    return across->answered + (task->answer - across->first_answer);
}

static void solve_small(void *context, int64_t t, int worker) {
    const ole_across *across = context;
    const ole_across_task *task = &across->tasks[t];
    if (task->owner == ole_ranks_rank(across->ranks) && is_small(across, task))
        solve(across, task, NULL, &across->small[worker], answer_here(across, task));
}

/* ---- directions ----------------------------------------------------------------------------- */

/* Row i of the symmetric n x n matrix whose lower triangle is given. */
static void unpack_row(double *to, const double *lower, int64_t i, int64_t n) {
    memcpy(to, lower + i * (i + 1) / 2, (size_t)(i + 1) * sizeof *to);
    for (int64_t j = i + 1; j < n; j++)
        to[j] = lower[j * (j + 1) / 2 + i];
}

/* direction += alpha polar(A) for this rank's rows, `first` to first + count - 1 of A. */
static void add_rows(const ole_across *across, const ole_across_task *task, ole_pool *pool,
                     ole_across_space *space) {
    int64_t dim = across->dim, n = smaller(task->rows, dim);
    ole_across_class own = {across->sent[ole_ranks_rank(across->ranks)], across->mine.rows, 0};
    if (task->class >= 0) own = across->own[task->class];
    const double *root = across->answers + task->answer + HEAD;
    double *square = space->spectrum.square[1];
    ole_product product = {.alpha = task->class < 0 ? -1.0 : 1.0,
                           .c = across->direction + own.local * dim,
                           .ldc = dim,
                           .store = OLE_STORE_ADD};
    if (task->rows > dim) {
        ole_operand rows = {across->rows + own.local * dim, OLE_F32, own.count, dim, dim, 1, false};
        ole_operand columns = ole_operand_transposed(rows);
        for (int64_t i = 0; i < n; i++)
            unpack_row(square + i * n, root, i, n);
        ole_spectrum_apply(pool, &columns, square, n, &space->spectrum, &product);
        return;
    }
    for (int64_t i = 0; i < own.count; i++)
        unpack_row(square + i * n, root, own.first + i, n);
    ole_operand all = rows_of(across, task, space);
    ole_operand across_rows = ole_operand_transposed(all);
    ole_operand part = {square, OLE_F64, own.count, n, n, 1, false};
    ole_panels left = ole_panels_pack(pool, space->spectrum.small_panels, &part);
    ole_panels right = ole_panels_pack(pool, space->spectrum.panels, &across_rows);
    ole_panels_multiply(pool, &left, &right, &product);
}

/* Whether this rank has rows to which the task has a part to add. */
static bool concerns(const ole_across *across, const ole_across_task *task) {
    int64_t count = task->class < 0 ? across->mine.rows : across->own[task->class].count;
    return count > 0 && ole_across_counts(across, task->class, across->answers[task->answer]);
}

static void add_small(void *context, int64_t t, int worker) {
    const ole_across *across = context;
    const ole_across_task *task = &across->tasks[t];
    if (is_small(across, task) && concerns(across, task))
        add_rows(across, task, NULL, &across->small[worker]);
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* Notes the answers; false where a task was not solved. */
static bool read_answers(ole_across *across) {
    bool solved = true;
    for (int64_t t = 0; t < across->task_count; t++) {
        const ole_across_task *task = &across->tasks[t];
        const double *answer = across->answers + task->answer;
        solved &= !isnan(answer[0]);
        *(task->class < 0 ? &across->norm : &across->classes[task->class].norm) = answer[0];
        *(task->class < 0 ? &across->rank : &across->classes[task->class].rank) =
            (int64_t)answer[1];
    }
    return solved;
}

bool ole_across_split_solve(ole_across *across, int64_t limit, bool whole) {
    int rank = ole_ranks_rank(across->ranks);
    list_tasks(across, limit, whole);
    if (across->task_count == 0) return true;
    assign_tasks(across);
    ole_pool_run(across->pool, across->task_count, solve_small, across);
    for (int64_t t = 0; t < across->task_count; t++) {
        const ole_across_task *task = &across->tasks[t];
        if (task->owner == rank && !is_small(across, task))
            solve(across, task, across->pool, &across->large, answer_here(across, task));
    }
    ole_ranks_gather(across->ranks, across->answered, across->message, across->answers);
    if (!read_answers(across)) return false;
    if (!across->want) return true;
    ole_pool_run(across->pool, across->task_count, add_small, across);
    for (int64_t t = 0; t < across->task_count; t++)
        if (!is_small(across, &across->tasks[t]) && concerns(across, &across->tasks[t]))
            add_rows(across, &across->tasks[t], across->pool, &across->large);
    return true;
}
