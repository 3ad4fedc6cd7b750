"""Files made by someone who has read the code: refused, or harmless; and `save` writes nothing that is refused."""

import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from manyclass import (
    SGD,
    AdaGrad,
    LabelTreeClassifier,
    LomTreeClassifier,
    MlomTreeClassifier,
    ModelFormatError,
    OneAgainstAllClassifier,
    RecallTreeClassifier,
    SpectralTreeClassifier,
    load_model,
)
from manyclass.core import model_file
from manyclass.core.columns import most_rows
from manyclass.core.files import _IN_CODE, rebuild
from manyclass.core.labels import first_look, move_table
from manyclass.core.state import fields_of
from manyclass.estimators import ESTIMATORS
from manyclass.io.texts import pack_texts
from manyclass.jit import python_of
from manyclass.label_tree.growth import MAX_LEVELS
from manyclass.label_tree.neighbors import Ranking, no_neighbors
from manyclass.trained import open_model

ONLINE = [RecallTreeClassifier, LabelTreeClassifier, LomTreeClassifier, MlomTreeClassifier, OneAgainstAllClassifier]


def rows(n=80, n_classes=12, n_features=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, n_features)).astype(np.float32), rng.integers(0, n_classes, n)


def change(model, path, how, **saved):
    """Save a model, and change the arrays and the metadata of its file; the checksums are right."""
    model.save(path, **saved)
    arrays, metadata = model_file.read(path, mmap=False)
    arrays = {name: array.copy() for name, array in arrays.items()}
    how(arrays, metadata)
    model_file.write(path, arrays, metadata)
    return path


def cut_to_one(arrays, metadata):
    """Arrays with a line for each node, row or class keep the first: banks of one feature have the shape (1, 1)."""
    groups = ESTIMATORS[metadata["algorithm"]]._model.GROUPS
    growing = {"node", "row", "weight_row", "square_row", "class", "square_class"}
    for full in list(arrays):
        name, _, field = full.partition(".")
        if name in groups and groups[name] is not None:
            kind = groups[name][0] if isinstance(groups[name], tuple) else groups[name]
            dims = fields_of(kind)[_IN_CODE.get(field, field)].dims
            arrays[full] = arrays[full][tuple(slice(0, 1) if dim in growing else slice(None) for dim in dims)]


@pytest.mark.parametrize(
    "model",
    [RecallTreeClassifier(), RecallTreeClassifier(path_features="crossed"), LomTreeClassifier(), MlomTreeClassifier(),
     OneAgainstAllClassifier()],
)  # fmt: skip
def test_a_bank_of_one_row_and_one_feature_grows_all_its_arrays(tmp_path, model):
    X, y = rows(300, 60, n_features=1)
    model.partial_fit(X[:5], np.zeros(5, int), sample_weight=np.zeros(5))  # a tree that is only a root
    loaded = load_model(change(model, tmp_path / "m", cut_to_one))
    banks = [name for name, group in loaded._state.items() if hasattr(group, "bias")]
    assert all(loaded._state[name].weight.size == 1 for name in banks)
    loaded.partial_fit(X, y).predict(X)
    for name in banks:
        assert loaded._state[name].grad_sq.shape == loaded._state[name].weight.shape


@pytest.mark.parametrize("shape", [(1, 1), (1, 20), (300, 1)])
def test_one_against_all_refuses_squares_of_another_shape(tmp_path, shape):
    X, y = rows(60, 20, n_features=300)
    model = OneAgainstAllClassifier(table_bits=12, n_epochs=1, random_state=0).fit(X, y)
    change(model, tmp_path / "m", lambda a, m: a.update({"columns.grad_sq": np.ones(shape, np.float32)}))
    with pytest.raises(ModelFormatError, match=r"columns.grad_sq has the shape"):
        load_model(tmp_path / "m")


def test_joined_lines_of_one_against_all_stay_joined(tmp_path):
    X, y = rows(60, 20, n_features=300)
    model = OneAgainstAllClassifier(table_bits=8, n_epochs=1, random_state=0).fit(X, y)
    loaded = load_model(change(model, tmp_path / "m", lambda a, m: m["config"].update(table_bits=27)))
    n_lines = len(loaded._state["columns"].weight)
    loaded.partial_fit(X, np.arange(60)).predict(X)
    assert len(loaded._state["columns"].weight) == n_lines < 300


def test_one_against_all_with_more_lines_than_features(tmp_path):
    X, y = rows(60, 20)

    def how(arrays, metadata):
        arrays["columns.mask"][0] = 7
        for name in ("columns.weight", "columns.grad_sq"):
            arrays[name] = np.resize(arrays[name], (8, arrays[name].shape[1]))

    loaded = load_model(change(OneAgainstAllClassifier(n_epochs=1, random_state=0).fit(X, y), tmp_path / "m", how))
    loaded.partial_fit(X, np.arange(60)).predict(X)
    assert len(loaded._state["columns"].weight) == 8


