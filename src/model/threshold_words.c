/* src/model/threshold_words.c - how a threshold was found: names for files, words for people. */
#include "model/threshold_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const sources[] = {"", "held-out", "cross-fitted", "novelty"};
enum { SOURCES = sizeof sources / sizeof *sources };

const char *ole_threshold_source_name(ole_threshold_source source) {
    return (int)source >= 0 && (int)source < SOURCES ? sources[source] : "";
}

ole_threshold_source ole_threshold_source_parse(const char *name) {
    for (int i = 1; name && i < SOURCES; i++)
        if (strcmp(name, sources[i]) == 0) return (ole_threshold_source)i;
    return OLE_THRESHOLD_UNSAID;
}

ole_short_text ole_threshold_words(const ole_model_info *model) {
    const char *of[] = {"", "95 %% of %" PRId64 " held-out samples reach it",
                        "cross-fitted on %" PRId64 " training samples",
                        "set on %" PRId64 " samples by 'ole fit' or 'ole novelty'"};
    int from = (int)model->threshold_from;
    if (model->threshold_score == OLE_SCORE_NONE)
        return ole_printed("no threshold: too few training samples to set one");
    return ole_printed(of[from > 0 && from < SOURCES ? from : 0], model->threshold_samples);
}

const char *ole_threshold_caution(const ole_model_info *model) {
    if (model->threshold_from != OLE_THRESHOLD_CROSS_FITTED) return NULL;
    return "the network has seen these samples, so it rejects more new ones";
}
