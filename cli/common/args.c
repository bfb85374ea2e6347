/*
 * cli/common/args.c - the command-line parser of args.h, and its help.
 */
#include "common/args.h"

#include "common/common.h"

#include "base/nearest_name.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

static bool unknown_option(const arg_command *command, const char *name, size_t length) {
    static const char *const help[] = {"help"};
    char word[OLE_OPTION_FLAG], flag[OLE_OPTION_FLAG] = "--help";
    snprintf(word, sizeof word, "%.*s", (int)length, name);
    const ole_option *nearest = ole_option_nearest(command->options, name, length);
    if (nearest) ole_option_flag(nearest, flag);
    if (nearest || ole_nearest_name(word, help, 1))
        return refuse(command->name, "unknown option --%s; did you mean %s?", word, flag);
    return refuse(command->name, "unknown option --%s; 'ole %s --help' lists them", word,
                  command->name);
}

/* ---- Help --------------------------------------------------------------------------------- */

enum { HELP_COLUMN = 31, HELP_WIDTH = 80 };

/*
 * Prints words in lines of at most 80 columns, from `column` on; new lines start at `indent`.  What
 * parentheses enclose stays together where it is short: "(default 1)".
 */
static void print_words(const char *text, int column, int indent) {
    static const char space[] = " \n";
    for (bool first = true; *text; first = false) {
        int length = (int)strcspn(text, space), gap = first ? 0 : 1;
        int inside = *text == '(' ? (int)strcspn(text, ")") : 0;
        int whole = inside + (int)strcspn(text + inside, space); /* with the comma behind */
        if (whole < 20) length = whole;
        if (!first && column + gap + length > HELP_WIDTH) column = printf("\n") - 1;
        if (column < indent || column == 0) gap = indent - column;
        column += printf("%*s%.*s", gap, "", length, text);
        text += length + (int)strspn(text + length, space);
    }
    printf("\n");
}

/* What it is on the left, and its help beside it, or below where the left is long. */
static void print_help_row(const char *left, const char *help) {
    int column = printf("  %s", left);
    print_words(help, column < HELP_COLUMN ? column : printf("\n") - 1, HELP_COLUMN);
}

/* " (default 64)"; nothing where there is none, or where the help mentions it. */
static void put_default(const ole_option *o, char *out, size_t size) {
    char room[OLE_OPTION_VALUE], why[OLE_OPTION_WHY];
    const char *text = ole_option_text(o, NULL, room);
    out[0] = '\0';
    if (!text || !*text || strstr(o->help, "default") || !ole_option_check(o, NULL, "", why))
        return;
    if (o->kind == OLE_SHARE && strchr(o->value, '%'))
        snprintf(out, size, " (default %g%%)", 100.0 * *(const double *)o->to);
    else if (o->kind != OLE_SWITCH)
        snprintf(out, size, " (default %s)", text);
    else if (*(const bool *)o->to)
        snprintf(out, size, " (default on)");
}

void args_option_text(const ole_option *o, char left[ARG_LEFT], char help[ARG_HELP]) {
    char flag[OLE_OPTION_FLAG], usual[64];
    const char letter[] = {'-', o->letter, ',', ' ', '\0'};
    const char *no = o->kind == OLE_SWITCH && *(const bool *)o->to ? "[no-]" : "";
    snprintf(left, ARG_LEFT, "%s--%s%s%s%s", o->letter ? letter : "", no,
             ole_option_flag(o, flag) + 2, o->value ? " " : "", o->value ? o->value : "");
    put_default(o, usual, sizeof usual);
    snprintf(help, ARG_HELP, "%s%s", o->help, o->flags & OLE_REQUIRED ? " (required)" : usual);
}

static void print_option(const ole_option *o) {
    char left[ARG_LEFT], help[ARG_HELP];
    if (o->heading) printf("\n%s:\n", o->heading);
    args_option_text(o, left, help);
    print_help_row(left, help);
}

static void print_help(const arg_command *command) {
    printf("%s\nole %s", command->example, command->name);
    if (command->actions) printf(" ACTION");
    for (const arg_positional *p = command->positionals; p && p->name; p++)
        printf(command->none_will_do || (command->last_optional && !p[1].name) ? " [%s%s]"
                                                                               : " %s%s",
               p->name, command->many && !p[1].name ? "..." : "");
    printf(" [options]\n\n");
    print_words(command->about, 0, 0);
    if (command->positionals || command->actions) printf("\n");
    for (const arg_positional *p = command->positionals; p && p->name; p++)
        print_help_row(p->name, p->help);
    for (const arg_action *a = command->actions; a && a->name; a++)
        print_help_row(a->name, a->summary);
    if (!command->options || !command->options->heading) printf("\nOptions:\n");
    for (const ole_option *o = command->options; o && o->name; o++)
        print_option(o);
    print_help_row("--help", "print this text");
}

/* ---- Parsing ------------------------------------------------------------------------------ */

