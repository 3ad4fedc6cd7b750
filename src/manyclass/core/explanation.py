"""Explanations: what the features of a row contribute to the score of a label, and the decisions on its path.

An algorithm's `explain` splits the scores of some labels exactly: a contribution of each feature where the score is
linear, and a number with a name for everything else.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from .classes import label_array
from .inputs import Batch, Dense
from .locks import reads
from .options import check_integer
from .protocol import Mixin
from .validation import as_array

_NEAREST = 5  # label means that are listed
_PER_DECISION = 3  # features of a decision in the text
_MEANING = {  # of terms whose names do not say it
    "log-sigmoid": "log(1 / (1 + exp(-s))) - s, where s is the sum of the features and the bias",
    "probability of the path": "its logarithm, times the option prior",
    "factor of the score": "(factor - 1) times everything above; `fit` has chosen the factor",
    "nearest training row": "-slope x log(offset + squared distance to the nearest row of the label)",
}


# -- what an algorithm returns -------------------------------------------------------------------------------------


class Step(NamedTuple):
    """The decision at a node on the path to a label."""

    node: int
    child: int
    probability: float  # of this child
    margin: float  # score of the child less that of the best other one, or its score if it is the only one
    bias: float  # of the margin
    contribution: np.ndarray  # (feature of `Parts`,) to the margin


class Parts(NamedTuple):
    """The score of one label, in parts."""

    feature: np.ndarray  # (feature,) features with a value
    contribution: np.ndarray  # (feature,) f8
    terms: dict[str, float]  # all other parts, by name
    steps: Callable[[], list[Step]]  # the decisions from the root to the label; not computed for the runner-up
    nearest: Sequence[tuple[int, float]] = ()  # (label, cosine) of label means, the nearest first

    @property
    def total(self) -> float:
        """The score."""
        return float(self.contribution.sum()) + sum(self.terms.values())


def values_of(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """The features of a single row that are not 0, and their values."""
    feature, value = (np.arange(batch.values.shape[1]), batch.values[0]) if isinstance(batch, Dense) else batch[1:]
    used = np.flatnonzero(value)
    return feature[used], value[used].astype(np.float64)


def binary_step(node: int, children: Any, child: int, bias: float, contribution: np.ndarray) -> Step:
    """The decision of a router whose score, if positive, sends a row to the first of two children."""
    sign = 1.0 if child == int(children[0]) else -1.0
    margin = sign * (bias + float(contribution.sum()))
    return Step(node, child, float(expit(margin)), margin, sign * bias, sign * contribution)


class Outputs(NamedTuple):
    """The outputs of a node for one row."""

    bias: np.ndarray  # (output,)
    weight: np.ndarray  # (feature of the row, output)
    score: np.ndarray  # (output,)
    log_probability: np.ndarray  # (output,)


def softmax_outputs(bias: np.ndarray, weight: np.ndarray, x: np.ndarray) -> Outputs:
    """The outputs of a node of which a row takes one; `x` are the values of the features."""
    score = bias + x @ weight
    return Outputs(bias, weight, score, score - np.logaddexp.reduce(score))


def choice_step(node: int, child: int, place: int, at: Outputs, x: np.ndarray) -> Step:
    """The decision for one of several outputs, by their scores."""
    margin, bias, weight = at.score[place], at.bias[place], at.weight[:, place]
    if len(at.score) > 1:
        others = at.score.copy()
        others[place] = -np.inf
        rival = others.argmax()
        margin, bias, weight = margin - others[rival], bias - at.bias[rival], weight - at.weight[:, rival]
    return Step(node, child, math.exp(at.log_probability[place]), float(margin), float(bias), x * weight)


# -- what users get ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one feature adds to the score of the label, and to that of the runner-up."""

    feature: int  # column number
    name: str
    value: float  # of the feature in the row
    contribution: float
    runner_up: float

    @property
    def difference(self) -> float:
        """How much the feature speaks for the label against the runner-up."""
        return self.contribution - self.runner_up


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision at one node on the path to the label."""

    node: int
    child: int  # the node that the path goes on to
    probability: float
    margin: float  # score of the child less that of the best other child
    bias: float  # the part of the margin that does not depend on the row
    features: list[tuple[str, float]]  # what the features add to the margin, the largest first


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a label has its score. Returned by `explain`.

    The score is the sum of the contributions, of `other_features` and of all `terms`. The same holds for the runner-up.

    Attributes
    ----------
    label, runner_up : label
        The label that is explained, and the best other candidate (None if there is none).
    score, runner_up_score : float
        Their scores, as in `predict_topk`.
    scored : bool
        Whether the label was among the candidates. If not, `score` is the score that it would have as a candidate.
    contributions : list of Contribution
        The k features with the largest difference between label and runner-up, the largest first.
    other_features, other_features_runner_up : float
        The contributions of all other features together.
    terms, runner_up_terms : dict of str to float
        The parts of the scores that are not linear in the features, such as the bias or the logarithm of the
        probability of the path.
    path : list of Decision
        The decisions from the root to the label.
    nearest : list of (label, cosine)
        The label means that are closest to the row, among the labels in the leaves of the label and of the runner-up.
        Label trees only. After `fit`, which does not keep means, they are estimated from the weights.
    """

    label: Any
    runner_up: Any
    score: float
    runner_up_score: float
    scored: bool
    contributions: list[Contribution]
    other_features: float
    other_features_runner_up: float
    n_other_features: int
    terms: dict[str, float]
    runner_up_terms: dict[str, float]
    path: list[Decision]
    nearest: list[tuple[Any, float]]

    def to_dict(self) -> dict[str, Any]:
        """The explanation as dictionaries, lists, texts and numbers, for JSON. Numbers that are not finite are None."""
        return _plain(asdict(self))

    def __str__(self) -> str:
        """A table of the contributions, then the path and the nearest label means."""
        title = f"{self.label}: score {self.score:.4g}"
        if not self.scored:
            title += " (not among the candidates)"
        if self.runner_up is not None:
            title += f"; runner-up {self.runner_up}: score {self.runner_up_score:.4g}"
        lines = [title, ""]
        head = ["", "value", _cut(str(self.label), 20)]
        if self.runner_up is not None:
            head += [_cut(str(self.runner_up), 20), "difference"]
        rows = [head]
        for one in self.contributions:
            rows.append([_cut(one.name, 30), f"{one.value:.3g}", *self._cells(one.contribution, one.runner_up)])
        if self.n_other_features:
            noun = "feature" if self.n_other_features == 1 else "features"
            cells = self._cells(self.other_features, self.other_features_runner_up)
            rows.append([f"{self.n_other_features} other {noun}", "", *cells])
        for name in dict.fromkeys([*self.terms, *self.runner_up_terms]):
            rows.append([name, "", *self._cells(self.terms.get(name, 0.0), self.runner_up_terms.get(name, 0.0))])
        rows.append(["score", "", *self._cells(self.score, self.runner_up_score)])
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        for first, *rest in rows:
            cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
            lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
        lines += ["", *(f"{name}: {_MEANING[name]}" for name in self.terms if name in _MEANING)]
        if self.path:
            lines += ["", "decisions on the path to the label"]
        for step in self.path:
            best = ", ".join(f"{_cut(name, 30)} {amount:+.2f}" for name, amount in step.features[:_PER_DECISION])
            lines.append(f"  node {step.node} -> {step.child}  probability {step.probability:.2f}  {best}".rstrip())
        if self.nearest:
            listed = ", ".join(f"{label} {cosine:.2f}" for label, cosine in self.nearest)
            lines += ["", f"nearest label means (cosine): {listed}"]
        return "\n".join(lines).replace("\n\n\n", "\n\n").rstrip()

    def _cells(self, own: float, other: float) -> list[str]:
        if self.runner_up is None:
            return [f"{own:+.3f}"]
        difference = own - other if math.isfinite(own) or math.isfinite(other) else 0.0
        return [f"{own:+.3f}", f"{other:+.3f}", f"{difference:+.3f}"]

    def plot(self, ax=None):
        """Draw how much each part of the score speaks for the label against the runner-up.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw. Default: a new figure.

        Returns
        -------
        ax : matplotlib.axes.Axes
        """
        bars = [(one.name, one.difference, True) for one in self.contributions]
        if self.n_other_features:
            bars.append(("other features", self.other_features - self.other_features_runner_up, False))
        for name in dict.fromkeys([*self.terms, *self.runner_up_terms]):
            bars.append((name, self.terms.get(name, 0.0) - self.runner_up_terms.get(name, 0.0), False))
        bars = [bar for bar in bars if math.isfinite(bar[1])]
        if ax is None:
            import matplotlib.pyplot as plt  # an optional dependency

            _, ax = plt.subplots(figsize=(7.0, 1.4 + 0.28 * len(bars)), layout="constrained")
        colours = ["#2a7f62" if amount > 0 else "#b3423a" for _, amount, _ in bars]
        drawn = ax.barh(range(len(bars)), [amount for _, amount, _ in bars], color=colours)
        for bar, (_, amount, feature) in zip(drawn, bars, strict=True):
            bar.set_alpha(1.0 if feature else 0.45)  # parts that are not features are paler
            ax.annotate(
                f"{amount:+.2f}", (amount, bar.get_y() + bar.get_height() / 2), (3 if amount >= 0 else -3, 0),
                textcoords="offset points", va="center", ha="left" if amount >= 0 else "right", fontsize=8,
            )  # fmt: skip
        ax.set_yticks(range(len(bars)), [_cut(name, 30) for name, _, _ in bars], parse_math=False)  # $ is a $
        ax.invert_yaxis()
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.margins(x=0.15)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
        against = "" if self.runner_up is None else f" against {_cut(str(self.runner_up), 30)}"
        difference = self.score - (0.0 if self.runner_up is None else self.runner_up_score)
        title = f"{_cut(str(self.label), 30)}{against}: {difference:+.2f}"
        ax.set_title(title, fontsize=10, loc="left", parse_math=False)
        ax.set_xlabel("contribution to the difference of the scores" if against else "contribution to the score")
        return ax


