/*
 * src/embed/embed.c - ole_embed_fit(): options, the methods that train nothing with a network, and
 * the model that a fit ends with.
 */
#include "embed/embed.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "embed/linear.h"
#include "model/threshold.h"
#include "ole/linalg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"", "linear", "mlp", "transform", "none"};

const char *ole_embed_method_name(ole_embed_method method) {
    return (int)method > 0 && (int)method <= (int)OLE_EMBED_NONE ? names[method] : "unknown";
}

/* ---- Options ------------------------------------------------------------------------------ */

static const ole_embed_options defaults = {
    .struct_size = sizeof(ole_embed_options),
    .method = OLE_EMBED_LINEAR,
    .lambda = NAN,
    .weight_decay = NAN,
    .tolerance = 1e-3,
    .unknown = true,
};

void ole_embed_options_init_sized(ole_embed_options *options, size_t struct_size) {
    ole_struct_fill(options, struct_size, &defaults);
}

static ole_status wrong(const char *name, double value, const char *want, ole_error *error) {
    return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_embed_fit: %s is %g; must be %s", name, value,
                    want);
}

static ole_status check_options(const ole_embed_options *o, ole_error *error) {
    const double most = 1e6;
    if ((int)o->method < 1 || o->method > OLE_EMBED_NONE)
        return wrong("method", (double)o->method, "OLE_EMBED_LINEAR to OLE_EMBED_NONE", error);
    if (o->threads < 0 || o->threads > 1024)
        return wrong("threads", o->threads, "1 to 1024, or 0 for all", error);
    if (o->lambda < 0.0 || o->lambda > most)
        return wrong("lambda", o->lambda, "0 to 1e6, or NaN to have it chosen", error);
    if (o->weight_decay < 0.0 || o->weight_decay > most)
        return wrong("weight_decay", o->weight_decay, "0 to 1e6, or NaN to have it chosen", error);
    if (o->width < 0 || o->width > 65536)
        return wrong("width", (double)o->width, "1 to 65536, or 0 to have it chosen", error);
    if (o->epochs < 0 || o->epochs > 1000000)
        return wrong("epochs", (double)o->epochs, "1 to 1000000, or 0 for the default", error);
    if (o->batch_size < 0 || o->batch_size > 1 << 20)
        return wrong("batch_size", (double)o->batch_size, "1 to 1048576, or 0", error);
    if (!(o->learning_rate >= 0.0) || o->learning_rate > most)
        return wrong("learning_rate", o->learning_rate, "a positive number, or 0", error);
    if (!(o->tolerance >= 0.0) || o->tolerance >= 1.0)
        return wrong("tolerance", o->tolerance, "at least 0 and less than 1", error);
    if (o->folds < 0 || o->folds == 1 || o->folds > 1000)
        return wrong("folds", o->folds, "2 to 1000, or 0 for the default", error);
    return OLE_OK;
}

/* ---- Models ------------------------------------------------------------------------------- */

/* Marks rows from the first to the last, spread evenly. */
static ole_status mark_rows(ole_row_marks *marks, const ole_problem *p, ole_error *error) {
    float *row = malloc((size_t)p->dim * sizeof *row);
    if (!row) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a model");
    int64_t step = (p->rows + OLE_ROW_MARKS - 1) / OLE_ROW_MARKS;
    for (int64_t i = 0; i < p->rows; i += step) {
        if (p->label[i] < 0) continue;
        ole_problem_copy_row(p, i, row);
        ole_row_marks_add(marks, row, p->dim);
    }
    free(row);
    return OLE_OK;
}

ole_status ole_fit_make_model(ole_model **model, const ole_problem *p, const char *net,
                              bool classifier, ole_error *error) {
    ole_card from = {.net = (char *)net,
                     .input = {p->dim, 1, 1},
                     .classes = p->classes,
                     .class_names = p->name,
                     .deviation = {1, 1, 1, 1},
                     .temperature = 1.0,
                     .classifier = classifier};
    ole_card card;
    ole_status status = mark_rows(&from.fitted, p, error);
    if (status == OLE_OK) status = ole_card_copy(&card, &from, error);
    if (status != OLE_OK) return status;
    const char *device = p->options->device ? p->options->device : "auto";
    return ole_model_make(model, &card, device, p->threads, error);
}

void ole_fit_set_weight(ole_model *model, const char *name, const double *values, int64_t count,
                        float *room) {
    const ole_network *network = ole_model_network(model);
    for (int64_t i = 0; i < count; i++)
        room[i] = (float)values[i];
    for (int i = 0; i < network->graph->params; i++)
        if (strcmp(network->graph->param[i].name, name) == 0)
            ole_params_set(network->params, i, room);
}

