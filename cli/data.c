/*
 * cli/data.c - `ole data`: which data sets are known and where they are, fetching them, checking
 * them.
 */
#include "commands.h"
#include "common/common.h"
#include "common/download.h"
#include "common/progress.h"
#include "common/trained_data.h"

#include "formats/json.h"
#include <ole/train/data.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char data_summary[] = "list, download and check data sets";

enum { PATH_ROOM = 4096 };

/* ---- list --------------------------------------------------------------------------------- */

static int64_t download_bytes(const ole_known_dataset *set) {
    int64_t bytes = 0;
    for (const ole_known_file *file = set->downloads; file->name; file++)
        bytes += file->size;
    return bytes;
}

/* `path`: where the set is, "" inside the library; NULL: not here. */
static void list_json(ole_json *w, const ole_known_dataset *set, const char *path) {
    ole_json_open(w, NULL, '{');
    ole_json_put(w, J("name", set->name), J("about", set->about), J("page", set->page),
                 J("terms", set->terms), J("download_bytes", download_bytes(set)),
                 J("here", (bool)(path != NULL)));
    if (path && *path) ole_json_string(w, "folder", path);
    ole_json_close(w);
}

static void list_text(const ole_known_dataset *set, const char *path) {
    printf("%-14s %s\n%-14s ", set->name, set->about, "");
    if (path)
        printf("%s\n", *path ? path : "built in");
    else
        printf("not here; 'ole data get %s' downloads %.1f MB\n", set->name,
               (double)download_bytes(set) / 1e6);
}

static int run_list(int argc, char **argv) {
    bool json = false;
    const ole_option options[] = {JSON_OPTION(&json), {0}};
    const arg_command command = {
        .name = "data list",
        .summary = "list the known data sets and where they are",
        .example = "  $ ole data list\n",
        .about = "Prints the known data sets and where they are.\n",
        .options = options,
    };
    int code;
    if (!args_parse(&command, argc, argv, &code)) return code;
    size_t count;
    const ole_known_dataset *sets = ole_known_datasets(&count);
    ole_json w;
    ole_json_init(&w, stdout, 2);
    if (json) ole_json_open(&w, NULL, '[');
    for (size_t i = 0; i < count; i++) {
        char path[PATH_ROOM];
        bool here = ole_dataset_locate(sets[i].name, path, sizeof path, NULL) == OLE_OK;
        if (json)
            list_json(&w, &sets[i], here ? path : NULL);
        else
            list_text(&sets[i], here ? path : NULL);
    }
    if (json) {
        ole_json_close(&w);
        return EXIT_DONE;
    }
    printf("%-14s one subfolder per class, of png, jpeg, webp, bmp, tiff or pgm images\n",
           "folder:PATH");
    printf("%-14s images or vectors and labels from NumPy; npy:X,y,Xtest,ytest too\n", "npy:X,y");
    return EXIT_DONE;
}

/* ---- get ---------------------------------------------------------------------------------- */

static void print_fetched(const char *what, const char *folder, bool json) {
    if (json) {
        ole_json w;
        ole_json_init(&w, stdout, 2);
        ole_json_object(&w, NULL, J("name", what), J("folder", folder));
    } else {
        printf("%s is in %s\n", what, folder);
    }
}

static int get(const char *what, ole_download_options *options, bool json) {
    download_meter m;
    download_watch(&m, options);
    ole_error error;
    ole_status status = ole_dataset_download(what, options, &error);
    progress_clear(&m.line);
    char folder[PATH_ROOM] = "";
    bool inside = strcmp(what, "digits") == 0; /* the library, wherever it should go */
    if (status == OLE_OK && !options->folder && !inside)
        status = ole_dataset_locate(what, folder, sizeof folder, &error);
    if (status != OLE_OK) {
        int code = fail_with("data get", &error);
        return interrupted() ? EXIT_INTERRUPTED : code;
    }
    const char *there = options->folder ? options->folder : folder;
    print_fetched(what, inside ? "the library" : there, json);
    return EXIT_DONE;
}

