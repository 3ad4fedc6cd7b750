"""Calibration, sets and abstention on real data: ``python -m benchmarks.calibration [SET ...]``.

The label tree learns the training rows except a tenth (at most 10,000), on which it is calibrated, as `fit` does with
the option `calibration`. All figures are of the test rows. PECOS, fastText and logistic regression learn all training
rows and are measured as they are, with the options that `calibration_peer.py` chooses on training rows. Thresholds of
`predict_set` need rows of their own: the test rows are divided 20 times at random into a half for `conformal` and a
half for the figures, the usual protocol. Where rows x classes are above 200 million, a random part of them.

Results of a set are in `benchmarks/calibration/SET.json`; the page `results.md` and the pictures show all of them. A
part that is in the file is not measured again: remove it there to repeat it. Data are found through MANYCLASS_DATA.
Peers are environments `MANYCLASS_PEERS/pecos`, `fasttext` and `scikit-learn`.
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks.origin import commit
from benchmarks.sets import SETS, rows_of, shuffled
from manyclass import LabelTreeClassifier
from manyclass.core.calibration import weights_like_new_rows
from manyclass.core.multilabel import labels_of
from manyclass.core.probabilities import rows_to_hold_out
from manyclass.core.protocol import Labels, Scored, as_labels
from manyclass.datasets import DataNotFound
from manyclass.metrics import brier_at_k, ece_at_k, reliability_plot, risk_coverage, risk_coverage_plot

FOLDER = Path(__file__).parent / "calibration"
NAMES = ("clinc150", "wordnet-hypernym", "eurlex-4k", "aloi", "revdict")
METHODS = (None, "isotonic", "temperature")
PEERS = {"pecos": "PECOS XR-Linear", "fasttext": "fastText", "scikit-learn": "LogisticRegression"}
KS = (1, 3, 5)
COVERAGES = (0.8, 0.9, 0.95)
N_SPLITS = 20
LIMIT = 1800  # seconds that a peer may take, the choice of its options included
MOST_OUTPUTS = 20_000_000  # features x classes of a logistic regression
MOST_SCORES = 200_000_000  # test rows x classes for sets
N_DRAWS = 100
N_CHOICES = 5  # of held-out rows
BLOCK = 500  # rows


def main(names: list[str]) -> None:
    """Measure some sets, and write the page and the pictures of all that were measured."""
    FOLDER.mkdir(exist_ok=True)
    parts: dict[str, Any] = {"ours": measure_ours, "all_rows": measure_all_rows, "twins": measure_twins}
    parts |= {peer: partial(measure_peer, peer) for peer in PEERS} | {"choices": measure_choices}
    for part, measure in parts.items():
        for name in names:
            path = FOLDER / f"{name}.json"
            found = json.loads(path.read_text()) if path.exists() else {}
            if part in found:
                continue
            try:
                rows = shuffled(rows_of(name))
            except DataNotFound as error:
                print(f"{name}: skipped, {error}")
                continue
            when = {"commit": commit(), "date": datetime.now(UTC).strftime("%Y-%m-%d")}
            found[part] = measure(name, *rows) | when
            path.write_text(json.dumps(found))
            print(name, part, json.dumps({k: v for k, v in found[part].items() if k != "curves"}), flush=True)
    write_page()


# -- the label tree ------------------------------------------------------------------------------------------------


class Held(NamedTuple):
    """A model, and the rows that it has not learned."""

    model: LabelTreeClassifier
    X: Any
    truth: Labels
    weights: np.ndarray

    def calibrate(self, method: str) -> LabelTreeClassifier:
        """The model, calibrated as `fit` does with the option `calibration`."""
        self.model._fit_calibration(self.X, self.truth, method, self.weights)
        return self.model


def held_out(X: Any, y: Any, seed: int) -> Held:
    """Learn nine tenths of the rows."""
    truth = labels_of(sp.csr_array(y)) if sp.issparse(y) else as_labels(ids_of(np.unique(y), y))
    learned, held = rows_to_hold_out(truth, np.ones(X.shape[0]), np.random.RandomState(seed))
    model = LabelTreeClassifier(random_state=0).fit(X[learned], y[learned])
    return Held(model, X[held], truth.rows(held), weights_like_new_rows(truth, learned, held))


def predicted(model: Any, X: Any, y: Any, k: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """True labels, the k best labels, both as numbers, and the probabilities of the latter."""
    labels, probabilities = model.predict_topk(X, k=k, probabilities=True)
    if sp.issparse(y):
        return y, labels, probabilities
    return ids_of(model.classes_, y), ids_of(model.classes_, labels), probabilities


def measure_ours(name: str, X: Any, y: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """Figures of a label tree before and after calibration, of its sets, and of its most certain predictions."""
    held = held_out(X, y, 0)
    out: dict[str, Any] = {"methods": {}, "curves": {}}
    for method in METHODS:
        model = held.model if method is None else held.calibrate(method)
        found = predicted(model, X_test, y_test, max(KS))
        out["methods"][str(method)] = figures(*found)
        out["curves"][str(method)] = curve_of(*found)
    out["sets"] = coverage(held.model, X_test, y_test)
    return out


def measure_choices(name: str, X: Any, y: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """ECE@1 after isotonic calibration with other choices of the held-out rows, and accuracy less mean probability."""
    errors, differences = [], []
    for seed in range(1, N_CHOICES + 1):
        truth, labels, probabilities = predicted(held_out(X, y, seed).calibrate("isotonic"), X_test, y_test, 1)
        errors.append(ece_at_k(truth, labels, probabilities, 1))
        differences.append(float(hits(truth, labels).mean() - probabilities.mean()))
    return {"ece": errors, "differences": differences}


def measure_all_rows(name: str, X: Any, y: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """Accuracy of a model that has learned the held-out rows, too.

    With one label per row also its accuracy if the labels of test rows had as many training rows as those of training
    rows have: labels of some sizes may have a larger share of test rows than others.
    """
    truth, labels, _ = predicted(LabelTreeClassifier(random_state=0).fit(X, y), X_test, y_test, 1)
    right = hits(truth, labels)
    out = {"accuracy": float(right.mean())}
    if not sp.issparse(y):
        _, number, size = np.unique(y, return_inverse=True, return_counts=True)
        group = np.ceil(4 * np.log2(size)).astype(int)
        of_test = group[truth[truth < len(size)]]
        n = np.bincount(of_test, minlength=group.max() + 1)
        accuracy = np.bincount(of_test, right[truth < len(size)], len(n)) / np.maximum(n, 1)
        share = np.where(n > 0, np.bincount(group[number], minlength=len(n)), 0)
        out["accuracy_like_training"] = float(accuracy @ share / share.sum())
    return out


def measure_twins(name: str, X: Any, y: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """The shares of training rows that equal another training row, and of test rows that equal a training row."""
    training, test = _keys(X), _keys(X_test)
    counts = Counter(training)
    twins = np.mean([counts[key] > 1 for key in training]), np.mean([key in counts for key in test])
    return {"training": float(twins[0]), "test": float(twins[1])}


def ids_of(classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The places of labels in sorted classes; the number of classes where a label is not among them."""
    at = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return np.where(classes[at] == y, at, len(classes))


