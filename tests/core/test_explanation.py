"""`explain`: the parts of a score sum to what `predict_topk` returns, for every estimator."""

import io
import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from matplotlib.figure import Figure
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from manyclass import (
    LabelTreeClassifier,
    LomTreeClassifier,
    ManyClassClassifier,
    MlomTreeClassifier,
    OneAgainstAllClassifier,
    RecallTreeClassifier,
    SpectralTreeClassifier,
    load_model,
)

N_ROWS = 12
SMALL = {"random_state": 0, "n_epochs": 2}
# (estimator, data, rows that partial_fit learns after fit)
CASES = {
    "label tree": (LabelTreeClassifier(arity=8, random_state=0), "text", 0),
    "label tree, dense": (LabelTreeClassifier(arity=4, random_state=0), "many", 0),
    "label tree, nearest rows": (LabelTreeClassifier(random_state=0), "rings", 0),
    "label tree, online": (LabelTreeClassifier(arity=8, random_state=0), "text", 100),
    "label tree, three trees": (LabelTreeClassifier(arity=8, n_trees=3, beam=2, random_state=0), "text", 0),
    "label tree, several labels": (LabelTreeClassifier(arity=8, random_state=0), "tagged", 0),
    "recall tree": (RecallTreeClassifier(**SMALL), "text", 0),
    "recall tree, dense, one path": (RecallTreeClassifier(beam=1, n_candidates=6, **SMALL), "many", 0),
    "recall tree, hashed": (RecallTreeClassifier(table_bits=12, **SMALL), "text", 0),
    "recall tree, crossed": (RecallTreeClassifier(path_features="crossed", **SMALL), "text", 0),
    "recall tree, four children": (RecallTreeClassifier(arity=4, **SMALL), "many", 0),
    "spectral tree": (SpectralTreeClassifier(random_state=0, n_epochs=2), "text", 0),
    "spectral tree, dense": (SpectralTreeClassifier(random_state=0, n_epochs=2), "many", 0),
    "spectral tree, head": (
        SpectralTreeClassifier(n_trees=2, max_depth=3, n_candidates=12, n_head=3, leaf="bias", **SMALL), "text", 0
    ),
    "spectral tree, hashed": (SpectralTreeClassifier(beam=3, n_trees=2, table_bits=12, **SMALL), "many", 0),
    "lom tree": (LomTreeClassifier(**SMALL), "text", 0),
    "mlom tree": (MlomTreeClassifier(**SMALL), "many", 0),
    "mlom tree, no guests": (MlomTreeClassifier(guests=False, **SMALL), "text", 0),
    "one-against-all": (OneAgainstAllClassifier(**SMALL), "text", 0),
    "one-against-all, dense": (OneAgainstAllClassifier(**SMALL), "many", 0),
    "one-against-all, hashed": (OneAgainstAllClassifier(table_bits=12, **SMALL), "text", 0),
    "one-against-all, low rank": (OneAgainstAllClassifier(rank=5, **SMALL), "many", 0),
}  # fmt: skip


@pytest.fixture(scope="module")
def rings():
    """Classes of two distant shapes each: nearest rows help a linear model."""
    rng = np.random.default_rng(3)
    centres = 4 * rng.standard_normal((60, 4))
    cluster = rng.integers(0, 60, 900)
    return (centres[cluster] + 0.4 * rng.standard_normal((900, 4))).astype(np.float32), cluster % 12


@pytest.fixture(scope="module", params=CASES)
def case(request):
    clf, data, n_online = CASES[request.param]
    X, y = request.getfixturevalue(data)
    clf.fit(X[:800], y[:800])
    if n_online:
        clf.partial_fit(X[800 : 800 + n_online], y[800 : 800 + n_online])
    return clf, X[-N_ROWS:].astype(np.float32), request.param


def parts_of(found):
    """Both scores of an explanation, added up from its parts."""
    own = sum(one.contribution for one in found.contributions) + found.other_features + sum(found.terms.values())
    other = sum(one.runner_up for one in found.contributions) + found.other_features_runner_up
    return own, other + sum(found.runner_up_terms.values())


