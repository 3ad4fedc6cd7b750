"""Classes are added, removed, renamed and merged without training."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

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
from manyclass.core import vocabulary
from manyclass.core.model_file import ModelFormatError, read, write
from manyclass.core.taxonomy import Taxonomy, from_arrays, renamed, to_arrays

SMALL = {"random_state": 0, "n_epochs": 2}
KINDS = {
    "label-tree": LabelTreeClassifier(arity=8, random_state=0),
    "recall-tree": RecallTreeClassifier(**SMALL),
    "spectral-tree": SpectralTreeClassifier(**SMALL),
    "lom-tree": LomTreeClassifier(**SMALL),
    "mlom-tree": MlomTreeClassifier(**SMALL),
    "one-against-all": OneAgainstAllClassifier(**SMALL),
}


@pytest.fixture(scope="module", params=KINDS)
def model(request, many, tmp_path_factory):
    """A function that returns a fresh copy of a model of each kind, with text labels; and rows."""
    X, y = many
    path = tmp_path_factory.mktemp("models") / "a.model"
    KINDS[request.param].fit(X[:900], [f"class {label}" for label in y[:900]]).save(path)
    return lambda: load_model(path), X.astype(np.float32), path.parent


def test_a_removed_class_is_never_predicted(model):
    make, X, folder = model
    clf, before = make(), make()
    best, scores = before.predict_topk(X, k=5)
    gone = [label.item() for label in np.unique(best[:, 0])[::3]]
    assert clf.remove_classes(gone) is clf
    assert list(clf.classes_) == list(before.classes_)  # numbers are stable
    assert clf.removed_classes_ == sorted(gone)
    others = ~np.isin(best[:, 0], gone)
    for one in (clf, reloaded(clf, folder)):
        labels, new_scores = one.predict_topk(X, k=5)
        assert not np.isin(labels, gone).any()
        assert (one.predict(X) == labels[:, 0]).all()
        assert (labels[others, 0] == best[others, 0]).all()
        close(new_scores[others, 0], scores[others, 0])
        assert all(len(set(row)) == 5 for row in labels.tolist())
        shares = one.predict_proba(X[:50])
        assert not shares[:, np.isin(one.classes_, gone)].any()
        sums = shares.sum(axis=1)
        np.testing.assert_allclose(sums[sums > 0], 1.0, rtol=1e-5)
        single, alone = one.predictor(k=3)(X[0])
        assert (single == labels[0, :3]).all()
        close(alone, new_scores[0, :3])


def close(new, old):
    """Equal up to rounding, which depends on how rows are divided into batches."""
    np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-6)


def reloaded(clf, folder):
    clf.save(folder / "changed.model")
    return load_model(folder / "changed.model")


def test_most_classes_removed(model):
    make, X, _ = model
    clf = make()
    kept = clf.classes_[:3].tolist()
    clf.remove_classes([label for label in clf.classes_.tolist() if label not in kept])
    labels, _ = clf.predict_topk(X, k=3)
    assert all(set(row) == set(kept) for row in labels.tolist())
    with pytest.raises(ValueError, match="k=4 is more than the 3 classes"):
        clf.predict_topk(X, k=4)
    with pytest.raises(ValueError, match="At least one class"):
        clf.remove_classes(kept)
    assert clf.predict_topk(X[:2])[0].shape == (2, 3)


def test_renamed_classes(model):
    make, X, folder = model
    clf, before = make(), make().predict(X)
    predict_one = clf.predictor()
    old = before[0].item()
    clf.rename_classes({old: "a much longer name than all the others", "class 3": "class 4", "class 4": "class 3"})
    swapped = {old: "a much longer name than all the others", "class 3": "class 4", "class 4": "class 3"}
    expected = [swapped.get(label, label) for label in before.tolist()]
    assert clf.predict(X).tolist() == expected
    assert reloaded(clf, folder).predict(X).tolist() == expected
    assert predict_one(X[0])[0][0] == expected[0]
    with pytest.raises(ValueError, match="'class 7' is the label of another class"):
        clf.rename_classes({"class 3": "class 7"})
    assert clf.predict(X).tolist() == expected


def test_merged_classes(model):
    make, X, folder = model
    clf, before = make(), make()
    best, scores = before.predict_topk(X, k=2)
    a, b = best[0, 0].item(), best[0, 1].item()
    c = next(label for label in before.classes_.tolist() if label not in (a, b))
    clf.merge_classes({a: c, b: c})
    for one in (clf, reloaded(clf, folder)):
        labels, new_scores = one.predict_topk(X, k=2)
        expected = [c if label in (a, b) else label for label in best[:, 0].tolist()]
        assert labels[:, 0].tolist() == expected
        close(new_scores[:, 0], scores[:, 0])
        assert not np.isin(labels, [a, b]).any()
    shares, old = clf.predict_proba(X[:50]), before.predict_proba(X[:50])
    at = [before.classes_.tolist().index(label) for label in (a, b, c)]
    np.testing.assert_allclose(shares[:, at[2]], old[:, at].sum(axis=1), atol=1e-6)
    last = next(label for label in before.classes_.tolist() if label not in (a, b, c))
    assert not np.isin(clf.merge_classes({c: last}).predict(X), [a, b, c]).any()


def test_added_classes(model):
    make, X, folder = model
    clf = make()
    if not hasattr(clf, "partial_fit"):
        with pytest.raises(ValueError, match="learns all rows at once"):
            clf.add_classes(["new"])
        return
    before = clf.predict(X)
    clf.add_classes(["new"])
    assert clf.classes_[-1] == "new"
    assert (clf.predict(X) == before).all()
    clf = reloaded(clf, folder)
    rows = np.tile(X[:1] + 100, (30, 1))
    clf.partial_fit(rows, ["new"] * 30)
    assert clf.predict(rows[:1]) == ["new"]


@pytest.mark.parametrize("label", [np.nan, np.inf])
def test_labels_that_are_no_numbers(many, label):
    clf = LabelTreeClassifier(random_state=0).fit(*many)
    for refused in (lambda: clf.add_classes([label]), lambda: clf.rename_classes({0: label})):
        with pytest.raises(ValueError, match="NaN or infinity"):
            refused()
    assert clf.add_classes([1e300]).classes_[-1] == 1e300  # not the largest integer


def test_a_removed_class_comes_back(many):
    X, y = many
    clf = RecallTreeClassifier(**SMALL).fit(X[:900], y[:900])
    before = clf.predict(X)
    clf.remove_classes([before[0]])
    assert clf.predict(X)[0] != before[0]
    assert (clf.add_classes([before[0]]).predict(X) == before).all()
    clf.remove_classes([before[0]]).partial_fit(X[:1], before[:1])
    assert clf.removed_classes_ == []
    assert clf.predict(X[:1]) == before[0]


def test_rows_of_a_merged_class_are_learned_by_the_other(many):
    X, y = many
    clf = OneAgainstAllClassifier(**SMALL).fit(X[:900], y[:900]).merge_classes({3: 5})
    n_classes = len(clf.classes_)
    clf.partial_fit(X[:20], np.full(20, 3))
    assert len(clf.classes_) == n_classes
    assert (clf.predict(X[:5]) != 3).all()
    assert clf.diagnose(X, np.where(y == 3, 5, y)) == clf.diagnose(X, y)


def test_several_labels_per_row(tagged, tmp_path):
    X, Y = tagged
    clf = LabelTreeClassifier(arity=8, random_state=0).fit(X, Y)
    before, shares = clf.predict(X).toarray(), clf.predict_proba(X[:100])
    first = int(before.sum(axis=0).argmax())
    other = (first + 1) % 60
    clf.merge_classes({first: other})
    clf.save(tmp_path / "tags.model")
    joined = load_model(tmp_path / "tags.model").predict_proba(X[:100])
    assert not joined[:, first].any()
    np.testing.assert_allclose(joined[:, other], np.minimum(shares[:, [first, other]].sum(axis=1), 1), atol=1e-6)
    unchanged = np.delete(np.arange(62), [first, other])
    close(joined[:, unchanged], shares[:, unchanged])
    clf.remove_classes([other])
    assert not clf.predict(X).toarray()[:, [first, other]].any()
    clf.partial_fit(X[:50], Y[:50])  # the rows of the removed column bring it back
    back = [column for column in (first, other) if Y[:50, [column]].sum()]
    assert back and set(clf.removed_classes_) == {first, other} - set(back)
    with pytest.raises(ValueError, match="nothing to rename"):
        clf.rename_classes({5: 6000})
    with pytest.raises(ValueError, match="must follow the last one, 61"):
        clf.add_classes([63])
    assert len(clf.add_classes([62, 63]).classes_) == 64


def test_names_of_columns(tagged):
    pandas = pytest.importorskip("pandas")
    X, Y = tagged
    names = [f"tag {number}" for number in range(62)]
    clf = LabelTreeClassifier(arity=8, random_state=0).fit(X, pandas.DataFrame(Y.toarray(), columns=names))
    clf.rename_classes({"tag 4": "four"}).remove_classes(["tag 5"]).add_classes(["new"])
    assert clf.label_names_[4] == "four" and clf.label_names_[-1] == "new"
    assert clf.removed_classes_ == ["tag 5"]
    assert not clf.predict(X)[:, 5].any()
    with pytest.raises(ValueError, match="'four' is the label of another class"):
        clf.rename_classes({"tag 6": "four"})
    assert clf.explain(X[[0]], label="four").label == "four"
    with pytest.raises(ValueError, match="two columns with the name 'a'"):
        LabelTreeClassifier().fit(X, pandas.DataFrame(Y.toarray(), columns=["a", "a", *names[2:]]))


def test_explanations_of_merged_classes(many):
    X, y = many
    clf = RecallTreeClassifier(**SMALL).fit(X[:900], y[:900])
    label, score = (array[0, 0] for array in clf.predict_topk(X[:1], k=1))
    other = next(one for one in clf.classes_.tolist() if one != label)
    clf.merge_classes({label: other})
    found = clf.explain(X[0])
    assert found.label == other and found.score == pytest.approx(score, rel=1e-5)
    assert found.runner_up not in (label, other)


def test_front_door(many):
    X, y = many
    clf = ManyClassClassifier(random_state=0).fit(X[:900], y[:900])
    assert clf.remove_classes([0]).merge_classes({1: 2}).rename_classes({2: 2000}) is clf
    assert sorted(clf.removed_classes_) == [0, 1]
    assert not np.isin(clf.predict(X), [0, 1, 2]).any()
    assert clf.add_classes([0]).removed_classes_ == [1]


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("remove_classes", [999], "999 is not a class"),
        ("remove_classes", [3, 3], "3 is in the list twice"),
        ("remove_classes", [], "at least one"),
        ("remove_classes", ["three"], "Labels are text"),
        ("rename_classes", {}, "takes a dict"),
        ("rename_classes", [3], "takes a dict"),
        ("rename_classes", {3: 1000, 4: 1000}, "1000 is in the list twice"),
        ("rename_classes", {3: 5}, "5 is the label of another class"),
        ("merge_classes", {3: 999}, "999 is not a class"),
        ("merge_classes", {3: 4, 4: 5}, "4 cannot be merged"),
        ("merge_classes", {3: 3}, "3 cannot be merged"),
        ("remove_classes", [1], "1 was removed or merged"),
        ("remove_classes", {3, 4}, "classes is a set, expected a list"),
        ("add_classes", [1j], "values of type complex128"),
        ("add_classes", [1], "1 was merged"),
    ],
)
def test_bad_input_changes_nothing(changed, method, given, message):
    clf, X = changed
    before = clf.predict_topk(X, k=3)
    with pytest.raises(ValueError, match=message):
        getattr(clf, method)(given)
    for old, new in zip(before, clf.predict_topk(X, k=3), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.fixture(scope="module")
def changed(many):
    X, y = many
    return RecallTreeClassifier(**SMALL).fit(X[:900], y[:900]).merge_classes({1: 2}), X


def test_a_slim_model_takes_no_new_classes(changed, tmp_path):
    clf, X = changed
    clf.save(tmp_path / "slim.model", slim=True)
    slim = load_model(tmp_path / "slim.model")
    assert slim.removed_classes_ == [1]
    with pytest.raises(ValueError, match="slim model"):
        slim.add_classes([12345])
    slim.remove_classes([2])
    assert not np.isin(slim.predict(X), [1, 2]).any()


@pytest.mark.parametrize("target", [[5, 1], [-1, -1], [1, 5], [-2, 1]])
def test_a_file_with_wrong_targets(blobs, tmp_path, target):
    X, y = blobs
    path = tmp_path / "a.model"
    clf = RecallTreeClassifier(**SMALL).fit(X[y < 2], y[y < 2]).merge_classes({0: 1})
    clf.save(path)
    arrays, metadata = read(path)
    write(path, {**arrays, "classes.target": np.array(target, np.int32)}, metadata)
    with pytest.raises(ModelFormatError, match=r"classes.target|merged into one that is gone"):
        load_model(path)


def test_sparse_rows_with_many_changes(text):
    X, y = text
    clf = LabelTreeClassifier(arity=8, random_state=0).fit(X[:800], y[:800])
    before = clf.predict(X)
    gone = np.unique(before)[:40]
    after = clf.remove_classes(gone).predict(sp.csr_matrix(X))
    kept = ~np.isin(before, gone)
    assert (after[kept] == before[kept]).all() and not np.isin(after, gone).any()


def test_sets_end_with_classes_that_are_removed():
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=400)
    X = np.eye(4)[y] + 0.3 * rng.standard_normal((400, 4))
    clf = LabelTreeClassifier(random_state=0).fit(X[:200], y[:200]).conformal(X[200:], y[200:])
    assert clf.predict_set(X).shape == (400, 4)
    with pytest.raises(ValueError, match="conformal"):
        clf.remove_classes([3]).predict_set(X)


def text_rows(n=200):
    """Rows whose label is their largest column."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=n)
    return np.eye(4)[y] + 0.2 * rng.standard_normal((n, 4)), np.array(["a", "b", "c", "d"])[y]


