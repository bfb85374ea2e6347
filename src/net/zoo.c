/*
 * src/net/zoo.c - named networks as strings in the paper's notation: the paper's, and those that
 * photos and the literature on small images use. Also the default networks.
 *
 * cnn5, vgg11-release and vgg19-release are the nets of the authors' release, where it differs from
 * the printed table (cnn5-printed, vgg11, vgg19).  densenet40-dropout is the densenet40 of MNIST
 * and SVHN.  The toy MLPs apply batch norm and ReLU to their features too, so these lie in the
 * positive orthant.  docs/networks.md explains the notation.
 *
 * resnet20 to resnet110-basic are the CIFAR nets of He et al. with basic blocks and shortcuts
 * without weights; wrn are wide residual nets; resnet18-cifar is the ImageNet net without its
 * stem. resnet18 to vgg16bn-224 have torchvision's layers, in its order, so its weights fit.
 */
#include "net/zoo.h"

#include "ole/train/net.h"

#include <string.h>

/* clang-format off */

/* name, notation, and the paper's image shape: channels, height, width */
#define ZOO(NET)                                                                                   \
    NET("mlp3", "FC10(x3)-FC3", 3, 32, 32)                                                         \
    NET("mlp4", "FC100(x4)-FC3", 3, 32, 32)                                                        \
    NET("cnn5",                                                                                    \
        "C32[noaffine]-MP-C64[noaffine]-MP-C128[noaffine]-MP-C128[noaffine]-MP-"                   \
        "C256[p0,noaffine](x2)-MP",                                                                \
        3, 96, 96)                                                                                 \
    NET("cnn5-printed", "C32-MP-C64-MP-C128-MP-C256-C256-MP", 3, 96, 96)                           \
    NET("vgg11", "C64-MP-C128-MP-C256(x2)-MP-C512(x2)-MP-C512(x2)-MP-FC512", 3, 32, 32)            \
    NET("vgg16", "C64(x5)-MP-C128(x4)-MP-C256(x4)-MP-FC256", 3, 32, 32)                            \
    NET("vgg19", "C64(x2)-MP-C128(x2)-MP-C256(x4)-MP-C512(x4)-MP-C512(x4)-MP-FC512", 3, 32, 32)    \
    NET("vgg11-release", "C64-MP-C128-MP-C256(x2)-MP-C512(x2)-MP-C512(x2)-MP", 3, 32, 32)          \
    NET("vgg19-release", "C64(x2)-MP-C128(x2)-MP-C256(x4)-MP-C512(x4)-MP-C512(x4)-MP", 3, 32, 32)  \
    NET("vggface",                                                                                 \
        "C64[nobn](x2)-MP-C128[nobn](x2)-MP-C256[nobn](x3)-MP-C512[nobn](x3)-MP-C512[nobn](x3)-MP-"\
        "FCD4096(x2)-FC1024[nobn]",                                                                \
        3, 224, 224)                                                                               \
    NET("resnet110", "C16[nobias]-R64/16(x18)-R128/32(x18)-R256/64(x18)-AP", 3, 32, 32)            \
    NET("preresnet110",                                                                            \
        "C16[nobn,norelu,nobias]-PR64/16(x18)-PR128/32(x18)-PR256/64(x18)-BN-ReLU-AP", 3, 32, 32)  \
    NET("densenet40", "CO24-D168/12-CR168-D312/12-CR312-D456/12-BN456-ReLU-AP", 3, 32, 32)         \
    NET("densenet40-dropout",                                                                      \
        "CO24-D168/12[d0.2]-CR168[d0.2]-D312/12[d0.2]-CR312[d0.2]-D456/12[d0.2]-BN456-ReLU-AP",    \
        3, 32, 32)                                                                                 \
    NET("resnet20", CIFAR_RESNET("3"), 3, 32, 32)                                                  \
    NET("resnet32", CIFAR_RESNET("5"), 3, 32, 32)                                                  \
    NET("resnet44", CIFAR_RESNET("7"), 3, 32, 32)                                                  \
    NET("resnet56", CIFAR_RESNET("9"), 3, 32, 32)                                                  \
    NET("resnet110-basic", CIFAR_RESNET("18"), 3, 32, 32)                                          \
    NET("resnet18-cifar", "C64[nobias]-B64(x2)-B128(x2)-B256(x2)-B512(x2)-AP", 3, 32, 32)          \
    NET("wrn16-8",                                                                                 \
        "C16[nobn,norelu,nobias]-PB128(x2)-PB256(x2)-PB512(x2)-BN-ReLU-AP", 3, 32, 32)             \
    NET("wrn28-10",                                                                                \
        "C16[nobn,norelu,nobias]-PB160(x4)-PB320(x4)-PB640(x4)-BN-ReLU-AP", 3, 32, 32)             \
    NET("resnet18", STEM "-B64(x2)-B128(x2)-B256(x2)-B512(x2)-AP", 3, 224, 224)                    \
    NET("resnet34", STEM "-B64(x3)-B128(x4)-B256(x6)-B512(x3)-AP", 3, 224, 224)                    \
    NET("resnet50", STEM "-R256/64(x3)-R512/128(x4)-R1024/256(x6)-R2048/512(x3)-AP", 3, 224, 224)  \
    NET("resnet101", STEM "-R256/64(x3)-R512/128(x4)-R1024/256(x23)-R2048/512(x3)-AP", 3, 224, 224)\
    NET("vgg16-224",                                                                               \
        "C64[nobn](x2)-MP-C128[nobn](x2)-MP-C256[nobn](x3)-MP-C512[nobn](x3)-MP-C512[nobn](x3)-MP-"\
        "FCD4096(x2)",                                                                             \
        3, 224, 224)                                                                               \
    NET("vgg16bn-224",                                                                             \
        "C64(x2)-MP-C128(x2)-MP-C256(x3)-MP-C512(x3)-MP-C512(x3)-MP-FCD4096(x2)", 3, 224, 224)