ole_status ole_fit_none(ole_problem *p, ole_fit_result *result, ole_error *error) {
    result->summary.features = p->dim;
    return ole_fit_make_model(&result->model, p, "ID", false, error);
}

/* ---- The linear method -------------------------------------------------------------------- */

/* Cross-validation keeps the weights of each fold, where its next fit starts. */
typedef struct linear_search {
    ole_linear *linear;
    int folds;
    double *weights; /* [folds, n] */
} linear_search;

static ole_status fit_fold(void *context, const ole_setting *setting, int fold, const char *part,
                           ole_error *error) {
    linear_search *s = context;
    size_t n = (size_t)ole_linear_variables(s->linear);
    double *kept = s->weights + (size_t)fold * n, *weights = ole_linear_weights(s->linear);
    ole_linear_fit fit = {setting->lambda, setting->decay, fold, part, 0.0, 0};
    memcpy(weights, kept, n * sizeof *kept);
    ole_status status = ole_linear_run(s->linear, &fit, error);
    memcpy(kept, weights, n * sizeof *kept);
    return status;
}

static ole_status score_rows(void *context, const int64_t *rows, int64_t count, float *logits,
                             ole_error *error) {
    (void)error;
    linear_search *s = context;
    ole_linear_score(s->linear, rows, count, logits);
    return OLE_OK;
}

/* W = U T: with at most as many classes as dimensions U is the identity; else T = S Vᵀ of W = U S
 * Vᵀ. The features are centred: T (x - mean). */
static ole_status build_linear(ole_problem *p, ole_linear *linear, ole_model **model,
                               ole_error *error) {
    int64_t c = p->classes, d = p->dim, width = c < d ? c : d;
    double *map = malloc((size_t)(width * d + width) * sizeof *map), *shift = map + width * d;
    double *sigma = malloc((size_t)width * sizeof *sigma);
    double *u = calloc((size_t)(c * width), sizeof *u);
    float *room = malloc((size_t)(width * (c > d ? c : d)) * sizeof *room);
    char net[64];
    snprintf(net, sizeof net, "FC%lld[nobn,norelu]", (long long)width);
    ole_status status = map && sigma && u && room
                            ? OLE_OK
                            : ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a model");
    double *weights = ole_linear_weights(linear);
    if (status == OLE_OK && c <= d) {
        memcpy(map, weights, (size_t)(c * d) * sizeof *map);
        for (int64_t k = 0; k < c; k++)
            u[k * c + k] = 1.0;
    } else if (status == OLE_OK) {
        const ole_matrix w = {weights, c, d, 0, OLE_F64}, left = {u, c, d, 0, OLE_F64};
        const ole_matrix right = {map, d, d, 0, OLE_F64};
        status = ole_svd(&w, &left, sigma, &right, error);
        for (int64_t i = 0; i < d * d && status == OLE_OK; i++)
            map[i] *= sigma[i / d];
    }
    if (status == OLE_OK) status = ole_fit_make_model(model, p, net, true, error);
    if (status == OLE_OK) {
        for (int64_t k = 0; k < width; k++) {
            shift[k] = 0.0;
            for (int64_t i = k * d; i < (k + 1) * d; i++) {
                map[i] *= p->scale;
                shift[k] -= map[i] * p->mean[i - k * d];
            }
        }
        ole_fit_set_weight(*model, "1.linear.weight", map, width * d, room);
        ole_fit_set_weight(*model, "1.linear.bias", shift, width, room);
        ole_fit_set_weight(*model, "classifier.weight", u, c * width, room);
        ole_fit_set_weight(*model, "classifier.bias", weights + c * d, c, room);
    }
    free(map);
    free(sigma);
    free(u);
    free(room);
    return status;
}

static ole_status end_linear(ole_problem *p, ole_linear *linear, ole_fit_result *result,
                             ole_error *error) {
    result->summary.training_accuracy = 100.0 * (double)ole_linear_right(linear) / (double)p->used;
    return build_linear(p, linear, &result->model, error);
}

