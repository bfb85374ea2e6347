#!/bin/bash
# wheel.sh [--keep] [--twice] [--no-test] [native|pure|cuda|arm64 ...] - builds the Python wheels and tests them.
#
#   native   ole for x86-64 Linux, built in a chroot of Debian 11, so that it runs with any glibc from 2.31 on
#   pure     ole for every other system: no library, the loss in NumPy
#   cuda     ole-cuda, the GPU module; needs CUDA 13 with cuDNN on this machine ($CUDA_PATH, /usr/local/cuda)
#   arm64    ole for 64-bit ARM Linux, cross-compiled, without training; its program is tested under qemu
#
# Default: native and pure. The wheels of HEAD end up in OLE_PACKAGES/wheels (build/packages/wheels), logs beside them.
# native and pure are installed and tested in bare chroots of Debian 12 and 13 and in a clean virtual environment here.
#
#   --keep      reuse the chroots of the last run, with their packages
#   --twice     build each wheel twice and compare the bytes
#   --no-test   build and check what is inside, without the chroots of Debian 12 and 13
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/platforms/chroot.sh
base=${OLE_PACKAGES:-build/packages}/wheels
keep=no twice=no test=yes
limit=60000000 # bytes of a wheel

say() { printf '==> %s\n' "$*"; }

die() {
    printf './dev wheel: %s\n' "$*" >&2
    exit 1
}

# as_root ROOT COMMAND...
as_root() {
    local root=$1
    shift
    inside "$root" root LC_ALL=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive SOURCE_DATE_EPOCH="$epoch" "$@"
}

# logged NAME FUNCTION ARGUMENT...: its output in a log, whose end is shown if it fails.
logged() {
    local name=$1 status
    shift
    say "$name ($base/$name.log)"
    set +e # behind || the shell would ignore failures inside the function
    (
        set -e
        "$@"
    ) >"$base/$name.log" 2>&1
    status=$?
    set -e
    if [ $status -ne 0 ]; then
        tail -n 40 "$base/$name.log"
        die "$name failed"
    fi
}

prepare() { # SUITE ROOT
    if [ ! -e "$2.made" ]; then
        make_root "$1" "$2"
        touch "$2.made"
    fi
}

# ---- Building -----------------------------------------------------------------------------------

builder_packages='gcc g++ clang-16 libc6-dev dpkg-dev nasm perl python3 python3-venv libopenblas-serial-dev
    liblapacke-dev libgfortran-10-dev libgomp1'

# A Debian 11 with compilers, the tools of tools.txt and the static libraries of Debian 13's sources.
prepare_builder() {
    local from suite
    prepare bullseye "$builder"
    # shellcheck disable=SC2086 # one word per package
    as_root "$builder" sh -c 'apt-get update -q && apt-get install -q -y --no-install-recommends "$@"' sh $builder_packages
    cp /usr/share/keyrings/debian-archive-keyring.gpg "$builder/etc/apt/newer-debian.gpg"
    from=$(mirror)
    from=${from:-http://deb.debian.org/debian}
    for suite in trixie bookworm; do # the older one where a mirror lacks a source of the newer one
        printf 'deb-src [signed-by=/etc/apt/newer-debian.gpg] %s main\n' "$from $suite" \
            "${from%/debian*}/debian-security $suite-security"
    done >"$builder/etc/apt/sources.list.d/newer.list"
    mkdir -p "$builder/build"
    cp -r tools/packages/wheel/. "$builder/build/"
    as_root "$builder" apt-get update -q
    as_root "$builder" sh -ec 'cmp -s /build/tools.txt /opt/tools/tools.txt || {
        python3 -m venv --clear /opt/tools
        /opt/tools/bin/python3 -m pip install --quiet --upgrade pip
        /opt/tools/bin/python3 -m pip install --quiet --no-deps --only-binary :all: -r /build/tools.txt
        cp /build/tools.txt /opt/tools/
    }'
    as_root "$builder" env PATH=/opt/tools/bin:/usr/sbin:/usr/bin:/sbin:/bin sh /build/parts.sh
}

# The cross compiler, the libraries of the other architecture and an emulator.
prepare_arm64() {
    as_root "$builder" sh -c 'dpkg --add-architecture arm64 && apt-get update -q && apt-get install -q -y --no-install-recommends \
        gcc-aarch64-linux-gnu libgfortran-10-dev-arm64-cross qemu-user-static libc6-dev:arm64 \
        libopenblas-serial-dev:arm64 liblapacke-dev:arm64'
}

