#!/usr/bin/env python3
"""run.py OLE - runs the program OLE and compares what it prints, byte for byte, and its exit code.

The files it reads are made here, with numbers whose result is exact, in a directory of their own.
"""
import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import npyfile

passed = failed = 0


class Program:
    def __init__(self, path, work):
        self.path = path
        self.work = work
        # Tests run side by side: threads that spin while they wait would take each other's time.
        # HOME is empty and the test's own, so that no data or settings of the user are read; Open MPI 5 needs one.
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(work.parent / "home"), "LC_ALL": "C",
                            "OMP_WAIT_POLICY": "passive"}
        for name in ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "LD_LIBRARY_PATH"):
            if name in os.environ:
                self.environment[name] = os.environ[name]

    def run(self, *args, shell=None):
        """Runs with the arguments; `shell` is a command line in which "$@" is the program."""
        command = [self.path, *args]
        if shell:
            command = ["sh", "-c", shell, "sh", *command]
        return subprocess.run(command, cwd=self.work, env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)


def report(name, problems):
    global passed, failed
    if problems:
        failed += 1
        print(f"FAILED {name}")
        for problem in problems:
            print("  " + problem.replace("\n", "\n  "))
    else:
        passed += 1


def check(program, args, out="", err="", code=0, shell=None):
    """One run with exactly this stdout, stderr and exit code."""
    run = program.run(*args.split(), shell=shell)
    problems = []
    for what, got, expected in (("stdout", run.stdout, out), ("stderr", run.stderr, err),
                                ("exit code", run.returncode, code)):
        if got != expected:
            problems.append(f"{what} is\n{got}\nand not\n{expected}")
    report(f"ole {args}" + (f"   ({shell})" if shell else ""), problems)


def check_that(name, condition):
    report(name, [] if condition else ["this does not hold"])


def figure_ends(messages):
    """The formats that --figures writes: SVG alone where the build says that it has no cairo."""
    return ("svg",) if "this build cannot write" in messages else ("svg", "pdf", "png")


def conduct(doc, check_all, program=Program, arguments=1):
    """The frame of a command test: check_all(ole, work) in a folder of its own, then the closing line."""
    if len(sys.argv) != 1 + arguments:
        sys.exit(doc)
    with tempfile.TemporaryDirectory(prefix="ole-cli-") as name:
        work = Path(name) / "work"
        for folder in (work, Path(name) / "home"):
            folder.mkdir()
        check_all(program(os.path.abspath(sys.argv[1]), work), work)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


def read_json(program, *args):
    """What the program prints with these arguments, as Python values; {} when it is no JSON."""
    run = program.run(*args)
    try:
        return json.loads(run.stdout)
    except ValueError:
        report(f"ole {' '.join(args)}", [f"no JSON: {run.stdout}{run.stderr}"])
        return {}


def check_next(program, text, *verbs):
    """The commands that a result suggests: `ole VERB ...` each, and they run when they are pasted."""
    commands = [line.strip() for line in text.partition("what next")[2].splitlines()]
    check_that(f"what next: {commands}", [command.split()[1] for command in commands] == list(verbs))
    for command in commands:
        pasted = subprocess.run(["bash", "-c", f'ole() {{ "{program.path}" "$@"; }}\n{command}'], cwd=program.work,
                                env=program.environment, text=True, capture_output=True, timeout=120)
        check_that(f"{command}: {pasted.stderr}", pasted.returncode == 0 and pasted.stdout)


# ---- Files --------------------------------------------------------------------------------------

