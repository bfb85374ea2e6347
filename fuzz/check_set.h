/* fuzz/check_set.h - opens a data set in the target's folder and checks what it holds. */
#ifndef OLE_FUZZ_CHECK_SET_H
#define OLE_FUZZ_CHECK_SET_H

#include "fuzz.h"
#include "ole/train/data.h"

#include <stdio.h>
#include <string.h>

/* `name` is READER:PATH; an error of the data names a file in the target's folder. */
static inline void check_named_set(const char *name) {
    ole_dataset *set;
    ole_error error = {0};
    ole_status status = ole_dataset_open(&set, name, NULL, &error);
    if (status != OLE_OK) {
        check_error(status, &error);
        require(strstr(error.message, fuzz_folder()) || status != OLE_ERROR_FORMAT,
                "no file is named");
        return;
    }
    const ole_dataset_info *info = ole_dataset_get_info(set);
    for (int split = 0; split < 3; split++)
        for (int64_t i = 0; i < info->count[split]; i++) {
            int32_t label = ole_dataset_labels(set, split)[i];
            require(label >= 0 && label < info->classes, "a label out of range");
        }
    ole_dataset_close(set);
}

static inline void check_set(const char *reader) {
    char name[100];
    snprintf(name, sizeof name, "%s:%s", reader, fuzz_folder());
    check_named_set(name);
}

#endif