static int run_get(int argc, char **argv) {
    bool json = false;
    const char *what = "";
    ole_download_options download;
    ole_download_options_init(&download);
    double most_gigabytes = (double)download.max_bytes / 1e9;
    const arg_positional positionals[] = {
        {"NAME", &what, "a data set of 'ole data list', or a URL"},
        {0},
    };
    const ole_option options[] = {
        {"out", OLE_TEXT, &download.folder, "FOLDER",
         .help = "where to store it (default: $OLE_DATA/NAME, else the cache)"},
        {"from", OLE_TEXT, &download.source, "URL",
         .help = "a mirror with the same files as the authors' site"},
        {"checksum", OLE_TEXT, &download.checksum, "HEX",
         .help = "MD5 or SHA-256 that the file must have"},
        {"retries", OLE_INTEGER, &download.retries, "N",
         .help = "attempts after a broken connection", .min = 0, .max = 1000},
        {"stall", OLE_INTEGER, &download.stall, "SECONDS",
         .help = "give up on a connection that stays below 1 kB/s for this long", .min = 1,
         .max = 86400},
        {"max-size", OLE_NUMBER, &most_gigabytes, "GB",
         .help = "size limit of a download and of what it unpacks to", .min = 1e-9, .max = 9e9},
        {"max-files", OLE_WHOLE, &download.max_files, "N",
         .help = "limit of the files in an archive", .min = 1, .max = 1e15},
        JSON_OPTION(&json),
        {0},
    };
    const arg_command command = {
        .name = "data get",
        .summary = "download a data set, with resume and checksum",
        .example = "  $ ole data get cifar10\n"
                   "  $ ole data get https://example.org/photos.tar.gz --out photos\n",
        .about =
            "Downloads a data set, resumes where an earlier download broke off, checks it and\n"
            "unpacks archives (tar.gz, zip). 'ole data list --json' names each set's terms of "
            "use.\n",
        .positionals = positionals,
        .options = options,
    };
    int code;
    if (!args_parse(&command, argc, argv, &code)) return code;
    download.max_bytes = (int64_t)(most_gigabytes * 1e9);
    if (strstr(what, "://") && !download.folder)
        return fail_usage("data get", "%s: a URL needs --out FOLDER", what);
    if (strstr(what, "://") ? download.source != NULL : download.checksum != NULL)
        return fail_usage("data get", "%s works only with %s",
                          download.source ? "--from" : "--checksum",
                          download.source ? "the sets of 'ole data list'" : "a URL");
    return get(what, &download, json);
}

/* ---- check -------------------------------------------------------------------------------- */

static const char *const state_names[] = {"good", "unchecked", "differs", "missing", "repacked"};

typedef struct checking {
    ole_json *json; /* NULL: text */
    int bad;        /* files missing or different */
    int unreadable; /* images */
    bool listed;    /* skipped files: JSON is at the unreadable images */
    progress line;
} checking;

static void report_file(void *context, const ole_file_check *file) {
    checking *c = context;
    if (file->state == OLE_FILE_DIFFERS || file->state == OLE_FILE_MISSING) c->bad++;
    progress_clear(&c->line);
    if (c->json) {
        ole_json_object(c->json, NULL, J("name", file->name), J("state", state_names[file->state]),
                        J("bytes", file->size), J("md5", file->md5));
    } else {
        printf("%-10s %s\n", state_names[file->state], file->name);
    }
    progress_wait(&c->line, "next file");
}

static void report_image(checking *c, const char *state, const char *path, const char *reason) {
    progress_clear(&c->line);
    if (c->json) {
        ole_json_object(c->json, NULL, J("file", path), J("reason", reason));
    } else {
        printf("%-10s ", state);
        print_name(stdout, path);
        printf(": %s\n", reason);
    }
}

