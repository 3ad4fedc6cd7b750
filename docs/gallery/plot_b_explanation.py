"""
Explanation of a prediction
===========================

Every score is a sum: `explain` shows what each word adds to the score of the best label and to that of the runner-up.
"""

import matplotlib.pyplot as plt
import numpy as np

from manyclass import LabelTreeClassifier
from manyclass.datasets import load_wordnet, tfidf_transformer

# %%
# The definitions of nouns in WordNet; a label is the category of a noun. We take the 300 most frequent categories.
data = load_wordnet()
frequent = np.argsort(-np.bincount(data.y_train))[:300]
train, test = np.isin(data.y_train, frequent), np.isin(data.y_test, frequent)
tfidf = tfidf_transformer().fit(data.X_train[train])
names = data.label_names[data.y_train[train]]
model = LabelTreeClassifier(random_state=0).fit(tfidf.transform(data.X_train[train]), names)

# %%
# The first test row, its words and the decisions on the way to the label.
X_test = tfidf.transform(data.X_test[test])
found = model.explain(X_test[:1], feature_names=data.feature_names)
print(found)

# %%
# The same as a picture.
found.plot()
plt.show()