# -- label tree ----------------------------------------------------------------------------------------------------


def chain(n_levels):
    """A change that makes a label tree a chain of inner nodes with one child each, and a full leaf at its end."""

    def how(arrays, metadata):
        n, arity, n_classes = n_levels + 1, 4, len(arrays["tree.leaf_of"])
        outputs, labels = np.full((n, arity), -1, np.int32), np.arange(min(arity, n_classes))
        outputs[:-1, 0], outputs[-1, : len(labels)] = np.arange(1, n), labels
        size = np.ones(n, np.int32)
        size[-1] = len(labels)
        arrays |= {
            "tree.outputs": outputs,
            "tree.size": size,
            "tree.is_leaf": (np.arange(n) == n - 1).astype(np.int8),
            "tree.parent": np.arange(-1, n - 1, dtype=np.int32),
            "tree.place": np.where(np.arange(n) > 0, 0, -1).astype(np.int32),
            "tree.leaf_of": np.full(n_classes, n - 1, np.int32),
            "tree.place_of": np.arange(n_classes, dtype=np.int32),
            "tree.n_nodes": np.array([n]),
            "blocks.first": np.zeros(n, np.int64),
            "blocks.mask": np.full(n, -1),
            "blocks.n_used": np.zeros(n, np.int64),
            "blocks.bias": np.zeros((n, 16), np.float32),
            "blocks.sq_norm": np.zeros((n, 16)),
        }

    return how


@pytest.mark.parametrize("n_levels", [MAX_LEVELS - 1, MAX_LEVELS])
def test_a_label_tree_does_not_grow_deeper_than_its_limit(tmp_path, n_levels):
    X, y = rows(60, 40)
    model = LabelTreeClassifier(arity=4, random_state=0).partial_fit(X[:4], np.arange(4))
    loaded = load_model(change(model, tmp_path / "m", chain(n_levels)))
    loaded.predict(X)
    if n_levels < MAX_LEVELS:
        loaded.partial_fit(X, y)
    else:
        with pytest.raises(ValueError, match="40 levels"):
            loaded.partial_fit(X, y)
    with pytest.raises(ModelFormatError, match="deeper than 40 levels"):
        load_model(change(model, tmp_path / "m", chain(MAX_LEVELS + 1)))


def test_label_trees_whose_leaves_are_not_equally_deep_are_refused(tmp_path):
    X, y = rows(80, 12)
    model = LabelTreeClassifier(arity=4, random_state=0).partial_fit(X, y)

    def how(arrays, metadata):  # a leaf becomes an inner node above a copy of itself
        leaf, n = int(np.flatnonzero(arrays["tree.is_leaf"])[0]), len(arrays["tree.parent"])
        for name, array in list(arrays.items()):
            if name.startswith(("tree.", "blocks.")) and len(array) == n:
                arrays[name] = np.concatenate([array, array[leaf : leaf + 1]])
        labels = arrays["tree.outputs"][n, : arrays["tree.size"][n]]
        arrays["tree.leaf_of"][labels] = n
        arrays["tree.parent"][n], arrays["tree.place"][n], arrays["tree.n_nodes"][0] = leaf, 0, n + 1
        arrays["tree.outputs"][leaf, 0], arrays["tree.size"][leaf], arrays["tree.is_leaf"][leaf] = n, 1, 0
        arrays["blocks.mask"][n], arrays["blocks.n_used"][n] = -1, 0

    with pytest.raises(ModelFormatError, match="not all at the same depth"):
        load_model(change(model, tmp_path / "m", how))


def test_huge_table_sizes_of_a_label_tree_are_refused(tmp_path):
    X, y = rows(80, 12)
    model = LabelTreeClassifier(random_state=0).partial_fit(X, y)
    with pytest.raises(ModelFormatError, match=r"blocks\.mask"):
        load_model(change(model, tmp_path / "m", lambda a, m: a["blocks.mask"].__setitem__(0, 2**63 - 1)), verify=False)


@pytest.mark.parametrize("number", [3.3e38, np.inf, np.nan])
def test_growth_of_a_label_tree_ends_whatever_its_sums_are(tmp_path, number):
    X, y = rows(80, 12)
    model = LabelTreeClassifier(arity=4, random_state=0).partial_fit(X, y)
    change(model, tmp_path / "m", lambda a, m: a["blocks.total"].fill(number))
    with pytest.raises(ModelFormatError, match=r"blocks.total contains a number that is (too large|not finite)"):
        load_model(tmp_path / "m")
    loaded = load_model(tmp_path / "m", verify=False)
    with pytest.raises(ValueError, match="diverged"):
        loaded.partial_fit(X, y + 100)
    tree = loaded._state["tree"]
    assert (tree.size[: tree.n_nodes[0]] > 0).all()  # every split filled both nodes


