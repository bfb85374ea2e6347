/* src/data/images/image_pnm.c - pgm and ppm, as text (P2, P3) and as bytes (P5, P6). */
#include "data/images/image.h"

#include "base/error.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>

/* A number of the header: white space and comments before it, one white space after it is left. */
static bool read_number(FILE *file, int *value) {
    int c = fgetc(file);
    while (c != EOF && (isspace(c) || c == '#')) {
        if (c == '#')
            while (c != EOF && c != '\n')
                c = fgetc(file);
        c = fgetc(file);
    }
    if (!isdigit(c)) return false;
    *value = 0;
    for (; isdigit(c); c = fgetc(file)) {
        if (*value > OLE_IMAGE_MAX_PIXELS) return false;
        *value = *value * 10 + (c - '0');
    }
    if (c != EOF) ungetc(c, file);
    return true;
}

/* One sample, as text (P2, P3) or as one or two bytes, the high one first. */
static bool read_sample(FILE *file, bool text, int maximum, int *value) {
    if (text) return read_number(file, value) && *value <= maximum;
    int high = maximum > 255 ? fgetc(file) : 0, low = fgetc(file);
    if (high == EOF || low == EOF) return false;
    *value = high * 256 + low;
    return *value <= maximum;
}

static ole_status fail_pnm(FILE *file, const char *name, const char *what, ole_error *error) {
    return ole_fail(error, OLE_ERROR_FORMAT, "%s: byte %ld: %s", name, ftell(file), what);
}

/* Memory is allocated only if the file is long enough for the pixels that its header declares. */
static bool is_long_enough(FILE *file, int64_t samples, bool text, int maximum) {
    int64_t least = text ? 2 * samples - 1 : samples * (maximum > 255 ? 2 : 1);
    return ole_image_file_size(file) - ftell(file) >= least;
}

static ole_status read_pixels(FILE *file, const char *name, bool text, int maximum, ole_image *out,
                              ole_error *error) {
    uint8_t *row = malloc((size_t)out->width * (size_t)out->channels);
    if (!row) return ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", name);
    ole_status status = OLE_OK;
    for (int y = 0; status == OLE_OK && y < out->height; y++) {
        for (int i = 0; status == OLE_OK && i < out->width * out->channels; i++) {
            int value;
            if (read_sample(file, text, maximum, &value))
                row[i] = (uint8_t)((value * 255 + maximum / 2) / maximum);
            else
                status = fail_pnm(file, name,
                                  "a pixel is missing or over the maximum: the image "
                                  "is cut off or damaged",
                                  error);
        }
        if (status == OLE_OK) ole_image_set_row(out, y, row);
    }
    free(row);
    return status;
}

ole_status ole_image_read_pnm(FILE *file, const char *name, bool pixels, ole_image *out,
                              ole_error *error) {
    char kind[2];
    int width, height, maximum;
    if (fread(kind, 1, 2, file) != 2 || !read_number(file, &width) || !read_number(file, &height) ||
        !read_number(file, &maximum) || maximum < 1 || maximum > 65535 || !isspace(fgetc(file)))
        return fail_pnm(file, name, "the header is not that of a pgm or ppm image", error);
    bool text = kind[1] == '2' || kind[1] == '3';
    int channels = kind[1] == '3' || kind[1] == '6' ? 3 : 1;
    if (!is_long_enough(file, (int64_t)width * height * channels, text, maximum))
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: byte %ld: the file ends before its %dx%d pixels do: it is cut off",
                        name, ftell(file), width, height);
    ole_status status = ole_image_allocate(out, file, width, height, channels, pixels, name, error);
    if (status == OLE_OK && pixels) status = read_pixels(file, name, text, maximum, out, error);
    return status;
}
