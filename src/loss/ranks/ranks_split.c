/*
 * src/loss/ranks/ranks_split.c - matrices whose rows all ranks have: each is solved by one of them.
 *
 * The owner of a matrix A, [n, D], hands out ‖A‖_*, its rank and the inverse root K of the smaller
 * side.  Each rank then computes its own rows of polar(A): rows of K times A for n <= D, its rows
 * of A times K otherwise.  So what is sent back is n x n, not n x D.
 */
#include "loss/ranks/ranks_parts.h"

#include "base/min_max.h"
#include "linalg/eigen.h"

#include <math.h>
#include <string.h>

enum { HEAD = 2 }; /* doubles of an answer before the root: norm and rank */

/* ---- memory ------------------------------------------------------------------------------- */

static void place_space(ole_ranks_loss_space *space, ole_arena *arena, int64_t rows, int64_t m,
                        int64_t k, int64_t dim) {
    space->rows = ole_arena_take(arena, rows * dim, sizeof(float));
    ole_spectrum_lay_out(&space->spectrum, arena, m, k);
}

void ole_ranks_loss_split_lay_out(ole_ranks_loss *loss, ole_arena *arena) {
    int64_t dim = loss->dim, total = loss->max_total;
    int64_t rows = ole_max(ole_min(total, dim), loss->max_split); /* of the largest matrix */
    int64_t m = ole_min(rows, dim), k = ole_max(rows, dim);
    int64_t length = HEAD * (total + 1) + (total + m) * (m + 1) / 2;
    loss->tasks = ole_arena_take(arena, total + 1, sizeof *loss->tasks);
    loss->answers = ole_arena_take(arena, length, sizeof(double));
    loss->answered = ole_arena_take(arena, length, sizeof(double));
    place_space(&loss->large, arena, rows, m, k, dim);
    int threads = loss->options.threads;
    loss->small = ole_arena_take(arena, threads, sizeof *loss->small);
    for (int t = 0; t < threads; t++) {
        ole_ranks_loss_space counted;
        place_space(arena->base ? &loss->small[t] : &counted, arena,
                    dim > OLE_SMALL_CLASS ? ole_min(rows, OLE_SMALL_CLASS) : rows,
                    ole_min(m, OLE_SMALL_CLASS), k, dim);
    }
}

/* ---- tasks -------------------------------------------------------------------------------- */

/* Doubles of the root of a task: a lower triangle of the smaller side. */
static int64_t root_size(const ole_ranks_loss *loss, const ole_ranks_loss_task *task) {
    int64_t m = ole_min(task->rows, loss->dim);
    return loss->want ? m * (m + 1) / 2 : 0;
}

static void list_tasks(ole_ranks_loss *loss, int64_t limit, bool whole) {
    const ole_groups *groups = &loss->groups;
    loss->task_count = 0;
    if (whole)
        loss->tasks[loss->task_count++] = (ole_ranks_loss_task){.class = -1, .rows = groups->rows};
    for (int64_t c = 0; c < groups->classes && groups->classes > 1; c++)
        if (loss->classes[c].count <= limit)
            loss->tasks[loss->task_count++] =
                (ole_ranks_loss_task){.class = c, .rows = loss->classes[c].count};
}

/*
 * Hands the tasks to the ranks in their order: a rank takes more while it has less than an even
 * share of what is left.  Also where each answer stands, and how many bytes each rank answers.
 */
