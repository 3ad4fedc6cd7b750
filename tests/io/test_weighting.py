"""Weights of words, numbers and categories: like scikit-learn's, counted in one pass."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

from manyclass.io import Reading, Source, weighting
from manyclass.io.tables import layout_of, table_rows
from manyclass.io.weighting import Layout, Quantiles, RawCounts, weigh

TEXTS = ["red shoes for men", "blue shoes", "red hat red scarf", "a blue hat for winter", "shoes shoes shoes hat"]
NEW = ["red shoes unknown", "nothing at all", "hat winter scarf"]
WORDS = Reading(format="csv", label="l", text=("t",), labels="one", label_kind="text", weighted=True, feature_bits=20)


def counted(path, reading):
    """The reading with the weights of a file, and its features."""
    source = Source(path, reading)
    counts = RawCounts(layout_of(source.reading), source.reading.numbers, source.reading.idf)
    chunks = list(source.chunks(2))
    for chunk in chunks:
        counts.add(chunk.X)
    found = counts.weighting()
    X = sp.vstack([weigh(chunk.X, counts.layout, found) for chunk in chunks], format="csr")
    return Reading.from_dict({**source.reading.to_dict(), "weighting": found.to_dict()}, found.arrays()), X


def table(make, texts):
    return make("a.csv", "t,l\n" + "".join(f"{text},x\n" for text in texts))


@pytest.mark.parametrize("ngrams", [1, 2])
def test_words_have_the_weights_of_a_tfidf_vectorizer(make, ngrams):
    reading, X = counted(table(make, TEXTS), Reading(**{**WORDS.__dict__, "idf": True, "ngrams": ngrams}))
    expected = TfidfVectorizer(ngram_range=(1, ngrams)).fit(TEXTS)
    for rows, texts in ((X, TEXTS), (table_rows(NEW, reading), NEW)):
        # Features are in another order; inner products of all rows are the same.
        theirs = expected.transform(texts)
        np.testing.assert_allclose((rows @ rows.T).toarray(), (theirs @ theirs.T).toarray(), atol=1e-6)
        assert [rows.indptr[i + 1] - rows.indptr[i] for i in range(len(texts))] == list(np.diff(theirs.indptr))


def test_characters_are_a_second_part_of_a_text(make):
    reading = Reading(**{**WORDS.__dict__, "idf": True, "chars": (2, 3), "chars_of": ("t",)})
    _, X = counted(table(make, TEXTS), reading)
    words = TfidfVectorizer().fit_transform(TEXTS)
    chars = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 3)).fit_transform(TEXTS)
    expected = (words @ words.T + chars @ chars.T).toarray()
    np.testing.assert_allclose((X @ X.T).toarray(), expected, atol=1e-6)


def test_words_that_training_rows_lack_are_ignored(make):
    reading, _ = counted(table(make, TEXTS), WORDS)
    assert table_rows(["nothing known here"], reading).nnz == 0


def test_numbers_become_shares_of_quantiles(make):
    values = np.arange(101.0)
    path = make("a.csv", "n,l\n" + "".join(f"{value},x\n" for value in values) + "NA,x\n,x\n")
    reading = Reading(format="csv", label="l", numeric=("n",), labels="one", label_kind="text", weighted=True)
    reading, X = counted(path, reading)
    quantiles = reading.weighting.numbers["n"]
    assert quantiles.centre == 50 and quantiles.knots[0] == 0 and quantiles.knots[-1] == 100
    assert X[101:].nnz == 0  # missing
    X = X.toarray()
    knots = layout_of(reading).numbers[0, 1 : 1 + len(quantiles.knots)]
    np.testing.assert_allclose(X[:101, knots].sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(X[:101, knots] @ quantiles.knots, values, atol=1e-4)  # no information is lost
    far = table_rows([{"n": 1e30}], reading).toarray()
    assert np.abs(far).max() <= 3  # an outlier cannot dominate


def test_a_number_does_not_outweigh_a_text(make):
    lines = "".join(f"red shoes,{10**i % 977 * 1e6},x\n" for i in range(50))
    path = make("a.csv", f"t,n,l\n{lines}")
    _, X = counted(path, Reading(**{**WORDS.__dict__, "idf": True, "numeric": ("n",)}))
    assert sp.linalg.norm(X, axis=1).max() <= np.sqrt(1.25) + 1e-6


def test_constant_and_empty_columns(make):
    path = make("a.csv", "n,m,l\n3,,x\n3,,y\n")
    reading = Reading(format="csv", label="l", numeric=("n", "m"), labels="one", label_kind="text", weighted=True)
    reading, X = counted(path, reading)
    assert reading.weighting.numbers["m"] == Quantiles(0.0, 1.0, ()) and np.isfinite(X.data).all()


def test_a_sample_of_the_numbers_covers_the_whole_file(monkeypatch):
    monkeypatch.setattr(weighting, "_SAMPLE", 100)
    counts = RawCounts(layout_of(Reading(numeric=("n",), weighted=True)), ("n",), True)
    for first in range(0, 3000, 37):
        values = np.arange(first, min(3000, first + 37), dtype=np.float32)[:, None]
        raw = sp.hstack([sp.csr_array((len(values), counts.layout.first_number)), sp.csr_array(values)], format="csr")
        counts.add(raw)
    quantiles = counts.weighting().numbers["n"]
    assert abs(quantiles.centre - 1500) < 150 and quantiles.knots[0] < 100 and quantiles.knots[-1] > 2900
    assert len(quantiles.knots) == weighting.N_KNOTS


def test_known_words_keep_their_weights_when_a_model_goes_on_learning(make):
    reading, _ = counted(table(make, TEXTS), Reading(**{**WORDS.__dict__, "idf": True}))
    raw = Source(make("b.csv", "t,l\nnew words,x\nred words,y\n"), Reading(**{**WORDS.__dict__, "idf": True}))
    counts = RawCounts(layout_of(reading), (), True, reading.weighting)
    for chunk in raw.chunks():
        counts.add(chunk.X)
    more = counts.weighting()
    place = np.searchsorted(more.known, reading.weighting.known)
    assert np.array_equal(more.idf[place], reading.weighting.idf)
    assert len(more.known) == len(reading.weighting.known) + 2 and more.n_rows == 7


def test_weights_survive_json_and_bad_ones_are_refused(make):
    reading, _ = counted(make("a.csv", "t,n,l\nred,1,x\nblue,2,y\n"), Reading(**{**WORDS.__dict__, "numeric": ("n",)}))
    values, arrays = json.loads(json.dumps(reading.to_dict())), reading.arrays()
    again = Reading.from_dict(values, arrays)
    assert again == reading and again.weighting.numbers == reading.weighting.numbers
    known, idf = arrays["known"], arrays["idf"]
    wrong_arrays = [
        {}, {"known": known[::-1], "idf": idf}, {"known": known, "idf": -idf}, {"known": known, "idf": idf[1:]},
        {"known": known + 2**20, "idf": idf}, {"known": known.astype(np.int64), "idf": idf},
        {"known": known, "idf": np.full_like(idf, np.nan)},
    ]  # fmt: skip
    for wrong in wrong_arrays:
        with pytest.raises(ValueError, match="weight"):
            Reading.from_dict(values, wrong)
    numbers = values["weighting"]["numbers"]
    many = [float(i) for i in range(99)]
    for wrong in (
        {"n": [0.0, 0.0, []]}, {"n": [0.0, 1.0, [2.0, 1.0]]}, {"n": [0.0, 1.0]}, {"n": [0.0, 1.0, [1]]}, {}, [],
        {**numbers, "m": [0.0, 1.0, []]}, {"n": [float("inf"), 1.0, []]}, {"n": [0.0, 1.0, many]},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="weighting"):
            Reading.from_dict({**values, "weighting": {"n_rows": 2, "numbers": wrong}}, arrays)


LAYOUT = Layout(64, 1, np.zeros((0, 17), np.int32))


def raw_rows(seed: int, n: int) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    dense = np.zeros((n, LAYOUT.n_columns), np.float32)
    dense[:, : LAYOUT.width] = rng.random((n, LAYOUT.width)) < 0.1
    return sp.csr_array(dense)


@pytest.mark.parametrize("idf", [True, False])
def test_new_words_do_not_depend_on_the_division_into_calls(idf):
    first, later = raw_rows(0, 3), raw_rows(1, 30)
    counts = RawCounts(LAYOUT, (), idf)
    counts.add(first)
    start = counts.weighting()
    at_once = start.with_rows(later, LAYOUT, idf)
    step, rows = start, []
    for i in range(later.shape[0]):
        step = step.with_rows(later[[i]], LAYOUT, idf)
        rows.append(weigh(later[[i]], LAYOUT, step))
    assert np.array_equal(step.known, at_once.known) and np.array_equal(step.idf, at_once.idf)
    assert step.n_rows == at_once.n_rows == 33
    assert (sp.vstack(rows) != weigh(later, LAYOUT, at_once)).nnz == 0
    assert len(at_once.known) > len(start.known) and np.all(np.diff(at_once.known) > 0)
    kept = np.isin(at_once.known, start.known)
    assert np.array_equal(at_once.idf[kept], start.idf), "known words keep their weight"
