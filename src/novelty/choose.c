/*
 * src/novelty/choose.c - which score to use, decided without novel samples.
 *
 * Every fit leaves out the same fifth of the rows, at least one and never all of a class.  The
 * first fit has all classes: its held-out rows give temperature and thresholds.  Then each group of
 * classes is left out in turn, and each score gets its AUROC of held-out known rows against all
 * rows of the group.
 *
 * A group is made of classes that are close to each other, so that leaving it out removes a topic.
 * Groups drawn at random leave every class its nearest neighbours among the known ones; that
 * favours the scores that tell neighbours apart, where most novel samples are no neighbours.
 */
#include "novelty/choose.h"

#include "base/error.h"
#include "base/min_max.h"
#include "base/philox.h"
#include "base/sort.h"
#include "embed/embed.h"
#include "features/classes.h"
#include "model/calibration.h"
#include "model/threshold.h"

#include <math.h>
#include <stdlib.h>

enum {
    MOST_ROWS = 20000,
    HELD_OUT = 5,            /* one in */
    OLE_RANDOM_NOVELTY = 51, /* a = 0, b = row */
};

/* One choice. */
typedef struct choosing {
    const ole_embed_options *embed;
    const ole_novelty_options *options;
    bool head_only;
    int64_t rows, dim, classes;
    float *x;          /* [rows, dim] */
    int32_t *class_of; /* [rows] */
    bool *held;        /* [rows] */
    int *group;        /* [classes] */
    int64_t *labels;   /* [rows] of one fit; -1: left out */
    int64_t *index;    /* [rows] */
    int fitting;       /* 0: all classes; g: without group g */
    bool stopped;      /* by the callback */
    ole_novelty_choice *choice;
} choosing;

/* ---- Rows, groups ------------------------------------------------------------------------- */

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0.0;
    for (int64_t k = 0; k < n; k++)
        sum += a[k] * b[k];
    return sum;
}

/* `count` rows from `first` on in a random order. */
static void shuffle(ole_keyed *order, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t word[4];
        ole_philox(0, OLE_RANDOM_NOVELTY, 0, (uint64_t)(first + i), word);
        order[i] = (ole_keyed){word[0], first + i};
    }
    qsort(order, (size_t)count, sizeof *order, ole_by_key);
}

/* Draws the rows, ordered by class, and copies them. */
static ole_status take_rows(choosing *c, const ole_embedding *known, ole_error *error) {
    ole_classes classes;
    ole_pool *pool;
    int threads = c->options->threads;
    ole_status status =
        ole_classes_open(&classes, &pool, "ole_novelty_choose", known, threads, error);
    if (status != OLE_OK) return status;
    c->rows = ole_sample_size(classes.rows, MOST_ROWS);
    c->dim = known->dim;
    size_t count = (size_t)c->rows;
    c->x = malloc(count * (size_t)c->dim * sizeof *c->x);
    c->class_of = malloc(count * sizeof *c->class_of);
    c->held = calloc(count, sizeof *c->held);
    c->labels = malloc(count * sizeof *c->labels);
    c->index = malloc(count * sizeof *c->index);
    c->group = malloc((size_t)classes.classes * sizeof *c->group);
    if (c->x && c->class_of && c->held && c->labels && c->index && c->group) {
        ole_sample_draw(classes.rows, MOST_ROWS, 0, c->index);
        const ole_row_set rows = ole_embedding_rows(known, classes.order, classes.rows);
        int64_t class = -1, last = -1; /* `last`: of the embedding; `class`: among those drawn */
        for (int64_t i = 0, at = 0; i < c->rows; i++) {
            while (classes.begin[at + 1] <= c->index[i])
                at++;
            class += at != last;
            last = at;
            c->class_of[i] = (int32_t) class;
            ole_row_copy_f32(&rows, c->index[i], c->x + i * c->dim);
        }
        c->classes = class + 1;
    } else {
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory to choose a score");
    }
    ole_classes_close(&classes, pool);
    return status;
}

/* mean[class, dim], zeros, becomes that of the class's rows at length 1, itself at length 1. */
static void find_means(const choosing *c, double *mean, double *unit) {
    const ole_row_set rows = {c->rows, c->dim, OLE_F32, c->x, NULL};
    for (int64_t i = 0; i < c->rows; i++) {
        double *of = mean + c->class_of[i] * c->dim;
        ole_row_unit(&rows, i, unit);
        for (int64_t k = 0; k < c->dim; k++)
            of[k] += unit[k];
    }
    for (int64_t i = 0; i < c->classes; i++) {
        double length = sqrt(dot(mean + i * c->dim, mean + i * c->dim, c->dim));
        for (int64_t k = 0; k < c->dim && length > 0.0; k++)
            mean[i * c->dim + k] /= length;
    }
}

