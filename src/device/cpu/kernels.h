/*
 * src/device/cpu/kernels.h - inner loops of everything except convolutions.
 *
 * kernels.c is compiled once per instruction set.  The context picks the table that matches oneDNN,
 * because both work on blocks of the same number of channels.
 *
 * Tensors hold floats, or bfloat16 in the table for that; sums, statistics and parameters are
 * floats in both.  A run is `rows` rows of up to `block` adjacent channels, `stride` elements
 * apart: an image's pixels in one block of channels (stride = block), or a batch of plain vectors
 * (stride = their length).  Arrays of statistics have `block` elements.
 */
#ifndef OLE_SRC_DEVICE_CPU_KERNELS_H
#define OLE_SRC_DEVICE_CPU_KERNELS_H

#include "device/backend.h"

enum { CPU_MAX_BLOCK = 16, CPU_MAX_PANEL = 32 };

typedef struct cpu_run {
    int64_t rows, stride;
    int width; /* channels, 1 to block */
} cpu_run;

/* Count, mean and sum of squared distances to it, per channel of a block. */
typedef struct cpu_moments {
    double count;
    double mean[CPU_MAX_BLOCK], squares[CPU_MAX_BLOCK];
} cpu_moments;

/* Batch norm of a block of channels: y = (x - mean) * scale + shift, then ReLU. */
typedef struct cpu_affine {
    float mean[CPU_MAX_BLOCK], scale[CPU_MAX_BLOCK], shift[CPU_MAX_BLOCK];
    bool relu;
} cpu_affine;

/* Sums of g and g * (x - mean), where g is dy, or 0 where the ReLU gave 0. */
typedef struct cpu_sums {
    double g[CPU_MAX_BLOCK], gx[CPU_MAX_BLOCK];
} cpu_sums;

/* A pooling window on one plane of pixels, with up to `block` channels per pixel. */
typedef struct cpu_window {
    int64_t top, bottom, left, right; /* inside the image; ends excluded */
    int64_t row;                      /* pixels per row of the plane */
    int64_t stride;                   /* elements per pixel */
    int width;
} cpu_window;

/* A tile of C, rows x columns, from packed A [depth, tile_rows] and B [depth, panel]. */
typedef struct cpu_tile {
    int rows, columns; /* up to tile_rows and panel */
    int64_t depth;
    int64_t ldc;
    bool add; /* C += instead of C = */
} cpu_tile;

typedef struct cpu_kernels {
    const char *name;
    int block;
    int panel, tile_rows; /* columns and rows of the largest tile */

    void (*tile)(const cpu_tile *tile, const float *a, const float *b, float *c);

    /* ---- batch norm ---- */

    /* Adds a run to the moments. */
    void (*moments)(cpu_run run, const void *x, cpu_moments *moments);
    void (*norm)(cpu_run run, const cpu_affine *affine, const void *x, void *y);
    void (*norm_sums)(cpu_run run, const cpu_affine *affine, const void *x, const void *dy,
                      cpu_sums *sums);
    /* dx (+)= scale * g + (x - mean) * slope + level */
    void (*norm_gradient)(cpu_run run, const cpu_affine *affine, const float *slope,
                          const float *level, const void *x, const void *dy, bool accumulate,
                          void *dx);

    /* ---- pooling ---- */

    /* y = maximum of the window; at[i] = the pixel (from 0, row by row) where channel i has it. */
    void (*max_window)(const cpu_window *window, const void *x, void *y, uint8_t *at);
    /* dx += dy at those pixels. */
    void (*max_spread)(const cpu_window *window, const void *dy, const uint8_t *at, void *dx);
    /* y = factor * sum of the window; dx += factor * dy everywhere in it. */
    void (*sum_window)(const cpu_window *window, const void *x, float factor, void *y);
    void (*sum_spread)(const cpu_window *window, const void *dy, float factor, void *dx);

    /* ---- elementwise; arrays may be the same memory ---- */

    void (*add)(int64_t count, const void *a, const void *b, bool relu, void *y);
    void (*relu)(int64_t count, const void *x, void *y);
    /* dx (+)= dy, where y > 0 unless y is NULL */
    void (*pass)(int64_t count, const void *dy, const void *y, bool accumulate, void *dx);
    /* The same for two gradients; dy may be one of them if that one is not accumulated. */
    void (*pass_both)(int64_t count, const void *dy, const void *y, const bool accumulate[2],
                      void *const dx[2]);
    /* dx (+)= factor * x where mask is not 0 */
    void (*apply_mask)(int64_t count, const void *x, const uint8_t *mask, float factor,
                       bool accumulate, void *dx);

    void (*sgd)(int64_t count, const ole_update *update, float *param, const float *gradient,
                float *momentum);
    void (*adam)(int64_t count, const ole_update *update, float *param, const float *gradient,
                 float *first, float *second);
} cpu_kernels;

#endif
