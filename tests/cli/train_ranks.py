#!/usr/bin/env python3
"""train_ranks.py OLE - `mpirun -n N ole train` against one process: losses, stopping, resuming on
other numbers of ranks, and ranks with different recipes or data.

Says so and returns 77 where nothing can be launched.
"""
import json
import os
import signal

import launched
from run import check_that

SMALL = ("train digits --net C8-MP-C12-MP-FC16 --batch-size 50 --augment crop:1 --lr 0.02 "
         "--device cpu --threads 1 --no-report")
NUMBERS = ("loss", "softmax_loss", "ole_loss")


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def check_close(name, ours, expected, tolerance):
    for key in NUMBERS:
        check_that(f"{name}: {key} is {ours[key]}, alone {expected[key]}",
                   abs(ours[key] - expected[key]) <= tolerance * abs(expected[key]))
    check_that(f"{name}: errors {ours['train_error']} {ours['test_error']}, alone "
               f"{expected['train_error']} {expected['test_error']}",
               abs(ours["train_error"] - expected["train_error"]) < 0.2 and
               abs(ours["test_error"] - expected["test_error"]) < 0.5)


def check_losses(ole, work):
    """The first epoch is that of one process, whatever the loss."""
    for loss in ("softmax", "softmax+ole"):
        ole.run(*f"{SMALL} --epochs 1 --loss {loss} --out one-{loss}".split())
        alone = metrics(work / f"one-{loss}")[0]
        for ranks in (2, 3):
            name = f"{ranks} ranks, {loss}"
            folder = f"r{ranks}-{loss}"
            code, out, err = ole.launch(ranks, f"{SMALL} --epochs 1 --loss {loss} --out {folder}")
            check_that(f"{name}: {code} {err}", code == 0)
            check_that(f"{name}: one rank prints: {out}", out.count("test error") == 1)
            ours = metrics(work / folder)[0]
            if loss == "softmax":
                alone["ole_loss"] = ours["ole_loss"] = 0.0
            check_close(name, ours, alone, 1e-5)
            check_that(f"{name}: says how long it waited",
                       ours["ranks"] == ranks and 0 <= ours["comm_seconds"] < ours["seconds"])
    code, out, err = ole.launch(2, f"{SMALL} --epochs 1 --bn local --ole-scope local --out local")
    check_that(f"local: {code} {err}", code == 0)
    ours, alone = metrics(work / "local")[0], metrics(work / "one-softmax+ole")[0]
    check_that("local is something else", abs(ours["loss"] / alone["loss"] - 1) > 1e-4)


def interrupt(ole, work, folder, ranks, victim):
    """Ctrl-C, as one rank sees it, in the middle of a run."""
    process = ole.start(ranks, f"{SMALL} --epochs 100000 --out {folder}")
    began = launched.wait_for(lambda: (work / folder / "last.safetensors").exists())
    pids = launched.ranks_of(process)
    check_that(f"{folder}: {ranks} ranks at work", began and len(pids) == ranks)
    os.kill(pids[victim], signal.SIGINT)
    _, err = process.communicate(timeout=60)
    check_that(f"{folder}: stopped and saved: {err}",
               "and saved; to resume: ole train --resume" in err and process.returncode == 130)
    return len(metrics(work / folder))


def check_stop_and_resume(ole, work):
    for ranks, victim, later in ((3, 1, 1), (3, 0, 2)):
        folder = f"stopped-{victim}"
        epochs = interrupt(ole, work, folder, ranks, victim)
        line = f"train --resume --out {folder} --epochs {epochs + 2} --no-report"
        if later > 1:
            code, _, err = ole.launch(later, line)
        else:
            alone = ole.run(*line.split())
            code, err = alone.returncode, alone.stderr
        lines = metrics(work / folder)
        check_that(f"{folder}: goes on with {later}: {code} {err}", code == 0)
        check_that(f"{folder}: every epoch once",
                   [m["epoch"] for m in lines[:-1]] == list(range(1, epochs + 3)))
        check_that(f"{folder}: each by as many ranks as there were",
                   [m.get("ranks", 1) for m in lines[:-1]] == [ranks] * epochs + [later] * 2)


def check_differences(ole, work):
    """Every rank ends, and the message names the rank, the key and both values."""
    same = f"{SMALL} --epochs 1 --out apart"
    code, _, err = ole.launch([(same, work), (same, work), (same + " --momentum 0.5", work)])
    check_that(f"recipes: {code} {err}", code not in (0, "still running after 100 s"))
    check_that(f"recipes: names rank and values: {err}",
               "rank 2 (" in err and "momentum is '0.5' here and '0.9' on rank 0" in err)
    code, _, err = ole.launch([(same, work), (same + " --seeds 2", work)])
    check_that(f"one run or several: {code} {err}", code not in (0, "still running after 100 s") and
               "rank 1 (" in err and "seeds is '2' here and '1' on rank 0" in err)
    code, _, err = ole.launch([(same, work), (same + " --seeds 2 --sampler none", work)])
    check_that(f"a mistake on one: {code} {err}", code not in (0, "still running after 100 s") and
               "rank 1 (" in err and "sampler" in err)
    code, _, err = ole.launch([(same, work), (same + " --classes 0,1,2,3,4,5,6,7,9,8", work)])
    check_that(f"data: {code} {err}", code not in (0, "still running after 100 s") and
               "rank 1 (" in err and "on rank 0; start all ranks with the same" in err)
    code, _, err = ole.launch(3, f"{SMALL} --epochs 1 --out few --batch-size 2")
    check_that(f"few rows: {code} {err}", code not in (0, "still running after 100 s") and
               err.count("a batch of 2 samples is too small for 3 ranks") == 1)
    check_that(f"few rows: no rank is to blame: {err}", "ole train: a batch of 2" in err)


def check_all(ole, work):
    check_losses(ole, work)
    check_stop_and_resume(ole, work)
    check_differences(ole, work)


if __name__ == "__main__":
    launched.conduct(__doc__, "training over ranks is", check_all)
