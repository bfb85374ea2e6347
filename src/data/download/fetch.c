/*
 * src/data/download/fetch.c - one file from the network, through libcurl.
 *
 * A file is fetched as NAME.part, compared with its checksum and renamed.  A .part that is there is
 * continued, whoever left it; when it cannot be continued, or the file has changed since, it is
 * fetched again from the start.  Who fetches holds a lock on it: two would write into each other.
 *
 * The server is not trusted: it may send for ever, a byte at a time, or from another place.
 */
#include "data/download/fetch.h"

#include "base/error.h"
#include "data/download/checksum.h"

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
    SLOWEST = 1000
}; /* bytes per second; less for options.stall seconds is a broken connection */

static int64_t file_size(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode) ? about.st_size : -1;
}

static ole_status fail_part(const ole_fetch *f, const char *what, ole_error *error) {
    return ole_fail(error, OLE_ERROR_IO, "%s: cannot %s: %s", ole_quote_string(f->part).text, what,
                    strerror(errno));
}

/* ---- One transfer ------------------------------------------------------------------------- */

#ifdef OLE_HAVE_CURL

#include <curl/curl.h>
#include <pthread.h>

typedef enum outcome { DONE, AGAIN, FROM_START, FAILED } outcome;

static void start_curl(void) {
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void start_curl_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_curl);
}

static int report_progress(void *context, curl_off_t total, curl_off_t now, curl_off_t up_total,
                           curl_off_t up_now) {
    (void)up_total, (void)up_now;
    ole_fetch *f = context;
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
    ole_fetch *f = context;
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

/* What holds for every request. */
static void set_common(CURL *curl, const char *url, char *message) {
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, message);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 30L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "ole");
    const char *certificates = getenv("CURL_CA_BUNDLE"); /* as the program curl does */
    if (certificates && *certificates) curl_easy_setopt(curl, CURLOPT_CAINFO, certificates);
    bool secure = is_secure(url);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
#else
    long both = CURLPROTO_HTTP | CURLPROTO_HTTPS;
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, both);
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS, secure ? (long)CURLPROTO_HTTPS : both);
#endif
}

static void set_options(CURL *curl, ole_fetch *f, char *message) {
    set_common(curl, f->url, message);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, write_part);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, f);
    curl_easy_setopt(curl, CURLOPT_FILETIME, 1L);
    curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)f->offset);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, report_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, f);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, (long)SLOWEST);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)f->options->stall);
    curl_off_t left = f->limit > f->offset ? f->limit - f->offset : 1; /* 0 is no limit */
    curl_easy_setopt(curl, CURLOPT_MAXFILESIZE_LARGE, left);
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

static ole_status explain(const ole_fetch *f, const ending *end, ole_error *error) {
    if (f->unwritten)
        return ole_fail(
            error, OLE_ERROR_IO,
            "%s: cannot write: %s; the part that arrived is kept, and the next call resumes there",
            ole_quote_string(f->part).text, strerror(f->unwritten));
    if (f->too_large && f->size > 0)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: longer than the published %" PRId64 " bytes, so another file; removed",
                        f->quoted.text, f->size);
    if (f->too_large && f->is_fixed)
        return ole_fail(error, OLE_ERROR_IO,
                        "%s: larger than the limit of %g GB; removed; if it should be, download it "
                        "by hand and name the file",
                        f->quoted.text, (double)f->limit / 1e9);
    if (f->too_large)
        return ole_fail(
            error, OLE_ERROR_IO,
            "%s: larger than the limit of %g GB; raise it with --max-size (C: options.max_bytes)",
            f->quoted.text, (double)f->limit / 1e9);
    if (end->code == CURLE_OPERATION_TIMEDOUT && f->have > f->offset)
        return ole_fail(error, OLE_ERROR_IO,
                        "%s: cannot download: less than %d bytes per second arrived for %d s; the "
                        "part that arrived is kept, and the next call resumes there",
                        f->quoted.text, SLOWEST, f->options->stall);
    if (end->code == CURLE_UNSUPPORTED_PROTOCOL && is_secure(f->url))
        return ole_fail(error, OLE_ERROR_IO,
                        "%s: the server redirects from https to an unencrypted protocol; use a URL "
                        "that stays on https",
                        f->quoted.text);
    const char *why = *end->message ? end->message : curl_easy_strerror(end->code);
    return ole_fail(error, OLE_ERROR_IO, "%s: cannot download: %s", f->quoted.text,
                    ole_quote_string(why).text);
}

