"""One-against-all: state, training, prediction, files. Predictions are a matrix product for each block of rows."""

import math

import numpy as np
import scipy.sparse as sp

from ..core.explanation import Parts, values_of
from ..core.inputs import Batch, Dense
from ..core.invariants import check_counts, check_learner, check_squares, is_power, need
from ..core.learners import at_epoch
from ..core.losses import LOSSES, probabilities_batch
from ..core.protocol import Predictions, Scored, rows_of
from ..core.state import Projection, Scale, Seen, State, cut, make, resize
from ..core.topk import best_columns
from ..core.updates import is_adaptive
from ..core.validation import blocks
from .kernels import Columns, Model, Options, buckets, fold, learn_batch

NAME = "one-against-all"
GROUPS = {"columns": Columns, "projection": Projection, "scale": Scale, "seen": Seen}
MOST_NEGATIVES = 1 << 24

_FIRST_CLASSES = 16
_BLOCK_SCORES = 1 << 23  # scores computed at once: 32 MB


def _has_squares(options: Options) -> bool:
    """Whether the columns have sums of squared gradients; the low-rank form always learns by AdaGrad."""
    return options.rank > 0 or is_adaptive(options.update)


def _lines(n_features: int, n_columns: int, table_bits: int) -> tuple[int, int]:
    """(lines, mask): a line for each feature if the weights fit into the table, otherwise fewer, hashed lines."""
    if n_features * n_columns <= 1 << table_bits:
        return n_features, 0
    lines = 1 << max(1, math.floor(math.log2((1 << table_bits) / n_columns)))
    return lines, lines - 1


def _projection_mask(state: State) -> int:
    n_lines = len(state["projection"].weight)
    return 0 if n_lines == len(state["scale"].inverse) else n_lines - 1


def _make_columns(n_lines: int, mask: int, n_classes: int, adaptive: bool) -> Columns:
    squares = (n_lines, n_classes) if adaptive else (1, 1)
    sizes = {"bucket": n_lines, "class": n_classes, "square_bucket": squares[0], "square_class": squares[1]}
    columns: Columns = make(Columns, **sizes)
    columns.mask[0] = mask
    return columns


def init(options: Options, n_features: int, n_classes: int = 0) -> State:
    """Zero weights for the classes known beforehand; the low-rank form starts with a random projection."""
    n_classes, rank = max(_FIRST_CLASSES, n_classes), max(1, options.rank)
    n_lines, mask = _lines(n_features, rank if options.rank else n_classes, options.table_bits)
    projection_lines = n_lines if options.rank else 1
    projection: Projection = make(Projection, bucket=projection_lines, square_bucket=projection_lines, rank=rank)
    if options.rank:
        start = np.random.default_rng(options.seed).standard_normal(projection.weight.shape)
        projection.weight[:] = start / math.sqrt(rank)
        n_lines, mask = rank, 0
    return {
        "columns": _make_columns(n_lines, mask, n_classes, _has_squares(options)),
        "projection": projection,
        "scale": make(Scale, feature=n_features),
        "seen": make(Seen),
    }


def learn(options: Options, state: State, batch: Batch, labels, weights, epoch: int = 0, n_jobs: int = 1) -> None:
    """Learn all rows in turn; columns are added when the kernel stops. Mutates: state."""
    options, begin = at_epoch(options, epoch), 0
    while True:
        model = Model(state["columns"], state["scale"], state["seen"])
        projection = state["projection"] if options.rank else None
        begin = learn_batch(model, projection, batch, labels, weights, begin, options)
        if begin == len(labels):
            return
        state["columns"] = _grown(options, state, int(labels[begin]))


