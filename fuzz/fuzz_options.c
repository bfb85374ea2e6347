/*
 * fuzz/fuzz_options.c - an option of a training run as text, as a flag has it: refused in one line,
 * or the same value when printed and read again.
 *
 * The first byte chooses the option, the rest is its value.
 */
#include "fuzz.h"
#include "model/option_syntax.h"
#include "train/options/options.h"

#include <string.h>

enum { MAX_TEXT = 200 };

static void check_why(const char *why) {
    require(memchr(why, '\0', OLE_OPTION_WHY) != NULL && *why, "no reason is given");
    require(strpbrk(why, "\n\r\x1b") == NULL, "the reason is not one plain line");
}

static void set_option(const ole_option *option, const char *text) {
    ole_train_options options, again, checked;
    char why[OLE_OPTION_WHY], room[OLE_OPTION_VALUE];
    ole_error error = {0};
    ole_train_options_init(&options);
    ole_train_options_init(&again);
    if (!ole_option_set(option, &options, option->name, text, why)) {
        check_why(why);
        return;
    }
    const char *printed = ole_option_text(option, &options, room);
    require(printed && ole_option_set(option, &again, option->name, printed, why),
            "what was read is refused after printing");
    require(!ole_option_differs(option, &options, &again), "another value after printing");
    ole_status status = ole_train_options_check(&options, &checked, &error);
    if (status != OLE_OK) check_error(status, &error);
}

static void parse_syntax(const char *text) {
    ole_augment_spec augment;
    ole_sampler_spec sampler;
    ole_normalize_spec normalize;
    ole_acts acts;
    double factor;
    const ole_status statuses[] = {
        ole_augment_parse(&augment, text, NULL), ole_sampler_parse(&sampler, text, NULL),
        ole_normalize_parse(&normalize, text, NULL),
        ole_rate_parse(&factor, "rate", text, 0.1, NULL), ole_acts_parse(&acts, text, 0.25, NULL)};
    touch(statuses, sizeof statuses);
    require(statuses[4] != OLE_OK || (acts.count >= 0 && acts.count <= OLE_MAX_ACTS),
            "more places than there is room for");
    require(statuses[2] != OLE_OK || normalize.channels <= OLE_MAX_CHANNELS,
            "more channels than there is room for");
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    char text[MAX_TEXT + 1];
    size_t options = 0;
    if (size < 1 || size - 1 > MAX_TEXT) return;
    memcpy(text, bytes + 1, size - 1);
    text[size - 1] = '\0';
    while (ole_train_table[options].name)
        options++;
    set_option(&ole_train_table[bytes[0] % options], text);
    parse_syntax(text);
}
