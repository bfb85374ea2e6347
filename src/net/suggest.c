/*
 * src/net/suggest.c - a network for samples of a shape, where nobody has named one.
 *
 * Small ones, which train on a CPU in minutes; of square images and vectors each makes 64 to 256
 * features, few enough for OLÉ to be quick.  The mean over the image (AP) errs less on few photos
 * than a linear layer behind the last pool: docs/results.md.  docs/guide.md has the same table.
 */
#include "ole/net.h"

/* From which size on a net is taken: dimensions of vectors, pixels of an image's shorter side. */
typedef struct choice {
    int from;
    const char *net;
} choice;

static const choice of_vectors[] = {
    {1, "FC64(x2)"},
    {65, "FC256-FC128"},
    {513, "FC512-FC128"},
};

static const choice of_images[] = {
    {1, "FC128-FC64"},
    {8, "C32-MP-C64-MP-FC64"},
    {21, "C32(x2)-MP-C64(x2)-MP-C128(x2)-AP"},
    {49, "C32-MP-C64-MP-C128-MP-C256-AP"},
    {96, "C32-MP-C64-MP-C128-MP-C128-MP-C256-AP"},
    {128, "C32-MP-C64-MP-C128-MP-C128-MP-C256-MP-C256-AP"},
};

static const char *last_from(const choice *choices, size_t count, int size) {
    const char *net = choices[0].net;
    for (size_t i = 1; i < count && size >= choices[i].from; i++)
        net = choices[i].net;
    return net;
}

const char *ole_net_suggest(int channels, int height, int width) {
    if (height == 1 && width == 1)
        return last_from(of_vectors, sizeof of_vectors / sizeof *of_vectors, channels);
    return last_from(of_images, sizeof of_images / sizeof *of_images,
                     height < width ? height : width);
}
