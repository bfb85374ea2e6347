#!/bin/sh
# check_format.sh - the sources are as clang-format leaves them.  Its versions differ in details, so
# only the one the project is formatted with counts; others skip (77).
set -eu
version=$(clang-format --version 2>/dev/null | sed 's/.*version \([0-9]*\).*/\1/') || version=none
if [ "$version" != 14 ]; then
    echo "clang-format 14 is what counts, here is: ${version:-none}"
    exit 77
fi
./dev format --check
