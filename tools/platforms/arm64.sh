#!/bin/sh
# arm64.sh FOLDER [--all] - builds libole and `ole` for 64-bit ARM and tests them under qemu-user.
#
# Creates a Debian 12 in FOLDER (about 2 GB, kept for the next run), installs the cross compiler, qemu and the
# arm64 libraries there and, on a copy of this checkout without its build folders:
#   - cross-builds with cmake/toolchains/aarch64-linux-gnu.cmake and OLE_TRAIN=OFF, warnings as errors
#   - checks that the kernels compiled for NEON use its vectors and that the program picks them
#   - runs the unit tests and the tests of `ole score`, `analyze`, `verify` and `tsne` under qemu;
#     with --all also the five that take five minutes or more there (ctest's label slow_emulated)
#   - compares the numbers of `ole score` and `ole analyze` with those of an amd64 build, with NEON
#     and with OLE_CPU=generic
# Nothing is installed or changed outside FOLDER.
#
# Needs: amd64 Linux, root (for debootstrap, chroot and mount), debootstrap, Debian's archive.
#   OLE_DEBIAN_MIRROR  overrides debootstrap's mirror
# Prints its progress, and as the last line a row
#   arm64 | Debian 12, qemu-user 7.2 | passed: 33 tests (without slow_emulated), same numbers as amd64 | 903 s
# or `failed: WHAT` in the third column. Exit code: 0 passed, 1 failed. The output of each step is in
# FOLDER/arm64/logs.
set -eu

die() {
    printf 'arm64.sh: %s\n' "$*" >&2
    exit 1
}

case "$# ${2-}" in
'1 ') subset='without slow_emulated' ;;
'2 --all') subset=all ;;
*) die "usage: arm64.sh FOLDER [--all]" ;;
esac
[ "$(uname -m)" = x86_64 ] || die "cross-builds start from amd64; on 64-bit ARM itself run ./dev test"
[ "$(id -u)" -eq 0 ] || die "debootstrap and chroot need root; run it with sudo"
command -v debootstrap >/dev/null 2>&1 || die "debootstrap is missing; install the package debootstrap"

source=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1/arm64/logs"
touch "$1/not-a-source" # for copy_checkout
folder=$(cd "$1/arm64" && pwd)
root=$folder/debian12
logs=$folder/logs
begun=$(date +%s)
platform='Debian 12, qemu-user'

# ---- Steps --------------------------------------------------------------------------------------

row() {
    printf 'arm64 | %s | %s | %s s\n' "$platform" "$1" $(($(date +%s) - begun))
}

unmount_all() {
    for mounted in dev/pts dev/shm proc; do
        if mountpoint -q "$root/$mounted"; then umount "$root/$mounted" || umount -l "$root/$mounted"; fi
    done
}

# Also after a failed step: what it printed last, and the row.
finish() {
    status=$?
    trap - EXIT
    unmount_all
    if [ $status -ne 0 ]; then
        [ ! -f "$log" ] || tail -n 40 "$log"
        row "failed: $what (see $log)"
        exit 1
    fi
}
log=''
what='start'
trap finish EXIT
trap 'exit 1' HUP INT TERM

# step NAME WHAT COMMAND...: runs it with its output in a log.
step() {
    log=$logs/$1.log
    what=$2
    shift 2
    printf '==> %s\n' "$what"
    "$@" >"$log" 2>&1
}

# inside COMMAND...: in the chroot, in the copy of the checkout, with none of this shell's settings.
inside() {
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C \
        DEBIAN_FRONTEND=noninteractive sh -ec 'cd /ole; "$@"' sh "$@"
}

packages='gcc libc6-dev gcc-aarch64-linux-gnu cmake ninja-build qemu-user-static
    python3 libopenblas-serial-dev liblapacke-dev zlib1g-dev
    libc6-dev:arm64 libopenblas-serial-dev:arm64 liblapacke-dev:arm64 libcmocka-dev:arm64
    zlib1g-dev:arm64'

