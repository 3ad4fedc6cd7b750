"""Saved estimators: all options, labels and the optimiser's state survive; broken files never reach a kernel."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import (
    SGD,
    LabelTreeClassifier,
    LomTreeClassifier,
    MlomTreeClassifier,
    ModelFormatError,
    OneAgainstAllClassifier,
    RecallTreeClassifier,
    load_model,
)
from manyclass.core import model_file
from manyclass.label_tree.weights import weights_of

sys.path.insert(0, str(Path(__file__).parents[2] / "reproduce" / "files"))
import mutated_models

FIXTURES = Path(__file__).parent / "models"
ALL = [RecallTreeClassifier, LabelTreeClassifier, LomTreeClassifier, MlomTreeClassifier, OneAgainstAllClassifier]


def rows(n=80, n_classes=12, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 5)).astype(np.float32), rng.integers(0, n_classes, n)


def same_predictions(one, other, X, exact=True):
    k = min(5, len(one.classes_))
    labels, scores = one.predict_topk(X, k)
    other_labels, other_scores = other.predict_topk(X, k)
    assert np.array_equal(labels, other_labels)
    if exact:
        assert np.array_equal(scores, other_scores)
    else:
        np.testing.assert_allclose(scores, other_scores, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("kind", ALL)
def test_a_loaded_model_predicts_the_same_and_goes_on_to_the_same_bytes(tmp_path, kind, mmap):
    X, y = rows()
    clf = kind(random_state=3).fit(X, y)
    clf.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m", mmap=mmap)
    assert type(loaded) is kind and loaded.get_params() == clf.get_params()
    same_predictions(clf, loaded, X)
    more, labels = rows(seed=1, n_classes=40)
    clf.partial_fit(more, labels).save(tmp_path / "a")
    loaded.partial_fit(more, labels).save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("kind", ALL)
def test_a_slim_model_predicts_the_same_and_refuses_to_learn(tmp_path, kind):
    X, y = rows(300, 40)
    clf = kind(random_state=0).fit(X, y)
    if kind is LabelTreeClassifier:
        clf.partial_fit(X, y)  # until then it is packed like a slim model
    clf.save(tmp_path / "whole")
    clf.save(tmp_path / "slim", slim=True)
    slim = load_model(tmp_path / "slim")
    same_predictions(clf, slim, X, exact=kind is not LabelTreeClassifier)
    assert clf.diagnose(X, y) == slim.diagnose(X, y)
    assert (tmp_path / "slim").stat().st_size < (tmp_path / "whole").stat().st_size
    with pytest.raises(ValueError, match="slim model"):
        slim.partial_fit(X, y)
    slim.save(tmp_path / "again", slim=True)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "slim").read_bytes()
    slim.save(tmp_path / "still slim")
    assert load_model(tmp_path / "still slim")._slim
    assert not slim.fit(X, y)._slim  # from scratch it may


@pytest.mark.parametrize("path_features", ["bias", "stop", "crossed"])
def test_path_features_survive_slimming(tmp_path, path_features):
    X, y = rows(300, 40)
    clf = RecallTreeClassifier(path_features=path_features, n_epochs=2, random_state=0).fit(X, y)
    clf.save(tmp_path / "m", slim=True)
    same_predictions(clf, load_model(tmp_path / "m"), X)


@pytest.mark.parametrize("table_bits", [8, 27])
def test_hashed_weights_survive_files_and_go_on_to_the_same_bytes(tmp_path, table_bits):
    X, y = rows(300, 60)
    clf = RecallTreeClassifier(table_bits=table_bits, n_epochs=2, random_state=0).fit(X, y)
    assert (clf._state["scorer"].mask[0] != 0) == (table_bits == 8)
    clf.save(tmp_path / "m")
    clf.save(tmp_path / "slim", slim=True)
    loaded = load_model(tmp_path / "m")
    for other in (loaded, load_model(tmp_path / "slim")):
        same_predictions(clf, other, X)
        assert clf.diagnose(X, y) == other.diagnose(X, y)
    more, labels = rows(seed=1, n_classes=90)
    clf.partial_fit(more, labels).save(tmp_path / "a")
    loaded.partial_fit(more, labels).save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("several_trees", [1, 3])
def test_slim_label_trees_of_sparse_rows_with_several_labels(tmp_path, several_trees):
    rng = np.random.default_rng(0)
    X = sp.random_array((300, 2000), density=0.01, rng=rng, format="csr", dtype=np.float32)
    Y = sp.random_array((300, 50), density=0.05, rng=rng, format="csr") != 0
    clf = LabelTreeClassifier(n_trees=several_trees, arity=20, random_state=0).fit(X, Y)
    clf.save(tmp_path / "m", slim=True)
    slim = load_model(tmp_path / "m")
    for block in (X, X[:1]):  # many rows at a node open it, a single one looks features up
        np.testing.assert_allclose(clf.predict_proba(block), slim.predict_proba(block), rtol=1e-3, atol=1e-5)
    assert (clf.predict(X) != slim.predict(X)).nnz <= 1
    assert slim.label_names_ is None and slim.multilabel_


def weights_in(path):
    """The weights of a label tree in a file that are not 0."""
    blocks = load_model(path)._state["blocks"]
    weights = np.concatenate([weights_of(blocks, node).ravel() for node in range(len(blocks.bias))])
    return weights[weights != 0]


def test_pruning_leaves_out_small_weights_only(tmp_path):
    X, y = rows(300, 40)
    clf = LabelTreeClassifier(random_state=0).fit(X, y)
    clf.save(tmp_path / "m", slim=True)
    middle = float(np.median(np.abs(weights_in(tmp_path / "m"))))
    sizes = []
    for prune in (0.0, middle, 1e9):
        clf.save(tmp_path / "m", slim=True, prune=prune)
        assert (np.abs(weights_in(tmp_path / "m")) > prune - 1e-3).all()  # they are rounded
        sizes.append(len(weights_in(tmp_path / "m")))
    assert sizes[0] > sizes[1] > sizes[2] == 0
    load_model(tmp_path / "m").predict(X)
    for wrong in ({"prune": 0.1}, {"slim": True, "prune": -1}, {"slim": True, "prune": float("nan")}):
        with pytest.raises(ValueError, match="prune must be"):
            clf.save(tmp_path / "m", **wrong)
    with pytest.raises(ValueError, match="for label trees"):
        RecallTreeClassifier(n_epochs=1).fit(X, y).save(tmp_path / "m", slim=True, prune=0.1)


@pytest.mark.parametrize(
    "names",
    [np.array(["ü", "", "b\n", "\ud800"]), np.array(["x", "yy", "z", "w"], dtype=object),
     np.array([5, -7, 2**40, 0]), np.array([0.5, 1.5, 2.5, -1.0]) * 2, np.array([True, False])],
    ids=["text", "objects", "ints", "floats", "truth"],
)  # fmt: skip
def test_labels_of_every_kind_survive(tmp_path, names):
    X, y = rows(n_classes=len(names))
    clf = OneAgainstAllClassifier(random_state=0).fit(X, names[y])
    clf.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert loaded.classes_.dtype == clf.classes_.dtype and np.array_equal(loaded.classes_, clf.classes_)
    assert np.array_equal(loaded.predict(X), clf.predict(X))
    loaded.partial_fit(X, names[y])
    assert np.array_equal(loaded.classes_, clf.classes_)


def test_options_of_every_kind_survive(tmp_path):
    X, y = rows(n_classes=3)
    state = np.random.RandomState(5)
    state.normal()
    options = {
        "learner": SGD(rate=0.25, decay=0.5),
        "n_candidates": 7,
        "class_weight": {0: 2.0, 1: 0.5},
        "random_state": state,
        "max_depth": 3,
        "bernstein": None,
    }
    clf = RecallTreeClassifier(n_epochs=2, **options).fit(X, y)
    clf.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    for name, value in options.items():
        if name != "random_state":
            assert getattr(loaded, name) == value
    assert loaded.random_state.normal() == state.normal()
    assert loaded.history_ == clf.history_ and loaded._options == clf._options
    with pytest.raises(ValueError, match="cannot be saved"):
        RecallTreeClassifier(n_epochs=1, verbose=object()).fit(X, y).save(tmp_path / "m")


def test_a_word_option_that_a_file_lacks_has_its_default(tmp_path):
    X, y = rows()
    RecallTreeClassifier(n_epochs=1, random_state=0).fit(X, y).save(tmp_path / "m")
    broken(tmp_path / "m", lambda arrays, metadata: metadata["options"].pop("path_features"))
    loaded = load_model(tmp_path / "m")
    assert loaded.path_features == "off"
    loaded.save(tmp_path / "again")
    assert load_model(tmp_path / "again").get_params() == loaded.get_params()


def test_feature_names_survive(tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = rows()
    frame = pd.DataFrame(X, columns=[f"column {i}" for i in range(X.shape[1])])
    LabelTreeClassifier(random_state=0).fit(frame, y).save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert list(loaded.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"column 0": "other"}))


def test_nothing_learned_is_nothing_to_save(tmp_path):
    with pytest.raises(ValueError, match="fit it before saving"):
        RecallTreeClassifier().save(tmp_path / "m")


def test_a_newer_format_asks_for_a_newer_version(tmp_path):
    X, y = rows()
    OneAgainstAllClassifier().fit(X, y).save(tmp_path / "m")
    arrays, metadata = model_file.read(tmp_path / "m", mmap=False)
    for version in (99, 0, "1", None):
        model_file.write(tmp_path / "m", arrays, {**metadata, "format_version": version})
        with pytest.raises(ModelFormatError, match="format version"):
            load_model(tmp_path / "m")


def test_weights_that_are_not_finite_are_found(tmp_path):
    X, y = rows()
    OneAgainstAllClassifier().fit(X, y).save(tmp_path / "m")
    broken(tmp_path / "m", lambda arrays, metadata: arrays["columns.weight"].__setitem__((1, 2), np.nan))
    with pytest.raises(ModelFormatError, match=r"columns.weight contains a number that is not finite"):
        load_model(tmp_path / "m")
    load_model(tmp_path / "m", verify=False)


# -- hostile files -------------------------------------------------------------------------------------------------


def test_mutated_files_are_refused_or_work(tmp_path):
    """The script of 20,000 mutants on a few hundred."""
    path, counts = tmp_path / "mutant", {"refused": 0, "works": 0}
    for name, model in mutated_models.small_models().items():
        for way, how in enumerate(mutated_models.WAYS.values()):
            model.save(path, **how)
            raw = path.read_bytes()
            for number in range(20):
                mutated_models.mutant(raw, path, np.random.default_rng([number, way, len(name)]))
                counts[mutated_models.judge(path, bool(number % 2))] += 1
                path.unlink()
    assert counts["refused"] > 50 and counts["works"] > 20


def broken(path, change):
    arrays, metadata = model_file.read(path, mmap=False)
    change(arrays, metadata)
    model_file.write(path, arrays, metadata)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (RecallTreeClassifier, lambda a, m: a["tree.children"].__setitem__((0, 0), 10**6), "tree.children"),
        (RecallTreeClassifier, lambda a, m: a["tree.parent"].__setitem__(1, 1), "before its parent"),
        (RecallTreeClassifier, lambda a, m: a["candidates.label"].__setitem__((0, 0), 99), "candidates.label"),
        (RecallTreeClassifier, lambda a, m: a["table.key"].fill(7), "n_entries"),
        (RecallTreeClassifier, lambda a, m: a.__setitem__("scorer.weight", a["scorer.weight"][:, :2]), "scorer.weight"),
        (RecallTreeClassifier, lambda a, m: a.pop("seen.mass"), "seen"),
        (RecallTreeClassifier, lambda a, m: m["config"].__setitem__("beam", 10**9), "beam"),
        (RecallTreeClassifier, lambda a, m: m["options"].__setitem__("beam", 0), "beam"),
        (LabelTreeClassifier, lambda a, m: a["tree.outputs"].__setitem__((0, 0), 0), "root"),
        (LabelTreeClassifier, lambda a, m: a["tree.leaf_of"].__setitem__(0, 0), "leaf"),
        (LabelTreeClassifier, lambda a, m: a["blocks.feature"].fill(1), "n_used"),
        (LabelTreeClassifier, lambda a, m: a["blocks.record"].fill(10**9), "blocks.(record|free)"),
        (LabelTreeClassifier, lambda a, m: a["blocks.mask"].__setitem__(0, 5), "power of two"),
        (LabelTreeClassifier, lambda a, m: a["blocks.free"][3:].fill(3), "cycle|overlaps"),
        (LabelTreeClassifier, lambda a, m: a["blocks.free"].fill(-(2**63)), "blocks.free"),  # 0 where it is i4
        (LomTreeClassifier, lambda a, m: a["tree.children"].__setitem__((0, 0), 10**6), "tree.children"),
        (LomTreeClassifier, lambda a, m: a["tree.children"].__setitem__((1, 0), 1), "tree is deeper|parent"),
        (LomTreeClassifier, lambda a, m: a["tree.children"].__setitem__((2, 0), 0), "root"),
        (LomTreeClassifier, lambda a, m: a["tree.parent"].__setitem__(1, 2), "parent"),
        (LomTreeClassifier, lambda a, m: a["tree.identity"].fill(1), "identity"),
        (LomTreeClassifier, lambda a, m: a["table.key"].fill(7), "n_entries"),
        (LomTreeClassifier, lambda a, m: m["config"].__setitem__("descent", "up"), "descent"),
        (MlomTreeClassifier, lambda a, m: a["table.left"].fill(10**6), "table.left"),
        (MlomTreeClassifier, lambda a, m: a["table.size"].fill(1), "table.size"),
        (MlomTreeClassifier, lambda a, m: a["table.mean"].__imul__(-1), "in order"),
        (MlomTreeClassifier, lambda a, m: a["table.active"].fill(0), "table.active"),
        (MlomTreeClassifier, lambda a, m: a["nodes.members"].fill(-1), "table.active"),
        (MlomTreeClassifier, lambda a, m: m["config"].__setitem__("guests", False), "guests"),
        (MlomTreeClassifier, lambda a, m: a["candidates.label"].__setitem__((0, 0), 99), "candidates.label"),
        (MlomTreeClassifier, lambda a, m: [a.pop(f"guests.{x}") for x in ("total", "smallest", "margin", "taught")],
         "guests"),
        (MlomTreeClassifier, lambda a, m: a["nodes.first_free"].fill(0), "free"),
        (OneAgainstAllClassifier, lambda a, m: a["columns.mask"].__setitem__(0, 3), "lines"),
        (OneAgainstAllClassifier, lambda a, m: [
            a.update({f"columns.{x}": np.zeros((2**32, 0), np.float32) for x in ("weight", "grad_sq")}),
            a.update({f"columns.{x}": np.zeros(0, np.float32) for x in ("bias", "bias_grad_sq")}),
            a["columns.mask"].__setitem__(0, 2**32 - 1), a["seen.n_labels"].__setitem__(0, 0)], "lines"),
        (OneAgainstAllClassifier, lambda a, m: a["seen.n_labels"].__setitem__(0, 10**6), "n_labels"),
        (OneAgainstAllClassifier, lambda a, m: m.__setitem__("algorithm", "magic"), "unknown algorithm"),
        (OneAgainstAllClassifier, lambda a, m: a["classes.number"].fill(1), "repeated"),
    ],
)  # fmt: skip
def test_a_broken_structure_says_what_is_broken(tmp_path, kind, change, message):
    X, y = rows(n_classes=30)
    if kind is LabelTreeClassifier:
        kind(arity=4, random_state=0).partial_fit(X, y).save(tmp_path / "m")
    else:
        kind(random_state=0).fit(X, y).save(tmp_path / "m")
    broken(tmp_path / "m", change)
    with pytest.raises(ModelFormatError, match=message) as told:
        load_model(tmp_path / "m", verify=False)
    assert str(tmp_path / "m") in str(told.value)


@pytest.mark.parametrize("kind", [kind for kind in ALL if kind is not LabelTreeClassifier])
def test_a_slim_file_that_says_it_is_whole_is_refused(tmp_path, kind):
    X, y = rows()
    kind(random_state=0).fit(X, y).save(tmp_path / "m", slim=True)
    broken(tmp_path / "m", lambda a, m: m.__setitem__("slim", False))
    with pytest.raises(ModelFormatError, match=r"grad_sq|slim"):
        load_model(tmp_path / "m")


def test_a_whole_file_that_says_it_is_slim_is_refused(tmp_path):
    X, y = rows()
    LabelTreeClassifier(random_state=0).partial_fit(X, y).save(tmp_path / "m")
    broken(tmp_path / "m", lambda a, m: [m.__setitem__("slim", True), *(a.pop(n) for n in list(a) if "replay" in n)])
    with pytest.raises(ModelFormatError, match="form of a slim model"):
        load_model(tmp_path / "m")


def test_a_random_state_that_would_read_where_nothing_is_is_refused(tmp_path):
    X, y = rows()
    RecallTreeClassifier(n_epochs=1, random_state=np.random.RandomState(0)).fit(X, y).save(tmp_path / "m")
    broken(tmp_path / "m", lambda a, m: m["options"]["random_state"]["random_state"].__setitem__(2, 2**30))
    with pytest.raises(ModelFormatError, match="random_state"):
        load_model(tmp_path / "m")


# -- files of earlier versions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("format-*.model")), ids=lambda path: path.stem)
def test_files_of_every_released_format_load_for_ever(path):
    """Written by `models/make.py` of the version that introduced the format, and never again."""
    expected = json.loads(path.with_suffix(".json").read_text())
    model = load_model(path)
    labels, scores = model.predict_topk(np.array(expected["X"], np.float32), len(expected["labels"][0]))
    assert labels.tolist() == expected["labels"]
    np.testing.assert_allclose(scores, expected["scores"], rtol=1e-4, atol=1e-4)
    assert model.get_params()["random_state"] == 0
    if not model._slim and not getattr(model, "multilabel_", False) and hasattr(model, "partial_fit"):
        model.partial_fit(np.array(expected["X"], np.float32), labels[:, 0])


PRINTED = [
    RecallTreeClassifier(beam=1, loss="logistic", path_features="bias", rules="paper", n_epochs=2, random_state=3),
    LomTreeClassifier(loss="absolute", swap=False, descent="target", rules="paper", n_epochs=2, random_state=3),
]


@pytest.mark.parametrize("clf", PRINTED, ids=lambda clf: type(clf).__name__)
def test_printed_rules_survive_a_file(tmp_path, clf):
    X, y = rows()
    clf.fit(X, y).save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert loaded.rules == "paper" and loaded._options == clf._options
    clf.save(tmp_path / "slim", slim=True)
    for other in (loaded, load_model(tmp_path / "slim")):
        same_predictions(clf, other, X)
    more, labels = rows(seed=1, n_classes=40)
    clf.partial_fit(more, labels).save(tmp_path / "a")
    loaded.partial_fit(more, labels).save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    arrays, metadata = model_file.read(tmp_path / "m", False, True)
    metadata["config"]["rules"] = 99
    model_file.write(tmp_path / "hostile", arrays, metadata)
    with pytest.raises(ModelFormatError, match="rules"):
        load_model(tmp_path / "hostile")


@pytest.mark.parametrize(
    ("clf", "message"),
    [
        (RecallTreeClassifier(rules="paper", arity=3), "requires arity=2, got 3"),
        (LomTreeClassifier(rules="paper"), "requires loss='absolute', got 'hinge'"),
    ],
)
def test_printed_rules_that_the_paper_does_not_have_are_refused(clf, message):
    with pytest.raises(ValueError, match=message):
        clf.fit(*rows())


def test_an_option_younger_than_the_file_is_as_the_model_was_made():
    for name in ("recall-tree", "lom-tree"):
        assert load_model(FIXTURES / f"format-1-{name}.model").rules == "corrected"
    clf = load_model(FIXTURES / "format-1-mlom-tree.model")
    assert clf.guests is False and clf._options.guests is False


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a["candidates.covered"].__setitem__(-1, 1e9), "not in the tree has guests"),
        (lambda a: a["guests.total"].__setitem__(-1, 1e9), "not in the tree has guests"),
        (lambda a: a["table.margin"].fill(np.nan), "table.margin"),
    ],
)
def test_a_hostile_mlom_tree_is_refused(tmp_path, change, message):
    X, y = rows()
    MlomTreeClassifier(random_state=0).fit(X, y).save(tmp_path / "m")
    arrays, metadata = model_file.read(tmp_path / "m", False, True)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(arrays)
    model_file.write(tmp_path / "hostile", arrays, metadata)
    with pytest.raises(ModelFormatError, match=message):
        load_model(tmp_path / "hostile", verify=False)


def test_members_in_a_circle_end_soon(tmp_path):
    X, y = rows()
    clf = MlomTreeClassifier(guests=False, random_state=0).fit(X, y)
    clf.save(tmp_path / "m")
    arrays, metadata = model_file.read(tmp_path / "m", False, True)
    arrays = {name: array.copy() for name, array in arrays.items()}
    top = arrays["nodes.members"][0]
    arrays["table.left"][top] = arrays["table.right"][top] = top
    arrays["table.size"][top] = -1
    model_file.write(tmp_path / "hostile", arrays, metadata)
    with pytest.raises(ModelFormatError):
        load_model(tmp_path / "hostile")
