/*
 * src/model/hub.c - fetches hf:OWNER/MODEL[@REVISION] from a hub, or the URL of weights, into the
 * cache.
 *
 * The cache is hub/OWNER/MODEL/REVISION/model.safetensors, and beside it the ETag the hub gave that
 * version: while the hub says the same, nothing is fetched.  Without an answer the cached version
 * serves.  Neither the name nor the hub chooses a path: names hold no slashes but the one, and no
 * dots in front, and the file has one name.  Weights of a URL are url/HASH-OF-THE-URL/FILE.
 */
#include "model/hub.h"

#include "base/error.h"
#include "base/fnv.h"
#include "base/quote.h"
#include "data/download/checksum.h"
#include "data/download/fetch.h"
#include "data/find.h"
#include "model/run_folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char prefix[] = "hf:", file_name[] = "model.safetensors", etag_name[] = "etag";
static const char no_etag[] = "none"; /* in the place of one */
static const char default_endpoint[] = "https://huggingface.co";

enum { PART = 97 }; /* a part of a name has at most 96 characters */

typedef struct hub_name {
    char owner[PART], model[PART], revision[PART];
} hub_name;

bool ole_is_hub_name(const char *name) {
    return name && strncmp(name, prefix, strlen(prefix)) == 0;
}

/* ---- Names -------------------------------------------------------------------------------- */

/* Takes [A-Za-z0-9._-]+ that neither starts with a dot or dash nor has two dots in a row: it
 * becomes a folder and part of a URL. */
static bool take_part(const char **at, char part[PART]) {
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = strspn(*at, allowed);
    if (length == 0 || length >= PART || **at == '.' || **at == '-') return false;
    memcpy(part, *at, length);
    part[length] = '\0';
    *at += length;
    return !strstr(part, "..");
}

static ole_status parse_name(const char *text, hub_name *name, ole_error *error) {
    const char *at = text + strlen(prefix);
    strcpy(name->revision, "main");
    bool good = take_part(&at, name->owner) && *at++ == '/' && take_part(&at, name->model);
    if (good && *at == '@') {
        at++;
        good = take_part(&at, name->revision);
    }
    if (good && !*at) return OLE_OK;
    return ole_fail(error, OLE_ERROR_ARGUMENT,
                    "%s: not the name of a model on a hub: expected hf:OWNER/MODEL or "
                    "hf:OWNER/MODEL@REVISION, of letters, digits, '.', '_' and '-'",
                    ole_quote_string(text).text);
}

/* ---- The cache ---------------------------------------------------------------------------- */

/* Where a model lies: the folder, made where it is missing, and the file in it. */
typedef struct place {
    char folder[OLE_RUN_PATH], file[OLE_RUN_PATH];
} place;

/* `below`: the folder in the cache `cache`, of the file `file`. */
static ole_status find_place(place *p, const char *cache, const char *below, const char *file,
                             ole_error *error) {
    char full[5 * PART];
    ole_status status = ole_run_output_folder(p->folder, cache, below, error);
    if (status == OLE_OK) status = ole_run_make_folder(p->folder, NULL, error);
    if (status != OLE_OK) return status;
    /* Checked again from the cache on: nothing below it may be a link. */
    snprintf(full, sizeof full, "%s/%s", below, file);
    return ole_run_output(p->file, cache, full, error);
}

static ole_status find_model(place *p, const hub_name *name, const char *given, const char *file,
                             ole_error *error) {
    char cache[OLE_PATH_ROOM], below[4 * PART];
    ole_status status =
        given ? ole_join_path(cache, given, "", error) : ole_default_folder(cache, "hub", error);
    if (status != OLE_OK) return status;
    snprintf(below, sizeof below, "%s/%s/%s", name->owner, name->model, name->revision);
    return find_place(p, cache, below, file, error);
}

