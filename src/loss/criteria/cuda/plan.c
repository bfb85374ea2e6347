/*
 * src/loss/criteria/cuda/plan.c - plans of the criteria on a GPU: their memory there, which kernels
 * an evaluation queues, and the table "ole_cuda_criterion" (loss/criteria/cuda.h).
 */
#include "base/arena.h"
#include "base/error.h"
#include "base/min_max.h"
#include "loss/criteria/criterion.h"
#include "loss/criteria/cuda/call.h"
#include "loss/cuda.h"
#include "loss/cuda/call.h"

#include <float.h>
#include <string.h>

_Static_assert((int)CRITERION_CALL_PARAMS == (int)OLE_CRITERION_PARAMS, "call.h has its own count");

/* What a criterion reads, and how its kernels are surrounded. */
typedef enum family {
    DISTANCES, /* square[0] = distances of unit rows, then du = square[0] u */
    COSINES,   /* the same from their cosines */
    CLASSES,   /* cosines of unit rows and unit class vectors, and back from dlogits */
    LOGITS,    /* products of plain rows and class vectors, and back from dlogits */
    CENTERS,   /* plain rows */
    SPECTRAL   /* two evaluations of OLÉ */
} family;

static const struct kind {
    const char *name;
    family family;
    cudaError_t (*launch)(const criterion_call *call, cudaStream_t stream);
} kinds[] = {
    {"center", CENTERS, criterion_center},       {"contrastive", DISTANCES, criterion_contrastive},
    {"triplet", DISTANCES, criterion_triplet},   {"l-softmax", CLASSES, criterion_l_softmax},
    {"a-softmax", CLASSES, criterion_a_softmax}, {"cosface", CLASSES, criterion_cosface},
    {"arcface", CLASSES, criterion_arcface},     {"supcon", COSINES, criterion_supcon},
    {"mcr2", COSINES, criterion_mcr2},           {"opl", COSINES, criterion_opl},
    {"ssole", SPECTRAL, criterion_ssole},        {"logit-norm", LOGITS, criterion_logit_norm},
    {"ole-unit", SPECTRAL, criterion_ole_unit},
};

struct ole_cuda_criterion {
    const struct kind *kind;
    int gpu;
    int64_t rows;        /* at most */
    criterion_call call; /* the part that is the same for all evaluations */
    loss_call group;     /* likewise */
    bool centred;        /* SPECTRAL: classes are */
    double smooth;
    ole_cuda_loss *loss[2]; /* of the classes, of the whole */
    ole_loss_outcome *outcome[2];
    void *memory;
};

extern const ole_cuda_loss_table ole_cuda_loss_entry __asm__("ole_cuda_loss");

static ole_status fail_cuda(cudaError_t code, const char *doing, ole_error *error) {
    ole_status status =
        code == cudaErrorMemoryAllocation ? OLE_ERROR_MEMORY : OLE_ERROR_UNSUPPORTED;
    return ole_fail(error, status, "CUDA: %s: %s", doing, cudaGetErrorString(code));
}

/* ---- Planning ----------------------------------------------------------------------------- */

static bool reads_classes(const ole_cuda_criterion *p) {
    return p->kind->family == CLASSES || p->kind->family == LOGITS;
}

/* The lengths of features and class vectors enter the logits. */
static bool is_angular(const ole_cuda_criterion *p) {
    return p->kind->launch == criterion_l_softmax || p->kind->launch == criterion_a_softmax;
}

static void place_group(ole_cuda_criterion *p, ole_arena *arena) {
    loss_call *g = &p->group;
    g->used = ole_arena_take(arena, 1, sizeof *g->used);
    g->order = ole_arena_take(arena, p->rows, sizeof *g->order);
    g->first = ole_arena_take(arena, p->rows, sizeof *g->first);
    g->count = ole_arena_take(arena, p->rows, sizeof *g->count);
    g->label = ole_arena_take(arena, p->rows, sizeof *g->label);
    g->bad = ole_arena_take(arena, p->rows, sizeof *g->bad);
    p->call.used = g->used;
    p->call.order = g->order;
    p->call.first = g->first;
    p->call.count = g->count;
    p->call.bad = g->bad;
}

static void place_classes(ole_cuda_criterion *p, ole_arena *arena) {
    criterion_call *c = &p->call;
    int64_t rows = p->rows, classes = c->classes, vectors = classes * c->dim;
    bool cosines = p->kind->family == CLASSES;
    double **vector = cosines ? &c->unit_w : &c->w;
    *vector = ole_arena_take(arena, vectors, sizeof **vector);
    c->w_length = ole_arena_take(arena, classes, sizeof *c->w_length);
    c->dunit_w = ole_arena_take(arena, vectors, sizeof *c->dunit_w);
    c->cosines = ole_arena_take(arena, cosines ? rows * classes : 0, sizeof *c->cosines);
    c->logits = ole_arena_take(arena, rows * classes, sizeof *c->logits);
    c->dlogits = ole_arena_take(arena, rows * classes, sizeof *c->dlogits);
    c->right = ole_arena_take(arena, rows, sizeof *c->right);
}

