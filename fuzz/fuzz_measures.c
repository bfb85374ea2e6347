/* fuzz/fuzz_measures.c - numbers.csv of a study, and the two files that version 0.1 wrote in its
 * place; what was read is the same after writing. */
#include "fuzz.h"
#include "study/measures.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const ole_run_mark marks[] = {{OLE_SIDE_SOFTMAX, 0, "0000000000000000"},
                                     {OLE_SIDE_OLE, 7, "9d3f6a0c51e7b284"}};
enum { MARKS = sizeof marks / sizeof *marks };

static void check_again(const ole_measures *measures) {
    char folder[100];
    ole_measures again;
    ole_error error = {0};
    snprintf(folder, sizeof folder, "%s", fuzz_folder());
    unlink(fuzz_path("drawn.csv"));
    unlink(fuzz_path("samples.csv"));
    require(ole_measures_write(measures, folder, &error) == OLE_OK, error.message);
    require(ole_measures_read(&again, folder, marks, MARKS, &error) == OLE_OK, error.message);
    require(again.count == measures->count, "another number of measures after writing");
    for (int i = 0; i < again.count; i++)
        require(strcmp(again.items[i].name, measures->items[i].name) == 0 &&
                    strcmp(again.items[i].value, measures->items[i].value) == 0 &&
                    again.items[i].run.side == measures->items[i].run.side,
                "another measure after writing");
    ole_measures_free(&again);
}

/* With the input as the file `name` of the study. */
static void read_as(const char *name, const uint8_t *bytes, size_t size) {
    static const char *const names[] = {"numbers.csv", "drawn.csv", "samples.csv"};
    ole_measures measures;
    ole_error error = {0};
    for (int i = 0; i < 3; i++)
        unlink(fuzz_path(names[i]));
    put_file(name, bytes, size);
    ole_status status = ole_measures_read(&measures, fuzz_folder(), marks, MARKS, &error);
    if (status != OLE_OK) {
        check_error(status, &error);
        return;
    }
    for (int i = 0; i < measures.count; i++)
        touch(&measures.items[i], sizeof measures.items[i]);
    (void)ole_measures_spread(&measures, OLE_SIDE_OLE, "AUROC");
    check_again(&measures);
    ole_measures_free(&measures);
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    read_as("numbers.csv", bytes, size);
    read_as("drawn.csv", bytes, size);
    read_as("samples.csv", bytes, size);
}
