/*
 * src/device/cpu/conv_tiles.h - bfloat16 convolutions on AMX tiles: stride 1, blocked tensors on
 * both sides.
 */
#ifndef OLE_SRC_DEVICE_CPU_CONV_TILES_H
#define OLE_SRC_DEVICE_CPU_CONV_TILES_H

#include "device/cpu/cpu.h"

typedef struct cpu_tiles cpu_tiles;

/* *tiles stays NULL if the convolution is not supported; then oneDNN computes it. */
ole_status cpu_tiles_create(cpu_tiles **tiles, const cpu_plan_request *request, ole_layout y_layout,
                            cpu_format weight, ole_error *error);
void cpu_tiles_destroy(cpu_tiles *tiles);

size_t cpu_tiles_scratch(const cpu_tiles *tiles);

void cpu_tiles_forward(const cpu_tiles *tiles, const cpu_call *call);
void cpu_tiles_backward_data(const cpu_tiles *tiles, const cpu_call *call);
void cpu_tiles_backward_weights(const cpu_tiles *tiles, const cpu_call *call);

#endif