/* Each group: of the classes that are left the one farthest from their centre, and those nearest to
 * it. */
static ole_status group_classes(choosing *c, int groups, ole_error *error) {
    int64_t dim = c->dim, left = c->classes;
    double *mean = calloc((size_t)((c->classes + 1) * dim), sizeof *mean);
    ole_ranked *by = malloc((size_t)c->classes * sizeof *by);
    if (!mean || !by) {
        free(mean);
        free(by);
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory to choose a score");
    }
    double *centre = mean + c->classes * dim;
    find_means(c, mean, centre);
    for (int64_t i = 0; i < left; i++)
        by[i].at = i;
    for (int g = 1; g <= groups; g++) {
        for (int64_t k = 0; k < dim; k++)
            centre[k] = 0.0;
        for (int64_t i = 0; i < left; i++)
            for (int64_t k = 0; k < dim; k++)
                centre[k] += mean[by[i].at * dim + k];
        for (int64_t i = 0; i < left; i++)
            by[i].value = dot(mean + by[i].at * dim, centre, dim);
        qsort(by, (size_t)left, sizeof *by, ole_by_falling_value);
        const double *farthest = mean + by[left - 1].at * dim;
        for (int64_t i = 0; i < left; i++)
            by[i].value = -dot(mean + by[i].at * dim, farthest, dim);
        qsort(by, (size_t)left, sizeof *by, ole_by_falling_value);
        for (int64_t take = (left + groups - g) / (groups - g + 1); take > 0; take--)
            c->group[by[--left].at] = g;
    }
    free(mean);
    free(by);
    return OLE_OK;
}

/* Holds a fifth of each class out, and deals the classes to groups. */
static ole_status deal(choosing *c, ole_error *error) {
    ole_keyed *order = malloc((size_t)c->rows * sizeof *order);
    if (!order) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory to choose a score");
    for (int64_t first = 0, end; first < c->rows; first = end) {
        end = first + 1;
        while (end < c->rows && c->class_of[end] == c->class_of[first])
            end++;
        int64_t count = end - first, out = count > 1 ? ole_max(1, count / HELD_OUT) : 0;
        shuffle(order, first, count);
        for (int64_t i = 0; i < out; i++)
            c->held[order[i].row] = true;
        c->choice->held_out += out;
    }
    free(order);
    if (!c->options->choose || c->classes < 3 || c->choice->held_out == 0) return OLE_OK;
    c->choice->groups = (int)ole_min(OLE_NOVELTY_GROUPS, c->classes);
    return group_classes(c, c->choice->groups, error);
}

static void release(choosing *c) {
    free(c->x);
    free(c->class_of);
    free(c->held);
    free(c->labels);
    free(c->index);
    free(c->group);
}

/* ---- One fit ------------------------------------------------------------------------------ */

/* Reports a fit's progress as that of the choice. */
static bool report(void *context, const char *part, int64_t done, int64_t total) {
    static const char *const parts[] = {"threshold",    "group 1 of 5", "group 2 of 5",
                                        "group 3 of 5", "group 4 of 5", "group 5 of 5"};
    (void)part;
    choosing *c = context;
    const ole_novelty_options *o = c->options;
    if (!c->stopped && o->callback)
        c->stopped = o->callback(o->callback_context, parts[c->fitting], done, total);
    return c->stopped;
}

typedef enum row_kind { FITTED, KNOWN, NOVEL } row_kind;

static row_kind kind_of(const choosing *c, int64_t row) {
    if (c->fitting > 0 && c->group[c->class_of[row]] == c->fitting) return NOVEL;
    return c->held[row] ? KNOWN : FITTED;
}

static ole_status run_rows(choosing *c, const ole_space *space, row_kind kind, ole_outputs *outputs,
                           ole_error *error) {
    const ole_embedding rows = {c->rows, c->dim, OLE_F32, c->x, c->labels};
    int64_t count = 0;
    for (int64_t i = 0; i < c->rows; i++)
        if (kind_of(c, i) == kind) c->index[count++] = i;
    return ole_space_run(space, &rows, c->index, count, c->class_of, outputs, error);
}