def _grown(options: Options, state: State, label: int) -> Columns:
    """The columns with space for more classes, on fewer, hashed lines if the table would become too large."""
    columns: Columns = state["columns"]
    adaptive = _has_squares(options)
    n_classes = max(label + 1, len(columns.bias) * 3 // 2)
    n_lines, mask = _lines(len(state["scale"].inverse), n_classes, options.table_bits)
    joined = columns.mask[0] > 0 and mask == 0  # in a file with more lines than features
    if options.rank or joined or n_lines >= len(columns.weight):  # lines that were joined stay so
        return resize(columns, **{"class": n_classes}, **({"square_class": n_classes} if adaptive else {}))
    folded = _make_columns(n_lines, mask, n_classes, adaptive)
    fold(columns, folded, adaptive)
    return folded


# -- prediction ----------------------------------------------------------------------------------------------------


def _scores(options: Options, state: State, batch: Batch, first: int, last: int) -> np.ndarray:
    """Scores of all classes learned so far, by one matrix product."""
    columns, projection = state["columns"], state["projection"]
    n_known = int(state["seen"].n_labels[0])
    weight, bias = columns.weight[:, :n_known], columns.bias[:n_known]
    if not options.rank:
        X = _rows(batch, first, last, int(columns.mask[0]), len(columns.weight))
        return np.asarray(X @ weight) + bias
    X = _rows(batch, first, last, _projection_mask(state), len(projection.weight))
    wide = X.astype(np.float64)
    size = _sizes(state, (wide * wide).sum(axis=1))
    hidden = np.asarray(X @ projection.weight) / size[:, None].astype(np.float32)
    return hidden @ weight + bias


def _sizes(state: State, sq_norm: np.ndarray) -> np.ndarray:
    """The divisors of rows in the low-rank form, from their squared lengths."""
    scale = state["scale"]
    mean = scale.sq_norm[0] / max(1.0, scale.n_rows[0])
    return np.maximum(1e-37, np.sqrt(np.maximum(mean, sq_norm)))


def _rows(batch: Batch, first: int, last: int, mask: int, n_lines: int):
    """Rows as a matrix (row, line)."""
    if isinstance(batch, Dense):
        X = batch.values[first:last]
        if mask == 0:
            return X
        X = sp.csr_array(X)
        indptr, indices, values = X.indptr, X.indices, X.data
    else:
        start, stop = batch.indptr[first], batch.indptr[last]
        indptr, indices = batch.indptr[first : last + 1] - start, batch.indices[start:stop]
        values = batch.values[start:stop]
    if mask:
        indices = buckets(indices, mask)
    return sp.csr_array((values, indices, indptr), shape=(last - first, n_lines))


def predict(options: Options, state: State, batch: Batch, k: int, n_classes: int) -> Predictions:
    """The k best labels of all rows."""
    n, n_known = rows_of(batch), int(state["seen"].n_labels[0])
    n_best = min(k, n_known)
    found = Predictions.empty(n, k)
    found.work[:] = 0, 0, 0, n_known
    found.labels[:, n_best:] = np.arange(n_known, n_known + k - n_best)
    for first, last in blocks(n, max(1, _BLOCK_SCORES // max(1, n_known))):
        scores = _scores(options, state, batch, first, last)
        best_columns(scores, found.labels[first:last, :n_best], found.scores[first:last, :n_best])
    return found


def score(options: Options, state: State, batch: Batch) -> Scored:
    """All classes of all rows with their probabilities."""
    n, n_known = rows_of(batch), int(state["seen"].n_labels[0])
    sizes = np.full(n, n_known, np.int64)
    chances = np.asarray(_scores(options, state, batch, 0, n), np.float64)
    probabilities_batch(chances, sizes, options.loss)
    return Scored(sizes, np.tile(np.arange(n_known, dtype=np.int32), n), chances.ravel())


def explain(options: Options, state: State, batch: Batch, labels: list[int]) -> list[Parts]:
    """The scores of some labels for a single row, in parts."""
    columns, projection, (feature, value) = state["columns"], state["projection"], values_of(batch)
    n_known = int(state["seen"].n_labels[0])
    mask = _projection_mask(state) if options.rank else int(columns.mask[0])
    lines = buckets(feature.astype(np.int32), mask) if mask else feature
    if options.rank:  # the length of a row is that of its hashed form
        value = value / float(_sizes(state, np.square(np.bincount(lines, value)).sum()))
    out = []
    for label in labels:
        if label >= n_known:
            out.append(Parts(feature, np.zeros(len(value)), {"no training row": -math.inf}, list))
            continue
        own = columns.weight[:, label] if options.rank else columns.weight[lines, label]
        weight = projection.weight[lines].astype(np.float64) @ own if options.rank else own.astype(np.float64)
        out.append(Parts(feature, value * weight, {"bias": float(columns.bias[label])}, list))
    return out


def paths(options: Options, state: State, batch: Batch) -> list[np.ndarray]:
    """There are no nodes."""
    return [np.empty(0, np.int32)] * rows_of(batch)


def n_nodes(state: State) -> int:
    """There are no nodes."""
    return 0


def width(options: Options, state: State) -> int:
    """The most labels scored per row: all."""
    return int(state["seen"].n_labels[0])


def memory(options: Options, n_features: int, n_classes: int, n_rows: int | None = None, n_epochs: int = 1) -> int:
    """Bytes of a trained model, whatever rows it has learned."""
    n_classes = max(_FIRST_CLASSES, n_classes)
    lines, _ = _lines(n_features, options.rank or n_classes, options.table_bits)
    weights = options.rank * (lines + n_classes) if options.rank else lines * n_classes
    return 4 * (2 if _has_squares(options) else 1) * weights + 8 * n_classes + 4 * n_features


# -- files ---------------------------------------------------------------------------------------------------------


def options_from_file(values: dict) -> dict:
    """The fields of `Options` from the values in a file; those of manyclass 0.1 have words, None and a learner."""
    if "learner" not in values:
        return values
    need(values["loss"] in LOSSES, f"loss is {values['loss']!r}.")
    out = {name: value for name, value in values.items() if name != "learner"} | values["learner"].as_options()
    return {**out, "loss": LOSSES[out["loss"]], "n_negatives": out["n_negatives"] or 0, "rank": out["rank"] or 0}


def check(options: Options, state: State, n_features: int, n_classes: int, slim: bool) -> None:
    """ModelFormatError unless the kernels may run on the state."""
    need(options.loss in LOSSES.values(), f"loss is {options.loss}.")
    need(options.rank >= 0, f"rank is {options.rank}.")
    need(0 <= options.n_negatives <= MOST_NEGATIVES, f"n_negatives is {options.n_negatives}.")
    check_learner(options)
    columns, projection = state["columns"], state["projection"]
    lines, n_columns = columns.weight.shape
    mask, rank = int(columns.mask[0]), options.rank
    if rank:
        need(mask == 0 and lines == rank, f"columns.weight has {lines} lines, not the rank {rank}.")
        need(projection.weight.shape[1] == rank, f"projection.weight has the shape {projection.weight.shape}.")
        lines, mask = len(projection.weight), _projection_mask(state)
    if mask:
        fit = lines == mask + 1 and is_power(lines) and lines <= 1 << 31  # `buckets` takes and gives 32 bits
        need(fit, f"{lines} lines and the mask {mask} contradict each other.")
    else:
        need(lines == n_features, f"{lines} lines for {n_features} features.")
    check_squares("columns", columns.grad_sq, columns.weight.shape if _has_squares(options) and not slim else (1, 1))
    shape = projection.weight.shape
    check_squares("projection", projection.grad_sq, (1, shape[1]) if slim or not rank else shape)
    check_counts(state, n_features, min(n_classes, n_columns))


def slim(options: Options, state: State, n_classes: int) -> tuple[Options, State]:
    """What predictions need: no sums of squared gradients, no spare columns."""
    columns, projection = cut(state["columns"], **{"class": n_classes}), state["projection"]
    none = np.zeros((1, 1), np.float32)
    columns = columns._replace(grad_sq=none, bias_grad_sq=np.zeros_like(columns.bias))
    projection = projection._replace(grad_sq=np.zeros((1, projection.weight.shape[1]), np.float32))
    return options, {**state, "columns": columns, "projection": projection}