def test_crowded_tables_of_a_label_tree_are_refused(tmp_path):
    X, y = rows(80, 12, n_features=6)
    model = LabelTreeClassifier(arity=4, random_state=0).partial_fit(X, y)

    def how(arrays, metadata):
        size, first = int(arrays["blocks.mask"][0]) + 1, int(arrays["blocks.first"][0])
        assert arrays["blocks.n_used"][0] == 6 < size - 1
        table = slice(first, first + size)
        arrays["blocks.feature"][table] = np.where(np.arange(size) < size - 1, np.arange(size) % 6, -1)
        arrays["blocks.record"][table] = 0
        arrays["blocks.n_used"][0] = size - 1

    with pytest.raises(ModelFormatError, match="too few empty entries"):
        load_model(change(model, tmp_path / "m", how))


@pytest.mark.parametrize("fault", ["record", "feature", "place"])
def test_tables_of_a_label_tree_have_each_feature_and_record_once(tmp_path, fault):
    X, y = rows(80, 12, n_features=6)
    model = LabelTreeClassifier(arity=4, random_state=0).partial_fit(X, y)

    def how(arrays, metadata):
        first, size = int(arrays["blocks.first"][0]), int(arrays["blocks.mask"][0]) + 1
        table, record = arrays["blocks.feature"][first : first + size], arrays["blocks.record"][first : first + size]
        one, other = np.flatnonzero(table >= 0)[:2]
        if fault == "record":
            record[one] = record[other]
        elif fault == "feature":
            table[one] = table[other]
        else:
            empty = np.flatnonzero(table < 0)[-1]
            table[empty], record[empty], table[one] = table[one], record[one], -1

    with pytest.raises(ModelFormatError, match="the table of node 0"):
        load_model(change(model, tmp_path / "m", how))


def test_leaves_of_labels_are_checked(tmp_path):
    X, y = rows(80, 12)
    model = LabelTreeClassifier(arity=4, random_state=0).partial_fit(X, y)
    model.partial_fit(X[:1], [50], sample_weight=[0.0])  # a label without rows
    assert load_model(change(model, tmp_path / "m", lambda a, m: None))._state["tree"].leaf_of[12] == -1
    with pytest.raises(ModelFormatError, match=r"tree.leaf_of"):
        load_model(change(model, tmp_path / "m", lambda a, m: a["tree.leaf_of"].__setitem__(12, -(2**30))))


# -- errors that say what is wrong ---------------------------------------------------------------------------------


def wide_features(arrays, first):
    """The features of a label tree with 32 bits; the first one is changed."""
    features = arrays["blocks.feature"].astype(np.int32)
    features[0] = first
    return {"blocks.feature": features}


def more_pages(arrays):
    """Two pages for each node, the second one empty, although the features fit into one."""
    first = arrays["blocks.first"]
    return {"blocks.first": np.append(np.repeat(first[1:], 2)[::-1], first[0])[::-1].copy()}


