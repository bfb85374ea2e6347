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

/* cmocka 2 deprecates assert_in_range(), the only name that cmocka 1 has. */
#ifndef assert_int_in_range
#define assert_int_in_range assert_in_range
#endif

/* Whether this build runs under AddressSanitizer: slower by far, and strict about allocations. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OLE_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(OLE_SANITIZED)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* Fails with the message when a call did not return OLE_OK. */
static inline void assert_ok(ole_status status, const ole_error *error) {
    if (status != OLE_OK) fail_msg("%s: %s", ole_status_name(status), error->message);
}

/* The quickest device that is no GPU: for tests that count steps, which a GPU does not tell. */
#ifdef OLE_HAVE_ONEDNN
#define TEST_DEVICE "cpu"
#else
#define TEST_DEVICE "ref"
#endif

#endif
