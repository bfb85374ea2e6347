/*
 * src/device/cuda/conv/dnn.c - one pass of a convolution by cuDNN's graph interface.
 *
 * A problem becomes an operation graph of one convolution and, for float, the addition of its bias
 * (with bfloat16 cuDNN requires a bfloat16 bias).  Heuristics list engine configurations (an engine
 * and the values of its knobs); those whose numerical notes break no rule become execution plans. A
 * configuration's name is its engine's number and its knobs, so it can be rebuilt without the
 * heuristics.
 */
#include "device/cuda/conv/dnn.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef cudnnBackendDescriptor_t descriptor;

enum { MAX_CONFIGS = 64 }; /* of one heuristic */

struct dnn_graph {
    cudnnHandle_t handle;
    cuda_problem problem;
    descriptor x, w, y, convolution, operation;
    descriptor sums, bias, addition, add_bias; /* NULL where there is no bias */
    descriptor graph;
};

/* ---- descriptors -------------------------------------------------------------------------- */

static descriptor create(cudnnBackendDescriptorType_t type) {
    descriptor made = NULL;
    return cudnnBackendCreateDescriptor(type, &made) == CUDNN_STATUS_SUCCESS ? made : NULL;
}

static void destroy(descriptor *d) {
    if (*d) cudnnBackendDestroyDescriptor(*d);
    *d = NULL;
}

static bool set(descriptor d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                int64_t count, const void *elements) {
    return d && cudnnBackendSetAttribute(d, name, type, count, elements) == CUDNN_STATUS_SUCCESS;
}

static bool set_number(descriptor d, cudnnBackendAttributeName_t name, int64_t value) {
    return set(d, name, CUDNN_TYPE_INT64, 1, &value);
}

static bool set_pair(descriptor d, cudnnBackendAttributeName_t name, int64_t value) {
    int64_t both[2] = {value, value}; /* rows and columns alike */
    return set(d, name, CUDNN_TYPE_INT64, 2, both);
}