static void perform(ole_fetch *f, ending *end) {
    CURL *curl = curl_easy_init();
    *end = (ending){.code = CURLE_OUT_OF_MEMORY, .changed = -1};
    if (!curl) return;
    set_options(curl, f, end->message);
    end->code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &end->http);
    curl_easy_getinfo(curl, CURLINFO_FILETIME, &end->changed);
    curl_easy_cleanup(curl);
}

/* Downloads the missing rest of the .part file. */
static outcome transfer(ole_fetch *f, ole_status *status, ole_error *error) {
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
    /* A server without ranges sends the whole file, whose length says nothing about the rest. */
    bool whole = f->offset > 0 && end.http == 200;
    f->too_large = f->too_large || (end.code == CURLE_FILESIZE_EXCEEDED && !whole);
    if (end.code != CURLE_OK) *status = explain(f, &end, error);
    /* What was there before may belong to another file: the server's changed later, or has no more
     * bytes (416) and there is no checksum to tell. */
    bool stale =
        f->offset > 0 && (end.changed > (long)about.st_mtime || (end.http == 416 && !f->checksum));
    return !f->stopped && (stale || (whole && end.code != CURLE_OK)) ? FROM_START : judge(&end);
}

/* Brings the .part to its full length, over as many connections as it takes. */
static ole_status fetch_part(ole_fetch *f, ole_error *error) {
    start_curl_once();
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
            return ole_fail(
                error, OLE_ERROR_IO,
                "%s: stopped; the part that arrived is kept, and the next call resumes there",
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

/* ---- Asking -------------------------------------------------------------------------------
 */

/* Copies a header's value, if the line has that header: without quotes, W/ and line end. */
static bool take_header(const char *line, size_t length, const char *name, char *value,
                        size_t room) {
    size_t prefix = strlen(name);
    if (length <= prefix || strncasecmp(line, name, prefix) != 0 || line[prefix] != ':')
        return false;
    const char *from = line + prefix + 1, *to = line + length;
    while (from < to && (*from == ' ' || *from == '\t'))
        from++;
    if (to - from > 2 && from[0] == 'W' && from[1] == '/') from += 2;
    while (to > from && (to[-1] == '\r' || to[-1] == '\n' || to[-1] == ' ' || to[-1] == '"'))
        to--;
    if (from < to && *from == '"') from++;
    size_t size = (size_t)(to - from);
    value[0] = '\0';
    if (size >= room) return false;
    memcpy(value, from, size);
    value[size] = '\0';
    return true;
}

/* The headers of one answer. */
typedef struct answer {
    char etag[100], linked_etag[100], size[24], linked_size[24], version[64];
} answer;

static size_t read_header(char *line, size_t size, size_t count, void *context) {
    answer *a = context;
    size_t length = size * count;
    if (length > 5 && strncasecmp(line, "HTTP/", 5) == 0) *a = (answer){0}; /* 100 Continue */
    (void)(take_header(line, length, "ETag", a->etag, sizeof a->etag) ||
           take_header(line, length, "X-Linked-ETag", a->linked_etag, sizeof a->linked_etag) ||
           take_header(line, length, "Content-Length", a->size, sizeof a->size) ||
           take_header(line, length, "X-Linked-Size", a->linked_size, sizeof a->linked_size) ||
           take_header(line, length, "X-Repo-Commit", a->version, sizeof a->version));
    return length;
}

/* Sends one request without following redirects; `next` is a redirect's target, or "". */
static CURLcode ask_once(const char *url, const ole_download_options *options, answer *a,
                         long *http, char next[OLE_URL_ROOM], char message[CURL_ERROR_SIZE]) {
    CURL *curl = curl_easy_init();
    if (!curl) return CURLE_OUT_OF_MEMORY;
    const char *to = NULL;
    set_common(curl, url, message);
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)options->stall);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, read_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, a);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, http);
    curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &to);
    next[0] = '\0';
    if (to && strlen(to) < OLE_URL_ROOM) strcpy(next, to);
    curl_easy_cleanup(curl);
    return code;
}

/*
 * Follows redirects only within the hub, as for a renamed model: the storage that the hub redirects
 * to may not answer HEAD, and is requested for the file anyway.
 */