def write_files(work):
    """Good files, then every kind of bad one."""
    orthogonal = [0.25, 0, 0, 0, 0.5, 0]
    slanted = [1, 0, 1, 1]
    good = {
        "F.npy": npyfile.array("<f4", (2, 3), orthogonal),
        "F-v2.npy": npyfile.array("<f4", (2, 3), orthogonal, version=2),
        "F-v3.npy": npyfile.array("<f4", (2, 3), orthogonal, version=3),
        "F-half.npy": npyfile.array("<f2", (2, 3), orthogonal),
        "F-double.npy": npyfile.array("<f8", (2, 3), orthogonal),
        "F-big.npy": npyfile.array(">f4", (2, 3), orthogonal),
        "F-fortran.npy": npyfile.array("<f4", (2, 3), [0.25, 0, 0, 0.5, 0, 0], fortran=True),
        "F-int.npy": npyfile.array("<i4", (2, 3), [1, 0, 0, 0, 1, 0]),
        "F-slanted.npy": npyfile.array("<f4", (2, 2), slanted),
        "F-ignored.npy": npyfile.array("<f4", (3, 3), orthogonal + [float("nan"), 9, 9]),
        "L-ignored.npy": npyfile.array("<i4", (3,), [0, 1, -1]),
        "L.npy": npyfile.array("<i8", (2,), [0, 1]),
        "L-column.npy": npyfile.array("<i8", (2, 1), [0, 1]),
        "L-one.npy": npyfile.array("<i8", (2,), [7, 7]),
    }
    for descr in ("|i1", "<i2", ">i2", "<i4", ">i4", ">i8", "|u1", "<u2", "<u4", ">u4", "<u8"):
        good[f"L-{descr[1:]}{'-big' if descr[0] == '>' else ''}.npy"] = npyfile.array(
            descr, (2,), [0, 1])
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }"
    bad = {
        "empty.npy": b"",
        "text.npy": b"0.25 0 0\n",
        "magic.npy": b"\x93NUM",
        "version.npy": npyfile.frame("{}", b"", version=2).replace(b"NUMPY\2", b"NUMPY\t"),
        "cut-header.npy": good["F.npy"][:40],
        "cut-data.npy": good["F.npy"][:-3],
        "trailing.npy": good["F.npy"] + b"\0\0",
        "huge-header.npy": b"\x93NUMPY\2\0\xff\xff\xff\xff{'descr': '<f4'",
        "object.npy": npyfile.frame(header % ("|O", "(2, 3)"), b"\x80\x04]."),
        "structured.npy": npyfile.frame(
            "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,), }", b"\0" * 8),
        "complex.npy": npyfile.frame(header % ("<c8", "(2, 3)"), b"\0" * 48),
        "string.npy": npyfile.frame(header % ("<U1", "(2,)"), b"\0" * 8),
        "negative.npy": npyfile.frame(header % ("<f4", "(2, -3)"), b"\0" * 24),
        "overflow.npy": npyfile.frame(header % ("<f4", "(4294967296, 4294967296)"), b"\0" * 24),
        "no-shape.npy": npyfile.frame("{'descr': '<f4', 'fortran_order': False}", b"\0" * 24),
        "F-flat.npy": npyfile.array("<f4", (6,), orthogonal),
        "F-cube.npy": npyfile.array("<f4", (2, 3, 1), orthogonal),
        "F-none.npy": npyfile.array("<f4", (0, 3), []),
        "F-nan.npy": npyfile.array("<f4", (2, 3), [1, 2, 3, 4, float("nan"), 6]),
        "F-inf.npy": npyfile.array("<f8", (2, 3), [1, 2, 3, float("-inf"), 5, 6]),
        "F-wide.npy": npyfile.array("<f8", (2, 3), [1, 2, 3, 4, 1e300, 6]),
        "L-three.npy": npyfile.array("<i8", (3,), [0, 1, 2]),
        "L-float.npy": npyfile.array("<f4", (2,), [0, 1]),
        "L-table.npy": npyfile.array("<i8", (2, 2), [0, 1, 2, 3]),
        "L-large.npy": npyfile.array("<u8", (2,), [0, 2 ** 63]),
        "L-negative.npy": npyfile.array("<i8", (2,), [-1, -1]),
    }
    for name, content in {**good, **bad}.items():
        (work / name).write_bytes(content)
    (work / "dir").mkdir()


# ---- Expected text ------------------------------------------------------------------------------

TEXT = """\
loss             0.625        (class term - global norm) / 2
class term       2            sum over classes of max(1, nuclear norm)
global norm      0.75         nuclear norm of all rows
rows             2
dimensions       3
classes          2
rank             2            effective rank 1.89
rank per class   1            effective rank 1.00, mean over the classes

classes that overlap most, by principal angle (90 degrees: orthogonal)
  0 and 1           90.00 degrees
"""

