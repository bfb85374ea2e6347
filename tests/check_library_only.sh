#!/bin/sh
# check_library_only.sh - libole builds alone, without the program and without training, and needs nothing but a C library,
# BLAS and LAPACK, and zlib. (The Python package's test builds it alone with CUDA.)
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cmake -S . -B "$dir" -DOLE_CLI=OFF -DOLE_TRAIN=OFF -DOLE_TESTS=OFF -DOLE_CUDA=OFF -DOLE_MPI=OFF -DOLE_WERROR=ON
cmake --build "$dir"
[ -e "$dir/libole.so.0.2" ]
[ ! -e "$dir/ole" ]
[ ! -e "$dir/liboletrain.so.0.2" ]
readelf -d "$dir/libole.so" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' >"$dir/needed"
if grep -vE '^(libc|libm|libpthread|libdl|ld-linux.*|libopenblas|libblas|liblapack|libz)\.so\.' "$dir/needed"; then
    echo "libole.so needs these libraries too" >&2
    exit 1
fi
cmake --install "$dir" --prefix "$dir/prefix"
[ -e "$dir/prefix/include/ole/loss.h" ]
[ ! -e "$dir/prefix/include/ole/train" ]
