"""Label tree: online learning and answers. The rules are in `kernels/label_tree.py`."""

from typing import Any

import numpy as np

from ..core.inputs import Batch
from ..core.losses import SOFTMAX, probabilities_batch
from ..core.protocol import Predictions, Scored, as_labels, rows_of
from ..core.state import LabelTree, Run, Scale, Seen, State, copy, make, resize
from . import answers as answer_kernels
from . import kernels as kernel
from .growth import first_bias
from .state import Config, block_width, empty_blocks, longest_row, options_of, suffix_of, trees_of
from .weights import table_size, unfold

_FIRST_NODES, _FIRST_CLASSES, _FIRST_ENTRIES, _FIRST_RECORDS = 16, 16, 1 << 12, 1 << 11

from .file import GROUPS, check, slim, trim  # noqa: F401  (part of the model's functions)
from .fit import fit  # noqa: F401  (part of the model's functions)

NAME = "label-tree"


def init(config: Config, n_features: int, n_classes: int = 0) -> State:
    """A tree that is only a root without labels."""
    n_classes = max(_FIRST_CLASSES, n_classes)
    state = {
        "tree": make(LabelTree, node=_FIRST_NODES, output=config.arity, **{"class": n_classes}),
        "blocks": empty_blocks(config, _FIRST_NODES, _FIRST_ENTRIES, _FIRST_RECORDS),
        "scale": make(Scale, feature=n_features),
        "seen": make(Seen),
        "run": make(Run),
    }
    state["blocks"].bias[0] = first_bias(state["tree"], 0, options_of(config))
    return state


# -- online ----------------------------------------------------------------------------------------------------


def learn(config: Config, state: State, batch: Batch, labels: Any, weights: np.ndarray, epoch: int = 0, n_jobs: int = 1) -> None:
    """Learn all rows in turn, making room whenever the kernel asks for it. Mutates: state."""
    options = options_of(config)
    given = as_labels(labels)
    longest = longest_row(batch)
    most_labels = int(np.diff(given.pointer).max(initial=0))
    names = ("scale", "seen", "run")
    before = [copy(state[name]) for name in names]
    for number, (tree, blocks) in enumerate(trees_of(state)):
        # What is counted over rows is counted once: further trees count in copies.
        counted = [state[name] if number == 0 else copy(group) for name, group in zip(names, before, strict=True)]
        if (blocks.sq_norm < 0.0).any():  # the running sums move from now on
            unfold(blocks, np.where(tree.is_leaf != 0, config.start, config.router_start))
        begin = 0
        while begin < len(weights):
            begin = kernel.learn_batch(
                tree, blocks, *counted, batch, *given, weights, begin, options, longest, most_labels
            )
            if begin < len(weights):
                own = given.label[given.pointer[begin] : given.pointer[begin + 1]]
                _make_room(state, suffix_of(number), int(own.max(initial=0)))
                tree, blocks = trees_of(state)[number]


def _make_room(state: State, suffix: str, label: int) -> None:
    """Enlarge what the next row would not fit into: all that is at least half full is doubled."""
    tree, blocks = state[f"tree{suffix}"], state[f"blocks{suffix}"]
    new = {}
    if label >= len(tree.leaf_of):
        new[f"tree{suffix}"] = resize(tree, **{"class": 1 << label.bit_length()})
    else:
        sizes = {"node": len(tree.parent), "entry": len(blocks.feature), "record": len(blocks.weight)}
        used = {"node": tree.n_nodes[0], "entry": blocks.n_entries[0], "record": blocks.n_records[0]}
        fullest = max(sizes, key=lambda name: used[name] / max(sizes[name], 1))
        least = {"node": _FIRST_NODES, "entry": _FIRST_ENTRIES, "record": _FIRST_RECORDS}
        wanted = [name for name in sizes if name == fullest or 2 * used[name] >= sizes[name]]
        grown = {name: max(2 * sizes[name], least[name]) for name in wanted}
        new[f"blocks{suffix}"] = resize(blocks, **grown)
        if "node" in grown:
            new[f"tree{suffix}"] = resize(tree, node=grown["node"])
    state.update(new)  # all at once: arrays that disagree in size would be written past


# -- answers ---------------------------------------------------------------------------------------------------


def _room_for(n: int, k: int) -> Predictions:
    return Predictions(np.empty((n, k), np.int32), np.empty((n, k)), np.zeros((n, 4), np.int64))


