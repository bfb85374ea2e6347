/*
 * tests/unit/net/test_net_graph.c - networks: weights of the zoo against sums done by hand, names,
 * shapes, blocks, modifiers, merged ReLUs, costs.
 */
#include "ole/train/net.h"

#include "net/graph.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

/* ---- Helpers ------------------------------------------------------------------------------ */

static ole_graph *parse(const char *net, int64_t c, int64_t h, int64_t w) {
    ole_graph *graph;
    ole_error error;
    assert_ok(ole_graph_parse(&graph, net, (ole_shape){c, h, w}, 10, &error), &error);
    return graph;
}

static ole_graph *parse_zoo(const char *net) {
    int c, h, w;
    ole_net_input(net, &c, &h, &w);
    return parse(net, c, h, w);
}

static const ole_node *find(const ole_graph *graph, const char *name) {
    for (int i = 0; i < graph->nodes; i++)
        if (strcmp(graph->node[i].name, name) == 0) return &graph->node[i];
    fail_msg("there is no node %s", name);
    return NULL;
}

static int index_of(const ole_graph *graph, const char *name) {
    return (int)(find(graph, name) - graph->node);
}

static bool has(const ole_graph *graph, const char *name) {
    for (int i = 0; i < graph->nodes; i++)
        if (strcmp(graph->node[i].name, name) == 0) return true;
    return false;
}

static int count_ops(const ole_graph *graph, ole_op op) {
    int count = 0;
    for (int i = 0; i < graph->nodes; i++)
        count += graph->node[i].op == op;
    return count;
}

static void assert_shape(const ole_graph *graph, const char *name, int64_t c, int64_t h,
                         int64_t w) {
    ole_shape out = find(graph, name)->out;
    assert_int_equal(out.c, c);
    assert_int_equal(out.h, h);
    assert_int_equal(out.w, w);
}

/* ---- Weights, by hand --------------------------------------------------------------------- */

/*
 * With 10 classes.  A convolution has k*k*in*out weights and `out` biases, a batch norm 2 a
 * channel, a linear layer in*out and `out` biases.  For the VGGs, a C token (3x3, with norm) has
 *   3 > 64: 1,728+64+128 = 1,920                64 > 64: 36,864+64+128 = 37,056
 *  64 > 128: 73,728+128+256 = 74,112           128 > 128: 147,456+128+256 = 147,840
 * 128 > 256: 294,912+256+512 = 295,680         256 > 256: 589,824+256+512 = 590,592
 * 256 > 512: 1,179,648+512+1,024 = 1,181,184   512 > 512: 2,359,296+512+1,024 = 2,360,832
 */
