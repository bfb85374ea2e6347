/*
 * src/features/novelty/scorer.c - fitting, running and keeping a score of any kind.
 *
 * Rows are scored in blocks that are cut by the shapes alone; one worker takes a block through all
 * steps (logits, products, score), so that scores depend neither on threads nor on other rows.
 */
#include "features/novelty/scorer.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/min_max.h"
#include "base/struct_size.h"
#include "linalg/float_kernels.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const score_kind *const kinds[OLE_SCORES + 1] = {
    [OLE_SCORE_SOFTMAX] = &score_softmax,
    [OLE_SCORE_CALIBRATED] = &score_calibrated,
    [OLE_SCORE_RESIDUAL] = &score_residual,
    [OLE_SCORE_COSINE] = &score_cosine,
    [OLE_SCORE_ENERGY] = &score_energy,
    [OLE_SCORE_GEN] = &score_gen,
    [OLE_SCORE_KNN] = &score_knn,
    [OLE_SCORE_VIM] = &score_vim,
    [OLE_SCORE_MAHALANOBIS] = &score_mahalanobis,
    [OLE_SCORE_RELATIVE] = &score_relative,
    [OLE_SCORE_FDBD] = &score_fdbd,
    [OLE_SCORE_NCI] = &score_nci,
    [OLE_SCORE_NECO] = &score_neco,
};

static const score_kind *find_kind(ole_score score) {
    return (int)score > 0 && (int)score <= OLE_SCORES ? kinds[score] : NULL;
}

const char *ole_score_name(ole_score score) {
    const score_kind *kind = find_kind(score);
    return kind ? kind->name : score == OLE_SCORE_NONE ? "none" : "unknown";
}

const char *ole_score_title(ole_score score) {
    const score_kind *kind = find_kind(score);
    return kind ? kind->title : score == OLE_SCORE_NONE ? "no score" : "unknown score";
}

bool ole_score_parse(const char *name, ole_score *score) {
    *score = OLE_SCORE_NONE;
    if (strcmp(name, "none") == 0) return true;
    for (int i = 1; i <= OLE_SCORES; i++)
        if (strcmp(name, kinds[i]->name) == 0) {
            *score = (ole_score)i;
            return true;
        }
    return false;
}

int ole_score_needs(ole_score score) {
    const score_kind *kind = find_kind(score);
    return kind ? kind->needs : 0;
}

static const ole_scorer_options defaults = {.struct_size = sizeof(ole_scorer_options),
                                            .temperature = 1.0,
                                            .energy = 0.95,
                                            .neighbours = 5,
                                            .gamma = 0.1,
                                            .largest = 100,
                                            .norm_weight = 1e-4,
                                            .threads = 1};

void ole_scorer_options_init_sized(ole_scorer_options *options, size_t struct_size) {
    ole_struct_fill(options, struct_size, &defaults);
}

/* ---- Tensors ------------------------------------------------------------------------------ */

static int64_t tensor_count(const ole_scorer_tensor *t) {
    return t->ndim == 2 ? t->shape[0] * t->shape[1] : t->shape[0];
}

void *scorer_add(ole_scorer *s, const char *name, ole_dtype dtype, int64_t rows, int64_t cols,
                 ole_error *error) {
    ole_scorer_tensor t = {name, dtype, cols ? 2 : 1, {rows, cols}, NULL};
    ole_arena arena = {0};
    ole_arena_take(&arena, rows, (cols ? (size_t)cols : 1) * ole_dtype_size(dtype));
    void *data = ole_arena_allocate(arena.used);
    if (!data) {
        ole_fail(error, OLE_ERROR_MEMORY,
                 "out of memory for the %s of the score '%s', %" PRId64 " x %" PRId64, name,
                 s->kind->name, rows, cols ? cols : 1);
        return NULL;
    }
    memset(data, 0, arena.used);
    t.data = data;
    s->tensor[s->count++] = t;
    return data;
}

ole_status scorer_add_number(ole_scorer *s, const char *name, double value, ole_error *error) {
    double *number = scorer_add(s, name, OLE_F64, 1, 0, error);
    if (!number) return OLE_ERROR_MEMORY;
    *number = value;
    return OLE_OK;
}

static const ole_scorer_tensor *find_tensor(const ole_scorer *s, const char *name) {
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->tensor[i].name, name) == 0) return &s->tensor[i];
    return NULL;
}

