/*
 * tests/unit/train/test_train_ranks.c - training over ranks gives the numbers of one process: every
 * kind of block, every loss, batches that do not divide, on the backends of the CPU.
 *
 * Steps are compared on networks as the backends have them, so that ref64, in double, shows that
 * the sums over ranks are the same mathematics, over many steps.  In float and bfloat16 two runs
 * part: sums of gradients differ in their last bits, and sooner or later a value crosses a kink
 * (ReLU, a pool's maximum, OLÉ) or the boundary between two bfloat16 in one run and not in the
 * other.  After that they are two trainings, as one process would do with weights changed by 1e-7.
 * So there each step starts from the state that one process had, and what it finds is compared.
 */
#include "base/cpu.h"
#include "ole/train/data.h"
#include "rank_threads.h"
#include "train/run/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 20 };

typedef struct steps_case {
    const ole_backend *backend;
    ole_precision precision;
    const char *net;
    ole_loss_kind loss;
    const char *bn, *ole_scope;
    int64_t batch, last; /* every third step is a batch of `last` rows; 0: none is */
    bool adam;
    double lr;
} steps_case;

static bool is_last(const steps_case *c, int64_t step) {
    return c->last > 0 && step % 3 == 2;
}

/* Parts of a state: what is learnt, the running statistics, and what the optimiser remembers. */
enum { LEARNT, STATISTICS, MEMORY, PARTS };

/* What a run of STEPS left, on rank 0. */
typedef struct trace {
    const steps_case *of;
    const ole_dataset *set;
    const struct trace *guide; /* each step starts from this run's state; NULL: from its own */
    double softmax[STEPS], ole[STEPS]; /* ole: or that of a criterion */
    int64_t correct[STEPS];
    float *states; /* [STEPS + 1, initially length]:, and after each step */
    int64_t part[PARTS], length;
} trace;

/* ---- Steps on one rank --------------------------------------------------------------------- */

static ole_status open_network(ole_network *n, const steps_case *c, ole_error *error) {
    const ole_device_options device = {
        .threads = 1, .precision = c->precision, .seed = 5, .gpu = -1};
    *n = (ole_network){.backend = c->backend, .threads = 1};
    ole_status status = ole_graph_parse(&n->graph, c->net, (ole_shape){1, 8, 8}, 10, error);
    if (status == OLE_OK) status = n->backend->open(&n->context, &device, error);
    if (status == OLE_OK) status = ole_graph_fuse(n->graph, n->backend->fuses_add, error);
    if (status == OLE_OK)
        status = ole_params_create(&n->params, n->graph, n->backend, n->context, true, 2, error);
    if (status == OLE_OK) status = ole_params_init(n->params, "xavier", 3, error);
    return status;
}

static ole_status open_loader(ole_loader **loader, const ole_dataset *set, int64_t batch,
                              ole_ranks *ranks, ole_error *error) {
    ole_loader_options options;
    ole_loader_options_init(&options);
    options.batch_size = batch;
    options.seed = 9;
    options.shuffle = options.flip = true;
    options.crop = 1;
    options.mean[0] = 0.3f;
    options.deviation[0] = 0.4f;
    options.part = ole_ranks_rank(ranks);
    options.parts = ole_ranks_size(ranks);
    return ole_loader_create(loader, set, OLE_SPLIT_TRAIN, &options, error);
}

static void plan_states(trace *t, const ole_graph *graph) {
    for (int i = 0; i < graph->params; i++) {
        const ole_param *p = &graph->param[i];
        t->part[p->trained ? LEARNT : STATISTICS] += p->count;
        if (p->trained) t->part[MEMORY] += 2 * p->count;
    }
    for (int k = 0; k < PARTS; k++)
        t->length += t->part[k];
    t->states = calloc((STEPS + 1) * (size_t)t->length, sizeof *t->states);
}

static float *state_of(const trace *t, int64_t step, int part) {
    float *at = t->states + step * t->length;
    for (int k = 0; k < part; k++)
        at += t->part[k];
    return at;
}

static void read_state(const ole_network *n, const trace *t, int64_t step) {
    float *to[PARTS];
    for (int k = 0; k < PARTS; k++)
        to[k] = state_of(t, step, k);
    for (int i = 0; i < n->graph->params; i++) {
        const ole_param *p = &n->graph->param[i];
        int part = p->trained ? LEARNT : STATISTICS;
        ole_params_get(n->params, i, to[part]);
        to[part] += p->count;
        for (int k = 0; k < 2 && p->trained; k++, to[MEMORY] += p->count)
            ole_params_get_state(n->params, i, k, to[MEMORY]);
    }
}