static const struct {
    const char *net;
    int64_t weights, features;
} zoo[] = {
    /* 3,072 > 10: 30,730+20; twice 10 > 10: 110+20; 10 > 3: 33+6; 3 > 10: 40 */
    {"mlp3", 31089, 3},
    /* 3,072 > 100: 307,300+200; three times 100 > 100: 10,100+200; 100 > 3: 303+6; 40 */
    {"mlp4", 338749, 3},
    /* No scale and shift: 896 + 18,496 + 73,856 + 147,584 + 295,168 + 590,080; 256 > 10: 2,570 */
    {"cnn5", 1128650, 256},
    /* 896+64 + 18,496+128 + 74,112 + 295,680 + 590,592; 6*6*256 = 9,216 > 10: 92,170 */
    {"cnn5-printed", 1072138, 9216},
    /* 1,920 + 74,112 + 295,680 + 590,592 + 1,181,184 + 3*2,360,832 = 9,225,984 in convolutions;
       512 > 512: 262,656+1,024 = 263,680; 512 > 10: 5,130 */
    {"vgg11", 9494794, 512},
    /* 1,920 + 4*37,056 + 74,112 + 3*147,840 + 295,680 + 3*590,592 = 2,735,232;
       4*4*256 = 4,096 > 256: 1,048,832+512; 256 > 10: 2,570 */
    {"vgg16", 3787146, 256},
    /* 1,920 + 37,056 + 74,112 + 147,840 + 295,680 + 3*590,592 + 1,181,184 + 7*2,360,832 =
       20,035,392; 263,680; 5,130 */
    {"vgg19", 20304202, 512},
    {"vgg11-release", 9225984 + 5130, 512},
    {"vgg19-release", 20035392 + 5130, 512},
    /* No norm: 1,792+36,928 + 73,856+147,584 + 295,168+2*590,080 + 1,180,160+2*2,359,808 +
       3*2,359,808 = 14,714,688; 7*7*512 = 25,088 > 4,096: 102,764,544; 4,096 > 4,096: 16,781,312;
       4,096 > 1,024: 4,195,328; 1,024 > 10: 10,250 */
    {"vggface", 138466122, 1024},
    /* A bottleneck i > m > 4m: i*m + 13*m*m and norms of 12*m; its shortcut 4*i*m + 8*m.
       First 432+32; stage 1: 3,776+1,152 and 17 times 4,544: 82,176; stage 2: 15,744+8,448 and
       17*17,792: 326,656; stage 3: 62,208+33,280 and 17*70,400: 1,292,288; 256 > 10: 2,570 */
    {"resnet110", 1704154, 256},
    /* Norms of 2*i + 4*m, the shortcut without: first 432; 3,680+1,024 and 17*4,544: 81,952;
       15,616+8,192 and 17*17,792: 326,272; 61,952+32,768 and 17*70,400: 1,291,520; norm 512;
       2,570 */
    {"preresnet110", 1703258, 256},
    /* A layer on c channels: 2*c + 9*12*c = 110*c.  First 648; c = 24, 36 .. 156, in sum 1,080:
       118,800; CR168 336+28,224; c = 168 .. 300, 2,808: 308,880; CR312 624+97,344; c = 312 .. 444,
       4,536: 498,960; norm 912; 456 > 10: 4,570 */
    {"densenet40", 1059298, 456},
    {"densenet40-dropout", 1059298, 456},
    /* First 432+32. A block of stage 1 has 4,672; the first of stage 2 13,952, others 18,560; of
       stage 3 55,552 and 73,984; 64 > 10: 650 */
    {"resnet20", 1114 + 3 * 4672 + 13952 + 2 * 18560 + 55552 + 2 * 73984, 64},
    {"resnet32", 1114 + 5 * 4672 + 13952 + 4 * 18560 + 55552 + 4 * 73984, 64},
    {"resnet44", 1114 + 7 * 4672 + 13952 + 6 * 18560 + 55552 + 6 * 73984, 64},
    {"resnet56", 1114 + 9 * 4672 + 13952 + 8 * 18560 + 55552 + 8 * 73984, 64},
    {"resnet110-basic", 1114 + 18 * 4672 + 13952 + 17 * 18560 + 55552 + 17 * 73984, 64},
    /* Published: 11,173,962; WRN-16-8 10,961,370; WRN-28-10 36,479,194. torchvision's of 1,000
       classes: ResNet-18 11,689,512, -34 21,797,672, -50 25,557,032, -101 44,549,160, VGG-16
       138,357,544, with batch norm 138,365,992. A class has as many weights as features, and 1. */
    {"resnet18-cifar", 11173962, 512},
    {"wrn16-8", 10961370, 512},
    {"wrn28-10", 36479194, 640},
    {"resnet18", 11689512 - 990 * 513, 512},
    {"resnet34", 21797672 - 990 * 513, 512},
    {"resnet50", 25557032 - 990 * 2049, 2048},
    {"resnet101", 44549160 - 990 * 2049, 2048},
    {"vgg16-224", 138357544 - 990 * 4097, 4096},
    {"vgg16bn-224", 138365992 - 990 * 4097, 4096},
};
enum { ZOO = sizeof zoo / sizeof *zoo };

