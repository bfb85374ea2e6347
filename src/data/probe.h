/* src/data/probe.h - shape and number of a data set's samples, without reading them. */
#ifndef OLE_SRC_DATA_PROBE_H
#define OLE_SRC_DATA_PROBE_H

#include "ole/train/data.h"

typedef struct ole_probe {
    int channels, height, width; /* vectors: D, 1, 1; folders: as the first readable image */
    int side;                    /* folders: the median of the images' shorter sides; else 0 */
    bool sizes_differ;           /* folders: not all images have the size above */
    bool channels_differ;        /* folders: some images are grey, some coloured */
    int64_t samples;             /* folders, npy: of the training part; else 0 */
    bool has_test;               /* folders, npy: there is a test part */
} ole_probe;

/* Reads only the headers of files and skips unreadable images.  `apart` as in
 * ole_dataset_options. */
ole_status ole_dataset_probe(const char *name, const char *apart, ole_probe *probe,
                             ole_error *error);

/* Of readers (source.h) whose samples have no fixed shape. */
ole_status ole_probe_folder(const char *path, const char *apart, ole_probe *probe,
                            ole_error *error);
ole_status ole_probe_npy(const char *path, const char *apart, ole_probe *probe, ole_error *error);

#endif
