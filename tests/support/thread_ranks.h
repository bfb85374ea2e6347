/*
 * tests/support/thread_ranks.h - ranks that are threads of one process: what is computed over ranks
 * can be tried without a launcher, and under the sanitizers.
 */
#ifndef OLE_TESTS_THREAD_RANKS_H
#define OLE_TESTS_THREAD_RANKS_H

#include "ranks/ranks.h"

/* `size` ranks, groups[size], each for a thread of its own, which closes it. */
ole_status thread_ranks(ole_ranks **groups, int size, ole_error *error);

#endif
