"""`save` and `load_model`: an estimator with its options, labels and all arrays of its model in one file."""

import re
import warnings
from dataclasses import asdict
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np

from ..io.reading import Reading
from ..io.texts import pack_texts, unpack_texts
from . import learners, model_file
from .calibration import Isotonic, Temperature, check_calibration
from .classes import ClassIndex, label_array, number_array
from .columns import ColumnScaling, check_columns
from .conformal import Conformal, check_conformal
from .invariants import check_finite, check_option_types, need, need_range
from .locks import reads
from .model_file import ModelFormatError
from .options import as_float, check_flag
from .precision import PRECISIONS, narrow, widen
from .protocol import Mixin, Model
from .replay import Replay, check_replay, packed
from .state import unflatten
from .taxonomy import TaxonomyArrays, check_taxonomy
from .validation import check_before_conversion, check_text

FORMAT_VERSION = 6  # of the metadata and the meaning of the arrays; all versions up to this one can be read

_LEARNERS = {learner.__name__: learner for learner in learners.BY_NAME.values()}
# Groups that a model of any algorithm may have, besides `replay`.
_SHARED: dict[str, Any] = {
    "scaling": (ColumnScaling, None),
    "calibration": (Isotonic, Temperature, None),
    "conformal": (Conformal, None),
    "taxonomy": (TaxonomyArrays, None),
}
# Names in the code that differ from those in files.
_IN_FILES = {
    "margin_mass": "taught",
    "_labels_per_row": "_labels_a_row",
    "_sparse_y": "_sparse_answers",
    "_y_dtype": "_answer_type",
}
_IN_CODE = {name: new for new, name in _IN_FILES.items()}
# Groups of the estimator, and their arrays (those of `reading` depend on the model); all others are the model's state.
_OURS: dict[str, Any] = {
    "classes": ("number", "bytes", "end", "target"),
    "feature_names": ("bytes", "end"),
    "names": ("bytes", "end"),
    "reading": None,
}


