"""The data set that ships inside the package: WordNet's definitions and their hypernyms."""

from dataclasses import dataclass
from importlib.resources import files

import numpy as np
import scipy.sparse as sp

from .packed import read_packed, unpack_names, unpack_split

SHIPPED = "wordnet-hypernym"
SHIPPED_LABELS = "wordnet-labels"


@dataclass(frozen=True)
class Dataset:
    """A data set with one label per row, split into training and test rows.

    Attributes
    ----------
    X_train, X_test : scipy.sparse.csr_matrix of float32, shape (n_rows, n_features)
        Inputs.
    y_train, y_test : ndarray of int32, shape (n_rows,)
        Class numbers, positions in `label_names`.
    label_names : ndarray of str, shape (n_classes,)
        The name of each class.
    feature_names : ndarray of str, shape (n_features,)
        The name of each column of the inputs.

    Examples
    --------
    >>> from manyclass.datasets import load_wordnet
    >>> wordnet = load_wordnet()
    >>> print(wordnet.label_names[wordnet.y_train[0]].split(".")[1])  # the part of speech
    n
    """

    X_train: sp.csr_matrix
    y_train: np.ndarray
    X_test: sp.csr_matrix
    y_test: np.ndarray
    label_names: np.ndarray
    feature_names: np.ndarray


@dataclass(frozen=True)
class LabelData:
    """What is known about the labels of a data set.

    Attributes
    ----------
    parents : dict of str to str or None
        The parent of each label and of all nodes above them; None at the top.
    descriptions : ndarray of str, shape (n_classes,)
        A text for each class.

    Examples
    --------
    >>> from manyclass.datasets import load_wordnet_labels
    >>> len(load_wordnet_labels().descriptions)
    4796
    """

    parents: dict[str, str | None]
    descriptions: np.ndarray


def load_wordnet_labels() -> LabelData:
    """Load the hypernym tree and the definitions of the 4,796 labels of `load_wordnet`.

    Returns
    -------
    LabelData
        The tree has 5,556 nodes and is up to 18 levels deep; 1,682 labels are inner nodes. The parent of a synset is
        its first hypernym. A description is the words of the synset and its definition.

    Notes
    -----
    WordNet 3.0 Copyright 2006 by Princeton University. Its licence is WORDNET_LICENSE.txt beside the data.

    Examples
    --------
    >>> from manyclass.datasets import load_wordnet, load_wordnet_labels
    >>> known = load_wordnet_labels()
    >>> known.parents["fox.n.02118333"]
    'canine.n.02083346'
    >>> known.descriptions[load_wordnet().label_names == "fox.n.02118333"][0][:36]
    'fox alert carnivorous mammal with po'
    """
    arrays = read_packed(files("manyclass.datasets") / f"{SHIPPED_LABELS}.npz.xz")
    nodes, parent = unpack_names(arrays, "nodes").tolist(), arrays["parent"].tolist()
    parents = {node: nodes[above] if above >= 0 else None for node, above in zip(nodes, parent, strict=True)}
    return LabelData(parents, unpack_names(arrays, "descriptions"))


def load_wordnet() -> Dataset:
    """Load WordNet definitions, to be classified into 4,796 hypernyms.

    A row counts the words of one noun or verb synset: its own words and its definition. Its class is the
    synset's hypernym, the kind of thing it is: a gray fox is a fox. The classes are the hypernyms with at
    least five synsets; the split is stratified, and both parts hold every class. Counts are raw: see
    `tfidf_transformer`.

    Returns
    -------
    Dataset
        54,992 training and 11,901 test rows of 38,102 word counts. A label name is the hypernym's first word,
        part of speech and number in WordNet 3.0, since words alone are not unique: ``fox.n.02118333``.

    Notes
    -----
    WordNet 3.0 Copyright 2006 by Princeton University. Its licence is WORDNET_LICENSE.txt beside the data.

    Examples
    --------
    >>> from manyclass.datasets import load_wordnet
    >>> wordnet = load_wordnet()
    >>> wordnet.X_train.shape, wordnet.X_test.shape, len(wordnet.label_names)
    ((54992, 38102), (11901, 38102), 4796)
    >>> str(wordnet.label_names[wordnet.y_train[2]])
    'fox.n.02118333'
    >>> " ".join(wordnet.feature_names[wordnet.X_train[2].indices])
    'america american central dark fox from gray grey southern states through united urocyon'
    """
    arrays = read_packed(files("manyclass.datasets") / f"{SHIPPED}.npz.xz")
    X_train, y_train = unpack_split(arrays, "train")
    X_test, y_test = unpack_split(arrays, "test")
    return Dataset(X_train, y_train, X_test, y_test, unpack_names(arrays, "labels"), unpack_names(arrays, "features"))
