/*
 * cli/completion.c - `ole completion`: the scripts that make a shell complete `ole`, and what they
 * ask for.
 *
 * The scripts (cli/completion/) know nothing of commands and options.  At each TAB they run
 *
 *     ole __complete WORD... CURRENT
 *
 * with the words of the line up to the cursor, and get one candidate per line, "word TAB what it
 * is", or ":files PREFIX" and ":folders PREFIX" where the shell completes the path behind PREFIX.
 * So all shells complete alike, from the tables that parse the command line.
 */
#include "commands.h"
#include "common/common.h"
#include "completion_scripts.h"

#ifdef OLE_TRAIN
#include "reproduce/reproduce.h"

#include <ole/train/data.h>
#include <ole/train/net.h>
#endif

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const char completion_summary[] = "print a script that completes commands and options at TAB";

/* ---- Candidates --------------------------------------------------------------------------- */

/* The word at the cursor; its first `kept` bytes, such as "--loss=", begin every candidate. */
typedef struct cursor {
    const char *word;
    size_t kept;
} cursor;

static void offer(cursor c, const char *word, const char *what) {
    const char *typed = c.word + c.kept;
    if (strncmp(word, typed, strlen(typed)) == 0)
        printf("%.*s%s\t%s\n", (int)c.kept, c.word, word, what);
}

static void offer_paths(cursor c, const char *kind) {
    printf(":%s%s%.*s\n", kind, c.kept ? " " : "", (int)c.kept, c.word);
}

static void offer_actions(cursor c, const arg_action *actions) {
    for (const arg_action *a = actions; a->name; a++)
        offer(c, a->name, a->summary);
}

#ifdef OLE_TRAIN

/* Names, or behind "folder:" and the like a path; `npy:` has several, with commas between. */
static void offer_data(cursor c) {
    const char *typed = c.word + c.kept, *colon = strchr(typed, ':');
    if (colon) {
        const char *comma = strrchr(colon, ',');
        bool npy = strncmp(typed, "npy:", 4) == 0;
        c.kept = (size_t)((npy && comma ? comma : colon) + 1 - c.word);
        offer_paths(c, npy ? "files" : "folders");
        return;
    }
    offer(c, "folder:", "images, one subfolder per class");
    offer(c, "npy:", "NumPy arrays, X.npy,y.npy");
}

/* What the library has under names of its own; false where `value` is none of these. */
static bool offer_named(cursor c, const char *value) {
    bool data = strcmp(value, "DATA") == 0;
    if (data || strcmp(value, "NAME") == 0) {
        size_t count;
        const ole_known_dataset *sets = ole_known_datasets(&count);
        for (size_t i = 0; i < count; i++)
            offer(c, sets[i].name, sets[i].about);
        if (data) offer_data(c);
    } else if (strcmp(value, "NET") == 0) {
        for (const char *const *name = ole_net_names(); *name; name++)
            offer(c, *name, "a network");
    } else if (strcmp(value, "ROW") == 0) {
        for (int i = 0; i < recipe_count(); i++)
            offer(c, recipe_name(i), "a row or figure of the paper");
        offer(c, "table2", "all rows of the paper's Table 2");
        offer_paths(c, "files");
    } else {
        return false;
    }
    return true;
}

#else

static bool offer_named(cursor c, const char *value) {
    (void)c;
    (void)value;
    return false;
}

#endif

/* "fp32|tf32|bf16"; of "cuda[:i]" what stands before the bracket. */
static void offer_words(cursor c, const char *list, const char *what) {
    char word[OLE_OPTION_VALUE];
    for (int i = 0; ole_option_word(list, i, word); i++) {
        word[strcspn(word, "[")] = '\0';
        offer(c, word, what);
    }
}

/* Whether a value is called after a file: FILE, M.onnx. */
static bool names_file(const char *value) {
    const char *dot = strchr(value, '.');
    return (dot && islower((unsigned char)dot[1])) || strstr(value, "FILE");
}

/* What fits where help says `value`: that of an option, or a positional, which is a path where
 * nothing else is known. */
static void offer_value(cursor c, const char *value, const char *what, bool positional) {
    if (strchr(value, '|'))
        offer_words(c, value, what);
    else if (offer_named(c, value))
        return;
    else if (strcmp(value, "COMMAND") == 0)
        offer_actions(c, ole_commands);
    else if (strcmp(value, "FOLDER") == 0 || strcmp(value, "DIR") == 0 || strcmp(value, "RUN") == 0)
        offer_paths(c, "folders");
    else if (positional || names_file(value))
        offer_paths(c, "files");
}

