#!/usr/bin/env python3
"""export.py OLE - runs `ole export`: what it prints, its mistakes, and what it leaves behind.

Whether the file is right is for tests/python/test_onnx.py and tests/unit/test_train_onnx.c.
"""

import run
from run import check, check_that, read_json

TRAIN = "train digits --net C4-MP-FC8 --samples-per-class 4 --epochs 1 --threads 1 --no-unknown --out r"


def check_usage(ole):
    see = "see 'ole export --help'"
    check(ole, "export", code=2, err="ole export: missing argument MODEL: a run folder, a .safetensors file, or "
          f"hf:OWNER/MODEL from a hub; {see}\n")
    check(ole, "export r", err="ole export: name what to write: --onnx M.onnx, --hub FOLDER, or both\n", code=2)
    check(ole, "export r --onxn m", err="ole export: unknown option --onxn; did you mean --onnx?\n",
          code=2)


def check_export(ole, work):
    shapes = "images [N, 1, 8, 8] to features [N, 8] and logits [N, 10]"
    done = [ole.run("export", "r", "--onnx", "m.onnx"),
            ole.run("export", "r/best.safetensors", "--onnx", "f.onnx", "--fold")]
    megabytes = [f"{(work / name).stat().st_size / 1e6:.3g}" for name in ("m.onnx", "f.onnx")]
    check_that("ole export", done[0].stdout ==
               f"m.onnx: {shapes}\n11 ops, 700 weights, {megabytes[0]} MB\n")
    check_that("ole export --fold", done[1].stdout ==
               f"f.onnx: {shapes}\n9 ops, 652 weights, {megabytes[1]} MB, 2 batch norms folded\n")
    answer = read_json(ole, "export", "r", "--onnx", "m.onnx", "--json")
    check_that("ole export --json", answer == {
        "onnx": "m.onnx", "input": [1, 8, 8], "features": 8, "classes": 10, "ops": 11, "folded": 0,
        "weights": 700, "bytes": (work / "m.onnx").stat().st_size, "classifier": True})
    again = (work / "m.onnx").read_bytes()
    ole.run("export", "r", "--onnx", "m.onnx")
    check_that("the same model, the same bytes", (work / "m.onnx").read_bytes() == again)


def check_mistakes(ole, work):
    model = (work / "r/best.safetensors").read_bytes()
    check(ole, "export nowhere --onnx m.onnx", code=1,
          err="ole export: nowhere: cannot read: No such file or directory\n")
    check(ole, "export r --onnx no/m.onnx", code=1,
          err="ole export: no/m.onnx: cannot write: No such file or directory\n")
    for name in ("best", "last"):
        check(ole, f"export r --onnx r/{name}.safetensors", code=2, err="ole export: r/"
              f"{name}.safetensors would overwrite an input; name another file\n")
    check_that("the model is as it was", (work / "r/best.safetensors").read_bytes() == model)
    (work / "cut.safetensors").write_bytes(model[:-9])
    done = ole.run("export", "cut.safetensors", "--onnx", "cut.onnx")
    check_that("a damaged model leaves no file", done.returncode == 1 and "damaged" in done.stderr
               and not (work / "cut.onnx").exists())
    check_that("nothing half-written", not [p for p in work.iterdir() if ".onnx." in p.name])


def check_untrained(ole, work):
    """OLE alone trains no classifier: features are exported, logits warned of."""
    ole.run(*TRAIN.split()[:-1], "alone", "--loss", "ole")
    done = ole.run("export", "alone", "--onnx", "alone.onnx")
    check_that(f"OLE alone: {done.stderr}", done.returncode == 0 and done.stderr ==
               "ole export: warning: the model has no trained classifier: "
               "its logits are meaningless; use the features\n")
    answer = read_json(ole, "export", "alone", "--onnx", "alone.onnx", "--json")
    check_that("OLE alone --json", answer.get("classifier") is False)


def check_all(ole, work):
    check_usage(ole)
    ole.run(*TRAIN.split())
    check_export(ole, work)
    check_mistakes(ole, work)
    check_untrained(ole, work)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
