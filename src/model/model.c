/* src/model/model.c - trained models: loading, running, predicting. */
#include "model/model.h"

#include "base/available_memory.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/in_use.h"
#include "base/min_max.h"
#include "base/pool.h"
#include "base/quote.h"
#include "data/images/image_name.h"
#include "data/source.h"
#include "formats/input.h"
#include "model/checkpoint.h"
#include "model/confidence.h"
#include "model/hub.h"
#include "model/split_runner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Few images need not wait for 31 more; many vectors, of which 32 are no work, run together:
 * threads wait for each other after each layer of a batch. */
enum { ONE, FEW, BATCH, MANY, MOST, SIZES };
static const int64_t batch_sizes[SIZES] = {1, 8, 32, 512, 4096};
enum { WIDE = 4096 };

/* The way of one thread through the network, for many vectors: threads that run batches of their
 * own wait for each other once instead of after each layer, and a batch of 512 stays in a cache. */
enum { LANE_ROWS = 512 };
typedef struct lane {
    ole_network network; /* the model's, for one thread */
    ole_inference inference;
} lane;

struct ole_model {
    ole_card card;
    int threads; /* that judge */
    ole_network network;
    ole_inference inference[SIZES]; /* opened when first used */
    lane *lanes;                    /* likewise, [threads]; zero */
    ole_scorer *scorer;             /* of the threshold's score; NULL without a threshold */
    char *choice;                   /* why this score was chosen, as JSON; NULL: it was not */
    ole_outputs outputs;            /* of `outputs_split`, from training; or empty */
    ole_split outputs_split;
    ole_model_info info;
    ole_part_callback *callback; /* or NULL */
    void *callback_context;
    ole_in_use in_use; /* by a run or a prediction, not between the batches of a split */
};

/* ---- Making ------------------------------------------------------------------------------- */

/* A network of vectors whose layers are done sooner than threads have waited for each other; on a
 * machine that has other work they wait many times as long. */
static bool is_small(const ole_network *network) {
    enum { WEIGHTS = 1 << 18 };
    const ole_shape in = network->graph->node[0].out;
    int64_t weights = 0;
    for (int i = 0; i < network->graph->params; i++)
        weights += network->graph->param[i].count;
    return in.h * in.w == 1 && weights <= WEIGHTS;
}

ole_status ole_model_make(ole_model **result, ole_card *card, const char *device, int threads,
                          ole_error *error) {
    *result = NULL;
    ole_model *m = calloc(1, sizeof *m);
    if (!m) {
        ole_card_free(card);
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a model");
    }
    m->card = *card;
    m->threads = ole_threads(threads);
    ole_network_options options = {.net = card->net,
                                   .input = card->input,
                                   .classes = card->classes,
                                   .device = device,
                                   .precision = "fp32",
                                   .conv = "auto",
                                   .threads = threads};
    ole_status status = ole_network_open(&m->network, &options, error);
    if (status == OLE_OK && m->threads > 1 && is_small(&m->network)) {
        ole_network_close(&m->network);
        options.threads = 1;
        status = ole_network_open(&m->network, &options, error);
    }
    if (status != OLE_OK) {
        ole_model_free(m);
        return status;
    }
    m->info = (ole_model_info){.net = m->card.net,
                               .channels = (int)m->card.input.c,
                               .height = (int)m->card.input.h,
                               .width = (int)m->card.input.w,
                               .features = ole_network_feature_size(&m->network),
                               .classes = m->card.classes,
                               .class_names = (const char *const *)m->card.class_names,
                               .threshold = m->card.threshold,
                               .threshold_score = m->card.threshold_score,
                               .temperature = m->card.temperature,
                               .classifier = m->card.classifier,
                               .threshold_from = m->card.threshold_from,
                               .threshold_samples = m->card.threshold_samples};
    *result = m;
    return OLE_OK;
}

