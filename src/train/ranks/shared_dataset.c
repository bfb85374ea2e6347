/*
 * src/train/ranks/shared_dataset.c - who of a host reads the data, and who maps it.
 *
 * A rank maps what the first of its host has read if both were asked for the same name in the same
 * folder; where that cannot be done it reads for itself.  Nothing is lost but memory.
 */
#include "train/ranks/shared_dataset.h"

#include "base/error.h"
#include "data/dataset.h"
#include "data/download/checksum.h"
#include "data/shared.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a rank tells the others. */
typedef struct place {
    char host[64];
    char asked[OLE_SHA256_DIGITS + 1]; /* a checksum of name and folder */
    int first;                         /* of its host */
    ole_shared_name published;         /* path "": nothing was */
} place;

static place place_of(const ole_ranks *ranks, const char *name) {
    place p = {.first = ranks->on_host == 0};
    memcpy(p.host, ranks->host, sizeof p.host);
    char folder[4096] = "";
    if (!getcwd(folder, sizeof folder)) folder[0] = '\0';
    ole_checksum sum;
    ole_checksum_begin(&sum, OLE_MD5_DIGITS);
    ole_checksum_add(&sum, folder, strlen(folder) + 1);
    ole_checksum_add(&sum, name, strlen(name));
    ole_checksum_end(&sum, p.asked);
    return p;
}

/* The first rank of our host among all, if it has published what we were asked for; or NULL. */
static const place *find_first(const place *all, int size, const place *ours) {
    for (int r = 0; r < size; r++)
        if (all[r].first && all[r].published.path[0] && strcmp(all[r].host, ours->host) == 0 &&
            strcmp(all[r].asked, ours->asked) == 0)
            return &all[r];
    return NULL;
}

static ole_status attach(ole_dataset **set, const char *name, const ole_dataset_options *options,
                         const place *first, ole_error *error) {
    const char *rest;
    const ole_reader *reader = ole_find_reader(name, &rest, error);
    ole_source source;
    if (!reader || !first || ole_source_attach(&source, &first->published, error) != OLE_OK)
        return ole_dataset_open(set, name, options, error);
    return ole_dataset_take(set, reader->name, &source, options, error);
}

/* Everybody's place; NULL without memory on any rank. */
static place *gather_places(ole_ranks *ranks, const place *ours) {
    size_t size = (size_t)ranks->size;
    place *all = calloc(size, sizeof *all);
    int64_t *bytes = calloc(size, sizeof *bytes);
    ole_status status = all && bytes ? OLE_OK : OLE_ERROR_MEMORY;
    if (ole_ranks_agree(ranks, status, NULL) == OLE_OK) {
        for (size_t r = 0; r < size; r++)
            bytes[r] = sizeof *all;
        ole_ranks_gather(ranks, ours, bytes, all);
    } else {
        free(all);
        all = NULL;
    }
    free(bytes);
    return all;
}

ole_status ole_samples_open(ole_dataset **set, const char *name, const ole_dataset_options *options,
                            ole_ranks *ranks, ole_error *error) {
    *set = NULL;
    if (ole_ranks_size(ranks) == 1) return ole_dataset_open(set, name, options, error);
    place ours = place_of(ranks, name);
    int fd = -1;
    ole_status status = ours.first ? ole_dataset_open(set, name, options, error) : OLE_OK;
    status = ole_ranks_agree(ranks, status, error);
    if (status == OLE_OK) {
        if (ours.first && ranks->ranks_on_host > 1)
            ole_source_publish(&(*set)->source, &ours.published, &fd, NULL);
        place *all = gather_places(ranks, &ours);
        if (!all)
            status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
        else if (!ours.first)
            status = attach(set, name, options, find_first(all, ranks->size, &ours), error);
        free(all);
        status = ole_ranks_agree(ranks, status, error);
    }
    if (fd >= 0) close(fd);
    if (status != OLE_OK) {
        ole_dataset_close(*set);
        *set = NULL;
    }
    return status;
}
