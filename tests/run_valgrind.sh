#!/bin/sh
# run_valgrind.sh PROGRAM FILE... - runs it under valgrind; the first error that valgrind sees fails the test. Leaks are
# the sanitizers' matter.
if ! command -v valgrind >/dev/null 2>&1; then
    echo "skipped: valgrind is not installed"
    exit 77
fi
exec valgrind --quiet --error-exitcode=9 --leak-check=no --exit-on-first-error=yes "$@"
