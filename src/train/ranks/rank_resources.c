/* src/train/ranks/rank_resources.c - the threads and the GPU of a rank. */
#include "train/ranks/rank_resources.h"

#include "base/cuda_module.h"
#include "model/network.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

int ole_rank_threads(int given, const ole_ranks *ranks) {
    int allowed = ole_threads(given);
    if (given > 0 || !ranks) return allowed;
    long each = sysconf(_SC_NPROCESSORS_ONLN) / ranks->ranks_on_host;
    if (each < 1) each = 1;
    return allowed < each ? allowed : (int)each;
}

/* 0 without a module or a GPU. */
static int count_gpus(void) {
    const void *table;
    ole_error error;
    if (ole_cuda_module_table("ole_cuda_device", &table, NULL) != OLE_OK) return 0;
    return ((const ole_cuda_device_table *)table)->count(&error);
}

const char *ole_rank_device(const char *device, const ole_ranks *ranks,
                            char name[OLE_DEVICE_NAME]) {
    if (!ranks || (strcmp(device, "auto") != 0 && strcmp(device, "cuda") != 0)) return device;
    int gpus = count_gpus();
    if (gpus < 2) return device;
    snprintf(name, OLE_DEVICE_NAME, "cuda:%d", ranks->on_host % gpus);
    return name;
}