ole_status ole_model_build(ole_model **model, const ole_network *network, const ole_card *card,
                           const char *device, ole_outputs *outputs, ole_split split,
                           ole_error *error) {
    *model = NULL;
    float *plain = ole_network_plain(network);
    if (!plain) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a model");
    ole_card copy;
    ole_status status = ole_card_copy(&copy, card, error);
    if (status == OLE_OK) status = ole_model_make(model, &copy, device, network->threads, error);
    for (int i = 0; status == OLE_OK && i < network->graph->params; i++) {
        ole_params_get(network->params, i, plain);
        ole_params_set((*model)->network.params, i, plain);
    }
    free(plain);
    if (status == OLE_OK) status = ole_score_of_card(&(*model)->scorer, &(*model)->info, error);
    if (status != OLE_OK) return status;
    (*model)->outputs = *outputs;
    (*model)->outputs_split = split;
    *outputs = (ole_outputs){0};
    return OLE_OK;
}

ole_network *ole_model_network(ole_model *m) {
    return &m->network;
}

const ole_row_marks *ole_model_row_marks(const ole_model *m) {
    return &m->card.fitted;
}

/* Takes over `scorer` and `choice`. */
static void replace_threshold(ole_model *m, ole_score score, const ole_threshold_record *record,
                              ole_scorer *scorer, char *choice) {
    m->info.threshold = m->card.threshold = record->threshold;
    m->info.threshold_score = m->card.threshold_score = score;
    m->info.temperature = m->card.temperature = record->temperature;
    m->info.threshold_from = m->card.threshold_from = record->from;
    m->info.threshold_samples = m->card.threshold_samples = record->samples;
    ole_scorer_free(m->scorer);
    free(m->choice);
    m->scorer = scorer;
    m->choice = choice;
}

ole_status ole_model_set_threshold(ole_model *m, const ole_card *card, ole_error *error) {
    const ole_threshold_record record = {.threshold = card->threshold,
                                         .temperature = card->temperature,
                                         .from = card->threshold_from,
                                         .samples = card->threshold_samples};
    replace_threshold(m, card->threshold_score, &record, NULL, NULL);
    return ole_score_of_card(&m->scorer, &m->info, error);
}

ole_status ole_model_set_scorer(ole_model *m, ole_scorer *scorer,
                                const ole_threshold_record *record, ole_error *error) {
    char *choice = record->choice ? strdup(record->choice) : NULL;
    if (record->choice && !choice)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a score");
    replace_threshold(m, ole_scorer_get_info(scorer).score, record, scorer, choice);
    return OLE_OK;
}

/* The reason for the score that a file has. */
static ole_status read_choice(ole_model *m, const ole_safetensors *file, ole_error *error) {
    const char *choice = ole_safetensors_metadata(file, "novelty_choice");
    if (!choice) return OLE_OK;
    m->choice = strdup(choice);
    return m->choice ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a model");
}

const char *ole_model_choice(const ole_model *m) {
    return m->choice;
}

ole_status ole_model_save(const ole_model *m, const char *path, ole_error *error) {
    if (!m || !path)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_model_save: model or path is NULL");
    ole_score_tensors own = {.count = 0};
    if (m->scorer) ole_score_list(&own, m->scorer);
    const ole_extra extra = {
        own.tensor, own.count, {"novelty_choice", m->scorer ? m->choice : NULL}};
    return ole_weights_save(path, &m->network, &m->card, &extra, error);
}

const ole_outputs *ole_model_outputs(const ole_model *m, ole_split split) {
    return m->outputs.features && m->outputs_split == split ? &m->outputs : NULL;
}

ole_status ole_model_find(const char *path, char file[OLE_RUN_PATH], ole_error *error) {
    struct stat about;
    if (ole_is_hub_name(path)) return ole_model_fetch(path, NULL, file, OLE_RUN_PATH, error);
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode)) {
        strncpy(file, path, OLE_RUN_PATH - 1);
        file[OLE_RUN_PATH - 1] = '\0';
        return OLE_OK;
    }
    if (ole_run_has(path, "best.safetensors"))
        return ole_run_path(file, path, "best.safetensors", error);
    if (ole_run_has(path, "last.safetensors"))
        return ole_run_path(file, path, "last.safetensors", error);
    return ole_fail(
        error, OLE_ERROR_IO,
        "%s: not a run of 'ole train': it holds neither best.safetensors nor last.safetensors",
        ole_quote_string(path).text);
}

