/*
 * src/model/published_names.c - the names of published weights, by family of networks.
 *
 * A family is a function that names a node as its publisher does; parameters are called weight,
 * bias, running_mean and running_var everywhere. Within a family, spellings differ in a few words
 * and in a prefix, which are tables.
 */
#include "model/published_names.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 96 };

/* ---- Families ----------------------------------------------------------------------------- */

int ole_stage_of(const ole_graph *graph, const ole_node *of) {
    int stages = 0;
    for (int i = 0; i < graph->nodes && graph->node[i].token <= of->token; i++)
        stages += strstr(graph->node[i].name, ".block1.conv1") != NULL;
    return stages;
}

/*
 * ResNets: conv1, bn1, layer1.0.conv1, layer1.0.bn1, layer1.0.downsample.0, fc. Ours are 1.conv,
 * 1.norm, 3.block1.conv1, 3.block1.norm1, 3.block1.shortcut.conv, classifier.  Outside of blocks
 * only the first token's layers, the stem, and the classifier have such names.
 */
static bool name_resnet(const ole_graph *graph, const ole_node *node, char name[NAME]) {
    const char *rest = strchr(node->name, '.'), *part = rest ? rest + 1 : "fc";
    bool in_block = rest && strncmp(part, "block", 5) == 0;
    int used = 0;
    if (ole_stage_of(graph, &graph->node[graph->token_node[graph->tokens]]) == 0) return false;
    if (rest && !in_block && node->token != 1) return false;
    if (in_block) {
        char *end;
        long block = strtol(part + 5, &end, 10);
        used = snprintf(name, NAME, "layer%d.%ld.", ole_stage_of(graph, node), block - 1);
        part = end + 1;
    }
    bool norm = strncmp(part, "norm", 4) == 0, conv = strncmp(part, "conv", 4) == 0;
    if (strncmp(part, "shortcut.", 9) == 0)
        part = strcmp(part + 9, "norm") == 0 ? "downsample.1" : "downsample.0";
    const char *number = (norm || conv) && part[4] ? part + 4 : "1";
    if (norm || conv)
        snprintf(name + used, NAME - (size_t)used, "%s%s", norm ? "bn" : "conv", number);
    else
        snprintf(name + used, NAME - (size_t)used, "%s", part);
    return true;
}

/* The node that turns the image into a vector. */
static const ole_node *flattening(const ole_graph *graph) {
    for (int i = 0; i < graph->nodes; i++)
        if (graph->node[i].op == OLE_OP_FLATTEN) return &graph->node[i];
    return &graph->node[graph->nodes - 1];
}

/* torchvision's VGG: the ops of the image count on from features.0, those of vectors from
 * classifier.0. */
static bool name_vgg(const ole_graph *graph, const ole_node *node, char name[NAME]) {
    int flat = flattening(graph)->index;
    if (node->index < flat)
        snprintf(name, NAME, "features.%d", node->index - 1);
    else
        snprintf(name, NAME, "classifier.%d", node->index - flat - 1);
    return true;
}

/* timm's VGG: its linear layers are convolutions, pre_logits.fc1 and fc2, and head.fc. */
static bool name_timm_vgg(const ole_graph *graph, const ole_node *node, char name[NAME]) {
    if (node->op != OLE_OP_LINEAR) return false;
    int before = 0;
    for (int i = 0; &graph->node[i] != node; i++)
        before += graph->node[i].op == OLE_OP_LINEAR;
    if (node == &graph->node[graph->classifier])
        snprintf(name, NAME, "head.fc");
    else
        snprintf(name, NAME, "pre_logits.fc%d", before + 1);
    return true;
}

/* ---- Spellings ---------------------------------------------------------------------------- */

static bool (*const families[])(const ole_graph *, const ole_node *, char[NAME]) = {
    name_resnet,
    name_vgg,
    name_timm_vgg,
};

/* Left by PyTorch's parallel and wrapping modules. */
static const char *const prefixes[] = {"", "module.", "model."};

static const struct {
    const char *word, *other;
} spellings[] = {{"", ""}, {"downsample.", "shortcut."}, {"fc", "linear"}};

enum {
    FAMILIES = sizeof families / sizeof *families,
    PREFIXES = sizeof prefixes / sizeof *prefixes,
    SPELLINGS = sizeof spellings / sizeof *spellings
};