@pytest.mark.parametrize(
    ("kind", "how", "message"),
    [
        (LabelTreeClassifier, lambda a, m: a["blocks.first"].__setitem__(1, 2**62), "blocks.first"),
        (LabelTreeClassifier, lambda a, m: a["blocks.begin"].__setitem__(0, 2**32 - 1), "blocks.begin"),
        (LabelTreeClassifier, lambda a, m: a["blocks.feature"].__setitem__(0, 2**16 - 1), "blocks.feature"),
        (LabelTreeClassifier, lambda a, m: a["blocks.feature"].__setitem__(1, 0), "blocks.feature"),
        (LabelTreeClassifier, lambda a, m: a.update(wide_features(a, 2**31 - 1)), "blocks.feature"),
        (LabelTreeClassifier, lambda a, m: a.update(wide_features(a, -1)), "blocks.feature"),
        (LabelTreeClassifier, lambda a, m: a.update(more_pages(a)), "blocks.first"),
        (LabelTreeClassifier, lambda a, m: a.update(more_pages(a) | wide_features(a, 0)), "blocks.first"),
        (LabelTreeClassifier, lambda a, m: a.update({"blocks.first": a["blocks.first"][:1]}), "blocks.first"),
        (MlomTreeClassifier, lambda a, m: a.update({n: a[n][:1] for n in a if n.startswith("nodes.")}), "nodes has 1"),
        (MlomTreeClassifier, lambda a, m: a["tree.n_nodes"].__setitem__(0, 10**6), "tree.n_nodes"),
        (RecallTreeClassifier, lambda a, m: a["table.mass"].__setitem__(a["table.key"] >= 0, -1000.0), "table.mass"),
        (RecallTreeClassifier, lambda a, m: a["counts.total"].__setitem__(0, -1000.0), "counts.total"),
        (RecallTreeClassifier, lambda a, m: a["seen.mass"].__setitem__(0, -1.0), "seen.mass"),
        (RecallTreeClassifier, lambda a, m: a.update({"scorer_1.bias": a["scorer.bias"]}), "no group"),
        (OneAgainstAllClassifier, lambda a, m: a.update({"seen_1.mass": a["seen.mass"]}), "no group"),
        (RecallTreeClassifier, lambda a, m: m["config"].update(rate=1e300), "rate"),
        (LomTreeClassifier, lambda a, m: m["config"].update(rate=1e300), "rate"),
        (LomTreeClassifier, lambda a, m: m["fitted"].update(n_epochs_=10**400), "epochs"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path, kind, how, message):
    X, y = rows()
    with pytest.raises(ModelFormatError, match=message) as told:
        load_model(change(kind(random_state=0).fit(X, y), tmp_path / "m", how), verify=False)
    assert "IndexError" not in str(told.value)


@pytest.mark.parametrize("kind", [RecallTreeClassifier, LomTreeClassifier, MlomTreeClassifier])
@pytest.mark.parametrize("fault", ["twice", "elsewhere"])
def test_every_key_of_a_table_is_found_once(tmp_path, kind, fault):
    X, y = rows()

    def how(arrays, metadata):
        keys = arrays["table.key"]
        empty, full = np.flatnonzero(keys < 0), np.flatnonzero(keys >= 0)
        if fault == "twice":
            one = full[0]
            keys[(one + np.flatnonzero(np.roll(keys, -one) < 0)[0]) % len(keys)] = keys[one]
            arrays["table.n_entries"] += 1
        else:
            homes = python_of(first_look)(keys, keys[full])
            alone = full[homes == full][0]
            keys[empty[-1]], keys[alone] = keys[alone], -1

    with pytest.raises(ModelFormatError, match="not where a search would find it"):
        load_model(change(kind(random_state=0).fit(X, y), tmp_path / "m", how))


def test_members_of_an_mlom_tree_that_are_no_heap_are_refused(tmp_path):
    X, y = rows()

    def how(arrays, metadata):  # the last of two members on top of the first, or the other way round
        key, left, right, size = (arrays[f"table.{name}"] for name in ("key", "left", "right", "size"))
        top = int(np.flatnonzero((size == 2) & (key >= 0) & (arrays["table.active"] != 0) & (left >= 0))[0])
        low = int(left[top])
        left[top], right[low], size[top], size[low] = -1, top, 1, 2
        for links in (arrays["nodes.members"], left, right):
            links[(links == top) & (np.arange(len(links)) != low)] = low
        left[top], right[low] = -1, top

    model = MlomTreeClassifier(guests=False, random_state=0).fit(X, y)
    with pytest.raises(ModelFormatError, match="not a heap"):
        load_model(change(model, tmp_path / "m", how))


def test_numbered_groups_belong_to_label_trees(tmp_path):
    X, y = rows()
    LabelTreeClassifier(n_trees=3, random_state=0).fit(X, y).save(tmp_path / "m")
    assert {"tree_1", "blocks_2"} <= set(load_model(tmp_path / "m")._state)


def test_labels_of_a_matrix_are_the_numbers_of_its_columns(tmp_path):
    X, y = rows()
    model = LabelTreeClassifier(random_state=0).fit(X, np.eye(12, dtype=np.int8)[y])
    with pytest.raises(ModelFormatError, match="numbers of the columns"):
        load_model(change(model, tmp_path / "m", lambda a, m: a["classes.number"].__setitem__(7, 15)))


@pytest.mark.parametrize("text", ["f4, (1 2)f4", "((", "i4,i4", "O", "<U3", "<M8[s]", "f99", ""])
def test_types_of_predictions_are_texts_that_numpy_does_not_evaluate(tmp_path, text):
    X, y = rows()
    model = LabelTreeClassifier(random_state=0).fit(X, np.eye(12, dtype=np.int8)[y])
    path = change(model, tmp_path / "m", lambda a, m: m["fitted"].update(_answer_type={"dtype": text}))
    with pytest.raises(ModelFormatError):
        load_model(path)


def test_whole_numbers_become_floats_where_options_are_floats(tmp_path):
    X, y = rows()
    model = LomTreeClassifier(random_state=0).fit(X, y)
    loaded = load_model(change(model, tmp_path / "m", lambda a, m: m["config"].update(rate=4)))
    assert type(loaded._options.rate) is float  # no kernel has to be compiled again


def test_long_lists_of_neighbors_take_one_step_for_each_row(tmp_path):
    """A file of 2 MB with one list of 32,767 rows took a pass over all labels for each of them."""
    X, y = rows(60, 6, 1)
    n, n_labels = 32_767, 100_000

    def how(arrays, metadata):
        last, size = np.full(n_labels, -1, np.int64), np.zeros(n_labels, np.int64)
        last[0], size[0] = n - 1, n
        arrays |= {"neighbors.row": np.zeros((n, 1), np.float32), "neighbors.before": np.arange(-1, n - 1)}
        arrays |= {"neighbors.last": last, "neighbors.size": size, "neighbors.n_rows": np.array([n])}
        arrays |= {f"neighbors.{name}": np.ones(1) for name in ("factor", "slope", "offset")}

    path = change(LabelTreeClassifier(random_state=0).fit(X, y), tmp_path / "m", how)
    assert load_model(path).predict(X).shape == y.shape
    change(load_model(path), path, lambda arrays, metadata: arrays["neighbors.size"].__setitem__(0, n - 1))
    with pytest.raises(ModelFormatError, match="not the length of the lists"):
        load_model(path)


def test_scales_of_rounded_weights_have_the_right_length(tmp_path):
    """In files of earlier versions; too many of them took 64 times the memory of the file."""
    X, y = rows()

    def how(arrays, metadata):
        del arrays["blocks.step"]
        arrays["blocks.value_scale"] = np.ones(1000, np.float32)

    with pytest.raises(ModelFormatError, match=r"blocks.value_scale has the wrong length"):
        load_model(change(LabelTreeClassifier(random_state=0).fit(X, y), tmp_path / "m", how))


def test_names_of_labels_require_several_labels_per_row(tmp_path):
    X, y = rows()
    names = {f"names.{name}": array for name, array in pack_texts([f"n{i}" for i in range(12)]).items()}
    model = LabelTreeClassifier(random_state=0).fit(X, y)
    with pytest.raises(ModelFormatError, match="requires several labels per row"):
        load_model(change(model, tmp_path / "m", lambda arrays, metadata: arrays.update(names)))


@pytest.mark.parametrize(
    "record",
    [
        {"training": {"progressive_errors": 5}},
        {"training": {"progressive_errors": [10**400]}},
        {"training": {"epochs": "x"}},
        {"serving": {"applied": -1}},
        {"labels": {"n_rows": 10**20, "counts": []}},
        {"labels": {"n_rows": -5, "counts": []}},
    ],
)
def test_records_of_other_types_are_refused(tmp_path, record):
    X, y = rows()
    model = LabelTreeClassifier(random_state=0).fit(X, y)
    path = change(model, tmp_path / "m", lambda arrays, metadata: metadata["extra"].update(record))
    with pytest.raises(ModelFormatError, match="is invalid"):
        open_model(str(path))


# -- save ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*ONLINE, SpectralTreeClassifier])
def test_save_refuses_what_load_would_refuse(tmp_path, kind):
    X, y = rows()
    model = kind(random_state=0).fit(X, y)
    model.save(tmp_path / "m")
    before = (tmp_path / "m").read_bytes()
    found = [getattr(group, n) for group in model._state.values() for n in ("weight", "step") if hasattr(group, n)]
    weights = next(array for array in found if array.size)
    kept, weights[0] = weights[0].copy(), np.inf
    with pytest.raises(ValueError, match=r"cannot be saved.*(weight|step) contains a number that is not finite"):
        model.save(tmp_path / "m")
    weights[0] = kept
    with pytest.raises(ValueError, match="n_epochs must be"):
        model.set_params(n_epochs=-3).save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before


def test_labels_that_one_type_cannot_hold_are_not_saved(tmp_path):
    X, y = rows(n_classes=3)
    model = OneAgainstAllClassifier(random_state=0).partial_fit(X, np.array([2**63, 2**63 + 1, 5], np.uint64)[y])
    model.save(tmp_path / "m")
    assert load_model(tmp_path / "m").classes_.tolist() == model.classes_.tolist()
    model.partial_fit(X[:1], [-1])
    assert set(model.classes_.tolist()) == {2**63, 2**63 + 1, 5, -1}
    with pytest.raises(ValueError, match="no type of numpy"):
        model.save(tmp_path / "m")


@pytest.mark.parametrize("kind", ONLINE)
def test_rows_without_weight_leave_a_model_that_works(tmp_path, kind):
    X, y = rows()
    model = kind(random_state=0).partial_fit(X, y, sample_weight=np.zeros(len(X)))
    model.save(tmp_path / "m")
    for one in (model, load_model(tmp_path / "m")):
        one.predict(X), one.predict_topk(X, 3), one.predict_proba(X), one.candidates(X), one.decision_path(X)
        one.diagnose(X, y), one.predictor(2)(X[0])
        assert np.isnan(one.progressive_error_)
        if hasattr(one, "tree_table"):
            one.tree_table()
        one.partial_fit(X, y).predict(X)
    model.save(tmp_path / "m", slim=True, precision="int8")
    load_model(tmp_path / "m").predict(X)


# -- numbers that are not finite -----------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["sgd", "adagrad", "normalized-adagrad"])
@pytest.mark.parametrize("kind", [RecallTreeClassifier, LomTreeClassifier, MlomTreeClassifier, OneAgainstAllClassifier])
def test_training_that_diverges_says_so(kind, learner):
    """Rows of almost no length with the largest weights, then rows of great length."""
    X, y = rows(200, 12)
    X /= np.abs(X).max()
    model = kind(learner=learner, random_state=0)
    for small in (1e-29, 1e30):
        try:
            model.partial_fit(X * np.float32(small), y, sample_weight=np.full(len(X), 1e9))
            model.predict_topk(X * np.float32(small), 3)
            model.predict_proba(X * np.float32(small))
        except ValueError as error:
            assert "diverged" in str(error) or "NaN" in str(error)
            return
    numbers = [array for group in model._state.values() for array in group if array.dtype.kind == "f"]
    assert all(np.isfinite(array).all() for array in numbers)


@pytest.mark.parametrize("options", [{"learner": SGD(rate=1.0)}, {"learner": AdaGrad(rate=1.0)}, {"arity": 4}], ids=str)
def test_routers_of_the_recall_tree_that_diverge_say_so(options):
    """Here the weights of routers become infinite while the scores of labels are finite."""
    X, y = rows(400, 20)
    options = {"learner": SGD(rate=1.0)} | options
    model, weights = RecallTreeClassifier(random_state=0, **options), np.full(400, 1e9)
    with pytest.raises(ValueError, match=r"Training diverged: .* Use a lower learning rate"):
        model.partial_fit(X * np.float32(1e-30), y, sample_weight=weights)


def test_a_fit_that_diverges_keeps_the_model_before(tmp_path):
    X, y = rows(200, 12)
    model = OneAgainstAllClassifier(learner=SGD(rate=1e6), random_state=0).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match=r"Training diverged: .* Use a lower learning rate"):
        model.set_params(learner=AdaGrad(rate=1e6)).fit(X * np.float32(1e29), y)
    assert np.array_equal(model.predict(X), before)
    model.save(tmp_path / "m")


def test_a_rate_that_no_step_can_have_is_refused():
    with pytest.raises(ValueError, match="rate must be in"):
        SGD(rate=1e300)


@pytest.mark.parametrize("kind", [RecallTreeClassifier, LomTreeClassifier, MlomTreeClassifier, SpectralTreeClassifier])
def test_repeated_candidates_are_refused(kind, tmp_path):
    """The search for further labels, in place of removed ones, or for those of several leaves, would not end soon."""
    X, y = rows()

    def repeat(arrays, metadata):
        arrays["candidates.label"][arrays["candidates.label"] >= 0] = 3

    with pytest.raises(ModelFormatError, match="a label twice"):
        load_model(change(kind(n_epochs=1, random_state=0).fit(X, y), tmp_path / "m", repeat))


@pytest.mark.parametrize("kind", [LomTreeClassifier, MlomTreeClassifier])
def test_more_candidates_than_a_leaf_keeps_are_refused(kind, tmp_path):
    X, y = rows()

    def widen(arrays, metadata):
        for name, fill in (("candidates.label", -1), ("candidates.mass", 0)):
            arrays[name] = np.pad(arrays[name], ((0, 0), (0, 50)), constant_values=fill)

    with pytest.raises(ModelFormatError, match="66 slots"):
        load_model(change(kind(n_epochs=1, random_state=0).fit(X, y), tmp_path / "m", widen))


@pytest.mark.parametrize("kind", [RecallTreeClassifier, LomTreeClassifier, MlomTreeClassifier])
def test_tables_that_are_more_than_half_full_are_refused(kind, tmp_path):
    X, y = rows(300, 60)
    model = kind(n_epochs=1, random_state=0).fit(X, y)
    table = model._state["table"]
    size = 1 << int(table.n_entries[0]).bit_length()  # the next power of two
    small, _ = move_table(table, size)
    assert 2 * table.n_entries[0] > size

    def how(arrays, metadata):
        for name in [name for name in arrays if name.startswith("table.")]:
            field = name.partition(".")[2]
            arrays[name] = getattr(small, _IN_CODE.get(field, field))

    with pytest.raises(ModelFormatError, match="too few empty entries"):
        load_model(change(model, tmp_path / "m", how))


@pytest.mark.parametrize("kind", [LomTreeClassifier, MlomTreeClassifier])
def test_numbers_of_nodes_that_would_overflow_are_refused(kind, tmp_path):
    X, y = rows()
    change(kind(n_epochs=1).fit(X, y), tmp_path / "m", lambda a, m: a["tree.n_identities"].fill(2**31 - 2))
    with pytest.raises(ModelFormatError, match=r"tree.n_identities is"):
        load_model(tmp_path / "m")


# -- rows kept for sorted streams ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ONLINE)
def test_kept_rows_of_huge_weight(kind, tmp_path):
    X, y = rows(600, 12)
    y = np.sort(y)
    model = kind(random_state=0).partial_fit(X, y)
    change(model, tmp_path / "m", lambda a, m: a["replay.weight"].fill(1.7e308))
    with pytest.raises(ModelFormatError, match=r"replay.weight contains a number that is too large"):
        load_model(tmp_path / "m")
    with suppress(ValueError):  # it may say that training diverged
        load_model(tmp_path / "m", verify=False).partial_fit(X, y)


def test_kept_rows_that_share_values_are_refused(tmp_path):
    X, y = rows(300, 12)
    model = RecallTreeClassifier(random_state=0).partial_fit(X, y)

    def how(arrays, metadata):
        n = int(arrays["replay.counter"][1])  # all values, in each row
        arrays["replay.begin"][:], arrays["replay.length"][:] = 0, n
        arrays["replay.counter"][2] = n * len(arrays["replay.length"])

    with pytest.raises(ModelFormatError, match="share values"):
        load_model(change(model, tmp_path / "m", how))


def test_a_pipe_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFormatError, match="a pipe or a device"):
        load_model(tmp_path / "pipe")


