/*
 * src/device/cpu/layout.c - how elements are addressed in each layout, and copying channels between
 * layouts.
 */
#include "device/cpu/cpu.h"

#include "base/min_max.h"

#include <string.h>

const char cpu_blocked = 'b', cpu_stacked = 's';

ole_layout cpu_best_layout(const ole_device_context *context, ole_shape shape) {
    bool same = shape.h * shape.w == 1 && shape.c % context->block == 0;
    return same ? NULL : &cpu_blocked;
}

/* The size, in elements, of the moments stored after a group of a stacked tensor. */
static int64_t moment_elements(int width, size_t item) {
    return (int64_t)(2 * sizeof(double) / item) * width;
}

cpu_view cpu_view_images(const ole_device_context *context, ole_layout layout, int64_t n,
                         ole_shape shape) {
    int64_t pixels = shape.h * shape.w;
    bool vectors = !layout && pixels == 1, stacked = layout == &cpu_stacked;
    int width = layout || vectors ? context->block : 1;
    cpu_view v = {.images = n,
                  .groups = (shape.c + width - 1) / width,
                  .rows = pixels,
                  .row_stride = vectors ? shape.c : width,
                  .channels = shape.c,
                  .width = width,
                  .padded = layout != NULL,
                  .item = cpu_item(context, layout)};
    v.group_stride = vectors ? width : pixels * width;
    v.image_stride = vectors ? shape.c : v.groups * v.group_stride;
    v.size = n * v.image_stride;
    if (stacked) {
        v.image_stride = pixels * width;
        v.group_stride = n * v.image_stride + moment_elements(width, v.item);
        v.size = v.groups * v.group_stride;
    }
    return v;
}

cpu_view cpu_view_of(const ole_device_context *context, ole_layout layout, int64_t n,
                     ole_shape shape) {
    cpu_view view = cpu_view_images(context, layout, n, shape);
    if (view.rows == 1) {
        view.rows = n;
        view.row_stride = view.image_stride;
        view.images = 1;
        view.image_stride *= n;
    }
    return view;
}

double *cpu_stacked_moments(const cpu_view *view, const void *tensor, int64_t group) {
    int64_t end = (group + 1) * view->group_stride - moment_elements(view->width, view->item);
    return cpu_at(view, tensor, end);
}

cpu_run cpu_view_run(const cpu_view *view, int64_t group) {
    int64_t left = view->channels - group * view->width;
    return (cpu_run){view->rows, view->row_stride,
                     view->padded || left > view->width ? view->width : (int)left};
}

/* ---- copying channels --------------------------------------------------------------------- */

typedef struct move {
    const cpu_copy *copy;
    const void *from;
    void *to;
} move;

static float widen(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Rounds to nearest even; NaN stays NaN. */
static uint16_t narrow(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float get(const void *from, size_t item, int64_t i) {
    return item == sizeof(float) ? ((const float *)from)[i] : widen(((const uint16_t *)from)[i]);
}

static void put(void *to, size_t item, int64_t i, float value) {
    if (item == sizeof(float))
        ((float *)to)[i] = value;
    else
        ((uint16_t *)to)[i] = narrow(value);
}

/* Copies or adds `count` adjacent elements. */
static void move_row(const cpu_copy *c, const void *from, void *to, int64_t count) {
    size_t a = c->from.item, b = c->to.item;
    if (!c->accumulate && a == b)
        memcpy(to, from, (size_t)count * a);
    else if (a == sizeof(float) && b == sizeof(float))
        for (int64_t i = 0; i < count; i++)
            ((float *)to)[i] += ((const float *)from)[i];
    else
        for (int64_t i = 0; i < count; i++)
            put(to, b, i, get(from, a, i) + (c->accumulate ? get(to, b, i) : 0));
}

/* Copies `count` channels, adjacent in both tensors, of every row of an image. */
static void move_lanes(const cpu_copy *c, const char *from, char *to, int64_t count) {
    int64_t step_from = c->from.row_stride, step_to = c->to.row_stride;
    if (step_from == count && step_to == count) {
        move_row(c, from, to, count * c->from.rows);
        return;
    }
    bool single = !c->accumulate && count == 1 && c->from.item == 4 && c->to.item == 4;
    step_from *= (int64_t)c->from.item;
    step_to *= (int64_t)c->to.item;
    for (int64_t row = 0; row < c->from.rows; row++, from += step_from, to += step_to)
        if (single)
            *(float *)to = *(const float *)from;
        else
            move_row(c, from, to, count);
}

/* Zeroes what follows the last channel in its group. */
static void clear_padding(const cpu_copy *c, char *image) {
    int64_t end = c->to_first + c->channels, lane = end % c->to.width;
    if (!c->pad || lane == 0 || !c->to.padded) return;
    char *to = cpu_at(&c->to, image, end / c->to.width * c->to.group_stride + lane);
    for (int64_t row = 0; row < c->to.rows; row++, to += c->to.row_stride * (int64_t)c->to.item)
        memset(to, 0, (size_t)(c->to.width - lane) * c->to.item);
}

static void move_image(void *argument, int64_t image) {
    const move *m = argument;
    const cpu_copy *c = m->copy;
    const void *from = cpu_at(&c->from, m->from, image * c->from.image_stride);
    void *to = cpu_at(&c->to, m->to, image * c->to.image_stride);
    for (int64_t i = 0, count; i < c->channels; i += count) {
        int64_t a = c->from_first + i, b = c->to_first + i;
        count = ole_min(c->channels - i,
                        ole_min(c->from.width - a % c->from.width, c->to.width - b % c->to.width));
        a = a / c->from.width * c->from.group_stride + a % c->from.width;
        b = b / c->to.width * c->to.group_stride + b % c->to.width;
        move_lanes(c, cpu_at(&c->from, from, a), cpu_at(&c->to, to, b), count);
    }
    clear_padding(c, to);
}

void cpu_copy_channels(ole_device_context *context, const cpu_copy *copy, const void *from,
                       void *to) {
    move m = {copy, from, to};
    cpu_parallel(context, copy->from.images, move_image, &m);
}

void cpu_convert(ole_device_context *context, ole_layout from_layout, ole_layout to_layout,
                 int64_t n, ole_shape shape, const void *from, bool accumulate, void *to) {
    cpu_copy copy = {.from = cpu_view_images(context, from_layout, n, shape),
                     .to = cpu_view_images(context, to_layout, n, shape),
                     .channels = shape.c,
                     .accumulate = accumulate,
                     .pad = true};
    cpu_copy_channels(context, &copy, from, to);
}
