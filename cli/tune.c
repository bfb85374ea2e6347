/*
 * cli/tune.c - `ole tune`: λ chosen on a validation set, as in the paper.
 */
#include "commands.h"
#include "common/common.h"
#include "common/study_command.h"

#include <inttypes.h>
#include <stdio.h>

const char tune_summary[] = "chooses lambda on a validation set, retrains, tests once";

static void print_curve(const ole_study_result *r) {
    printf("%-12s %-18s %s\n", "lambda", "validation error", "runs");
    for (int64_t p = 0; p < r->point_count; p++) {
        const ole_study_point *point = &r->points[p];
        char error[ERROR_ROOM];
        if (point->part != OLE_STUDY_GRID) continue;
        printf("%-12g ", point->lambda);
        print_column(stdout, study_error_text(point->validation, error), 19);
        printf("%" PRId64 "%s%s\n", point->finished, point->diverged ? ", others diverged" : "",
               p == r->picked ? "   taken" : "");
    }
}

static void print_result(const ole_study_result *r) {
    print_curve(r);
    printf("\n%-18s %g\n", "lambda", r->points[r->picked].lambda);
    for (int64_t p = 0; p < r->point_count; p++) {
        const ole_study_point *point = &r->points[p];
        bool taken = point->lambda == r->points[r->picked].lambda;
        char test[ERROR_ROOM], knn[ERROR_ROOM];
        if (point->part != OLE_STUDY_RETRAIN) continue;
        printf("%-18s %s   (1-NN %s, %" PRId64 " run%s on all training data)\n",
               taken ? "test error" : "softmax alone", study_error_text(point->test, test),
               study_error_text(point->knn1, knn), point->finished,
               point->finished == 1 ? "" : "s");
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
            "lambda on the rest, takes the one with the smallest mean validation error, trains\n"
            "with it on the whole training set and tests once; until then the test set is not\n"
            "used. The folder holds the runs and, rewritten after each of them,\n"
            "results.json, results.csv, curve.svg, curve.png and report.html. Ctrl-C saves;\n"
            "the same command, or --resume, continues, also with more lambdas or seeds.\n",
        .without = without,
        .own = own,
        .lambdas_help = "weights of OLE; 0: softmax alone (default 0,1/64,1/32,...,1)",
        .holds_out = true,
        .conduct = ole_tune,
        .print = print_result,
    };
    return study_run(&command, &flags, argc, argv);
}
