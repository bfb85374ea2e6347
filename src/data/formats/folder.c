/*
 * src/data/formats/folder.c - a folder of images: one sub-folder per class, named after it.
 *
 *     photos/cat/1.png  photos/dog/a.jpg ...
 *     photos/train/cat/1.png  photos/test/cat/2.png ...     (with a test part of its own)
 *
 * Classes and files are taken in the order of their names' bytes.  All images are decoded once,
 * here, and kept as bytes of one size.  Files that are not called .png, .jpg, .jpeg, .pgm, .ppm or
 * .pnm, and hidden ones, are skipped.
 */
#include "base/error.h"
#include "base/pool.h"
#include "base/quote.h"
#include "data/find.h"
#include "data/images/image.h"
#include "data/images/image_name.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_CLASSES = 1 << 20 };

/* ---- Lists of names ----------------------------------------------------------------------- */

typedef struct name_list {
    char **names;
    int64_t count, capacity;
    int64_t others; /* entries that were not taken */
} name_list;

static void free_names(name_list *list) {
    for (int64_t i = 0; i < list->count; i++)
        free(list->names[i]);
    free(list->names);
    *list = (name_list){0};
}

static ole_status add_name(name_list *list, const char *name, ole_error *error) {
    if (list->count == list->capacity) {
        int64_t capacity = list->capacity ? 2 * list->capacity : 64;
        char **names = realloc(list->names, (size_t)capacity * sizeof *names);
        if (!names) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for file names");
        list->names = names;
        list->capacity = capacity;
    }
    list->names[list->count] = strdup(name);
    if (!list->names[list->count])
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for file names");
    list->count++;
    return OLE_OK;
}

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_folder(const char *folder, const char *name) {
    char path[OLE_PATH_ROOM];
    struct stat about;
    return ole_join_path(path, folder, name, NULL) == OLE_OK && stat(path, &about) == 0 &&
           S_ISDIR(about.st_mode);
}

static bool is_image(const char *folder, const char *name) {
    return ole_image_named(name) && !is_folder(folder, name);
}

/* The entries of a folder that `wanted` accepts, sorted, and how many others there are; hidden ones
 * are neither. */
static ole_status list_folder(const char *folder, bool (*wanted)(const char *, const char *),
                              name_list *list, ole_error *error) {
    ole_quoted quoted;
    DIR *dir = opendir(folder);
    if (!dir)
        return ole_fail(error, OLE_ERROR_IO, "%s: cannot open the folder: %s",
                        ole_quote_string(&quoted, folder), strerror(errno));
    ole_status status = OLE_OK;
    for (struct dirent *entry; status == OLE_OK && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.') continue;
        if (wanted(folder, entry->d_name))
            status = add_name(list, entry->d_name, error);
        else
            list->others++;
    }
    closedir(dir);
    if (list->count > 0) qsort(list->names, (size_t)list->count, sizeof *list->names, compare);
    return status;
}

/* ---- What there is to read ---------------------------------------------------------------- */

typedef struct file_list {
    name_list paths;
    int32_t *labels; /* [paths.capacity] as it was when last grown */
    int64_t train_count;
    bool has_test;
    int64_t passed_over; /* what is no image in a class, images beside the classes */
} file_list;

/* A class without images; one of folders is often a part, or above the classes. */
static ole_status fail_empty(const char *folder, ole_error *error) {
    name_list folders = {0};
    ole_status status = list_folder(folder, is_folder, &folders, error);
    ole_quoted quoted;
    if (status == OLE_OK && folders.count > 0)
        status = ole_fail(error, OLE_ERROR_DATA,
                          "%s: a class of folders, without images: name the folder right above the "
                          "classes, or one with train/CLASS and test/CLASS in it",
                          ole_quote_string(&quoted, folder));
    else if (status == OLE_OK)
        status = ole_fail(error, OLE_ERROR_DATA,
                          "%s: there are no images in this class: add png, jpeg, pgm or ppm files, "
                          "or remove the folder",
                          ole_quote_string(&quoted, folder));
    free_names(&folders);
    return status;
}

