"""
From fastText
=============

fastText reads lines that begin with ``__label__``. Here the same lines train a pipeline of scikit-learn with a label
tree. The plot shows the probabilities of one new text. :doc:`/from_fasttext` lists the calls of both libraries.
"""

import matplotlib.pyplot as plt
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from manyclass import LabelTreeClassifier

lines = """
__label__delivery where is my parcel
__label__delivery the parcel is late
__label__delivery my address changed, where will it arrive
__label__payment can I pay with a card
__label__payment my card was charged twice
__label__payment the invoice is wrong
__label__returns how do I send it back
__label__returns I want my money back
__label__returns the shoes are broken, send new ones
__label__size are the shoes small
__label__size which size do I need
__label__size the shirt is too large
__label__account I forgot my password
__label__account change the e-mail of my account
__label__account delete my account
""".strip().splitlines()

# %%
# ``fasttext.train_supervised(path, wordNgrams=2)`` becomes:
labels = [line.split()[0].removeprefix("__label__") for line in lines]
texts = [line.split(maxsplit=1)[1] for line in lines]
model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LabelTreeClassifier(random_state=0)).fit(texts, labels)

# %%
# ``model.predict(text, k=5)`` becomes `predict_topk`.
text = "the parcel has the wrong address"
best, probabilities = model[-1].predict_topk(model[0].transform([text]), k=5, probabilities=True)
print(best[0])

fig, ax = plt.subplots(figsize=(6.5, 3))
ax.barh(best[0][::-1], probabilities[0][::-1])
ax.set(xlabel="probability (not calibrated)", title=f"“{text}”")
fig.tight_layout()
plt.show()
