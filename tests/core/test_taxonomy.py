"""Taxonomies: their forms, bad ones, coarser predictions, and files."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from manyclass import (
    LabelTreeClassifier,
    ManyClassClassifier,
    ModelFormatError,
    RecallTreeClassifier,
    Taxonomy,
    load_model,
)
from manyclass.core import model_file
from manyclass.metrics import path_accuracy

PARENTS = {"apple": "fruit", "pear": "fruit", "fruit": "food", "bread": "food", "car": None}
PATHS = {7: "Food > Fruit > Apple", 8: "Food>Fruit>Pear", 9: "Food > Bread", 10: "Car"}


def blobs():
    """Rows of 30 classes in 5 groups: class 10 * g + c is near its group, and groups overlap little."""
    centres = np.repeat(make_blobs(5, 8, centers=5, center_box=(-30, 30), random_state=3)[0], 6, axis=0)
    centres = centres + np.random.default_rng(0).normal(size=centres.shape) * 2.0
    X, y = make_blobs(1500, centers=centres, random_state=1)
    return X.astype(np.float32), y


GROUPS = {label: f"group {label // 6}" for label in range(30)} | {f"group {g}": "even" for g in (0, 2, 4)}


@pytest.fixture(scope="module")
def data():
    return blobs()


@pytest.fixture(scope="module")
def model(data):
    return LabelTreeClassifier(random_state=0, neighbors=False).fit(data[0][:1000], data[1][:1000], hierarchy=GROUPS)


# -- forms ---------------------------------------------------------------------------------------------------------


def test_parents_and_paths_give_the_same_tree():
    a, b = Taxonomy.from_parents(PARENTS), Taxonomy.from_paths(PATHS)
    assert a.path("pear") == ("food", "fruit", "pear") and b.path(8) == ("Food", "Fruit", "Pear")
    assert sorted(a.depth) == sorted(b.depth) == [0, 1, 1, 2, 2, 3, 3]
    assert a.find(["car", "bread", "plane"]).tolist() == [*a.find(["car", "bread"]), -1]


def test_labels_that_are_paths_may_be_inner_nodes_and_have_another_separator():
    taxonomy = Taxonomy.from_paths(["a/b/c", "a / b", "d"], separator="/")
    assert taxonomy.path("a / b") == ("a", "b") and taxonomy.path("a/b/c") == ("a", "b", "c")
    assert taxonomy.depth[taxonomy.find(["a/b/c", "a / b", "d", "a"])].tolist() == [3, 2, 1, 1]


def test_ancestors_are_the_nodes_of_the_path():
    taxonomy = Taxonomy.from_parents(PARENTS)
    above = taxonomy.ancestors(taxonomy.find(["pear", "unknown"]))
    assert sorted(taxonomy.keys[above[[0]].indices]) == ["", "food", "fruit", "pear"]
    assert taxonomy.keys[above[[1]].indices].tolist() == [""]


def test_an_empty_label_is_the_root():
    X, y = np.eye(6), ["", "a", "b", "c", "d", "e"]
    model = LabelTreeClassifier(arity=4, random_state=0).fit(X, y)
    assert sorted(filter(lambda key: len(key) == 1, model.taxonomy_.keys)) == ["a", "b", "c", "d", "e"]
    assert len(model.predict_path(X).keys) == 6


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Taxonomy.from_parents({"a": "b", "b": "c", "c": "b"}), "cycle: b < c < b"),
        (lambda: Taxonomy.from_parents({"a": "a"}), "cycle: a < a"),
        (lambda: Taxonomy.from_parents({"": "a"}), "is empty or None"),
        (lambda: Taxonomy.from_parents({n: n + 1 for n in range(1100)}), "deeper than 1000 levels, at '0'"),
        (lambda: Taxonomy.from_paths({"x": "a > " * 200_000 + "b"}), "has 200001 parts; at most 1000"),
        (lambda: Taxonomy.from_parents({n: max(n + 1, 40_000) for n in range(40_900)}), "deep: more than 442 levels"),
        (lambda: Taxonomy.from_paths(["a > > b"]), "'a > > b' has an empty part"),
        (lambda: Taxonomy.from_paths({1: "a > b", 2: "a>b"}), "1 and 2 have the same path 'a>b'.*'a > b > 2'"),
        (lambda: Taxonomy([-1, 7], ["", "a"]), "parent of node 'a' is 7"),
        (lambda: Taxonomy([-1, 0, 0], ["", "a", "a"]), "same key"),
        (lambda: Taxonomy([0, 0], ["", "a"]), "Node 0 must be the root"),
        (lambda: Taxonomy([-1], ["", "a"]), "one entry per node"),
        (lambda: Taxonomy.from_parents(PARENTS).path("plane"), "no node 'plane'"),
    ],
)
def test_bad_taxonomies_are_clear_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "hierarchy, message",
    [({0: "x"}, "no place for 29 of 30 labels, such as 1, 2"), (3, "mapping of label to parent.*got int")],
)
def test_fit_refuses_a_hierarchy_without_the_labels_and_keeps_the_model(data, model, hierarchy, message):
    before = model.taxonomy_
    with pytest.raises(ValueError, match=message):
        model.fit(*data, hierarchy=hierarchy)
    assert model.taxonomy_ is before


# -- predictions ---------------------------------------------------------------------------------------------------


def test_predicted_paths_are_the_deepest_nodes_of_enough_probability(data, model):
    X, taxonomy, confidence = data[0][1000:], model.taxonomy_, 0.6
    found = model.predict_path(X, confidence)
    probabilities = model.predict_proba(X) @ taxonomy.ancestors(taxonomy.find(model.classes_))
    for row, key in enumerate(found.keys):
        enough = probabilities[row] >= confidence
        node = taxonomy.find([key])[0]
        assert enough[node] and taxonomy.depth[node] == taxonomy.depth[enough].max()
        assert found.probabilities[row] == pytest.approx(probabilities[row, node], abs=1e-5)
        assert found.paths[row] == taxonomy.path(key)
    assert {len(path) for path in found.paths} >= {1, 2, 3}  # labels below "even" have three nodes
    assert path_accuracy(data[1][1000:], found.keys, taxonomy) > np.mean(model.predict(X) == data[1][1000:])


def test_more_confidence_gives_paths_that_are_beginnings_of_others(data, model):
    sure, unsure = (model.predict_path(data[0][1000:1100], confidence).paths for confidence in (0.99, 0.6))
    assert all(b[: len(a)] == a for a, b in zip(sure, unsure, strict=True)) and sure != unsure


def test_without_a_taxonomy_the_groups_are_those_of_the_learned_tree(data):
    X, y = data
    learned = LabelTreeClassifier(arity=4, random_state=0, neighbors=False).fit(X[:1000], y[:1000])
    found = learned.predict_path(X[1000:], confidence=0.9)
    assert path_accuracy(y[1000:], found.keys, learned.taxonomy_) > np.mean(learned.predict(X[1000:]) == y[1000:])
    table = {node["node"]: node for node in learned.tree_table()}
    leaf = next(node for node in table.values() if len(node["labels"]))
    path = learned.taxonomy_.path(leaf["labels"][0])
    assert len(path) == leaf["depth"] + 1 and path[-1] == str(leaf["labels"][0])
    assert set(path[-2].removesuffix(", ...").split(", ")) <= set(map(str, leaf["labels"]))


def test_the_groups_of_the_learned_tree_leave_out_labels_without_rows(data):
    X, y = data
    model = LabelTreeClassifier(random_state=0).fit(X[:300], y[:300])
    before = model.predict_path(X[300:310], confidence=0.5).keys
    model.add_classes(range(100, 150))
    assert (model.predict_path(X[300:310], confidence=0.5).keys == before).all()
    assert model.taxonomy_.find([100])[0] == -1 and model.taxonomy_.find(y[:1])[0] > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Taxonomy.from_parents(5), "parents must be a dict of label to parent, got 5"),
        (lambda: Taxonomy.from_parents([1, 2]), "parents must be a dict"),
        (lambda: Taxonomy.from_paths(5), "paths must be a dict of label to path, or a list of paths, got 5"),
        (lambda: Taxonomy.from_paths("a > b"), "paths must be a dict"),
        (lambda: Taxonomy.from_paths(["a"], separator=""), "separator must be a text that is not empty, got ''"),
        (lambda: Taxonomy.from_paths(["a"], separator=5), "separator must be a text that is not empty, got 5"),
        (lambda: Taxonomy.from_paths(["a"]).ancestors("x"), "nodes must be a list of integers below 2, got 'x'"),
        (lambda: Taxonomy.from_paths(["a"]).ancestors([2]), "nodes must be a list of integers below 2"),
        (lambda: Taxonomy.from_paths(["a"]).ancestors([[0]]), "nodes must be a list of integers"),
    ],
)
def test_arguments_of_the_wrong_type(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_every_estimator_predicts_paths_of_a_taxonomy_that_it_is_given(data):
    X, y = data
    model = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X[:1000], y[:1000])
    with pytest.raises(ValueError, match="has no taxonomy: pass one"):
        model.predict_path(X[1000:])
    taxonomy = Taxonomy.from_parents(GROUPS)
    found = model.predict_path(X[1000:], 0.9, taxonomy)
    assert found.paths == model.predict_path(X[1000:], 0.9, GROUPS).paths
    assert path_accuracy(y[1000:], found.keys, taxonomy) > np.mean(model.predict(X[1000:]) == y[1000:])


def test_the_front_door_passes_the_hierarchy_on(data, model):
    front = ManyClassClassifier(random_state=0).fit(*data, hierarchy=GROUPS)
    assert front.predict_path(data[0][:3]).paths[0][0] in ("even", "group 1", "group 3")


@pytest.mark.parametrize("confidence", [0, 1.5, True, "high", float("nan")])
def test_confidence_must_be_a_probability(data, model, confidence):
    with pytest.raises(ValueError, match="confidence must be a number above 0 and up to 1"):
        model.predict_path(data[0], confidence)


def test_labels_that_come_later_are_found_in_the_taxonomy_or_belong_to_the_root(data):
    X, y = data
    few = y < 28
    model = LabelTreeClassifier(random_state=0, neighbors=False).fit(X[few], y[few], hierarchy=GROUPS)
    for _ in range(3):
        model.partial_fit(X[~few], np.where(y[~few] == 29, 99, y[~few]))
    kinds = {found.split()[0] if found else "" for found in model.predict_path(X[y == 29], 0.9).keys}
    assert "" in kinds
    assert "28" in set(model.predict_path(X[y == 28], 0.5).keys)


def test_a_matrix_of_labels_has_no_path(data):
    X, y = data
    model = LabelTreeClassifier(random_state=0, n_epochs=2).fit(X[:200], np.eye(30)[y[:200]])
    with pytest.raises(ValueError, match="requires one label per row"):
        model.predict_path(X[:2])


# -- files ---------------------------------------------------------------------------------------------------------


def test_a_taxonomy_survives_a_file(tmp_path, data, model):
    for slim in (False, True):
        model.save(tmp_path / "a.model", slim=slim)
        loaded = load_model(tmp_path / "a.model")
        assert loaded.predict_path(data[0]).paths == model.predict_path(data[0]).paths
        assert loaded.taxonomy_.path(3) == ("even", "group 0", "3")


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("parent", 99, "taxonomy.parent.*outside"),
        ("parent", 1, "the taxonomy is invalid: The hierarchy has a cycle"),
        ("key_end", 10**6, "the taxonomy is invalid: the texts"),
    ],
)
def test_files_with_bad_taxonomies_are_refused(tmp_path, model, name, value, message):
    model.save(tmp_path / "a.model")
    arrays, metadata = model_file.read(tmp_path / "a.model", mmap=False)
    arrays[f"taxonomy.{name}"] = arrays[f"taxonomy.{name}"].copy()
    arrays[f"taxonomy.{name}"][1 if name == "parent" else -1] = value
    model_file.write(tmp_path / "a.model", arrays, metadata)
    with pytest.raises(ModelFormatError, match=message):
        load_model(tmp_path / "a.model")


def test_a_long_cycle_is_found_at_once():
    n = 200_000  # quadratic time would take hours
    parents = {f"n{i}": f"n{(i + 1) % n}" for i in range(n)}
    with pytest.raises(ValueError, match="cycle"):
        Taxonomy.from_parents(parents)


def test_a_cycle_below_many_nodes_is_found_early():
    """A thousand passes over all nodes took 20 seconds."""
    parent = np.arange(1, 1_000_001)
    parent[0], parent[-1] = -1, 1
    with pytest.raises(ValueError, match="too deep: more than 49 levels on average, or a cycle"):
        Taxonomy(parent, range(1_000_000))


def test_removed_classes_need_no_place():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=60)
    X = np.eye(3)[y] + 0.1 * rng.standard_normal((60, 3))
    clf = LabelTreeClassifier(random_state=0).fit(X, y).remove_classes([2])
    assert clf.predict_path(X, 0.5, taxonomy={0: "even", 1: "odd"}).paths[0]


def test_a_taxonomy_of_few_labels():
    """More than one leaf, but fewer labels than a model has space for at first."""
    y = np.arange(70) % 14
    X = np.random.default_rng(0).normal(size=(70, 5))
    hierarchy = {label: f"group {label % 3}" for label in range(14)}
    clf = LabelTreeClassifier(arity=4, n_epochs=1, random_state=0).fit(X, y, hierarchy=hierarchy)
    assert clf.taxonomy_.path(4) == ("group 1", "4")


def test_a_label_without_a_path_is_at_the_top():
    taxonomy = Taxonomy.from_paths({"apple": "Food > Apple", "car": None, "tram": None})
    assert taxonomy.path("car") == ("car",) and taxonomy.path("tram") == ("tram",)


def test_two_nodes_with_one_key_are_named():
    with pytest.raises(ValueError, match="the same key 'a'"):
        Taxonomy([-1, 0, 0], ["", "a", "a"])


def test_several_parents_are_refused():
    with pytest.raises(ValueError, match="The parent of 'apple' is a list: pass one parent per label"):
        Taxonomy.from_parents({"apple": ["fruit", "food"]})


def test_missing_parents_of_pandas_are_at_the_top():
    parents = {"fruit": float("nan"), "car": None, "apple": "fruit"}
    assert Taxonomy.from_parents(parents).path("apple") == ("fruit", "apple")
    numbers = {1: float("nan"), 2: 1.0, 3: 2.0}  # a column of numbers with a missing one
    assert Taxonomy.from_parents(numbers).path(3) == ("1", "2", "3")
