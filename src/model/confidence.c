/* src/model/confidence.c - scores of single samples, and storing what they need in a model's file.
 */
#include "model/confidence.h"

#include "base/error.h"
#include "base/min_max.h"
#include "base/number.h"
#include "base/pool.h"
#include "base/quote.h"
#include "model/network.h"
#include "model/threshold_words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "novelty."; /* of a scorer's tensors */
enum { PREFIX = sizeof prefix - 1 };

/* ---- Scoring ------------------------------------------------------------------------------ */

double ole_sum_exp(const float *logits, int classes, double temperature, double *largest) {
    double sum = 0.0;
    *largest = logits[ole_largest(logits, classes)];
    for (int c = 0; c < classes; c++)
        sum += exp((logits[c] - *largest) / temperature);
    return sum;
}

double ole_log_sum_exp(const float *logits, int classes, double temperature) {
    double largest, sum = ole_sum_exp(logits, classes, temperature, &largest);
    return largest / temperature + log(sum);
}

double ole_largest_softmax(const float *logits, int classes, double temperature) {
    double largest;
    return 1.0 / ole_sum_exp(logits, classes, temperature, &largest);
}

void ole_score_samples(const ole_scorer *scorer, const ole_model_info *model, const float *features,
                       const float *logits, int64_t count, double *scores) {
    if (scorer && ole_scorer_run(scorer, features, logits, count, scores, 1, NULL) == OLE_OK)
        return;
    for (int64_t i = 0; i < count; i++) /* which one is it? */
        if (!scorer ||
            ole_scorer_run(scorer, features + i * model->features, logits + i * model->classes, 1,
                           &scores[i], 1, NULL) != OLE_OK)
            scores[i] = NAN;
}

/* ---- Predicting --------------------------------------------------------------------------- */

/* The largest logits first; of equal ones that of the lower class. -1: there are not as many. */
static void find_largest(const float *logits, int classes, int order[1 + OLE_RUNNERS_UP]) {
    enum { LAST = OLE_RUNNERS_UP };
    for (int k = 0; k <= LAST; k++)
        order[k] = -1;
    for (int c = 0; c < classes; c++) {
        if (order[LAST] >= 0 && !(logits[c] > logits[order[LAST]])) continue;
        int k = LAST;
        for (; k > 0 && (order[k - 1] < 0 || logits[c] > logits[order[k - 1]]); k--)
            order[k] = order[k - 1];
        order[k] = c;
    }
}

/* Samples of a task. Many share the reading of a score's directions; few keep all threads busy. */
enum { MOST_JUDGED = 256, FEWEST_JUDGED = 16 };

typedef struct judging {
    const ole_scorer *scorer;
    const ole_model_info *info;
    const float *features, *logits;
    int64_t count, judged; /* all, and those of a task */
    ole_prediction *predictions;
} judging;

static void judge_some(void *context, int64_t task, int worker) {
    (void)worker;
    const judging *j = context;
    const ole_model_info *info = j->info;
    int64_t first = task * j->judged, rows = ole_min(j->count - first, j->judged);
    const float *logits = j->logits + first * info->classes;
    double known[MOST_JUDGED];
    ole_score_samples(j->scorer, info, j->features + first * info->features, logits, rows, known);
    for (int64_t i = 0; i < rows; i++, logits += info->classes) {
        ole_prediction *p = &j->predictions[first + i];
        int order[1 + OLE_RUNNERS_UP];
        double score[1 + OLE_RUNNERS_UP], largest;
        double sum = ole_sum_exp(logits, info->classes, info->temperature, &largest);
        find_largest(logits, info->classes, order);
        for (int k = 0; k < 1 + OLE_RUNNERS_UP; k++)
            score[k] =
                order[k] < 0 ? 0.0 : exp((logits[order[k]] - largest) / info->temperature) / sum;
        *p = (ole_prediction){.best = order[0], .score = score[0], .known_score = known[i]};
        p->label = p->known_score < info->threshold ? -1 : p->best;
        memcpy(p->runner_up, order + 1, sizeof p->runner_up);
        memcpy(p->runner_up_score, score + 1, sizeof p->runner_up_score);
    }
}

void ole_predict_outputs(const ole_scorer *scorer, const ole_model_info *model, int threads,
                         const float *features, const float *logits, int64_t count,
                         ole_prediction *predictions) {
    int64_t judged = ole_max(FEWEST_JUDGED, ole_min(MOST_JUDGED, count / threads));
    judging j = {scorer, model, features, logits, count, judged, predictions};
    int64_t tasks = (count + judged - 1) / judged;
    if (threads > tasks) threads = (int)tasks;
    ole_pool *pool = NULL;
    if (threads > 1 && ole_pool_create(&pool, threads, NULL) == OLE_OK)
        ole_pool_run(pool, tasks, judge_some, &j);
    else
        for (int64_t t = 0; t < tasks; t++)
            judge_some(&j, t, 0);
    ole_pool_destroy(pool);
}

bool ole_score_exports(ole_score score) {
    return score == OLE_SCORE_SOFTMAX || score == OLE_SCORE_CALIBRATED ||
           score == OLE_SCORE_ENERGY || score == OLE_SCORE_RESIDUAL || score == OLE_SCORE_COSINE;
}

/* ---- Reading ------------------------------------------------------------------------------ */

/* Whether a score follows from the logits and what the model's card says: nothing is stored. */
static bool is_of_the_card(ole_score score) {
    return score == OLE_SCORE_SOFTMAX || score == OLE_SCORE_CALIBRATED || score == OLE_SCORE_ENERGY;
}

