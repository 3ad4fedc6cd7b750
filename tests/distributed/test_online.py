"""Online learning on a cluster: every partition from the same model, then merged."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from manyclass import LabelTreeClassifier
from manyclass.distributed import DaskLabelTreeClassifier
from manyclass.label_tree.merging import merge
from manyclass.label_tree.model import table_of
from tests.distributed.partitions import N_ROWS, cut, file_of

QUARTERS = np.linspace(0, N_ROWS, 5).astype(int)


def learned(client, text, edges, n_rounds=1, **options):
    model = DaskLabelTreeClassifier(client, random_state=0, **options)
    for rows in np.array_split(np.arange(N_ROWS), n_rounds):
        X, y = (cut(part[rows], edges * len(rows) // N_ROWS) for part in text)
        model.partial_fit(X, y)
    return model.to_local()


def test_any_number_of_workers_gives_the_same_bytes(cluster, client, text):
    found = []
    for n_workers in (4, 1):
        cluster.scale(n_workers)
        found.append(file_of(learned(client, text, QUARTERS, 2)))
    assert found[0] == found[1]


def test_one_partition_is_learned_as_by_one_machine(client, text):
    X, y = text
    _, first = np.unique(y, return_index=True)
    first = np.sort(first)
    rest = np.delete(np.arange(N_ROWS), first)
    alone = LabelTreeClassifier(random_state=0).partial_fit(X[first], y[first]).partial_fit(X[rest], y[rest])
    found = learned(client, text, np.array([0, N_ROWS]))
    assert found.classes_.tolist() == alone.classes_.tolist()
    expected, scores = alone.predict_topk(X[:500], 3)
    np.testing.assert_array_equal(found.predict_topk(X[:500], 3)[0], expected)
    np.testing.assert_allclose(found.predict_topk(X[:500], 3)[1], scores, rtol=1e-5)


def test_all_rows_are_learned_once_and_new_labels_in_any_partition(client, text):
    X, y = text
    seen_late = y.copy()
    seen_late[4000:4010] = "late"
    model = DaskLabelTreeClassifier(client, random_state=0, replay=False)
    model.partial_fit(cut(X, QUARTERS), cut(seen_late, QUARTERS))
    model.partial_fit([X[:50], X[50:60]], [np.full(50, "new"), np.full(10, "newer")])
    weights = [np.array([0.0, 1.0, 1.0]), np.array([0.0, 1.0])]  # a first row of weight 0, and a label without weight
    model.partial_fit([X[:3], X[:2]], [np.array(["w", "x", "w"]), np.array(["y", "x"])], weights)
    local = model.to_local()
    assert {"w", "x", "y"} <= set(local.classes_)
    weights = [np.array([0.0, 1.0]), np.array([1.0, 1.0])]  # weight 0 in the first partition, not in the second
    model.partial_fit([X[:2], X[2:4]], [np.array(["z", "w"]), np.array(["z", "x"])], weights)
    assert "z" in model.to_local().classes_
    local = model.to_local()
    assert local._state["seen"].n_rows[0] == N_ROWS + 66
    assert local._state["tree"].mass.sum() == pytest.approx(N_ROWS + 66)
    assert {"late", "new", "newer"} <= set(local.classes_)
    assert local.partial_fit(X[:5], y[:5])._state["seen"].n_rows[0] == N_ROWS + 71  # it goes on


def test_a_merged_model_is_nearly_as_accurate_as_one_stream(client, text):
    X, y = text
    alone = LabelTreeClassifier(random_state=0).partial_fit(X, y).score(X, y)
    merged = learned(client, text, QUARTERS, 5).score(X, y)
    assert alone > 0.8 and merged > alone - 0.03


def test_it_continues_after_fit(client, text):
    X, y = text
    model = DaskLabelTreeClassifier(client, random_state=0, n_epochs=3).fit([X[:3000]], [y[:3000]])
    before = model.to_local().score(X[3000:], y[3000:])
    model.partial_fit(cut(X[3000:], [0, 700, 1500]), cut(y[3000:], [0, 700, 1500]))
    assert model.to_local().score(X[3000:], y[3000:]) > before


def test_arrays_of_the_copies_may_grow(client):
    """After `fit` there is no spare capacity: the first new word enlarges all arrays of a copy."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(100), 12)
    places = np.repeat(np.arange(1200), 6), (20 * y[:, None] + rng.integers(0, 20, (1200, 6))).ravel()
    X = sp.csr_array((np.ones(7200, np.float32), places), shape=(1200, 5000))
    X.sum_duplicates()
    number = np.arange(200)
    more = X[:200] + sp.csr_array((np.ones(200, np.float32), (number, 4000 + number)), shape=(200, 5000))
    model = DaskLabelTreeClassifier(client, random_state=0, n_trees=2).fit([X], [y])
    n_nodes = len(model.to_local()._state["tree"].parent)
    local = model.partial_fit([more[:100], more[100:]], [y[:100], y[100:200]]).to_local()
    assert len(local._state["tree"].parent) == n_nodes and local.score(more, y[:200]) > 0.95


def test_names_of_features_and_kinds_of_matrices(client):
    X = pd.DataFrame(np.eye(6).repeat(5, axis=0), columns=list("abcdef"))
    Y = np.eye(6, dtype=np.uint8).repeat(5, axis=0)
    model = DaskLabelTreeClassifier(client, random_state=0).partial_fit([X[:20], X[20:]], [Y[:20], Y[20:]])
    local = model.to_local()
    assert local.feature_names_in_.tolist() == list("abcdef")
    assert isinstance(local.predict(X), np.ndarray) and local.predict(X).dtype == np.uint8
    model.partial_fit([X], [Y])
    with pytest.raises(ValueError, match="another order"):
        model.partial_fit([X[list("bacdef")]], [Y])
    no_labels = DaskLabelTreeClassifier(client, random_state=0).partial_fit([X[:5]], [np.zeros((5, 6), int)])
    assert no_labels.to_local()._state["seen"].n_rows[0] == 5