/* The tensor of a published node name with a parameter's suffix such as ".weight". */
static const ole_tensor *find_spelt(const ole_safetensors *file, const char *node,
                                    const char *suffix) {
    for (int s = 0; s < SPELLINGS; s++) {
        const char *at = strstr(node, spellings[s].word);
        if (!at) continue;
        for (int p = 0; p < PREFIXES; p++) {
            char name[2 * NAME];
            snprintf(name, sizeof name, "%s%.*s%s%s%s", prefixes[p], (int)(at - node), node,
                     spellings[s].other, at + strlen(spellings[s].word), suffix);
            const ole_tensor *tensor = ole_safetensors_find(file, name);
            if (tensor) return tensor;
        }
    }
    return NULL;
}

const ole_tensor *ole_published_find(const ole_safetensors *file, const ole_graph *graph, int i) {
    const ole_param *param = &graph->param[i];
    const ole_node *node = &graph->node[param->node];
    const ole_tensor *tensor = ole_safetensors_find(file, param->name);
    for (int f = 0; f < FAMILIES && !tensor; f++) {
        char name[NAME];
        if (families[f](graph, node, name))
            tensor = find_spelt(file, name, param->name + strlen(node->name));
    }
    return tensor;
}

bool ole_tensor_is_state(const char *name) {
    static const char counter[] = ".num_batches_tracked";
    size_t length = strlen(name), end = sizeof counter - 1;
    return (length > end && strcmp(name + length - end, counter) == 0) ||
           strncmp(name, "optimizer.", 10) == 0 || strncmp(name, "train.", 6) == 0 ||
           strncmp(name, "average.", 8) == 0;
}

bool ole_tensor_fits(const ole_tensor *tensor, const ole_param *param) {
    bool as_convolution = param->ndim == 2 && tensor->ndim == 4;
    if (tensor->ndim != param->ndim && !as_convolution) return false;
    for (int d = 0; d < (as_convolution ? 1 : param->ndim); d++)
        if (tensor->shape[d] != param->shape[d]) return false;
    return ole_tensor_count(tensor) == param->count && tensor->dtype <= OLE_F64; /* any float */
}

/* ---- Networks ----------------------------------------------------------------------------- */

/* Whether parameters and tensors are each other's, but for the classifier, which may be one of
 * other classes or missing. `used` is of [tensors in the file], all false. */
static bool fits_graph(const ole_safetensors *file, const ole_graph *graph, bool *used) {
    for (int i = 0; i < graph->params; i++) {
        const ole_tensor *tensor = ole_published_find(file, graph, i);
        if (tensor) used[ole_safetensors_index(file, tensor)] = true;
        if (graph->param[i].node == graph->classifier) continue;
        if (!tensor || !ole_tensor_fits(tensor, &graph->param[i])) return false;
    }
    for (size_t k = 0; k < ole_safetensors_count(file); k++)
        if (!used[k] && !ole_tensor_is_state(ole_safetensors_get(file, k)->name)) return false;
    return true;
}

ole_status ole_published_net(const ole_safetensors *file, const ole_zoo_entry **net,
                             ole_error *error) {
    size_t count = ole_safetensors_count(file);
    bool *used = malloc((count + 1) * sizeof *used); /* [count] */
    if (!used) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for initial weights");
    ole_status status = OLE_OK;
    *net = NULL;
    for (int i = 0; ole_zoo_names[i] && !*net && status == OLE_OK; i++) {
        const ole_zoo_entry *entry = ole_zoo_find(ole_zoo_names[i]);
        for (int c = 3; c >= 1 && !*net && status == OLE_OK; c -= 2) { /* colour, grey */
            ole_graph *graph;
            const ole_shape input = {c, entry->input.h, entry->input.w};
            status = ole_graph_parse(&graph, entry->name, input, 2, error);
            memset(used, 0, count * sizeof *used);
            if (status == OLE_OK && fits_graph(file, graph, used)) *net = entry;
            ole_graph_free(graph);
        }
    }
    free(used);
    return status;
}

int ole_published_channels(const ole_safetensors *file, const char *net, ole_shape input) {
    ole_graph *graph;
    if (ole_graph_parse(&graph, net, input, 2, NULL) != OLE_OK) return 0;
    const ole_tensor *first = graph->params > 0 ? ole_published_find(file, graph, 0) : NULL;
    int64_t channels = first && first->ndim == 4 ? first->shape[1] : 0;
    ole_graph_free(graph);
    return channels == 1 || channels == 3 ? (int)channels : 0;
}
