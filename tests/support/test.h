/* tests/support/test.h - cmocka with what it wants included first, and a check for statuses. */
#ifndef OLE_TESTS_TEST_H
#define OLE_TESTS_TEST_H

#include "ole/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* Fails with the message when a call did not return OLE_OK. */
static inline void assert_ok(ole_status status, const ole_error *error) {
    if (status != OLE_OK) fail_msg("%s: %s", ole_status_name(status), error->message);
}

#endif
