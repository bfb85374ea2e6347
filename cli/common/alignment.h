/*
 * cli/common/alignment.h - image files that the user names, aligned by their landmarks.
 *
 *     alignment marks;
 *     int code = alignment_open(&marks, "predict", &run, model_path, align);
 *     marks.word = "new/";   // that leads to the files
 *     status = alignment_read(&marks, model, "new/cat.jpg", sample, &error);
 *     alignment_close(&marks);
 */
#ifndef OLE_CLI_COMMON_ALIGNMENT_H
#define OLE_CLI_COMMON_ALIGNMENT_H

#include "common/progress.h"
#include "common/trained_data.h"

#include "model/image_file.h"

#include <limits.h>

/* The row --align of an option table. */
#define ALIGN_OPTION(value)                                                                        \
    {                                                                                              \
        "align", OLE_TEXT, value, "FILE.csv",                                                      \
            .help = "landmarks of the images of a folder or of image files; none: unaligned "      \
                    "(default for "                                                                \
                    "the run's images: as in the run)"                                             \
    }

typedef struct alignment {
    const char *command;
    ole_aligner *aligner; /* NULL: images are used as they are */
    progress *line;       /* is cleared for the warning; or NULL */
    const char *word;     /* of the command line, which may be a folder; or NULL */
    bool of_run;          /* the landmarks are those of the run, not those of --align */
    bool warned;          /* of an image without landmarks */
    char beside[PATH_MAX], data[PATH_MAX]; /* folders: of the landmarks, of the run's data; or "" */
} alignment;

/*
 * Reads the landmarks in `align` or, if that is NULL, those of the run beside the model; "none":
 * reads none.  Those of the run that cannot be read are a warning.  EXIT_DONE, or the exit code
 * after a message; close it, and then `run`, either way.
 */
int alignment_open(alignment *a, const char *command, trained_data *run, const char *model,
                   const char *align);
void alignment_close(alignment *a);

/*
 * An image file as the model takes it, aligned if its landmarks are there.  --align names a file of
 * landmarks whose rows are relative to the word, to the folder of the file, to the current folder
 * or to the run's data; an image without a row is then an error.  Those of the run are for its own
 * data; other images are used as they are, with one warning.
 */
ole_status alignment_read(alignment *a, const ole_model *model, const char *path, float *sample,
                          ole_error *error);

#endif
