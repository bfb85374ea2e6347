/*
 * src/net/suggest.c - the default network for a sample shape, used when none is named.
 *
 * Small nets that train on a CPU in minutes.  Each has 64 to 256 features for square images and
 * vectors, few enough for OLÉ to be fast.  On few photos a global average pool (AP) has a lower
 * error than a linear layer after the last pool: see docs/results-appendix.md.  docs/reference.md
 * shows the same table.
 */
#include "ole/train/net.h"

/*
 * The net for samples of size `from` and up: dimensions of a vector, or pixels of an image's
 * shorter side.
 */
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
