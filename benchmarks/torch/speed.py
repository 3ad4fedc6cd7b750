"""Time and memory of TreeHead beside other output layers, and agreement with exact predictions on trained weights.

    python benchmarks/torch/speed.py DATA --out speed.json       (DATA as written by prepare.py; needs a CUDA device)

Weights with a million classes are trained on real text: the class is one of the million most frequent pairs of the
next two words of enwik8, the input is the eight words before. Times are medians; "graph" replays a CUDA graph.
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import triton
from torch import nn

from manyclass.torch import TreeHead
from manyclass.torch.head import cluster_classes, n_parts, places_for, score_vectors

D, BATCH, K, CONTEXT = 512, 4096, 1_000_000, 8
SIZES = (256, 1024)  # of clusters; clusters of 1,024 are four of 256
VISITS = (1, 2, 4, 8, 16, 20, 24, 28, 32)
CURVE = (10_000, 100_000, 1_000_000, 10_000_000)
NEGATIVES, STEPS, RATE, N_INPUTS = 8192, 1200, 1e-3, 262_144
CUTOFFS = [2_000, 20_000, 200_000]  # of the adaptive softmax
BF16 = {"device": "cuda", "dtype": torch.bfloat16}


def median(function: Callable) -> float:
    """Milliseconds; the cache is flushed between calls."""
    return float(triton.testing.do_bench(function, warmup=20, rep=100, return_mode="median"))


def graphed(function: Callable) -> Callable:
    """The function as a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


def peak(function: Callable) -> float:
    """GiB allocated at most during a call, with everything that is there already."""
    function()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    function()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 2**30


