"""All classifiers by name, `load_model` and `save_pipeline`."""

import copy as shallow
from os import PathLike
from typing import Any

from sklearn.utils.validation import check_is_fitted

from .core.base import algorithm_of
from .core.files import load
from .core.options import check_flag
from .io import Reading
from .label_tree.estimator import LabelTreeClassifier
from .lom_tree.estimator import LomTreeClassifier
from .mlom_tree.estimator import MlomTreeClassifier
from .one_against_all.estimator import OneAgainstAllClassifier
from .recall_tree.estimator import RecallTreeClassifier
from .spectral_tree.estimator import SpectralTreeClassifier

# By the name that files and the command line use.
ESTIMATORS: dict[str, Any] = {
    algorithm_of(kind): kind
    for kind in (
        RecallTreeClassifier,
        LabelTreeClassifier,
        SpectralTreeClassifier,
        LomTreeClassifier,
        MlomTreeClassifier,
        OneAgainstAllClassifier,
    )
}


def save_pipeline(
    pipeline: Any,
    path: str | PathLike,
    text: str = "text",
    slim: bool = False,
    prune: float = 0.0,
    precision: str = "float32",
) -> None:
    """Write a pipeline of a text vectorizer and a classifier to one file.

    `load_model` returns the classifier, which then takes texts and tables with a column of text, also in the command
    line and in the service. The vectorizer is stored as plain values: no pickle.

    Parameters
    ----------
    pipeline : sklearn.pipeline.Pipeline
        A fitted `TfidfVectorizer`, `CountVectorizer` or `HashingVectorizer` without functions as options, and a fitted
        classifier of this package.
    path : str or path-like
        Name of the file.
    text : str, default="text"
        The column of the text in tables.
    slim, prune, precision
        As in the classifier's `save`.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> from manyclass import ManyClassClassifier, load_model, save_pipeline
    >>> pipeline = make_pipeline(TfidfVectorizer(), ManyClassClassifier(random_state=0))
    >>> _ = pipeline.fit(["red apple", "green pear", "fast car", "blue bus"], ["fruit", "fruit", "traffic", "traffic"])
    >>> path = os.path.join(tempfile.mkdtemp(), "things.model")
    >>> save_pipeline(pipeline, path)
    >>> load_model(path).predict(["a green apple"])
    array(['fruit'], dtype='<U7')
    """
    steps = [step for _, step in getattr(pipeline, "steps", [])]
    if len(steps) != 2 or not hasattr(steps[1], "save"):
        raise ValueError("save_pipeline requires a Pipeline of two steps: a vectorizer and a classifier of manyclass.")
    check_is_fitted(steps[1])
    clf = shallow.copy(getattr(steps[1], "estimator_", steps[1]))
    clf._extra = {
        "reading": Reading(
            format="csv",  # or another table
            labels="several" if clf._multilabel else "one",
            label_kind="text" if clf._names is not None or isinstance(clf.classes_[0], str) else "int",
            n_features=clf.n_features_in_,
            text=(text,),
            vectorizer=steps[0],
        )
    }
    clf.save(path, slim, prune, precision)


def load_model(path: str | PathLike, mmap: bool = True, verify: bool = True) -> Any:
    """Load an estimator from a file.

    Parameters
    ----------
    path : str or path-like
        A file written by `save`.
    mmap : bool, default=True
        Map the arrays instead of reading them: they take memory when used, and processes share them. The file itself
        never changes, even if the model goes on learning. Do not overwrite it in place; `save` never does. Weights that
        `precision` rounded in the file are not mapped, but converted to float32 in memory.
    verify : bool, default=True
        Check the arrays' checksum and that all weights are finite, which reads the whole file. The structure is
        always checked: a broken or hostile file can never make a kernel read outside its arrays.

    Returns
    -------
    estimator
        An estimator of the class that was saved, with all its options and the state of its optimizer. A slim model can
        only predict.

    Raises
    ------
    ModelFormatError
        What is wrong with the file, and where.

    Examples
    --------
    >>> import os, tempfile
    >>> from manyclass import OneAgainstAllClassifier, load_model
    >>> clf = OneAgainstAllClassifier(random_state=0).fit([[0.0], [1.0]], ["low", "high"])
    >>> path = os.path.join(tempfile.mkdtemp(), "tiny.model")
    >>> clf.save(path)
    >>> load_model(path).predict([[0.9]])
    array(['high'], dtype='<U4')
    """
    return load(ESTIMATORS, path, check_flag("mmap", mmap), check_flag("verify", verify))
