/*
 * tests/unit/train/test_ranks_cuda.c - training over ranks on a GPU: ranks that share a GPU
 * against one process, and what NCCL does, in a group of one rank, against the same without it.
 * Skipped, with the reason, where there is no GPU or no NCCL.
 */
#include "device/recorder.h"
#include "gpu.h"
#include "rank_threads.h"
#include "run_files.h"
#include "train/options/options.h"
#include "train/run/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const nets[] = {
    "C8-MP-FC16",
    "C8[nobias]-C8[nobias]-AP-FCD12[nobias]-FC8[nobias]", /* dropout */
    "C8-R16/4(x2)-AP",                                    /* residual blocks */
    "CO8-PR16/4(x2)-BN-ReLU-AP",
    "CO8-D20/4-CR12-D24/4-BN-ReLU-AP", /* dense blocks */
    "C8[k5,nobias]-MP[k3,p1]-B8(x2)-B12[noproj]-PB16-BN-ReLU-AP",
};
enum { NETS = sizeof nets / sizeof *nets, STEPS = 10 };

static ole_train_options make(const char *net, const char *device) {
    ole_train_options o = small_run(net, device);
    o.conv = "direct";
    return o;
}

/* ---- ranks that share the GPU ------------------------------------------------------------- */

/* What rank 0 saw of a run of STEPS. */
typedef struct trace {
    ole_train_options options;
    double losses[STEPS];
    int64_t correct[STEPS];
    float *weights;
    int64_t count;
    bool queued;    /* some rank had a queue */
    char said[600]; /* by rank 0 */
} trace;

static void listen(void *context, const char *text) {
    trace *t = context;
    size_t used = strlen(t->said);
    snprintf(t->said + used, sizeof t->said - used, "%s\n", text);
}

static void keep_weights(trace *t, const ole_run *run) {
    const ole_graph *graph = run->network.graph;
    for (int i = 0; i < graph->params; i++)
        t->count += graph->param[i].count;
    t->weights = malloc((size_t)t->count * sizeof *t->weights);
    float *to = t->weights;
    for (int i = 0; to && i < graph->params; i++) {
        ole_params_get(run->network.params, i, to);
        to += graph->param[i].count;
    }
}

static ole_status run_steps(trace *t, ole_run *run, bool keep, ole_error *error) {
    ole_status status = OLE_OK;
    for (int64_t i = 0; i < STEPS && status == OLE_OK; i++) {
        int64_t epoch = i / run->batches, b = i % run->batches;
        ole_batch batch;
        ole_step_result result;
        status = ole_loader_get(run->loader, epoch, b, &batch, error);
        const ole_step step = {.batch = &batch,
                               .mix = ole_loader_mix(run->loader),
                               .last = run->stepper->batch[1] > 0 && b == run->batches - 1,
                               .number = i + 1,
                               .lr = ole_schedule_rate(&run->schedule, epoch, b)};
        if (status == OLE_OK) status = ole_stepper_run(run->stepper, &step, &result, error);
        if (!keep || status != OLE_OK) continue;
        t->losses[i] = result.loss;
        t->correct[i] = result.correct;
    }
    return status;
}

/* A rank_function. */
static ole_status train(void *context, ole_ranks *ranks, ole_error *error) {
    trace *t = context;
    bool keep = ole_ranks_rank(ranks) == 0;
    ole_train_options options = t->options, checked;
    ole_run run;
    options.ranks = ranks;
    if (keep) {
        options.message = listen;
        options.callback_context = t;
    }
    ole_status status = ole_train_options_check(&options, &checked, error);
    if (status == OLE_OK) status = ole_run_open(&run, &checked, error);
    if (status != OLE_OK) return status;
    if (keep) t->queued = run.recorded != NULL;
    ole_recorded_free(run.recorded); /* steps are run one by one */
    run.recorded = NULL;
    status = run_steps(t, &run, keep, error);
    if (status == OLE_OK && keep) keep_weights(t, &run);
    ole_run_close(&run);
    return status;
}