ole_status ole_model_load(ole_model **model, const char *path, int threads, ole_error *error) {
    return ole_model_load_on(model, path, "auto", threads, error);
}

ole_status ole_model_load_on(ole_model **model, const char *path, const char *device, int threads,
                             ole_error *error) {
    if (!model || !path)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_model_load: model or path is NULL");
    *model = NULL;
    if (threads < 0 || threads > 1024)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_model_load: threads is %d; must be 1 to 1024, or 0 for all", threads);
    char name[OLE_RUN_PATH];
    ole_status status = ole_model_find(path, name, error);
    if (status != OLE_OK) return status;
    bool array = ole_input_is_array(name);
    if (array || ole_image_has_name(name))
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s is %s, not a model; name the model first",
                        ole_quote_string(name).text, array ? "an array" : "an image");
    ole_safetensors *file;
    ole_card card;
    ole_graph *graph = NULL;
    status = ole_safetensors_open(&file, name, error);
    if (status == OLE_OK) status = ole_card_read(&card, file, name, error);
    if (status == OLE_OK) {
        status = ole_stored_graph(&graph, &card, file, name, error); /* it has all weights */
        ole_graph_free(graph);
        if (status == OLE_OK)
            status = ole_model_make(model, &card, device, threads, error);
        else
            ole_card_free(&card);
    }
    if (status == OLE_OK) status = ole_weights_load(file, name, &(*model)->network, error);
    if (status == OLE_OK)
        status = ole_score_read(&(*model)->scorer, file, name, &(*model)->info, error);
    if (status == OLE_OK) status = read_choice(*model, file, error);
    ole_safetensors_close(file);
    if (status != OLE_OK) {
        ole_model_free(*model);
        *model = NULL;
    }
    return status;
}

void ole_model_free(ole_model *model) {
    if (!model) return;
    for (int k = 0; k < SIZES; k++)
        ole_inference_close(&model->inference[k]);
    for (int i = 0; i < model->threads && model->lanes; i++) {
        if (!model->lanes[i].network.context) continue;
        ole_inference_close(&model->lanes[i].inference);
        ole_network_close(&model->lanes[i].network);
    }
    free(model->lanes);
    ole_network_close(&model->network);
    ole_card_free(&model->card);
    ole_scorer_free(model->scorer);
    free(model->choice);
    ole_outputs_free(&model->outputs);
    free(model);
}

const ole_model_info *ole_model_get_info(const ole_model *model) {
    return model ? &model->info : NULL;
}

/* ---- Running ------------------------------------------------------------------------------ */

/* Whether `count` images fill a batch, or nearly: what is missing is computed in vain. */
static bool fills(int64_t count, int size) {
    return 4 * count >= 3 * batch_sizes[size];
}

/* The inference for `count` images, or the first of them. */
static ole_status get_inference(ole_model *m, int64_t count, ole_inference **inference,
                                ole_error *error) {
    int k = fills(count, BATCH) ? BATCH : fills(count, FEW) ? FEW : ONE;
    if (m->info.height * m->info.width == 1) {
        k = count >= batch_sizes[MANY] ? MANY : count > 1 ? BATCH : ONE;
        if (count >= batch_sizes[MOST] && m->info.channels <= WIDE) k = MOST;
    }
    *inference = &m->inference[k];
    if ((*inference)->plan) return OLE_OK;
    return ole_inference_open(*inference, &m->network, NULL, batch_sizes[k], error);
}

static ole_status check_images(const ole_model *m, const float *images, int64_t first,
                               int64_t count, ole_error *error) {
    int64_t size = ole_network_image_size(&m->network);
    int64_t bad = ole_find_not_finite(images + first * size, count, size);
    if (bad < 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_DATA, "%s %" PRId64 " holds NaN or Inf",
                    m->info.height * m->info.width == 1 ? "row" : "image", first + bad);
}

