"""`manyclass inspect`: the size, the options and the tree of a model."""

import json
import os
import sys
from typing import Any

import numpy as np
from rich.console import Console
from rich.tree import Tree

from ..core.base import algorithm_of
from ..io import Reading
from ..metrics.calibration import figure_class
from ..trained import Trained, nodes_with_labels, open_model
from .evaluate import Section, as_text, percent, table_label
from .files import escape
from .messages import CommandError, note_written, printable
from .report import check_outputs, save_figure

_N_LABELS = 6  # labels shown per node


def run(model: str, depth: int, topics: bool, labels: bool, picture: str | None, as_json: bool) -> None:
    """Print the description of a model and draw its tree."""
    check_outputs((model,), picture)
    trained = open_model(model)
    clf = trained.estimator
    if labels:
        index = trained.estimator._index
        numbers = [number for number in range(len(index)) if index.is_current(number)]
        for number, label in zip(numbers, trained.labels(numbers), strict=True):
            print(printable(f"{number}\t{escape(label)}", sys.stdout))
        return
    nodes = [node for node in nodes_with_labels(clf) if node["depth"] <= depth]
    if picture is not None and not nodes:
        raise CommandError(f"{model}: {algorithm_of(clf)} has no tree to draw.")
    for node in nodes:
        node["n_labels"], node["labels"] = len(node["labels"]), trained.labels(node["labels"][:_N_LABELS])
    facts = _facts(trained, model)
    if as_json:
        keys = ("node", "parent", "depth", "n_labels", "labels")
        print(json.dumps({**facts, "branches": [{key: node[key] for key in keys} for node in nodes]}))
    else:
        _print_facts(facts, trained)
        if nodes and (topics or picture is None):
            print()
            kind = "candidates" if algorithm_of(clf) == "recall-tree" else "labels"
            Console(markup=False, highlight=False).print(_tree(nodes, kind, topics))
    if picture is not None:
        _draw(nodes, picture)
        note_written(picture)


def _facts(trained: Trained, path: str) -> dict[str, Any]:
    clf = trained.estimator
    plain = bool, int, float, str, type(None)
    params = clf.get_params(deep=False)
    return {
        "algorithm": algorithm_of(clf),
        "slim": clf._slim,
        "precision": _precision(clf),
        "bytes": os.path.getsize(path),
        "n_classes": clf._index.n_current,
        "n_features": clf.n_features_in_,
        "n_nodes": clf._model.n_nodes(clf._state),
        "n_trees": sum(name.startswith("tree") for name in clf._state),
        "arrays": {name: sum(array.nbytes for array in group) for name, group in clf._state.items()},
        "options": {name: value if isinstance(value, plain) else str(value) for name, value in params.items()},
        "reading": trained.reading.to_dict(),
        "training": trained.training,
    }


def _precision(clf: Any) -> str:
    """How weights are stored in the file: rounded when they were saved, or as in memory."""
    short = any(array.dtype == np.int16 for group in clf._state.values() for array in group)
    return "int16" if short and clf._precision == "float32" else clf._precision


def _print_facts(facts: dict[str, Any], trained: Trained) -> None:
    size = f"{_size(facts['bytes'])}, weights in {facts['precision']}"
    model = {
        "algorithm": facts["algorithm"],
        "size": f"{size}; slim: for prediction only" if facts["slim"] else size,
        "classes": f"{facts['n_classes']:,}",
        "features": f"{facts['n_features']:,}",
        "nodes": f"{facts['n_nodes']:,}" + (f" in {facts['n_trees']} trees" if facts["n_trees"] > 1 else ""),
        "arrays": ", ".join(f"{name} {_size(n)}" for name, n in facts["arrays"].items() if n >= 1000),
        "options": ", ".join(f"{name}={value}" for name, value in facts["options"].items()),
    }
    parts = {"Model": model, "Data": _data_facts(trained), "Training": _training_facts(trained)}
    sections = [Section(title, (), list(values.items()), (0, 1)) for title, values in parts.items() if values]
    print(printable("\n\n".join(map(as_text, sections)), sys.stdout))


def _data_facts(trained: Trained) -> dict[str, str]:
    """How data files are read, where it is not the default."""
    usual, found = Reading().to_dict(), {}
    for name, value in trained.reading.to_dict().items():
        if value not in (usual.get(name), None, []) and not isinstance(value, dict):
            found[name.replace("_", " ")] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return found


def _training_facts(trained: Trained) -> dict[str, str]:
    training, found = trained.training, {}
    if trained.n_counted:
        found["rows"] = f"{trained.n_counted:,}"
        most = np.argsort(-trained.label_counts, kind="stable")[:_N_LABELS]
        labels = zip(trained.labels(most), trained.label_counts[most].tolist(), strict=True)
        found["most frequent labels"] = ", ".join(f"{table_label(label)} ({n:,})" for label, n in labels)
    if training:
        found["epochs"] = f"{training.get('epochs', 0)}{'' if training.get('finished') else ', not finished'}"
        found["seed"] = str(training.get("seed"))
    if errors := [error for error in training.get("progressive_errors", []) if error is not None]:
        found["progressive error"] = ", ".join(percent(error) for error in errors)
    return found


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e3:,.1f} kB"


def _tree(nodes: list[dict[str, Any]], kind: str, topics: bool) -> Tree:
    branches: dict[int, Tree] = {}
    for node in nodes:
        text = f"node {node['node']}: {node['n_labels']:,} {kind}"
        if topics and node["labels"]:
            more = ["..."] if node["n_labels"] > len(node["labels"]) else []
            text += f": {', '.join([*map(str, node['labels']), *more])}"
        text = printable(text, sys.stdout)
        branches[node["node"]] = branches[node["parent"]].add(text) if branches else Tree(text)
    return branches[nodes[0]["node"]]


def _draw(nodes: list[dict[str, Any]], path: str) -> None:
    """Draw the tree from left to right; the size of a node shows the number of its labels."""
    children: dict[int, list[dict[str, Any]]] = {}
    for node in nodes:
        children.setdefault(node["parent"], []).append(node)
    leaves: list[int] = []
    height: dict[int, float] = {}

    def place(node: dict[str, Any]) -> None:
        """Leaves get the next free line, parents the middle of their children, so that edges do not cross."""
        below = children.get(node["node"], [])
        for child in below:
            place(child)
        if not below:
            leaves.append(node["node"])
        heights = [height[child["node"]] for child in below] or [float(len(leaves))]
        height[node["node"]] = sum(heights) / len(heights)

    place(nodes[0])
    depth, largest = max(node["depth"] for node in nodes), max(1, *(node["n_labels"] for node in nodes))
    figure = figure_class()(figsize=(4 + 4 * depth, max(2.5, 0.32 * len(leaves))), layout="constrained")
    axes = figure.subplots()
    for node in nodes:
        x, y, is_leaf = node["depth"], height[node["node"]], node["node"] not in children
        if node["parent"] >= 0:
            axes.plot([x - 1, x], [height[node["parent"]], y], color="0.8", linewidth=1, zorder=1)
        axes.scatter(x, y, s=20 + 180 * node["n_labels"] / largest, color="tab:blue", zorder=2)
        some = ": " + ", ".join(escape(label)[:20] for label in node["labels"][:3]) if is_leaf else ""
        style: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8, "parse_math": False}
        axes.annotate(f"{node['n_labels']:,}{some}", (x, y), (9, 0 if is_leaf else 10), **style)
    axes.set_xlim(-0.2, depth + 0.8)
    axes.invert_yaxis()
    axes.set_axis_off()
    save_figure(figure, path)