ole_status ole_fit_linear(ole_problem *p, ole_fit_result *result, ole_error *error) {
    static const double decays[] = {1e-3, 1e-2, 1e-4, 1e-5, 1e-6};
    static const double lambdas[] = {0.001, 0.005, 0.02, 0.1};
    linear_search s = {0};
    ole_status status = ole_linear_create(&s.linear, p, error);
    if (status != OLE_OK) return status;
    size_t n = (size_t)ole_linear_variables(s.linear);
    s.folds = p->options->folds ? p->options->folds : 5;
    s.weights = calloc((size_t)s.folds * n, sizeof *s.weights);
    if (!s.weights) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for folds");
    const ole_fitter fitter = {.context = &s,
                               .fit = fit_fold,
                               .score = score_rows,
                               .decays = decays,
                               .decay_count = 5,
                               .lambdas = lambdas,
                               .lambda_count = 4};
    ole_setting setting;
    if (status == OLE_OK)
        status = ole_choose(p, &fitter, &setting, &result->held_out, &result->summary, error);
    ole_linear_fit fit = {.fold = -1, .part = "fit"};
    if (status == OLE_OK && !p->stopped) {
        fit.lambda = result->summary.lambda = setting.lambda;
        fit.decay = result->summary.weight_decay = setting.decay;
        memset(ole_linear_weights(s.linear), 0, n * sizeof(double));
        status = ole_linear_run(s.linear, &fit, error);
    }
    result->summary.objective = fit.objective;
    result->summary.iterations = fit.steps;
    if (status == OLE_OK && !p->stopped) status = end_linear(p, s.linear, result, error);
    free(s.weights);
    ole_linear_free(s.linear);
    return status;
}

/* ---- A fit -------------------------------------------------------------------------------- */

void ole_embed_summary_free(ole_embed_summary *summary) {
    if (summary) free(summary->trial);
    if (summary) *summary = (ole_embed_summary){0};
}

static void count_rows(const ole_problem *p, ole_embed_summary *summary) {
    *summary = (ole_embed_summary){.rows = p->used,
                                   .dim = p->dim,
                                   .classes = p->classes,
                                   .rarest = p->used,
                                   .lambda = NAN,
                                   .weight_decay = NAN,
                                   .held_out_accuracy = NAN,
                                   .training_accuracy = NAN,
                                   .objective = NAN};
    for (int c = 0; c < p->classes; c++) {
        if (p->size[c] < summary->rarest) summary->rarest = p->size[c];
        summary->single += p->size[c] == 1;
    }
}

/* The threshold for unknown, from scores of rows that the fit had not seen. */
static ole_status set_threshold(const ole_problem *p, ole_fit_result *result, ole_error *error) {
    if (!p->options->unknown || result->held_out.count == 0) return OLE_OK;
    ole_card card = {.classes = p->classes};
    const ole_logits logits = {result->held_out.count, p->classes, result->held_out.logits,
                               result->held_out.labels};
    ole_status status = ole_card_set_threshold(&card, &logits, error);
    if (status == OLE_OK) status = ole_model_set_threshold(result->model, &card, error);
    return status;
}

ole_status ole_embed_options_read(ole_embed_options *read, const ole_embed_options *given,
                                  ole_error *error) {
    *read = defaults;
    ole_status status =
        ole_struct_read(read, given, OLE_SIZE_UP_TO(ole_embed_options, callback_context),
                        "ole_embed_options_init", error);
    if (status == OLE_OK) status = check_options(read, error);
    if (status == OLE_OK) read->threads = ole_threads(read->threads);
    return status;
}

ole_status ole_embed_fit(ole_model **model, const ole_embedding *train,
                         const char *const *class_names, int64_t classes,
                         const ole_embed_options *options, ole_embed_summary *summary,
                         ole_error *error) {
    static ole_fit_method *const methods[] = {NULL, ole_fit_linear, ole_fit_mlp, ole_fit_transform,
                                              ole_fit_none};
    ole_embed_options o;
    if (summary) *summary = (ole_embed_summary){0};
    if (!model) return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_embed_fit: model is NULL");
    *model = NULL;
    ole_status status = ole_embed_options_read(&o, options, error);
    if (status != OLE_OK) return status;
    double start = ole_clock();
    ole_problem problem;
    status = ole_problem_open(&problem, train, class_names, classes, &o, error);
    if (status != OLE_OK) return status;
    ole_fit_result result = {0};
    count_rows(&problem, &result.summary);
    status = methods[o.method](&problem, &result, error);
    if (status == OLE_OK && result.model) {
        result.summary.features = ole_model_get_info(result.model)->features;
        status = set_threshold(&problem, &result, error);
    }
    result.summary.interrupted = problem.stopped;
    result.summary.seconds = ole_clock() - start;
    ole_held_out_free(&result.held_out);
    ole_problem_close(&problem);
    if (status != OLE_OK || result.summary.interrupted) {
        ole_model_free(result.model);
        result.model = NULL;
    }
    *model = result.model;
    if (summary && status == OLE_OK)
        *summary = result.summary;
    else
        ole_embed_summary_free(&result.summary);
    return status;
}
