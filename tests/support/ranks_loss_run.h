/*
 * tests/support/ranks_loss_run.h - a fixture's batch cut into pieces, one for each of several
 * threads that are ranks, and the loss over them.
 *
 *     ranks_loss_run run = ranks_loss_make(&f, 3, OLE_RANKS_LOSS_GRAM);
 *     ranks_loss_cut(&run, (int64_t[]){5, 0, 7});   // rows of each rank; even pieces otherwise
 *     ranks_loss_evaluate(&run);                    // run.rank[r].status, result, run.gradient
 *     ranks_loss_free(&run);
 */
#ifndef OLE_TESTS_RANKS_LOSS_RUN_H
#define OLE_TESTS_RANKS_LOSS_RUN_H

#include "fixture.h"
#include "loss/ranks/ranks_loss.h"

enum { ACROSS_RANKS = 4, ACROSS_CALLS = 3 };

/* What one rank had and got. */
typedef struct ranks_loss_rank {
    struct ranks_loss_run *run;
    ole_ranks *ranks;
    int number;
    ole_loss_options options; /* the fixture's; change what differs here */
    ole_loss_batch batch;
    ole_loss_gradient gradient;
    bool no_gradient;
    int64_t capacity; /* entries of per_class that are offered; negative: none asked for */
    ole_loss_class *classes;
    ole_status status;
    ole_error error;
    ole_loss_result result;
    ole_ranks_loss_route taken;
    size_t bytes;
} ranks_loss_rank;

typedef struct ranks_loss_run {
    fixture *f;
    int size;
    ole_ranks_loss_route route;
    int calls;             /* evaluations by the same plan; 1 unless set, ACROSS_CALLS at most */
    void (*between)(void); /* called by rank 0, all ranks waiting, after the first evaluation and
                              after the last one; NULL: nothing */
    ranks_loss_rank rank[ACROSS_RANKS];
    float *gradient; /* [rows, dim] of all ranks together */
} ranks_loss_run;

ranks_loss_run ranks_loss_make(fixture *f, int size, ole_ranks_loss_route route);
void ranks_loss_cut(ranks_loss_run *run, const int64_t *rows);
void ranks_loss_evaluate(ranks_loss_run *run);
void ranks_loss_free(ranks_loss_run *run);

const char *ranks_loss_route_name(ole_ranks_loss_route route);

#endif