/* The AUROC of one score, or its threshold. */
static ole_status judge(choosing *c, int s, const ole_scorer *scorer, const ole_outputs *known,
                        const ole_outputs *novel, ole_error *error) {
    int threads = c->options->threads;
    double *a = malloc(((size_t)known->count + 1) * sizeof *a);
    double *b = malloc(((size_t)novel->count + 1) * sizeof *b);
    ole_roc roc = {0};
    ole_status status = a && b ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    if (status == OLE_OK)
        status =
            ole_scorer_run(scorer, known->features, known->logits, known->count, a, threads, error);
    if (status == OLE_OK)
        status =
            ole_scorer_run(scorer, novel->features, novel->logits, novel->count, b, threads, error);
    if (status == OLE_OK && c->fitting == 0) {
        c->choice->threshold[s] = ole_threshold_keep(a, known->count, c->options->keep);
    } else if (status == OLE_OK) {
        status = ole_roc_make(&roc, a, known->count, b, novel->count, error);
        c->choice->auroc[s][c->fitting - 1] = roc.auroc;
        ole_roc_free(&roc);
    }
    free(a);
    free(b);
    return status;
}

/* All scores in a fitted space. */
static ole_status judge_all(choosing *c, const ole_space *space, const ole_outputs *training,
                            const ole_outputs *known, ole_error *error) {
    ole_outputs novel = {0};
    ole_scorer *scorer[OLE_SCORES];
    if (c->fitting == 0) {
        const ole_logits logits = {known->count, space->classes, known->logits, known->labels};
        c->choice->temperature = c->options->temperature;
        if (c->options->temperature == 0.0) ole_temperature_fit(&logits, &c->choice->temperature);
    }
    ole_status status =
        ole_novelty_fit_scorers(scorer, training, space->features, &space->classifier,
                                c->choice->temperature, c->options->threads, error);
    if (status != OLE_OK) return status;
    if (c->fitting > 0) status = run_rows(c, space, NOVEL, &novel, error);
    for (int s = 0; s < OLE_SCORES; s++) {
        if (status == OLE_OK) status = judge(c, s, scorer[s], known, &novel, error);
        ole_scorer_free(scorer[s]);
    }
    ole_outputs_free(&novel);
    return status;
}

/* Fits without the held-out rows and without a group; keeps the fit if `fit` is not NULL. */
static ole_status fit_once(choosing *c, ole_held_fit *fit, bool *stopped, ole_error *error) {
    ole_held_fit own = {0};
    for (int64_t i = 0; i < c->rows; i++)
        c->labels[i] = kind_of(c, i) == FITTED ? c->class_of[i] : -1;
    const ole_embedding rows = {c->rows, c->dim, OLE_F32, c->x, c->labels};
    ole_embed_options embed = *c->embed;
    embed.threads = c->options->threads;
    embed.callback = report;
    embed.callback_context = c;
    const ole_space_rule rule = {&embed, c->head_only};
    ole_status status = ole_space_fit(&own.space, &rows, &rule, stopped, error);
    if (status != OLE_OK || *stopped) return status;
    if (c->stopped) { /* after the last step */
        *stopped = true;
        ole_space_free(&own.space);
        return OLE_OK;
    }
    status = run_rows(c, &own.space, FITTED, &own.training, error);
    if (status == OLE_OK) status = run_rows(c, &own.space, KNOWN, &own.held_out, error);
    if (status == OLE_OK) status = judge_all(c, &own.space, &own.training, &own.held_out, error);
    if (status == OLE_OK && fit)
        *fit = own;
    else
        ole_held_fit_free(&own);
    return status;
}

void ole_held_fit_free(ole_held_fit *fit) {
    ole_space_free(&fit->space);
    ole_outputs_free(&fit->training);
    ole_outputs_free(&fit->held_out);
    *fit = (ole_held_fit){0};
}

/* ---- The choice --------------------------------------------------------------------------- */

static void decide(ole_novelty_choice *choice, const ole_novelty_options *options) {
    if (!options->choose) return;
    choice->score = OLE_SCORE_COSINE;
    for (int s = 0; s < OLE_SCORES; s++) {
        for (int g = 0; g < choice->groups; g++)
            choice->mean[s] = (g ? choice->mean[s] : 0.0) + choice->auroc[s][g] / choice->groups;
        if (choice->groups > 0 && !(choice->mean[s] <= choice->mean[choice->score - 1]))
            choice->score = (ole_score)(s + 1);
    }
}

