#!/bin/sh
# check_dev.sh - ./dev fuzz runs each target on its corpus.  Stand-ins for what it calls print how they are called.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/fuzz"
cp dev "$work"
touch "$work/fuzz/fuzz_idx.c" "$work/fuzz/fuzz_npy.c"
for name in apt-get clang cmake python3 sudo; do
    printf '#!/bin/sh\necho "%s version 3.25.1"\n' $name >"$work/bin/$name"
    chmod +x "$work/bin/$name"
done
printf '#!/bin/sh\necho "$@"\n' >"$work/bin/python3"

# expect OUTPUT ARGUMENT...
expect() {
    wanted=$1
    shift
    got=$(PATH="$work/bin:$PATH" "$work/dev" fuzz "$@" 2>&1 | grep '^fuzz/watch.py') || true
    if [ "$got" != "$wanted" ]; then
        printf './dev fuzz %s runs\n%s\nand should run\n%s\n' "$*" "$got" "$wanted" >&2
        exit 1
    fi
}

idx='fuzz/watch.py build-fuzz/fuzz/fuzz_idx fuzz/corpus/idx'
npy='fuzz/watch.py build-fuzz/fuzz/fuzz_npy fuzz/corpus/npy'
expect "$idx 60
$npy 60"
expect "$idx 5
$npy 5" all 5
expect "$npy 7" npy 7
expect '' unknown