def test_parts_sum_to_the_score(case):
    clf, X, name = case
    labels, scores = clf.predict_topk(X, k=3)
    for row in range(N_ROWS):
        found = clf.explain(X[row : row + 1], k=4)
        assert found.scored
        assert found.label == labels[row, 0]
        own, other = parts_of(found)
        np.testing.assert_allclose([own, found.score], scores[row, 0], rtol=1e-5, atol=1e-5)
        if np.isfinite(scores[row, 1]):
            assert found.runner_up == labels[row, 1]
            np.testing.assert_allclose([other, found.runner_up_score], scores[row, 1], rtol=1e-5, atol=1e-5)
        else:  # no other label was scored
            assert found.runner_up is None and found.runner_up_score == -np.inf
        third = clf.explain(X[row : row + 1], label=labels[row, 2])
        assert third.runner_up == labels[row, 0]
        if np.isfinite(scores[row, 2]):
            np.testing.assert_allclose(third.score, scores[row, 2], rtol=1e-5, atol=1e-5)
    nearest_rows = any("nearest training row" in part for part in found.terms)
    assert nearest_rows == ("neighbors" in clf._state)
    assert nearest_rows or name != "label tree, nearest rows"


def test_the_path_is_that_of_the_prediction(case):
    clf, X, name = case
    visited = clf.decision_path(X).tocsr()
    for row in range(N_ROWS):
        found = clf.explain(X[row : row + 1])
        nodes = [step.node for step in found.path] + [step.child for step in found.path[-1:]]
        if clf.get_params().get("n_trees", 1) == 1 or name.startswith("spectral"):  # else it may be a later tree
            assert set(nodes) <= set(visited[[row]].indices.tolist())
        for step in found.path:
            assert 0 <= step.probability <= 1
            below = found.path[found.path.index(step) + 1 :][:1]
            assert not below or below[0].node == step.child


def test_the_score_of_a_linear_model_by_hand(many):
    X, y = many
    clf = OneAgainstAllClassifier(random_state=0, n_epochs=2).fit(X[:900], y[:900])
    found = clf.explain(X[0], k=8)
    number = int(np.flatnonzero(clf.classes_ == found.label)[0])
    columns = clf._state["columns"]
    by_feature = {one.feature: one.contribution for one in found.contributions}
    expected = columns.weight[:, number].astype(float) * X[0].astype(np.float32)
    np.testing.assert_allclose([by_feature[f] for f in range(8)], expected, rtol=1e-6)
    assert found.terms == {"bias": pytest.approx(columns.bias[number])}
    differences = [abs(one.difference) for one in found.contributions]
    assert differences == sorted(differences, reverse=True)


def test_margins_sum_up(text):
    X, y = text
    clf = LabelTreeClassifier(arity=8, random_state=0).fit(X[:800], y[:800])
    found = clf.explain(X[[900]], k=50)
    for step in found.path:
        assert step.bias + sum(amount for _, amount in step.features) == pytest.approx(step.margin, abs=1e-6)


def test_words_of_a_pipeline(tmp_path):
    texts = ["red apple", "green apple", "fast car", "slow car", "old house", "new house"] * 3
    y = ["fruit", "fruit", "vehicle", "vehicle", "home", "home"] * 3
    pipeline = make_pipeline(TfidfVectorizer(), ManyClassClassifier(random_state=0)).fit(texts, y)
    names, row = pipeline[0].get_feature_names_out(), pipeline[0].transform(["the green house of a fast car car"])
    found = pipeline[-1].explain(row, feature_names=names)
    assert found.label == "vehicle"
    assert {one.name for one in found.contributions[:4]} >= {"house", "car"}
    assert {one.name: one.difference for one in found.contributions}["car"] > 0
    assert "nearest label means" in str(found) and "vehicle" in str(found).splitlines()[0]
    assert found.nearest[0][0] == "vehicle" and 0 < found.nearest[0][1] <= 1
    same = pipeline[-1].explain(row, feature_names=dict(enumerate(names)))
    assert same == found
    assert json.loads(json.dumps(found.to_dict()))["contributions"][0]["name"] == found.contributions[0].name
    path = tmp_path / "words.model"
    pipeline[-1].save(path)
    assert load_model(path).explain(row, feature_names=names) == found


def test_long_labels_that_differ_at_the_end():
    """As addresses do."""
    texts, topics = ["red apple", "green apple", "fast car", "slow car"], ["fruit", "fruit", "vehicle", "vehicle"]
    y = [f"http://example.org/subjects/{topic}" for topic in topics]
    pipeline = make_pipeline(TfidfVectorizer(), OneAgainstAllClassifier(random_state=0)).fit(texts, y)
    head = str(pipeline[-1].explain(pipeline[0].transform(["red car"]))).splitlines()[2]
    assert "fruit" in head and "vehicle" in head


