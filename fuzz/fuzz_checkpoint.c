/* fuzz/fuzz_checkpoint.c - last.safetensors, from which a run resumes; the same after saving. */
#include "formats/safetensors.h"
#include "fuzz.h"
#include "model/checkpoint.h"

#include <math.h>

enum { MOMENTS = 2, KEPT = 4 /* numbers of a loss */ };

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
                                                .train = true,
                                                .moments = MOMENTS};
    ole_error error;
    if (!network.graph)
        require(ole_network_open(&network, &options, &error) == OLE_OK, "no network");
    return &network;
}

static bool is_same(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

static void check_again(const ole_card *card, int moments, const ole_state *s) {
    const char *path = fuzz_path("again.safetensors");
    ole_safetensors *file;
    double kept[KEPT];
    ole_state t = {.loss_state = s->loss_state ? kept : NULL, .loss_state_count = KEPT};
    ole_error error = {0};
    ole_status status =
        ole_checkpoint_save(path, get_network(), card, moments, "data: digits\n", s, &error);
    if (status != OLE_OK) { /* NaN in the weights */
        check_error(status, &error);
        require(status == OLE_ERROR_NUMERIC, error.message);
        return;
    }
    require(ole_safetensors_open(&file, path, &error) == OLE_OK, error.message);
    require(ole_checkpoint_load(file, path, get_network(), moments, &t, &error) == OLE_OK,
            error.message);
    ole_safetensors_close(file);
    const ole_sums *a = &s->sums, *b = &t.sums;
    require(s->epoch == t.epoch && s->step == t.step && s->updates == t.updates &&
                s->metrics_bytes == t.metrics_bytes && s->best_epoch == t.best_epoch &&
                s->schedule == t.schedule && a->steps == b->steps && a->images == b->images &&
                a->correct == b->correct,
            "another count after saving");
    require(is_same(s->best_error, t.best_error) && is_same(s->seconds, t.seconds) &&
                is_same(a->loss, b->loss) && is_same(a->softmax_loss, b->softmax_loss) &&
                is_same(a->ole_loss, b->ole_loss) && is_same(a->feature_loss, b->feature_loss) &&
                is_same(a->seconds, b->seconds) && is_same(a->ole_seconds, b->ole_seconds) &&
                is_same(a->comm_seconds, b->comm_seconds),
            "another sum after saving");
    for (int i = 0; s->loss_state && i < KEPT; i++)
        require(is_same(s->loss_state[i], kept[i]), "another state of the loss after saving");
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    const char *path = put_file("last.safetensors", bytes, size);
    ole_safetensors *file;
    ole_card card;
    ole_error error = {0};
    if (ole_safetensors_open(&file, path, &error) != OLE_OK) return; /* see fuzz_model.c */
    ole_status status = ole_card_read(&card, file, path, &error);
    if (status == OLE_OK) {
        for (int turn = 0; turn < 2 * (MOMENTS + 1); turn++) {
            int moments = turn / 2;
            double kept[KEPT];
            ole_state state = {.loss_state = turn % 2 ? kept : NULL, .loss_state_count = KEPT};
            status = ole_checkpoint_load(file, path, get_network(), moments, &state, &error);
            if (status != OLE_OK) check_error(status, &error);
            require(status != OLE_OK ||
                        (state.epoch >= 0 && state.step >= 0 && state.updates >= 0 &&
                         state.metrics_bytes >= 0 && state.best_epoch >= 0 && state.schedule >= 0),
                    "a count is negative");
            if (status == OLE_OK) check_again(&card, moments, &state);
        }
        ole_card_free(&card);
    }
    ole_safetensors_close(file);
}
