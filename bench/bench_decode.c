/*
 * bench/bench_decode.c - images per second that a folder is decoded, scaled and cropped at:
 *
 *     build/bench/bench_decode FOLDER [SIZE [THREADS]]
 *
 * Prints images, seconds and CPU seconds of opening the folder as a data set.  CPU time says more
 * on a shared machine.  bench/peer_decode.py runs this beside Pillow and torchvision.
 */
#include "base/clock.h"
#include "ole/train/data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* CPU seconds of all threads of the process. */
static double processor_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        printf("bench_decode: name a folder with one subfolder of images per class; skipped\n");
        return 0;
    }
    char name[4096];
    snprintf(name, sizeof name, "folder:%s", argv[1]);
    ole_dataset_options options;
    ole_dataset_options_init(&options);
    options.resize = argc > 2 ? atoi(argv[2]) : 96;
    options.threads = argc > 3 ? atoi(argv[3]) : 1;
    options.channels = 3;
    options.test_share = 0;
    double wall = ole_clock(), cpu = processor_seconds();
    ole_dataset *set;
    ole_error error;
    if (ole_dataset_open(&set, name, &options, &error) != OLE_OK) {
        fprintf(stderr, "bench_decode: %s\n", error.message);
        return 1;
    }
    printf("%" PRId64 " %.6f %.6f\n", ole_dataset_get_info(set)->count[OLE_SPLIT_TRAIN],
           ole_clock() - wall, processor_seconds() - cpu);
    ole_dataset_close(set);
    return 0;
}