def test_a_taxonomy_follows_renamed_classes():
    X, y = text_rows()
    clf = LabelTreeClassifier(random_state=0).fit(X, y, hierarchy={"a": "low", "b": "low", "c": "high", "d": "high"})
    before = clf.predict_path(X, confidence=0.5).paths
    after = clf.rename_classes({"a": "b", "b": "A"}).predict_path(X, confidence=0.5).paths
    assert ("low", "a") in before and ("low", "A") in after
    new = {"a": "b", "b": "A"}
    assert after == [tuple(new.get(name, name) for name in path) for path in before]


def test_a_taxonomy_follows_labels_that_are_given_as_another_type_of_number():
    X, y = text_rows()
    numbers = np.array([0, 1, 2, 3])[np.searchsorted(["a", "b", "c", "d"], y)]
    for labels, names in ((numbers, {1.0: 5.0}), (numbers.astype(float), {1: 5})):
        parents = {label: "low" if label < 2 else "high" for label in np.unique(labels).tolist()}
        clf = LabelTreeClassifier(random_state=0).fit(X, labels, hierarchy=parents).rename_classes(names)
        new = str(clf.classes_[1])
        assert clf.taxonomy_.path(clf.classes_[1]) == ("low", new)
        assert ("low", new) in clf.predict_path(X, confidence=0.5).paths