static void assign_tasks(ole_ranks_loss *loss) {
    int size = ole_ranks_size(loss->ranks), rank = ole_ranks_rank(loss->ranks), owner = 0;
    double left = 0.0, load = 0.0;
    for (int64_t t = 0; t < loss->task_count; t++)
        left += ole_ranks_loss_work(loss->tasks[t].rows, loss->dim);
    memset(loss->message, 0, (size_t)size * sizeof *loss->message);
    int64_t at = 0;
    double share = left / size;
    for (int64_t t = 0; t < loss->task_count; t++) {
        ole_ranks_loss_task *task = &loss->tasks[t];
        double work = ole_ranks_loss_work(task->rows, loss->dim);
        if (load > 0.0 && load + 0.5 * work > share && owner < size - 1) {
            owner++;
            share = left / (size - owner);
            load = 0.0;
        }
        load += work;
        left -= work;
        int64_t length = HEAD + root_size(loss, task);
        task->owner = owner;
        task->answer = at;
        if (owner == rank && loss->message[owner] == 0) loss->first_answer = at;
        at += length;
        loss->message[owner] += length * (int64_t)sizeof(double);
    }
}

/* The rows of a task, one after the other: the whole as it was received, a class collected. */
static ole_operand rows_of(const ole_ranks_loss *loss, const ole_ranks_loss_task *task,
                           ole_ranks_loss_space *space) {
    int64_t dim = loss->dim;
    const float *rows = loss->received;
    if (task->class >= 0) {
        const int64_t *place = loss->place + loss->groups.start[task->class];
        for (int64_t i = 0; i < task->rows; i++)
            memcpy(space->rows + i * dim, loss->received + place[i] * dim,
                   (size_t)dim * sizeof *rows);
        rows = space->rows;
    }
    return (ole_operand){rows, OLE_F32, task->rows, dim, dim, 1, false};
}

/* ---- solving ------------------------------------------------------------------------------ */

static void solve(const ole_ranks_loss *loss, const ole_ranks_loss_task *task, ole_pool *pool,
                  ole_ranks_loss_space *space, double *answer) {
    ole_operand a = rows_of(loss, task, space);
    if (a.items > loss->dim) a = ole_operand_transposed(a);
    ole_spectrum found;
    bool solved = ole_spectrum_of(pool, &a, false, false, loss->cut, &space->spectrum, &found);
    answer[0] = solved ? found.norm : NAN;
    answer[1] = solved ? (double)found.rank : 0.0;
    if (!loss->want) return;
    double *root = answer + HEAD;
    if (!solved || !ole_ranks_loss_counts(loss, task->class, found.norm)) {
        memset(root, 0, (size_t)root_size(loss, task) * sizeof *root);
        return;
    }
    int64_t ld = ole_eigen_pad(a.items);
    double *square = space->spectrum.square[1];
    ole_spectrum_inverse_root(pool, &found, &space->spectrum, square, ld);
    for (int64_t i = 0; i < a.items; root += ++i)
        memcpy(root, square + i * ld, (size_t)(i + 1) * sizeof *root);
}

static bool is_small(const ole_ranks_loss *loss, const ole_ranks_loss_task *task) {
    return task->class >= 0 && ole_min(task->rows, loss->dim) <= OLE_SMALL_CLASS;
}

/* Where this rank writes the answer to one of its tasks. */
static double *answer_here(const ole_ranks_loss *loss, const ole_ranks_loss_task *task) {
    return loss->answered + (task->answer - loss->first_answer);
}

static void solve_small(void *context, int64_t t, int worker) {
    const ole_ranks_loss *loss = context;
    const ole_ranks_loss_task *task = &loss->tasks[t];
    if (task->owner == ole_ranks_rank(loss->ranks) && is_small(loss, task))
        solve(loss, task, NULL, &loss->small[worker], answer_here(loss, task));
}

/* ---- directions --------------------------------------------------------------------------- */

/* Row i of the symmetric n x n matrix whose lower triangle is given. */
static void unpack_row(double *to, const double *lower, int64_t i, int64_t n) {
    memcpy(to, lower + i * (i + 1) / 2, (size_t)(i + 1) * sizeof *to);
    for (int64_t j = i + 1; j < n; j++)
        to[j] = lower[j * (j + 1) / 2 + i];
}

