#!/bin/bash
# bench/gpu.sh [BUILD [RESULTS]] - builds, tests and measures the CUDA part on a machine with a GPU, and
# writes a results file (default gpu-results.txt).
#
# BUILD is a build folder (default build, created with ./dev's preset if it is missing). It may have been
# built elsewhere, with the libraries it needs in BUILD/lib.  PyTorch is the peer, if python3 has it.
# OLE_NETS, OLE_PRECISIONS and OLE_PARTS (of "tests ranks loss steps seeds memory checkers") select parts
# of the work.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$here/build}
results=${2:-gpu-results.txt}
export LD_LIBRARY_PATH=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export OPENBLAS_NUM_THREADS=1 OMP_WAIT_POLICY=passive
failed=0

section() {
    echo
    echo "== $1"
}

run_test() { # NAME [PATTERN]: prints the summary, and what failed
    local name=$1
    shift
    if ! "$build/tests/$name" "$@" >"$logs/$name" 2>&1; then
        failed=1
        grep -v "RUN\|  OK " "$logs/$name" | head -20
    fi
    echo "$name $*: $(grep -c '  OK ' "$logs/$name") passed, $(grep -c '\[  FAILED' "$logs/$name") lines of failure"
}

# TOOL PROGRAM PATTERN: one of compute-sanitizer's checkers.  Those that need it look at our kernels alone
# (ours are in nameless namespaces); racecheck cannot pass over kernels in a graph, and is slow on the libraries'.
check_kernels() {
    local filter=(--kernel-regex "kns=GLOBAL__N|anonymous")
    [ "$1" = racecheck ] && filter=()
    if OLE_CACHE=$logs/cache timeout 300 compute-sanitizer --tool "$1" --error-exitcode 9 "${filter[@]}" \
        "$build/tests/$2" "$3" >"$logs/$1-$2" 2>&1 && grep -q '  OK ' "$logs/$1-$2"; then
        echo "$1 $2 $3: clean ($(grep -c '  OK ' "$logs/$1-$2") tests)"
    else
        failed=1
        echo "$1 $2 $3: $(grep "ERROR SUMMARY" "$logs/$1-$2" || tail -3 "$logs/$1-$2")"
    fi
}

check_all_kernels() {
    local tool
    if ! command -v compute-sanitizer >/dev/null; then
        failed=1
        echo "compute-sanitizer is not there: it comes with the CUDA toolkit"
        return
    fi
    # What is measured under a checker is not worth keeping: a copy of the cache takes it.
    cp -r "${OLE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ole}" "$logs/cache" 2>/dev/null
    for tool in memcheck racecheck initcheck synccheck; do
        check_kernels $tool test_ops_cuda own_narrow
        check_kernels $tool test_ops_cuda own_kernels
        check_kernels $tool test_loss_cuda_calls recorded
        check_kernels $tool test_train_cuda own_steps
        [ $tool = racecheck ] || check_kernels $tool test_train_cuda recorded_as_single
        [ $tool = racecheck ] || check_kernels $tool test_ranks_cuda narrow_as_one_process
    done
    check_kernels racecheck test_train_cuda same_batches
}

peer() {
    python3 -c "import torch, sys; sys.exit(not torch.cuda.is_available())" 2>/dev/null
}

one_line() {
    tr -d '\n' | sed 's/  */ /g'
    echo
}

measure_nets() { # a line of JSON for each net and precision, beside PyTorch; then with OLE, alone
    local net precision with=""
    peer && with="--peer torch"
    for net in ${OLE_NETS:-cnn5 vgg11 vgg16 vgg19 resnet110 preresnet110 densenet40}; do
        for precision in ${OLE_PRECISIONS:-bf16 tf32 fp32}; do
            # shellcheck disable=SC2086
            "$build/ole" bench --net "$net" --device cuda --precision "$precision" \
                --softmax-only --seconds 1 $with --json | one_line
        done
        "$build/ole" bench --net "$net" --device cuda --precision bf16 --seconds 1 --json | one_line
    done
}

