/*
 * cli/reproduce/data.c - where the data of a row lie, and how much of what is published is there:
 * copies of a set may hold a part of it, which reads like the whole.
 */
#include "reproduce/reproduce.h"

#include <ole/train/data.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Where -------------------------------------------------------------------------------- */

/* The places that the library looks in for data sets. */
static bool find_path(const char *name, char out[ROW_PATH]) {
    const char *data = getenv("OLE_DATA"), *cache = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    char folders[5][ROW_PATH / 2] = {""};
    if (data) snprintf(folders[0], sizeof folders[0], "%s", data);
    if (cache)
        snprintf(folders[1], sizeof folders[1], "%s/ole", cache);
    else if (home)
        snprintf(folders[1], sizeof folders[1], "%s/.cache/ole", home);
    snprintf(folders[2], sizeof folders[2], "data");
    if (home) snprintf(folders[3], sizeof folders[3], "%s/data", home);
    snprintf(folders[4], sizeof folders[4], "/data");
    snprintf(out, ROW_PATH, "%s", name);
    if (access(out, F_OK) == 0) return true;
    for (int i = 0; i < 5; i++) {
        if (!folders[i][0] || name[0] == '/') continue;
        join_path(out, folders[i], name);
        if (access(out, F_OK) == 0) return true;
    }
    return false;
}

static bool locate_data(const row *r, const char *data, char out[ROW_PATH], char why[600]) {
    static const char folder[] = "folder:";
    char path[ROW_PATH];
    ole_error error;
    if (strncmp(data, folder, strlen(folder)) == 0) {
        if (find_path(data + strlen(folder), path)) {
            snprintf(out, ROW_PATH, "%s%.*s", folder, ROW_PATH - 16, path);
            return true;
        }
        snprintf(why, 600,
                 "%s: there is no folder %.100s here or in $OLE_DATA: it needs %.300s. Put it "
                 "there; it cannot be downloaded",
                 r->asked.name, data + strlen(folder),
                 r->runs->needs ? r->runs->needs : "a sub-folder a class");
        return false;
    }
    snprintf(out, ROW_PATH, "%s", data);
    if (ole_dataset_locate(data, path, sizeof path, &error) == OLE_OK) return true;
    snprintf(why, 600, "%s: %s", r->asked.name, error.message);
    return false;
}

bool row_locate(row *r, char why[600]) {
    if (!locate_data(r, r->train.data, r->data, why)) return false;
    r->train.data = r->data;
    if (r->asked.novel && !locate_data(r, r->asked.novel, r->novel, why)) return false;
    if (!r->train.init_from) return true;
    if (!find_path(r->train.init_from, r->weights)) {
        snprintf(
            why, 600, "%s: there is no %.100s here or in $OLE_DATA: it needs %.300s. Put it there",
            r->asked.name, r->train.init_from, r->runs->needs ? r->runs->needs : "these weights");
        return false;
    }
    r->train.init_from = r->weights;
    return true;
}

/* ---- How much ----------------------------------------------------------------------------- */

static const ole_known_dataset *find_known(const char *data) {
    size_t count, length = strcspn(data, ":");
    const ole_known_dataset *sets = ole_known_datasets(&count);
    for (size_t i = 0; i < count; i++)
        if (strlen(sets[i].name) == length && strncmp(sets[i].name, data, length) == 0)
            return &sets[i];
    return NULL;
}

/* Whether its files are as large as those that are published: such a set need not be read. */
static bool has_sizes(const ole_known_dataset *set, const char *folder) {
    for (const ole_known_file *file = set->files; file->name; file++) {
        char path[ROW_PATH];
        struct stat about;
        join_path(path, folder, file->name);
        if (stat(path, &about) != 0 || about.st_size != file->size) return false;
    }
    return true;
}

/* "1600 of 8000 test images" behind what `out` has. */
static void add_part(char out[PART_ROOM], int64_t here, int64_t published, const char *what) {
    size_t used = strlen(out);
    if (here < published)
        snprintf(out + used, PART_ROOM - used, "%s%" PRId64 " of %" PRId64 " %s images",
                 used ? ", " : "", here, published, what);
}

void row_part(const row *r, char out[PART_ROOM]) {
    const ole_known_dataset *known = find_known(r->train.data);
    char folder[ROW_PATH];
    ole_dataset *set;
    out[0] = '\0';
    if (!known || ole_dataset_locate(r->train.data, folder, sizeof folder, NULL) != OLE_OK ||
        has_sizes(known, folder) || ole_dataset_open(&set, r->train.data, NULL, NULL) != OLE_OK)
        return;
    const int64_t *here = ole_dataset_get_info(set)->count;
    add_part(out, here[OLE_SPLIT_TRAIN], known->train, "training");
    add_part(out, here[OLE_SPLIT_TEST], known->test, "test");
    ole_dataset_close(set);
}

void row_part_of(const row *r, const int64_t samples[2], char out[PART_ROOM]) {
    const ole_known_dataset *known = r->train.classes ? NULL : find_known(r->train.data);
    out[0] = '\0';
    if (known && samples[1] > 0) add_part(out, samples[1], known->test, "test");
}
