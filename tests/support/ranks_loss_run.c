/* tests/support/ranks_loss_run.c - the loss over threads that are ranks. */
#include "ranks_loss_run.h"

#include "test.h"
#include "thread_ranks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const char *ranks_loss_route_name(ole_ranks_loss_route route) {
    static const char *const names[] = {"auto", "everywhere", "split", "gram"};
    return names[route];
}

ranks_loss_run ranks_loss_make(fixture *f, int size, ole_ranks_loss_route route) {
    ranks_loss_run run = {.f = f, .size = size, .route = route, .calls = 1};
    int64_t rows[ACROSS_RANKS];
    fixture_load(f);
    run.gradient = malloc((size_t)f->count * sizeof *run.gradient);
    memset(run.gradient, 0xff, (size_t)f->count * sizeof *run.gradient); /* NaN */
    for (int r = 0; r < size; r++) {
        run.rank[r] = (ranks_loss_rank){.options = f->options, .number = r, .capacity = f->rows};
        run.rank[r].classes = calloc((size_t)f->rows, sizeof(ole_loss_class));
        rows[r] = f->rows * (r + 1) / size - f->rows * r / size;
    }
    ranks_loss_cut(&run, rows);
    return run;
}

void ranks_loss_cut(ranks_loss_run *run, const int64_t *rows) {
    const fixture *f = run->f;
    int64_t first = 0;
    for (int r = 0; r < run->size; first += rows[r++]) {
        run->rank[r].batch = (ole_loss_batch){.rows = rows[r],
                                              .features = (float *)f->features + first * f->dim,
                                              .labels = f->labels + first,
                                              .label_type = OLE_I64};
        run->rank[r].gradient =
            (ole_loss_gradient){.data = run->gradient + first * f->dim, .upstream = f->upstream};
        if (rows[r] == 0) run->rank[r].batch.features = run->rank[r].batch.labels = NULL;
    }
    assert_int_equal(first, f->rows);
}

/* All ranks wait for what rank 0 does here. */
static void pause_between(const ranks_loss_rank *me) {
    if (!me->run->between) return;
    ole_ranks_barrier(me->ranks);
    if (me->number == 0) me->run->between();
    ole_ranks_barrier(me->ranks);
}

static void *be_a_rank(void *context) {
    ranks_loss_rank *me = context;
    const fixture *f = me->run->f;
    ole_ranks_loss *loss;
    me->status = ole_ranks_loss_create(&loss, me->ranks, me->batch.rows, f->dim, &me->options,
                                       me->run->route, &me->error);
    for (int call = 0; call < me->run->calls && me->status == OLE_OK; call++) {
        me->result = (ole_loss_result){
            .per_class = me->capacity < 0 ? NULL : me->classes,
            .per_class_capacity = me->capacity,
        };
        me->status = ole_ranks_loss_eval(loss, &me->batch, me->no_gradient ? NULL : &me->gradient,
                                         &me->result, &me->error);
        if (call == 0 || call == me->run->calls - 1) pause_between(me);
    }
    if (loss) {
        me->taken = ole_ranks_loss_taken(loss);
        me->bytes = ole_ranks_loss_bytes(loss);
    }
    ole_ranks_loss_destroy(loss);
    ole_ranks_close(me->ranks);
    return NULL;
}

void ranks_loss_evaluate(ranks_loss_run *run) {
    ole_ranks *groups[ACROSS_RANKS];
    pthread_t threads[ACROSS_RANKS];
    ole_error error;
    assert_ok(thread_ranks(groups, run->size, &error), &error);
    for (int r = 0; r < run->size; r++) {
        run->rank[r].run = run;
        run->rank[r].ranks = groups[r];
        assert_int_equal(pthread_create(&threads[r], NULL, be_a_rank, &run->rank[r]), 0);
    }
    for (int r = 0; r < run->size; r++)
        pthread_join(threads[r], NULL);
}

void ranks_loss_free(ranks_loss_run *run) {
    for (int r = 0; r < run->size; r++)
        free(run->rank[r].classes);
    free(run->gradient);
}