static bool set_descriptor(descriptor d, cudnnBackendAttributeName_t name, descriptor value) {
    return value && set(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static bool finalize(descriptor d) {
    return d && cudnnBackendFinalize(d) == CUDNN_STATUS_SUCCESS;
}

/* Reads up to `room` elements; returns how many, -1 on failure. */
static int64_t get(descriptor d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   int64_t room, void *elements) {
    int64_t count = 0;
    if (!d ||
        cudnnBackendGetAttribute(d, name, type, room, &count, elements) != CUDNN_STATUS_SUCCESS)
        return -1;
    return room > 0 && count > room ? room : count;
}

static bool get_one(descriptor d, cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type, void *element) {
    return get(d, name, type, 1, element) >= 0;
}

/* ---- describing a problem ----------------------------------------------------------------- */

enum { ID_X = 1, ID_W, ID_Y, ID_BIAS, ID_SUMS };

/* A packed tensor of dims [n, c, h, w] with channels innermost. ID_SUMS has no memory: one
 * operation passes it to the next. */
static descriptor describe_tensor(int64_t id, cuda_type type, int64_t n, int64_t c, int64_t h,
                                  int64_t w) {
    bool passing = id == ID_SUMS;
    cudnnDataType_t element = type == CUDA_FLOAT ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16;
    int64_t dims[4] = {n, c, h, w}, strides[4] = {h * w * c, 1, w * c, c};
    descriptor d = create(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    bool ok = set_number(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, id) &&
              set(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &element) &&
              set_number(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDA_TENSOR_ALIGNMENT) &&
              set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims) &&
              set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides) &&
              set(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &passing) && finalize(d);
    if (!ok) destroy(&d);
    return d;
}

static descriptor describe_convolution(const cuda_problem *p) {
    cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    descriptor d = create(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    bool ok = set(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums) &&
              set(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode) &&
              set_number(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2) &&
              set_pair(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, 1) &&
              set_pair(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, p->stride) &&
              set_pair(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, p->pad) &&
              set_pair(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, p->pad) && finalize(d);
    if (!ok) destroy(&d);
    return d;
}

/* cuDNN's names for the tensors of each pass. */
typedef struct pass_names {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
} pass_names;

static const pass_names pass_table[] = {
    [CUDA_PASS_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [CUDA_PASS_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [CUDA_PASS_WEIGHT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static bool describe_operation(dnn_graph *g) {
    const pass_names *names = &pass_table[g->problem.pass];
    float alpha = 1.0f, beta = g->problem.add ? 1.0f : 0.0f;
    g->operation = create(names->operation);
    return set_descriptor(g->operation, names->convolution, g->convolution) &&
           set_descriptor(g->operation, names->x, g->x) &&
           set_descriptor(g->operation, names->w, g->w) &&
           set_descriptor(g->operation, names->y, g->sums ? g->sums : g->y) &&
           set(g->operation, names->alpha, CUDNN_TYPE_FLOAT, 1, &alpha) &&
           set(g->operation, names->beta, CUDNN_TYPE_FLOAT, 1, &beta) && finalize(g->operation);
}

/* y = sums + bias. */
static bool describe_bias(dnn_graph *g) {
    cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
    cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    g->addition = create(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    g->add_bias = create(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    return set(g->addition, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode) &&
           set(g->addition, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &sums) &&
           finalize(g->addition) &&
           set_descriptor(g->add_bias, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, g->addition) &&
           set_descriptor(g->add_bias, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, g->sums) &&
           set_descriptor(g->add_bias, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, g->bias) &&
           set_descriptor(g->add_bias, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, g->y) &&
           finalize(g->add_bias);
}

static bool describe(dnn_graph *g) {
    const cuda_problem *p = &g->problem;
    g->x = describe_tensor(ID_X, p->type, p->n, p->in, p->in_h, p->in_w);
    g->w = describe_tensor(ID_W, p->type, p->out, p->in, p->kernel, p->kernel);
    g->y = describe_tensor(ID_Y, p->type, p->n, p->out, p->out_h, p->out_w);
    g->convolution = describe_convolution(p);
    if (p->bias) {
        g->sums = describe_tensor(ID_SUMS, CUDA_FLOAT, p->n, p->out, p->out_h, p->out_w);
        g->bias = describe_tensor(ID_BIAS, CUDA_FLOAT, 1, p->out, 1, 1);
    }
    if (!describe_operation(g) || (p->bias && !describe_bias(g))) return false;
    descriptor operations[2] = {g->operation, g->add_bias};
    g->graph = create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    return set(g->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
               p->bias ? 2 : 1, operations) &&
           set(g->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->handle) &&
           finalize(g->graph);
}

dnn_graph *dnn_graph_create(cudnnHandle_t handle, const cuda_problem *problem) {
    dnn_graph *graph = calloc(1, sizeof *graph);
    if (!graph) return NULL;
    graph->handle = handle;
    graph->problem = *problem;
    if (describe(graph)) return graph;
    dnn_graph_destroy(graph);
    return NULL;
}

void dnn_graph_destroy(dnn_graph *graph) {
    if (!graph) return;
    descriptor *all[] = {&graph->graph,       &graph->add_bias, &graph->addition, &graph->operation,
                         &graph->convolution, &graph->sums,     &graph->bias,     &graph->x,
                         &graph->w,           &graph->y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        destroy(all[i]);
    free(graph);
}

/* ---- configurations ----------------------------------------------------------------------- */

static bool note_obeys(const cuda_problem *p, cudnnBackendNumericalNote_t note) {
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        return false;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: /* on float: tf32 */
        return p->precision != OLE_PRECISION_FP32;
    case CUDNN_NUMERICAL_NOTE_FFT:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        return !p->direct;
    default:
        return true;
    }
}

static bool engine_obeys(const cuda_problem *p, descriptor engine) {
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                        CUDNN_NUMERICAL_NOTE_TYPE_COUNT, note);
    if (count < 0) return false;
    for (int64_t i = 0; i < count; i++)
        if (!note_obeys(p, note[i])) return false;
    return true;
}

/* Writes the knobs of a name; false if they do not fit or cannot be read. */
static bool name_knobs(descriptor config, char *name, size_t size) {
    descriptor knob[CUDNN_KNOB_TYPE_COUNTS];
    bool ok = true;
    for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; i++) {
        knob[i] = create(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        ok &= knob[i] != NULL;
    }
    int64_t count = ok ? get(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                             CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS, knob)
                       : -1;
    for (int64_t i = 0; i < count && ok; i++) {
        cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
        int64_t value = 0;
        ok = get_one(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, &type) &&
             get_one(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, &value);
        int written = snprintf(name, size, ":%d=%lld", (int)type, (long long)value);
        ok = ok && written > 0 && (size_t)written < size;
        name += ok ? written : 0;
        size -= ok ? (size_t)written : 0;
    }
    for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; i++)
        destroy(&knob[i]);
    return ok && count >= 0;
}

/* Names a configuration of the heuristics, if its engine obeys the problem. */
static bool name_config(const dnn_graph *g, descriptor config, char name[CUDA_ALGORITHM_NAME]) {
    descriptor engine = create(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t index = -1;
    bool ok =
        get_one(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, &engine) &&
        get_one(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, &index) &&
        engine_obeys(&g->problem, engine);
    destroy(&engine);
    if (!ok) return false;
    int written = snprintf(name, CUDA_ALGORITHM_NAME, "cudnn:%lld", (long long)index);
    return name_knobs(config, name + written, CUDA_ALGORITHM_NAME - (size_t)written);
}

/* Rebuilds a configuration from the numbers of its name; NULL if this cuDNN has none. */
static descriptor rebuild_config(const dnn_graph *g, int64_t index, const int *types,
                                 const int64_t *values, int knobs) {
    descriptor knob[CUDNN_KNOB_TYPE_COUNTS] = {NULL};
    descriptor engine = create(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    descriptor config = create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    bool ok = set_descriptor(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, g->graph) &&
              set_number(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, index) && finalize(engine) &&
              engine_obeys(&g->problem, engine) &&
              set_descriptor(config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    for (int i = 0; i < knobs && ok; i++) {
        cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)types[i];
        knob[i] = create(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        ok = set(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type) &&
             set_number(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, values[i]) && finalize(knob[i]);
    }
    if (ok && knobs > 0)
        ok = set(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, knobs,
                 knob);
    if (!ok || !finalize(config)) destroy(&config);
    destroy(&engine);
    for (int i = 0; i < knobs; i++)
        destroy(&knob[i]);
    return config;
}

/* Up to MAX_CONFIGS configurations of one heuristic, the best first. */
static int list_configs(const dnn_graph *g, cudnnBackendHeurMode_t mode,
                        descriptor config[MAX_CONFIGS]) {
    descriptor heuristic = create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    bool ok = set_descriptor(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g->graph) &&
              set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode) &&
              finalize(heuristic);
    int64_t there =
        ok ? get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, NULL)
           : 0;
    int made = 0;
    while (made < there && made < MAX_CONFIGS &&
           (config[made] = create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)))
        made++;
    int64_t count = made > 0 ? get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, made, config)
                             : 0;
    if (count < 0) count = 0;
    while (made > count)
        destroy(&config[--made]);
    destroy(&heuristic);
    return made;
}

/* ---- plans -------------------------------------------------------------------------------- */

/* Makes a plan of a configuration, which the algorithm then owns; on failure it is destroyed. */
static bool make_algorithm(const dnn_graph *g, descriptor config, size_t workspace,
                           cuda_algorithm *algorithm) {
    int64_t bytes = 0;
    algorithm->kind = CUDA_ALGORITHM_DNN;
    algorithm->bias = g->problem.bias;
    algorithm->config = config;
    algorithm->plan = create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    bool ok =
        set(algorithm->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->handle) &&
        set_descriptor(algorithm->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config) &&
        finalize(algorithm->plan) &&
        get_one(algorithm->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                &bytes) &&
        bytes >= 0 && (uint64_t)bytes <= workspace;
    algorithm->workspace = (size_t)bytes;
    if (!ok) dnn_algorithm_release(algorithm);
    return ok;
}

static bool is_known(const cuda_algorithm *algorithms, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(algorithms[i].name, name) == 0) return true;
    return false;
}

typedef struct gathering {
    const dnn_graph *graph;
    size_t workspace;
    double deadline;
    cuda_algorithm *algorithms;
    int count, room;
} gathering;

static bool is_enough(const gathering *g) {
    return g->count == g->room || (g->count > 0 && ole_clock() > g->deadline);
}

static void gather_from(gathering *g, cudnnBackendHeurMode_t mode) {
    descriptor config[MAX_CONFIGS];
    int there = list_configs(g->graph, mode, config);
    for (int i = 0; i < there; i++) {
        char name[CUDA_ALGORITHM_NAME];
        if (is_enough(g) || !name_config(g->graph, config[i], name) ||
            is_known(g->algorithms, g->count, name)) {
            destroy(&config[i]);
            continue;
        }
        cuda_algorithm *algorithm = &g->algorithms[g->count];
        if (!make_algorithm(g->graph, config[i], g->workspace, algorithm)) continue;
        memcpy(algorithm->name, name, sizeof name);
        g->count++;
    }
}

/* If no heuristic has an engine that obeys: tries every engine with default knobs. */
static void gather_all(gathering *g) {
    int64_t engines = 0;
    get_one(g->graph->graph, CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64,
            &engines);
    for (int64_t i = 0; i < engines && !is_enough(g); i++) {
        char name[CUDA_ALGORITHM_NAME];
        snprintf(name, sizeof name, "cudnn:%lld", (long long)i);
        if (dnn_graph_named(g->graph, g->workspace, name, &g->algorithms[g->count])) g->count++;
    }
}

int dnn_graph_algorithms(const dnn_graph *graph, size_t workspace, double deadline,
                         cuda_algorithm *algorithms, int room) {
    gathering g = {graph, workspace, deadline, algorithms, 0, room};
    gather_from(&g, CUDNN_HEUR_MODE_A);
    gather_from(&g, CUDNN_HEUR_MODE_B);
    gather_from(&g, CUDNN_HEUR_MODE_FALLBACK);
    if (g.count == 0) gather_all(&g);
    return g.count;
}

bool dnn_graph_named(const dnn_graph *graph, size_t workspace, const char *name,
                     cuda_algorithm *algorithm) {
    int types[CUDNN_KNOB_TYPE_COUNTS], knobs = 0, used = 0;
    int64_t values[CUDNN_KNOB_TYPE_COUNTS];
    long long index, value;
    if (strlen(name) >= CUDA_ALGORITHM_NAME || sscanf(name, "cudnn:%lld%n", &index, &used) != 1)
        return false;
    const char *rest = name + used;
    while (*rest) {
        if (knobs == CUDNN_KNOB_TYPE_COUNTS ||
            sscanf(rest, ":%d=%lld%n", &types[knobs], &value, &used) != 2)
            return false;
        values[knobs++] = value;
        rest += used;
    }
    descriptor config = rebuild_config(graph, index, types, values, knobs);
    if (!config || !make_algorithm(graph, config, workspace, algorithm)) return false;
    snprintf(algorithm->name, sizeof algorithm->name, "%s", name);
    return true;
}

void dnn_algorithm_release(cuda_algorithm *algorithm) {
    destroy(&algorithm->plan);
    destroy(&algorithm->config);
}

/* ---- running ------------------------------------------------------------------------------ */

cudnnStatus_t dnn_algorithm_run(cudnnHandle_t handle, const cuda_algorithm *algorithm,
                                const cuda_arrays *arrays) {
    int64_t ids[4] = {ID_X, ID_W, ID_Y, ID_BIAS}, count = algorithm->bias ? 4 : 3;
    void *pointers[4] = {arrays->x, arrays->w, arrays->y, (void *)arrays->bias};
    void *workspace = arrays->workspace;
    cudnnStatus_t status = cudnnSetStream(handle, arrays->stream);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    descriptor pack = create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    bool ok =
        set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids) &&
        set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers) &&
        set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace) &&
        finalize(pack);
    status = ok ? cudnnBackendExecute(handle, algorithm->plan, pack) : CUDNN_STATUS_BAD_PARAM;
    destroy(&pack);
    return status;
}
