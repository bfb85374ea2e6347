/*
 * cli/bench.c - `ole bench`: a training step by stage and by kind of op, beside PyTorch on request.
 */
#include "bench/bench_ranks.h"
#include "bench/peer.h"
#include "commands.h"
#include "common/common.h"
#include "common/progress.h"

#include "bench/bench.h"
#include "formats/json.h"
#include <ole/ranks.h>
#include <ole/train/net.h>

#include <stdio.h>
#include <string.h>

const char bench_summary[] = "time a training step, by stage, and its memory";

typedef struct arguments {
    ole_bench_options bench;
    const char *input;
    int batch_size;
    int peer; /* 0: none, 1: torch */
    bool json, ranks;
} arguments;

/* Options that need --ranks, or exclude it. */
static bool check_ranks(const arguments *a) {
    bool local = strcmp(a->bench.bn, "sync") != 0 || strcmp(a->bench.ole_scope, "global") != 0;
    if (a->ranks && a->peer == 1)
        fail_command("bench", "--peer cannot be combined with --ranks");
    else if (!a->ranks && local)
        fail_command("bench", "--bn and --ole-scope need --ranks");
    else
        return true;
    return false;
}

static bool parse(arguments *a, int argc, char **argv, int *code) {
    ole_bench_options_init(&a->bench);
    a->bench.net = "vgg16";
    a->batch_size = 0;
    const ole_option options[] = {
        {"net", OLE_TEXT, &a->bench.net, "NET", .heading = "The step",
         .help = "network: a name from 'ole net' or its layers"},
        {"input", OLE_TEXT, &a->input, "CxHxW",
         .help = "images (default: the paper's for a name, else 3x32x32)"},
        {"classes", OLE_INTEGER, &a->bench.classes, "N", .help = "classes of the classifier",
         .min = 1, .max = 65536},
        {"batch-size", OLE_INTEGER, &a->batch_size, "N",
         .help = "images per step (default 64; cnn5: 32)", .min = 1, .max = 65536},
        {"device", OLE_TEXT, &a->bench.device, "auto|cpu|cuda[:i]|ref", .help = "device to run on"},
        {"precision", OLE_TEXT, &a->bench.precision, "fp32|tf32|bf16",
         .help = "precision of the arithmetic"},
        {"conv", OLE_TEXT, &a->bench.conv, "auto|direct",
         .help = "convolutions: the fastest algorithm, or never Winograd"},
        THREADS_OPTION(&a->bench.threads),
        {"seconds", OLE_NUMBER, &a->bench.seconds, "S",
         .help = "seconds to measure, at least 5 steps", .min = 0.0, .max = 3600.0},
        {"softmax-only", OLE_SWITCH, .to = &a->bench.softmax_only,
         .help = "train with softmax alone"},
        {"peer", OLE_CHOICE, &a->peer, "none|torch", .help = "also time the same step in PyTorch"},
        JSON_OPTION(&a->json),
        {"ranks", OLE_SWITCH, .to = &a->ranks, .heading = "Multiple ranks",
         .help = "under mpirun: strong and weak scaling over 1, 2, ... ranks"},
        {"bn", OLE_TEXT, &a->bench.bn, "sync|local",
         .help = "with --ranks: batch norm over the whole batch or each rank's part"},
        {"ole-scope", OLE_TEXT, &a->bench.ole_scope, "global|local",
         .help = "with --ranks: OLE of the whole batch or each rank's part"},
        {0},
    };
    const arg_command command = {
        .name = "bench",
        .summary = bench_summary,
        .example = "  $ ole bench --net vgg16 --peer torch\n"
                   "  $ ole bench --net cnn5 --batch-size 32 --threads 2 --json\n"
                   "  $ mpirun -n 4 ole bench --ranks --net resnet110\n",
        .about = "Trains on random images and prints the median time of a step, where it goes,\n"
                 "and the memory. Rates are compared with a large matrix product on this machine.\n"
                 "With --ranks: how steps scale with the processes that mpirun started.\n",
        .options = options,
    };
    if (!args_parse(&command, argc, argv, code)) return false;
    *code = EXIT_USAGE;
    if (!check_ranks(a)) return false;
    int shape[3];
    ole_net_input(a->bench.net, &shape[0], &shape[1], &shape[2]);
    if (a->input && !parse_shape("bench", a->input, shape)) return false;
    a->bench.channels = shape[0];
    a->bench.height = shape[1];
    a->bench.width = shape[2];
    bool small = strcmp(a->bench.net, "cnn5") == 0;
    a->bench.batch_size = a->batch_size ? a->batch_size : (small ? 32 : 64);
    return true;
}

