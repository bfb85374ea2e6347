#!/usr/bin/env python3
"""embeddings.py OLE [--data FOLDER] [--only PART...] - `ole fit` beside scikit-learn, on the same rows and processor.

FOLDER (default: $OLE_DATA) may hold
  embeddings/clinc_{train,val,test,oos_test}_x.npy, _y.txt   CLINC150 embedded by all-MiniLM-L6-v2
  faces/att_faces/s*/*.pgm                                   AT&T faces; rows are means of 4 x 4 pixels, 644 numbers
  embeddings/stl10_x.npy, stl10_y.txt                        features of STL-10, as `ole features` writes them
What is missing is skipped, with a line that says so. Digits come with scikit-learn.

Parts: pace (one fit with the same penalty, in turns), full, few (10 queries per class), predict (a million rows through
models of CLINC150), sets (5 random halves), speed.

Settings are chosen on training and validation rows: by `ole fit` on its own held-out rows, for logistic regression on a
grid of C on the validation rows. The test rows are looked at once, for the table, and so are the out-of-scope queries: the
score that they are measured with was chosen by `ole fit` without them. Times are those of whole processes for `ole`, of
fit() alone for scikit-learn; CPU seconds are beside them, as other work on the machine changes the former.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import sklearn
from scipy.special import logsumexp
from sklearn.covariance import ledoit_wolf
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits

ole = None  # the Python package, by load_package()

GRID = (1, 3, 10, 30, 100, 300)
CHOSEN = ("--width", "512", "--lambda", "0", "--weight-decay", "0.0031622776601683794")  # for mlp, by an earlier search


class Ole:
    """A model fitted by the program; peak memory and times are those of its process."""

    def __init__(self, program, work, name, *flags):
        self.program, self.work, self.flags, self.name = program, work, flags, name

    def run(self, *args):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        done = subprocess.run([self.program, *map(str, args)], capture_output=True, text=True, cwd=self.work)
        if done.returncode != 0:
            sys.exit(done.stderr)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.wall = time.perf_counter() - start
        return done.stdout

    def fit(self, x, y):
        np.save(self.work / "X.npy", x)
        (self.work / "y.txt").write_text("".join(f"{label}\n" for label in y))
        self.told = json.loads(self.run("fit", "X.npy", "y.txt", "--out", "m.safetensors", "--json", *self.flags))
        return self

    def proba(self, x):
        """Predicted classes, and of each row the score for unknown, or the largest probability where there is none."""
        np.save(self.work / "T.npy", x)
        answer = json.loads(self.run("predict", "m.safetensors", "T.npy", "--json"))
        return (np.array([one["classes"][0]["label"] for one in answer]),
                np.array([one.get("known_score", one["score"]) for one in answer]))

    def score(self):
        return self.told.get("threshold_score", "probability")


class Sklearn:
    """An estimator in this process: scikit-learn's, or ole.OLEClassifier."""

    def __init__(self, model):
        self.model = model

    def fit(self, x, y):
        cpu, start = time.process_time(), time.perf_counter()
        self.model.fit(x, y)
        self.wall, self.cpu = time.perf_counter() - start, time.process_time() - cpu
        return self

    def proba(self, x):
        p = self.model.predict_proba(x)
        return self.model.classes_[p.argmax(1)], p.max(1)

    def score(self):
        return "probability"


class Distances:
    """Novelty on the rows as they are, without a fit of Olé: relative Mahalanobis distances in covariances shrunk by
    Ledoit and Wolf's rule, by scikit-learn, and the cosine with the nearest class mean."""

    def __init__(self, x, y):
        classes, code = np.unique(y, return_inverse=True)
        x = x.astype(np.float64)
        self.mean, self.means = x.mean(0), np.array([x[code == c].mean(0) for c in range(len(classes))])
        self.within = np.linalg.inv(ledoit_wolf(x - self.means[code], assume_centered=True)[0])
        self.all = np.linalg.inv(ledoit_wolf(x - self.mean, assume_centered=True)[0])

    def relative(self, x):
        far, inside = x - self.mean, (self.means - self.mean) @ self.within
        square = np.sum(inside * (self.means - self.mean), axis=1) - 2 * far @ inside.T
        return np.sum(far @ (self.all - self.within) * far, axis=1) - square.min(1)

    def cosine(self, x):
        return (x @ (self.means / np.linalg.norm(self.means, axis=1, keepdims=True)).T).max(1) / np.linalg.norm(x, axis=1)


def logistic(c):
    return Sklearn(LogisticRegression(C=c, max_iter=1000))


def tuned(x, y, vx, vy):
    """The C with the highest accuracy on validation rows."""
    scores = {c: np.mean(logistic(c).fit(x, y).proba(vx)[0] == vy) for c in GRID}
    return max(scores, key=scores.get)


