/*
 * src/model/published_names.c - the names of published weights, by family of networks.
 *
 * A family is a function that names a node as its publisher does; parameters are called weight,
 * bias, running_mean and running_var everywhere. Within a family, spellings differ in a few words
 * and in a prefix, which are tables.
 */
#include "model/published_names.h"

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
 * 1.norm, 3.block1.conv1, 3.block1.norm1, 3.block1.shortcut.conv, classifier.
 */
static bool name_resnet(const ole_graph *graph, const ole_node *node, char name[NAME]) {
    const char *rest = strchr(node->name, '.'), *part = rest ? rest + 1 : "fc";
    int used = 0;
    if (rest && strncmp(part, "block", 5) == 0) {
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

bool ole_published_is_counter(const char *name) {
    static const char counter[] = ".num_batches_tracked";
    size_t length = strlen(name), end = sizeof counter - 1;
    return length > end && strcmp(name + length - end, counter) == 0;
}

bool ole_tensor_fits(const ole_tensor *tensor, const ole_param *param) {
    bool as_convolution = param->ndim == 2 && tensor->ndim == 4;
    if (tensor->ndim != param->ndim && !as_convolution) return false;
    for (int d = 0; d < (as_convolution ? 1 : param->ndim); d++)
        if (tensor->shape[d] != param->shape[d]) return false;
    return ole_tensor_count(tensor) == param->count &&
           (tensor->dtype == OLE_F32 || tensor->dtype == OLE_F64);
}
