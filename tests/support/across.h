/*
 * tests/support/across.h - a fixture's batch cut into pieces, one for each of several threads that
 * are ranks, and the loss over them.
 *
 *     across_run run = across_make(&f, 3, OLE_ACROSS_GRAM);
 *     across_cut(&run, (int64_t[]){5, 0, 7});   // rows of each rank; even pieces otherwise
 *     across_evaluate(&run);                    // run.rank[r].status, result, run.gradient
 *     across_free(&run);
 */
#ifndef OLE_TESTS_ACROSS_H
#define OLE_TESTS_ACROSS_H

#include "fixture.h"
#include "loss/across.h"

enum { ACROSS_RANKS = 4, ACROSS_CALLS = 3 };

/* What one rank had and got. */
typedef struct across_rank {
    struct across_run *run;
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
    ole_across_route taken;
    size_t bytes;
} across_rank;

typedef struct across_run {
    fixture *f;
    int size;
    ole_across_route route;
    int calls;             /* evaluations by the same plan; 1 unless set, ACROSS_CALLS at most */
    void (*between)(void); /* called by rank 0, all ranks waiting, after the first evaluation and
                              after the last one; NULL: nothing */
    across_rank rank[ACROSS_RANKS];
    float *gradient; /* [rows, dim] of all ranks together */
} across_run;

across_run across_make(fixture *f, int size, ole_across_route route);
void across_cut(across_run *run, const int64_t *rows);
void across_evaluate(across_run *run);
void across_free(across_run *run);

const char *across_route_name(ole_across_route route);

#endif
