/* src/model/confidence.c - computing scores, and storing what they need in a model's file. */
#include "model/confidence.h"

#include "base/error.h"
#include "base/number.h"
#include "base/quote.h"
#include "model/network.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char sizes_name[] = "novelty.sizes", basis_name[] = "novelty.directions";

static const char *const names[] = {"none",     "softmax", "calibrated",
                                    "residual", "cosine",  "energy"};
enum { NAMES = sizeof names / sizeof *names };

const char *ole_score_name(ole_score score) {
    return (int)score >= 0 && (int)score < NAMES ? names[score] : "unknown";
}

bool ole_score_parse(const char *name, ole_score *score) {
    *score = OLE_SCORE_NONE;
    for (int i = 0; i < NAMES; i++)
        if (strcmp(name, names[i]) == 0) {
            *score = (ole_score)i;
            return true;
        }
    return false;
}

bool ole_score_of_features(ole_score score) {
    return score == OLE_SCORE_RESIDUAL || score == OLE_SCORE_COSINE;
}

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

/* Eight sums, which the compiler can keep in vectors. */
static double dot(const float *a, const float *b, int64_t count) {
    enum { LANES = 8 };
    double sum[LANES] = {0.0};
    int64_t whole = count - count % LANES;
    for (int64_t k = 0; k < whole; k += LANES)
        for (int lane = 0; lane < LANES; lane++)
            sum[lane] += (double)a[k + lane] * b[k + lane];
    for (int64_t k = whole; k < count; k++)
        sum[0] += (double)a[k] * b[k];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

/* The largest share of ‖x‖² in a class subspace, or the largest cosine; 0 for a zero feature. */
static double nearest_class(const ole_score_directions *d, const float *x, bool cosine) {
    double square = dot(x, x, d->dim), best = cosine ? -1.0 : 0.0;
    if (!(square > 0.0)) return square == 0.0 ? 0.0 : NAN;
    const float *direction = d->basis;
    for (int c = 0; c < d->classes; c++) {
        double inside = 0.0, along = -1.0;
        for (int64_t i = 0; i < d->size[c]; i++, direction += d->dim) {
            along = dot(direction, x, d->dim) / sqrt(square);
            inside += along * along;
        }
        best = fmax(best, cosine ? along : inside);
    }
    return best;
}

double ole_score_sample(const ole_scorer *s, const float *feature, const float *logits) {
    switch (s->score) {
    case OLE_SCORE_SOFTMAX:
        return ole_largest_softmax(logits, s->classes, 1.0);
    case OLE_SCORE_CALIBRATED:
        return ole_largest_softmax(logits, s->classes, s->temperature);
    case OLE_SCORE_RESIDUAL:
    case OLE_SCORE_COSINE:
        return nearest_class(s->directions, feature, s->score == OLE_SCORE_COSINE);
    case OLE_SCORE_ENERGY:
        return ole_log_sum_exp(logits, s->classes, 1.0);
    default:
        return NAN;
    }
}

/* ---- Directions --------------------------------------------------------------------------- */

ole_status ole_score_directions_make(ole_score_directions *d, int classes, int64_t dim,
                                     int64_t rows, ole_error *error) {
    *d = (ole_score_directions){.classes = classes, .dim = dim};
    d->size = calloc((size_t)classes, sizeof *d->size);
    d->basis = calloc((size_t)(rows * dim) + 1, sizeof *d->basis);
    if (d->size && d->basis) return OLE_OK;
    ole_score_directions_free(d);
    return ole_fail(error, OLE_ERROR_MEMORY,
                    "out of memory for %" PRId64 " directions of %" PRId64 " dimensions", rows,
                    dim);
}

void ole_score_directions_free(ole_score_directions *d) {
    free(d->size);
    free(d->basis);
    *d = (ole_score_directions){0};
}

ole_status ole_score_directions_read(ole_score_directions *d, const ole_safetensors *file,
                                     const char *name, const ole_model_info *model,
                                     ole_error *error) {
    *d = (ole_score_directions){0};
    ole_quoted quoted;
    const ole_tensor *sizes = ole_safetensors_find(file, sizes_name);
    const ole_tensor *basis = ole_safetensors_find(file, basis_name);
    if (!sizes && !basis) {
        if (!ole_score_of_features(model->threshold_score)) return OLE_OK;
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: the directions of the classes, which its threshold needs, are "
                        "missing: the file is damaged",
                        ole_quote_string(&quoted, name));
    }
    if (sizes && sizes->dtype == OLE_I64 && sizes->ndim == 1 && sizes->shape[0] == model->classes &&
        basis && basis->dtype == OLE_F32 && basis->ndim == 2 &&
        basis->shape[1] == model->features) {
        int64_t rows = basis->shape[0];
        ole_status status =
            ole_score_directions_make(d, model->classes, model->features, rows, error);
        if (status != OLE_OK) return status;
        ole_tensor_read(sizes, OLE_I64, d->size);
        ole_tensor_read(basis, OLE_F32, d->basis);
        bool fit = true;
        for (int c = 0; c < d->classes && fit; c++) {
            fit = d->size[c] >= 0 && d->size[c] <= rows;
            rows -= d->size[c];
        }
        if (fit && rows == 0) return OLE_OK;
    }
    ole_score_directions_free(d);
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: tensors '%s' and '%s' do not fit the model: the file is damaged",
                    ole_quote_string(&quoted, name), sizes_name, basis_name);
}

/* ---- Storing ------------------------------------------------------------------------------ */

/* Lists the tensors of the file, with new directions in place of old ones; returns how many. */
static size_t list_tensors(const ole_safetensors *file, const ole_scorer *s, ole_tensor *to) {
    size_t count = 0;
    for (size_t i = 0; i < ole_safetensors_count(file); i++) {
        const ole_tensor *tensor = ole_safetensors_get(file, i);
        if (strcmp(tensor->name, sizes_name) != 0 && strcmp(tensor->name, basis_name) != 0)
            to[count++] = *tensor;
    }
    const ole_score_directions *d = s->directions;
    if (!ole_score_of_features(s->score)) return count;
    int64_t rows = 0;
    for (int c = 0; c < d->classes; c++)
        rows += d->size[c];
    to[count++] = (ole_tensor){sizes_name, OLE_I64, 1, {d->classes}, d->size};
    to[count++] = (ole_tensor){basis_name, OLE_F32, 2, {rows, d->dim}, d->basis};
    return count;
}

ole_status ole_score_store(const char *path, const ole_scorer *scorer, double threshold,
                           ole_error *error) {
    ole_safetensors *file;
    ole_status status = ole_safetensors_open(&file, path, error);
    if (status != OLE_OK) return status;
    static const char *const changed[] = {"threshold", "threshold_score", "temperature"};
    enum { CHANGED = sizeof changed / sizeof *changed };
    char limit[OLE_NUMBER_TEXT], temperature[OLE_NUMBER_TEXT];
    const char *const now[CHANGED] = {ole_number_write(limit, 17, threshold),
                                      ole_score_name(scorer->score),
                                      ole_number_write(temperature, 17, scorer->temperature)};
    size_t texts = ole_safetensors_texts(file);
    ole_tensor *tensors = calloc(ole_safetensors_count(file) + 2, sizeof *tensors);
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
            metadata[count++] = (ole_metadata){changed[k], now[k]};
        status = ole_safetensors_write(path, tensors, list_tensors(file, scorer, tensors), metadata,
                                       count, error);
    } else {
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory to rewrite a model");
    }
    free(tensors);
    free(metadata);
    ole_safetensors_close(file);
    return status;
}
