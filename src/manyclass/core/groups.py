"""The schema: every array of every model, declared once with its type, dimensions, fill and merge rule.

A group is a NamedTuple of plain arrays. A number that changes is a one-element array, so that kernels can change it
and a file, a merge or a copy treats it like all the rest.
"""

from typing import Annotated, Any, NamedTuple, get_type_hints

import numpy as np


class Field(NamedTuple):
    """How one array of a group looks."""

    dtype: str
    dims: tuple[str, ...]
    fill: float = 0
    merge: str = "same"  # how two models trained apart are joined: same, sum, mean, max, min
    # Weights that a slim file may round, and what tells their size: their feature, known by column, line or entry (the
    # group's `feature`); the length of their line (the group's `sq_norm`); nothing (run). Empty: never rounded.
    rounds: str = ""


Array = np.ndarray


class Tree(NamedTuple):
    """Nodes as parallel arrays; node 0 is the root, -1 is nobody."""

    children: Annotated[Array, Field("i4", ("node", "side"), -1)]
    parent: Annotated[Array, Field("i4", ("node",), -1)]
    depth: Annotated[Array, Field("i4", ("node",))]
    n_nodes: Annotated[Array, Field("i8", ("one",), 1)]


class Linear(NamedTuple):
    """Linear predictors: (row, feature) weights, or one hashed table where `mask` is not 0."""

    weight: Annotated[Array, Field("f4", ("weight_row", "weight_column"), 0, "mean", "column")]
    grad_sq: Annotated[Array, Field("f4", ("square_row", "square_column"), 0, "sum")]
    bias: Annotated[Array, Field("f4", ("row",), 0, "mean")]
    bias_grad_sq: Annotated[Array, Field("f4", ("row",), 0, "sum")]
    mask: Annotated[Array, Field("i8", ("one",))]
    n_rows: Annotated[Array, Field("i8", ("one",))]


class Means(NamedTuple):
    """Running sums of the rows of each class: (class, feature), or one hashed table where `mask` is not 0."""

    total: Annotated[Array, Field("f4", ("total_row", "total_column"), 0, "sum", "length")]
    sq_norm: Annotated[Array, Field("f8", ("row",))]  # squared lengths of the sums
    mask: Annotated[Array, Field("i8", ("one",))]


class Counts(NamedTuple):
    """Mass of all labels that came by a node, and the bound on the recall of its candidates."""

    total: Annotated[Array, Field("f8", ("node",), 0, "sum")]
    bound: Annotated[Array, Field("f8", ("node",))]


class Candidates(NamedTuple):
    """The heaviest labels of each node, heaviest first, and the mass they cover."""

    label: Annotated[Array, Field("i4", ("node", "slot"), -1)]
    mass: Annotated[Array, Field("f8", ("node", "slot"), 0, "sum")]
    size: Annotated[Array, Field("i4", ("node",))]
    covered: Annotated[Array, Field("f8", ("node",), 0, "sum")]


class Routers(NamedTuple):
    """Fixed routers of a binary tree: each node's features, sorted, with their weights; its bias and its spread."""

    first: Annotated[Array, Field("i8", ("node_end",))]  # where a node's features begin, and end: the next one's begin
    feature: Annotated[Array, Field("i4", ("entry",), -1)]
    weight: Annotated[Array, Field("f4", ("entry",), rounds="entry")]
    bias: Annotated[Array, Field("f4", ("node",))]
    spread: Annotated[Array, Field("f4", ("node",))]  # standard deviation of the margin of a row


class Forest(NamedTuple):
    """Several binary trees whose nodes are numbered together: their roots; where a leaf's own predictors begin."""

    root: Annotated[Array, Field("i4", ("tree",))]
    own_row: Annotated[Array, Field("i4", ("node",), -1)]


class LabelTable(NamedTuple):
    """Open addressing on (node, label): its mass, and the row of its path features (-1: none yet)."""

    key: Annotated[Array, Field("i8", ("entry",), -1)]
    mass: Annotated[Array, Field("f8", ("entry",), 0, "sum")]
    path_row: Annotated[Array, Field("i4", ("entry",), -1)]
    n_entries: Annotated[Array, Field("i8", ("one",))]


