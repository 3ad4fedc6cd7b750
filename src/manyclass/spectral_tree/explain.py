"""Spectral tree: the score of a label in parts, and the decisions on the path to its leaf."""

import math
from typing import Any

import numpy as np

from ..core.explanation import Parts, Step, values_of
from ..core.inputs import Batch
from ..core.linear import weights_of
from ..core.state import State
from .filter import find_candidates, nodes_of, unit_rows
from .kernels import OWN_BIAS, OWN_WEIGHTS, Options


def explain(options: Options, state: State, batch: Batch, labels: list[int]) -> list[Parts]:
    """The scores of some labels for a single row, in parts."""
    unit = unit_rows(options, batch)
    found = find_candidates(options, nodes_of(state, len(state["scale"].inverse)), None, unit)
    leaves = [int(leaf) for leaf in found.leaf[0] if leaf >= 0]
    row = feature, value = values_of(unit)
    steps = {leaf: path_to(state, row, leaf) for leaf in leaves}
    home = homes(options, state, steps, labels)
    out = []
    for label in labels:
        leaf, place = home.get(label, (leaves[0], -1))
        weight, terms = _weights(options, state, feature, label, leaf, place)
        if not terms:
            out.append(Parts(feature, np.zeros(len(value)), {"no training row": -math.inf}, list))
            continue
        out.append(Parts(feature, value * weight, terms, steps[leaf].copy))
    return out


def _weights(
    options: Options, state: State, feature: np.ndarray, label: int, leaf: int, place: int
) -> tuple[np.ndarray, dict[str, float]]:
    """The weights of a label for some features, and its biases; no bias if it has no predictor at all."""
    rank = options.rank
    seen = np.arange(rank) if rank else feature
    weight, terms = np.zeros(len(seen)), {}
    if options.shared and label < len(state["scorer"].bias):
        terms["bias"] = float(state["scorer"].bias[label])
        weight = weight + weights_of(state["scorer"], label, seen)
    own = int(state["forest"].own_row[leaf]) + place
    if place >= 0 and options.own in (OWN_BIAS, OWN_WEIGHTS):
        terms[f"bias of leaf {leaf}"] = float(state["own"].bias[own])
        if options.own == OWN_WEIGHTS:
            weight = weight + weights_of(state["own"], own, seen)
    return (state["projection"].weight[feature].astype(np.float64) @ weight if rank else weight), terms


def path_to(state: State, row: tuple, leaf: int) -> list[Step]:
    """The decisions from the root to a leaf."""
    tree, routers, (feature, value) = state["tree"], state["routers"], row
    out: list[Step] = []
    child = leaf
    while tree.parent[child] >= 0:
        node = int(tree.parent[child])
        first, last = (int(end) for end in routers.first[node : node + 2])
        at = first + np.searchsorted(routers.feature[first:last], feature)
        known = at < last
        known[known] = routers.feature[at[known]] == feature[known]
        sign = 1.0 if tree.children[node, 1] == child else -1.0
        contribution = np.zeros(len(value))
        contribution[known] = sign * value[known] * routers.weight[at[known]]
        bias = -sign * float(routers.bias[node])
        margin = bias + float(contribution.sum())
        chance = 0.5 * math.erfc(-margin / (math.sqrt(2.0) * float(routers.spread[node])))  # [ST §3.4]
        out.append(Step(node, child, chance, margin, bias, contribution))
        child = node
    return out[::-1]


def homes(options: Options, state: State, steps: dict[int, list[Step]], labels: list[int]) -> dict[int, tuple]:
    """The leaf where each label is likeliest, and its place there. As `kernels.merge_leaves`."""
    candidates: Any = state["candidates"]
    chance, out = dict.fromkeys(labels, -1.0), {}
    for leaf, path in steps.items():
        factor = math.prod(step.probability for step in path) if options.beam > 1 else 1.0
        factor /= max(float(state["counts"].total[leaf]), 1e-300)
        own = candidates.label[leaf, : candidates.size[leaf]]
        for label in labels:
            for place in np.flatnonzero(own == label)[:1].tolist():
                found = factor * float(candidates.mass[leaf, place])
                if found > chance[label]:
                    chance[label], out[label] = found, (leaf, place)
    return out
