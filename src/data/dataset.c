/*
 * src/data/dataset.c - from NAME[:PATH] to an open data set: the table of readers, the options, the
 * samples.
 */
#include "data/dataset.h"

#include "base/error.h"
#include "base/quote.h"
#include "base/struct_size.h"
#include "data/find.h"
#include "data/formats/stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_RESIZE = 4096, MAX_THREADS = 1024 };

static const ole_reader folder_reader = {
    .name = "folder", .read = ole_read_folder, .probe_shape = ole_probe_folder};
static const ole_reader npy_reader = {
    .name = "npy", .read = ole_read_npy, .probe_shape = ole_probe_npy};

static const ole_reader *const readers[] = {
    &ole_digits,   &ole_mnist, &ole_fashion_mnist, &ole_svhn,   &ole_cifar10,
    &ole_cifar100, &ole_stl10, &folder_reader,     &npy_reader,
};

const ole_reader *ole_find_reader(const char *name, const char **rest, ole_error *error) {
    size_t length = strcspn(name, ":");
    *rest = name[length] ? name + length + 1 : NULL;
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (strlen(readers[i]->name) == length && memcmp(readers[i]->name, name, length) == 0)
            return readers[i];
    struct stat about;
    if (stat(name, &about) == 0 && S_ISDIR(about.st_mode))
        ole_fail(error, OLE_ERROR_ARGUMENT,
                 "%s: not a data set; a folder with one subfolder of images per class is written "
                 "folder:%s",
                 ole_quote_string(name).text, ole_quote_string(name).text);
    else
        ole_fail(error, OLE_ERROR_ARGUMENT,
                 "%s: unknown data set; choose digits, mnist, fashion-mnist, svhn, cifar10, "
                 "cifar100, stl10, folder:PATH or npy:X.npy,y.npy",
                 ole_quote(name, length).text);
    return NULL;
}

/* ---- Options ------------------------------------------------------------------------------ */

static const ole_dataset_options defaults = {
    .struct_size = sizeof(ole_dataset_options),
    .test_share = 0.2,
    .threads = 1,
};

void ole_dataset_options_init_sized(ole_dataset_options *options, size_t struct_size) {
    ole_struct_fill(options, struct_size, &defaults);
}

static ole_status check_options(const ole_dataset_options *o, ole_error *error) {
    static const char *const names[] = {"validation", "test_share", "calibration"};
    const double shares[] = {o->validation, o->test_share, o->calibration};
    for (int i = 0; i < 3; i++)
        if (!(shares[i] >= 0 && shares[i] < 1))
            return ole_fail(error, OLE_ERROR_ARGUMENT,
                            "options.%s is %g; must be a share from 0 to less than 1", names[i],
                            shares[i]);
    if (o->samples_per_class < 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.samples_per_class is %" PRId64 "; must be 0 (all) or more",
                        o->samples_per_class);
    if (o->resize < 0 || o->resize > MAX_RESIZE)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "options.resize is %d; must be 0 to %d",
                        o->resize, MAX_RESIZE);
    if (o->resize_width < 0 || o->resize_width > MAX_RESIZE || (o->resize_width && !o->resize))
        return ole_fail(
            error, OLE_ERROR_ARGUMENT,
            "options.resize_width is %d; must be 0 to %d, with the height in options.resize",
            o->resize_width, MAX_RESIZE);
    if (o->channels != 0 && o->channels != 1 && o->channels != 3)
        return ole_fail(
            error, OLE_ERROR_ARGUMENT,
            "options.channels is %d; must be 1 (grey), 3 (colour) or 0 (as in the files)",
            o->channels);
    if (o->align && *o->align && !o->resize)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.align needs the size of the images in options.resize");
    if (o->threads < 1 || o->threads > MAX_THREADS)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "options.threads is %d; must be 1 to %d",
                        o->threads, MAX_THREADS);
    return OLE_OK;
}

/* ---- Opening ------------------------------------------------------------------------------ */

static ole_status describe(ole_dataset *set, ole_error *error) {
    const ole_source *source = &set->source;
    const ole_splits *splits = &set->splits;
    set->class_names = malloc((size_t)splits->classes * sizeof *set->class_names);
    if (!set->class_names) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int c = 0; c < splits->classes; c++)
        set->class_names[c] = source->class_names[splits->class[c]];
    ole_dataset_info *info = &set->info;
    info->channels = source->channels;
    info->height = source->height;
    info->width = source->width;
    info->bytes = !source->floating;
    info->classes = splits->classes;
    info->class_names = set->class_names;
    info->skipped = source->skipped;
    info->passed_over = source->passed_over;
    info->sizes = source->sizes;
    memcpy(info->count, splits->count, sizeof info->count);
    return OLE_OK;
}

ole_status ole_dataset_take(ole_dataset **set, const char *name, ole_source *source,
                            const ole_dataset_options *options, ole_error *error) {
    *set = NULL;
    ole_dataset *made = calloc(1, sizeof *made);
    if (!made) {
        ole_source_free(source);
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    }
    made->info.name = name;
    made->source = *source;
    *source = (ole_source){0};
    ole_status status =
        ole_splits_make(&made->splits, &made->source, name, options ? options : &defaults, error);
    if (status == OLE_OK) status = describe(made, error);
    if (status == OLE_OK)
        *set = made;
    else
        ole_dataset_close(made);
    return status;
}