SLANTED = """\
loss             -3.52786     -2 * (class term - global norm)
class term       4            sum over classes of max(2, nuclear norm)
global norm      2.23607      nuclear norm of all rows
rows             2
dimensions       2
classes          2
rank             2            effective rank 1.80
rank per class   1            effective rank 1.00, mean over the classes

classes that overlap most, by principal angle (90 degrees: orthogonal)
  0 and 1           45.00 degrees
"""

JSON = """\
{
  "loss": 0.625,
  "class_term": 2,
  "global_norm": 0.75,
  "n": 2,
  "d": 3,
  "classes": 2,
  "rank": 2,
  "per_class": [
    {
      "label": 0,
      "n": 1,
      "norm": 0.25,
      "rank": 1
    },
    {
      "label": 1,
      "n": 1,
      "norm": 0.5,
      "rank": 1
    }
  ]
}
"""

USAGE = """\
ole demo
ole train digits --net C32-MP-C64-MP-FC64 --out runs/first
ole score features.npy labels.npy

Orthogonal low-rank embeddings: features that are orthogonal between classes.

Training:
  demo        try it: digits with softmax alone, and with OLE
  train       train a network with softmax, OLE or both
  tune        choose lambda on a validation set, retrain, test once
  sweep       compare softmax and OLE with fewer samples per class
  compare     compare losses on equal budgets
  reproduce   run the paper's table rows and figures
  report      write the page of a run, of several, or of a fitted model

Models:
  eval        measure a model's errors and confusion, by class
  predict     label images or vectors, or answer unknown
  features    write deep features and class names as .npy files
  novelty     find what a model does not know, and the threshold for it
  export      write a model as ONNX, or as a folder for a model hub

Embeddings:
  fit         learn a classifier and a threshold for unknown
  apply       map embeddings with a fitted model
  score       compute the OLE loss and gradient of features and labels
  analyze     measure how well features separate classes, and draw a page
  verify      tell same from different: ROC, AUC, 10-fold accuracy of pairs
  align       rotate one embedding onto another of the same items
  tsne        map features to the plane (Barnes-Hut t-SNE)

Data and tools:
  data        list, download and check data sets
  net         list a network's layers, shapes, weights, FLOP and memory
  bench       time a training step, by stage, and its memory
  info        show version, build options, devices and libraries
  completion  print a script that completes commands and options at TAB
  man         print the manual pages

'ole COMMAND --help' explains a command; 'ole --version' prints the version.
"""

BUILT_WITHOUT_TRAINING = ("score", "analyze", "verify", "align", "tsne", "info", "completion", "man")  # commands

SCORE_HELP = """\
  $ ole score features.npy labels.npy --grad gradient.npy

ole score FEATURES.npy LABELS.npy [options]

Prints the OLE loss: the sum of the classes' nuclear norms minus the nuclear
norm of all rows. It is 0 when the classes are orthogonal to each other.

  FEATURES.npy                 [rows, dimensions], as .npy, .npz or .csv
  LABELS.npy                   [rows], numbers or words, as .npy, .npz, .txt or
                               FILE.csv:COLUMN; rows with a label < 0 are
                               ignored

Options:
  --grad G.npy                 write the gradient
  --delta-floor X              minimum of each class's nuclear norm (default 1)
  --delta-abs X                treat singular values up to X as zero
                               (default 1e-06)
  --delta-rel X                the same, relative to the largest one (default
                               auto: 64 epsilon)
  --weight X                   factor of the loss (default 1)
  --reduction mean|sum         divide by the number of rows, or not
                               (default mean)
  --dtype auto|float32|float64 type to compute in (default auto: the file's)
  --threads N                  threads (default: all processors)
  --json                       print JSON
  --help                       print this text
"""

SHORT_DEMO = "demo --seeds 1 --epochs 2 --threads 1"
AGAIN = "save it again with numpy.save"
DAMAGED = f"the header is damaged, {AGAIN}"


