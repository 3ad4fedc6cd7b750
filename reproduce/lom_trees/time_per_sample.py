"""MLOM paper, Figure 4: time spent on a sample over the stream, on ALOI: high at first, then flat."""

import time

import numpy as np
from report import BLUE, ORANGE, load_or_skip, new_plot, parse, publish, save

from manyclass import LomTreeClassifier, MlomTreeClassifier

PIECE = 1000


def main() -> None:
    args = parse(__doc__)
    X, y, _, _ = load_or_skip("aloi")
    order = np.random.default_rng(0).permutation(len(y))[: 20_000 if args.quick else None]
    kinds = {"LOM tree": LomTreeClassifier, "MLOM tree": MlomTreeClassifier}
    for kind in kinds.values():  # compile
        kind(random_state=0).partial_fit(X[order[:500]], y[order[:500]])
    spent = {}
    for name, kind in kinds.items():
        model, spent[name] = kind(random_state=0), []
        for begin in range(0, len(order) - PIECE + 1, PIECE):
            part = order[begin : begin + PIECE]
            start = time.perf_counter()
            model.partial_fit(X[part], y[part])
            spent[name].append(1e6 * (time.perf_counter() - start) / PIECE)
    tenth = max(1, len(spent["LOM tree"]) // 10)
    rows = [
        {
            "model": name,
            "first 1000 rows, µs a row": f"{times[0]:.1f}",
            "first tenth (median)": f"{np.median(times[:tenth]):.1f}",
            "last tenth (median)": f"{np.median(times[-tenth:]):.1f}",
        }
        for name, times in spent.items()
    ]
    notes = [
        "One pass over ALOI in pieces of 1,000 rows, checks and conversion of the inputs included. Measured on a busy "
        "machine with two cores: the shape says something, single peaks do not."
    ]
    path = publish("time_per_sample", "Time spent on a sample", rows, notes, args.quick)
    figure, axes = new_plot("rows learned (thousands)", "µs a row", "Time spent on a sample, ALOI")
    for (name, times), colour in zip(spent.items(), (ORANGE, BLUE), strict=True):
        axes.plot(np.arange(1, len(times) + 1), times, color=colour, label=name)
    axes.set_ylim(0)
    axes.legend(frameon=False)
    save(figure, path)


if __name__ == "__main__":
    main()