def few(y, per_class, seed):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(np.flatnonzero(y == c))[:per_class] for c in np.unique(y)])


def auroc_of(known, unknown):
    """With a 95 % interval from 1,000 bootstrap samples of both."""
    def auroc(a, b):
        return roc_auc_score(np.r_[np.ones(len(a)), np.zeros(len(b))], np.r_[a, b])
    rng = np.random.default_rng(0)
    again = [auroc(rng.choice(known, len(known)), rng.choice(unknown, len(unknown))) for _ in range(1000)]
    low, high = np.percentile(again, [2.5, 97.5])
    return f"{auroc(known, unknown):.4f} ({low:.4f} to {high:.4f})"


def row(name, model, test, novel, note=""):
    labels, known = model.proba(test[0])
    accuracy = 100 * np.mean(labels == test[1])
    text = "" if novel is None else f"{model.score()} {auroc_of(known, model.proba(novel)[1])}"
    print(f"| {name} | {accuracy:.2f} | {text} | {model.fit_wall:.1f} | {model.fit_cpu:.1f} | {note} |", flush=True)


def fitted(model, x, y):
    model.fit(x, y)
    model.fit_wall, model.fit_cpu = model.wall, model.cpu
    return model


def penalty(x, c):
    """The --weight-decay that is scikit-learn's C."""
    centred = x - x.mean(0, dtype=np.float64)
    return float(len(x) / (centred ** 2).sum() / (c * len(x)))


def objective(x, y, coef, bias, decay):
    """What `ole fit` minimises, in float64."""
    classes, code = np.unique(y, return_inverse=True)
    z = x.astype(np.float64) @ coef.T + bias
    z -= z.max(1, keepdims=True)
    loss = np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(z)), code])
    return loss + decay / 2 * (coef.astype(np.float64) ** 2).sum() * ((x - x.mean(0)) ** 2).sum(1).mean()


def pace(x, y, program, work, threads, rounds):
    """Fits with the same penalty in turns; the median of each."""
    decay, times, notes = penalty(x, 30), {}, {}
    given = ["--lambda", "0", "--weight-decay", repr(decay), "--no-unknown", "--threads", str(threads)]
    for _ in range(rounds):
        with threadpool_limits(threads):
            m = logistic(30).fit(x, y)
        name = "logistic regression, C 30, lbfgs, tol 1e-4"
        notes[name] = (m.model.n_iter_[0], objective(x, y, m.model.coef_, m.model.intercept_, decay))
        times.setdefault(name, []).append((m.wall, m.cpu))
        for tolerance in ("1e-3", "5e-3"):
            with threadpool_limits(threads):
                m = Sklearn(ole.OLEClassifier(weight=0.0, weight_decay=decay, tol=float(tolerance), unknown=False,
                                              n_jobs=threads)).fit(x, y)
            name = f"`OLEClassifier`, tol {tolerance}"
            bias = m.model.decision_function(np.zeros((1, x.shape[1]), x.dtype))[0]
            coef = m.model.decision_function(np.eye(x.shape[1], dtype=x.dtype)).T - bias[:, None]
            notes[name] = (m.model.n_iter_, objective(x, y, coef, bias, decay))
            times.setdefault(name, []).append((m.wall, m.cpu))
        for tolerance in "1e-3", "5e-3":
            m = Ole(program, work, "pace", *given, "--tolerance", tolerance).fit(x, y)
            name = f"`ole fit`, tolerance {tolerance}"
            notes[name] = (m.told["iterations"], m.told["objective"])
            times.setdefault(name, []).append((m.wall, m.cpu))
    print(f"\n## One fit of {len(x)} x {x.shape[1]}, {threads} threads, median of {rounds}\n\n"
          "| fit | steps | objective | wall, s | CPU s |\n|---|---|---|---|---|")
    for name, values in times.items():
        wall, cpu = np.median(values, axis=0)
        print(f"| {name} | {notes[name][0]} | {notes[name][1]:.4f} | {wall:.2f} | {cpu:.2f} |", flush=True)


