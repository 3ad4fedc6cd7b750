"""The (node, label) table equals a dict, candidate lists a sorted histogram, sets a set, top-k a sort."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyclass.core.labels import EMPTY, LabelSet, add_label, add_mass, find, mass_of, move_table, place, refill
from manyclass.core.state import Candidates, LabelTable, make, resize
from manyclass.core.topk import best_columns, offer

pairs = st.tuples(st.integers(0, 2**31 - 2) | st.integers(0, 5), st.integers(0, 2**31 - 2) | st.integers(0, 5))


def table_of(events, size=256):
    table, expected = make(LabelTable, entry=size), {}
    for (node, label), mass in events:
        add_mass(table, node, label, mass)
        expected[node, label] = expected.get((node, label), 0.0) + mass
    return table, expected


@given(st.lists(st.tuples(pairs, st.floats(0.1, 9.0)), max_size=100), pairs)
def test_label_table_equals_a_dict(events, stranger):
    table, expected = table_of(events)
    assert table.n_entries[0] == len(expected)
    for (node, label), mass in expected.items():
        assert mass_of(table, node, label) == pytest.approx(mass)
    assert mass_of(table, *stranger) == pytest.approx(expected.get(stranger, 0.0))
    assert (table.key[find(table, *stranger)] == EMPTY) == (stranger not in expected)


@given(st.lists(st.tuples(pairs, st.floats(0.1, 9.0)), max_size=100))
def test_a_moved_table_keeps_everything(events):
    table, expected = table_of(events)
    for number, (node, label) in enumerate(expected):
        table.path_row[find(table, node, label)] = number
    larger, _ = move_table(table, 512)
    assert larger.n_entries[0] == len(expected) == np.sum(larger.key != EMPTY)
    for number, (node, label) in enumerate(expected):
        at = find(larger, node, label)
        assert (larger.mass[at], larger.path_row[at]) == (table.mass[find(table, node, label)], number)


def test_label_table_spreads_its_keys():
    """Neighbouring nodes and labels must not pile up: a probe sequence stays short at half load."""
    table = make(LabelTable, entry=4096)
    for node in range(64):
        for label in range(32):
            add_mass(table, node, label, 1.0)
    taken = np.append(table.key != EMPTY, False)
    ends = np.flatnonzero(~taken)
    assert np.diff(ends, prepend=-1).max() < 100


# Random masses: ties are broken by who was there first, which a sort cannot know.
MASSES = np.random.default_rng(0).uniform(0.5, 1.5, 120)
events = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9)), max_size=120)


def fill(events, n_slots):
    table, lists, expected = make(LabelTable, entry=256), make(Candidates, node=2, slot=n_slots), ({}, {})
    for number, (node, label) in enumerate(events):
        at = add_mass(table, node, label, MASSES[number])
        expected[node][label] = expected[node].get(label, 0.0) + MASSES[number]
        place(lists, node, label, table.mass[at])
    return table, lists, expected


def check_lists(lists, expected, n_slots):
    for node, hist in enumerate(expected):
        best = sorted(hist, key=lambda label: -hist[label])[:n_slots]
        n = lists.size[node]
        assert lists.label[node, :n].tolist() == best
        assert lists.mass[node, :n].tolist() == pytest.approx([hist[label] for label in best])
        assert lists.covered[node] == pytest.approx(sum(hist[label] for label in best))


@given(events, st.integers(1, 6))
def test_place_keeps_the_heaviest(events, n_slots):
    _, lists, expected = fill(events, n_slots)
    check_lists(lists, expected, n_slots)


@given(events, st.integers(1, 4), st.integers(1, 5))
def test_refill_after_widening_is_exact(events, n_slots, n_more):
    table, lists, expected = fill(events, n_slots)
    wider = resize(lists, slot=n_slots + n_more)
    refill(wider, table)
    check_lists(wider, expected, n_slots + n_more)


@given(st.lists(st.lists(st.integers(0, 2**31 - 2) | st.integers(0, 20), max_size=8), max_size=12))
def test_label_set_is_a_set_emptied_by_a_new_stamp(examples):
    known = LabelSet(np.empty(16, np.int32), np.full(16, -1, np.int64))
    for stamp, labels in enumerate(examples):
        expected = set()
        for label in labels:
            assert add_label(known, label, stamp) == (label not in expected)
            expected.add(label)


def topk(scores, k):
    labels, best, size = np.full(k, -1, np.int32), np.full(k, np.nan), 0
    for label, score in enumerate(scores):
        size = offer(labels, best, size, label, score)
    return labels[:size].tolist(), best[:size].tolist()


@given(st.lists(st.integers(-3, 3).map(float) | st.floats(-5, 5), max_size=20), st.integers(1, 8))
def test_offer_equals_a_stable_sort_and_is_a_prefix(scores, k):
    expected = sorted(range(len(scores)), key=lambda label: -scores[label])[:k]
    labels, best = topk(scores, k)
    assert labels == expected
    assert best == [scores[label] for label in expected]
    assert topk(scores, k + 1)[0][:k] == labels


def test_best_columns_equals_a_sort():
    scores = np.random.default_rng(0).standard_normal((7, 30)).astype(np.float32)
    labels, best = np.empty((7, 4), np.int32), np.empty((7, 4))
    best_columns(scores, labels, best)
    np.testing.assert_array_equal(labels, np.argsort(-scores, axis=1)[:, :4])
    np.testing.assert_array_equal(best, -np.sort(-scores, axis=1)[:, :4])


@pytest.mark.parametrize("k", [255, 256, 257, 1000])
def test_many_best_columns_of_equal_scores_are_in_their_order(k):
    scores = np.random.default_rng(0).integers(0, 9, (3, 1000)).astype(np.float32)
    labels, best = np.empty((3, k), np.int32), np.empty((3, k))
    best_columns(scores, labels, best)
    np.testing.assert_array_equal(labels, np.argsort(-scores, axis=1, kind="stable")[:, :k])
    np.testing.assert_array_equal(best, -np.sort(-scores, axis=1)[:, :k])


def test_all_of_very_many_columns():
    """Quadratic time would take an hour."""
    n = 1_000_000
    labels, best = np.empty((1, n), np.int32), np.empty((1, n))
    best_columns(np.arange(n, dtype=np.float32)[None], labels, best)
    np.testing.assert_array_equal(labels[0], np.arange(n)[::-1])


def test_propensity_moves_rare_labels_up(kind, blobs):
    """Labels are ranked by probability / propensity; those that were not scored come last."""
    X, y = blobs
    model = kind(random_state=0).fit(X, y)
    propensity = np.random.default_rng(0).uniform(0.05, 1, len(model.classes_))
    labels, scores = model.predict_topk(X[:50], 4, propensity=propensity)
    ratio = model.predict_proba(X[:50]) / propensity
    np.testing.assert_allclose(scores, -np.sort(-ratio, axis=1)[:, :4], rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(ratio[np.arange(50)[:, None], labels], scores, rtol=1e-5, atol=1e-12)
    assert all(len(set(row)) == 4 for row in labels.tolist())
    for wrong, message in ((propensity[1:], "shape"), (propensity * 0, "above 0"), (propensity * 30, "at most 1")):
        with pytest.raises(ValueError, match=message):
            model.predict_topk(X[:5], 4, propensity=wrong)
