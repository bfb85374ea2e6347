/* src/novelty/space.c - fitting a map and a classifier, and running rows through them. */
#include "novelty/space.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/min_max.h"
#include "embed/linear.h"
#include "features/classes.h"
#include "linalg/panels.h"

#include <stdlib.h>

enum { BLOCK = 1024 };

/* ---- Fitting ------------------------------------------------------------------------------ */

/* Softmax regression on the rows as they are. */
static ole_status fit_head(ole_space *s, const ole_embedding *rows, const ole_embed_options *o,
                           bool *stopped, ole_error *error) {
    ole_problem problem;
    ole_linear *linear = NULL;
    ole_status status = ole_problem_open(&problem, rows, NULL, 0, o, error);
    if (status != OLE_OK) return status;
    int64_t classes = problem.classes, dim = rows->dim;
    double *map = malloc((size_t)(classes * (dim + 1)) * sizeof *map);
    s->weights = malloc((size_t)(classes * (dim + 1)) * sizeof *s->weights);
    if (!map || !s->weights)
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a classifier");
    if (status == OLE_OK) status = ole_linear_create(&linear, &problem, error);
    ole_linear_fit fit = {.decay = o->weight_decay, .fold = -1, .part = "classifier"};
    if (status == OLE_OK) status = ole_linear_run(linear, &fit, error);
    if (status == OLE_OK) {
        ole_linear_unscaled(linear, map, map + classes * dim);
        for (int64_t i = 0; i < classes * (dim + 1); i++)
            s->weights[i] = (float)map[i];
        s->classes = (int)classes;
        s->decay = fit.decay;
        s->dim = s->features = dim;
        s->classifier =
            (ole_linear_classifier){classes, dim, s->weights, s->weights + classes * dim};
    }
    *stopped = problem.stopped;
    free(map);
    ole_linear_free(linear);
    ole_problem_close(&problem);
    return status;
}

ole_status ole_space_of_model(ole_space *s, ole_model *model, int threads, ole_error *error) {
    const ole_model_info *info = ole_model_get_info(model);
    *s = (ole_space){.classes = info->classes, .features = info->features, .threads = threads};
    s->dim = (int64_t)info->channels * info->height * info->width;
    ole_status status = ole_model_classifier(&s->classifier, &s->weights, model, error);
    s->model = model;
    return status;
}

ole_status ole_space_fit(ole_space *s, const ole_embedding *rows, const ole_space_rule *rule,
                         bool *stopped, ole_error *error) {
    ole_model *model = NULL;
    ole_status status;
    *s = (ole_space){.threads = rule->embed->threads};
    *stopped = false;
    if (rule->head_only) {
        status = fit_head(s, rows, rule->embed, stopped, error);
    } else {
        ole_embed_summary summary;
        status = ole_embed_fit(&model, rows, NULL, 0, rule->embed, &summary, error);
        if (status == OLE_OK) {
            *stopped = summary.interrupted;
            ole_embed_summary_free(&summary);
        }
        if (status == OLE_OK && !*stopped)
            status = ole_space_of_model(s, model, rule->embed->threads, error);
    }
    if (status != OLE_OK || *stopped) {
        s->model = model;
        ole_space_free(s);
    }
    return status;
}

void ole_space_free(ole_space *s) {
    ole_model_free(s->model);
    free(s->weights);
    *s = (ole_space){0};
}

/* ---- Running ------------------------------------------------------------------------------ */

/* logits = features W^T + b. */
static ole_status classify(const ole_space *s, const ole_outputs *o, ole_error *error) {
    int64_t dim = s->features, classes = s->classes;
    ole_arena arena = {0};
    double *weight_room = NULL, *row_room = NULL, *product = NULL;
    char *memory = NULL;
    for (int pass = 0; pass < 2; pass++) { /* counts, then places */
        weight_room = ole_arena_take(&arena, ole_panels_size(classes, dim), sizeof *weight_room);
        row_room = ole_arena_take(&arena, ole_panels_size(BLOCK, dim), sizeof *row_room);
        product = ole_arena_take(&arena, BLOCK * classes, sizeof *product);
        if (pass == 0 && !(memory = ole_arena_reserve(&arena)))
            return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for logits");
    }
    ole_pool *pool;
    ole_status status = ole_pool_create(&pool, s->threads > 0 ? s->threads : 1, error);
    const ole_operand weight = {s->weights, OLE_F32, classes, dim, dim, 1, false};
    ole_panels right = {0};
    if (status == OLE_OK) right = ole_panels_pack(pool, weight_room, &weight);
    for (int64_t first = 0; first < o->count && status == OLE_OK; first += BLOCK) {
        int64_t count = ole_min(BLOCK, o->count - first);
        const ole_operand rows = {o->features + first * dim, OLE_F32, count, dim, dim, 1, false};
        const ole_product out = {.alpha = 1.0, .c = product, .ldc = classes};
        ole_panels left = ole_panels_pack(pool, row_room, &rows);
        ole_panels_multiply(pool, &left, &right, &out);
        for (int64_t i = 0; i < count * classes; i++)
            o->logits[first * classes + i] =
                (float)(product[i] + s->weights[classes * dim + i % classes]);
    }
    ole_pool_destroy(pool);
    free(memory);
    return status;
}

/* Through the model in blocks. */
static ole_status run_model(const ole_space *s, const ole_row_set *rows, const ole_outputs *o,
                            ole_error *error) {
    float *block = malloc((size_t)(BLOCK * s->dim) * sizeof *block);
    if (!block) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for features");
    ole_status status = OLE_OK;
    for (int64_t first = 0; first < o->count && status == OLE_OK; first += BLOCK) {
        int64_t count = ole_min(BLOCK, o->count - first);
        for (int64_t i = 0; i < count; i++)
            ole_row_copy_f32(rows, first + i, block + i * s->dim);
        status = ole_model_run(s->model, block, count, o->features + first * s->features,
                               o->logits + first * s->classes, error);
    }
    free(block);
    return status;
}

ole_status ole_space_run(const ole_space *s, const ole_embedding *rows, const int64_t *index,
                         int64_t count, const int32_t *class_of, ole_outputs *o, ole_error *error) {
    const ole_row_set set = ole_embedding_rows(rows, index, count);
    size_t n = (size_t)count + 1;
    *o = (ole_outputs){.count = count,
                       .features = malloc(n * (size_t)s->features * sizeof *o->features),
                       .logits = malloc(n * (size_t)s->classes * sizeof *o->logits),
                       .labels = malloc(n * sizeof *o->labels)};
    ole_status status = OLE_OK;
    if (!o->features || !o->logits || !o->labels) {
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for features");
    } else if (s->model) {
        status = run_model(s, &set, o, error);
    } else {
        for (int64_t i = 0; i < count; i++)
            ole_row_copy_f32(&set, i, o->features + i * s->dim);
        status = classify(s, o, error);
    }
    for (int64_t i = 0; i < count && status == OLE_OK; i++)
        o->labels[i] = class_of ? class_of[index ? index[i] : i] : 0;
    if (status != OLE_OK) ole_outputs_free(o);
    return status;
}
