"""Groups are made, grown and flattened as their schema says."""

from typing import Annotated, NamedTuple

import numpy as np
import pytest

from manyclass.core.columns import most_rows
from manyclass.core.state import (
    Candidates,
    Field,
    LabelTable,
    Linear,
    Tree,
    fields_of,
    flatten,
    kept_rows,
    make,
    n_bytes,
    resize,
)
from manyclass.estimators import ESTIMATORS

GROUPS = sorted(
    {
        group
        for estimator in ESTIMATORS.values()
        for groups in estimator._model.GROUPS.values()
        for group in (groups if isinstance(groups, tuple) else (groups,))
        if group is not None
    },
    key=lambda group: group.__name__,
)


class Rows(NamedTuple):
    """Training rows of some algorithm."""

    KEEPS_ROWS = True

    row: Annotated[np.ndarray, Field("f4", ("row", "feature"))]


def test_training_rows_that_a_model_keeps_limit_the_rows_of_a_batch():
    """The shared code asks the type of a group, and knows the name of none."""
    rows = Rows(np.zeros((2, 1 << 20), np.float32))
    assert kept_rows({"seen": None, "any name": rows}) == {"any name": rows}
    assert most_rows({"any name": rows}, 16_384) == 32
    assert kept_rows({"neighbors": ()}) == {} and most_rows({"neighbors": ()}, 16_384) == 16_384


def test_every_group_is_checked():
    assert {"Tree", "Linear", "Candidates", "LabelTable", "Columns", "Seen"} <= {group.__name__ for group in GROUPS}


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_make_follows_the_schema(group):
    dims = {dim for field in fields_of(group).values() for dim in field.dims} - {"one"}
    sizes = {dim: 2 + number for number, dim in enumerate(sorted(dims))}
    made = make(group, **sizes)
    for array, (name, field) in zip(made, fields_of(group).items(), strict=True):
        assert array.dtype == np.dtype(field.dtype), name
        assert array.shape == tuple(1 if dim == "one" else sizes[dim] for dim in field.dims), name
        assert np.all(array == field.fill), name


def test_make_needs_every_size():
    with pytest.raises(KeyError):
        make(Tree, node=3)


def test_resize_keeps_old_values_and_fills_the_rest():
    lists = make(Candidates, node=2, slot=3)
    lists.label[:], lists.mass[:], lists.size[:] = 7, 1.5, 3
    larger = resize(lists, node=4, slot=5)
    assert larger.label.shape == larger.mass.shape == (4, 5)
    assert np.all(larger.label[:2, :3] == 7)
    assert np.all(larger.label[2:] == -1)
    assert np.all(larger.label[:, 3:] == -1)
    assert larger.mass.sum() == lists.mass.sum()
    assert larger.size.tolist() == [3, 3, 0, 0]


def test_resize_never_shrinks_and_keeps_what_does_not_grow():
    table = make(LabelTable, entry=8)
    same = resize(table, entry=4)
    assert all(new is old for new, old in zip(same, table, strict=True))
    bank = make(Linear, row=2, weight_row=1, weight_column=4, square_row=1, square_column=1)
    larger = resize(bank, row=5)
    assert larger.weight is bank.weight
    assert larger.bias.shape == (5,)


def test_flatten_names_every_array_once_without_copying():
    state = {"tree": make(Tree, node=2, side=2), "table": make(LabelTable, entry=4)}
    flat = flatten(state)
    assert list(flat) == [
        *(f"tree.{name}" for name in Tree._fields),
        *(f"table.{name}" for name in LabelTable._fields),
    ]
    assert flat["tree.children"] is state["tree"].children
    assert n_bytes(state) == sum(array.nbytes for array in flat.values())