def test_places_beyond_the_outputs_of_a_node_may_hold_anything(tmp_path):
    """The first `partial_fit` after `fit` unpacks the weights."""
    X, y = rows()
    model = LabelTreeClassifier(arity=4, n_epochs=1, random_state=0).fit(X, y)

    def fill(arrays, metadata):
        unused = np.arange(4) >= arrays["tree.size"][:, None]
        assert unused.any()
        arrays["tree.outputs"][unused] = 2**31 - 1

    loaded = load_model(change(model, tmp_path / "m", fill)).partial_fit(X, y)
    np.testing.assert_array_equal(loaded.predict(X), model.partial_fit(X, y).predict(X))


def test_a_learner_with_numbers_of_numpy_is_saved(tmp_path):
    learner = SGD(rate=np.float32(0.5))
    OneAgainstAllClassifier(learner=learner, n_epochs=1).fit(np.eye(4), [0, 1, 2, 3]).save(tmp_path / "m")
    assert load_model(tmp_path / "m").learner.rate == 0.5


def test_a_deep_recall_tree_can_be_saved_when_its_table_is_nearly_full(tmp_path):
    """A row of a new label enters it at the root and on each of 60 levels."""
    rng, n_full = np.random.default_rng(5), 0
    model = RecallTreeClassifier(max_depth=60, bernstein=None, random_state=0, replay=False)
    for _ in range(80):
        model.partial_fit(rng.normal(size=(1, 3)), [int(rng.integers(6))])
        table = model._state["table"]
        if len(table.key) - 2 * 61 <= 2 * table.n_entries[0] <= len(table.key) - 2 * 59:
            model.partial_fit(rng.normal(size=(1, 3)), [100 + n_full])
            n_full += 1
            model.save(tmp_path / "m")
    assert n_full > 0


