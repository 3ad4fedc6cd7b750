"""Validation of inputs, labels and weights, with errors that say what is allowed; input batches for kernels."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets

from ..metrics.matrices import check_arrays
from .classes import is_mostly_padding, number_array
from .inputs import Batch, Csr, Dense, is_sound
from .memory import copied

NARROW = 256  # sparse rows of at most this many features are made dense: reading whole rows is then faster
BLOCK = 1 << 12  # rows per call of a prediction kernel, unless a model has MOST_ROWS
HEAVIEST = 1e9  # limit of sample weights: a heavier row would destroy any linear model
SMALLEST, LARGEST = 1e-30, float(np.float32(1e30))  # one row with larger values would destroy a model

_TO_MATRIX = "sklearn.preprocessing.MultiLabelBinarizer(sparse_output=True).fit_transform"
_NOT_ONE_LABEL = (list, tuple, set, frozenset, dict, np.ndarray)

# -- inputs --------------------------------------------------------------------------------------------------------


def check_text(X: Any) -> None:
    """Refuse raw text, and name what turns it into numbers."""
    cell = X
    for _ in range(3):  # X itself, a row, a value
        if isinstance(cell, str):
            break
        rows = isinstance(cell, (list, tuple, np.ndarray)) or (hasattr(cell, "iloc") and not hasattr(cell, "columns"))
        kind = getattr(getattr(cell, "dtype", None), "kind", "O")
        if not rows or kind in "biufc" or getattr(cell, "ndim", 1) == 0 or len(cell) == 0:
            return
        cell = next(iter(cell))
    if not isinstance(cell, str) or _is_number(cell):
        return
    start = cell if len(cell) <= 30 else cell[:27] + "..."
    if isinstance(X, str):
        raise ValueError(
            f"X is a text ({str(start)!r}), not a list: models of texts take [text], others take numbers, for example "
            "from TfidfVectorizer."
        )
    raise ValueError(
        f"X contains text (the first is {str(start)!r}), not numbers: convert each text to a row of numbers first, for "
        "example with TfidfVectorizer or HashingVectorizer of sklearn.feature_extraction.text."
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def as_array(values: Any, name: str) -> np.ndarray:
    """The values as an array, or a ValueError if they are not rows of the same length."""
    try:
        return np.asarray(values)
    except ValueError:  # lists of different length
        raise ValueError(f"{name} contains rows of different lengths, expected rows of the same length.") from None


def check_before_conversion(X: Any, name: str = "X") -> None:
    """Refuse a sparse matrix of another format than CSR whose arrays contradict its shape."""
    if sp.issparse(X) and X.format != "csr":
        check_arrays(X, name)


def check_sparse(X):
    """Refuse a sparse matrix whose arrays contradict its shape; sum duplicate entries."""
    if not sp.issparse(X):
        return X
    if X.shape[1] > np.iinfo(np.int32).max:
        raise ValueError(f"X has {X.shape[1]} features; at most 2**31 - 1 are possible: hash them into fewer.")
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"X is an invalid sparse matrix: {error}.") from error
    counted = sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape)  # the flags of X can be out of date
    if counted.has_canonical_format:
        return X
    counted = sp.csr_array(tuple(copied(array) for array in (X.data, X.indices, X.indptr)), shape=X.shape)
    counted.sum_duplicates()
    return counted


def rows_are_sound(X) -> bool:
    """Whether a CSR matrix is valid, canonical and finite, so that `check_sparse` would not change it."""
    arrays = np.asarray(X.indptr), np.asarray(X.indices), np.asarray(X.data)
    return (
        all(array.ndim == 1 for array in arrays)
        and arrays[0].dtype == arrays[1].dtype
        and arrays[1].dtype in (np.int32, np.int64)
        and len(arrays[0]) == X.shape[0] + 1
        and is_sound(*arrays, X.shape[1])
    )


def check_values(X):
    """Refuse inputs to learn that are too small or too large for float32 arithmetic."""
    values = X.data if sp.issparse(X) else X
    largest = max(-float(values.min(initial=0.0)), float(values.max(initial=0.0)))
    if 0.0 < largest < SMALLEST:
        raise ValueError(f"The largest value of X is {largest:.3g}, too small for float32 arithmetic: scale X up.")
    if largest > LARGEST:
        at = np.unravel_index(np.argmax(np.abs(values)), values.shape)
        row, column = (np.searchsorted(X.indptr, at[0], "right") - 1, X.indices[at]) if sp.issparse(X) else at
        raise ValueError(
            f"X has the value {values[at]:.3g} in row {row}, column {column}, too large for float32 arithmetic: scale "
            f"X down, or leave out the row. Values up to {LARGEST:g} can be learned."
        )
    return X


def check_weights(sample_weight, n: int) -> np.ndarray:
    """One weight of at least 0 for each of n rows."""
    if sample_weight is None:
        return np.ones(n)
    try:
        given = np.asarray(sample_weight)
        if given.dtype.kind in "cmM":
            raise TypeError("complex numbers" if given.dtype.kind == "c" else "dates or times")
        weights = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:  # pandas.NA, a dict, text
        raise ValueError(f"sample_weight must have one number for each row of X: {error}.") from None
    if weights.ndim == 0:
        weights = np.full(n, weights)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight has shape {weights.shape}, expected ({n},): one weight for each row of X.")
    if not np.isfinite(weights).all():
        raise ValueError("sample_weight contains NaN or infinity.")
    if (weights < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`.")
    if (weights > HEAVIEST).any():
        raise ValueError(f"sample_weight has values up to {weights.max():g}, the limit is {HEAVIEST:g}: scale it down.")
    return weights


def balanced_weights(counts: np.ndarray) -> np.ndarray:
    """The weight of each class for `class_weight="balanced"`, from its rows with a weight above 0."""
    return counts.sum() / (max(1, np.count_nonzero(counts)) * np.maximum(counts, 1.0))


def check_propensity(propensity: Any, n_classes: int) -> np.ndarray:
    """One number above 0 and at most 1 for each class."""
    try:
        values = np.asarray(propensity, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"propensity must have one number for each class: {error}.") from None
    if values.shape != (n_classes,):
        raise ValueError(f"propensity has shape {values.shape}, expected ({n_classes},): one number for each class.")
    if not ((values > 0) & (values <= 1)).all():
        raise ValueError("propensity must be above 0 and at most 1; metrics.propensities computes it from labels.")
    return values


# -- labels --------------------------------------------------------------------------------------------------------


def check_targets(y: np.ndarray) -> None:
    """Refuse continuous targets. Many unique labels are normal in this package, so no warning about them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%", UserWarning)
        check_classification_targets(y)


