/*
 * src/data/formats/folder.c - a folder of images: one subfolder per class, named after it.
 *
 *     photos/cat/1.png  photos/dog/a.jpg ...
 *     photos/train/cat/1.png  photos/test/cat/2.png ...     (with a test part of its own)
 *
 * Classes and files are taken in the order of their names' bytes.  All images are decoded once,
 * here, and kept as bytes of one size.  Files that are not named as images, and hidden ones, are
 * skipped.
 */
#include "base/error.h"
#include "base/pool.h"
#include "base/quote.h"
#include "data/find.h"
#include "data/formats/landmarks.h"
#include "data/images/image.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_CLASSES = 1 << 20,
    BESIDE = -1, /* the label of images that lie beside the class folders */
};

/* ---- Lists of files ------------------------------------------------------------------------- */

typedef struct entry {
    char *path;
    int32_t label; /* of an image */
} entry;

typedef struct file_list {
    entry *entries;
    int64_t count, capacity;
    int64_t train_count;      /* images of the training part, which come first */
    struct file_list *others; /* gets other files in class folders, images outside them; or NULL */
} file_list;

typedef bool entry_test(const char *folder, const char *name);

static void free_list(file_list *list) {
    for (int64_t i = 0; i < list->count; i++)
        free(list->entries[i].path);
    free(list->entries);
    *list = (file_list){0};
}

static ole_status add_entry(file_list *list, const char *folder, const char *name, int32_t label,
                            ole_error *error) {
    char path[OLE_PATH_ROOM];
    ole_status status = ole_join_path(path, folder, name, error);
    if (status != OLE_OK) return status;
    if (list->count == list->capacity) {
        int64_t capacity = list->capacity ? 2 * list->capacity : 64;
        entry *entries = realloc(list->entries, (size_t)capacity * sizeof *entries);
        if (!entries) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for file names");
        list->entries = entries;
        list->capacity = capacity;
    }
    entry added = {strdup(path), label};
    if (!added.path) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for file names");
    list->entries[list->count++] = added;
    return OLE_OK;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const entry *)a)->path, ((const entry *)b)->path);
}

static bool is_folder(const char *folder, const char *name) {
    char path[OLE_PATH_ROOM];
    struct stat about;
    return ole_join_path(path, folder, name, NULL) == OLE_OK && stat(path, &about) == 0 &&
           S_ISDIR(about.st_mode);
}

static bool is_image(const char *folder, const char *name) {
    return ole_image_has_name(name) && !is_folder(folder, name);
}

static void sort_from(file_list *list, int64_t first) {
    if (list->count > first)
        qsort(list->entries + first, (size_t)(list->count - first), sizeof(entry), by_path);
}

/* Adds the entries of a folder that `wanted` accepts, sorted, and the others to its `others`;
 * hidden ones to neither. */
static ole_status list_folder(const char *folder, entry_test *wanted, int32_t label,
                              file_list *list, ole_error *error) {
    DIR *dir = opendir(folder);
    if (!dir)
        return ole_fail(error, OLE_ERROR_IO, "%s: cannot open the folder: %s",
                        ole_quote_string(folder).text, strerror(errno));
    ole_status status = OLE_OK;
    file_list *others = list->others;
    int64_t first = list->count, first_other = others ? others->count : 0;
    for (struct dirent *found; status == OLE_OK && (found = readdir(dir));) {
        if (found->d_name[0] == '.') continue;
        file_list *to = wanted(folder, found->d_name) ? list : others;
        if (to) status = add_entry(to, folder, found->d_name, label, error);
    }
    closedir(dir);
    sort_from(list, first);
    if (others) sort_from(others, first_other);
    return status;
}

