/*
 * src/data/download/fetch.h - one file from the network: resumed where it broke off, limited in
 * size, compared with its checksum.
 *
 *     ole_fetch f = {.url = url, .name = "x.zip", .path = "data/x.zip", .limit = most_bytes,
 *                    .options = &options};
 *     ole_status status = ole_fetch_there(&f) ? OLE_OK : ole_fetch_file(&f, error);
 */
#ifndef OLE_SRC_DATA_DOWNLOAD_FETCH_H
#define OLE_SRC_DATA_DOWNLOAD_FETCH_H

#include "base/quote.h"
#include "data/find_path.h"
#include "ole/train/data.h"

enum { OLE_URL_ROOM = 2048 };

typedef struct ole_fetch {
    const char *url;
    const char *name;     /* of the file, for progress */
    const char *path;     /* where it goes */
    int64_t size;         /* 0: unknown */
    int64_t limit;        /* the most bytes it may have */
    bool is_fixed;        /* nobody can raise the limit: a part that is larger is removed */
    const char *checksum; /* as in ole_download_options; NULL: unknown */
    const ole_download_options *options;
    bool stopped; /* by the callback; set by ole_fetch_file() */
    /* Private: */
    char part[OLE_PATH_ROOM];
    ole_quoted quoted; /* the URL, for messages */
    int lock;          /* the .part, locked where the file system can, to append to */
    int64_t offset;    /* where the transfer under way began */
    int64_t have;      /* bytes of the .part */
    int unwritten;     /* errno of a write that failed; 0: none did */
    bool too_large;    /* there are more than `limit` */
} ole_fetch;

/* Whether the file is there already, with its checksum if that is known. */
bool ole_fetch_there(const ole_fetch *fetch);

/* Fetches it unconditionally; it appears under its name only when complete.  OLE_ERROR_FORMAT: it
 * has another checksum, or more bytes than are published. */
ole_status ole_fetch_file(ole_fetch *fetch, ole_error *error);

/* What a server reports about a file without sending it. */
typedef struct ole_fetch_about {
    long http;        /* status of the answer; 0: there was none */
    char etag[100];   /* of this version, without quotes; "": not said */
    char version[64]; /* of the collection it belongs to (X-Repo-Commit); "": not said */
    int64_t size;     /* 0: not said */
} ole_fetch_about;

/*
 * Requests it, with the headers that model hubs send beside a redirect to their storage
 * (X-Linked-ETag, X-Linked-Size).  An answer such as 404 is no error; no answer is.
 */
ole_status ole_fetch_ask(ole_fetch_about *about, const char *url,
                         const ole_download_options *options, ole_error *error);

/* Options of a caller, which may be NULL, over the defaults, checked. */
ole_status ole_download_options_read(ole_download_options *read,
                                     const ole_download_options *options, ole_error *error);

#endif
