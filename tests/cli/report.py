#!/usr/bin/env python3
"""report.py OLE - runs `ole report` on small runs: what is on the page, and what it refuses.

The page in a browser is the test tests/page/browser.py.
"""
import base64
import hashlib
import html.parser
import json
import os
import signal
import subprocess
import xml.etree.ElementTree as xml

import run
from run import check, check_that, read_json

SMALL = ("train digits --net C4-MP-FC8 --samples-per-class 12 --batch-size 32 --threads 1 --epochs 2 "
         "--no-report")
VOID = {"meta", "link", "img", "input", "br", "wbr"}


class Page(html.parser.HTMLParser):
    """The tags of a page, whether they are closed in order, its headings, and its SVGs as XML."""

    def __init__(self, path):
        super().__init__()
        self.text = path.read_text()
        self.open = []
        self.good = True
        self.headings = []
        self.tags = {}
        self.feed(self.text)
        self.good = self.good and not self.open
        parts = self.text.split("<svg xmlns=")[1:]
        self.drawings = [xml.fromstring("<svg xmlns=" + self.whole(part)) for part in parts]

    @staticmethod
    def whole(part):
        """Up to the end of this SVG, which holds others."""
        depth, at = 1, 0
        while depth:
            end = part.index("</svg>", at)
            inner = part.find("<svg", at)
            if 0 <= inner < end:
                depth, at = depth + 1, inner + 4
            else:
                depth, at = depth - 1, end + 6
        return part[:at]

    def policy_is_right(self):
        """The script that the page allows is its own, and nothing is loaded."""
        script = self.text.split("<script>")[1].split("</script>")[0]
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = (f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
                  "base-uri 'none'; form-action 'none'")
        tag = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        return self.text.count("<script") == 1 and tag in self.text.split("<link")[0]

    def handle_starttag(self, tag, attributes):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        self.good = self.good and bool(self.open) and self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings.append(data)


def check_one(ole, work):
    done = ole.run("report", "runs/ole")
    check_that("report of a run", done.returncode == 0 and not done.stderr and
               done.stdout.endswith("page: runs/ole/report.html\n"))
    page = Page(work / "runs/ole/report.html")
    check_that("tags are closed in order", page.good)
    check_that("its policy", page.policy_is_right())
    check_that("its sections", page.headings == ["Trained on digits", "Learning curves", "Mistakes",
                                                 "Angles between features", "Singular values",
                                                 "Map of the features", "How it was trained"])
    words = {text for drawing in page.drawings for text in drawing.itertext()}
    check_that("its figures", len(page.drawings) == 2 * 7 and  # wide and narrow
               {"Error after each epoch", "Loss in each epoch", "Confusion matrix", "epoch", "test set", "within classes"} <= words)
    check_that("figures, mistakes and a map, each with a caption",
               page.tags["figure"] == page.tags["figcaption"] == 9)
    check_that("numbers of each figure", page.tags["details"] == 7)
    check_that("nothing from elsewhere", "http://" not in page.text.replace(
        "http://www.w3.org/2000/svg", "") and "https://" not in page.text)
    before = (work / "runs/ole/report.html").read_bytes()
    check_that("the same page again", ole.run("report", "runs/ole", "--threads", "2").returncode == 0 and
               (work / "runs/ole/report.html").read_bytes() == before)
    ole.run("report", "runs/ole", "--no-tsne", "--out", "plain.html")
    check_that("--no-tsne", "Map of the features" not in Page(work / "plain.html").headings)


def check_several(ole, work):
    data = read_json(ole, "report", "runs/softmax", "runs/ole", "--json")
    check_that("--json", data["page"] == "report.html" and
               [r["folder"] for r in data["runs"]] == ["runs/softmax", "runs/ole"] and
               all(0 <= r["test_error"] <= 100 and 0 < r["angle_within"] < 90 for r in data["runs"]))
    page = Page(work / "report.html")
    check_that("runs side by side", page.good and page.headings[0] == "2 runs side by side on digits" and
               page.text.count("figure class=\"map\"") == 2)
    check_that("maps share their thumbnails", page.text.count("id=\"sprite-") == 1)