static void write_state(const ole_network *n, const trace *t, int64_t step) {
    const float *from[PARTS];
    for (int k = 0; k < PARTS; k++)
        from[k] = state_of(t, step, k);
    for (int i = 0; i < n->graph->params; i++) {
        const ole_param *p = &n->graph->param[i];
        int part = p->trained ? LEARNT : STATISTICS;
        ole_params_set(n->params, i, from[part]);
        from[part] += p->count;
        for (int k = 0; k < 2 && p->trained; k++, from[MEMORY] += p->count)
            ole_params_set_state(n->params, i, k, from[MEMORY]);
    }
}

static ole_status run_steps(trace *t, const ole_network *network, ole_stepper *stepper,
                            ole_loader *loaders[2], bool keep, ole_error *error) {
    ole_status status = OLE_OK;
    if (keep) read_state(network, t, 0);
    for (int64_t i = 0; i < STEPS && status == OLE_OK; i++) {
        bool last = is_last(t->of, i);
        ole_batch batch;
        status = ole_loader_get(loaders[last], 1, i, &batch, error);
        const ole_step step = {.batch = &batch, .last = last, .number = i + 1, .lr = t->of->lr};
        ole_step_result result;
        if (t->guide) write_state(network, t->guide, i);
        if (status == OLE_OK) status = ole_stepper_run(stepper, &step, &result, error);
        if (status != OLE_OK || !keep) continue;
        read_state(network, t, i + 1);
        t->softmax[i] = result.softmax_loss;
        t->ole[i] = isnan(result.ole_loss) ? result.feature_loss : result.ole_loss;
        t->correct[i] = result.correct;
    }
    return status;
}

/* A rank_function. */
static ole_status train_steps(void *context, ole_ranks *ranks, ole_error *error) {
    trace *t = context;
    const steps_case *c = t->of;
    bool keep = ole_ranks_rank(ranks) == 0;
    ole_train_options options;
    ole_train_options_init(&options);
    options.loss = c->loss;
    options.opt = c->adam ? "adam" : "sgd";
    options.lr = 0.1;
    options.clip_norm = c->adam ? 0.5 : 0;
    options.lr_backbone = c->adam ? "0.5x" : "1x";
    options.bn = c->bn ? c->bn : "sync";
    options.ole_scope = c->ole_scope ? c->ole_scope : "global";
    options.delta_floor = c->adam ? 1e3 : 1.0; /* over the norm of every class, or as usual */
    options.ranks = ranks;
    ole_network network = {0};
    ole_stepper *stepper = NULL;
    ole_loader *loaders[2] = {NULL};
    ole_status status = open_network(&network, c, error);
    if (status == OLE_OK)
        status = ole_stepper_create(&stepper, &network, &options, c->batch, c->last, error);
    if (status == OLE_OK) status = open_loader(&loaders[0], t->set, c->batch, ranks, error);
    if (status == OLE_OK && c->last)
        status = open_loader(&loaders[1], t->set, c->last, ranks, error);
    if (status == OLE_OK && keep) plan_states(t, network.graph);
    if (status == OLE_OK) status = run_steps(t, &network, stepper, loaders, keep, error);
    ole_loader_destroy(loaders[0]);
    ole_loader_destroy(loaders[1]);
    ole_stepper_free(stepper);
    ole_network_close(&network);
    return status;
}

/* ---- Comparing ------------------------------------------------------------------------------ */

static trace trace_of(const steps_case *c, const ole_dataset *set, int size, const trace *guide) {
    trace t = {.of = c, .set = set, .guide = guide};
    rank_thread threads[MOST_RANKS];
    run_ranks(size, train_steps, &t, threads);
    for (int r = 0; r < size; r++) {
        if (threads[r].status == OLE_ERROR_UNSUPPORTED && c->precision == OLE_PRECISION_BF16)
            skip();
        assert_ok(threads[r].status, &threads[r].error);
    }
    assert_non_null(t.states);
    return t;
}

static double distance(double a, double b) {
    return isnan(a) && isnan(b) ? 0.0 : fabs(a - b) / fmax(fabs(b), 1e-3);
}

static double loss_distance(const trace *a, const trace *b, int step) {
    double softmax = distance(a->softmax[step], b->softmax[step]);
    double ole = distance(a->ole[step], b->ole[step]);
    return isfinite(softmax) && isfinite(ole) ? fmax(softmax, ole) : INFINITY;
}

