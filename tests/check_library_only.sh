#!/bin/sh
# check_library_only.sh - the library builds alone, without the program and without training.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cmake -S . -B "$dir" -DOLE_CLI=OFF -DOLE_TRAIN=OFF -DOLE_TESTS=OFF -DOLE_WERROR=ON
cmake --build "$dir"
[ -e "$dir/libole.so.0.2" ]
[ ! -e "$dir/ole" ]
cmake --install "$dir" --prefix "$dir/prefix"
[ -e "$dir/prefix/include/ole/loss.h" ]
[ ! -e "$dir/prefix/include/ole/train.h" ]
