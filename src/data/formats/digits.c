/*
 * src/data/formats/digits.c - the digits that come with the library, for a first run without any
 * files.
 *
 * The values 0 to 16 become the bytes round(v * 255 / 16).  The set has no test part of its own
 * here; 30 % of each class are held out by the fixed permutation of split.c: 1,258 samples to train
 * on and 539 to test, the same ones always.
 */
#include "data/formats/digits.h"

#include "base/error.h"
#include "data/source.h"

ole_status ole_read_digits(const char *path, const ole_dataset_options *options, ole_source *source,
                           ole_error *error) {
    (void)options;
    if (path)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "digits: they are inside the library and take no path");
    source->channels = 1;
    source->height = source->width = OLE_DIGITS_SIDE;
    source->test_share = 0.3;
    ole_status status = ole_source_name_all(source, 10, NULL, error);
    if (status == OLE_OK) status = ole_source_grow(source, OLE_DIGITS_COUNT, error);
    if (status != OLE_OK) return status;
    uint8_t *pixel = source->bytes;
    for (int i = 0; i < OLE_DIGITS_COUNT; i++) {
        const char *text = ole_digits[i];
        source->labels[i] = *text++ - '0';
        for (; *text; text++)
            *pixel++ = (uint8_t)(((*text - 'a') * 255 + 8) / 16);
    }
    source->train_count = source->count;
    return OLE_OK;
}
