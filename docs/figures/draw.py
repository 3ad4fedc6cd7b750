"""The drawings of the pages: python docs/figures/draw.py writes the SVG files beside this script."""

import math
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).parent
PATH, REST, LIST = "#d95f02", "#9aa0a6", "#1b9e77"


def tree(ax, arity, depth, followed):
    """Draw a tree, with the followed nodes in colour; return the x positions of the nodes of the lowest level."""
    levels = [[0.5]]
    for level in range(1, depth + 1):
        n = arity**level
        levels.append([(i + 0.5) / n for i in range(n)])
    for level in range(1, depth + 1):
        for i, x in enumerate(levels[level]):
            on = (level, i) in followed
            parent = levels[level - 1][i // arity]
            style = {"color": PATH if on else REST, "lw": 2 if on else 0.8, "zorder": 2 if on else 1}
            ax.plot([parent, x], [1 - level, -level], **style)
    for level, xs in enumerate(levels):
        for i, x in enumerate(xs):
            on = level == 0 or (level, i) in followed
            fill, edge = (PATH, PATH) if on else ("white", REST)
            ax.scatter([x], [-level], s=90 if on else 40, color=fill, edgecolors=edge, zorder=3)
    ax.set(xlim=(-0.03, 1.03), ylim=(-depth - 1.35, 0.5))
    ax.axis("off")
    return levels[-1]


def box(ax, x, y, text, color):
    """A text in a box."""
    ax.text(x, y, text, ha="center", va="top", fontsize=8.5, color=color, bbox={"fc": "white", "ec": color, "pad": 3})


def recall_tree():
    """One path in a binary tree, and the list of candidates at its end."""
    fig, ax = plt.subplots(figsize=(6.4, 3.4))
    leaves = tree(ax, 2, 3, {(1, 0), (2, 1), (3, 3)})
    ax.text(0.53, 0.08, "row: routers choose left or right", va="center", fontsize=9, color=PATH)
    box(ax, leaves[3], -3.25, "frequent labels here:\nfox, wolf, dog, jackal", LIST)
    ax.text(0.68, -3.55, "a predictor for each candidate\nchooses among them: fox", va="center", fontsize=9, color=LIST)
    fig.savefig(HERE / "recall_tree.svg", bbox_inches="tight", metadata={"Date": None})


def label_tree():
    """Several paths in a wide tree, and the labels of the leaves that they reach."""
    fig, ax = plt.subplots(figsize=(6.4, 3.2))
    leaves = tree(ax, 4, 2, {(1, 0), (1, 2), (2, 1), (2, 8), (2, 11)})
    ax.text(0.53, 0.08, "row: the best paths by probability (beam=3)", va="center", fontsize=9, color=PATH)
    for leaf, labels in ((1, "fox\nwolf\ndog"), (8, "bear\nbadger"), (11, "cat\nlynx\nlion")):
        box(ax, leaves[leaf], -2.2, labels, LIST)
    note = "each label is in one leaf;\nall labels reached\nare scored"
    ax.text(0.79, -2.55, note, va="center", fontsize=9, color=LIST)
    fig.savefig(HERE / "label_tree.svg", bbox_inches="tight", metadata={"Date": None})


def one_path(name, above, labels, below):
    """One path of a binary tree to a leaf, and the label of each leaf."""
    fig, ax = plt.subplots(figsize=(6.4, 3.2))
    leaves = tree(ax, 2, 3, {(1, 1), (2, 2), (3, 5)})
    ax.text(0.53, 0.08, above, va="center", fontsize=9, color=PATH)
    for leaf, label in enumerate(labels.split()):
        box(ax, leaves[leaf], -3.25, label, PATH if leaf == 5 else REST)
    ax.text(0.5, -4.1, below, fontsize=9, ha="center", color=PATH)
    fig.savefig(HERE / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})


def lom_tree():
    """The leaf predicts its most frequent label; a class has several leaves."""
    below = "the leaf predicts its most frequent label; a class may have several leaves"
    one_path("lom_tree", "row: routers choose left or right", "cat lynx dog fox wolf fox dog bear", below)


def mlom_tree():
    """Each class has a leaf of its own; the classes of a node are divided at the median of their means."""
    above, below = "8 classes: half of them go to each side", "each class has one leaf of its own"
    one_path("mlom_tree", above, "cat lynx lion puma wolf fox dog bear", below)


