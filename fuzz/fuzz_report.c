/* fuzz/fuzz_report.c - the page of a run from its metrics.jsonl: whatever the numbers, the page is
 * written, and draws nothing at a place that is no number. */
#include "base/read_file.h"
#include "fuzz.h"
#include "ole/train/report.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* As printf() writes what is no number, in an attribute, a path or a list. */
static bool has_word(const char *text, const char *word) {
    for (const char *at = text; (at = strstr(at, word)); at++)
        if (at > text && strchr("\" ,-([", at[-1]) && !isalpha((unsigned char)at[strlen(word)]))
            return true;
    return false;
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    static const char recipe[] = "data: digits\nnet: FC4\nepochs: 3\nval_split: 0.2\n";
    const char *folder = fuzz_folder();
    ole_report report;
    ole_report_options options;
    ole_error error = {0};
    char *text;
    size_t length;
    ole_report_options_init(&options);
    options.out = fuzz_path("page.html");
    options.curves_only = true;
    put_file("config.yaml", recipe, sizeof recipe - 1);
    put_file("metrics.jsonl", bytes, size);
    ole_status status = ole_report_run(&report, &folder, 1, &options, &error);
    if (status != OLE_OK) {
        check_error(status, &error);
        return;
    }
    ole_report_free(&report);
    require(ole_read_file(options.out, (size_t)1 << 28, &text, &length, &error) == OLE_OK,
            error.message);
    require(!has_word(text, "nan") && !has_word(text, "inf"), "the page has a place of no number");
    free(text);
}
