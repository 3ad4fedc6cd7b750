"""Small label trees for tests: streams, states, their arrays as the plain reference, and what must always hold."""

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass.core.inputs import Csr, Dense
from manyclass.core.losses import LOSSES, SOFTMAX
from manyclass.core.protocol import Labels
from manyclass.core.state import flatten
from manyclass.label_tree import model
from manyclass.label_tree.kernels import first_bias
from manyclass.label_tree.weights import Blocks, PackedBlocks

from .label_tree import LabelTree, Node

OPTIONS = ("beam", "prior", "start", "router_start", "rate", "bias_rate")


def configure(loss="softmax", start=8.0, **changes):
    bias = 0.0 if loss == "softmax" else -start / 3
    settings = {
        "arity": 4, "beam": 2, "loss": LOSSES[loss], "multilabel": False, "prior": 0.3, "start": start,
        "router_start": start / 2, "bias": bias, "router_bias": bias / 2, "C": 3.0, "margin": 0.0, "rate": 0.7,
        "bias_rate": 0.2, "normalize": True, "n_epochs": 3, "n_trees": 1, "neighbors": False, "seed": 5,
    }  # fmt: skip
    return model.Options(**{**settings, **changes})


def loss_of(options):
    return "softmax" if options.loss == SOFTMAX else "logistic"


def stream(seed, n_rows, n_labels, sparse, most=1):
    """Rows near the centres of their labels (up to `most`, of a multilabel row perhaps none), labels and weights."""
    rng = np.random.default_rng(seed)
    n_features = 300 if sparse else 6
    kept = 0.04 if sparse else 1.0
    centres = rng.standard_normal((n_labels, n_features)) * (rng.random((n_labels, n_features)) < kept)
    noise = 0.3 * rng.standard_normal((n_rows, n_features)) * (rng.random((n_rows, n_features)) < kept)
    sizes = np.ones(n_rows, int) if most == 1 else rng.integers(0, most + 1, n_rows)
    own = [np.sort(rng.choice(n_labels, min(size, n_labels), replace=False)) for size in sizes]
    X = noise + np.array([centres[labels].sum(axis=0) for labels in own])
    pointer = np.concatenate([[0], np.cumsum([len(labels) for labels in own])])
    labels = Labels(pointer.astype(np.int64), np.concatenate([*own, []]).astype(np.int32))
    return X.astype(np.float32), labels, rng.choice([0.0, 0.5, 1.0, 6.0], n_rows, p=[0.1, 0.4, 0.4, 0.1])


def as_batch(X, sparse):
    if not sparse:
        return Dense(X)
    rows = sp.csr_array(X)
    return Csr(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data)


def grow(options, X, labels, weights, sparse=False):
    """A tree that learned rows one by one."""
    state = model.init(options, X.shape[1])
    model.learn(options, state, as_batch(X, sparse), labels, weights)
    return state


def fitted(options, X, labels, weights, sparse=False, n_labels=None, n_jobs=1):
    """A tree that learned all rows at once."""
    state = model.init(options, X.shape[1], n_labels or int(labels.label.max()) + 1)
    rows = sp.csr_array(X) if sparse else X
    model.fit(options, state, rows, as_batch(X, sparse), labels, weights, n_jobs, lambda share: None)
    return state


def bytes_of(state):
    return {name: (array.shape, array.tobytes()) for name, array in flatten(state).items()}


def own_labels(labels, i):
    return labels.label[labels.pointer[i] : labels.pointer[i + 1]].tolist()


def read_tree(options, state, suffix=""):
    """The reference with the weights of a trained tree."""
    tree, blocks, n_features = state[f"tree{suffix}"], state[f"blocks{suffix}"], len(state["scale"].inverse)
    packed, nodes = isinstance(blocks, PackedBlocks), []
    for n in range(int(tree.n_nodes[0])):
        size = int(tree.size[n])
        weight, total = np.zeros((2, n_features, size))
        if packed:
            feature, weights = model.dense_weights(blocks, n, 0.0)
            weight[feature] = weights[:, :size]
        else:
            for f, record in zip(*model.table_of(blocks, n), strict=True):
                weight[f], total[f] = blocks.weight[record, :size], blocks.total[record, :size]
        outputs, bias = tree.outputs[n, :size].tolist(), blocks.bias[n, :size].astype(float)
        where = int(tree.parent[n]), int(tree.place[n])
        nodes.append(Node(outputs, bool(tree.is_leaf[n]), *where, weight, total, bias))
    run = int(state["run"].label[0]), int(state["run"].length[0])
    return LabelTree(
        nodes, enumerate(tree.mass), run, loss=loss_of(options), **{name: getattr(options, name) for name in OPTIONS}
    )


def same_trees(one, other, rtol=1e-3, atol=1e-4):
    """Two reference trees are equal up to rounding."""
    for a, b in zip(one.nodes, other.nodes, strict=True):
        assert (a.outputs, a.is_leaf, a.parent, a.place) == (b.outputs, b.is_leaf, b.parent, b.place)
        for name in ("weight", "total", "bias"):
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=rtol, atol=atol, err_msg=name)


def depth_of(tree, node):
    """Steps from the root."""
    depth = 0
    while tree.parent[node] >= 0 and depth <= tree.n_nodes[0]:
        node, depth = tree.parent[node], depth + 1
    return depth


def check_structure(tree, arity, labels):
    """Every label has one place, every node one parent, and all leaves lie at one depth, which is returned."""
    n = int(tree.n_nodes[0])
    placed, children, depths = [], [], set()
    assert (tree.parent[0], tree.place[0]) == (-1, -1)
    for node in range(n):
        size = int(tree.size[node])
        assert 1 <= size <= arity
        assert np.all(tree.outputs[node, size:] == -1)
        outputs = tree.outputs[node, :size]
        homes, places = (tree.leaf_of, tree.place_of) if tree.is_leaf[node] else (tree.parent, tree.place)
        assert np.all(homes[outputs] == node)
        assert places[outputs].tolist() == list(range(size))
        (placed if tree.is_leaf[node] else children).extend(outputs.tolist())
        if tree.is_leaf[node]:
            depths.add(depth_of(tree, node))
    assert sorted(placed) == sorted(labels)
    assert np.all(np.delete(tree.leaf_of, placed) == -1)
    assert sorted(children) == list(range(1, n))
    assert len(depths) == 1
    return depths.pop()


def check_tree(options, state, labels, suffix=""):
    """A tree as above, whose blocks hold nothing beyond its outputs and whose lengths are those of the sums."""
    tree, blocks = state[f"tree{suffix}"], state[f"blocks{suffix}"]
    check_structure(tree, options.arity, labels)
    read, records = read_tree(options, state, suffix), []
    for number, node in enumerate(read.nodes):
        size, squares = len(node.outputs), (node.total**2).sum(axis=0)
        unused = first_bias(options, node.is_leaf)
        assert np.all(blocks.bias[number, size:] == unused)  # a new output begins with it
        if isinstance(blocks, PackedBlocks):
            assert not model.dense_weights(blocks, number, 0.0)[1][:, size:].any()
            continue
        assert blocks.sq_norm[number, :size] == pytest.approx(squares, rel=1e-4, abs=1e-6)
        assert not blocks.sq_norm[number, size:].any()
        own = model.table_of(blocks, number)[1].tolist()
        assert not blocks.weight[own, size:].any()
        assert not blocks.total[own, size:].any()
        records += own
    if isinstance(blocks, Blocks):
        assert sorted(records) == list(range(int(blocks.n_records[0])))  # each in one table
    return read
