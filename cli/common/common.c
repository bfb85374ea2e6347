/*
 * cli/common/common.c - what several commands need.
 */
#include "common/common.h"

#include "base/memory_file.h"
#include "base/quote.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Prints the character at *text, on a terminal control characters as \xNN, and moves to the next;
 * the columns it took. */
static int put_character(FILE *out, const char **text, bool terminal) {
    int control = terminal ? (int)ole_control_length(*text) : 0;
    for (int i = 0; i < control; i++)
        fprintf(out, "\\x%02x", (unsigned char)*(*text)++);
    if (control > 0) return 4 * control;
    do
        fputc(*(*text)++, out);
    while (((unsigned char)**text & 0xc0) == 0x80); /* the rest of a character in UTF-8 */
    return 1;
}

static void put_text(FILE *out, const char *text, bool terminal) {
    while (*text)
        put_character(out, &text, terminal);
}

void print_name(FILE *out, const char *text) {
    /* Messages often end up on a terminal through a pipe: they are always escaped. */
    static int terminal = -1; /* stdout; the question costs more than a name */
    if (out == stdout && terminal < 0) terminal = isatty(STDOUT_FILENO);
    put_text(out, text,
             out == stderr || out == failures() ||
                 (out == stdout ? terminal != 0 : isatty(fileno(out))));
}

int print_cut(FILE *out, const char *text, int width) {
    bool terminal = isatty(fileno(out));
    int column = 0;
    while (*text) {
        int control = terminal ? (int)ole_control_length(text) : 0;
        if (column + (control > 0 ? 4 * control : 1) > width) break;
        column += put_character(out, &text, terminal);
    }
    return column;
}

int names_width(FILE *out, const char *const *names, int count, int least, int most) {
    bool terminal = isatty(fileno(out));
    int widest = least;
    for (int i = 0; i < count; i++) {
        int width = 0;
        for (const char *at = names[i]; *at;) {
            int control = terminal ? (int)ole_control_length(at) : 0;
            width += control > 0 ? 4 * control : 1;
            at += control > 0 ? control : 1;
            while (control == 0 && ((unsigned char)*at & 0xc0) == 0x80)
                at++;
        }
        if (width > widest) widest = width;
    }
    return widest < most ? widest : most;
}

void print_column(FILE *out, const char *text, int width) {
    fprintf(out, "%*s", width - print_cut(out, text, width), "");
}

void print_lines(const char *format, ...) {
    char *text;
    va_list args;
    va_start(args, format);
    bool good = vasprintf(&text, format, args) >= 0;
    va_end(args);
    bool terminal = isatty(STDOUT_FILENO);
    for (const char *at = text; good && *at;)
        if (*at == '\n')
            putchar(*at++);
        else
            put_character(stdout, &at, terminal);
    if (good) free(text);
}

/* ---- Failures ------------------------------------------------------------------------------ */

/* What failures are kept in, while they are. */
static ole_memory_file kept;

void keep_failures(void) {
    if (!kept.file) ole_memory_file_open(&kept);
}

char *take_failures(void) {
    if (!kept.file) return NULL;
    char *text = ole_memory_file_close(&kept);
    if (text && kept.size > 0) return text;
    free(text);
    return NULL;
}

FILE *failures(void) {
    return kept.file ? kept.file : stderr;
}

/* One write per message, so that the messages of several ranks cannot run into each other. */
static void tell(FILE *out, const char *name, const char *format, va_list args) {
    char *text = NULL, *shown = NULL;
    ole_memory_file line;
    bool good = vasprintf(&text, format, args) >= 0;
    if (good && ole_memory_file_open(&line)) {
        put_text(line.file, text, true);
        shown = ole_memory_file_close(&line);
    }
    fprintf(out, "ole %s: %s\n", name, shown ? shown : "out of memory");
    free(shown);
    if (good) free(text);
}

void tell_command(const char *name, const char *format, ...) {
    va_list args;
    va_start(args, format);
    tell(stderr, name, format, args);
    va_end(args);
}

int fail_command(const char *name, const char *format, ...) {
    va_list args;
    va_start(args, format);
    tell(failures(), name, format, args);
    va_end(args);
    return EXIT_FAILED;
}

void tell_resume(const char *command, const char *stopped, const char *out) {
    char *word = ole_shell_word(out);
    tell_command(command, "stopped %s and saved; to resume: ole %s --resume --out %s", stopped,
                 command, word ? word : out);
    free(word);
}

char *next_command(const char *verb, const char *run, const char *option, const char *what) {
    char *words[2] = {ole_shell_word(run), what ? ole_shell_word(what) : strdup("")}, *line = NULL;
    if (words[0] && words[1] &&
        asprintf(&line, "ole %s %s%s%s%s", verb, words[0], what ? " " : "", what ? option : "",
                 words[1]) < 0)
        line = NULL;
    free(words[0]);
    free(words[1]);
    return line;
}

void print_next(char *const *commands, int count) {
    bool first = true;
    for (int i = 0; i < count; i++) {
        if (commands[i]) print_lines("%-18s %s\n", first ? "what next" : "", commands[i]);
        first &= !commands[i];
        free(commands[i]);
    }
}

int exit_code(ole_status status) {
    return status == OLE_OK ? EXIT_DONE : status == OLE_ERROR_ARGUMENT ? EXIT_USAGE : EXIT_FAILED;
}

int fail_with(const char *name, const ole_error *error) {
    fail_command(name, "%s", error->message);
    return exit_code(error->status);
}

int end_interrupted(const char *name, const char *what) {
    fprintf(stderr, "ole %s: interrupted; %s\n", name, what);
    return EXIT_INTERRUPTED;
}

bool parse_shape(const char *command, const char *text, int shape[3]) {
    enum { MOST = 1 << 20 };
    int count = 0;
    bool good = true;
    for (const char *at = text; good && count < 3; at++) {
        char *end;
        long value = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : 0;
        good = value >= 1 && value <= MOST;
        if (!good) break;
        shape[count++] = (int)value;
        at = end;
        if (*at == '\0') break;
        good = *at == 'x' && count < 3;
    }
    if (count == 1) shape[1] = shape[2] = 1;
    if (good && count != 2) return true;
    return refuse(command, "--input %s: channels x height x width expected, as in 3x32x32", text);
}

void json_shape(ole_json *w, const char *key, int64_t channels, int64_t height, int64_t width) {
    ole_json_integers(w, key, (const int64_t[]){channels, height, width}, 3);
}

void json_spread(ole_json *w, const char *key, double mean, double std, bool deviation) {
    ole_json_number(w, key, mean);
    if (deviation) ole_json_number(w, ole_printed("%s_std", key).text, std);
}

bool same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
