/*
 * src/data/download/download.c - data sets and files of URLs from the network.
 *
 * fetch.c does the transfers; here is what to fetch, from where, and what to unpack.
 */
#include "base/error.h"
#include "base/quote.h"
#include "base/struct_size.h"
#include "data/download/checksum.h"
#include "data/download/fetch.h"
#include "data/download/known.h"
#include "data/download/unpack.h"
#include "data/find.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_RETRIES = 1000, MAX_STALL = 86400 };

static const ole_download_options defaults = {.struct_size = sizeof(ole_download_options),
                                              .retries = 5,
                                              .stall = 60,
                                              .max_bytes = INT64_C(20000000000),
                                              .max_files = 2000000};

void ole_download_options_init_sized(ole_download_options *options, size_t struct_size) {
    ole_struct_fill(options, struct_size, &defaults);
}

/* ---- Known data sets ---------------------------------------------------------------------- */

static bool is_there(const char *folder, const ole_known_file *file) {
    ole_file_check check;
    return ole_known_file_check(folder, file, &check, NULL) == OLE_OK &&
           (check.state == OLE_FILE_GOOD || check.state == OLE_FILE_UNCHECKED);
}

/* From each source in turn until one has it. */
static ole_status fetch_known(const ole_known_dataset *set, const ole_known_file *file,
                              const char *path, const ole_download_options *options,
                              ole_error *error) {
    const char *given[] = {options->source, NULL};
    ole_status status = OLE_OK;
    for (const char *const *source = options->source ? given : set->sources; *source; source++) {
        char url[OLE_URL_ROOM];
        size_t length = strlen(*source);
        const char *slash = length > 0 && (*source)[length - 1] == '/' ? "" : "/";
        if (snprintf(url, sizeof url, "%s%s%s", *source, slash, file->name) >= (int)sizeof url)
            return ole_fail(error, OLE_ERROR_ARGUMENT, "options.source is too long");
        ole_fetch f = {.url = url,
                       .name = file->name,
                       .path = path,
                       .size = file->size,
                       .limit = file->size > 0 ? file->size : options->max_bytes,
                       .checksum = file->md5,
                       .options = options};
        status = ole_fetch_file(&f, error);
        if (status == OLE_OK || status == OLE_ERROR_UNSUPPORTED || f.stopped) return status;
    }
    return status;
}

static ole_status download_known(const ole_known_dataset *set, const char *folder,
                                 const ole_download_options *options, ole_error *error) {
    bool complete = true;
    for (const ole_known_file *file = set->files; file->name; file++)
        complete = complete && is_there(folder, file);
    if (complete) return OLE_OK;
    ole_status status = ole_make_folder(folder, error);
    for (const ole_known_file *file = set->downloads; status == OLE_OK && file->name; file++) {
        char path[OLE_PATH_ROOM];
        status = ole_join_path(path, folder, file->name, error);
        if (status == OLE_OK && !is_there(folder, file))
            status = fetch_known(set, file, path, options, error);
        if (status != OLE_OK || set->downloads == set->files) continue;
        status = ole_unpack(path, folder, set->files, NULL, error);
        if (status == OLE_OK) unlink(path);
    }
    return status;
}

/* ---- URLs --------------------------------------------------------------------------------- */

/* The name of a URL's file: its last part, without what follows ? or #. */
static ole_status url_name(const char *url, char *name, size_t room, ole_error *error) {
    size_t length = strcspn(url, "?#");
    size_t start = length;
    while (start > 0 && url[start - 1] != '/')
        start--;
    length -= start;
    if (length == 0 || length >= room || url[start] == '.')
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s: this URL does not end in a file name",
                        ole_quote_string(url).text);
    memcpy(name, url + start, length);
    name[length] = '\0';
    return OLE_OK;
}

static ole_status download_url(const char *url, const ole_download_options *options,
                               ole_error *error) {
    char name[256], path[OLE_PATH_ROOM];
    if (!options->folder)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "options.folder: a URL needs a folder to go to");
    ole_status status = url_name(url, name, sizeof name, error);
    if (status == OLE_OK) status = ole_make_folder(options->folder, error);
    if (status == OLE_OK) status = ole_join_path(path, options->folder, name, error);
    if (status != OLE_OK) return status;
    ole_fetch f = {.url = url,
                   .name = name,
                   .path = path,
                   .limit = options->max_bytes,
                   .checksum = options->checksum,
                   .options = options};
    const ole_unpack_limits limits = {options->max_bytes, options->max_files};
    bool there = ole_fetch_there(&f);
    if (!there) status = ole_fetch_file(&f, error);
    if (status != OLE_OK || !ole_is_archive(name)) return status;
    status = ole_unpack(path, options->folder, NULL, &limits, error);
    if (status == OLE_ERROR_FORMAT && there) { /* what an earlier call found damaged */
        status = ole_fetch_file(&f, error);
        if (status == OLE_OK) status = ole_unpack(path, options->folder, NULL, &limits, error);
    }
    if (status == OLE_OK) unlink(path);
    return status;
}

/* ---- Both --------------------------------------------------------------------------------- */

static ole_status check_options(const ole_download_options *o, ole_error *error) {
    if (o->retries < 0 || o->retries > MAX_RETRIES)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "options.retries is %d; must be 0 to %d",
                        o->retries, MAX_RETRIES);
    if (o->max_bytes < 1 || o->max_files < 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.max_bytes is %" PRId64 " and options.max_files %" PRId64
                        "; must be 1 or more",
                        o->max_bytes, o->max_files);
    if (o->stall < 1 || o->stall > MAX_STALL)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "options.stall is %d; must be 1 to %d seconds",
                        o->stall, MAX_STALL);
    size_t digits = o->checksum ? strlen(o->checksum) : OLE_MD5_DIGITS;
    bool hexadecimal = !o->checksum || strspn(o->checksum, "0123456789abcdefABCDEF") == digits;
    if (!hexadecimal || (digits != OLE_MD5_DIGITS && digits != OLE_SHA256_DIGITS))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "checksum %s: expected 32 hexadecimal digits (MD5) or 64 (SHA-256)",
                        ole_quote_string(o->checksum).text);
    return OLE_OK;
}

ole_status ole_download_options_read(ole_download_options *o, const ole_download_options *options,
                                     ole_error *error) {
    *o = defaults;
    ole_status status = ole_struct_read(o, options, OLE_SIZE_UP_TO(ole_download_options, max_files),
                                        "ole_download_options_init", error);
    return status == OLE_OK ? check_options(o, error) : status;
}

ole_status ole_dataset_download(const char *name_or_url, const ole_download_options *options,
                                ole_error *error) {
    if (!name_or_url)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_dataset_download: name_or_url is NULL");
    ole_download_options o;
    ole_status status = ole_download_options_read(&o, options, error);
    if (status != OLE_OK) return status;
    if (strstr(name_or_url, "://")) return download_url(name_or_url, &o, error);
    const ole_known_dataset *set = ole_known_find(name_or_url, strlen(name_or_url), error);
    if (!set) return OLE_ERROR_ARGUMENT;
    char folder[OLE_PATH_ROOM];
    if (!set->files->name) return OLE_OK;
    if (o.folder)
        status = ole_join_path(folder, o.folder, "", error);
    else
        status = ole_default_folder(folder, set->name, error);
    return status == OLE_OK ? download_known(set, folder, &o, error) : status;
}