def are_labels(y: Any) -> bool:
    """Whether y is an array of integers or text, one per row, which no check would refuse or change."""
    return type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "iuU"


def without_padding(y: Any) -> Any:
    """Labels in a form that keeps them unchanged and takes little memory.

    Text is an array of objects if an array of text would be mostly padding. Large integers stay integers: numpy would
    convert some lists of them to floats, and scikit-learn all columns with a nullable integer type of pandas.
    """
    if isinstance(y, np.ma.MaskedArray) and np.ma.is_masked(y):
        raise ValueError("Some labels are masked, as those of predict(X, reject=...) can be: pass the other rows only.")
    kind = getattr(getattr(y, "dtype", None), "kind", "")
    if isinstance(y, (list, tuple)) and y:
        if all(isinstance(label, str) for label in y):
            return np.array(y, dtype=object) if is_mostly_padding(y) else y
        return number_array(y) if all(type(label) is int for label in y) else y
    if kind == "T":  # numpy's StringDType, which scikit-learn does not know
        return y.astype(object)
    if kind in ("i", "u") and not isinstance(y.dtype, np.dtype) and hasattr(y, "isna"):
        missing = np.flatnonzero(np.asarray(y.isna()))
        if len(missing):
            raise ValueError(f"Labels contain NaN or None: row {missing[0]} has no label.")
        return np.asarray(y, np.dtype(f"{kind}8"))
    return y