def test_fit_keeps_the_names_of_labels(client):
    X, Y = np.eye(6).repeat(5, axis=0), pd.DataFrame(np.eye(6, dtype=int).repeat(5, axis=0), columns=list("uvwxyz"))
    options = {"random_state": 0, "threshold": 0.5}
    found = DaskLabelTreeClassifier(client, **options).fit([X[:20], X[20:]], [Y[:20], Y[20:]]).to_local()
    assert found.label_names_ == list("uvwxyz")
    assert file_of(found) == file_of(LabelTreeClassifier(**options).fit(X, Y))


def test_options_can_be_changed_afterwards(client, text):
    X, y = text
    model = DaskLabelTreeClassifier(client, random_state=0, n_epochs=3).fit([X], [y])
    wide = model.to_local().predict_topk(X[:100], 3)[0]
    model.set_params(beam=1)
    assert model.to_local().beam == 1
    assert model.to_local().predict_topk(X[:100], 3)[0].tolist() != wide.tolist()


def test_several_labels_per_row(client, text):
    X, _ = text
    rng = np.random.default_rng(1)
    Y = sp.csr_array((rng.random((N_ROWS, 30)) < 0.05).astype(np.int8))
    model = DaskLabelTreeClassifier(client, random_state=0).partial_fit(cut(X, QUARTERS), cut(Y, QUARTERS)).to_local()
    assert model._state["seen"].n_rows[0] == N_ROWS
    assert model._state["tree"].mass.sum() == pytest.approx(Y.sum())


def test_errors(client, text):
    X, y = text
    model = DaskLabelTreeClassifier(client, random_state=0, n_epochs=3).fit([X[:3000]], [y[:3000]])
    before = file_of(model.to_local())
    with pytest.raises(ValueError, match="features"):
        model.partial_fit([X[:10, :200]], [y[:10]])
    with pytest.raises(ValueError, match="text"):
        model.partial_fit([X[:10]], [np.arange(10)])
    assert file_of(model.to_local()) == before
    with pytest.raises(ValueError, match="sample_weight requires y"):
        model.partial_fit([(X, y, None)], sample_weight=[np.ones(N_ROWS)])
    model.to_local().remove_classes(y[:1])
    with pytest.raises(ValueError, match="removed or merged"):
        model.partial_fit([X[:10]], [y[:10]])
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(60), 40)
    rows = rng.standard_normal((60, 3, 6))[y, rng.integers(0, 3, len(y))] + 0.15 * rng.standard_normal((len(y), 6))
    dense = DaskLabelTreeClassifier(client, random_state=0).fit([rows], [y])
    assert "neighbors" in dense.to_local()._state
    with pytest.raises(ValueError, match="neighbors=False"):
        dense.partial_fit([rows[:10]], [y[:10]])


def test_rules_of_merging(text):
    """Sums are added; a weight moves by the mean of the copies that have moved it."""
    X, y = text
    base = LabelTreeClassifier(random_state=0, replay=False).partial_fit(X, y)
    copies = [LabelTreeClassifier(random_state=0, replay=False).partial_fit(X, y) for _ in range(2)]
    own = [np.flatnonzero(np.isin(y, some))[:40] for some in (np.unique(y)[:9], np.unique(y)[5:14])]
    for model, rows in zip(copies, own, strict=True):
        model.partial_fit(X[rows], y[rows])
    merged = merge(base._options, base._state, [model._state for model in copies])
    n_moved = np.zeros(3, int)
    for node in range(int(merged["tree"].n_nodes[0])):
        feature, record = table_of(merged["blocks"], node)
        of = {}
        for name, state in (("base", base._state), (0, copies[0]._state), (1, copies[1]._state)):
            known, at = table_of(state["blocks"], node)
            assert set(known) <= set(feature)
            values = zip(state["blocks"].weight[at], state["blocks"].total[at], strict=True)
            of[name] = dict(zip(known.tolist(), values, strict=True))
        nothing = np.zeros(merged["blocks"].weight.shape[1], np.float32)
        for f, k in zip(feature.tolist(), record, strict=True):
            (w, t), (a, ta), (b, tb) = (of[name].get(f, (nothing, nothing)) for name in ("base", 0, 1))
            moved = (a != w).astype(int) + (b != w)
            n_moved += np.bincount(moved, minlength=3)
            expected = w + ((a - w) + (b - w)) / np.maximum(moved, 1)
            np.testing.assert_allclose(merged["blocks"].weight[k], expected, atol=1e-6)
            np.testing.assert_allclose(merged["blocks"].total[k], ta + tb - t, atol=1e-4)
    assert (n_moved > 0).all()
    with pytest.raises(ValueError, match="new label"):
        merge(base._options, base._state, [copies[0].partial_fit(X[:1], ["new"])._state])


def test_the_columns_of_a_data_frame_stay_in_order(client):
    rng = np.random.default_rng(0)
    X, Y = rng.random((60, 8)), (rng.random((60, 3)) < 0.5).astype(int)
    frame = pd.DataFrame(Y, columns=["u", "v", "w"])
    model = DaskLabelTreeClassifier(client, random_state=0, threshold=0.5).fit([X], [frame])
    with pytest.raises(ValueError, match="Column 0 of y is 'v', but label 0 of the model is 'u'"):
        model.partial_fit([X], [frame[["v", "u", "w"]]])
    model.partial_fit([X], [frame.assign(more=1)])
    assert model.to_local().label_names_ == ["u", "v", "w", "more"]
