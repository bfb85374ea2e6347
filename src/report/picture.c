/*
 * src/report/picture.c - PNG through libpng and JPEG through libjpeg, into memory.
 */
#include "report/picture.h"

#include <setjmp.h>
#include <stdlib.h>

#if defined(OLE_HAVE_PNG) || defined(OLE_HAVE_JPEG)
static ole_status fail_memory(const ole_picture *p, ole_error *error) {
    return ole_fail(error, OLE_ERROR_MEMORY, "an image of %d x %d pixels: out of memory", p->width,
                    p->height);
}
#endif

#ifndef OLE_HAVE_PNG

ole_status ole_picture_png(const ole_picture *picture, ole_text *out, ole_error *error) {
    (void)picture, (void)out;
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "this build cannot embed images; install libpng (libpng-dev) and rebuild");
}

#else

#include <png.h>

ole_status ole_picture_png(const ole_picture *p, ole_text *out, ole_error *error) {
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)p->width,
                       .height = (png_uint_32)p->height,
                       .format = p->palette         ? PNG_FORMAT_RGB_COLORMAP
                                 : p->channels == 3 ? PNG_FORMAT_RGB
                                                    : PNG_FORMAT_GRAY,
                       .colormap_entries = p->palette ? 256 : 0};
    uint8_t colours[256 * 3];
    for (int i = 0; p->palette && i < 256 * 3; i++)
        colours[i] = (uint8_t)(p->palette[i / 3] >> (16 - 8 * (i % 3)));
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
    void *bytes = malloc(size);
    bool good = bytes && png_image_write_to_memory(&image, bytes, &size, 0, p->pixels, 0, colours);
    if (good) ole_text_bytes(out, bytes, size);
    free(bytes);
    return good && !out->failed ? OLE_OK : fail_memory(p, error);
}

#endif

#ifndef OLE_HAVE_JPEG

bool ole_picture_has_jpeg(void) {
    return false;
}

ole_status ole_picture_jpeg(const ole_picture *picture, int quality, ole_text *out,
                            ole_error *error) {
    (void)picture, (void)quality, (void)out;
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "this build cannot write jpeg; install libjpeg (libjpeg-dev) and rebuild");
}

#else

#include <jpeglib.h>

/* libjpeg's default is to exit. */
typedef struct jpeg_errors {
    struct jpeg_error_mgr manager; /* first */
    jmp_buf back;
} jpeg_errors;

static void jump_back(j_common_ptr jpeg) {
    longjmp(((jpeg_errors *)jpeg->err)->back, 1);
}

bool ole_picture_has_jpeg(void) {
    return true;
}

ole_status ole_picture_jpeg(const ole_picture *p, int quality, ole_text *out, ole_error *error) {
    struct jpeg_compress_struct jpeg;
    jpeg_errors errors;
    unsigned char *bytes = NULL;
    unsigned long size = 0;
    jpeg.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = jump_back;
    if (setjmp(errors.back)) {
        jpeg_destroy_compress(&jpeg);
        free(bytes);
        return ole_fail(error, OLE_ERROR_MEMORY, "an image of %d x %d pixels does not fit a jpeg",
                        p->width, p->height);
    }
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &bytes, &size);
    jpeg.image_width = (JDIMENSION)p->width;
    jpeg.image_height = (JDIMENSION)p->height;
    jpeg.input_components = p->channels;
    jpeg.in_color_space = p->channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, quality, TRUE);
    jpeg.optimize_coding = TRUE;
    jpeg_start_compress(&jpeg, TRUE);
    size_t stride = (size_t)p->width * (size_t)p->channels;
    while (jpeg.next_scanline < jpeg.image_height) {
        JSAMPROW row = (JSAMPROW)(p->pixels + jpeg.next_scanline * stride);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    ole_text_bytes(out, bytes, size);
    jpeg_destroy_compress(&jpeg);
    free(bytes);
    return out->failed ? fail_memory(p, error) : OLE_OK;
}

#endif
