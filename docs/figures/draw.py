"""The drawings of the algorithm pages: python docs/figures/draw.py writes the SVG files beside this script."""

from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt

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
    fig.savefig(HERE / "recall_tree.svg", bbox_inches="tight", transparent=False)


def label_tree():
    """Several paths in a wide tree, and the labels of the leaves that they reach."""
    fig, ax = plt.subplots(figsize=(6.4, 3.2))
    leaves = tree(ax, 4, 2, {(1, 0), (1, 2), (2, 1), (2, 8), (2, 11)})
    ax.text(0.53, 0.08, "row: the best paths by probability (beam=3)", va="center", fontsize=9, color=PATH)
    for leaf, labels in ((1, "fox\nwolf\ndog"), (8, "bear\nbadger"), (11, "cat\nlynx\nlion")):
        box(ax, leaves[leaf], -2.2, labels, LIST)
    note = "each label is in one leaf;\nall labels reached\nare scored"
    ax.text(0.74, -2.55, note, va="center", fontsize=9, color=LIST)
    fig.savefig(HERE / "label_tree.svg", bbox_inches="tight", transparent=False)


def lom_tree():
    """One path, and the leaf predicts its most frequent label; a class has several leaves."""
    fig, ax = plt.subplots(figsize=(6.4, 3.2))
    leaves = tree(ax, 2, 3, {(1, 1), (2, 2), (3, 5)})
    ax.text(0.53, 0.08, "row: routers choose left or right", va="center", fontsize=9, color=PATH)
    for leaf, label in enumerate(["cat", "lynx", "dog", "fox", "wolf", "fox", "dog", "bear"]):
        box(ax, leaves[leaf], -3.25, label, PATH if leaf == 5 else REST)
    below = "the leaf predicts its most frequent label; a class may have several leaves"
    ax.text(0.5, -4.1, below, fontsize=9, ha="center", color=PATH)
    fig.savefig(HERE / "lom_tree.svg", bbox_inches="tight", transparent=False)


if __name__ == "__main__":
    matplotlib.use("agg")
    plt.rcParams |= {"svg.hashsalt": "manyclass", "svg.fonttype": "none"}
    for draw in (recall_tree, label_tree, lom_tree):
        draw()