# ---- Checks -------------------------------------------------------------------------------------

LEVELS = {  # of OLE_CPU: our kernels, and what oneDNN and OpenBLAS call it
    "generic": ("generic", "SSE41", "Prescott"),
    "avx2": ("avx2", "AVX2", "Haswell"),
    "avx512": ("avx512", "AVX512_CORE", "SkylakeX"),
    "avx512_bf16": ("avx512", "AVX512_CORE_BF16", "Cooperlake"),
}
ARM_LEVELS = {"generic": ("generic", None, None), "neon": ("neon", None, None)}  # caps our kernels alone


def check_levels(ole):
    """OLE_CPU caps everything that computes, or is refused by name."""
    machine = read_json(ole, "info", "--json").get("cpu level")
    check_that("the level of the machine", machine in (*LEVELS, "amx", "neon"))
    levels = ARM_LEVELS if machine == "neon" else LEVELS
    for level, (kernels, dnn, core) in levels.items():
        ole.environment["OLE_CPU"] = level
        rows = read_json(ole, "info", "--json")
        if level == machine:
            check_that("a cap at the machine's level",
                       rows.get("cpu level") == f"{level}: OLE_CPU={level} caps nothing here")
            break
        check_that(f"OLE_CPU={level}", rows.get("cpu level") ==
                   f"{level}: OLE_CPU caps this machine's {machine}" and rows.get("cpu kernels") == kernels)
        if dnn:
            check_that(f"oneDNN, OLE_CPU={level}", rows.get("oneDNN", dnn).split(", ")[-1] == dnn)
            check_that(f"OpenBLAS, OLE_CPU={level}", rows["OpenBLAS"].split(", ")[-1] == core)
    for value in ("avx3", "AVX2"):
        ole.environment["OLE_CPU"] = value
        allowed = "generic or neon" if machine == "neon" else "generic, avx2, avx512, avx512_bf16 or amx"
        for args in ("info", "score F.npy L.npy"):
            check(ole, args, err=f"ole: OLE_CPU={value}: unknown level; choose {allowed}\n", code=2)
    del ole.environment["OLE_CPU"]


def check_program(ole, trains):
    usage = USAGE
    if not trains:
        listed = [line for line in USAGE.splitlines(keepends=True)
                  if not line.startswith("  ") or line.split()[0] in BUILT_WITHOUT_TRAINING]
        usage = "".join(listed[2:]).replace("Training:\n\nModels:\n\n", "")  # starts with examples of training
    check(ole, "", usage)
    check(ole, "--help", usage)
    check(ole, "help", usage)
    for word in ("--version", "-V", "version"):
        check(ole, word, "ole 0.2.0\n")
    check(ole, "help score", SCORE_HELP)
    check(ole, "help scor", err="ole: unknown command 'scor'; did you mean 'score'?\n", code=2)
    for far in ("foo", "bert", "show"):
        check(ole, far, err=f"ole: unknown command '{far}'; 'ole --help' lists the commands\n", code=2)
    check(ole, "scor", err="ole: unknown command 'scor'; did you mean 'score'?\n", code=2)
    if trains:
        check(ole, "dmeo", err="ole: unknown command 'dmeo'; did you mean 'demo'?\n", code=2)
    check(ole, "frobnicate",
          err="ole: unknown command 'frobnicate'; 'ole --help' lists the commands\n", code=2)
    check(ole, "--frobnicate",
          err="ole: unknown option '--frobnicate'; 'ole --help' lists the commands\n", code=2)
    check(ole, "score --help", SCORE_HELP)
    check(ole, "score F.npy --no-such -h", SCORE_HELP)
    run = ole.run("info")
    check_that("ole info", run.returncode == 0 and run.stdout.startswith("version") and
               not run.stderr)
    check_that("ole info --json", read_json(ole, "info", "--json").get("version") == "0.2.0")
    check(ole, "info x", err="ole info: unexpected argument 'x'; see 'ole info --help'\n", code=2)
    check_levels(ole)


