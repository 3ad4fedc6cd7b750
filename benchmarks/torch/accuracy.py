"""Accuracy and log-loss of TreeHead beside the full softmax on real data, new classes, and wrapped linear layers.

    python benchmarks/torch/accuracy.py DATA --out accuracy.json       (DATA as written by prepare.py)

Both heads get the same encoder, epochs, batches and learning rates to choose from; the learning rate is chosen by the
log-loss on training rows that are held out. Times are of whole training steps in eager mode with bfloat16 autocast.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from bags import BagEncoder, FullHead, TextEncoder, load_bags
from torch import nn

from manyclass.torch import TreeHead

WIDTH = 512
SETS = {  # epochs, batch, learning rates
    "wordnet-hypernym": (8, 256, (5e-4, 1e-3, 2e-3)),
    "revdict": (6, 512, (5e-4, 1e-3, 2e-3)),
    "debian-contents": (4, 1024, (1e-3, 2e-3)),
}
HEADS = {"full softmax": None, "TreeHead, visit=8": 8, "TreeHead, visit=32": 32}
VISITS = (1, 2, 4, 8, 16, 32, 64)
STREAMS, LENGTH, TEXT_RATES, TEXT_STEPS = 64, 64, (1e-3, 2e-3, 4e-3), 300
HELD_OUT, NEW, N_INPUTS = 0.1, 0.1, 131_072


def make_head(kind: str, n_classes: int, vectors) -> nn.Module:
    """A head by its name in HEADS."""
    if HEADS[kind] is None:
        return FullHead(WIDTH, n_classes)
    return TreeHead(WIDTH, n_classes, visit=HEADS[kind], class_vectors=vectors)


class Clock:
    """Milliseconds per step, without the first steps."""

    def __init__(self, device, skip=20):
        self.device, self.skip, self.n, self.start = device, skip, 0, 0.0

    def tick(self) -> None:
        """A step ends."""
        self.n += 1
        if self.n == self.skip:
            self.start = self._now()

    def _now(self) -> float:
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def milliseconds(self) -> float:
        """The mean so far."""
        return 1000 * (self._now() - self.start) / max(1, self.n - self.skip)


class Run:
    """One training run: encoder and head, optimizer and learning rate."""

    def __init__(self, encoder, head, rate, n_steps, device, constant=False):
        self.encoder, self.head, self.device = encoder.to(device), head.to(device), device
        parameters = [*encoder.parameters(), *head.parameters()]
        self.optimizer = torch.optim.Adam(parameters, lr=rate, fused=device == "cuda")
        warm = max(1, n_steps // 20)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer,
            lambda step: min(1.0, (step + 1) / warm) * (1.0 if constant else max(0.0, 1 - step / n_steps)),
        )
        self.clock = Clock(device)

    def step(self, inputs, target):
        """One step; returns what the encoder returns beside the rows."""
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, torch.bfloat16):
            x, *rest = _as_tuple(self.encoder(*inputs))
            loss = self.head(x, target)[1]
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.clock.tick()
        return rest

    @torch.no_grad()
    def encode(self, data, rows) -> torch.Tensor:
        """Encoded rows of bags."""
        self.encoder.eval()
        with torch.autocast(self.device, torch.bfloat16):
            out = torch.cat([self.encoder(*data.batch(part)).bfloat16() for part in rows.split(2048)])
        self.encoder.train()
        return out

    @torch.no_grad()
    def test(self, batches) -> tuple[np.ndarray, float]:
        """(whether each prediction is right, log-loss) on batches of (encoded rows, classes)."""
        self.head.eval()
        right, losses = [], []
        with torch.autocast(self.device, torch.bfloat16):
            for x, target in batches:
                right.append(self.head.predict(x) == target)
                losses.append(-self.head(x, target)[0].float())
        self.head.train()
        return torch.cat(right).cpu().numpy(), float(torch.cat(losses).mean())

    def test_bags(self, data, rows) -> tuple[np.ndarray, float]:
        """The same for rows of bags."""
        return self.test((self.encode(data, part), data.label[part]) for part in rows.split(2048))


def _as_tuple(out) -> tuple:
    return out if isinstance(out, tuple) else (out,)


def train_bags(run: Run, data, rows, batch: int, n_epochs: int, seed: int = 0) -> Run:
    """Epochs over shuffled rows."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(n_epochs):
        for part in rows[torch.randperm(len(rows), generator=generator).to(rows.device)].split(batch):
            run.step(data.batch(part), data.label[part])
    return run