static void test_zoo_weights(void **state) {
    (void)state;
    for (size_t i = 0; i < ZOO; i++) {
        int c, h, w;
        ole_net_input(zoo[i].net, &c, &h, &w);
        ole_net *net;
        ole_error error;
        assert_ok(ole_net_create(&net, zoo[i].net, c, h, w, 10, &error), &error);
        ole_net_sums sums = ole_net_totals(net);
        if (sums.weights != zoo[i].weights || sums.features != zoo[i].features)
            fail_msg("%s has %lld weights and %lld features", zoo[i].net, (long long)sums.weights,
                     (long long)sums.features);
        ole_net_destroy(net);
    }
}

static void test_zoo_is_all_tested(void **state) {
    (void)state;
    const char *const *names = ole_net_names();
    for (size_t i = 0; i < ZOO; i++) {
        assert_string_equal(names[i], zoo[i].net);
        assert_non_null(ole_net_notation(names[i]));
    }
    assert_null(names[ZOO]);
    assert_null(ole_net_notation("C64"));
    assert_null(ole_net_notation(NULL));
    int c, h, w;
    ole_net_input("C64", &c, &h, &w);
    assert_true(c == 3 && h == 32 && w == 32);
    ole_net_input("vggface", &c, &h, &w);
    assert_true(c == 3 && h == 224 && w == 224);
}

/* ---- What holds for every graph ----------------------------------------------------------- */

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void assert_unique(const char **names, int count) {
    qsort(names, (size_t)count, sizeof *names, compare_names);
    for (int i = 1; i < count; i++)
        assert_string_not_equal(names[i - 1], names[i]);
    free(names);
}

/* The index names dropout's random numbers: each node its own, and the same after fusing. */
static void check_indices(const ole_graph *g) {
    for (int i = 1; i < g->nodes; i++)
        assert_true(g->node[i].index > g->node[i - 1].index);
}

static void check_names(const ole_graph *g) {
    check_indices(g);
    const char **names = malloc((size_t)(g->nodes + g->params) * sizeof *names);
    assert_non_null(names);
    for (int i = 0; i < g->nodes; i++)
        names[i] = g->node[i].name;
    for (int i = 0; i < g->params; i++)
        names[g->nodes + i] = g->param[i].name;
    assert_unique(names, g->nodes + g->params);
}

static void check_node(const ole_graph *g, int i) {
    const ole_node *node = &g->node[i];
    int inputs = node->op == OLE_OP_INPUT ? 0 : 1;
    if (node->op == OLE_OP_ADD || node->op == OLE_OP_CONCAT) inputs = 2;
    for (int k = 0; k < OLE_MAX_INPUTS; k++)
        assert_true(k < inputs ? node->input[k] >= 0 && node->input[k] < i : node->input[k] == -1);
    ole_shape in = node->in, other = inputs == 2 ? g->node[node->input[1]].out : in;
    if (inputs > 0) assert_memory_equal(&in, &g->node[node->input[0]].out, sizeof in);
    if (node->op == OLE_OP_ADD) assert_memory_equal(&in, &other, sizeof in);
    if (node->op == OLE_OP_ADD) assert_memory_equal(&in, &node->out, sizeof in);
    if (node->op == OLE_OP_CONCAT) {
        assert_int_equal(node->out.c, in.c + other.c);
        assert_true(in.h == other.h && in.w == other.w);
    }
    if (node->op == OLE_OP_LINEAR) assert_true(in.h == 1 && in.w == 1);
    assert_true(ole_shape_size(node->out) > 0);
    assert_true(node->token >= 0 && node->token <= g->tokens);
}

