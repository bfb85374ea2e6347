/* tests/support/shares.h - an ole_progress for tests: notes what it was told. */
#ifndef OLE_TESTS_SHARES_H
#define OLE_TESTS_SHARES_H

#include "test.h"

typedef struct shares {
    int calls;
    double last;
    const char *what; /* of all calls */
} shares;

/* Shares begin at 0, never fall and stay below 1: the end is not told. */
static inline void shares_note(void *context, const char *what, double share) {
    shares *s = context;
    assert_true(s->calls == 0 ? share == 0.0 : share >= s->last);
    assert_true(share < 1.0);
    if (s->calls > 0) assert_ptr_equal(what, s->what);
    *s = (shares){s->calls + 1, share, what};
}

#endif
