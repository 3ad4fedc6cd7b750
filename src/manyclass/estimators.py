"""All classifiers by name, and `load_model`."""

from os import PathLike
from typing import Any

from .core.files import load
from .label_tree.estimator import LabelTreeClassifier
from .lom_tree.estimator import LomTreeClassifier
from .mlom_tree.estimator import MlomTreeClassifier
from .one_against_all.estimator import OneAgainstAllClassifier
from .recall_tree.estimator import RecallTreeClassifier
from .spectral_tree.estimator import SpectralTreeClassifier

# By the name that files and the command line use.
ESTIMATORS: dict[str, Any] = {
    kind._model.NAME: kind
    for kind in (
        RecallTreeClassifier,
        LabelTreeClassifier,
        SpectralTreeClassifier,
        LomTreeClassifier,
        MlomTreeClassifier,
        OneAgainstAllClassifier,
    )
}


def load_model(path: str | PathLike, mmap: bool = True, verify: bool = True) -> Any:
    """The estimator that was saved to a file.

    Parameters
    ----------
    path : str or path-like
        A file written by `save`.
    mmap : bool, default=True
        Map the arrays instead of reading them: they take memory when used, and processes share them. The file itself
        never changes, also if the model goes on learning. Do not overwrite it in place; `save` never does. Weights that
        `precision` rounded in the file become float32 in memory of their own.
    verify : bool, default=True
        Check the arrays' checksum and that all weights are finite, which reads the whole file. The structure is
        always checked: a broken or hostile file can never make a kernel read where nothing is.

    Returns
    -------
    estimator
        Of the class that was saved, with all its options and its optimiser's state; a slim one only answers.

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
    return load(ESTIMATORS, path, mmap, verify)