const ole_scorer_tensor *scorer_find(const ole_scorer *s, const char *name, ole_dtype dtype,
                                     int64_t rows, int64_t cols, ole_error *error) {
    const ole_scorer_tensor *t = find_tensor(s, name);
    if (!t) {
        ole_fail(error, OLE_ERROR_FORMAT, "the tensor '%s' of the score '%s' is missing", name,
                 s->kind->name);
        return NULL;
    }
    bool fits = t->dtype == dtype && t->ndim == (cols ? 2 : 1) &&
                (rows < 0 ? t->shape[0] >= 1 : t->shape[0] == rows) &&
                (cols < 0 ? t->shape[1] >= 1 : t->ndim < 2 || t->shape[1] == cols);
    if (fits) return t;
    ole_fail(error, OLE_ERROR_FORMAT, "the tensor '%s' does not fit the score '%s'", name,
             s->kind->name);
    return NULL;
}

ole_status scorer_find_number(const ole_scorer *s, const char *name, double least, double most,
                              ole_error *error) {
    const ole_scorer_tensor *t = scorer_find(s, name, OLE_F64, 1, 0, error);
    if (!t) return OLE_ERROR_FORMAT;
    double value = *(const double *)t->data;
    if (value >= least && value <= most) return OLE_OK;
    return ole_fail(error, OLE_ERROR_FORMAT, "the tensor '%s' of the score '%s' holds %g", name,
                    s->kind->name, value);
}

double scorer_number(const ole_scorer *s, const char *name) {
    return *(const double *)find_tensor(s, name)->data;
}

void *scorer_keep(ole_scorer *s, int64_t count, size_t size, ole_error *error) {
    ole_arena arena = {0};
    ole_arena_take(&arena, count, size);
    for (size_t i = 0; i < sizeof s->memory / sizeof *s->memory; i++) {
        if (s->memory[i]) continue;
        s->memory[i] = ole_arena_allocate(arena.used);
        if (s->memory[i]) return s->memory[i];
        break;
    }
    ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the score '%s'", s->kind->name);
    return NULL;
}

ole_status scorer_pack(ole_scorer *s, const ole_scorer_tensor *t, ole_panels *panels,
                       ole_error *error) {
    const ole_operand operand = {.data = t->data,
                                 .dtype = t->dtype,
                                 .items = t->shape[0],
                                 .depth = t->shape[1],
                                 .item_stride = t->shape[1],
                                 .depth_stride = 1};
    double *room =
        scorer_keep(s, ole_panels_size(operand.items, operand.depth), sizeof *room, error);
    if (!room) return OLE_ERROR_MEMORY;
    *panels = ole_panels_pack(NULL, room, &operand);
    return OLE_OK;
}

/* All numbers must be finite: a damaged file could hold others. */
static ole_status check_tensors(const ole_scorer *s, ole_error *error) {
    for (int i = 0; i < s->count; i++) {
        const ole_scorer_tensor *t = &s->tensor[i];
        if (t->dtype == OLE_I64) continue;
        int64_t count = tensor_count(t);
        if (!(t->dtype == OLE_F32 ? ole_finite_f32(t->data, count)
                                  : ole_finite_f64(t->data, count)))
            return ole_fail(error, OLE_ERROR_NUMERIC,
                            "the tensor '%s' of the score '%s' holds NaN or Inf", t->name,
                            s->kind->name);
    }
    return OLE_OK;
}

/* Packs the classifier, if there is one, and what the score itself multiplies. */
static ole_status prepare(ole_scorer *s, ole_error *error) {
    ole_status status = check_tensors(s, error);
    if (status != OLE_OK) return status;
    if (find_tensor(s, "weight")) {
        const ole_scorer_tensor *weight = scorer_find(s, "weight", OLE_F32, -1, -1, error);
        if (!weight) return OLE_ERROR_FORMAT;
        s->classes = weight->shape[0];
        s->dim = weight->shape[1];
        const ole_scorer_tensor *bias = scorer_find(s, "bias", OLE_F32, s->classes, 0, error);
        if (!bias) return OLE_ERROR_FORMAT;
        s->bias = bias->data;
        status = scorer_pack(s, weight, &s->weight, error);
    } else if (s->kind->needs & OLE_NEEDS_WEIGHTS) {
        return scorer_find(s, "weight", OLE_F32, -1, -1, error) ? OLE_OK : OLE_ERROR_FORMAT;
    } else if (s->kind->needs & OLE_NEEDS_LOGITS) {
        status = scorer_find_number(s, "classes", 1.0, 1e9, error);
        if (status == OLE_OK) s->classes = (int64_t)scorer_number(s, "classes");
    }
    if (status == OLE_OK && s->kind->prepare) status = s->kind->prepare(s, error);
    return status;
}