def bag_run(kind, bags, rate, n_steps, device, constant=False, n_classes=None) -> Run:
    """A new run on rows of words; all kinds start from the same encoder."""
    _, _, n_words, all_classes, vectors = bags
    torch.manual_seed(0)
    encoder = BagEncoder(n_words)
    n_classes = all_classes if n_classes is None else n_classes
    return Run(encoder, make_head(kind, n_classes, vectors[:n_classes]), rate, n_steps, device, constant)


def compare_on_bags(name: str, bags, args) -> tuple[dict, dict]:
    """Results of all heads on one set, and the trained runs."""
    n_epochs, batch, rates = SETS[name]
    if args.quick:
        n_epochs, rates = 1, rates[:1]
    data, test, _, n_classes, _ = bags
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(1)).to(args.device)
    n_held = int(HELD_OUT * len(data))
    held, learned = order[:n_held], order[n_held:]
    n_steps = n_epochs * -(-len(learned) // batch)
    every = torch.arange(len(test), device=args.device)
    results, runs = {}, {}
    for kind in HEADS:
        best = None
        for rate in rates:
            run = train_bags(bag_run(kind, bags, rate, n_steps, args.device), data, learned, batch, n_epochs)
            milliseconds = run.clock.milliseconds()
            right, loss = run.test_bags(data, held)
            if best is None or loss < best[0]:
                best = loss, rate, run, float(right.mean())
        loss, rate, run, held_accuracy = best
        right, test_loss = run.test_bags(test, every)
        results[kind] = {
            "accuracy": float(right.mean()), "log-loss": test_loss, "rate": rate, "held-out": held_accuracy,
            "held-out log-loss": loss, "step ms": milliseconds, "n_test": len(right), "epochs": n_epochs,
        }  # fmt: skip
        if HEADS[kind]:
            results[kind]["cost"] = run.head.cost(run.encode(test, every[:2048]).float())
        runs[kind] = run
        print(name, n_classes, kind, results[kind], flush=True)
    return results, runs


def once_more(name: str, bags, kept: dict, args) -> dict:
    """With the learning rates already chosen: steps timed, wrapped layers, other numbers of clusters, rebuilt heads."""
    n_epochs, batch, _ = SETS[name]
    data, test = bags[:2]
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(1)).to(args.device)
    learned = order[int(HELD_OUT * len(data)) :]
    n_steps = n_epochs * -(-len(learned) // batch)
    tested = torch.arange(min(25_000, len(test)), device=args.device)
    out: dict = {}

    def trained(kind, n_first=0):
        run = bag_run(kind, bags, kept[kind]["rate"], n_steps, args.device)
        if n_first:
            train_bags(run, data, learned, batch, n_first)
            run.head.rebuild(run.encode(data, learned[:N_INPUTS]).float(), optimizer=run.optimizer)
        return train_bags(run, data, learned, batch, n_epochs - n_first, seed=n_first)

    for kind in HEADS:
        run = trained(kind)
        kept[kind]["step ms"] = run.clock.milliseconds()
        if HEADS[kind] is None:
            out["wrapped"] = agreement(run.head.linear, run.encode(data, learned[:N_INPUTS]), run.encode(test, tested),
                                       (None, 64))  # fmt: skip
        else:
            out[kind] = at_other_visits(run, (run.encode(test, tested), test.label[tested]))
    run = trained("TreeHead, visit=32", 1)
    out["TreeHead, visit=32, rebuilt after the first epoch"] = at_other_visits(
        run, (run.encode(test, tested), test.label[tested])
    )
    print(name, {kind: row["step ms"] for kind, row in kept.items()}, out, flush=True)
    return out


def at_other_visits(run: Run, rows) -> dict:
    """Accuracy and log-loss if other numbers of clusters are visited after training."""
    before, out = run.head.visit, {}
    for visit in (4, 8, 16, 32, 64, 128):
        run.head.visit = visit
        right, loss = run.test(zip(rows[0].split(2048), rows[1].split(2048), strict=True))
        out[visit] = {"accuracy": float(right.mean()), "log-loss": loss}
    run.head.visit = before
    return out


def new_classes(name: str, bags, rate: float, args) -> dict:
    """The last tenth of the classes arrives in the last epoch. Constant learning rate."""
    n_epochs, batch, _ = SETS[name]
    n_epochs = 2 if args.quick else n_epochs
    data, test, n_words, n_classes, vectors = bags
    shuffled = np.random.default_rng(0).permutation(n_classes)  # the new classes are the last ones
    number = torch.as_tensor(np.argsort(shuffled), device=args.device)
    saved = data.label, test.label
    data.label, test.label = number[data.label], number[test.label]
    bags = (data, test, n_words, n_classes, vectors[shuffled])
    n_old = n_classes - int(NEW * n_classes)
    every, old = torch.arange(len(data), device=args.device), (data.label < n_old).nonzero().squeeze(1)
    n_steps = n_epochs * -(-len(data) // batch)
    results = {}
    for kind, late in ((k, late) for k in ("full softmax", "TreeHead, visit=8") for late in (False, True)):
        grows = late and HEADS[kind] is not None
        run = bag_run(kind, bags, rate, n_steps, args.device, True, n_old if grows else None)
        train_bags(run, data, old if late else every, batch, n_epochs - 1)
        if grows:
            new = (data.label >= n_old).nonzero().squeeze(1)
            x = run.encode(data, new).float()
            place = data.label[new] - n_old
            sums = torch.zeros(n_classes - n_old, WIDTH, device=args.device).index_add_(0, place, x)
            run.head.add_classes(n_classes - n_old, sums / place.bincount(minlength=len(sums)).clamp(min=1)[:, None],
                                 optimizer=run.optimizer)  # fmt: skip
        train_bags(run, data, every, batch, 1, seed=1)
        right, loss = run.test_bags(test, torch.arange(len(test), device=args.device))
        is_old = (test.label < n_old).cpu().numpy()
        what = f"{kind}, {'new classes in the last epoch' if late else 'all classes from the start'}"
        results[what] = {"old": float(right[is_old].mean()), "new": float(right[~is_old].mean()), "log-loss": loss}
        print(name, what, results[what], flush=True)
    data.label, test.label = saved
    return results


def agreement(linear: nn.Linear, inputs, rows, sizes) -> list[dict]:
    """Top-1 agreement and top-5 recall of wrapped linear layers with exact predictions, for ever more clusters."""
    linear, out = linear.bfloat16(), []
    weight, bias = linear.weight.detach().float(), linear.bias.detach().float()
    exact = torch.cat([torch.addmm(bias, part.float(), weight.T).topk(5).indices for part in rows.split(512)])
    for size in sizes:
        head = TreeHead.from_linear(linear, inputs, cluster_size=size).eval()
        for visit in VISITS:
            head.visit = visit
            found = torch.cat([head.topk(part, 5)[1] for part in rows.split(2048)])
            same = (found[:, 0] == exact[:, 0]).float().mean()
            recall = (found[:, :, None] == exact[:, None]).any(1).float().mean()
            out.append(
                {"clusters": head.n_clusters, "places": head.weight.shape[1], "visit": visit, "top-1": float(same),
                 "top-5 recall": float(recall), "share scored": head.cost(rows[:2048])["share_scored"]}
            )  # fmt: skip
    return out


# -- running text ------------------------------------------------------------------------------------------------------


def blocks(tokens: torch.Tensor, streams: int):
    """(inputs, next words) of consecutive blocks of parallel streams."""
    length = (len(tokens) - 1) // streams
    shaped = tokens[: length * streams].view(streams, length), tokens[1 : length * streams + 1].view(streams, length)
    for at in range(0, length - LENGTH + 1, LENGTH):
        yield shaped[0][:, at : at + LENGTH], shaped[1][:, at : at + LENGTH].flatten()


def text_run(kind, n_words, vectors, rate, n_steps, device) -> Run:
    """A new run on running text."""
    torch.manual_seed(0)
    return Run(TextEncoder(n_words), make_head(kind, n_words, vectors), rate, n_steps, device)


def train_text(run: Run, tokens, n_steps: int) -> Run:
    """The first steps of an epoch."""
    state = None
    for step, (words, following) in enumerate(blocks(tokens, STREAMS)):
        if step == n_steps:
            break
        (state,) = run.step((words, state), following)
        state = tuple(part.detach() for part in state)
    return run


def encoded_text(run: Run, tokens, n_steps: int):
    """Encoded rows and next words of the first blocks."""
    state = None
    run.encoder.eval()
    for step, (words, following) in enumerate(blocks(tokens, 8)):
        if step == n_steps:
            break
        with torch.no_grad(), torch.autocast(run.device, torch.bfloat16):
            x, state = run.encoder(words, state)
        yield x.bfloat16(), following
    run.encoder.train()


def compare_on_text(tokens: dict, n_words: int, args) -> tuple[dict, dict]:
    """Results of all heads on the next word, and the trained runs."""
    train, valid, test = (torch.as_tensor(tokens[split].astype(np.int64), device=args.device)
                          for split in ("train", "valid", "test"))  # fmt: skip
    counts = sp.coo_array(
        (np.ones(len(tokens["train"]) - 1, np.float32), (tokens["train"][1:].astype(np.int64),
                                                         tokens["train"][:-1].astype(np.int64))),
        (n_words, n_words),
    ).tocsr()  # fmt: skip
    counts.data = np.sqrt(counts.data)
    vectors = counts.multiply(1 / np.maximum(1e-9, np.sqrt(counts.multiply(counts).sum(1)))[:, None]).tocsr()
    n_try = 3 if args.quick else TEXT_STEPS
    n_steps = 10 if args.quick else len(train) // (STREAMS * LENGTH)
    n_test = 5 if args.quick else 400
    results, runs = {}, {}
    for kind in HEADS:
        losses = {}
        for rate in TEXT_RATES[:1] if args.quick else TEXT_RATES:
            tried = train_text(text_run(kind, n_words, vectors, rate, n_try, args.device), train, n_try)
            losses[rate] = tried.test(encoded_text(tried, valid, n_test // 2))[1]
        rate = min(losses, key=losses.__getitem__)
        run = train_text(text_run(kind, n_words, vectors, rate, n_steps, args.device), train, n_steps)
        milliseconds = run.clock.milliseconds()
        right, loss = run.test(encoded_text(run, test, n_test))
        results[kind] = {
            "accuracy": float(right.mean()), "log-loss": loss, "rate": rate, "step ms": milliseconds,
            "n_test": len(right), "epochs": 1, "tried": losses,
        }  # fmt: skip
        if HEADS[kind]:
            x = next(encoded_text(run, test, 1))[0].float()
            results[kind]["cost"] = run.head.cost(x)
        runs[kind] = run
        print("enwik8", kind, results[kind], flush=True)
    return results, text_agreement(runs["full softmax"], train, test, args)


def text_agreement(run: Run, train, test, args) -> list[dict]:
    """`agreement` on encoded text."""
    inputs = torch.cat([x for x, _ in encoded_text(run, train, 4 if args.quick else N_INPUTS // (8 * LENGTH))])
    rows = torch.cat([x for x, _ in encoded_text(run, test, 2 if args.quick else 48)])
    return agreement(run.head.linear, inputs, rows, (None, 64))


def text_once_more(tokens: dict, n_words: int, rate: float, args) -> list[dict]:
    """`text_agreement` of a full softmax trained with the learning rate already chosen."""
    train, test = (torch.as_tensor(tokens[split].astype(np.int64), device=args.device) for split in ("train", "test"))
    n_steps = len(train) // (STREAMS * LENGTH)
    run = train_text(text_run("full softmax", n_words, None, rate, n_steps, args.device), train, n_steps)
    return text_agreement(run, train, test, args)


def main() -> None:
    """Write all results as JSON, after each set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="few rows, a check that the script runs")
    parser.add_argument("--again", action="store_true", help="only what uses the learning rates in the --out file")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    device = torch.cuda.get_device_name() if args.device == "cuda" else "CPU"
    out: dict = {"device": device, "torch": torch.__version__, "sets": {}, "new classes": {}, "wrapped": {}}
    if args.again:
        out = json.loads(args.out.read_text())
    for name in SETS:
        if not (args.data / f"{name}.npz").exists():
            print(f"skipped: {name} is not in {args.data}")
            continue
        bags = load_bags(args.data / f"{name}.npz", args.device, 3000 if args.quick else None)
        if not args.again:
            results, _ = compare_on_bags(name, bags, args)
            out["sets"][name] = {"classes": bags[3], "rows": len(bags[0]), "heads": results}
            if name != "debian-contents":
                out["new classes"][name] = new_classes(name, bags, results["full softmax"]["rate"], args)
        more = once_more(name, bags, out["sets"][name]["heads"], args)
        out["wrapped"][name] = more.pop("wrapped")
        out["sets"][name]["visits"] = more
        args.out.write_text(json.dumps(out, indent=1))
    if (args.data / "enwik8.npz").exists():
        with np.load(args.data / "enwik8.npz") as file:
            tokens = {name: file[name][:20_000] if args.quick else file[name] for name in file}
        n_words = 1 + max(int(part.max()) for part in tokens.values())
        if args.again:
            rate = out["sets"]["enwik8"]["heads"]["full softmax"]["rate"]
            out["wrapped"]["enwik8"] = text_once_more(tokens, n_words, rate, args)
        else:
            results, out["wrapped"]["enwik8"] = compare_on_text(tokens, n_words, args)
            out["sets"]["enwik8"] = {"classes": n_words, "rows": len(tokens["train"]), "heads": results}
        args.out.write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
