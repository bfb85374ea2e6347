/*
 * src/loss/ranks/ranks_parts.h - what the files of ranks_loss.h share.
 *
 *   ranks_loss.c        memory, messages, and the way of a batch through a route
 *   ranks_cost.c   which route is the cheapest
 *   ranks_split.c  matrices whose rows are on every rank, each solved by one of them
 *   ranks_gram.c   matrices of many rows, by Gram matrices that are added up over the ranks
 *
 * Orders.  Every rank sorts its rows by class (ties as they came) and keeps them so: `rows`,
 * `direction`.  Rows that travel do so in this order, rank after rank: `received`.  The groups of
 * the whole batch list the rows by class, and inside a class by rank: a rank's rows of a class are
 * consecutive there, here and among the received.
 */
#ifndef OLE_SRC_LOSS_RANKS_RANKS_PARTS_H
#define OLE_SRC_LOSS_RANKS_RANKS_PARTS_H

#include "loss/ranks/ranks_loss.h"
#include "loss/ranks/ranks_spectra.h"
#include "loss/route.h"

/* What this rank knows of a class beyond its norm. */
typedef struct ole_ranks_loss_class {
    int64_t first; /* of this rank's rows, in the class */
    int64_t count; /* of them */
    int64_t local; /* of the first, in `rows` */
} ole_ranks_loss_class;

/* One matrix that is solved by a rank from rows that all have: the whole batch or a class. */
typedef struct ole_ranks_loss_task {
    int64_t class; /* -1: the whole */
    int64_t rows;
    int64_t answer; /* where it stands in `answers` */
    int owner;
} ole_ranks_loss_task;

/* A thread's memory for matrices of a class. */
typedef struct ole_ranks_loss_space {
    float *rows; /* a class's rows, one after the other */
    ole_spectrum_space spectrum;
} ole_ranks_loss_space;

/* Sizes of a batch, for the choice of a route. */
typedef struct ole_ranks_loss_shape {
    int64_t rows, dim, classes;
    const int64_t *start; /* [classes + 1] as in ole_groups */
    int ranks, threads;   /* the fewest threads that a rank has */
    int at_once;          /* Gram matrices that are worked on together */
} ole_ranks_loss_shape;

struct ole_ranks_loss {
    ole_ranks *ranks;
    int64_t dim;
    ole_loss_options options;
    ole_cut cut;
    ole_ranks_loss_route forced, taken;
    ole_pool *pool;
    void *memory;
    size_t bytes;
    int threads;       /* the fewest that a rank has */
    bool mixed;        /* the ranks' CPUs compute with different kernels */
    int64_t max_rows;  /* here */
    int64_t max_total; /* on all ranks */
    int64_t *most;     /* [ranks] max_rows of each */

    /* How many rows of the whole batch each route has memory for. */
    int64_t max_everywhere, max_split, max_gram;

    /* Messages: what a rank says of its batch and its labels, one after the other. */
    int64_t *said, *heard;
    int64_t *message; /* [ranks] bytes of each rank */
    int64_t *begin;   /* [ranks + 1] of each rank's rows in the batch, ignored ones included */
    int64_t *labels;  /* [max_total] of the batch */

    /* This rank's rows. */
    ole_groups mine;
    float *rows;       /* [max_rows, dim] */
    double *direction; /* [max_rows, dim] */

    /* The whole batch. */
    ole_groups groups;
    ole_loss_class *classes;   /* [max_total] */
    ole_ranks_loss_class *own; /* [max_total], a class each */
    int64_t *place;            /* [max_total] of each row of the groups: where it was received */
    int64_t *sent;             /* [ranks + 1] of each rank's rows among the received */
    int64_t *next;             /* [ranks] scratch */
    float *received;           /* [max_total, dim] */
    double norm;               /* what the route found of the whole */
    int64_t rank;              /* ... */
    bool want;                 /* a gradient */
    ole_route_gram everywhere; /* of OLE_RANKS_LOSS_EVERYWHERE */
    ole_ranks_loss_spectra spectra; /* of OLE_RANKS_LOSS_GRAM */
    ole_ranks_loss_task *tasks;     /* [1 + max_total] */
    int64_t task_count;             /* ... */
    int64_t first_answer;           /* of this rank's, in the answers of all */
    double *answers, *answered;     /* norm, rank and inverse root: of all tasks, of this rank's */
    ole_ranks_loss_space large;
    ole_ranks_loss_space *small; /* one a thread */
};

/* The way a batch goes: the same on every rank. */
ole_ranks_loss_route ole_ranks_loss_choose(const ole_ranks_loss *loss);

/* What a route would take, in seconds, by the model of docs/maths.md. */
double ole_ranks_loss_seconds(ole_ranks_loss_route route, const ole_ranks_loss_shape *shape);

/* Multiplications that the decomposition of n rows takes. */
double ole_ranks_loss_work(int64_t n, int64_t dim);

/* Whether a class (-1: the whole) of that norm has a part in the directions. */
bool ole_ranks_loss_counts(const ole_ranks_loss *loss, int64_t class, double norm);

/*
 * Norms and ranks of the classes of up to `limit` rows, whose rows have been gathered, and of the
 * whole where asked for; their part in the directions of this rank's rows is added to `direction`.
 * False on every rank where a decomposition does not converge.
 */
void ole_ranks_loss_split_lay_out(ole_ranks_loss *loss, ole_arena *arena);
bool ole_ranks_loss_split_solve(ole_ranks_loss *loss, int64_t limit, bool whole);

/* The same for the whole and the classes of more than `limit` rows, of which nothing is gathered.
 */
void ole_ranks_loss_gram_lay_out(ole_ranks_loss *loss, ole_arena *arena);
bool ole_ranks_loss_gram_solve(ole_ranks_loss *loss, int64_t limit);

#endif