/* The decay of the classifier where only that is fitted: chosen once, on all rows. */
static ole_status choose_decay(ole_embed_options *embed, choosing *c, bool *stopped,
                               ole_error *error) {
    for (int64_t i = 0; i < c->rows; i++)
        c->labels[i] = c->class_of[i];
    const ole_embedding rows = {c->rows, c->dim, OLE_F32, c->x, c->labels};
    ole_embed_summary summary;
    ole_model *model;
    embed->lambda = 0.0;
    embed->unknown = false;
    embed->threads = c->options->threads;
    embed->device = "cpu";
    embed->callback = report;
    embed->callback_context = c;
    ole_status status = ole_embed_fit(&model, &rows, NULL, 0, embed, &summary, error);
    if (status != OLE_OK) return status;
    *stopped = summary.interrupted || c->stopped;
    embed->weight_decay = summary.weight_decay;
    ole_embed_summary_free(&summary);
    ole_model_free(model);
    return OLE_OK;
}

ole_status ole_choice_make(ole_novelty_choice *choice, ole_held_fit *fit,
                           const ole_embedding *known, const ole_embed_options *embed,
                           const ole_novelty_options *options, bool *stopped, ole_error *error) {
    *choice = (ole_novelty_choice){.temperature = 1.0};
    *stopped = false;
    ole_embed_options head;
    ole_embed_options_init(&head);
    choosing c = {.embed = embed ? embed : &head, .options = options, .choice = choice};
    c.head_only = !embed || embed->method == OLE_EMBED_NONE;
    choice->map_refitted = embed != NULL;
    for (int s = 0; s < OLE_SCORES; s++) {
        choice->threshold[s] = choice->mean[s] = NAN;
        for (int g = 0; g < OLE_NOVELTY_GROUPS; g++)
            choice->auroc[s][g] = NAN;
    }
    ole_held_fit own = {0};
    ole_status status = take_rows(&c, known, error);
    if (status == OLE_OK) status = deal(&c, error);
    choice->rows = c.rows;
    bool fits = c.classes >= 2 && choice->held_out > 0;
    if (status == OLE_OK && c.head_only && fits) {
        if (embed) head = *embed;
        head.method = OLE_EMBED_LINEAR;
        c.embed = &head;
        if (isnan(head.weight_decay)) status = choose_decay(&head, &c, stopped, error);
    }
    for (int g = 0; g <= choice->groups && fits && status == OLE_OK && !*stopped; g++) {
        c.fitting = g;
        status = fit_once(&c, g == 0 && fit ? &own : NULL, stopped, error);
    }
    release(&c);
    if (status == OLE_OK && !*stopped) {
        decide(choice, options);
        if (fit) *fit = own;
    } else {
        ole_held_fit_free(&own);
    }
    return status;
}

ole_embed_options ole_choice_settle(const ole_embed_options *embed,
                                    const ole_embed_summary *summary) {
    ole_embed_options settled = *embed;
    settled.lambda = summary->lambda;
    settled.weight_decay = summary->weight_decay;
    settled.width = summary->width;
    settled.unknown = false;
    settled.class_weights = NULL; /* of other classes than a fit without a group has */
    return settled;
}

/* Settings that the caller left open are chosen once, by a fit on all rows. */
static ole_status fix_settings(ole_embed_options *embed, const ole_embedding *known, bool *stopped,
                               ole_error *error) {
    bool given = !isnan(embed->lambda) && !isnan(embed->weight_decay);
    if (embed->method == OLE_EMBED_MLP) given = given && embed->width > 0;
    if (given || embed->method == OLE_EMBED_NONE) return OLE_OK;
    ole_embed_summary summary;
    ole_model *model;
    ole_status status = ole_embed_fit(&model, known, NULL, 0, embed, &summary, error);
    if (status != OLE_OK) return status;
    *stopped = summary.interrupted;
    *embed = ole_choice_settle(embed, &summary);
    ole_embed_summary_free(&summary);
    ole_model_free(model);
    return OLE_OK;
}

ole_status ole_novelty_choose(ole_novelty_choice *choice, const ole_embedding *known,
                              const ole_embed_options *embed, const ole_novelty_options *options,
                              ole_error *error) {
    if (!choice || !known)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_novelty_choose: choice or known is NULL");
    ole_novelty_options o;
    ole_embed_options e;
    bool stopped = false;
    ole_novelty_choice made = {0};
    ole_status status = ole_novelty_read_options(&o, options, error);
    if (status == OLE_OK && embed) status = ole_embed_options_read(&e, embed, error);
    if (status == OLE_OK && embed) status = fix_settings(&e, known, &stopped, error);
    if (status == OLE_OK && !stopped)
        status = ole_choice_make(&made, NULL, known, embed ? &e : NULL, &o, &stopped, error);
    if (status != OLE_OK) return status;
    *choice = stopped ? (ole_novelty_choice){0} : made;
    return OLE_OK;
}
