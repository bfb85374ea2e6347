/*
 * cli/args.c - the option parser of args.h, and its help.
 */
#include "args.h"

#include "commands.h"

#include <ole/base.h>

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORD = 64, MAX_NAMES = 64, HELP_COLUMN = 28 };

/* ---- Mistakes ----------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static bool mistake(const arg_command *command,
                                                          const char *format, ...) {
    char *text;
    va_list args;
    va_start(args, format);
    bool good = vasprintf(&text, format, args) >= 0;
    va_end(args);
    fail_command(command->name, "%s", good ? text : "out of memory");
    if (good) free(text);
    return false;
}

static bool unknown_option(const arg_command *command, const char *word, size_t length) {
    const char *names[MAX_NAMES] = {"help"};
    size_t count = 1;
    for (const arg_option *o = command->options; o && o->name && count < MAX_NAMES; o++)
        names[count++] = o->name;
    char name[MAX_WORD + 1];
    snprintf(name, sizeof name, "%.*s", (int)length, word);
    const char *nearest = ole_nearest(name, names, count);
    if (nearest) return mistake(command, "unknown option --%s; did you mean --%s?", name, nearest);
    return mistake(command, "unknown option --%s; 'ole %s --help' lists them", name, command->name);
}

/* ---- Values ------------------------------------------------------------------------------- */

static bool set_number(const arg_command *command, const arg_option *o, const char *text) {
    if (o->special && strcmp(text, o->special) == 0) {
        *(double *)o->to = o->special_value;
        return true;
    }
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    bool is_number = end != text && *end == '\0' && isfinite(value);
    if (is_number && value >= o->min && value <= o->max) {
        if (o->kind == ARG_NUMBER) {
            *(double *)o->to = value;
            return true;
        }
        if (value == floor(value)) {
            *(int *)o->to = (int)value;
            return true;
        }
    }
    const char *what = o->kind == ARG_NUMBER ? "a number" : "a whole number";
    char range[96] = "";
    if (o->max < HUGE_VAL)
        snprintf(range, sizeof range, " from %g to %g", o->min, o->max);
    else if (o->min > -HUGE_VAL)
        snprintf(range, sizeof range, " from %g up", o->min);
    return mistake(command, "--%s %s: %s%s%s%s expected", o->name, text, what, range,
                   o->special ? " or " : "", o->special ? o->special : "");
}

static bool set_seed(const arg_command *command, const arg_option *o, const char *text) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno)
        return mistake(command, "--%s %s: a whole number from 0 up expected", o->name, text);
    *(arg_seed *)o->to = (arg_seed){true, value};
    return true;
}

static bool set_choice(const arg_command *command, const arg_option *o, const char *text) {
    size_t length = strlen(text);
    int index = 0;
    for (const char *word = o->value; word; index++) {
        const char *bar = strchr(word, '|');
        size_t size = bar ? (size_t)(bar - word) : strlen(word);
        if (size == length && memcmp(word, text, size) == 0) {
            *(int *)o->to = index;
            return true;
        }
        word = bar ? bar + 1 : NULL;
    }
    return mistake(command, "--%s %s: expected one of %s", o->name, text, o->value);
}

static bool set_value(const arg_command *command, const arg_option *o, const char *text) {
    switch (o->kind) {
    case ARG_STRING:
        if (!*text) return mistake(command, "--%s: the value is empty", o->name);
        *(const char **)o->to = text;
        return true;
    case ARG_SEED:
        return set_seed(command, o, text);
    case ARG_CHOICE:
        return set_choice(command, o, text);
    default:
        return set_number(command, o, text);
    }
}

/* ---- Help --------------------------------------------------------------------------------- */

static void print_help_row(const char *left, const char *help) {
    printf("  %-*s %s\n", HELP_COLUMN, left, help);
}

