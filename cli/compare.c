/*
 * cli/compare.c - `ole compare`: losses side by side, each with the same budget.
 */
#include "commands.h"
#include "common/common.h"
#include "common/launch.h"
#include "common/study_command.h"
#include "study/by_kind.h"
#include "study/losses.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char compare_summary[] = "compare losses on equal budgets";

typedef struct arguments {
    train_flags train;
    const char *losses, *novel;
    int64_t settings;
    int jobs;
    bool json;
} arguments;

static bool parse(arguments *a, int argc, char **argv, int *code) {
    static const char *const without[] = {"loss",         "lambda",           "loss_weight",
                                          "loss_options", "label_smoothing",  "skip_test",
                                          "resume",       "restart_schedule", NULL};
    const arg_positional positionals[] = {
        {"DATA", &a->train.data, "NAME[:PATH]: digits, mnist, cifar10, npy:X.npy,y.npy, ..."},
        {0},
    };
    ole_option options[5 + TRAIN_FLAGS + 1] = {
        {"losses", OLE_TEXT, &a->losses, "A,B,...",
         .help = "losses as for 'ole train --loss', also softmax+smoothing (default: nine)"},
        {"settings", OLE_WHOLE, &a->settings, "N",
         .help = "settings of each loss that the validation split chooses from (default 5)",
         .initial = "5", .min = 1, .max = OLE_LOSS_SETTINGS},
        {"novel", OLE_TEXT, &a->novel, "A,B,...",
         .help = "leave these classes out of training, and measure how well they are detected"},
        {"jobs", OLE_INTEGER, &a->jobs, "J",
         .help = "runs at a time (default: all seeds of a setting on a GPU, else 1)", .min = 1,
         .max = 1024},
        {"json", OLE_SWITCH, &a->json, .help = "print losses.json"},
    };
    train_flags_rows(&a->train, without, options + 5);
    const arg_command command = {
        .name = "compare",
        .summary = compare_summary,
        .example = "  $ ole compare digits --samples-per-class 20 --seeds 3 --out compared \\\n"
                   "        --losses softmax,softmax+ole,softmax+center,arcface\n"
                   "  $ ole compare npy:X.npy,y.npy --net FC128 --seeds 5 --out compared\n",
        .about = "Trains with each loss and each of its settings, fixed in advance: its weight, a\n"
                 "margin, a temperature; softmax tunes its weight decay. The validation split\n"
                 "chooses one, which is trained on all training data and tested once. The folder\n"
                 "holds a study per loss and, rewritten after each, losses.csv, losses.json and\n"
                 "report.html. Ctrl-C saves; the same command continues, also with more losses.\n",
        .positionals = positionals,
        .options = options,
    };
    return args_parse(&command, argc, argv, code);
}

static void print_losses(const ole_losses *l) {
    static const char *const names[] = {"loss", "chosen", "test error %", "1-NN error %",
                                        "difference"};
    static const int widths[] = {18, 21, 14, 13, 1};
    ole_text_table table = {.columns = 5, .names = names};
    for (const ole_loss_entry *e = l->entry; e < l->entry + l->count; e++) {
        const ole_loss_entry *from = e == l->entry ? NULL : l->entry;
        ole_study_error none = {NAN, NAN};
        ole_study_error apart = from ? ole_losses_spread(l, e, from, OLE_MEASURED_ERROR) : none;
        char chosen[80] = "all diverged";
        if (isfinite(e->picked))
            snprintf(chosen, sizeof chosen, "%s %g", ole_losses_tuned(e), e->picked);
        ole_text_table_row(
            &table, "%s|%s|%s|%s|%s", e->name, chosen,
            ole_study_error_text(ole_losses_spread(l, e, NULL, OLE_MEASURED_ERROR), "").text,
            ole_study_error_text(ole_losses_spread(l, e, NULL, OLE_MEASURED_KNN), "").text,
            ole_study_error_text(apart, "").text);
    }
    print_table(&table, widths);
    printf("\n");
}

/* The model of the loss with the lowest validation error. */
static void print_what_next(const ole_losses *l) {
    const ole_loss_entry *best = NULL;
    for (const ole_loss_entry *e = l->entry; e < l->entry + l->count; e++)
        if (isfinite(e->picked) && (!best || e->validation.mean < best->validation.mean)) best = e;
    if (!best || !*best->folder) return;
    char *next[2];
    next_of_run(best->folder, next);
    print_next(next, 2);
}

/* Compares on all ranks; rank 0 prints. */
static int compare(const arguments *a, const train_setup *setup) {
    study_view v = {.name = "compare", .line = progress_start()};
    ole_losses_options options = {.train = &setup->options,
                                  .losses = a->losses,
                                  .novel = a->novel,
                                  .settings = a->settings,
                                  .jobs = a->jobs,
                                  .callback = study_show,
                                  .message = study_say,
                                  .callback_context = &v};
    ole_losses *l = calloc(1, sizeof *l);
    ole_error error;
    if (!l) return fail_command("compare", "out of memory");
    if (!launch_join("compare", setup->options.out, &options.ranks)) {
        free(l);
        return EXIT_FAILED;
    }
    v.quiet = !launch_prints(options.ranks);
    catch_interrupts();
    ole_status status = ole_losses_compare(l, &options, &error);
    int code = exit_code(status);
    progress_clear(&v.line);
    if (status != OLE_OK && !v.quiet) fail_command("compare", "%s", error.message);
    if (status == OLE_OK && l->interrupted) {
        code = EXIT_INTERRUPTED;
        if (!v.quiet) fprintf(stderr, "ole compare: stopped; the same command continues\n");
    } else if (status == OLE_OK && !v.quiet && a->json) {
        code = study_print_json("compare", setup->options.out, "losses.json");
    } else if (status == OLE_OK && !v.quiet) {
        print_losses(l);
        print_lines("%-18s %s/report.html\n", "report", setup->options.out);
        print_what_next(l);
    }
    if (status == OLE_OK) ole_losses_free(l);
    free(l);
    return launch_leave(options.ranks, code);
}

int run_compare(int argc, char **argv) {
    arguments a = {.settings = OLE_LOSS_SETTINGS,
                   .train = {.command = "compare", .study = true, .holds_out = true}};
    train_setup setup;
    int code;
    if (!parse(&a, argc, argv, &code)) return code;
    code = train_flags_read(&a.train, &setup) ? compare(&a, &setup) : EXIT_USAGE;
    train_setup_free(&setup);
    return code;
}