/* How far what a step changed is from what it changed for the guide, as a share of that. */
static double update_distance(const trace *t, int step, int part) {
    const float *found = state_of(t, step + 1, part);
    const float *from = state_of(t->guide, step, part), *to = state_of(t->guide, step + 1, part);
    double apart = 0.0, moved = 0.0;
    for (int64_t i = 0; i < t->part[part]; i++) {
        double a = (double)found[i] - (double)to[i], b = (double)to[i] - (double)from[i];
        apart += a * a;
        moved += b * b;
    }
    return apart > 0.0 ? sqrt(apart / moved) : 0.0;
}

/*
 * How far ranks may be from one process.  A mistake is there in every step of its kind (a whole
 * batch or a last one), so the median shows it; a kink that is crossed, or a rounding that goes the
 * other way, is there in some.
 */
typedef struct limits {
    double loss, worst_loss;     /* relative: the median, and any step */
    double update, worst_update; /* of what a step changes; 0: each run goes its own way */
} limits;

/* What is compared. */
enum { LOSSES = PARTS };

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void check(const trace *t, const trace *alone, int size, int what, const limits *most) {
    static const char *const names[] = {
        [LOSSES] = "losses", [LEARNT] = "updates", [STATISTICS] = "changes of running statistics"};
    const steps_case *c = t->of;
    double middle = what == LOSSES ? most->loss : most->update;
    double worst = what == LOSSES ? most->worst_loss : most->worst_update;
    for (int last = 0; last < 2; last++) {
        double found[STEPS];
        int count = 0;
        for (int i = 0; i < STEPS; i++)
            if (is_last(c, i) == last)
                found[count++] =
                    what == LOSSES ? loss_distance(t, alone, i) : update_distance(t, i, what);
        if (count == 0) continue;
        qsort(found, (size_t)count, sizeof *found, by_size);
        if (found[count / 2] <= middle && found[count - 1] <= worst) continue;
        fail_msg("%s, %s, loss %d, batches of %d on %d ranks: the %s differ by %.3g, once by %.3g",
                 c->backend->name, c->net, (int)c->loss, (int)(last ? c->last : c->batch), size,
                 names[what], found[count / 2], found[count - 1]);
    }
}

static void compare(const steps_case *c, const ole_dataset *set, const limits *most) {
    trace alone = trace_of(c, set, 1, NULL);
    int slow = c->backend == &ole_backend_ref; /* and as ref64 in all that matters here */
    for (int size = 2 + slow; size <= MOST_RANKS - slow; size++) {
        trace several = trace_of(c, set, size, most->update > 0.0 ? &alone : NULL);
        check(&several, &alone, size, LOSSES, most);
        for (int part = LEARNT; part <= STATISTICS && several.guide; part++)
            check(&several, &alone, size, part, most);
        free(several.states);
    }
    free(alone.states);
}

/* Every kind of block: convolution and batch norm, residual, pre-activation, dense, pools, dropout.
 */
static const char *const nets[] = {
    "C16-MP-C20-MP-FCD24",
    "C8[nobias]-R16/8(x2)-R24/8-AP",
    "C8[nobn,norelu,nobias]-PR16/8-PR24/8-BN-ReLU-AP",
    "CO12-D24/12[d0.1]-CR24-D36/12-BN36-ReLU-AP",
    "C8[k5,nobias]-MP[k3,p1]-B8-B10[noproj]-PB12-BN-ReLU-AP",
};
enum { NETS = sizeof nets / sizeof *nets };

static ole_dataset *open_digits(void) {
    ole_dataset *set;
    ole_error error;
    assert_ok(ole_dataset_open(&set, "digits", NULL, &error), &error);
    return set;
}

static void compare_all(const ole_backend *backend, const limits *softmax, const limits *ole) {
    bool exact = backend->element_size == sizeof(double);
    ole_dataset *set = open_digits();
    for (int i = 0; i < NETS; i++)
        for (int loss = OLE_LOSS_SOFTMAX; loss <= OLE_LOSS_BOTH; loss++) {
            steps_case c = {.backend = backend, .net = nets[i], .loss = (ole_loss_kind)loss};
            c.batch = 26;
            c.last = exact ? 3 : 13; /* of three rows the last rank has none */
            c.lr = exact ? 0.02 : 0.001;
            c.adam = exact && loss == OLE_LOSS_BOTH;
            compare(&c, set, loss == OLE_LOSS_SOFTMAX ? softmax : ole);
            if (SANITIZED) break;
        }
    ole_dataset_close(set);
}

/* All steps of a run; OLÉ is given the features as floats. */
static void test_ref64(void **state) {
    (void)state;
    const limits softmax = {.loss = 1e-10, .worst_loss = 1e-10}, ole = {1e-7, 1e-7, 0.0, 0.0};
    compare_all(&ole_backend_ref64, &softmax, &ole);
}