def check_kinds(ole, work):
    ole.run(*SMALL.split(), "--loss", "ole", "--seeds", "2", "--out", "alone")
    done = ole.run("report", "alone/seed-0", "alone/seed-1", "--out", "alone.html")
    page = Page(work / "alone.html")
    check_that("OLE alone has no classifier", done.returncode == 0 and "Mistakes" not in page.headings)
    data = read_json(ole, "report", "alone", "--json")
    check_that("a folder of several seeds", data["page"] == "alone/report.html" and
               [r["folder"] for r in data["runs"]] == ["alone/seed-0", "alone/seed-1"])
    ole.run("report", "runs/softmax", "--no-tsne")
    os.rename(work / "runs/softmax/best.safetensors", work / "best")
    os.rename(work / "runs/softmax/last.safetensors", work / "last")
    full = (work / "runs/softmax/report.html").read_bytes()
    check_that("a full page", b"Angles between features" in full)
    done = ole.run("report", "runs/softmax")
    check_that(f"a full page stays: {done.stderr}", done.returncode == 1 and done.stdout == "" and done.stderr.startswith(
        "ole report: runs/softmax/report.html: kept, as a new page would lack the model of "
        "runs/softmax (") and (work / "runs/softmax/report.html").read_bytes() == full)
    done = ole.run("report", "runs/softmax", "--out", "runs/softmax/report.html")
    text = (work / "runs/softmax/report.html").read_text()
    check_that("a run without its model", done.returncode == 0 and
               "ole report: runs/softmax: without its model: " in done.stderr and
               "runs/softmax: shown without its model (" in text and "Learning curves" in text)


def check_skipped_test(ole, work):
    """A run that is not to look at the test split: neither does its page."""
    train = SMALL.replace(" --no-report", "").split()
    ole.run(*train, "--skip-test", "--val-split", "50%", "--out", "held")
    end = json.loads((work / "held/metrics.jsonl").read_text().splitlines()[-1])
    text = (work / "held/report.html").read_text()
    check_that("the page that training ends with", "validation error</dt>" in text and "test error" not in text)
    one = read_json(ole, "report", "held", "--json")["runs"][0]
    check_that("what was held out judges", one["test_error"] is None and
               one["validation_error"] == end["validation_error"])
    done = ole.run("report", "held", "runs/ole", "--out", "two.html")
    check_that("beside another", "held                     validation error" in done.stdout and
               "\nruns/ole                 test error" in done.stdout and
               "test or validation error, %" in (work / "two.html").read_text())


def check_best(ole, work):
    """With a validation split the page says which model each number is of."""
    ole.run(*SMALL.split(), "--val-split", "30%", "--out", "chosen")
    ole.run("report", "chosen", "--no-tsne")
    text = (work / "chosen/report.html").read_text()
    check_that("whose numbers", "of 539 samples, by the model with the lowest validation error" in text and
               "by cosine, at the end of training" in text)


def is_live(page):
    return '<meta http-equiv="refresh"' in page.read_text()


