#!/usr/bin/env python3
"""check_examples.py BUILD - the examples in C work and are short; those in the public headers compile.

Examples are compiled against BUILD and run in a directory of their own: one trains on the digits, another
recognises a picture of a digit with the model of the first, a third analyses features.  The one for GPUs is compiled
if CUDA is installed; without a GPU it must print so.

The example of a public header is the first indented block after a line that starts with "Example:".  It is compiled as
the body of a function that has features [rows, dim], labels [rows] and an ole_error.
"""
import os
import re
import struct
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


def check_headers(work):
    """Every public header opens with an example that compiles."""
    for header in sorted((ROOT / "include/ole").glob("**/*.h")):
        block = re.search(r"^ [*] Example: .*\n(?: [*] \S.*\n)* [*]\n((?: [*] {5}.*\n)+)", header.read_text(), re.MULTILINE)
        if not block:
            sys.exit(f"{header}: has no example; write one after a line that starts with 'Example:'")
        body = re.sub(r"^ [*]", "", block.group(1), flags=re.MULTILINE)
        parameters = "int64_t rows, int64_t dim, const float *features, const int64_t *labels"
        includes = [header.relative_to(ROOT / "include"), "ole/npy.h"]
        lines = [f'#include "{name}"' for name in includes] + ["#include <stdio.h>", "#include <stdlib.h>"]
        lines += [f"int example({parameters}) {{"]
        lines += [] if "ole_error error;" in body else ["    ole_error error;"]
        source = work / "example.c"
        source.write_text("\n".join([*lines, f'#line 1 "example of {includes[0]}"', body, "    return 0;", "}", ""]))
        subprocess.run([os.environ.get("CC", "cc"), "-std=c17", "-Wall", "-Wextra", "-Wno-unused", "-Wno-unused-parameter",
                        "-Werror", f"-I{ROOT}/include", "-fsyntax-only", source], check=True)


def write_npy(path, dtype, shape, values, code):
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    data = struct.pack(f"<{len(values)}{code}", *values)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)


def check_analyze(build, work):
    """Three classes on the three axes: no errors, right angles, one direction per class."""
    compile_example("analyze", build, work, lines=80)
    labels = [i % 3 for i in range(12)]
    features = [float(1 + i) if j == labels[i] else 0.0 for i in range(12) for j in range(3)]
    write_npy(work / "x.npy", "<f4", (12, 3), features, "f")
    write_npy(work / "y.npy", "<i8", (12,), labels, "q")
    expected = ["error: 1-NN 0.00 %, nearest subspace 0.00 %",
                "median angle: within classes 0.0, between 90.0 degrees",
                "OLE loss 0.0000, effective rank of all rows 3.0"]
    expected += [f"class {c}: 4 rows, effective rank 1.0" for c in range(3)]
    expected += [f"classes {a} and {b}: 90.0 degrees" for a, b in ((0, 1), (0, 2), (1, 2))]
    printed = run(work, "./analyze", "x.npy", "y.npy")
    if printed.replace("-0.0", "0.0").splitlines() != expected:
        sys.exit(f"analyze prints\n{printed}")
    refused = subprocess.run(["./analyze", "x.npy", "missing.npy"], cwd=work, text=True, capture_output=True)
    if refused.returncode != 1 or "missing.npy" not in refused.stderr:
        sys.exit(f"analyze of a missing file gives {refused.returncode}: {refused.stderr}")


def check_cuda(build, work):
    """Prints a loss on a GPU; without one, what is missing."""
    if not (CUDA / "include/cuda_runtime_api.h").exists():
        print("no CUDA headers: examples/loss_cuda.c was not compiled")
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
        check_headers(work)
        check_analyze(build, work)
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
    print("the examples work")


main()
