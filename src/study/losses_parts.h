/* src/study/losses_parts.h - what the files of a comparison of losses share. */
#ifndef OLE_SRC_STUDY_LOSSES_PARTS_H
#define OLE_SRC_STUDY_LOSSES_PARTS_H

#include "study/losses.h"

/* Titles and keys of the measures. */
extern const char *const ole_measured_title[OLE_MEASURES];
extern const char *const ole_measured_key[OLE_MEASURES];

/* Fills entry->measured of one seed from the retrained run in `folder`; `train` has the entry's
 * loss. */
ole_status ole_losses_measure(ole_loss_entry *entry, int64_t seed, const char *folder,
                              const ole_train_options *train, const char *novel, ole_error *error);

/* losses.csv, losses.json and report.html in train->out. */
ole_status ole_losses_write(const ole_losses *losses, const ole_train_options *train,
                            ole_error *error);

#endif
