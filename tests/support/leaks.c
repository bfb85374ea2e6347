/*
 * tests/support/leaks.c - what LeakSanitizer shall not report, linked into every sanitized program:
 * fontconfig, which cairo asks for fonts, keeps what it has read until the process ends.
 */
const char *__lsan_default_suppressions(void);

__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void) {
    return "leak:libfontconfig";
}
