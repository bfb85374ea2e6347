"""oracle.py - curves and folds by scikit-learn and NumPy, in a Python that has them.

As a program it reads {"what": NAME, ...} from stdin and prints the answer, both JSON; ask() runs it
with /usr/bin/python3, where the system's packages are, and gives None where they are not installed.
"""
import json
import subprocess
import sys


def ask(what, **given):
    run = subprocess.run(["/usr/bin/python3", __file__], input=json.dumps({"what": what, **given}),
                         text=True, capture_output=True)
    if run.returncode == 77:
        return None
    if run.returncode != 0:
        raise RuntimeError(run.stderr)
    return json.loads(run.stdout)


def curve(positive, negative):
    truth = np.r_[np.ones(len(positive)), np.zeros(len(negative))]
    scores = np.r_[positive, negative]
    fpr, tpr, threshold = metrics.roc_curve(truth, scores, drop_intermediate=False)
    return {"auroc": metrics.roc_auc_score(truth, scores),
            "aupr_known": metrics.average_precision_score(truth, scores),
            "aupr_novel": metrics.average_precision_score(1 - truth, -scores),
            "fpr95": fpr[np.argmax(tpr >= 0.95)],
            "fpr": list(fpr), "tpr": list(tpr), "threshold": list(threshold)[1:]}


def verify(features, pairs, folds):
    """Cosines of pairs [a, b, same, fold]; each fold at the best threshold of the others."""
    x = np.array(features)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    a, b, same, fold = np.array(pairs).T
    score = (x[a] * x[b]).sum(axis=1)
    accuracy = []
    for f in range(folds):
        others = np.unique(score[fold != f])
        places = np.r_[others[0], (others[:-1] + others[1:]) / 2, others[-1] + 1]
        right = [((score >= t) == same)[fold != f].mean() for t in places]
        best = places[np.argmax(np.round(right, 12))]
        accuracy.append(100 * ((score >= best) == same)[fold == f].mean())
    return {"auc": metrics.roc_auc_score(same, score), "folds": accuracy,
            "accuracy": np.mean(accuracy), "accuracy_std": np.std(accuracy, ddof=1),
            **curve(score[same == 1], score[same == 0])}


if __name__ == "__main__":
    try:
        import numpy as np
        from sklearn import metrics
    except ImportError:
        sys.exit(77)
    question = json.load(sys.stdin)
    answer = {"curve": curve, "verify": verify}[question.pop("what")](**question)
    json.dump(answer, sys.stdout)