build_wheel() { # KIND FOLDER
    local folder=$builder/build/$1
    rm -rf "$folder"
    mkdir -p "$folder/source"
    git archive "$commit" | tar -x -C "$folder/source"
    if [ "$1" = cuda ]; then
        OLE_BIND=$(readlink -f "${CUDA_PATH:-/usr/local/cuda}")
        export OLE_BIND
    elif [ "$1" = arm64 ]; then
        prepare_arm64
    fi
    as_root "$builder" CUDA_PATH="${OLE_BIND:-}" sh "/build/$1/source/tools/packages/wheel/build.sh" "$1"
    cp "$folder"/wheels/*.whl "$2/"
}

# The tag, the size, and what auditwheel says of it.
check_wheel() { # WHEEL
    local size
    size=$(stat -c %s "$1")
    say "${1##*/}: $size bytes"
    [ "$size" -lt $limit ] || die "${1##*/} has more than $limit bytes"
    case $1 in
    *-manylinux_*)
        cp "$1" "$builder/build/"
        as_root "$builder" env PATH=/opt/tools/bin:/usr/bin:/bin auditwheel show "/build/${1##*/}"
        ;;
    esac
}

build() { # KIND
    local wheel
    rm -f "$base/$1"/*.whl
    mkdir -p "$base/$1"
    logged "build-$1" build_wheel "$1" "$base/$1"
    if [ $twice = yes ]; then
        mkdir -p "$base/$1/again"
        logged "build-$1-again" build_wheel "$1" "$base/$1/again"
        for wheel in "$base/$1"/*.whl; do
            cmp "$wheel" "$base/$1/again/${wheel##*/}" || die "${wheel##*/}: the second build differs"
        done
        rm -r "$base/$1/again"
        say "$1: the same bytes in two builds"
    fi
    for wheel in "$base/$1"/*.whl; do
        logged "check-$1" check_wheel "$wheel"
        grep -E '^==>|consistent with|manylinux' "$base/check-$1.log" || true
        cp "$wheel" "$base/"
    done
}

# ---- Testing ------------------------------------------------------------------------------------

# In a bare system: Python and what `pip` needs, then test.sh, the second time with the system's PyTorch.
test_in_debian() { # KIND SUITE ROOT
    local root=$3
    prepare "$2" "$root"
    rm -rf "$root/wheel"
    mkdir -p "$root/wheel"
    git archive "$commit" tests tools/packages/wheel examples | tar -x -C "$root/wheel"
    cp "$base/$1"/*.whl "$root/wheel/"
    chmod -R a+rwX "$root/wheel"
    as_root "$root" sh -c 'apt-get update -q && apt-get install -q -y --no-install-recommends python3 python3-venv ca-certificates'
    inside "$root" "$user" LC_ALL=C.UTF-8 "HOME=/home/$user" sh -c 'cd /wheel && sh tools/packages/wheel/test.sh ./*.whl'
    as_root "$root" apt-get install -q -y --no-install-recommends python3-torch
    inside "$root" "$user" LC_ALL=C.UTF-8 "HOME=/home/$user" sh -c 'cd /wheel && sh tools/packages/wheel/test.sh ./*.whl torch'
}

# PyTorch is this machine's own, where python3 has it: one from PyPI would fetch gigabytes of CUDA.
test_here() { # KIND
    local folder
    folder=$(mktemp -d)
    # shellcheck disable=SC2064 # this folder; `logged` runs the function in a shell of its own
    trap "rm -rf '$folder'" EXIT
    git archive "$commit" tests tools/packages/wheel examples | tar -x -C "$folder"
    cp "$base/$1"/*.whl "$folder/"
    cd "$folder"
    unset PYTHONPATH OLE_LIBRARY
    sh tools/packages/wheel/test.sh ./*.whl
    PATH=/usr/bin:$PATH # Debian's python3 comes first, as packages of PyTorch are for it
    if python3 -c 'import torch'; then
        sh tools/packages/wheel/test.sh ./*.whl torch
    else
        say "python3 has no PyTorch: not tested here"
    fi
}

# ---- Arguments ----------------------------------------------------------------------------------

kinds=()
while [ $# -gt 0 ]; do
    case $1 in
    --keep) keep=yes ;;
    --twice) twice=yes ;;
    --no-test) test=no ;;
    native | pure | cuda | arm64) kinds+=("$1") ;;
    *) die "unknown wheel or option: $1; choose native, pure, cuda, arm64, --keep, --twice or --no-test" ;;
    esac
    shift
done
[ ${#kinds[@]} -gt 0 ] || kinds=(native pure)
commit=${OLE_COMMIT:-$(git rev-parse HEAD)} # HEAD may move while this runs
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct "$commit")}
mkdir -p "$base"
base=$(cd "$base" && pwd)
builder=$base/builder
[ $keep = yes ] || rm -f "$base"/*.made
logged builder prepare_builder
for kind in "${kinds[@]}"; do
    build "$kind"
    [ $test = yes ] || continue
    case $kind in
    cuda) continue ;; # it needs a GPU
    arm64)
        logged test-arm64 as_root "$builder" sh /build/arm64/source/tools/packages/wheel/test_arm64.sh
        continue
        ;;
    esac
    logged "test-$kind-here" test_here "$kind"
    logged "test-$kind-debian12" test_in_debian "$kind" bookworm "$base/debian12"
    logged "test-$kind-debian13" test_in_debian "$kind" trixie "$base/debian13"
done
(cd "$base" && sha256sum -- *.whl | tee SHA256SUMS)