/* How many entries are `wanted`, hidden ones never; counts up to `most`. */
static int64_t count_entries(const char *folder, entry_test *wanted, int64_t most) {
    DIR *dir = opendir(folder);
    int64_t count = 0;
    for (struct dirent *found; dir && count < most && (found = readdir(dir));)
        count += found->d_name[0] != '.' && wanted(folder, found->d_name);
    if (dir) closedir(dir);
    return count;
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

static bool has_recipe(const char *folder, const char *name) {
    char path[OLE_PATH_ROOM];
    return ole_join_path(path, folder, name, NULL) == OLE_OK && has_file(path, "config.yaml");
}

/* A run or study folder among the classes, or a folder of these. */
static bool is_run(const char *folder, const char *apart) {
    bool recipe = has_file(folder, "config.yaml");
    if (recipe && (has_file(folder, "metrics.jsonl") || has_file(folder, "study.json")))
        return true;
    if (count_entries(folder, is_image, 1) > 0) return false;
    bool is_apart = strcmp(strrchr(folder, '/') + 1, apart) == 0;
    return recipe || is_apart || count_entries(folder, has_recipe, 1) > 0;
}

/* The folders of the classes: all but the runs. */
static ole_status list_classes(const char *root, const char *apart, file_list *classes,
                               ole_error *error) {
    char name[NAME_MAX + 1];
    ole_status status = list_folder(root, is_folder, 0, classes, error);
    int64_t kept = 0;
    find_apart(root, apart, name);
    for (int64_t i = 0; i < classes->count; i++)
        if (is_run(classes->entries[i].path, name))
            free(classes->entries[i].path);
        else
            classes->entries[kept++] = classes->entries[i];
    classes->count = kept;
    return status;
}

static const char *name_of(const entry *folder) {
    return strrchr(folder->path, '/') + 1;
}

/* The images of one class. */
static ole_status list_class(const entry *class, int label, file_list *files, ole_error *error) {
    int64_t before = files->count;
    ole_status status = list_folder(class->path, is_image, label, files, error);
    if (status != OLE_OK || files->count > before) return status;
    const ole_quoted quoted = ole_quote_string(class->path);
    if (count_entries(class->path, is_folder, 1) > 0)
        return ole_fail(error, OLE_ERROR_DATA,
                        "%s: this class folder holds folders, not images; name the folder right "
                        "above the classes, or one that holds train/CLASS and test/CLASS",
                        quoted.text);
    return ole_fail(error, OLE_ERROR_DATA,
                    "%s: no images in this class; add png, jpeg, webp, bmp, tiff, pgm or ppm "
                    "files, or remove the folder",
                    quoted.text);
}

/* All classes of a part; those of the test part must be classes of the training part. */
static ole_status list_part(const char *folder, const file_list *classes, const file_list *known,
                            file_list *files, ole_error *error) {
    ole_status status = OLE_OK;
    for (int64_t i = 0; status == OLE_OK && i < classes->count; i++) {
        const entry *class = &classes->entries[i];
        int label = 0;
        while (label < known->count && strcmp(name_of(&known->entries[label]), name_of(class)) != 0)
            label++;
        if (label == known->count)
            return ole_fail(error, OLE_ERROR_DATA, "%s: this class has no training folder",
                            ole_quote_string(class->path).text);
        status = list_class(class, label, files, error);
    }
    if (status == OLE_OK && files->others)
        status = list_folder(folder, is_image, BESIDE, files->others, error);
    return status;
}

static ole_status name_classes(const char *folder, const file_list *classes, ole_source *source,
                               ole_error *error) {
    if (classes->count == 0 || classes->count > MAX_CLASSES)
        return ole_fail(error, OLE_ERROR_DATA,
                        "%s: %" PRId64 " subfolders; classification needs one per class, at least "
                        "two, with the images inside",
                        ole_quote_string(folder).text, classes->count);
    ole_status status = ole_source_set_classes(source, (int)classes->count, error);
    for (int c = 0; status == OLE_OK && c < source->classes; c++)
        status = ole_source_name_class(source, c, name_of(&classes->entries[c]), error);
    return status;
}

/* An empty test folder is a mistake: testing on the training images is not what was meant. */
static ole_status check_test(const char *folder, int64_t images, ole_error *error) {
    if (images > 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_DATA,
                    "%s: no readable images; put the test images there, one subfolder per class, "
                    "or remove it to hold out a share of the training images",
                    ole_quote_string(folder).text);
}

/* root/CLASS/..., or root/train/CLASS/... and root/test/CLASS/... */
static ole_status list_files(const char *root, const char *apart, ole_source *source,
                             file_list *files, ole_error *error) {
    if (!root || !*root)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "folder: the path is missing, as in folder:photos");
    bool parts = is_folder(root, "train") && is_folder(root, "test");
    char train[OLE_PATH_ROOM], test[OLE_PATH_ROOM];
    file_list classes = {0}, test_classes = {0};
    ole_status status = ole_join_path(train, root, parts ? "train" : "", error);
    if (status == OLE_OK) status = ole_join_path(test, root, "test", error);
    if (status == OLE_OK) status = list_classes(train, apart, &classes, error);
    if (status == OLE_OK) status = name_classes(train, &classes, source, error);
    if (status == OLE_OK) status = list_part(train, &classes, &classes, files, error);
    files->train_count = files->count;
    source->has_test = parts;
    if (status == OLE_OK && parts) status = list_classes(test, apart, &test_classes, error);
    if (status == OLE_OK && parts) status = list_part(test, &test_classes, &classes, files, error);
    if (status == OLE_OK && parts)
        status = check_test(test, files->count - files->train_count, error);
    free_list(&classes);
    free_list(&test_classes);
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
    for (int64_t i = 0; i < files->count; i++) {
        ole_image image;
        ole_error reason;
        ole_status status = ole_image_probe(files->entries[i].path, &image, &reason);
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
    return OLE_OK;
}

ole_status ole_probe_folder(const char *path, const char *apart, ole_probe *probe,
                            ole_error *error) {
    file_list files = {0};
    ole_source source = {0}; /* takes the names of the classes */
    ole_status status = list_files(path, apart, &source, &files, error);
    int *sides = status == OLE_OK ? malloc((size_t)files.count * sizeof *sides) : NULL;
    if (status == OLE_OK)
        status = sides ? read_headers(&files, sides, probe, error)
                       : ole_fail(error, OLE_ERROR_MEMORY, "out of memory for image sizes");
    probe->has_test = source.has_test;
    probe->classes = source.classes;
    free(sides);
    ole_source_free(&source);
    free_list(&files);
    return status;
}

/* ---- Decoding ----------------------------------------------------------------------------- */

typedef struct decoded {
    ole_status status;
    char *message;     /* of an error; NULL: there was no memory for it */
    int height, width; /* as the file has them */
} decoded;

typedef struct decoding {
    const ole_dataset_options *options;
    file_list *files;
    ole_source *source;
    int64_t first;   /* the image that gave the shape */
    decoded *images; /* [files] */
    size_t folder;   /* length of the folder's path, which all files begin with, and its slash */
    ole_landmarks landmarks; /* none unless `aligns` */
    bool aligns;
} decoding;

/* Image i into its place. */
static ole_status decode_image(const decoding *d, int64_t i, ole_error *error) {
    ole_source *source = d->source;
    const char *path = d->files->entries[i].path;
    ole_image image;
    ole_status status = ole_image_read(path, source->channels, &image, error);
    if (status != OLE_OK) return status;
    d->images[i].height = image.height;
    d->images[i].width = image.width;
    if (d->aligns) {
        ole_similarity to_source;
        status = ole_landmarks_fit(&d->landmarks, path + d->folder, source->height, source->width,
                                   &to_source, error);
        if (status == OLE_OK)
            status =
                ole_image_align(&image, &to_source, source->height, source->width, source->channels,
                                source->bytes + (size_t)i * (size_t)ole_source_sample_size(source));
        if (status == OLE_ERROR_MEMORY) ole_fail(error, status, "out of memory for an image");
        ole_image_free(&image);
        return status;
    }
    bool same = image.width == source->width && image.height == source->height;
    if (same || d->options->resize > 0) {
        size_t one = (size_t)ole_source_sample_size(source);
        status = ole_image_fit(&image, source->height, source->width, source->channels,
                               source->bytes + (size_t)i * one);
        if (status != OLE_OK) ole_fail(error, status, "out of memory for an image");
    } else {
        status = ole_fail(error, OLE_ERROR_DATA,
                          "%s: is %dx%d pixels, %s is %dx%d; scale all to one size "
                          "(--resize N, or options.resize)",
                          ole_quote_string(path).text, image.width, image.height,
                          ole_quote_string(d->files->entries[d->first].path).text, source->width,
                          source->height);
    }
    ole_image_free(&image);
    return status;
}

static void decode_task(void *context, int64_t task, int worker) {
    (void)worker;
    decoding *d = context;
    ole_error error;
    d->images[task].status = decode_image(d, task, &error);
    if (d->images[task].status != OLE_OK) d->images[task].message = strdup(error.message);
}

static bool is_bad_image(ole_status status) {
    return status == OLE_ERROR_FORMAT || status == OLE_ERROR_IO;
}

/* Size and channels: as requested, else those of the first readable image. */
static ole_status find_shape(decoding *d, ole_error *error) {
    const ole_dataset_options *o = d->options;
    ole_source *source = d->source;
    ole_image image = {0};
    ole_status status = OLE_ERROR_FORMAT;
    for (d->first = 0; d->first < d->files->count && is_bad_image(status); d->first++)
        status = ole_image_read(d->files->entries[d->first].path, o->channels, &image, error);
    if (status != OLE_OK && !is_bad_image(status)) return status;
    d->first--;
    if (status != OLE_OK) image = (ole_image){1, 1, 1, NULL}; /* all are bad: keep_good() tells */
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

/* Calls the callback of the options; the message begins with the path, the reason does not. */
static void report_bad(const decoding *d, int64_t i) {
    if (!d->options->bad_image) return;
    const char *path = d->files->entries[i].path, *reason = d->images[i].message;
    const ole_quoted quoted = ole_quote_string(path);
    size_t length = strlen(quoted.text);
    if (!reason) reason = "out of memory";
    if (strncmp(reason, quoted.text, length) == 0 && strncmp(reason + length, ": ", 2) == 0)
        reason += length + 2;
    d->options->bad_image(d->options->bad_image_context, path, reason);
}

/* Calls the callback of the options for skipped files, and counts them. */
static void report_passed_over(const decoding *d) {
    const file_list *others = d->files->others;
    d->source->passed_over = others->count;
    for (int64_t i = 0; d->options->passed_over && i < others->count; i++) {
        const entry *other = &others->entries[i];
        const char *reason = other->label == BESIDE       ? "not in a class folder"
                             : is_folder(other->path, "") ? "a folder in a class folder"
                                                          : "its name is not that of an image";
        d->options->passed_over(d->options->bad_image_context, other->path, reason);
    }
}

/* The error of image i, and what to do about bad ones. */
static ole_status fail_image(const decoding *d, int64_t i, int64_t bad, bool skip,
                             ole_error *error) {
    const decoded *image = &d->images[i];
    const char *message = image->message ? image->message : "out of memory";
    if (!is_bad_image(image->status)) return ole_fail(error, image->status, "%s", message);
    if (skip)
        return ole_fail(error, image->status, "%s; none of the %" PRId64 " images can be read",
                        message, d->files->count);
    if (bad == 1) return ole_fail(error, image->status, "%s; fix it or pass --skip-bad", message);
    return ole_fail(error, image->status,
                    "%s; %" PRId64 " images are unreadable, 'ole data check' lists them: fix them "
                    "or pass --skip-bad",
                    message, bad);
}

/* Moves the good images and their paths to the front, and reports and counts the bad ones. */
static ole_status keep_good(decoding *d, ole_error *error) {
    ole_source *source = d->source;
    size_t one = (size_t)ole_source_sample_size(source);
    int64_t kept = 0, bad = 0, failed = -1, first_bad = -1;
    source->train_count = 0;
    for (int64_t i = 0; i < d->files->count; i++) {
        if (d->images[i].status != OLE_OK) {
            bool is_bad = is_bad_image(d->images[i].status);
            if (is_bad && bad++ == 0) first_bad = i;
            if (is_bad) report_bad(d, i);
            if (failed < 0 && !(is_bad && d->options->skip_bad)) failed = i;
            continue;
        }
        widen(&source->sizes, &d->images[i]);
        if (kept != i)
            memcpy(source->bytes + (size_t)kept * one, source->bytes + (size_t)i * one, one);
        source->labels[kept] = d->files->entries[i].label;
        source->files[kept++] = d->files->entries[i].path; /* the source frees it */
        d->files->entries[i].path = NULL;
        if (i < d->files->train_count) source->train_count = kept;
    }
    source->count = source->file_count = kept;
    source->skipped = bad;
    if (failed >= 0) return fail_image(d, failed, bad, false, error);
    return kept > 0 ? OLE_OK : fail_image(d, first_bad, bad, true, error);
}

static ole_status decode_all(decoding *d, ole_error *error) {
    int64_t count = d->files->count;
    ole_status status = find_shape(d, error);
    if (status == OLE_OK) status = ole_source_grow(d->source, count, error);
    if (status != OLE_OK) return status;
    d->images = calloc((size_t)count, sizeof *d->images);
    d->source->files = calloc((size_t)count, sizeof *d->source->files);
    ole_pool *pool = NULL;
    if (d->images && d->source->files)
        status = ole_pool_create(&pool, d->options->threads, error);
    else
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for file names");
    if (status == OLE_OK) {
        ole_pool_run(pool, count, decode_task, d);
        status = keep_good(d, error);
    }
    ole_pool_destroy(pool);
    for (int64_t i = 0; d->images && i < count; i++)
        free(d->images[i].message);
    free(d->images);
    return status;
}

ole_status ole_read_folder(const char *path, const ole_dataset_options *options, ole_source *source,
                           ole_error *error) {
    file_list others = {0}, files = {.others = &others};
    ole_status status = list_files(path, options->apart, source, &files, error);
    decoding d = {.options = options, .files = &files, .source = source};
    if (status == OLE_OK) report_passed_over(&d);
    if (status == OLE_OK) d.folder = strlen(path) + (path[strlen(path) - 1] != '/');
    d.aligns = options->align && *options->align;
    if (status == OLE_OK && d.aligns)
        status = ole_landmarks_read(&d.landmarks, path, options->align, error);
    if (status == OLE_OK) status = decode_all(&d, error);
    ole_landmarks_free(&d.landmarks);
    if (status == OLE_OK && source->has_test) { /* what --skip-bad has left of it */
        char test[OLE_PATH_ROOM];
        status = ole_join_path(test, path, "test", error);
        if (status == OLE_OK) status = check_test(test, source->count - source->train_count, error);
    }
    if (status == OLE_OK) source->folder_length = d.folder;
    source->test_share = options->test_share;
    free_list(&others);
    free_list(&files);
    return status;
}
