"""
Probabilities and abstention
============================

A calibrated probability says how often predictions like this one are correct. A model that predicts only the rows
about which it is certain makes fewer mistakes.
"""

import matplotlib.pyplot as plt
import numpy as np

from manyclass import RecallTreeClassifier
from manyclass.metrics import reliability_plot, risk_coverage, risk_coverage_plot

# %%
# 200 labels whose rows overlap. The model learns 4,000 rows; 2,000 others calibrate it, and 2,000 choose a threshold.
rng = np.random.default_rng(0)
y = rng.integers(0, 200, 12_000)
X = rng.standard_normal((200, 12))[y] + 0.55 * rng.standard_normal((12_000, 12))
train, held_out, other, test = np.split(np.arange(12_000), [4000, 6000, 8000])
model = RecallTreeClassifier(random_state=0).fit(X[train], y[train])
before = model.predict_topk(X[test], 1, probabilities=True)
model.calibrate(X[held_out], y[held_out])
labels, probabilities = model.predict_topk(X[test], 1, probabilities=True)
threshold = model.rejection_threshold(X[other], y[other], precision=0.95)
predicted = model.predict(X[test], reject=threshold)
precision, share = (predicted == y[test]).mean(), 1 - predicted.mask.mean()
print(f"{share:.0%} of the rows are predicted, {precision:.1%} of them correctly")

# %%
# Left: on the diagonal, predictions with a probability of 0.8 are correct in 80 % of the cases. Right: the error of the
# most certain rows.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
reliability_plot(y[test], *before, ax=left, label="before")
reliability_plot(y[test], labels, probabilities, ax=left, label="calibrated")
risk_coverage_plot(risk_coverage(labels[:, 0] == y[test], probabilities[:, 0]), ax=right)
right.plot(share, 1 - precision, "o", label="threshold for a precision of 95 %")
right.legend(frameon=False, fontsize=9)
fig.tight_layout()
plt.show()
