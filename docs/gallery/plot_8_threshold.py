"""
Choosing a threshold
====================

With several labels per row, `predict` returns the labels above a threshold. `fit` learns it from held-out rows, because
0.5 is too high for labels with few training rows.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

from manyclass import ManyClassClassifier

# %%
# 100 labels, two per row on average. Each label has words of its own, and only ten training rows.
rng = np.random.default_rng(0)
Y = sp.csr_array((rng.random((1500, 100)) < 0.02).astype(np.int8))
words = Y @ (rng.random((100, 2000)) < 0.004) > 0
X = sp.csr_array(words & (rng.random(words.shape) < 0.15) | (rng.random(words.shape) < 0.003), dtype=np.float32)
model = ManyClassClassifier(random_state=0).fit(X[:500], Y[:500])
learned = model.tuned_["threshold"]


def micro_f1(probabilities, truth, threshold):
    """Harmonic mean of precision and recall over all (row, label)."""
    predicted = probabilities > threshold
    return 2 * (predicted & truth).sum() / (predicted.sum() + truth.sum())


# %%
# On other rows, the learned threshold is close to the best one.
test, truth = model.predict_proba(X[500:]), Y[500:].toarray() > 0
thresholds = np.linspace(0.005, 0.95, 150)
fig, ax = plt.subplots(figsize=(7, 4))
ax.plot(thresholds, [micro_f1(test, truth, t) for t in thresholds])
for at, height, name in ((learned, 0.03, f"learned, {learned:.2f}"), (0.5, 0.1, "0.5")):
    ax.axvline(at, color="0.6", lw=0.8)
    ax.annotate(f" {name}: F1 {micro_f1(test, truth, at):.2f}", (at, height), fontsize=9)
ax.set(xlabel="threshold", ylabel="micro-F1 on other rows", ylim=(0, 0.5))
fig.tight_layout()
plt.show()
