/*
 * cli/sweep.c - `ole sweep`: accuracy against samples per class, with and without OLÉ.
 */
#include "commands.h"
#include "common/common.h"
#include "common/study_command.h"

#include <inttypes.h>
#include <stdio.h>

const char sweep_summary[] = "accuracy against samples per class, softmax against OLE";

/* A row for each number of samples and each λ. */
static void print_result(const ole_study_result *r) {
    printf("%-18s %-12s %-18s %-18s %s\n", "samples per class", "lambda", "accuracy",
           "1-NN accuracy", "runs");
    for (int64_t p = 0; p < r->point_count; p++) {
        const ole_study_point *point = &r->points[p];
        const ole_study_error test = {100.0 - point->test.mean, point->test.std};
        const ole_study_error near = {100.0 - point->knn1.mean, point->knn1.std};
        char text[ERROR_ROOM];
        printf("%-18" PRId64 " %-12g ", point->samples, point->lambda);
        print_column(stdout, study_error_text(test, text), 19);
        print_column(stdout, study_error_text(near, text), 19);
        printf("%" PRId64 "%s\n", point->finished, point->diverged ? ", others diverged" : "");
    }
    printf("\n");
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
        .conduct = ole_sweep,
        .print = print_result,
    };
    return study_run(&command, &flags, argc, argv);
}
