/*
 * cli/sweep.c - `ole sweep`: accuracy against samples per class, with and without OLÉ.
 */
#include "base/quote.h"
#include "commands.h"
#include "common/common.h"
#include "common/study_command.h"
#include "study/by_kind.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

const char sweep_summary[] = "compare softmax and OLE with fewer samples per class";

/* A row for each number of samples and each λ. */
static void print_result(const ole_study_result *r) {
    static const char *const names[] = {"samples per class", "lambda", "accuracy", "1-NN accuracy",
                                        "runs"};
    static const int widths[] = {19, 13, 19, 19, 1};
    ole_text_table table = {.columns = 5, .names = names};
    for (const ole_study_point *p = r->points; p < r->points + r->point_count; p++) {
        const ole_study_error test = {100.0 - p->test.mean, p->test.std};
        const ole_study_error near = {100.0 - p->knn1.mean, p->knn1.std};
        ole_text_table_row(&table, "%" PRId64 "|%g|%s|%s|%" PRId64 "%s", p->samples, p->lambda,
                           ole_study_error_text(test, " %").text,
                           ole_study_error_text(near, " %").text, p->finished,
                           p->diverged ? ", others diverged" : "");
    }
    print_table(&table, widths);
    printf("\n");
}

/* Where OLE has most to do, with the fewest samples: the features without and with it. */
static void next_commands(const ole_study_result *r, const char *out, char *commands[2]) {
    char runs[2][4096], page[4200], *more, *word;
    int64_t found = 0;
    for (int64_t p = 0; p < r->point_count && found < 2; p++)
        if (r->points[p].samples == r->points[0].samples && study_find_run(r, p, out, runs[found]))
            found++;
    if (found < 2) return;
    snprintf(page, sizeof page, "%s/features.html", out);
    more = next_command("report", runs[0], "", runs[1]);
    word = ole_shell_word(page);
    if (more && word && asprintf(&commands[0], "%s --out %s", more, word) < 0) commands[0] = NULL;
    free(more);
    free(word);
}

int run_sweep(int argc, char **argv) {
    static const char *const without[] = {"lambda", "skip_test", "samples_per_class",
                                          "restart_schedule", NULL};
    study_flags flags = {0};
    const ole_option own[] = {
        {"samples", OLE_TEXT, &flags.samples, "A,B,...",
         .help = "samples per class (default 50,100,200,300,400,500)"},
        {0},
    };
    const study_command command = {
        .name = "sweep",
        .summary = sweep_summary,
        .example = "  $ ole sweep stl10 --net cnn5 --opt adam --batch-size 32 --epochs 164 \\\n"
                   "        --lambdas 0,0.25 --seeds 5 --out sweeps/stl10\n"
                   "  $ ole sweep digits --net C32-MP-C64-MP-FC64 --samples 5,10,20,40 \\\n"
                   "        --out sweeps/digits\n"
                   "  $ ole sweep --resume --out sweeps/stl10\n",
        .about = "Trains with each number of samples per class and each lambda, and tests. The\n"
                 "folder holds the runs and, rewritten after each of them, results.json,\n"
                 "results.csv, curve.svg, curve.png and report.html. Ctrl-C saves; the same\n"
                 "command, or --resume, continues, also with more samples, lambdas or seeds.\n",
        .without = without,
        .own = own,
        .lambdas_help = "weights of OLE; 0: softmax alone (default 0,0.25)",
        .kind = OLE_STUDY_SWEEP,
        .print = print_result,
        .next = next_commands,
    };
    return study_run(&command, &flags, argc, argv);
}