def check_usage(ole):
    def wrong(args, message):
        check(ole, args, err=f"ole score: {message}\n", code=2)

    see = "see 'ole score --help'"
    wrong("score", "missing argument FEATURES.npy: [rows, dimensions], as .npy, .npz or .csv; "
          + see)
    wrong("score F.npy", "missing argument LABELS.npy: [rows], numbers or words, as .npy, .npz, .txt or "
          "FILE.csv:COLUMN; rows with a label < 0 are ignored; " + see)
    wrong("score F.npy L.npy x", f"unexpected argument 'x'; {see}")
    wrong("score F.npy L.npy --grd G.npy", "unknown option --grd; did you mean --grad?")
    wrong("score F.npy L.npy --delta=3", "unknown option --delta; 'ole score --help' lists them")
    wrong("score F.npy L.npy --wieght=3", "unknown option --wieght; did you mean --weight?")
    wrong("score F.npy L.npy -j", "unknown option -j; 'ole score --help' lists them")
    wrong("score F.npy L.npy --grad", "--grad needs a value: G.npy")
    wrong("score F.npy L.npy --grad=", "--grad: the value is empty")
    wrong("score F.npy L.npy --json=yes", "--json takes no value")
    wrong("score F.npy L.npy --weight nan", "--weight 'nan': expected a number")
    wrong("score F.npy L.npy --weight 1x", "--weight '1x': expected a number")
    wrong("score F.npy L.npy --delta-floor -1",
          "--delta-floor '-1': expected a number of at least 0")
    wrong("score F.npy L.npy --delta-rel -1",
          "--delta-rel '-1': expected auto or a number of at least 0")
    wrong("score F.npy L.npy --threads 0",
          "--threads '0': expected a whole number from 1 to 1024")
    wrong("score F.npy L.npy --threads 1.5",
          "--threads '1.5': expected a whole number from 1 to 1024")
    wrong("score F.npy L.npy --reduction max", "--reduction 'max': expected one of mean, sum")
    wrong("score F.npy L.npy --dtype float16",
          "--dtype 'float16': expected one of auto, float32, float64")
    wrong("score F.npy L.npy --grad ./F.npy",
          "./F.npy would overwrite an input; name another file")


def check_json(ole, args, expected, ignored=0, shell=None):
    """The exact start of the JSON, then ranks and overlaps as in the text."""
    done = ole.run(*args.split(), shell=shell)
    told = json.loads(done.stdout) if done.returncode == 0 else {}
    check_that(f"ole {args}: {done.stdout}{done.stderr}", done.stdout.startswith(expected[:-3] + ",\n") and
               not done.stderr and told["ignored"] == ignored and told["principal_angles"] ==
               [{"a": 0, "b": 1, "angle": 90}] and round(told["effective_rank"], 2) in (1.89, 2) and
               told["class_effective_rank"] == 1)


def check_score(ole):
    check(ole, "score F.npy L.npy", TEXT)
    check(ole, "score F.npy L.npy --threads 2", TEXT)
    check(ole, "score --delta-rel=auto F.npy --reduction mean -- L.npy", TEXT)
    check(ole, "score F-slanted.npy L.npy --delta-floor 2 --weight -2 --reduction=sum", SLANTED)
    check_json(ole, "score F.npy L.npy --json", JSON)
    check_json(ole, "score F.npy L.npy --json --dtype float64", JSON)
    for name in ("v2", "v3", "half", "double", "big", "fortran"):
        check_json(ole, f"score F-{name}.npy L.npy --json", JSON)
        check(ole, f"score F-{name}.npy L.npy", TEXT)
    check_json(ole, "score F-ignored.npy L-ignored.npy --json", JSON, ignored=1)
    check(ole, "score F-ignored.npy L-ignored.npy",
          TEXT.replace("rows             2\n", "rows             2            and 1 ignored\n"))
    for name in ("column", "i1", "i2", "i2-big", "i4", "i4-big", "i8-big", "u1", "u2", "u4",
                 "u4-big", "u8"):
        check_json(ole, f"score F.npy L-{name}.npy --json", JSON)
    check(ole, "score F.npy L-one.npy --delta-floor 0", TEXT[:TEXT.index("\nclasses that")]
          .replace("0.625 ", "0     ").replace("2            sum", "0.75         sum")
          .replace("max(1", "max(0").replace("classes          2", "classes          1")
          .replace("class   1            effective rank 1.00",
                   "class   2            effective rank 1.89"))
    check_json(ole, "score F-int.npy L.npy --json --dtype float32",
               JSON.replace("0.625", "0").replace('norm": 0.75', 'norm": 2')
               .replace('norm": 0.25', 'norm": 1').replace('norm": 0.5', 'norm": 1'))


