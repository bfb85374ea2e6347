/*
 * src/embed/choose.c - cross-validation, one setting after the other.
 *
 * Each setting is chosen with the others fixed: the width, the decay without OLÉ and then its two
 * neighbours, the width again where the decay is another one now, and λ.  The highest accuracy on
 * held-out rows wins; of equals the one with the lower negative log-likelihood at its best
 * temperature.
 */
#include "embed/choose.h"

#include "base/error.h"
#include "model/network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FOLDS = 5,
    MANY_ROWS = 5000,       /* over which one held-out fifth is enough */
    MOST_LOGITS = 64000000, /* of held-out rows; more rows are not scored */
};

typedef struct search {
    ole_problem *p;
    const ole_fitter *fitter;
    ole_embed_summary *summary;
    int runs;      /* folds that are held out in turn */
    int64_t *rows; /* scratch: the rows of a fold, [rows] */
    ole_held_out now, best;
    ole_setting chosen;
    ole_embed_trial best_trial;
    int64_t room; /* rows of `now` and `best` */
} search;

void ole_held_out_free(ole_held_out *h) {
    free(h->logits);
    free(h->labels);
    *h = (ole_held_out){0};
}

/* ---- One setting -------------------------------------------------------------------------- */

static ole_status run_fold(search *s, const ole_setting *setting, int fold, ole_error *error) {
    const ole_problem *p = s->p;
    char part[96];
    int64_t count = 0;
    for (int64_t i = 0; i < p->rows && s->now.count + count < s->room; i++)
        if (p->label[i] >= 0 && p->fold[i] == fold) s->rows[count++] = i;
    if (count == 0) return OLE_OK;
    snprintf(part, sizeof part, "trial %lld, fold %d of %d", (long long)s->summary->trials + 1,
             fold + 1, s->runs);
    ole_status status = s->fitter->fit(s->fitter->context, setting, fold, part, error);
    if (status != OLE_OK || p->stopped) return status;
    status = s->fitter->score(s->fitter->context, s->rows, count,
                              s->now.logits + s->now.count * p->classes, error);
    for (int64_t i = 0; i < count; i++)
        s->now.labels[s->now.count + i] = p->label[s->rows[i]];
    s->now.count += count;
    return status;
}

/* The % that are right, by the weights of the classes if these are balanced. */
static double accuracy_of(const ole_problem *p, const ole_held_out *h) {
    double right = 0.0, all = 0.0;
    for (int64_t i = 0; i < h->count; i++) {
        double weight = p->weight[h->labels[i]];
        all += weight;
        if (ole_largest(h->logits + i * p->classes, p->classes) == h->labels[i]) right += weight;
    }
    return all > 0.0 ? 100.0 * right / all : NAN;
}

static bool is_better(const ole_embed_trial *a, const ole_embed_trial *b) {
    if (a->accuracy != b->accuracy) return a->accuracy > b->accuracy;
    return a->nll < b->nll;
}

/* Tries a setting; a new best one stays in `chosen` and `best`. */
static ole_status try_setting(search *s, const ole_setting *setting, ole_error *error) {
    ole_problem *p = s->p;
    ole_embed_summary *summary = s->summary;
    for (int64_t i = 0; i < summary->trials; i++) {
        const ole_embed_trial *t = &summary->trial[i];
        if (t->lambda == setting->lambda && t->weight_decay == setting->decay &&
            t->width == setting->width)
            return OLE_OK;
    }
    ole_status status = OLE_OK;
    s->now.count = 0;
    for (int fold = 0; fold < s->runs && status == OLE_OK && !p->stopped; fold++)
        status = run_fold(s, setting, fold, error);
    if (status != OLE_OK || p->stopped) return status;
    const ole_logits logits = {s->now.count, p->classes, s->now.logits, s->now.labels};
    double temperature;
    ole_temperature_fit(&logits, &temperature);
    const ole_embed_trial trial = {setting->lambda, setting->decay, setting->width,
                                   accuracy_of(p, &s->now),
                                   ole_temperature_nll(&logits, temperature)};
    size_t bytes = (size_t)(summary->trials + 1) * sizeof trial;
    ole_embed_trial *grown = realloc(summary->trial, bytes);
    if (!grown) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for trials");
    summary->trial = grown;
    grown[summary->trials++] = trial;
    if (summary->trials > 1 && !is_better(&trial, &s->best_trial)) return OLE_OK;
    ole_held_out swap = s->best;
    s->best = s->now;
    s->now = swap;
    s->best_trial = trial;
    s->chosen = *setting;
    return OLE_OK;
}