/* The criteria, which every rank evaluates for the whole batch; given the features as floats. */
static void test_criteria(void **state) {
    (void)state;
    static const int losses[] = {OLE_LOSS_SOFTMAX | OLE_LOSS_CENTER, OLE_LOSS_SUPCON,
                                 OLE_LOSS_ARCFACE | OLE_LOSS_OLE, OLE_LOSS_SOFTMAX | OLE_LOSS_SSOLE,
                                 OLE_LOSS_LOGIT_NORM};
    const limits most = {1e-7, 1e-7, 0.0, 0.0};
    ole_dataset *set = open_digits();
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        const steps_case c = {.backend = &ole_backend_ref64,
                              .net = nets[0],
                              .loss = (ole_loss_kind)losses[i],
                              .batch = 26,
                              .last = 3,
                              .lr = 0.001};
        compare(&c, set, &most);
        if (SANITIZED) break;
    }
    ole_dataset_close(set);
}

/*
 * A gradient is a sum over up to 38 rows of 64 pixels, in float.  Crossing a kink moves an update
 * by a few per cent at worst; a rank whose rows went astray, of at most four, moves it by a
 * quarter.
 */
#define UPDATES .update = 38 * 64 * 0x1p-24, .worst_update = 0.125

static const limits in_float = {.loss = 1e-5, .worst_loss = 1e-5, UPDATES};

static void test_ref(void **state) {
    (void)state;
    compare_all(&ole_backend_ref, &in_float, &in_float);
}

#ifdef OLE_HAVE_ONEDNN
static void test_cpu(void **state) {
    (void)state;
    compare_all(&ole_backend_cpu, &in_float, &in_float);
}

/*
 * Sums are of float here too, so the middle step is as near as in float.  But a mean that differs
 * in its last bit can round an activation to the next bfloat16, 2^-7 of it away; no loss moves by
 * more than all activations together.
 */
static void test_cpu_bf16(void **state) {
    (void)state;
    const limits in_bf16 = {.loss = 1e-5, .worst_loss = 0x1p-7, UPDATES};
    if (ole_cpu_allowed() < OLE_CPU_AVX512_BF16) skip(); /* while there is nothing to free */
    ole_dataset *set = open_digits();
    for (int i = 0; i < NETS; i++) {
        const steps_case c = {.backend = &ole_backend_cpu,
                              .precision = OLE_PRECISION_BF16,
                              .net = nets[i],
                              .loss = OLE_LOSS_BOTH,
                              .batch = 38,
                              .last = 13,
                              .lr = 0.001};
        compare(&c, set, &in_bf16);
    }
    ole_dataset_close(set);
}
#endif

/* The same number of ranks gives the same bits again. */
static void test_repeats(void **state) {
    (void)state;
    ole_dataset *set = open_digits();
    const steps_case c = {.backend = &ole_backend_ref,
                          .net = nets[0],
                          .loss = OLE_LOSS_BOTH,
                          .batch = 38,
                          .last = 3,
                          .lr = 0.02};
    trace first = trace_of(&c, set, 3, NULL), second = trace_of(&c, set, 3, NULL);
    assert_int_equal(first.length, second.length);
    assert_memory_equal(first.states, second.states,
                        (STEPS + 1) * (size_t)first.length * sizeof *first.states);
    free(first.states);
    free(second.states);
    ole_dataset_close(set);
}

/* Batch norm and OLÉ of each rank's rows are something else, and train. */
static void test_local(void **state) {
    (void)state;
    ole_dataset *set = open_digits();
    const steps_case whole = {.backend = &ole_backend_ref64,
                              .net = nets[0],
                              .loss = OLE_LOSS_BOTH,
                              .batch = 40,
                              .lr = 0.02};
    trace all = trace_of(&whole, set, 2, NULL);
    for (int k = 0; k < 2; k++) {
        steps_case part = whole;
        if (k == 0)
            part.bn = "local";
        else
            part.ole_scope = "local";
        trace local = trace_of(&part, set, 2, NULL);
        double found = 0.0;
        for (int i = 0; i < STEPS; i++)
            found = fmax(found, loss_distance(&local, &all, i));
        assert_true(found > 1e-3 && found < 10.0);
        assert_true(local.softmax[STEPS - 1] < local.softmax[0]);
        free(local.states);
    }
    free(all.states);
    ole_dataset_close(set);
}