static void check_params(const ole_graph *g) {
    int next = 0;
    for (int i = 0; i < g->nodes; i++) {
        assert_int_equal(g->node[i].first_param, next);
        for (int k = 0; k < g->node[i].params; k++, next++) {
            const ole_param *param = &g->param[next];
            assert_int_equal(param->node, i);
            assert_memory_equal(param->name, g->node[i].name, strlen(g->node[i].name));
            int64_t count = 1;
            for (int d = 0; d < param->ndim; d++)
                count *= param->shape[d];
            assert_int_equal(param->count, count);
        }
    }
    assert_int_equal(next, g->params);
}

static void check_graph(const ole_graph *g) {
    check_names(g);
    check_params(g);
    for (int i = 0; i < g->nodes; i++)
        check_node(g, i);
    assert_int_equal(g->node[0].op, OLE_OP_INPUT);
    assert_int_equal(g->token_node[0], 0);
    for (int i = 1; i <= g->tokens; i++) {
        assert_true(g->token_node[i] > g->token_node[i - 1]);
        assert_int_equal(g->node[g->token_node[i]].token, i);
    }
    assert_int_equal(count_ops(g, OLE_OP_FLATTEN), 1);
    assert_int_equal(g->classifier, g->nodes - 1);
    assert_int_equal(g->node[g->classifier].input[0], g->features);
    assert_int_equal(g->node[g->classifier].out.c, g->classes);
}

static void test_every_graph(void **state) {
    (void)state;
    for (size_t i = 0; i < ZOO; i++) {
        ole_graph *graph = parse_zoo(zoo[i].net);
        check_graph(graph);
        int params = graph->params;
        ole_error error;
        assert_ok(ole_graph_fuse(graph, false, &error), &error);
        check_graph(graph);
        assert_int_equal(graph->params, params);
        ole_graph_free(graph);
    }
}

/* ---- Names -------------------------------------------------------------------------------- */

/* Files hold these: a change here makes old checkpoints unreadable. */
static const char *const golden_params[] = {
    "1.conv1.weight",
    "1.conv1.bias",
    "1.norm1.weight",
    "1.norm1.bias",
    "1.norm1.running_mean",
    "1.norm1.running_var",
    "1.conv2.weight",
    "1.conv2.bias",
    "1.norm2.weight",
    "1.norm2.bias",
    "1.norm2.running_mean",
    "1.norm2.running_var",
    "3.block1.conv1.weight",
    "3.block1.norm1.weight",
    "3.block1.norm1.bias",
    "3.block1.norm1.running_mean",
    "3.block1.norm1.running_var",
    "3.block1.conv2.weight",
    "3.block1.norm2.weight",
    "3.block1.norm2.bias",
    "3.block1.norm2.running_mean",
    "3.block1.norm2.running_var",
    "3.block1.conv3.weight",
    "3.block1.norm3.weight",
    "3.block1.norm3.bias",
    "3.block1.norm3.running_mean",
    "3.block1.norm3.running_var",
    "3.block1.shortcut.conv.weight",
    "3.block1.shortcut.norm.weight",
    "3.block1.shortcut.norm.bias",
    "3.block1.shortcut.norm.running_mean",
    "3.block1.shortcut.norm.running_var",
    "4.layer1.norm.weight",
    "4.layer1.norm.bias",
    "4.layer1.norm.running_mean",
    "4.layer1.norm.running_var",
    "4.layer1.conv.weight",
    "5.norm.running_mean",
    "5.norm.running_var",
    "6.linear.weight",
    "6.linear.bias",
    "classifier.weight",
    "classifier.bias",
};
enum { GOLDEN = sizeof golden_params / sizeof *golden_params };

