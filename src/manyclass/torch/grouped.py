"""Rows grouped by cluster: the scores of the classes of visited clusters, as needed for training.

A pair is one row and one cluster that it visits. Pairs are sorted by cluster, so that the weights of a cluster are read
once. The scores of visited classes are kept for the gradients; there is no array with a column for every class.

These are operators of their own (`torch.library`), so that `torch.compile` takes them as they are. On CUDA they use
PyTorch's grouped products and the kernels of `fused.py`, elsewhere plain PyTorch.
"""

import torch
from torch import Tensor

_MOST_GROUPS = 1000  # of one grouped product of PyTorch, which has fewer than 1,024
_ALIGNED = 8  # bfloat16 numbers in the 16 bytes that grouped products of PyTorch require


def has_triton(x: Tensor) -> bool:
    """Whether the kernels of `fused.py` can run: the rows are on a CUDA device and Triton is installed."""
    if not x.is_cuda or x.dtype == torch.float64:
        return False
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


def group_pairs(cluster: Tensor, n_clusters: int) -> tuple[Tensor, Tensor]:
    """Pairs sorted by cluster (flat positions in `cluster`), and where the pairs of each cluster end (int32)."""
    keys, order = torch.sort(cluster.flatten().to(torch.int16 if n_clusters < 1 << 15 else torch.int32), stable=True)
    every = torch.arange(n_clusters, device=cluster.device, dtype=keys.dtype)
    return order, torch.searchsorted(keys, every, right=True, out_int32=True)


def masked_scores(scores: Tensor, bias: Tensor, size: Tensor, cluster: Tensor) -> Tensor:
    """Scores (pair, place) plus bias, in at least float32; -inf at places without a class."""
    place = torch.arange(scores.shape[1], device=scores.device)
    kind = torch.promote_types(scores.dtype, torch.float32)
    return (scores.to(kind) + bias[cluster].to(kind)).masked_fill(place >= size[cluster, None], -torch.inf)


# -- products ----------------------------------------------------------------------------------------------------------


