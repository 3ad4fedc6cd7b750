"""A `TreeHead` as a label tree with one level of routers, and back.

Node 0 is the root, whose outputs are the leaves 1..n_clusters; a leaf has the classes of a cluster. The label tree
divides rows by the typical length R of the training rows, so that its weights are R times those of the head.
"""

import math
from typing import Any

import numpy as np
import torch

from ..core.classes import ClassIndex
from ..core.losses import SOFTMAX
from ..core.state import Scale, Seen, make
from ..label_tree.estimator import LabelTreeClassifier
from ..label_tree.fit import empty_blocks
from ..label_tree.kernels import LabelTree, Run
from ..label_tree.model import MOST_OUTPUTS, MOST_PATHS, check_label_tree, dense_weights, starts_of
from ..label_tree.weights import enter_nodes, table_size

_RATE = 0.5  # of learning after training on a GPU
_SPARE = 1.1  # outputs per node, for new classes and clusters


def to_label_tree(head: Any, classes: Any = None) -> LabelTreeClassifier:
    """The label tree that predicts like the head."""
    labels = np.arange(head.n_classes) if classes is None else np.asarray(classes)
    if labels.shape != (head.n_classes,):
        raise ValueError(f"classes has the shape {labels.shape}, expected {(head.n_classes,)}.")
    n_rows, sq_length = float(head.n_inputs), float(head.input_scale)
    if not sq_length > 0:
        raise ValueError("The head has seen no inputs, whose length the label tree needs: train it first.")
    n_clusters, places, n_features = head.weight.shape
    arity = min(16 * math.ceil(max(n_clusters, places) * _SPARE / 16), MOST_OUTPUTS)
    if arity < max(n_clusters, places):
        raise ValueError(
            f"The head has {n_clusters} clusters of {places} places, a label tree has at most {MOST_OUTPUTS} outputs "
            "per node: call rebuild with another cluster_size."
        )
    beam = min(head.visit, n_clusters, MOST_PATHS)
    model = LabelTreeClassifier(arity=arity, beam=beam, start=0, prior=0, rate=_RATE, normalize=False, neighbors=False)
    model._online, model.n_features_in_, model.history_ = True, n_features, []
    model._index = ClassIndex(labels)
    if len(model._index) != len(labels):
        raise ValueError("classes contains a label twice.")
    options = model._resolve_options(n_features, False, 0)
    model._options = options._replace(bias=float(head.bias.detach().flatten()[head.slot_of].float().mean()))
    model._state = {
        "tree": _tree(head, arity, n_rows),
        "blocks": _blocks(head, model._options, math.sqrt(sq_length)),
        "scale": make(Scale, feature=n_features),
        "seen": make(Seen),
        "run": make(Run),
    }
    model._state["scale"].n_rows[0], model._state["scale"].sq_norm[0] = n_rows, n_rows * sq_length
    model._state["seen"].n_rows[0], model._state["seen"].n_labels[0] = int(n_rows), len(labels)
    model._state["run"].mass[0] = model._state["tree"].mass.sum()
    return model


def _tree(head: Any, arity: int, n_rows: float) -> LabelTree:
    n, n_classes = head.n_clusters, head.n_classes
    tree = make(LabelTree, node=n + 1, output=arity, **{"class": n_classes})
    slot, places = head.slot_of.cpu().numpy(), head.weight.shape[1]
    tree.n_nodes[0], tree.is_leaf[0] = n + 1, 0
    tree.size[0], tree.size[1:] = n, head.size.cpu().numpy()
    tree.outputs[0, :n] = np.arange(1, n + 1)
    tree.outputs[1:, :places] = head.class_of.cpu().numpy()
    tree.parent[1:], tree.place[1:] = 0, np.arange(n)
    tree.leaf_of[:], tree.place_of[:] = slot // places + 1, slot % places
    tree.mass[:] = max(1.0, n_rows / n_classes)
    check_label_tree(tree, arity, n_classes)
    return tree


def _blocks(head: Any, options: Any, length: float) -> Any:
    """Every node knows every feature: a block has the weights of all outputs for one feature."""
    (n, places, n_features), n_nodes = head.weight.shape, head.n_clusters + 1
    blocks = empty_blocks(options, n_nodes, n_nodes * int(table_size(n_features)), n_nodes * n_features)
    weight = blocks.weight.reshape(n_nodes, n_features, -1)
    used = torch.arange(places, device=head.weight.device) < head.size[:, None]
    weight[0, :, :n] = length * head.router.weight.detach().float().cpu().numpy().T
    for cluster in range(n):  # one at a time: no copy of all weights
        own = head.weight[cluster].detach().float() * used[cluster, :, None]
        weight[cluster + 1, :, :places] = length * own.cpu().numpy().T
    blocks.bias[0, :n] = head.router.bias.detach().float().cpu().numpy()
    blocks.bias[1:, :] = options.bias  # of classes to come
    blocks.bias[1:, :places][used.cpu().numpy()] = head.bias.detach().float()[used].cpu().numpy()
    features = np.tile(np.arange(n_features, dtype=np.int32), n_nodes)
    enter_nodes(blocks, np.arange(n_nodes), np.full(n_nodes, n_features), features)
    return blocks


def read_label_tree(model: Any) -> tuple[list[np.ndarray], tuple, list[tuple], list[float]]:
    """(classes of each cluster, weights and biases of routers, those of each cluster, rows and mean squared length)."""
    state: dict[str, Any] = getattr(model, "_state", {})
    options: Any = getattr(model, "_options", None)
    _need(isinstance(model, LabelTreeClassifier) and "tree" in state, f"{type(model).__name__} is not a label tree.")
    tree, blocks, scale = state["tree"], state["blocks"], state["scale"]
    n = int(tree.n_nodes[0])
    _need(options.loss == SOFTMAX and not options.multilabel, "it was trained with fit or has several labels per row.")
    _need(not options.normalize and "scaling" not in state, "it scales rows or columns.")
    _need(model._prediction_options().prior == 0, "its paths count in scores: call set_params(prior=0) first.")
    _need(model._index.target is None, "it has removed or merged classes.")
    _need((tree.leaf_of[: len(model._index)] >= 0).all(), "a class has no training rows yet.")
    one_level = not tree.is_leaf[0] and tree.is_leaf[1:n].all()
    _need(one_level and "tree_1" not in state, "it has not exactly one level of routers: train it with a larger arity.")
    length = math.sqrt(scale.sq_norm[0] / scale.n_rows[0])
    starts = starts_of(options, tree)

    def node(number: int) -> tuple[np.ndarray, np.ndarray]:
        size = tree.size[number]
        feature, known = dense_weights(blocks, number, starts[number])
        weight = np.zeros((size, model.n_features_in_), np.float32)
        weight[:, feature] = known[:, :size].T / length
        return weight, blocks.bias[number, :size].copy()

    order = tree.outputs[0, : tree.size[0]]
    groups = [tree.outputs[leaf, : tree.size[leaf]].astype(np.int64) for leaf in order]
    return groups, node(0), [node(leaf) for leaf in order], [float(scale.n_rows[0]), length**2]


def _need(holds: Any, reason: str) -> None:
    if not holds:
        raise ValueError(f"The model cannot become a TreeHead: {reason}")
