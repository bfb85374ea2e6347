/* src/study/add_curve.h - a study's curve on a page that is not the study's own. */
#ifndef OLE_SRC_STUDY_ADD_CURVE_H
#define OLE_SRC_STUDY_ADD_CURVE_H

#include "ole/train/study.h"

#include "report/page.h"

/* Adds the curve of the study in the folder train.out, as far as it has come, to a page; nothing if
 * no run has ended. */
OLE_INTERNAL ole_status ole_study_add_curve(ole_page *page, ole_study_kind kind,
                                            const ole_study_options *options, ole_error *error);

#endif
