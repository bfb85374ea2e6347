/*
 * cli/man.c - `ole man`: the manual pages, from the tables that parse the command line.
 *
 * The build runs it and installs what it writes.  A page is in the macros of man(7).
 */
#include "commands.h"
#include "common/common.h"
#include "common/outputs.h"

#include "base/memory_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char man_summary[] = "print the manual pages";

/* ---- Text --------------------------------------------------------------------------------- */

/* The page at hand: args_reader takes no context. */
static FILE *page;

/* Text in roff: dashes that can be pasted, and no character that the macros would read. */
static void put(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        static const char special[] = "\\-'`^~\"";
        static const char *const escaped[] = {"\\e",   "\\-",   "\\(aq", "\\(ga",
                                              "\\(ha", "\\(ti", "\\(dq"};
        const char *at = strchr(special, text[i]);
        if (i == 0 && text[i] == '.') fputs("\\&", page);
        if (at)
            fputs(escaped[at - special], page);
        else
            fputc(text[i], page);
    }
}

static void put_all(const char *text) {
    put(text, strlen(text));
}

/* Running text; each sentence begins a line, as is the custom. */
static void put_words(const char *text) {
    static const char space[] = " \n";
    for (size_t column = 0; *text;) {
        size_t length = strcspn(text, space);
        bool ends = length > 1 && text[length - 1] == '.' && text[length - 2] != '.';
        if (column > 0) fputc(column + length > 75 ? '\n' : ' ', page);
        column = column + length > 75 ? length : column + length + 1;
        put(text, length);
        text += length;
        text += strspn(text, space);
        if (ends && *text) {
            fputc('\n', page);
            column = 0;
        }
    }
    fputc('\n', page);
}

static void put_entry(const char *name, const char *help) {
    fprintf(page, ".TP\n.B ");
    put_all(name);
    fputc('\n', page);
    put_words(help);
}

static void put_heading(const char *heading) {
    fprintf(page, ".SS ");
    put_all(heading);
    fputc('\n', page);
}

/* "-c, --config FILE.yaml": flags in bold, the value in italics. */
static void put_option(const ole_option *o) {
    char left[ARG_LEFT], help[ARG_HELP];
    if (o->heading) put_heading(o->heading);
    args_option_text(o, left, help);
    const char *value = o->value ? left + strlen(left) - strlen(o->value) : left + strlen(left);
    fprintf(page, ".TP\n\\fB");
    put(left, (size_t)(value - left));
    fprintf(page, "\\fI");
    put_all(value);
    fprintf(page, "\\fR\n");
    put_words(help);
}

/* ---- Sections ----------------------------------------------------------------------------- */

/* What a command has, for the variables that concern it. */
enum { DATA = 4, DEVICE = 8, BENCH = 16 };

static const struct {
    const char *name, *help;
    unsigned with; /* RANKS, LONG_WORK or one of the above */
} variables[] = {
    {"OLE_DATA", "the first folder to search for data sets, and the one for downloads", DATA},
    {"XDG_CACHE_HOME",
     "replaces ~/.cache, where data sets and the GPU's algorithm choices are kept", DATA},
    {"CURL_CA_BUNDLE", "certificates for checking https servers, instead of the system's", DATA},
    {"OLE_CPU",
     "the highest instruction set that CPU code may use: generic, avx2, avx512, avx512_bf16 or amx",
     LONG_WORK},
    {"OMP_WAIT_POLICY, GOMP_SPINCOUNT", "how long waiting threads spin before they sleep",
     LONG_WORK},
    {"OLE_CACHE", "where the GPU's algorithm choices are kept", DEVICE},
    {"OLE_CUDA_MODULE", "libole_cuda.so, where it is not beside libole.so", DEVICE},
    {"OLE_MEMORY_CHECK", "off: train even if less memory seems to be free than needed", RANKS},
    {"OLE_MPI_MODULE", "libole_mpi.so, where it is not beside libole.so", RANKS},
    {"OLE_NCCL", "the NCCL library file, or off", RANKS},
    {"OLE_RANK_SILENCE", "seconds after which a silent process counts as lost (default 20)", RANKS},
    {"OLE_RANK_START", "seconds after which a start that is missing ranks fails (default 300)",
     RANKS},
    {"OLE_PYTHON", "the Python of 'ole bench --peer torch'", BENCH},
};

static unsigned what_it_has(const arg_command *command) {
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(command->name, " "), command->name);
    const arg_action *own = args_find(ole_commands, name);
    unsigned has = own ? own->traits : ~0u; /* the program itself: all of them */
    if (strcmp(name, "bench") == 0) has |= BENCH;
    if (strcmp(name, "data") == 0) has |= DATA;
    for (const arg_positional *p = command->positionals; p && p->name; p++)
        if (strcmp(p->name, "DATA") == 0) has |= DATA;
    for (const ole_option *o = command->options; o && o->name; o++) {
        if (strcmp(o->name, "device") == 0) has |= DEVICE;
        if (o->value && strcmp(o->value, "DATA") == 0) has |= DATA;
    }
    return has;
}

