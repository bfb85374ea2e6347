/*
 * src/device/cuda/ops/update_all.c - all parameters clipped and updated by a few launches: the
 * table of them on the GPU, made anew only when they are not those of the last call.
 */
#include "device/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

typedef struct cuda_update_table {
    cuda_update_item *host; /* the host's copy of the table on the GPU */
    int count;
    cuda_update_item *items; /* device memory */
    int32_t *tiles;          /* device memory [tile_count, 2] */
    int tile_count;
    double *squares; /* device memory [tile_count + 1], of clipping */
} cuda_update_table;

static void free_table(cuda_update_table **slot) {
    cuda_update_table *table = *slot;
    if (!table) return;
    cudaFree(table->items);
    cudaFree(table->tiles);
    cudaFree(table->squares);
    free(table->host);
    free(table);
    *slot = NULL;
}

void cuda_update_tables_free(ole_device_context *context) {
    free_table(&context->updates);
    free_table(&context->averages);
}

static cuda_update_item item_of(const ole_device_context *context, const ole_update_item *given) {
    int64_t size = cuda_param_size(given->param);
    bool narrow = context->type == CUDA_BFLOAT16 && cuda_param_is_weight(given->param);
    return (cuda_update_item){.master = given->data,
                              .copy = narrow ? (float *)given->data + size : NULL,
                              .gradient = given->gradient,
                              .state = {given->state[0], given->state[1]},
                              .rate = given->rate,
                              .size = size,
                              .gradient_type = narrow ? CUDA_BFLOAT16 : CUDA_FLOAT};
}

int32_t *cuda_make_tiles(const ole_update_item *items, int count, int *tile_count) {
    int64_t tiles = 0;
    for (int i = 0; i < count; i++)
        tiles += (cuda_param_size(items[i].param) + CUDA_UPDATE_TILE - 1) / CUDA_UPDATE_TILE;
    int32_t *list = malloc((size_t)(tiles + 1) * 2 * sizeof *list), *next = list;
    *tile_count = (int)tiles;
    for (int i = 0; list && i < count; i++)
        for (int64_t t = 0; t * CUDA_UPDATE_TILE < cuda_param_size(items[i].param); t++) {
            *next++ = i;
            *next++ = (int32_t)t;
        }
    return list;
}

/* Takes `items` (malloc'd) over and brings them to the GPU. */
static bool build(ole_device_context *context, cuda_update_table **slot,
                  const ole_update_item *given, cuda_update_item *items, int count) {
    free_table(slot);
    cuda_update_table *table = calloc(1, sizeof *table);
    int tile_count = 0;
    int32_t *tiles = cuda_make_tiles(given, count, &tile_count);
    if (!table || !tiles) {
        free(table);
        free(tiles);
        free(items);
        return !cuda_failed(context, cudaErrorMemoryAllocation, "listing the parameters");
    }
    *table = (cuda_update_table){.host = items, .count = count, .tile_count = tile_count};
    *slot = table;
    table->items = cuda_send(context, items, (size_t)count * sizeof *items, "listing parameters");
    table->tiles =
        cuda_send(context, tiles, (size_t)tile_count * 2 * sizeof *tiles, "listing parameters");
    table->squares = cuda_send(context, NULL, (size_t)(tile_count + 1) * sizeof *table->squares,
                               "listing parameters");
    free(tiles);
    return context->failed == OLE_OK;
}

/* The table of these parameters, kept in *slot; NULL: it failed. */
static const cuda_update_table *table_of(ole_device_context *context, cuda_update_table **slot,
                                         const ole_update_item *given, int count) {
    cuda_update_item *items = calloc((size_t)count, sizeof *items);
    if (!items) {
        cuda_failed(context, cudaErrorMemoryAllocation, "listing the parameters");
        return NULL;
    }
    for (int i = 0; i < count; i++)
        items[i] = item_of(context, &given[i]);
    cuda_update_table *table = *slot;
    bool same = table && table->count == count &&
                memcmp(table->host, items, (size_t)count * sizeof *items) == 0;
    if (same)
        free(items);
    else if (!build(context, slot, given, items, count))
        return NULL;
    return *slot;
}

void cuda_update_all(ole_device_context *context, const ole_update *update,
                     const ole_update_item *given, int count) {
    const cuda_update_table *table =
        count > 0 ? table_of(context, &context->updates, given, count) : NULL;
    if (table) cuda_update(context, update, table->items, table->tiles, table->tile_count);
}

void cuda_clip_all(ole_device_context *context, double largest, const ole_update_item *given,
                   int count) {
    const cuda_update_table *table =
        count > 0 ? table_of(context, &context->updates, given, count) : NULL;
    if (table)
        cuda_clip(context, largest, table->items, table->tiles, table->tile_count, table->squares);
}

void cuda_average_all(ole_device_context *context, const ole_update *update,
                      const ole_update_item *given, int count) {
    const cuda_update_table *table =
        count > 0 ? table_of(context, &context->averages, given, count) : NULL;
    if (table) cuda_average(context, update, table->items, table->tiles, table->tile_count);
}
