"""Save an estimator to a model file and load it again: options, labels, and every array of its model."""

import warnings
from dataclasses import asdict
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np

from . import learners, model_file
from .classes import ClassIndex
from .invariants import check_finite, check_option_types
from .model_file import ModelFormatError, pack_texts, unpack_texts
from .precision import PRECISIONS, narrow, widen
from .protocol import Model
from .state import unflatten

FORMAT_VERSION = 2  # of the metadata and the arrays' meaning; a reader knows all versions up to its own
UNROUNDED_VERSION = 1  # of files whose weights are not rounded: older readers know them

_WIDEST = 1 << 30  # bytes of an array of texts
_LEARNERS = {learner.__name__: learner for learner in learners.BY_NAME.values()}
_OURS = ("classes", "feature_names", "names")  # arrays that belong to the estimator, not to its model's state


class FilesMixin:
    """`save`, and what `load_model` needs to know."""

    _model: Any  # a module with the functions of `protocol.Model`
    _options: Any
    _state: dict[str, Any]
    _index: ClassIndex
    n_features_in_: int
    _kept: tuple[str, ...] = ("n_epochs_", "history_")  # attributes beside state and labels that a file keeps
    _slim = False
    _precision = "float32"  # of the weights in the file that the model came from
    _extra: dict[str, Any] = {}  # a JSON object that a file keeps for whoever trained the model
    _names: list[str] | None = None

    _removed: dict[str, Any] = {"validation_fraction": 0.1, "patience": 2}  # their defaults

    @classmethod
    def _params_from_file(cls, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters of the constructor from those in a file, which may be of an older version."""
        out, known = dict(params), cls._get_param_names()  # type: ignore[attr-defined]
        for name in [name for name in params if name not in known]:
            if name not in cls._removed:
                raise ModelFormatError(f"the option {name!r} is unknown.")
            value = out.pop(name)
            if value != cls._removed[name]:
                warnings.warn(
                    f"The model was trained with {name}={value!r}, an option that {cls.__name__} no longer has. "
                    "Predictions are the same; further training does not use it.",
                    stacklevel=2,
                )
        return out

    @property
    def label_names_(self) -> list[str] | None:
        """What the columns of y were called in the file that the model was trained from; None: nothing."""
        return self._names

    def save(
        self, path: str | PathLike, slim: bool = False, prune: float = 0.0, precision: str = "float32"
    ) -> None:
        """Write the model to a file, whole or not at all: a crash leaves the old file or the new one.

        The file is a safetensors file with all options, labels and arrays; the same model gives the same bytes.

        Parameters
        ----------
        path : str or path-like
            Where, exactly as given.
        slim : bool, default=False
            Leave out what only learning needs. A slim model answers like the whole one and refuses to learn.
        prune : float, default=0.0
            With `slim`, leave out weights of at most this size: a smaller file, and answers that may differ. For label
            trees only; measure what it costs on held-out rows.
        precision : {"float32", "float16", "int8"}, default="float32"
            With `slim`, what weights are rounded to in the file: two bytes a weight, or one and a scale for every 64,
            instead of four. Predictions may differ a little; with "int8", features that are hashed together, and those of
            label trees, should be of like size. `load_model` makes weights float32 again, so memory and speed are
            those of float32, and weights that were rounded are read, not mapped.

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
            raise ValueError(f"This {type(self).__name__} has learned nothing yet: fit it before saving it.")
        if not isinstance(prune, Real) or not 0 <= prune < float("inf") or (prune and not slim):
            raise ValueError(f"prune must be a number of at least 0, and goes with slim=True; got {prune!r}.")
        if not isinstance(precision, str) or precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}; got {precision!r}.")
        if precision != "float32" and not slim:
            raise ValueError(f"precision={precision!r} goes with slim=True: learning needs all bits of the weights.")
        options, state = self._options, self._state
        if hasattr(self._model, "trim"):
            state = self._model.trim(state, len(self._index))
        if slim:
            options, state = self._model.slim(options, state, len(self._index), prune)
        arrays, kind = _labels_to_arrays(self._index)
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            arrays |= {f"feature_names.{name}": array for name, array in pack_texts(list(names)).items()}
        if self._names is not None:
            arrays |= {f"names.{name}": array for name, array in pack_texts(self._names).items()}
        metadata = {
            "format_version": FORMAT_VERSION,
            "algorithm": self._model.NAME,
            "options": {name: _to_json(name, value) for name, value in self.get_params(deep=False).items()},
            "config": {name: _to_json(name, value) for name, value in options._asdict().items()},
            "labels": kind,
            "n_features": int(self.n_features_in_),
            "fitted": {name: _to_json(name, getattr(self, name)) for name in self._kept if hasattr(self, name)},
            "slim": bool(slim or self._slim),
            "extra": self._extra,
        }
        if precision == "float32":
            metadata["format_version"] = UNROUNDED_VERSION
        else:
            metadata["precision"] = precision
        model_file.write(path, {**narrow(state, precision), **arrays}, metadata)


