"""
A coarser prediction where the model is not sure
================================================

With a taxonomy, `predict_path` returns the deepest node that is probable enough: a label, or a group of labels. The
higher the `confidence`, the coarser the predictions.
"""

import matplotlib.pyplot as plt
import numpy as np

from manyclass import LabelTreeClassifier
from manyclass.datasets import load_wordnet, load_wordnet_labels, tfidf_transformer
from manyclass.metrics import path_accuracy

# %%
# The 300 most frequent categories of WordNet, and WordNet's own tree above them.
data, known = load_wordnet(), load_wordnet_labels()
frequent = np.argsort(-np.bincount(data.y_train))[:300]
train, test = np.isin(data.y_train, frequent), np.isin(data.y_test, frequent)
tfidf = tfidf_transformer().fit(data.X_train[train])
names = data.label_names[data.y_train[train]]
model = LabelTreeClassifier(random_state=0, calibration="isotonic")
model.fit(tfidf.transform(data.X_train[train]), names, hierarchy=known.parents)
X_test, y_test = tfidf.transform(data.X_test[test]), data.label_names[data.y_test[test]]

# %%
# The prediction of one row at three levels of confidence.
for confidence in (0.5, 0.8, 0.95):
    found = model.predict_path(X_test[:1], confidence)
    print(confidence, " > ".join(found.paths[0]) or "no prediction")

# %%
# Accuracy and depth over all test rows.
levels = np.linspace(0.3, 0.98, 15)
found = [model.predict_path(X_test, confidence) for confidence in levels]
right = [path_accuracy(y_test, one.keys, model.taxonomy_) for one in found]
depth = [np.mean([len(path) for path in one.paths]) for one in found]
fig, ax = plt.subplots(figsize=(7, 4))
ax.plot(depth, right, "o-")
for at in (0, 7, 13):
    where = {"xytext": (-8, -12), "textcoords": "offset points", "ha": "right"}
    ax.annotate(f"confidence {levels[at]:.2f}", (depth[at], right[at]), **where)
ax.set(xlabel="mean depth of the predicted node", ylabel="share of correct predictions")
fig.tight_layout()
plt.show()
