/*
 * src/device/cpu/amx.h - inner loops of convolutions on AMX tiles: products in bfloat16, sums in
 * float.
 *
 * A grid is a few images as one line of pixels, with zeros between rows and images as padding
 * (conv_tiles.c).  In such a line the pixel that a kernel tap reads is at a fixed distance from the
 * pixel it contributes to.  So a convolution is a sum of matrix products, one per tap, of the same
 * matrix read from different offsets.
 *
 * Tiles are 16 rows of 64 bytes.  Operands come in pairs of tiles, 32 wide; what lies beyond the
 * data is zero or not stored.
 */
#ifndef OLE_SRC_DEVICE_CPU_AMX_H
#define OLE_SRC_DEVICE_CPU_AMX_H

#include <stdbool.h>
#include <stdint.h>

enum { AMX_ROWS = 16, AMX_DEPTH = 32, AMX_TILE = AMX_ROWS * AMX_DEPTH, AMX_STEP = 32 };

/*
 * Float weights [o/16, i/16, taps, 16 of i, 16 of o] packed as the right side of a product:
 * bfloat16 tiles [columns/16][taps][rows/32] with pairs of rows interleaved.  Rows are the
 * convolution's inputs and columns its outputs, or the reverse with the taps in reverse order
 * (`transpose`).
 */
typedef struct amx_weights {
    const float *weight;
    int outs, ins, taps; /* blocks of 16 */
    bool transpose;
    uint16_t *to;
} amx_weights;

/* A product over the taps of a grid [pixels, channels], into a blocked tensor. */
typedef struct amx_product {
    const uint16_t *grid; /* at pixel 0 */
    int64_t pixel_bytes;
    int depth; /* in units of 32 channels */
    int taps;
    const int64_t *tap;      /* [taps] offsets in pixels */
    const uint16_t *weights; /* packed */
    int blocks;              /* blocks of 16 channels of the result */
    int channels;            /* actual channels of the result */
    const float *bias;       /* [channels] or NULL */
    int64_t pixels;
    const int32_t *target; /* [pixels] offset in y, or -1 */
    uint16_t *y;
    int64_t block_stride; /* of y */
    bool add;             /* y += instead of y = */
} amx_product;

/* Sums over the pixels of two grids: [outs, ins, taps, 16 of i, 16 of o] (+)= x^T dy per tap. */
typedef struct amx_gradient {
    const uint16_t *x;  /* [channels, pixels], at pixel 0 */
    int64_t x_row;      /* elements per channel */
    const uint16_t *dy; /* [pixels/2, channels, 2] */
    int64_t dy_row;     /* elements per pair of pixels */
    int64_t steps;      /* in units of 32 pixels */
    int taps;
    const int64_t *tap;
    int ins, outs; /* blocks of 16 */
    bool add;
    float *sum;
} amx_gradient;

typedef struct amx_kernels {
    void (*pack_weights)(const amx_weights *weights, int column_block);
    void (*multiply)(const amx_product *product);
    /* Transposes 32 pixels of 16 channels to to[channel, pixel]. */
    void (*transpose_pixels)(const uint16_t *from, int64_t pixel_elements, uint16_t *to,
                             int64_t to_row);
    /* Interleaves two pixels channel by channel: 16 pairs. */
    void (*pair_pixels)(const uint16_t *from, int64_t pixel_elements, uint16_t *to);
    void (*sum_products)(const amx_gradient *gradient);
} amx_kernels;

/* Exists if the compiler supports AMX (OLE_HAVE_CPU_BF16). */
extern const amx_kernels ole_amx_kernels;

#endif
