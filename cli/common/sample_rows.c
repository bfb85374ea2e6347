/*
 * cli/common/sample_rows.c - rows as samples: what ole_model_read_npy() reads, and tables with
 * labels beside the features.
 *
 * A table is first read as if all columns were features.  Only where that fails it is read again,
 * to find the column of the labels.
 */
#include "common/sample_rows.h"

#include "common/common.h"
#include "common/trained_data.h"

#include "base/quote.h"
#include "data/images/image_name.h"
#include "formats/input.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads the features beside a column by name or number.  NULL: there is no such column, or the
 * others hold no numbers, or are not as many as the model takes. */
static float *read_beside(const char *path, const char *column, int64_t dims, int64_t *count) {
    char labels[PATH_MAX];
    ole_npy *file = NULL;
    float *rows = NULL;
    if (snprintf(labels, sizeof labels, "%s:%s", path, column) < (int)sizeof labels &&
        ole_features_open(&file, path, labels, NULL) == OLE_OK) {
        const ole_npy_header *h = ole_npy_get_header(file);
        if (h->shape[1] == dims) rows = malloc((size_t)h->count * sizeof *rows);
        if (rows && ole_npy_read(file, OLE_F32, rows, NULL) != OLE_OK) {
            free(rows);
            rows = NULL;
        }
        *count = h->shape[0];
    }
    ole_npy_close(file);
    return rows;
}

/* What to do with an image where the model takes features. */
static void explain_image(ole_error *error, const char *model, const char *path, int features) {
    char *image = ole_shell_word(path), *of = ole_shell_word(model);
    if (image && of)
        snprintf(error->message, sizeof error->message,
                 "%s: an image, but the model takes rows of %d features; make them, then predict: "
                 "ole features BACKBONE %s --out F.npy L.txt && ole predict %s F.npy",
                 ole_quote_string(path).text, features, image, of);
    free(image);
    free(of);
}

ole_status read_sample_rows(const char *command, const ole_model *model, const char *model_path,
                            const char *path, float **samples, int64_t *count, ole_error *error) {
    const ole_model_info *info = ole_model_get_info(model);
    ole_status status = ole_model_read_npy(model, path, samples, count, error);
    const char *dot = strrchr(path, '.');
    if (status == OLE_OK || info->height != 1 || info->width != 1) return status;
    if (status == OLE_ERROR_FORMAT && ole_image_has_name(path))
        explain_image(error, model_path, path, info->channels);
    if (!dot || strcmp(dot, ".csv") != 0) return status;
    char name[256], number[24];
    const int64_t dims = info->channels;
    int64_t columns = 0;
    if (run_label_column(model_path, name, sizeof name))
        *samples = read_beside(path, name, dims, count);
    if (*samples) {
        tell_command(command, "%s: the column '%s' holds the labels and is ignored", path, name);
        return OLE_OK;
    }
    int64_t words = ole_table_word_column(path, &columns);
    snprintf(number, sizeof number, "%" PRId64, words);
    if (words > 0 && columns == dims + 1) *samples = read_beside(path, number, dims, count);
    if (*samples) {
        tell_command(command, "%s: column %s holds words, so labels, and is ignored", path, number);
        return OLE_OK;
    }
    if (columns > 0 && columns != dims)
        snprintf(error->message, sizeof error->message,
                 "%s: %" PRId64 " columns, but the model takes %" PRId64
                 " features, by their position%s",
                 path, columns, dims,
                 columns == dims + 1 ? "; remove the column that holds the labels" : "");
    return status;
}