static void read_etag(const place *p, char etag[100]) {
    char path[OLE_RUN_PATH];
    etag[0] = '\0';
    if (access(p->file, R_OK) != 0 || ole_run_path(path, p->folder, etag_name, NULL) != OLE_OK)
        return;
    FILE *file = fopen(path, "re");
    if (!file) return;
    etag[fread(etag, 1, 99, file)] = '\0';
    fclose(file);
}

/* ---- Fetching ----------------------------------------------------------------------------- */

/* A sha256 sum stands in the ETag of a large file; other ETags only tell versions apart. */
static const char *checksum_of(const char *etag) {
    bool sum =
        strlen(etag) == OLE_SHA256_DIGITS && strspn(etag, "0123456789abcdef") == OLE_SHA256_DIGITS;
    return sum ? etag : NULL;
}

static ole_status fail_answer(const char *text, long http, ole_error *error) {
    if (http == 401 || http == 403 || http == 404)
        return ole_fail(error, OLE_ERROR_IO,
                        "%s: the hub has no such model with a %s for everybody (HTTP %ld); "
                        "check the name, or download the file of a private one by hand",
                        text, file_name, http);
    return ole_fail(error, OLE_ERROR_IO, "%s: the hub answers with HTTP %ld; try again later", text,
                    http);
}

static ole_status make_url(char url[OLE_URL_ROOM], const hub_name *name, const char *revision,
                           const char *file, const char *source, ole_error *error) {
    const char *endpoint = source ? source : getenv("HF_ENDPOINT");
    if (!endpoint || !*endpoint) endpoint = default_endpoint;
    int length = (int)strlen(endpoint);
    while (length > 0 && endpoint[length - 1] == '/')
        length--;
    if (strncmp(endpoint, "https://", 8) != 0 && strncmp(endpoint, "http://", 7) != 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "HF_ENDPOINT %s: a URL of http or https expected",
                        ole_quote_string(endpoint).text);
    if (snprintf(url, OLE_URL_ROOM, "%.*s/%s/%s/resolve/%s/%s", length, endpoint, name->owner,
                 name->model, revision, file) >= OLE_URL_ROOM)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "HF_ENDPOINT %s: too long",
                        ole_quote_string(endpoint).text);
    return OLE_OK;
}

/* The revision to fetch: the commit that the answer was about, as a branch may move meanwhile. */
static const char *fixed_revision(const ole_fetch_about *about, const hub_name *name) {
    size_t length = strlen(about->version);
    bool commit = length >= 40 && strspn(about->version, "0123456789abcdef") == length;
    return commit ? about->version : name->revision;
}

static ole_status fetch_version(const char *text, const char *url, const char *name, const place *p,
                                const ole_fetch_about *about, const char *checksum,
                                const ole_download_options *options, ole_error *error) {
    if (about->size > options->max_bytes)
        return ole_fail(error, OLE_ERROR_IO,
                        "%s: %s has %.3g GB, over the limit of %.3g GB; if it should, download it "
                        "by hand and name the file",
                        text, name, (double)about->size / 1e9, (double)options->max_bytes / 1e9);
    ole_fetch f = {.url = url,
                   .name = name,
                   .path = p->file,
                   .size = about->size,
                   .limit = about->size > 0 ? about->size : options->max_bytes,
                   .is_fixed = true,
                   .checksum = checksum,
                   .options = options};
    if (f.checksum && ole_fetch_there(&f)) return OLE_OK; /* only its etag was missing */
    char part[OLE_RUN_PATH];
    bool resumed =
        snprintf(part, sizeof part, "%s.part", p->file) < OLE_RUN_PATH && access(part, F_OK) == 0;
    ole_status status = ole_fetch_file(&f, error);
    if (status == OLE_ERROR_FORMAT && resumed) /* what was there may be of an older version */
        status = ole_fetch_file(&f, error);
    return status;
}

