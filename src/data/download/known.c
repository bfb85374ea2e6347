/*
 * src/data/download/known.c - the data sets of the paper: where their authors publish them, how
 * large the files are, what their checksums are, and how many samples they hold.
 *
 * MNIST's page no longer hands out its files, so a copy that is kept by others comes first; the
 * checksums are those of the original files.
 */
#include "data/download/known.h"

#include "base/error.h"
#include "base/quote.h"
#include "data/download/checksum.h"
#include "data/find.h"
#include "data/formats/stream.h"

#include <string.h>
#include <sys/stat.h>

static const ole_known_file nothing[] = {{0}};

static const ole_known_file mnist_files[] = {
    {"train-images-idx3-ubyte.gz", 9912422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"},
    {"train-labels-idx1-ubyte.gz", 28881, "d53e105ee54ea40749a09fcbcd1e9432"},
    {"t10k-images-idx3-ubyte.gz", 1648877, "9fb629c4189551a2d022fa330f9573f3"},
    {"t10k-labels-idx1-ubyte.gz", 4542, "ec29112dd5afa0611ce80d1b7f02629c"},
    {0},
};

static const ole_known_file fashion_files[] = {
    {"train-images-idx3-ubyte.gz", 26421880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"},
    {"train-labels-idx1-ubyte.gz", 29515, "25c81989df183df01b3e8a0aad5dffbe"},
    {"t10k-images-idx3-ubyte.gz", 4422102, "bef4ecab320f06d8554ea6380940ec79"},
    {"t10k-labels-idx1-ubyte.gz", 5148, "bb300cfdad3c16e7a12a480ee83cd310"},
    {0},
};

/* The same files unpacked, in the same order. */
static const ole_known_file mnist_unpacked[] = {
    {"train-images-idx3-ubyte", 47040016, "6bbc9ace898e44ae57da46a324031adb"},
    {"train-labels-idx1-ubyte", 60008, "a25bea736e30d166cdddb491f175f624"},
    {"t10k-images-idx3-ubyte", 7840016, "2646ac647ad5339dbf082846283269ea"},
    {"t10k-labels-idx1-ubyte", 10008, "27ae3e4e09519cfbb04c329615203637"},
};
static const ole_known_file fashion_unpacked[] = {
    {"train-images-idx3-ubyte", 47040016, "f4a8712d7a061bf5bd6d2ca38dc4d50a"},
    {"train-labels-idx1-ubyte", 60008, "9018921c3c673c538a1fc5bad174d6f9"},
    {"t10k-images-idx3-ubyte", 7840016, "8181f5470baa50b63fa0f6fddb340f0a"},
    {"t10k-labels-idx1-ubyte", 10008, "15d484375f8d13e6eb1aabb0c3f46965"},
};

static const ole_known_file svhn_files[] = {
    {"train_32x32.mat", 182040794, "e26dedcc434d2e4c54c9b2d4a06d8373"},
    {"test_32x32.mat", 64275384, "eb5a983be6a315427106f1b164d9cef3"},
    {0},
};

static const ole_known_file cifar10_archive[] = {
    {"cifar-10-binary.tar.gz", 170052171, "c32a1d4ab5d03f1284b67883e8d87530"},
    {0},
};
static const ole_known_file cifar10_files[] = {
    {"data_batch_1.bin", 30730000, "5dd7e06a14cb22eb9f671a540d1b7c25"},
    {"data_batch_2.bin", 30730000, "5ea93a67294ea407fff1d09f752e9692"},
    {"data_batch_3.bin", 30730000, "942cd6a4bcdd0dd3c604fbe906cb4421"},
    {"data_batch_4.bin", 30730000, "ae636b3ba5c66a11e91e8cb52e771fcb"},
    {"data_batch_5.bin", 30730000, "53f37980c15c3d472c316c40844f3f0d"},
    {"test_batch.bin", 30730000, "803d5f7f4d78ea53de84dbe85f74fb6d"},
    {0},
};

static const ole_known_file cifar100_archive[] = {
    {"cifar-100-binary.tar.gz", 168513733, "03b5dce01913d631647c71ecec9e9cb8"},
    {0},
};
static const ole_known_file cifar100_files[] = {
    {"train.bin", 153700000, NULL},
    {"test.bin", 30740000, NULL},
    {0},
};

static const ole_known_file stl10_archive[] = {
    {"stl10_binary.tar.gz", 2640397119, "91f7769df0f17e558f3565bffb0c7dfb"},
    {0},
};
static const ole_known_file stl10_files[] = {
    {"train_X.bin", 138240000, "918c2871b30a85fa023e0c44e0bee87f"},
    {"train_y.bin", 5000, "5a34089d4802c674881badbb80307741"},
    {"test_X.bin", 221184000, "7f263ba9f9e0b06b93213547f721ac82"},
    {"test_y.bin", 8000, "36f9794fa4beb8a2c72628de14fa638e"},
    {0},
};

static const char *const nowhere[] = {NULL};
static const char *const mnist_sources[] = {"https://storage.googleapis.com/cvdf-datasets/mnist",
                                            "https://ossci-datasets.s3.amazonaws.com/mnist",
                                            "http://yann.lecun.com/exdb/mnist", NULL};
static const char *const fashion_sources[] = {
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com", NULL};
static const char *const svhn_sources[] = {"http://ufldl.stanford.edu/housenumbers", NULL};
static const char *const cifar_sources[] = {"https://www.cs.toronto.edu/~kriz", NULL};
static const char *const stl10_sources[] = {"http://ai.stanford.edu/~acoates/stl10", NULL};

static const ole_known_dataset known[] = {
    {"digits", "1,797 handwritten digits, 8x8 grey, 10 classes; inside the library",
     "https://doi.org/10.24432/C50P49", "CC BY 4.0 (E. Alpaydin, C. Kaynak)", nowhere, nothing,
     nothing, 1258, 539},
    {"mnist", "70,000 handwritten digits, 28x28 grey, 10 classes",
     "http://yann.lecun.com/exdb/mnist", "CC BY-SA 3.0 (Y. LeCun, C. Cortes)", mnist_sources,
     mnist_files, mnist_files, 60000, 10000},
    {"fashion-mnist", "70,000 pieces of clothing, 28x28 grey, 10 classes",
     "https://github.com/zalandoresearch/fashion-mnist", "MIT (Zalando)", fashion_sources,
     fashion_files, fashion_files, 60000, 10000},
    {"svhn", "99,289 house-number digits, 32x32 colour, 10 classes",
     "http://ufldl.stanford.edu/housenumbers", "non-commercial use only (Y. Netzer et al.)",
     svhn_sources, svhn_files, svhn_files, 73257, 26032},
    {"cifar10", "60,000 photos, 32x32 colour, 10 classes",
     "https://www.cs.toronto.edu/~kriz/cifar.html", "cite A. Krizhevsky's report of 2009",
     cifar_sources, cifar10_archive, cifar10_files, 50000, 10000},
    {"cifar100", "60,000 photos, 32x32 colour, 100 classes",
     "https://www.cs.toronto.edu/~kriz/cifar.html", "cite A. Krizhevsky's report of 2009",
     cifar_sources, cifar100_archive, cifar100_files, 50000, 10000},
    {"stl10", "13,000 labelled photos, 96x96 colour, 10 classes",
     "https://cs.stanford.edu/~acoates/stl10",
     "cite A. Coates et al., AISTATS 2011; ImageNet's "
     "terms",
     stl10_sources, stl10_archive, stl10_files, 5000, 8000},
};
enum { KNOWN = sizeof known / sizeof *known };

const ole_known_dataset *ole_known_datasets(size_t *count) {
    if (count) *count = KNOWN;
    return known;
}

const ole_known_dataset *ole_known_find(const char *name, size_t length, ole_error *error) {
    for (size_t i = 0; i < KNOWN; i++)
        if (strlen(known[i].name) == length && memcmp(known[i].name, name, length) == 0)
            return &known[i];
    ole_fail(error, OLE_ERROR_ARGUMENT,
             "%s: unknown data set; 'ole data list' shows the known ones",
             ole_quote(name, length).text);
    return NULL;
}

const ole_known_file *ole_known_file_find(const ole_known_file *list, const char *name) {
    for (; list->name; list++)
        if (strcmp(list->name, name) == 0) return list;
    return NULL;
}

/* ---- Checking ----------------------------------------------------------------------------- */

ole_status ole_known_file_check(const char *folder, const ole_known_file *file,
                                ole_file_check *check, ole_error *error) {
    *check = (ole_file_check){.name = file->name, .state = OLE_FILE_MISSING};
    char path[OLE_PATH_ROOM], sum[OLE_SHA256_DIGITS + 1];
    struct stat about;
    ole_status status = ole_join_path(path, folder, file->name, error);
    if (status != OLE_OK || stat(path, &about) != 0) return status;
    status = ole_checksum_file(path, OLE_MD5_DIGITS, sum, error);
    if (status != OLE_OK) return status;
    check->size = about.st_size;
    memcpy(check->md5, sum, sizeof check->md5);
    bool size_differs = file->size > 0 && about.st_size != file->size;
    bool sum_differs = file->md5 && strcmp(file->md5, sum) != 0;
    check->state = size_differs || sum_differs ? OLE_FILE_DIFFERS
                   : file->md5                 ? OLE_FILE_GOOD
                                               : OLE_FILE_UNCHECKED;
    return OLE_OK;
}

/* Whether a packed file has the published content, such as if a distribution repacked it. */
static bool holds_published(const char *path, const ole_known_file *unpacked) {
    char bytes[1 << 15], text[OLE_SHA256_DIGITS + 1];
    ole_checksum sum;
    ole_stream stream;
    ole_status status = ole_stream_open(&stream, path, NULL);
    ole_checksum_begin(&sum, OLE_MD5_DIGITS);
    for (int64_t left = unpacked->size; status == OLE_OK && left > 0;) {
        size_t size = left < (int64_t)sizeof bytes ? (size_t)left : sizeof bytes;
        status = ole_stream_read(&stream, bytes, size, "the content", NULL);
        if (status == OLE_OK) ole_checksum_add(&sum, bytes, size);
        left -= (int64_t)size;
    }
    if (status == OLE_OK) status = ole_stream_end(&stream, NULL);
    ole_stream_close(&stream);
    ole_checksum_end(&sum, text);
    return status == OLE_OK && strcmp(text, unpacked->md5) == 0;
}

/* An idx file as it is when unpacked; NULL: the set has none. */
static const ole_known_file *unpacked_file(const ole_known_dataset *set,
                                           const ole_known_file *file) {
    const ole_known_file *unpacked = set->files == mnist_files     ? mnist_unpacked
                                     : set->files == fashion_files ? fashion_unpacked
                                                                   : NULL;
    return unpacked ? unpacked + (file - set->files) : NULL;
}

/* The file to read instead: an idx file may be unpacked, or have a dot in its name; `path` is then
 * that name. */
static ole_known_file find_read(const ole_known_file *file, const ole_known_file *unpacked,
                                const char *folder, char path[OLE_PATH_ROOM]) {
    if (!unpacked) return *file;
    if (ole_find_file(path, folder, unpacked->name, NULL) != OLE_OK) return *file;
    size_t length = strlen(path);
    bool packed = length > 3 && strcmp(path + length - 3, ".gz") == 0;
    const char *slash = strrchr(path, '/');
    ole_known_file there = packed ? *file : *unpacked;
    there.name = slash ? slash + 1 : path;
    return there;
}

ole_status ole_dataset_check(const char *name, ole_check_callback *callback, void *context,
                             ole_error *error) {
    if (!name || !callback)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_dataset_check: name or callback is NULL");
    const ole_known_dataset *set = ole_known_find(name, strcspn(name, ":"), error);
    if (!set) return OLE_ERROR_ARGUMENT;
    char folder[OLE_PATH_ROOM];
    ole_status status = ole_dataset_locate(name, folder, sizeof folder, error);
    for (const ole_known_file *file = set->files; status == OLE_OK && file->name; file++) {
        ole_file_check check;
        char path[OLE_PATH_ROOM];
        const ole_known_file *unpacked = unpacked_file(set, file);
        const ole_known_file there = find_read(file, unpacked, folder, path);
        status = ole_known_file_check(folder, &there, &check, error);
        bool differs = status == OLE_OK && check.state == OLE_FILE_DIFFERS;
        if (differs && unpacked && there.size == file->size && holds_published(path, unpacked))
            check.state = OLE_FILE_REPACKED;
        if (status == OLE_OK) callback(context, &check);
    }
    return status;
}
