"""Figures 1 to 3 of the MLOM paper: training time, time of a prediction and accuracy on Isolet and ALOI, split 90/10.

As in the paper: MLOM tree, LOM tree and one-against-all. All make the same number of passes.
"""

from matplotlib.ticker import NullFormatter
from report import BLUE, GREEN, GREY, ORANGE, at_hand, nine_to_one, paired, parse, plt, publish, save, vw_error

from benchmarks.timing import fit_and_predict
from manyclass import LomTreeClassifier, MlomTreeClassifier, OneAgainstAllClassifier

SETS = {"isolet": "Isolet", "aloi": "ALOI"}
LOM = "LOM tree"
KINDS = {
    "MLOM tree, the paper's": (MlomTreeClassifier, {"centre": "median", "guests": False}),
    "MLOM tree, ours": (MlomTreeClassifier, {}),
    LOM: (LomTreeClassifier, {}),
    "one-against-all": (OneAgainstAllClassifier, {}),
}
VW = {LOM: "vw-log-multi", "one-against-all": "vw-oaa"}
COLOURS = dict(zip(KINDS, (GREEN, BLUE, ORANGE, GREY), strict=True))
REPEATS = 5  # predictions of all test rows; the median counts


def measure(kind, options: dict, X, y, X_test, y_test) -> dict:
    """Seconds to train, µs per prediction, accuracy; code compiled beforehand."""
    model = kind(**options)
    train, predict = fit_and_predict(model, X, y, X_test, REPEATS)
    told = model.diagnose(X_test, y_test)
    correct = model.predict(X_test) == y_test
    return {**told, "train": train, "predict": 1e6 * predict / len(y_test), "correct": correct}


def draw(found: dict, path) -> None:
    """The three figures side by side."""
    figure, panels = plt.subplots(1, 3, figsize=(12.0, 4.0), layout="constrained")
    figures = [
        ("Figure 1: training time, s (log scale)", lambda told: told["train"], "{:.3g}"),
        ("Figure 2: time of a prediction, µs (log scale)", lambda told: told["predict"], "{:.2g}"),
        ("Figure 3: test accuracy, %", lambda told: 100 * told["accuracy"], "{:.1f}"),
    ]
    for axes, (title, value, form) in zip(panels, figures, strict=True):
        for i, (who, colour) in enumerate(COLOURS.items()):
            heights = [value(models[who]) for models in found.values()]
            drawn = axes.bar([j + 0.21 * (i - 1.5) for j in range(len(found))], heights, 0.2, color=colour, label=who)
            axes.bar_label(drawn, [form.format(height) for height in heights], fontsize=8, padding=2)
        if "log" in title:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:,g}")
            axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_title(title, fontsize=11)
        axes.margins(y=0.12)
        axes.set_xticks(range(len(found)), [SETS[name] for name in found])
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    save(figure, path)


def main() -> None:
    args = parse(__doc__, epochs={"type": int, "default": 10, "help": "passes over the rows (10)"})
    n_epochs = 1 if args.quick else args.epochs
    found: dict[str, dict[str, dict]] = {}
    for name in at_hand(SETS):
        data, found[name] = nine_to_one(name, 20 if args.quick else 1), {}
        for who, (kind, options) in KINDS.items():
            told = found[name][who] = measure(kind, {**options, "n_epochs": n_epochs, "random_state": 0}, *data)
            print(f"{name}, {who}: {100 * told['accuracy']:.2f} % after {told['train']:.1f} s", flush=True)
    if not found:
        return
    rows = []
    for name, models in found.items():
        for who, told in models.items():
            beside = None if who == LOM else models[LOM]["correct"]
            rows.append(
                {
                    "data": SETS[name],
                    "model": who,
                    "paper": "same level as LOM" if who.startswith("MLOM") else None,
                    "printed in": "paper, §IV" if who.startswith("MLOM") else None,
                    "our accuracy %": f"{100 * told['accuracy']:.2f}",
                    **paired(told["correct"], beside, LOM),
                    "VW error % (race, published split)": vw_error(name, VW[who]) if who in VW else None,
                    "training s": f"{told['train']:.2f}",
                    "µs per prediction": f"{told['predict']:.2f}",
                    "hyperplanes": f"{told['work']:.1f}",
                    "test rows": f"{len(told['correct']):,}",
                }
            )
    notes = [
        "Paper (§IV, Figures 1 to 3; plots without numbers): time and accuracy of the MLOM tree "
        "are at the level of the LOM tree's; there LOM tree and one-against-all are Vowpal Wabbit's.",
        f"Ours: {n_epochs} epochs for all, one core, compiling left out, all test rows in one call. the paper's: the "
        "median everywhere, one leaf per class. ours − LOM tree: points of error, McNemar's exact test, same rows.",
        "VW: Vowpal Wabbit's log_multi and oaa as the last `make race` measured them, on the published split.",
    ]
    path = publish(
        "figures_1_to_3", "Time and accuracy, 90/10 (Figures 1 to 3)", rows, notes, args.quick,
        {f"{SETS[name]}: {who}": told["correct"] for name, models in found.items() for who, told in models.items()},
    )  # fmt: skip
    draw(found, path)


if __name__ == "__main__":
    main()
