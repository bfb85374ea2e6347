#!/bin/bash
# deb.sh [--keep] [debian12|debian13 ...] - builds the Debian packages in clean chroots and tests what they install.
#
# For each system (default: both) HEAD is built in a chroot that has only the build dependencies; lintian must have
# nothing to report; the packages are then installed in a second chroot that has nothing but them, where the tests
# of debian/tests run. The packages end up in OLE_PACKAGES/SYSTEM (build/packages/SYSTEM), logs beside them.
#
#   --keep    reuse the chroots of the last run, with their packages
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/platforms/chroot.sh
base=${OLE_PACKAGES:-build/packages}
keep=no

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

build_packages() { # SUITE FOLDER
    local root=$2/builder epoch
    prepare "$1" "$root"
    as_root "$root" sh -c 'apt-get update -q && apt-get install -q -y --no-install-recommends devscripts dpkg-dev equivs fakeroot lintian'
    rm -rf "$root/build"
    mkdir -p "$root/build"
    epoch=$(git log -1 --format=%ct)
    git archive --prefix="ole-$version/" HEAD | tar -x -C "$root/build"
    tar -c -J --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --exclude="ole-$version/debian" \
        -f "$root/build/ole_$version.orig.tar.xz" -C "$root/build" "ole-$version"
    as_root "$root" sh -c "cd /build/ole-$version && mk-build-deps --install --remove \
        --tool 'apt-get -q -y --no-install-recommends' debian/control"
    as_root "$root" sh -c "cd /build/ole-$version && rm -f ole-build-deps* && SOURCE_DATE_EPOCH=$epoch dpkg-buildpackage -us -uc -j$(nproc)"
    as_root "$root" sh -c "cd /build && lintian --allow-root --fail-on error,warning --suppress-tags $suppressed ./*.changes"
    cp "$root"/build/*.{deb,dsc,changes,tar.xz} "$2/"
}

test_packages() { # SUITE FOLDER
    local root=$2/user name depends
    prepare "$1" "$root"
    rm -rf "$root/packages" "$root/checkout"
    mkdir -p "$root/packages" "$root/checkout"
    cp "$2"/*.deb "$root/packages/"
    rm -f "$root"/packages/*-dbgsym_*
    git archive HEAD debian/tests examples | tar -x -C "$root/checkout"
    as_root "$root" sh -c 'apt-get update -q && apt-get install -q -y --no-install-recommends /packages/*.deb'
    for name in demo c-example python-example; do
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
    debian12 | debian13) systems+=("$1") ;;
    *) die "unknown system or option: $1; choose debian12, debian13 or --keep" ;;
    esac
    shift
done
[ ${#systems[@]} -gt 0 ] || systems=(debian12 debian13)
version=$(sed -n '1s/^ole (\(.*\)-.*/\1/p' debian/changelog)
mkdir -p "$base"
base=$(cd "$base" && pwd)
for system in "${systems[@]}"; do
    case $system in
    debian12) suite=bookworm ;;
    debian13) suite=trixie ;;
    esac
    folder=$base/$system
    mkdir -p "$folder"
    rm -f "$folder"/*.{deb,dsc,changes,tar.xz}
    for step in build_packages test_packages; do
        say "$system: $step ($folder/$step.log)"
        set +e # behind || the shell would ignore failures inside the function
        (
            set -e
            "$step" "$suite" "$folder"
        ) >"$folder/$step.log" 2>&1
        status=$?
        set -e
        if [ $status -ne 0 ]; then
            tail -n 40 "$folder/$step.log"
            die "$system: $step failed"
        fi
    done
    (cd "$folder" && ls -l -- *.deb)
done
