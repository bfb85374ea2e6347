/*
 * src/device/cpu/amx.h - inner loops of convolutions on the tiles of AMX: products of bfloat16,
 * sums of float.
 *
 * A grid is a few images as one line of pixels, with zeros between rows and images where the
 * padding is (conv_tiles.c).  In such a line the pixel that a tap of the kernel reads lies at a
 * fixed distance from the one that it adds to, so a convolution is a sum of matrix products, one a
 * tap, of the same matrix read from different places.
 *
 * Tiles are 16 rows of 64 bytes.  Sides of products come in pairs of tiles, 32 wide; what lies
 * beyond the data is zero or left out of the result.
 */
#ifndef OLE_SRC_DEVICE_CPU_AMX_H
#define OLE_SRC_DEVICE_CPU_AMX_H

#include <stdbool.h>
#include <stdint.h>

enum { AMX_ROWS = 16, AMX_DEPTH = 32, AMX_TILE = AMX_ROWS * AMX_DEPTH, AMX_STEP = 32 };

/*
 * Weights [o/16, i/16, taps, 16 of i, 16 of o] of float as the right side of a product: tiles
 * [columns/16][taps][rows/32], of bfloat16, pairs of rows side by side.  Rows are inputs and
 * columns outputs of the convolution, or the other way round with the taps in reverse (`turn`).
 */
typedef struct amx_weights {
    const float *weight;
    int outs, ins, taps; /* blocks of 16 */
    bool turn;
    uint16_t *to;
} amx_weights;

/* A product over the taps of a grid [pixels, channels], into a blocked tensor. */
typedef struct amx_product {
    const uint16_t *grid; /* its pixel 0 */
    int64_t pixel_bytes;
    int depth; /* of 32 channels */
    int taps;
    const int64_t *tap;      /* [taps] distances in pixels */
    const uint16_t *weights; /* as packed */
    int blocks;              /* of 16 channels of the result */
    int channels;            /* of the result that exist */
    const float *bias;       /* [channels] or NULL */
    int64_t pixels;
    const int32_t *target; /* [pixels] offset in y, or -1 */
    uint16_t *y;
    int64_t block_stride; /* of y */
    bool add;             /* to what y holds */
} amx_product;

/* Sums over the pixels of two grids: [outs, ins, taps, 16 of i, 16 of o] (+)= x^T dy for each tap.
 */
typedef struct amx_gradient {
    const uint16_t *x;  /* [channels, pixels], pixel 0 */
    int64_t x_row;      /* elements a channel */
    const uint16_t *dy; /* [pixels/2, channels, 2] */
    int64_t dy_row;     /* elements a pair of pixels */
    int64_t steps;      /* of 32 pixels */
    int taps;
    const int64_t *tap;
    int ins, outs; /* blocks of 16 */
    bool add;
    float *sum;
} amx_gradient;

typedef struct amx_kernels {
    void (*pack_weights)(const amx_weights *weights, int column_block);
    void (*multiply)(const amx_product *product);
    /* 32 pixels of a grid from `from` on, 16 channels, as rows of pixels: to[channel, pixel]. */
    void (*turn_pixels)(const uint16_t *from, int64_t pixel_elements, uint16_t *to, int64_t to_row);
    /* Two pixels of a grid side by side, channel by channel: 16 pairs. */
    void (*pair_pixels)(const uint16_t *from, int64_t pixel_elements, uint16_t *to);
    void (*sum_products)(const amx_gradient *gradient);
} amx_kernels;

/* There where the compiler knows AMX (OLE_HAVE_CPU_BF16). */
extern const amx_kernels ole_amx_kernels;

#endif
