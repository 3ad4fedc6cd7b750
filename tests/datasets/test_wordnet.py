"""The data set that ships with the package."""

from dataclasses import FrozenInstanceError
from importlib.resources import files

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import Taxonomy
from manyclass.datasets import Dataset, gloss_vectorizer, load_wordnet, load_wordnet_labels


@pytest.fixture(scope="module")
def wordnet() -> Dataset:
    return load_wordnet()


def test_shapes_and_types(wordnet):
    assert wordnet.X_train.shape == (54_992, 38_102)
    assert wordnet.X_test.shape == (11_901, 38_102)
    for inputs, labels in ((wordnet.X_train, wordnet.y_train), (wordnet.X_test, wordnet.y_test)):
        assert sp.issparse(inputs) and inputs.format == "csr" and inputs.dtype == np.float32
        assert inputs.has_sorted_indices
        assert labels.shape == (inputs.shape[0],) and labels.dtype == np.int32
    assert wordnet.label_names.shape == (4_796,) and wordnet.label_names.dtype.kind == "U"
    assert wordnet.feature_names.shape == (38_102,) and wordnet.feature_names.dtype.kind == "U"


def test_content_is_the_known_one(wordnet):
    assert wordnet.X_train.sum() + wordnet.X_test.sum() == 930_106
    assert wordnet.X_train.data.min() == 1 and wordnet.X_train.data.max() == 18


def test_every_class_is_in_both_parts(wordnet):
    every = np.arange(4_796)
    np.testing.assert_array_equal(np.unique(wordnet.y_train), every)
    np.testing.assert_array_equal(np.unique(wordnet.y_test), every)


def test_names_are_unique(wordnet):
    assert len(set(wordnet.label_names)) == 4_796
    assert len(set(wordnet.feature_names)) == 38_102


def test_a_gloss_from_the_dictionary_gives_its_row(wordnet):
    row = gloss_vectorizer(wordnet.feature_names).transform(["squire an English country landowner"])
    assert wordnet.label_names[wordnet.y_train[1]] == "landowner.n.10245639"
    assert (row != wordnet.X_train[1]).nnz == 0


def test_is_frozen(wordnet):
    with pytest.raises(FrozenInstanceError):
        wordnet.y_train = None


def test_licence_ships_beside_the_data():
    text = (files("manyclass.datasets") / "WORDNET_LICENSE.txt").read_text(encoding="utf-8")
    assert "WordNet 3.0 Copyright 2006 by Princeton University.  All rights reserved." in text


def test_labels_have_a_place_in_the_tree_and_a_description(wordnet):
    known = load_wordnet_labels()
    taxonomy = Taxonomy.from_parents(known.parents)
    assert len(taxonomy) == 5_556 + 1 and taxonomy.depth.max() == 18
    assert (taxonomy.find(wordnet.label_names) > 0).all()
    assert taxonomy.path("fox.n.02118333")[-2:] == ("canine.n.02083346", "fox.n.02118333")
    assert known.descriptions.shape == (4_796,)
    words = gloss_vectorizer(wordnet.feature_names).transform(known.descriptions)
    assert np.diff(words.indptr).min() >= 1  # every description has words of the rows
