"""Label tree trained on a Dask cluster."""

import os
from copy import deepcopy
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..core.base import check_classes
from ..core.calibration import FEWEST
from ..core.invariants import check_training
from ..core.multilabel import params_for_threshold, rows_for_threshold
from ..core.steps import add
from ..core.validation import balanced_weights
from ..label_tree.estimator import MOST_FITTED, LabelTreeClassifier
from ..label_tree.fit import Sizes, fit_parts
from ..label_tree.parts import n_rows_of
from .checkpoints import remove_stored
from .cluster import Client, Cluster
from .online import learn_partitions
from .prediction import predict_blocks, topk_blocks
from .rows import (
    Info,
    agreed,
    align,
    checked_parts,
    chosen_rows,
    count_labels,
    edges_of,
    encode,
    has_weight,
    is_sparse,
    known_labels,
    labels_in,
    n_labels_of,
    partitions,
    rows_of_labels,
    scale_columns,
    search_threshold,
)


class DaskLabelTreeClassifier(ClassifierMixin, BaseEstimator):
    """Label tree that is trained on a Dask cluster, with the same result as `LabelTreeClassifier.fit`.

    The model is the same, byte for byte, for any number of workers and any partitions, even if workers die during
    training. Rows stay on the workers. The model is put together in this process, which must have memory for it
    (docs/distributed.md).

    Parameters
    ----------
    client : distributed.Client, optional
        The cluster. Default: the client that was made last in this process.
    checkpoint : str or path-like, optional
        A folder that this process and all workers can write to. Nodes that are trained are kept there until `fit` ends,
        so that a `fit` that was stopped, for example because the scheduler ended, does not train them again when it is
        repeated. The data, the options and the number of threads of the cluster must be the same; otherwise everything
        is trained anew. `random_state` must be an integer. Use one folder for each model.
    arity, beam, start, C, rate, prior, normalize, threshold, n_epochs, n_trees, neighbors, replay, class_weight, \
random_state
        As in `LabelTreeClassifier`. Without a `random_state` two runs give different trees, as there.
    verbose : int or bool, default=0
        1 shows progress on standard error. Dask's dashboard shows more.

    Attributes
    ----------
    classes_ : ndarray
        Labels, sorted; the column numbers if y was a matrix.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    The result of `fit` does not depend on the partitions. That of `partial_fit` does.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client, LocalCluster
    >>> from sklearn.datasets import load_digits
    >>> from manyclass import LabelTreeClassifier
    >>> from manyclass.distributed import DaskLabelTreeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster, Client(cluster) as client:
    ...     model = DaskLabelTreeClassifier(client, random_state=0)
    ...     model = model.fit(da.from_array(X, chunks=(500, 64)), da.from_array(y, chunks=500)).to_local()
    >>> bool((model.predict(X) == LabelTreeClassifier(random_state=0).fit(X, y).predict(X)).all())
    True
    """

    _local: LabelTreeClassifier

    def __init__(
        self,
        client: Client | None = None,
        *,
        checkpoint=None,
        arity=16,
        beam=10,
        start="auto",
        C="auto",
        rate="auto",
        prior="auto",
        normalize="auto",
        threshold="auto",
        n_epochs=20,
        n_trees=1,
        neighbors=True,
        replay=True,
        class_weight=None,
        random_state=None,
        verbose=0,
    ):
        self.client = client
        self.checkpoint = checkpoint
        self.arity = arity
        self.beam = beam
        self.start = start
        self.C = C
        self.rate = rate
        self.prior = prior
        self.normalize = normalize
        self.threshold = threshold
        self.n_epochs = n_epochs
        self.n_trees = n_trees
        self.neighbors = neighbors
        self.replay = replay
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y=None, sample_weight=None):
        """Fit the model from scratch.

        Parameters
        ----------
        X : Dask array or data frame, or list of partitions
            Rows, dense or as blocks of CSR matrices. A list contains delayed objects, futures or arrays. If y is None,
            each partition is a tuple (X, y, weights), as from `read_files`; the weights may be None.
        y : Dask array or series, or list of partitions, optional
            Labels, or matrices of zeros and ones for several labels per row; in the same partitions as X.
        sample_weight : Dask array or series, or list of partitions, optional
            Weights of the rows.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        folder = None if self.checkpoint is None else os.path.abspath(self.checkpoint)
        if folder is not None and not isinstance(self.random_state, Integral):
            raise ValueError(
                "checkpoint requires an integer as random_state, so that a repeated fit trains the same tree."
            )
        if folder is not None and not os.path.isdir(folder):
            raise ValueError(f"checkpoint={folder!r} is not a folder. Make it first, where all workers can write.")
        run = Cluster(self.client, folder, self.verbose)
        with run.ended_by_errors("fit"):
            self._fit(run, X, y, sample_weight)
        if folder is not None:
            remove_stored(folder)
        return self

    def partial_fit(self, X, y=None, sample_weight=None):
        """Learn more rows, each partition on its own, and merge what was learned.

        Every partition is learned row by row from the same model, as `LabelTreeClassifier.partial_fit` does. Then the
        copies become one model. Sums and counts are added. A weight becomes the old one plus the average change, over
        only those copies that have changed it. The first row of each new label is learned in this process, before the
        others. The result depends on the partitions and their order, not on the workers. It is less accurate than
        learning all rows one after the other if partitions have many rows (docs/distributed.md).

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`. One worker must have memory for a few models more than there are partitions.

        Returns
        -------
        self : object
            The estimator.
        """
        run, fitted = Cluster(self.client), hasattr(self, "_local")
        local = deepcopy(self._local).set_params(**self._local_params()) if fitted else self._new_local()
        local._check_options()
        with run.ended_by_errors("partial_fit"):
            checked, infos = checked_parts(run, partitions(X, y, sample_weight), self._new_local())
            info = agreed(infos)
            names = None if info.feature_names is None else np.array(info.feature_names, dtype=object)
            if fitted:
                known = getattr(local, "feature_names_in_", None)
                if info.n_features != local.n_features_in_:
                    raise ValueError(f"X has {info.n_features} features, the model has {local.n_features_in_}.")
                if names is not None and known is not None and names.tolist() != known.tolist():
                    raise ValueError("The names of the features are not those of the model, or in another order.")
                names = known
                local._check_names(info.label_names)
            if hasattr(local, "feature_names_in_"):
                del local.feature_names_in_  # rows are plain arrays from here on
            local = learn_partitions(run, local, checked)
            if local._names is not None and info.label_names is not None:
                local._names = list(info.label_names)
            if names is not None:
                local.feature_names_in_ = names
            if info.multilabel and not fitted:
                local._sparse_y, local._y_dtype = info.label_type
            self._local = local
        return self

    def _fit(self, run: Cluster, X: Any, y: Any, sample_weight: Any) -> None:
        local = self._new_local()
        local._check_options()
        if local.arity > MOST_FITTED:
            raise ValueError(f"arity must be at most {MOST_FITTED} for fit, got {local.arity}.")
        checked, infos = checked_parts(run, partitions(X, y, sample_weight), local)
        info = agreed(infos)
        classes, class_weight = self._classes(run, checked, info)
        _describe(local, info)
        rng = check_random_state(local.random_state)
        local._resolve(info.n_features, info.sparse, classes, rng)
        if info.multilabel and self.threshold == "auto":
            self._learn_threshold(run, local, checked, rng)
        given = run.each(encode, [checked], None if info.multilabel else run.share(classes), class_weight)
        del checked
        sizes = run.get(run.each(n_rows_of, [given]))
        kept = [(one, size) for one, size in zip(given, sizes, strict=True) if size]
        if not kept:
            raise ValueError("Sample weights must contain at least one non-zero number: there is no row to learn from.")
        given, sizes = map(list, zip(*kept, strict=True))
        given = align(run, given, sizes, edges_of(sum(sizes), run.n_parts))
        del kept  # its rows would be held twice
        given, columns = scale_columns(run, given, info.n_features)
        empty = local._model.init(local._options, info.n_features, len(classes))
        shape = Sizes(info.n_features, len(empty["tree"].leaf_of), is_sparse(info))
        local._options, local._state = fit_parts(run, local._options, given, shape, lambda share: None)
        if columns is not None:
            local._state["scaling"] = columns
        local.n_epochs_, local.history_ = local._options.n_epochs, []
        check_training(local._state, thorough=True)
        self._local = local

    def _learn_threshold(self, run: Cluster, local: LabelTreeClassifier, checked: list, rng) -> None:
        """As `LabelTreeClassifier` does: from the same rows, with a small model that is also trained on the cluster."""
        masks = run.get(run.each(has_weight, [checked]))
        firsts = np.cumsum([0, *map(len, masks)])
        parts, sizes = [], []
        for rows in rows_for_threshold(np.concatenate(masks), 0, rng):
            own = np.split(rows, np.searchsorted(rows, firsts[1:-1]))
            own = [part - first for part, first in zip(own, firsts[:-1], strict=True)]
            parts.append(run.each(chosen_rows, [checked, own]))
            sizes.append([len(part) for part in own])
        held, learned = parts
        known = run.get(run.combine(add, run.each(rows_of_labels, [learned]))) > 0
        held = run.each(known_labels, [run.each(encode, [held], None, None)], run.share(known))
        if sum(sizes[0]) < FEWEST or not sum(run.get(run.each(n_labels_of, [held]))):
            return
        params = {**self.get_params(deep=False), **params_for_threshold(rng), "checkpoint": None, "verbose": 0}
        model = type(self)(**params).fit(learned).to_local()
        edges = [0, *(last for _, last in model._scoring_blocks(sum(sizes[0])))]
        blocks = align(run, held, sizes[0], edges)
        search = run.combine(add, run.each(search_threshold, [blocks], run.share(model)))
        local._threshold = run.get(search).best()[0]

    def _new_local(self) -> LabelTreeClassifier:
        return LabelTreeClassifier(**self._local_params())

    def _local_params(self) -> dict[str, Any]:
        params = self.get_params(deep=False)
        del params["client"], params["checkpoint"]
        return params

    def _classes(self, run: Cluster, checked: list, info: Info) -> tuple[np.ndarray, Any]:
        """All labels, sorted, and the weight of each or None."""
        if info.multilabel:
            if not info.n_labels:
                raise ValueError("y has no label in any row: there is nothing to learn.")
            return np.arange(info.n_columns), None
        classes = run.get(run.combine(np.union1d, run.each(labels_in, [checked])))
        check_classes(self, classes)
        if self.class_weight != "balanced":
            return classes, self.class_weight
        counts = run.get(run.combine(add, run.each(count_labels, [checked], run.share(classes))))
        return classes, run.share(balanced_weights(counts))

    def to_local(self) -> LabelTreeClassifier:
        """The model as a `LabelTreeClassifier`, for prediction, `save` and `partial_fit` in this process.

        It is copied if options have changed since the last call.
        """
        check_is_fitted(self, "_local")
        params, known = self._local_params(), self._local.get_params(deep=False)
        if any(value is not known[name] and value != known[name] for name, value in params.items()):
            self._local = deepcopy(self._local).set_params(**params)  # others may have the one with the old options
        local: LabelTreeClassifier = self._local
        return local

    @property
    def classes_(self) -> np.ndarray:
        """Labels."""
        return self.to_local().classes_

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        return self.to_local().n_features_in_

    def predict(self, X):
        """Predict the best label of each row.

        Parameters
        ----------
        X : Dask array
            Rows, dense or as blocks of CSR matrices.

        Returns
        -------
        labels : Dask array of shape (n_samples,)
            Not computed yet. After a matrix y, use `predict_topk`.
        """
        return predict_blocks(self.to_local(), X)

    def predict_topk(self, X, k=None):
        """Predict the k best labels of each row with their scores, best first.

        Parameters
        ----------
        X : Dask array
            Rows, dense or as blocks of CSR matrices.
        k : int, optional
            Number of labels. Default: 5, or the number of classes if smaller.

        Returns
        -------
        labels, scores : Dask arrays of shape (n_samples, k)
            Not computed yet.
        """
        return topk_blocks(self.to_local(), X, k)


def _describe(local: LabelTreeClassifier, info: Info) -> None:
    """What `fit` finds out about X and y."""
    local._slim, local._precision, local._extra, local._names = False, "float32", {}, None
    local.n_features_in_ = info.n_features
    if info.feature_names is not None:
        local.feature_names_in_ = np.array(info.feature_names, dtype=object)
    local._online, local._multilabel, local._labels_per_row, local._n_columns = False, info.multilabel, 1.0, None
    if info.multilabel:
        local._labels_per_row = max(1.0, info.n_labels / info.n_learned)
        local._n_columns = info.n_columns
        local._sparse_y, local._y_dtype = info.label_type
        local._names = None if info.label_names is None else list(info.label_names)
