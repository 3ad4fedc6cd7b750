"""Slim files with rounded weights: smaller, nearly the same predictions, the same bytes when saved again."""

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors import safe_open
from sklearn.datasets import load_digits

from manyclass import (
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
from manyclass.core.state import flatten

MAKERS = {
    "recall tree": lambda: RecallTreeClassifier(n_epochs=3, random_state=0),
    "path features": lambda: RecallTreeClassifier(path_features="crossed", n_epochs=2, random_state=0),
    "hashed": lambda: RecallTreeClassifier(table_bits=8, n_epochs=2, random_state=0),
    "label tree": lambda: LabelTreeClassifier(arity=4, random_state=0),
    "spectral tree": lambda: SpectralTreeClassifier(n_candidates=5, random_state=0),
    "spectral tree, low rank": lambda: SpectralTreeClassifier(n_candidates=5, rank=8, random_state=0),
    "lom tree": lambda: LomTreeClassifier(n_epochs=3, random_state=0),
    "mlom tree": lambda: MlomTreeClassifier(n_epochs=3, random_state=0),
    "one-against-all": lambda: OneAgainstAllClassifier(n_epochs=3, random_state=0),
    "one-against-all, low rank": lambda: OneAgainstAllClassifier(rank=8, n_epochs=3, random_state=0),
}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:1200].astype(np.float32), y[:1200], X[1200:].astype(np.float32), y[1200:]


@pytest.fixture(scope="module")
def fitted(digits):
    """A model of each kind, made when asked for."""
    made = {}

    def fit(name):
        if name not in made:
            made[name] = MAKERS[name]().fit(*digits[:2])
        return made[name]

    return fit


@pytest.mark.parametrize("name", MAKERS)
def test_rounded_files_are_smaller_and_predict_nearly_the_same(tmp_path, digits, fitted, name):
    clf, X, y = fitted(name), digits[2], digits[3]
    sizes, accuracy = {}, {}
    for precision in ("float32", "float16", "int8"):
        path = tmp_path / precision
        clf.save(path, slim=True, precision=precision)
        loaded = load_model(path)
        assert loaded.get_params() == clf.get_params() and loaded._precision == precision
        assert all(array.dtype != np.float16 for array in flatten(loaded._state).values())
        sizes[precision], accuracy[precision] = path.stat().st_size, loaded.score(X, y)
        agreed = np.mean(loaded.predict(X) == clf.predict(X))
        assert agreed >= {"float32": 0.995, "float16": 0.99, "int8": 0.94}[precision]
        loaded.save(tmp_path / "again", slim=True, precision=precision)
        assert (tmp_path / "again").read_bytes() == path.read_bytes()
    assert sizes["int8"] < sizes["float16"]
    if name.startswith("label tree"):  # its weights have 16 bits in memory
        assert sizes["float16"] == sizes["float32"]
    else:
        assert sizes["float16"] < sizes["float32"]
    assert accuracy["float16"] == pytest.approx(accuracy["float32"], abs=0.005)
    assert accuracy["int8"] == pytest.approx(accuracy["float32"], abs=0.02)


def test_most_of_a_file_of_weights_goes(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 1000)).astype(np.float32), rng.integers(0, 100, 400)
    clf = OneAgainstAllClassifier(n_epochs=1, random_state=0).fit(X, y)
    sizes = []
    for precision in ("float32", "float16", "int8"):
        clf.save(tmp_path / "m", slim=True, precision=precision)
        sizes.append((tmp_path / "m").stat().st_size)
    assert sizes[1] < 0.53 * sizes[0] and sizes[2] < 0.29 * sizes[0]


@pytest.mark.parametrize("precision", ["float16", "int8"])
@pytest.mark.parametrize("name", ["recall tree", "one-against-all", "lom tree", "spectral tree"])
def test_features_in_units_far_apart_survive(tmp_path, digits, name, precision):
    units = (10 ** np.random.default_rng(0).uniform(-6, 6, 64)).astype(np.float32)
    X, y, X_test, y_test = digits
    clf = MAKERS[name]().fit(X * units, y)
    clf.save(tmp_path / "m", slim=True, precision=precision)
    assert load_model(tmp_path / "m").score(X_test * units, y_test) > clf.score(X_test * units, y_test) - 0.03


def test_several_labels_per_row(tmp_path):
    rng = np.random.default_rng(0)
    X = sp.random_array((300, 500), density=0.02, rng=rng, format="csr", dtype=np.float32)
    Y = sp.random_array((300, 50), density=0.05, rng=rng, format="csr") != 0
    for clf in (LabelTreeClassifier(n_trees=2, random_state=0), SpectralTreeClassifier(n_candidates=9, random_state=0)):
        clf.fit(X, Y).save(tmp_path / "m", slim=True, precision="int8")
        loaded = load_model(tmp_path / "m")
        far = np.abs(loaded.predict_proba(X) - clf.predict_proba(X)) > 0.05
        assert far.mean() < 0.01  # a row that takes another path has other labels
        assert loaded.multilabel_