def _answer(config: Config, state: State, batch: Batch, k: int) -> Predictions:
    """The k best labels: with several trees, those whose mean probability is highest. -1 where fewer were reached."""
    n, trees, options = rows_of(batch), trees_of(state), options_of(config)
    answers = _room_for(n, k)
    if len(trees) == 1:
        answer_kernels.answer_batch(*trees[0], state["scale"], batch, options, *answers, answer_kernels.BEST)
        return answers
    most = _most_labels(config, state)
    labels, scores = np.empty((len(trees), n, most), np.int32), np.empty((len(trees), n, most))
    for number, tree in enumerate(trees):
        answer_kernels.answer_batch(
            *tree, state["scale"], batch, options, labels[number], scores[number], answers.work, answer_kernels.ALL
        )
    answers.work[:, 0] //= len(trees)  # depth is no sum
    answer_kernels.merge_batch(labels, scores, not config.multilabel, answers.labels, answers.scores)
    return answers


def _to_chances(config: Config, answers: Predictions) -> np.ndarray:
    """Turn the scores of all labels reached into probabilities, in place; return how many labels a row has."""
    sizes = (answers.labels >= 0).sum(axis=1)
    if config.multilabel:
        np.exp(answers.scores, out=answers.scores)  # logarithms of probabilities
    else:
        probabilities_batch(answers.scores, sizes, SOFTMAX)
    return sizes


def predict(config: Config, state: State, batch: Batch, k: int, n_classes: int) -> Predictions:
    """The k best labels of all rows; where fewer were reached, some others with score -inf."""
    answers = _answer(config, state, batch, k)
    short = np.flatnonzero(answers.labels[:, -1] < 0)
    for r in short:
        known = answers.labels[r][answers.labels[r] >= 0]
        missing = k - len(known)
        fill = np.arange(min(n_classes, k + missing), dtype=np.int32)
        answers.labels[r, len(known) :] = fill[~np.isin(fill, known)][:missing]
    return answers


def score(config: Config, state: State, batch: Batch) -> Scored:
    """All labels reached by all rows with their probabilities."""
    answers = _answer(config, state, batch, width(config, state))
    if len(trees_of(state)) > 1:  # logarithms of mean probabilities
        sizes = (answers.labels >= 0).sum(axis=1)
        np.exp(answers.scores, out=answers.scores)
    else:
        sizes = _to_chances(config, answers)
    used = answers.labels >= 0
    return Scored(sizes, answers.labels[used], answers.scores[used])


def paths(config: Config, state: State, batch: Batch) -> list[np.ndarray]:
    """The nodes above and at the leaves that each row reaches."""
    tree = state["tree"]
    answers = _room_for(rows_of(batch), config.beam)
    answer_kernels.answer_batch(
        *trees_of(state)[0], state["scale"], batch, options_of(config), *answers, answer_kernels.LEAVES
    )
    out = []
    for leaves in answers.labels:
        nodes, level = [], np.unique(leaves[leaves >= 0])
        while len(level) and level[0] >= 0:
            nodes.append(level)
            level = np.unique(tree.parent[level])
        out.append(np.unique(np.concatenate(nodes)))
    return out


def n_nodes(state: State) -> int:
    """Nodes of the tree."""
    return int(state["tree"].n_nodes[0])


def tree_table(state: State, max_depth: int | None = None) -> list[dict]:
    """The nodes down to a depth, parents before children, with the labels of leaves."""
    tree = state["tree"]
    rows = []
    level, depth = [0], 0
    while level and (max_depth is None or depth <= max_depth):
        below: list[int] = []
        for node in level:
            outputs = tree.outputs[node, : tree.size[node]]
            leaf = bool(tree.is_leaf[node])
            labels = outputs if leaf else outputs[:0]
            rows.append({"node": node, "parent": int(tree.parent[node]), "depth": depth, "labels": labels})
            below += [] if leaf else outputs.tolist()
        level, depth = below, depth + 1
    return rows


def _most_labels(config: Config, state: State) -> int:
    """The most labels that one tree scores for a row."""
    # A bound from sizes alone: this is asked for every row.
    return max(1, min(config.beam * config.arity, len(state["tree"].leaf_of)))


def width(config: Config, state: State) -> int:
    """The most labels scored for a row."""
    return len(trees_of(state)) * _most_labels(config, state)


def memory(config: Config, n_features: int, n_classes: int) -> int:
    """Bytes of a trained model where every node knows every feature: right for dense rows, far too much for text."""
    n_leaves = -(-4 * n_classes // (3 * config.arity))  # leaves are three quarters full
    n_nodes = n_leaves + -(-n_leaves // (config.arity // 2)) + 1
    width = block_width(config)
    node = n_features * 8 * width + 8 * int(table_size(n_features)) + 12 * width + 4 * config.arity + 40
    return config.n_trees * (n_nodes * node + 16 * n_classes) + 4 * n_features


Options = Config


def options_from_file(values: dict) -> dict:
    """The fields of `Options` from the values in a file."""
    return values