train_seeds() { # K EPOCHS: K runs side by side; prints the milliseconds they take
    local begin
    begin=$(date +%s%3N)
    "$build/ole" train "npy:$logs/x.npy,$logs/y.npy" --net cnn5 --device cuda --precision bf16 \
        --opt adam --epochs "$2" --eval-every 100 --batch-size 32 --seeds "$1" --augment crop:12,flip \
        --out "$logs/seeds-$1-$2" >"$logs/seeds" 2>&1 || return
    echo $(($(date +%s%3N) - begin))
}

measure_seeds() { # images a second of K runs side by side, CNN-5 on 5,000 images of 96 x 96
    local seeds short long
    python3 - "$logs" <<'PYTHON' || return
import sys
import numpy
random = numpy.random.default_rng(0)
numpy.save(sys.argv[1] + "/x.npy", random.integers(0, 256, (5000, 3, 96, 96), dtype=numpy.uint8))
numpy.save(sys.argv[1] + "/y.npy", random.integers(0, 10, 5000))
PYTHON
    train_seeds 1 1 >/dev/null # the first program on a GPU starts slowly
    for seeds in 1 2 4 8 16; do # what 20 epochs more take: start and end are in both
        if short=$(train_seeds $seeds 2) && long=$(train_seeds $seeds 22); then
            echo "$seeds runs side by side: $((seeds * 20 * 5000 * 1000 / (long - short))) images/s in all"
        else
            failed=1
            tail -3 "$logs/seeds"
        fi
    done
}

train_ranks() { # N ARGUMENTS...: `ole train` on N ranks, or alone; the last epoch's line
    local ranks=$1 launcher=()
    shift
    [ "$ranks" -gt 1 ] && launcher=(mpirun --allow-run-as-root --oversubscribe -n "$ranks")
    rm -rf "$logs/ranks"
    if ! timeout 120 "${launcher[@]}" "$build/ole" train digits --device cuda --epochs 3 --batch-size 64 \
        --conv direct --eval-every 3 --out "$logs/ranks" "$@" >"$logs/said" 2>&1; then
        failed=1
        tail -5 "$logs/said"
        return
    fi
    grep -i "gpu\|nccl" "$logs/said"
    echo "$ranks ranks $*: $(grep '"epoch"' "$logs/ranks/metrics.jsonl" | tail -1)"
}

measure_ranks() { # unit tests; then the same run alone and on two ranks that share the GPU
    run_test test_ranks_cuda
    run_test test_ranks_cuda_off
    command -v mpirun >/dev/null || { echo "mpirun is not there: skipped"; return; }
    for net in C16-MP-C32-MP-FC32 C16-R32/8\(x2\)-AP CO16-D24/4-BN-ReLU-AP; do
        for ranks in 1 2; do
            train_ranks $ranks --net "$net"
        done
    done
    train_ranks 2 --net C16-MP-C32-MP-FC32 --bn local --ole-scope local
}

measure_memory() { # a batch larger than any GPU must give a clear error
    if "$build/ole" bench --net vgg16 --device cuda --batch-size 65536 --input 3x224x224 >"$logs/memory" 2>&1 ||
        ! grep -q "memory" "$logs/memory"; then
        failed=1
    fi
    head -3 "$logs/memory"
}

wants() {
    case " ${OLE_PARTS:-tests ranks loss steps seeds memory checkers} " in
    *" $1 "*) section "$1" ;;
    *) return 1 ;;
    esac
}

main() {
    date -u "+%Y-%m-%d %H:%M UTC"
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    "$build/ole" info
    if wants tests; then
        for name in test_loss_cuda test_loss_cuda_calls test_criteria_cuda test_torch_steps test_train_cuda test_ops_cuda; do
            run_test $name
        done
    fi
    wants ranks && measure_ranks
    if wants loss; then
        "$build/bench/bench_loss_cuda" || failed=1
        "$build/bench/bench_criteria_cuda" || failed=1
        peer && python3 "$here/bench/peer_loss_torch.py" cuda
    fi
    wants steps && measure_nets
    wants seeds && measure_seeds
    wants memory && measure_memory
    wants checkers && check_all_kernels
    return $failed
}

if [ ! -x "$build/ole" ]; then
    cmake --preset release -S "$here" && cmake --build "$build" || exit 1
fi
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
main 2>&1 | tee "$results"
exit "${PIPESTATUS[0]}"
