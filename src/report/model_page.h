/*
 * src/report/model_page.h - parts of pages about one model: what it is, and why its score for
 * unknown was chosen.
 */
#ifndef OLE_SRC_REPORT_MODEL_PAGE_H
#define OLE_SRC_REPORT_MODEL_PAGE_H

#include "ole/train/novelty.h"
#include "report/page.h"

/* A section with the AUROCs behind the choice of a score. */
OLE_INTERNAL void ole_page_add_choice(ole_page *page, const ole_novelty_choice *choice);

/* Sections with what the file says of a model, and with the choice of its score if there was one.
 */
OLE_INTERNAL void ole_page_add_model(ole_page *page, const ole_model *model);

/* "under 0.57: 95 % of 3000 held-out samples reach it". */
OLE_INTERNAL ole_short_text ole_unknown_words(const ole_model_info *model);

#endif
