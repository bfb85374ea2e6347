/*
 * fuzz/fuzz_net.c - random strings as networks: whatever they hold, parsing ends with a graph that
 * keeps its rules or with an error of one line.
 *
 * LLVMFuzzerTestOneInput() takes what libFuzzer hands it (build it with clang, -fsanitize=fuzzer
 * and -DOLE_LIBFUZZER).  Otherwise the program makes strings of its own: tokens in random order,
 * and the nets of the zoo, changed at random.
 *
 *     fuzz_net [COUNT [SEED]]
 */
#include "net/graph.h"
#include "ole/train/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 512 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static char text[MAX_TEXT + 1]; /* the string at work, for the message */

static void require(bool condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "fuzz_net: %s: %s\n", what, text);
    abort();
}

/* ---- One string --------------------------------------------------------------------------- */

static void check_error(ole_status status, const ole_error *error) {
    require(error->status == status, "the error has another status");
    require(memchr(error->message, '\0', sizeof error->message) != NULL, "no end of the message");
    require(strncmp(error->message, "net", 3) == 0, "the message does not begin with the net");
    require(strpbrk(error->message, "\n\r\x1b") == NULL, "the message is not one plain line");
}

static void check_graph(const ole_graph *g) {
    require(g->nodes >= 3 && g->nodes <= 4096, "the number of nodes is out of range");
    require(g->classifier == g->nodes - 1, "the classifier is not the last node");
    require(g->node[g->classifier].input[0] == g->features, "the classifier reads no features");
    for (int i = 0; i < g->nodes; i++) {
        const ole_node *node = &g->node[i];
        require(ole_shape_size(node->out) > 0, "an output is empty");
        for (int k = 0; k < OLE_MAX_INPUTS; k++)
            require(node->input[k] < i, "a node reads one behind it");
        for (int k = 0; k < node->params; k++)
            require(g->param[node->first_param + k].node == i, "a parameter has another node");
    }
    for (int i = 0; i <= g->tokens; i++)
        require(g->token_node[i] >= 0 && g->token_node[i] < g->nodes, "a token has no node");
}

static void check_costs(ole_shape input, int classes) {
    ole_net *net;
    ole_error error;
    ole_status status =
        ole_net_create(&net, text, (int)input.c, (int)input.h, (int)input.w, classes, &error);
    require(status == OLE_OK, "it is a graph, but no net");
    ole_net_sums sums = ole_net_totals(net);
    require(sums.weights > 0 && sums.flop > 0 && sums.activations > 0 && sums.features > 0,
            "a sum has overflowed");
    ole_net_destroy(net);
}

/* The first three bytes choose the image and the classes, the rest is the string. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (size < 3 || size - 3 > MAX_TEXT) return 0;
    ole_shape input = {1 + bytes[0] % 4, 1 + bytes[1], 1 + bytes[2]};
    int classes = 1 + bytes[0];
    memcpy(text, bytes + 3, size - 3);
    text[size - 3] = '\0';
    ole_graph *graph;
    ole_error error = {0};
    ole_status status = ole_graph_parse(&graph, text, input, classes, &error);
    if (status != OLE_OK) {
        require(graph == NULL, "a graph in spite of an error");
        check_error(status, &error);
        return 0;
    }
    check_graph(graph);
    check_costs(input, classes);
    require(ole_graph_fuse(graph, false, &error) == OLE_OK, "the ReLUs cannot be merged");
    check_graph(graph);
    ole_graph_free(graph);
    return 0;
}

#ifndef OLE_LIBFUZZER

/* ---- Strings of its own ------------------------------------------------------------------- */

static uint64_t random_state;

static uint64_t next_random(uint64_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % below;
}

static const char *const words[] = {
    "C8",     "C64",         "CO12",   "MP", "AP",   "FC16",   "FCD8",   "R16/4",
    "PR16/4", "D32/4",       "CR12",   "BN", "ReLU", "(x2)",   "(x18)",  "[k5]",
    "[p0]",   "[s2]",        "[nobn]", "[",  "]",    "(",      ")",      "-",
    "/",      ",",           "x",      "k3", "d0.5", "norelu", "nobias", "noaffine",
    "65536",  "99999999999", "0",      ".",  " ",    "\n",     "\x80",
};
enum { WORDS = sizeof words / sizeof *words };

static const char *random_word(void) {
    return words[next_random(WORDS)];
}

static size_t insert(char *to, size_t size, size_t at, const char *word) {
    size_t length = strlen(word);
    if (size + length > MAX_TEXT) return size;
    memmove(to + at + length, to + at, size - at);
    memcpy(to + at, word, length);
    return size + length;
}

/* Up to eight words, mostly joined by '-'. */
static size_t make_random(char *to) {
    size_t size = 0;
    for (uint64_t left = 1 + next_random(8); left > 0; left--) {
        size = insert(to, size, size, random_word());
        if (left > 1 && next_random(4) > 0) size = insert(to, size, size, "-");
    }
    return size;
}

static size_t make_zoo(char *to) {
    size_t count = 0;
    while (ole_net_names()[count])
        count++;
    return insert(to, 0, 0, ole_net_notation(ole_net_names()[next_random(count)]));
}

/* Changes a character, inserts a word or removes a piece; returns the new size. */
static size_t mutate(char *to, size_t size) {
    size_t at = (size_t)next_random(size + 1);
    switch (next_random(3)) {
    case 0:
        if (at < size) to[at] = (char)(1 + next_random(255));
        return size;
    case 1:
        return insert(to, size, at, random_word());
    default: {
        size_t cut = at + (size_t)next_random(8);
        if (cut >= size) return at;
        memmove(to + at, to + cut, size - cut);
        return size - (cut - at);
    }
    }
}

int main(int argc, char **argv) {
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 20000;
    random_state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    for (long i = 0; i < count; i++) {
        uint8_t bytes[MAX_TEXT + 3];
        for (int k = 0; k < 3; k++)
            bytes[k] = (uint8_t)next_random(256);
        char *net = (char *)bytes + 3;
        size_t size = next_random(2) ? make_random(net) : make_zoo(net);
        for (uint64_t m = next_random(4); m > 0; m--)
            size = mutate(net, size);
        LLVMFuzzerTestOneInput(bytes, size + 3);
    }
    printf("fuzz_net: %ld nets\n", count);
    return 0;
}

#endif
