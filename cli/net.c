/*
 * cli/net.c - `ole net`: what a network is made of and what it costs; without one, the named nets.
 */
#include "commands.h"
#include "common/common.h"

#include "net/write_graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char net_summary[] = "list a network's layers, shapes, weights, FLOP and memory";

typedef struct arguments {
    const char *net;   /* NULL: all named ones */
    const char *input; /* NULL: that of the net */
    int shape[3];      /* channels, height, width */
    int classes;
    int batch_size;
    bool json, graph;
} arguments;

static const double mega = 1e6, mebi = 1024.0 * 1024.0;

/* ---- The command line --------------------------------------------------------------------- */

static bool parse(arguments *a, int argc, char **argv, int *code) {
    *a = (arguments){.classes = 10, .batch_size = 64};
    const arg_positional positionals[] = {
        {"NET", &a->net, "a name or the paper's notation; without one, the names are listed"},
        {0},
    };
    const ole_option options[] = {
        {"input", OLE_TEXT, &a->input, "CxHxW",
         .help = "images (default: the paper's for a name, else 3x32x32)"},
        {"classes", OLE_INTEGER, &a->classes, "N", .help = "classes of the classifier", .min = 1,
         .max = 65536},
        {"batch-size", OLE_INTEGER, &a->batch_size, "N",
         .help = "batch size of the memory estimate", .min = 1, .max = 65536},
        JSON_OPTION(&a->json),
        {"graph", OLE_SWITCH, .to = &a->graph,
         .help = "print the operations as JSON, to rebuild the network elsewhere"},
        {0},
    };
    const arg_command command = {
        .name = "net",
        .summary = net_summary,
        .example = "  $ ole net vgg16\n"
                   "  $ ole net 'C32-MP-C64-MP-C128-MP-C256-C256-MP' --input 3x96x96\n",
        .about =
            "Prints each layer's output, trained weights, FLOP of a forward pass of one image\n"
            "(a multiply-add counts 2) and memory of its output in float32 for a batch.\n",
        .positionals = positionals,
        .none_will_do = true,
        .options = options,
    };
    if (!args_parse(&command, argc, argv, code)) return false;
    *code = EXIT_USAGE;
    if (a->graph && !a->net) return refuse("net", "--graph needs NET; 'ole net' lists the names");
    ole_net_input(a->net, &a->shape[0], &a->shape[1], &a->shape[2]);
    return !a->input || parse_shape("net", a->input, a->shape);
}

static void write_totals(ole_json *w, const ole_net *net) {
    ole_net_sums sums = ole_net_totals(net);
    ole_json_put(w, J("features", sums.features), J("weights", sums.weights), J("flop", sums.flop),
                 J("activations", sums.activations));
}

/* ---- One net ------------------------------------------------------------------------------ */

static int64_t batch_bytes(const arguments *a, int64_t elements) {
    return elements * a->batch_size * (int64_t)sizeof(float);
}

/* The string behind a name, or the string itself. */
static const char *notation_of(const arguments *a) {
    const char *notation = ole_net_notation(a->net);
    return notation ? notation : a->net;
}

static void print_json(const arguments *a, const ole_net *net) {
    ole_json w = ole_json_begin(stdout, 2, '{');
    ole_json_put(&w, J("net", a->net), J("notation", notation_of(a)));
    json_shape(&w, "input", a->shape[0], a->shape[1], a->shape[2]);
    ole_json_integer(&w, "classes", a->classes);
    write_totals(&w, net);
    ole_json_put(&w, J("batch_size", a->batch_size),
                 J("activation_bytes", batch_bytes(a, ole_net_totals(net).activations)));
    ole_json_open(&w, "layers", '[');
    for (int i = 0; i < ole_net_layers(net); i++) {
        ole_net_layer layer = ole_net_get_layer(net, i);
        ole_json_open(&w, NULL, '{');
        ole_json_put(&w, J("name", layer.name), J("kind", layer.kind), J("token", layer.token));
        json_shape(&w, "output", layer.channels, layer.height, layer.width);
        ole_json_put(&w, J("weights", layer.weights), J("flop", layer.flop),
                     J("activations", layer.activations));
        ole_json_close(&w);
    }
    ole_json_close(&w);
    ole_json_close(&w);
}

