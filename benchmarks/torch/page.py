"""Write results.md and the picture from the JSON of speed.py and accuracy.py.

    python benchmarks/torch/page.py speed.json accuracy.json
"""

import argparse
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

sys.path.insert(1, str(Path(__file__).resolve().parents[2]))
from benchmarks.tables import markdown_table

HERE = Path(__file__).resolve().parent
COLOURS = {"wordnet-hypernym": "#0072B2", "revdict": "#E69F00", "debian-contents": "#CC79A7", "enwik8": "#009E73"}


def number(value, digits: int = 2) -> str:
    """A number for a table, or nothing."""
    return "" if value is None else f"{value:,.{digits}f}"


def table(rows: list[dict]) -> str:
    """Rows of one shape as a table."""
    return markdown_table(list(rows[0]), [list(map(str, row.values())) for row in rows])


def prediction_rows(speed: dict) -> list[dict]:
    """Times of the best five classes."""
    return [
        {
            "classes": f"{int(n):,}",
            "layer": name,
            "4,096 rows, ms": number(min(v for k, v in row.items() if not k.startswith("one")), 3),
            "one row, ms": number(min(v for k, v in row.items() if k.startswith("one")), 3),
        }
        for n, layers in sorted(speed["prediction"].items(), key=lambda item: int(item[0]))
        for name, row in layers.items()
    ]


def training_rows(speed: dict) -> list[dict]:
    """Times and memory of forward and backward."""
    return [
        {
            "classes": f"{int(n):,}",
            "layer": name,
            "eager, ms": number(row.get("ms")),
            "CUDA graph, ms": number(row.get("graph ms")),
            "memory, GiB": number(row.get("GiB")),
            "of it weights, GiB": number(row.get("weights GiB")),
            "with Adam, ms": number(row.get("Adam ms")),
            "with Adam, GiB": number(row.get("Adam GiB")),
        }
        for n, layers in sorted(speed["training"].items(), key=lambda item: int(item[0]))
        for name, row in layers.items()
    ]


def agreement_rows(speed: dict) -> list[dict]:
    """Agreement on trained weights with a million classes."""
    best = min(speed["prediction"]["1000000"]["full, two stages"][key] for key in ("eager", "compiled"))
    one = min(row["one row, graph"] for name, row in speed["prediction"]["1000000"].items() if name.startswith("full"))
    return [
        {
            "clusters": f"{row['clusters']:,}",
            "visit": row["visit"],
            "top-1 agreement, %": number(100 * row["top-1"]),
            "top-5 recall, %": number(100 * row["top-5 recall"]),
            "classes and routers scored, %": number(100 * row["share scored"]),
            "4,096 rows, ms": number(row["ms"]["graph"], 3),
            "times faster": number(best / row["ms"]["graph"], 1),
            "one row, ms": number(row["ms"]["one row, graph"], 3),
            "times faster, one row": number(one / row["ms"]["one row, graph"]),
        }
        for row in speed["agreement"]["rows"]
    ]


def accuracy_rows(accuracy: dict) -> list[dict]:
    """Accuracy and log-loss of all heads."""
    rows = []
    for name, result in accuracy["sets"].items():
        full = result["heads"]["full softmax"]
        for kind, row in result["heads"].items():
            rows.append(
                {
                    "data": name,
                    "classes": f"{result['classes']:,}",
                    "layer": kind,
                    "held-out, %": number(100 * max(tried["accuracy"] for tried in row["held-out"].values())),
                    "accuracy, %": number(100 * row["accuracy"]),
                    "difference": number(100 * (row["accuracy"] - full["accuracy"])),
                    "log-loss": number(row["log-loss"], 3),
                    "step, ms": number(row.get("step ms"), 1),
                    "head as a CUDA graph, ms": number(row.get("graph ms"), 1),
                    "rate": row["rate"],
                }
            )
    return rows


def visit_rows(accuracy: dict) -> list[dict]:
    """Accuracy if other numbers of clusters are visited after training."""
    return [
        {"data": name, "layer": kind, "rows": f"{next(iter(visits.values()))['rows']:,}"}
        | {f"{visit}": number(100 * row["accuracy"]) for visit, row in sorted(visits.items(), key=lambda v: int(v[0]))}
        for name, result in accuracy["sets"].items()
        for kind, visits in result.get("visits", {}).items()
    ]


def new_class_rows(accuracy: dict) -> list[dict]:
    """Accuracy on old and new classes."""
    return [
        {"data": name, "training": what, "old classes, %": number(100 * row["old"]),
         "new classes, %": number(100 * row["new"]), "log-loss": number(row["log-loss"], 3)}
        for name, rows in accuracy["new classes"].items()
        for what, row in rows.items()
    ]  # fmt: skip