def test_fractions_are_no_labels():
    """`fit` refuses them; beside one, all other labels became floats, which merged large integers."""
    X, y = text_rows()
    labels = np.array([2**53 + 1, 2**53 + 3, 7, 8])[np.searchsorted(["a", "b", "c", "d"], y)]
    clf = LabelTreeClassifier(random_state=0).fit(X, labels)
    for change in (lambda: clf.rename_classes({7: 0.5}), lambda: clf.add_classes([9, 0.5])):
        with pytest.raises(ValueError, match="is not a label: pass texts or whole numbers"):
            change()
    assert clf.classes_.tolist() == [7, 8, 2**53 + 1, 2**53 + 3]


def test_large_integers_beside_floats_stay_as_they_are(tmp_path):
    X, y = text_rows()
    clf = LabelTreeClassifier(random_state=0).partial_fit(X, np.where(y == "a", 1.0, 2.0))
    known = clf.classes_.tolist()
    for large in (5, 2**53 + 1, 2**53 + 3):  # the first goes into the array, which then has spare capacity
        known.append(large)
        assert clf.partial_fit(X[:1], [large]).classes_.tolist() == known
    with pytest.raises(ValueError, match="no type of numpy can represent together"):
        clf.save(tmp_path / "a.model")


def test_the_truth_of_several_labels_follows_merged_columns():
    X, y = text_rows()
    Y = sp.csr_array((y[:, None] == ["a", "b", "c", "d"]).astype(np.int8))
    clf = LabelTreeClassifier(random_state=0).fit(X, Y).merge_classes({3: 2})
    assert clf.diagnose(X, Y)["accuracy"] > 0.9
    assert clf.calibrate(X, Y, method="temperature").predict_topk(X, 1, probabilities=True)[1].mean() > 0.9


