"""What every algorithm offers, as plain functions: estimators, files and services speak to these only."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .groups import State
from .inputs import Batch


class Answers(NamedTuple):
    """The best labels of some rows, and what finding them cost."""

    labels: np.ndarray  # (row, k) i4
    scores: np.ndarray  # (row, k) f8; -inf where a label was not scored
    work: np.ndarray  # (row, 4) i8: depth, nodes visited, routers scored, candidates scored


class Scored(NamedTuple):
    """Everything that was scored for some rows, row after row."""

    sizes: np.ndarray  # (row,) how many labels
    labels: np.ndarray  # (sum of sizes,) i4
    chances: np.ndarray  # (sum of sizes,) f8, summing to one over a row that has one label


class Labels(NamedTuple):
    """Labels of rows that may have several, row after row."""

    pointer: np.ndarray  # (row + 1,) i8: where a row's labels begin
    label: np.ndarray  # (label,) i4

    def rows(self, order: np.ndarray) -> "Labels":
        """The labels of some rows, in the order given."""
        sizes = self.pointer[order + 1] - self.pointer[order]
        pointer = np.concatenate([[0], np.cumsum(sizes)])
        at = np.arange(pointer[-1]) + np.repeat(self.pointer[order] - pointer[:-1], sizes)
        return Labels(pointer, self.label[at])


def as_labels(labels: Any) -> Labels:
    """One label a row as lists of labels."""
    if isinstance(labels, Labels):
        return labels
    return Labels(np.arange(len(labels) + 1, dtype=np.int64), np.ascontiguousarray(labels, np.int32))


@dataclass(frozen=True)
class ModelSpec:
    """One algorithm. `config` is a frozen dataclass of plain values and learners; `state` a dict of groups."""

    name: str
    config: type
    groups: dict[str, Any]  # of the state: its type, or several of which one fits; with None among them, it may lack
    init: Callable[[Any, int, int], State]  # (config, n_features, classes known beforehand or 0)
    learn: Callable[..., None] | None  # (config, state, batch, labels, weights, epoch); None: only all rows at once
    predict: Callable[..., Answers]  # (config, state, batch, k, n_classes)
    score: Callable[..., Scored]  # (config, state, batch)
    paths: Callable[..., list[np.ndarray]]  # (config, state, batch): nodes of each row
    n_nodes: Callable[[State], int]
    width: Callable[[Any, State], int]  # (config, state): the most labels scored for a row
    memory: Callable[[Any, int, int], int]  # (config, n_features, n_classes): bytes
    check: Callable[..., None]  # (config, state, n_features, n_classes, slim): ModelFormatError if broken
    slim: Callable[..., tuple[Any, State]]  # (config, state, n_classes, prune): what answers need, no more
    trim: Callable[[State, int], State] = lambda state, n_classes: state  # without room that nothing depends on
    tree_table: Callable[..., list[dict]] | None = None  # (state, deepest level or None): nodes, parents first
    fit: Callable[..., None] | None = None  # (config, state, X, batch, labels, weights, n_jobs, tell): all rows at once
    most_rows: int = 1 << 12  # that one call of `predict` for the best label should get
    worth_a_thread: int = 256  # rows
    answerer: Callable[..., Callable] | None = None  # (config, state, k, n_classes): answers one row at a time, faster


REGISTRY: dict[str, ModelSpec] = {}


def register(spec: ModelSpec) -> ModelSpec:
    """Make an algorithm known by its name."""
    REGISTRY[spec.name] = spec
    return spec


def rows_of(batch: Batch) -> int:
    """Number of rows of a batch."""
    return len(batch.values) if len(batch) == 1 else len(batch[0]) - 1
