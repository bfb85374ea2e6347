/*
 * tests/support/ranks_checks.h - what a group of ranks must do, whatever it is made of.  Every rank
 * calls it; the answer is NULL, or what was wrong here.
 */
#ifndef OLE_TESTS_RANKS_CHECKS_H
#define OLE_TESTS_RANKS_CHECKS_H

#include "ranks/ranks.h"

const char *check_ranks(ole_ranks *ranks);

/* The bits of a sum of many float32 that depends on the order of adding. */
uint64_t ranks_sum_bits(ole_ranks *ranks);

#endif
