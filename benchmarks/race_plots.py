"""The plots of the race: accuracy against time for each set, and cost against the number of classes."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.entrants import ENTRANTS, OURS
from benchmarks.race_run import DONE, one_row_seconds
from benchmarks.sets import SERIES, SETS

Cell = dict[str, Any]
# Okabe and Ito's colours, told apart by the colour-blind; a colour for a package, a marker for each of its learners.
COLOURS = {
    OURS: "#0072B2", "PECOS": "#D55E00", "napkinXC": "#E69F00", "omikuji": "#CC79A7", "Vowpal Wabbit": "#009E73",
    "fastText": "#56B4E9", "scikit-learn": "#000000", "River": "#F0E442",
}  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
COLUMNS = 3
UNTRAINED = "sklearn-neighbours"  # only keeps its rows: no training to show on a log scale
STOPPED = "River"  # learns for a given time: its seconds are that limit, whatever the number of rows


def plot_all(cells: Sequence[Cell], machine: str, folder: Path) -> list[tuple[Path, str]]:
    """Write the plots that the cells allow, and return their paths and titles; none without matplotlib.

    Cells of another machine than `machine` are hollow, and left out where only costs are shown.
    """
    try:
        import matplotlib
    except ImportError:
        return []
    matplotlib.use("Agg")
    done = [
        {**cell, "one_row_seconds": one_row_seconds(cell), "elsewhere": cell["machine"] != machine}
        for cell in cells
        if cell["state"] == DONE
    ]
    public = [cell for cell in done if not SETS[cell["set"]].series]
    scale = [cell for cell in done if SETS[cell["set"]].series == SERIES and not cell["elsewhere"]]
    written = []
    if public:
        for key, factor, axis, file in (
            ("train_seconds", 1.0, "training (s)", "accuracy_training.png"),
            ("one_row_seconds", 1e6, "prediction of one row (µs)", "accuracy_one_row.png"),
        ):
            written.append((folder / file, f"Accuracy against {axis}"))
            _accuracy_against(public, key, factor, axis, *written[-1])
    if scale:
        written.append((folder / "cost_classes.png", "Cost against the number of classes"))
        _against_classes(scale, *written[-1])
    return written


def style(name: str) -> dict[str, Any]:
    """Colour, marker and size of an entrant: ours large with a dark edge, peers small and in front of them."""
    entrant = ENTRANTS[name]
    place = [other.name for other in ENTRANTS.values() if other.family == entrant.family].index(name)
    drawn = {"color": COLOURS[entrant.family], "marker": MARKERS[place % len(MARKERS)], "linestyle": "none"}
    if entrant.ours:
        return {**drawn, "markersize": 10, "markeredgecolor": "black", "markeredgewidth": 1.3, "zorder": 3}
    return {**drawn, "markersize": 6.5, "markeredgecolor": "#555555", "markeredgewidth": 0.5, "zorder": 4}


def _accuracy_against(cells: Sequence[Cell], key: str, factor: float, axis: str, path: Path, title: str) -> None:
    import matplotlib.pyplot as plt

    note = "; hollow: measured on another machine" if any(cell["elsewhere"] for cell in cells) else ""
    names = [name for name in SETS if any(cell["set"] == name for cell in cells)]
    columns = min(COLUMNS, len(names))
    rows = math.ceil(len(names) / columns)
    figure, grid = plt.subplots(
        rows, columns, figsize=(max(4.0 * columns, 8.0), 3.1 * rows + 1.7), squeeze=False, layout="constrained"
    )
    for axes, name in zip(grid.flat, names, strict=False):
        for cell in (cell for cell in cells if cell["set"] == name):
            right, label = 100 * cell["precision"]["1"], ENTRANTS[cell["entrant"]].title
            if key == "train_seconds" and cell["entrant"] == UNTRAINED:
                axes.axhline(right, color=COLOURS["scikit-learn"], linestyle=":", linewidth=1.2, label=label)
            else:
                hollow = {"markerfacecolor": "white", "markeredgecolor": COLOURS[ENTRANTS[cell["entrant"]].family]}
                drawn = style(cell["entrant"]) | (hollow if cell["elsewhere"] else {})
                axes.plot(factor * cell[key], right, label=label, **drawn)
        axes.margins(0.12)
        _log(axes, "x")
        axes.set_xlabel(f"{axis}, log scale")
        axes.set_ylabel("P@1 (%)" if SETS[name].several else "accuracy (%)")
        _finish(axes, SETS[name].title)
    for axes in list(grid.flat)[len(names) :]:
        axes.set_visible(False)
    _close(figure, grid, path, f"{title}: up and to the left is better{note}", names_in=columns)


def _against_classes(cells: Sequence[Cell], path: Path, title: str) -> None:
    import matplotlib.pyplot as plt

    panels = (
        ("one_row_seconds", 1e6, "prediction of one row (µs)"),
        ("train_seconds", 1e6, "training, all passes (µs a row)"),
        ("model_bytes", 1e-6, "model on disk (MB)"),
        ("", 100.0, "accuracy (%)"),
    )
    figure, grid = plt.subplots(2, 2, figsize=(11.0, 8.6), squeeze=False, layout="constrained")
    for axes, (key, factor, label) in zip(grid.flat, panels, strict=True):
        for name in ENTRANTS:
            mine = sorted((cell for cell in cells if cell["entrant"] == name), key=lambda cell: cell["n_classes"])
            values = [cell[key] if key else cell["precision"]["1"] for cell in mine]
            untimed = name == UNTRAINED or ENTRANTS[name].family == STOPPED
            if not mine or None in values or (key == "train_seconds" and untimed):
                continue
            drawn = {**style(name), "linestyle": "-", "linewidth": 2.0 if ENTRANTS[name].ours else 1.0}
            if key == "train_seconds":
                values = [value / cell["n_train"] for value, cell in zip(values, mine, strict=True)]
            classes = [cell["n_classes"] for cell in mine]
            axes.plot(classes, [factor * value for value in values], label=ENTRANTS[name].title, **drawn)
        _log(axes, "x")
        if key:
            _log(axes, "y")
        axes.set_xlabel("classes, log scale")
        axes.set_ylabel(f"{label}, log scale" if key else label)
        _finish(axes, label.split(" (")[0])
    _close(figure, grid, path, title, names_in=3)


def _log(axes: Any, which: str) -> None:
    """A log scale with numbers written out, few enough not to run into each other."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set(**{f"{which}scale": "log"})
    axis = getattr(axes, f"{which}axis")
    low, high = getattr(axes, f"get_{which}lim")()
    axis.set_major_locator(LogLocator(subs=(1, 3) if high < 100 * low else (1,)))
    axis.set_major_formatter("{x:,g}")
    axis.set_minor_formatter(NullFormatter())


def _finish(axes: Any, title: str) -> None:
    axes.set_title(title, fontsize=11)
    axes.grid(color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _close(figure: Any, grid: Any, path: Path, title: str, names_in: int) -> None:
    """One legend below all panels, ours first; the same numbers give the same bytes."""
    import matplotlib.pyplot as plt

    found: dict[str, Any] = {}
    for axes in grid.flat:
        found |= {label: line for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    titles = [entrant.title for entrant in ENTRANTS.values() if entrant.title in found]
    figure.suptitle(title, fontsize=13)
    figure.legend(
        [found[name] for name in titles], titles, loc="outside lower center", ncols=max(2 * names_in - 1, 4),
        frameon=False, fontsize=9, columnspacing=1.4, handletextpad=0.4,
    )  # fmt: skip
    figure.savefig(path, dpi=120, metadata={"Software": None})
    plt.close(figure)
