"""
Accuracy against cost
=====================

`beam` is the number of paths through the tree. It can be changed after training, so one model gives a whole curve:
with more paths, more hyperplanes are scored per prediction, and the accuracy is higher. `diagnose` counts the
hyperplanes, so that no clock is needed.
"""

import matplotlib.pyplot as plt
import numpy as np

from manyclass import LabelTreeClassifier, RecallTreeClassifier

# %%
# 1,000 classes in 50 groups of similar classes, as in most real data.
rng = np.random.default_rng(0)
n_classes, n_features = 1000, 32
centres = 2 * rng.standard_normal((50, n_features))[np.arange(n_classes) % 50]
centres += 0.9 * rng.standard_normal((n_classes, n_features))
y = rng.integers(0, n_classes, 22_000)
X = (centres[y] + 0.9 * rng.standard_normal((len(y), n_features))).astype(np.float32)
train, test = slice(0, 20_000), slice(20_000, None)

models = {
    "Recall Tree": RecallTreeClassifier(n_epochs=3, random_state=0),
    "label tree": LabelTreeClassifier(neighbors=False, random_state=0),
}
fig, ax = plt.subplots(figsize=(7, 4.2))
for name, model in models.items():
    model.fit(X[train], y[train])
    curve = []
    for beam in (1, 2, 4, 8, 16):
        metrics = model.set_params(beam=beam).diagnose(X[test], y[test])
        curve.append((metrics["work"], 100 * metrics["accuracy"]))
        ax.annotate(f" {beam}", curve[-1], fontsize=8, va="top")
    ax.plot(*np.transpose(curve), marker="o", label=name)
ax.axvline(n_classes, color="0.6", ls="--")
ax.annotate("one-against-all scores\nall 1,000 classes ", (n_classes, 90), ha="right", color="0.4")
ax.set(xscale="log", xlabel="hyperplanes scored per prediction", ylabel="accuracy, %", title="Numbers: paths (beam)")
ax.legend(loc="lower right")
fig.tight_layout()
plt.show()
