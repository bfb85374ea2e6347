#!/bin/bash
# release.sh [--only source,deb,wheel] [--keep] [--draft] - checks, builds and tests what is published as a release.
#
#   1. the tree is clean; version, CHANGELOG.md, debian/, CITATION.cff, soname and symbols agree; no function of an
#      earlier version with the same soname is lost
#   2. the source archive, the Debian packages and the wheels are built twice and compared bit for bit
#   3. each is installed and tested in bare chroots (by deb.sh and wheel.sh; the source archive is what the packages
#      are built from). The program of the arm64 wheel is tested under qemu, and the cuda wheel, which needs nvcc here
#      and a GPU to run, is only built
#   4. SHA256SUMS and a bill of materials (CycloneDX) are written
#
#   --only    a comma-separated list of source, deb and wheel; default: all
#   --keep    reuse the chroots of the last run, with their packages
#   --draft   only report what the checks find, and build anyway
#
# OLE_BUILD names a build folder with both libraries (build). Everything ends up in OLE_PACKAGES/ole-VERSION
# (build/packages/ole-VERSION). Nothing is tagged or uploaded: the last lines say how.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${OLE_BUILD:-build}
base=${OLE_PACKAGES:-build/packages}
only=source,deb,wheel
keep=()
draft=no

say() { printf '==> %s\n' "$*"; }

die() {
    printf './dev release: %s\n' "$*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --only)
        [ $# -gt 1 ] || die "--only needs a list of source, deb, wheel"
        only=$2
        shift
        ;;
    --keep) keep=(--keep) ;;
    --draft) draft=yes ;;
    *) die "unknown option: $1; choose --only, --keep or --draft" ;;
    esac
    shift
done
for part in ${only//,/ }; do
    case $part in
    source | deb | wheel) ;;
    *) die "--only $part: unknown part; choose source, deb or wheel" ;;
    esac
done
wants() { [[ ,$only, = *,$1,* ]]; }

# ---- 1. Checks ----------------------------------------------------------------------------------

wrong=0
problem() {
    printf '    %s\n' "$*"
    wrong=$((wrong + 1))
}

# same WHAT FOUND: a version that stands elsewhere too.
same() { [ "$2" = "$version" ] || problem "$1 says ${2:-nothing}, include/ole/base.h $version"; }

version=$(sed -n 's/^#define OLE_VERSION_[A-Z]* \([0-9]*\).*/\1/p' include/ole/base.h | paste -sd .)
soname=$(sed -n 's/^set(ole_soversion \(.*\))/\1/p' CMakeLists.txt)
OLE_COMMIT=$(git rev-parse HEAD) # HEAD may move while this runs
export OLE_COMMIT
epoch=$(git log -1 --format=%ct "$OLE_COMMIT")
export SOURCE_DATE_EPOCH=$epoch
say "checking version $version, soname $soname"
[ -z "$(git status --porcelain)" ] || problem "the tree is not clean: commit or remove what 'git status' lists"
[ -z "$(git tag --list "v$version")" ] || problem "the tag v$version exists: the version is released"
same CHANGELOG.md "$(sed -n '/^## /{s/^## \([0-9.]*\),.*/\1/p;q}' CHANGELOG.md)"
sed -n '/^## /{p;q}' CHANGELOG.md | grep -qE ', [0-9]{4}-[0-9]{2}-[0-9]{2}$' ||
    problem "CHANGELOG.md: the newest version has no date, as in '## $version, $(date -u +%F)'"
same debian/changelog "$(sed -n '1s/^ole (\(.*\)-.*/\1/p' debian/changelog)"
same CITATION.cff "$(sed -n 's/^version: //p' CITATION.cff)"
[[ $version = "$soname".* ]] || [[ $version = [1-9]* ]] || problem "version $version does not begin with the soname $soname"
for library in libole liboletrain; do
    grep -q "^Package: $library$soname\$" debian/control || problem "debian/control has no package $library$soname"
    grep -rqF "\"$library.so.$soname\"" bindings/python/ole || problem "bindings/python/ole does not load $library.so.$soname"
    [ -e "$build/$library.so" ] || die "$build/$library.so: not built; run './dev build', or set OLE_BUILD"
    found=$(readelf -d "$build/$library.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
    [ "$found" = "$library.so.$soname" ] || problem "$build/$library.so has the soname $found"
done
python3 tools/packages/freeze.py "$build" --check 2>"$build/freeze.log" || while read -r line; do problem "$line"; done <"$build/freeze.log"
if [ $wrong -gt 0 ]; then
    [ $draft = yes ] || die "$wrong of the checks failed; --draft builds anyway"
    say "$wrong of the checks failed: what follows is a draft"
fi

# ---- 2 and 3. Building and testing --------------------------------------------------------------

mkdir -p "$base"
base=$(cd "$base" && pwd)
out=$base/ole-$version
rm -rf "$out"
mkdir -p "$out"

if wants source; then
    say "source archive, twice"
    tools/packages/source.sh "$out/ole-$version.tar.xz"
    copy=$(mktemp -d)
    git clone --quiet --no-hardlinks . "$copy/ole"
    (cd "$copy/ole" && tools/packages/source.sh "$copy/second.tar.xz")
    cmp "$out/ole-$version.tar.xz" "$copy/second.tar.xz" || die "the source archive of a clone differs"
    rm -rf "$copy"
fi
# Packages and wheels are made side by side: much of the time goes to downloads and to unpacking.
jobs=()
if wants deb; then
    OLE_PACKAGES=$base DPKG_GENSYMBOLS_CHECK_LEVEL=$([ $draft = yes ] && echo 1 || echo 4) \
        tools/packages/deb.sh --twice "${keep[@]}" &
    jobs+=($!)
fi
if wants wheel; then
    kinds=(native pure arm64)
    if [ -x "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc" ]; then
        kinds+=(cuda)
    else
        say "no CUDA compiler here: the wheel ole-cuda is left out"
    fi
    OLE_PACKAGES=$base tools/packages/wheel.sh --twice "${keep[@]}" "${kinds[@]}" &
    jobs+=($!)
fi
failed=0
for job in "${jobs[@]}"; do wait "$job" || failed=$((failed + 1)); done
[ $failed -eq 0 ] || die "packages or wheels: see above"
if wants deb; then
    for system in debian12 debian13; do
        mkdir -p "$out/$system"
        cp "$base/$system"/*.{deb,dsc,changes,buildinfo,tar.xz} "$out/$system/"
    done
fi
if wants wheel; then
    mkdir -p "$out/wheels"
    for kind in "${kinds[@]}"; do cp "$base/wheels/$kind"/*.whl "$out/wheels/"; done # no wheel of another commit
fi

# ---- 4. What goes with it -----------------------------------------------------------------------

python3 tools/packages/sbom.py "$out" "$version" "$epoch"
sums=$(cd "$out" && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum)
printf '%s\n' "$sums" >"$out/SHA256SUMS"
cat "$out/SHA256SUMS"
say "$out"
[ $wrong -eq 0 ] || die "a draft: $wrong of the checks failed"
say "to publish: git tag --sign v$version && git push origin v$version, then upload that folder"
