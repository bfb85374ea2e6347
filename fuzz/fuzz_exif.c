/* fuzz/fuzz_exif.c - an Exif block, and turning a small image as it says. */
#include "data/images/image.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

void fuzz_one(const uint8_t *bytes, size_t size) {
    int orientation = ole_exif_orientation(bytes, size);
    require(orientation >= 1 && orientation <= 8, "no orientation");
    ole_image image = {.width = 5, .height = 3, .channels = 1, .planar = malloc(15)};
    require(image.planar != NULL, "out of memory");
    for (int i = 0; i < 15; i++)
        image.planar[i] = (uint8_t)i;
    require(ole_image_turn(&image, orientation), "it cannot be turned");
    bool upright = orientation <= 4;
    require(image.width == (upright ? 5 : 3) && image.height == (upright ? 3 : 5), "another size");
    unsigned seen = 0;
    for (int i = 0; i < 15; i++)
        seen |= 1u << image.planar[i];
    require(seen == (1u << 15) - 1, "a pixel is lost");
    ole_image_free(&image);
}