class GrownTree(NamedTuple):
    """Binary nodes that may be taken out of the tree and used again; each life of a node has an identity of its own."""

    children: Annotated[Array, Field("i4", ("node", "side"), -1)]
    parent: Annotated[Array, Field("i4", ("node",), -1)]
    identity: Annotated[Array, Field("i4", ("node",))]
    n_nodes: Annotated[Array, Field("i8", ("one",), 1)]
    n_identities: Annotated[Array, Field("i8", ("one",), 1)]


class NodeMargins(NamedTuple):
    """Of each node: the rows it had as a leaf, its lightest leaf, and the sum and mass of its router's margins."""

    total: Annotated[Array, Field("f8", ("node",), 0, "sum")]
    smallest: Annotated[Array, Field("f8", ("node",))]
    margin: Annotated[Array, Field("f8", ("node",), 0, "sum")]
    taught: Annotated[Array, Field("f8", ("node",), 0, "sum")]


class MarginTable(NamedTuple):
    """Open addressing on (identity, label): mass of all rows, and the sum and mass of the margins."""

    key: Annotated[Array, Field("i8", ("entry",), -1)]
    mass: Annotated[Array, Field("f8", ("entry",), 0, "sum")]
    margin: Annotated[Array, Field("f8", ("entry",), 0, "sum")]
    taught: Annotated[Array, Field("f8", ("entry",), 0, "sum")]
    n_entries: Annotated[Array, Field("i8", ("one",))]


class MlomNodes(NamedTuple):
    """Of each node of an MLOM tree: its classes in order of their means, and the nodes out of the tree, in a chain."""

    members: Annotated[Array, Field("i4", ("node",), -1)]  # entry at the top of the ordered set; -1: no class
    mean_sum: Annotated[Array, Field("f8", ("node",))]
    next_free: Annotated[Array, Field("i4", ("node",), -1)]
    first_free: Annotated[Array, Field("i8", ("one",), -1)]
    n_free: Annotated[Array, Field("i8", ("one",))]


class MlomTable(NamedTuple):
    """Open addressing on (identity, label): the statistics of a class at a node, and its place in the ordered set."""

    key: Annotated[Array, Field("i8", ("entry",), -1)]
    mass: Annotated[Array, Field("f8", ("entry",), 0, "sum")]
    margin: Annotated[Array, Field("f8", ("entry",), 0, "sum")]
    taught: Annotated[Array, Field("f8", ("entry",), 0, "sum")]
    mean: Annotated[Array, Field("f8", ("entry",))]
    active: Annotated[Array, Field("i1", ("entry",))]  # 0: suspended
    side: Annotated[Array, Field("i1", ("entry",), -1)]  # where the class goes from here; -1: nowhere yet
    left: Annotated[Array, Field("i4", ("entry",), -1)]
    right: Annotated[Array, Field("i4", ("entry",), -1)]
    size: Annotated[Array, Field("i4", ("entry",))]
    n_entries: Annotated[Array, Field("i8", ("one",))]


class LabelTree(NamedTuple):
    """A wide tree: the outputs of an inner node are its children, those of a leaf are labels. Node 0 is the root."""

    outputs: Annotated[Array, Field("i4", ("node", "output"), -1)]
    size: Annotated[Array, Field("i4", ("node",))]
    is_leaf: Annotated[Array, Field("i1", ("node",), 1)]
    parent: Annotated[Array, Field("i4", ("node",), -1)]
    place: Annotated[Array, Field("i4", ("node",), -1)]  # which output of its parent a node is
    leaf_of: Annotated[Array, Field("i4", ("class",), -1)]
    place_of: Annotated[Array, Field("i4", ("class",), -1)]
    mass: Annotated[Array, Field("f8", ("class",), 0, "sum")]  # of the rows that had the label
    n_nodes: Annotated[Array, Field("i8", ("one",), 1)]