ole_status ole_score_of_card(ole_scorer **scorer, const ole_model_info *model, ole_error *error) {
    *scorer = NULL;
    if (!is_of_the_card(model->threshold_score)) return OLE_OK;
    ole_scorer_options options;
    ole_scorer_options_init(&options);
    options.temperature = model->temperature;
    const ole_linear_classifier logits = {.classes = model->classes, .dim = model->features};
    return ole_scorer_fit(scorer, model->threshold_score, NULL, &logits, &options, error);
}

ole_status ole_score_read(ole_scorer **scorer, const ole_safetensors *file, const char *name,
                          const ole_model_info *model, ole_error *error) {
    *scorer = NULL;
    if (model->threshold_score == OLE_SCORE_NONE || is_of_the_card(model->threshold_score))
        return ole_score_of_card(scorer, model, error);
    ole_scorer_tensor tensors[2 * OLE_SCORER_TENSORS];
    int count = 0;
    for (size_t i = 0; i < ole_safetensors_count(file); i++) {
        const ole_tensor *t = ole_safetensors_get(file, i);
        if (strncmp(t->name, prefix, PREFIX) != 0 || count == 2 * OLE_SCORER_TENSORS) continue;
        tensors[count++] = (ole_scorer_tensor){t->name + PREFIX,
                                               t->dtype,
                                               t->ndim,
                                               {t->shape[0], t->ndim > 1 ? t->shape[1] : 0},
                                               t->data};
    }
    if (count == 0)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: the data of its threshold's score, '%s', are missing: the file is "
                        "damaged",
                        ole_quote_string(name).text, ole_score_name(model->threshold_score));
    ole_error why;
    ole_status status = ole_scorer_restore(scorer, model->threshold_score, tensors, count, &why);
    if (status == OLE_ERROR_MEMORY) return ole_fail(error, status, "%s", why.message);
    if (status != OLE_OK)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: %s: the file is damaged",
                        ole_quote_string(name).text, why.message);
    const ole_scorer_info info = ole_scorer_get_info(*scorer);
    if ((info.dim == 0 || info.dim == model->features) &&
        (info.classes == 0 || info.classes == model->classes))
        return OLE_OK;
    ole_scorer_free(*scorer);
    *scorer = NULL;
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: the tensors of the score '%s' do not fit the model: the file is damaged",
                    ole_quote_string(name).text, ole_score_name(model->threshold_score));
}

/* ---- Storing ------------------------------------------------------------------------------ */

void ole_score_list(ole_score_tensors *list, const ole_scorer *scorer) {
    list->count = 0;
    if (is_of_the_card(ole_scorer_get_info(scorer).score)) return;
    ole_scorer_tensor own[OLE_SCORER_TENSORS];
    list->count = (size_t)ole_scorer_save(scorer, own);
    for (size_t i = 0; i < list->count; i++) {
        snprintf(list->name[i], sizeof list->name[i], "%s%s", prefix, own[i].name);
        list->tensor[i] = (ole_tensor){list->name[i],
                                       own[i].dtype,
                                       own[i].ndim,
                                       {own[i].shape[0], own[i].shape[1]},
                                       own[i].data};
    }
}

/* Lists the tensors of the file, with those of the scorer in place of the old ones; returns how
 * many. */
static size_t list_tensors(const ole_safetensors *file, const ole_score_tensors *own,
                           ole_tensor *to) {
    size_t count = 0;
    for (size_t i = 0; i < ole_safetensors_count(file); i++) {
        const ole_tensor *tensor = ole_safetensors_get(file, i);
        if (strncmp(tensor->name, prefix, PREFIX) != 0) to[count++] = *tensor;
    }
    for (size_t i = 0; i < own->count; i++)
        to[count++] = own->tensor[i];
    return count;
}

ole_status ole_score_store(const char *path, const ole_scorer *scorer,
                           const ole_threshold_record *record, ole_error *error) {
    ole_safetensors *file;
    ole_status status = ole_safetensors_open(&file, path, error);
    if (status != OLE_OK) return status;
    static const char *const changed[] = {"threshold",      "threshold_score",   "temperature",
                                          "threshold_from", "threshold_samples", "novelty_choice"};
    enum { CHANGED = sizeof changed / sizeof *changed };
    char limit[OLE_NUMBER_TEXT], heat[OLE_NUMBER_TEXT], from_how_many[32];
    ole_score_tensors own;
    ole_score_list(&own, scorer);
    snprintf(from_how_many, sizeof from_how_many, "%lld", (long long)record->samples);
    const char *const now[CHANGED] = {ole_number_write(limit, 17, record->threshold),
                                      ole_score_name(ole_scorer_get_info(scorer).score),
                                      ole_number_write(heat, 17, record->temperature),
                                      ole_threshold_source_name(record->from),
                                      from_how_many,
                                      record->choice};
    size_t texts = ole_safetensors_texts(file);
    ole_tensor *tensors = calloc(ole_safetensors_count(file) + OLE_SCORER_TENSORS, sizeof *tensors);
    ole_metadata *metadata = calloc(texts + CHANGED, sizeof *metadata);
    if (tensors && metadata) {
        size_t count = 0;
        for (size_t i = 0; i < texts; i++) { /* all but these and the checksum, written anew */
            ole_metadata pair = ole_safetensors_text(file, i);
            bool keep = pair.key && strcmp(pair.key, "checksum") != 0;
            for (int k = 0; k < CHANGED && keep; k++)
                keep = strcmp(pair.key, changed[k]) != 0;
            if (keep) metadata[count++] = pair;
        }
        for (int k = 0; k < CHANGED; k++)
            if (now[k]) metadata[count++] = (ole_metadata){changed[k], now[k]};
        size_t all = list_tensors(file, &own, tensors);
        status = ole_safetensors_write(path, tensors, all, metadata, count, error);
    } else {
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory to rewrite a model");
    }
    free(tensors);
    free(metadata);
    ole_safetensors_close(file);
    return status;
}
