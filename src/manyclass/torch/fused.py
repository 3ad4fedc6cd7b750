"""Triton kernels: predictions without scores in memory, and the element-wise parts of training.

    best_columns      the clusters to visit
    group_by_cluster  sort pairs by cluster by counting
    best_in_clusters  score the classes of a cluster and keep the best k of each row in registers
    merge_best        the best k of all visited clusters
    pair_log_sums, score_gradients, column_sums, weight_gradients      for training

`fused_topk` is the whole prediction.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

_PROGRAMS = 528  # fewer units of work are divided into parts, so that a large device has enough to do
_FEW_PAIRS = 256  # are not sorted by cluster: that takes longer than reading the weights of a cluster twice
_COLUMNS = 128  # summed at a time
_GROUP = 64  # columns whose highest score is kept
_BLOCK = 1024  # pairs per program that only counts or copies


# -- prediction --------------------------------------------------------------------------------------------------------


@triton.jit
def _best_kernel(
    x, weight, bias, size, order, ends, tiles, unit_cluster, best, slot, log_sums,
    n_clusters, n_parts, visit, d, places,
    K: tl.constexpr, LANES: tl.constexpr, ROWS: tl.constexpr, CLASSES: tl.constexpr, DEPTH: tl.constexpr,
    PRECISION: tl.constexpr, GROUPED: tl.constexpr,
):  # fmt: skip
    """One program takes up to ROWS pairs of one cluster and one part of its classes, tile by tile.

    Unless GROUPED, a program takes one pair: order, ends and tiles are not used.
    """
    unit, part = tl.program_id(0), tl.program_id(1)
    cluster = tl.load(unit_cluster + unit).to(tl.int32)
    if GROUPED:
        if cluster >= n_clusters:  # there are fewer units
            return
        end = tl.load(ends + cluster)
        begin = tl.load(ends + cluster - 1, mask=cluster > 0, other=0)
        first_tile = tl.load(tiles + cluster - 1, mask=cluster > 0, other=0)
        pair_at = begin + (unit - first_tile) * ROWS + tl.arange(0, ROWS)
        valid = pair_at < end
        pair = tl.load(order + pair_at, mask=valid, other=0)
    else:
        valid = tl.arange(0, ROWS) == 0
        pair = tl.where(valid, unit, 0)
    n_classes = tl.load(size + cluster)
    per_part = tl.cdiv(tl.cdiv(places, n_parts), CLASSES) * CLASSES
    first, last = part * per_part, tl.minimum(n_classes, (part + 1) * per_part)

    column, depth, lane = tl.arange(0, CLASSES), tl.arange(0, DEPTH), tl.arange(0, LANES)
    x_rows = x + (pair // visit).to(tl.int64)[:, None] * d + depth[None, :]
    own_weight = weight + cluster.to(tl.int64) * places * d
    # Lanes beyond k are never the least.
    top = tl.zeros([ROWS, LANES], tl.float32) + tl.where(lane < K, float("-inf"), float("inf"))[None, :]
    top_place = tl.zeros([ROWS, LANES], tl.int32)
    peak, total = tl.full([ROWS], float("-inf"), tl.float32), tl.zeros([ROWS], tl.float32)
    scores = tl.zeros([ROWS, CLASSES], tl.float32)
    # One loop over tiles and depth: the weights of the next tile are on their way while a tile is ranked.
    n_steps = tl.cdiv(d, DEPTH)
    for step in range(0, n_steps * tl.cdiv(tl.maximum(last - first, 0), CLASSES)):
        at_depth = (step % n_steps) * DEPTH
        place_0 = first + (step // n_steps) * CLASSES
        place = place_0 + column
        known, inside = place < last, depth < d - at_depth
        a = tl.load(x_rows + at_depth, mask=inside[None, :], other=0.0)
        b_at = own_weight + place[:, None] * d + (at_depth + depth)[None, :]
        b = tl.load(b_at, mask=known[:, None] & inside[None, :], other=0.0)
        scores = tl.dot(a, tl.trans(b), scores, input_precision=PRECISION)
        if step % n_steps == n_steps - 1:
            scores += tl.load(bias + cluster * places + place, mask=known, other=0.0).to(tl.float32)[None, :]
            scores = tl.where(known[None, :], scores, float("-inf"))
            highest = tl.max(scores, 1)
            higher = tl.maximum(peak, highest)
            total = total * tl.exp(peak - higher) + tl.sum(tl.exp(scores - higher[:, None]), 1)
            peak = higher
            # Exchange the least of the best k for the highest new score as often as any row gains.
            least = tl.min(top, 1)
            n_new = tl.max(tl.sum((scores > least[:, None]).to(tl.int32), 1), 0)
            for _ in range(0, tl.minimum(n_new, K)):
                highest, at_highest = tl.max(scores, 1, return_indices=True)
                at_least = tl.min(tl.where(top == least[:, None], lane[None, :], LANES), 1)
                put = (highest > least)[:, None] & (lane[None, :] == at_least[:, None])
                top = tl.where(put, highest[:, None], top)
                top_place = tl.where(put, (place_0 + at_highest)[:, None], top_place)
                scores = tl.where(column[None, :] == at_highest[:, None], float("-inf"), scores)
                least = tl.min(top, 1)
            scores = tl.zeros([ROWS, CLASSES], tl.float32)
    out = (pair.to(tl.int64) * n_parts + part)[:, None] * K + lane[None, :]
    kept = valid[:, None] & (lane < K)[None, :]
    tl.store(best + out, top, mask=kept)
    tl.store(slot + out, cluster * places + top_place, mask=kept)
    tl.store(log_sums + pair * n_parts + part, peak + tl.log(total), mask=valid)


@triton.jit
def _merge_kernel(
    best, slot, log_sums, shift, value, index, n_candidates, n_sums,
    K: tl.constexpr, CANDIDATES: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    """The best K candidates of one row, best first, less the log of the sum, plus the shift of the row."""
    row = tl.program_id(0).to(tl.int64)
    at, sum_at = tl.arange(0, CANDIDATES), tl.arange(0, SUMS)
    scores = tl.load(best + row * n_candidates + at, mask=at < n_candidates, other=float("-inf"))
    sums = tl.load(log_sums + row * n_sums + sum_at, mask=sum_at < n_sums, other=float("-inf"))
    highest = tl.max(sums, 0)
    norm = highest + tl.log(tl.sum(tl.exp(sums - highest), 0)) - tl.load(shift + row)
    for rank in range(K):
        high, place = tl.max(scores, 0, return_indices=True)
        tl.store(value + row * K + rank, high - norm)
        tl.store(index + row * K + rank, tl.load(slot + row * n_candidates + place).to(tl.int64))
        scores = tl.where(at == place, float("-inf"), scores)


@triton.jit
def _columns_kernel(
    scores, bias, index, log_prob, n_columns, K: tl.constexpr, GROUPS: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    """The best K columns of one row, and the log of their probability together under softmax.

    The highest score of each group of WIDTH columns is kept; only the group that lost its highest is read again.
    """
    row, group, inner = tl.program_id(0).to(tl.int64), tl.arange(0, GROUPS), tl.arange(0, WIDTH)
    own_scores = scores + row * n_columns
    at = group[:, None] * WIDTH + inner[None, :]
    score = tl.load(own_scores + at, mask=at < n_columns, other=float("-inf")).to(tl.float32)
    score += tl.load(bias + at, mask=at < n_columns, other=0.0).to(tl.float32)
    high, place = tl.max(score, 1, return_indices=True)
    highest = tl.max(high, 0)
    total, together = tl.sum(tl.sum(tl.exp(score - highest), 1), 0), 0.0
    for rank in range(K):
        best, g = tl.max(high, 0, return_indices=True)
        i = tl.sum(tl.where(group == g, place, 0), 0)
        # NaN scores may lead beyond the last column
        tl.store(index + row * K + rank, tl.minimum(g * WIDTH + i, n_columns - 1).to(tl.int64))
        together += tl.exp(best - highest)
        column = g * WIDTH + inner
        rest = tl.load(own_scores + column, mask=column < n_columns, other=float("-inf")).to(tl.float32)
        rest += tl.load(bias + column, mask=column < n_columns, other=0.0).to(tl.float32)
        rest = tl.where((rest < best) | ((rest == best) & (inner > i)), rest, float("-inf"))
        next_high, next_place = tl.max(rest, 0, return_indices=True)
        high, place = tl.where(group == g, next_high, high), tl.where(group == g, next_place, place)
    tl.store(log_prob + row, tl.log(together / total))


@triton.jit
def _count_kernel(cluster, count, rank, n, BLOCK: tl.constexpr):
    """The number of pairs of each cluster, and the number of each pair in its cluster."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    own = tl.load(cluster + at, mask=at < n, other=0)
    tl.store(rank + at, tl.atomic_add(count + own, 1, mask=at < n, sem="relaxed"), mask=at < n)


