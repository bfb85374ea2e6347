#!/bin/sh
# check_library_only.sh - libole builds and installs alone, without the program and without training, exports and needs
# what it should, and links statically. (The Python package's test builds it alone with CUDA.)
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cmake -S . -B "$dir" -DOLE_CLI=OFF -DOLE_TRAIN=OFF -DOLE_TESTS=OFF -DOLE_CUDA=OFF -DOLE_MPI=OFF -DOLE_STATIC=ON -DOLE_WERROR=ON
cmake --build "$dir"
[ -e "$dir/libole.so.0.2" ]
[ ! -e "$dir/ole" ]
[ ! -e "$dir/liboletrain.so.0.2" ]
sh tests/check_symbols.sh "$dir/libole.so" include/ole/*.h
cmake --install "$dir" --prefix "$dir/prefix"
[ -e "$dir/prefix/include/ole/loss.h" ]
[ ! -e "$dir/prefix/include/ole/train" ]

# shellcheck disable=SC2046 # the flags are words
cc tests/consumer/main.c "$dir/prefix/lib/libole.a" -o "$dir/static" \
    $(PKG_CONFIG_PATH=$dir/prefix/lib/pkgconfig pkg-config --cflags --static --libs-only-other ole) \
    $(sed -n 's/^Libs.private: //p' "$dir/prefix/lib/pkgconfig/ole.pc")
mkdir "$dir/find"
cat >"$dir/find/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(static C)
find_package(ole 0.2 REQUIRED COMPONENTS static)
add_executable(found ${SOURCE})
target_link_libraries(found ole::static)
find_package(ole 0.2 COMPONENTS train)
if(ole_FOUND OR NOT ole_NOT_FOUND_MESSAGE MATCHES "OLE_TRAIN=OFF")
    message(FATAL_ERROR "training: ${ole_NOT_FOUND_MESSAGE}")
endif()
END
mv "$dir/prefix" "$dir/moved" # installed trees can be moved
cmake -S "$dir/find" -B "$dir/find/build" -DCMAKE_PREFIX_PATH="$dir/moved" -DSOURCE="$PWD/tests/consumer/main.c"
cmake --build "$dir/find/build"
"$dir/find/build/found"
if readelf -d "$dir/static" | grep -q libole.so; then exit 1; fi
"$dir/static"
