/*
 * src/features/classify.c - the errors of classifiers that need no training: neighbours, centroids,
 * subspaces; each row left out in turn, or a test set.
 */
#include "ole/classify.h"

#include "base/error.h"
#include "base/struct_size.h"
#include "features/nearest.h"
#include "linalg/knn.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NEIGHBOURS = 1000 };

/* One call. */
typedef struct task {
    const ole_classify_options *options;
    const ole_embedding *train, *test; /* test: NULL to leave one out */
    ole_classes classes;               /* of train */
    ole_pool *pool;
    ole_row_set reference, query;
    int64_t *query_row;   /* rows of test, or of train */
    int64_t *query_class; /* their classes, -1: unknown to train */
    int64_t *predicted;   /* [queries], classes */
} task;

static double percent_wrong(const task *t) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < t->query.rows; i++)
        wrong += t->predicted[i] < 0 || t->predicted[i] != t->query_class[i];
    return 100.0 * (double)wrong / (double)t->query.rows;
}

static ole_status out_of_memory(ole_error *error) {
    return ole_fail(error, OLE_ERROR_MEMORY, "ole_classify_features: out of memory");
}

/* ---- Neighbours --------------------------------------------------------------------------- */

static bool report_neighbours(void *context, double share) {
    const task *t = context;
    if (t->options->progress) t->options->progress(t->options->context, "neighbours", share);
    return false;
}

