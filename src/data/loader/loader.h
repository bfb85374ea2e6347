/*
 * src/data/loader/loader.h - a loader's internals, for devices that assemble batches themselves.
 */
#ifndef OLE_SRC_DATA_LOADER_LOADER_H
#define OLE_SRC_DATA_LOADER_LOADER_H

#include "data/loader/augment.h"
#include "data/loader/mixup.h"

enum { OLE_LOADER_MAX_THREADS = 256 };

const ole_augment *ole_loader_augment(const ole_loader *loader);

/* Whether the pixels of a sample differ between epochs. */
bool ole_loader_augments(const ole_loader_options *options);

/*
 * Mixes every batch from now on (mixup.h); before the first.  With parts, rows are blended with
 * those of the whole batch, so that the parts together are the batch of one process.
 */
ole_status ole_loader_mix_up(ole_loader *loader, double alpha, ole_error *error);
double ole_loader_alpha(const ole_loader *loader); /* 0: batches are not mixed */

/* What the batch handed out last was mixed with, as long as it is valid; NULL: nothing. */
const ole_mix *ole_loader_mix(const ole_loader *loader);

/* Samples of a whole batch, including all parts. */
int64_t ole_loader_batch_size(const ole_loader *loader);

/* The samples of an epoch, all parts, batch after batch, [batches * batch size]; -1 where the last
 * is short.
 */
void ole_loader_list(ole_loader *loader, int64_t epoch, int64_t *list);

#endif
