#!/bin/sh
# test.sh WHEEL [torch] - installs a wheel into clean virtual environments and tries what it promises; runs in a checkout's
# tests/, with python3, as anybody. `torch` tests the loss in the PyTorch that python3 has, instead of the rest.
set -eu
wheel=$(readlink -f "$1")
tests=$(readlink -f tests)
what=${2:-all}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OLE_TEST_INSTALLED=1 JAX_PLATFORMS=cpu PIP_DISABLE_PIP_VERSION_CHECK=1
unset OLE_LIBRARY PYTHONPATH || true
native=yes
case $wheel in *-none-any.whl) native=no ;; esac

say() { printf '==> %s\n' "$*"; }

# environment OPTION...: a virtual environment in $work/venv, whose commands come first.
environment() {
    python3 -m venv --clear "$@" "$work/venv"
    PATH=$work/venv/bin:$PATH
}

# run SCRIPT: a test script; one that skips everything fails, as nothing should be missing here.
run() {
    say "$1"
    (cd "$tests" && python3 -B "$@")
}

cd "$work"
if [ "$what" = torch ]; then
    environment --system-site-packages
    python3 -m pip install --quiet --no-deps "$wheel"
    run python/test_torch.py
    exit 0
fi

environment
python3 -m pip install --quiet "$wheel"
say 'import'
python3 -c 'import ole; print(ole.__version__, ole.__file__, ole.info())'
run python/test_score.py
if [ $native = no ]; then
    if ole info 2>message.txt; then exit 1; fi
    grep 'no program for your system' message.txt
    exit 0
fi

say 'ole'
ole info
python3 - <<'END'
# What the files of the wheel load is in the wheel, glibc's, or of GCC's runtime that NumPy needs as well.
import pathlib, re, subprocess, sys
import ole
site = pathlib.Path(ole.__file__).resolve().parent.parent
allowed = re.compile(r"(linux-vdso|ld-linux.*|libc|libm|libpthread|libdl|librt|libstdc\+\+|libgcc_s)\.so[.0-9]*$")
bad = []
for path in [*site.glob("ole/lib/*.so*"), site / "ole" / "bin" / "ole"]:
    for line in subprocess.run(["ldd", path], text=True, capture_output=True, check=True).stdout.splitlines():
        name, _, where = line.strip().partition(" => ")
        name = pathlib.Path(name.split(" ")[0]).name
        if not allowed.match(name) and not where.startswith(str(site)):
            bad.append(f"{path.name}: {line.strip()}")
sys.exit("\n".join(bad) or None)
END
ole demo --seeds 1 --epochs 2 --out demo
[ -s demo/report.html ]
mkdir man
ole man --out man
for test in run data journey hub frozen; do run cli/$test.py "$(command -v ole)"; done
run python/test_model.py
python3 -m pip install --quiet jax
run python/test_jax.py
