/*
 * src/train_info.c - ole_train_info(): what this build of liboletrain holds, as ole_info() tells it
 * of libole.
 */
#include "ole/train/train.h"

#include "build_parts.h"
#ifdef OLE_HAVE_ONEDNN
#include "device/cpu/onednn.h"
#endif

#include <pthread.h>
#include <string.h>

static char onednn[64] = "none";

static void describe(void) {
#ifdef OLE_HAVE_ONEDNN
    cpu_dnn_describe(onednn, sizeof onednn);
#endif
}

size_t ole_train_info(ole_info_row *rows, size_t capacity) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, describe);

    const ole_info_row all[] = {
        OLE_TRAIN_BUILD_PARTS,
        {"oneDNN", onednn},
    };
    size_t count = sizeof all / sizeof *all;
    if (rows) memcpy(rows, all, (count < capacity ? count : capacity) * sizeof *all);
    return count;
}