/* What is not copied is the source itself. */
static void place_spectral(ole_cuda_criterion *p, ole_arena *arena) {
    criterion_call *c = &p->call;
    int64_t size = p->rows * c->pitch, wide = p->smooth > 0.0 ? size : 0;
    c->sorted_labels = ole_arena_take(arena, p->rows, sizeof *c->sorted_labels);
    c->wide = ole_arena_take(arena, wide, sizeof *c->wide);
    c->centred = ole_arena_take(arena, p->centred ? size : wide, sizeof *c->centred);
    for (int i = 0; i < 2; i++) {
        c->slopes[i] = ole_arena_take(arena, size, sizeof *c->slopes[i]);
        p->outcome[i] = ole_arena_take(arena, 1, sizeof *p->outcome[i]);
        c->spectra[i] = p->outcome[i];
    }
    double *source = c->unit ? c->u : c->x;
    if (wide == 0) c->wide = source;
    if (wide == 0 && !p->centred) c->centred = source;
    c->du = c->slopes[0];
    c->du_pitch = c->pitch;
}

static void place(ole_cuda_criterion *p, ole_arena *arena) {
    criterion_call *c = &p->call;
    family f = p->kind->family;
    int64_t rows = p->rows, size = rows * c->dim;
    place_group(p, arena);
    double **source = c->unit ? &c->u : &c->x;
    *source = ole_arena_take(arena, size, sizeof **source);
    c->length = ole_arena_take(arena, rows, sizeof *c->length);
    c->value = ole_arena_take(arena, rows, sizeof *c->value);
    for (int i = 0; i < 2; i++) {
        int64_t pairs = f == DISTANCES || f == COSINES ? rows * rows : 0;
        c->square[i] = ole_arena_take(arena, pairs, sizeof *c->square[i]);
        c->room[i] = ole_arena_take(arena, rows, sizeof *c->room[i]);
    }
    c->pivot = ole_arena_take(arena, 2L * RATE_TILE * RATE_TILE, sizeof *c->pivot);
    if (is_angular(p)) c->along = ole_arena_take(arena, rows, sizeof *c->along);
    if (reads_classes(p)) place_classes(p, arena);
    if (f == SPECTRAL) {
        place_spectral(p, arena);
    } else {
        c->du = ole_arena_take(arena, size, sizeof *c->du);
        c->du_pitch = c->dim;
    }
}

/* A plan may be made, and freed, while a stream is being captured in a graph. */
static cudaError_t allocate(ole_cuda_criterion *p) {
    ole_arena arena = {0};
    place(p, &arena);
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    cudaError_t code = cudaMalloc(&p->memory, arena.used);
    cudaThreadExchangeStreamCaptureMode(&mode);
    arena = (ole_arena){.base = p->memory};
    if (code == cudaSuccess) place(p, &arena);
    return code;
}

/* The evaluations of OLÉ: of the classes' terms, then of the whole's. */
static ole_status plan_losses(ole_cuda_criterion *p, ole_error *error) {
    const criterion_call *c = &p->call;
    bool ssole = p->kind->launch == criterion_ssole;
    ole_status status = OLE_OK;
    for (int i = 0; i < 2 && status == OLE_OK; i++) {
        ole_loss_options options;
        ole_loss_options_init(&options);
        options.device = OLE_DEVICE_CUDA;
        options.gpu = p->gpu;
        options.reduction = ssole ? OLE_REDUCTION_SUM : OLE_REDUCTION_MEAN;
        options.weight = ssole || i == 0 ? 1.0 : c->param[2];
        options.delta_floor = ssole || i == 1 ? 0.0 : c->param[4];
        options.delta_abs = p->smooth > 0.0 ? 0.0 : 1e-6; /* as in parts.c */
        options.delta_rel = p->smooth > 0.0 ? 0.0 : 64.0 * FLT_EPSILON;
        status =
            ole_cuda_loss_entry.create(&p->loss[i], p->rows, c->pitch, OLE_F64, &options, error);
        if (status == OLE_OK)
            loss_restrict(p->loss[i], i == 0 ? LOSS_CLASSES : LOSS_WHOLE, p->smooth);
    }
    if (status != OLE_OK) return status;
    p->call.norms[0] = loss_norms(p->loss[0]);
    p->call.norms[1] = loss_norms(p->loss[1]) + p->rows;
    return OLE_OK;
}

