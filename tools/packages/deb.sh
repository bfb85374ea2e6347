#!/bin/bash
# deb.sh [--keep] [--twice] [debian12|debian13 ...] - builds the Debian packages in clean chroots and tests what they
# install.
#
# For each system (default: both, side by side) HEAD is built in a chroot that has only the build dependencies;
# lintian must have nothing to report; the packages are then installed in a second chroot that has nothing but them,
# where the tests of debian/tests run. The packages end up in OLE_PACKAGES/SYSTEM (build/packages/SYSTEM), logs beside
# them.
#
#   --keep    reuse the chroots of the last run, with their packages
#   --twice   build the packages a second time, in another folder, and compare them bit for bit
#
# libole_cuda is not among the packages: it needs CUDA, which Debian has in non-free only.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/platforms/chroot.sh
base=${OLE_PACKAGES:-build/packages}
keep=no twice=no

say() { printf '==> %s\n' "$*"; }

die() {
    printf './dev deb: %s\n' "$*" >&2
    exit 1
}

# Tags that do not apply: the packages are not uploaded to Debian, and there is no public home page yet.
suppressed=initial-upload-closes-no-bugs,no-homepage-field

# as_root ROOT COMMAND...
as_root() {
    local root=$1
    shift
    inside "$root" root LC_ALL=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive "$@"
}

prepare() { # SUITE ROOT
    if [ $keep = no ] || [ ! -e "$2.made" ]; then
        rm -f "$2.made"
        make_root "$1" "$2"
        touch "$2.made"
    fi
}

# In /FOLDER of the chroot, from the source archive and debian/ of HEAD.
build_in() { # ROOT FOLDER
    local root=$1 place=$1/$2
    rm -rf "$place"
    mkdir -p "$place"
    cp "$source" "$place/ole_$version.orig.tar.xz"
    tar -x -C "$place" -f "$source"
    git archive "$commit" debian | tar -x -C "$place/ole-$version"
    as_root "$root" sh -c "cd /$2/ole-$version && mk-build-deps --install --remove \
        --tool 'apt-get -q -y --no-install-recommends' debian/control && rm -f ole-build-deps*"
    as_root "$root" sh -c "cd /$2/ole-$version && SOURCE_DATE_EPOCH=$epoch \
        DPKG_GENSYMBOLS_CHECK_LEVEL=${DPKG_GENSYMBOLS_CHECK_LEVEL:-1} dpkg-buildpackage -us -uc -j$(nproc)"
}

build_packages() { # SUITE FOLDER
    local root=$2/builder
    prepare "$1" "$root"
    as_root "$root" sh -c 'apt-get update -q && apt-get install -q -y --no-install-recommends devscripts dpkg-dev equivs fakeroot lintian'
    build_in "$root" build
    as_root "$root" sh -c "cd /build && lintian --allow-root --fail-on error,warning --suppress-tags $suppressed ./*.changes"
    cp "$root"/build/*.{deb,dsc,changes,buildinfo,tar.xz} "$2/"
}

build_again() { # SUITE FOLDER
    local package
    build_in "$2/builder" elsewhere/second
    for package in "$2"/*.{deb,dsc,tar.xz}; do cmp "$package" "$2/builder/elsewhere/second/${package##*/}"; done
}

test_packages() { # SUITE FOLDER
    local root=$2/user name depends
    prepare "$1" "$root"
    rm -rf "$root/packages" "$root/checkout"
    mkdir -p "$root/packages" "$root/checkout"
    cp "$2"/*.deb "$root/packages/"
    rm -f "$root"/packages/*-dbgsym_*
    git archive "$commit" debian/tests examples | tar -x -C "$root/checkout"
    as_root "$root" sh -c 'apt-get update -q && apt-get install -q -y --no-install-recommends /packages/*.deb'
    # shellcheck disable=SC2013 # names are words
    for name in $(sed -n 's/^Tests: //p' debian/tests/control); do
        depends=$(sed -n "/^Tests: $name\$/,/^\$/s/^Depends: //p" debian/tests/control | tr -d ,)
        # shellcheck disable=SC2086 # one word per package
        as_root "$root" apt-get install -q -y --no-install-recommends $depends
        rm -rf "$root/checkout/tmp"
        mkdir -m 777 "$root/checkout/tmp"
        say "test $name"
        inside "$root" "$user" LC_ALL=C.UTF-8 "HOME=/home/$user" AUTOPKGTEST_TMP=/checkout/tmp \
            sh -c "cd /checkout && debian/tests/$name"
    done
}

systems=()
while [ $# -gt 0 ]; do
    case $1 in
    --keep) keep=yes ;;
    --twice) twice=yes ;;
    debian12 | debian13) systems+=("$1") ;;
    *) die "unknown system or option: $1; choose debian12, debian13, --keep or --twice" ;;
    esac
    shift
done
[ ${#systems[@]} -gt 0 ] || systems=(debian12 debian13)
version=$(sed -n '1s/^ole (\(.*\)-.*/\1/p' debian/changelog)
mkdir -p "$base"
base=$(cd "$base" && pwd)
source=$base/ole-$version.tar.xz
commit=${OLE_COMMIT:-$(git rev-parse HEAD)} # HEAD may move while this runs
epoch=$(git log -1 --format=%ct "$commit")
OLE_COMMIT=$commit tools/packages/source.sh "$source"
steps=(build_packages)
[ $twice = no ] || steps+=(build_again)
steps+=(test_packages)

# Builds and tests the packages of one system.
make_system() { # SYSTEM
    local suite folder=$base/$1 step status
    case $1 in
    debian12) suite=bookworm ;;
    debian13) suite=trixie ;;
    esac
    mkdir -p "$folder"
    rm -f "$folder"/*.{deb,dsc,changes,buildinfo,tar.xz}
    for step in "${steps[@]}"; do
        say "$1: $step ($folder/$step.log)"
        set +e # behind || the shell would ignore failures inside the function
        (
            set -e
            "$step" "$suite" "$folder"
        ) >"$folder/$step.log" 2>&1
        status=$?
        set -e
        if [ $status -ne 0 ]; then
            tail -n 40 "$folder/$step.log"
            die "$1: $step failed"
        fi
    done
    (cd "$folder" && ls -l -- *.deb)
}

jobs=()
for system in "${systems[@]}"; do
    make_system "$system" &
    jobs+=($!)
done
failed=0
for job in "${jobs[@]}"; do wait "$job" || failed=1; done
[ $failed -eq 0 ]
