/*
 * src/data/download/download.c - data sets from the network, through libcurl.
 *
 * A file is fetched as NAME.part, compared with its checksum and renamed.  A .part that is there is
 * continued, whoever left it; when it cannot be continued, or the file has changed since, it is
 * fetched again from the start.  Who fetches holds a lock on it: two would write into each other.
 *
 * The server is not trusted: it may send for ever, a byte at a time, or from another place.
 */
#include "base/error.h"
#include "base/quote.h"
#include "base/struct_size.h"
#include "data/download/checksum.h"
#include "data/download/known.h"
#include "data/download/unpack.h"
#include "data/find.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_RETRIES = 1000,
    URL_ROOM = 2048,
    SLOWEST = 1000, /* bytes per second; less for options.stall seconds is a broken connection */
    MAX_STALL = 86400,
};

/* One file to fetch. */
typedef struct fetch {
    const char *url;
    const char *name; /* of the file, for progress */
    const char *path; /* where it goes */
    char part[OLE_PATH_ROOM];
    ole_quoted quoted; /* the URL, for messages */
    int64_t size;      /* 0: not known */
    int64_t limit;     /* the most bytes it may have */
    const char *checksum;
    const ole_download_options *options;
    int lock;       /* the .part, locked where the file system can, to append to */
    int64_t offset; /* where the transfer under way began */
    int64_t have;   /* bytes of the .part */
    int unwritten;  /* errno of a write that failed; 0: none did */
    bool too_large; /* there are more than `limit` */
    bool stopped;   /* by the callback */
} fetch;

static const ole_download_options defaults = {.struct_size = sizeof(ole_download_options),
                                              .retries = 5,
                                              .stall = 60,
                                              .max_bytes = INT64_C(20000000000),
                                              .max_files = 2000000};

void ole_download_options_init_sized(ole_download_options *options, size_t struct_size) {
    ole_struct_fill(options, struct_size, &defaults);
}

static int64_t file_size(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode) ? about.st_size : -1;
}

static ole_status fail_part(const fetch *f, const char *what, ole_error *error) {
    ole_quoted quoted;
    return ole_fail(error, OLE_ERROR_IO, "%s: cannot %s: %s", ole_quote_string(&quoted, f->part),
                    what, strerror(errno));
}

/* ---- One transfer ------------------------------------------------------------------------- */

#ifdef OLE_HAVE_CURL

#include <curl/curl.h>
#include <pthread.h>

typedef enum outcome { DONE, AGAIN, FROM_START, FAILED } outcome;

static void start_curl(void) {
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static int report_progress(void *context, curl_off_t total, curl_off_t now, curl_off_t up_total,
                           curl_off_t up_now) {
    (void)up_total, (void)up_now;
    fetch *f = context;
    if (!f->options->callback) return 0;
    ole_download_progress progress = {
        .file = f->name,
        .done = f->offset + now,
        .total = total > 0 ? f->offset + total : f->size,
    };
    f->stopped = f->options->callback(f->options->callback_context, &progress);
    return f->stopped;
}

static size_t write_part(char *bytes, size_t size, size_t count, void *context) {
    fetch *f = context;
    f->have += (int64_t)(size * count);
    f->too_large = f->have > f->limit;
    if (f->too_large) return 0;
    for (size_t left = size * count; left > 0;) {
        ssize_t written = write(f->lock, bytes + size * count - left, left);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) {
            f->unwritten = errno;
            return 0;
        }
        left -= (size_t)written;
    }
    return size * count;
}

static bool is_secure(const char *url) {
    return strncasecmp(url, "https://", 8) == 0;
}

