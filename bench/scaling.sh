#!/bin/sh
# bench/scaling.sh [BUILD [FOLDER]] - repeats the measurements of docs/scaling.md on an idle machine with
# two or more cores, in under six minutes: strong and weak scaling of three networks on its cores, and
# of CNN-5 on two hosts with a shaped network if network namespaces are allowed (root); then the model.
# BUILD contains the program (default build); FOLDER receives the JSON and scaling.md (default scaling).
# OLE_NETS and OLE_SECONDS shorten the run.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$here/build}
folder=${2:-scaling}
mkdir -p "$folder"
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive

ranks=2
seconds=${OLE_SECONDS:-4}
root=
if [ "$(id -u)" = 0 ]; then root=--allow-run-as-root; fi

cores=
for net in ${OLE_NETS:-cnn5 vgg16 resnet110}; do
    # shellcheck disable=SC2086
    timeout 600 mpirun $root -n "$ranks" --bind-to core "$build/ole" bench --ranks --net "$net" \
        --device cpu --threads 1 --seconds "$seconds" --json >"$folder/cores-$net.json"
    cores=$cores${cores:+,}$folder/cores-$net.json
done
set -- "cores=$cores"

for rate in 1gbit 100mbit; do
    code=0
    timeout 300 "$here/bench/hosts.sh" "$ranks" "$rate" 0 -- "$build/ole" bench --ranks --net cnn5 \
        --device cpu --threads 1 --seconds "$seconds" --json >"$folder/hosts-$rate.json" || code=$?
    if [ "$code" = 77 ]; then break; fi # it has said why
    [ "$code" = 0 ] || exit "$code"
    set -- "$@" "hosts at $rate=$folder/hosts-$rate.json"
done

python3 "$here/bench/scaling.py" "$@" | tee "$folder/scaling.md"
