"""
A tree with its topics
======================

The label tree groups similar labels. It finds out by itself which labels are similar, from the words of the training
rows. This example draws the upper levels of the tree of 4,796 WordNet categories, with the most frequent categories
below each node.
"""

import matplotlib.pyplot as plt
import numpy as np

from manyclass import LabelTreeClassifier
from manyclass.datasets import load_wordnet, tfidf_transformer

wordnet = load_wordnet()
tfidf = tfidf_transformer().fit(wordnet.X_train)
model = LabelTreeClassifier(random_state=0, n_jobs=-1).fit(tfidf.transform(wordnet.X_train), wordnet.y_train)
print(f"accuracy {model.score(tfidf.transform(wordnet.X_test), wordnet.y_test):.3f}")

# %%
# `tree_table` lists the nodes, parents first. Only leaves have labels, so pass them up to the nodes above.
nodes = {node["node"]: dict(node, labels=list(node["labels"]), children=[]) for node in model.tree_table()}
for node in reversed(nodes.values()):
    if node["parent"] >= 0:
        nodes[node["parent"]]["labels"] += node["labels"]
        nodes[node["parent"]]["children"].insert(0, node)
frequency = np.bincount(wordnet.y_train)
names = [name.split(".")[0].replace("_", " ") for name in wordnet.label_names]


def topic(node, n):
    """The n most frequent labels below a node."""
    best = sorted(node["labels"], key=lambda label: -frequency[label])
    return ", ".join(dict.fromkeys(names[label] for label in best[: 2 * n])).split(", ")[:n]


# %%
# Draw the root, its children, and the children of these.
fig, ax = plt.subplots(figsize=(9, 10))
row, middles = 0, []
for branch in nodes[0]["children"]:
    rows = row + np.arange(len(branch["children"]))
    for at, child in zip(rows, branch["children"], strict=True):
        ax.text(0.62, at, ", ".join(topic(child, 3)), va="center", fontsize=8)
        ax.plot([0.52, 0.61], [rows.mean(), at], color="0.7", lw=0.8)
    ax.text(0.31, rows.mean(), "\n".join(topic(branch, 3)), va="center", fontsize=9, weight="bold")
    middles.append(rows.mean())
    row = rows[-1] + 1.7
for middle in middles:
    ax.plot([0.12, 0.3], [np.mean(middles), middle], color="0.5", lw=1)
ax.text(0.11, np.mean(middles), f"all\n{len(names):,}\nlabels", va="center", ha="right", weight="bold")
ax.set(xlim=(0, 1), ylim=(row, -1))
ax.axis("off")
fig.tight_layout()
plt.show()
