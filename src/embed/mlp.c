/*
 * src/embed/mlp.c - OLE_EMBED_MLP: one hidden layer on the training step of train/, with Adam and a
 * learning rate that falls to 0 along a cosine.
 *
 * The network sees rows that are centred and scaled to a mean square of 1 per element; the model's
 * first layer absorbs that, so it takes rows as they are.
 */
#include "base/error.h"
#include "base/philox.h"
#include "base/sort.h"
#include "embed/embed.h"
#include "train/run/step.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OLE_RANDOM_ROWS = 43, /* a = epoch, b = row, or place of a drawn row */
    EPOCHS = 30,
    MOST_EPOCHS = 150,
    LEAST_STEPS = 600,
    BATCH = 256,
};

typedef struct mlp {
    ole_problem *p;
    ole_network network; /* of the last fit */
    ole_inference inference;
    int64_t batch;
    int64_t *order;  /* [rows]: those to learn from, shuffled anew per epoch */
    int64_t count;   /* rows in the order */
    float *images;   /* [batch, D] */
    int32_t *labels; /* [batch] */
    bool weighted;   /* the classes do not weigh the same */
    double *sum;     /* [rows + 1]: weights of the rows, summed up, if weighted */
    double loss;     /* mean of the last epoch */
    int64_t steps;
} mlp;

static ole_status out_of_memory(ole_error *error) {
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a fit");
}

/* ---- Batches ------------------------------------------------------------------------------ */

static void copy_row(const mlp *m, int64_t row, float *out) {
    const ole_problem *p = m->p;
    double scale = p->scale * sqrt((double)p->dim);
    ole_problem_copy_row(p, row, out);
    for (int64_t d = 0; d < p->dim; d++)
        out[d] = (float)(((double)out[d] - p->mean[d]) * scale);
}

static uint64_t draw(const mlp *m, int64_t epoch, int64_t i) {
    uint32_t word[4];
    ole_philox(m->p->options->seed, OLE_RANDOM_ROWS, (uint64_t)epoch, (uint64_t)i, word);
    return (uint64_t)word[0] << 32 | word[1];
}

/* The rows of an epoch: a shuffle, or as many draws with replacement, by the rows' weights. */
static void order_rows(mlp *m, int64_t epoch, int fold, ole_keyed *keys) {
    const ole_problem *p = m->p;
    m->count = 0;
    for (int64_t i = 0; i < p->rows; i++)
        if (ole_problem_has(p, i, fold) && p->weight[p->label[i]] > 0.0)
            keys[m->count++] = (ole_keyed){draw(m, epoch, i), i};
    if (!m->weighted) {
        qsort(keys, (size_t)m->count, sizeof *keys, ole_by_key);
        for (int64_t i = 0; i < m->count; i++)
            m->order[i] = keys[i].row;
        return;
    }
    m->sum[0] = 0.0;
    for (int64_t i = 0; i < m->count; i++)
        m->sum[i + 1] = m->sum[i] + p->weight[p->label[keys[i].row]];
    for (int64_t i = 0; i < m->count; i++) {
        double at = (double)draw(m, epoch, p->rows + i) * 0x1p-64 * m->sum[m->count];
        int64_t low = 0, high = m->count;
        while (high - low > 1) {
            int64_t middle = low + (high - low) / 2;
            if (m->sum[middle] <= at)
                low = middle;
            else
                high = middle;
        }
        m->order[i] = keys[low].row;
    }
}

static void fill_batch(mlp *m, int64_t first) {
    for (int64_t i = 0; i < m->batch; i++) {
        int64_t row = m->order[first + i];
        copy_row(m, row, m->images + i * m->p->dim);
        m->labels[i] = m->p->label[row];
    }
}

/* ---- A fit -------------------------------------------------------------------------------- */

static void close_network(mlp *m) {
    ole_inference_close(&m->inference);
    ole_network_close(&m->network);
}

static ole_status open_network(mlp *m, const ole_setting *setting, ole_error *error) {
    const ole_problem *p = m->p;
    char net[32];
    close_network(m);
    snprintf(net, sizeof net, "FC%lld", (long long)setting->width);
    const ole_network_options options = {.net = net,
                                         .input = {p->dim, 1, 1},
                                         .classes = p->classes,
                                         .device = p->options->device ? p->options->device : "auto",
                                         .precision = "fp32",
                                         .conv = "auto",
                                         .threads = p->threads,
                                         .seed = p->options->seed,
                                         .train = true,
                                         .moments = 2};
    ole_status status = ole_network_open(&m->network, &options, error);
    if (status != OLE_OK) return status;
    return ole_params_init(m->network.params, "xavier", p->options->seed, error);
}