def test_tiny_weights_before_usual_ones(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 3)) + 3 * np.eye(3)[np.arange(600) % 3], np.arange(600) % 3
    model = RecallTreeClassifier(n_candidates=1, beam=1, max_depth=3, random_state=0)
    model.partial_fit(X[:300], y[:300], sample_weight=5e-324).partial_fit(X[300:], y[300:])
    assert model.score(X, y) > 0.9
    model.save(tmp_path / "m")


def test_features_that_begin_at_one_place_of_a_table_do_not_prevent_saving(tmp_path):
    """Multiples of 4097, such as the diagonal of 4096 x 4096 pairs of words: each search takes many steps."""
    n, features = 2000, 4097 * np.arange(1, 2001)
    X = sp.csr_array((np.ones(n, np.float32), features, np.arange(n + 1)), shape=(n, int(features[-1]) + 1))
    model = LabelTreeClassifier(random_state=0, replay=False).partial_fit(X, np.arange(n) % 4)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load_model(tmp_path / "m").predict(X), model.predict(X))


@settings(max_examples=200)
@given(st.data())
def test_changed_tables_of_old_files_are_refused_or_work(data):
    """Those of formats up to 5 are rebuilt before they are checked."""
    arrays, metadata = model_file.read(Path(__file__).parent / "models" / "format-5-label-tree-online.model")
    whole = [name for name in sorted(arrays) if arrays[name].dtype.kind != "f"]
    names = [name for name in whole if name.startswith(("blocks.", "tree."))]
    for _ in range(data.draw(st.integers(1, 3))):
        values = arrays[data.draw(st.sampled_from(names))].reshape(-1)
        at, low = data.draw(st.integers(0, len(values) - 1)), np.iinfo(values.dtype).min
        near = st.integers(-2, 130) | st.sampled_from([low, -low - 1, int(values[at]) + 1, int(values[at]) - 1])
        values[at] = min(max(data.draw(near), low), -low - 1)
    try:
        model = rebuild(ESTIMATORS, arrays, metadata, True)
    except ModelFormatError:
        return
    X = np.eye(60, dtype=np.float32)[:3]
    model.predict(X)
    model.partial_fit(X, model.classes_[:3])