def plot(speed: dict, accuracy: dict, path: Path) -> None:
    """Agreement against the share of the classes and routers scored."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 5), sharey=True)
    lines = [(name, result["wrapped"], COLOURS[name]) for name, result in accuracy["sets"].items()]
    lines.append(("pairs of words, 1,000,000 classes", speed["agreement"]["rows"], "#444444"))
    for name, rows, colour in lines:
        sizes = sorted({row["places"] for row in rows}, reverse=True)
        for size, style in zip(sizes, ("-", "--"), strict=False):
            own = [row for row in rows if row["places"] == size]
            xs = [row["visit"] for row in own], [100 * row["share scored"] for row in own]
            for axis, x in zip(axes, xs, strict=True):
                axis.plot(x, [100 * row["top-1"] for row in own], style, color=colour, marker=".", linewidth=1.2,
                          label=f"{name}, clusters of {size}")  # fmt: skip
    titles, ticks = ("clusters visited", "classes and routers scored, %"), ((1, 2, 4, 8, 16, 32, 64), (0.1, 1, 10, 100))
    for axis, title, tick in zip(axes, titles, ticks, strict=True):
        axis.set_xscale("log")
        axis.set_xticks(tick, map(str, tick))
        axis.minorticks_off()
        axis.set_xlabel(title)
        axis.grid(alpha=0.3)
        axis.set_ylim(0, 101)
    axes[0].set_ylabel("same best class as the linear layer, %")
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=7, loc="lower center", ncol=3)
    figure.tight_layout(rect=(0, 0.14, 1, 1))
    figure.savefig(path, dpi=150)


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("speed", type=Path)
    parser.add_argument("accuracy", type=Path, nargs="+", help="files with different sets")
    args = parser.parse_args()
    speed, accuracy = json.loads(args.speed.read_text()), {"sets": {}, "new classes": {}}
    for path in args.accuracy:
        for part, results in json.loads(path.read_text()).items():
            if part in accuracy:
                accuracy[part] |= results
    plot(speed, accuracy, HERE / "agreement.png")
    about = speed["trained"]
    page = f"""# TreeHead: measured results

Written by `page.py` from the results of `speed.py` and `accuracy.py`.

One {speed["device"]}, PyTorch {speed["torch"]}, Triton {speed["triton"]}. Inputs have 512 features; bfloat16.

## The five best classes

The fastest way measured for each layer: eager, compiled, or as a CUDA graph. "Two stages" is exact: the best blocks of
1,024 classes first. A layer trained with sampled softmax predicts like the full one. The adaptive softmax has random
weights here: the more rows belong to rare classes, the longer `predict` takes.

{table(prediction_rows(speed))}

## Training step: forward and backward

Without an optimizer, and with PyTorch's fused Adam (all in bfloat16; Adam's two moments take twice the memory of the
weights). Memory is the most that was allocated at any time; it includes weights and gradients.

{table(training_rows(speed))}

## A trained linear layer with a million classes, wrapped

The class is one of the million most frequent pairs of the next two words of enwik8, the input the eight words before.
Full softmax, {about["steps"]:,} steps of 4,096 rows; accuracy on test rows {100 * about["accuracy"]:.1f} %.
`TreeHead.from_linear` with 262,144 inputs; agreement with exact predictions on 16,384 test rows; times as CUDA graphs.
"Times faster" compares with the fastest exact prediction in the first table.

{table(agreement_rows(speed))}

## Accuracy

The same encoder, epochs and batches for all; the learning rate was chosen by the accuracy on held-out training rows
("held-out, %"), and `visit` should be chosen in the same way. Whole steps with Adam, bfloat16 autocast, batches of 256
to 4,096 rows, in eager mode and with the head by `torch.cuda.make_graphed_callables`. On enwik8 the learning rate was
chosen after the first 300 steps.

{table(accuracy_rows(accuracy))}

Accuracy in % on test rows if another number of clusters is visited after training:

{table(visit_rows(accuracy))}

## New classes

A tenth of the classes arrives in the last epoch. TreeHead gets them from `add_classes`; the full softmax has outputs
for them from the start. The learning rate is constant and the same for all. In both layers the new classes, whose rows
all come in the last epoch, are then predicted more often than if they had been there from the start.

{table(new_class_rows(accuracy))}

## Wrapped linear layers

`TreeHead.from_linear` on the trained full softmax of each set, at most 25,000 test rows. The two sizes of clusters are
about the square root of the number of classes, and 64.

![Agreement against clusters visited](agreement.png)
"""
    (HERE / "results.md").write_text(page)


if __name__ == "__main__":
    main()