void ole_scorer_free(ole_scorer *s) {
    if (!s) return;
    for (int i = 0; i < s->count; i++)
        free((void *)s->tensor[i].data);
    for (size_t i = 0; i < sizeof s->memory / sizeof *s->memory; i++)
        free(s->memory[i]);
    free(s);
}

/* ---- Fitting ------------------------------------------------------------------------------ */

/* "cosine, residual, ..." */
static void list_without_classifier(char *to, size_t size) {
    size_t used = 0;
    *to = '\0';
    for (int i = 1; i <= OLE_SCORES && used < size; i++)
        if (!(kinds[i]->needs & OLE_NEEDS_LOGITS))
            used +=
                (size_t)snprintf(to + used, size - used, "%s%s", used ? ", " : "", kinds[i]->name);
}

static ole_status check_classifier(const score_kind *kind, const ole_linear_classifier *c,
                                   ole_error *error) {
    char others[160];
    list_without_classifier(others, sizeof others);
    if (!c && kind->needs & OLE_NEEDS_LOGITS)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the score '%s' needs a classifier, and there is none; these do not: %s",
                        kind->name, others);
    if (!c) return OLE_OK;
    if (!c->weight && kind->needs & OLE_NEEDS_WEIGHTS)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the score '%s' needs the weights of the classifier, not only its logits",
                        kind->name);
    if (c->classes < 1 || (c->weight && c->dim < 1))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the classifier has %" PRId64 " classes and %" PRId64
                        " dimensions: both must be at least 1",
                        c->classes, c->dim);
    for (int64_t i = 0; c->weight && i < c->classes * (c->dim + 1); i++) {
        int64_t row = i / (c->dim + 1), col = i % (c->dim + 1);
        if (!isfinite(col < c->dim ? c->weight[row * c->dim + col] : c->bias ? c->bias[row] : 0.0f))
            return ole_fail(error, OLE_ERROR_DATA,
                            "the classifier's weights of class %" PRId64 " hold NaN or Inf", row);
    }
    return OLE_OK;
}

static ole_status check_options(const ole_scorer_options *o, ole_error *error) {
    const struct {
        const char *name, *range;
        double value;
        bool good;
    } rules[] = {
        {"temperature", "a number over 0", o->temperature,
         o->temperature > 0.0 && isfinite(o->temperature)},
        {"energy", "a share over 0, at most 1", o->energy, o->energy > 0.0 && o->energy <= 1.0},
        {"neighbours", "1 or more", (double)o->neighbours, o->neighbours >= 1},
        {"principal", "0 or more", (double)o->principal, o->principal >= 0},
        {"gamma", "a number over 0, at most 1", o->gamma, o->gamma > 0.0 && o->gamma <= 1.0},
        {"largest", "1 or more", (double)o->largest, o->largest >= 1},
        {"norm_weight", "0 or more", o->norm_weight,
         o->norm_weight >= 0.0 && isfinite(o->norm_weight)},
        {"threads", "1 to 1024", (double)o->threads, o->threads >= 1 && o->threads <= 1024},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!rules[i].good)
            return ole_fail(error, OLE_ERROR_ARGUMENT, "options.%s is %g; must be %s",
                            rules[i].name, rules[i].value, rules[i].range);
    return OLE_OK;
}

static ole_status copy_classifier(ole_scorer *s, const ole_linear_classifier *c, ole_error *error) {
    float *weight = scorer_add(s, "weight", OLE_F32, c->classes, c->dim, error);
    float *bias = weight ? scorer_add(s, "bias", OLE_F32, c->classes, 0, error) : NULL;
    if (!bias) return OLE_ERROR_MEMORY;
    memcpy(weight, c->weight, (size_t)(c->classes * c->dim) * sizeof *weight);
    if (c->bias) memcpy(bias, c->bias, (size_t)c->classes * sizeof *bias);
    return OLE_OK;
}