def load(estimators: dict[str, Any], path: str | PathLike, mmap: bool, verify: bool) -> Any:
    """The estimator from a file, or a ModelFormatError that names the file and what is wrong."""
    arrays, metadata = model_file.read(path, mmap, verify)
    try:
        return _rebuild(estimators, arrays, metadata, verify)
    except ModelFormatError as error:
        raise ModelFormatError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, MemoryError) as error:
        raise ModelFormatError(f"{path}: the metadata is broken ({type(error).__name__}: {error}).") from error


def _rebuild(estimators, arrays: dict[str, np.ndarray], metadata: dict[str, Any], verify: bool):
    version = metadata.get("format_version")
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise ModelFormatError(
            f"its format version is {version!r}, this manyclass reads 1 to {FORMAT_VERSION}: install a newer one."
        )
    if metadata["algorithm"] not in estimators:
        raise ModelFormatError(f"it holds a model of an unknown algorithm: {metadata['algorithm']!r}.")
    kind = estimators[metadata["algorithm"]]
    model: Model = kind._model
    params = kind._params_from_file({name: _from_json(value) for name, value in metadata["options"].items()})
    out = kind(**params)
    out._check_options()
    out.n_features_in_ = metadata["n_features"]
    if type(out.n_features_in_) is not int or not 1 <= out.n_features_in_ < 1 << 31:
        raise ModelFormatError(f"the number of features is {out.n_features_in_!r}.")
    ours = {name: arrays.pop(name) for name in list(arrays) if name.split(".")[0] in _OURS}
    out._index = _labels_from_arrays(ours, metadata["labels"])
    if "feature_names.end" in ours:
        names = unpack_texts(ours["feature_names.bytes"], ours["feature_names.end"])
        if len(names) != out.n_features_in_:
            raise ModelFormatError(f"there are {len(names)} feature names for {out.n_features_in_} features.")
        out.feature_names_in_ = np.array(names, dtype=object)
    if "names.end" in ours:
        out._names = unpack_texts(ours["names.bytes"], ours["names.end"])
        # A model that has met rows, but no label yet, has one column and no name for it.
        if max(1, len(out._names)) != len(out._index):
            raise ModelFormatError(f"there are {len(out._names)} names for {len(out._index)} labels.")
    values = {name: _from_json(value) for name, value in metadata["config"].items()}
    out._options = model.Options(**model.options_from_file(values))
    check_option_types(out._options)
    for name in set(out.get_params(deep=False)) - set(params):
        if hasattr(out._options, name):  # an option younger than the file: as the model was made, not as the default is
            setattr(out, name, getattr(out._options, name))
    out._slim = metadata["slim"]
    if type(out._slim) is not bool:
        raise ModelFormatError(f"slim is {out._slim!r}.")
    out._precision = metadata["precision"] if version > UNROUNDED_VERSION else "float32"
    if out._precision not in PRECISIONS or (out._precision != "float32" and not out._slim):
        raise ModelFormatError(f"the precision is {out._precision!r}, unknown or not that of a slim model.")
    if hasattr(model, "arrays_from_file"):
        arrays = model.arrays_from_file(arrays)
    out._state = unflatten(widen(arrays, model.GROUPS, out._precision), model.GROUPS)
    model.check(out._options, out._state, out.n_features_in_, len(out._index), out._slim)
    if verify:
        check_finite(out._state)
    if set(metadata["fitted"]) - set(out._kept):
        raise ModelFormatError(f"unknown attributes: {sorted(set(metadata['fitted']) - set(out._kept))}.")
    for name, value in metadata["fitted"].items():
        setattr(out, name, _from_json(value))
    out._check_kept()
    out._extra = metadata["extra"]
    if not isinstance(out._extra, dict):
        raise ModelFormatError("the metadata is of the wrong type.")
    return out


