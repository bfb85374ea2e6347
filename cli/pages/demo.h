/* cli/pages/demo.h - what `ole demo` measures, for demo.c, which trains, and demo_page.c, its page.
 */
#ifndef OLE_CLI_PAGES_DEMO_H
#define OLE_CLI_PAGES_DEMO_H

#include "common/progress.h"

#include <ole/train/train.h>

/* What the tables show, of one run or as mean or deviation. */
typedef struct figures {
    double between, within; /* mean angle of two features of different classes, of one class */
    double rank;            /* effective, of all features */
    double error, knn1;     /* %, on the test set */
} figures;

/* One side of a table: the network trained one way. */
typedef struct side {
    const char *key, *title;
    ole_loss_kind loss;
    figures mean, deviation; /* over the runs */
    float *features;         /* of the test set, of the first (digits) or best (toy) run */
    int64_t dim;
} side;

enum { FEW = 3 };

/* Both sides of `digits` trained on a few images of each class: test error, %, over the runs. */
typedef struct few_images {
    int samples; /* a class */
    double mean[2], deviation[2];
    int better; /* runs in which OLÉ errs less than softmax on the same images */
} few_images;

typedef struct demo {
    const char *directory;
    char page[4096];
    int seeds, epochs, threads;
    bool json;
    double lambda;
    side digits[2], toy[2];
    few_images few[FEW];
    int32_t *labels[2]; /* of the test sets: digits, toy */
    int64_t count[2];
    int trained, trainings; /* done and in all */
    progress line;
    ole_error error;
} demo;

/*
 * Writes the page and, with --out, pictures of the toy, the angles and the few images beside
 * it.  False after an error, which is in d->error, or an interruption.
 */
bool write_demo_page(demo *d, const char *path);

#endif
