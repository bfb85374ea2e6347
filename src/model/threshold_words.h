/* src/model/threshold_words.h - how a model's threshold was found, in words and for JSON. */
#ifndef OLE_SRC_MODEL_THRESHOLD_WORDS_H
#define OLE_SRC_MODEL_THRESHOLD_WORDS_H

#include "base/quote.h"
#include "ole/train/model.h"

/* As files have it: "held-out", "cross-fitted", "novelty"; "" where it is not said. */
OLE_INTERNAL const char *ole_threshold_source_name(ole_threshold_source source);

/* The source of that name; OLE_THRESHOLD_UNSAID for NULL and what a later version writes. */
OLE_INTERNAL ole_threshold_source ole_threshold_source_parse(const char *name);

/* "95 % of 126 held-out samples reach it"; "" where nothing is known. */
OLE_INTERNAL ole_short_text ole_threshold_words(const ole_model_info *model);

/* What to keep in mind of it, for a second line; or NULL. */
OLE_INTERNAL const char *ole_threshold_caution(const ole_model_info *model);

/* Whether an ONNX file can have a threshold of it (onnx_graph.c): few products per row, which also
 * predict fast. */
OLE_INTERNAL bool ole_score_exports(ole_score score);

#endif
