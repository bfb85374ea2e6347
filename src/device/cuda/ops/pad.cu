/*
 * src/device/cuda/ops/pad.cu - channels of zeros around those of the input (OLE_OP_PAD).
 *
 * A thread gathers eight channels of a pixel, of y forward and of dx backward. The input's channels
 * need not start on a multiple of eight, so they are read one by one.
 */
#include "device/cuda/ops/kernels.cuh"

namespace {

/* Channel c of the tensor written is channel c - shift of the one read, where that one has it. */
struct pad_shape {
    int groups;        /* of eight channels, of the tensor written */
    int channels;      /* of the tensor written; those behind them are padding, zero */
    int from_channels; /* of the tensor read */
    int from_pitch;
    int shift;
};

template <class T>
__global__ void move_channels(const void *from, pad_shape s, bool accumulate, void *to,
                              int64_t count) {
    FOR_EACH(i, count) {
        const T *pixel = static_cast<const T *>(from) + i / s.groups * s.from_pitch;
        int first = (int)(i % s.groups) * 8;
        float value[8];
#pragma unroll
        for (int k = 0; k < 8; k++) {
            int c = first + k - s.shift;
            bool there = first + k < s.channels && c >= 0 && c < s.from_channels;
            value[k] = there ? (float)pixel[c] : 0.0f;
        }
        if (accumulate) add_to(value, load8<T>(to, i));
        store8<T>(to, i, value);
    }
}

void run(const cuda_call *c, const cuda_layout &from, const cuda_layout &to, int shift,
         const void *x, bool accumulate, void *y) {
    pad_shape s = {to.part[0].pitch / 8, to.c, from.c, from.part[0].pitch, shift};
    LAUNCH_EACH(c->context, to.type, vectors_of(to), move_channels, x, s, accumulate, y);
}

void pad_forward(const cuda_call *c) {
    const cuda_state *s = state_of(c);
    int first = (int)ole_pad_first(c->node->in, c->node->out);
    run(c, s->x[0], s->y, first, c->call->x[0], false, c->call->y);
}

void pad_backward(const cuda_call *c) {
    const cuda_state *s = state_of(c);
    int first = (int)ole_pad_first(c->node->in, c->node->out);
    if (!c->call->dx[0]) return;
    run(c, s->y, s->x[0], -first, c->call->dy, c->call->accumulate[0], c->call->dx[0]);
}

} // namespace

const cuda_op cuda_pad = {false, cuda_plan_state, pad_forward, pad_backward};