/* 30, or of few rows as many as make 600 steps, up to 150. */
static int64_t default_epochs(int64_t per_epoch) {
    int64_t epochs = (LEAST_STEPS + per_epoch - 1) / per_epoch;
    return epochs < EPOCHS ? EPOCHS : epochs > MOST_EPOCHS ? MOST_EPOCHS : epochs;
}

/* All epochs; the rows lie in `keys` while they are shuffled. */
static ole_status run_epochs(mlp *m, ole_stepper *stepper, int fold, const char *part,
                             ole_keyed *keys, ole_error *error) {
    ole_problem *p = m->p;
    const ole_embed_options *o = p->options;
    int64_t per_epoch = m->count / m->batch, step = 0;
    int64_t epochs = o->epochs ? o->epochs : default_epochs(per_epoch);
    double rate = o->learning_rate > 0.0 ? o->learning_rate : 2e-3, pi = acos(-1.0);
    ole_status status = OLE_OK;
    for (int64_t epoch = 0; epoch < epochs && status == OLE_OK && !p->stopped; epoch++) {
        m->loss = 0.0;
        order_rows(m, epoch, fold, keys);
        for (int64_t b = 0; b < per_epoch && status == OLE_OK && !p->stopped; b++) {
            fill_batch(m, b * m->batch);
            const ole_batch batch = {.count = m->batch, .images = m->images, .labels = m->labels};
            double done = (double)step / (double)(epochs * per_epoch);
            const ole_step now = {
                .batch = &batch, .number = ++step, .lr = 0.5 * rate * (1.0 + cos(pi * done))};
            ole_step_result result;
            status = ole_stepper_run(stepper, &now, &result, error);
            m->loss += result.loss / (double)per_epoch;
            ole_problem_report(p, part, step, epochs * per_epoch);
        }
    }
    m->steps = step;
    return status;
}

static ole_status fit(void *context, const ole_setting *setting, int fold, const char *part,
                      ole_error *error) {
    mlp *m = context;
    ole_train_options options;
    ole_train_options_init(&options);
    options.loss = setting->lambda > 0.0 ? OLE_LOSS_BOTH : OLE_LOSS_SOFTMAX;
    options.lambda = setting->lambda;
    options.weight_decay = setting->decay;
    options.opt = "adam";
    ole_keyed *keys = malloc((size_t)m->p->rows * sizeof *keys);
    if (!keys) return out_of_memory(error);
    order_rows(m, 0, fold, keys);
    int64_t most = m->p->options->batch_size ? m->p->options->batch_size : BATCH;
    m->batch = m->count < most ? m->count : most;
    if (!m->p->options->batch_size && m->count < 4 * most) /* at least four steps per epoch */
        m->batch = m->count < 64 ? m->count : m->count / 4 < 16 ? 16 : m->count / 4;
    ole_stepper *stepper = NULL;
    ole_status status = m->batch < 2 ? ole_fail(error, OLE_ERROR_ARGUMENT,
                                                "mlp: a batch of %lld rows has no statistics; give "
                                                "more rows, or --method linear",
                                                (long long)m->batch)
                                     : open_network(m, setting, error);
    if (status == OLE_OK)
        status = ole_stepper_create(&stepper, &m->network, &options, m->batch, 0, error);
    if (status == OLE_OK) status = run_epochs(m, stepper, fold, part, keys, error);
    ole_stepper_free(stepper);
    free(keys);
    return status;
}

static ole_status score(void *context, const int64_t *rows, int64_t count, float *logits,
                        ole_error *error) {
    mlp *m = context;
    int64_t classes = m->p->classes, most = m->batch;
    ole_status status = OLE_OK;
    if (!m->inference.plan)
        status = ole_inference_open(&m->inference, &m->network, NULL, most, error);
    for (int64_t first = 0; first < count && status == OLE_OK; first += most) {
        int64_t now = count - first < most ? count - first : most;
        for (int64_t i = 0; i < now; i++)
            copy_row(m, rows[first + i], m->images + i * m->p->dim);
        status = ole_inference_run(&m->inference, m->images, now, error);
        if (status == OLE_OK)
            memcpy(logits + first * classes, m->inference.logits,
                   (size_t)(now * classes) * sizeof *logits);
    }
    return status;
}

/* ---- The model ---------------------------------------------------------------------------- */

/* y = W ((x - mean) s) + b = (W s) x + (b - W s mean). */
static void absorb_scale(const ole_problem *p, int64_t width, float *weight, float *bias) {
    double scale = p->scale * sqrt((double)p->dim);
    for (int64_t k = 0; k < width; k++) {
        double shift = 0.0;
        for (int64_t d = 0; d < p->dim; d++) {
            double w = scale * (double)weight[k * p->dim + d];
            weight[k * p->dim + d] = (float)w;
            shift += w * p->mean[d];
        }
        bias[k] = (float)((double)bias[k] - shift);
    }
}

