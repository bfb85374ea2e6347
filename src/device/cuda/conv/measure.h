/*
 * src/device/cuda/conv/measure.h - how long something takes on the card.
 *
 * Training replays recorded graphs, where the host's time to launch does not count: so runs are
 * recorded too, several in a row, and the replays timed.
 */
#ifndef OLE_SRC_DEVICE_CUDA_CONV_MEASURE_H
#define OLE_SRC_DEVICE_CUDA_CONV_MEASURE_H

#include "device/cuda/cuda.h"

typedef struct cuda_measured {
    double microseconds; /* of one run, the quickest of several batches */
    bool recorded;       /* false: it cannot be, and was timed as launched */
} cuda_measured;

/*
 * launch(argument) queues one run on context->stream and returns false where that is refused.
 * False: it does not run, or takes so much longer than `best` microseconds (0: there is none yet)
 * that it was not timed further.
 */
bool cuda_measure(ole_device_context *context, bool (*launch)(void *argument), void *argument,
                  double best, cuda_measured *measured);

#endif
