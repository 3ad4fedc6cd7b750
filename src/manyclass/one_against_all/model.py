"""One-against-all: state and verbs. Predictions come from one matrix product a block, not from a loop."""

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.inputs import Batch, Dense
from ..core.invariants import check_scale, check_seen, is_power, need, need_no_pruning
from ..core.learners import Learner, slowed
from ..core.losses import LOSSES, probabilities_batch
from ..core.protocol import Predictions, Scored, rows_of
from ..core.state import Columns, Projection, Scale, Seen, State, cut, make, resize
from ..core.topk import best_columns
from . import columns as column_kernels
from . import kernels as kernel

_FIRST_CLASSES = 16
_BLOCK_SCORES = 1 << 23  # scores held at once: 32 MB

NAME = "one-against-all"


class Config(NamedTuple):
    """All that one-against-all was asked to do."""

    loss: str
    n_negatives: int | None
    rank: int | None
    table_bits: int
    learner: Learner
    seed: int


def _options(config: Config, epoch: int = 0) -> kernel.Options:
    learner = slowed(config.learner, epoch)
    return kernel.Options(
        loss=LOSSES[config.loss],
        n_negatives=int(config.n_negatives or 0),
        rank=int(config.rank or 0),
        update=learner.update,
        rate=float(learner.rate),
        seed=int(config.seed),
    )


def _lines(n_features: int, n_columns: int, table_bits: int) -> tuple[int, int]:
    """(lines, mask): one line a feature while the weights fit into the table, fewer hashed ones otherwise."""
    if n_features * n_columns <= 1 << table_bits:
        return n_features, 0
    lines = 1 << max(1, math.floor(math.log2((1 << table_bits) / n_columns)))
    return lines, lines - 1


def _make_columns(n_lines: int, mask: int, n_classes: int, adaptive: bool) -> Columns:
    squares = (n_lines, n_classes) if adaptive else (1, 1)
    sizes = {"bucket": n_lines, "class": n_classes, "square_bucket": squares[0], "square_class": squares[1]}
    columns: Columns = make(Columns, **sizes)
    columns.mask[0] = mask
    return columns


def init(config: Config, n_features: int, n_classes: int = 0) -> State:
    """Room for the classes known beforehand; the low-rank form starts from a random map."""
    n_classes = max(_FIRST_CLASSES, n_classes)
    adaptive = config.learner.adaptive or bool(config.rank)
    rank = config.rank or 1
    n_lines, mask = _lines(n_features, rank if config.rank else n_classes, config.table_bits)
    projection_lines = n_lines if config.rank else 1
    projection: Projection = make(Projection, bucket=projection_lines, square_bucket=projection_lines, rank=rank)
    if config.rank:
        columns = _make_columns(rank, 0, n_classes, adaptive)
        start = np.random.default_rng(config.seed).standard_normal(projection.weight.shape)
        projection.weight[:] = start / math.sqrt(rank)
    else:
        columns = _make_columns(n_lines, mask, n_classes, adaptive)
    return {
        "columns": columns,
        "projection": projection,
        "scale": make(Scale, feature=n_features),
        "seen": make(Seen),
    }


def _projection_mask(state: State) -> int:
    lines, n_features = len(state["projection"].weight), len(state["scale"].inverse)
    return 0 if lines == n_features else lines - 1


def learn(config: Config, state: State, batch: Batch, labels, weights, epoch: int = 0, n_jobs: int = 1) -> None:
    """Learn all rows in turn, making room whenever the kernel asks for it. Mutates: state."""
    options, begin = _options(config, epoch), 0
    while True:
        groups = [state["columns"], state["scale"], state["seen"]]
        rows = [batch, labels, weights, begin, options]
        if config.rank:
            groups[1:1] = [state["projection"], _projection_mask(state)]
            begin = kernel.learn_low_rank_batch(*groups, *rows)
        else:
            begin = kernel.learn_batch(*groups, *rows)
        if begin == len(labels):
            return
        _make_room(config, state, int(labels[begin]))


