/*
 * src/data/image_jpeg.c - jpeg through libjpeg (-turbo).
 *
 * libjpeg reports errors by a callback that must not return; here it jumps back.  It goes on after
 * damage in the pixels with a warning and grey blocks; such a file is refused here.
 */
#include "data/image.h"

#include "base/error.h"

#ifndef OLE_HAVE_JPEG

ole_status ole_image_read_jpeg(FILE *file, const char *name, bool pixels, ole_image *out,
                               ole_error *error) {
    (void)file, (void)pixels, (void)out;
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "%s: this build cannot read jpeg: install libjpeg (libjpeg-dev) and build "
                    "again",
                    name);
}

#else

#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>

#include <jpeglib.h>

#include <jerror.h>

typedef struct decoder {
    struct jpeg_error_mgr errors; /* first: libjpeg hands back its address */
    struct jpeg_decompress_struct jpeg;
    jmp_buf back;
    char message[JMSG_LENGTH_MAX];
    uint8_t *row;
} decoder;

static void stop(j_common_ptr jpeg) {
    decoder *d = (decoder *)jpeg->err;
    jpeg->err->format_message(jpeg, d->message);
    longjmp(d->back, 1);
}

/* Warnings that mean missing or wrong pixels are errors; the harmless ones are passed over. */
static void judge_message(j_common_ptr jpeg, int level) {
    if (level >= 0) return;
    int code = jpeg->err->msg_code;
    if (code == JWRN_HIT_MARKER || code == JWRN_JPEG_EOF || code == JWRN_HUFF_BAD_CODE ||
        code == JWRN_MUST_RESYNC || code == JWRN_BOGUS_PROGRESSION)
        stop(jpeg);
}

static void say_nothing(j_common_ptr jpeg) {
    (void)jpeg;
}

/* All that may jump: returns false after an error of libjpeg, with d->message set. */
static bool read_all(decoder *d, FILE *file, const char *name, bool pixels, ole_image *out,
                     ole_status *status, ole_error *error) {
    struct jpeg_decompress_struct *jpeg = &d->jpeg;
    if (setjmp(d->back)) return false;
    jpeg_create_decompress(jpeg);
    jpeg_stdio_src(jpeg, file);
    jpeg_read_header(jpeg, TRUE);
    jpeg->out_color_space = jpeg->num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    int channels = jpeg->num_components == 1 ? 1 : 3;
    *status = ole_image_allocate(out, jpeg->image_width, jpeg->image_height, channels, pixels, name,
                                 error);
    if (*status != OLE_OK || !pixels) return true;
    d->row = malloc((size_t)out->width * (size_t)channels);
    if (!d->row) {
        *status = ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", name);
        return true;
    }
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        int y = (int)jpeg->output_scanline;
        JSAMPROW row = d->row;
        jpeg_read_scanlines(jpeg, &row, 1);
        ole_image_set_row(out, y, d->row);
    }
    jpeg_finish_decompress(jpeg);
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

#endif
