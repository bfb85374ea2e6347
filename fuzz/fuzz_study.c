/* fuzz/fuzz_study.c - study.json: looking at the study of a folder. */
#include "fuzz.h"
#include "ole/train/study.h"

void fuzz_one(const uint8_t *bytes, size_t size) {
    typedef ole_status kind(const ole_study_options *, ole_study_result *, ole_error *);
    static kind *const kinds[] = {ole_tune, ole_sweep, ole_compare};
    put_file("study.json", bytes, size);
    for (int i = 0; i < 3; i++) {
        ole_train_options train;
        ole_study_options options;
        ole_study_result result = {0};
        ole_error error = {0};
        ole_train_options_init(&train);
        ole_study_options_init(&options);
        train.data = "digits";
        train.out = fuzz_folder();
        options.train = &train;
        options.look = true;
        ole_status status = kinds[i](&options, &result, &error);
        if (status != OLE_OK) check_error(status, &error);
        ole_study_result_free(&result);
    }
}
