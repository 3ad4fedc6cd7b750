"""`TreeHead`: an output layer that scores about the square root of the number of classes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..label_tree.fit import divide, embed
from .grouped import has_triton, visited_scores
from .search import MOST_FUSED, plain_topk

_MULTIPLE = 16  # The number of places of a cluster is a multiple of this: grouped products require aligned weights.
_MOST_FULL = 1.25  # A cluster grows by this factor before it is split.
_DIMS = 64  # Classes are grouped in so many dimensions.
_RANDOM = 4  # One in four clusters scored in training is drawn at random.
_CHUNK = 1 << 26  # So many scores are computed at a time for routers.
_ROUTER_ROWS, _ROUTER_STEPS, _ROUTER_RATE = 4096, 1500, 0.02  # Rows per step, steps and rate of `fit_routers`.


class HeadOutput(NamedTuple):
    """Log-probability of each target, and the loss to minimize.

    Examples
    --------
    >>> import torch
    >>> from manyclass.torch import TreeHead
    >>> TreeHead(20, 1000)(torch.zeros(4, 20), torch.arange(4)).log_prob.shape
    torch.Size([4])
    """

    log_prob: Tensor
    loss: Tensor


class TreeHead(nn.Module):
    """Output layer for very many classes, in place of a linear layer and softmax.

    The classes are divided into clusters of similar classes. A row is scored by a router, a linear layer with one
    output per cluster; then only the classes of the `visit` best clusters are scored. Probabilities of all classes sum
    to 1:

    - a class in a visited cluster has the probability of all visited clusters together, by the router, times its
      softmax over all classes of the visited clusters;
    - another class has the probability of its cluster, by the router, times its softmax in that cluster.

    With `visit=1` this is a hierarchical softmax with two levels; if all clusters are visited, it is exactly the full
    softmax. Cost per row: `n_clusters` routers and about `visit` x `cluster_size` classes. The gradient of the weights
    is dense, so that a step of the optimizer goes through all classes.

    Parameters
    ----------
    in_features : int
        Size of each input row.
    n_classes : int
        Number of classes, at least 2. More can be added with `add_classes`.
    cluster_size : int, optional
        Maximum number of classes per cluster, rounded up to a multiple of 16. Default: about the square root of
        `n_classes`.
    visit : int, default=8
        Number of clusters visited, in training and in prediction; in training, one in four is drawn at random. The
        attribute may be changed at any time.
    class_vectors : array-like or sparse matrix of shape (n_classes, n_dims), optional
        Vectors from which the first clusters are made, for example the mean row of each class. Default: consecutive
        classes share a cluster, which costs much accuracy if they are not similar; call `rebuild` after an epoch or
        two.
    seed : int, default=0
        Seed for clustering. The same seed and vectors give the same clusters.
    device, dtype : optional
        Device and type of the parameters, as in other PyTorch layers.

    Attributes
    ----------
    weight : Parameter of shape (n_clusters, places, in_features)
        Weights of the classes. Class `k` is at `slot_of[k]` when the first two dimensions are flattened.
    bias : Parameter of shape (n_clusters, places)
        Biases of the classes.
    router : nn.Linear
        Scores of the clusters.

    See Also
    --------
    torch.nn.AdaptiveLogSoftmaxWithLoss : Clusters by frequency; new classes are not possible.

    Examples
    --------
    >>> import torch
    >>> from manyclass.torch import TreeHead
    >>> _ = torch.manual_seed(0)
    >>> head = TreeHead(in_features=20, n_classes=1000)
    >>> x, target = torch.randn(4, 20), torch.tensor([3, 141, 592, 653])
    >>> log_prob, loss = head(x, target)
    >>> loss.backward()
    >>> scores, classes = head.topk(x, k=5)
    >>> classes.shape
    torch.Size([4, 5])
    >>> torch.allclose(head.log_prob(x).exp().sum(1), torch.ones(4))
    True
    >>> head.add_classes(2)
    tensor([1000, 1001])
    """

    # declared for type checkers
    class_of: Tensor
    slot_of: Tensor
    size: Tensor
    n_inputs: Tensor
    input_scale: Tensor

    def __init__(
        self, in_features, n_classes, *, cluster_size=None, visit=8, class_vectors=None, seed=0, device=None, dtype=None
    ):
        super().__init__()
        self.in_features, self.visit = _integer("in_features", in_features), visit
        n_classes = _integer("n_classes", n_classes, 2)
        if class_vectors is not None and not hasattr(class_vectors, "shape"):
            class_vectors = np.asarray(class_vectors)
        if class_vectors is None:
            groups = np.array_split(np.arange(n_classes), n_parts(n_classes, cluster_size))
        elif class_vectors.shape[0] != n_classes:
            raise ValueError(f"class_vectors has {class_vectors.shape[0]} rows for {n_classes} classes.")
        else:
            groups = cluster_classes(class_vectors, n_parts(n_classes, cluster_size), seed)
        kind: dict[str, Any] = {"device": device, "dtype": dtype}
        places = places_for(n_classes, cluster_size)
        self.weight = nn.Parameter(torch.empty(len(groups), places, in_features, **kind))
        self.bias = nn.Parameter(torch.empty(len(groups), places, **kind))
        self.router = nn.Linear(in_features, len(groups), **kind)
        for name, array in layout(groups, places).items():
            self.register_buffer(name, torch.as_tensor(array, device=device))
        # Number of training rows so far, and the mean of their squared lengths: for `to_manyclass`.
        self.register_buffer("n_inputs", torch.zeros((), dtype=torch.int64, device=device))
        self.register_buffer("input_scale", torch.zeros((), device=device))
        bound = 1 / math.sqrt(in_features)
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    @classmethod
    def from_linear(cls, linear, inputs, *, cluster_size=None, visit=8, seed=0):
        """Make a head that predicts like a trained linear layer, but visits few of its classes.

        The weights are copied. The classes are grouped by the correlation of their scores on `inputs`, and the router
        is fitted to the probabilities of the clusters. The best classes agree with those of the linear layer whenever
        they are in the visited clusters; measure the agreement on held-out rows and choose `visit`.

        Parameters
        ----------
        linear : nn.Linear
            A trained output layer.
        inputs : Tensor of shape (n_rows, in_features)
            Typical inputs of that layer: as many as possible, at least a few thousand.
        cluster_size, visit, seed
            As in the constructor.

        Returns
        -------
        head : TreeHead
            On the device and with the type of the linear layer.

        Examples
        --------
        >>> import torch
        >>> from manyclass.torch import TreeHead
        >>> _ = torch.manual_seed(0)
        >>> linear, inputs = torch.nn.Linear(16, 500), torch.randn(2000, 16)
        >>> head = TreeHead.from_linear(linear, inputs, visit=10)
        >>> bool((head.predict(inputs) == linear(inputs).argmax(1)).float().mean() > 0.9)
        True
        """
        n_classes, in_features = linear.weight.shape
        weight = linear.weight.detach()
        inputs = checked_inputs(inputs, weight)
        bias = weight.new_zeros(n_classes) if linear.bias is None else linear.bias.detach()
        vectors = score_vectors(weight, bias, inputs)
        head = cls(
            in_features, n_classes, cluster_size=cluster_size, visit=visit, class_vectors=vectors, seed=seed,
            device=weight.device, dtype=weight.dtype,
        )  # fmt: skip
        with torch.no_grad():
            head.weight.zero_().flatten(0, 1)[head.slot_of] = weight
            head.bias.zero_().flatten()[head.slot_of] = bias
        head.fit_routers(inputs, seed=seed)
        return head

    @property
    def visit(self) -> int:
        """Number of clusters visited. It is not part of `state_dict`."""
        return self._visit

    @visit.setter
    def visit(self, value) -> None:
        self._visit = _integer("visit", value)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.slot_of)

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return len(self.weight)

    def extra_repr(self) -> str:
        """Sizes, for `print`."""
        return (
            f"in_features={self.in_features}, n_classes={self.n_classes}, n_clusters={self.n_clusters}, "
            f"cluster_size={self.weight.shape[1]}, visit={self.visit}"
        )

    # -- training and prediction -----------------------------------------------------------------------------------

    def forward(self, x: Tensor, target: Tensor, reduction: str = "mean") -> HeadOutput:
        """Log-probabilities of the targets, and the loss.

        The loss of a row is the cross-entropy of the router plus that of the true class among all classes. The sum over
        all classes is exact for the clusters that the router prefers and for the true cluster. For the other clusters
        it is estimated, without bias, from a few that are drawn at random (one in four of `visit`). The loss is never
        less than `-log_prob`. No array has a column for every class.

        In evaluation mode, and with `visit` below 4, nothing is drawn: the `visit` clusters are those that the router
        prefers, and the others do not count.

        Parameters
        ----------
        x : Tensor of shape (..., in_features)
            Inputs.
        target : int64 Tensor of shape (...)
            True classes. There is no `ignore_index`: leave out rows without a class.
        reduction : {"mean", "sum", "none"}, default="mean"
            How the losses of the rows are combined.

        Returns
        -------
        log_prob : Tensor of shape (...)
            Log-probabilities of the targets, without gradients: in evaluation mode as in `log_prob(x)`, in training
            mode those of a head that visits the preferred clusters only.
        loss : Tensor
            The loss, with gradients.
        """
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f'reduction must be "mean", "sum" or "none", got {reduction!r}.')
        if target.shape != x.shape[:-1]:
            raise ValueError(f"target has the shape {tuple(target.shape)}, expected {tuple(x.shape[:-1])}.")
        rows, weight = self._as_computed(x)
        slot = self._slots(target.reshape(-1))
        if self.training:
            self._count_inputs(rows)
        true_cluster = slot // weight.shape[1]
        log_cluster = self._log_clusters(rows)
        visit = min(self.visit, self.n_clusters)
        n_random = visit // _RANDOM if self.training and visit < self.n_clusters else 0
        cluster, inside = self._trained_clusters(log_cluster.detach(), true_cluster, visit, n_random)
        log_sums, score = visited_scores(rows, weight, self.bias, self.size, cluster, slot)[:2]
        preferred, drawn = log_sums.split([visit - n_random, n_random], 1)
        if n_random:  # a drawn cluster stands for several that are not
            drawn = drawn + math.log((self.n_clusters - visit + n_random) / n_random)
        log_true_cluster = log_cluster.gather(1, true_cluster[:, None]).squeeze(1)
        loss = torch.cat([preferred, drawn], 1).logsumexp(1) - score - log_true_cluster
        with torch.no_grad():
            log_visited = log_cluster.gather(1, cluster[:, : visit - n_random]).logsumexp(1)
            own_sum = log_sums.masked_fill(cluster != true_cluster[:, None], -torch.inf).amax(1)
            log_prob = torch.where(inside, log_visited - preferred.logsumexp(1), log_true_cluster - own_sum) + score
            log_prob = log_prob.view(target.shape)
        if reduction == "none":
            return HeadOutput(log_prob, loss.view(target.shape))
        return HeadOutput(log_prob, loss.mean() if reduction == "mean" else loss.sum())

    def log_prob(self, x: Tensor) -> Tensor:
        """Log-probabilities of all classes. Every class is scored: use `topk` where speed matters.

        The probabilities of a row sum to 1.

        Parameters
        ----------
        x : Tensor of shape (..., in_features)
            Inputs.

        Returns
        -------
        log_prob : Tensor of shape (..., n_classes)
            Log-probabilities.
        """
        rows, weight = self._as_computed(x)
        log_cluster = self._log_clusters(rows)
        scores = self._all_scores(rows, weight)
        log_sums = scores.logsumexp(2)
        cluster = best_clusters(log_cluster, min(self.visit, self.n_clusters))
        together = log_cluster.gather(1, cluster).logsumexp(1) - log_sums.gather(1, cluster).logsumexp(1)
        shift = (log_cluster - log_sums).scatter(1, cluster, together[:, None].expand_as(cluster))
        every = (scores + shift[:, :, None]).flatten(1)[:, self.slot_of]
        return every.view(*x.shape[:-1], self.n_classes)

    @torch.no_grad()
    def topk(self, x: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k best classes of the visited clusters, best first.

        Parameters
        ----------
        x : Tensor of shape (..., in_features)
            Inputs.
        k : int
            Number of classes, at most `visit` x the places of a cluster.

        Returns
        -------
        log_prob : Tensor of shape (..., k)
            Their log-probabilities, the same as those of `log_prob`.
        classes : int64 Tensor of shape (..., k)
            The classes; -1, with a log-probability of -inf, if fewer than k were visited.
        """
        rows, weight = self._as_computed(x)
        visit = min(self.visit, self.n_clusters)
        most = visit * weight.shape[1]
        if not 1 <= operator.index(k) <= most:
            raise ValueError(f"k must be from 1 to {most}, the most classes visited, got {k}; a larger visit has more.")
        fused = has_triton(rows) and max(visit, k) <= MOST_FUSED
        topk: Any = plain_topk
        if fused:
            from .fused import fused_topk as topk
        router = self.router.weight.to(weight.dtype), self.router.bias
        with torch.autocast(x.device.type, enabled=False):  # scores are float32 at least
            log_prob, slot = topk(rows, *router, weight, self.bias, self.size, visit, k)
        classes = self.class_of.flatten()[slot].masked_fill(log_prob == -torch.inf, -1)
        shape = (*x.shape[:-1], k)
        return log_prob.view(shape), classes.view(shape)

    def predict(self, x: Tensor) -> Tensor:
        """The best class of each row.

        Parameters
        ----------
        x : Tensor of shape (..., in_features)
            Inputs.

        Returns
        -------
        classes : int64 Tensor of shape (...)
            The classes.
        """
        return self.topk(x, 1)[1].squeeze(-1)

    @torch.no_grad()
    def cost(self, x: Tensor) -> dict[str, float]:
        """What one prediction costs, averaged over the rows of x.

        Parameters
        ----------
        x : Tensor of shape (..., in_features)
            Inputs.

        Returns
        -------
        cost : dict
            `routers_scored`, `clusters_visited`, `classes_scored`, and their share of all classes, `share_scored`.
        """
        rows = checked_inputs(x, self.weight).to(self.weight.dtype)
        cluster = best_clusters(self._log_clusters(rows), min(self.visit, self.n_clusters))
        classes = float(self.size[cluster].sum(1).float().mean())
        return {
            "routers_scored": float(self.n_clusters),
            "clusters_visited": float(cluster.shape[1]),
            "classes_scored": classes,
            "share_scored": (self.n_clusters + classes) / self.n_classes,
        }

    # -- changes of the classes ------------------------------------------------------------------------------------

    @torch.no_grad()
    def add_classes(self, n: int, inputs: Tensor | None = None, *, optimizer=None) -> Tensor:
        """Add classes without a rebuild; all others keep their numbers, weights and optimizer state.

        Call `backward` of earlier losses first. The parameters may become new objects, also in the optimizer. Capture
        CUDA graphs and wrap in `DistributedDataParallel` again afterwards.

        A new class starts with the mean weights and the mean optimizer state of its cluster. With `inputs`, its weights
        are then changed along its input, so that at this input it is as probable as all other visited classes together.
        A cluster grows by a quarter at most, then it is split.

        Parameters
        ----------
        n : int
            Number of new classes.
        inputs : Tensor of shape (n, in_features), optional
            An input for each new class, such as the mean of its rows: the class enters the cluster that the router
            finds best for it. Default: the emptiest clusters.
        optimizer : torch.optim.Optimizer, optional
            The optimizer that trains this head. Its state is extended. Without it, make a new optimizer afterwards: one
            that was made before no longer trains this head.

        Returns
        -------
        classes : int64 Tensor of shape (n,)
            Numbers of the new classes.
        """
        n = _integer("n", n)
        if inputs is not None:
            if tuple(inputs.shape) != (n, self.in_features):
                raise ValueError(f"inputs has the shape {tuple(inputs.shape)}, expected {(n, self.in_features)}.")
            inputs = checked_inputs(inputs, self.weight)
        first, places, size = self.n_classes, self.weight.shape[1], self.size.cpu().numpy()
        if inputs is None:
            free = np.argsort(np.repeat(size, places) + np.tile(np.arange(places), len(size)), kind="stable")
            home = free[np.arange(n) % len(free)] // places  # one place after another, emptiest clusters first
        else:
            home = self._log_clusters(inputs.to(self.weight)).argmax(1).cpu().numpy()
        groups, source = self._with_new(home)
        self._arrange(groups, places_for(first + n, max(places, *map(len, groups))), optimizer, home)
        source = torch.as_tensor(source, device=self.weight.device)
        for name in ("weight", "bias"):
            _replace(self.router, name, lambda old: old[source], optimizer)
        self.router.out_features = len(source)
        if inputs is not None:
            self._start_at(inputs, self.slot_of[first:])
        if len(source) > len(size):
            self._separate_routers(source)
        return torch.arange(first, first + n, device=self.weight.device)

    def _start_at(self, inputs: Tensor, slot: Tensor) -> None:
        """Raise the score of each new class at its input to that of all classes visited there together."""
        rows, weight = self._as_computed(inputs)
        visit = min(self.visit, self.n_clusters)
        steps = []
        for x, own in zip(rows.split(_ROUTER_ROWS), slot.split(_ROUTER_ROWS), strict=True):
            cluster, _ = self._trained_clusters(self._log_clusters(x), own // weight.shape[1], visit, 0)
            log_sums, score = visited_scores(x, weight, self.bias, self.size, cluster, own)[:2]
            missing = log_sums.logsumexp(1) - score
            x = x.to(missing.dtype)
            steps.append((missing / x.square().sum(1).clamp(min=1e-12))[:, None] * x)
        self.weight.flatten(0, 1)[slot] += torch.cat(steps).to(self.weight)

    def _separate_routers(self, source: Tensor) -> None:
        """The pieces of an old cluster share its probability by their sizes, and differ as their mean weights do."""
        size, mean = self.size.to(self.weight.dtype), self._means(self.weight)
        whole = torch.zeros_like(size).index_add_(0, source, size)[source]
        sums = torch.zeros_like(mean).index_add_(0, source, mean * size[:, None])[source]
        is_piece = torch.bincount(source, minlength=len(source))[source] > 1
        self.router.weight += (mean - sums / whole[:, None]).where(is_piece[:, None], 0)
        self.router.bias += (size / whole).log()

    def _with_new(self, home: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """The clusters with new classes in their homes, full ones split; and the old cluster of each."""
        groups, places = self._groups(), self.weight.shape[1]
        more: list[np.ndarray] = []
        source = list(range(len(groups)))
        rng = np.random.default_rng(self.n_classes)
        for cluster in np.unique(home):
            new = self.n_classes + np.flatnonzero(home == cluster)
            old = groups[cluster]
            groups[cluster] = np.concatenate([old, new])
            if len(groups[cluster]) > _MOST_FULL * places:
                known = self.weight[cluster, : len(old)].float().cpu().numpy()
                rows = np.pad(known - known.mean(axis=0), ((0, len(new)), (0, 0)))  # new classes have the mean
                parts = divide(rows, np.arange(len(rows)), math.ceil(len(rows) / places), rng)
                groups[cluster], *others = (groups[cluster][part] for part in parts)
                more += others
                source += [int(cluster)] * len(others)
        return groups + more, np.array(source)

    @torch.no_grad()
    def rebuild(self, inputs: Tensor | None = None, *, cluster_size=None, optimizer=None, seed: int = 0) -> None:
        """Make new clusters from the current weights. The weights and their optimizer state move with their classes.

        Call `backward` of earlier losses first.

        Parameters
        ----------
        inputs : Tensor of shape (n_rows, in_features), optional
            Typical inputs. The classes are grouped by the correlation of their scores, and the router is fitted.
            Default: they are grouped by their weights, and the router starts from the mean weights.
        cluster_size : int, optional
            Maximum number of classes per cluster. Default: as it is now.
        optimizer : torch.optim.Optimizer, optional
            The optimizer that trains this head.
        seed : int, default=0
            The same seed, weights and inputs give the same clusters.
        """
        inputs = None if inputs is None else checked_inputs(inputs, self.weight)
        weight, bias = self.weight.flatten(0, 1)[self.slot_of], self.bias.flatten()[self.slot_of]
        vectors = score_vectors(weight, bias, inputs)
        cluster_size = self.weight.shape[1] if cluster_size is None else cluster_size
        groups = cluster_classes(vectors, n_parts(self.n_classes, cluster_size), seed)
        self._arrange(groups, places_for(self.n_classes, cluster_size), optimizer)
        for name in ("weight", "bias"):
            _replace(self.router, name, lambda old: old.new_zeros(len(groups), *old.shape[1:]), optimizer)
            if optimizer is not None:  # the router starts again
                optimizer.state.pop(getattr(self.router, name), None)
        self.router.out_features = len(groups)
        self.router.weight.copy_(self._means(self.weight))
        self.router.bias.copy_(self._means(self.bias) + self.size.log())
        if inputs is not None:
            self.fit_routers(inputs, seed=seed)

    def fit_routers(self, inputs: Tensor, *, seed: int = 0) -> None:
        """Fit the router to the probabilities of the clusters under a full softmax of the current weights.

        Parameters
        ----------
        inputs : Tensor of shape (n_rows, in_features)
            Typical inputs.
        seed : int, default=0
            Seed for the order of the rows.
        """
        rows, weight = checked_inputs(inputs, self.weight), self.weight.detach()
        if len(rows) < 2:
            raise ValueError(f"inputs has {len(rows)} rows: pass at least a few thousand typical inputs.")
        with torch.no_grad():
            self._count_inputs(rows)
            step = max(1, _CHUNK // weight.shape[:2].numel())
            parts = [self._all_scores(part.to(weight), weight).logsumexp(2) for part in rows.split(step)]
            log_sums = torch.cat(parts).float()
        fit_softmax(self.router, rows.float(), log_sums, seed)

    # -- bridge to the estimators ----------------------------------------------------------------------------------

    def to_manyclass(self, classes=None):
        """A `LabelTreeClassifier` with the same weights: it predicts the same classes and can learn more rows.

        Parameters
        ----------
        classes : array-like of shape (n_classes,), optional
            Labels of the classes. Default: 0, 1, 2, …

        Returns
        -------
        model : LabelTreeClassifier
            For dense rows: `predict_topk`, `partial_fit`, `save`.
        """
        from .bridge import to_label_tree

        return to_label_tree(self, classes)

    @classmethod
    def from_manyclass(cls, model, *, visit=None, device=None, dtype=None):
        """A head with the weights of a `LabelTreeClassifier` that has one level of routers and `prior=0`.

        Such models come from `to_manyclass`, and may have learned more rows and classes since.

        Parameters
        ----------
        model : LabelTreeClassifier
            A model trained with `partial_fit` on dense rows, one label per row.
        visit : int, optional
            Number of clusters visited. Default: the model's `beam`.
        device, dtype : optional
            Device and type of the parameters.

        Returns
        -------
        head : TreeHead
            Class `k` is `model.classes_[k]`.
        """
        from .bridge import read_label_tree

        groups, routers, leaves, scale = read_label_tree(model)
        n_classes = sum(map(len, groups))
        visit = int(model.beam) if visit is None else visit
        head = cls(model.n_features_in_, n_classes, visit=visit, device=device, dtype=dtype)
        with torch.no_grad():
            head._arrange(groups, places_for(n_classes, max(map(len, groups))))
            head.weight.zero_()
            head.bias.zero_()
            for cluster, (weight, bias) in enumerate(leaves):
                head.weight[cluster, : len(bias)] = torch.as_tensor(weight)
                head.bias[cluster, : len(bias)] = torch.as_tensor(bias)
            for parameter, array in zip((head.router.weight, head.router.bias), routers, strict=True):
                parameter.data = torch.as_tensor(array).to(parameter)
            head.router.out_features = len(groups)
            head.n_inputs.fill_(int(scale[0]))
            head.input_scale.fill_(scale[1])
        return head

    # -- parts -----------------------------------------------------------------------------------------------------

    def _as_computed(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The rows (row, feature) and the weights in the type of the computation."""
        if not isinstance(x, Tensor):
            raise TypeError(f"x must be a Tensor, got {type(x).__name__}.")
        if x.shape[-1] != self.in_features:
            raise ValueError(f"x has {x.shape[-1]} features, the head expects {self.in_features}.")
        kind = self.weight.dtype
        if torch.is_autocast_enabled(x.device.type):
            kind = torch.get_autocast_dtype(x.device.type)
        return x.reshape(-1, self.in_features).to(kind).contiguous(), self.weight.to(kind)

    def _slots(self, target: Tensor) -> Tensor:
        if target.dtype not in (torch.int64, torch.int32):
            raise ValueError(f"target must have integers, got {target.dtype}.")
        if target.device.type == "cpu" and not torch.compiler.is_compiling() and target.numel():
            low, high = int(target.min()), int(target.max())
            if low < 0 or high >= self.n_classes:
                wrong = low if low < 0 else high
                raise ValueError(f"target contains the class {wrong}, the head has 0..{self.n_classes - 1}.")
        return self.slot_of[target.where(target >= 0, self.n_classes)]  # on a device, a negative class is an error, too

    def _log_clusters(self, rows: Tensor) -> Tensor:
        scores = nn.functional.linear(rows, self.router.weight.to(rows.dtype), self.router.bias.to(rows.dtype))
        return scores.to(torch.promote_types(scores.dtype, torch.float32)).log_softmax(1)

    @torch.no_grad()
    def _trained_clusters(self, log_cluster: Tensor, true: Tensor, visit: int, n_random: int) -> tuple[Tensor, Tensor]:
        """Clusters of each row to score: preferred ones, the true one among them, then random others.

        Also whether the true cluster is a preferred one; if not, it takes the place of the last of these.
        """
        cluster = best_clusters(log_cluster, visit - n_random)
        inside = (cluster == true[:, None]).any(1)
        cluster[:, -1] = torch.where(inside, cluster[:, -1], true)
        if n_random:
            chance = torch.rand_like(log_cluster).scatter(1, cluster, -1.0)
            cluster = torch.cat([cluster, best_clusters(chance, n_random)], 1)
        return cluster, inside

    def _all_scores(self, rows: Tensor, weight: Tensor) -> Tensor:
        """Scores of all classes (row, cluster, place)."""
        n_clusters, places = weight.shape[:2]
        scores = (rows @ weight.flatten(0, 1).T).view(len(rows), n_clusters, places)
        place = torch.arange(places, device=rows.device)
        kind = torch.promote_types(scores.dtype, torch.float32)
        return (scores.to(kind) + self.bias.to(kind)).masked_fill(place >= self.size[:, None], -torch.inf)

    @torch.no_grad()
    def _count_inputs(self, rows: Tensor) -> None:
        if len(rows):
            mean = rows.float().square().sum(1).mean()
            share = (len(rows) / (self.n_inputs + len(rows))).where(mean.isfinite(), 0)
            self.input_scale += (mean.nan_to_num() - self.input_scale) * share
            self.n_inputs += len(rows)

    def _groups(self) -> list[np.ndarray]:
        """The classes of each cluster."""
        members, size = self.class_of.cpu().numpy(), self.size.cpu().numpy()
        return [members[cluster, :n] for cluster, n in enumerate(size)]

    def _means(self, values: Tensor) -> Tensor:
        """Means of the classes of each cluster."""
        known = torch.arange(values.shape[1], device=values.device) < self.size[:, None]
        known = known.view(*known.shape, *[1] * (values.dim() - 2))
        return values.where(known, 0).sum(1) / known.sum(1).clamp(min=1)

    def _arrange(self, groups: list[np.ndarray], places: int, optimizer=None, home=()) -> None:
        """Move the classes into new clusters, with their weights and optimizer state.

        Classes that are new get the means of an old cluster, their `home`.
        """
        if optimizer is not None:
            trained = {id(one) for group in optimizer.param_groups for one in group["params"]}
            for name, one in self.named_parameters():
                if one.requires_grad and id(one) not in trained:
                    raise ValueError(f"optimizer does not train all parameters of this head: {name} is missing.")
                state = [value for value in optimizer.state.get(one, {}).values() if isinstance(value, Tensor)]
                if any(value.numel() > 1 and value.shape != one.shape for value in state):
                    raise ValueError(
                        f"{type(optimizer).__name__} keeps a state of another shape than {name}, which cannot follow "
                        "the classes: leave out `optimizer` and make a new one afterwards."
                    )
        device, old = self.weight.device, self.slot_of
        now = {name: torch.as_tensor(array, device=device) for name, array in layout(groups, places).items()}
        kept, new = now["slot_of"].tensor_split([len(old)])
        source = torch.as_tensor(home, device=device, dtype=torch.int64)

        def move(values: Tensor) -> Tensor:
            out = values.new_zeros(len(groups), places, *values.shape[2:])
            out.flatten(0, 1)[kept] = values.flatten(0, 1)[old[: len(kept)]]
            if len(new):
                out.flatten(0, 1)[new] = self._means(values)[source]
            return out

        for name in ("weight", "bias"):
            _replace(self, name, move, optimizer)
        for name, tensor in now.items():
            setattr(self, name, tensor)

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing, unexpected, errors):
        """Take over the sizes of the state: it may have more classes or other clusters."""
        held = {name: state_dict[prefix + name] for name in self.state_dict() if prefix + name in state_dict}
        reason = _unfit(held, self.in_features)
        if reason:
            errors.append(f"{prefix[:-1] or 'TreeHead'}: {reason}")
            return
        for name, tensor in [*self.named_parameters(), *self.named_buffers()]:
            if name in held and held[name].dim() == tensor.dim() and held[name].shape != tensor.shape:
                tensor.data = tensor.new_empty(held[name].shape)
        self.router.out_features = len(self.weight)
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)


def _unfit(held: dict[str, Tensor], in_features: int) -> str:
    """Why a state cannot be loaded, or nothing."""
    if "weight" in held and (held["weight"].dim() != 3 or held["weight"].shape[2] != in_features):
        return f"the weights have the shape {tuple(held['weight'].shape)}, the head has {in_features} features."
    if {"weight", "size", "class_of", "slot_of"} <= held.keys():
        (n_clusters, places), size = held["weight"].shape[:2], held["size"]
        shapes = (n_clusters, places), (n_clusters, in_features), (n_clusters,)
        for name, shape in zip(("bias", "router.weight", "router.bias"), shapes, strict=True):
            if name in held and held[name].shape != shape:
                return f"{name} has the shape {tuple(held[name].shape)}, expected {shape}; the file is damaged."
        class_of, slot_of = held["class_of"], held["slot_of"]
        fits = size.shape == (n_clusters,) and class_of.shape == (n_clusters, places) and slot_of.dim() == 1
        fits = fits and 1 <= int(size.min()) and int(size.max()) <= places and int(size.sum()) == len(slot_of)
        if fits:
            taken = (torch.arange(places, device=size.device) < size[:, None]).flatten().nonzero().squeeze(1)
            fits = torch.equal(slot_of.sort().values, taken)
            fits = fits and torch.equal(class_of.flatten()[slot_of], torch.arange(len(slot_of), device=size.device))
        if not fits:
            return "the clusters of the state contradict each other; the file is damaged."
    return ""


def _integer(name: str, value: Any, least: int = 1) -> int:
    """The value, if it is an integer of at least `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")
    return number


def checked_inputs(inputs: Tensor, weight: Tensor) -> Tensor:
    """Inputs as (row, feature) on the device of the weights; ValueError if they are of another width or not finite."""
    if inputs.shape[-1] != weight.shape[-1]:
        raise ValueError(f"inputs has {inputs.shape[-1]} features, the head expects {weight.shape[-1]}.")
    inputs = inputs.detach().reshape(-1, weight.shape[-1]).to(weight.device)
    if not torch.isfinite(inputs).all():
        raise ValueError("inputs contains values that are not finite, such as the mean of a class without rows.")
    return inputs


def _replace(module: nn.Module, name: str, function: Callable[[Tensor], Tensor], optimizer) -> None:
    """Change a parameter and its optimizer state: in place if the shape stays, otherwise by a new parameter.

    An earlier loss may still refer to the old one.
    """
    old = getattr(module, name)
    value = function(old.data)
    state = {} if optimizer is None else optimizer.state.get(old, {})
    follows = [key for key, held in state.items() if isinstance(held, Tensor) and held.shape == old.shape]
    if value.shape == old.shape:
        with torch.no_grad():
            old.copy_(value)  # PyTorch then refuses an earlier loss that needs the old values
        old.grad = None
        for key in follows:
            state[key].copy_(function(state[key]))
        return
    new = nn.Parameter(value, requires_grad=old.requires_grad)
    setattr(module, name, new)
    if optimizer is not None:
        for group in optimizer.param_groups:
            group["params"] = [new if one is old else one for one in group["params"]]
        if old in optimizer.state:
            optimizer.state[new] = {**optimizer.state.pop(old), **{key: function(state[key]) for key in follows}}


# -- clusters ----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def best_clusters(scores: Tensor, n: int) -> Tensor:
    """The n clusters with the highest scores (row, cluster) of each row, best first."""
    if has_triton(scores) and n <= MOST_FUSED:
        from .fused import best_columns

        return best_columns(scores.detach(), scores.new_zeros(scores.shape[1]), n)[0]
    return scores.topk(n, dim=1).indices


def places_for(n_classes: int, cluster_size: int | None) -> int:
    """Places of a cluster: those given, or the square root of the number of classes, as a multiple of 16."""
    least = math.sqrt(n_classes) if cluster_size is None else _integer("cluster_size", cluster_size)
    return math.ceil(least / _MULTIPLE) * _MULTIPLE


def n_parts(n_classes: int, cluster_size: int | None) -> int:
    """Number of clusters: if there are many, a multiple of 8, for which matrix products are faster."""
    n = math.ceil(n_classes / places_for(n_classes, cluster_size))
    return n if n < 64 else math.ceil(n / 8) * 8


def layout(groups: list[np.ndarray], places: int) -> dict[str, np.ndarray]:
    """Which class is at each place, where each class is, and the sizes of the clusters."""
    size = np.array([len(group) for group in groups], np.int32)
    class_of = np.full((len(groups), places), -1)
    class_of[np.arange(places) < size[:, None]] = np.concatenate(groups)
    slot_of = np.empty(size.sum(), np.int64)
    slot_of[np.concatenate(groups)] = np.flatnonzero(class_of.ravel() >= 0)
    return {"class_of": class_of, "slot_of": slot_of, "size": size}


def cluster_classes(vectors: Any, n_clusters: int, seed: int) -> list[np.ndarray]:
    """Clusters of equal size of classes with similar vectors, as in the label tree."""
    rng = np.random.default_rng(seed)
    if isinstance(vectors, Tensor):
        vectors = vectors.float().cpu().numpy()
    return divide(embed(vectors, _DIMS, rng), np.arange(vectors.shape[0]), n_clusters, rng)


@torch.no_grad()
def score_vectors(weight: Tensor, bias: Tensor, inputs: Tensor | None) -> Tensor:
    """Vectors of the classes whose inner products are those of their scores over the inputs, or of their weights.

    Their mean is subtracted: softmax does not depend on it.
    """
    vectors = weight.float()
    if inputs is not None:
        rows = nn.functional.pad(inputs.float(), (0, 1), value=1.0)
        values, basis = torch.linalg.eigh(rows.T @ rows / len(rows))
        vectors = torch.cat([vectors, bias.float()[:, None]], 1) @ (basis * values.clamp(min=0).sqrt())
    return vectors - vectors.mean(0)


def fit_softmax(router: nn.Linear, rows: Tensor, log_sums: Tensor, seed: int) -> None:
    """Fit a linear layer so that its softmax is that of `log_sums` (row, output): least squares, then Adam.

    Inputs are whitened, so that the learning rate suits inputs of any scale.
    """
    n = len(rows)
    padded = nn.functional.pad(rows, (0, 1), value=1.0)
    with torch.no_grad():
        values, basis = torch.linalg.eigh((padded.T @ padded / n).double())
        whiten = (basis * values.clamp(min=float(values.max()) * 1e-7).rsqrt()).float()
        white = padded @ whiten
        target = log_sums.softmax(1)
        centred = log_sums - log_sums.mean(1, keepdim=True)
        gram = white.T @ white / n + 1e-3 * torch.eye(white.shape[1], device=rows.device)
        first = torch.linalg.solve(gram, white.T @ centred / n)
    with torch.enable_grad():
        line = first.requires_grad_()
        optimizer = torch.optim.Adam([line], lr=_ROUTER_RATE)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, _ROUTER_STEPS)
        generator = torch.Generator().manual_seed(seed)
        for _ in range(_ROUTER_STEPS):
            part = torch.randint(n, (min(n, _ROUTER_ROWS),), generator=generator).to(rows.device)
            loss = nn.functional.cross_entropy(white[part] @ line, target[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        fitted = whiten @ line
        router.weight.copy_(fitted[:-1].T)
        router.bias.copy_(fitted[-1])