static trace trace_of(ole_train_options options, int size) {
    trace t = {.options = options};
    rank_thread threads[MOST_RANKS];
    run_ranks(size, train, &t, threads);
    for (int r = 0; r < size; r++)
        assert_ok(threads[r].status, &threads[r].error);
    assert_non_null(t.weights);
    return t;
}

static double distance(const trace *a, const trace *b) {
    double off = 0.0, norm = 1e-6;
    assert_int_equal(a->count, b->count);
    for (int64_t i = 0; i < a->count; i++) {
        off += pow((double)a->weights[i] - (double)b->weights[i], 2);
        norm += pow((double)b->weights[i], 2);
    }
    return sqrt(off / norm);
}

/* Losses by `bound`, weights by `weights`; frees both. */
static void compare(trace a, trace b, int size, double bound, double weights) {
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(a.losses[i] - b.losses[i]) <= bound * fabs(b.losses[i])))
            fail_msg("%s over %d ranks: the loss of step %d is %.9g, not %.9g", a.options.net, size,
                     i, a.losses[i], b.losses[i]);
    double off = distance(&a, &b);
    if (!(off <= weights))
        fail_msg("%s over %d ranks: weights off by %.2g", a.options.net, size, off);
    free(a.weights);
    free(b.weights);
}

static void as_one_process(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    for (int i = 0; i < NETS; i++)
        for (int loss = OLE_LOSS_SOFTMAX; loss <= OLE_LOSS_BOTH; loss++) {
            ole_train_options o = make(nets[i], "cuda");
            o.loss = (ole_loss_kind)loss;
            int size = 2 + i % 2; /* 32 and 8 rows over 3 ranks do not divide */
            compare(trace_of(o, size), trace_of(o, 1), size, 1e-4, 1e-3);
        }
}

static void adam_as_one_process(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    ole_train_options o = make(nets[4], "cuda");
    o.opt = "adam";
    o.lr = 1e-3;
    o.ole_at = "2:0.1,4:0.05";
    compare(trace_of(o, 2), trace_of(o, 1), 2, 2e-4, 2e-3);
}

/* 200 samples in batches of 66: the last has 2, and one of three ranks none of them. */
static void rank_without_rows(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    for (int i = 1; i < NETS; i += 3) {
        ole_train_options o = make(nets[i], "cuda");
        o.batch_size = 66;
        compare(trace_of(o, 3), trace_of(o, 1), 3, 1e-4, 1e-3);
    }
}

/* Statistics and OLE of each rank's own rows, as the reference has them. */
static void local_as_the_reference(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    for (int i = 0; i < NETS; i++) {
        ole_train_options a = make(nets[i], "cuda"), b = make(nets[i], "ref");
        a.bn = b.bn = a.ole_scope = b.ole_scope = "local";
        compare(trace_of(a, 2), trace_of(b, 2), 2, 1e-3, 1e-2);
    }
}

/*
 * Gradients of weights are bfloat16: they are added up as floats. The rate is so low that the two
 * trainings stay together: at 0.02 a rounding the other way takes them 2 % apart in eight steps, on
 * a CPU too, and at 0.005 an H200 took them 0.8 % apart.
 */
static void narrow_as_one_process(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    for (int i = 0; i < NETS; i++) {
        ole_train_options o = make(nets[i], "cuda");
        o.precision = "bf16";
        o.lr = 5e-4;
        compare(trace_of(o, 2), trace_of(o, 1), 2, 0.004, 0.001);
    }
}

static void sharing_is_said(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    trace t = trace_of(make(nets[0], "cuda:0"), 2);
    assert_false(t.queued);
    if (!strstr(t.said, "ranks 0 and 1 share GPU ") || !strstr(t.said, "host memory"))
        fail_msg("nothing of a shared gpu in '%s'", t.said);
    free(t.weights);
}

static void same_bits_again(void **state) {
    (void)state;
    gpu_table("ole_cuda_backend");
    ole_train_options o = make(nets[2], "cuda");
    trace a = trace_of(o, 2), b = trace_of(o, 2);
    assert_memory_equal(a.losses, b.losses, sizeof a.losses);
    assert_memory_equal(a.weights, b.weights, (size_t)a.count * sizeof *a.weights);
    free(a.weights);
    free(b.weights);
}

