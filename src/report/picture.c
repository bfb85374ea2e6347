/*
 * src/report/picture.c - PNG through libpng and JPEG through libjpeg, into memory.
 */
#include "report/picture.h"

#include <setjmp.h>
#include <stdio.h>
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
                    "this build cannot embed images: install libpng (libpng-dev) and build again");
}

#else

#include <png.h>

static void add_png_bytes(png_structp png, png_bytep bytes, size_t size) {
    ole_text_bytes(png_get_io_ptr(png), bytes, size);
}

static void flush_nothing(png_structp png) {
    (void)png;
}

static void stay_silent(png_structp png, png_const_charp message) {
    (void)png, (void)message;
}

/* libpng's default prints the message first. */
static void leave_silently(png_structp png, png_const_charp message) {
    (void)message;
    png_longjmp(png, 1);
}

static void set_header(png_structp png, png_infop info, const ole_picture *p) {
    int kind = p->palette         ? PNG_COLOR_TYPE_PALETTE
               : p->channels == 3 ? PNG_COLOR_TYPE_RGB
                                  : PNG_COLOR_TYPE_GRAY;
    png_set_IHDR(png, info, (png_uint_32)p->width, (png_uint_32)p->height, 8, kind,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (!p->palette) return;
    png_color colours[256];
    for (int i = 0; i < 256; i++)
        colours[i] = (png_color){(png_byte)(p->palette[i] >> 16), (png_byte)(p->palette[i] >> 8),
                                 (png_byte)p->palette[i]};
    png_set_PLTE(png, info, colours, 256);
}

ole_status ole_picture_png(const ole_picture *p, ole_text *out, ole_error *error) {
    png_structp png =
        png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, leave_silently, stay_silent);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info || setjmp(png_jmpbuf(png))) {
        png_destroy_write_struct(&png, &info);
        return fail_memory(p, error);
    }
    png_set_write_fn(png, out, add_png_bytes, flush_nothing);
    png_set_compression_level(png, 9);
    set_header(png, info, p);
    png_write_info(png, info);
    size_t stride = (size_t)p->width * (size_t)p->channels;
    for (int y = 0; y < p->height; y++)
        png_write_row(png, p->pixels + (size_t)y * stride);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    return out->failed ? fail_memory(p, error) : OLE_OK;
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
                    "this build cannot write jpeg: install libjpeg (libjpeg-dev) and build again");
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