static void set_options(CURL *curl, fetch *f, char *message) {
    curl_easy_setopt(curl, CURLOPT_URL, f->url);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, write_part);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, f);
    curl_easy_setopt(curl, CURLOPT_FILETIME, 1L);
    curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)f->offset);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, message);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, report_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, f);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 30L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, (long)SLOWEST);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)f->options->stall);
    curl_off_t left = f->limit > f->offset ? f->limit - f->offset : 1; /* 0 is no limit */
    curl_easy_setopt(curl, CURLOPT_MAXFILESIZE_LARGE, left);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "ole");
    const char *certificates = getenv("CURL_CA_BUNDLE"); /* as the program curl does */
    if (certificates && *certificates) curl_easy_setopt(curl, CURLOPT_CAINFO, certificates);
    bool secure = is_secure(f->url);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
#else
    long both = CURLPROTO_HTTP | CURLPROTO_HTTPS;
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, both);
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS, secure ? (long)CURLPROTO_HTTPS : both);
#endif
}

/* How a transfer ended. */
typedef struct ending {
    CURLcode code;
    long http, changed; /* the server's answer; when the file there was changed, or -1 */
    char message[CURL_ERROR_SIZE];
} ending;

static outcome judge(const ending *end) {
    switch (end->code) {
    case CURLE_OK:
        return DONE;
    case CURLE_RANGE_ERROR:
    case CURLE_BAD_DOWNLOAD_RESUME:
        return FROM_START;
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_OPERATION_TIMEDOUT:
        return AGAIN;
    case CURLE_HTTP_RETURNED_ERROR:
        return end->http >= 500 ? AGAIN : FAILED;
    default:
        return FAILED;
    }
}

static ole_status explain(const fetch *f, const ending *end, ole_error *error) {
    ole_quoted quoted;
    if (f->unwritten)
        return ole_fail(error, OLE_ERROR_IO,
                        "%s: cannot write: %s; what has arrived is kept, the next call "
                        "continues from there",
                        ole_quote_string(&quoted, f->part), strerror(f->unwritten));
    if (f->too_large && f->size > 0)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: has more than the %" PRId64 " bytes that are published: it is another "
                        "file; it was removed",
                        f->quoted.text, f->size);
    if (f->too_large)
        return ole_fail(error, OLE_ERROR_IO,
                        "%s: larger than the limit of %g GB; raise it with --max-size (C: "
                        "options.max_bytes) if it should be",
                        f->quoted.text, (double)f->limit / 1e9);
    if (end->code == CURLE_OPERATION_TIMEDOUT && f->have > f->offset)
        return ole_fail(error, OLE_ERROR_IO,
                        "%s: cannot download: less than %d bytes a second arrived for %d s; what "
                        "has arrived is kept, the next call continues from there",
                        f->quoted.text, SLOWEST, f->options->stall);
    if (end->code == CURLE_UNSUPPORTED_PROTOCOL && is_secure(f->url))
        return ole_fail(error, OLE_ERROR_IO,
                        "%s: the server redirects from https to another protocol, which could be "
                        "read and changed on the way: use a URL that stays on https",
                        f->quoted.text);
    const char *why = *end->message ? end->message : curl_easy_strerror(end->code);
    return ole_fail(error, OLE_ERROR_IO, "%s: cannot download: %s", f->quoted.text,
                    ole_quote_string(&quoted, why));
}

static void perform(fetch *f, ending *end) {
    CURL *curl = curl_easy_init();
    *end = (ending){.code = CURLE_OUT_OF_MEMORY, .changed = -1};
    if (!curl) return;
    set_options(curl, f, end->message);
    end->code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &end->http);
    curl_easy_getinfo(curl, CURLINFO_FILETIME, &end->changed);
    curl_easy_cleanup(curl);
}

/* Appends to the .part what is missing of it. */
static outcome transfer(fetch *f, ole_status *status, ole_error *error) {
    struct stat about;
    if (fstat(f->lock, &about) != 0) {
        *status = fail_part(f, "write", error);
        return FAILED;
    }
    ending end;
    f->offset = f->have = about.st_size;
    f->unwritten = 0;
    f->too_large = false;
    perform(f, &end);
    f->too_large = f->too_large || end.code == CURLE_FILESIZE_EXCEEDED;
    if (end.code != CURLE_OK) *status = explain(f, &end, error);
    /* What was there before may belong to another file: the server's changed later, or has no more
     * bytes (416) and there is no checksum to tell. */
    bool stale =
        f->offset > 0 && (end.changed > (long)about.st_mtime || (end.http == 416 && !f->checksum));
    return !f->stopped && stale ? FROM_START : judge(&end);
}

