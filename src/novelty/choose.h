/*
 * src/novelty/choose.h - choosing a score without novel samples, and the fit without held-out rows
 * that its thresholds come from.
 */
#ifndef OLE_SRC_NOVELTY_CHOOSE_H
#define OLE_SRC_NOVELTY_CHOOSE_H

#include "novelty/measure.h"
#include "novelty/space.h"

/* A fit on all classes without the held-out rows. Free it with ole_held_fit_free(). */
typedef struct ole_held_fit {
    ole_space space;
    ole_outputs training, held_out; /* labels: classes by rising label */
} ole_held_fit;

void ole_held_fit_free(ole_held_fit *fit);

/* A choice with its evidence, as JSON on one line, which the caller frees; NULL without memory. */
char *ole_choice_text(const ole_novelty_choice *choice);

/* Reads such a text back, without thresholds and temperature.  False, and an empty choice, for
 * anything else, and without memory. */
bool ole_choice_read(ole_novelty_choice *choice, const char *text);

/* Options for fits like one that has been made: with its settings, without a threshold. */
ole_embed_options ole_choice_settle(const ole_embed_options *embed,
                                    const ole_embed_summary *summary);

/*
 * `choice` as ole_novelty_choose(); `embed` must have been read and have no NaN (NULL: only the
 * classifier is fitted).  The first fit goes into *fit, unless that is NULL.  *stopped: by the
 * callback, with nothing to free.  Without `choose` in the options there are only thresholds.
 */
ole_status ole_choice_make(ole_novelty_choice *choice, ole_held_fit *fit,
                           const ole_embedding *known, const ole_embed_options *embed,
                           const ole_novelty_options *options, bool *stopped, ole_error *error);

#endif