static ole_status read_part(const ole_reader *reader, const char *folder, const char *const *files,
                            ole_source *source, ole_error *error) {
    ole_status status = OLE_OK;
    for (int i = 0; status == OLE_OK && files[i]; i++) {
        char path[OLE_PATH_ROOM];
        ole_stream stream = {0};
        status = ole_find_file(path, folder, files[i], error);
        if (status == OLE_OK) status = ole_stream_open(&stream, path, error);
        if (status == OLE_OK) status = reader->read_file(&stream, i, source, error);
        ole_stream_close(&stream);
    }
    return status;
}

static ole_status read_parts(const ole_reader *reader, const char *given, ole_source *source,
                             ole_error *error) {
    char folder[OLE_PATH_ROOM];
    ole_status status = ole_find_folder(folder, reader, given, error);
    source->channels = reader->shape[0];
    source->height = reader->shape[1];
    source->width = reader->shape[2];
    if (status == OLE_OK)
        status = ole_source_name_all(source, reader->classes, reader->class_names, error);
    if (status == OLE_OK) status = read_part(reader, folder, reader->train, source, error);
    source->train_count = source->count;
    if (status == OLE_OK) status = read_part(reader, folder, reader->test, source, error);
    return status;
}

ole_status ole_dataset_open(ole_dataset **set, const char *name, const ole_dataset_options *options,
                            ole_error *error) {
    if (!set) return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_dataset_open: set is NULL");
    *set = NULL;
    if (!name) return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_dataset_open: name is NULL");
    ole_dataset_options o = defaults;
    ole_status status = ole_struct_read(&o, options, OLE_SIZE_UP_TO(ole_dataset_options, apart),
                                        "ole_dataset_options_init", error);
    if (status == OLE_OK) status = check_options(&o, error);
    if (status != OLE_OK) return status;
    const char *path;
    const ole_reader *reader = ole_find_reader(name, &path, error);
    if (!reader) return OLE_ERROR_ARGUMENT;
    ole_source source = {0};
    status = reader->read ? reader->read(path, &o, &source, error)
                          : read_parts(reader, path, &source, error);
    if (status == OLE_OK) return ole_dataset_take(set, reader->name, &source, &o, error);
    ole_source_free(&source);
    return status;
}

void ole_dataset_close(ole_dataset *set) {
    if (!set) return;
    ole_splits_free(&set->splits);
    ole_source_free(&set->source);
    free(set->class_names);
    free(set);
}

ole_status ole_dataset_probe(const char *name, const char *apart, ole_probe *probe,
                             ole_error *error) {
    const char *path;
    char folder[OLE_PATH_ROOM];
    const ole_reader *reader = ole_find_reader(name, &path, error);
    if (!reader) return OLE_ERROR_ARGUMENT;
    *probe = (ole_probe){
        .channels = reader->shape[0], .height = reader->shape[1], .width = reader->shape[2]};
    if (reader->probe_shape) return reader->probe_shape(path, apart, probe, error);
    return reader->read_file ? ole_find_folder(folder, reader, path, error) : OLE_OK;
}

/* ---- Looking at it ------------------------------------------------------------------------ */

const ole_dataset_info *ole_dataset_get_info(const ole_dataset *set) {
    return set ? &set->info : NULL;
}

const int32_t *ole_dataset_labels(const ole_dataset *set, ole_split split) {
    return set && ole_is_split(split) ? set->splits.labels[split] : NULL;
}

const char *ole_dataset_file_name(const ole_dataset *set, ole_split split, int64_t i) {
    if (!set || !ole_is_split(split) || i < 0 || i >= set->splits.count[split] ||
        !set->source.files)
        return NULL;
    return set->source.files[set->splits.index[split][i]] + set->source.folder_length;
}

int64_t ole_dataset_row(const ole_dataset *set, ole_split split, int64_t i) {
    if (!set || !ole_is_split(split) || i < 0 || i >= set->splits.count[split]) return -1;
    int64_t number = set->splits.index[split][i], train = set->source.train_count;
    return number < train ? number : number - train;
}

ole_status ole_dataset_sample(const ole_dataset *set, ole_split split, int64_t i, float *out,
                              ole_error *error) {
    if (!set || !out || !ole_is_split(split))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_dataset_sample: set or out is NULL, or split is %d", (int)split);
    if (i < 0 || i >= set->splits.count[split])
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_dataset_sample: there is no sample %" PRId64
                        ": the split has %" PRId64,
                        i, set->splits.count[split]);
    ole_source_as_floats(&set->source, set->splits.index[split][i], 1, out);
    return OLE_OK;
}

ole_status ole_dataset_locate(const char *name, char *path, size_t capacity, ole_error *error) {
    if (!name || !path || capacity == 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_dataset_locate: name or path is NULL, or capacity is 0");
    const char *given;
    const ole_reader *reader = ole_find_reader(name, &given, error);
    if (!reader) return OLE_ERROR_ARGUMENT;
    char folder[OLE_PATH_ROOM] = "";
    ole_status status = OLE_OK;
    if (reader->read_file)
        status = ole_find_folder(folder, reader, given, error);
    else if (given)
        status = ole_join_path(folder, given, "", error);
    size_t length = strlen(folder);
    if (status == OLE_OK && length >= capacity)
        status = ole_fail(error, OLE_ERROR_ARGUMENT,
                          "ole_dataset_locate: capacity is %zu, the path needs %zu", capacity,
                          length + 1);
    if (status == OLE_OK) memcpy(path, folder, length + 1);
    return status;
}
