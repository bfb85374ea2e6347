#!/bin/sh
# check_symbols.sh LIBRARY HEADER... - under its public version the library exports the functions that its headers declare
# and nothing else, and all that the first release with its soname exported (tests/frozen; none there: not released yet).
# What it exports besides is versioned OLE_PRIVATE. libole needs no libraries but the C library, BLAS and LAPACK, and zlib.
set -eu
library=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
frozen=$here/frozen
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
name=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\.so\..*\]/\1/p')
soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[.*\.so\.\(.*\)\]/\1/p')
nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | LC_ALL=C sort >"$dir/all"
sed -n "s/@@OLE_$soname\$//p" "$dir/all" >"$dir/exported"
grep -h '^OLE_API' "$@" | sed 's/(.*//; s/.*[ *]//' | LC_ALL=C sort >"$dir/declared"
if ! diff "$dir/declared" "$dir/exported"; then
    echo "these functions are only declared (<) or only exported (>)" >&2
    exit 1
fi
if grep -v "@@OLE_$soname\$" "$dir/all" | grep -v '@@OLE_PRIVATE_'; then
    echo "these symbols have neither the public nor the private version" >&2
    exit 1
fi
if [ "$name" = libole ] && readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' |
    grep -vE '^(libc|libm|libpthread|libdl|ld-linux.*|libopenblas|libblas|liblapack|libz)\.so\.'; then
    echo "libole.so needs these libraries too" >&2
    exit 1
fi
# Functions of version 0.1, whose library was one, that are gone: the changelog names each, or their prefix as ole_json_*.
LC_ALL=C sort -u "$frozen/0.1/symbols.txt" | while read -r function; do
    if grep -rqE "\b$function\(" "$here/../include" || grep -q "\`$function\`" "$here/../CHANGELOG.md"; then continue; fi
    case $function in ole_*_*) grep -qF "\`$(echo "$function" | cut -d_ -f1-2)_*\`" "$here/../CHANGELOG.md" && continue ;; esac
    echo "$function of version 0.1 is gone, and CHANGELOG.md does not say so" >&2
    exit 1
done
list=$frozen/$soname/$name-symbols.txt
[ -e "$list" ] || exit 0
LC_ALL=C sort "$list" | LC_ALL=C comm -23 - "$dir/exported" >"$dir/lost"
if [ -s "$dir/lost" ]; then
    echo "$name.so.$soname has lost these functions; a new soname is due (before its first release: ./dev freeze):" >&2
    cat "$dir/lost" >&2
    exit 1
fi
