/*
 * src/data/formats/landmarks.h - a file of landmarks (eyes, nose, corners of the mouth), and the
 * similarity transform that brings those of an image to a template.
 *
 *     file,left_eye_x,left_eye_y,right_eye_x,right_eye_y
 *     Ada_Lovelace/1.jpg,63.5,80,101.2,78.4
 *
 * Coordinates are pixels of the upright image, right and down; (0, 0) is the centre of the first
 * pixel.  docs/reference.md describes the file.
 */
#ifndef OLE_SRC_DATA_FORMATS_LANDMARKS_H
#define OLE_SRC_DATA_FORMATS_LANDMARKS_H

#include "data/images/image.h"
#include "formats/table.h"

enum { OLE_MAX_LANDMARKS = 128 };

typedef struct ole_landmarks {
    ole_table table;
    const char **files; /* [count], rising; cells of the table, as the next */
    double *places;     /* [count, points, 2]: x, y */
    int64_t count;
    int points;
    double aim[OLE_MAX_LANDMARKS][2]; /* the template: x and y as shares of the output's sides */
    char path[4096];
} ole_landmarks;

/* `path` is in `folder` (or NULL), or a path of its own.  Free after a failure too. */
ole_status ole_landmarks_read(ole_landmarks *landmarks, const char *folder, const char *path,
                              ole_error *error);
void ole_landmarks_free(ole_landmarks *landmarks);

/* Whether there is a row for the image `file`. */
bool ole_landmarks_has(const ole_landmarks *landmarks, const char *file);

/*
 * The transform for the image `file` (relative to the folder) and an output of height x width;
 * OLE_ERROR_FORMAT if the file has no row for it, or all its landmarks lie in one place.
 */
ole_status ole_landmarks_fit(const ole_landmarks *landmarks, const char *file, int height,
                             int width, ole_similarity *to_source, ole_error *error);

#endif