def check_train(ole, work):
    """The page that `ole train` ends with: Ctrl-C there, and where it cannot be written."""
    train = SMALL.replace(" --no-report", "").replace("--samples-per-class 12 ", "").split()
    process = subprocess.Popen([ole.path, *train, "--out", "t"], cwd=work, env=ole.environment, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not process.stderr.readline().startswith("epoch 2/2"):
        pass
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    page = work / "t/report.html"  # where training took seconds, that of a run that still trains
    check_that(f"Ctrl-C: {err}", process.returncode == 130 and err ==
               "ole train: the run is complete but has no page: interrupted; 'ole report' writes it\n" and
               out.startswith("test error ") and (not page.exists() or is_live(page)))
    check_that("made later", ole.run("report", "t").returncode == 0 and not is_live(page))
    page.write_text("precious")
    done = ole.run("train", "--resume", "--epochs", "3", "--json", "--out", "t")
    check_that(f"not ours: {done.stderr}", done.returncode == 1 and '"test_error": ' in done.stdout and
               "but has no page: t/report.html: not a page written by Olé; move it away; " in done.stderr and
               page.read_text() == "precious")
    (work / "u/report.html").mkdir(parents=True)
    done = ole.run(*train, "--epochs", "1", "--json", "--out", "u")
    check_that(f"no place for it: {done.stderr}", done.returncode == 1 and done.stdout == "" and
               done.stderr == "ole train: u/report.html: not a regular file; remove it, or choose another "
               "folder\n" and os.listdir(work / "u") == ["report.html"])


def check_mistakes(ole, work):
    see = "see 'ole report --help'"
    check(ole, "report", err=f"ole report: missing argument RUN: run folders of 'ole train', or the file of one model; {see}\n", code=2)
    none = ole.run("report", "nowhere")
    check_that("no such run", none.returncode == 1 and none.stderr ==
               "ole report: nowhere: holds no run of 'ole train'\n")
    (work / "m.safetensors").write_bytes(b"a model")
    model = ole.run("report", "m.safetensors")
    check_that(f"no model: {model.stderr}", model.returncode == 1 and
               model.stderr.startswith("ole report: m.safetensors: ") and not (work / "m.html").exists())
    check(ole, "report runs/ole --data digits", code=1,
          err="ole report: runs/ole: data are for the file of one model; a run has its own\n")
    (work / "best.safetensors").write_bytes((work / "runs/ole/best.safetensors").read_bytes())
    told = read_json(ole, *"report best.safetensors --data digits --no-tsne --json".split())
    page = Page(work / "best.html")
    check_that(f"the model of a run, by its file: {told}", page.good and "The model" in page.headings and
               "Mistakes" in page.headings and 0 < told["runs"][0]["test_error"] < 100)
    many = ole.run("report", *["runs/ole"] * 33)
    check_that("too many runs", many.returncode == 2 and "up to 32" in many.stderr)
    check_that("a page that cannot be written",
               ole.run("report", "runs/ole", "--out", "no/where.html").returncode == 1)
    (work / "broken").mkdir()
    (work / "broken/config.yaml").write_text("data: digits\n")
    (work / "broken/metrics.jsonl").write_text("nonsense\n")
    broken = ole.run("report", "broken")
    check_that("a damaged run", broken.returncode == 1 and "metrics.jsonl: line 1" in broken.stderr)
    for i in range(2):
        (work / f"bare-{i}").mkdir()
        (work / f"bare-{i}/config.yaml").write_text(f"epochs: 3\nseed: {i}\n")
        (work / f"bare-{i}/metrics.jsonl").write_bytes((work / "runs/ole/metrics.jsonl").read_bytes())
    done = ole.run(*"report bare-0 bare-1 --out bare.html --no-tsne".split())
    check_that(f"runs that do not say of what: {done.returncode}", done.returncode == 0)


def check_seeds(ole, work):
    """A mean is of runs that differ in their seeds alone."""
    for name, flags in (("s0", ""), ("s1", "--seed 1"), ("other", "--seed 2 --lr 0.01")):
        ole.run(*SMALL.split(), *flags.split(), "--out", name)
    words = "mean and standard deviation of"
    for runs, mean in (("s0 s1", True), ("s0 other", False), ("s0 s1 other", False), ("s0 s1 s0", False)):
        ole.run("report", *runs.split(), "--no-tsne", "--out", "seeds.html")
        check_that(f"the mean of {runs}", (words in (work / "seeds.html").read_text()) == mean)
    path = work / "s1/metrics.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    ole.run(*"report s0 s1 --no-tsne --out seeds.html".split())
    check_that("no mean with a run that has not ended", words not in (work / "seeds.html").read_text())


def check_no_model(ole, work):
    ole.run(*SMALL.split(), "--out", "bare")
    for path in (work / "bare").glob("*.safetensors"):
        path.unlink()
    done = ole.run(*"report bare --no-tsne --json".split())
    why = json.loads(done.stdout)["runs"][0].get("without_model", "")
    check_that(f"JSON says that the model is away: {done.stderr}", done.returncode == 0 and why and
               f"ole report: bare: without its model: {why}\n" == done.stderr)


def check_all(ole, work):
    for loss in ("softmax", "softmax+ole"):
        ole.run(*SMALL.split(), "--loss", loss, "--out", "runs/" + loss.split("+")[-1])
    check_one(ole, work)
    check_several(ole, work)
    check_kinds(ole, work)
    check_skipped_test(ole, work)
    check_best(ole, work)
    check_train(ole, work)
    check_mistakes(ole, work)
    check_seeds(ole, work)
    check_no_model(ole, work)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
