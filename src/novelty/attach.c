/*
 * src/novelty/attach.c - a score for a model that was just fitted: chosen without novel samples,
 * fitted on the features of the known rows, and kept in the model with its threshold.
 */
#include "base/error.h"
#include "embed/embed.h"
#include "features/classes.h"
#include "model/threshold_words.h"
#include "novelty/choose.h"

#include <stdlib.h>

enum { MOST_ROWS = 20000 }; /* that a scorer is fitted on */

/* The rows that the scorer is fitted on, and their classes. */
typedef struct sample {
    int64_t *index; /* [count] rows of the embedding */
    int32_t *class_of;
    int64_t count;
} sample;

/* Draws rows, and one of each class that is not among them. */
static ole_status draw(sample *s, const ole_embedding *known, ole_error *error) {
    ole_classes classes;
    ole_status status = ole_classes_create(&classes, known->rows, known->labels, error);
    if (status != OLE_OK) return status;
    int64_t drawn = ole_sample_size(classes.rows, MOST_ROWS), taken = 0;
    int64_t *position = malloc((size_t)drawn * sizeof *position);
    s->index = malloc((size_t)(drawn + classes.classes) * sizeof *s->index);
    s->class_of = malloc((size_t)known->rows * sizeof *s->class_of);
    if (position && s->index && s->class_of) {
        ole_sample_draw(classes.rows, MOST_ROWS, 0, position);
        for (int64_t c = 0; c < classes.classes; c++) {
            int64_t before = s->count;
            for (int64_t i = classes.begin[c]; i < classes.begin[c + 1]; i++)
                s->class_of[classes.order[i]] = (int32_t)c;
            for (; taken < drawn && position[taken] < classes.begin[c + 1]; taken++)
                s->index[s->count++] = classes.order[position[taken]];
            if (s->count == before) s->index[s->count++] = classes.order[classes.begin[c]];
        }
    } else {
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a score");
    }
    free(position);
    ole_classes_destroy(&classes);
    return status;
}

/* The score of the model's own features, from which its threshold will be read. */
static ole_status fit_scorer(ole_scorer **scorer, ole_score score, ole_model *model,
                             const ole_embedding *known, double temperature, int threads,
                             ole_error *error) {
    sample rows = {0};
    ole_space space = {0};
    ole_outputs outputs = {0};
    ole_embedding features = {0};
    int64_t *labels = NULL;
    ole_status status = draw(&rows, known, error);
    if (status == OLE_OK) status = ole_space_of_model(&space, model, threads, error);
    if (status == OLE_OK)
        status =
            ole_space_run(&space, known, rows.index, rows.count, rows.class_of, &outputs, error);
    if (status == OLE_OK)
        status = ole_outputs_embedding(&features, &labels, &outputs, space.features, error);
    ole_scorer_options options;
    ole_scorer_options_init(&options);
    options.temperature = temperature;
    options.threads = threads;
    if (status == OLE_OK)
        status = ole_scorer_fit(scorer, score, &features, &space.classifier, &options, error);
    space.model = NULL; /* it is the caller's */
    ole_space_free(&space);
    ole_outputs_free(&outputs);
    free(labels);
    free(rows.index);
    free(rows.class_of);
    return status;
}

/* Of the scores that the model can be exported with. */
static ole_score best_of(const ole_novelty_choice *choice) {
    ole_score best = OLE_SCORE_CALIBRATED;
    for (int s = 1; s <= OLE_SCORES; s++)
        if (ole_score_exports((ole_score)s) && choice->mean[s - 1] > choice->mean[best - 1])
            best = (ole_score)s;
    return best;
}

static ole_status keep(ole_model *model, const ole_novelty_choice *choice, ole_scorer *scorer,
                       ole_error *error) {
    char *text = choice->groups > 0 ? ole_choice_text(choice) : NULL;
    if (choice->groups > 0 && !text)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a score");
    const ole_threshold_record record = {choice->threshold[choice->score - 1], choice->temperature,
                                         OLE_THRESHOLD_NOVELTY, choice->held_out, text};
    ole_status status = ole_model_set_scorer(model, scorer, &record, error);
    free(text);
    return status;
}

ole_status ole_novelty_attach(ole_novelty_choice *choice, ole_model *model,
                              const ole_embedding *known, const ole_embed_options *embed,
                              const ole_embed_summary *summary, ole_score score,
                              const ole_novelty_options *options, ole_error *error) {
    if (!choice || !model || !known || !summary)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_novelty_attach: choice, model, known or summary is NULL");
    *choice = (ole_novelty_choice){0};
    if ((int)score < 0 || (int)score > OLE_SCORES)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_novelty_attach: no such score: %d",
                        (int)score);
    const ole_model_info *info = ole_model_get_info(model);
    if (!info->classifier)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_novelty_attach: the model has no classifier");
    ole_novelty_options o;
    ole_embed_options e;
    ole_status status = ole_novelty_read_options(&o, options, error);
    if (status == OLE_OK) status = ole_embed_options_read(&e, embed, error);
    if (status != OLE_OK) return status;
    bool several = summary->rows > summary->classes; /* a class with two rows */
    if (!several || (score == OLE_SCORE_NONE && (info->classes < OLE_NOVELTY_FEWEST_CLASSES ||
                                                 info->classes > OLE_NOVELTY_MOST_CLASSES)))
        return OLE_OK;
    e = ole_choice_settle(&e, summary);
    o.choose = score == OLE_SCORE_NONE;
    bool stopped = false;
    ole_novelty_choice made;
    ole_scorer *scorer = NULL;
    status = ole_choice_make(&made, NULL, known, &e, &o, &stopped, error);
    if (status != OLE_OK || stopped) return status;
    made.score = score != OLE_SCORE_NONE ? score : best_of(&made);
    status = fit_scorer(&scorer, made.score, model, known, made.temperature, o.threads, error);
    if (status == OLE_OK) status = keep(model, &made, scorer, error);
    if (status == OLE_OK)
        *choice = made;
    else
        ole_scorer_free(scorer);
    return status;
}