def test_a_file_with_too_many_arrays_is_refused_while_its_header_is_read(tmp_path, monkeypatch):
    path, many = tmp_path / "m", {f"a{i}": np.empty(0, np.float32) for i in range(100_000)}
    RecallTreeClassifier(random_state=0).fit(*rows()).save(path)
    arrays, metadata = model_file.read(path)
    with pytest.raises(ValueError, match="a model file can have 32768"):
        model_file.write(path, arrays | many, metadata)
    with monkeypatch.context() as patch:
        patch.setattr(model_file, "_MOST_ARRAYS", 1 << 20)
        model_file.write(path, arrays | many, metadata)
    n_objects, unique = 0, model_file._unique

    def count(pairs):
        nonlocal n_objects
        n_objects += 1
        return unique(pairs)

    monkeypatch.setattr(model_file, "_unique", count)
    with pytest.raises(ModelFormatError, match="too many entries: a model file can have 32768 arrays"):
        load_model(path)
    assert n_objects <= 32768 * 5 / 4


@pytest.mark.parametrize("name", ["classes.more", "classes", "names.number", "feature_names.x.bytes"])
def test_arrays_that_no_estimator_writes_are_refused(tmp_path, name):
    model = RecallTreeClassifier(random_state=0).fit(*rows())
    path = change(model, tmp_path / "m", lambda arrays, metadata: arrays.update({name: np.zeros(1)}))
    with pytest.raises(ModelFormatError, match=f"the array '{name}' is unknown"):
        load_model(path)