static void test_names(void **state) {
    (void)state;
    ole_graph *graph = parse("C8(x2)-MP-R16/4-D20/4[d0.5]-BN[noaffine]-FC5[nobn,d0.1]", 3, 8, 8);
    check_graph(graph);
    for (int i = 0; i < graph->params && i < GOLDEN; i++)
        assert_string_equal(graph->param[i].name, golden_params[i]);
    assert_int_equal(graph->params, GOLDEN);
    static const char *const others[] = {
        "input",         "1.relu2",       "2.pool",           "3.block1.add",
        "3.block1.relu", "4.layer1.relu", "4.layer1.dropout", "4.layer1.concat",
        "6.flatten",     "6.relu",        "6.dropout",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_true(has(graph, others[i]));
    ole_graph_free(graph);
}

/* ---- Tokens ------------------------------------------------------------------------------- */

static void test_vgg_shapes(void **state) {
    (void)state;
    ole_graph *graph = parse("C4-MP(x2)-C6[s2]-AP-FC5", 3, 33, 18);
    assert_shape(graph, "1.relu", 4, 33, 18);
    assert_shape(graph, "2.pool1", 4, 16, 9);
    assert_shape(graph, "2.pool2", 4, 8, 4);
    assert_shape(graph, "3.conv", 6, 4, 2);
    assert_shape(graph, "4.pool", 6, 1, 1);
    assert_int_equal(find(graph, "4.pool")->kernel, 0);
    assert_shape(graph, "5.flatten", 6, 1, 1);
    assert_shape(graph, "classifier", 10, 1, 1);
    assert_int_equal(graph->features, index_of(graph, "5.relu"));
    ole_graph_free(graph);
}

static void test_features_are_flat(void **state) {
    (void)state;
    ole_graph *graph = parse("C4-MP", 3, 8, 6);
    assert_int_equal(graph->features, index_of(graph, "flatten"));
    assert_int_equal(graph->node[graph->features].token, 0);
    assert_shape(graph, "flatten", 4 * 4 * 3, 1, 1);
    assert_int_equal(graph->token_node[2], index_of(graph, "2.pool"));
    ole_graph_free(graph);
    graph = parse("FC7", 784, 1, 1); /* vectors, not images */
    assert_shape(graph, "1.flatten", 784, 1, 1);
    assert_int_equal(graph->features, index_of(graph, "1.relu"));
    ole_graph_free(graph);
}

static void test_modifiers(void **state) {
    (void)state;
    ole_graph *graph = parse("C8[k5]-C8[k5,s2,p1,nobn]-C8[k1,norelu,nobias]-C8[noaffine,d0.25](x2)"
                             "-CO6[k2,p0]-MP[k3,s2,p1]-AP[k2]",
                             3, 20, 20);
    assert_shape(graph, "1.conv", 8, 20, 20);
    assert_shape(graph, "2.conv", 8, 9, 9);
    assert_false(has(graph, "2.norm"));
    assert_true(has(graph, "2.relu"));
    assert_true(find(graph, "2.conv")->bias);
    assert_shape(graph, "3.conv", 8, 9, 9);
    assert_false(has(graph, "3.relu"));
    assert_false(find(graph, "3.conv")->bias);
    assert_int_equal(find(graph, "3.conv")->params, 1);
    assert_false(find(graph, "4.norm2")->affine);
    assert_int_equal(find(graph, "4.norm2")->params, 2);
    assert_true(find(graph, "4.dropout2")->rate == 0.25f);
    assert_shape(graph, "5.conv", 6, 8, 8);
    assert_false(has(graph, "5.norm"));
    assert_shape(graph, "6.pool", 6, 4, 4);
    assert_shape(graph, "7.pool", 6, 2, 2);
    ole_graph_free(graph);
}

/* The modifiers and the repetition stand in any order; d0 is no dropout. */
static void test_suffixes(void **state) {
    (void)state;
    ole_graph *graph = parse("C8(x2)[nobn,d0]-FCD4-FCD4[d0]-FCD4[d.75]", 3, 4, 4);
    assert_true(has(graph, "1.conv2"));
    assert_int_equal(count_ops(graph, OLE_OP_NORM), 0);
    assert_int_equal(count_ops(graph, OLE_OP_DROPOUT), 2);
    assert_true(find(graph, "2.dropout")->rate == 0.5f);
    assert_true(find(graph, "4.dropout")->rate == 0.75f);
    ole_graph_free(graph);
}

static void test_repetition(void **state) {
    (void)state;
    ole_graph *once = parse("C8-C8-C8-FC4-FC4", 3, 4, 4), *many = parse("C8(x3)-FC4(x2)", 3, 4, 4);
    assert_int_equal(once->nodes, many->nodes);
    assert_int_equal(once->params, many->params);
    for (int i = 0; i < once->params; i++)
        assert_int_equal(once->param[i].count, many->param[i].count);
    assert_int_equal(many->tokens, 2);
    assert_int_equal(many->token_node[1], once->token_node[3]);
    ole_graph_free(once);
    ole_graph_free(many);
}

static void test_residual_stages(void **state) {
    (void)state;
    ole_graph *graph = parse("C16[nobias]-R16/4(x2)-R32/8(x2)-R32/8[s1]", 3, 8, 8);
    assert_false(has(graph, "2.block1.shortcut.conv")); /* 16 channels already */
    assert_shape(graph, "2.block2.relu", 16, 8, 8);
    assert_int_equal(find(graph, "3.block1.conv1")->stride, 1);
    assert_int_equal(find(graph, "3.block1.conv2")->stride, 2);
    assert_int_equal(find(graph, "3.block1.shortcut.conv")->stride, 2);
    assert_int_equal(find(graph, "3.block1.shortcut.conv")->input[0],
                     index_of(graph, "2.block2.relu"));
    assert_int_equal(find(graph, "3.block1.add")->input[0], index_of(graph, "3.block1.norm3"));
    assert_int_equal(find(graph, "3.block1.add")->input[1],
                     index_of(graph, "3.block1.shortcut.norm"));
    assert_int_equal(find(graph, "3.block2.conv2")->stride, 1);
    assert_int_equal(find(graph, "3.block2.add")->input[1], index_of(graph, "3.block1.relu"));
    assert_shape(graph, "4.block1.relu", 32, 4, 4);
    ole_graph_free(graph);
}

/* The shortcut reads what the block reads, before norm and ReLU, and has no norm of its own. */
static void test_preactivation(void **state) {
    (void)state;
    ole_graph *graph = parse("CO4-PR16/4-PR32/8-BN-ReLU", 3, 8, 8);
    assert_int_equal(find(graph, "2.block1.norm1")->input[0], index_of(graph, "1.conv"));
    assert_int_equal(find(graph, "2.block1.shortcut.conv")->input[0], index_of(graph, "1.conv"));
    assert_false(has(graph, "2.block1.shortcut.norm"));
    assert_int_equal(find(graph, "3.block1.add")->input[1],
                     index_of(graph, "3.block1.shortcut.conv"));
    assert_int_equal(graph->token_node[2], index_of(graph, "2.block1.add"));
    assert_shape(graph, "3.block1.add", 32, 4, 4);
    ole_graph_free(graph);
}

/* Without a projection the shortcut has no weights: every other pixel, zeros around the channels.
 */
static void test_basic_blocks(void **state) {
    (void)state;
    ole_graph *graph = parse("C8-B8(x2)-B16[noproj]-B20[s1,noproj]-B20[s2,noproj]-B24", 3, 16, 16);
    check_graph(graph);
    assert_false(has(graph, "2.block1.conv3"));
    assert_int_equal(find(graph, "2.block1.add")->input[1], index_of(graph, "1.relu"));
    assert_int_equal(find(graph, "3.block1.conv1")->stride, 2);
    assert_int_equal(find(graph, "3.block1.conv2")->stride, 1);
    assert_shape(graph, "3.block1.shortcut.pool", 8, 8, 8);
    assert_int_equal(find(graph, "3.block1.shortcut.pool")->kernel, 1);
    assert_shape(graph, "3.block1.shortcut.pad", 16, 8, 8);
    assert_int_equal(find(graph, "3.block1.shortcut.pad")->params, 0);
    assert_false(has(graph, "4.block1.shortcut.pool"));
    assert_shape(graph, "4.block1.shortcut.pad", 20, 8, 8);
    assert_false(has(graph, "5.block1.shortcut.pad"));
    assert_shape(graph, "5.block1.shortcut.pool", 20, 4, 4);
    assert_int_equal(find(graph, "6.block1.add")->input[1],
                     index_of(graph, "6.block1.shortcut.norm"));
    assert_shape(graph, "6.block1.relu", 24, 2, 2);
    ole_graph_free(graph);
}

/* Where the shape changes, the shortcut reads what the first convolution reads. */
static void test_basic_preactivation(void **state) {
    (void)state;
    ole_graph *graph = parse("CO4-PB16(x2)-PB16[s2]-BN-ReLU", 3, 8, 8);
    check_graph(graph);
    assert_int_equal(find(graph, "2.block1.shortcut.conv")->input[0],
                     index_of(graph, "2.block1.relu1"));
    assert_false(has(graph, "2.block1.shortcut.norm"));
    assert_int_equal(find(graph, "2.block2.add")->input[1], index_of(graph, "2.block1.add"));
    assert_int_equal(find(graph, "3.block1.shortcut.conv")->stride, 2);
    assert_shape(graph, "3.block1.add", 16, 4, 4);
    ole_graph_free(graph);
}

static void test_dense(void **state) {
    (void)state;
    ole_graph *graph = parse("CO8-D16/4-CR12-D16/4[d0.2]-BN16", 3, 8, 8);
    assert_int_equal(find(graph, "2.layer2.concat")->input[0], index_of(graph, "2.layer1.concat"));
    assert_int_equal(find(graph, "2.layer2.concat")->input[1], index_of(graph, "2.layer2.conv"));
    assert_int_equal(find(graph, "2.layer2.norm")->in.c, 12);
    assert_shape(graph, "2.layer2.concat", 16, 8, 8);
    assert_shape(graph, "3.pool", 12, 4, 4);
    assert_int_equal(find(graph, "4.layer1.concat")->input[1], index_of(graph, "4.layer1.dropout"));
    assert_shape(graph, "5.norm", 16, 4, 4);
    ole_graph_free(graph);
}

/* ---- Merged ReLUs ------------------------------------------------------------------------- */

static void test_fuse(void **state) {
    (void)state;
    ole_graph *graph = parse("C16-R16/4-PR16/4-BN-ReLU-FC4", 3, 8, 8);
    int before = graph->nodes;
    ole_error error;
    assert_ok(ole_graph_fuse(graph, false, &error), &error);
    check_graph(graph);
    static const char *const merged[] = {"1.norm",         "2.block1.norm1", "2.block1.norm2",
                                         "2.block1.add",   "3.block1.norm1", "3.block1.norm2",
                                         "3.block1.norm3", "6.norm"};
    int count = sizeof merged / sizeof *merged;
    for (int i = 0; i < count; i++)
        assert_true(find(graph, merged[i])->relu);
    assert_int_equal(graph->nodes, before - count);
    assert_false(find(graph, "2.block1.norm3")->relu);
    assert_false(find(graph, "3.block1.add")->relu);
    assert_false(find(graph, "4.norm")->relu); /* its ReLU is a token of its own */
    assert_int_equal(count_ops(graph, OLE_OP_RELU), 1);
    assert_int_equal(graph->token_node[1], index_of(graph, "1.norm"));
    assert_int_equal(graph->token_node[2], index_of(graph, "2.block1.add"));
    assert_int_equal(graph->features, index_of(graph, "6.norm"));
    assert_int_equal(find(graph, "3.block1.norm1")->input[0], index_of(graph, "2.block1.add"));
    int nodes = graph->nodes;
    assert_ok(ole_graph_fuse(graph, false, &error), &error);
    assert_int_equal(graph->nodes, nodes);
    ole_graph_free(graph);
}

/* A ReLU behind a convolution, a pool or another ReLU stays. */
static void test_fuse_leaves(void **state) {
    (void)state;
    ole_graph *graph = parse("C4[nobn]-C4-ReLU-MP-ReLU", 3, 8, 8);
    ole_error error;
    assert_ok(ole_graph_fuse(graph, false, &error), &error);
    check_graph(graph);
    assert_true(has(graph, "1.relu") && has(graph, "3.relu") && has(graph, "5.relu"));
    assert_false(has(graph, "2.relu"));
    ole_graph_free(graph);
}

/* ---- Costs -------------------------------------------------------------------------------- */

static void test_costs(void **state) {
    (void)state;
    static const ole_net_layer expected[] = {
        {"input", "input", 0, 3, 8, 8, 0, 0, 192},
        {"1.conv", "conv 3x3", 1, 4, 8, 8, 112, 2 * 256 * 27 + 256, 256},
        {"1.norm", "norm", 1, 4, 8, 8, 8, 512, 256},
        {"1.relu", "relu", 1, 4, 8, 8, 0, 256, 256},
        {"1.dropout", "dropout 0.5", 1, 4, 8, 8, 0, 0, 256},
        {"2.pool", "max pool 2x2 /2", 2, 4, 4, 4, 0, 256, 64},
        {"3.conv", "conv 3x3 /2", 3, 2, 2, 2, 72, 2 * 8 * 36, 8},
        {"4.pool", "avg pool", 4, 2, 1, 1, 0, 8, 2},
        {"flatten", "flatten", 0, 2, 1, 1, 0, 0, 2},
        {"classifier", "linear", 0, 10, 1, 1, 30, 50, 10},
    };
    enum { LAYERS = sizeof expected / sizeof *expected };
    ole_net *net;
    ole_error error;
    assert_ok(ole_net_create(&net, "C4[d0.5]-MP-CO2[s2]-AP", 3, 8, 8, 10, &error), &error);
    assert_int_equal(ole_net_layers(net), LAYERS);
    ole_net_sums sums = {0};
    for (int i = 0; i < LAYERS; i++) {
        ole_net_layer layer = ole_net_get_layer(net, i);
        assert_string_equal(layer.name, expected[i].name);
        assert_string_equal(layer.kind, expected[i].kind);
        assert_int_equal(layer.token, expected[i].token);
        assert_true(layer.channels == expected[i].channels && layer.height == expected[i].height &&
                    layer.width == expected[i].width);
        assert_int_equal(layer.weights, expected[i].weights);
        assert_int_equal(layer.flop, expected[i].flop);
        assert_int_equal(layer.activations, expected[i].activations);
        sums.weights += layer.weights;
        sums.flop += layer.flop;
        sums.activations += layer.activations;
    }
    ole_net_sums totals = ole_net_totals(net);
    assert_true(totals.weights == sums.weights && totals.flop == sums.flop &&
                totals.activations == sums.activations && totals.features == 2);
    ole_net_destroy(net);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zoo_weights),
        cmocka_unit_test(test_zoo_is_all_tested),
        cmocka_unit_test(test_every_graph),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_vgg_shapes),
        cmocka_unit_test(test_features_are_flat),
        cmocka_unit_test(test_modifiers),
        cmocka_unit_test(test_suffixes),
        cmocka_unit_test(test_repetition),
        cmocka_unit_test(test_residual_stages),
        cmocka_unit_test(test_preactivation),
        cmocka_unit_test(test_basic_blocks),
        cmocka_unit_test(test_basic_preactivation),
        cmocka_unit_test(test_dense),

        cmocka_unit_test(test_fuse),
        cmocka_unit_test(test_fuse_leaves),
        cmocka_unit_test(test_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
