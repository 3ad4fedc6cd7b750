"""
Choosing a threshold
====================

With several labels per row, `predict` returns the labels above `threshold`. The default, 0.5, is too high for
labels with few training rows. The best threshold is found on held-out rows, without another `fit`.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

from manyclass import LabelTreeClassifier

# %%
# 100 labels, two per row on average. Each label has words of its own, and only three training rows.
rng = np.random.default_rng(0)
Y = sp.csr_array((rng.random((3000, 100)) < 0.02).astype(np.int8))
words = Y @ (rng.random((100, 2000)) < 0.004) > 0
X = sp.csr_array(words & (rng.random(words.shape) < 0.33) | (rng.random(words.shape) < 0.003), dtype=np.float32)
model = LabelTreeClassifier(random_state=0).fit(X[:150], Y[:150])


def micro_f1(probabilities, truth, threshold):
    """Harmonic mean of precision and recall over all (row, label)."""
    predicted = probabilities > threshold
    return 2 * (predicted & truth).sum() / (predicted.sum() + truth.sum())


held_out, truth = model.predict_proba(X[1800:2400]), Y[1800:2400].toarray() > 0
test, test_truth = model.predict_proba(X[2400:]), Y[2400:].toarray() > 0
thresholds = np.linspace(0.005, 0.95, 150)
curve = [micro_f1(held_out, truth, t) for t in thresholds]
best = thresholds[int(np.argmax(curve))]

# %%
# The curve of the test rows has its maximum at nearly the same place.
fig, ax = plt.subplots(figsize=(7, 4))
ax.plot(thresholds, curve, label="held-out rows")
ax.plot(thresholds, [micro_f1(test, test_truth, t) for t in thresholds], label="test rows", ls="--")
for at, height, name in ((best, 0.03, f"best, {best:.2f}"), (0.5, 0.1, "default, 0.5")):
    ax.axvline(at, color="0.6", lw=0.8)
    ax.annotate(f" {name}: F1 {micro_f1(test, test_truth, at):.2f}", (at, height), fontsize=9)
ax.set(xlabel="threshold", ylabel="micro-F1", ylim=(0, 0.6))
ax.legend()
fig.tight_layout()
plt.show()
model.set_params(threshold=best)
