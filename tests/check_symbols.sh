#!/bin/sh
# check_symbols.sh LIBRARY HEADER... - libole exports the functions its headers declare, and nothing
# else.
set -eu
library=$1
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
nm -D --defined-only "$library" | awk '{print $3}' | sort >"$dir/exported"
grep -h '^OLE_API' "$@" | sed 's/(.*//; s/.*[ *]//' | sort >"$dir/declared"
if ! diff "$dir/declared" "$dir/exported"; then
    echo "these functions are only declared (<) or only exported (>)" >&2
    exit 1
fi