/* The local loss is the mean of what single processes find for the ranks' rows. */
static void test_local_value(void **state) {
    (void)state;
    ole_dataset *set = open_digits();
    const steps_case c = {.backend = &ole_backend_ref64,
                          .net = "FC16",
                          .loss = OLE_LOSS_OLE,
                          .bn = "local",
                          .ole_scope = "local",
                          .batch = 40,
                          .lr = 1e-9};
    steps_case half = c;
    half.batch = 20; /* batch 0 of 40 is batches 0 and 1 of 20 */
    trace both = trace_of(&c, set, 2, NULL), halves = trace_of(&half, set, 1, NULL);
    assert_true(distance(both.ole[0], (halves.ole[0] + halves.ole[1]) / 2) < 1e-5);
    free(both.states);
    free(halves.states);
    ole_dataset_close(set);
}

/* ---- Overlap -------------------------------------------------------------------------------- */

/* A rank alone that counts what is asked of its group. */
static struct { int started, waited, started_at_last_sum; } counted;

static void count_sum(ole_ranks *ranks, void *data, int64_t count, ole_dtype type) {
    (void)ranks, (void)data, (void)count, (void)type;
    counted.started_at_last_sum = counted.started;
}

static void count_start(ole_ranks *ranks, void *data, int64_t count, ole_dtype type, int slot) {
    (void)ranks, (void)data, (void)count, (void)type, (void)slot;
    counted.started++;
}

static void count_progress(ole_ranks *ranks) {
    (void)ranks;
}

static void count_wait(ole_ranks *ranks, int slot) {
    (void)ranks, (void)slot;
    counted.waited++;
}

static void copy_gather(ole_ranks *ranks, const void *mine, const int64_t *bytes, void *all) {
    (void)ranks;
    memcpy(all, mine, (size_t)bytes[0]);
}

/* Buckets are on their way before backward has come to the first layer's batch norm. */
static void test_overlap(void **state) {
    (void)state;
    static const ole_ranks_table table = {.name = "counting",
                                          .sum = count_sum,
                                          .start_sum = count_start,
                                          .progress = count_progress,
                                          .wait = count_wait,
                                          .gather = copy_gather};
    ole_ranks ranks = {.table = &table, .size = 1, .ranks_on_host = 1};
    const steps_case c = {.backend = &ole_backend_ref, .net = "C16-MP-C64-C96-C32-AP"};
    const int64_t rows[2] = {4, 0};
    static float images[4 * 64];
    static const int32_t labels[4] = {0, 1, 2, 3};
    ole_network network;
    ole_reduce *reduce;
    ole_plan *plan;
    ole_error error;
    for (int i = 0; i < 4 * 64; i++)
        images[i] = (float)(i * 7 % 11) / 11.0f;
    assert_ok(open_network(&network, &c, &error), &error);
    assert_ok(ole_reduce_create(&reduce, &network, &ranks, rows, true, &error), &error);
    const ole_plan_options options = {.batch = 4, .train = true, .share = &reduce->batch[0].share};
    assert_ok(ole_plan_create(&plan, network.graph, network.params, network.backend,
                              network.context, &options, &error),
              &error);
    double loss, numbers[2] = {1.0, 2.0};
    int64_t correct;
    size_t largest = 0;
    ole_plan_forward(plan, images, true, 1);
    ole_plan_softmax(plan, labels, NULL, 1.0, NULL, &loss, &correct);
    assert_int_equal(counted.started, 0);
    ole_reduce_start(reduce, numbers, 2);
    for (int node = network.graph->nodes - 1; node >= 0; node--) {
        ole_plan_backward(plan, node);
        ole_reduce_advance(reduce, node);
    }
    int buckets = reduce->buckets;
    for (int i = 0; i < buckets; i++)
        if (reduce->bucket[i].bytes > largest) largest = reduce->bucket[i].bytes;
    assert_true(buckets >= 2 && largest < 3 * 1024 * 1024);
    assert_int_equal(counted.started, 1 + buckets);
    assert_int_equal(counted.waited, 0);
    assert_true(counted.started_at_last_sum >= 2); /* the numbers, and a bucket at least */
    ole_reduce_finish(reduce, 0);
    assert_int_equal(counted.waited, 1 + buckets);
    ole_plan_free(plan);
    ole_reduce_free(reduce);
    ole_network_close(&network);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#ifdef OLE_HAVE_ONEDNN
        cmocka_unit_test(test_cpu),      cmocka_unit_test(test_cpu_bf16),
#endif
        cmocka_unit_test(test_ref64),    cmocka_unit_test(test_ref),
        cmocka_unit_test(test_criteria), cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_local),    cmocka_unit_test(test_local_value),
        cmocka_unit_test(test_overlap),
    };
    if (ole_cpu_capped()) cmocka_set_test_filter("test_cpu*"); /* the others know no levels */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