def test_a_predictor_stays_refused_after_a_removal():
    X, y = text_rows()
    clf = LabelTreeClassifier(random_state=0).fit(X, y)
    predict = clf.predictor(k=4)
    clf.remove_classes(["a"])
    for _ in range(2):
        with pytest.raises(ValueError, match="k=4 is more than the 3 classes"):
            predict(X[0])


def test_sets_end_with_classes_that_come_back():
    X, y = text_rows()
    clf = LabelTreeClassifier(random_state=0).fit(X, y).remove_classes(["a"]).conformal(X[y != "a"], y[y != "a"])
    with pytest.raises(ValueError, match="conformal"):
        clf.add_classes(["a"]).predict_set(X)


def test_named_columns_with_numbers():
    pandas = pytest.importorskip("pandas")
    X, y = text_rows()
    Y = pandas.DataFrame((y[:, None] == ["a", "b", "c", "d"]).astype(np.int8), columns=[0, 1, 2, 3])
    clf = LabelTreeClassifier(random_state=0).fit(X, Y).add_classes([4])
    assert clf.label_names_ == ["0", "1", "2", "3", "4"]
    with pytest.raises(ValueError, match="label of another class"):
        clf.rename_classes({"0": 1})
    clf.remove_classes([1])
    with pytest.raises(ValueError, match="not a class"):
        clf.explain(X[0], label="1")


