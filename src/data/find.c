/*
 * src/data/find.c - the places a data set may lie in, in their order, and the error that lists
 * them.
 */
#include "data/find.h"

#include "base/error.h"
#include "base/quote.h"
#include "data/download/known.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PLACES = 8 };

ole_status ole_join_path(char path[OLE_PATH_ROOM], const char *folder, const char *name,
                         ole_error *error) {
    size_t length = strlen(folder);
    bool joined = length == 0 || folder[length - 1] == '/' || !*name;
    const char *slash = joined ? "" : "/";
    int needed = snprintf(path, OLE_PATH_ROOM, "%s%s%s", folder, slash, name);
    if (needed < 0 || needed >= OLE_PATH_ROOM)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s: this path is too long",
                        ole_quote_string(folder).text);
    return OLE_OK;
}

/* The name in the folder: an idx file also gzipped, and with the dot some copies have before idx.
 */
static bool variant(char out[OLE_PATH_ROOM], const char *folder, const char *name, int number) {
    const char *idx = strstr(name, "-idx");
    if (number > 0 && !idx) return false;
    if (ole_join_path(out, folder, name, NULL) != OLE_OK) return false;
    size_t length = strlen(out);
    if (number >= 2) out[length - strlen(idx)] = '.';
    int needed = snprintf(out + length, OLE_PATH_ROOM - length, "%s", number % 2 ? ".gz" : "");
    return needed < OLE_PATH_ROOM - (int)length;
}

ole_status ole_find_file(char path[OLE_PATH_ROOM], const char *folder, const char *name,
                         ole_error *error) {
    for (int i = 0; i < 4; i++)
        if (variant(path, folder, name, i) && access(path, F_OK) == 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_IO, "%s: there is no %s%s here", ole_quote_string(folder).text,
                    name, strstr(name, "-idx") ? "(.gz)" : "");
}

/* ---- Folders ------------------------------------------------------------------------------ */

typedef struct places {
    char path[MAX_PLACES][OLE_PATH_ROOM];
    int count;
} places;

/* Adds base/middle/name if `base` exists; paths that are too long are skipped. */
static void add_place(places *list, const char *base, const char *middle, const char *name) {
    if (!base || !*base) return;
    int needed = snprintf(list->path[list->count], OLE_PATH_ROOM, "%s%s%s%s", base, middle,
                          *name ? "/" : "", name);
    if (needed < OLE_PATH_ROOM) list->count++;
}

static void add_cache(places *list, const char *name) {
    const char *cache = getenv("XDG_CACHE_HOME");
    if (cache && *cache)
        add_place(list, cache, "/ole", name);
    else
        add_place(list, getenv("HOME"), "/.cache/ole", name);
}

static void all_places(places *list, const char *name) {
    list->count = 0;
    add_place(list, getenv("OLE_DATA"), "", name);
    add_cache(list, name);
    add_place(list, "data", "", name);
    add_place(list, "data", "", "");
    add_place(list, getenv("HOME"), "/data", name);
    add_place(list, "/data", "", name);
}

bool ole_find_path(char path[OLE_PATH_ROOM], const char *name) {
    places list;
    if (ole_join_path(path, name, "", NULL) == OLE_OK && access(path, F_OK) == 0) return true;
    all_places(&list, name);
    for (int i = 0; i < list.count && name[0] != '/'; i++) {
        if (strcmp(list.path[i], "data") == 0) continue; /* the folder, without the name */
        ole_join_path(path, list.path[i], "", NULL);
        if (access(path, F_OK) == 0) return true;
    }
    return false;
}

/* Whether `place`, or the reader's subfolder there, has its first file. */
static bool has_files(char folder[OLE_PATH_ROOM], const ole_reader *reader, const char *place) {
    char file[OLE_PATH_ROOM];
    for (int sub = 0; sub <= (reader->folder != NULL); sub++)
        if (ole_join_path(folder, place, sub ? reader->folder : "", NULL) == OLE_OK &&
            ole_find_file(file, folder, reader->train[0], NULL) == OLE_OK)
            return true;
    return false;
}

/* The archive that its authors publish, where it lies in `place` as it is. */
static const char *find_archive(const ole_reader *reader, const char *place) {
    const ole_known_dataset *set = ole_known_find(reader->name, strlen(reader->name), NULL);
    char path[OLE_PATH_ROOM];
    if (!set || set->downloads == set->files) return NULL;
    const char *name = set->downloads->name;
    bool there = name && ole_join_path(path, place, name, NULL) == OLE_OK;
    return there && access(path, F_OK) == 0 ? name : NULL;
}

static ole_status not_unpacked(const char *archive, const char *place, ole_error *error) {
    char path[OLE_PATH_ROOM];
    ole_status status = ole_join_path(path, place, archive, error);
    if (status != OLE_OK) return status;
    char *from = ole_shell_word(path), *to = ole_shell_word(place);
    status = ole_fail(error, OLE_ERROR_IO, "%s is there but not unpacked; run tar -xzf %s -C %s",
                      ole_quote_string(path).text, from ? from : path, to ? to : place);
    free(from);
    free(to);
    return status;
}

static ole_status not_found(const ole_reader *reader, const places *list, ole_error *error) {
    for (int i = 0; i < list->count; i++) {
        const char *archive = find_archive(reader, list->path[i]);
        if (archive) return not_unpacked(archive, list->path[i], error);
    }
    char sought[300] = "";
    size_t used = 0;
    for (int i = 0; i < list->count && used < sizeof sought; i++)
        used += (size_t)snprintf(sought + used, sizeof sought - used, "%s%s", i ? ", " : "",
                                 list->path[i]);
    return ole_fail(
        error, OLE_ERROR_IO,
        "%s: %s not found in %s; get it with 'ole data get %s', or name its folder as %s:FOLDER",
        reader->name, reader->train[0], ole_quote_string(sought).text, reader->name, reader->name);
}

ole_status ole_find_folder(char folder[OLE_PATH_ROOM], const ole_reader *reader, const char *given,
                           ole_error *error) {
    if (given) {
        if (has_files(folder, reader, given)) return OLE_OK;
        const char *archive = find_archive(reader, given);
        if (archive) return not_unpacked(archive, given, error);
        ole_status status = ole_find_file(folder, given, reader->train[0], error);
        return status == OLE_OK ? OLE_ERROR_IO : status;
    }
    places list;
    all_places(&list, reader->name);
    for (int i = 0; i < list.count; i++)
        if (has_files(folder, reader, list.path[i])) return OLE_OK;
    return not_found(reader, &list, error);
}

ole_status ole_default_folder(char folder[OLE_PATH_ROOM], const char *name, ole_error *error) {
    places list = {.count = 0};
    add_place(&list, getenv("OLE_DATA"), "", name);
    add_cache(&list, name);
    if (list.count > 0) {
        memcpy(folder, list.path[0], OLE_PATH_ROOM);
        return OLE_OK;
    }
    return ole_fail(
        error, OLE_ERROR_ARGUMENT,
        "%s: neither OLE_DATA nor HOME is set, so there is no place for data; name a folder", name);
}