/* Stores the version that a file is of, as the server named it. */
static ole_status put_etag(const place *p, const ole_fetch_about *about, ole_error *error) {
    const char *etag = about->etag[0] ? about->etag : no_etag;
    return ole_run_put(p->folder, etag_name, etag, error);
}

static bool is_offline(void) {
    const char *offline = getenv("HF_HUB_OFFLINE");
    return offline && *offline && strcmp(offline, "0") != 0;
}

/* `again`: after another call of this run.  A version without an ETag then serves unasked: the
 * server could not tell that it is the same. */
static bool serves_again(bool again, const char *etag) {
    return again && strcmp(etag, no_etag) == 0;
}

static ole_status fetch_model(const char *text, bool again, const ole_download_options *options,
                              char *path, size_t capacity, ole_error *error) {
    if (!text || !path)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_model_fetch: name or path is NULL");
    const ole_quoted quoted = ole_quote_string(text);
    const char *found = text;
    place p;
    if (ole_is_hub_name(text)) {
        hub_name name;
        ole_download_options o;
        char url[OLE_URL_ROOM], etag[100];
        ole_fetch_about about;
        ole_error unanswered;
        ole_status status = ole_download_options_read(&o, options, error);
        if (status == OLE_OK) status = parse_name(text, &name, error);
        if (status == OLE_OK)
            status = make_url(url, &name, name.revision, file_name, o.source, error);
        if (status == OLE_OK) status = find_model(&p, &name, o.folder, file_name, error);
        if (status != OLE_OK) return status;
        read_etag(&p, etag);
        bool ask = !is_offline() && !serves_again(again, etag);
        bool answered = ask && ole_fetch_ask(&about, url, &o, &unanswered) == OLE_OK;
        if (!answered && !etag[0])
            return ask ? ole_fail(error, OLE_ERROR_IO, "%s: %s", quoted.text, unanswered.message)
                       : ole_fail(error, OLE_ERROR_IO,
                                  "%s: not in the cache, and HF_HUB_OFFLINE is set", quoted.text);
        bool usable = etag[0] && (!answered || about.http >= 500 ||
                                  (about.http == 200 && strcmp(etag, about.etag) == 0));
        if (!usable) {
            if (about.http != 200) return fail_answer(quoted.text, about.http, error);
            status =
                make_url(url, &name, fixed_revision(&about, &name), file_name, o.source, error);
            if (status == OLE_OK)
                status = fetch_version(quoted.text, url, file_name, &p, &about,
                                       checksum_of(about.etag), &o, error);
            if (status == OLE_OK) status = put_etag(&p, &about, error);
            if (status != OLE_OK) return status;
        }
        found = p.file;
    }
    if (strlen(found) >= capacity)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s: the path is too long", quoted.text);
    strcpy(path, found);
    return OLE_OK;
}

ole_status ole_model_fetch(const char *text, const ole_download_options *options, char *path,
                           size_t capacity, ole_error *error) {
    return fetch_model(text, false, options, path, capacity, error);
}

bool ole_hub_fetch_beside(const char *text, const char *file, char path[OLE_RUN_PATH]) {
    enum { LARGEST = 1 << 20 };
    hub_name name;
    place p;
    ole_download_options o;
    char url[OLE_URL_ROOM];
    ole_error ignored;
    ole_download_options_init(&o);
    o.retries = 1;
    if (parse_name(text, &name, &ignored) != OLE_OK ||
        make_url(url, &name, name.revision, file, o.source, &ignored) != OLE_OK ||
        find_model(&p, &name, o.folder, file, &ignored) != OLE_OK)
        return false;
    ole_fetch f = {.url = url,
                   .name = file,
                   .path = p.file,
                   .limit = LARGEST,
                   .is_fixed = true,
                   .options = &o};
    if (!is_offline()) (void)ole_fetch_file(&f, &ignored); /* else the cached one serves */
    strcpy(path, p.file);
    return access(path, R_OK) == 0;
}

/* ---- URLs --------------------------------------------------------------------------------- */

