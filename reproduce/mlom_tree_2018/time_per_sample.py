"""MLOM paper, Figure 4: time spent on a sample over the stream, on ALOI: high at first, then flat."""

import time

import numpy as np
from report import BLUE, GREEN, ORANGE, load_or_skip, new_plot, parse, publish, save

from manyclass import LomTreeClassifier, MlomTreeClassifier

PIECE, REPEATS = 1000, 3
KINDS = {
    "LOM tree": (LomTreeClassifier, {}),
    "MLOM tree, ours": (MlomTreeClassifier, {}),
    "MLOM tree, the paper's": (MlomTreeClassifier, {"centre": "median", "guests": False}),
}


def one_pass(kind, options, X, y, order) -> list[float]:
    """Microseconds a row of each piece."""
    model, spent = kind(random_state=0, **options), []
    for begin in range(0, len(order) - PIECE + 1, PIECE):
        part = order[begin : begin + PIECE]
        rows, labels = X[part], y[part]
        start = time.thread_time()
        model.partial_fit(rows, labels)
        spent.append(1e6 * (time.thread_time() - start) / PIECE)
    return spent


def main() -> None:
    args = parse(__doc__)
    X, y, _, _ = load_or_skip("aloi")
    order = np.random.default_rng(0).permutation(len(y))[: 20_000 if args.quick else None]
    spent = {}
    for name, (kind, options) in KINDS.items():
        kind(random_state=0, **options).partial_fit(X[order[:500]], y[order[:500]])  # compile
        spent[name] = np.min([one_pass(kind, options, X, y, order) for _ in range(REPEATS)], axis=0)
    tenth = max(1, len(spent["LOM tree"]) // 10)
    rows = [
        {
            "model": name,
            "first 1000 rows, µs per row": f"{times[0]:.1f}",
            "first tenth (median)": f"{np.median(times[:tenth]):.1f}",
            "last tenth (median)": f"{np.median(times[-tenth:]):.1f}",
        }
        for name, times in spent.items()
    ]
    notes = [
        "One pass over ALOI in pieces of 1,000 rows, checks of the inputs included: time of the processor, the least "
        "of three passes."
    ]
    path = publish("time_per_sample", "Time spent on a sample", rows, notes, args.quick)
    figure, axes = new_plot("rows learned (thousands)", "µs per row", "Time spent on a sample, ALOI")
    for (name, times), colour in zip(spent.items(), (ORANGE, BLUE, GREEN), strict=True):
        axes.plot(np.arange(1, len(times) + 1), times, color=colour, label=name)
    axes.set_ylim(0)
    axes.legend(frameon=False)
    save(figure, path)


if __name__ == "__main__":
    main()