static void report_passed_over(void *context, const char *path, const char *reason) {
    report_image(context, "skipped", path, reason);
}

/* From the list of skipped files to that of the unreadable images. */
static void begin_unreadable(checking *c) {
    if (!c->json || c->listed) return;
    ole_json_close(c->json);
    ole_json_open(c->json, "unreadable", '[');
    c->listed = true;
}

static void report_unreadable(void *context, const char *path, const char *reason) {
    checking *c = context;
    c->unreadable++;
    begin_unreadable(c);
    report_image(c, "unreadable", path, reason);
}

/* Height and width of the samples; 0 where the files of a folder differ and no size is requested.
 */
static void find_size(const ole_dataset_info *info, bool resized, int *height, int *width) {
    const ole_image_sizes *s = &info->sizes;
    bool as_files = s->most_height > 0 && !resized;
    bool one_size = s->least_height == s->most_height && s->least_width == s->most_width;
    *height = !as_files ? info->height : one_size ? s->most_height : 0;
    *width = !as_files ? info->width : one_size ? s->most_width : 0;
}

static void print_contents(const ole_dataset_info *info, bool resized) {
    int height, width;
    find_size(info, resized, &height, &width);
    print_lines("%s: %" PRId64 " samples to train on, %" PRId64 " to test; %d classes; ",
                info->name, info->count[OLE_SPLIT_TRAIN], info->count[OLE_SPLIT_TEST],
                info->classes);
    if (height > 0)
        printf("%dx%dx%d %s", info->channels, height, width, info->bytes ? "bytes" : "floats");
    else
        printf("%d to %d pixels wide, %d to %d high", info->sizes.least_width,
               info->sizes.most_width, info->sizes.least_height, info->sizes.most_height);
    if (info->skipped > 0) printf("; %" PRId64 " skipped as unreadable", info->skipped);
    if (info->passed_over > 0)
        printf("; %" PRId64 " other files skipped: not images, or not in a class folder",
               info->passed_over);
    printf("\n");
}

static void json_contents(ole_json *json, const ole_dataset_info *info, bool resized) {
    int height, width;
    find_size(info, resized, &height, &width);
    ole_json_put(json, J("train", info->count[OLE_SPLIT_TRAIN]),
                 J("test", info->count[OLE_SPLIT_TEST]), J("classes", info->classes));
    const double shape[] = {info->channels, height > 0 ? height : NAN, width > 0 ? width : NAN};
    ole_json_numbers(json, "shape", shape, 3);
    const ole_image_sizes *s = &info->sizes;
    if (s->most_height > 0) {
        ole_json_integers(json, "heights", (const int64_t[]){s->least_height, s->most_height}, 2);
        ole_json_integers(json, "widths", (const int64_t[]){s->least_width, s->most_width}, 2);
    }
    ole_json_put(json, J("skipped", info->skipped), J("other_file_count", info->passed_over));
}

static int fail_different(const char *name, int files) {
    int length = (int)strcspn(name, ":");
    const char *folder = name[length] ? name + length + 1 : "";
    bool system = strncmp(folder, "/usr/", 5) == 0 || access(folder, W_OK) != 0;
    if (system) folder = ""; /* what a package has installed is not ours to replace */
    return fail_command(
        "data check",
        "%s: %d file%s not as published; to download %s again: ole data get %.*s%s%s%s", name,
        files, files == 1 ? " is" : "s are", files == 1 ? "it" : "them", length, name,
        *folder ? " --out '" : "", folder, *folder ? "'" : "");
}

/* Files against what is published, then the whole set through its reader. Images without a
 * size are kept as one pixel each: all that counts is that they can be read. */