def exact_topk(x, weight, bias, k=5, block=1024):
    """Exact top-k in two stages, faster than `topk` over all classes: the best k blocks of classes first."""
    scores = torch.addmm(bias, x, weight.T)
    blocks = scores.view(len(x), -1, block)
    best = blocks.amax(2).topk(k).indices
    values, at = blocks.gather(1, best[:, :, None].expand(-1, -1, block)).flatten(1).topk(k)
    return values, best.gather(1, at // block) * block + at % block


# -- training steps ----------------------------------------------------------------------------------------------------


def sampled_loss(linear, x, target):
    """Softmax over the target and the same random classes for all rows, uniform, corrected by log of the rate."""
    n_classes = len(linear.weight)
    negative = torch.randint(n_classes, (NEGATIVES,), device=x.device)
    both = torch.cat([target, negative])  # one look-up, so that there is one gradient of the weights
    weight, bias = linear.weight[both], linear.bias[both]
    own = (x * weight[: len(x)]).sum(1) + bias[: len(x)]
    others = torch.addmm(bias[len(x) :], x, weight[len(x) :].T) + np.log(n_classes / NEGATIVES)
    others = others.masked_fill(negative == target[:, None], -torch.inf)
    scores = torch.cat([own[:, None], others], 1).float()
    return nn.functional.cross_entropy(scores, torch.zeros_like(target))


def training_steps(n_classes: int) -> dict:
    """Milliseconds and GiB of forward and backward, without and with Adam, for all layers."""
    x = torch.randn(BATCH, D, **BF16).requires_grad_()
    target = torch.randint(n_classes, (BATCH,), device="cuda")
    skewed = (n_classes ** torch.rand(BATCH, device="cuda")).long().clamp(max=n_classes - 1)  # Zipf
    out = {}

    def measure(name, layer, loss, graph=False):
        def step():
            layer.zero_grad(set_to_none=True)
            x.grad = None
            loss().backward()

        weights = sum(p.numel() * p.element_size() for p in layer.parameters()) / 2**30
        others = torch.cuda.memory_allocated() / 2**30 - weights  # what is not of this layer
        try:
            out[name] = {"GiB": peak(step) - others, "weights GiB": weights, "ms": median(step)}
            if graph:
                out[name]["graph ms"] = median(graphed(step))
                optimizer = torch.optim.Adam(layer.parameters(), lr=1e-6, fused=True, capturable=True)

                def with_adam():
                    step()
                    optimizer.step()

                out[name]["Adam GiB"] = peak(with_adam) - others
                out[name]["Adam ms"] = min(median(with_adam), median(graphed(with_adam)))
                del optimizer, with_adam
        except torch.OutOfMemoryError:
            out[name] = {"failed": "out of memory"}
        layer.zero_grad(set_to_none=True)
        x.grad = None
        gc.collect()
        torch.cuda.empty_cache()
        print("training", n_classes, name, out[name], flush=True)

    if n_classes <= K:
        linear = nn.Linear(D, n_classes, **BF16)

        def full():
            return nn.functional.cross_entropy(linear(x), target)

        measure("full softmax", linear, full, graph=True)
        if n_classes == K:
            measure("full softmax, torch.compile", linear, torch.compile(full))
            measure("sampled softmax, 8,192 negatives", linear, lambda: sampled_loss(linear, x, target), graph=True)
            adaptive = nn.AdaptiveLogSoftmaxWithLoss(D, n_classes, CUTOFFS, **BF16)
            measure("adaptive softmax, skewed classes", adaptive, lambda: adaptive(x, skewed).loss)
            del adaptive
            torch.compiler.reset()
        del linear, full
        torch.cuda.empty_cache()
    head = TreeHead(D, n_classes, cluster_size=size_for(n_classes), **BF16)
    measure("TreeHead, visit=8", head, lambda: head(x, target).loss, graph=head.n_clusters <= 1000)
    return out


# -- predictions -------------------------------------------------------------------------------------------------------


def size_for(n_classes: int) -> int | None:
    """Size of clusters: 1,024 for a million classes, so that there are fewer than 1,000."""
    return 1024 if n_classes == K else None


def head_times(head: TreeHead, x, one) -> dict:
    """Milliseconds of the best 5 classes of many rows and of one row."""
    return {
        "eager": median(lambda: head.topk(x, 5)),
        "graph": median(graphed(lambda: head.topk(x, 5))),
        "one row, eager": median(lambda: head.topk(one, 5)),
        "one row, graph": median(graphed(lambda: head.topk(one, 5))),
    }


@torch.no_grad()
def predictions(n_classes: int) -> dict:
    """Milliseconds of the best 5 classes of 4,096 rows and of one row."""
    x, out = torch.randn(BATCH, D, **BF16), {}
    one = x[:1].clone()
    out["TreeHead, visit=8"] = head_times(TreeHead(D, n_classes, cluster_size=size_for(n_classes), **BF16), x, one)
    if n_classes <= K:
        blocks = -(-n_classes // 1024) * 1024
        linear = nn.Linear(D, blocks, **BF16)
        weight, bias = linear.weight, linear.bias
        out["full, matmul and topk"] = {
            "eager": median(lambda: linear(x).topk(5)),
            "one row, eager": median(lambda: linear(one).topk(5)),
            "one row, graph": median(graphed(lambda: linear(one).topk(5))),
        }
        out["full, two stages"] = {
            "eager": median(lambda: exact_topk(x, weight, bias)),
            "one row, graph": median(graphed(lambda: exact_topk(one, weight, bias))),
        }
        if n_classes == K:
            compiled = torch.compile(lambda rows: exact_topk(rows, weight, bias))
            out["full, two stages"]["compiled"] = median(lambda: compiled(x))
            del linear, weight, bias, compiled
            torch.compiler.reset()
            adaptive = nn.AdaptiveLogSoftmaxWithLoss(D, n_classes, CUTOFFS, **BF16)
            out["adaptive softmax, the best class only"] = {
                "eager": median(lambda: adaptive.predict(x)),
                "one row, eager": median(lambda: adaptive.predict(one)),
            }
            out["adaptive softmax, log_prob and topk"] = {
                "eager": median(lambda: adaptive.log_prob(x).topk(5)),
                "one row, eager": median(lambda: adaptive.log_prob(one).topk(5)),
            }
    for name, row in out.items():
        print("prediction", n_classes, name, row, flush=True)
    return out


# -- a million classes, trained ----------------------------------------------------------------------------------------


class Context(nn.Module):
    """The words before, concatenated, and one hidden layer."""

    def __init__(self, n_words: int):
        super().__init__()
        self.words = nn.Embedding(n_words, D // CONTEXT)
        self.layers = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D), nn.LayerNorm(D))

    def forward(self, words):
        """Encode (row, word)."""
        return self.layers(self.words(words).flatten(1))


def pairs_of(tokens: np.ndarray, n_words: int, known: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """(positions of rows, classes) of the rows whose next two words are a known pair."""
    key = tokens[CONTEXT:-1].astype(np.int64) * n_words + tokens[CONTEXT + 1 :]
    at = np.searchsorted(known, key)
    found = known[np.minimum(at, len(known) - 1)] == key
    return torch.as_tensor(np.flatnonzero(found), device="cuda"), torch.as_tensor(at[found], device="cuda")


def trained_weights(folder: Path, n_steps: int) -> tuple[nn.Linear, torch.Tensor, torch.Tensor, dict]:
    """(a linear layer with a million classes trained on pairs of words, inputs to calibrate, inputs to test)."""
    with np.load(folder / "enwik8.npz") as file:
        train, test = file["train"], file["test"]
    n_words = int(max(train.max(), test.max())) + 1
    key, count = np.unique(train[CONTEXT:-1].astype(np.int64) * n_words + train[CONTEXT + 1 :], return_counts=True)
    known = np.sort(key[np.argsort(-count, kind="stable")[:K]])
    words, test_words = (torch.as_tensor(part.astype(np.int64), device="cuda") for part in (train, test))
    rows, classes = pairs_of(train, n_words, known)
    test_rows, test_classes = pairs_of(test, n_words, known)
    window = torch.arange(CONTEXT, device="cuda")
    torch.manual_seed(0)
    encoder, linear = Context(n_words).cuda(), nn.Linear(D, K, device="cuda")
    optimizer = torch.optim.Adam([*encoder.parameters(), *linear.parameters()], lr=RATE, fused=True)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, n_steps)
    order = torch.randperm(len(rows), device="cuda")
    start = time.perf_counter()
    for step in range(n_steps):
        part = order[(step * BATCH) % (len(order) - BATCH) :][:BATCH]
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(linear(encoder(words[rows[part, None] + window])), classes[part])
        loss.backward()
        optimizer.step()
        schedule.step()
    last_loss = loss.item()
    seconds = time.perf_counter() - start
    del optimizer, loss
    linear.zero_grad(set_to_none=True)
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        inputs = torch.cat([encoder(words[rows[p, None] + window]).bfloat16() for p in order[-N_INPUTS:].split(8192)])
        pick = torch.randperm(len(test_rows), device="cuda")[:16384]
        tested = encoder(test_words[test_rows[pick, None] + window]).bfloat16()
        linear = linear.bfloat16()
        right = torch.cat([linear(part).argmax(1) for part in tested.split(1024)]) == test_classes[pick]
    about = {"steps": n_steps, "loss": last_loss, "accuracy": float(right.float().mean()), "seconds": seconds,
             "rows": len(rows), "share of test rows": len(test_rows) / (len(test) - CONTEXT - 1)}  # fmt: skip
    print("trained", about, flush=True)
    return linear, inputs, tested, about


@torch.no_grad()
def agreement(linear: nn.Linear, inputs, tested) -> list[dict]:
    """Top-1 agreement and top-5 recall with exact predictions (sums in float32), and the times of predictions."""
    weight, bias = _padded(linear)
    exact = torch.cat([_best_5(part, linear) for part in tested.split(1024)])
    x, one, out = tested[:BATCH].contiguous(), tested[:1].clone(), []
    full = median(lambda: exact_topk(x, weight, bias))
    start = time.perf_counter()
    fine = cluster_classes(score_vectors(linear.weight, linear.bias, inputs), 4 * n_parts(K, 1024), 0)
    seconds = time.perf_counter() - start
    print("clustering", seconds, flush=True)
    for size in SIZES:
        groups = fine if size == SIZES[0] else [np.concatenate(fine[at : at + 4]) for at in range(0, len(fine), 4)]
        head = wrapped(linear, inputs, groups, size)
        for visit in VISITS:
            head.visit = visit
            found = torch.cat([head.topk(part, 5)[1] for part in tested.split(BATCH)])
            times = head_times(head, x, one)
            row = {"clusters": head.n_clusters, "places": head.weight.shape[1], "visit": visit,
                   "top-1": float((found[:, 0] == exact[:, 0]).float().mean()),
                   "top-5 recall": float((found[:, :, None] == exact[:, None]).any(1).float().mean()),
                   "share scored": head.cost(x)["share_scored"], "ms": times, "exact ms": full,
                   "clustering s": seconds}  # fmt: skip
            out.append(row)
            print(row, flush=True)
    return out


def _best_5(x, linear: nn.Linear) -> torch.Tensor:
    """The exact five best classes."""
    return (torch.mm(x, linear.weight.T, out_dtype=torch.float32) + linear.bias).topk(5).indices


def wrapped(linear: nn.Linear, inputs, groups: list[np.ndarray], size: int) -> TreeHead:
    """What `TreeHead.from_linear` returns, with clusters that are given."""
    head = TreeHead(D, K, cluster_size=size, **BF16).eval()
    head._arrange(groups, places_for(K, size))
    head.weight.flatten(0, 1)[head.slot_of] = linear.weight
    head.bias.flatten()[head.slot_of] = linear.bias
    head.router = nn.Linear(D, len(groups), **BF16)
    head.fit_routers(inputs)
    return head


def _padded(linear: nn.Linear) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and biases with classes up to a multiple of 1,024 that never win."""
    more = -len(linear.weight) % 1024
    bias = nn.functional.pad(linear.bias.detach(), (0, more), value=-1e4)
    return nn.functional.pad(linear.weight.detach(), (0, 0, 0, more)), bias


def main() -> None:
    """Write all results as JSON, after each part."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=STEPS, help=f"of training with a million classes ({STEPS})")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("skipped: speed.py needs a CUDA device")
        sys.exit(0)
    out: dict = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}

    def keep(name, value):
        out.setdefault(name, {}).update(value)
        args.out.write_text(json.dumps(out, indent=1))
        gc.collect()
        torch.cuda.empty_cache()

    for n_classes in (K, *CURVE):
        if str(n_classes) not in out.get("training", {}):
            keep("prediction", {str(n_classes): predictions(n_classes)})
            keep("training", {str(n_classes): training_steps(n_classes)})
        if "trained" not in out:  # before the curve
            linear, inputs, tested, about = trained_weights(args.data, args.steps)
            keep("trained", about)
            keep("agreement", {"rows": agreement(linear, inputs, tested)})
            del linear, inputs, tested
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
