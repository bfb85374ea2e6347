/* examples/train.c - trains a small network on the embedded digits, with softmax and OLÉ. */
#include <ole/train/train.h>

#include <stdio.h>

static bool show(void *context, const ole_train_progress *p) {
    (void)context;
    if (p->epoch_done)
        printf("epoch %2d: softmax loss %.4f, OLE loss %.4f, test error %.2f %%\n", (int)p->epoch,
               p->softmax_loss, p->ole_loss, p->test_error);
    return false; /* true would stop and save */
}

int main(int argc, char **argv) {
    ole_train_options options;
    ole_train_options_init(&options);
    options.data = "digits";
    options.net = "C16-MP-C32-MP-FC32";
    options.epochs = 6;
    options.lambda = 0.25;
    options.out = argc > 1 ? argv[1] : "run"; /* checkpoints, metrics.jsonl, config.yaml */
    options.callback = show;

    ole_train_summary summary;
    ole_error error;
    if (ole_train(&options, &summary, &error) != OLE_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    printf("test error %.2f %%, 1-NN error %.2f %%, %.1f s\n", summary.test_error,
           summary.knn1_error, summary.seconds);
    return 0;
}
