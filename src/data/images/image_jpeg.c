/*
 * src/data/images/image_jpeg.c - jpeg through libjpeg (-turbo).
 *
 * libjpeg reports errors by a callback that must not return; here it jumps back.  After
 * damage in the pixels it continues with a warning and grey blocks; such a file is refused here.
 * Photos are turned upright, and inks (CMYK, as printers' programs store) become red, green and
 * blue.
 *
 * A progressive jpeg is a series of scans, each of which costs a pass over all pixels however few
 * bytes it has.  Programs write 10 to 20; a file with hundreds is made to waste time.
 */
#include "data/images/image.h"

#include "base/error.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

typedef struct decoder {
    struct jpeg_error_mgr errors; /* first: libjpeg hands back its address */
    struct jpeg_decompress_struct jpeg;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    char message[JMSG_LENGTH_MAX];
    uint8_t *row;
} decoder;

static void stop(j_common_ptr jpeg) {
    decoder *d = (decoder *)jpeg->err;
    jpeg->err->format_message(jpeg, d->message);
    longjmp(d->back, 1);
}

/* Warnings that mean missing or wrong pixels are errors; harmless ones are ignored. */
static void judge_message(j_common_ptr jpeg, int level) {
    if (level >= 0) return;
    int code = jpeg->err->msg_code;
    if (code == JWRN_HIT_MARKER || code == JWRN_JPEG_EOF || code == JWRN_HUFF_BAD_CODE ||
        code == JWRN_MUST_RESYNC || code == JWRN_BOGUS_PROGRESSION || code == JWRN_ARITH_BAD_CODE)
        stop(jpeg);
}

/* The most scans of an ordinary image: fewer if each one takes long. */
static int64_t most_scans(const struct jpeg_decompress_struct *jpeg) {
    enum { MOST = 100, OF_LARGEST = 32 };
    int64_t pixels = (int64_t)jpeg->image_width * jpeg->image_height;
    int64_t most = (int64_t)OF_LARGEST * OLE_IMAGE_MAX_PIXELS / pixels;
    return most < MOST ? most : MOST;
}

/* libjpeg calls this before each row of each scan. */
static void limit_scans(j_common_ptr common) {
    decoder *d = (decoder *)common->err;
    int64_t most = most_scans(&d->jpeg);
    if (d->jpeg.input_scan_number <= most) return;
    snprintf(d->message, sizeof d->message,
             "more than %d scans take too long to read; save it as a baseline jpeg", (int)most);
    longjmp(d->back, 1);
}

static void say_nothing(j_common_ptr jpeg) {
    (void)jpeg;
}

/* Inks to red, green, blue, in place; Adobe's programs store them inverted. */
static void mix_inks(uint8_t *row, int width, bool adobe) {
    uint8_t *to = row;
    for (const uint8_t *from = row; from < row + 4 * width; from += 4)
        for (int c = 0; c < 3; c++) {
            unsigned ink = adobe ? from[c] : 255u - from[c];
            unsigned black = adobe ? from[3] : 255u - from[3];
            *to++ = (uint8_t)((ink * black + 127) / 255);
        }
}

/* How the photo lies, by the first Exif block. */
static int find_orientation(const struct jpeg_decompress_struct *jpeg) {
    for (jpeg_saved_marker_ptr m = jpeg->marker_list; m; m = m->next)
        if (m->data_length >= 4 && memcmp(m->data, "Exif", 4) == 0)
            return ole_exif_orientation(m->data, m->data_length);
    return 1;
}

/* The rows, as they are stored. */
static void read_rows(decoder *d, ole_image *out) {
    struct jpeg_decompress_struct *jpeg = &d->jpeg;
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        int y = (int)jpeg->output_scanline;
        JSAMPROW row = d->row;
        jpeg_read_scanlines(jpeg, &row, 1);
        if (jpeg->num_components == 4) mix_inks(d->row, out->width, jpeg->saw_Adobe_marker);
        ole_image_set_row(out, y, d->row);
    }
    jpeg_finish_decompress(jpeg);
}

/* All that may jump: returns false after an error of libjpeg, with d->message set. */
static bool read_all(decoder *d, FILE *file, const char *name, bool pixels, ole_image *out,
                     ole_status *status, ole_error *error) {
    struct jpeg_decompress_struct *jpeg = &d->jpeg;
    if (setjmp(d->back)) return false;
    jpeg_create_decompress(jpeg);
    d->progress.progress_monitor = limit_scans;
    jpeg->progress = &d->progress;
    jpeg_stdio_src(jpeg, file);
    jpeg_save_markers(jpeg, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(jpeg, TRUE);
    int components = jpeg->num_components, channels = components == 1 ? 1 : 3;
    jpeg->out_color_space = components == 1 ? JCS_GRAYSCALE : components == 4 ? JCS_CMYK : JCS_RGB;
    *status = ole_image_allocate(out, file, jpeg->image_width, jpeg->image_height, channels, pixels,
                                 name, error);
    if (*status != OLE_OK) return true;
    int orientation = find_orientation(jpeg); /* before the markers go with the last row */
    d->row = pixels ? malloc((size_t)out->width * (size_t)components) : NULL;
    if (d->row) read_rows(d, out);
    if ((pixels && !d->row) || !ole_image_turn(out, orientation))
        *status = ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", name);
    return true;
}

ole_status ole_image_read_jpeg(FILE *file, const char *name, bool pixels, ole_image *out,
                               ole_error *error) {
    decoder *d = calloc(1, sizeof *d);
    if (!d) return ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", name);
    d->jpeg.err = jpeg_std_error(&d->errors);
    d->errors.error_exit = stop;
    d->errors.emit_message = judge_message;
    d->errors.output_message = say_nothing;
    ole_status status = OLE_OK;
    if (!read_all(d, file, name, pixels, out, &status, error))
        status = ole_fail(error, OLE_ERROR_FORMAT, "%s: unreadable jpeg, at or before byte %ld: %s",
                          name, ftell(file), d->message);
    jpeg_destroy_decompress(&d->jpeg);
    free(d->row);
    free(d);
    return status;
}