def test_rounding_needs_slim_and_a_known_name(tmp_path, fitted):
    clf = fitted("one-against-all")
    for wrong in ("float64", "INT8", None, 8, []):
        with pytest.raises(ValueError, match="precision must be one of float32, float16, int8"):
            clf.save(tmp_path / "m", slim=True, precision=wrong)
    with pytest.raises(ValueError, match="requires slim=True"):
        clf.save(tmp_path / "m", precision="int8")
    assert not (tmp_path / "m").exists()


def test_weights_too_large_for_float16_leave_the_old_file(tmp_path, digits):
    clf = OneAgainstAllClassifier(n_epochs=1, random_state=0).fit(*digits[:2])
    clf.save(tmp_path / "m", slim=True)
    before = (tmp_path / "m").read_bytes()
    clf._state["columns"].weight[3, 2] = 1e6
    with pytest.raises(ValueError, match=r"columns.weight contains weights that float16 cannot"):
        clf.save(tmp_path / "m", slim=True, precision="float16")
    assert (tmp_path / "m").read_bytes() == before
    clf.save(tmp_path / "m", slim=True, precision="int8")


def test_what_a_rounded_model_may_become(tmp_path, digits, fitted):
    clf, X = fitted("recall tree"), digits[2]
    clf.save(tmp_path / "m", slim=True, precision="int8")
    loaded = load_model(tmp_path / "m")
    loaded.save(tmp_path / "wide")  # still slim, the rounded weights as float32
    wide = load_model(tmp_path / "wide")
    assert wide._slim and wide._precision == "float32"
    assert np.array_equal(wide.predict_topk(X, 3)[1], loaded.predict_topk(X, 3)[1])
    with pytest.raises(ValueError, match="slim model"):
        loaded.partial_fit(*digits[:2])
    assert loaded.fit(*digits[:2])._precision == "float32"


def test_other_readers_see_plain_arrays(tmp_path, fitted):
    fitted("one-against-all").save(tmp_path / "h", slim=True, precision="float16")
    fitted("one-against-all").save(tmp_path / "i", slim=True, precision="int8")
    with safe_open(tmp_path / "h", "numpy") as half, safe_open(tmp_path / "i", "numpy") as steps:
        assert half.get_tensor("columns.weight").dtype == np.float16
        assert steps.get_tensor("columns.weight").dtype == np.int8
        assert steps.get_tensor("columns.weight_scale").shape == (10,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, m: m.__setitem__("precision", "int4"), "precision"),
        (lambda a, m: m.__setitem__("precision", ["int8"]), "precision"),
        (lambda a, m: m.__setitem__("precision", "float16"), "not rounded to float16"),
        (lambda a, m: m.__setitem__("precision", "float32"), "_scale"),
        (lambda a, m: m.pop("precision"), "precision"),
        (lambda a, m: m.__setitem__("format_version", 1), "_scale"),
        (lambda a, m: m.__setitem__("slim", False), "slim"),
        (lambda a, m: a["scorer.weight_scale"].fill(np.inf), "not a valid scale"),
        (lambda a, m: a.pop("scorer.weight_scale"), "weight_scale"),
        (lambda a, m: a.__setitem__("scorer.weight_scale", a["scorer.weight_scale"][1:]), "scales for"),
        (lambda a, m: a.__setitem__("scorer.bias_scale", a["scorer.weight_scale"]), "bias_scale"),
        (lambda a, m: a.__setitem__("scorer.weight", a["scorer.weight"].T.copy()), "scorer.weight"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("verify", [True, False])
def test_broken_files_are_refused(tmp_path, fitted, change, message, verify):
    fitted("recall tree").save(tmp_path / "m", slim=True, precision="int8")
    arrays, metadata = model_file.read(tmp_path / "m", mmap=False)
    change(arrays, metadata)
    model_file.write(tmp_path / "m", arrays, metadata)
    with pytest.raises(ModelFormatError, match=message):
        load_model(tmp_path / "m", verify=verify)


def test_a_float16_that_is_not_finite_is_found(tmp_path, fitted):
    fitted("recall tree").save(tmp_path / "m", slim=True, precision="float16")
    arrays, metadata = model_file.read(tmp_path / "m", mmap=False)
    arrays["scorer.weight"][1, 1] = np.inf
    model_file.write(tmp_path / "m", arrays, metadata)
    with pytest.raises(ModelFormatError, match=r"scorer.weight contains a number that is not finite"):
        load_model(tmp_path / "m")
    unverified = load_model(tmp_path / "m", verify=False)
    with pytest.raises(ValueError, match="A score is NaN or infinite"):
        unverified.predict(np.ones((2, 64), np.float32))
