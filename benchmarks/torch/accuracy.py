"""Accuracy and log-loss of TreeHead beside the full softmax on real data, new classes, and wrapped linear layers.

    python benchmarks/torch/accuracy.py DATA --out accuracy.json       (DATA as written by prepare.py)

All heads get the same encoder, epochs, batches and learning rates to choose from; the learning rate is chosen by the
accuracy on training rows that are held out. With --time, the whole training steps of the sets in the --out file are
timed, with bfloat16 autocast, in eager mode and with the head as a CUDA graph; nothing else should run on the device
then.
"""

import argparse
import copy
import itertools
import json
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from bags import BagEncoder, FullHead, TextEncoder, load_bags
from sklearn.preprocessing import normalize
from torch import nn

from manyclass.torch import TreeHead

WIDTH = 512
SETS = {  # epochs, batch, learning rates
    "wordnet-hypernym": (8, 256, (5e-4, 1e-3, 2e-3)),
    "revdict": (6, 512, (1e-3, 2e-3, 4e-3)),
    "debian-contents": (4, 1024, (2e-3, 4e-3, 8e-3)),
}
HEADS = {"full softmax": None, "TreeHead, visit=8": 8, "TreeHead, visit=32": 32, "TreeHead, visit=64": 64}
VISITS = (1, 2, 4, 8, 16, 32, 64)
STREAMS, LENGTH, TEXT_RATES, TEXT_STEPS = 64, 64, (2e-3, 4e-3, 8e-3), 300
HELD_OUT, NEW, N_INPUTS = 0.1, 0.1, 131_072
FIRST, TIMED = 20, 100  # steps before the clock starts, and timed ones


def make_head(kind: str, n_classes: int, vectors, cache: dict) -> nn.Module:
    """A head by its name in HEADS; the classes are clustered once per number of classes."""
    torch.manual_seed(0)
    if HEADS[kind] is None:
        return FullHead(WIDTH, n_classes)
    if n_classes not in cache:
        cache[n_classes] = TreeHead(WIDTH, n_classes, class_vectors=vectors)
    head = copy.deepcopy(cache[n_classes])
    head.visit = HEADS[kind]
    return head


def milliseconds(steps) -> float:
    """Mean time of a step, without the first ones."""
    start = 0.0
    for n, _ in enumerate(steps, 1):
        if n in (FIRST, FIRST + TIMED):
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if n > FIRST:
                return 1000 * (time.perf_counter() - start) / TIMED
            start = time.perf_counter()
    raise ValueError(f"too few steps to time: fewer than {FIRST + TIMED}")


def as_graph(run: "Run", n_rows: int) -> "Run":
    """The same run with its head as a CUDA graph, for batches of n_rows rows; smaller ones are left out."""
    x = torch.zeros(n_rows, WIDTH, device=run.device, dtype=torch.bfloat16, requires_grad=True)
    target = torch.zeros(n_rows, device=run.device, dtype=torch.int64)
    with torch.autocast(run.device, torch.bfloat16, cache_enabled=False):
        run.head = torch.cuda.make_graphed_callables(run.head, (x, target))
    return run


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

    def step(self, inputs, target):
        """One step; returns what the encoder returns beside the rows."""
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, torch.bfloat16):
            x, *rest = _as_tuple(self.encoder(*inputs))
            loss = self.head(x, target)[1]
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
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


def bag_steps(run: Run, data, rows, batch: int, n_epochs: int, seed: int = 0):
    """Train for some epochs over shuffled rows; yields after each step."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(n_epochs):
        for part in rows[torch.randperm(len(rows), generator=generator).to(rows.device)].split(batch):
            yield run.step(data.batch(part), data.label[part])


def train_bags(*args, **options) -> None:
    """All steps of `bag_steps`."""
    for _ in bag_steps(*args, **options):
        pass


def bag_run(kind, bags, rate, n_steps, device, constant=False, n_classes=None) -> Run:
    """A new run on rows of words; all kinds start from the same encoder."""
    _, _, n_words, all_classes, vectors, cache = bags
    n_classes = all_classes if n_classes is None else n_classes
    head = make_head(kind, n_classes, vectors[:n_classes], cache)
    torch.manual_seed(0)
    return Run(BagEncoder(n_words), head, rate, n_steps, device, constant)


def divided(data, device) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows held out, rows to learn from)"""
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(1)).to(device)
    n_held = int(HELD_OUT * len(data))
    return order[:n_held], order[n_held:]


