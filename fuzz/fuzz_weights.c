/*
 * fuzz/fuzz_weights.c - published weights as initial ones: a .safetensors or .caffemodel file for a
 * small ResNet and a small VGG.
 */
#include "formats/safetensors.h"
#include "fuzz.h"
#include "model/init_from.h"

#include <string.h>

static const char *const nets[] = {"C2[nobias]-B2-B4-AP", "C2-MP-C3-MP-FC4"};

/* Opened once: this is about files. */
static ole_network *get_network(int i) {
    static ole_network networks[2];
    const ole_network_options options = {.net = nets[i],
                                         .input = {3, 8, 8},
                                         .classes = 2,
                                         .device = "ref",
                                         .precision = "fp32",
                                         .conv = "auto",
                                         .threads = 1};
    ole_error error;
    if (!networks[i].graph)
        require(ole_network_open(&networks[i], &options, &error) == OLE_OK, "no network");
    return &networks[i];
}

static void load(ole_network *network, const char *path) {
    char report[OLE_REPORT_ROOM], warning[OLE_REPORT_ROOM];
    ole_error error = {0};
    memset(report, 1, sizeof report);
    memset(warning, 1, sizeof warning);
    ole_status status = ole_init_from(network, path, report, warning, &error);
    if (status != OLE_OK) {
        check_error(status, &error);
        return;
    }
    require(memchr(report, '\0', sizeof report) != NULL, "the report has no end");
    require(strpbrk(report, "\n\r\x1b") == NULL, "the report is not one plain line");
    /* The names of tensors come later in it. */
    require(strncmp(report, path, strlen(path)) == 0, "the report does not begin with the file");
    require(strncmp(report + strlen(path), ": 0 loaded", 10) != 0,
            "it succeeds and has loaded nothing");
    require(memchr(warning, '\0', sizeof warning) != NULL, "the warning has no end");
    require(strpbrk(warning, "\n\r\x1b") == NULL, "the warning is not one plain line");
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    put_file("w.safetensors", bytes, size);
    put_file("w.caffemodel", bytes, size);
    for (int i = 0; i < 2; i++) {
        load(get_network(i), fuzz_path("w.safetensors"));
        load(get_network(i), fuzz_path("w.caffemodel"));
    }
}
