"""
A stream with new classes
=========================

Twenty new classes appear every thousand rows. The model does not know how many there will be. The error is
progressive: each row is predicted before it is learned.
"""

import matplotlib.pyplot as plt
import numpy as np

from manyclass import RecallTreeClassifier

rng = np.random.default_rng(0)
n_classes, n_rows, batch = 400, 20_000, 250
centres = rng.standard_normal((n_classes, 24))
known = 20 + 20 * (np.arange(n_rows) // 1000)  # classes that exist when a row arrives
y = rng.integers(0, np.minimum(known, n_classes))
X = (centres[y] + 0.45 * rng.standard_normal((n_rows, 24))).astype(np.float32)

# %%
# `progressive_error_` covers the whole stream. For a curve, predict each batch before learning it.
model = RecallTreeClassifier(random_state=0)
at, accuracy, classes, depth = [], [], [], []
for begin in range(0, n_rows, batch):
    rows, labels = X[begin : begin + batch], y[begin : begin + batch]
    if begin:
        accuracy.append(100 * np.mean(model.predict(rows) == labels))
        at.append(begin)
        classes.append(len(model.classes_))
        depth.append(max(node["depth"] for node in model.tree_table()))
    model.partial_fit(rows, labels)
print(f"{len(model.classes_)} classes, progressive error {model.progressive_error_:.3f}")

# %%
# Each group of new classes lowers the accuracy for a short time. The accuracy drops most where the tree gets another
# level (dotted lines), because the new leaves have few labels at first.
fig, ax = plt.subplots(figsize=(7.5, 4.2))
ax.plot(at, accuracy, color="C0")
ax.set(xlabel="rows learned", ylabel="accuracy of the next 250 rows, %", ylim=(0, 100))
ax.yaxis.label.set_color("C0")
for begin in np.flatnonzero(np.diff(depth) > 0):
    ax.axvline(at[begin], color="0.6", ls=":", lw=1)
right = ax.twinx()
right.plot(at, classes, color="C1", ls="--")
right.set(ylabel="classes seen so far", ylim=(0, None))
right.yaxis.label.set_color("C1")
fig.tight_layout()
plt.show()
