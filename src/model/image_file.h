/*
 * src/model/image_file.h - image files as a model's input, aligned by their landmarks where the
 * model was trained on aligned images.
 *
 *     ole_aligner *aligner;
 *     status = ole_aligner_open(&aligner, "photos", "marks.csv", error);
 *     if (ole_aligner_has(aligner, "ada/1.jpg"))
 *         status = ole_aligner_read(aligner, model, "photos/ada/1.jpg", "ada/1.jpg", sample,
 * error); ole_aligner_close(aligner);
 */
#ifndef OLE_SRC_MODEL_IMAGE_FILE_H
#define OLE_SRC_MODEL_IMAGE_FILE_H

#include "base/export.h"
#include "ole/train/model.h"

#include <stdbool.h>

typedef struct ole_aligner ole_aligner; /* a file of landmarks */

/* `path` is in `folder` (or NULL), or a path of its own. */
OLE_INTERNAL ole_status ole_aligner_open(ole_aligner **aligner, const char *folder,
                                         const char *path, ole_error *error);
OLE_INTERNAL void ole_aligner_close(ole_aligner *aligner);

/* Whether there is a row for this image; and the file of landmarks, as it was found. */
OLE_INTERNAL bool ole_aligner_has(const ole_aligner *aligner, const char *file);
OLE_INTERNAL const char *ole_aligner_path(const ole_aligner *aligner);

/* As ole_model_read_file(), with the image at `path` aligned by the row of `file`. */
OLE_INTERNAL ole_status ole_aligner_read(const ole_aligner *aligner, const ole_model *model,
                                         const char *path, const char *file, float *sample,
                                         ole_error *error);

#endif
