/* fuzz/fuzz_image.c - an image file of any format: its header, its pixels, fitted to a size. */
#include "data/images/image.h"
#include "fuzz.h"

static void check_image(const ole_image *image) {
    require(image->width > 0 && image->height > 0, "an empty image");
    require(image->channels == 1 || image->channels == 3, "neither grey nor colour");
    require((int64_t)image->width * image->height <= OLE_IMAGE_MAX_PIXELS, "a huge image");
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    const char *path = put_file("image", bytes, size);
    ole_image probe, image;
    ole_error error = {0};
    ole_status probed = ole_image_probe(path, &probe, &error);
    if (probed != OLE_OK) check_error(probed, &error);
    error = (ole_error){0};
    ole_status status = ole_image_read(path, 0, &image, &error);
    if (status != OLE_OK) {
        check_error(status, &error);
        require(image.planar == NULL, "an image after an error");
        return;
    }
    require(probed == OLE_OK, "pixels without a header");
    check_image(&image);
    require(probe.width == image.width && probe.height == image.height &&
                probe.channels == image.channels,
            "the header gives another size");
    uint8_t out[3 * 5 * 7];
    if ((int64_t)image.width * image.height < 1 << 20) {
        touch(image.planar, (size_t)image.channels * (size_t)image.width * (size_t)image.height);
        require(ole_image_fit(&image, 5, 7, 3, out) == OLE_OK, "it cannot be fitted");
    }
    ole_image_free(&image);
}