static bool set_value(const arg_command *command, const ole_option *o, const char *text) {
    char why[OLE_OPTION_WHY], flag[OLE_OPTION_FLAG];
    ole_option_flag(o, flag);
    if (o->kind == OLE_TEXT && !*text) return refuse(command->name, "%s: the value is empty", flag);
    ole_option row = *o;
    bool is_whole = o->kind == OLE_INTEGER || o->kind == OLE_WHOLE;
    if (o->flags & OLE_NOT_ZERO) row.min = is_whole ? 1.0 : DBL_TRUE_MIN;
    if (!ole_option_set(&row, NULL, flag, text, why)) return refuse(command->name, "%s", why);
    if (o->given) *o->given = true;
    return true;
}

/* The value of an option: behind the '=', or the next words. */
static bool take_value(const arg_command *command, const ole_option *o, const char *behind,
                       int argc, char **argv, int *i) {
    char flag[OLE_OPTION_FLAG];
    ole_option_flag(o, flag);
    if (o->kind == OLE_SWITCH && behind) return refuse(command->name, "%s takes no value", flag);
    if (o->kind == OLE_SWITCH) return set_value(command, o, "true");
    if (o->kind == OLE_PAIR) {
        const char **pair = o->to;
        if (behind || *i + 2 >= argc)
            return refuse(command->name, "%s needs two values: %s", flag, o->value);
        pair[0] = argv[++*i];
        pair[1] = argv[++*i];
        return true;
    }
    if (behind) return set_value(command, o, behind);
    if (*i + 1 >= argc) return refuse(command->name, "%s needs a value: %s", flag, o->value);
    return set_value(command, o, argv[++*i]);
}

/* Parses the option argv[*i], and its value where that is a word of its own. */
static bool parse_option(const arg_command *command, int argc, char **argv, int *i) {
    const char *word = argv[*i], *name = word + 2;
    if (word[1] != '-') { /* a letter */
        for (const ole_option *o = command->options; o && o->name; o++)
            if (o->letter && o->letter == word[1] && !word[2])
                return take_value(command, o, NULL, argc, argv, i);
        return refuse(command->name, "unknown option %s; 'ole %s --help' lists them", word,
                      command->name);
    }
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const ole_option *o = ole_option_find(command->options, name, length);
    if (o) return take_value(command, o, equals ? equals + 1 : NULL, argc, argv, i);
    bool no = strncmp(name, "no-", 3) == 0 && !equals;
    o = no ? ole_option_find(command->options, name + 3, length - 3) : NULL;
    if (o && o->kind == OLE_SWITCH && o->initial) return set_value(command, o, "false");
    return unknown_option(command, name, length);
}

/* A word that is no option: the next positional. */
static bool take_positional(const arg_command *command, const arg_positional **next,
                            const char *word) {
    const arg_positional *p = *next;
    if (!p || !p->name)
        return refuse(command->name, "unexpected argument '%s'; see 'ole %s --help'", word,
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

/* Whether the positionals from `next` on may be missing, and no required option is. */
static bool check_complete(const arg_command *command, const arg_positional *next) {
    char flag[OLE_OPTION_FLAG];
    bool none = next == command->positionals && command->none_will_do;
    bool some = command->many && *command->many > 0;
    bool last = next && next->name && !next[1].name && command->last_optional;
    if (next && next->name && !none && !some && !last)
        return refuse(command->name, "missing argument %s: %s; see 'ole %s --help'", next->name,
                      next->help, command->name);
    for (const ole_option *o = command->options; o && o->name; o++)
        if (o->flags & OLE_REQUIRED && !*(const char **)o->to)
            return refuse(command->name, "missing option %s %s; see 'ole %s --help'",
                          ole_option_flag(o, flag), o->value, command->name);
    return true;
}

static bool parse_all(const arg_command *command, int argc, char **argv) {
    const arg_positional *next = command->positionals;
    bool options = true;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (options && strcmp(word, "--") == 0) {
            options = false;
        } else if (options && word[0] == '-' && word[1]) {
            if (!parse_option(command, argc, argv, &i)) return false;
        } else if (!take_positional(command, &next, word)) {
            return false;
        }
    }
    return check_complete(command, next);
}

arg_reader *args_reader;

bool args_parse(const arg_command *command, int argc, char **argv, int *code) {
    bool help = asks_for_help(argc, argv);
    *code = args_reader || help ? EXIT_DONE : EXIT_USAGE;
    if (args_reader)
        args_reader(command, argc, argv);
    else if (help)
        print_help(command);
    else
        return parse_all(command, argc, argv);
    return false;
}

const arg_action *args_find(const arg_action *actions, const char *name) {
    for (const arg_action *a = actions; a && a->name; a++)
        if (strcmp(a->name, name) == 0) return a;
    return NULL;
}

int args_act(const arg_command *command, int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    const arg_action *action = args_find(command->actions, name);
    int code;
    if (action && (argc > 2 || !args_reader)) return action->run(argc - 1, argv + 1);
    if (args_reader || asks_for_help(argc, argv)) {
        args_parse(command, argc, argv, &code);
        return code;
    }
    char names[256] = "";
    for (const arg_action *a = command->actions; a->name; a++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s",
                 a == command->actions ? ""
                 : a[1].name           ? ", "
                                       : " or ",
                 a->name);
    }
    return fail_usage(command->name, "%s%s%s expected; see 'ole %s --help'", name,
                      *name ? ": " : "", names, command->name);
}