def _cut(text: str, longest: int) -> str:
    """The beginning and the end of a long text: addresses often differ only at the end."""
    half = (longest - 3) // 2
    return text if len(text) <= longest else f"{text[:half]}...{text[-half:]}"


def _plain(value: Any) -> Any:
    """Values for JSON."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class ExplanationMixin(Mixin):
    """`explain` of all classifiers."""

    @reads
    def explain(self, x, label=None, feature_names=None, k=10) -> Explanation:
        """Explain the score of a label for one row.

        Parameters
        ----------
        x : array-like of shape (n_features,) or (1, n_features), or sparse matrix of one row
            The row; or a text or a dictionary of cells, for models of the command line and of `save_pipeline`.
        label : label, optional
            The label to explain. Default: the prediction. It is compared with the best other label.
        feature_names : array-like of shape (n_features,), or dict of int to str, optional
            Names of the features, such as `vectorizer.get_feature_names_out()`. Default: the columns of the DataFrame
            or the words of the text that the model was trained on, otherwise the numbers of the columns.
        k : int, default=10
            Number of features to list; the others are added up.

        Returns
        -------
        explanation : Explanation
            Contributions of features and other terms that sum to the score of `predict_topk`, and the decisions on the
            path to the label. Print it, or use `to_dict()` and `plot()`.

        Examples
        --------
        >>> from sklearn.feature_extraction.text import TfidfVectorizer
        >>> from manyclass import LabelTreeClassifier
        >>> texts = ["red apple", "green apple", "fast car", "slow car", "old house", "new house"]
        >>> words = TfidfVectorizer()
        >>> X = words.fit_transform(texts)
        >>> clf = LabelTreeClassifier(random_state=0).fit(X, ["fruit", "fruit", "car", "car", "home", "home"])
        >>> found = clf.explain(words.transform(["a green house"]), feature_names=words.get_feature_names_out())
        >>> found.label, sorted(one.name for one in found.contributions[:2])
        ('home', ['green', 'house'])
        """
        check_integer("k", k)
        X, words = self._one_row(x)
        names = self._names_of_features(feature_names, words)
        found = self._predict(X, min(2, self._index.n_current))
        best, scores = found.labels[0].tolist(), found.scores[0].tolist()
        own = best[0] if label is None else self._id_of(label)
        scored = {one for one, score in zip(best, scores, strict=True) if score > -math.inf}
        ids = [own, *(one for one in best if one in scored and one != own)][:2]
        options, batch = self._prediction_options(), self._batch(X)
        merged = [self._index.parts_of(one) for one in ids]
        if own not in scored or any(len(part) > 1 for part in merged):
            scored = set(self._model.score(options, self._state, batch).labels.tolist())
        labels = [one for part in merged for one in part]
        parts = dict(zip(labels, self._model.explain(options, self._state, batch, labels), strict=True))
        # Of classes that were merged, the one with the highest score.
        chosen = [max(part, key=lambda one: (one in scored, parts[one].total)) for part in merged]
        return self._explanation(ids, [parts[one] for one in chosen], chosen[0] in scored, names, X, int(k))

    def _explanation(self, ids, parts: list[Parts], scored: bool, names, X, k: int) -> Explanation:
        own, other = parts[0], parts[1] if len(parts) > 1 else None
        feature, amounts = own.feature, np.zeros((2, len(own.feature)))
        amounts[0] = own.contribution
        if other is not None:
            amounts[1] = other.contribution
        order = np.argsort(-np.abs(amounts[0] - amounts[1]), kind="stable")
        best, rest = order[:k], order[k:]
        nearest = [pair for pair in own.nearest if self._index.is_current(pair[0])][:_NEAREST]
        labels = self._names_at(np.array([*ids, *(label for label, _ in nearest)]))
        cells = zip(X.indices.tolist(), X.data.tolist(), strict=True) if sp.issparse(X) else enumerate(X[0].tolist())
        value = dict(cells)
        contributions = [
            Contribution(f, names(f), value.get(f, 0.0), *pair)
            for f, *pair in zip(feature[best].tolist(), *amounts[:, best].tolist(), strict=True)
        ]
        return Explanation(
            label=labels[0],
            runner_up=labels[1] if other is not None else None,
            score=own.total,
            runner_up_score=other.total if other is not None else -math.inf,
            scored=scored,
            contributions=contributions,
            other_features=float(amounts[0, rest].sum()),
            other_features_runner_up=float(amounts[1, rest].sum()),
            n_other_features=len(rest),
            terms=own.terms,
            runner_up_terms=other.terms if other is not None else {},
            path=[self._decision(step, feature, names, k) for step in own.steps()],
            nearest=list(zip(labels[len(ids) :], (cosine for _, cosine in nearest), strict=True)),
        )

    def _decision(self, step: Step, feature: np.ndarray, names: Any, k: int) -> Decision:
        best = np.argsort(-np.abs(step.contribution), kind="stable")[:k]
        pairs = zip(feature[best].tolist(), step.contribution[best].tolist(), strict=True)
        words = [(names(f), amount) for f, amount in pairs if amount != 0.0]
        return Decision(step.node, step.child, step.probability, step.margin, step.bias, words)

    def _one_row(self, x: Any) -> tuple[Any, dict[int, str]]:
        """The row as a matrix of one row, and the words behind its features if it is a text or a table."""
        reading = self._extra.get("reading")
        if isinstance(x, (str, Mapping)):
            x = [x]
        if reading is not None and reading.columns:
            from ..io.tables import is_table, names_of  # scikit-learn's vectorizers take a while to import

            if is_table(x):
                _need_one_row(len(x))
                return self._check_inputs(x), names_of(x, reading)
        if isinstance(x, list) and x and isinstance(x[0], (str, Mapping)):
            raise ValueError(
                "x is a text, but the model was not trained on texts by the command line: pass the features of the "
                "text, for example vectorizer.transform([text])."
            )
        if not sp.issparse(x) and not hasattr(x, "columns"):
            x = np.atleast_2d(as_array(x, "x"))
        elif sp.issparse(x) and x.ndim == 1:
            x = x.reshape(1, -1)
        _need_one_row(x.shape[0])
        return self._check_inputs(x), {}

    def _names_of_features(self, given: Any, words: dict[int, str]) -> Any:
        """A function that names a feature."""
        if isinstance(given, Mapping):
            return lambda f: str(given.get(f, f))
        if given is None:
            given = getattr(self, "feature_names_in_", None)
        if given is None:
            return lambda f: words.get(f, f"feature {f}")
        names = np.asarray(given, dtype=object)
        if names.ndim != 1:
            raise ValueError(f"feature_names must be a list or array of names, or a dict, got {given!r}.")
        if len(names) != self.n_features_in_:
            raise ValueError(f"feature_names has {len(names)} names, the model has {self.n_features_in_} features.")
        return lambda f: str(names[f])

    def _id_of(self, label: Any) -> int:
        """The class of a label, or a ValueError."""
        try:
            given = self._names.index(label) if self._names is not None and label in self._names else label
            found = int(self._index.find(label_array([given], self._index.kind))[0])
        except (TypeError, ValueError):  # no label at all, such as a list
            found = -1
        if found < 0:
            raise ValueError(f"label={label!r} is not a class of the model.")
        return found


def _need_one_row(n: int) -> None:
    if n != 1:
        raise ValueError(f"explain takes one row, got {n}: call it once per row.")