/* Of the rows of a batch, which begins with row `first` of the call. */
static ole_status check_logits(const ole_model *m, const ole_inference *inference, int64_t first,
                               int64_t rows, ole_error *error) {
    int64_t bad = ole_find_not_finite(inference->logits, rows, m->info.classes);
    if (bad < 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_NUMERIC,
                    "image %" PRId64
                    ": the network overflows; scale the input as in training, 0 to 1 for images",
                    first + bad);
}

/* Runs at most one batch; the results are in inference->features and ->logits. */
static ole_status run_batch(const ole_model *m, ole_inference *inference, const float *images,
                            int64_t rows, ole_error *error) {
    ole_card_normalize(&m->card, images, rows, inference->images);
    return ole_inference_run(inference, inference->images, rows, error);
}

/* Rows to run; what is not wanted is NULL. */
typedef struct rows_run {
    ole_model *model;
    const float *rows;
    int64_t count;
    float *features, *logits;
    ole_prediction *predictions;
    ole_error *error; /* in lanes: [tasks] of the first row that fails */
} rows_run;

/* Runs `rows` rows from row `first` on, by `threads` threads. */
static ole_status run_rows(const rows_run *r, ole_inference *inference, int64_t first, int64_t rows,
                           int threads, ole_error *error) {
    const ole_model *m = r->model;
    int64_t size = ole_network_image_size(&m->network);
    size_t dim = (size_t)m->info.features, classes = (size_t)m->info.classes;
    ole_status status = run_batch(m, inference, r->rows + first * size, rows, error);
    if (status != OLE_OK) return status;
    if (r->features)
        memcpy(r->features + (size_t)first * dim, inference->features,
               (size_t)rows * dim * sizeof(float));
    if (r->logits)
        memcpy(r->logits + (size_t)first * classes, inference->logits,
               (size_t)rows * classes * sizeof(float));
    if (!r->predictions) return OLE_OK;
    status = check_logits(m, inference, first, rows, error);
    if (status == OLE_OK)
        ole_predict_outputs(m->scorer, &m->info, threads, inference->features, inference->logits,
                            rows, r->predictions + first);
    return status;
}

static ole_status run_batches(const rows_run *r, ole_error *error) {
    ole_status status = OLE_OK;
    for (int64_t first = 0, rows; first < r->count && status == OLE_OK; first += rows) {
        ole_inference *inference;
        status = get_inference(r->model, r->count - first, &inference, error);
        if (status != OLE_OK) return status;
        rows = ole_min(r->count - first, inference->batch);
        status = run_rows(r, inference, first, rows, r->model->threads, error);
    }
    return status;
}

/* ---- Many vectors ------------------------------------------------------------------------- */

static bool has_lanes(const ole_model *m, int64_t count) {
    return m->info.height * m->info.width == 1 && m->info.channels <= WIDE && count > LANE_ROWS &&
           !m->network.backend->recorder;
}

static ole_status open_lanes(ole_model *m, int count, ole_error *error) {
    if (!m->lanes) m->lanes = calloc((size_t)m->threads, sizeof *m->lanes);
    if (!m->lanes) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a model");
    for (int i = 0; i < count; i++) {
        lane *l = &m->lanes[i];
        if (l->network.context) continue;
        ole_status status = ole_network_share(&l->network, &m->network, error);
        if (status == OLE_OK)
            status = ole_inference_open(&l->inference, &l->network, NULL, LANE_ROWS, error);
        if (status == OLE_OK) continue;
        ole_network_close(&l->network);
        return status;
    }
    return OLE_OK;
}

static void run_in_lane(void *context, int64_t task, int worker) {
    const rows_run *r = context;
    ole_model *m = r->model;
    int64_t first = task * LANE_ROWS, rows = ole_min(r->count - first, LANE_ROWS);
    ole_error *error = &r->error[task];
    error->status = check_images(m, r->rows, first, rows, error);
    if (error->status == OLE_OK)
        error->status = run_rows(r, &m->lanes[worker].inference, first, rows, 1, error);
}

