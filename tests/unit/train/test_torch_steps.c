/*
 * tests/unit/train/test_torch_steps.c - the engine against PyTorch: a small net of every kind of
 * block, the same first weights and batches, twenty steps of each rule of training; losses and
 * final weights.
 *
 * The numbers are of PyTorch in float64 (tests/recorded/torch_steps.py, which also has the nets
 * written out): ref64 must meet them to rounding, the float backends within what the project
 * promises.
 */
#include "gpu.h"
#include "net/plan.h"
#include "op_checks.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 20, BATCH = 8, CLASSES = 4, IMAGE = 3 * 8 * 8, MOST_PARAMS = 64 };

typedef struct recorded_run {
    const char *net;
    const char *rule;
    int params;
    double loss[STEPS];
    struct {
        const char *name;
        double norm, projection, first,
            last; /* of all elements; on uniform("check"); two of them */
    } param[MOST_PARAMS];
} recorded_run;

#include "../../recorded/torch_steps.h"

enum { RUNS = sizeof recorded / sizeof *recorded };

/* ---- numbers that both sides compute -------------------------------------------------------- */

static uint32_t key_of(const char *name) {
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}

static uint32_t bits(const char *name, int64_t i) {
    uint32_t z = key_of(name) + (uint32_t)i * 0x9E3779B9u;
    z = (z ^ (z >> 16)) * 0x7FEB352Du;
    z = (z ^ (z >> 15)) * 0x846CA68Bu;
    return z ^ (z >> 16);
}

static double uniform(const char *name, int64_t i) {
    return (double)(bits(name, i) >> 8) * 0x1p-23 - 1;
}

static void fill_batch(int step, float *images, int32_t *labels) {
    char noise[32], names[32], pattern[32];
    snprintf(noise, sizeof noise, "images%d", step);
    snprintf(names, sizeof names, "labels%d", step);
    for (int n = 0; n < BATCH; n++) {
        labels[n] = (int32_t)(bits(names, n) % CLASSES);
        snprintf(pattern, sizeof pattern, "class%d", (int)labels[n]);
        for (int i = 0; i < IMAGE; i++)
            images[n * IMAGE + i] = (float)(uniform(pattern, i) + uniform(noise, n * IMAGE + i));
    }
}

static double first_value(const ole_param *p, int64_t i) {
    double u = uniform(p->name, i);
    switch (p->kind) {
    case OLE_PARAM_WEIGHT:
        return sqrt(3.0 / (double)(p->count / p->shape[0])) * u;
    case OLE_PARAM_GAMMA:
        return 1 + 0.25 * u;
    case OLE_PARAM_MEAN:
        return 0;
    case OLE_PARAM_VAR:
        return 1;
    default:
        return 0.25 + 0.125 * u;
    }
}

/* ---- a run ---------------------------------------------------------------------------------- */

typedef struct engine {
    const ole_backend *backend;
    ole_device_context *context;
    ole_graph *graph;
    ole_params *params;
    ole_plan *plan;
} engine;

/* The rules of torch_steps.py. */
typedef struct training_rule {
    const char *name;
    ole_update update;
    double smoothing, backbone; /* its learning rate; 0: like the classifier's */
} training_rule;

static const training_rule rules[] = {
    {.name = "sgd",
     .update = {OLE_UPDATE_SGD, .lr = 0.02, .momentum = 0.9, .nesterov = true,
                .weight_decay = 1e-4}},
    {.name = "adam",
     .update = {OLE_UPDATE_ADAM, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8,
                .weight_decay = 1e-4}},
    {.name = "adamw",
     .update = {OLE_UPDATE_ADAM, .lr = 1e-3, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6,
                .weight_decay = 0.5, .decoupled = true}},
    {.name = "smooth",
     .update = {OLE_UPDATE_SGD, .lr = 0.02, .momentum = 0.9, .nesterov = true,
                .weight_decay = 1e-4},
     .smoothing = 0.1},
    {.name = "clip",
     .update = {OLE_UPDATE_SGD, .lr = 0.02, .momentum = 0.9, .nesterov = true, .weight_decay = 1e-4,
                .clip = 1.25}},
    {.name = "average",
     .update = {OLE_UPDATE_SGD, .lr = 0.02, .momentum = 0.9, .nesterov = true, .weight_decay = 1e-4,
                .average = 0.9}},
    {.name = "groups",
     .update = {OLE_UPDATE_ADAM, .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8,
                .weight_decay = 0.5, .decoupled = true},
     .backbone = 0.1},
};

static const training_rule *find_rule(const char *name) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].name, name) == 0) return &rules[i];
    fail_msg("no rule %s", name);
    return NULL;
}

static float *room_for(const ole_param *p) {
    float *plain = malloc((size_t)p->count * sizeof *plain);
    assert_non_null(plain);
    return plain;
}

