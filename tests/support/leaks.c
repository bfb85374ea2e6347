/*
 * tests/support/leaks.c - what LeakSanitizer shall not report, linked into every sanitized program:
 * fontconfig, which cairo asks for fonts, keeps what it has read until the process ends.
 */
#define EXPORTED __attribute__((visibility("default")))

EXPORTED const char *__lsan_default_suppressions(void);
EXPORTED const char *__lsan_default_options(void);

const char *__lsan_default_suppressions(void) {
    return "leak:libfontconfig";
}

const char *__lsan_default_options(void) {
    return "print_suppressions=0";
}