def figures(y: Any, labels: np.ndarray, probabilities: np.ndarray) -> dict[str, Any]:
    """Accuracy (P@1), calibration errors, and the share of rows that have a precision of 95 and 99 %."""
    correct = hits(y, labels)
    curve = risk_coverage(correct, probabilities[:, 0])
    return {
        "accuracy": float(correct.mean()),
        "ece_if_perfect": ece_if_perfect(probabilities[:, 0]),
        "ece": [ece_at_k(y, labels, probabilities, k) for k in KS],
        "brier": [brier_at_k(y, labels, probabilities, k) for k in KS],
        "rows_at_precision": {str(p): curve.coverage_at(p) for p in (0.95, 0.99)},
    }


def ece_if_perfect(probability: np.ndarray) -> float:
    """ECE@1 of a model that is calibrated perfectly on as many rows, which is above 0 by chance: mean of draws."""
    rng, label = np.random.default_rng(0), np.zeros((len(probability), 1), int)
    draws = [rng.random(len(probability)) >= probability for _ in range(N_DRAWS)]
    return float(np.mean([ece_at_k(wrong.astype(int), label, probability[:, None], 1) for wrong in draws]))


def hits(y: Any, labels: np.ndarray) -> np.ndarray:
    """Whether the best label of each row is correct."""
    if sp.issparse(y):
        return np.asarray(sp.csr_array(y)[np.arange(len(labels)), labels[:, 0]]).ravel() > 0
    return labels[:, 0] == y