/* The class of a position in the class order. */
static int64_t class_at(const ole_classes *classes, int64_t position) {
    int64_t low = 0, high = classes->classes;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (classes->begin[middle] <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The class that most of the neighbours have, of equally many the first; -1 without any. */
static int64_t vote(const ole_classes *classes, const int64_t *nearest, int k) {
    int64_t class[MOST_NEIGHBOURS], best = -1;
    int most = 0, count = 0;
    while (count < k && nearest[count] >= 0) {
        class[count] = class_at(classes, nearest[count]);
        count++;
    }
    for (int i = 0; i < count; i++) {
        int same = 0;
        for (int j = 0; j < count; j++)
            same += class[j] == class[i];
        if (same > most || (same == most && class[i] < best)) {
            most = same;
            best = class[i];
        }
    }
    return best;
}

static ole_status neighbours(task *t, ole_feature_errors *errors, ole_error *error) {
    int k = t->options->k;
    const ole_knn_watch watch = {report_neighbours, t};
    const ole_knn job = {
        .reference = t->reference, .query = t->query, .k = k, .one_out = !t->test, .watch = &watch};
    int64_t *nearest = malloc((size_t)(t->query.rows * k) * sizeof *nearest);
    if (!nearest) return out_of_memory(error);
    ole_status status = ole_knn_search(&job, t->pool, nearest, error);
    for (int pass = 0; pass < 2 && status == OLE_OK; pass++) {
        for (int64_t i = 0; i < t->query.rows; i++)
            t->predicted[i] = vote(&t->classes, nearest + i * k, pass == 0 ? 1 : k);
        *(pass == 0 ? &errors->knn1 : &errors->knn) = percent_wrong(t);
    }
    free(nearest);
    return status;
}

/* ---- Centroids ---------------------------------------------------------------------------- */

typedef struct summing {
    const task *task;
    double scale; /* of the rows summed, a power of two */
    double *sums; /* [classes, dim] */
    double *rows; /* [classes, dim]: scratch, a row for each class; there are two at least */
    double *own;  /* [queries] */
} summing;

/*
 * A factor by which no sum of rows overflows: 1 unless numbers are near the end of float64.  One
 * for all rows, as a mean weighs them by their lengths; a power of two, which rounds nothing.
 */
static double safe_scale(const ole_row_set *set) {
    double largest = 0.0;
    for (int64_t i = 0; i < set->rows && set->dtype == OLE_F64; i++)
        largest = fmax(largest, ole_row_largest(set, i));
    return largest < 0x1p900 ? 1.0 : 0x1p-100;
}

static void sum_class(void *context, int64_t c, int worker) {
    (void)worker;
    const summing *s = context;
    const ole_classes *classes = &s->task->classes;
    int64_t dim = s->task->reference.dim;
    double *sum = s->sums + c * dim, *row = s->rows + c * dim;
    memset(sum, 0, (size_t)dim * sizeof *sum);
    for (int64_t i = classes->begin[c]; i < classes->begin[c + 1]; i++) {
        ole_row_copy(&s->task->reference, i, row);
        ole_kernels_get()->axpy(sum, s->scale, row, dim);
    }
}

/* The cosine of a query with the mean of the other rows of its class; none: never the nearest. */
static double cosine_one_out(const summing *s, int64_t i, double *row, double *other) {
    const task *t = s->task;
    int64_t dim = t->query.dim, c = t->query_class[i];
    if (t->classes.begin[c + 1] - t->classes.begin[c] < 2) return -INFINITY;
    ole_row_copy(&t->query, i, other);
    const double *sum = s->sums + c * dim;
    for (int64_t k = 0; k < dim; k++)
        other[k] = sum[k] - s->scale * other[k];
    const ole_row_set rest = {.rows = 1, .dim = dim, .dtype = OLE_F64, .data = other};
    ole_row_unit(&t->query, i, row);
    ole_row_unit(&rest, 0, other);
    return ole_kernels_get()->dot_f64(row, other, dim);
}

static ole_status sum_classes(task *t, summing *s, ole_error *error) {
    size_t count = (size_t)(t->classes.classes * t->reference.dim);
    *s = (summing){.task = t,
                   .sums = malloc(count * sizeof *s->sums),
                   .rows = malloc(count * sizeof *s->rows),
                   .own = malloc((size_t)t->query.rows * sizeof *s->own)};
    if (!s->sums || !s->rows || !s->own) return out_of_memory(error);
    s->scale = safe_scale(&t->reference);
    ole_pool_run(t->pool, t->classes.classes, sum_class, s);
    for (int64_t i = 0; i < t->query.rows && !t->test; i++)
        s->own[i] = cosine_one_out(s, i, s->rows, s->rows + t->reference.dim);
    return OLE_OK;
}

static ole_status centroids(task *t, ole_feature_errors *errors, ole_error *error) {
    summing s;
    ole_status status = sum_classes(t, &s, error);
    if (status == OLE_OK) {
        ole_directions d;
        const ole_own_score own = {t->query_class, s.own};
        status =
            ole_directions_of_centroids(&d, s.sums, t->classes.classes, t->reference.dim, error);
        if (status == OLE_OK) {
            status = ole_nearest_class(&d, &t->query, t->test ? NULL : &own, t->pool, t->predicted,
                                       error);
            ole_directions_destroy(&d);
        }
    }
    if (status == OLE_OK) errors->centroid = percent_wrong(t);
    free(s.sums);
    free(s.rows);
    free(s.own);
    return status;
}

/* ---- Subspaces ---------------------------------------------------------------------------- */

static ole_status judge_by_subspaces(task *t, const ole_subspaces *subspaces, const double *own,
                                     ole_feature_errors *errors, ole_error *error) {
    ole_directions d;
    ole_status status = ole_directions_of_subspaces(&d, subspaces, error);
    if (status != OLE_OK) return status;
    const ole_own_score score = {t->query_class, own};
    status = ole_nearest_class(&d, &t->query, own ? &score : NULL, t->pool, t->predicted, error);
    if (status == OLE_OK) {
        errors->subspace = percent_wrong(t);
        errors->directions = (double)d.first[d.classes] / (double)d.classes;
    }
    ole_directions_destroy(&d);
    return status;
}

/* The share of each query in the subspace of the rest of its class; a class of one has none. */
static void collect_own(const task *t, const double *share, double *own) {
    for (int64_t i = 0; i < t->query.rows; i++) {
        int64_t c = t->query_class[i];
        bool alone = t->classes.begin[c + 1] - t->classes.begin[c] < 2;
        own[i] = alone ? -1.0 : share[t->query_row[i]];
    }
}

static ole_status subspaces(task *t, ole_feature_errors *errors, ole_error *error) {
    size_t rows = (size_t)t->train->rows;
    bool *wanted = calloc(rows, sizeof *wanted);
    double *share = malloc(rows * sizeof *share);
    double *own = malloc((size_t)t->query.rows * sizeof *own);
    ole_status status = OLE_OK;
    if (!wanted || !share || !own) {
        status = out_of_memory(error);
    } else {
        for (int64_t i = 0; i < t->query.rows && !t->test; i++)
            wanted[t->query_row[i]] = true;
        const ole_one_out one_out = {wanted, share};
        ole_subspaces s;
        status = ole_subspaces_of(&s, t->train, &t->classes, t->options->energy,
                                  t->test ? NULL : &one_out, t->pool, t->options->threads, error);
        if (status == OLE_OK) {
            if (!t->test) collect_own(t, share, own);
            status = judge_by_subspaces(t, &s, t->test ? NULL : own, errors, error);
            ole_subspaces_destroy(&s);
        }
    }
    free(wanted);
    free(share);
    free(own);
    return status;
}

/* ---- All together ------------------------------------------------------------------------- */

/* Draws the queries from the rows of `from` that count. */
static ole_status draw_queries(task *t, const ole_embedding *from, const ole_classes *classes,
                               ole_error *error) {
    int64_t limit = t->options->sample, count = ole_sample_size(classes->rows, limit);
    t->query_row = malloc((size_t)count * sizeof *t->query_row);
    t->query_class = malloc((size_t)count * sizeof *t->query_class);
    t->predicted = malloc((size_t)count * sizeof *t->predicted);
    if (!t->query_row || !t->query_class || !t->predicted) return out_of_memory(error);
    ole_sample_draw(classes->rows, limit, t->options->seed, t->query_row);
    for (int64_t i = 0; i < count; i++) {
        t->query_row[i] = classes->order[t->query_row[i]];
        t->query_class[i] = ole_classes_find(&t->classes, from->labels[t->query_row[i]]);
    }
    t->query = ole_embedding_rows(from, t->query_row, count);
    return OLE_OK;
}

static ole_status classify(task *t, const ole_classes *queries, ole_feature_errors *errors,
                           ole_error *error) {
    if (t->classes.classes < 2)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "all rows have the label %" PRId64 "; at least two classes are needed",
                        t->classes.label[0]);
    ole_status status = draw_queries(t, t->test ? t->test : t->train, queries, error);
    t->reference = ole_embedding_rows(t->train, t->classes.order, t->classes.rows);
    ole_feature_errors e = {.references = t->classes.rows,
                            .queries = t->query.rows,
                            .of_queries = queries->rows,
                            .k = t->options->k};
    if (status == OLE_OK) status = neighbours(t, &e, error);
    if (status == OLE_OK) status = centroids(t, &e, error);
    if (status == OLE_OK) status = subspaces(t, &e, error);
    if (status == OLE_OK) *errors = e;
    free(t->query_row);
    free(t->query_class);
    free(t->predicted);
    return status;
}

static ole_status check_options(const ole_classify_options *o, ole_error *error) {
    if (o->k < 1 || o->k > MOST_NEIGHBOURS)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_classify_features: k is %d (1 to %d)", o->k,
                        MOST_NEIGHBOURS);
    if (!(o->energy > 0.0 && o->energy <= 1.0))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_classify_features: energy is %g: it must be over 0 and at most 1",
                        o->energy);
    if (o->sample < 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_classify_features: sample is %" PRId64 "; must be 0 or more",
                        o->sample);
    return OLE_OK;
}

