#!/bin/sh
# run.sh BUILD - installs BUILD into a fresh prefix and uses it as others would: through pkg-config,
# through CMake, and by running the program.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
here=$(cd "$(dirname "$0")" && pwd)
install=$here/../../tools/packages/install.sh
mkdir -p "$dir/prefix/lib"
echo foreign >"$dir/prefix/lib/foreign"
"$install" install "$1" "$dir/prefix" >"$dir/installed"

# predicts PREFIX: examples/predict.c compiles through pkg-config and through CMake's component train, and runs a model.
predicts() {
    flags=$(PKG_CONFIG_PATH=$1/lib/pkgconfig pkg-config --cflags --libs oletrain)
    eval "cc '$here/../../examples/predict.c' -o '$dir/predict' $flags"
    cmake -S "$here/train" -B "$dir/build-train" -DCMAKE_PREFIX_PATH="$1" >>"$dir/configured"
    cmake --build "$dir/build-train"
    { printf 'P5 8 8 255\n' && head -c 64 /dev/zero; } >"$dir/black.pgm"
    LD_LIBRARY_PATH=$1/lib "$dir/predict" "$here/../frozen/0.1/threshold" "$dir/black.pgm" >"$dir/one"
    "$dir/build-train/predict" "$here/../frozen/0.1/threshold" "$dir/black.pgm" >"$dir/other"
    grep -E '^.*/black.pgm: [a-z0-9]+, score ' "$dir/one"
    cmp "$dir/one" "$dir/other"
}

export PKG_CONFIG_PATH="$dir/prefix/lib/pkgconfig"
# shellcheck disable=SC2046 # the flags are words
cc -std=c17 -Wall -Wextra -Werror "$here/main.c" -o "$dir/with_pkg_config" \
    $(pkg-config --cflags --libs ole) -lm
LD_LIBRARY_PATH="$dir/prefix/lib" "$dir/with_pkg_config"

# As docs/c.md has it for your own prefix.
cp "$here/main.c" "$dir/loss.c"
(cd "$dir" && eval "$(grep -e '^    cc loss.c .*-rpath' "$here/../../docs/c.md")" && ./loss)

cmake -S "$here" -B "$dir/build" -DCMAKE_PREFIX_PATH="$dir/prefix" >"$dir/configured"
cmake --build "$dir/build"
"$dir/build/consumer"
"$dir/build/headers"

(cd "$dir/prefix/include" && find ole -name '*.h') | while read -r header; do
    grep -q "<$header>" "$here/headers.cpp" || { echo "headers.cpp does not include $header" >&2; exit 1; }
done

if [ -e "$1/ole" ]; then
    "$dir/prefix/bin/ole" info
    for file in man/man1/ole.1 man/man1/ole-score.1 bash-completion/completions/ole zsh/site-functions/_ole \
        fish/vendor_completions.d/ole.fish; do
        [ -s "$dir/prefix/share/$file" ] || { echo "share/$file is not installed" >&2; exit 1; }
    done
fi

# Uninstalling leaves what others have put there, and nothing else; a staged install writes below DESTDIR alone.
# The tree may have been moved, and a list of files that leads elsewhere is not followed.
mv "$dir/prefix" "$dir/moved here"
[ ! -e "$1/ole" ] || "$dir/moved here/bin/ole" version
if [ -e "$1/liboletrain.so" ]; then predicts "$dir/moved here"; fi
touch "$dir/outside"
printf '../outside\n%s\n' "$dir/outside" >>"$dir/moved here/share/ole/installed.txt"
"$install" uninstall "$dir/moved here"
[ -e "$dir/outside" ]
mv "$dir/moved here" "$dir/prefix"
[ "$(cd "$dir/prefix" && find . -type f)" = ./lib/foreign ]
DESTDIR=$dir/stage "$install" install "$1" /opt/ole >"$dir/staged"
[ -e "$dir/stage/opt/ole/include/ole/loss.h" ]
DESTDIR=$dir/stage "$install" uninstall /opt/ole
[ "$(cd "$dir/stage/opt/ole" && find .)" = . ]
if "$install" uninstall "$dir/prefix" 2>"$dir/refused"; then exit 1; fi
grep -q "has installed nothing there" "$dir/refused"
