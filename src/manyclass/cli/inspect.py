"""`manyclass inspect`: sizes, options and the tree of a model."""

import json
import os
import sys
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.tree import Tree as Picture

from .errors import CommandError
from .files import Trained, cell, open_model

_SHOWN = 6  # labels of a branch


def run(model: str, depth: int, topics: bool, labels: bool, picture: str | None, as_json: bool) -> None:
    """Print, and draw if asked."""
    if picture is not None and not picture.lower().endswith((".png", ".svg")):
        raise CommandError(f"--picture {picture}: its name must end in .png or .svg.")
    trained = open_model(model)
    if labels:
        for number, label in enumerate(trained.estimator.classes_.tolist()):
            print(f"{number}\t{cell(trained.label(label))}")
        return
    if picture is not None and not hasattr(trained.estimator._model, "tree_table"):
        raise CommandError(f"{model}: {trained.estimator._model.NAME} has no tree to draw.")
    told = facts(trained, model)
    branches = branches_of(trained, depth)
    if as_json:
        named = [{**branch, "labels": branch["labels"][:_SHOWN]} for branch in branches]
        print(json.dumps({**told, "branches": named}))
    else:
        show(told, branches if topics or not picture else [], topics)
    if picture is not None:
        draw(branches, picture)
        print(f"drew {picture}", file=sys.stderr)


def facts(trained: Trained, model: str) -> dict[str, Any]:
    """What there is to know without looking at the tree."""
    clf = trained.estimator
    state = {name: group for name, group in clf._state.items()}
    return {
        "algorithm": clf._model.NAME,
        "slim": clf._slim,
        "precision": clf._precision,
        "bytes": os.path.getsize(model),
        "n_classes": len(clf.classes_),
        "n_features": clf.n_features_in_,
        "n_nodes": clf._model.n_nodes(clf._state),
        "n_trees": sum(name.startswith("tree") for name in state) or 0,
        "arrays": {name: int(sum(array.nbytes for array in group)) for name, group in state.items()},
        "options": {name: _plain(value) for name, value in clf.get_params(deep=False).items()},
        "reading": trained.reading.to_dict(),
        "training": trained.training,
    }


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def branches_of(trained: Trained, depth: int) -> list[dict[str, Any]]:
    """The nodes down to a depth: node, parent, depth, how many labels below, and which mostly."""
    clf = trained.estimator
    rows = clf._model.tree_table(clf._state) if hasattr(clf._model, "tree_table") else []
    below = {row["node"]: row["labels"].tolist() for row in rows}
    mass = getattr(clf._state.get("tree"), "mass", None)
    if mass is not None:  # a tree with its labels in the leaves: hand them up, the most frequent first
        for row in reversed(rows[1:]):
            below[row["parent"]] += below[row["node"]]
        below = {node: sorted(labels, key=lambda label: -mass[label]) for node, labels in below.items()}
    names = clf.classes_
    out = []
    for row in rows:
        if row["depth"] <= depth:
            labels = [str(trained.label(label)) for label in names[np.array(below[row["node"]], int)].tolist()]
            kept = {name: int(row[name]) for name in ("node", "parent", "depth")}
            what = "candidates" if clf._model.NAME == "recall-tree" else "labels"
            out.append({**kept, "n_labels": len(labels), "labels": labels, "what": what})
    return out


def show(told: dict[str, Any], branches: list[dict[str, Any]], topics: bool) -> None:
    """For people."""
    out = Console(markup=False)
    table = Table("", "", box=None, show_header=False)
    for name in ("algorithm", "slim", "precision", "bytes", "n_classes", "n_features", "n_nodes", "n_trees"):
        value = told[name]
        table.add_row(name.replace("n_", "").replace("_", " "), f"{value:,}" if type(value) is int else str(value))
    for part in ("arrays", "options", "reading", "training"):
        whole = part == "options"
        told_of = {name: value for name, value in told[part].items() if whole or value not in (None, [], "")}
        commas = "," if part == "arrays" else ""
        text = ", ".join(f"{name}={value:{commas}}" for name, value in told_of.items())
        table.add_row("bytes of arrays" if part == "arrays" else part, text)
    out.print(table)
    if not branches:
        return
    picture, nodes = None, {}
    for branch in branches:
        n_shown = _SHOWN if topics else 0
        some = ", ".join(branch["labels"][:n_shown]) + (", …" if 0 < n_shown < branch["n_labels"] else "")
        text = f"node {branch['node']}: {branch['n_labels']:,} {branch['what']}{': ' if some else ''}{some}"
        node = Picture(text) if picture is None else nodes[branch["parent"]].add(text)
        picture = picture or node
        nodes[branch["node"]] = node
    out.print(picture, markup=False, highlight=False)


def _depth_first(branches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The nodes so that those below a node follow it: lines of a picture then do not cross."""
    children: dict[int, list[dict[str, Any]]] = {}
    for branch in branches:
        children.setdefault(branch["parent"], []).append(branch)
    out, left = [], list(reversed(children[-1]))
    while left:
        out.append(left.pop())
        left += reversed(children.get(out[-1]["node"], []))
    return out


def draw(branches: list[dict[str, Any]], path: str) -> None:
    """The tree as a picture: a level a column, a node as high as the labels below it."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise CommandError("--picture needs matplotlib: pip install 'manyclass[plot]'") from error
    inner = {branch["parent"] for branch in branches}
    leaves = [branch for branch in _depth_first(branches) if branch["node"] not in inner]
    place = {branch["node"]: float(at) for at, branch in enumerate(leaves)}
    for branch in reversed(branches):
        if branch["node"] not in place:
            below = [place[other["node"]] for other in branches if other["parent"] == branch["node"]]
            place[branch["node"]] = float(np.mean(below))
    deepest = max(branch["depth"] for branch in branches)
    figure = Figure(figsize=(4 + 4 * deepest, max(2.5, 0.32 * len(leaves))), layout="constrained")
    axes = figure.subplots()
    largest = max(branch["n_labels"] for branch in branches)
    for branch in branches:
        x, y = branch["depth"], place[branch["node"]]
        if branch["parent"] >= 0:
            axes.plot([x - 1, x], [place[branch["parent"]], y], color="0.8", linewidth=1, zorder=1)
        axes.scatter(x, y, s=20 + 180 * branch["n_labels"] / max(1, largest), color="tab:blue", zorder=2)
        shown = ", ".join(label[:20] for label in branch["labels"][:3])
        last = branch["node"] not in inner
        text = f"{branch['n_labels']:,}: {shown}" if last else f"{branch['n_labels']:,} {branch['what']}"
        axes.annotate(text, (x, y), xytext=(9, 0 if last else 10), textcoords="offset points", va="center", fontsize=8)
    axes.set_xlim(-0.2, deepest + 0.8)
    axes.invert_yaxis()
    axes.set_axis_off()
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.lower().endswith(".svg") else None)