/* ---- All settings ------------------------------------------------------------------------- */

static ole_status try_decays(search *s, ole_error *error) {
    const ole_fitter *f = s->fitter;
    ole_setting setting = s->chosen;
    ole_status status = OLE_OK;
    for (int i = 0; i < f->decay_count && status == OLE_OK; i++) {
        setting.decay = f->decays[i];
        status = try_setting(s, &setting, error);
    }
    double middle = s->chosen.decay, step = sqrt(10.0);
    for (int side = 0; side < 2 && status == OLE_OK; side++) {
        setting.decay = side ? middle / step : middle * step;
        status = try_setting(s, &setting, error);
    }
    return status;
}

static ole_status try_widths(search *s, ole_error *error) {
    const ole_fitter *f = s->fitter;
    ole_setting setting = s->chosen;
    ole_status status = OLE_OK;
    for (int i = 0; i < f->width_count && s->p->options->width == 0 && status == OLE_OK; i++) {
        setting.width = f->widths[i];
        status = try_setting(s, &setting, error);
    }
    return status;
}

static ole_status try_all(search *s, ole_error *error) {
    const ole_embed_options *o = s->p->options;
    const ole_fitter *f = s->fitter;
    ole_status status = try_setting(s, &s->chosen, error);
    if (status == OLE_OK) status = try_widths(s, error);
    if (isnan(o->weight_decay) && status == OLE_OK) status = try_decays(s, error);
    if (status == OLE_OK) status = try_widths(s, error); /* with another decay, others */
    ole_setting setting = s->chosen;
    for (int i = 0; i < f->lambda_count && isnan(o->lambda) && status == OLE_OK; i++) {
        setting.lambda = f->lambdas[i];
        status = try_setting(s, &setting, error);
    }
    return status;
}

static ole_status open_held_out(ole_held_out *h, int64_t rows, int classes, ole_error *error) {
    h->logits = malloc((size_t)(rows * classes) * sizeof *h->logits);
    h->labels = malloc((size_t)rows * sizeof *h->labels);
    if (h->logits && h->labels) return OLE_OK;
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for held-out rows");
}

static int64_t count_held_out(const ole_problem *p, int runs) {
    int64_t count = 0;
    for (int64_t i = 0; i < p->rows; i++)
        count += p->fold[i] >= 0 && p->fold[i] < runs;
    return count;
}

ole_status ole_choose(ole_problem *p, const ole_fitter *fitter, ole_setting *setting,
                      ole_held_out *held_out, ole_embed_summary *summary, ole_error *error) {
    const ole_embed_options *o = p->options;
    bool open = isnan(o->weight_decay) || isnan(o->lambda) || (fitter->width_count && !o->width);
    *setting = (ole_setting){.lambda = isnan(o->lambda) ? 0.0 : o->lambda,
                             .decay = isnan(o->weight_decay) ? fitter->decays[0] : o->weight_decay,
                             .width = o->width              ? o->width
                                      : fitter->width_count ? fitter->widths[0]
                                                            : 0};
    *held_out = (ole_held_out){0};
    if (!open && !o->unknown) return OLE_OK;
    search s = {.p = p, .fitter = fitter, .summary = summary, .chosen = *setting};
    bool one = o->folds == 0 && p->used > MANY_ROWS;
    ole_status status = ole_problem_deal(p, o->folds ? o->folds : FOLDS, error);
    if (status != OLE_OK) return status;
    s.runs = one ? 1 : p->folds;
    s.room = count_held_out(p, s.runs);
    if (s.room == 0) return OLE_OK; /* each class has one row */
    int64_t most = MOST_LOGITS / p->classes;
    if (s.room > most) s.room = most < p->classes ? p->classes : most;
    s.rows = malloc((size_t)p->rows * sizeof *s.rows);
    if (!s.rows) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for held-out rows");
    if (status == OLE_OK) status = open_held_out(&s.now, s.room, p->classes, error);
    if (status == OLE_OK) status = open_held_out(&s.best, s.room, p->classes, error);
    if (status == OLE_OK) status = open ? try_all(&s, error) : try_setting(&s, setting, error);
    if (status == OLE_OK && !p->stopped) {
        *setting = s.chosen;
        summary->held_out = s.best.count;
        summary->held_out_accuracy = s.best_trial.accuracy;
        *held_out = s.best;
        s.best = (ole_held_out){0};
    }
    ole_held_out_free(&s.now);
    ole_held_out_free(&s.best);
    free(s.rows);
    return status;
}