def check_labels(y: Any, name: str = "y") -> None:
    """Refuse labels that are not one text or number per row."""
    if y is None:
        raise ValueError(f"requires {name} to be passed, but the target {name} is None.")
    if sp.issparse(y):
        raise _is_a_matrix(name, y.shape)
    try:
        labels = np.asarray(y)
    except ValueError:  # lists of different length
        labels = np.fromiter(y, object, len(y))
    if labels.ndim == 2 and labels.shape[1] != 1:
        raise _is_a_matrix(name, labels.shape)
    if labels.ndim == 2:
        labels = labels[:, 0]
    elif labels.ndim == 1 and labels.dtype.kind == "U" and isinstance(y, (list, tuple)):
        labels = np.fromiter(y, object, len(y))  # numpy converts numbers among text to text
    if labels.ndim == 0 and labels.dtype.kind == "O":
        raise ValueError(f"{name} is a {type(labels.item()).__name__}, expected a list or an array of labels.")
    if labels.dtype.kind in "cV":
        what = "Complex data not supported: " if labels.dtype.kind == "c" else ""  # as scikit-learn says it
        raise ValueError(f"{what}{name} contains values of type {labels.dtype}: convert them to text or integers.")
    if labels.dtype.kind in "mM":
        raise ValueError(f"{name} contains dates or times: convert them to text, for example with .astype(str).")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(f"{name} contains NaN or infinity.")
    if labels.ndim == 1 and labels.dtype.kind in "OS":
        _check_objects(labels.tolist(), name)


def _is_a_matrix(name: str, shape: tuple) -> ValueError:
    return ValueError(
        f"{name} is a matrix of shape {shape}, expected one label per row. LabelTreeClassifier and "
        "SpectralTreeClassifier accept several labels per row as a matrix of zeros and ones."
    )


def is_missing(value: Any) -> bool:
    """Whether a cell has no value: None, NaN, and those of pandas."""
    missing = value is None or type(value).__name__ in ("NAType", "NaTType")
    return missing or (isinstance(value, float) and value != value)


def _check_objects(labels: list, name: str) -> None:
    for i, label in enumerate(labels):
        if is_missing(label):
            raise ValueError(f"Input {name} contains NaN or None: row {i} has no label.")
        if isinstance(label, _NOT_ONE_LABEL):
            raise ValueError(
                f"{name} contains a {type(label).__name__} in row {i}, expected a text or a number. For several labels "
                f"per row use LabelTreeClassifier or SpectralTreeClassifier with {_TO_MATRIX}({name})."
            )
        if isinstance(label, str) and label.endswith("\0"):
            raise ValueError(f"{name} contains {label!r} in row {i}: numpy drops the character NUL at the end of text.")
    texts = [isinstance(label, str) for label in labels]
    if any(texts) and not all(texts):
        row = texts.index(not texts[0])
        raise ValueError(
            f"{name} mixes text with other labels ({labels[0]!r} in row 0, {labels[row]!r} in row {row}): convert all "
            "labels to one type, for example to str."
        )
    if labels and not texts[0]:
        raise ValueError(
            f"Unknown label type: {name} contains objects of type {type(labels[0]).__name__}; convert them to text or "
            f"integers, for example with numpy.asarray({name}).astype(str) or .astype(int)."
        )


def is_indicator(y: Any) -> bool:
    """Whether y is a matrix (row, label) and not one label per row."""
    if sp.issparse(y):
        return True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ragged lists: check_labels will report them
        try:
            shape = np.asarray(y).shape
        except ValueError:
            return False
    return len(shape) == 2 and shape[1] > 1