/* The images of one class. */
static ole_status list_class(const char *folder, int label, file_list *files, ole_error *error) {
    name_list images = {0};
    ole_status status = list_folder(folder, is_image, &images, error);
    if (status == OLE_OK && images.count == 0) status = fail_empty(folder, error);
    files->passed_over += images.others;
    int64_t first = files->paths.count;
    for (int64_t i = 0; status == OLE_OK && i < images.count; i++) {
        char path[OLE_PATH_ROOM];
        status = ole_join_path(path, folder, images.names[i], error);
        if (status == OLE_OK) status = add_name(&files->paths, path, error);
    }
    if (status == OLE_OK) {
        int32_t *labels = realloc(files->labels, (size_t)files->paths.count * sizeof *labels);
        if (!labels) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for labels");
        if (labels) files->labels = labels;
        for (int64_t i = first; labels && i < files->paths.count; i++)
            labels[i] = label;
    }
    free_names(&images);
    return status;
}

/* ---- Which folders are classes ------------------------------------------------------------ */

/* The name of the folder in `root` that `apart` is or lies in; "" for none. */
static void find_apart(const char *root, const char *apart, char name[NAME_MAX + 1]) {
    char *outer = realpath(root, NULL), *inner = apart ? realpath(apart, NULL) : NULL;
    size_t length = outer && inner ? strlen(outer) : 0;
    bool inside = length > 0 && strncmp(inner, outer, length) == 0 && inner[length] == '/';
    const char *at = inside ? inner + length + 1 : "";
    snprintf(name, NAME_MAX + 1, "%.*s", (int)strcspn(at, "/"), at);
    free(outer);
    free(inner);
}

static bool has_file(const char *folder, const char *name) {
    char path[OLE_PATH_ROOM];
    return ole_join_path(path, folder, name, NULL) == OLE_OK && access(path, F_OK) == 0;
}

/* The entries that are `wanted`, hidden ones never, up to so many. */
static int64_t count_entries(const char *folder, bool (*wanted)(const char *, const char *),
                             int64_t most) {
    DIR *dir = opendir(folder);
    int64_t count = 0;
    for (struct dirent *entry; dir && count < most && (entry = readdir(dir));)
        count += entry->d_name[0] != '.' && wanted(folder, entry->d_name);
    if (dir) closedir(dir);
    return count;
}

static bool has_recipe(const char *folder, const char *name) {
    char path[OLE_PATH_ROOM];
    return ole_join_path(path, folder, name, NULL) == OLE_OK && has_file(path, "config.yaml");
}

/* A run of training or a study that lies among the classes, or a folder of such. */
static bool is_run(const char *root, const char *name, const char *apart) {
    char folder[OLE_PATH_ROOM];
    if (ole_join_path(folder, root, name, NULL) != OLE_OK) return false;
    bool recipe = has_file(folder, "config.yaml");
    if (recipe && (has_file(folder, "metrics.jsonl") || has_file(folder, "study.json")))
        return true;
    if (count_entries(folder, is_image, 1) > 0) return false;
    return recipe || strcmp(name, apart) == 0 || count_entries(folder, has_recipe, 1) > 0;
}

static ole_status list_classes(const char *root, const char *apart, name_list *classes,
                               ole_error *error) {
    char name[NAME_MAX + 1];
    ole_status status = list_folder(root, is_folder, classes, error);
    int64_t kept = 0;
    find_apart(root, apart, name);
    for (int64_t i = 0; i < classes->count; i++)
        if (is_run(root, classes->names[i], name))
            free(classes->names[i]);
        else
            classes->names[kept++] = classes->names[i];
    classes->count = kept;
    return status;
}

