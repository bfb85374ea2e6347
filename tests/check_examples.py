#!/usr/bin/env python3
"""check_examples.py BUILD - the examples in C: short, and they do what they say.

Compiled against BUILD, run in a directory of their own: one trains on the digits, another recognises
a picture of a digit with what the first has left.  The one for GPUs is compiled where CUDA is, and
without a card must say so.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINES = 40  # fewer than these
CUDA = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
SEVEN = ["..####..", ".######.", "....##..", "...###..", "..#####.", "...##...", "..##....", "..##...."]


def compile_example(name, build, work, *more, lines=LINES):
    source = ROOT / "examples" / f"{name}.c"
    if len(source.read_text().splitlines()) >= lines:
        sys.exit(f"{source}: {lines} lines or more")
    subprocess.run([os.environ.get("CC", "cc"), "-std=c17", "-Wall", "-Wextra", "-Werror",
                    f"-I{ROOT}/include", source, f"-L{build}", *more, "-lole", f"-Wl,-rpath,{build}",
                    "-o", work / name], check=True)


def check_cuda(build, work):
    """Prints a loss on a GPU; elsewhere one sentence about what is missing."""
    if not (CUDA / "include/cuda_runtime_api.h").exists():
        print("CUDA's headers are not there: examples/loss_cuda.c was not compiled")
        return
    compile_example("loss_cuda", build, work, f"-isystem{CUDA}/include", f"-L{CUDA}/lib64",
                    "-lcudart", f"-Wl,-rpath,{CUDA}/lib64", lines=60)
    done = subprocess.run(["./loss_cuda"], cwd=work, text=True, capture_output=True)
    if not (done.stdout.startswith("loss ") or done.stderr.startswith("CUDA: ")):
        sys.exit(f"loss_cuda prints\n{done.stdout}{done.stderr}")


def run(work, *command):
    done = subprocess.run(command, cwd=work, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f"{command} gives {done.returncode}:\n{done.stdout}")
    return done.stdout


def main():
    build = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="ole-examples-") as folder:
        work = Path(folder)
        for name in ("train", "predict"):
            compile_example(name, build, work, "-loletrain")
        trained = run(work, "./train", "run")
        if "epoch  6:" not in trained or "test error" not in trained.splitlines()[-1]:
            sys.exit(f"train prints\n{trained}")
        pixels = bytes(255 if c == "#" else 0 for row in SEVEN for c in row)
        (work / "seven.pgm").write_bytes(b"P5 8 8 255\n" + pixels)
        predicted = run(work, "./predict", "run", "seven.pgm")
        if not predicted.startswith("seven.pgm: 7, score "):
            sys.exit(f"predict prints\n{predicted}")
        check_cuda(build, work)
    print("the examples do what they say")


main()