/* ---- NCCL, in a group of one rank ---------------------------------------------------------- */

/* The backend's linker; the test is skipped where NCCL is not there. */
static const ole_linker *linker_of(const ole_backend *backend) {
    ole_error error;
    if (backend->linker->check(&error) != OLE_OK) {
        print_message("no NCCL to test: %s\n", error.message);
        skip();
    }
    return backend->linker;
}

static ole_ranks *one_rank(void) {
    ole_ranks *group = NULL;
    ole_error error;
    assert_ok(thread_ranks(&group, 1, &error), &error);
    return group;
}

static void sums_in_a_graph(void **state) {
    (void)state;
    enum { COUNT = 5000 };
    const ole_backend *backend = gpu_table("ole_cuda_backend");
    const ole_cuda_memory_table *memory = gpu_table("ole_cuda_memory");
    const ole_linker *linker = linker_of(backend);
    const ole_device_options options = {.gpu = -1};
    const int64_t bytes[1] = {COUNT * sizeof(float)};
    unsigned char id[OLE_LINK_ID];
    char gpu[OLE_LINK_GPU];
    float host[COUNT], back[COUNT];
    double doubles[4] = {1.5, -2.25, 1e300, 0.125}, found[4];
    ole_device_context *context;
    ole_error error;
    assert_ok(backend->open(&context, &options, &error), &error);
    linker->gpu(context, gpu);
    assert_true(strlen(gpu) > 0);
    assert_ok(linker->make_id(id, &error), &error);
    assert_ok(linker->open(context, id, 0, 1, &error), &error);
    float *mine = backend->allocate(context, sizeof host),
          *all = backend->allocate(context, sizeof host);
    double *sums = backend->allocate(context, sizeof doubles);
    void *stream = backend->recorder->stream(context);
    ole_cuda_graph *graph = NULL;
    for (int k = 0; k < 2; k++) { /* the first time is a rehearsal */
        if (k == 1 && !memory->capture(stream, &error)) fail_msg("%s", error.message);
        linker->sum(context, sums, 4, OLE_F64);
        linker->sum(context, mine, COUNT, OLE_F32);
        linker->gather(context, mine, bytes, all);
        if (k == 0) assert_ok(backend->wait(context, &error), &error);
    }
    graph = memory->captured(stream, &error);
    if (!graph) fail_msg("%s", error.message);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < COUNT; i++)
            host[i] = (float)(i * (k + 1));
        backend->copy_in(context, host, sizeof host, mine);
        backend->copy_in(context, doubles, sizeof doubles, sums);
        assert_true(memory->replay(graph, stream, &error));
        assert_ok(backend->wait(context, &error), &error);
        backend->copy_out(context, all, sizeof back, back);
        backend->copy_out(context, sums, sizeof found, found);
        assert_memory_equal(back, host, sizeof host);
        assert_memory_equal(found, doubles, sizeof doubles);
    }
    memory->close_graph(graph);
    backend->free(context, mine);
    backend->free(context, all);
    backend->free(context, sums);
    backend->close(context);
}

/* A run whose steps are queued as those of one of several ranks; `sync`: batch norm too, `global`:
 * OLE too. */
static void join_alone(ole_run *run, ole_ranks *group, bool sync, bool global) {
    ole_stepper *s = run->stepper;
    const ole_network *n = &run->network;
    ole_error error;
    ole_recorded_free(run->recorded);
    run->recorded = NULL;
    s->ranks = group;
    assert_ok(ole_reduce_create(&s->reduce, &run->network, group, s->batch, sync, &error), &error);
    assert_true(s->reduce->link.direct);
    assert_null(ole_recorded_obstacle(s));
    for (int k = 0; k < 2; k++) {
        if (!s->plan[k]) continue;
        const ole_plan_options options = {
            .batch = s->rows[k], .train = true, .share = &s->reduce->batch[k].share};
        ole_plan_free(s->plan[k]);
        assert_ok(ole_plan_create(&s->plan[k], n->graph, n->params, n->backend, n->context,
                                  &options, &error),
                  &error);
    }
    run->inference.plan = s->plan[0];
    s->global = global;
    assert_ok(ole_recorded_create(&run->recorded, s, run->set, run->loader, &error), &error);
}

