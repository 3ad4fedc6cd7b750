"""
From Vowpal Wabbit
==================

A file of VW text is read in chunks and learned by a Recall Tree, as ``vw --recall_tree`` does in one pass. The number
of classes need not be known, and labels may begin with 0. :doc:`/from_vowpal_wabbit` lists the options of both
libraries.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from manyclass import RecallTreeClassifier
from manyclass.io import Reading, Source

# %%
# Make a file: 300 classes, each with some words of its own.
rng = np.random.default_rng(0)
own = rng.integers(0, 2000, (300, 8))
path = Path(tempfile.mkdtemp()) / "train.vw"
with path.open("w") as file:
    for _ in range(12_000):
        label = rng.integers(300)
        words = [*rng.choice(own[label], 3), *rng.integers(0, 2000, 4)]
        file.write(f"{label} |text {' '.join(f'w{word}' for word in words)}\n")
print(path.read_text().splitlines()[0])

# %%
# One pass over the file. Features are hashed as in Vowpal Wabbit, here into 2**18 columns.
source = Source(path, Reading(feature_bits=18))
model, curve = RecallTreeClassifier(table_bits=22, random_state=0), []
for chunk in source.chunks(rows=500):
    if curve or hasattr(model, "classes_"):
        curve.append(100 * np.mean(model.predict(chunk.X) != chunk.labels))
    model.partial_fit(chunk.X, chunk.labels, sample_weight=chunk.weights)

fig, ax = plt.subplots(figsize=(7, 3.8))
ax.plot(500 * np.arange(1, len(curve) + 1), curve, marker=".")
ax.axhline(100 * model.progressive_error_, color="0.5", ls="--")
ax.annotate("progressive error of the whole pass", (5000, 100 * model.progressive_error_ + 1), color="0.4")
ax.set(xlabel="rows learned", ylabel="error of the next 500 rows, %", ylim=(0, 100))
fig.tight_layout()
plt.show()