static void print_row(const arguments *a, int width, const char *name, const char *kind,
                      const char *output, int64_t weights, int64_t flop, int64_t activations) {
    printf("%-*s  %-15s %-14s %10" PRId64 " %10.2f %10.2f\n", width, name, kind, output, weights,
           (double)flop / mega, (double)batch_bytes(a, activations) / mebi);
}

static void print_text(const arguments *a, const ole_net *net) {
    ole_net_sums sums = ole_net_totals(net);
    size_t widest = strlen("layer");
    for (int i = 0; i < ole_net_layers(net); i++) {
        size_t length = strlen(ole_net_get_layer(net, i).name);
        if (length > widest) widest = length;
    }
    char input[48];
    snprintf(input, sizeof input, "images of %dx%dx%d", a->shape[0], a->shape[1], a->shape[2]);
    if (a->shape[1] == 1 && a->shape[2] == 1)
        snprintf(input, sizeof input, "vectors of %d", a->shape[0]);
    printf("%s\n%s, batches of %d, %" PRId64 " features, %d classes\n\n", notation_of(a), input,
           a->batch_size, sums.features, a->classes);
    printf("%-*s  %-15s %-14s %10s %10s %10s\n", (int)widest, "layer", "kind", "output", "weights",
           "MFLOP", "MiB");
    for (int i = 0; i < ole_net_layers(net); i++) {
        ole_net_layer layer = ole_net_get_layer(net, i);
        char output[72];
        snprintf(output, sizeof output, "%" PRId64 "x%" PRId64 "x%" PRId64, layer.channels,
                 layer.height, layer.width);
        print_row(a, (int)widest, layer.name, layer.kind, output, layer.weights, layer.flop,
                  layer.activations);
    }
    print_row(a, (int)widest, "total", "", "", sums.weights, sums.flop, sums.activations);
}

static int show(const arguments *a) {
    ole_net *net;
    ole_error error;
    const int *shape = a->shape;
    if (ole_net_create(&net, a->net, shape[0], shape[1], shape[2], a->classes, &error) != OLE_OK)
        return fail_with("net", &error);
    ole_json w;
    ole_json_init(&w, stdout, 0);
    if (a->graph)
        ole_net_write_graph(net, &w, NULL);
    else if (a->json)
        print_json(a, net);
    else
        print_text(a, net);
    ole_net_destroy(net);
    return EXIT_DONE;
}

/* ---- All named nets ----------------------------------------------------------------------- */

static void list_json(ole_json *w, const char *name, const int shape[3], const ole_net *net) {
    ole_json_open(w, NULL, '{');
    ole_json_put(w, J("net", name), J("notation", ole_net_notation(name)));
    json_shape(w, "input", shape[0], shape[1], shape[2]);
    if (net) write_totals(w, net);
    ole_json_close(w);
}

static void list_text(const char *name, const int shape[3], const ole_net *net) {
    char input[48], weights[24] = "-";
    snprintf(input, sizeof input, "%dx%dx%d", shape[0], shape[1], shape[2]);
    if (net) snprintf(weights, sizeof weights, "%" PRId64, ole_net_totals(net).weights);
    printf("%-18s  %-9s  %9s  %s\n", name, input, weights, ole_net_notation(name));
}

/* One row per name; without its costs where the requested images are too small for the net. */
static int list(const arguments *a) {
    ole_json w;
    ole_json_init(&w, stdout, 2);
    if (a->json)
        ole_json_open(&w, NULL, '[');
    else
        printf("%-18s  %-9s  %9s  %s\n", "name", "input", "weights", "notation");
    for (const char *const *name = ole_net_names(); *name; name++) {
        int shape[3];
        memcpy(shape, a->shape, sizeof shape);
        if (!a->input) ole_net_input(*name, &shape[0], &shape[1], &shape[2]);
        ole_net *net;
        ole_error error;
        if (ole_net_create(&net, *name, shape[0], shape[1], shape[2], a->classes, &error) ==
            OLE_ERROR_MEMORY)
            return fail_command("net", "%s", error.message);
        if (a->json)
            list_json(&w, *name, shape, net);
        else
            list_text(*name, shape, net);
        ole_net_destroy(net);
    }
    if (a->json) ole_json_close(&w);
    return EXIT_DONE;
}

int run_net(int argc, char **argv) {
    arguments a;
    int code;
    if (!parse(&a, argc, argv, &code)) return code;
    return a.net ? show(&a) : list(&a);
}
