"""
Memory against labels
=====================

`estimate_memory` returns the size of a model before training. For text with 100,000 words, one weight for every (label,
word) takes too much memory from about ten thousand labels on. The label tree has a weight only where a word occurs
below a node.
"""

import matplotlib.pyplot as plt
import numpy as np

from manyclass import LabelTreeClassifier, RecallTreeClassifier

n_words = 100_000
n_labels = np.array([1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000])

# %%
# Five rows for each label, fifty words per row.
label_tree = [
    LabelTreeClassifier().estimate_memory(n_words, int(n), sparse=True, n_rows=5 * int(n), n_nonzero=50)
    for n in n_labels
]
# %%
# The Recall Tree hashes its weights into tables of 2**table_bits weights, which bounds its size.
recall_tree = [RecallTreeClassifier(table_bits=26).estimate_memory(n_words, int(n), sparse=True) for n in n_labels]
all_weights = 4.0 * n_words * n_labels

fig, ax = plt.subplots(figsize=(7, 4.2))
ax.loglog(n_labels, all_weights / 1e9, ls="--", color="0.5", label="a float32 for every (label, word)")
ax.loglog(n_labels, np.array(recall_tree) / 1e9, marker="s", label="Recall Tree, table_bits=26")
ax.loglog(n_labels, np.array(label_tree) / 1e9, marker="o", label="label tree, 5 rows per label")
ax.axhline(16, color="C3", lw=0.8)
ax.annotate("16 GB", (n_labels[0], 17), color="C3", va="bottom")
ax.set(xlabel="labels", ylabel="estimated size of the model, GB")
ax.legend(loc="lower right")
ax.grid(alpha=0.3)
fig.tight_layout()
plt.show()