def prediction(x, y, program, work, given, threads, rows=1_000_000):
    """The calls of the estimators on many rows, CLINC150's own again and again: CPU and wall seconds, and the memory."""
    big = np.tile(x, (rows // len(x) + 1, 1))[:rows]
    linear = "--lambda", "0", "--weight-decay", "2e-6"
    print(f"\n## {rows} x {x.shape[1]} rows, 150 classes, {threads} threads\n\n| model | score | predict, CPU s | wall, s "
          "| score_samples, CPU s | wall, s | memory, MB |\n|---|---|---|---|---|---|---|")
    for name, score, flags in (("linear", "softmax", linear), ("linear", "residual", linear),
                               ("mlp", "residual", ("--method", "mlp", *given))):
        Ole(program, work, name, *flags, "--score", score).fit(x, y)
        model, cells = ole.OLEClassifier.load(work / "m.safetensors", n_jobs=threads), []
        for call in model.predict, model.score_samples:
            cpu, start = time.process_time(), time.perf_counter()
            call(big)
            cells += [f"{time.process_time() - cpu:.1f}", f"{time.perf_counter() - start:.1f}"]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"| {name} | {score} | {' | '.join(cells)} | {peak:.0f} |", flush=True)


def clinc(folder, program, work, split, fast, given):
    def part(name):
        return (np.load(folder / f"clinc_{name}_x.npy").astype(np.float32),
                np.array((folder / f"clinc_{name}_y.txt").read_text().splitlines()))
    train, val, test, novel = part("train"), part("val"), part("test"), part("oos_test")[0]
    for threads in (1, 2) if "pace" in split else ():
        pace(*train, program, work, threads, 5)
    if "predict" in split:
        prediction(*train, program, work, given or CHOSEN, 2)
    if "full" in split:
        print("\n## CLINC150\n\n| method | accuracy, % | AUROC: score, value (95 % interval) | fit, s | CPU s | |\n"
              "|---|---|---|---|---|---|")
        fixed = ["--lambda", "0", "--weight-decay", "2e-6", "--no-unknown"]
        m = fitted(Ole(program, work, "linear", *fixed), *train)
        row("ole linear, λ 0, decay 2e-6, given", m, test, novel, f"{m.told['iterations']} steps")
        m = fitted(logistic(30), *train)
        row("logistic regression, C 30", m, test, novel, f"lbfgs, tol 1e-4, {m.model.n_iter_[0]} steps")
        energy = [logsumexp(m.model.decision_function(rows), axis=1) for rows in (test[0], novel)]
        distances = Distances(*train)
        print(f"| the same | | energy {auroc_of(*energy)} | | | |")
        for name in "relative", "cosine":
            both = [getattr(distances, name)(rows) for rows in (test[0], novel)]
            print(f"| rows as they are | | {name} {auroc_of(*both)} | | | |", flush=True)
        row("LDA", fitted(Sklearn(LinearDiscriminantAnalysis()), *train), test, novel)
        row("1-NN", fitted(Sklearn(KNeighborsClassifier(1, metric="cosine")), *train), test, None)
        if not fast:
            for method in "linear", "mlp":
                m = fitted(Ole(program, work, method, "--method", method, *(given if method == "mlp" else ())), *train)
                row(f"ole {method}", m, test, novel, f"chosen: λ {m.told['lambda']:.3g}, decay "
                    f"{m.told['weight_decay']:.3g}, width {m.told['width']}, {len(m.told['trials'])} trials")
    if "few" in split:
        rows = {}
        for seed in range(5):
            at = few(train[1], 10, seed)
            x, y = train[0][at], train[1][at]
            c = tuned(x, y, *val)
            for name, m in (("logistic", logistic(c)), ("linear", Ole(program, work, "linear")),
                            ("LDA", Sklearn(LinearDiscriminantAnalysis("lsqr", shrinkage="auto")))):
                rows.setdefault(name, []).append(np.mean(fitted(m, x, y).proba(test[0])[0] == test[1]))
        print("\n10 queries per class, accuracy over 5 draws, %\n\n| method | mean ± standard deviation |\n|---|---|")
        for name, values in rows.items():
            print(f"| {name} | {100 * np.mean(values):.2f} ± {100 * np.std(values, ddof=1):.2f} |", flush=True)


def arrays(name, x, y, program, work, fast, given):
    """Five random halves: the one to learn from, the other to test. For the AUROC a random 30 % of the classes are novel,
    so in no row of the fit."""
    rows, y = {}, y.astype(str)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        order, classes = rng.permutation(len(y)), rng.permutation(np.unique(y))
        a, b = order[:len(y) // 2], order[len(y) // 2:]
        known = ~np.isin(y, classes[:round(0.3 * len(classes))])
        inner = len(a) * 4 // 5
        c = tuned(x[a[:inner]], y[a[:inner]], x[a[inner:]], y[a[inner:]])
        layer = () if fast else (("ole mlp", Ole(program, work, "mlp", "--method", "mlp", *(given or ("--width", "128")))),)
        for method, m in (("ole linear", Ole(program, work, "linear")), *layer, ("logistic regression", logistic(c)),
                          ("LDA", Sklearn(LinearDiscriminantAnalysis("lsqr", shrinkage="auto"))),
                          ("1-NN", Sklearn(KNeighborsClassifier(1, metric="cosine")))):
            m = fitted(m, x[a], y[a])
            right, wall, cpu = 100 * np.mean(m.proba(x[b])[0] == y[b]), m.fit_wall, m.fit_cpu
            m.fit(x[a[known[a]]], y[a[known[a]]])
            auroc = roc_auc_score(known[b], m.proba(x[b])[1]) if method != "1-NN" else np.nan
            rows.setdefault(method, []).append((right, auroc, wall, cpu, m.score()))
    print(f"\n## {name}\n\n| method | accuracy, % | AUROC, 30 % of the classes novel | score | fit, s | CPU s |\n"
          "|---|---|---|---|---|---|")
    for method, values in rows.items():
        v, scores = np.array([value[:4] for value in values]), sorted({value[4] for value in values})
        print(f"| {method} | {v[:, 0].mean():.2f} ± {v[:, 0].std(ddof=1):.2f} | {v[:, 1].mean():.3f} ± {v[:, 1].std(ddof=1):.3f} | "
              f"{', '.join(scores)} | {v[:, 2].mean():.2f} | {v[:, 3].mean():.2f} |", flush=True)


def faces(folder):
    """Pixels as means of 4 x 4."""
    x, y = [], []
    for path in sorted(folder.glob("s*/*.pgm")):
        data = path.read_bytes()
        pixels = np.frombuffer(data[-92 * 112:], np.uint8).reshape(28, 4, 23, 4)
        x.append(pixels.mean((1, 3)).ravel() / 255)
        y.append(path.parent.name)
    return np.array(x, np.float32), np.array(y)


def speed(program, work):
    """predict and apply on a million rows, and the memory of a fit beside that of its data."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((150, 384)).astype(np.float32)
    y = np.arange(1_000_000) % 150
    big = np.lib.format.open_memmap(work / "big.npy", "w+", np.float32, (1_000_000, 384))
    for first in range(0, len(big), 50_000):
        part = y[first:first + 50_000]
        big[first:first + 50_000] = centres[part] + rng.standard_normal((len(part), 384), np.float32)
    big.flush()
    np.save(work / "big_y.npy", y)
    model = Ole(program, work, "speed").fit(np.array(big[:3000]), y[:3000])
    print("\n## 1,000,000 × 384\n\n| command | wall, s | CPU s |\n|---|---|---|")
    for args in (("apply", "m.safetensors", "big.npy", "--out", "Z.npy"), ("predict", "m.safetensors", "big.npy"),
                 ("fit", "big.npy", "big_y.npy", "--out", "b.safetensors", "--lambda", "0", "--weight-decay", "1e-5", "--no-unknown")):
        model.run(*args)
        print(f"| `ole {args[0]}` | {model.wall:.1f} | {model.cpu:.1f} |", flush=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"\nlargest resident set of the programs, mapped file included: {peak:.0f} MB; the file has {big.nbytes / 1e6:.0f} MB")


def load_package(program):
    """bindings/python with the library beside the program."""
    global ole
    os.environ.setdefault("OLE_LIBRARY", str(Path(program).parent / "libole.so"))
    sys.path.insert(0, str(Path(__file__).parents[1] / "bindings" / "python"))
    import ole as package
    ole = package


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ole")
    parser.add_argument("--data", default=os.environ.get("OLE_DATA", ""))
    parser.add_argument("--only", nargs="*", default=["pace", "full", "few", "predict", "sets", "speed"])
    parser.add_argument("--fast", action="store_true", help="no cross-validation on all of CLINC150, and no `mlp` on the other sets")
    parser.add_argument("--mlp", default="", metavar="FLAGS", help="of `ole fit --method mlp`, such as settings that an "
                        "earlier search has chosen")
    options = parser.parse_args()
    program, data = os.path.abspath(options.ole), Path(options.data)
    folder, given = data / "embeddings", options.mlp.split()
    load_package(program)
    print(f"scikit-learn {sklearn.__version__}, NumPy {np.__version__}, {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        if {"pace", "full", "few", "predict"} & set(options.only):
            if (folder / "clinc_train_x.npy").exists():
                clinc(folder, program, work, options.only, options.fast, given)
            else:
                print(f"\nskipped CLINC150: no {folder}/clinc_train_x.npy")
        if "sets" in options.only:
            from sklearn.datasets import load_digits
            arrays("Digits", *(a.astype(t) for a, t in zip(load_digits(return_X_y=True), ("f4", "i8"))), program, work, options.fast, given)
            if (data / "faces/att_faces").is_dir():
                arrays("AT&T faces", *faces(data / "faces/att_faces"), program, work, options.fast, given)
            else:
                print(f"\nskipped AT&T faces: no {data}/faces/att_faces")
            if (folder / "stl10_x.npy").exists():
                y = np.array((folder / "stl10_y.txt").read_text().splitlines())
                arrays("STL-10 features", np.load(folder / "stl10_x.npy").astype("f4"), y, program, work, options.fast, given)
            else:
                print(f"\nskipped STL-10: no {folder}/stl10_x.npy")
        if "speed" in options.only:
            speed(program, work)


if __name__ == "__main__":
    main()
