"""
From LinearSVC
==============

LinearSVC scores every class. A label tree has the same interface, but scores only its routers and a few labels. The
more classes there are, the larger the difference. The data are the 50 to 400 most frequent WordNet categories.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import LinearSVC

from manyclass import LabelTreeClassifier
from manyclass.datasets import load_wordnet, tfidf_transformer

wordnet = load_wordnet()
by_frequency = np.argsort(-np.bincount(wordnet.y_train))
counts = [50, 100, 200, 400]
result = {"LinearSVC": [], "label tree": []}
for n in counts:
    kept = by_frequency[:n]
    train, test = np.isin(wordnet.y_train, kept), np.isin(wordnet.y_test, kept)
    tfidf = tfidf_transformer().fit(wordnet.X_train[train])
    X, y = tfidf.transform(wordnet.X_train[train]), wordnet.y_train[train]
    X_test, y_test = tfidf.transform(wordnet.X_test[test]), wordnet.y_test[test]
    result["LinearSVC"].append((100 * LinearSVC().fit(X, y).score(X_test, y_test), n))
    metrics = LabelTreeClassifier(random_state=0).fit(X, y).diagnose(X_test, y_test)
    result["label tree"].append((100 * metrics["accuracy"], metrics["work"]))

# %%
# Below a few hundred classes a tree saves nothing, and LinearSVC may be more accurate: compare both on your data.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8))
for name, values in result.items():
    accuracy, work = np.transpose(values)
    left.plot(counts, accuracy, marker="o", label=name)
    right.plot(counts, work, marker="o", label=name)
left.set(xlabel="classes", ylabel="accuracy, %")
right.set(xlabel="classes", ylabel="hyperplanes scored per prediction", ylim=(0, None))
left.legend()
fig.tight_layout()
plt.show()
