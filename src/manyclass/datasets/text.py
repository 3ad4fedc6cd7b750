"""From sentences to word counts, and from word counts to weighted inputs."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer


def tfidf_transformer() -> Pipeline:
    """Make a transformer from word counts to weighted rows of unit length.

    A count becomes ``log(1 + count)`` times the inverse document frequency of its word in the training rows;
    then each row is scaled to length one. A row without words stays zero. Float32 stays float32.

    Returns
    -------
    sklearn.pipeline.Pipeline
        Unfitted; steps ``log1p`` and ``idf``.

    Examples
    --------
    >>> import numpy as np
    >>> from manyclass.datasets import tfidf_transformer
    >>> counts = np.array([[3, 1, 0], [0, 1, 0]], dtype=np.float32)
    >>> tfidf_transformer().fit_transform(counts).toarray().round(3)
    array([[0.942, 0.335, 0.   ],
           [0.   , 1.   , 0.   ]], dtype=float32)
    """
    # Not the transformer's own sublinear_tf: that is 1 + log(count).
    logarithm = FunctionTransformer(np.log1p, accept_sparse=True, feature_names_out="one-to-one")
    return Pipeline([("log1p", logarithm), ("idf", TfidfTransformer())])


def gloss_vectorizer(feature_names: Iterable[str]) -> CountVectorizer:
    """Make a vectorizer that counts the words of a sentence as the WordNet set does.

    Parameters
    ----------
    feature_names : iterable of str
        The words, in the order of the columns. Other words are ignored.

    Returns
    -------
    sklearn.feature_extraction.text.CountVectorizer
        Ready to transform; it needs no fit.

    Examples
    --------
    >>> from manyclass.datasets import gloss_vectorizer
    >>> gloss_vectorizer(["animal", "barks", "that"]).transform(["An ANIMAL that barks and barks"]).toarray()
    array([[1., 2., 1.]], dtype=float32)
    """
    words: Any = [str(name) for name in feature_names]
    return CountVectorizer(lowercase=True, token_pattern=r"(?u)\b\w\w+\b", vocabulary=words, dtype=np.float32)