/* The stem of the ImageNet ResNets, and the CIFAR ones with n blocks per stage. */
#define STEM "C64[k7,s2,nobias]-MP[k3,s2,p1]"
#define CIFAR_RESNET(n) "C16[nobias]-B16[noproj](x" n ")-B32[noproj](x" n ")-B64[noproj](x" n ")-AP"

/* clang-format on */

#define ENTRY(name, notation, c, h, w) {name, notation, {c, h, w}},
#define NAME(name, notation, c, h, w) name,

static const ole_zoo_entry zoo[] = {ZOO(ENTRY)};
const char *const ole_zoo_names[] = {ZOO(NAME) NULL};

const ole_zoo_entry *ole_zoo_find(const char *name) {
    for (size_t i = 0; i < sizeof zoo / sizeof *zoo; i++)
        if (strcmp(zoo[i].name, name) == 0) return &zoo[i];
    return NULL;
}

/* ---- Suggestions -------------------------------------------------------------------------- */

/*
 * The default network for a sample shape, used when none is named: small nets that train on a CPU
 * in minutes.  Each has 64 to 256 features for square images and vectors, few enough for OLÉ to be
 * fast.  With few photos a global average pool (AP) has a lower error than a linear layer after the
 * last pool: see docs/results-appendix.md.  docs/networks.md shows the same table.
 */

/*
 * The net for samples of size `from` and up: dimensions of a vector, or pixels of an image's
 * shorter side.
 */
typedef struct choice {
    int from;
    const char *net;
} choice;

static const choice of_vectors[] = {
    {1, "FC64(x2)"},
    {65, "FC256-FC128"},
    {513, "FC512-FC128"},
};

static const choice of_images[] = {
    {1, "FC128-FC64"},
    {8, "C32-MP-C64-MP-FC64"},
    {21, "C32(x2)-MP-C64(x2)-MP-C128(x2)-AP"},
    {49, "C32-MP-C64-MP-C128-MP-C256-AP"},
    {96, "C32-MP-C64-MP-C128-MP-C128-MP-C256-AP"},
    {128, "C32-MP-C64-MP-C128-MP-C128-MP-C256-MP-C256-AP"},
};

static const char *last_from(const choice *choices, size_t count, int size) {
    const char *net = choices[0].net;
    for (size_t i = 1; i < count && size >= choices[i].from; i++)
        net = choices[i].net;
    return net;
}

const char *ole_net_suggest(int channels, int height, int width) {
    if (height == 1 && width == 1)
        return last_from(of_vectors, sizeof of_vectors / sizeof *of_vectors, channels);
    return last_from(of_images, sizeof of_images / sizeof *of_images,
                     height < width ? height : width);
}
