/*
 * src/report/hub_card.h - the model card of a folder for a model hub: README.md, Markdown behind a
 * front matter in YAML.
 */
#ifndef OLE_SRC_REPORT_HUB_CARD_H
#define OLE_SRC_REPORT_HUB_CARD_H

#include "report/run_view.h"

/* What was measured on the data of the run; NaN: not measured. */
typedef struct ole_hub_results {
    int64_t count;                      /* samples of `split`; 0: nothing was measured here */
    double error;                       /* in % */
    double knn1_error;                  /* in %, from the run's history */
    double ece;                         /* calibration error at the model's temperature, 0 to 1 */
    double unknown;                     /* share of the samples under the threshold, 0 to 1 */
    int64_t *class_count, *class_wrong; /* [classes]; NULL: not measured */
} ole_hub_results;

typedef struct ole_hub_card {
    const char *name; /* of the model, for titles and examples */
    const ole_model_info *model;
    const ole_run_view *run; /* NULL: the model has no run folder */
    ole_hub_results results;
} ole_hub_card;

/* The text of README.md; free() it.  NULL: out of memory. */
char *ole_hub_card_text(const ole_hub_card *card);

/*
 * The data of a run for strangers: paths without their folders, as they would tell who trained it
 * where.  "folder:/home/me/photos" is "folder:photos".
 */
void ole_hub_data_name(const char *data, char *name, size_t room);

#endif
