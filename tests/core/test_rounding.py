"""Rounded weights: how far they move, that rounding twice changes nothing, and that features of all sizes survive."""

import numpy as np
import pytest

from manyclass.core.model_file import ModelFormatError
from manyclass.core.precision import PRECISIONS, narrow, widen
from manyclass.core.state import Linear, Scale, fields_of, flatten, make
from manyclass.estimators import ESTIMATORS
from manyclass.label_tree.weights import PackedBlocks
from manyclass.one_against_all.kernels import Columns
from manyclass.spectral_tree.kernels import Routers

ROUNDED = [precision for precision in PRECISIONS if precision != "float32"]
TYPES = {"scale": Scale, "scorer": Linear, "columns": Columns, "routers": Routers, "blocks": PackedBlocks}


def bank(weight, sizes=None):
    """A state with one bank over features of the given largest values; 0: not known."""
    rows, columns = weight.shape
    state = {
        "scale": make(Scale, feature=columns),
        "scorer": make(Linear, row=rows, weight_row=rows, weight_column=columns, square_row=1, square_column=1),
    }
    state["scorer"].weight[:] = weight
    if sizes is not None:
        state["scale"].inverse[:] = np.divide(1, sizes, where=sizes > 0, out=np.zeros(len(sizes)))
    return state


def there_and_back(state, precision):
    arrays = narrow(state, precision)
    return arrays, widen(arrays, TYPES, precision)


def again(state, arrays, precision):
    """What rounding the rounded weights gives."""
    rounded = {
        name: group._replace(**{field: arrays[f"{name}.{field}"] for field in group._fields})
        for name, group in state.items()
    }
    return narrow(rounded, precision)


def same(one, other):
    assert set(one) == set(other)
    for name in one:
        assert one[name].dtype == other[name].dtype and one[name].tobytes() == other[name].tobytes(), name


def test_the_schema_says_which_weights_may_be_rounded():
    declared = [kinds for estimator in ESTIMATORS.values() for kinds in estimator._model.GROUPS.values()]
    groups = {group for kinds in declared for group in (kinds if isinstance(kinds, tuple) else (kinds,))} - {None}
    rounded = {
        f"{group.__name__}.{name}" for group in groups for name, field in fields_of(group).items() if field.rounds
    }
    assert rounded == {"Linear.weight", "Routers.weight", "PackedBlocks.value", "Columns.weight",
                       "Projection.weight"}  # fmt: skip


@pytest.mark.parametrize("precision", ROUNDED)
@pytest.mark.parametrize("seed", range(5))
def test_rounding_twice_changes_nothing(precision, seed):
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(1, 200))
    sizes = np.where(rng.random(n_features) < 0.2, 0, 10 ** rng.uniform(-9, 9, n_features))
    weight = rng.normal(size=(int(rng.integers(1, 40)), n_features)) * 10 ** rng.uniform(-12, 3, n_features)
    state = bank(weight.astype(np.float32) / np.where(sizes > 0, sizes, 1).astype(np.float32), sizes)
    arrays, back = there_and_back(state, precision)
    same(again(state, back, precision), arrays)


def test_int8_scales_are_found_again_for_any_largest_weight():
    rng = np.random.default_rng(0)
    weight = (rng.standard_t(2, size=(20_000, 64)) * 10 ** rng.uniform(-30, 20, (20_000, 1))).astype(np.float32)
    state = bank(weight)
    arrays, back = there_and_back(state, "int8")
    same(again(state, back, "int8"), arrays)
    kept = np.abs(weight).max(axis=1) >= 2.0**-80
    assert 0.7 < kept.mean() < 1
    assert (np.abs(arrays["scorer.weight"][kept]).max(axis=1) == 127).all()
    assert not arrays["scorer.weight"][~kept].any()