ole_status ole_fetch_ask(ole_fetch_about *about, const char *url,
                         const ole_download_options *options, ole_error *error) {
    enum { MOST_REDIRECTS = 5 };
    char at[OLE_URL_ROOM], next[OLE_URL_ROOM], message[CURL_ERROR_SIZE] = "";
    answer a = {0};
    *about = (ole_fetch_about){0};
    start_curl_once();
    snprintf(at, sizeof at, "%s", url);
    for (int i = 0; i < MOST_REDIRECTS; i++) {
        CURLcode code = ask_once(at, options, &a, &about->http, next, message);
        if (code != CURLE_OK)
            return ole_fail(error, OLE_ERROR_IO, "%s: no answer: %s", ole_quote_string(at).text,
                            ole_quote_string(*message ? message : curl_easy_strerror(code)).text);
        if (a.linked_etag[0] || about->http / 100 != 3 || !next[0]) break;
        if (is_secure(at) && !is_secure(next)) break; /* the transfer refuses it, with a reason */
        memcpy(at, next, sizeof at);
    }
    snprintf(about->etag, sizeof about->etag, "%s", a.linked_etag[0] ? a.linked_etag : a.etag);
    snprintf(about->version, sizeof about->version, "%s", a.version);
    about->size = strtoll(a.linked_etag[0] ? a.linked_size : a.size, NULL, 10);
    if (about->http / 100 == 3 && a.linked_etag[0]) about->http = 200; /* it is there, elsewhere */
    return OLE_OK;
}

#else

ole_status ole_fetch_ask(ole_fetch_about *about, const char *url,
                         const ole_download_options *options, ole_error *error) {
    (void)options;
    *about = (ole_fetch_about){0};
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "%s: this build cannot download: libcurl is missing",
                    ole_quote_string(url).text);
}

static ole_status fetch_part(ole_fetch *f, ole_error *error) {
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "%s: this build cannot download; save it as %s yourself, or install libcurl "
                    "(libcurl4-openssl-dev) and rebuild",
                    f->quoted.text, f->path);
}

#endif

/* ---- One file ----------------------------------------------------------------------------- */

static ole_status verify(const ole_fetch *f, const char *path, ole_error *error) {
    if (!f->checksum) return OLE_OK;
    char sum[OLE_SHA256_DIGITS + 1];
    ole_status status = ole_checksum_file(path, (int)strlen(f->checksum), sum, error);
    if (status != OLE_OK || strcasecmp(sum, f->checksum) == 0) return status;
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: the checksum is %s, not %s: the file was damaged on the way or is another "
                    "one; removed",
                    f->quoted.text, sum, f->checksum);
}

/*
 * Opens the .part and locks it, unless it is another one by then: whoever had it has renamed it.
 * Links and pipes are refused: it may only hold bytes of this file.
 */
static ole_status lock_part(ole_fetch *f, ole_error *error) {
    for (;;) {
        struct stat ours, there;
        f->lock =
            open(f->part, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
        if (f->lock < 0) return fail_part(f, "write", error);
        if (fstat(f->lock, &ours) != 0 || !S_ISREG(ours.st_mode)) {
            close(f->lock);
            return ole_fail(error, OLE_ERROR_IO, "%s: not a regular file: remove it",
                            ole_quote_string(f->part).text);
        }
        if (flock(f->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            close(f->lock);
            return ole_fail(error, OLE_ERROR_IO,
                            "%s: another process is downloading it into the same folder; wait for "
                            "it to finish, then try again",
                            f->quoted.text);
        }
        bool same = stat(f->part, &there) == 0 && ours.st_ino == there.st_ino &&
                    ours.st_dev == there.st_dev;
        if (same && ours.st_nlink == 1) return OLE_OK;
        if (same) unlink(f->part); /* it has another name too, whose bytes are not ours to change */
        close(f->lock);
    }
}

ole_status ole_fetch_file(ole_fetch *f, ole_error *error) {
    f->quoted = ole_quote_string(f->url);
    if (snprintf(f->part, sizeof f->part, "%s.part", f->path) >= (int)sizeof f->part)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s: the path to store it at is too long",
                        f->quoted.text);
    ole_status status = lock_part(f, error);
    if (status != OLE_OK) return status;
    status = fetch_part(f, error);
    bool useless = file_size(f->part) == 0 || (f->too_large && (f->size > 0 || f->is_fixed));
    if (status != OLE_OK && useless) unlink(f->part);
    if (status == OLE_OK) {
        status = verify(f, f->part, error);
        if (status == OLE_ERROR_FORMAT) unlink(f->part);
    }
    if (status == OLE_OK && rename(f->part, f->path) != 0) status = fail_part(f, "rename", error);
    close(f->lock);
    return status;
}

bool ole_fetch_there(const ole_fetch *f) {
    return file_size(f->path) >= 0 && verify(f, f->path, NULL) == OLE_OK;
}