/* Fits with all inputs checked. */
static ole_status fit(ole_scorer *s, const score_training *t, ole_error *error) {
    const ole_linear_classifier *c = t->classifier;
    bool logits = s->kind->needs & OLE_NEEDS_LOGITS;
    s->dim = s->kind->needs & OLE_NEEDS_FEATURES ? t->known->dim : logits && c->weight ? c->dim : 0;
    if (logits && c->weight && c->dim != s->dim)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the classifier takes %" PRId64 " dimensions, the features have %" PRId64,
                        c->dim, s->dim);
    ole_status status = OLE_OK;
    if (logits && c->weight) status = copy_classifier(s, c, error);
    if (logits && !c->weight) status = scorer_add_number(s, "classes", (double)c->classes, error);
    if (status == OLE_OK && s->kind->fit) status = s->kind->fit(s, t, error);
    if (status == OLE_OK) status = prepare(s, error);
    return status;
}

ole_status ole_scorer_fit(ole_scorer **scorer, ole_score score, const ole_embedding *known,
                          const ole_linear_classifier *classifier,
                          const ole_scorer_options *options, ole_error *error) {
    if (!scorer) return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_scorer_fit: scorer is NULL");
    *scorer = NULL;
    const score_kind *kind = find_kind(score);
    if (!kind)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_scorer_fit: %d is no ole_score",
                        (int)score);
    ole_scorer_options o = defaults;
    ole_status status = ole_struct_read(&o, options, OLE_SIZE_UP_TO(ole_scorer_options, threads),
                                        "ole_scorer_options_init", error);
    if (status == OLE_OK) status = check_options(&o, error);
    if (status == OLE_OK) status = check_classifier(kind, classifier, error);
    if (status == OLE_OK && !known && kind->needs & OLE_NEEDS_FEATURES)
        status = ole_fail(error, OLE_ERROR_ARGUMENT,
                          "the score '%s' is fitted on features of known samples, and there are "
                          "none",
                          kind->name);
    if (status != OLE_OK) return status;
    score_training t = {.classifier = classifier, .options = &o, .threads = (int)o.threads};
    if (kind->needs & OLE_NEEDS_FEATURES) {
        t.known = known;
        status = ole_classes_open(&t.classes, &t.pool, "ole_scorer_fit", known, t.threads, error);
        if (status != OLE_OK) return status;
    }
    ole_scorer *s = calloc(1, sizeof *s);
    if (s) {
        s->kind = kind;
        s->score = score;
        status = fit(s, &t, error);
    } else {
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a scorer");
    }
    if (t.known) ole_classes_close(&t.classes, t.pool);
    if (status == OLE_OK)
        *scorer = s;
    else
        ole_scorer_free(s);
    return status;
}

/* ---- Running ------------------------------------------------------------------------------ */

enum { MOST_ROWS = 256, FEWEST_ROWS = 16, BLOCK_DOUBLES = 1 << 20 };

typedef struct scoring {
    const ole_scorer *scorer;
    const float *features, *logits;
    int64_t rows, block; /* all, and of a block */
    double *scores;
    score_block *scratch; /* [threads] */
    int64_t *bad;         /* [blocks]: its first row with NaN or Inf; -1: none */
} scoring;

int64_t scorer_largest(const double *values, int64_t count) {
    int64_t best = 0;
    for (int64_t c = 1; c < count; c++)
        if (values[c] > values[best]) best = c;
    return best;
}

double scorer_log_sum_exp(const double *logits, int64_t classes) {
    double largest = logits[scorer_largest(logits, classes)], sum = 0.0;
    for (int64_t c = 0; c < classes; c++)
        sum += exp(logits[c] - largest);
    return largest + log(sum);
}

double scorer_square(const double *x, int64_t n) {
    return ole_kernels_get()->dot_f64(x, x, n);
}

void scorer_multiply(const score_block *b, const void *rows, ole_dtype dtype,
                     const ole_panels *right, double *to) {
    const ole_operand left = {.data = rows,
                              .dtype = dtype,
                              .items = b->rows,
                              .depth = right->depth,
                              .item_stride = right->depth,
                              .depth_stride = 1};
    const ole_product product = {.alpha = 1.0, .c = to, .ldc = right->items};
    ole_panels packed = ole_panels_pack(NULL, b->panels, &left);
    ole_panels_multiply(NULL, &packed, right, &product);
}

void scorer_centre(const ole_scorer *s, const score_block *b, const double *centre) {
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t k = 0; k < s->dim; k++)
            b->centred[i * s->dim + k] = b->features[i * s->dim + k] - centre[k];
}