static ole_status build(mlp *m, const ole_setting *setting, ole_model **model, ole_error *error) {
    const ole_graph *graph = m->network.graph;
    char net[32];
    snprintf(net, sizeof net, "FC%lld", (long long)setting->width);
    float *plain = ole_network_plain(&m->network);
    float *weight = malloc((size_t)(setting->width * m->p->dim) * sizeof *weight);
    float *bias = calloc((size_t)setting->width, sizeof *bias);
    ole_status status = plain && weight && bias ? ole_fit_make_model(model, m->p, net, true, error)
                                                : out_of_memory(error);
    int at[2] = {-1, -1};
    for (int i = 0; i < graph->params && status == OLE_OK; i++) {
        bool first = strcmp(graph->param[i].name, "1.linear.weight") == 0;
        bool second = strcmp(graph->param[i].name, "1.linear.bias") == 0;
        if (first || second) at[second] = i;
        ole_params_get(m->network.params, i, first ? weight : second ? bias : plain);
        if (!first && !second) ole_params_set(ole_model_network(*model)->params, i, plain);
    }
    if (status == OLE_OK && at[0] >= 0 && at[1] >= 0) {
        absorb_scale(m->p, setting->width, weight, bias);
        ole_params_set(ole_model_network(*model)->params, at[0], weight);
        ole_params_set(ole_model_network(*model)->params, at[1], bias);
    }
    free(plain);
    free(weight);
    free(bias);
    return status;
}

/* ---- The method --------------------------------------------------------------------------- */

/* Rows and keys for batches of any size up to the one of all rows. */
static ole_status open_mlp(mlp *m, ole_problem *p, ole_error *error) {
    int64_t most = p->options->batch_size ? p->options->batch_size : BATCH;
    *m = (mlp){.p = p};
    for (int c = 1; c < p->classes; c++)
        m->weighted |= p->weight[c] != p->weight[0];
    m->order = malloc((size_t)p->rows * sizeof *m->order);
    m->images = malloc((size_t)(most * p->dim) * sizeof *m->images);
    m->labels = malloc((size_t)most * sizeof *m->labels);
    if (m->weighted) m->sum = malloc(((size_t)p->rows + 1) * sizeof *m->sum);
    bool good = m->order && m->images && m->labels && (m->sum || !m->weighted);
    return good ? OLE_OK : out_of_memory(error);
}

static ole_status measure_training(mlp *m, ole_fit_result *result, ole_error *error) {
    const ole_problem *p = m->p;
    int64_t right = 0, most = m->batch;
    int64_t *rows = malloc((size_t)most * sizeof *rows);
    float *logits = malloc((size_t)(most * p->classes) * sizeof *logits);
    ole_status status = rows && logits ? OLE_OK : out_of_memory(error);
    for (int64_t next = 0; next < p->rows && status == OLE_OK;) {
        int64_t count = 0;
        for (; next < p->rows && count < most; next++)
            if (p->label[next] >= 0) rows[count++] = next;
        if (count > 0) status = score(m, rows, count, logits, error);
        for (int64_t i = 0; i < count && status == OLE_OK; i++)
            right += ole_largest(logits + i * p->classes, p->classes) == p->label[rows[i]];
    }
    result->summary.training_accuracy = 100.0 * (double)right / (double)p->used;
    free(rows);
    free(logits);
    return status;
}

ole_status ole_fit_mlp(ole_problem *p, ole_fit_result *result, ole_error *error) {
    static const double decays[] = {1e-3, 1e-4, 1e-2}, lambdas[] = {0.01, 0.05, 0.25};
    static const int64_t widths[] = {512, 128, 1024};
    mlp m;
    ole_status status = open_mlp(&m, p, error);
    const ole_fitter fitter = {&m, fit, score, decays, lambdas, widths, 3, 3, 3};
    ole_setting setting;
    if (status == OLE_OK)
        status = ole_choose(p, &fitter, &setting, &result->held_out, &result->summary, error);
    if (status == OLE_OK && !p->stopped) {
        result->summary.lambda = setting.lambda;
        result->summary.weight_decay = setting.decay;
        result->summary.width = setting.width;
        status = fit(&m, &setting, -1, "fit", error);
    }
    result->summary.objective = m.loss;
    result->summary.iterations = m.steps;
    if (status == OLE_OK && !p->stopped) status = measure_training(&m, result, error);
    if (status == OLE_OK && !p->stopped) status = build(&m, &setting, &result->model, error);
    close_network(&m);
    free(m.order);
    free(m.images);
    free(m.labels);
    free(m.sum);
    return status;
}