/* What OLÉ takes of a step, from 0 to 1. */
static double ole_share(const ole_bench_result *r) {
    return r->stage_ms[OLE_BENCH_OLE] / r->step_ms;
}

static bool ask_peer(const arguments *a, const ole_bench_result *ours, peer_answer *answer) {
    const ole_bench_options *o = &a->bench;
    ole_net *net;
    ole_error error;
    if (ole_net_create(&net, o->net, o->channels, o->height, o->width, o->classes, &error) !=
        OLE_OK)
        return refuse("bench", "%s", error.message);
    peer_job job = {.net = net,
                    .device = strcmp(ours->device, "cuda") == 0 ? "cuda" : "cpu",
                    .precision = o->precision,
                    .batch = o->batch_size,
                    .threads = ours->threads,
                    .seconds = o->seconds};
    bool good = peer_run(&job, answer);
    ole_net_destroy(net);
    return good;
}

static void json_kinds(const ole_bench_result *r, ole_json *w) {
    ole_json_open(w, "kinds", '{');
    for (int k = 0; k < r->kinds; k++) {
        const ole_bench_kind *kind = &r->kind[k];
        ole_json_open(w, kind->name, '{');
        ole_json_put(w, J("forward_ms", kind->forward_ms), J("backward_ms", kind->backward_ms));
        if (kind->forward_gflops > 0.0)
            ole_json_put(w, J("forward_gflops", kind->forward_gflops),
                         J("backward_gflops", kind->backward_gflops));
        ole_json_close(w);
    }
    ole_json_close(w);
}

static void json_peer(const peer_answer *peer, double ours_ms, ole_json *w) {
    ole_json_put(w, J("peer_ms", peer->best_ms), J("ratio", peer->best_ms / ours_ms));
    ole_json_open(w, "peer", '{');
    ole_json_string(w, "library", peer->library);
    ole_json_open(w, "modes", '{');
    for (int i = 0; i < peer->modes; i++)
        ole_json_object(w, peer->mode[i].name, J("step_ms", peer->mode[i].ms),
                        J("processor_ms", peer->mode[i].processor_ms),
                        J("peak_bytes", peer->mode[i].peak_bytes));
    ole_json_close(w);
    ole_json_close(w);
}

/* `peer`: NULL without --peer. */
static void print_json(const arguments *a, const ole_bench_result *r, const peer_answer *peer) {
    ole_json w = ole_json_begin(stdout, 2, '{');
    ole_json_put(&w, J("net", a->bench.net), J("device", r->device), J("threads", r->threads),
                 J("precision", a->bench.precision));
    json_shape(&w, "input", a->bench.channels, a->bench.height, a->bench.width);
    ole_json_put(&w, J("classes", a->bench.classes), J("batch_size", a->bench.batch_size),
                 J("steps", r->steps), J("step_ms", r->step_ms), J("processor_ms", r->processor_ms),
                 J("images_per_s", r->images_per_s), J("ole_share", ole_share(r)),
                 J("loader_images_per_s", r->loader_images_per_s));
    if (r->launches) ole_json_integer(&w, "launches", r->launches);
    ole_json_put(&w, J("peak_bytes", r->peak_bytes), J("plan_bytes", r->plan_bytes),
                 J("unshared_bytes", r->unshared_bytes), J("param_bytes", r->param_bytes),
                 J("peak_gflops", r->peak_gflops));
    ole_json_open(&w, "stages", '{');
    for (int s = 0; s < OLE_BENCH_STAGES; s++)
        ole_json_number(&w, ole_bench_stage_name((ole_bench_stage)s), r->stage_ms[s]);
    ole_json_close(&w);
    json_kinds(r, &w);
    if (peer) json_peer(peer, r->step_ms, &w);
    ole_json_close(&w);
}