def _make_room(config: Config, state: State, label: int) -> None:
    """More columns; fewer, hashed lines where the table would become too large."""
    columns: Columns = state["columns"]
    n_classes = max(label + 1, len(columns.bias) * 3 // 2)
    n_features = len(state["scale"].inverse)
    n_lines, mask = _lines(n_features, n_classes, config.table_bits)
    if config.rank or (mask == 0 and columns.mask[0] == 0):
        grown = {"class": n_classes}
        if columns.grad_sq.size > 1:
            grown["square_class"] = n_classes
        state["columns"] = resize(columns, **grown)
        return
    folded = _make_columns(n_lines, mask, n_classes, columns.grad_sq.size > 1)
    column_kernels.fold(columns, folded)
    state["columns"] = folded


def _scores(config: Config, state: State, batch: Batch, first: int, last: int) -> np.ndarray:
    """Scores of all classes met so far, by one matrix product."""
    columns, n_known = state["columns"], int(state["seen"].n_labels[0])
    mask = _projection_mask(state) if config.rank else int(columns.mask[0])
    n_lines = len(state["projection"].weight) if config.rank else len(columns.weight)
    X = _rows(batch, first, last, mask, n_lines)
    weight = columns.weight[:, :n_known]
    if not config.rank:
        return np.asarray(X @ weight) + columns.bias[:n_known]
    scale = state["scale"]
    wide = X.astype(np.float64)
    sq_norm = (wide * wide).sum(axis=1)
    mean = scale.sq_norm[0] / max(1.0, scale.n_rows[0])
    size = np.maximum(1e-37, np.sqrt(np.maximum(mean, sq_norm)))
    hidden = np.asarray(X @ state["projection"].weight) / size[:, None].astype(np.float32)
    return hidden @ weight + columns.bias[:n_known]


def _rows(batch: Batch, first: int, last: int, mask: int, n_lines: int):
    """Rows as a matrix over lines."""
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
        indices = column_kernels.buckets(indices, mask)
    return sp.csr_array((values, indices, indptr), shape=(last - first, n_lines))


def _blocks(state: State, n: int):
    """Row ranges whose scores fit into a bounded block."""
    step = max(1, _BLOCK_SCORES // max(1, int(state["seen"].n_labels[0])))
    for first in range(0, n, step):
        yield first, min(n, first + step)


def predict(config: Config, state: State, batch: Batch, k: int, n_classes: int) -> Predictions:
    """The k best labels of all rows."""
    n, n_known = rows_of(batch), int(state["seen"].n_labels[0])
    n_best = min(k, n_known)
    answers = Predictions(
        np.empty((n, k), np.int32),
        np.full((n, k), -np.inf),
        np.tile(np.array([0, 0, 0, n_known], np.int64), (n, 1)),
    )
    answers.labels[:, n_best:] = np.arange(n_known, n_known + k - n_best)
    for first, last in _blocks(state, n):
        scores = _scores(config, state, batch, first, last)
        best_columns(scores, answers.labels[first:last, :n_best], answers.scores[first:last, :n_best])
    return answers


def score(config: Config, state: State, batch: Batch) -> Scored:
    """All classes of all rows with their probabilities."""
    n, n_known = rows_of(batch), int(state["seen"].n_labels[0])
    sizes = np.full(n, n_known, np.int64)
    chances = np.asarray(_scores(config, state, batch, 0, n), np.float64)
    probabilities_batch(chances, sizes, LOSSES[config.loss])
    return Scored(sizes, np.tile(np.arange(n_known, dtype=np.int32), n), chances.ravel())


def paths(config: Config, state: State, batch: Batch) -> list[np.ndarray]:
    """No tree, no nodes."""
    return [np.empty(0, np.int32)] * rows_of(batch)


def memory(config: Config, n_features: int, n_classes: int) -> int:
    """Bytes of a trained model, from sizes alone."""
    n_classes = max(_FIRST_CLASSES, n_classes)
    adaptive = 2 if config.learner.adaptive or config.rank else 1
    if config.rank:
        lines, _ = _lines(n_features, config.rank, config.table_bits)
        return 8 * config.rank * (lines + n_classes) + 8 * n_classes + 4 * n_features
    lines, _ = _lines(n_features, n_classes, config.table_bits)
    return 4 * adaptive * lines * n_classes + 8 * n_classes + 4 * n_features


def n_nodes(state: State) -> int:
    """No tree, no nodes."""
    return 0


def width(config: Config, state: State) -> int:
    """The most labels scored for a row: all."""
    return int(state["seen"].n_labels[0])


GROUPS = {"columns": Columns, "projection": Projection, "scale": Scale, "seen": Seen}


def check(config: Config, state: State, n_features: int, n_classes: int, slim: bool) -> None:
    """Everything that the kernels trust."""
    need(config.loss in LOSSES, f"the loss is {config.loss!r}.")
    need(8 <= config.table_bits <= 40, f"table_bits is {config.table_bits}.")
    need(config.rank is None or config.rank > 0, f"rank is {config.rank}.")
    need(config.n_negatives is None or 0 < config.n_negatives < 1 << 24, f"n_negatives is {config.n_negatives}.")
    columns, projection = state["columns"], state["projection"]
    lines, room = columns.weight.shape
    mask = int(columns.mask[0])
    lines_of_features = lines
    if config.rank:
        need(mask == 0 and lines == config.rank, f"columns.weight has {lines} lines, not the rank {config.rank}.")
        need(projection.weight.shape[1] == config.rank, f"projection.weight has the shape {projection.weight.shape}.")
        lines_of_features = len(projection.weight)
        mask = _projection_mask(state)
    if mask:
        fits = lines_of_features == mask + 1 and is_power(mask + 1)
        need(fits, f"{lines_of_features} lines and the mask {mask} do not go together.")
    else:
        need(lines_of_features == n_features, f"{lines_of_features} lines for {n_features} features.")
    squares = (config.learner.adaptive or bool(config.rank)) and not slim
    for name, group, needed in (("columns", columns, squares), ("projection", projection, squares and config.rank)):
        shape = group.grad_sq.shape
        fits = shape == group.weight.shape or (shape[0] == 1 and not needed)
        need(fits, f"{name}.grad_sq has the shape {shape}, not that of the weights.")
    check_scale(state["scale"], n_features)
    check_seen(state["seen"], min(n_classes, room))


def slim(config: Config, state: State, n_classes: int, prune: float = 0.0) -> tuple[Config, State]:
    """What answers need: no sums of squared gradients, no room for more classes."""
    need_no_pruning(prune)
    columns, projection = cut(state["columns"], **{"class": n_classes}), state["projection"]
    none = np.zeros((1, 1), np.float32)
    columns = columns._replace(grad_sq=none, bias_grad_sq=np.zeros_like(columns.bias))
    projection = projection._replace(grad_sq=np.zeros((1, projection.weight.shape[1]), np.float32))
    return config, {**state, "columns": columns, "projection": projection}


Options = Config


def options_from_file(values: dict) -> dict:
    """The fields of `Options` from the values in a file."""
    return values