static void destroy(ole_cuda_criterion *p) {
    if (!p) return;
    for (int i = 0; i < 2; i++)
        ole_cuda_loss_entry.destroy(p->loss[i]);
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    if (cudaFree(p->memory) != cudaSuccess) cudaGetLastError(); /* not for the next launch */
    cudaThreadExchangeStreamCaptureMode(&mode);
    free(p);
}

static const struct kind *find_kind(const char *name) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
    return NULL;
}

static bool has(const char *name) {
    return find_kind(name) != NULL;
}

static void fill(ole_cuda_criterion *p, const ole_criterion_plan_options *o) {
    criterion_call *c = &p->call;
    bool ole_unit = p->kind->launch == criterion_ole_unit;
    c->dim = (int)o->dim;
    c->classes = (int)o->classes;
    for (int i = 0; i < OLE_CRITERION_PARAMS; i++)
        c->param[i] = o->param[i];
    c->unit = p->kind->family != LOGITS && p->kind->family != CENTERS;
    if (ole_unit) c->unit = c->param[0] != 0.0;
    c->lengths = p->kind->launch == criterion_l_softmax;
    p->centred = ole_unit ? c->unit && c->param[1] != 0.0 : p->kind->family == SPECTRAL;
    p->smooth = ole_unit ? c->param[3] : 0.0;
    c->pitch = c->dim + (p->smooth > 0.0 ? p->rows : 0);
}

/* Makes the plan's GPU the current one; `before` receives the previous one. */
static cudaError_t enter(const ole_cuda_criterion *p, int *before) {
    cudaError_t code = cudaGetDevice(before);
    return code == cudaSuccess && *before != p->gpu ? cudaSetDevice(p->gpu) : code;
}

static void leave(const ole_cuda_criterion *p, int before) {
    if (before != p->gpu) cudaSetDevice(before);
}

static ole_status prepare(ole_cuda_criterion *p, ole_error *error) {
    cudaError_t code = allocate(p);
    if (code == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* it has been heard */
        return ole_fail(error, OLE_ERROR_MEMORY, "cuda:%d is out of memory for the loss %s", p->gpu,
                        p->kind->name);
    }
    if (code != cudaSuccess) return fail_cuda(code, "planning the loss", error);
    return p->kind->family == SPECTRAL ? plan_losses(p, error) : OLE_OK;
}

static ole_status create(ole_cuda_criterion **result, const ole_criterion_plan_options *options,
                         int gpu, ole_error *error) {
    enum { LONGEST_SIDE = 1 << 24 }; /* that grids can cover */
    int64_t longest = ole_max(ole_max(options->rows, options->dim), options->classes);
    *result = NULL;
    if (longest > LONGEST_SIDE)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the loss %s",
                        options->criterion->name);
    ole_cuda_criterion *p = calloc(1, sizeof *p);
    if (!p) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    p->kind = find_kind(options->criterion->name);
    p->gpu = gpu;
    p->rows = options->rows;
    fill(p, options);
    int before = 0;
    cudaError_t code = enter(p, &before);
    ole_status status =
        code == cudaSuccess ? prepare(p, error) : fail_cuda(code, "selecting the GPU", error);
    if (code == cudaSuccess) leave(p, before);
    if (status == OLE_OK)
        *result = p;
    else
        destroy(p);
    return status;
}

/* ---- Queueing ----------------------------------------------------------------------------- */

enum { USED = -1 };

/* The vectors of a [.., pitch] matrix: its rows, or its columns. */
static criterion_vectors rows_of(const double *at, int64_t pitch) {
    return (criterion_vectors){at, pitch, 1};
}

static criterion_vectors columns_of(const double *at, int64_t pitch) {
    return (criterion_vectors){at, 1, pitch};
}

static cudaError_t multiply(const criterion_call *c, criterion_vectors a, int n,
                            criterion_vectors b, int m, int depth, double *to, int64_t pitch,
                            cudaStream_t stream) {
    const criterion_product product = {a, b, to, pitch, n, m, depth, c->used};
    return criterion_multiply(&product, c->rows, stream);
}

static cudaError_t queue_pairs(const ole_cuda_criterion *p, const criterion_call *c,
                               cudaStream_t stream) {
    criterion_vectors u = rows_of(c->u, c->dim);
    cudaError_t code = p->kind->family == DISTANCES
                           ? criterion_distances(c, stream)
                           : multiply(c, u, USED, u, USED, c->dim, c->square[0], c->rows, stream);
    if (code == cudaSuccess) code = p->kind->launch(c, stream);
    if (code == cudaSuccess)
        code = multiply(c, rows_of(c->square[0], c->rows), USED, columns_of(c->u, c->dim), c->dim,
                        USED, c->du, c->dim, stream);
    return code;
}

