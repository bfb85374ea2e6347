/* examples/predict.c - what a trained model sees in image files: predict RUN IMAGE... */
#include <ole/train/model.h>

#include <stdio.h>

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: predict RUN IMAGE...\n");
        return 2;
    }
    ole_model *model;
    ole_error error;
    if (ole_model_load(&model, argv[1], 1, &error) != OLE_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    const ole_model_info *info = ole_model_get_info(model);
    int failed = 0;
    for (int i = 2; i < argc; i++) {
        ole_prediction p;
        if (ole_model_predict_file(model, argv[i], &p, &error) == OLE_OK) {
            const char *name = p.label < 0 ? "unknown" : info->class_names[p.label];
            printf("%s: %s, score %.3f\n", argv[i], name, p.score);
        } else {
            fprintf(stderr, "%s\n", error.message);
            failed = 1;
        }
    }
    ole_model_free(model);
    return failed;
}