static int check(const char *name, const ole_dataset_options *given, bool json) {
    ole_dataset_options options = *given;
    bool resized = options.resize > 0;
    if (!resized) options.resize = 1;
    ole_json w;
    checking c = {.json = json ? &w : NULL, .line = progress_start()};
    ole_error error;
    ole_dataset *set = NULL;
    ole_status status = OLE_OK;
    if (json) {
        w = ole_json_begin(stdout, 2, '{');
        ole_json_string(&w, "name", name);
        ole_json_open(&w, "files", '[');
    }
    progress_wait(&c.line, "first file");
    if (known_dataset(name)) status = ole_dataset_check(name, report_file, &c, &error);
    if (json) ole_json_close(&w);
    if (json) ole_json_open(&w, "other_files", '[');
    progress_wait(&c.line, "reading");
    options.passed_over = report_passed_over;
    options.bad_image = report_unreadable;
    options.bad_image_context = &c;
    if (status == OLE_OK) status = ole_dataset_open(&set, name, &options, &error);
    progress_clear(&c.line);
    begin_unreadable(&c);
    if (json) ole_json_close(&w);
    if (status == OLE_OK && json) json_contents(&w, ole_dataset_get_info(set), resized);
    if (status == OLE_OK && !json) print_contents(ole_dataset_get_info(set), resized);
    ole_dataset_close(set);
    bool good = status == OLE_OK && c.bad == 0;
    if (json) {
        ole_json_bool(&w, "good", good);
        ole_json_close(&w);
    }
    if (status != OLE_OK && c.unreadable > 0 && !options.skip_bad)
        return fail_command(
            "data check", "%s: %d unreadable image%s: fix or remove %s, or train with --skip-bad",
            name, c.unreadable, c.unreadable == 1 ? "" : "s", c.unreadable == 1 ? "it" : "them");
    if (status != OLE_OK) return fail_with("data check", &error);
    return good ? EXIT_DONE : fail_different(name, c.bad);
}

static int run_check(int argc, char **argv) {
    bool json = false;
    const char *name = "";
    ole_dataset_options set;
    ole_dataset_options_init(&set);
    set.threads = default_threads();
    const arg_positional positionals[] = {
        {"DATA", &name, "NAME[:PATH], as in cifar10 or folder:photos"},
        {0},
    };
    const ole_option options[] = {
        {"resize", OLE_INTEGER, &set.resize, "N",
         .help = "image folders: scale to NxN pixels (default: keep their size)", .min = 1,
         .max = 4096},
        {"skip-bad", OLE_SWITCH, .to = &set.skip_bad,
         .help = "image folders: do not fail on unreadable images"},
        JSON_OPTION(&json),
        {0},
    };
    const arg_command command = {
        .name = "data check",
        .summary = "compare a data set with what its authors publish, and read all of it",
        .example = "  $ ole data check mnist\n"
                   "  $ ole data check folder:photos\n",
        .about =
            "Compares a data set's files with what its authors publish, where that is known,\n"
            "and reads all of it. Lists every image that cannot be read, every file of a folder\n"
            "that is not taken for one, and why.\n",
        .positionals = positionals,
        .options = options,
    };
    int code;
    if (!args_parse(&command, argc, argv, &code)) return code;
    if (set.resize == 0 || strncmp(name, "folder:", 7) == 0) return check(name, &set, json);
    return fail_usage("data check",
                      "--resize %d applies to image folders (folder:PATH) only, not to %s",
                      set.resize, name);
}

/* ---- The command -------------------------------------------------------------------------- */

int run_data(int argc, char **argv) {
    static const arg_action actions[] = {
        {"list", "list the known data sets and where they are", .run = run_list},
        {"get", "download one, with resume and checksum", .run = run_get},
        {"check", "compare one with what its authors publish, and read all of it",
         .run = run_check},
        {0},
    };
    const arg_command command = {
        .name = "data",
        .summary = data_summary,
        .example = "  $ ole data list\n"
                   "  $ ole data get cifar10\n"
                   "  $ ole data check cifar10\n",
        .about = "Lists, downloads and checks data sets; 'ole data get --help' and so on explain "
                 "each action.",
        .actions = actions,
    };
    return args_act(&command, argc, argv);
}
