/* A program as a user of the installed library writes it: two classes, orthogonal, so the loss is
 * 0. */
#include <ole/loss.h>

#include <math.h>
#include <stdio.h>

int main(void) {
    const double features[4][3] = {{2, 0, 0}, {3, 0, 0}, {0, 1, 2}, {0, 2, 4}};
    const int labels[4] = {0, 0, 1, 1};
    ole_loss_batch batch = {
        .rows = 4, .features = features, .labels = labels, .label_type = OLE_I32};
    ole_loss_result result = {0};
    ole_loss_plan *plan;
    ole_error error;
    if (ole_loss_plan_create(&plan, 4, 3, OLE_F64, NULL, &error) != OLE_OK ||
        ole_loss_eval(plan, &batch, NULL, &result, &error) != OLE_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    ole_loss_plan_destroy(plan);
    printf("Ole %s: loss %.3f, %d classes\n", ole_version(), fabs(result.value),
           (int)result.classes);
    return fabs(result.value) < 1e-12 ? 0 : 1;
}
