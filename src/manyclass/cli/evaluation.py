"""What a model predicts for the rows of a labelled file: counted chunk by chunk, so that the file may have any size."""

import heapq
import time
from collections import Counter, defaultdict
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.calibration import is_true
from ..core.multilabel import labels_of
from ..core.prediction import metrics_of
from ..core.vocabulary import joined_columns
from ..io import Chunk, Source
from ..metrics import (
    ClassCounts,
    Confusions,
    Reliability,
    RiskCoverage,
    ThresholdSearch,
    ndcg_at_k,
    precision_at_k,
    precision_threshold,
    risk_coverage,
)
from ..metrics.calibration import calibration_error
from ..metrics.ranking import grouped_recall, propensities_of_counts, psp_sums
from ..trained import LabelColumns, Trained
from .files import unknown_features
from .messages import CommandError, notice_if_slow

KS = (1, 3, 5)
WORK = ("depth", "nodes_visited", "routers_scored", "candidates_scored", "work")  # means per row
_FREQUENCIES = (0, 1, 10, 100, 1000, float("inf"))  # limits of the groups of classes
_SUPPORT = 5  # rows that a class must have to be listed among the worst
_JOINED_SHARE = 0.3  # of the rows with unknown labels, before a separator is suggested
_LONGEST_JOINED = 1000  # characters; all separators of a label are tried, so time grows with the square


class Example(NamedTuple):
    """A row that was predicted wrongly; the most confident ones are kept."""

    probability: float
    row: int  # counted from 1
    true: tuple[int, ...]
    predicted: int
    cells: tuple