/* All classes of a part; those of the test part must be classes of the training part. */
static ole_status list_part(const char *folder, const name_list *classes, const name_list *known,
                            file_list *files, ole_error *error) {
    ole_status status = OLE_OK;
    for (int64_t i = 0; status == OLE_OK && i < classes->count; i++) {
        char path[OLE_PATH_ROOM];
        ole_quoted quoted;
        int label = -1;
        for (int64_t k = 0; k < known->count && label < 0; k++)
            if (strcmp(known->names[k], classes->names[i]) == 0) label = (int)k;
        status = ole_join_path(path, folder, classes->names[i], error);
        if (status == OLE_OK && label < 0)
            status = ole_fail(error, OLE_ERROR_DATA,
                              "%s: this class has no folder of images to train on",
                              ole_quote_string(&quoted, path));
        if (status == OLE_OK) status = list_class(path, label, files, error);
    }
    if (status == OLE_OK) files->passed_over += count_entries(folder, is_image, INT64_MAX);
    return status;
}

static ole_status name_classes(const char *folder, const name_list *classes, ole_source *source,
                               ole_error *error) {
    ole_quoted quoted;
    if (classes->count == 0 || classes->count > MAX_CLASSES)
        return ole_fail(error, OLE_ERROR_DATA,
                        "%s: has %" PRId64 " sub-folders; it needs one for each class, with the "
                        "images in it",
                        ole_quote_string(&quoted, folder), classes->count);
    return ole_source_name_all(source, (int)classes->count, (const char *const *)classes->names,
                               error);
}

/* A test part with nothing to test on is a mistake: the training images are not what was meant. */
static ole_status check_test(const char *folder, int64_t images, ole_error *error) {
    ole_quoted quoted;
    if (images > 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_DATA,
                    "%s: has no image that can be read: put the test images there, a sub-folder a "
                    "class, or remove the folder and a share of those to train on is held out",
                    ole_quote_string(&quoted, folder));
}

/* root/CLASS/..., or root/train/CLASS/... and root/test/CLASS/... */
static ole_status list_files(const char *root, const char *apart, ole_source *source,
                             file_list *files, ole_error *error) {
    if (!root || !*root)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "folder: give the folder too, as in folder:photos");
    bool parts = is_folder(root, "train") && is_folder(root, "test");
    char train[OLE_PATH_ROOM], test[OLE_PATH_ROOM];
    name_list classes = {0}, test_classes = {0};
    ole_status status = ole_join_path(train, root, parts ? "train" : "", error);
    if (status == OLE_OK) status = ole_join_path(test, root, "test", error);
    if (status == OLE_OK) status = list_classes(train, apart, &classes, error);
    if (status == OLE_OK) status = name_classes(train, &classes, source, error);
    if (status == OLE_OK) status = list_part(train, &classes, &classes, files, error);
    files->train_count = files->paths.count;
    files->has_test = source->has_test = parts;
    if (status == OLE_OK && parts) status = list_classes(test, apart, &test_classes, error);
    if (status == OLE_OK && parts) status = list_part(test, &test_classes, &classes, files, error);
    if (status == OLE_OK && parts)
        status = check_test(test, files->paths.count - files->train_count, error);
    free_names(&classes);
    free_names(&test_classes);
    return status;
}

/* ---- Probing ------------------------------------------------------------------------------ */