static void offer_options(cursor c, const ole_option *options) {
    char left[ARG_LEFT], help[ARG_HELP], flag[OLE_OPTION_FLAG];
    for (const ole_option *o = options; o && o->name; o++) {
        args_option_text(o, left, help);
        offer(c, ole_option_flag(o, flag), help);
        if (o->kind != OLE_SWITCH || !o->initial) continue;
        snprintf(left, sizeof left, "--no-%s", flag + 2);
        offer(c, left, help);
    }
    offer(c, "--help", "print the command's help");
}

/* ---- Where the cursor is ------------------------------------------------------------------ */

/* The option that a finished word names and whose value follows in words of its own; or NULL. */
static const ole_option *option_before(const ole_option *options, const char *word) {
    if (word[0] != '-' || strchr(word, '=')) return NULL;
    const ole_option *o =
        word[1] == '-' ? ole_option_find(options, word + 2, strlen(word + 2)) : NULL;
    for (const ole_option *l = options; word[1] != '-' && l && l->name; l++)
        if (l->letter && l->letter == word[1] && !word[2]) o = l;
    return o && o->kind != OLE_SWITCH ? o : NULL;
}

/* An arg_reader. */
static void offer_for(const arg_command *command, int argc, char **argv) {
    cursor c = {.word = argv[argc - 1]};
    const arg_positional *next = command->positionals;
    const ole_option *open = NULL; /* expects `values` more */
    int values = 0;
    bool options = true; /* until -- */
    for (int i = 1; i < argc - 1; i++) {
        if (values > 0) {
            values--;
        } else if (options && argv[i][0] == '-' && argv[i][1]) {
            options = strcmp(argv[i], "--") != 0;
            open = option_before(command->options, argv[i]);
            values = !open ? 0 : open->kind == OLE_PAIR ? 2 : 1;
        } else if (next && next->name && !(command->many && !next[1].name)) {
            next++;
        }
    }
    const char *equals = strncmp(c.word, "--", 2) == 0 ? strchr(c.word, '=') : NULL;
    if (options && equals && values == 0) {
        open = ole_option_find(command->options, c.word + 2, (size_t)(equals - c.word) - 2);
        values = open && open->kind != OLE_SWITCH;
        c.kept = (size_t)(equals - c.word) + 1;
    }
    if (values > 0) {
        const char *plus = open->kind == OLE_SET ? strrchr(c.word + c.kept, '+') : NULL;
        if (plus) c.kept = (size_t)(plus - c.word) + 1; /* softmax+o: the words after it */
        offer_value(c, open->kind == OLE_SET ? open->words : open->value, open->help, false);
        if (open->special) offer(c, open->special, open->help);
    } else if (command->actions) {
        offer_actions(c, command->actions);
    } else if (c.kept == 0 && options && (c.word[0] == '-' || !next || !next->name)) {
        offer_options(c, command->options);
    } else if (c.kept == 0 && next && next->name) {
        offer_value(c, next->name, next->help, true);
    }
}

int complete_words(int argc, char **argv) {
    cursor c = {.word = argc > 0 ? argv[argc - 1] : ""};
    bool help = argc > 1 && strcmp(argv[0], "help") == 0;
    const arg_action *command = argc > 1 ? args_find(ole_commands, argv[0]) : NULL;
    args_reader = offer_for;
    if (command) return command->run(argc, argv);
    if (argc > 1 && !(help && argc == 2)) return EXIT_DONE;
    offer_actions(c, ole_commands);
    if (!help) offer(c, "help", "the help of a command");
    if (!help) offer(c, "--version", "print the version");
    return EXIT_DONE;
}

/* ---- The command -------------------------------------------------------------------------- */

int run_completion(int argc, char **argv) {
    static const char *const scripts[] = {bash_script, zsh_script, fish_script};
    const char *shell;
    int index, code;
    const ole_option shells = {"shell", OLE_CHOICE, &index, "bash|zsh|fish", .help = "your shell"};
    const arg_positional positionals[] = {{shells.value, &shell, shells.help}, {0}};
    const arg_command command = {
        .name = "completion",
        .summary = completion_summary,
        .example = "  $ source <(ole completion bash)\n"
                   "  $ source <(ole completion zsh)\n"
                   "  $ ole completion fish | source\n",
        .about = "Prints a script that makes the shell complete commands, options, their values, "
                 "networks, data sets and files at TAB. An installed Olé has it in place; for a "
                 "build, add the line above to the shell's startup file.",
        .positionals = positionals,
    };
    if (!args_parse(&command, argc, argv, &code)) return code;
    char why[OLE_OPTION_WHY];
    if (!ole_option_set(&shells, NULL, "shell", shell, why))
        return fail_usage("completion", "%s", why);
    printf("%s", scripts[index]);
    return EXIT_DONE;
}
