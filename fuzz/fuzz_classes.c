/* fuzz/fuzz_classes.c - a list of classes, as --classes has it: the classes of a data set that are
 * used, each once. */
#include "fuzz.h"
#include "ole/train/data.h"

#include <string.h>

enum { MAX_TEXT = 200 };

void fuzz_one(const uint8_t *bytes, size_t size) {
    char text[MAX_TEXT + 1];
    if (size > MAX_TEXT) return;
    memcpy(text, bytes, size);
    text[size] = '\0';
    ole_dataset_options options;
    ole_dataset *set;
    ole_error error = {0};
    ole_dataset_options_init(&options);
    options.classes = text;
    ole_status status = ole_dataset_open(&set, "digits", &options, &error);
    if (status != OLE_OK) {
        check_error(status, &error);
        return;
    }
    const ole_dataset_info *info = ole_dataset_get_info(set);
    require(info->classes >= 1 && info->classes <= 10, "another number of classes");
    for (int a = 0; a < info->classes; a++)
        for (int b = 0; b < a; b++)
            require(strcmp(info->class_names[a], info->class_names[b]) != 0, "a class twice");
    ole_dataset_close(set);
}
