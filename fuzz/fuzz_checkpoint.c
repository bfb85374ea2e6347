/* fuzz/fuzz_checkpoint.c - last.safetensors, from which a run resumes. */
#include "formats/safetensors.h"
#include "fuzz.h"
#include "model/checkpoint.h"

enum { MOMENTS = 2 };

/* Opened once: this is about files. */
static ole_network *get_network(void) {
    static ole_network network;
    static const ole_network_options options = {.net = "FC2",
                                                .input = {2, 1, 1},
                                                .classes = 2,
                                                .device = "ref",
                                                .precision = "fp32",
                                                .conv = "auto",
                                                .threads = 1,
                                                .train = true};
    ole_error error;
    if (!network.graph)
        require(ole_network_open(&network, &options, &error) == OLE_OK, "no network");
    return &network;
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    const char *path = put_file("last.safetensors", bytes, size);
    ole_safetensors *file;
    ole_card card;
    ole_error error = {0};
    if (ole_safetensors_open(&file, path, &error) != OLE_OK) return; /* see fuzz_model.c */
    ole_status status = ole_card_read(&card, file, path, &error);
    if (status == OLE_OK) {
        ole_state state = {0}; /* no state of a loss to fill */
        for (int moments = 0; moments <= MOMENTS; moments++) {
            status = ole_checkpoint_load(file, path, get_network(), moments, &state, &error);
            if (status != OLE_OK) check_error(status, &error);
            require(status != OLE_OK ||
                        (state.epoch >= 0 && state.step >= 0 && state.updates >= 0 &&
                         state.metrics_bytes >= 0 && state.best_epoch >= 0 && state.schedule >= 0),
                    "a count is negative");
        }
        ole_card_free(&card);
    }
    ole_safetensors_close(file);
}
