#!/usr/bin/env python3
"""train.py OLE - runs `ole train`, `eval`, `predict` and `features` on a few of the digits.

Messages are compared exactly; runs are compared with each other, interrupted and resumed ones with
whole ones.
"""
import calendar
import json
import re
import signal
import subprocess
import time

import npyfile
import run
from run import check, check_that, read_json

SMALL = "train digits --net C4-MP-FC8 --samples-per-class 12 --batch-size 32 --threads 1"
SEE = "see 'ole train --help'"
TIMES = ("seconds", "images_per_s", "ole_share", "date")


def metrics(folder):
    """The lines of metrics.jsonl without what depends on the clock."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in TIMES} for line in lines]


# ---- Mistakes -----------------------------------------------------------------------------------

def check_usage(ole):
    def wrong(args, message):
        check(ole, "train " + args, err=f"ole train: {message}\n", code=2)

    wrong("", f"missing argument DATA: a data set, such as digits or folder:photos; {SEE}")
    wrong("--resume --out nowhere", "nowhere: no run to resume")
    wrong("digits --resume", f"missing option --out: the folder to resume, such as runs/first; {SEE}")
    wrong("digits mnist", f"unexpected argument 'mnist'; {SEE}")
    wrong("digits --batchsize 3", "unknown option --batchsize; did you mean --batch-size?")
    wrong("digits -x", "unknown option -x; 'ole train --help' lists them")
    wrong("digits -c", "--config needs a value: FILE.yaml")
    for epochs in ("-1", "0", "1.5"):
        wrong(f"digits --epochs {epochs}", f"--epochs '{epochs}': expected a whole number from 1 to 1000000000")
    wrong("digits --batch-size x", "--batch-size 'x': expected a whole number from 1 to 1000000000")
    for rate in ("-1", "0"):
        wrong(f"digits --lr {rate}", f"--lr '{rate}': expected a number above 0")
    wrong("digits --delta-floor -1", "--delta-floor '-1': expected a number of at least 0")
    wrong("digits --delta-rel -1", "--delta-rel '-1': expected auto or a number of at least 0")
    wrong("digits --momentum 2", "--momentum '2': expected a number from 0 to 1")
    wrong("digits --opt sdg", "--opt 'sdg': expected one of sgd, adam, adamw")
    wrong("digits --loss both", "--loss 'both': expected some of softmax, ole, center, contrastive, triplet, "
          "l-softmax, a-softmax, cosface, arcface, supcon, mcr2, opl, ssole, logit-norm, ole-unit with '+' between")
    wrong("digits --val-split 100%",
          "--val-split '100%': expected a share below 1, such as 10% or 0.1")
    wrong("digits --seed x", "--seed 'x': expected a whole number of at least 0")
    wrong("digits --resize 4097", "--resize '4097': expected a whole number from 0 to 4096")
    wrong("digits --workers 300", "--workers '300': expected a whole number from 0 to 256")
    wrong("digits --nesterov=1", "--nesterov takes no value")
    net = "digits --net C4 --out never "
    wrong(net + "--milestones 75%,50%", "milestones '75%,50%': expected rising epochs or shares such as 81,122 or "
          "50%,75%, cosine or none")
    wrong(net + "--augment flop",
          "augment 'flop': expected crop:PIXELS, resized-crop:SHARE, flip, rotate:DEGREES, jitter:X, "
          "erase:P, cutout:PIXELS, mixup:ALPHA, or some of them separated by commas")
    wrong(net + "--sampler 3x4",
          "sampler '3x4': expected balanced, or balanced:CxK, C classes with K samples each")
    wrong(net + "--ole-at 0", "ole_at '0': expected different tokens from 1 on, with weights where they differ "
          "from lambda, such as 3:0.1,5")
    wrong(net + "--normalize x", "normalize 'x': expected auto, none, half, cifar, imagenet, or means and deviations such as "
          "0.5,0.5,0.5/0.2,0.2,0.2")


def check_refused(ole, work):
    """A training that is refused leaves nothing that it made."""
    (work / "mine").mkdir()
    for args in ("--net Q12 --out refused", "--net Q12 --out refused/deep/er", "--net Q12 --out mine",
                 "--net Q12 --seeds 2 --out refused", "--net Q12 --seeds 2 --out mine/deep",
                 "--net Q12 --seeds 2 --out mine", "--net C4 --device tpu --out refused",
                 "--net Q12 --out refused/../mine", "--net Q12 --out refused//deep/./er/"):
        refused = ole.run("train", "digits", *args.split())
        check_that(f"ole train digits {args}", refused.returncode == 2 and
                   not (work / "refused").exists() and list((work / "mine").iterdir()) == [])
    (work / "mine/file").write_text("")
    failed = ole.run("train", "digits", "--net", "C4", "--out", "mine/new/../file/x")
    check_that("a folder that cannot be made", failed.returncode == 1 and
               [path.name for path in (work / "mine").iterdir()] == ["file"])


def check_failures(ole):
    check(ole, "train digits --net C4 --out /proc/x", code=1,
          err="ole train: /proc/x: cannot create the folder: No such file or directory\n")
    check(ole, "train digits --net C4 --out r --device tpu", code=2,
          err="ole train: device tpu: choose auto, cpu, cuda, cuda:N or ref; 'ole info' shows what is available\n")
    check(ole, "train --resume --out nowhere --net C4 digits", code=1,
          err="ole train: nowhere: no run to resume\n")
    large = ole.run("train", "digits", "--net", "FC65536(x1000)", "--out", "large")
    check_that(f"a net larger than memory: {large.stderr}", large.returncode == 1 and re.fullmatch(
        r"ole train: the weights, with gradients and the optimiser's state: needs 4.8e\+04 GiB of "
        r"memory, [\d.e+]+ GiB are free: use a smaller net; OLE_MEMORY_CHECK=off tries it anyway\n", large.stderr))
    run_nan = ole.run(*SMALL.split(), "--lr", "1e30", "--epochs", "2", "--out", "nan")
    check_that("a diverging run", run_nan.returncode == 1 and
               "NaN or Inf, from layer " in run_nan.stderr and "lower --lr" in run_nan.stderr)


def check_recipes(ole, work):
    def recipe(text, message):
        (work / "r.yaml").write_text(text)
        check(ole, "train digits --net C4 --out never -c r.yaml", code=2,
              err=f"ole train: r.yaml, line {message}\n")

    recipe("epochs: 3\nbatch_sise: 4\n", "2: unknown option batch_sise; did you mean batch_size?")
    recipe("epochs: x\n", "1: epochs 'x': expected a whole number from 0 to 1000000000")
    recipe("- epochs\n", "1: a recipe is a map, such as 'epochs: 20'")
    recipe("lr: 1\nlr: 2\n", "2: this key appears twice")
    check(ole, "train digits -c no.yaml", code=2,
          err="ole train: no.yaml: cannot read: No such file or directory\n")
    check(ole, "train digits -c /dev/null", code=2, err="ole train: /dev/null: cannot read: a pipe or "
          "a device; copy it to a file first\n")
    check_that("nothing was made", not (work / "never").exists())
    (work / "r.yaml").write_text("data: digits\nnet: C4-MP-FC8\nsamples_per_class: 12\n"
                                 "batch-size: 32\nthreads: 1\nepochs: 9\nmilestones: [1, 2]\n")
    first = ole.run("train", "-c", "r.yaml", "--epochs", "3", "--milestones", "50%,75%", "--out",
                    "recipe")
    second = ole.run(*SMALL.split(), "--epochs", "3", "--out", "flags")
    check_that("recipe and flags", first.returncode == second.returncode == 0 and
               metrics(work / "recipe") == metrics(work / "flags"))
    config = (work / "recipe" / "config.yaml").read_text()
    check_that("config.yaml", "epochs: 3\n" in config and "milestones: 50%,75%\n" in config and
               "out:" not in config)


# ---- Runs ---------------------------------------------------------------------------------------

def check_output(ole, work):
    done = ole.run(*SMALL.split(), "--epochs", "2", "--out", "runs/a")
    lines = done.stdout.splitlines()
    check_that("the result", [line[:19] for line in lines] ==
               ["test error         ", "1-NN error         ", "unknown            ",
                "                   ", "run folder         ",
                "report             ", "what next          ", "                   "])
    check_that("one line per epoch", [line.split("  ")[0] for line in done.stderr.splitlines()] ==
               ["epoch 1/2", "epoch 2/2"])
    check_that("errors are called so", all(len(re.findall("  error: train ", line)) == 1 for line in done.stderr.splitlines()))
    check_that("the files", sorted(p.name for p in (work / "runs/a").iterdir()) ==
               ["best.safetensors", "config.yaml", "last.safetensors", "metrics.jsonl",
                "previous.safetensors", "report.html"])
    end = metrics(work / "runs/a")[-1]
    check_that("the last line", end["event"] == "end" and
               f"{end['test_error']:.2f} %" in lines[0])
    said = json.loads((work / "runs/a/metrics.jsonl").read_text().splitlines()[-1])
    check_that("where and when it ended", said["device"] in ("cpu", "cuda") and
               abs(calendar.timegm(time.strptime(said["date"], "%Y-%m-%dT%H:%M:%SZ")) - time.time()) < 600)
    check(ole, f"{SMALL} --out runs/a", code=2, err="ole train: runs/a: already holds a run; "
          "continue it with --resume, or choose another folder\n")
    result = read_json(ole, *SMALL.split(), "--epochs", "1", "--seeds", "2", "--out", "b", "--json")
    check_that("--seeds", result.get("runs") == 2 and result["test_error_std"] is not None and
               (work / "b/seed-1/best.safetensors").exists())
    alone = read_json(ole, *SMALL.split(), "--loss", "ole", "--epochs", "1", "--out", "c", "--json")
    check_that("--loss ole", alone.get("test_error", 0) is None and alone["knn1_error"] > 0)


def interrupt(ole, work, number, name="stopped", quoted="stopped"):
    """Starts a long run, interrupts it after its first epoch; what is left in the folder."""
    command = [ole.path, *SMALL.split(), "--epochs", "400", "--out", name]
    process = subprocess.Popen(command, cwd=work, env=ole.environment, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    process.stderr.readline()
    process.send_signal(number)
    time.sleep(0.0005)
    process.send_signal(number)  # timeout(1) and launchers send it to the program and to its group
    out, err = process.communicate(timeout=120)
    check_that(f"signal {number}", process.returncode == 130 and not out and
               f"and saved; to resume: ole train --resume --out {quoted}\n" in err)
    return work / name


def check_suggested(ole, work):
    """The command that resumes runs when it is pasted, whatever the folder is called."""
    for name, quoted in (("my run \u00e9", "'my run \u00e9'"), ("$(it's)", "'$(it'\\''s)'"),
                         ("a\033b'c", "$'a\\x1bb\\'c'")):
        folder = interrupt(ole, work, signal.SIGINT, name, quoted)
        pasted = subprocess.run(["bash", "-c", f'ole() {{ "{ole.path}" "$@"; }}; ole train --resume --out {quoted} '
                                 "--epochs 400 --no-report"], cwd=work, env=ole.environment, capture_output=True)
        check_that(f"{quoted}: {pasted.stderr[-200:]}", pasted.returncode == 0 and metrics(folder)[-1]["event"] == "end")


def check_followed(ole, work):
    """While it trains, report.html has the curves so far and refreshes itself; the bits stay."""
    def refreshes(page):
        return '<meta http-equiv="refresh" content="5">' in page

    def next_page(before):
        ends = time.monotonic() + 60
        while time.monotonic() < ends:
            page = path.read_text() if path.exists() else ""
            if page and page != before:
                return page
            time.sleep(0.05)
        return ""

    path = work / "followed/report.html"
    command = [*SMALL.split(), "--epochs", "1000000", "--milestones", "none", "--out", "followed"]
    said = open(work / "followed.err", "w+")  # a pipe that nobody reads would stop it
    process = subprocess.Popen([ole.path, *command], cwd=work, env=ole.environment, stdout=subprocess.PIPE, stderr=said)
    began = time.monotonic()
    pages = [next_page("")]
    check_that("no page in the first seconds", time.monotonic() - began > 1.9)
    pages.append(next_page(pages[0]))
    process.send_signal(signal.SIGINT)
    out = process.communicate(timeout=120)[0]
    said.seek(0)
    check_that("interrupted", process.returncode == 130 and not out and "report.html" not in said.read())
    said.close()
    epochs = [int(re.search(r"(\d+) of 1000000 epochs", page).group(1)) for page in pages if page]
    check_that(f"pages that follow the run: {epochs}", len(epochs) == 2 and 0 < epochs[0] < epochs[1] and all(
        refreshes(page) and "Training is in progress" in page and ">Learning curves</h2>" in page and
        "of 0 samples" not in page for page in pages))
    page = path.read_text()
    check_that("at the end no more", not refreshes(page) and "Training is in progress" not in page)
    lines = metrics(work / "followed")[:19]
    ole.run(*SMALL.split(), "--epochs", "20", "--milestones", "none", "--no-report", "--out", "alone")
    check_that("a page that follows changes nothing", metrics(work / "alone")[:19] == lines)
    check_that("--no-report writes none", not (work / "alone/report.html").exists())


def check_interrupts(ole, work):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        folder = interrupt(ole, work, number)
        epochs = len(metrics(folder)) + 2
        check(ole, f"train --resume --out stopped --milestones none --epochs {epochs}", code=2,
              err="ole train: stopped/last.safetensors: the run has milestones '50%,75%', not "
                  "'none'; resume with the same, or start a new run\n")
        resumed = read_json(ole, "train", "--resume", "--out", "stopped", "--epochs", str(epochs),
                            "--json")
        check_that("resumed", resumed.get("epochs") == epochs and
                   [line["epoch"] for line in metrics(folder)[:-1]] == list(range(1, epochs + 1)))
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def check_two(ole, work):
    """A second process in the folder of a run, or of several seeds, is refused and changes nothing."""
    for seeds in ("1", "2"):
        command = f"{SMALL} --epochs 400 --seeds {seeds} --out two-{seeds}"
        first = subprocess.Popen([ole.path, *command.split()], cwd=work, env=ole.environment,
                                 text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first.stderr.readline()
        for second in (f"train --resume --out two-{seeds}", command):
            check(ole, second, code=1, err=f"ole train: two-{seeds}: another process is working in this "
                  "folder; wait for it to finish, or choose another folder\n")
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=120)
        lines = metrics(work / ("two-1" if seeds == "1" else "two-2/seed-0"))
        check_that("the first went on alone", first.returncode == 130 and
                   [line["epoch"] for line in lines] == list(range(1, len(lines) + 1)))


def check_other_folders(ole, work):
    """One run does not go on where there are several, nor the other way round."""
    one = f"{SMALL} --epochs 1"
    ole.run(*one.split(), "--out", "single")
    ole.run(*one.split(), "--seeds", "2", "--out", "several")
    before = {name: (work / name / "config.yaml").read_text() for name in ("single", "several")}
    check(ole, "train --resume --out single --seeds 2", code=2, err="ole train: single: holds one run, not "
          "one per seed; omit --seeds, or choose another folder\n")
    check(ole, "train --resume --out several --seeds 1", code=2, err="ole train: several: holds runs of "
          "several seeds; resume with the same --seeds, or in the folder of one of them\n")
    check_that("both stay as they were", not (work / "single/seed-0").exists() and before == {
        name: (work / name / "config.yaml").read_text() for name in before})
    for flags, option in (("--lr 0.5", "lr '0.1', not '0.5'"), ("--seed 5", "seed '0', not '5'")):
        check(ole, f"train --resume --out several {flags}", code=2, err="ole train: several/config.yaml: the run has "
              f"{option}; resume with the same, or start a new run\n")
    check_that("a refused recipe is not kept", before["several"] == (work / "several/config.yaml").read_text() and
               not (work / "several/seed-5").exists())
    check(ole, f"{one} --resume --seeds 2 --out nowhere", code=1, err="ole train: nowhere: no runs to "
          "resume\n")
    check_that("nothing was made", not (work / "nowhere").exists())
    more = ole.run("train", "--resume", "--out", "several", "--seeds", "3")
    check_that("more seeds", more.returncode == 0 and (work / "several/seed-2/last.safetensors").exists())


def check_reader(ole, work):
    """Whoever reads the output may go: the run is not lost with the pipe."""
    ole.run(*SMALL.split(), "--epochs", "6", "--save-every", "100", "--out", "pipe", shell='"$@" 2>&1 | head -n 1')
    check_that("a closed pipe", metrics(work / "pipe")[-1]["event"] == "end" and
               (work / "pipe/last.safetensors").exists())


def check_recipe_resumes(ole, work):
    """A recipe that names the folder goes on with what is in it, as --out does."""
    (work / "named.yaml").write_text("data: digits\nout: named\nsamples_per_class: 12\nepochs: 1\n")
    ole.run(*"train -c named.yaml --net FC8 --no-report".split())
    again = ole.run(*"train -c named.yaml --resume --epochs 2 --no-report".split())
    check_that(f"out in a recipe: {again.stderr}", again.returncode == 0 and len(metrics(work / "named")) == 3)
    late = ole.run(*"train --resume --out named --epochs 3 --init-from nowhere --no-report".split())
    check_that(f"first weights come too late: {late.stderr}", late.returncode == 0 and
               "init_from is ignored: the run resumes from its checkpoint" in late.stderr)


def check_idle(ole, work):
    idle = ole.run(*SMALL.split(), *"--epochs 1 --loss softmax --lambda 5 --ole-at 2 --opt adamw --momentum 0.5 --gamma 0.5 "
                   "--milestones cosine --sampler balanced:2x4 --batch-size 7 --no-report --out idle".split())
    for flag, beside in (("lambda", "--loss softmax"), ("ole-at", "--loss softmax"), ("momentum", "--opt adamw"),
                         ("gamma", "--milestones cosine"), ("batch-size", "--sampler balanced:2x4")):
        check_that(f"--{flag} has no effect, and a warning says so", idle.returncode == 0 and
                   f"ole train: warning: --{flag} has no effect with {beside}\n" in idle.stderr)
    sized = ole.run(*SMALL.split(), *"--epochs 1 --sampler balanced --batch-size 30 --no-report --out sized".split())
    check_that(f"--batch-size sizes --sampler balanced: {sized.stderr}", sized.returncode == 0 and
               "no effect" not in sized.stderr)


def check_end_stays(ole, work):
    """A run that had ended keeps its end until it has another."""
    ole.run(*SMALL.split(), "--epochs", "2", "--out", "ended")
    before = (work / "ended/metrics.jsonl").read_bytes()
    refused = ole.run(*"train --resume --out ended --epochs 4000".split(), shell='timeout -s KILL 0.3 "$@"')
    lines = (work / "ended/metrics.jsonl").read_bytes()
    check_that("killed at once", refused.returncode != 0 and (lines == before or b'"epoch": 3' in lines))


def check_resume(ole, work):
    """A run cut short by a limit on epochs goes on to the same bits; times differ."""
    args = SMALL.split() + ["--milestones", "none", "--val-split", "20%", "--opt", "adam"]
    ole.run(*args, "--epochs", "4", "--out", "long")
    ole.run(*args, "--epochs", "2", "--out", "short")
    ended = read_json(ole, *"train --resume --out short --epochs 4 --no-report --json".split())
    errors = [line["validation_error"] for line in metrics(work / "long") if line["event"] == "epoch"]
    check_that("the best epoch is told", ended["best_validation_error"] == min(errors) and
               ended["best_epoch"] == errors.index(min(errors)) + 1)
    check_that("the same model", (work / "long/best.safetensors").read_bytes() ==
               (work / "short/best.safetensors").read_bytes())
    check_that("the same end", metrics(work / "long")[-1] == metrics(work / "short")[-1])
    (work / "short/last.safetensors").unlink()
    again = ole.run(*"train --resume --out short --epochs 5 --no-report".split())
    check_that(f"from the one before: {again.stderr}", again.returncode == 0 and
               "resuming from previous.safetensors" in again.stderr and (work / "short/last.safetensors").exists())
    (work / "short/metrics.jsonl").write_text("")
    check(ole, "train --resume --out short --epochs 6", code=1, err="ole train: short/metrics.jsonl: "
          "shorter than when the checkpoint was saved: it has been changed since; restore it, or start another run\n")


def check_extended(ole, work):
    """A finished run with more epochs keeps its learning rate, also when resumed once more."""
    def rates(name):
        return [round(line["lr"], 9) for line in metrics(work / name) if line["event"] == "epoch"]
    kept = ("the run was finished: it resumes at its last learning rate, 0.001; --restart-schedule spreads the schedule "
            "over all 8 epochs\n")
    for name in ("kept", "anew"):
        ole.run(*SMALL.split(), "--epochs", "4", "--no-report", "--out", name)
    more = ole.run(*"train --resume --out kept --epochs 8 --no-report".split())
    first = [0.1, 0.1, 0.01, 0.001]
    check_that(f"the last rate: {more.stderr} {rates('kept')}", more.returncode == 0 and
               f"ole train: {kept}" in more.stderr and rates("kept") == first + [0.001] * 4)
    ole.run(*"train --resume --out kept --epochs 12 --no-report".split())
    check_that(f"and again: {rates('kept')}", rates("kept") == first + [0.001] * 8)
    restart = ole.run(*"train --resume --out anew --epochs 8 --no-report --restart-schedule".split())
    check_that(f"a new schedule: {restart.stderr} {rates('anew')}", restart.returncode == 0 and
               "ole train: the schedule now spans all 8 epochs; learning rate 0.01\n" in restart.stderr and
               rates("anew") == first + [0.01, 0.01, 0.001, 0.001])
    ole.run(*SMALL.split(), *"--epochs 3 --milestones cosine --no-report --out cosine".split())
    ole.run(*"train --resume --out cosine --epochs 5 --no-report".split())
    check_that(f"cosine: {rates('cosine')}", 0 < rates("cosine")[2] == rates("cosine")[3] == rates("cosine")[4])
    check(ole, f"{SMALL} --restart-schedule --out none", code=2,
          err="ole train: restart_schedule is for a run that is resumed; add resume\n")


def check_headline(ole, work):
    """One test error of a run, that of the model that predict uses: as text, as JSON, on the page, in report and eval."""
    args = [*SMALL.split(), *"--val-split 20% --epochs 8 --milestones 5 --gamma 40".split()]
    result = read_json(ole, *args, "--json", "--out", "headline")
    epochs = [line for line in metrics(work / "headline") if line["event"] == "epoch"]
    best = epochs[result["best_epoch"] - 1]
    check_that(f"another than the last epoch's: {result}", best["test_error"] != epochs[-1]["test_error"])
    error = result["test_error"]
    check_that("JSON", abs(error - best["test_error"]) < 1e-6 and result["validation_error"] ==
               result["best_validation_error"] and abs(result["last_test_error"] - epochs[-1]["test_error"]) < 1e-6)
    check_that("eval", read_json(ole, *"eval headline digits --json".split())["error"] == error)
    check_that("report", read_json(ole, *"report headline --no-tsne --json".split())["runs"][0]["test_error"] == error)
    check_that("the page", f'>test error</dt><dd class="value">{error:.2f} %</dd>' in
               (work / "headline/report.html").read_text())
    again = ole.run(*"train --resume --out headline --no-report".split()).stdout
    check_that(f"text, resumed: {again}", f"test error         {error:.2f} %\n" in again and
               f"best model         epoch {result['best_epoch']} of 8, for predict and eval\nlast epoch         test "
               f"{epochs[-1]['test_error']:.2f} %  validation {epochs[-1]['validation_error']:.2f} %\n" in again)
    for path in (work / "headline").glob("*.safetensors"):
        path.unlink()
    bare = read_json(ole, *"report headline --no-tsne --out bare.html --json".split())["runs"][0]
    check_that("report, without the model", abs(bare["test_error"] - error) < 1e-6)


# ---- Models -------------------------------------------------------------------------------------

def check_models(ole, work):
    ole.run("train", "digits", "--net", "C16-MP-FC16", "--epochs", "4", "--out", "m")
    result = read_json(ole, "eval", "m", "digits", "--json")
    check_that("ole eval --json", result["n"] == 539 and result["error"] < 10 and
               sum(map(sum, result["confusion"])) == 539 and len(result["per_class"]) == 10 and
               result["knn1_error"] < 10 and result["subspace_error"] < 20)
    rates = [1 - row["error"] / 100 for row in result["per_class"]]
    check_that("balanced accuracy", abs(result["balanced_accuracy"] - 10 * sum(rates)) < 1e-9 and
               len({row["n"] for row in result["per_class"]}) > 1)
    text = ole.run("eval", "m", "digits", "--split", "train").stdout
    check_that("ole eval", text.startswith("samples                  1258\nerror  ") and "\nbalanced accuracy   " in text)
    done = ole.run("features", "m/best.safetensors", "digits", "--out", "F.npy", "L.npy")
    check_that("ole features", done.stdout ==
               "F.npy: 539 features of 16 dimensions; L.npy: their labels\n")
    check_that("F.npy", npyfile.read(work / "F.npy")[:2] == ("<f4", (539, 16)))
    check_that("L.npy", npyfile.read(work / "L.npy")[:2] == ("<i8", (539,)))
    check(ole, "features m digits", code=2,
          err="ole features: missing option --out F.npy L.npy; see 'ole features --help'\n")
    check(ole, "features m digits --split validation --out F.npy L.npy", code=1,
          err="ole features: digits: this split has no samples; choose another with --split, or make it "
          "with --val-split\n")
    check(ole, "features m digits --out F.npy", code=2,
          err="ole features: --out needs two values: F.npy L.npy\n")
    check(ole, "eval m digits --split validation", code=1,
          err="ole eval: digits has no validation samples\n")
    two = read_json(ole, "eval", "m", "digits", "--classes", "2,1", "--json")
    check_that("two of the model's classes, by their names", two["error"] < 20 and
               [row["n"] > 0 for row in two["per_class"]] == [c in (1, 2) for c in range(10)])
    check(ole, "eval m/config.yaml digits", code=1,
          err="ole eval: m/config.yaml: the header should have 7594230306768707940 bytes, but the "
              f"whole file has {(work / 'm/config.yaml').stat().st_size}: the file is damaged or "
              "not a safetensors file\n")
    seed = "--val-split 20% --split validation --seed"
    largest = read_json(ole, "eval", "m", "digits", *seed.split(), str(2 ** 64 - 1), "--json")
    check_that("the largest seed of a run", largest.get("n") == 250)
    check(ole, f"eval m digits {seed} {2 ** 64}", code=2, err=f"ole eval: --seed '{2 ** 64}': expected a "
          "whole number of at least 0\n")
    check(ole, "eval no digits", code=1,
          err="ole eval: no: cannot read: No such file or directory\n")


def check_inputs_stay(ole, work):
    """What a command reads it does not write over, and of two outputs none is lost."""
    (work / "pairs.txt").write_text("0 1 1\n")
    inputs = [work / name for name in ("F.npy", "L.npy", "pairs.txt", "m/best.safetensors",
                                       "m/config.yaml", "m/metrics.jsonl")]
    before = [path.read_bytes() for path in inputs]
    for line, out in (("features m digits --out x.npy ./m/best.safetensors", "./m/best.safetensors"),
                      ("features m npy:F.npy,L.npy --out L.npy x.npy", "L.npy"),
                      ("analyze F.npy L.npy --out ./L.npy", "./L.npy"),
                      ("analyze m/x L.npy --test F.npy L.npy --out F.npy", "F.npy"),
                      ("verify F.npy --pairs pairs.txt --out pairs.txt", "pairs.txt"),
                      ("report m --out m/metrics.jsonl", "m/metrics.jsonl"),
                      ("report m --out m/config.yaml", "m/config.yaml"),
                      ("novelty m --known digits --novel digits --scores m/best.safetensors",
                       "m/best.safetensors"),
                      ("novelty m --known digits --novel npy:F.npy,L.npy --out L.npy", "L.npy")):
        check(ole, line, code=2, err=f"ole {line.split()[0]}: {out} would overwrite an input; name "
              "another file\n")
    check_that("inputs stay", [path.read_bytes() for path in inputs] == before)
    check(ole, "features m digits --out x.npy x.npy", code=2, err="ole features: x.npy would be "
          "written twice; name two files\n")
    check(ole, "novelty m --known digits --novel digits --scores x --out x", code=2,
          err="ole novelty: x would be written twice; name two files\n")
    check_that("a device takes both", ole.run("features", "m", "digits", "--out", "/dev/null",
                                              "/dev/null").returncode == 0)


def check_predict(ole, work):
    one = bytes(255 if x in (3, 4) else 0 for _ in range(16) for x in range(8) for _ in range(2))
    (work / "one.pgm").write_bytes(b"P5 16 16 255\n" + one)
    (work / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    result = read_json(ole, "predict", "m", "one.pgm", "one.pgm", "--json")
    check_that("ole predict --json", len(result) == 2 and result[0]["label"] == "1" and
               result[0]["known"] and len(result[0]["classes"]) == 5 and
               result[0]["score"] == result[0]["classes"][0]["score"])
    text = ole.run("predict", "m", "one.pgm")
    check_that("ole predict", text.stdout.startswith("one.pgm: 1 0.") and text.returncode == 0)
    unknown = ole.run("predict", "m", "one.pgm", "--threshold", "1")
    check_that("unknown", unknown.stdout.startswith("one.pgm: unknown (1 0."))
    unknown = read_json(ole, "predict", "m", "one.pgm", "--threshold", "1", "--json")[0]
    check_that("by what it is unknown", unknown["threshold_score"] == "calibrated" and
               unknown["known_score"] == unknown["score"] < unknown["threshold"] == 1)
    both = ole.run("predict", "m", "bad.png", "one.pgm")
    check_that("a bad image does not stop the others", both.returncode == 1 and
               both.stdout.startswith("one.pgm: 1 0.") and "bad.png" in both.stderr)
    check(ole, "predict", code=2, err="ole predict: missing argument MODEL: a run folder, a .safetensors file, or hf:OWNER/MODEL from a hub; "
          "see 'ole predict --help'\n")


def check_all(ole, work):
    check_usage(ole)
    check_refused(ole, work)
    check_failures(ole)
    check_recipes(ole, work)
    check_output(ole, work)
    check_interrupts(ole, work)
    check_followed(ole, work)
    check_two(ole, work)
    check_reader(ole, work)
    check_recipe_resumes(ole, work)
    check_end_stays(ole, work)
    check_idle(ole, work)
    check_resume(ole, work)
    check_suggested(ole, work)
    check_extended(ole, work)
    check_headline(ole, work)
    check_other_folders(ole, work)
    check_models(ole, work)
    check_inputs_stay(ole, work)
    check_predict(ole, work)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