def check_gradient(ole, work):
    expected = [-0.5, 0, 0, 0, -0.5, 0]
    types = (("F", "", "<f4"), ("F-double", "", "<f8"), ("F-half", "", "<f4"),
             ("F", " --dtype float64", "<f8"), ("F-double", " --dtype float32", "<f4"))
    for features, option, descr in types:
        check_json(ole, f"score {features}.npy L.npy --json --grad G.npy{option}", JSON)
        got, shape, values = npyfile.read(work / "G.npy")
        check_that(f"gradient of {features}{option}", got == descr and shape == (2, 3) and
                   all(abs(a - b) < 1e-6 for a, b in zip(values, expected)))
    (work / "G.npy").write_text("old")
    check(ole, "score F-nan.npy L.npy --grad G.npy", code=1,
          err="ole score: F-nan.npy: features: row 1 holds NaN or Inf; check what produced it\n")
    check_that("the old gradient stays after an error", (work / "G.npy").read_text() == "old")
    for target, reason in (("nowhere/G.npy", "No such file or directory"),
                           ("dir", "Is a directory"), ("F.npy/G.npy", "Not a directory")):
        for features in ("F", "F-nan"):  # it is found before the work
            check(ole, f"score {features}.npy L.npy --grad {target}", code=1,
                  err=f"ole score: {target}: cannot write: {reason}\n")
    check(ole, "score F.npy L.npy --grad /dev/full", TEXT, code=1,
          err="ole score: /dev/full: cannot write: No space left on device\n")
    check_json(ole, "score F.npy L.npy --json --grad /dev/null", JSON)
    if os.geteuid() != 0:  # root may write anywhere
        (work / "dir").chmod(0o555)
        check(ole, "score F.npy L.npy --grad dir/G.npy", code=1,
              err="ole score: dir/G.npy: cannot write: Permission denied\n")
        (work / "dir").chmod(0o755)
    check_that("no temporary file is left", not list(work.glob("**/.ole*")))


