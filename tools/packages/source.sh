#!/bin/sh
# source.sh FILE.tar.xz - writes HEAD (or OLE_COMMIT) as a source archive, without debian/. The same commit gives the same bytes.
set -eu
version=$(sed -n '1s/^ole (\(.*\)-.*/\1/p' debian/changelog)
git archive --format=tar --prefix="ole-$version/" "${OLE_COMMIT:-HEAD}" -- . ':(exclude)debian' | xz -6 --threads=1 >"$1"
