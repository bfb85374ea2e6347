/*
 * src/data/formats/digits.c - the digits that come with the library, for a first run without any
 * files.
 *
 * digits.bin holds 1,797 records: the label, then 8x8 pixels from 0 to 16, row by row, a byte each.
 * They are the test part of E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, UCI
 * Machine Learning Repository, 1998, https://doi.org/10.24432/C50P49, CC BY 4.0, otherwise
 * unchanged; digits_make.py writes the file.
 *
 * A pixel v becomes the byte round(v * 255 / 16).  The set has no test part of its own here; 30 %
 * of each class are held out by the fixed permutation of split.c: 1,258 samples to train on and 539
 * to test, the same ones always.
 */
#include "base/error.h"
#include "data/source.h"

enum { COUNT = 1797, SIDE = 8, PIXELS = SIDE * SIDE };

extern const uint8_t ole_digits_bytes[COUNT][1 + PIXELS];
__asm__(".pushsection .rodata\n"
        ".global ole_digits_bytes\n"
        ".hidden ole_digits_bytes\n"
        "ole_digits_bytes: .incbin \"" OLE_DIGITS_FILE "\"\n"
        ".popsection\n");

static ole_status read_digits(const char *path, const ole_dataset_options *options,
                              ole_source *source, ole_error *error) {
    (void)options;
    if (path)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "digits: they are part of the library and take no path");
    source->channels = 1;
    source->height = source->width = SIDE;
    source->test_share = 0.3;
    ole_status status = ole_source_name_all(source, 10, NULL, error);
    if (status == OLE_OK) status = ole_source_grow(source, COUNT, error);
    if (status != OLE_OK) return status;
    for (int i = 0; i < COUNT; i++) {
        source->labels[i] = ole_digits_bytes[i][0];
        for (int k = 0; k < PIXELS; k++)
            source->bytes[i * PIXELS + k] = (uint8_t)((ole_digits_bytes[i][1 + k] * 255 + 8) / 16);
    }
    source->train_count = source->count;
    return OLE_OK;
}

const ole_reader ole_digits = {.name = "digits", .read = read_digits, .shape = {1, SIDE, SIDE}};