def check_bad_files(ole):
    def bad(args, message):
        check(ole, f"score {args}", err=f"ole score: {message}\n", code=1)

    one_field = "structured arrays are not supported; save one field, as a['field']"
    files = {
        "missing.npy": "cannot open: No such file or directory",
        "dir": "cannot open: Is a directory",
        "/dev/null": "not a regular file; copy it to one first",
        "empty.npy": f"the file is empty: {AGAIN}",
        "text.npy": f"not a .npy file, as its first bytes are not \\x93NUMPY: {AGAIN}",
        "magic.npy": "truncated after 4 bytes, inside the header; copy it again",
        "version.npy": f"unknown .npy version 9 at byte 6 (known: 1 to 3): {AGAIN}",
        "cut-header.npy": "the header should have 118 bytes, but the whole file has 40: truncated "
                          "or damaged; copy it again",
        "cut-data.npy": "3 bytes short: header says (2, 3) float32, 24 bytes, and 21 follow it; "
                        "copy or save it again",
        "trailing.npy": "2 bytes too many: header says (2, 3) float32, 24 bytes, and 26 follow it; "
                        + AGAIN,
        "huge-header.npy": "the header should have 4294967295 bytes, but the whole file has 27: "
                           "truncated or damaged; copy it again",
        "object.npy": "header, byte 20: dtype '|O': object arrays are not supported; save features with "
                      ".astype('float32'), labels with .astype(str) or as integers",
        "structured.npy": f"header, byte 20: {one_field}",
        "complex.npy": "header, byte 20: dtype '<c8': complex numbers are not supported; save the real "
                       "and imaginary parts separately",
        "string.npy": "header, byte 20: dtype '<U1': strings are no features; save those with "
                      ".astype('float32'), and name the labels behind them",
        "negative.npy": f"header, byte 64: a dimension is negative: {DAMAGED}",
        "overflow.npy": f"shape (4294967296, 4294967296) is larger than any file: {DAMAGED}",
        "no-shape.npy": f"header, byte 50: key 'shape' is missing: {DAMAGED}",
    }
    for name, message in files.items():
        bad(f"{name} L.npy", f"{name}: {message}")
        if name != "string.npy":  # labels may be strings
            bad(f"F.npy {name} --json", f"{name}: {message}")

    two_d = "features have shape"
    first = ", not (rows, dimensions); name the features first, then the labels"
    bad("F-flat.npy L.npy", f"F-flat.npy: {two_d} (6,){first}")
    bad("F-cube.npy L.npy", f"F-cube.npy: {two_d} (2, 3, 1){first}")
    bad("L.npy F.npy", f"L.npy: {two_d} (2,){first}")
    bad("F-none.npy L.npy", "F-none.npy: no features: the shape is (0, 3)")
    bad("F-int.npy L.npy",
        "F-int.npy: features are int32; convert them with --dtype float32 or float64")
    bad("F-wide.npy L.npy --dtype float32",
        "F-wide.npy: element 4 is 1e+300, too large for float32; scale the values, or read them as float64")
    bad("F-nan.npy L.npy", "F-nan.npy: features: row 1 holds NaN or Inf; check what produced it")
    bad("F-inf.npy L.npy --json",
        "F-inf.npy: features: row 1 holds NaN or Inf; check what produced it")
    bad("F.npy L-three.npy", "F.npy has 2 rows and L-three.npy has 3 labels; they must match")
    bad("F.npy L-float.npy", "L-float.npy: labels are float32, not integers; save them with "
        ".astype('int64')")
    bad("F.npy L-table.npy",
        "L-table.npy: labels have shape (2, 2), not (N,) or (N, 1); save one label per row")
    bad("F.npy L-large.npy", "L-large.npy: element 1 is 9223372036854775808, too large for "
        "int64; renumber the values")
    bad("F.npy L-negative.npy",
        "L-negative.npy: every label is negative, so every row is ignored")


def check_output_errors(ole, trains):
    full = "ole: cannot write to standard output: No space left on device\n"
    closed = "ole: cannot write to standard output: Bad file descriptor\n"
    demo = (SHORT_DEMO, SHORT_DEMO + " --json") if trains else ()
    for args in ("score F.npy L.npy", "score F.npy L.npy --json", "info", "info --json",
                 *demo, "--help", "--version", "score --help"):
        streams = args == SHORT_DEMO  # which ends at the first part that it cannot print
        for err, shell in ((full, '"$@" >/dev/full'), (closed, '"$@" >&-')):
            check(ole, args, err=err.replace("ole:", "ole demo:") if streams else err, code=1, shell=shell)
    # The reader is gone before the first byte is written: the program ends quietly, by SIGPIPE.
    for args in ("score F.npy L.npy", "--help", *demo[:1]):
        check(ole, args, "141\n", shell='{ sleep 0.2; "$@"; echo $? >code; } | true; cat code')
    check_json(ole, "score F.npy L.npy --json", JSON, shell='"$@" 2>&- <&-')
    check(ole, "score missing.npy L.npy", code=1, shell='"$@" 2>&-')