/* direction += alpha polar(A) for this rank's rows, `first` to first + count - 1 of A. */
static void add_rows(const ole_ranks_loss *loss, const ole_ranks_loss_task *task, ole_pool *pool,
                     ole_ranks_loss_space *space) {
    int64_t dim = loss->dim, n = ole_min(task->rows, dim);
    ole_ranks_loss_class own = {loss->sent[ole_ranks_rank(loss->ranks)], loss->mine.rows, 0};
    if (task->class >= 0) own = loss->own[task->class];
    const double *root = loss->answers + task->answer + HEAD;
    double *square = space->spectrum.square[1];
    ole_product product = {.alpha = task->class < 0 ? -1.0 : 1.0,
                           .c = loss->direction + own.local * dim,
                           .ldc = dim,
                           .store = OLE_STORE_ADD};
    if (task->rows > dim) {
        ole_operand rows = {loss->rows + own.local * dim, OLE_F32, own.count, dim, dim, 1, false};
        ole_operand columns = ole_operand_transposed(rows);
        for (int64_t i = 0; i < n; i++)
            unpack_row(square + i * n, root, i, n);
        ole_spectrum_apply(pool, &columns, square, n, &space->spectrum, &product);
        return;
    }
    for (int64_t i = 0; i < own.count; i++)
        unpack_row(square + i * n, root, own.first + i, n);
    ole_operand all = rows_of(loss, task, space);
    ole_operand columns = ole_operand_transposed(all);
    ole_operand part = {square, OLE_F64, own.count, n, n, 1, false};
    ole_multiply(pool, &part, space->spectrum.small_panels, &columns, space->spectrum.panels,
                 &product);
}

/* Whether this rank has rows to which the task has a part to add. */
static bool concerns(const ole_ranks_loss *loss, const ole_ranks_loss_task *task) {
    int64_t count = task->class < 0 ? loss->mine.rows : loss->own[task->class].count;
    return count > 0 && ole_ranks_loss_counts(loss, task->class, loss->answers[task->answer]);
}

static void add_small(void *context, int64_t t, int worker) {
    const ole_ranks_loss *loss = context;
    const ole_ranks_loss_task *task = &loss->tasks[t];
    if (is_small(loss, task) && concerns(loss, task))
        add_rows(loss, task, NULL, &loss->small[worker]);
}

/* ---- all of it ---------------------------------------------------------------------------- */

/* Notes the answers; false where a task was not solved. */
static bool read_answers(ole_ranks_loss *loss) {
    bool solved = true;
    for (int64_t t = 0; t < loss->task_count; t++) {
        const ole_ranks_loss_task *task = &loss->tasks[t];
        const double *answer = loss->answers + task->answer;
        solved &= !isnan(answer[0]);
        *(task->class < 0 ? &loss->norm : &loss->classes[task->class].norm) = answer[0];
        *(task->class < 0 ? &loss->rank : &loss->classes[task->class].rank) = (int64_t)answer[1];
    }
    return solved;
}

bool ole_ranks_loss_split_solve(ole_ranks_loss *loss, int64_t limit, bool whole) {
    int rank = ole_ranks_rank(loss->ranks);
    list_tasks(loss, limit, whole);
    if (loss->task_count == 0) return true;
    assign_tasks(loss);
    ole_pool_run(loss->pool, loss->task_count, solve_small, loss);
    for (int64_t t = 0; t < loss->task_count; t++) {
        const ole_ranks_loss_task *task = &loss->tasks[t];
        if (task->owner == rank && !is_small(loss, task))
            solve(loss, task, loss->pool, &loss->large, answer_here(loss, task));
    }
    ole_ranks_gather(loss->ranks, loss->answered, loss->message, loss->answers);
    if (!read_answers(loss)) return false;
    if (!loss->want) return true;
    ole_pool_run(loss->pool, loss->task_count, add_small, loss);
    for (int64_t t = 0; t < loss->task_count; t++)
        if (!is_small(loss, &loss->tasks[t]) && concerns(loss, &loss->tasks[t]))
            add_rows(loss, &loss->tasks[t], loss->pool, &loss->large);
    return true;
}