/* Brings the .part to its full length, over as many connections as it takes. */
static ole_status fetch_part(fetch *f, ole_error *error) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_curl);
    double pause = 0.2; /* seconds, doubled each time up to 10 */
    for (int attempt = 0;;) {
        int64_t have = file_size(f->part);
        if (f->size > 0 && have == f->size) return OLE_OK;
        if (f->size > 0 && have > f->size && ftruncate(f->lock, 0) != 0)
            return fail_part(f, "write", error);
        ole_status status = OLE_OK;
        outcome result = transfer(f, &status, error);
        if (result == DONE) return OLE_OK;
        if (f->stopped)
            return ole_fail(error, OLE_ERROR_IO,
                            "%s: stopped; what has arrived is kept, the next call continues from "
                            "there",
                            f->quoted.text);
        if (result == FROM_START && f->offset > 0) {
            if (ftruncate(f->lock, 0) != 0) return fail_part(f, "write", error);
            continue;
        }
        if (result != AGAIN || attempt++ >= f->options->retries) return status;
        struct timespec time = {(time_t)pause, (long)((pause - (double)(time_t)pause) * 1e9)};
        nanosleep(&time, NULL);
        pause = pause < 5 ? 2 * pause : 10;
    }
}

#else

static ole_status fetch_part(fetch *f, ole_error *error) {
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "%s: this build cannot download: fetch it by hand to %s, or install libcurl "
                    "(libcurl4-openssl-dev) and build again",
                    f->quoted.text, f->path);
}

#endif

/* ---- One file ----------------------------------------------------------------------------- */

static ole_status verify(const fetch *f, const char *path, ole_error *error) {
    if (!f->checksum) return OLE_OK;
    char sum[OLE_SHA256_DIGITS + 1];
    ole_status status = ole_checksum_file(path, (int)strlen(f->checksum), sum, error);
    if (status != OLE_OK || strcasecmp(sum, f->checksum) == 0) return status;
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: the checksum is %s, not %s: the file was damaged on the way or is another "
                    "one; it was removed",
                    f->quoted.text, sum, f->checksum);
}

/*
 * Opens the .part and locks it, unless it is another one by then: whoever had it has renamed it.
 * Neither a link nor a pipe will do: it is for bytes of this file alone.
 */
