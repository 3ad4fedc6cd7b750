"""The fused kernel gives the numbers of the plain path: in Triton's interpreter, and on a GPU where there is one."""

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra [torch])")
triton = pytest.importorskip("triton", reason="Triton is not installed")

CHECK = """
import sys
import torch
from manyclass.torch import TreeHead
from manyclass.torch import fused
from manyclass.torch.grouped import group_pairs, masked_scores
from manyclass.torch.head import best_clusters
from manyclass.torch.search import plain_topk

device, kind = sys.argv[1], getattr(torch, sys.argv[2])
for n_classes, d, n_rows, visit, k, size in [
    (500, 24, 20, 3, 5, 64), (500, 64, 1, 2, 1, 300), (90, 70, 17, 4, 16, 16), (700, 16, 5, 5, 3, 160),
    (1500, 16, 9, 20, 4, 16), (400, 32, 200, 3, 5, 64),  # the last has enough pairs to be grouped
]:
    torch.manual_seed(n_classes + d)
    head = TreeHead(d, n_classes, cluster_size=size, visit=visit, device=device, dtype=kind)
    x = 3 * torch.randn(n_rows, d, device=device, dtype=kind)
    visit = min(visit, head.n_clusters)
    weight, bias = head.weight.detach(), head.bias.detach()
    arguments = x, head.router.weight.detach(), head.router.bias.detach(), weight, bias, head.size, visit, k
    (best, slot), (best_2, slot_2) = fused.fused_topk(*arguments), plain_topk(*arguments)
    assert torch.allclose(best, best_2, atol=1e-4, rtol=1e-4)
    assert (slot == slot_2).float().mean() > 0.99  # ties of rounding

    cluster = best_clusters(head._log_clusters(x), visit)
    order, ends = group_pairs(cluster, head.n_clusters)
    order_2, ends_2, count = fused.group_by_cluster(cluster, head.n_clusters)
    assert torch.equal(ends, ends_2) and torch.equal(ends.diff(), count[1:])
    assert torch.equal(cluster.flatten()[order], cluster.flatten()[order_2.long()])
    assert torch.equal(order.sort().values, order_2.long().sort().values)

    sorted_cluster, places = cluster.flatten()[order], weight.shape[1]
    scores = torch.randn(len(order), places, device=device, dtype=kind)
    full = masked_scores(scores, bias, head.size, sorted_cluster)
    log_sums = fused.pair_log_sums(scores, bias, head.size, cluster, order)
    assert torch.allclose(log_sums[order], full.logsumexp(1), atol=1e-4)
    slot = cluster[:, 0] * places + 3
    by_sum, by_own = torch.randn(n_rows, visit, device=device), torch.randn(n_rows, device=device)
    down = fused.score_gradients(scores, bias, head.size, cluster, order, slot, log_sums, by_sum, by_own).float()
    expected = full.softmax(1) * by_sum.flatten()[order][:, None]
    expected[(order % visit == 0).nonzero().squeeze(1), 3] += by_own[order[order % visit == 0] // visit]
    near = dict(atol=1e-5, rtol=1e-4) if kind == torch.float32 else dict(atol=1e-2, rtol=1e-2)
    assert torch.allclose(down, expected, **near)
    gradient = fused.weight_gradients(down.to(kind), x, order // visit, ends).float()
    for own, (begin, end) in enumerate(zip([0, *ends.tolist()], ends.tolist())):
        by_hand = down[begin:end].T @ x[order[begin:end] // visit].float()
        assert torch.allclose(gradient[own], by_hand, atol=20 * near["atol"], rtol=near["rtol"])
    sums = torch.zeros(head.n_clusters, places, device=device).index_add_(0, sorted_cluster, down)
    assert torch.allclose(fused.column_sums(down.to(kind), ends), sums, **near)
print("same")
"""


def check(device, kind, **env):
    command = [sys.executable, "-c", CHECK, device, kind]
    run = subprocess.run(command, capture_output=True, text=True, env=os.environ | env)
    assert run.stdout.strip() == "same", run.stderr


# The interpreter of Triton 3.6 fails with NumPy 2.5.
@pytest.mark.slow
@pytest.mark.skipif(tuple(map(int, triton.__version__.split(".")[:2])) < (3, 7), reason="needs Triton 3.7")
def test_in_the_interpreter():
    check("cpu", "float32", TRITON_INTERPRET="1")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16"])
def test_on_the_gpu(kind):
    check("cuda", kind)
