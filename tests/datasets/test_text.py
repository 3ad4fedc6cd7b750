"""Word counts to weighted rows, and sentences to word counts."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone

from manyclass.datasets import gloss_vectorizer, load_wordnet, tfidf_transformer

counts = arrays(np.float32, st.tuples(st.integers(1, 8), st.just(5)), elements=st.integers(0, 9).map(float))


def weigh(train: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The formula written out: log(1 + count) · idf from the training rows, rows of unit length."""
    idf = np.log((1 + len(train)) / (1 + (train > 0).sum(axis=0))) + 1
    weighted = np.log1p(rows.astype(np.float64)) * idf
    length = np.sqrt((weighted**2).sum(axis=1, keepdims=True))
    return weighted / np.where(length == 0, 1, length)


@given(train=counts, rows=counts)
def test_weights_follow_the_formula(train, rows):
    transformer = tfidf_transformer().fit(sp.csr_matrix(train))
    weighted = transformer.transform(sp.csr_matrix(rows))
    assert weighted.dtype == np.float32
    np.testing.assert_allclose(weighted.toarray(), weigh(train, rows), atol=1e-6)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, sp.csr_array, sp.csc_matrix])
def test_every_form_of_input_gives_the_same(form):
    rows = np.array([[3, 1, 0], [0, 1, 0], [0, 0, 0]], dtype=np.float32)
    weighted = tfidf_transformer().fit_transform(form(rows))
    assert weighted.dtype == np.float32
    np.testing.assert_allclose(weighted.toarray(), weigh(rows, rows), atol=1e-6)


def test_rows_without_words_stay_zero():
    weighted = tfidf_transformer().fit_transform(sp.csr_matrix([[0.0, 0.0], [1.0, 2.0]]))
    np.testing.assert_array_equal(weighted.toarray()[0], [0, 0])


def test_input_is_not_changed():
    rows = sp.csr_matrix(np.array([[3, 1, 0]], dtype=np.float32))
    tfidf_transformer().fit_transform(rows)
    np.testing.assert_array_equal(rows.toarray(), [[3, 1, 0]])


def test_transformer_can_be_cloned():
    clone(tfidf_transformer()).fit(np.ones((2, 2)))


def test_real_rows_have_unit_length():
    wordnet = load_wordnet()
    weighted = tfidf_transformer().fit(wordnet.X_train).transform(wordnet.X_test)
    assert weighted.dtype == np.float32
    squares = np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel()
    np.testing.assert_allclose(squares, 1, atol=1e-5)


def test_vectorizer_counts_known_words_in_column_order():
    vectorizer = gloss_vectorizer(np.array(["zebra", "striped", "a", "café"]))
    row = vectorizer.transform(["A ZEBRA, a striped zebra; unknown café"])
    assert row.dtype == np.float32
    # A single letter is no word, even when the vocabulary holds it.
    np.testing.assert_array_equal(row.toarray(), [[2, 1, 0, 1]])
