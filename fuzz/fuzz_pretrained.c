/* fuzz/fuzz_pretrained.c - config.json and README.md beside published weights. */
#include "fuzz.h"
#include "model/option_syntax.h"
#include "model/pretrained.h"

#include <string.h>

/* Ends within its room, on one line that controls no terminal. */
static void check_text(const char *text, size_t room) {
    require(memchr(text, '\0', room) != NULL, "a text has no end");
    require(strpbrk(text, "\n\r\x1b") == NULL, "a text is not one plain line");
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    ole_pretrained p;
    ole_error error = {0};
    put_file("config.json", bytes, size);
    put_file("README.md", bytes, size);
    const char *weights = put_file("model.safetensors", "\2\0\0\0\0\0\0\0{}", 10);
    ole_status status = ole_pretrained_read(&p, weights, "resnet20", &error);
    if (status != OLE_OK) {
        check_error(status, &error);
        return;
    }
    check_text(p.normalize, sizeof p.normalize);
    check_text(p.architecture, sizeof p.architecture);
    check_text(p.licence, sizeof p.licence);
    check_text(p.config, sizeof p.config);
    check_text(p.mistake, sizeof p.mistake);
    ole_normalize_spec spec;
    require(!*p.normalize || ole_normalize_parse(&spec, p.normalize, &error) == OLE_OK,
            "a normalisation that training refuses");
    require(p.side >= 0 && p.side <= 4096 && p.channels >= 0 && p.channels <= 4,
            "a size out of range");
}