# -- options -------------------------------------------------------------------------------------------------------


def _to_json(name: str, value: Any) -> Any:
    """A value as JSON; what JSON cannot tell apart is a one-entry object that says what it is."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if np.isfinite(float(value)) else {"number": str(float(value))}
    if isinstance(value, learners.Learner):
        return {"learner": type(value).__name__, **asdict(value)}
    if isinstance(value, np.dtype):
        return {"dtype": value.str}
    if isinstance(value, np.random.RandomState):
        algorithm, key, *rest = value.get_state(legacy=True)
        return {"random_state": [algorithm, [int(number) for number in key], *rest]}
    if isinstance(value, (list, tuple)):
        return [_to_json(name, one) for one in value]
    if isinstance(value, dict):
        return {"dict": [[_to_json(name, key), _to_json(name, one)] for key, one in value.items()]}
    raise ValueError(f"{name}={value!r} cannot be saved: it is no plain value.")


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "number" in value:
        return float(value["number"])
    if "learner" in value:
        return _LEARNERS[value["learner"]](**{name: one for name, one in value.items() if name != "learner"})
    if "dtype" in value:
        dtype = np.dtype(str(value["dtype"]))
        if dtype.kind not in "biuf":
            raise ModelFormatError(f"the type of the answers is {dtype}.")
        return dtype
    if "random_state" in value:
        algorithm, key, *rest = value["random_state"]
        at, has_gauss, gauss = rest
        if type(at) is not int or not 0 <= at <= 624 or has_gauss not in (0, 1) or not abs(float(gauss)) < 1e3:
            raise ModelFormatError("the state of random_state is broken.")
        generator = np.random.RandomState()
        generator.set_state((algorithm, np.array(key, np.uint32), *rest))
        return generator
    return {_from_json(key): _from_json(one) for key, one in value["dict"]}


# -- labels --------------------------------------------------------------------------------------------------------


def _labels_to_arrays(index: ClassIndex) -> tuple[dict[str, np.ndarray], str]:
    """Labels as arrays, and the kind of the array they came in: bytes and texts packed, numbers as they are."""
    labels, kind = index.array, index.kind
    listed = labels.tolist()
    if all(isinstance(label, str) for label in listed):
        packed = pack_texts(listed)
    elif all(isinstance(label, bytes) for label in listed):
        packed = pack_texts([label.decode("latin-1") for label in listed])
    else:
        numbers = np.array(listed)
        if numbers.dtype.kind not in "biuf":
            raise ValueError(f"labels of type {type(listed[0]).__name__} cannot be saved: use text or numbers.")
        packed = {"number": numbers}
    return {f"classes.{name}": array for name, array in packed.items()}, kind


def _labels_from_arrays(arrays: dict[str, np.ndarray], kind: str) -> ClassIndex:
    if kind not in ("b", "i", "u", "f", "U", "S", "O"):
        raise ModelFormatError(f"the labels are of the unknown kind {kind!r}.")
    if "classes.number" in arrays:
        labels = arrays["classes.number"]
        fits = labels.ndim == 1 and labels.dtype.kind in "biuf" and kind not in ("U", "S")
    else:
        texts = unpack_texts(arrays["classes.bytes"], arrays["classes.end"])
        fits = kind in ("U", "S", "O")
        listed = [text.encode("latin-1") for text in texts] if kind == "S" else texts
        # One long label makes an array of texts as wide for all: too large a one stays a list of objects.
        wide = 4 * len(listed) * max(map(len, listed), default=0) > _WIDEST
        labels = np.array(listed, dtype=object if kind == "O" or wide else None)
    if not fits or not len(labels):
        raise ModelFormatError("there are no labels, or they are not of their kind.")
    return ClassIndex.known(labels, kind)