/* Opens the test set; its pool is not needed. */
static ole_status open_test(ole_classes *classes, const task *t, ole_error *error) {
    ole_pool *pool;
    ole_error inner = {0};
    ole_status status = ole_classes_open(classes, &pool, "ole_classify_features", t->test,
                                         t->options->threads, &inner);
    if (status != OLE_OK) return ole_fail(error, status, "test %s", inner.message);
    ole_pool_destroy(pool);
    if (t->test->dim == t->train->dim) return OLE_OK;
    ole_classes_destroy(classes);
    return ole_fail(error, OLE_ERROR_ARGUMENT,
                    "test features have %" PRId64 " dimensions, the training features %" PRId64,
                    t->test->dim, t->train->dim);
}

static const ole_classify_options defaults = {.struct_size = sizeof(ole_classify_options),
                                              .k = 5,
                                              .energy = 0.95,
                                              .sample = 10000,
                                              .threads = 1};

void ole_classify_options_init_sized(ole_classify_options *options, size_t struct_size) {
    ole_struct_fill(options, struct_size, &defaults);
}

ole_status ole_classify_features(ole_feature_errors *errors, const ole_embedding *train,
                                 const ole_embedding *test, const ole_classify_options *options,
                                 ole_error *error) {
    ole_classify_options o = defaults;
    ole_status status = ole_struct_read(&o, options, OLE_SIZE_UP_TO(ole_classify_options, context),
                                        "ole_classify_options_init", error);
    if (status != OLE_OK) return status;
    if (!errors)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_classify_features: errors is NULL");
    status = check_options(&o, error);
    if (status != OLE_OK) return status;
    task t = {.options = &o, .train = train, .test = test};
    status =
        ole_classes_open(&t.classes, &t.pool, "ole_classify_features", train, o.threads, error);
    if (status != OLE_OK) return status;
    ole_classes tested = {0};
    if (test) status = open_test(&tested, &t, error);
    if (status == OLE_OK) status = classify(&t, test ? &tested : &t.classes, errors, error);
    ole_classes_destroy(&tested);
    ole_classes_close(&t.classes, t.pool);
    return status;
}