class Evaluation:
    """Counts over all rows of a file. Classes are positions in `classes_`; unknown labels have the numbers above."""

    def __init__(self, trained: Trained, source: Source, n_examples: int = 0) -> None:
        self.trained, self.source, self.n_examples = trained, source, n_examples
        self.n_classes = len(trained.estimator.classes_)
        self.columns = LabelColumns.of_model(trained)
        self.several = self.columns is not None
        if self.columns is not None and self.columns.names is not None:
            self.columns.names = list(self.columns.names)  # unknown labels are added, but not to the model
        self.n_rows, self.n_unknown_rows, self.seconds, self.n_recalled = 0, 0, 0.0, 0
        self.sums: defaultdict[str, float] = defaultdict(float)
        self.correct: list[np.ndarray] = []  # for each row, whether the best prediction is correct
        self.probabilities: list[np.ndarray] = []  # of the best prediction of each row
        self.counts, self.confusions = ClassCounts(self.n_classes), Confusions()
        self.reliability, self.thresholds = Reliability(), ThresholdSearch()
        self.examples: list[Example] = []
        self._unknown: dict[Any, int] = {}  # one label per row
        for chunk in source.chunks():
            self._add(trained.estimator, chunk)
        if not self.n_rows:
            raise CommandError(f"{source.path}: there are no rows to evaluate.")

    # -- counting ------------------------------------------------------------------------------------------------

    def _add(self, clf: Any, chunk: Chunk) -> None:
        truth, k = self._truth(clf, chunk), min(max(KS), clf._index.n_current)
        if not self.n_rows:  # compile first, so that the time is that of the predictions
            with notice_if_slow():
                clf._predict(chunk.X, k)
                clf._probabilities(chunk.X[:1])
        start = time.perf_counter()
        found = clf._predict(chunk.X, k)
        self.seconds += time.perf_counter() - start
        n, best = chunk.X.shape[0], found.labels[:, 0]
        right = is_true(np.ones(n, np.int64), best, labels_of(truth))
        self._add_rankings(truth, found.labels)
        probabilities, n_scored = self._add_scored(clf, chunk.X, truth, found)
        for name, value in metrics_of(0.0, 0.0, found.work, n_scored / n).items():
            self.sums[name] += value * n
        self.reliability.add(probabilities, right)
        if not self.several:
            self.counts.add(truth.indices, best)
            self.confusions.add(truth.indices, best)
        self._add_examples(chunk, truth, best, np.where(right, -1.0, probabilities))
        self.correct.append(right)
        self.probabilities.append(probabilities)
        unknown = np.repeat(np.arange(n), np.diff(truth.indptr))[truth.indices >= self.n_classes]
        self.n_unknown_rows += len(np.unique(unknown))
        self.n_rows += n

    def _truth(self, clf: Any, chunk: Chunk) -> sp.csr_array:
        """The true labels as a matrix over the classes and the unknown labels so far."""
        n = chunk.X.shape[0]
        if self.columns is not None:
            out = joined_columns(self.columns.matrix(chunk, learn=True), clf._index)
        else:
            assert chunk.labels is not None
            clf._index.check_kind(chunk.labels)
            classes = clf._index.find(chunk.labels)
            for row in np.flatnonzero(classes < 0):
                label = chunk.labels.item(row)
                classes[row] = self._unknown.setdefault(label, self.n_classes + len(self._unknown))
            width = self.n_classes + len(self._unknown)
            out = sp.csr_array((np.ones(n, np.int8), classes, np.arange(n + 1)), shape=(n, width))
        if out.shape[1] < self.n_classes:
            out.resize(n, self.n_classes)
        return out

    def _add_rankings(self, truth: sp.csr_array, top: np.ndarray) -> None:
        n, propensity = truth.shape[0], self._propensities(truth.shape[1])
        for k in KS:
            most = min(k, top.shape[1])  # with fewer classes than places, the remaining places are wrong
            self.sums[f"precision@{k}"] += precision_at_k(truth, top, most) * most / k * n
            self.sums[f"ndcg@{k}"] += ndcg_at_k(truth, top, most) * n
            if propensity is not None:
                gained, possible = psp_sums(truth, top, most, propensity)
                self.sums[f"psp@{k} gained"] += gained
                self.sums[f"psp@{k} possible"] += possible

    def _propensities(self, n_labels: int) -> np.ndarray | None:
        """Propensities from the training rows; None if they are not known or not of interest."""
        if not self.several or self.trained.n_counted < 3:
            return None
        counts = np.pad(self.trained.label_counts, (0, n_labels - self.n_classes))
        return propensities_of_counts(counts, self.trained.n_counted)

    def _add_scored(self, clf: Any, X: Any, truth: sp.csr_array, found: Any) -> tuple[np.ndarray, int]:
        """Count the candidates; return the probability of each best prediction and the number of candidates."""
        probabilities, n_scored = np.zeros(X.shape[0]), 0
        for rows, row, scored in clf._calibrated(X):
            best = scored.labels == found.labels[row, 0]
            probabilities[row[best]] = scored.probabilities[best]
            part = truth[rows]
            true = is_true(scored.sizes, scored.labels, labels_of(part))
            self.n_recalled += int(true.sum())
            # A label in the lists of two nodes may have been scored twice, but it is one candidate.
            n_scored += int(np.minimum(scored.sizes, found.work[rows, 3]).sum())
            if self.several:
                self.thresholds.add(scored.probabilities, true, part.nnz)
                above = scored.probabilities > clf.threshold_
                where = (row[above] - rows.start, scored.labels[above])
                self.counts.add(part, sp.csr_array((np.ones(above.sum(), np.int8), where), shape=part.shape))
        return probabilities, n_scored

    def _add_examples(self, chunk: Chunk, truth: sp.csr_array, best: np.ndarray, wrong: np.ndarray) -> None:
        """Keep the errors with the highest probabilities; `wrong` is negative for correct rows."""
        rows = [row for row in np.argsort(-wrong, kind="stable")[: self.n_examples].tolist() if wrong[row] >= 0]
        new = [
            Example(
                float(wrong[row]),
                self.n_rows + row + 1,
                tuple(truth.indices[truth.indptr[row] : truth.indptr[row + 1]].tolist()),
                int(best[row]),
                chunk.kept[row] if chunk.kept else (),
            )
            for row in rows
        ]
        self.examples = heapq.nlargest(self.n_examples, self.examples + new, key=lambda example: example.probability)

    # -- results -------------------------------------------------------------------------------------------------

    @cached_property
    def labels(self) -> list:
        """The labels of all classes, then the unknown labels."""
        if self.columns is None:
            return [*self.trained.labels(slice(None)), *self._unknown]
        return self.columns.names or list(range(len(self.counts.true)))

    def metrics(self) -> dict[str, Any]:
        """Means over rows, and metrics over classes."""
        n, counts = self.n_rows, self.counts
        mean = {name: total / n for name, total in self.sums.items() if not name.startswith("psp")}
        out: dict[str, Any] = {"accuracy": float(np.mean(np.concatenate(self.correct)))}
        if self.several:
            threshold, f1 = self.thresholds.best()
            out |= {
                "micro_f1": counts.micro_f1,
                "macro_f1": counts.macro_f1,
                "threshold": self.trained.estimator.threshold_,
                "best_threshold": threshold,
                "best_threshold_micro_f1": f1,
                "micro_f1_by_threshold": [[t / 50, float(self.thresholds.f1[20 * t])] for t in range(50)],
            }
        else:
            out |= {f"top_{k}_accuracy": mean[f"precision@{k}"] * k for k in KS[1:]}
            out["macro_f1"] = counts.macro_f1
        out |= {f"{name}@{k}": mean[f"{name}@{k}"] for name in ("precision", "ndcg") for k in KS}
        if "psp@1 gained" in self.sums:
            sums = self.sums
            out |= {f"psp@{k}": sums[f"psp@{k} gained"] / max(sums[f"psp@{k} possible"], 1e-300) for k in KS}
        return {
            **out,
            "candidate_recall": self.n_recalled / max(1, int(counts.true.sum())),
            "calibration_error": calibration_error(np.concatenate(self.probabilities), np.concatenate(self.correct)),
            **{name: mean[name] for name in WORK},
            "n_rows": n,
            "n_unknown_rows": self.n_unknown_rows,
            "n_unknown_labels": int(np.count_nonzero(counts.true[self.n_classes :])),
            "n_skipped": self.source.n_skipped,
            "seconds": self.seconds,
        }

    def threshold_for(self, precision: float) -> float | None:
        """The probability above which best predictions have a precision, with 95 % confidence; None: there is none."""
        try:
            found = precision_threshold(np.concatenate(self.correct), np.concatenate(self.probabilities), precision)
        except ValueError:
            return None
        return max(0.0, found)

    def risk_coverage(self) -> RiskCoverage:
        """The share of wrong best predictions among the most certain ones."""
        return risk_coverage(np.concatenate(self.correct), np.concatenate(self.probabilities))

    def unknown_labels(self, n: int) -> list[dict[str, Any]]:
        """The most frequent labels that the model does not know."""
        true = self.counts.true[self.n_classes :]
        most = np.argsort(-true, kind="stable")[:n]
        return [{"label": self.labels[self.n_classes + i], "rows": int(true[i])} for i in most.tolist() if true[i]]

    def by_frequency(self) -> dict[str, Any]:
        """Recall of rare and frequent classes, and which rows were counted for the frequency."""
        true, frequency, where = self.counts.true, self.counts.true, "evaluated rows"
        if self.trained.n_counted:
            where, frequency = "training rows", np.pad(self.trained.label_counts, (0, len(true) - self.n_classes))
        groups: list[dict[str, Any]] = grouped_recall(self.counts.correct, true, frequency, _FREQUENCIES)
        groups[-1]["below"] = None
        return {"frequency_counted_in": where, "by_frequency": [group for group in groups if group["true"]]}

    def worst_classes(self, n: int) -> list[dict[str, Any]]:
        """The known classes with the lowest F1; of those with the same, the largest first. Rare ones are left out."""
        counts = self.counts
        true, f1 = counts.true[: self.n_classes], counts.f1[: self.n_classes]
        listed = np.flatnonzero(true >= max(1, min(_SUPPORT, true.max())))
        order = listed[np.lexsort((-true[listed], f1[listed]))][:n]
        instead: dict[int, int] = {}
        for one, other, _ in self.confusions.most_common():
            instead.setdefault(one, other)
        return [
            {
                "label": self.labels[i],
                "rows": int(true[i]),
                "precision": float(counts.precision[i]),
                "recall": float(counts.recall[i]),
                "f1": float(f1[i]),
                **({} if self.several else {"most_confused_with": self.labels[instead[i]] if i in instead else ""}),
            }
            for i in order.tolist()
            if f1[i] < 1
        ]

    def counts_by_label(self) -> dict[Any, tuple[int, int]]:
        """For each label of the file, how often it occurs and is predicted correctly."""
        counts = self.counts
        numbers = np.flatnonzero(counts.true).tolist()
        return {self.labels[i]: (int(counts.true[i]), int(counts.correct[i])) for i in numbers}

    def most_confused(self, n: int) -> list[dict[str, Any]]:
        """The most frequent errors, with one label per row."""
        return [
            {"true": self.labels[true], "predicted": self.labels[predicted], "rows": count}
            for true, predicted, count in self.confusions.most_common(n)
        ]

    def warnings(self) -> list[str]:
        """What the user should know about the features and the labels of the file."""
        out = unknown_features(self.source)
        if self.several and not self.trained.n_counted:
            out.append("PSP@k is left out: a model that was not saved by manyclass train has no counts of its labels.")
        if not self.counts.true.any():
            out.append(f"no row of {self.source.path} has a label, so nothing can be correct.")
        if not self.n_unknown_rows:
            return out
        path, n = self.source.path, self.n_unknown_rows
        if not self.counts.true[: self.n_classes].any():
            out.append(f"the model knows none of the labels in {path}.")
        else:
            some = ", ".join(repr(label["label"]) for label in self.unknown_labels(3))
            out.append(
                f"{n:,} of {self.n_rows:,} rows ({n / self.n_rows:.2%}) have labels that the model has never seen, "
                f"such as {some}; they count as errors."
            )
        joined = self._joined_by()
        if joined is not None:
            separator, label, rows = joined
            advice = (
                f"specify --label-separator {separator!r}."
                if self.several
                else f"train the model with --label-separator {separator!r}; it was trained with one label per row."
            )
            out.append(
                f"{rows:,} rows have labels such as {label!r}, which join labels of the model by {separator!r}. "
                f"If they are several labels, {advice}"
            )
        return out

    def _joined_by(self) -> tuple[str, str, int] | None:
        """The separator that joins known labels in many unknown ones, an example, and their number."""
        unknown = self.unknown_labels(len(self.counts.true))
        texts = [(one["label"], one["rows"]) for one in unknown if isinstance(one["label"], str)]
        texts = [(label, count) for label, count in texts if len(label) <= _LONGEST_JOINED]
        known = set(map(str, self.trained.labels(slice(None)))) if texts else set()
        rows: Counter[str] = Counter()
        examples: dict[str, str] = {}
        for label, count in texts:
            for separator in {c for c in label if not c.isalnum()}:
                parts = [part.strip() for part in label.split(separator)]
                if sum(part in known for part in parts) >= 2:
                    rows[separator] += count
                    examples.setdefault(separator, label)
        if not rows:
            return None
        separator, count = rows.most_common(1)[0]
        enough = count >= _JOINED_SHARE * sum(one["rows"] for one in unknown)
        return (separator, examples[separator], count) if enough else None