class Blocks(NamedTuple):
    """Weights of a wide tree: each node's table of features, and for each (node, feature) a block of all outputs."""

    first: Annotated[Array, Field("i8", ("node",))]  # where a node's table begins in `feature` and `record`
    mask: Annotated[Array, Field("i8", ("node",), -1)]  # size of the table less one
    n_used: Annotated[Array, Field("i8", ("node",))]
    feature: Annotated[Array, Field("i4", ("entry",), -1)]
    record: Annotated[Array, Field("i4", ("entry",))]
    weight: Annotated[Array, Field("f4", ("record", "place"), 0, "mean")]
    total: Annotated[Array, Field("f4", ("record", "place"), 0, "sum")]  # running sums of the rows of each output
    bias: Annotated[Array, Field("f4", ("node", "place"), 0, "mean")]
    sq_norm: Annotated[Array, Field("f8", ("node", "place"))]  # squared lengths of the sums; below 0: folded
    free: Annotated[Array, Field("i8", ("table_size",), -1)]  # first free table of each size
    n_entries: Annotated[Array, Field("i8", ("one",))]
    n_records: Annotated[Array, Field("i8", ("one",))]


class SlimBlocks(NamedTuple):
    """Weights of a wide tree for answers only: each node's features, sorted, and the weights that are not zero."""

    first: Annotated[Array, Field("i8", ("node_end",))]  # where a node's features begin, and end: the next one's begin
    feature: Annotated[Array, Field("i4", ("entry",), -1)]
    begin: Annotated[Array, Field("u4", ("entry",))]  # where a feature's weights begin
    lanes: Annotated[Array, Field("u2", ("entry", "part"))]  # a bit for each output that has a weight
    value: Annotated[Array, Field("f4", ("value",), rounds="run")]
    bias: Annotated[Array, Field("f4", ("node", "place"))]


class Scale(NamedTuple):
    """What the stream has shown of the features' sizes."""

    inverse: Annotated[Array, Field("f4", ("feature",), 0, "min")]  # 1 / largest value; 0: only zeros so far
    sq_norm: Annotated[Array, Field("f8", ("one",), 0, "sum")]
    normalized: Annotated[Array, Field("f8", ("one",), 0, "sum")]
    n_rows: Annotated[Array, Field("f8", ("one",), 0, "sum")]


class Seen(NamedTuple):
    """What was learned so far, and how the answers given before learning fared (progressive validation)."""

    n_labels: Annotated[Array, Field("i8", ("one",), 0, "max")]
    n_rows: Annotated[Array, Field("i8", ("one",), 0, "sum")]
    mass: Annotated[Array, Field("f8", ("one",), 0, "sum")]
    wrong_mass: Annotated[Array, Field("f8", ("one",), 0, "sum")]


class Run(NamedTuple):
    """How often in a row the same label came last."""

    label: Annotated[Array, Field("i8", ("one",), -1)]
    length: Annotated[Array, Field("i8", ("one",))]
    mass: Annotated[Array, Field("f8", ("one",), 0, "sum")]  # of all labels so far


class Columns(NamedTuple):
    """One-against-all weights, all classes of a feature side by side; `mask` not 0: features are hashed."""

    weight: Annotated[Array, Field("f4", ("bucket", "class"), 0, "mean", "line")]
    grad_sq: Annotated[Array, Field("f4", ("square_bucket", "square_class"), 0, "sum")]
    bias: Annotated[Array, Field("f4", ("class",), 0, "mean")]
    bias_grad_sq: Annotated[Array, Field("f4", ("class",), 0, "sum")]
    mask: Annotated[Array, Field("i8", ("one",))]


class Projection(NamedTuple):
    """The shared map of features to a few numbers in the low-rank form."""

    weight: Annotated[Array, Field("f4", ("bucket", "rank"), 0, "mean", "line")]
    grad_sq: Annotated[Array, Field("f4", ("square_bucket", "rank"), 0, "sum")]


State = dict[str, Any]  # group name -> group


def fields_of(group: type) -> dict[str, Field]:
    """The declared fields of a group type, in order."""
    hints = get_type_hints(group, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}