/* The first of the block's rows of `size` numbers that holds NaN or Inf; -1: none. */
static int64_t find_bad(const float *values, int64_t rows, int64_t size) {
    for (int64_t i = 0; i < rows && values; i++)
        if (!ole_finite_f32(values + i * size, size)) return i;
    return -1;
}

static void fill_logits(const scoring *r, score_block *b, int64_t first) {
    const ole_scorer *s = r->scorer;
    if (r->logits) {
        for (int64_t i = 0; i < b->rows * s->classes; i++)
            b->logits[i] = r->logits[first * s->classes + i];
        return;
    }
    scorer_multiply(b, b->features, OLE_F32, &s->weight, b->logits);
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t c = 0; c < s->classes; c++)
            b->logits[i * s->classes + c] += s->bias[c];
}

static void score_one_block(void *context, int64_t task, int worker) {
    const scoring *r = context;
    const ole_scorer *s = r->scorer;
    int64_t first = task * r->block;
    score_block b = r->scratch[worker];
    b.rows = ole_min(r->block, r->rows - first);
    b.features = r->features ? r->features + first * s->dim : NULL;
    int64_t bad = find_bad(b.features, b.rows, s->dim);
    if (bad < 0 && r->logits) bad = find_bad(r->logits + first * s->classes, b.rows, s->classes);
    r->bad[task] = bad < 0 ? -1 : first + bad;
    if (bad >= 0 || !s->kind->run) return;
    if (s->kind->needs & OLE_NEEDS_LOGITS) fill_logits(r, &b, first);
    s->kind->run(s, &b, r->scores + first);
}

static void place(scoring *r, int threads, ole_arena *arena) {
    const ole_scorer *s = r->scorer;
    bool run = s->kind->run, logits = run && s->kind->needs & OLE_NEEDS_LOGITS;
    r->scratch = ole_arena_take(arena, threads, sizeof *r->scratch);
    r->bad = ole_arena_take(arena, (r->rows + r->block - 1) / r->block, sizeof *r->bad);
    for (int i = 0; i < threads; i++) {
        const score_block b = {
            .logits = ole_arena_take(arena, logits ? r->block * s->classes : 0, sizeof(double)),
            .centred = ole_arena_take(arena, run ? r->block * s->dim : 0, sizeof(double)),
            .product = ole_arena_take(arena, run ? r->block * s->operand.items : 0, sizeof(double)),
            .other = ole_arena_take(arena, run ? r->block * s->second.items : 0, sizeof(double)),
            .panels =
                ole_arena_take(arena, run ? ole_panels_size(r->block, s->dim) : 0, sizeof(double)),
            .scaled = ole_arena_take(arena, s->packed ? r->block * s->dim : 0, sizeof(float)),
            .along = ole_arena_take(
                arena, s->packed ? r->block * ole_float_padded(s->directions) : 0, sizeof(float)),
            .list = ole_arena_take(arena, logits ? s->classes : 0, sizeof(double))};
        if (arena->base) r->scratch[i] = b;
    }
}

static ole_status check_run(const ole_scorer *s, const float *features, const float *logits,
                            int64_t rows, const double *scores, int threads, ole_error *error) {
    if (!s || (!scores && rows > 0) || rows < 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_scorer_run: scorer or scores is NULL, or rows is negative");
    if (threads < 1 || threads > 1024)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_scorer_run: threads is %d (1 to 1024)",
                        threads);
    bool compute = s->kind->needs & OLE_NEEDS_LOGITS && !logits;
    if (compute && !s->weight.data)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the score '%s' was fitted without the classifier's weights: pass logits",
                        s->kind->name);
    if (!features && rows > 0 && (compute || s->kind->needs & OLE_NEEDS_FEATURES))
        return ole_fail(error, OLE_ERROR_ARGUMENT, "the score '%s' needs features, which are NULL",
                        s->kind->name);
    return OLE_OK;
}