static void put_environment(const arg_command *command) {
    unsigned has = what_it_has(command);
    bool any = false;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        if (!(has & variables[i].with)) continue;
        if (!any) fprintf(page, ".SH ENVIRONMENT\n");
        put_entry(variables[i].name, variables[i].help);
        any = true;
    }
}

static void put_exit_status(void) {
    fprintf(page, ".SH EXIT STATUS\n");
    put_entry("0", "done");
    put_entry("1", "failed; the message says what happened");
    put_entry("2", "the command line is wrong");
    put_entry("130", "interrupted, as by Ctrl-C; everything saved is intact");
}

/* "ole train" as the name of its page, "ole-train". */
static void put_page_name(const char *command) {
    fprintf(page, "ole");
    if (*command) fprintf(page, "\\-");
    for (const char *c = command; *c; c++)
        fputs(*c == ' ' ? "\\-" : (const char[]){*c, '\0'}, page);
}

static bool mentions(const arg_command *command, const char *name) {
    char text[64];
    snprintf(text, sizeof text, "ole %s", name);
    bool found = strstr(command->about, text) != NULL;
    for (const arg_positional *p = command->positionals; p && p->name; p++)
        found |= strstr(p->help, text) != NULL;
    for (const ole_option *o = command->options; o && o->name; o++)
        found |= strstr(o->help, text) != NULL;
    return found && strcmp(name, command->name) != 0;
}

static void put_see_also(const arg_command *command) {
    fprintf(page, ".SH SEE ALSO\n");
    bool first = true;
    if (*command->name) fprintf(page, ".BR ole (1)"), first = false;
    for (const arg_action *a = *command->name ? command->actions : NULL; a && a->name; a++) {
        char name[64];
        snprintf(name, sizeof name, "%s %s", command->name, a->name);
        fprintf(page, ",\n.BR ");
        put_page_name(name);
        fprintf(page, " (1)");
    }
    for (const arg_action *a = ole_commands; a->name; a++) {
        if (*command->name && !mentions(command, a->name)) continue;
        fprintf(page, first ? ".BR " : ",\n.BR ");
        put_page_name(a->name);
        fprintf(page, " (1)");
        first = false;
    }
    fputc('\n', page);
}

/* ---- A page ------------------------------------------------------------------------------- */

static void put_synopsis(const arg_command *command) {
    fprintf(page, ".SH SYNOPSIS\n.B ole");
    if (*command->name) fprintf(page, " %s", command->name);
    fputc('\n', page);
    if (command->actions) fprintf(page, ".I %s\n", *command->name ? "ACTION" : "COMMAND");
    for (const arg_positional *p = command->positionals; p && p->name; p++) {
        bool many = command->many && !p[1].name;
        bool optional = command->none_will_do || (command->last_optional && !p[1].name);
        fprintf(page, "%s\\fI", optional ? "[" : "");
        put_all(p->name);
        fprintf(page, "\\fR%s%s\n", many ? "\\&..." : "", optional ? "]" : "");
    }
    fprintf(page, "[\\fIoptions\\fR]\n");
}

/* The example of the help, without its indentation. */
static void put_examples(const char *example) {
    fprintf(page, ".SH EXAMPLES\n.EX\n");
    for (const char *line = example; *line;) {
        size_t length = strcspn(line, "\n"), skip = strncmp(line, "  ", 2) == 0 ? 2 : 0;
        put(line + skip, length - skip);
        fputc('\n', page);
        line += length + (line[length] == '\n');
    }
    fprintf(page, ".EE\n");
}

static void put_entries(const char *heading, const arg_positional *rows) {
    if (rows && rows->name) fprintf(page, "%s", heading);
    for (const arg_positional *p = rows; p && p->name; p++)
        put_entry(p->name, p->help);
}

/* An arg_reader. */
static void put_page(const arg_command *command, int argc, char **argv) {
    (void)argc, (void)argv;
    fprintf(page, ".TH ");
    put_page_name(command->name);
    fprintf(page, " 1 %s \"Ol\\('e %s\" \"Ol\\('e manual\"\n.SH NAME\n", OLE_RELEASE_DATE,
            ole_version());
    put_page_name(command->name);
    fprintf(page, " \\- ");
    put_words(command->summary);
    put_synopsis(command);
    fprintf(page, ".SH DESCRIPTION\n");
    put_words(command->about);
    put_entries("", command->positionals);
    const char *heading = "";
    for (const arg_action *a = command->actions; a && a->name; a++) {
        if (a->heading && strcmp(a->heading, heading) != 0) put_heading(heading = a->heading);
        put_entry(a->name, a->summary);
    }
    put_examples(command->example);
    fprintf(page, ".SH OPTIONS\n");
    for (const ole_option *o = command->options; o && o->name; o++)
        put_option(o);
    put_entry("--help", "print a summary of the command");
    if (!*command->name) put_entry("--version", "print the version");
    put_exit_status();
    put_environment(command);
    put_entries(".SH FILES\n", command->files);
    put_see_also(command);
}

