/*
 * examples/loss_cuda.c - the loss of features that are on a GPU: queued on a stream, nothing waits.
 * cc loss_cuda.c -lole -lcudart
 */
#include <ole/loss.h>

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 64, DIM = 256, CLASSES = 10 };

int main(void) {
    static float x[ROWS][DIM], (*features)[DIM], (*gradient)[DIM];
    int y[ROWS], *labels;
    for (int i = 0; i < ROWS; i++)
        for (int j = y[i] = i % CLASSES, k = 0; k < DIM; k++)
            x[i][k] = (float)((k * 7919 + j * 104729) % 997 + rand() % 300) / 1000.0f;
    ole_loss_outcome *outcome, result;
    ole_loss_options options;
    ole_loss_options_init(&options);
    options.device = OLE_DEVICE_CUDA;
    ole_loss_plan *plan;
    ole_error error;
    if (ole_loss_plan_create(&plan, ROWS, DIM, OLE_F32, &options, &error) != OLE_OK)
        return fprintf(stderr, "%s\n", error.message), 1;
    cudaMalloc((void **)&features, sizeof x);
    cudaMalloc((void **)&gradient, sizeof x);
    cudaMalloc((void **)&labels, sizeof y);
    cudaMalloc((void **)&outcome, sizeof *outcome);
    cudaMemcpy(features, x, sizeof x, cudaMemcpyHostToDevice);
    cudaMemcpy(labels, y, sizeof y, cudaMemcpyHostToDevice);
    ole_loss_batch batch = {
        .rows = ROWS, .features = features, .labels = labels, .label_type = OLE_I32};
    ole_loss_gradient into = {.data = gradient, .upstream = 1.0};
    if (ole_loss_queue(plan, &batch, &into, outcome, NULL, &error) != OLE_OK)
        return fprintf(stderr, "%s\n", error.message), 1;
    cudaMemcpy(&result, outcome, sizeof result, cudaMemcpyDeviceToHost);
    printf("loss %.4f over %d classes, rank %d\n", result.value, (int)result.classes,
           (int)result.rank);
    ole_loss_plan_destroy(plan);
    return 0;
}