def compare_on_bags(name: str, bags, args) -> dict:
    """Results of all heads on one set; also wrapped layers, and other numbers of clusters visited."""
    n_epochs, batch, rates = SETS[name]
    if args.quick:
        n_epochs, rates = 1, rates[:1]
    data, test = bags[:2]
    held, learned = divided(data, args.device)
    n_steps = n_epochs * -(-len(learned) // batch)
    every = torch.arange(len(test), device=args.device)
    heads, visits, wrapped = {}, {}, []
    for kind in HEADS:
        best, tried = None, {}
        for rate in rates:
            run = bag_run(kind, bags, rate, n_steps, args.device)
            train_bags(run, data, learned, batch, n_epochs)
            right, loss = run.test_bags(data, held)
            tried[rate] = {"accuracy": float(right.mean()), "log-loss": loss}
            if best is None or right.mean() > tried[best[0]]["accuracy"]:
                best = rate, run
            print(name, kind, rate, tried[rate], flush=True)
        rate, run = best
        right, loss = run.test_bags(test, every)
        heads[kind] = {"accuracy": float(right.mean()), "log-loss": loss, "rate": rate, "held-out": tried,
                       "n_test": len(right), "epochs": n_epochs}  # fmt: skip
        x = run.encode(test, every)
        if HEADS[kind] is None:
            wrapped = agreement(run.head.linear, run.encode(data, learned[:N_INPUTS]), x[:25_000], (None, 64))
        else:
            heads[kind]["cost"] = run.head.cost(x[:2048].float())
            visits[kind] = at_other_visits(run, (x, test.label))
        print(name, kind, heads[kind], flush=True)
    return {"classes": bags[3], "rows": len(data), "heads": heads, "visits": visits, "wrapped": wrapped}


def time_bags(name: str, bags, heads: dict, args) -> None:
    """Add the time of a step to the results of each head."""
    batch = SETS[name][1]
    rows = divided(bags[0], args.device)[1]
    rows = rows[: len(rows) // batch * batch]
    for kind, row in heads.items():
        for what, change in (("step ms", lambda run: run), ("graph ms", lambda run: as_graph(run, batch))):
            run = change(bag_run(kind, bags, row["rate"], FIRST + TIMED, args.device))
            row[what] = milliseconds(bag_steps(run, bags[0], rows, batch, 8))
        print(name, kind, row["step ms"], row["graph ms"], flush=True)


def at_other_visits(run: Run, rows) -> dict:
    """Accuracy and log-loss if other numbers of clusters are visited after training."""
    before, out = run.head.visit, {}
    for visit in (4, 8, 16, 32, 64, 128):
        run.head.visit = visit
        right, loss = run.test(zip(rows[0].split(2048), rows[1].split(2048), strict=True))
        out[visit] = {"accuracy": float(right.mean()), "log-loss": loss, "rows": len(right)}
    run.head.visit = before
    return out


def new_classes(name: str, bags, rate: float, args) -> dict:
    """The last tenth of the classes arrives in the last epoch. Constant learning rate."""
    n_epochs, batch, _ = SETS[name]
    n_epochs = 2 if args.quick else n_epochs
    data, test, n_words, n_classes, vectors, _ = bags
    shuffled = np.random.default_rng(0).permutation(n_classes)  # the new classes are the last ones
    number = torch.as_tensor(np.argsort(shuffled), device=args.device)
    saved = data.label, test.label
    data.label, test.label = number[data.label], number[test.label]
    bags = (data, test, n_words, n_classes, vectors[shuffled], {})
    n_old = n_classes - int(NEW * n_classes)
    every, old = torch.arange(len(data), device=args.device), (data.label < n_old).nonzero().squeeze(1)
    n_steps = n_epochs * -(-len(data) // batch)
    results = {}
    for kind, late in ((k, late) for k in HEADS for late in (False, True)):
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


def text_run(kind, text, rate, n_steps, device) -> Run:
    """A new run on running text."""
    _, n_words, vectors, cache = text
    head = make_head(kind, n_words, vectors, cache)
    torch.manual_seed(0)
    return Run(TextEncoder(n_words), head, rate, n_steps, device)


def text_steps(run: Run, tokens, n_steps: int):
    """Train for the first steps of an epoch; yields after each."""
    state = None
    for words, following in itertools.islice(blocks(tokens, STREAMS), n_steps):
        (state,) = run.step((words, state), following)
        state = tuple(part.detach() for part in state)
        yield


def train_text(run: Run, tokens, n_steps: int) -> Run:
    """All steps of `text_steps`."""
    for _ in text_steps(run, tokens, n_steps):
        pass
    return run


def encoded_text(run: Run, tokens, n_steps: int):
    """Encoded rows and next words of the first blocks."""
    state = None
    run.encoder.eval()
    for words, following in itertools.islice(blocks(tokens, 8), n_steps):
        with torch.no_grad(), torch.autocast(run.device, torch.bfloat16):
            x, state = run.encoder(words, state)
        yield x.bfloat16(), following
    run.encoder.train()


def load_text(path: Path, args) -> tuple:
    """(words of the splits, number of words, vectors of the words by the words before them, no heads yet)"""
    with np.load(path) as file:
        tokens = {split: file[split][:20_000] if args.quick else file[split] for split in file}
    tokens = {split: words.astype(np.int64) for split, words in tokens.items()}
    n_words = 1 + max(int(part.max()) for part in tokens.values())
    train = tokens["train"]
    counts = sp.coo_array((np.ones(len(train) - 1, np.float32), (train[1:], train[:-1])), (n_words, n_words)).tocsr()
    counts.data = np.sqrt(counts.data)
    splits = {split: torch.as_tensor(words, device=args.device) for split, words in tokens.items()}
    return splits, n_words, normalize(counts), {}


def compare_on_text(text, args) -> dict:
    """Results of all heads on the next word."""
    train, valid, test = (text[0][split] for split in ("train", "valid", "test"))
    n_try, n_steps, n_test = (3, 10, 5) if args.quick else (TEXT_STEPS, len(train) // (STREAMS * LENGTH), 400)
    heads, wrapped = {}, []
    for kind in HEADS:
        tried = {}
        for rate in TEXT_RATES[:1] if args.quick else TEXT_RATES:
            run = train_text(text_run(kind, text, rate, n_try, args.device), train, n_try)
            right, loss = run.test(encoded_text(run, valid, n_test // 2))
            tried[rate] = {"accuracy": float(right.mean()), "log-loss": loss}
        rate = max(tried, key=lambda rate: tried[rate]["accuracy"])
        run = train_text(text_run(kind, text, rate, n_steps, args.device), train, n_steps)
        right, loss = run.test(encoded_text(run, test, n_test))
        heads[kind] = {"accuracy": float(right.mean()), "log-loss": loss, "rate": rate, "held-out": tried,
                       "n_test": len(right), "epochs": 1}  # fmt: skip
        if HEADS[kind] is None:
            wrapped = text_agreement(run, train, test, args)
        else:
            heads[kind]["cost"] = run.head.cost(next(encoded_text(run, test, 1))[0].float())
        print("enwik8", kind, heads[kind], flush=True)
    return {"classes": text[1], "rows": len(train), "heads": heads, "wrapped": wrapped}


def time_text(text, heads: dict, args) -> None:
    """Add the time of a step to the results of each head."""
    for kind, row in heads.items():
        for what, change in (("step ms", lambda run: run), ("graph ms", lambda run: as_graph(run, STREAMS * LENGTH))):
            run = change(text_run(kind, text, row["rate"], FIRST + TIMED, args.device))
            row[what] = milliseconds(text_steps(run, text[0]["train"], FIRST + TIMED))
        print("enwik8", kind, row["step ms"], row["graph ms"], flush=True)


def text_agreement(run: Run, train, test, args) -> list[dict]:
    """`agreement` on encoded text."""
    inputs = torch.cat([x for x, _ in encoded_text(run, train, 4 if args.quick else N_INPUTS // (8 * LENGTH))])
    rows = torch.cat([x for x, _ in encoded_text(run, test, 2 if args.quick else 48)])
    return agreement(run.head.linear, inputs, rows, (None, 64))


def main() -> None:
    """Write all results as JSON, after each set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=[*SETS, "enwik8"], choices=[*SETS, "enwik8"])
    parser.add_argument("--quick", action="store_true", help="few rows, a check that the script runs")
    parser.add_argument("--time", action="store_true", help="time the steps of the sets in the --out file")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    device = torch.cuda.get_device_name() if args.device == "cuda" else "CPU"
    out: dict = {"device": device, "torch": torch.__version__, "sets": {}, "new classes": {}}
    if args.time:
        out = json.loads(args.out.read_text())
    for name in args.sets:
        path = args.data / f"{name}.npz"
        if not path.exists():
            print(f"skipped: {name} is not in {args.data}")
            continue
        if args.time and name not in out["sets"]:
            continue
        if name == "enwik8":
            text = load_text(path, args)
            if args.time:
                time_text(text, out["sets"][name]["heads"], args)
            else:
                out["sets"][name] = compare_on_text(text, args)
        else:
            bags = (*load_bags(path, args.device, 3000 if args.quick else None), {})
            if args.time:
                time_bags(name, bags, out["sets"][name]["heads"], args)
            else:
                out["sets"][name] = compare_on_bags(name, bags, args)
                if name != "debian-contents":
                    rate = out["sets"][name]["heads"]["full softmax"]["rate"]
                    out["new classes"][name] = new_classes(name, bags, rate, args)
        args.out.write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