def spectral_tree():
    """Rows along the direction of a router: those near the border go both ways."""
    fig, ax = plt.subplots(figsize=(6.4, 2.6))
    place = np.linspace(-3, 3, 301)
    right = 0.5 * (1 + np.array([math.erf(x / math.sqrt(2)) for x in place]))
    ax.fill_between(place, right, color=PATH, alpha=0.35, lw=0)
    ax.fill_between(place, right, 1, color=LIST, alpha=0.35, lw=0)
    ax.axvline(0, color=REST, lw=1)
    ax.text(-2.9, 0.55, "goes left", fontsize=9, color=LIST)
    ax.text(2.9, 0.4, "goes right", fontsize=9, color=PATH, ha="right")
    ax.text(0.05, 1.03, "median: half of the rows on each side", fontsize=9, color="black")
    ax.set(xlim=(-3, 3), ylim=(0, 1.12), xlabel="place of a row along the direction (w·x − b) / σ", yticks=[])
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    fig.savefig(HERE / "spectral_tree.svg", bbox_inches="tight", metadata={"Date": None})


def layers():
    """The folders of the package; imports point down."""
    fig, ax = plt.subplots(figsize=(8.2, 4.6))
    rows = [
        (["cli"], PATH),
        (["serve", "distributed", "torch", "mlflow"], PATH),
        (["trained: a model with its reading"], REST),
        (["estimators: load_model", "many_class: the front door"], LIST),
        (["recall_tree", "label_tree", "spectral_tree", "lom_tree", "mlom_tree", "one_against_all"], LIST),
        (["core: fit, predict, files, calibration, explanations"], REST),
        (["io: tables, text, svmlight", "metrics"], REST),
        (["jit: Numba", "interrupts"], REST),
    ]
    for level, (names, color) in enumerate(rows):
        width = 1 / len(names)
        for i, name in enumerate(names):
            at = (i * width + 0.006, -level + 0.14)
            ax.add_patch(plt.Rectangle(at, width - 0.012, 0.72, fc="white", ec=color, lw=1.4))
            size = 7.8 if len(names) > 4 else 9
            ax.text((i + 0.5) * width, -level + 0.5, name, ha="center", va="center", fontsize=size)
    ax.annotate("", (1.03, -6.9), (1.03, 0.9), arrowprops={"arrowstyle": "->", "color": REST})
    ax.text(1.045, -3, "imports", rotation=270, va="center", fontsize=9, color="black")
    ax.set(xlim=(0, 1.09), ylim=(-7, 1))
    ax.axis("off")
    fig.savefig(HERE / "layers.svg", bbox_inches="tight", metadata={"Date": None})


def way_of_a_row():
    """What happens to a row in training and in prediction."""
    fig, ax = plt.subplots(figsize=(8.2, 2.2))
    fit = (
        "check options\nand data",
        "labels\n→ ids",
        "order by\nthe seed",
        "kernel: predict,\nthen learn",
        "arrays of\nthe model",
    )
    predict = (
        "check\ndata",
        "blocks,\nthreads",
        "kernel: paths,\ncandidates",
        "ids, scores,\ncounters",
        "labels,\ntop k",
    )
    for y, name, steps, color in ((1, "fit", fit, PATH), (0, "predict", predict, LIST)):
        ax.text(-0.05, y, name, fontsize=10, color=color, ha="right", va="center")
        for i, step in enumerate(steps):
            ax.add_patch(plt.Rectangle((i, y - 0.3), 0.8, 0.6, fc="white", ec=color, lw=1.4))
            ax.text(i + 0.4, y, step, ha="center", va="center", fontsize=8)
            if i:
                ax.annotate("", (i, y), (i - 0.2, y), arrowprops={"arrowstyle": "->", "color": color})
    ax.set(xlim=(-0.6, 4.85), ylim=(-0.4, 1.4))
    ax.axis("off")
    fig.savefig(HERE / "way_of_a_row.svg", bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    matplotlib.use("agg")
    plt.rcParams |= {"svg.hashsalt": "manyclass", "svg.fonttype": "none"}
    for draw in (recall_tree, label_tree, lom_tree, mlom_tree, spectral_tree, layers, way_of_a_row):
        draw()
