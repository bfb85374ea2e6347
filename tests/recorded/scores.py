#!/usr/bin/env python3
"""scores.py - curves and calibration, recorded by scikit-learn and NumPy into scores.h beside it.

    /usr/bin/python3 tests/recorded/scores.py && clang-format -i tests/recorded/scores.h

Needs NumPy, SciPy and scikit-learn; the tests need only the header.  Scores are multiples of 1/16, so that
some are equal, and logits multiples of 1/8: C and Python hold exactly the same numbers.  The
temperature is found by golden section on the negative log-likelihood, which is another way than the
library's.
"""
from pathlib import Path

import numpy as np
import sklearn
from scipy import optimize
from sklearn import metrics

# name, positives, negatives, shift of the positives, distinct values of a score
CURVES = [
    ("apart", 12, 9, 40, 64),
    ("ties", 40, 60, 3, 8),
    ("one each", 1, 1, 1, 4),
    ("all equal", 5, 7, 0, 1),
    ("upside down", 20, 10, -6, 16),
    ("many", 300, 150, 10, 128),
]

# name, samples, classes, how much the right class stands out, factor of all logits
LOGITS = [
    ("overconfident", 200, 5, 1.0, 4.0),
    ("underconfident", 150, 3, 2.0, 0.25),
    ("two classes", 60, 2, 1.0, 1.0),
    ("no mistakes", 30, 4, 6.0, 1.0),
    ("worse than chance", 80, 4, -3.0, 1.0),
]

BINS = 15


def curve(rng, positives, negatives, shift, values):
    positive = (rng.integers(0, values, positives) + shift) / 16
    negative = rng.integers(0, values, negatives) / 16
    truth = np.r_[np.ones(positives), np.zeros(negatives)]
    scores = np.r_[positive, negative]
    fpr, tpr, threshold = metrics.roc_curve(truth, scores, drop_intermediate=False)
    return positive, negative, dict(
        auroc=metrics.roc_auc_score(truth, scores),
        ap_positive=metrics.average_precision_score(truth, scores),
        ap_negative=metrics.average_precision_score(1 - truth, -scores),
        fpr95=fpr[np.argmax(tpr >= 0.95)],
        points=len(fpr), tpr_sum=tpr.sum(), fpr_sum=fpr.sum(), threshold_sum=threshold[1:].sum())


def log_softmax(logits, temperature):
    z = logits / temperature
    z = z - z.max(axis=1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=1, keepdims=True))


def nll(logits, labels, temperature):
    return -log_softmax(logits, temperature)[np.arange(len(labels)), labels].mean()


def best_temperature(logits, labels):
    """Golden section over log T; 0 where the value found is no smaller than those around it."""
    ratio = (np.sqrt(5) - 1) / 2
    a, b = np.log(1e-3), np.log(1e3)
    while b - a > 1e-9:
        c, d = b - ratio * (b - a), a + ratio * (b - a)
        if nll(logits, labels, np.exp(c)) < nll(logits, labels, np.exp(d)):
            b = d
        else:
            a = c
    best = np.exp((a + b) / 2)
    around = min(nll(logits, labels, best * 0.9), nll(logits, labels, best * 1.1))
    return best if nll(logits, labels, best) < around else 0.0


def laplace_temperature(logits):
    """Where the largest scores have the mean (n + 1) / (n + 2)."""
    n = len(logits)

    def surplus(log_temperature):
        largest = np.exp(log_softmax(logits, np.exp(log_temperature))).max(axis=1)
        return largest.mean() - (n + 1) / (n + 2)
    return np.exp(optimize.brentq(surplus, np.log(1e-3), np.log(1e3), xtol=1e-14))


def calibration_error(logits, labels, temperature):
    weight = np.exp((logits - logits.max(axis=1, keepdims=True)) / temperature)
    probability = weight / weight.sum(axis=1, keepdims=True)
    score, right = probability.max(axis=1), logits.argmax(axis=1) == labels
    edges = np.linspace(0, 1, BINS + 1)
    error = 0.0
    for low, high in zip(edges[:-1], edges[1:]):
        inside = (score > low) & (score <= high)
        if inside.any():
            error += abs(right[inside].mean() - score[inside].mean()) * inside.mean()
    return error


def classifier(rng, samples, classes, margin, factor):
    labels = rng.integers(0, classes, samples)
    logits = rng.normal(size=(samples, classes))
    logits[np.arange(samples), labels] += margin
    logits = np.round(8 * factor * logits) / 8
    right = (logits.argmax(axis=1) == labels).all()
    temperature = laplace_temperature(logits) if right else best_temperature(logits, labels)
    used = temperature or 1.0
    return labels, logits, dict(
        temperature=temperature, nll_before=nll(logits, labels, 1.0),
        nll_after=nll(logits, labels, used), ece_before=calibration_error(logits, labels, 1.0),
        ece_after=calibration_error(logits, labels, used))


def numbers(values):
    return ", ".join(repr(float(v)) if v != int(v) else str(int(v)) for v in values)


def fields(values):
    return ", ".join(f".{k} = {float(v)!r}" if k != "points" else f".{k} = {v}"
                     for k, v in values.items())


def main():
    rng = np.random.default_rng(5)
    out = ["/*", " * tests/recorded/scores.h - written by scores.py with scikit-learn "
           f"{sklearn.__version__}; run that", " * again instead of changing numbers here.", " */",
           "#ifndef OLE_TESTS_RECORDED_SCORES_H", "#define OLE_TESTS_RECORDED_SCORES_H", "",
           "#include <stdint.h>", "",
           "typedef struct recorded_curve {",
           "const char *name; int64_t positives, negatives; const double *positive, *negative;",
           "double auroc, ap_positive, ap_negative, fpr95; int64_t points;",
           "double tpr_sum, fpr_sum, threshold_sum; /* the threshold without the first, infinite */",
           "} recorded_curve;", "",
           "typedef struct recorded_logits {",
           "const char *name; int64_t count; int classes; const float *logits; const int32_t *labels;",
           "double temperature; /* 0: none can be found */",
           "double nll_before, nll_after, ece_before, ece_after;",
           "} recorded_logits;", ""]
    rows = []
    for i, (name, positives, negatives, shift, values) in enumerate(CURVES):
        positive, negative, result = curve(rng, positives, negatives, shift, values)
        out.append(f"static const double positive_{i}[] = {{{numbers(positive)}}};")
        out.append(f"static const double negative_{i}[] = {{{numbers(negative)}}};")
        rows.append(f'{{"{name}", {positives}, {negatives}, positive_{i}, negative_{i}, '
                    f'{fields(result)}}},')
    out += ["", "static const recorded_curve recorded_curves[] = {", *rows, "};", ""]
    rows = []
    for i, (name, samples, classes, margin, factor) in enumerate(LOGITS):
        labels, logits, result = classifier(rng, samples, classes, margin, factor)
        out.append(f"static const float logits_{i}[] = {{{numbers(logits.ravel())}}};")
        out.append(f"static const int32_t labels_{i}[] = {{{numbers(labels)}}};")
        rows.append(f'{{"{name}", {samples}, {classes}, logits_{i}, labels_{i}, '
                    f'{fields(result)}}},')
    out += ["", "static const recorded_logits recorded_classifiers[] = {", *rows, "};", "",
            "#endif", ""]
    Path(__file__).with_name("scores.h").write_text("\n".join(out))


if __name__ == "__main__":
    main()
