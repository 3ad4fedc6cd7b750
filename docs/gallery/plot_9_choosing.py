"""
Choosing an estimator
=====================

This example compares the accuracy and the work of four estimators on two kinds of data: dense digits, and text. Try it
on your own data: all estimators have the same methods. :doc:`/which_estimator` has more figures.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from manyclass import LabelTreeClassifier, LomTreeClassifier, OneAgainstAllClassifier, RecallTreeClassifier
from manyclass.datasets import load_wordnet, tfidf_transformer

digits = load_digits()
wordnet = load_wordnet()
kept = np.argsort(-np.bincount(wordnet.y_train))[:300]
train, test = np.isin(wordnet.y_train, kept), np.isin(wordnet.y_test, kept)
tfidf = tfidf_transformer().fit(wordnet.X_train[train])
data = {
    "digits, 10 classes": (digits.data[:1200], digits.target[:1200], digits.data[1200:], digits.target[1200:]),
    "WordNet, 300 classes": (
        tfidf.transform(wordnet.X_train[train]),
        wordnet.y_train[train],
        tfidf.transform(wordnet.X_test[test]),
        wordnet.y_test[test],
    ),
}
kinds = [LabelTreeClassifier, RecallTreeClassifier, OneAgainstAllClassifier, LomTreeClassifier]

# %%
# `diagnose` gives the accuracy and the number of hyperplanes (routers and labels) scored per prediction.
fig, axes = plt.subplots(1, 2, figsize=(9, 3.8))
for ax, (name, (X, y, X_test, y_test)) in zip(axes, data.items(), strict=True):
    for number, kind in enumerate(kinds):
        options = {} if kind is LabelTreeClassifier else {"n_epochs": 5, "table_bits": 24}
        metrics = kind(random_state=0, **options).fit(X, y).diagnose(X_test, y_test)
        name_of_kind = kind.__name__.removesuffix("Classifier")
        ax.plot(metrics["work"], 100 * metrics["accuracy"], "o", color=f"C{number}", markersize=9, label=name_of_kind)
    ax.set(title=name, xlabel="hyperplanes per prediction", ylabel="accuracy, %")
    ax.margins(0.15)
axes[1].legend(loc="center right")
fig.tight_layout()
plt.show()