static void print_kinds(const ole_bench_result *r) {
    printf("\nops           forward ms  GFLOP/s   backward ms  GFLOP/s\n");
    for (int k = 0; k < r->kinds; k++) {
        const ole_bench_kind *kind = &r->kind[k];
        if (kind->forward_gflops > 0.0)
            printf("%-12s  %10.3f  %7.1f   %11.3f  %7.1f\n", kind->name, kind->forward_ms,
                   kind->forward_gflops, kind->backward_ms, kind->backward_gflops);
        else
            printf("%-12s  %10.3f            %11.3f\n", kind->name, kind->forward_ms,
                   kind->backward_ms);
    }
    printf("a 1024^3 matrix product runs at %.1f GFLOP/s here\n", r->peak_gflops);
}

static void print_peer(const peer_answer *peer, double ours_ms) {
    printf("\n%s: %.2f ms at best, %.2f times ours\n", peer->library, peer->best_ms,
           peer->best_ms / ours_ms);
    for (int i = 0; i < peer->modes; i++)
        printf("  %-12s%10.3f ms\n", peer->mode[i].name, peer->mode[i].ms);
}

static void print_text(const arguments *a, const ole_bench_result *r, const peer_answer *peer) {
    const double mebi = 1024.0 * 1024.0;
    bool vectors = a->bench.height == 1 && a->bench.width == 1;
    const char *samples = vectors ? "vectors" : "images";
    printf("%s, %d x %dx%dx%d, device %s, %d thread%s\n\n", a->bench.net, (int)a->bench.batch_size,
           a->bench.channels, a->bench.height, a->bench.width, r->device, r->threads,
           r->threads == 1 ? "" : "s");
    printf("step          %10.3f ms, %.1f %s/s (median of %d)\n", r->step_ms, r->images_per_s,
           samples, (int)r->steps);
    for (int s = 0; s < OLE_BENCH_STAGES; s++) {
        printf("  %-12s%10.3f ms", ole_bench_stage_name((ole_bench_stage)s), r->stage_ms[s]);
        if (s == OLE_BENCH_OLE) printf(", %.2f %% of the step", 100.0 * ole_share(r));
        printf("\n");
    }
    if (r->launches) printf("launches      %10d per step\n", (int)r->launches);
    if (r->loader_images_per_s > 0.0)
        printf("loader        %10.0f %s/s per thread (%snormalise)\n", r->loader_images_per_s,
               samples, vectors ? "" : "crop, mirror, ");
    print_kinds(r);
    printf(
        "\nmemory        %10.1f MiB planned (%.1f if nothing were shared), %.1f MiB parameters\n",
        (double)r->plan_bytes / mebi, (double)r->unshared_bytes / mebi,
        (double)r->param_bytes / mebi);
    if (peer) print_peer(peer, r->step_ms);
}

int run_bench(int argc, char **argv) {
    arguments a = {0};
    int code;
    if (!parse(&a, argc, argv, &code)) return code;
    if (a.ranks) return bench_ranks(&a.bench, a.json);
    if (ole_ranks_launched_rank() > 0) return EXIT_DONE; /* they would share its cores */
    if (a.bench.threads == 0) a.bench.threads = default_threads();
    progress line = progress_start();
    ole_bench_result result;
    ole_error error;
    a.bench.callback = progress_images;
    a.bench.callback_context = &line;
    catch_interrupts();
    progress_wait(&line, "preparing");
    ole_status status = ole_bench(&a.bench, &result, &error);
    progress_clear(&line);
    if (status != OLE_OK) return fail_with("bench", &error);
    peer_answer peer;
    bool good = true;
    if (a.peer == 1 && !interrupted()) good = ask_peer(&a, &result, &peer);
    if (interrupted()) return end_interrupted("bench", "there is no result");
    if (good) (a.json ? print_json : print_text)(&a, &result, a.peer == 1 ? &peer : NULL);
    return good ? EXIT_DONE : EXIT_FAILED;
}