class FilesMixin(Mixin):
    """`save`, and what `load_model` requires."""

    _kept: tuple[str, ...] = ("n_epochs_", "history_")  # further attributes that a file keeps
    _precision = "float32"  # of the weights in the file that the model was loaded from
    _removed: dict[str, Any] = {"validation_fraction": 0.1, "patience": 2}  # options of older versions: old defaults

    @classmethod
    def _params_from_file(cls, params: dict[str, Any]) -> dict[str, Any]:
        """Constructor parameters from those in a file, which may have been written by an older version."""
        out, known = dict(params), cls._get_param_names()  # type: ignore[attr-defined]
        for name in [name for name in params if name not in known]:
            need(name in cls._removed, f"the option {name!r} is unknown.")
            value = out.pop(name)
            if value != cls._removed[name]:
                warnings.warn(
                    f"The model was trained with {name}={value!r}, an option that {cls.__name__} no longer has. "
                    "Predictions are the same; further training does not use it.",
                    stacklevel=5,
                )
        return out

    @property
    def label_names_(self) -> list[str] | None:
        """Names of the columns of y: those of a DataFrame, or the labels in the file that the model was trained on."""
        return self._names

    def _from_table(self, X: Any) -> Any:
        """Rows of features from texts or a table, if the model knows how to read them."""
        reading = self._extra.get("reading")
        if reading is not None and reading.columns:
            from ..io.tables import is_table, table_rows  # scikit-learn's vectorizers take a while to import

            if is_table(X):
                return table_rows(X, reading)
        check_text(X)
        check_before_conversion(X)
        return X

    @reads
    def save(self, path: str | PathLike, slim: bool = False, prune: float = 0.0, precision: str = "float32") -> None:
        """Write the model to a file.

        The file is a safetensors file with all options, labels and arrays. The same model gives the same bytes. A crash
        leaves either the old file or the new one. A ValueError is raised for a model that `load_model` would refuse,
        such as one whose weights are not finite.

        Parameters
        ----------
        path : str or path-like
            Name of the file.
        slim : bool, default=False
            Leave out the arrays that only training uses. A slim model makes the same predictions and cannot be trained
            further. The file of a label tree is smaller only after `partial_fit`: after `fit` it has no such arrays.
        prune : float, default=0.0
            With `slim`, leave out weights with an absolute value of at most this. Only for label trees. The file is
            smaller and predictions may differ; measure the effect on held-out rows.
        precision : {"float32", "float16", "int8"}, default="float32"
            With `slim`, the type of the weights in the file. "int8" has one scale per 64 weights. Predictions may
            differ slightly. `load_model` converts the weights back, so memory and speed do not change. The weights of
            label trees have 16 bits in memory and in all files, so "float16" changes nothing there.

        Examples
        --------
        >>> import os, tempfile
        >>> from sklearn.datasets import load_digits
        >>> from manyclass import RecallTreeClassifier, load_model
        >>> X, y = load_digits(return_X_y=True)
        >>> clf = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X, y)
        >>> path = os.path.join(tempfile.mkdtemp(), "digits.model")
        >>> clf.save(path)
        >>> bool((load_model(path).predict(X) == clf.predict(X)).all())
        True
        """
        if not hasattr(self, "_state"):
            raise ValueError(f"This {type(self).__name__} is not fitted yet: fit it before saving it.")
        check_flag("slim", slim)
        if not isinstance(prune, Real) or not 0 <= as_float(prune) < float("inf") or (prune and not slim):
            raise ValueError(f"prune must be a number of at least 0 and requires slim=True, got {prune!r}.")
        if not isinstance(precision, str) or precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}.")
        if precision != "float32" and not slim:
            raise ValueError(f"precision={precision!r} requires slim=True: training uses all bits of the weights.")
        model_file.write(path, *self._contents(slim, prune, precision))

    def _contents(self, slim: bool, prune: float, precision: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The arrays and the metadata of a file, or a ValueError if `load_model` would refuse them."""
        self._check_options()
        options, state = self._options, dict(self._state)
        replay, shared = state.pop("replay", None), {name: state.pop(name) for name in _SHARED if name in state}
        if hasattr(self._model, "trim"):
            state = self._model.trim(state, len(self._index))
        if slim:
            pruned = {"prune": prune} if hasattr(self._model, "PRUNES") else {}
            if prune and not pruned:
                raise ValueError("prune is for label trees: the weights of this model are stored as dense arrays.")
            options, state = self._model.slim(options, state, len(self._index), **pruned)
        elif replay is not None:
            state["replay"] = packed(replay, len(self._index))
        state |= shared
        arrays, kind = _labels_to_arrays(self._index)
        for group, texts in (("feature_names", getattr(self, "feature_names_in_", None)), ("names", self._names)):
            if texts is not None:
                arrays |= {f"{group}.{name}": array for name, array in pack_texts(list(texts)).items()}
        extra = dict(self._extra)
        if "reading" in extra:
            arrays |= {f"reading.{name}": array for name, array in extra["reading"].arrays().items()}
            extra["reading"] = extra["reading"].to_dict()
        kept = {name: getattr(self, name) for name in self._kept if hasattr(self, name)}
        metadata = {
            "format_version": FORMAT_VERSION,
            "algorithm": self._model.NAME,
            "options": _to_json(self.get_params(deep=False)),  # constructor parameters
            "config": _to_json(options._asdict()),  # resolved options
            "labels": kind,
            "n_features": int(self.n_features_in_),
            "fitted": _to_json(_renamed(kept, _IN_FILES)),
            "slim": bool(slim or self._slim),
            "precision": precision,
            "extra": extra,
        }
        arrays |= _renamed(narrow(state, precision), _IN_FILES)
        try:
            rebuild({self._model.NAME: type(self)}, dict(arrays), metadata, True)
        except ModelFormatError as error:
            raise ValueError(f"This {type(self).__name__} cannot be saved: {error}") from error
        return arrays, metadata


def load(estimators: dict[str, Any], path: str | PathLike, mmap: bool, verify: bool) -> Any:
    """The estimator from a file, or a ModelFormatError that names the file and what is wrong."""
    arrays, metadata = model_file.read(path, mmap, verify)
    try:
        return rebuild(estimators, arrays, metadata, verify)
    except ModelFormatError as error:
        raise ModelFormatError(f"{path}: {error}") from error


def groups_of_file(model: Model, slim: bool = False) -> dict[str, Any]:
    """The groups of an algorithm, and those that every estimator may have."""
    shared = dict(_SHARED)
    if hasattr(model, "learn") and not slim:
        shared["replay"] = Replay, None
    return {**model.GROUPS, **shared}


def rebuild(estimators: dict[str, Any], arrays: dict[str, np.ndarray], metadata: dict[str, Any], verify: bool) -> Any:
    """The estimator from the arrays and the metadata of a file, or a ModelFormatError. Removes entries of `arrays`."""
    try:
        return _rebuild(estimators, arrays, metadata, verify)
    except ModelFormatError:
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        raise ModelFormatError(f"the metadata is invalid ({type(error).__name__}: {error}).") from error


def _rebuild(estimators, arrays: dict[str, np.ndarray], metadata: dict[str, Any], verify: bool):
    version: Any = metadata.get("format_version")
    known = type(version) is int and 1 <= version <= FORMAT_VERSION
    need(known, f"its format version is {version!r}, this manyclass reads 1 to {FORMAT_VERSION}: install a newer one.")
    algorithm = metadata["algorithm"]
    need(algorithm in estimators, f"it contains a model of an unknown algorithm: {algorithm!r}.")
    kind = estimators[algorithm]
    model: Model = kind._model
    params = kind._params_from_file(_from_json(metadata["options"]))
    out = kind(**params)
    out._check_options()
    out.n_features_in_ = metadata["n_features"]
    n = out.n_features_in_
    need(type(n) is int and 1 <= n < 1 << 31, f"the number of features is {n!r}.")
    if "conformal.threshold" in arrays:  # without these in version 0.1.0
        arrays.setdefault("conformal.beam", np.zeros(1, np.int64))
        arrays.setdefault("conformal.n_candidates", np.zeros(1))
    ours = {name: arrays.pop(name) for name in list(arrays) if name.split(".")[0] in _OURS}
    for name in ours:
        group, _, field = name.partition(".")
        need(_OURS[group] is None or field in _OURS[group], f"the array {name!r} is unknown.")
    out._index = _labels_from_arrays(ours, metadata["labels"])
    if "feature_names.end" in ours:
        names = unpack_texts(ours["feature_names.bytes"], ours["feature_names.end"])
        need(len(names) == n, f"there are {len(names)} feature names for {n} features.")
        out.feature_names_in_ = np.array(names, dtype=object)
    if "names.end" in ours:
        out._names = unpack_texts(ours["names.bytes"], ours["names.end"])
        # A model that has seen rows, but no label yet, has one column without a name.
        fits = max(1, len(out._names)) == len(out._index)
        need(fits, f"there are {len(out._names)} names for {len(out._index)} labels.")
    resolved = model.Options(**model.options_from_file(_from_json(metadata["config"])))
    out._options = check_option_types(resolved, kind._constraints)
    for name in set(out.get_params(deep=False)) - set(params):
        # The file is older than this option: keep the behaviour of the model, if its value is stored unchanged.
        value, constraint = getattr(out._options, name, None), kind._constraints.get(name)
        if value is not None and constraint is not None and constraint.allows(value):
            setattr(out, name, value)
    out._slim = metadata["slim"]
    need(type(out._slim) is bool, f"slim is {out._slim!r}.")
    out._precision = metadata["precision"] if version > 1 else "float32"  # format 1 has no rounded weights
    fits = out._precision in PRECISIONS and (out._precision == "float32" or out._slim)
    need(fits, f"the precision is {out._precision!r}, which is unknown or requires a slim model.")
    arrays = _renamed(arrays, _IN_CODE)
    if hasattr(model, "arrays_from_file"):
        arrays = model.arrays_from_file(arrays)
    groups = groups_of_file(model, out._slim)
    out._state = unflatten(widen(arrays, groups, out._precision), groups)
    if hasattr(model, "state_from_file"):
        out._state = model.state_from_file(out._state, version)
    replay = out._state.pop("replay", None)
    shared = {name: out._state.pop(name) for name in _SHARED if name in out._state}
    model.check(out._options, out._state, n, len(out._index), out._slim)
    if replay is not None:
        check_replay(replay, n, len(out._index))
        out._state["replay"] = replay
    if "scaling" in shared:
        check_columns(shared["scaling"], n)
    if "calibration" in shared:
        check_calibration(shared["calibration"])
    if "conformal" in shared:
        check_conformal(shared["conformal"], len(out._index), getattr(model, "MOST_PATHS", 0))
    if "taxonomy" in shared:
        check_taxonomy(shared["taxonomy"])
    out._state |= shared
    if verify:
        check_finite(out._state)
    fitted = _renamed(_from_json(metadata["fitted"]), _IN_CODE)
    unknown = sorted(set(fitted) - set(out._kept))
    need(not unknown, f"unknown attributes: {unknown}.")
    for name, value in fitted.items():
        setattr(out, name, value)
    out._check_kept()
    need(out._names is None or out._multilabel, "labels have names, which requires several labels per row.")
    need(isinstance(metadata["extra"], dict), "the metadata has the wrong type.")
    out._extra = dict(metadata["extra"])
    if "reading" in out._extra:
        counted = {name.removeprefix("reading."): array for name, array in ours.items() if name.startswith("reading.")}
        out._extra["reading"] = reading = Reading.from_dict(out._extra["reading"], counted)
        need(reading.width == n, f"rows are read with {reading.width} features, but the model has {n}.")
        weighted = not reading.weighted or reading.weighting is not None
        need(weighted, "the weights of the columns are missing.")
    return out


def _renamed(values: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Attributes or arrays under other names; an array such as `nodes.margin` stays in its group."""
    out = {}
    for name, value in values.items():
        group, dot, last = name.rpartition(".")
        out[group + dot + names.get(last, last)] = value
    return out


# -- options -------------------------------------------------------------------------------------------------------


def _to_json(values: dict[str, Any]) -> dict[str, Any]:
    """Named values as JSON; types that JSON does not have become an object with one entry that names the type."""
    return {name: _one_to_json(name, value) for name, value in values.items()}


def _one_to_json(name: str, value: Any) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if np.isfinite(float(value)) else {"number": str(float(value))}
    if isinstance(value, learners.Learner):
        return {"learner": type(value).__name__, **_to_json(asdict(value))}
    if isinstance(value, np.dtype):
        return {"dtype": value.str}
    if isinstance(value, np.random.RandomState):
        algorithm, key, *rest = value.get_state(legacy=True)
        return {"random_state": [algorithm, [int(number) for number in key], *rest]}
    if isinstance(value, (list, tuple)):
        return [_one_to_json(name, one) for one in value]
    if isinstance(value, dict):
        return {"dict": [[_one_to_json(name, key), _one_to_json(name, one)] for key, one in value.items()]}
    raise ValueError(f"{name}={value!r} cannot be saved: it is not a plain value.")


def _from_json(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _one_from_json(value) for name, value in values.items()}


def _one_from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_one_from_json(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "number" in value:
        return float(value["number"])
    if "learner" in value:
        return _LEARNERS[value["learner"]](**{name: one for name, one in value.items() if name != "learner"})
    if "dtype" in value:
        text = str(value["dtype"])  # numpy evaluates parts of other texts
        need(re.fullmatch("[<>|=]?[biuf][0-9]{1,2}", text) is not None, f"the type of the predictions is {text!r}.")
        return np.dtype(text)
    if "random_state" in value:
        algorithm, key, *rest = value["random_state"]
        at, has_gauss, gauss = rest
        valid = type(at) is int and 0 <= at <= 624 and has_gauss in (0, 1) and abs(float(gauss)) < 1e3
        need(valid, "the state of random_state is invalid.")
        generator = np.random.RandomState()
        generator.set_state((algorithm, np.array(key, np.uint32), *rest))
        return generator
    return {_one_from_json(key): _one_from_json(one) for key, one in value["dict"]}


# -- labels --------------------------------------------------------------------------------------------------------


def _labels_to_arrays(index: ClassIndex) -> tuple[dict[str, np.ndarray], str]:
    """Labels as arrays, and the kind of the original array."""
    labels, kind = index.array, index.kind
    listed = labels.tolist()
    if all(isinstance(label, str) for label in listed):
        packed = pack_texts(listed)
    elif all(isinstance(label, bytes) for label in listed):
        packed = pack_texts([label.decode("latin-1") for label in listed])
    else:
        numbers = number_array(listed)
        if not all(isinstance(label, (int, float)) for label in listed):
            raise ValueError(f"labels of type {type(listed[0]).__name__} cannot be saved: use text or numbers.")
        if numbers.dtype.kind == "O" or numbers.tolist() != listed or len(set(listed)) < len(listed):
            raise ValueError("labels that no type of numpy can represent together cannot be saved: use text.")
        packed = {"number": numbers}
    if index.target is not None:
        packed["target"] = index.target
    return {f"classes.{name}": array for name, array in packed.items()}, kind


def _labels_from_arrays(arrays: dict[str, np.ndarray], kind: str) -> ClassIndex:
    if kind not in ("b", "i", "u", "f", "U", "S", "O"):
        raise ModelFormatError(f"the labels have the unknown kind {kind!r}.")
    if "classes.number" in arrays:
        labels = arrays["classes.number"]
        fits = labels.ndim == 1 and labels.dtype.kind in "biuf" and kind not in ("U", "S")
        fits = fits and bool(np.isfinite(labels).all())
    else:
        texts = unpack_texts(arrays["classes.bytes"], arrays["classes.end"])
        fits = kind in ("U", "S", "O")
        listed = [text.encode("latin-1") for text in texts] if kind == "S" else texts
        labels = label_array(listed, kind)
    if not fits or not len(labels):
        raise ModelFormatError("there are no labels, or they have the wrong type.")
    out = ClassIndex.known(labels, kind)
    if "classes.target" in arrays:
        out.redirect(_checked_target(arrays["classes.target"], len(labels)))
    return out


def _checked_target(target: np.ndarray, n: int) -> np.ndarray:
    """What each class stands for: itself, a class that stands for itself, or -1."""
    need(target.dtype == np.int32 and target.shape == (n,), "the list of removed classes has the wrong type.")
    need_range("classes.target", target, -1, n)
    stays = target[target >= 0]
    need(len(stays) > 0 and (target[stays] == stays).all(), "a class was merged into one that is gone.")
    return target.copy()
