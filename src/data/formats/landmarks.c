/*
 * src/data/formats/landmarks.c - reading landmarks, and fitting a similarity transform to them:
 * scale, rotation and shift with the least sum of squared distances to the template.
 */
#include "data/formats/landmarks.h"

#include "base/error.h"
#include "base/number.h"
#include "base/quote.h"
#include "data/find.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the eyes, or the eyes, the nose and the corners of the mouth, come to lie in a face. */
static const double eyes[2][2] = {{0.34, 0.44}, {0.66, 0.44}};
static const double face[5][2] = {
    {0.34, 0.44}, {0.66, 0.44}, {0.5, 0.62}, {0.37, 0.80}, {0.63, 0.80}};

/* ---- Reading ------------------------------------------------------------------------------ */

typedef struct row {
    const char *file;
    int64_t number;
} row;

static int by_file(const void *a, const void *b) {
    return strcmp(((const row *)a)->file, ((const row *)b)->file);
}

static int compare_name(const void *name, const void *file) {
    return strcmp(name, *(const char *const *)file);
}

static const char **find_row(const ole_landmarks *l, const char *file) {
    return bsearch(file, l->files, (size_t)l->count, sizeof *l->files, compare_name);
}

bool ole_landmarks_has(const ole_landmarks *landmarks, const char *file) {
    return find_row(landmarks, file);
}

/* The numbers of a row of the table into `to` [points, 2]. */
static ole_status read_row(const ole_landmarks *l, int64_t number, double *to, ole_error *error) {
    const char **cells = l->table.cells + number * l->table.columns;
    for (int k = 0; k < 2 * l->points; k++) {
        char *end;
        to[k] = ole_number_read(cells[1 + k], &end);
        if (end == cells[1 + k] || *end || !isfinite(to[k]))
            return ole_fail(error, OLE_ERROR_DATA,
                            "%s, line %" PRId64 ", column %d: expected a number of pixels, found "
                            "'%s'",
                            ole_quote_string(l->path).text, l->table.first_line + number, k + 2,
                            ole_quote_string(cells[1 + k]).text);
    }
    return OLE_OK;
}

/* All rows in the order of their files; a row called "template" is taken out. */
static ole_status sort_rows(ole_landmarks *l, row *rows, bool *has_aim, ole_error *error) {
    for (int64_t i = 0; i < l->table.rows; i++)
        rows[i] = (row){l->table.cells[i * l->table.columns], i};
    qsort(rows, (size_t)l->table.rows, sizeof *rows, by_file);
    for (int64_t i = 0; i < l->table.rows; i++) {
        bool aim = strcmp(rows[i].file, "template") == 0;
        if (i > 0 && strcmp(rows[i].file, rows[i - 1].file) == 0)
            return ole_fail(error, OLE_ERROR_DATA,
                            "%s, line %" PRId64 ": '%s' appears in another row too",
                            ole_quote_string(l->path).text, l->table.first_line + rows[i].number,
                            ole_quote_string(rows[i].file).text);
        double *to = aim ? &l->aim[0][0] : l->places + l->count * 2 * l->points;
        ole_status status = read_row(l, rows[i].number, to, error);
        if (status != OLE_OK) return status;
        *has_aim |= aim;
        if (!aim) l->files[l->count++] = rows[i].file;
    }
    return OLE_OK;
}

static ole_status set_template(ole_landmarks *l, bool given, ole_error *error) {
    if (given) return OLE_OK;
    if (l->points == 2)
        memcpy(l->aim, eyes, sizeof eyes);
    else if (l->points == 5)
        memcpy(l->aim, face, sizeof face);
    else
        return ole_fail(error, OLE_ERROR_DATA,
                        "%s: %d landmarks per image need a row called template, with their places "
                        "as shares of the output's sides",
                        ole_quote_string(l->path).text, l->points);
    return OLE_OK;
}