static cudaError_t queue_classes(const ole_cuda_criterion *p, const criterion_call *c,
                                 cudaStream_t stream) {
    int dim = c->dim, classes = c->classes;
    const double *x = c->unit ? c->u : c->x, *w = c->unit ? c->unit_w : c->w;
    double *products = c->unit ? c->cosines : c->logits;
    cudaError_t code = criterion_class_vectors(c, stream);
    if (code == cudaSuccess)
        code = multiply(c, rows_of(x, dim), USED, rows_of(w, dim), classes, dim, products, classes,
                        stream);
    if (code == cudaSuccess) code = p->kind->launch(c, stream);
    if (code == cudaSuccess)
        code = multiply(c, rows_of(c->dlogits, classes), USED, columns_of(w, dim), dim, classes,
                        c->du, dim, stream);
    if (code == cudaSuccess)
        code = multiply(c, columns_of(c->dlogits, classes), classes, columns_of(x, dim), dim, USED,
                        c->dunit_w, dim, stream);
    if (code == cudaSuccess) code = criterion_class_gradients(c, stream);
    return code;
}

static ole_status queue_losses(const ole_cuda_criterion *p, const criterion_call *c,
                               cudaStream_t stream, ole_error *error) {
    bool sums = p->kind->launch == criterion_ole_unit; /* of both gradients */
    cudaError_t code = criterion_spectral_rows(c, p->centred, p->smooth, stream);
    if (code != cudaSuccess) return fail_cuda(code, "queueing the loss", error);
    for (int i = 0; i < 2; i++) {
        const ole_loss_batch batch = {.rows = c->rows,
                                      .features = i == 0 ? c->centred : c->wide,
                                      .labels = c->sorted_labels,
                                      .label_type = OLE_I32};
        const ole_loss_gradient gradient = {
            .data = c->slopes[sums ? 0 : i], .upstream = 1.0, .accumulate = sums && i == 1};
        ole_status status =
            ole_cuda_loss_entry.queue(p->loss[i], &batch, &gradient, p->outcome[i], stream, error);
        if (status != OLE_OK) return status;
    }
    code = p->kind->launch(c, stream);
    return code == cudaSuccess ? OLE_OK : fail_cuda(code, "queueing the loss", error);
}

static ole_status queue_kernels(const ole_cuda_criterion *p, const criterion_call *c,
                                const loss_call *group, cudaStream_t stream, ole_error *error) {
    ole_status status = OLE_OK;
    cudaError_t code = loss_launch_group(group, stream);
    if (code == cudaSuccess) code = criterion_sort_rows(c, stream);
    if (code == cudaSuccess && p->kind->family == SPECTRAL)
        status = queue_losses(p, c, stream, error);
    else if (code == cudaSuccess && p->kind->family == CENTERS)
        code = p->kind->launch(c, stream);
    else if (code == cudaSuccess)
        code = reads_classes(p) ? queue_classes(p, c, stream) : queue_pairs(p, c, stream);
    if (status != OLE_OK) return status;
    if (code == cudaSuccess) code = criterion_row_gradients(c, stream);
    if (code == cudaSuccess) code = criterion_finish(c, stream);
    return code == cudaSuccess ? OLE_OK : fail_cuda(code, "queueing the loss", error);
}

static ole_status queue(ole_cuda_criterion *p, const ole_criterion_queued *batch,
                        const ole_criterion_slopes *slopes, ole_criterion_outcome *outcome,
                        void *stream, ole_error *error) {
    criterion_call c = p->call;
    loss_call group = p->group;
    c.in = *batch;
    c.out = *slopes;
    c.outcome = outcome;
    c.rows = (int)batch->rows;
    group.x = batch->x;
    group.x_stride = c.dim;
    group.labels = batch->labels;
    group.dtype = OLE_F32;
    group.rows = c.rows;
    group.dim = c.dim;
    int before = 0;
    cudaError_t code = enter(p, &before);
    if (code != cudaSuccess) return fail_cuda(code, "selecting the GPU", error);
    ole_status status = queue_kernels(p, &c, &group, stream, error);
    leave(p, before);
    return status;
}

__attribute__((visibility("default"))) extern const ole_cuda_criterion_table
    ole_cuda_criterion_entry __asm__("ole_cuda_criterion");
const ole_cuda_criterion_table ole_cuda_criterion_entry = {
    .has = has,
    .create = create,
    .destroy = destroy,
    .queue = queue,
};
