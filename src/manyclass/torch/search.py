"""The best classes of the visited clusters in plain PyTorch. `fused.py` gives the same numbers on CUDA."""

import torch
from torch import Tensor

from .grouped import group_pairs, masked_scores

MOST_FUSED = 32  # clusters visited, and best classes, that the fused kernels keep in registers


@torch.library.custom_op("manyclass::plain_topk", mutates_args=())
def plain_topk(
    x: Tensor, router: Tensor, router_bias: Tensor, weight: Tensor, bias: Tensor, size: Tensor, visit: int, k: int
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and slots (cluster x places + place) of the best k classes of the `visit` best clusters.

    Sums are float32 at least, as in the fused kernels.
    """
    kind = torch.promote_types(x.dtype, torch.float32)
    x = x.to(kind)
    log_cluster = torch.addmm(router_bias.to(kind), x, router.to(kind).T).log_softmax(1)
    log_visited, cluster = log_cluster.topk(visit)
    order, ends = group_pairs(cluster, len(weight))
    places = weight.shape[1]
    n_best = min(k, places)
    best, log_sums = x.new_empty(len(order), n_best), x.new_empty(len(order))
    slot = torch.empty_like(best, dtype=torch.int64)
    begin = 0
    for own, end in enumerate(ends.tolist()):
        if end > begin:
            pairs = order[begin:end]
            scores = masked_scores(x[pairs // visit] @ weight[own].to(kind).T, bias, size, torch.full_like(pairs, own))
            best[pairs], place = scores.topk(n_best)
            slot[pairs], log_sums[pairs] = own * places + place, scores.logsumexp(1)
        begin = end
    scores, at = best.view(len(x), visit * n_best).topk(k)
    shift = log_visited.logsumexp(1) - log_sums.view(len(x), visit).logsumexp(1)
    return scores + shift[:, None], slot.view(len(x), visit * n_best).gather(1, at)


@plain_topk.register_fake
def _(x, router, router_bias, weight, bias, size, visit, k):
    value = x.new_empty(x.shape[0], k, dtype=torch.promote_types(x.dtype, torch.float32))
    return value, value.new_empty(value.shape, dtype=torch.int64)