ole_status ole_scorer_run(const ole_scorer *s, const float *features, const float *logits,
                          int64_t rows, double *scores, int threads, ole_error *error) {
    ole_status status = check_run(s, features, logits, rows, scores, threads, error);
    if (status != OLE_OK || rows == 0) return status;
    bool read_logits = s->kind->needs & OLE_NEEDS_LOGITS;
    bool read = s->kind->needs & OLE_NEEDS_FEATURES || (read_logits && !logits);
    int64_t columns = ole_max(ole_max(s->dim, s->classes),
                              ole_max(ole_max(s->operand.items, s->second.items), s->directions));
    scoring r = {.scorer = s,
                 .features = read ? features : NULL,
                 .logits = read_logits ? logits : NULL,
                 .rows = rows,
                 .block =
                     ole_min(MOST_ROWS, ole_max(FEWEST_ROWS, BLOCK_DOUBLES / ole_max(columns, 1))),
                 .scores = scores};
    r.block = ole_min(r.block, rows);
    int64_t blocks = (rows + r.block - 1) / r.block;
    if (blocks < threads) threads = (int)blocks;
    if (s->kind->run_all) threads = (int)ole_min(threads, 1024);
    ole_pool *pool;
    status = ole_pool_create(&pool, threads, error);
    if (status != OLE_OK) return status;
    ole_arena arena = {0};
    place(&r, threads, &arena);
    char *memory = ole_arena_reserve(&arena);
    if (memory) {
        place(&r, threads, &arena);
        ole_pool_run(pool, blocks, score_one_block, &r);
        for (int64_t i = 0; i < blocks && status == OLE_OK; i++)
            if (r.bad[i] >= 0)
                status = ole_fail(error, OLE_ERROR_DATA,
                                  "features to score: row %" PRId64 " holds NaN or Inf", r.bad[i]);
        if (status == OLE_OK && s->kind->run_all)
            status = s->kind->run_all(s, features, rows, scores, pool, error);
    } else {
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory to score features");
    }
    free(memory);
    ole_pool_destroy(pool);
    return status;
}

/* ---- Keeping ------------------------------------------------------------------------------ */

ole_scorer_info ole_scorer_get_info(const ole_scorer *s) {
    if (!s) return (ole_scorer_info){OLE_SCORE_NONE, 0, 0, false};
    return (ole_scorer_info){s->score, s->dim, s->classes, s->weight.data != NULL};
}

int ole_scorer_save(const ole_scorer *s, ole_scorer_tensor tensors[OLE_SCORER_TENSORS]) {
    memcpy(tensors, s->tensor, (size_t)s->count * sizeof *tensors);
    return s->count;
}

/* Names that scores use: literals, so that tensors can point to them. */
static const char *known_name(const char *name) {
    static const char *const names[] = {
        "classes",    "weight",     "bias",       "temperature", "gen",         "sizes",
        "directions", "rows",       "neighbours", "origin",      "residual",    "scale",
        "centre",     "projection", "means",      "background",  "norm_weight", "principal"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return names[i];
    return NULL;
}

static ole_status copy_tensors(ole_scorer *s, const ole_scorer_tensor *tensors, int count,
                               ole_error *error) {
    for (int i = 0; i < count; i++) {
        const ole_scorer_tensor *t = &tensors[i];
        const char *name = t->name ? known_name(t->name) : NULL;
        if (!name) continue;
        if (s->count == OLE_SCORER_TENSORS || find_tensor(s, name) || t->ndim < 1 || t->ndim > 2 ||
            t->shape[0] < 1 || (t->ndim == 2 && t->shape[1] < 1) ||
            (t->dtype != OLE_F32 && t->dtype != OLE_F64 && t->dtype != OLE_I64))
            return ole_fail(error, OLE_ERROR_FORMAT, "the tensor '%s' does not fit the score '%s'",
                            name, s->kind->name);
        void *data =
            scorer_add(s, name, t->dtype, t->shape[0], t->ndim == 2 ? t->shape[1] : 0, error);
        if (!data) return OLE_ERROR_MEMORY;
        memcpy(data, t->data, (size_t)tensor_count(t) * ole_dtype_size(t->dtype));
    }
    return OLE_OK;
}

ole_status ole_scorer_restore(ole_scorer **scorer, ole_score score,
                              const ole_scorer_tensor *tensors, int count, ole_error *error) {
    if (!scorer || (!tensors && count > 0) || count < 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_scorer_restore: a pointer is NULL");
    *scorer = NULL;
    const score_kind *kind = find_kind(score);
    if (!kind)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_scorer_restore: %d is no ole_score",
                        (int)score);
    ole_scorer *s = calloc(1, sizeof *s);
    if (!s) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a scorer");
    s->kind = kind;
    s->score = score;
    ole_status status = copy_tensors(s, tensors, count, error);
    if (status == OLE_OK) status = prepare(s, error);
    if (status == OLE_OK)
        *scorer = s;
    else
        ole_scorer_free(s);
    return status;
}