static void put_page_of(const arg_action *a, const char *action) {
    char words[2][32], unfinished[] = "", *argv[] = {words[0], words[1], unfinished};
    snprintf(words[0], sizeof words[0], "%s", a->name);
    snprintf(words[1], sizeof words[1], "%s", action ? action : "");
    args_reader = put_page;
    a->run(action ? 3 : 2, argv);
    args_reader = NULL;
}

/* The program's own page. */
static void put_overview(void) {
    static const arg_positional files[] = {
        {"~/.cache/ole", NULL, "downloaded data sets, and the GPU's algorithm choices"},
        {0},
    };
    const arg_command program = {
        .name = "",
        .summary = "orthogonal low-rank embeddings",
        .example = program_examples,
        .about = "Learns features that are orthogonal between classes and low-rank inside them. "
                 "Data go to standard output, messages and progress to standard error. Each "
                 "command has a page of its own and --help.",
        .actions = ole_commands,
        .files = files,
    };
    put_page(&program, 0, NULL);
}

/* ---- The command -------------------------------------------------------------------------- */

/* Of the program, of a command, or of an action of it. */
static void put_any_page(const arg_action *a, const char *action) {
    if (a)
        put_page_of(a, action);
    else
        put_overview();
}

static bool write_page(const char *folder, const arg_action *a, const char *action) {
    char path[4096];
    ole_memory_file memory;
    if (!ole_memory_file_open(&memory)) return refuse("man", "out of memory");
    page = memory.file;
    put_any_page(a, action);
    snprintf(path, sizeof path, "%s/ole%s%s%s%s.1", folder, a ? "-" : "", a ? a->name : "",
             action ? "-" : "", action ? action : "");
    return put_memory("man", path, &memory) == EXIT_DONE;
}

/* The actions of the command whose table was read last; an arg_reader. */
static const arg_action *found;
static void find_actions(const arg_command *command, int argc, char **argv) {
    (void)argc, (void)argv;
    found = command->actions;
}

static const arg_action *actions_of(const arg_action *a) {
    char name[32], unfinished[] = "", *argv[] = {name, unfinished};
    snprintf(name, sizeof name, "%s", a->name);
    args_reader = find_actions;
    a->run(2, argv);
    args_reader = NULL;
    return found;
}

static int write_all(const char *folder) {
    bool good = write_page(folder, NULL, NULL);
    for (const arg_action *a = ole_commands; a->name && good; a++) {
        good = write_page(folder, a, NULL);
        for (const arg_action *b = actions_of(a); b && b->name && good; b++)
            good = write_page(folder, a, b->name);
    }
    return good ? EXIT_DONE : EXIT_FAILED;
}

static int print_page(const char *const *words, int count) {
    const arg_action *a = count > 0 ? args_find(ole_commands, words[0]) : NULL;
    if (count > 2 || (count > 0 && !a) || (count > 1 && !args_find(actions_of(a), words[1])))
        return fail_usage("man", "%s%s%s: no such command; 'ole --help' lists them", words[0],
                          count > 1 ? " " : "", count > 1 ? words[1] : "");
    page = stdout;
    put_any_page(a, count > 1 ? words[1] : NULL);
    return EXIT_DONE;
}

int run_man(int argc, char **argv) {
    const char **words = (const char **)argv + 1, *folder = NULL;
    int code, count = 0;
    const arg_positional positionals[] = {
        {"COMMAND", words,
         "a command, such as train or data get; without one, the page of ole itself"},
        {0}};
    const ole_option options[] = {
        {"out", OLE_TEXT, &folder, "FOLDER", .help = "write every page into this folder"}, {0}};
    const arg_command command = {
        .name = "man",
        .summary = man_summary,
        .example = "  $ man ole-train\n"
                   "  $ ole man train | man -l -\n",
        .about = "Prints a manual page as man(7) reads it. An installed Olé has all of them in "
                 "place: 'man ole-train'.",
        .positionals = positionals,
        .none_will_do = true,
        .many = &count,
        .options = options,
    };
    if (!args_parse(&command, argc, argv, &code)) return code;
    return folder ? write_all(folder) : print_page(words, count);
}