def curve_of(y: Any, labels: np.ndarray, probabilities: np.ndarray) -> dict[str, list[float]]:
    """How many best predictions of each probability, to three digits, are correct and wrong; for the pictures."""
    return counted(probabilities[:, 0], hits(y, labels))


def counted(probability: np.ndarray, correct: np.ndarray) -> dict[str, list[float]]:
    """The number of correct and wrong predictions of each probability, to three digits."""
    value, place = np.unique(probability.round(3), return_inverse=True)
    right = np.bincount(place, correct).astype(int)
    return {"probability": value.tolist(), "right": right.tolist(), "wrong": (np.bincount(place) - right).tolist()}


def coverage(model: Any, X: Any, y: Any) -> dict[str, Any]:
    """Coverage and size of sets over random halves of the test rows; an error where a coverage is out of reach."""
    out: dict[str, Any] = {}
    n = min(X.shape[0], MOST_SCORES // len(model.classes_))
    X, y = (part[np.random.default_rng(0).permutation(X.shape[0])[:n]] for part in (X, y))
    model._scored = scored_once(model, X)
    for nominal in COVERAGES:
        shares, sizes = [], []
        for split in range(N_SPLITS):
            order = np.random.default_rng(split).permutation(n)
            chosen, rest = np.sort(order[: n // 2]), np.sort(order[n // 2 :])
            try:
                sets = model.conformal(X[chosen], y[chosen], coverage=nominal).predict_set(X[rest])
            except ValueError as error:
                out[str(nominal)] = {"error": str(error)}
                break
            shares.append(covered(model, sets, y[rest]))
            sizes.append(float(sets.sum() / len(rest)))
        else:
            spread, facts = float(np.std(shares, ddof=1)), model.conformal_
            out[str(nominal)] = {"coverage": float(np.mean(shares)), "sd": spread, "size": float(np.mean(sizes))}
            out[str(nominal)] |= {name: facts[name] for name in ("beam", "n_candidates")}
    del model._scored
    return out


def scored_once(model: Any, X: Any) -> Callable[..., Iterator[Scored]]:
    """The method `_scored` of a model for rows of X, which scores each row only once for each number of paths."""
    score, known = model._scored, {}
    place = {key: row for row, key in enumerate(_keys(model._check_inputs(X)))}

    def scored(rows: Any, beam: int = 0) -> Iterator[Scored]:
        if beam not in known:
            known[beam] = [part for block in score(model._check_inputs(X), beam) for part in _by_row(block)]
        found = [known[beam][place[key]] for key in _keys(rows)]
        for first in range(0, len(found), BLOCK):
            labels, probabilities = zip(*found[first : first + BLOCK], strict=True)
            yield Scored(np.array([len(one) for one in labels]), np.concatenate(labels), np.concatenate(probabilities))

    return scored


def _keys(X: Any) -> list[bytes]:
    """The values of each row, as what identifies it."""
    if not sp.issparse(X):
        return [row.tobytes() for row in np.asarray(X)]
    spans = list(itertools.pairwise(X.indptr.tolist()))
    return [X.indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in spans]


def _by_row(block: Scored) -> list[tuple[np.ndarray, np.ndarray]]:
    ends = np.cumsum(block.sizes)[:-1]
    return list(zip(np.split(block.labels, ends), np.split(block.probabilities, ends), strict=True))


def covered(model: Any, sets: Any, y: Any) -> float:
    """The mean share of the true labels of a row that its set contains."""
    if sp.issparse(y):
        true = sp.csr_array(y) != 0
        per_row = np.asarray(true.sum(axis=1)).ravel()
        inside = np.asarray(sets.multiply(true).sum(axis=1)).ravel()
        return float(np.where(per_row > 0, inside / np.maximum(per_row, 1), 1.0).mean())
    ids = ids_of(model.classes_, y)
    known = np.flatnonzero(ids < len(model.classes_))
    return float(np.asarray(sets[known, ids[known]]).sum() / len(ids))


# -- peers ---------------------------------------------------------------------------------------------------------


def measure_peer(peer: str, name: str, X: Any, y: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """Figures of a peer, or the reason why there are none."""
    classes = None if sp.issparse(y) else np.unique(y)
    n_classes = y.shape[1] if classes is None else len(classes)
    python = Path(os.environ.get("MANYCLASS_PEERS", "")) / peer / "bin" / "python"
    if not os.environ.get("MANYCLASS_PEERS") or not python.exists():
        return {"error": "not installed"}
    if peer == "scikit-learn" and classes is None:
        return {"error": "not run: one label per row only"}
    if peer == "scikit-learn" and X.shape[1] * n_classes > MOST_OUTPUTS:
        return {"error": f"not run: {X.shape[1]:,} features x {n_classes:,} classes"}
    if peer == "fasttext" and not SETS[name].words:
        return {"error": "not run: the features are not words"}
    Y = y if classes is None else indicator_of(np.searchsorted(classes, y), n_classes)
    truth = y_test if classes is None else ids_of(classes, y_test)
    try:
        labels, probabilities, options = run_peer(str(python), peer, X, Y, X_test)
    except subprocess.TimeoutExpired:
        return {"error": f"more than {LIMIT} s"}
    except subprocess.CalledProcessError as error:
        return {"error": error.stderr.decode(errors="replace").strip().splitlines()[-1]}
    return {"options": options, **figures(truth, labels, probabilities)}


def indicator_of(ids: np.ndarray, n_classes: int) -> sp.csr_array:
    """One label per row as a matrix."""
    return sp.csr_array((np.ones(len(ids), np.float32), ids, np.arange(len(ids) + 1)), shape=(len(ids), n_classes))


def run_peer(python: str, peer: str, X: Any, Y: Any, X_test: Any) -> tuple[np.ndarray, np.ndarray, str]:
    """Labels, probabilities and options of a peer, from a process in its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        for name, matrix in (("X_train", X), ("Y_train", Y), ("X_test", X_test)):
            sp.save_npz(Path(folder) / f"{name}.npz", sp.csr_matrix(matrix, dtype=np.float32))
        script = str(Path(__file__).parent / "calibration_peer.py")
        subprocess.run([python, script, folder, peer], check=True, capture_output=True, timeout=LIMIT)
        with np.load(Path(folder) / "predictions.npz") as found:
            return found["labels"], np.clip(found["probabilities"], 0.0, 1.0), str(found["options"])


# -- the page ------------------------------------------------------------------------------------------------------


def write_page() -> None:
    """Write `results.md` and the pictures from the results of all sets."""
    paths = {name: FOLDER / f"{name}.json" for name in NAMES}
    found = {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}
    lines = [
        "# Calibration",
        "",
        "`python -m benchmarks.calibration` writes this page; the docstring of the script says what is measured.",
        "",
        "## Calibration error on test rows",
        "",
        'ECE@k with 10 bins of equal size. Accuracy is P@1 for EURLex-4K. "none": the same model before calibration.',
        '"all rows": a model that has learned the held-out rows, too. "by chance": the ECE@1 of a perfectly calibrated',
        "model on as many rows, with the same probabilities. Peers are as they are, with the options shown, which were",
        'chosen on held-out training rows. "measured": date and commit.',
        "",
        "| data | model | calibration or options | accuracy % | ECE@1 | by chance | ECE@3 | ECE@5 | Brier@1 "
        "| rows at 95 % | rows at 99 % | measured |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for name, one in found.items():
        whole = one["all_rows"]
        accuracy = f"{100 * whole['accuracy']:.2f}"
        lines.append(f"| {SETS[name].title} | LabelTree, all rows | none | {accuracy} | {'| ' * 7}{_when(whole)} |")
        for method, numbers in one["ours"]["methods"].items():
            method = "none" if method == "None" else method
            lines.append(f"| | LabelTree | {method} | {_cells(numbers)} | {_when(one['ours'])} |")
        for peer, title in PEERS.items():
            numbers = one.get(peer, {"error": "not measured"})
            cells = f"{numbers['error']} {'| ' * 7}" if "error" in numbers else _cells(numbers)
            options = "" if "error" in numbers else numbers["options"] or "defaults"
            lines.append(f"| | {title} | {options} | {cells} | {_when(numbers)} |")
    lines += [
        "",
        *_choices_lines(found),
        "Rows at 95 %: the largest share of the rows, most certain first, of which 95 % are predicted correctly.",
        *[f"Not measured yet: {SETS[name].title}." for name in NAMES if name not in found],
        "The pictures round probabilities to three digits, so that their errors differ slightly.",
        "",
        "![Reliability](reliability.png)",
        "",
        "![Risk and coverage](risk_coverage.png)",
        "",
        "## Coverage of sets",
        "",
        f"Mean over {N_SPLITS} random halves of the test rows, and the standard deviation of one half. With several",
        "labels per row (EURLex-4K): share of the true labels of a row.",
        "Paths and candidates (labels scored per row) are those of the last split.",
        "",
        "| data | nominal % | coverage % | sd | mean size | paths | candidates | measured |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for name, one in found.items():
        when = _when(one["ours"])
        for nominal, numbers in one["ours"]["sets"].items():
            start = f"| {SETS[name].title} | {100 * float(nominal):.0f} |"
            if "error" in numbers:
                lines.append(
                    f"{start} out of reach: {numbers['error'].split(':')[1].split(',')[0].strip()} | | | | | {when} |"
                )
            else:
                share, spread = 100 * numbers["coverage"], 100 * numbers["sd"]
                paths, scored = numbers["beam"], f"{numbers['n_candidates']:,.0f}"
                lines.append(
                    f"{start} {share:.2f} | {spread:.2f} | {numbers['size']:.2f} | {paths} | {scored} | {when} |"
                )
    (FOLDER / "results.md").write_text("\n".join(lines) + "\n")
    _draw(found)


def _cells(numbers: dict[str, Any]) -> str:
    shares = [f"{100 * share:.1f} %" for share in numbers["rows_at_precision"].values()]
    errors = [numbers["ece"][0], numbers["ece_if_perfect"], *numbers["ece"][1:]]
    cells = [f"{100 * numbers['accuracy']:.2f}", *(f"{error:.4f}" for error in errors)]
    return " | ".join([*cells, f"{numbers['brier'][0]:.4f}", *shares])


def _choices_lines(found: dict[str, Any]) -> list[str]:
    lines = [
        "Whether held-out rows are like test rows. ECE@1 with other choices of the held-out rows (isotonic), its mean,",
        "and the mean difference between accuracy and probability. Accuracy of the model of all rows, and what it",
        "would be if labels of each size had the same share of test rows. Twins: rows that equal a training row, or",
        "another one.",
        "",
        "| data | ECE@1 of each choice | mean | difference | accuracy % | equal shares % | training twins % "
        "| test twins % |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, one in found.items():
        whole, twins = one["all_rows"], one["twins"]
        cells = [SETS[name].title, "not measured", "", ""]
        if "choices" in one:
            errors, difference = one["choices"]["ece"], np.mean(one["choices"]["differences"])
            cells[1:] = [", ".join(f"{error:.4f}" for error in errors), f"{np.mean(errors):.4f}", f"{difference:+.4f}"]
        like = f"{100 * whole['accuracy_like_training']:.2f}" if "accuracy_like_training" in whole else ""
        cells += [
            f"{100 * whole['accuracy']:.2f}",
            like,
            f"{100 * twins['training']:.1f}",
            f"{100 * twins['test']:.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _when(part: dict[str, Any]) -> str:
    return f"{part['date']}, {part['commit']}" if "date" in part else ""


def _draw(found: dict[str, Any]) -> None:
    from matplotlib.figure import Figure

    for picture in ("reliability", "risk_coverage"):
        figure = Figure(figsize=(4 * len(found), 4), layout="constrained")
        for (name, one), ax in zip(found.items(), figure.subplots(1, len(found), squeeze=False)[0], strict=True):
            for method, curve in one["ours"]["curves"].items():
                sizes = np.array(curve["right"]), np.array(curve["wrong"])
                p = np.concatenate([np.repeat(curve["probability"], size) for size in sizes])
                correct = np.repeat([1, 0], [size.sum() for size in sizes])
                label = "not calibrated" if method == "None" else method
                if picture == "reliability":
                    reliability_plot(1 - correct, np.zeros((len(p), 1), int), p[:, None], ax=ax, label=label)
                else:
                    risk_coverage_plot(risk_coverage(correct, p), ax, label)
            ax.set_title(SETS[name].title, fontsize=11, loc="left")
        figure.savefig(FOLDER / f"{picture}.png", dpi=100)


if __name__ == "__main__":
    main(sys.argv[1:] or list(NAMES))