/* NaN anywhere comes before an overflow, as where all rows are checked first. */
static ole_status first_error(const ole_error *errors, int64_t count, ole_error *error) {
    const ole_error *found = NULL;
    for (int64_t i = 0; i < count; i++)
        if (errors[i].status != OLE_OK &&
            (!found || (errors[i].status == OLE_ERROR_DATA && found->status != OLE_ERROR_DATA)))
            found = &errors[i];
    if (!found) return OLE_OK;
    return ole_fail(error, found->status, "%s", found->message);
}

static ole_status run_lanes(rows_run *r, ole_error *error) {
    int64_t tasks = (r->count + LANE_ROWS - 1) / LANE_ROWS;
    int threads = (int)ole_min(tasks, r->model->threads);
    ole_pool *pool = NULL;
    r->error = calloc((size_t)tasks, sizeof *r->error);
    ole_status status = r->error ? open_lanes(r->model, threads, error)
                                 : ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a run");
    if (status == OLE_OK) status = ole_pool_create(&pool, threads, error);
    if (status == OLE_OK) {
        ole_pool_run(pool, tasks, run_in_lane, r);
        status = first_error(r->error, tasks, error);
    }
    ole_pool_destroy(pool);
    free(r->error);
    return status;
}

/* ------------------------------------------------------------------------------------------- */

