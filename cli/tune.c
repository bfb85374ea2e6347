/*
 * cli/tune.c - `ole tune`: λ chosen on a validation set, as in the paper.
 */
#include "commands.h"
#include "common/study_command.h"
#include "study/by_kind.h"

#include <inttypes.h>
#include <stdio.h>

const char tune_summary[] = "choose lambda on a validation set, retrain, test once";

static void print_result(const ole_study_result *r) {
    static const char *const names[] = {"lambda", "validation error", "runs"};
    static const int widths[] = {13, 19, 1};
    ole_text_table curve = {.columns = 3, .names = names};
    double only = 0.0;
    int64_t tried = 0;
    for (int64_t p = 0; p < r->point_count; p++) {
        const ole_study_point *point = &r->points[p];
        if (point->part != OLE_STUDY_GRID) continue;
        if (point->lambda > 0.0) only = point->lambda, tried++;
        ole_text_table_row(&curve, "%g|%s|%" PRId64 "%s%s", point->lambda,
                           ole_study_error_text(point->validation, " %").text, point->finished,
                           point->diverged ? ", others diverged" : "",
                           p == r->picked ? "   chosen" : "");
    }
    print_table(&curve, widths);
    if (tried == 1)
        printf("\nonly one lambda above 0 was tried, %g; --lambdas 0,1/16,1/4,1 tries more\n",
               only);
    printf("\n%-18s %g\n", "lambda", r->points[r->picked].lambda);
    for (int64_t p = 0; p < r->point_count; p++) {
        const ole_study_point *point = &r->points[p];
        bool taken = point->lambda == r->points[r->picked].lambda;
        if (point->part != OLE_STUDY_RETRAIN) continue;
        printf("%-18s %s", taken ? "test error" : "softmax alone",
               point->finished ? ole_study_error_text(point->test, " %").text : "-");
        printf("   (1-NN %s; %" PRId64 " run%s on all data)\n",
               point->finished ? ole_study_error_text(point->knn1, " %").text : "-",
               point->finished, point->finished == 1 ? "" : "s");
    }
}

/* The model that was trained on all data with the lambda that was taken. */
static void next_commands(const ole_study_result *r, const char *out, char *commands[2]) {
    char run[4096];
    for (int64_t p = 0; p < r->point_count; p++)
        if (r->points[p].part == OLE_STUDY_RETRAIN &&
            r->points[p].lambda == r->points[r->picked].lambda && study_find_run(r, p, out, run)) {
            next_of_run(run, commands);
            return;
        }
}

int run_tune(int argc, char **argv) {
    static const char *const without[] = {"lambda", "skip_test", "restart_schedule", NULL};
    study_flags flags = {0};
    const ole_option own[] = {
        {"baseline", OLE_SWITCH, &flags.baseline, .help = "also retrain and test softmax alone"},
        {0},
    };
    const study_command command = {
        .name = "tune",
        .summary = tune_summary,
        .example = "  $ ole tune stl10 --net cnn5 --opt adam --batch-size 32 --epochs 164 \\\n"
                   "        --augment crop:12,flip --seeds 5 --out tuning/stl10\n"
                   "  $ ole tune digits --net C32-MP-C64-MP-FC64 --lambdas 0,1/16,0.25,1 \\\n"
                   "        --out tuning/digits\n"
                   "  $ ole tune --resume --out tuning/stl10\n",
        .about =
            "Splits --val-split (10%) off the training set for validation, trains with each\n"
            "lambda on the rest, chooses the one with the smallest mean validation error, trains\n"
            "with it on the whole training set and tests once; until then the test set is not\n"
            "used. The folder holds the runs and, rewritten after each of them,\n"
            "results.json, results.csv, curve.svg, curve.png and report.html. Ctrl-C saves;\n"
            "the same command, or --resume, continues, also with more lambdas or seeds.\n",
        .without = without,
        .own = own,
        .lambdas_help = "weights of OLE; 0: softmax alone (default 0,1/64,1/32,...,1)",
        .holds_out = true,
        .kind = OLE_STUDY_TUNE,
        .print = print_result,
        .next = next_commands,
    };
    return study_run(&command, &flags, argc, argv);
}