def as_indicator(y: Any, n_rows: int) -> sp.csr_array:
    """y as a sparse matrix with sorted columns and without stored zeros, or a ValueError."""
    if sp.issparse(y):
        if y.ndim != 2:
            raise ValueError(f"y is a sparse array of shape {y.shape}, expected a matrix: pass y.toarray() for labels.")
        check_before_conversion(y, "y")
        matrix = check_sparse(sp.csr_array(y))
    else:
        dense = np.asarray(y)
        if dense.dtype.kind not in "biuf":
            raise ValueError(
                f"y is a matrix of type {dense.dtype}, expected zeros and ones: {_TO_MATRIX}(y) makes such a matrix "
                "from lists of labels."
            )
        if dense.dtype == np.float16 or not dense.dtype.isnative:  # SciPy does not take these types
            dense = dense.astype(np.float32)
        matrix = sp.csr_array(dense)
    if matrix.shape[0] != n_rows:
        raise ValueError(f"X has {n_rows} rows but y has {matrix.shape[0]}.")
    if not matrix.shape[1]:
        raise ValueError("y has no columns: pass one for each label.")
    wrong = np.flatnonzero((matrix.data != 0) & (matrix.data != 1))
    if len(wrong):
        row = int(np.searchsorted(matrix.indptr, wrong[0], side="right")) - 1
        raise ValueError(
            f"y has the value {matrix.data[wrong[0]]} in row {row}, column {matrix.indices[wrong[0]]}: "
            "a matrix y must contain zeros and ones only."
        )
    if (matrix.data == 0).any():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


# -- batches -------------------------------------------------------------------------------------------------------


def as_batch(X) -> Batch:
    """Rows for a kernel; narrow sparse rows become dense."""
    if sp.issparse(X) and X.shape[1] <= NARROW:
        X = X.toarray()
    if not sp.issparse(X):
        return Dense(for_kernels(X, np.float32))
    return Csr(for_kernels(X.indptr, np.int64), for_kernels(X.indices, np.int32), for_kernels(X.data, np.float32))


def for_kernels(array: Any, dtype: Any) -> np.ndarray:
    """The array in the form that kernels are compiled for; Numba would compile them again, for minutes, for another.

    It is contiguous and writable, although kernels only read it; a copy is made only where it is not contiguous or has
    another type.
    """
    array = np.asarray(array, dtype, order="C")  # drops memmap
    if not array.flags.aligned:
        array = array.copy()
    return array if array.flags.writeable else np.asarray(_Writable(array))


class _Writable:
    """A read-only array as if it could be written, for `np.asarray`, which keeps this object and so the array."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def blocks(n: int, size: int = BLOCK) -> Iterator[tuple[int, int]]:
    """Row ranges of at most `size` rows."""
    for first in range(0, n, size):
        yield first, min(n, first + size)


def rows_between(X, first: int, last: int):
    """Rows first..last-1 without copying the values of a sparse X."""
    if last - first == X.shape[0]:
        return X
    if not sp.issparse(X):
        return X[first:last]
    start, stop = X.indptr[first], X.indptr[last]
    arrays = X.data[start:stop], X.indices[start:stop], X.indptr[first : last + 1] - start
    return sp.csr_array(arrays, shape=(last - first, X.shape[1]))


def ones(columns: np.ndarray, pointer: np.ndarray, n_columns: int) -> sp.csr_array:
    """A matrix of zeros and ones from the columns of each row, in any order and possibly repeated."""
    arrays = np.ones(len(columns), np.int8), columns, pointer
    out = sp.csr_array(arrays, shape=(len(pointer) - 1, n_columns), copy=True)  # which is changed in place
    out.sum_duplicates()
    out.data[:] = 1
    return out


def indicator(sizes: np.ndarray, columns: np.ndarray, n_columns: int) -> sp.csr_array:
    """A boolean matrix from the columns that are set, row after row."""
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    out = sp.csr_array((np.ones(len(columns), bool), columns, indptr), shape=(len(sizes), n_columns))
    out.sort_indices()
    return out