ole_status ole_landmarks_read(ole_landmarks *landmarks, const char *folder, const char *path,
                              ole_error *error) {
    *landmarks = (ole_landmarks){0};
    ole_landmarks *l = landmarks;
    char inside[OLE_PATH_ROOM];
    bool joined = folder && *path != '/' && ole_join_path(inside, folder, path, NULL) == OLE_OK;
    const char *found = joined && access(inside, F_OK) == 0 ? inside : path;
    snprintf(l->path, sizeof l->path, "%s", found);
    ole_status status = ole_table_read(&l->table, found, OLE_TABLE_OTHERS, NULL, error);
    if (status != OLE_OK) return status;
    l->points = (int)((l->table.columns - 1) / 2);
    if (l->table.columns < 5 || l->table.columns % 2 == 0 ||
        l->table.columns > 2 * OLE_MAX_LANDMARKS + 1)
        return ole_fail(error, OLE_ERROR_DATA,
                        "%s: %" PRId64
                        " columns; must be the file and x and y of 2 to %d landmarks",
                        ole_quote_string(l->path).text, l->table.columns, OLE_MAX_LANDMARKS);
    size_t count = (size_t)l->table.rows + 1;
    l->files = calloc(count, sizeof *l->files);
    l->places = calloc(count * (size_t)l->points, 2 * sizeof *l->places);
    row *rows = calloc(count, sizeof *rows);
    bool has_aim = false;
    if (!l->files || !l->places || !rows)
        status =
            ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", ole_quote_string(l->path).text);
    else
        status = sort_rows(l, rows, &has_aim, error);
    free(rows);
    return status == OLE_OK ? set_template(l, has_aim, error) : status;
}

void ole_landmarks_free(ole_landmarks *landmarks) {
    ole_table_free(&landmarks->table);
    free(landmarks->files);
    free(landmarks->places);
    *landmarks = (ole_landmarks){0};
}

/* ---- Fitting ------------------------------------------------------------------------------ */

/* With pairs as complex numbers, source = a * output + b; a has the least squares in closed form.
 */
ole_status ole_landmarks_fit(const ole_landmarks *landmarks, const char *file, int height,
                             int width, ole_similarity *to_source, ole_error *error) {
    const ole_landmarks *l = landmarks;
    const char **found = find_row(l, file);
    if (!found)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: no row in %s", ole_quote_string(file).text,
                        ole_quote_string(l->path).text);
    const double *place = l->places + (found - l->files) * 2 * l->points;
    double mean[4] = {0}; /* x and y of the output, of the source */
    for (int k = 0; k < l->points; k++) {
        mean[0] += (l->aim[k][0] * width - 0.5) / l->points;
        mean[1] += (l->aim[k][1] * height - 0.5) / l->points;
        mean[2] += place[2 * k] / l->points;
        mean[3] += place[2 * k + 1] / l->points;
    }
    /* The other way round, output = c * source + d, so that distances count in the output. */
    double real = 0, imaginary = 0, spread = 0;
    for (int k = 0; k < l->points; k++) {
        double u = l->aim[k][0] * width - 0.5 - mean[0], v = l->aim[k][1] * height - 0.5 - mean[1];
        double x = place[2 * k] - mean[2], y = place[2 * k + 1] - mean[3];
        real += x * u + y * v;
        imaginary += x * v - y * u;
        spread += x * x + y * y;
    }
    double size = real * real + imaginary * imaginary;
    double cosine = real * spread / size, sine = -imaginary * spread / size; /* 1 / c */
    *to_source = (ole_similarity){
        .cosine = cosine,
        .sine = sine,
        .x = mean[2] - cosine * mean[0] + sine * mean[1],
        .y = mean[3] - sine * mean[0] - cosine * mean[1],
    };
    if (!(size > 0) || !isfinite(size) || !isfinite(cosine) || !isfinite(sine) ||
        !isfinite(to_source->x) || !isfinite(to_source->y))
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: its landmarks in %s determine no alignment",
                        ole_quote_string(file).text, ole_quote_string(l->path).text);
    return OLE_OK;
}