static void print_help(const arg_command *command) {
    printf("%s\nole %s", command->example, command->name);
    for (const arg_positional *p = command->positionals; p && p->name; p++)
        printf(command->none_will_do ? " [%s%s]" : " %s%s", p->name,
               command->many && !p[1].name ? "..." : "");
    printf(" [options]\n\n%s\n", command->about);
    for (const arg_positional *p = command->positionals; p && p->name; p++)
        print_help_row(p->name, p->help);
    for (const arg_option *o = command->options; o && o->name; o++) {
        char left[MAX_WORD + 32];
        const char letter[] = {'-', o->letter, ',', ' ', '\0'};
        snprintf(left, sizeof left, "%s--%s%s%s", o->letter ? letter : "", o->name,
                 o->value ? " " : "", o->value ? o->value : "");
        print_help_row(left, o->help);
    }
    print_help_row("--help", "this text");
}

/* ---- Parsing ------------------------------------------------------------------------------ */

static const arg_option *find_option(const arg_command *command, const char *name, size_t length) {
    for (const arg_option *o = command->options; o && o->name; o++)
        if (strlen(o->name) == length && memcmp(o->name, name, length) == 0) return o;
    return NULL;
}

/* The value of an option: behind the '=', or the next words. */
static bool take_value(const arg_command *command, const arg_option *o, const char *behind,
                       int argc, char **argv, int *i) {
    if (o->kind == ARG_FLAG) {
        if (behind) return mistake(command, "--%s takes no value", o->name);
        *(bool *)o->to = true;
        return true;
    }
    if (o->kind == ARG_PAIR) {
        const char **pair = o->to;
        if (behind || *i + 2 >= argc)
            return mistake(command, "--%s needs two values: %s", o->name, o->value);
        pair[0] = argv[++*i];
        pair[1] = argv[++*i];
        return true;
    }
    if (behind) return set_value(command, o, behind);
    if (*i + 1 >= argc) return mistake(command, "--%s needs a value: %s", o->name, o->value);
    return set_value(command, o, argv[++*i]);
}

/* Parses the option argv[*i], and its value where that is a word of its own. */
static bool parse_option(const arg_command *command, int argc, char **argv, int *i) {
    const char *name = argv[*i] + 2;
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const arg_option *o = find_option(command, name, length);
    if (!o) return unknown_option(command, name, length);
    return take_value(command, o, equals ? equals + 1 : NULL, argc, argv, i);
}

/* The same for -c. */
static bool parse_letter(const arg_command *command, int argc, char **argv, int *i) {
    const char *word = argv[*i];
    for (const arg_option *o = command->options; o && o->name; o++)
        if (o->letter && o->letter == word[1] && !word[2])
            return take_value(command, o, NULL, argc, argv, i);
    return mistake(command, "unknown option %s; 'ole %s --help' lists them", word, command->name);
}

/* A word that is no option: the next positional. */
static bool take_positional(const arg_command *command, const arg_positional **next,
                            const char *word) {
    const arg_positional *p = *next;
    if (!p || !p->name)
        return mistake(command, "unexpected argument '%s'; see 'ole %s --help'", word,
                       command->name);
    if (command->many && !p[1].name) {
        p->to[(*command->many)++] = word;
    } else {
        *p->to = word;
        ++*next;
    }
    return true;
}

static bool asks_for_help(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    return false;
}

static bool parse_all(const arg_command *command, int argc, char **argv) {
    const arg_positional *next = command->positionals;
    bool options = true;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (options && strcmp(word, "--") == 0) {
            options = false;
        } else if (options && strncmp(word, "--", 2) == 0) {
            if (!parse_option(command, argc, argv, &i)) return false;
        } else if (options && word[0] == '-' && word[1]) {
            if (!parse_letter(command, argc, argv, &i)) return false;
        } else if (!take_positional(command, &next, word)) {
            return false;
        }
    }
    if (command->many && *command->many > 0) return true;
    bool none = next == command->positionals;
    if (next && next->name && !(none && command->none_will_do))
        return mistake(command, "%s is missing: %s; see 'ole %s --help'", next->name, next->help,
                       command->name);
    return true;
}

bool args_parse(const arg_command *command, int argc, char **argv, int *code) {
    if (asks_for_help(argc, argv)) {
        print_help(command);
        *code = EXIT_DONE;
        return false;
    }
    *code = EXIT_USAGE;
    return parse_all(command, argc, argv);
}
