/*
 * src/train/ranks/shared_dataset.c - one rank per host reads the data, the others map it.
 *
 * A rank maps what the first rank of its host has read if both were given the same name in the same
 * folder; otherwise it reads the data itself, which costs nothing but memory.
 */
#include "train/ranks/shared_dataset.h"

#include "data/dataset.h"
#include "data/download/checksum.h"
#include "data/shared.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The information about itself that a rank sends to the others. */
typedef struct rank_info {
    char host[64];
    char asked[OLE_SHA256_DIGITS + 1]; /* checksum of name and folder */
    int first;                         /* rank of its host */
    ole_shared_name published;         /* path "": nothing */
} rank_info;

static rank_info describe(const ole_ranks *ranks, const char *name) {
    rank_info p = {.first = ranks->on_host == 0};
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

/* Maps the data published by the first rank of this host, or opens them here. */
static ole_status attach(ole_dataset **set, const char *name, const ole_dataset_options *options,
                         const rank_info *all, int size, const rank_info *ours, ole_error *error) {
    const char *rest;
    const ole_reader *reader = ole_find_reader(name, &rest, error);
    ole_source source;
    for (int r = 0; r < size && reader; r++)
        if (all[r].first && all[r].published.path[0] && strcmp(all[r].host, ours->host) == 0 &&
            strcmp(all[r].asked, ours->asked) == 0) {
            if (ole_source_attach(&source, &all[r].published, error) != OLE_OK) break;
            return ole_dataset_take(set, reader->name, &source, options, error);
        }
    return ole_dataset_open(set, name, options, error);
}

ole_status ole_samples_open(ole_dataset **set, const char *name, const ole_dataset_options *options,
                            ole_ranks *ranks, ole_error *error) {
    *set = NULL;
    if (ole_ranks_size(ranks) == 1) return ole_dataset_open(set, name, options, error);
    rank_info ours = describe(ranks, name);
    int fd = -1;
    ole_status status = ours.first ? ole_dataset_open(set, name, options, error) : OLE_OK;
    status = ole_ranks_agree(ranks, status, error);
    if (status == OLE_OK) {
        if (ours.first && ranks->ranks_on_host > 1)
            ole_source_publish(&(*set)->source, &ours.published, &fd, NULL);
        rank_info *all = ole_ranks_gather_records(ranks, &ours, sizeof ours, error);
        if (!all)
            status = OLE_ERROR_MEMORY;
        else if (!ours.first)
            status = attach(set, name, options, all, ranks->size, &ours, error);
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
