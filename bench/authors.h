/* bench/authors.h - the loss as the authors' release computes it: one sgesvd per class and one of
 * all rows. */
#ifndef OLE_BENCH_AUTHORS_H
#define OLE_BENCH_AUTHORS_H

#include <stdint.h>

typedef struct authors authors;

/* Loads the BLAS to run on; aborts if memory runs out. */
authors *authors_open(void);
void authors_close(authors *a);

/* The name of the library, for the head of the table. */
const char *authors_library(const authors *a);

/* Has no effect unless a threaded OpenBLAS was found. */
void authors_set_threads(authors *a, int threads);

/* The loss of x[n, d] with weight 1, mean reduction; its gradient into gradient[n, d]. */
double authors_evaluate(authors *a, const float *x, const int64_t *labels, int64_t n, int64_t d,
                        float *gradient);

#endif
