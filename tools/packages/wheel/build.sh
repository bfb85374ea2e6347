#!/bin/sh
# build.sh native|pure|cuda|arm64 - builds one wheel of /build/KIND/source in the builder's chroot, into /build/KIND/wheels.
#
# Folders are the same in every run and times come from SOURCE_DATE_EPOCH, so the same source gives the same bytes.
# auditwheel names the oldest glibc in the tag and takes in what is neither glibc's nor GCC's: oneDNN and libgomp.
set -eu
: "${SOURCE_DATE_EPOCH:?}"
export PATH="/opt/tools/bin:$PATH"
folder=/build/$1
cd "$folder"
rm -rf out made
mkdir -p wheels
prefix_map="-ffile-prefix-map=$folder/source=. -ffile-prefix-map=$folder/out=out"
export CFLAGS="$prefix_map"

wheel() { # SOURCE OPTION...
    from=$1
    shift
    python3 -m pip wheel --quiet --no-deps --no-index --no-build-isolation --wheel-dir made \
        --config-settings=build-dir="$folder/out" "$@" "source/$from"
}

case $1 in
native)
    CMAKE_PREFIX_PATH=/opt/parts CMAKE_ARGS="-C $folder/source/tools/packages/wheel/native.cmake" wheel bindings/python
    LD_LIBRARY_PATH=/opt/parts/lib auditwheel repair --wheel-dir wheels made/*.whl
    ;;
pure)
    wheel bindings/python --config-settings=wheel.cmake=false
    cp made/*.whl wheels/
    ;;
cuda)
    CUDACXX=$CUDA_PATH/bin/nvcc CUDAHOSTCXX=g++ CUDAFLAGS="-Xcompiler=$(echo "$prefix_map" | tr ' ' ,)" \
        wheel bindings/python/cuda
    auditwheel repair --exclude 'libole*' --exclude 'libcublas*' --exclude 'libcudnn*' --wheel-dir wheels made/*.whl
    ;;
arm64)
    _PYTHON_HOST_PLATFORM=linux-aarch64 wheel bindings/python --config-settings=cmake.define.OLE_TRAIN=OFF \
        --config-settings=cmake.define.OLE_CUDA=OFF \
        --config-settings=cmake.define.CMAKE_TOOLCHAIN_FILE="$folder/source/cmake/toolchains/aarch64-linux-gnu.cmake"
    auditwheel repair --wheel-dir wheels made/*.whl
    ;;
*)
    echo "usage: build.sh native|pure|cuda|arm64" >&2
    exit 2
    ;;
esac
