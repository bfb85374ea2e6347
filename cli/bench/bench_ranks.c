/*
 * cli/bench/bench_ranks.c - the scaling table of `ole bench --ranks`, as text and as JSON, which
 * bench/scaling.py reads.
 */
#include "bench/bench_ranks.h"

#include "common/common.h"
#include "common/launch.h"
#include "common/progress.h"

#include "formats/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void json_scale(ole_json *w, const ole_bench_scale *row) {
    ole_json_object(w, NULL, J("ranks", row->ranks), J("scaling", row->weak ? "weak" : "strong"),
                    J("batch_size", row->batch), J("step_ms", row->step_ms),
                    J("images_per_s", row->images_per_s), J("efficiency", row->efficiency),
                    J("apart_ms", row->apart_ms), J("exposed_ms", row->exposed_ms),
                    J("ole_ms", row->ole_ms), J("ole_share", row->ole_ms / row->step_ms),
                    J("ole_apart_ms", row->ole_apart_ms), J("ole_route", row->route));
}

static void print_json(const ole_bench_options *o, const ole_bench_scaling *r) {
    ole_json w = ole_json_begin(stdout, 2, '{');
    ole_json_put(&w, J("net", o->net), J("device", r->device), J("precision", o->precision),
                 J("bn", o->bn), J("ole_scope", o->softmax_only ? "none" : o->ole_scope),
                 J("classes", o->classes), J("ranks", r->ranks), J("hosts", r->hosts),
                 J("threads", r->threads), J("gradient_bytes", r->gradient_bytes),
                 J("norms", r->norms), J("norm_sums", r->norm_sums), J("norm_bytes", r->norm_bytes),
                 J("features", r->features), J("flop_per_image", r->flop));
    ole_json_open(&w, "scaling", '[');
    for (int i = 0; i < r->scales; i++)
        json_scale(&w, &r->scale[i]);
    ole_json_close(&w);
    ole_json_open(&w, "sums", '[');
    for (int i = 0; i < r->sums; i++)
        ole_json_object(&w, NULL, J("ranks", r->sum[i].ranks), J("bytes", r->sum[i].bytes),
                        J("ms", r->sum[i].ms));
    ole_json_close(&w);
    ole_json_close(&w);
}

static void print_scales(const ole_bench_scaling *r, bool weak) {
    printf("\n%s\nranks   batch    step ms  images/s  efficiency  apart ms  waiting ms  OLE ms (%%)"
           "     OLE by\n",
           weak ? "weak: the same images on each rank" : "strong: the same batch for all ranks");
    for (int i = 0; i < r->scales; i++) {
        const ole_bench_scale *row = &r->scale[i];
        char waiting[24] = "-";
        if (row->weak != weak && row->ranks > 1) continue;
        if (isfinite(row->exposed_ms)) snprintf(waiting, sizeof waiting, "%.2f", row->exposed_ms);
        printf("%5d %7" PRId64 " %10.2f %9.0f %10.0f %% %9.2f %11s %8.2f (%.1f) %8s\n", row->ranks,
               row->batch, row->step_ms, row->images_per_s, 100.0 * row->efficiency, row->apart_ms,
               waiting, row->ole_ms, 100.0 * row->ole_ms / row->step_ms, row->route);
    }
}

static void print_sums(const ole_bench_scaling *r) {
    printf("\na sum over ranks  ");
    for (int64_t bytes = 8; bytes <= 1 << 23; bytes *= 16)
        printf("%10" PRId64 " B", bytes);
    for (int i = 0; i < r->sums; i++) {
        if (i == 0 || r->sum[i].ranks != r->sum[i - 1].ranks)
            printf("\n%7d ranks     ", r->sum[i].ranks);
        printf("%9.3f ms", r->sum[i].ms);
    }
    printf("\n");
}

static void print_text(const ole_bench_options *o, const ole_bench_scaling *r) {
    printf("%s, %dx%dx%d, device %s, %s, %d rank%s on %d host%s, %d thread%s each\n", o->net,
           o->channels, o->height, o->width, r->device, o->precision, r->ranks,
           r->ranks == 1 ? "" : "s", r->hosts, r->hosts == 1 ? "" : "s", r->threads,
           r->threads == 1 ? "" : "s");
    printf("a step sums %.2f MB of gradients, and %.3f MB in %d sums of %d batch norms (--bn %s)\n",
           1e-6 * (double)r->gradient_bytes, 1e-6 * (double)r->norm_bytes, r->norm_sums, r->norms,
           o->bn);
    print_scales(r, false);
    if (r->ranks > 1) {
        print_scales(r, true);
        print_sums(r);
    } else {
        printf("\n"
               "start several processes to see more: mpirun -n 4 ole bench --ranks\n");
    }
}

static bool show_rows(void *line, const char *part, int64_t done, int64_t total) {
    progress_share(line, part, (double)done / (double)total);
    return false;
}

int bench_ranks(const ole_bench_options *options, bool json) {
    ole_ranks *ranks;
    if (!launch_join("bench", NULL, &ranks)) return EXIT_FAILED;
    ole_bench_scaling *result = calloc(1, sizeof *result);
    if (!launch_go_on(ranks, result != NULL) || !result) {
        free(result);
        return launch_leave(ranks, fail_command("bench", "out of memory"));
    }
    progress line = progress_start();
    ole_bench_options o = *options;
    if (launch_prints(ranks)) {
        o.callback = show_rows;
        o.callback_context = &line;
        progress_wait(&line, "one rank");
    }
    ole_error error;
    ole_status status = ole_bench_ranks(&o, ranks, result, &error);
    progress_clear(&line);
    if (launch_prints(ranks) && status == OLE_OK)
        (json ? print_json : print_text)(options, result);
    else if (launch_prints(ranks))
        fail_command("bench", "%s", error.message);
    free(result);
    return launch_leave(ranks, exit_code(status));
}