make_debian() {
    unmount_all # leftovers of a killed run
    if [ ! -e "$root/made" ]; then
        rm -rf "$root"
        debootstrap --variant=minbase bookworm "$root" ${OLE_DEBIAN_MIRROR:+"$OLE_DEBIAN_MIRROR"}
        chroot "$root" dpkg --add-architecture arm64
        mkdir "$root/ole"
        touch "$root/made"
    fi
}

mount_all() {
    mount -t proc proc "$root/proc"
    mkdir -p "$root/dev/shm" "$root/dev/pts"
    mount -t tmpfs tmpfs "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
    ln -sf pts/ptmx "$root/dev/ptmx"
}

install_packages() {
    # shellcheck disable=SC2086 # one word per package
    inside sh -ec 'apt-get update -q; apt-get install -q -y --no-install-recommends "$@"' sh $packages
}

# Skips build folders, and FOLDER itself, which may lie in the checkout.
copy_checkout() {
    rm -rf "$root/ole"
    mkdir "$root/ole"
    tar -C "$source" --exclude=./.git --exclude-tag-all=CMakeCache.txt \
        --exclude-tag-all=not-a-source -cf "$folder/checkout.tar" .
    tar -C "$root/ole" --no-same-owner -xf "$folder/checkout.tar"
}

# build NAME OPTION...
build() {
    name=$1
    shift
    inside cmake -G Ninja -B "/ole/build-$name" -DOLE_TRAIN=OFF -DOLE_WERROR=ON "$@"
    inside cmake --build "/ole/build-$name"
}

# The float64 kernels of linalg and the float32 ones of t-SNE multiply and add in whole vectors.
check_neon() {
    for kernels in linalg/kernels:2d tsne/tsne_kernels:4s; do
        file=${kernels%:*}
        target=$(printf '%s' "$file" | tr / _)_neon # of ole_kernels() in cmake/OleModules.cmake
        inside aarch64-linux-gnu-objdump -d \
            "build-arm64/src/${file%/*}/CMakeFiles/$target.dir/${file#*/}.c.o" >"$logs/code.txt"
        grep -c "fmla[[:space:]]*v[0-9]*\.${kernels#*:}" "$logs/code.txt"
    done
    inside build-arm64/emulated/ole info >"$logs/info.txt"
    cat "$logs/info.txt"
    grep -qx 'cpu kernels  *neon' "$logs/info.txt"
}

run_tests() {
    if [ "$subset" = all ]; then set --; else set -- --label-exclude slow_emulated; fi
    inside ctest --test-dir build-arm64 --parallel "$(nproc)" --output-on-failure --timeout 7200 "$@"
}

compare_numbers() {
    set -- tools/platforms/same_numbers.py build-amd64/ole build-arm64/emulated/ole
    inside python3 "$@"
    inside env OLE_CPU=generic python3 "$@"
}

# ---- The run ------------------------------------------------------------------------------------

step debian 'a bare Debian 12' make_debian
step mounts 'its /proc, /dev/shm and /dev/pts' mount_all
step packages 'compilers, qemu, arm64 libraries' install_packages
platform="Debian 12, qemu-user $(inside qemu-aarch64-static --version | sed -n '1s/.*version \([0-9]*\.[0-9]*\).*/\1/p')"
step copy 'a copy of the checkout' copy_checkout
step build-arm64 'build for arm64' build arm64 \
    -DCMAKE_TOOLCHAIN_FILE=/ole/cmake/toolchains/aarch64-linux-gnu.cmake
step neon 'NEON in the kernels' check_neon
step build-amd64 'build for amd64, to compare with' build amd64 -DOLE_TESTS=OFF
step numbers 'the numbers of amd64' compare_numbers
step tests 'tests under qemu' run_tests
tests=$(sed -n 's/.*tests passed, 0 tests failed out of \([0-9]*\)$/\1/p' "$logs/tests.log")
row "passed: $tests tests ($subset), same numbers as amd64"