def test_calibration_without_candidates(many):
    X, y = many
    clf = RecallTreeClassifier(**SMALL).fit(X[:900], y[:900]).add_classes([10_000])
    clf.remove_classes(clf.classes_[:-1].tolist())
    with pytest.raises(ValueError, match="no row has a candidate"):
        clf.calibrate(X[:30], np.full(30, 10_000))


def test_a_failed_renaming_leaves_the_taxonomy_as_it_was():
    model = LabelTreeClassifier(random_state=0).fit(np.eye(3), ["car", "tram", "pear"], hierarchy={
        "car": "vehicle", "tram": "vehicle", "pear": "fruit"})  # fmt: skip
    model.partial_fit([[1.0, 1.0, 0.0]], ["bus"])
    with pytest.raises(ValueError, match="'bus' is the label of another class"):
        model.rename_classes({"car": "bus"})
    assert model.taxonomy_.path("car") == ("vehicle", "car") and model.classes_.tolist()[-1] == "bus"


def test_changes_of_many_classes_take_linear_time():
    n = 100_000
    names = [f"n{number}" for number in range(n)]
    model = OneAgainstAllClassifier(random_state=0).partial_fit(np.eye(2), ["a", "b"])
    with pytest.raises(ValueError, match="'b' is in the list twice"):
        model.add_classes([*names, "b", "b"])
    model.add_classes(names).merge_classes(dict.fromkeys(names, "a"))
    assert model.removed_classes_ == names
    parents = {name: f"group {number % 30}" for number, name in enumerate(names)}
    taxonomy = renamed(to_arrays(Taxonomy.from_parents(parents)), {name: f"new {name}" for name in names})
    assert from_arrays(taxonomy).path("new n31") == ("group 1", "new n31")


def test_the_best_of_few_classes_that_are_left(many, monkeypatch):
    """A few rows at a time: nearly all classes are predicted for each."""
    monkeypatch.setattr(vocabulary, "_AT_A_TIME", 1000)
    X, y = many
    model, left = OneAgainstAllClassifier(random_state=0).partial_fit(X, y), [3, 70, 149]
    labels, _ = model.predict_topk(X, len(model.classes_))
    model.remove_classes(np.setdiff1d(y, left))
    assert model.predict(X).tolist() == [next(label for label in row if label in left) for row in labels.tolist()]
    assert model._index.n_current == 3
    model.add_classes([0])
    assert model._index.n_current == 4


def test_a_new_class_keeps_the_threshold_of_sets(many):
    X, y = many
    model = RecallTreeClassifier(**SMALL).fit(X[:900], y[:900]).remove_classes([5])
    model.conformal(X[900:], y[900:], coverage=0.5).add_classes([1000])
    assert model.predict_set(X[:2]).shape == (2, len(model.classes_))
    with pytest.raises(NotFittedError):  # a class that comes back changes the sets
        model.add_classes([5]).predict_set(X[:2])


def test_removed_columns_are_unknown_true_labels():
    rng = np.random.default_rng(0)
    Y = sp.csr_array((rng.random((300, 20)) < 0.2).astype(np.int8))
    model = LabelTreeClassifier(random_state=0, threshold=0.5).fit(rng.normal(size=(300, 8)), Y).remove_classes([3])
    wide = sp.csr_array(np.eye(22, dtype=np.int8))
    labels = model._truth(rng.normal(size=(22, 8)), wide).label.tolist()
    assert labels == [-1 if label in (3, 20, 21) else label for label in range(22)]
