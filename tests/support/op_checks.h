/*
 * tests/support/op_checks.h - what every backend must pass, with cmocka: the op table, softmax and
 * the optimisers, against ref64.  `bound` is on the errors of op_compare().
 */
#ifndef OLE_TESTS_OP_CHECKS_H
#define OLE_TESTS_OP_CHECKS_H

#include "op_cases.h"

/* A context with that seed of dropout; fails the test on an error. Give it to backend->close(). */
ole_device_context *op_open(const ole_backend *backend, ole_conv_choice conv, uint64_t seed);

/* op_run() on a fresh context; fails the test on an error. */
void op_run_alone(const ole_backend *backend, const op_case *c, op_way way, op_data *data);

/* Every case in every way. */
void check_ops(const ole_backend *backend, ole_conv_choice conv, double bound);

/* The same in a precision, and the large ones. */
void check_ops_in(const ole_backend *backend, ole_precision precision, bool large, double bound);

/* Those of op_watched_cases that are wanted, in a few ways. */
typedef bool op_wanted(const op_case *c);
void check_watched_ops(const ole_backend *backend, ole_precision precision, op_wanted *wanted,
                       double bound);

/* Loss, scores, right rows and gradient, for shapes and logits small and huge. */
void check_softmax(const ole_backend *backend, double bound);

/* Several steps of SGD, with and without momentum and Nesterov, and of Adam. */
void check_updates(const ole_backend *backend, double bound);

#endif