@triton.jit
def _place_kernel(cluster, count, ends, rank, order, n, BLOCK: tl.constexpr):
    """Write each pair to its place in the order."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    own = tl.load(cluster + at, mask=at < n, other=0)
    begin = tl.load(ends + own, mask=at < n, other=0) - tl.load(count + own, mask=at < n, other=0)
    tl.store(order + begin + tl.load(rank + at, mask=at < n, other=0), at, mask=at < n)


def group_by_cluster(cluster: Tensor, n_clusters: int) -> tuple[Tensor, Tensor, Tensor]:
    """(pairs sorted by cluster, in any order within one; where clusters end; the number of pairs of each)."""
    n, whole = cluster.numel(), {"device": cluster.device, "dtype": torch.int32}
    count, rank, order = torch.zeros(n_clusters, **whole), torch.empty(n, **whole), torch.empty(n, **whole)
    grid = (triton.cdiv(n, _BLOCK),)
    _count_kernel[grid](cluster, count, rank, n, BLOCK=_BLOCK)
    ends = torch.cumsum(count, 0, dtype=torch.int32)
    _place_kernel[grid](cluster, count, ends, rank, order, n, BLOCK=_BLOCK)
    return order, ends, count


def shape_of(n_pairs: int, n_clusters: int, places: int) -> tuple[int, int, int, int]:
    """(rows per program, classes scored at a time, units of work at most, parts of a cluster)."""
    rows = 16 if n_pairs <= 16 * n_clusters else 32
    units = n_pairs if n_pairs <= _FEW_PAIRS else min(n_pairs, n_clusters + n_pairs // rows)
    classes = 256 if units > _PROGRAMS else 64
    return rows, classes, units, max(1, min(-(-places // classes), _PROGRAMS // max(1, units)))


def best_in_clusters(
    x: Tensor, weight: Tensor, bias: Tensor, size: Tensor, cluster: Tensor, k: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Candidates (row, candidate), their slots, and logs of sums of exp(score) (row, part of a visited cluster)."""
    (n_rows, visit), (n_clusters, places, d) = cluster.shape, weight.shape
    rows, classes, units, parts = shape_of(n_rows * visit, n_clusters, places)
    grouped = n_rows * visit > _FEW_PAIRS
    if grouped:
        order, ends, count = group_by_cluster(cluster, n_clusters)
        tiles = torch.cumsum((count + (rows - 1)) // rows, 0, dtype=torch.int32)
        unit = torch.arange(units, device=x.device, dtype=torch.int32)
        unit_cluster = torch.searchsorted(tiles, unit, right=True, out_int32=True)  # the first whose tiles end after it
    else:
        order, ends, tiles, unit_cluster = None, None, None, cluster.contiguous()
    best = torch.empty(n_rows, visit * parts * k, device=x.device)
    slot = torch.empty_like(best, dtype=torch.int32)
    log_sums = torch.empty(n_rows, visit * parts, device=x.device)
    _best_kernel[(units, parts)](
        x, weight, bias, size, order, ends, tiles, unit_cluster, best, slot, log_sums,
        n_clusters, parts, visit, d, places,
        K=k, LANES=max(2, triton.next_power_of_2(k)), ROWS=rows, CLASSES=classes, DEPTH=64,
        PRECISION="ieee" if x.dtype == torch.float32 else "tf32", GROUPED=grouped, num_warps=4, num_stages=3,
    )  # fmt: skip
    return best, slot, log_sums


def merge_best(best: Tensor, slot: Tensor, log_sums: Tensor, shift: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(log-probabilities, slots) of the best k candidates of each row."""
    n_rows, n_candidates = best.shape
    value = torch.empty(n_rows, k, device=best.device)
    index = torch.empty_like(value, dtype=torch.int64)
    _merge_kernel[(n_rows,)](
        best, slot, log_sums, shift, value, index, n_candidates, log_sums.shape[1],
        K=k, CANDIDATES=triton.next_power_of_2(n_candidates), SUMS=triton.next_power_of_2(log_sums.shape[1]),
        num_warps=1 if n_candidates <= 256 else 4,
    )  # fmt: skip
    return value, index


@torch.library.custom_op("manyclass::best_columns", mutates_args=())
def best_columns(scores: Tensor, bias: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best columns of each row of scores + bias, best first, and the log of their probability together."""
    n_rows, n_columns = scores.shape
    index = torch.empty(n_rows, k, device=scores.device, dtype=torch.int64)
    log_prob = torch.empty(n_rows, device=scores.device)
    groups = max(2, triton.next_power_of_2(triton.cdiv(n_columns, _GROUP)))
    _columns_kernel[(n_rows,)](
        scores.contiguous(), bias, index, log_prob, n_columns,
        K=k, GROUPS=groups, WIDTH=_GROUP, num_warps=1 if groups <= 64 else 4 if groups <= 256 else 8,
    )  # fmt: skip
    return index, log_prob


@best_columns.register_fake
def _(scores, bias, k):
    index = torch.empty(scores.shape[0], k, device=scores.device, dtype=torch.int64)
    return index, torch.empty(scores.shape[0], device=scores.device)


@torch.library.custom_op("manyclass::fused_topk", mutates_args=())
def fused_topk(
    x: Tensor, router: Tensor, router_bias: Tensor, weight: Tensor, bias: Tensor, size: Tensor, visit: int, k: int
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and slots of the best k classes of the `visit` best clusters."""
    x = x.contiguous()
    half = x.is_cuda and x.dtype != torch.float32
    scores = torch.mm(x, router.T, out_dtype=torch.float32) if half else x @ router.T
    cluster, log_visited = best_columns(scores, router_bias, visit)
    return merge_best(*best_in_clusters(x, weight, bias, size, cluster, k), log_visited, k)


@fused_topk.register_fake
def _(x, router, router_bias, weight, bias, size, visit, k):
    value = x.new_empty(x.shape[0], k, dtype=torch.float32)
    return value, value.new_empty(value.shape, dtype=torch.int64)


# -- training ----------------------------------------------------------------------------------------------------------


@triton.jit
def _log_sums_kernel(scores, bias, size, cluster, order, log_sums, places, PLACES: tl.constexpr):
    """The log of the sum of exp(score) of one pair."""
    at, place = tl.program_id(0).to(tl.int64), tl.arange(0, PLACES)
    pair = tl.load(order + at)
    own = tl.load(cluster + pair)
    known = place < tl.load(size + own)
    score = tl.load(scores + at * places + place, mask=known, other=float("-inf")).to(tl.float32)
    score += tl.load(bias + own * places + place, mask=known, other=0.0).to(tl.float32)
    highest = tl.max(score, 0)
    tl.store(log_sums + pair, highest + tl.log(tl.sum(tl.exp(score - highest), 0)))


@triton.jit
def _gradients_kernel(
    scores, bias, size, cluster, order, slot, log_sums, by_sum, by_own, out, places, visit, PLACES: tl.constexpr
):  # fmt: skip
    """The gradients of the scores of one pair."""
    at, place = tl.program_id(0).to(tl.int64), tl.arange(0, PLACES)
    pair = tl.load(order + at)
    own = tl.load(cluster + pair)
    known = place < tl.load(size + own)
    score = tl.load(scores + at * places + place, mask=known, other=float("-inf")).to(tl.float32)
    score += tl.load(bias + own * places + place, mask=known, other=0.0).to(tl.float32)
    down = tl.exp(score - tl.load(log_sums + pair)) * tl.load(by_sum + pair)
    row = pair // visit
    down += tl.where(tl.load(slot + row) == own * places + place, tl.load(by_own + row), 0.0)
    tl.store(out + at * places + place, tl.where(known, down, 0.0), mask=place < places)


@triton.jit
def _column_sums_kernel(values, ends, out, places, ROWS: tl.constexpr, PLACES: tl.constexpr):
    """Sums of the columns of one cluster."""
    own, place = tl.program_id(0), tl.program_id(1) * PLACES + tl.arange(0, PLACES)
    begin, end = tl.load(ends + own - 1, mask=own > 0, other=0), tl.load(ends + own)
    total = tl.zeros([PLACES], tl.float32)
    for first in range(begin, end, ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row < end)[:, None] & (place < places)[None, :]
        part = tl.load(values + row.to(tl.int64)[:, None] * places + place[None, :], mask=inside, other=0.0)
        total += tl.sum(part.to(tl.float32), 0)
    tl.store(out + own * places + place, total, mask=place < places)


@triton.jit
def _outer_kernel(
    down, x, row, ends, out, places, d, PLACES: tl.constexpr, DEPTH: tl.constexpr, ROWS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """One tile (place, feature) of the gradient of the weights of one cluster."""
    own = tl.program_id(0).to(tl.int64)
    place, depth = tl.program_id(1) * PLACES + tl.arange(0, PLACES), tl.program_id(2) * DEPTH + tl.arange(0, DEPTH)
    begin, end = tl.load(ends + own - 1, mask=own > 0, other=0), tl.load(ends + own)
    total = tl.zeros([PLACES, DEPTH], tl.float32)
    for first in range(begin, end, ROWS):
        at = first + tl.arange(0, ROWS)
        valid = at < end
        x_row = tl.load(row + at, mask=valid, other=0)
        a_at = down + at.to(tl.int64)[:, None] * places + place[None, :]
        a = tl.load(a_at, mask=valid[:, None] & (place < places)[None, :], other=0.0)
        b = tl.load(x + x_row[:, None] * d + depth[None, :], mask=valid[:, None] & (depth < d)[None, :], other=0.0)
        total = tl.dot(tl.trans(a), b, total, input_precision=PRECISION)
    out_at = out + own * places * d + place.to(tl.int64)[:, None] * d + depth[None, :]
    tl.store(out_at, total, mask=(place < places)[:, None] & (depth < d)[None, :])


def weight_gradients(down: Tensor, x: Tensor, row: Tensor, ends: Tensor) -> Tensor:
    """Sums over the pairs of each cluster of down (pair, place) x the row of the pair: (cluster, place, feature)."""
    n_clusters, places, d = len(ends), down.shape[1], x.shape[1]
    out = torch.empty(n_clusters, places, d, device=x.device, dtype=down.dtype)
    size = 64 if x.dtype == torch.float32 else 128
    _outer_kernel[(n_clusters, triton.cdiv(places, size), triton.cdiv(d, size))](
        down, x, row, ends, out, places, d, PLACES=size, DEPTH=size, ROWS=32,
        PRECISION="ieee" if x.dtype == torch.float32 else "tf32", num_warps=4, num_stages=3,
    )  # fmt: skip
    return out


def pair_log_sums(scores: Tensor, bias: Tensor, size: Tensor, cluster: Tensor, order: Tensor) -> Tensor:
    """The log of the sum of exp(score + bias) of each pair, in the order of `cluster`; scores are sorted."""
    out, places = torch.empty(len(order), device=scores.device), scores.shape[1]
    _log_sums_kernel[(len(order),)](
        scores, bias, size, cluster, order, out, places, PLACES=triton.next_power_of_2(places)
    )
    return out


def score_gradients(
    scores: Tensor, bias: Tensor, size: Tensor, cluster: Tensor, order: Tensor, slot: Tensor,
    log_sums: Tensor, by_sum: Tensor, by_own: Tensor,
) -> Tensor:  # fmt: skip
    """Gradients of the scores from those of the logs of sums (row, visit) and of the score of one class per row."""
    out, places = torch.empty_like(scores), scores.shape[1]
    _gradients_kernel[(len(order),)](
        scores, bias, size, cluster, order, slot, log_sums, by_sum.contiguous(), by_own.contiguous(), out, places,
        cluster.shape[1], PLACES=triton.next_power_of_2(places),
    )  # fmt: skip
    return out


def column_sums(values: Tensor, ends: Tensor) -> Tensor:
    """Sums of the columns of `values` (pair, place) for each cluster."""
    out = torch.empty(len(ends), values.shape[1], device=values.device)
    grid = (len(ends), triton.cdiv(values.shape[1], _COLUMNS))
    _column_sums_kernel[grid](values, ends, out, values.shape[1], ROWS=32, PLACES=_COLUMNS)
    return out
