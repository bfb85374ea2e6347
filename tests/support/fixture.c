/* tests/support/fixture.c - batches for the tests of the loss. */
#include "fixture.h"

#include "test.h"

#include <stdlib.h>
#include <string.h>

static void *room(int64_t count, size_t size) {
    void *p = calloc((size_t)count, size);
    assert_non_null(p);
    return p;
}

static void allocate(fixture *f) {
    f->count = f->rows * f->dim;
    f->x = room(f->count, sizeof *f->x);
    f->labels = room(f->rows, sizeof *f->labels);
    f->features = room(f->count, sizeof(double));
    f->raw = room(f->count, sizeof(double));
    f->gradient = room(f->count, sizeof *f->gradient);
    f->class = room(f->rows, sizeof *f->class);
}

fixture fixture_make(int64_t rows, int64_t dim, int64_t classes, case_structure structure,
                     ole_dtype dtype, uint64_t seed) {
    fixture f = {.rows = rows, .dim = dim, .dtype = dtype, .upstream = 1.0};
    allocate(&f);
    ole_loss_options_init(&f.options);
    test_random random = {seed};
    case_labels(f.labels, rows, classes, NULL);
    case_fill(structure, f.x, f.labels, rows, dim, &random);
    fixture_load(&f);
    return f;
}

fixture fixture_copy(const fixture *from) {
    fixture f = *from;
    allocate(&f);
    memcpy(f.x, from->x, (size_t)f.count * sizeof *f.x);
    memcpy(f.labels, from->labels, (size_t)f.rows * sizeof *f.labels);
    return f;
}

void fixture_free(fixture *f) {
    free(f->x);
    free(f->labels);
    free(f->features);
    free(f->raw);
    free(f->gradient);
    free(f->class);
}

void fixture_load(fixture *f) {
    if (f->dtype == OLE_F32)
        case_round(f->features, f->x, f->count);
    else
        memcpy(f->features, f->x, (size_t)f->count * sizeof *f->x);
}

ole_loss_plan *fixture_plan(const fixture *f, int64_t max_rows) {
    ole_loss_plan *plan;
    ole_error error;
    assert_ok(ole_loss_plan_create(&plan, max_rows, f->dim, f->dtype, &f->options, &error), &error);
    return plan;
}

ole_loss_batch fixture_batch(const fixture *f) {
    return (ole_loss_batch){
        .rows = f->rows, .features = f->features, .labels = f->labels, .label_type = OLE_I64};
}

ole_loss_gradient fixture_destination(const fixture *f) {
    return (ole_loss_gradient){.data = f->raw, .upstream = f->upstream};
}

void fixture_evaluate_with(fixture *f, ole_loss_plan *plan) {
    fixture_load(f);
    memset(f->raw, 0xff, (size_t)f->count * ole_dtype_size(f->dtype)); /* NaN */
    f->result = (ole_loss_result){.per_class = f->class, .per_class_capacity = f->rows};
    ole_loss_batch batch = fixture_batch(f);
    ole_loss_gradient destination = fixture_destination(f);
    ole_error error;
    assert_ok(ole_loss_eval(plan, &batch, &destination, &f->result, &error), &error);
    for (int64_t i = 0; i < f->count; i++)
        f->gradient[i] = f->dtype == OLE_F32 ? ((float *)f->raw)[i] : ((double *)f->raw)[i];
}

void fixture_evaluate(fixture *f) {
    ole_loss_plan *plan = fixture_plan(f, f->rows);
    fixture_evaluate_with(f, plan);
    ole_loss_plan_destroy(plan);
}

double fixture_value_bound(const fixture *f) {
    double norms = 0.0;
    for (int64_t c = 0; c < f->result.classes; c++)
        norms += f->class[c].norm;
    return (f->dtype == OLE_F32 ? 1e-6 : 1e-12) * norms;
}

double fixture_gradient_bound(const fixture *f) {
    return (f->dtype == OLE_F32 ? 1e-5 : 1e-9) * sqrt((double)f->result.rows);
}

double fixture_factor(const fixture *f) {
    bool mean = f->options.reduction == OLE_REDUCTION_MEAN;
    return f->options.weight / (mean ? (double)f->result.rows : 1.0);
}

double inner(const double *a, const double *b, int64_t count) {
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

double distance(const double *a, const double *b, int64_t count) {
    double square = 0.0;
    for (int64_t i = 0; i < count; i++)
        square += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(square);
}
