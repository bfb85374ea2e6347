#!/bin/bash
# bench/gpu.sh [BUILD [RESULTS]] - on a machine with a GPU: builds, checks and measures the CUDA part
# in one go and writes a results file (default gpu-results.txt).
#
# BUILD is a build folder (default build, made with ./dev's preset where it is missing); one that was
# built elsewhere will do, with the libraries it needs in BUILD/lib.  Torch is the peer, where python3
# has it.  OLE_QUICK=1 leaves out the checkers and the slower nets.
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

run_test() { # NAME [PATTERN]: the closing lines, and what failed
    local name=$1
    shift
    if ! "$build/tests/$name" "$@" >"$logs/$name" 2>&1; then
        failed=1
        grep -v "RUN\|  OK " "$logs/$name" | head -20
    fi
    echo "$name $*: $(grep -c '  OK ' "$logs/$name") passed, $(grep -c '\[  FAILED' "$logs/$name") lines of failure"
}

check_kernels() { # TOOL PROGRAM PATTERN: one of compute-sanitizer's checkers on our kernels
    command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not there: skipped"; return; }
    if timeout 240 compute-sanitizer --tool "$1" --error-exitcode 9 \
        --kernel-regex-exclude kns="cudnn|cutlass|cublas|gemm|xmma|sm80|sm90|splitK|nchw|nhwc" \
        "$build/tests/$2" "$3" >"$logs/$1-$2" 2>&1; then
        echo "$1 $2 $3: clean ($(grep -c '  OK ' "$logs/$1-$2") tests)"
    else
        failed=1
        echo "$1 $2 $3: $(grep "ERROR SUMMARY" "$logs/$1-$2" || tail -3 "$logs/$1-$2")"
    fi
}

peer() {
    python3 -c "import torch, sys; sys.exit(not torch.cuda.is_available())" 2>/dev/null
}

measure_nets() {
    local nets="cnn5 vgg11 vgg16 vgg19 resnet110 preresnet110 densenet40" with="" net
    peer && with="--peer torch"
    for net in $nets; do
        for precision in ${OLE_PRECISIONS:-bf16 tf32 fp32}; do
            # shellcheck disable=SC2086
            "$build/ole" bench --net "$net" --device cuda --precision "$precision" \
                --softmax-only --seconds 2 $with --json | tr -d '\n' | sed 's/  */ /g'
            echo
        done
        "$build/ole" bench --net "$net" --device cuda --precision bf16 --seconds 2 --json |
            tr -d '\n' | sed 's/  */ /g'
        echo
    done
}

measure_seeds() { # images a second of K runs side by side
    for seeds in 1 2 4 8; do
        start=$(date +%s.%N)
        "$build/ole" train digits --net cnn5 --resize 96 --channels 3 --device cuda --precision bf16 --epochs 20 \
            --batch-size 32 --opt adam --seeds $seeds --eval-every 20 >"$logs/seeds" 2>&1 || failed=1
        echo "$seeds runs side by side: $(echo "$(date +%s.%N) - $start" | bc) s"
    done
}

main() {
    date -u "+%Y-%m-%d %H:%M UTC"
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    "$build/ole" info
    section "tests"
    run_test test_loss_cuda
    run_test test_ops_cuda
    run_test test_torch_steps
    run_test test_train_cuda
    section "the loss"
    "$build/bench/bench_loss_cuda" 2>/dev/null || "$build/tests/bench_loss_cuda" || failed=1
    peer && python3 "$here/bench/peer_loss_torch.py" cuda
    section "training steps"
    measure_nets
    section "seeds side by side"
    measure_seeds
    if [ -z "${OLE_QUICK:-}" ]; then
        section "checkers"
        for tool in memcheck racecheck initcheck synccheck; do
            check_kernels $tool test_train_cuda "recorded_as_single"
            check_kernels $tool test_loss_cuda "${OLE_LOSS_PATTERN:-*small*}"
        done
    fi
    return $failed
}

if [ ! -x "$build/ole" ]; then
    cmake --preset release -S "$here" && cmake --build "$build" || exit 1
fi
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
main 2>&1 | tee "$results"
exit "${PIPESTATUS[0]}"