ole_status ole_model_run(ole_model *m, const float *images, int64_t count, float *features,
                         float *logits, ole_error *error) {
    if (!m || !images || count < 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_model_run: model or images is NULL, or count is not positive");
    bool lanes = has_lanes(m, count);
    ole_status status = lanes ? OLE_OK : check_images(m, images, 0, count, error);
    if (status != OLE_OK) return status;
    if (!ole_in_use_take(&m->in_use, "model", error)) return OLE_ERROR_ARGUMENT;
    rows_run run = {
        .model = m, .rows = images, .count = count, .features = features, .logits = logits};
    status = lanes ? run_lanes(&run, error) : run_batches(&run, error);
    ole_in_use_release(&m->in_use);
    return status;
}

/* "vectors of 6" or "3x32x32". */
static const char *show_shape(char text[48], int channels, int height, int width) {
    if (height == 1 && width == 1)
        snprintf(text, 48, "vectors of %d", channels);
    else
        snprintf(text, 48, "%dx%dx%d", channels, height, width);
    return text;
}

/* Bytes are taken for pixels, 0 to 255 for 0 to 1, which the rows of a fit never are. */
static ole_status check_shape(const ole_model *m, const ole_dataset_info *info, ole_error *error) {
    if (info->bytes && m->card.fitted.count > 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s: features are uint8; save them with .astype('float32')", info->name);
    if (info->channels == m->info.channels && info->height == m->info.height &&
        info->width == m->info.width)
        return OLE_OK;
    char taken[48], found[48];
    return ole_fail(error, OLE_ERROR_ARGUMENT, "the model takes %s, but the samples of %s are %s",
                    show_shape(taken, m->info.channels, m->info.height, m->info.width), info->name,
                    show_shape(found, info->channels, info->height, info->width));
}

bool ole_model_trained_on(const ole_model *m, const ole_dataset *set) {
    if (!m || !set || check_shape(m, ole_dataset_get_info(set), NULL) != OLE_OK) return false;
    ole_card made = {.input = m->card.input};
    return ole_dataset_statistics(set, made.mean, made.deviation, NULL) == OLE_OK &&
           ole_card_same_samples(&m->card, &made);
}

void ole_model_watch(ole_model *m, ole_part_callback *callback, void *context) {
    m->callback = callback;
    m->callback_context = context;
}

bool ole_model_report(void *model, const char *part, int64_t done, int64_t total) {
    const ole_model *m = model;
    return m->callback && m->callback(m->callback_context, part, done, total);
}

/* Runs one split through the model; `before` of `total` samples of the part are done. */
static ole_status run_split(ole_model *m, const ole_part *part, ole_split split, int64_t before,
                            int64_t total, ole_runner_outputs *outputs, ole_error *error) {
    ole_inference *inference;
    ole_status status = check_shape(m, ole_dataset_get_info(part->set), error);
    if (status == OLE_OK) status = get_inference(m, total, &inference, error);
    if (status != OLE_OK) return status;
    const ole_split_runner runner = {.inference = inference,
                                     .card = &m->card,
                                     .batch = inference->batch,
                                     .in_use = &m->in_use,
                                     .finite = true,
                                     .callback = part->callback,
                                     .callback_context = part->callback_context,
                                     .part = part->name,
                                     .before = before,
                                     .total = total};
    return ole_split_run(&runner, part->set, split, outputs, error);
}

ole_status ole_model_run_split(ole_model *m, const ole_dataset *set, ole_split split,
                               float *features, float *logits, ole_error *error) {
    if (!m || !set)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_model_run_split: model or set is NULL");
    const ole_part part = {ole_split_part(split), set, split, false, ole_model_report, m};
    ole_runner_outputs outputs = {.features = features, .logits = logits};
    return run_split(m, &part, split, 0, ole_dataset_get_info(set)->count[split], &outputs, error);
}

ole_status ole_outputs_collect(ole_outputs *outputs, ole_model *m, const ole_part *part,
                               bool logits, bool *stopped, ole_error *error) {
    const int64_t *count = ole_dataset_get_info(part->set)->count;
    int64_t total = 0;
    for (int s = 0; s < 3; s++)
        if (part->all || s == (int)part->split) total += count[s];
    size_t rows = (size_t)total + 1;
    *stopped = false;
    *outputs = (ole_outputs){.features = malloc(rows * (size_t)m->info.features * sizeof(float)),
                             .labels = malloc(rows * sizeof *outputs->labels)};
    if (logits) outputs->logits = malloc(rows * (size_t)m->info.classes * sizeof(float));
    ole_status status = OLE_OK;
    if (!outputs->features || !outputs->labels || (logits && !outputs->logits))
        status = ole_fail(error, OLE_ERROR_MEMORY,
                          "out of memory for the features of %" PRId64 " %s", total, part->name);
    for (int s = 0; s < 3 && status == OLE_OK && !*stopped; s++) {
        if ((!part->all && s != (int)part->split) || count[s] == 0) continue;
        int64_t at = outputs->count;
        ole_runner_outputs out = {.features = outputs->features + at * m->info.features,
                                  .logits = logits ? outputs->logits + at * m->info.classes : NULL};
        status = run_split(m, part, (ole_split)s, at, total, &out, error);
        memcpy(outputs->labels + at, ole_dataset_labels(part->set, (ole_split)s),
               (size_t)count[s] * sizeof *outputs->labels);
        outputs->count += count[s];
        *stopped = out.stopped;
    }
    if (status != OLE_OK || *stopped) ole_outputs_free(outputs);
    return status;
}

void ole_outputs_free(ole_outputs *outputs) {
    free(outputs->features);
    free(outputs->logits);
    free(outputs->labels);
    *outputs = (ole_outputs){0};
}

ole_status ole_model_classifier(ole_linear_classifier *classifier, float **memory,
                                const ole_model *model, ole_error *error) {
    const ole_graph *graph = model->network.graph;
    const ole_node *node = &graph->node[graph->classifier];
    int64_t classes = model->info.classes, dim = model->info.features;
    *memory = calloc((size_t)(classes * (dim + 1)), sizeof **memory);
    if (!*memory) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the classifier");
    for (int i = node->first_param; i < node->first_param + node->params; i++) {
        bool bias = graph->param[i].kind == OLE_PARAM_BIAS;
        if (bias || graph->param[i].kind == OLE_PARAM_WEIGHT)
            ole_params_get(model->network.params, i, *memory + (bias ? classes * dim : 0));
    }
    *classifier = (ole_linear_classifier){classes, dim, *memory, *memory + classes * dim};
    return OLE_OK;
}

ole_status ole_outputs_embedding(ole_embedding *embedding, int64_t **labels, const ole_outputs *o,
                                 int64_t dim, ole_error *error) {
    *labels = malloc(((size_t)o->count + 1) * sizeof **labels);
    if (!*labels) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for labels");
    for (int64_t i = 0; i < o->count; i++)
        (*labels)[i] = o->labels[i];
    *embedding = (ole_embedding){o->count, dim, OLE_F32, o->features, *labels};
    return OLE_OK;
}

ole_status ole_outputs_subspaces(ole_subspaces *subspaces, const ole_outputs *o, int64_t dim,
                                 ole_pool *pool, int threads, ole_error *error) {
    ole_embedding e;
    int64_t *labels;
    ole_status status = ole_outputs_embedding(&e, &labels, o, dim, error);
    if (status == OLE_OK) status = ole_subspaces_create(subspaces, &e, 0.95, pool, threads, error);
    free(labels);
    return status;
}

/* ---- Predicting --------------------------------------------------------------------------- */

void ole_model_judge(const ole_model *m, const float *features, const float *logits, int64_t count,
                     ole_prediction *predictions) {
    ole_predict_outputs(m->scorer, &m->info, m->threads, features, logits, count, predictions);
}

ole_status ole_model_check_classifier(const ole_model *m, ole_error *error) {
    if (m->info.classifier) return OLE_OK;
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "the model has no trained classifier: it was trained with OLE alone, or "
                    "fitted as a map; train with --loss softmax+ole or fit with --method linear, "
                    "or compare features");
}

ole_status ole_model_predict(ole_model *m, const float *images, int64_t count,
                             ole_prediction *predictions, ole_error *error) {
    if (!m || !images || !predictions || count < 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_model_predict: model, images or predictions is NULL, or count is not "
                        "positive");
    ole_status status = ole_model_check_classifier(m, error);
    bool lanes = has_lanes(m, count);
    if (status == OLE_OK && !lanes) status = check_images(m, images, 0, count, error);
    if (status != OLE_OK) return status;
    if (!ole_in_use_take(&m->in_use, "model", error)) return OLE_ERROR_ARGUMENT;
    rows_run run = {.model = m, .rows = images, .count = count, .predictions = predictions};
    status = lanes ? run_lanes(&run, error) : run_batches(&run, error);
    ole_in_use_release(&m->in_use);
    return status;
}

ole_status ole_model_predict_file(ole_model *m, const char *path, ole_prediction *prediction,
                                  ole_error *error) {
    if (!m || !path || !prediction)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_model_predict_file: model, path or prediction is NULL");
    size_t size = (size_t)ole_network_image_size(&m->network);
    ole_status status = ole_memory_check(size * (1 + sizeof(float)), "an image for the model",
                                         "use a model of smaller images", error);
    if (status != OLE_OK) return status;
    float *sample = malloc(size * sizeof *sample);
    status = sample ? ole_model_read_file(m, path, sample, error)
                    : ole_fail(error, OLE_ERROR_MEMORY, "out of memory for an image");
    if (status == OLE_OK) status = ole_model_predict(m, sample, 1, prediction, error);
    free(sample);
    return status;
}

ole_status ole_model_read_npy(const ole_model *m, const char *path, float **samples, int64_t *count,
                              ole_error *error) {
    if (samples) *samples = NULL;
    if (!m || !path || !samples || !count)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_model_read_npy: model, path, samples or count is NULL");
    ole_source source = {0};
    ole_status status = ole_read_npy_samples(path, NULL, &source, error);
    const ole_quoted quoted = ole_quote_string(path);
    const ole_dataset_info found = {.name = quoted.text,
                                    .channels = source.channels,
                                    .height = source.height,
                                    .width = source.width,
                                    .bytes = !source.floating};
    if (status == OLE_OK) status = check_shape(m, &found, error);
    if (status == OLE_OK) {
        *count = source.count;
        *samples = malloc((size_t)(source.count * ole_source_sample_size(&source)) * sizeof(float));
        if (!*samples) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for samples");
    }
    if (status == OLE_OK) ole_source_as_floats(&source, 0, source.count, *samples);
    ole_source_free(&source);
    return status;
}