static int compare_sides(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

/* The headers of all images; `sides` has room for their shorter sides. */
static ole_status read_headers(const file_list *files, int *sides, ole_probe *probe,
                               ole_error *error) {
    int64_t readable = 0;
    ole_error first = {0};
    for (int64_t i = 0; i < files->paths.count; i++) {
        ole_image image;
        ole_error reason;
        ole_status status = ole_image_probe(files->paths.names[i], &image, &reason);
        if (i == 0) first = reason;
        if (status != OLE_OK) continue;
        if (readable == 0)
            *probe = (ole_probe){
                .channels = image.channels, .height = image.height, .width = image.width};
        probe->sizes_differ |= image.height != probe->height || image.width != probe->width;
        probe->channels_differ |= image.channels != probe->channels;
        sides[readable++] = image.height < image.width ? image.height : image.width;
    }
    if (readable == 0) {
        if (error) *error = first;
        return first.status;
    }
    qsort(sides, (size_t)readable, sizeof *sides, compare_sides);
    probe->side = sides[readable / 2];
    probe->samples = files->train_count;
    probe->has_test = files->has_test;
    return OLE_OK;
}

ole_status ole_probe_folder(const char *path, const char *apart, ole_probe *probe,
                            ole_error *error) {
    file_list files = {0};
    ole_source source = {0}; /* takes the names of the classes */
    ole_status status = list_files(path, apart, &source, &files, error);
    int *sides = status == OLE_OK ? malloc((size_t)files.paths.count * sizeof *sides) : NULL;
    if (status == OLE_OK)
        status = sides ? read_headers(&files, sides, probe, error)
                       : ole_fail(error, OLE_ERROR_MEMORY, "out of memory for image sizes");
    free(sides);
    ole_source_free(&source);
    free_names(&files.paths);
    free(files.labels);
    return status;
}

/* ---- Decoding ----------------------------------------------------------------------------- */

typedef struct decoded {
    ole_status status;
    int height, width; /* as the file has them */
} decoded;

typedef struct decoding {
    const ole_dataset_options *options;
    file_list *files;
    ole_source *source;
    int64_t first;   /* the image that gave the shape */
    decoded *images; /* [files] */
} decoding;

/* Image i into its place. */
static ole_status decode_image(const decoding *d, int64_t i, ole_error *error) {
    ole_source *source = d->source;
    const char *path = d->files->paths.names[i];
    ole_image image;
    ole_status status = ole_image_read(path, source->channels, &image, error);
    if (status != OLE_OK) return status;
    d->images[i].height = image.height;
    d->images[i].width = image.width;
    bool same = image.width == source->width && image.height == source->height;
    if (same || d->options->resize > 0) {
        size_t one = (size_t)ole_source_sample_size(source);
        status = ole_image_fit(&image, source->height, source->width, source->channels,
                               source->bytes + (size_t)i * one);
        if (status != OLE_OK) ole_fail(error, status, "out of memory for an image");
    } else {
        ole_quoted quoted, other;
        status = ole_fail(error, OLE_ERROR_DATA,
                          "%s: is %dx%d pixels, %s is %dx%d: give one size for all "
                          "(--resize N, or options.resize)",
                          ole_quote_string(&quoted, path), image.width, image.height,
                          ole_quote_string(&other, d->files->paths.names[d->first]), source->width,
                          source->height);
    }
    ole_image_free(&image);
    return status;
}

static void decode_task(void *context, int64_t task, int worker) {
    (void)worker;
    decoding *d = context;
    d->images[task].status = decode_image(d, task, NULL);
}

static bool is_bad_image(ole_status status) {
    return status == OLE_ERROR_FORMAT || status == OLE_ERROR_IO;
}

static bool may_skip(const decoding *d, ole_status status) {
    return d->options->skip_bad && is_bad_image(status);
}

/* Size and channels: as requested, else those of the first readable image. */
static ole_status find_shape(decoding *d, ole_error *error) {
    const ole_dataset_options *o = d->options;
    ole_source *source = d->source;
    ole_image image = {0};
    ole_status status = OLE_ERROR_FORMAT;
    for (d->first = 0; d->first < d->files->paths.count; d->first++) {
        status = ole_image_read(d->files->paths.names[d->first], o->channels, &image, error);
        if (!may_skip(d, status)) break;
    }
    if (status != OLE_OK) return status;
    source->channels = image.channels;
    int height = o->resize, width = o->resize_width > 0 ? o->resize_width : o->resize;
    source->height = height > 0 ? height : image.height;
    source->width = width > 0 ? width : image.width;
    ole_image_free(&image);
    return OLE_OK;
}

static void widen(ole_image_sizes *sizes, const decoded *image) {
    bool first = sizes->most_height == 0;
    if (first || image->height < sizes->least_height) sizes->least_height = image->height;
    if (first || image->width < sizes->least_width) sizes->least_width = image->width;
    if (image->height > sizes->most_height) sizes->most_height = image->height;
    if (image->width > sizes->most_width) sizes->most_width = image->width;
}

/* Moves the good images and their names to the front and counts the others; the first bad one is
 * the error. */
static ole_status keep_good(decoding *d, ole_error *error) {
    ole_source *source = d->source;
    size_t one = (size_t)ole_source_sample_size(source);
    char **names = d->files->paths.names;
    int64_t kept = 0, named = 0;
    source->train_count = 0;
    for (int64_t i = 0; i < d->files->paths.count; i++) {
        ole_status status = d->images[i].status;
        if (status != OLE_OK && !may_skip(d, status)) {
            ole_quoted quoted;
            ole_status again = decode_image(d, i, error);
            if (again != OLE_OK) return again;
            return ole_fail(error, status, "%s: could not be read at first: try again",
                            ole_quote_string(&quoted, names[i]));
        }
        if (status != OLE_OK) continue;
        widen(&source->sizes, &d->images[i]);
        if (kept != i)
            memcpy(source->bytes + (size_t)kept * one, source->bytes + (size_t)i * one, one);
        source->labels[kept++] = d->files->labels[i];
        if (i < d->files->train_count) source->train_count = kept;
    }
    for (int64_t i = 0; i < d->files->paths.count; i++) { /* later, as messages need the order */
        if (d->images[i].status != OLE_OK) continue;
        char *good = names[i];
        names[i] = names[named];
        names[named++] = good;
    }
    source->count = kept;
    source->skipped = d->files->paths.count - kept;
    source->passed_over = d->files->passed_over;
    return OLE_OK;
}

static ole_status decode_all(decoding *d, ole_error *error) {
    int64_t count = d->files->paths.count;
    ole_status status = find_shape(d, error);
    if (status == OLE_OK) status = ole_source_grow(d->source, count, error);
    if (status != OLE_OK) return status;
    d->images = malloc((size_t)count * sizeof *d->images);
    if (!d->images) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for file names");
    ole_pool *pool = NULL;
    status = ole_pool_create(&pool, d->options->threads, error);
    if (status == OLE_OK) {
        ole_pool_run(pool, count, decode_task, d);
        status = keep_good(d, error);
    }
    ole_pool_destroy(pool);
    free(d->images);
    return status;
}

ole_status ole_read_folder(const char *path, const ole_dataset_options *options, ole_source *source,
                           ole_error *error) {
    file_list files = {0};
    ole_status status = list_files(path, options->apart, source, &files, error);
    decoding d = {.options = options, .files = &files, .source = source};
    if (status == OLE_OK) {
        status = decode_all(&d, error);
        if (error && is_bad_image(status) && !options->skip_bad) {
            size_t used = strlen(error->message);
            snprintf(error->message + used, sizeof error->message - used,
                     "; --skip-bad leaves such images out");
        }
    }
    if (status == OLE_OK && source->has_test) { /* what --skip-bad has left of it */
        char test[OLE_PATH_ROOM];
        status = ole_join_path(test, path, "test", error);
        if (status == OLE_OK) status = check_test(test, source->count - source->train_count, error);
    }
    if (status == OLE_OK) { /* the names are the source's from now on */
        source->folder_length = strlen(path) + (path[strlen(path) - 1] != '/');
        source->files = files.paths.names;
        source->file_count = files.paths.count;
        files.paths = (name_list){0};
    }
    source->test_share = options->test_share;
    free_names(&files.paths);
    free(files.labels);
    return status;
}
