/* fuzz/fuzz_arrays.c - data sets from arrays and tables: samples and labels as .npy, .npz, .csv. */
#include "check_set.h"

/* "npy:X,y" with the names of two files of the folder. */
static void open_arrays(const char *samples, const char *labels) {
    char name[300];
    snprintf(name, sizeof name, "npy:%s,%s", fuzz_path(samples), fuzz_path(labels));
    check_named_set(name);
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    static const char samples[] = "0,1,2\n3,4,5\n6,7,8\n9,8,7\n6,5,4\n3,2,1\n";
    static const char labels[] = "a\nb\na\nb\na\nb\n";
    static const char *const files[] = {"x.npy", "x.npz", "x.csv", "x.txt"};
    put_file("samples.csv", samples, sizeof samples - 1);
    put_file("labels.txt", labels, sizeof labels - 1);
    for (int i = 0; i < 4; i++) {
        put_file(files[i], bytes, size);
        open_arrays(files[i], "labels.txt");
        open_arrays("samples.csv", files[i]);
    }
}