bool ole_is_url(const char *text) {
    return strncmp(text, "https://", 8) == 0 || strncmp(text, "http://", 7) == 0;
}

/* The file that a URL names, and the checksum behind its '#', if any. */
static ole_status parse_url(const char *text, char url[OLE_URL_ROOM], char file[PART],
                            const char **checksum, ole_error *error) {
    static const char hash[] = "#sha256=";
    const char *end = strchr(text, '#'), *query = strchr(text, '?');
    if (!end) end = text + strlen(text);
    const char *stop = query && query < end ? query : end, *at = stop;
    while (at > text && at[-1] != '/')
        at--;
    bool good = (size_t)(end - text) < OLE_URL_ROOM && take_part(&at, file) && at == stop;
    const char *dot = good ? strrchr(file, '.') : NULL;
    if (!dot || (strcmp(dot, ".safetensors") != 0 && strcmp(dot, ".caffemodel") != 0))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s: expected the URL of a .safetensors or .caffemodel file; download and "
                        "convert others with python3 -m ole.convert",
                        ole_quote_string(text).text);
    *checksum = NULL;
    if (*end && strncmp(end, hash, strlen(hash)) == 0) *checksum = checksum_of(end + strlen(hash));
    if (*end && !*checksum)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s: after '#' expected sha256= and 64 digits from 0 to 9 and a to f",
                        ole_quote_string(text).text);
    snprintf(url, OLE_URL_ROOM, "%.*s", (int)(end - text), text);
    return OLE_OK;
}

/* Bytes of weights at a URL: a name chooses a known hub, but a URL any server. */
static const int64_t MOST_OF_URL = INT64_C(4000000000);

/* With a checksum the cached file serves unasked; else while the server names the same version. */
static ole_status fetch_url(const char *text, bool again, char path[OLE_RUN_PATH],
                            ole_error *error) {
    char url[OLE_URL_ROOM], file[PART], cache[OLE_PATH_ROOM], below[24], etag[100];
    const char *checksum;
    const ole_quoted quoted = ole_quote_string(text);
    place p;
    ole_download_options o;
    ole_fetch_about about = {0};
    ole_download_options_init(&o);
    o.max_bytes = MOST_OF_URL;
    ole_status status = parse_url(text, url, file, &checksum, error);
    if (status == OLE_OK) status = ole_default_folder(cache, "url", error);
    if (status != OLE_OK) return status;
    snprintf(below, sizeof below, "%016" PRIx64, ole_fnv64(url, strlen(url)));
    status = find_place(&p, cache, below, file, error);
    if (status != OLE_OK) return status;
    strcpy(path, p.file);
    const ole_fetch there = {.url = url, .path = p.file, .checksum = checksum, .options = &o};
    if (checksum && ole_fetch_there(&there)) return OLE_OK;
    read_etag(&p, etag);
    if (!checksum && serves_again(again, etag)) return OLE_OK;
    ole_error unanswered;
    bool answered = ole_fetch_ask(&about, url, &o, &unanswered) == OLE_OK;
    bool same = !answered || about.http >= 500 || strcmp(etag, about.etag) == 0;
    if (!checksum && etag[0] && same) return OLE_OK;
    if (!answered) return ole_fail(error, OLE_ERROR_IO, "%s: %s", quoted.text, unanswered.message);
    if (about.http != 200)
        return ole_fail(error, OLE_ERROR_IO, "%s: the server answers with HTTP %ld", quoted.text,
                        about.http);
    status = fetch_version(quoted.text, url, file, &p, &about, checksum, &o, error);
    return status == OLE_OK ? put_etag(&p, &about, error) : status;
}

ole_status ole_weights_fetch(const char *text, bool again, char path[OLE_RUN_PATH],
                             ole_error *error) {
    if (ole_is_url(text)) return fetch_url(text, again, path, error);
    return fetch_model(text, again, NULL, path, OLE_RUN_PATH, error);
}