def check_demo(ole, work):
    first = ole.run(*SHORT_DEMO.split(), "--out", "demo")
    check_that("ole demo", first.returncode == 0 and not first.stderr and
               "angle between classes, deg" in first.stdout)
    check_that("ole demo again",
               ole.run(*SHORT_DEMO.split(), "--out", "demo").stdout == first.stdout)
    job = subprocess.Popen([ole.path, *SHORT_DEMO.split()], cwd=work, env=ole.environment, stdout=subprocess.PIPE)
    begun = job.stdout.readline()
    running = job.poll() is None
    job.communicate()
    check_that("ole demo prints each part as it is known", begun.startswith(b"Digits: 10 classes") and running)
    axes = [re.findall(r'text-anchor="end">([^<]*)<', (work / f"demo/angles-{loss}.svg").read_text())
            for loss in ("softmax", "ole")]
    check_that(f"histograms that are compared have the same axis: {axes}", axes[0] == axes[1])
    job = subprocess.Popen([ole.path, *SHORT_DEMO.split(), "--out", "new/stopped"], cwd=work, env=ole.environment,
                           text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while job.poll() is None and not (work / "new/stopped/tune/results.json").exists():
        time.sleep(0.01)
    job.send_signal(signal.SIGINT)
    out, err = job.communicate()
    check_that("ole demo stopped", job.returncode == 130 and not out and
               err == "ole demo: interrupted; the same command resumes\n")
    check_that("ole demo resumed", first.stdout.replace("demo/", "new/stopped/") ==
               ole.run(*SHORT_DEMO.split(), "--out", "new/stopped").stdout)
    other = ole.run("demo", "--seeds", "1", "--epochs", "3", "--out", "demo")
    check_that("ole demo resumed with other options", other.returncode == 1 and not other.stdout and
               other.stderr.startswith("ole demo: demo/tune: the study has epochs '2', not '3'"))
    figures = read_json(ole, *SHORT_DEMO.split(), "--json")
    if not figures:
        return
    digits, toy = figures["digits"], figures["toy"]
    check_that("OLE turns the demo's classes apart",
               digits["ole"]["angle_between"] > digits["softmax"]["angle_between"])
    check_that("the demo learns", digits["ole"]["test_error"] < 20)
    few = figures.get("few", [])
    check_that("the demo learns more from more", [row["samples_per_class"] for row in few] == [5, 10, 20] and all(
        few[0][way]["test_error"] > few[2][way]["test_error"] > digits[way]["test_error"] for way in ("softmax", "ole")))
    check_that("the text fits 80 columns", all(len(line) <= 80 for line in first.stdout.splitlines()))
    check_that("few images in the text and on the page", "\n10 images per class" in first.stdout and
               ">Few images per class</h2>" in (work / "demo/report.html").read_text() and
               (work / "demo/few.svg").read_text().startswith("<svg"))
    check_that("OLE alone has no classifier", toy["ole"]["test_error"] is None and
               toy["ole"]["knn1_error"] < 60)
    toy = read_json(ole, *SHORT_DEMO.replace("--seeds 1", "--seeds 3").split(), "--out", "new/stopped", "--json")["toy"]
    with open(work / "new/stopped/toy/results.csv", encoding="utf-8") as rows:
        runs = [row for row in csv.DictReader(rows) if row["lambda"] == "1"]
    best = min(runs, key=lambda row: float(row["validation_error"]))
    check_that(f"the toy's best run is shown: {toy['ole']}, {runs}", len(runs) == 6 and
               abs(toy["ole"]["knn1_error"] - float(best["knn1_error"])) < 1e-9)
    for name in ("F-softmax", "F-ole"):
        scored = read_json(ole, "score", f"demo/{name}.npy", "demo/L.npy", "--json")
        check_that(f"score of the demo's {name}", (scored["n"], scored["d"]) == (539, 64))
    check(ole, "demo --out F.npy", err="ole demo: F.npy/tune: cannot create the folder: "
          "Not a directory\n", code=1)
    check_that("the demo's labels", npyfile.read(work / "demo/L.npy")[:2] == ("<i4", (539,)))
    check_that("the toy's features",
               npyfile.read(work / "demo/F-toy-ole.npy")[:2] == ("<f4", (162, 3)))


def check_all(ole, work):
    write_files(work)
    trains = read_json(ole, "info", "--json").get("training") != "off (OLE_TRAIN)"
    check_program(ole, trains)
    check_usage(ole)
    check_score(ole)
    check_gradient(ole, work)
    check_bad_files(ole)
    check_output_errors(ole, trains)
    if trains:
        check_demo(ole, work)


if __name__ == "__main__":
    conduct(__doc__, check_all)
