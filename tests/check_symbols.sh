#!/bin/sh
# check_symbols.sh LIBRARY HEADER... - libole exports the functions its headers declare and nothing else,
# and all that the first release with its soname exported (tests/frozen; none there: not released yet).
set -eu
library=$1
shift
frozen=$(dirname "$0")/frozen
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
nm -D --defined-only "$library" | awk '{print $3}' | LC_ALL=C sort >"$dir/exported"
grep -h '^OLE_API' "$@" | sed 's/(.*//; s/.*[ *]//' | LC_ALL=C sort >"$dir/declared"
if ! diff "$dir/declared" "$dir/exported"; then
    echo "these functions are only declared (<) or only exported (>)" >&2
    exit 1
fi
soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[libole\.so\.\(.*\)\]/\1/p')
[ -e "$frozen/$soname/symbols.txt" ] || exit 0
LC_ALL=C sort "$frozen/$soname/symbols.txt" | LC_ALL=C comm -23 - "$dir/exported" >"$dir/lost"
if [ -s "$dir/lost" ]; then
    echo "libole.so.$soname has lost these functions; a new soname is due:" >&2
    cat "$dir/lost" >&2
    exit 1
fi