def test_names_of_a_dataframe(blobs):
    X, y = blobs
    table = pd.DataFrame(X, columns=["a", "b", "c", "d", "e"])
    clf = RecallTreeClassifier(**SMALL).fit(table, y)
    found = clf.explain(table.iloc[[0]])
    assert {one.name for one in found.contributions} == {"a", "b", "c", "d", "e"}
    assert {one.name: one.value for one in found.contributions}["b"] == pytest.approx(X[0, 1], rel=1e-6)


def test_a_label_that_is_not_a_candidate(text):
    X, y = text
    clf = LabelTreeClassifier(arity=4, beam=1, random_state=0).fit(X[:800], y[:800])
    scored = clf.candidates(X[[900]]).indices
    other = next(label for label in range(80) if label not in scored)
    found = clf.explain(X[[900]], label=clf.classes_[other])
    assert not found.scored and np.isfinite(found.score)
    assert "not among the candidates" in str(found)
    assert parts_of(found)[0] == pytest.approx(found.score)


def test_a_label_without_rows(text):
    X, y = text
    clf = LabelTreeClassifier(arity=8, random_state=0).fit(X[:800], y[:800]).add_classes([1000])
    found = clf.explain(X[[0]], label=1000)
    assert not found.scored and found.score == -np.inf
    assert found.to_dict()["score"] is None
    assert "1000" in str(found)


def test_a_picture(text):
    X, y = text
    clf = LabelTreeClassifier(arity=8, random_state=0).fit(X[:800], y[:800])
    found = clf.explain(X[[900]], k=3)
    ax = found.plot(Figure().subplots())
    drawn = [bar.get_width() for bar in ax.patches]
    assert sum(drawn) == pytest.approx(found.score - found.runner_up_score)
    assert len(ax.get_yticklabels()) == len(drawn)


def test_dollars_in_a_picture_are_no_formulas(blobs):
    X, y = blobs
    clf = RecallTreeClassifier(**SMALL).fit(X, np.char.add(np.char.add(r"$\no_", y.astype(str)), "$"))
    found = clf.explain(X[0], feature_names=[rf"${i}$ \no $\no$" for i in range(5)])
    figure = Figure()
    found.plot(figure.subplots())
    figure.savefig(io.BytesIO())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": np.zeros((2, 5))}, "one row, got 2"),
        ({"x": np.zeros(4)}, "4 features"),
        ({"x": np.zeros(5), "k": 0}, "k must be an integer"),
        ({"x": np.zeros(5), "label": 99}, "label=99 is not a class"),
        ({"x": np.zeros(5), "label": np.eye(2)}, r"\) is not a class"),
        ({"x": np.zeros(5), "label": [[1, 2], [3]]}, "is not a class"),
        ({"x": np.zeros(5), "feature_names": 5}, "feature_names must be a list or array of names, or a dict, got 5"),
        ({"x": np.zeros(5), "feature_names": "abcde"}, "feature_names must be a list .* got 'abcde'"),
        ({"x": [[1, 2], [3]]}, "x contains rows of different lengths"),
        ({"x": np.zeros(5), "feature_names": ["a"]}, "feature_names has 1 names"),
        ({"x": "a text"}, "vectorizer.transform"),
        ({"x": [[0.0, 0.0, 0.0, 0.0, np.nan]]}, "NaN"),
    ],
)
def test_bad_input(blobs, arguments, message):
    X, y = blobs
    clf = RecallTreeClassifier(**SMALL).fit(X, y)
    with pytest.raises(ValueError, match=message):
        clf.explain(**arguments)


def test_rows_of_any_shape(blobs):
    X, y = blobs
    clf = RecallTreeClassifier(**SMALL).fit(X, y)
    for row in (X[0], X[:1], X[0].tolist(), sp.csr_array(X[:1]), sp.csr_matrix(X[:1])):
        assert clf.explain(row).score == pytest.approx(clf.predict_topk(X[:1], k=1)[1][0, 0], rel=1e-5)
    with pytest.raises(ValueError, match="not fitted"):
        RecallTreeClassifier().explain(X[0])


@pytest.mark.parametrize("x", [3.0, None, []])
def test_what_is_no_row_is_refused(x):
    clf = RecallTreeClassifier(n_epochs=1, random_state=0).fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    with pytest.raises(ValueError):
        clf.explain(x)
    for label in ([1], ("a", "b"), "c"):
        with pytest.raises(ValueError, match="not a class"):
            clf.explain([0.0, 1.0], label=label)