def test_how_far_weights_move():
    weight = np.random.default_rng(0).normal(size=(30, 100)).astype(np.float32)
    _, half = there_and_back(bank(weight), "float16")
    arrays, steps = there_and_back(bank(weight), "int8")
    assert 0 < np.abs(half["scorer.weight"] - weight).max() <= np.abs(weight).max() * 2.0**-11
    scale = np.repeat(arrays["scorer.weight_scale"], 64)[: weight.size].reshape(weight.shape)
    moved = np.abs(steps["scorer.weight"] - weight)
    assert (moved <= scale * 0.5001).all() and moved.max() > scale.max() * 0.4
    assert arrays["scorer.weight"].dtype == np.int8 and len(arrays["scorer.weight_scale"]) == -(-3000 // 64)
    for other in set(flatten(bank(weight))) - {"scorer.weight"}:
        assert arrays[other].dtype == flatten(bank(weight))[other].dtype


@pytest.mark.parametrize("precision", ROUNDED)
@pytest.mark.parametrize("kind", ["column", "line", "entry"])
def test_features_of_all_sizes_share_a_scale(precision, kind):
    """What a weight does to a score is weight × size: with sizes from 1e-8 to 1e8, all must survive."""
    rng = np.random.default_rng(0)
    sizes = 10 ** rng.uniform(-8, 8, 32)
    effect = rng.uniform(0.5, 1, (32, 32)) * rng.choice([-1, 1], (32, 32))
    state = bank((effect / sizes).astype(np.float32), sizes)
    by_size, name = sizes, "scorer.weight"
    if kind == "line":
        columns = make(Columns, bucket=32, square_bucket=1, square_class=1, **{"class": 32})
        columns.weight[:] = effect / sizes[:, None]
        state["columns"], by_size, name = columns, sizes[:, None], "columns.weight"
    elif kind == "entry":
        routers = make(Routers, node_end=2, entry=1024, node=1)
        routers.feature[:] = np.tile(np.arange(32), 32)
        routers.weight[:] = (effect / sizes).reshape(-1)
        state["routers"], by_size, effect, name = routers, np.tile(sizes, 32), effect.reshape(-1), "routers.weight"
    arrays, back = there_and_back(state, precision)
    np.testing.assert_allclose(back[name] * by_size, effect, atol=0.02)
    same(again(state, back, precision), arrays)


@pytest.mark.parametrize("precision", ROUNDED)
def test_a_hashed_table_as_wide_as_the_features_has_no_feature_in_a_column(precision):
    state = bank(np.ones((1, 64), np.float32), np.resize([1.0, 1e4], 64))
    direct = narrow(state, precision)["scorer.weight"]
    state["scorer"].mask[0] = 63
    arrays, back = there_and_back(state, precision)
    np.testing.assert_allclose(back["scorer.weight"], 1, rtol=1e-4)
    assert len(np.unique(arrays["scorer.weight"])) == 1 and len(np.unique(direct)) == 2


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, (1 << 20) - 1, (1 << 20) + 65])
@pytest.mark.parametrize("precision", ROUNDED)
def test_any_number_of_weights(n, precision):
    blocks = make(PackedBlocks, page_end=2, entry=0, run_of_entries=0, part=1, value=n, node=1, place=16)
    blocks.value[:] = 8000 * np.random.default_rng(0).uniform(-1, 1, size=n)
    state = {"scale": make(Scale, feature=3), "blocks": blocks}
    arrays, back = there_and_back(state, precision)
    np.testing.assert_allclose(back["blocks.value"], blocks.value, atol=0 if precision == "float16" else 32)
    same(again(state, back, precision), arrays)
    assert arrays["blocks.value"].nbytes == n * (2 if precision == "float16" else 1)


def test_weights_that_do_not_fit_are_refused():
    state = bank(np.full((2, 3), 7e4, np.float32))
    with pytest.raises(ValueError, match="float16 cannot"):
        narrow(state, "float16")
    assert np.allclose(there_and_back(state, "int8")[1]["scorer.weight"], 7e4, rtol=1e-4)
    for bad in (np.nan, np.inf, 1e30):
        for precision in ROUNDED:
            with pytest.raises(ValueError, match=r"scorer\.weight contains weights"):
                narrow(bank(np.full((2, 3), bad, np.float32)), precision)


def change(name, how):
    return lambda arrays: arrays.__setitem__(name, how(arrays[name]))


@pytest.mark.parametrize(
    ("precision", "broken", "message"),
    [
        ("int8", lambda a: a.pop("scorer.weight_scale"), "weight_scale is missing"),
        ("int8", change("scorer.weight_scale", lambda s: s[:-1]), "scales for"),
        ("int8", change("scorer.weight_scale", lambda s: s[:, None]), "one-dimensional"),
        ("int8", change("scorer.weight_scale", lambda s: s.astype("f8")), "float32"),
        ("int8", change("scorer.weight_scale", lambda s: s * np.nan), "not a valid scale"),
        ("int8", change("scorer.weight_scale", lambda s: s + np.inf), "not a valid scale"),
        ("int8", change("scorer.weight_scale", lambda s: s + np.float32(1e38)), "not a valid scale"),
        ("int8", change("scorer.weight_scale", lambda s: -s), "not a valid scale"),
        ("int8", change("scorer.weight", lambda w: w.astype("f4")), "not rounded to int8"),
        ("int8", change("scorer.weight", lambda w: w.reshape(-1)), "not rounded to int8"),
        ("float16", change("scorer.weight", lambda w: w.astype("i1")), "not rounded to float16"),
        ("float16", lambda a: a.pop("scale.inverse"), "scale.inverse is missing"),
        ("float16", change("scale.inverse", lambda s: s[:, None]), "scale.inverse"),
        ("float16", change("routers.feature", lambda f: f + 99), "outside"),
        ("float16", change("routers.feature", lambda f: f - 1), "outside"),
        ("float16", change("routers.feature", lambda f: f[:-1]), "features"),
        ("int8", lambda a: a.pop("routers.feature"), "feature is missing"),
        ("int8", lambda a: a.__setitem__("magic.weight", a["scorer.weight"]), "no group"),
    ],
)  # fmt: skip
def test_hostile_arrays_are_refused(precision, broken, message):
    state = bank(np.random.default_rng(0).normal(size=(20, 7)).astype(np.float32), np.ones(7))
    state["routers"] = make(Routers, node_end=2, entry=5, node=1)
    state["routers"].feature[:] = np.arange(5)
    arrays = narrow(state, precision)
    widen(dict(arrays), TYPES, precision)
    broken(arrays)
    with pytest.raises(ModelFormatError, match=message):
        widen(arrays, TYPES, precision)


@pytest.mark.parametrize("precision", ROUNDED)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -1.0, 1e-45, 3e38])
def test_sizes_that_are_none_do_no_harm(precision, value):
    state = bank(np.ones((3, 5), np.float32), np.ones(5))
    arrays = narrow(state, precision)
    arrays["scale.inverse"] = np.full(5, value, np.float32)
    assert np.isfinite(widen(arrays, TYPES, precision)["scorer.weight"]).all()