static ole_status lock_part(fetch *f, ole_error *error) {
    for (;;) {
        struct stat ours, there;
        f->lock =
            open(f->part, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
        if (f->lock < 0) return fail_part(f, "write", error);
        if (fstat(f->lock, &ours) != 0 || !S_ISREG(ours.st_mode)) {
            close(f->lock);
            ole_quoted quoted;
            return ole_fail(error, OLE_ERROR_IO, "%s: not a regular file: remove it",
                            ole_quote_string(&quoted, f->part));
        }
        if (flock(f->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            close(f->lock);
            return ole_fail(error, OLE_ERROR_IO,
                            "%s: another process is fetching it into the same folder: wait for "
                            "that, then call again",
                            f->quoted.text);
        }
        bool same = stat(f->part, &there) == 0 && ours.st_ino == there.st_ino &&
                    ours.st_dev == there.st_dev;
        if (same && ours.st_nlink == 1) return OLE_OK;
        if (same) unlink(f->part); /* it has another name too, whose bytes are not ours to change */
        close(f->lock);
    }
}

static ole_status fetch_file(fetch *f, ole_error *error) {
    ole_quote_string(&f->quoted, f->url);
    if (snprintf(f->part, sizeof f->part, "%s.part", f->path) >= (int)sizeof f->part)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s: the path it goes to is too long",
                        f->quoted.text);
    ole_status status = lock_part(f, error);
    if (status != OLE_OK) return status;
    status = fetch_part(f, error);
    bool useless = file_size(f->part) == 0 || (f->too_large && f->size > 0);
    if (status != OLE_OK && useless) unlink(f->part);
    if (status == OLE_OK) {
        status = verify(f, f->part, error);
        if (status == OLE_ERROR_FORMAT) unlink(f->part);
    }
    if (status == OLE_OK && rename(f->part, f->path) != 0) status = fail_part(f, "rename", error);
    close(f->lock);
    return status;
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
        char url[URL_ROOM];
        size_t length = strlen(*source);
        const char *slash = length > 0 && (*source)[length - 1] == '/' ? "" : "/";
        if (snprintf(url, sizeof url, "%s%s%s", *source, slash, file->name) >= (int)sizeof url)
            return ole_fail(error, OLE_ERROR_ARGUMENT, "options.source is too long");
        fetch f = {.url = url,
                   .name = file->name,
                   .path = path,
                   .size = file->size,
                   .limit = file->size > 0 ? file->size : options->max_bytes,
                   .checksum = file->md5,
                   .options = options};
        status = fetch_file(&f, error);
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
    if (length == 0 || length >= room || url[start] == '.') {
        ole_quoted quoted;
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s: this URL does not end in a file's name",
                        ole_quote_string(&quoted, url));
    }
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
    fetch f = {.url = url,
               .name = name,
               .path = path,
               .limit = options->max_bytes,
               .checksum = options->checksum,
               .options = options};
    const ole_unpack_limits limits = {options->max_bytes, options->max_files};
    bool there = file_size(path) >= 0 && verify(&f, path, NULL) == OLE_OK;
    if (!there) status = fetch_file(&f, error);
    if (status != OLE_OK || !ole_is_archive(name)) return status;
    status = ole_unpack(path, options->folder, NULL, &limits, error);
    if (status == OLE_ERROR_FORMAT && there) { /* what an earlier call found damaged */
        status = fetch_file(&f, error);
        if (status == OLE_OK) status = ole_unpack(path, options->folder, NULL, &limits, error);
    }
    if (status == OLE_OK) unlink(path);
    return status;
}

/* ---- Both --------------------------------------------------------------------------------- */

static ole_status check_options(const ole_download_options *o, ole_error *error) {
    if (o->retries < 0 || o->retries > MAX_RETRIES)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "options.retries is %d: give 0 to %d",
                        o->retries, MAX_RETRIES);
    if (o->max_bytes < 1 || o->max_files < 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.max_bytes is %" PRId64 " and options.max_files %" PRId64
                        ": give 1 or more",
                        o->max_bytes, o->max_files);
    if (o->stall < 1 || o->stall > MAX_STALL)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "options.stall is %d: give 1 to %d seconds",
                        o->stall, MAX_STALL);
    size_t digits = o->checksum ? strlen(o->checksum) : OLE_MD5_DIGITS;
    bool hexadecimal = !o->checksum || strspn(o->checksum, "0123456789abcdefABCDEF") == digits;
    ole_quoted quoted;
    if (!hexadecimal || (digits != OLE_MD5_DIGITS && digits != OLE_SHA256_DIGITS))
        return ole_fail(
            error, OLE_ERROR_ARGUMENT,
            "checksum %s: the 32 hexadecimal digits of an md5 sum or the 64 of a sha256 "
            "sum expected",
            ole_quote_string(&quoted, o->checksum));
    return OLE_OK;
}

ole_status ole_dataset_download(const char *name_or_url, const ole_download_options *options,
                                ole_error *error) {
    if (!name_or_url)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_dataset_download: name_or_url is NULL");
    ole_download_options o = defaults;
    ole_status status =
        ole_struct_read(&o, options, OLE_SIZE_UP_TO(ole_download_options, max_files),
                        "ole_download_options_init", error);
    if (status == OLE_OK) status = check_options(&o, error);
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