static engine start(const ole_backend *backend, const char *net, const training_rule *rule) {
    engine e = {.backend = backend, .context = op_open(backend, OLE_CONV_AUTO, 1)};
    ole_plan_options options = {.batch = BATCH, .train = true, .smoothing = rule->smoothing};
    ole_error error;
    assert_ok(ole_graph_parse(&e.graph, net, (ole_shape){3, 8, 8}, CLASSES, &error), &error);
    assert_ok(ole_graph_fuse(e.graph, backend->fuses_add, &error), &error);
    assert_ok(ole_params_create(&e.params, e.graph, backend, e.context, true, 2, &error), &error);
    assert_ok(ole_plan_create(&e.plan, e.graph, e.params, backend, e.context, &options, &error),
              &error);
    for (int i = 0; i < e.graph->params; i++) {
        const ole_param *p = &e.graph->param[i];
        float *plain = room_for(p);
        for (int64_t k = 0; k < p->count; k++)
            plain[k] = (float)first_value(p, k);
        ole_params_set(e.params, i, plain);
        if (rule->backbone > 0.0 && p->node != e.graph->classifier)
            ole_params_set_rate(e.params, i, rule->backbone);
        free(plain);
    }
    if (rule->update.average > 0.0) assert_ok(ole_params_average(e.params, &error), &error);
    return e;
}

static void close_engine(engine *e) {
    ole_plan_free(e->plan);
    ole_params_free(e->params);
    ole_graph_free(e->graph);
    e->backend->close(e->context);
}

static double train_step(engine *e, const training_rule *rule, int step) {
    ole_update update = rule->update;
    float images[BATCH * IMAGE];
    int32_t labels[BATCH];
    double loss;
    int64_t correct;
    fill_batch(step, images, labels);
    ole_plan_forward(e->plan, images, true, (uint64_t)step);
    ole_plan_softmax(e->plan, labels, NULL, 1.0, NULL, &loss, &correct);
    for (int node = e->graph->nodes - 1; node >= 0; node--)
        ole_plan_backward(e->plan, node);
    update.step = step + 1;
    ole_params_update(e->params, &update);
    return loss;
}

/* ---- checks --------------------------------------------------------------------------------- */

static void check_param(const engine *e, const recorded_run *run, int i, double bound) {
    const ole_param *p = &e->graph->param[i];
    assert_string_equal(p->name, run->param[i].name);
    float *plain = room_for(p);
    ole_params_get(e->params, i, plain);
    double squares = 0, projection = 0;
    for (int64_t k = 0; k < p->count; k++) {
        squares += (double)plain[k] * (double)plain[k];
        projection += (double)plain[k] * uniform("check", k);
    }
    double norm = run->param[i].norm;
    const double errors[] = {fabs(sqrt(squares) - norm) / norm,
                             fabs(projection - run->param[i].projection) / norm,
                             fabs((double)plain[0] - run->param[i].first) / norm,
                             fabs((double)plain[p->count - 1] - run->param[i].last) / norm};
    for (int k = 0; k < 4; k++)
        if (!(errors[k] <= bound))
            fail_msg("%s, %s, %s, %s: check %d is off by %.2g", e->backend->name, run->net,
                     run->rule, p->name, k, errors[k]);
    free(plain);
}

static void check_run(const ole_backend *backend, const recorded_run *run, double loss_bound,
                      double param_bound) {
    const training_rule *rule = find_rule(run->rule);
    engine e = start(backend, run->net, rule);
    assert_int_equal(e.graph->params, run->params);
    for (int step = 0; step < STEPS; step++) {
        double error = fabs(train_step(&e, rule, step) / run->loss[step] - 1);
        if (!(error <= loss_bound))
            fail_msg("%s, %s, %s: the loss of step %d is off by %.2g", backend->name, run->net,
                     run->rule, step, error);
    }
    if (rule->update.average > 0.0) ole_params_swap_average(e.params);
    for (int i = 0; i < run->params; i++)
        check_param(&e, run, i, param_bound);
    close_engine(&e);
}

static void check_runs(const ole_backend *backend, double loss_bound, double param_bound) {
    for (int i = 0; i < RUNS; i++)
        check_run(backend, &recorded[i], loss_bound, param_bound);
}

static void double_to_rounding(void **state) {
    (void)state;
    check_runs(&ole_backend_ref64, 1e-10, 1e-7);
}

static void reference(void **state) {
    (void)state;
    check_runs(&ole_backend_ref, 1e-4, 1e-3);
}

#ifdef OLE_HAVE_ONEDNN
static void onednn(void **state) {
    (void)state;
    check_runs(&ole_backend_cpu, 1e-4, 1e-3);
}
#endif

static void cuda(void **state) {
    (void)state;
    check_runs(gpu_table("ole_cuda_backend"), 1e-4, 1e-3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(double_to_rounding),
        cmocka_unit_test(reference),
#ifdef OLE_HAVE_ONEDNN
        cmocka_unit_test(onednn),
#endif
        cmocka_unit_test(cuda),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