@pytest.mark.parametrize("text", ["1e999", "-1e999", "NaN"])
def test_metadata_with_numbers_beyond_floats_are_refused(text):
    """JSON reads them as infinity, which `save` cannot write."""
    with pytest.raises(ModelFormatError, match="is not a number"):
        model_file._json_object(f'{{"rate": {text}}}', "the metadata")
    assert model_file._json_object('{"rate": -1.5e3}', "the metadata") == {"rate": -1500.0}


def test_packed_weights_that_cannot_be_saved_are_refused(tmp_path):
    def how(arrays, metadata):
        arrays["blocks.value"][0] = -32768

    path = change(LabelTreeClassifier(random_state=0).fit(*rows()), tmp_path / "m", how)
    with pytest.raises(ModelFormatError, match="below -32767"):
        load_model(path)


def test_chains_of_free_tables_are_no_longer_than_the_table(tmp_path):
    """A cycle of small tables was followed for as many steps as there are entries."""
    model = LabelTreeClassifier(random_state=0).partial_fit(*rows())

    def small(arrays, metadata):
        arrays["blocks.free"][0] = 0

    def cycle(arrays, metadata):
        first = int(arrays["blocks.free"].argmax())
        assert arrays["blocks.free"][first] >= 0
        arrays["blocks.record"][arrays["blocks.free"][first]] = arrays["blocks.free"][first]

    with pytest.raises(ModelFormatError, match="too small"):
        load_model(change(model, tmp_path / "m", small))
    with pytest.raises(ModelFormatError, match="cycle"):
        load_model(change(model, tmp_path / "m", cycle))


def test_sparse_rows_for_nearest_rows_become_dense_some_at_a_time():
    kept = no_neighbors(1 << 20, Ranking(1.0, 0.5, 0.1))
    assert most_rows({"neighbors": kept}, 16_384) == 32
    assert most_rows({}, 16_384) == 16_384