/* Two epochs, recorded, and an evaluation. */
static trace recorded(ole_train_options options, ole_ranks *group, bool sync, bool global) {
    trace t = {.options = options};
    ole_train_options checked;
    ole_run run;
    ole_error error;
    assert_ok(ole_train_options_check(&options, &checked, &error), &error);
    assert_ok(ole_run_open(&run, &checked, &error), &error);
    assert_non_null(run.recorded);
    if (group) join_alone(&run, group, sync, global);
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        ole_step_sums sums;
        assert_ok(
            ole_recorded_start(run.recorded, &run.schedule, epoch, 0, epoch * run.batches, &error),
            &error);
        for (int64_t b = 0; b < run.batches; b++)
            assert_ok(ole_recorded_step(run.recorded, &error), &error);
        assert_ok(ole_recorded_read(run.recorded, &sums, &error), &error);
        assert_int_equal(sums.bad_step, 0);
        assert_int_equal(sums.steps, run.batches);
        t.losses[epoch] = sums.loss;
        t.losses[2 + epoch] = sums.softmax_loss;
        t.losses[4 + epoch] = sums.added_loss;
        t.correct[epoch] = sums.correct;
    }
    ole_runner_outputs outputs = {0};
    assert_ok(ole_recorded_evaluate(run.recorded, OLE_SPLIT_TEST, &outputs, &error), &error);
    t.correct[2] = outputs.wrong;
    keep_weights(&t, &run);
    assert_non_null(t.weights);
    ole_run_close(&run);
    return t;
}

static void recorded_is_the_same(void **state) {
    (void)state;
    const ole_backend *backend = gpu_table("ole_cuda_backend");
    linker_of(backend);
    for (int i = 0; i < NETS; i++) {
        ole_train_options o = make(nets[i], "cuda");
        ole_ranks *group = one_rank();
        trace a = recorded(o, group, false, false), b = recorded(o, NULL, false, false);
        assert_memory_equal(a.losses, b.losses, sizeof a.losses);
        assert_memory_equal(a.correct, b.correct, sizeof a.correct);
        assert_memory_equal(a.weights, b.weights, (size_t)a.count * sizeof *a.weights);
        free(a.weights);
        free(b.weights);
        ole_ranks_close(group);
    }
}

/* Batch norm in two kernels with a sum between, OLE on gathered rows: other roundings. */
static void recorded_sums_agree(void **state) {
    (void)state;
    const ole_backend *backend = gpu_table("ole_cuda_backend");
    linker_of(backend);
    for (int i = 0; i < NETS; i++)
        for (int loss = OLE_LOSS_SOFTMAX; loss <= OLE_LOSS_BOTH; loss++) {
            ole_train_options o = make(nets[i], "cuda");
            ole_ranks *group = one_rank();
            o.loss = (ole_loss_kind)loss;
            compare(recorded(o, group, true, true), recorded(o, NULL, false, false), 1, 2e-4, 2e-3);
            ole_ranks_close(group);
        }
}

static void recorded_narrow_agrees(void **state) {
    (void)state;
    const ole_backend *backend = gpu_table("ole_cuda_backend");
    linker_of(backend);
    ole_train_options o = make(nets[4], "cuda");
    ole_ranks *group = one_rank();
    o.precision = "bf16";
    compare(recorded(o, group, true, true), recorded(o, NULL, false, false), 1, 0.05, 0.5);
    ole_ranks_close(group);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_one_process),         cmocka_unit_test(adam_as_one_process),
        cmocka_unit_test(rank_without_rows),      cmocka_unit_test(local_as_the_reference),
        cmocka_unit_test(narrow_as_one_process),  cmocka_unit_test(sharing_is_said),
        cmocka_unit_test(same_bits_again),        cmocka_unit_test(sums_in_a_graph),
        cmocka_unit_test(recorded_is_the_same),   cmocka_unit_test(recorded_sums_agree),
        cmocka_unit_test(recorded_narrow_agrees),
    };
    gpu_filter(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