def grouped_mm(rows: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """rows (pair, a) @ weight (cluster, a, b) of the cluster of each pair: (pair, b)."""
    out = rows.new_empty(len(rows), weight.shape[2])
    for first, last, begin, end in _parts(ends, _grouped_by_torch(rows, weight[0])):
        if last - first == len(ends):
            return torch._grouped_mm(rows, weight, offs=ends)
        if last - first == 1:
            torch.mm(rows[begin:end], weight[first], out=out[begin:end])
        else:
            out[begin:end] = torch._grouped_mm(rows[begin:end], weight[first:last], offs=ends[first:last] - begin)
    return out


def grouped_outer(a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    """The sums over the pairs of each cluster of the products a (pair, r) x b (pair, q): (cluster, r, q)."""
    out = a.new_zeros(len(ends), a.shape[1], b.shape[1])
    for first, _, begin, end in _parts(ends, False):
        torch.mm(a[begin:end].T, b[begin:end], out=out[first])
    return out


def _grouped_by_torch(a: Tensor, b: Tensor) -> bool:
    """Whether PyTorch has a grouped product for these: bfloat16 on CUDA, aligned."""
    return a.is_cuda and a.dtype == torch.bfloat16 and all(size % _ALIGNED == 0 for size in (a.shape[1], *b.shape[-2:]))


def _parts(ends: Tensor, by_torch: bool) -> list[tuple[int, int, int, int]]:
    """(first group, last group, first row, last row) of each product; one group at a time if not by PyTorch.

    Waits for the device unless one product does it all.
    """
    n = len(ends)
    if by_torch and 1 < n <= _MOST_GROUPS:
        return [(0, n, 0, -1)]
    edges = [*range(0, n, _MOST_GROUPS if by_torch else 1), n]
    rows = [0, *ends[[edge - 1 for edge in edges[1:]]].tolist()]
    return [part for part in zip(edges, edges[1:], rows, rows[1:], strict=False) if part[3] > part[2]]


# -- scores of visited classes -----------------------------------------------------------------------------------------


@torch.library.custom_op("manyclass::visited_scores", mutates_args=())
def visited_scores(
    x: Tensor, weight: Tensor, bias: Tensor, size: Tensor, cluster: Tensor, slot: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The log of the sum of exp(score) for each visited cluster (row, visit), and the score of one class per row.

    `slot` is that class, cluster x places + place; its cluster is one of the visited ones. Further results are for the
    gradients: the scores without bias (pair, place) sorted by cluster, the order of the pairs, and where groups end.
    """
    visit = cluster.shape[1]
    order, ends = group_pairs(cluster, len(weight))
    scores = grouped_mm(x[order // visit], weight.transpose(1, 2), ends)
    if has_triton(x):
        from .fused import pair_log_sums

        log_sums = pair_log_sums(scores, bias, size, cluster, order)
    else:
        by_pair = masked_scores(scores, bias, size, cluster.flatten()[order]).logsumexp(1)
        log_sums = torch.empty_like(by_pair)
        log_sums[order] = by_pair
    kind = log_sums.dtype
    own = (x.to(kind) * weight.flatten(0, 1)[slot].to(kind)).sum(1) + bias.flatten()[slot].to(kind)
    return log_sums.view(cluster.shape), own, scores, order, ends


@visited_scores.register_fake
def _(x, weight, bias, size, cluster, slot):
    kind = torch.promote_types(x.dtype, torch.float32)
    n_pairs = cluster.shape[0] * cluster.shape[1]
    return (
        x.new_empty(cluster.shape, dtype=kind),
        x.new_empty(cluster.shape[0], dtype=kind),
        x.new_empty(n_pairs, weight.shape[1]),
        cluster.new_empty(n_pairs),
        cluster.new_empty(weight.shape[0], dtype=torch.int32),
    )


@torch.library.custom_op(
    "manyclass::visited_gradients",
    mutates_args=(),
    schema="(Tensor[] saved, Tensor by_sum, Tensor by_own) -> (Tensor, Tensor, Tensor)",
)
def visited_gradients(saved: list[Tensor], by_sum: Tensor, by_own: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x, weight and bias from those of the two results of `visited_scores`. `saved`: see `_save`."""
    x, weight, bias, size, cluster, slot, log_sums, scores, order, ends = saved
    (n_rows, visit), places = cluster.shape, weight.shape[1]
    row = order // visit
    if has_triton(x):
        from .fused import column_sums, score_gradients, weight_gradients

        down = score_gradients(scores, bias, size, cluster, order, slot, log_sums, by_sum, by_own)
        bias_gradient = column_sums(down, ends).to(bias.dtype)
        weight_gradient = weight_gradients(down, x, row, ends)
    else:
        sorted_cluster, shift = cluster.flatten()[order], log_sums.flatten()[order][:, None]
        down = (masked_scores(scores, bias, size, sorted_cluster) - shift).exp() * by_sum.flatten()[order][:, None]
        own = (sorted_cluster == (slot // places)[row]).nonzero().squeeze(1)
        down[own, (slot % places)[row[own]]] += by_own[row[own]]
        bias_gradient = torch.zeros_like(bias).index_add_(0, sorted_cluster, down.to(bias.dtype))
        down = down.to(scores.dtype)
        weight_gradient = grouped_outer(down, x[row], ends)
    position = torch.empty_like(order)
    position[order] = torch.arange(len(order), device=order.device)
    x_gradient = grouped_mm(down, weight, ends)[position].view(n_rows, visit, x.shape[1]).sum(1)
    return x_gradient, weight_gradient, bias_gradient


@visited_gradients.register_fake
def _(saved, by_sum, by_own):
    return tuple(one.new_empty(one.shape) for one in saved[:3])


def _save(ctx, inputs, output):
    log_sums, _, scores, order, ends = output
    ctx.save_for_backward(*inputs, log_sums, scores, order, ends)
    ctx.set_materialize_grads(False)


def _backward(ctx, by_sum, by_own, *_):
    log_sums = ctx.saved_tensors[6]
    by_sum = torch.zeros_like(log_sums) if by_sum is None else by_sum
    by_own = torch.zeros_like(log_sums[:, 0]) if by_own is None else by_own
    return (*visited_gradients(list(ctx.saved_tensors), by_sum, by_own), None, None, None)


visited_scores.register_autograd(_backward, setup_context=_save)
