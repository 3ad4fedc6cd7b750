"""Table 7 of the spectral paper: precision against speed by the number of candidates k.

LSHTC if it is in MANYCLASS_DATA, else Bibtex; the paper's algorithm and our defaults.
"""

from matplotlib.ticker import LogLocator, NullFormatter
from models import OURS, PAPER, TITLES, inputs, make, run, settings
from report import BLUE, GREEN, ORANGE, PURPLE, at_hand, paired, parse, plt, publish, save

from manyclass.datasets import available
from manyclass.metrics import precision_at_k

SETS = {"lshtc": (4000, 6000, 12_000), "bibtex": (10, 30, 90)}
COLOURS = {PAPER: GREEN, OURS: BLUE}
# As printed, on LSHTC: who, P@1, P@3, P@5, examples per second. A star: reported by others, on other hardware.
PAPER_ROWS = [
    ("FastXML, 50 trees", 49.35, 32.69, 24.03, "2,000*"),
    ("X1, 15 models", 55.57, 33.84, 24.07, "125*"),
    ("tree + ILR, k = 4000", 53.0, 33.9, 24.8, "1,058"),
    ("tree + ILR, k = 6000", 53.7, 34.5, 25.3, "688"),
    ("tree + ILR, k = 12000", 54.3, 34.9, 25.6, "370"),
]


def measure(name: str, who: str, k: int, rows: tuple, quick: bool) -> dict:
    """Precision, speed and work with k candidates; rate and epochs are those of Table 6."""
    X, y, _, y_test = rows
    model = make(who, name, *(() if who == OURS else settings(name, who, X, y, quick)))
    told = run(name, who, rows, quick, model.set_params(n_candidates=k))
    return {**told, "precision": [float(100 * precision_at_k(y_test, told["best"], j)) for j in (1, 3, 5)]}


def row(data, who, precision, speed, gap, told=None) -> dict:
    """One row of the table."""
    shares = {f"P@{k}": f"{share:.2f}" for k, share in zip((1, 3, 5), precision, strict=True)}
    more = dict.fromkeys(("recall %", "labels scored", "train s", "budget"))
    if told:
        more = {
            "recall %": f"{100 * told['recall']:.1f}",
            "labels scored": f"{told['candidates_scored']:.0f}",
            "train s": f"{told['train']:.1f}",
            "budget": told["budget"] or None,
        }
    return {"data": data, "model": who, **shares, "examples/s": speed, **gap, **more}


def draw(found: dict, path) -> None:
    """The paper's points and ours: faster is further right, better is higher."""
    figure, panels = plt.subplots(1, 1 + len(found), figsize=(4.4 * (1 + len(found)), 4.2), layout="constrained")
    speeds, best = [float(line[4].strip("*").replace(",", "")) for line in PAPER_ROWS], [line[1] for line in PAPER_ROWS]
    panels[0].plot(speeds[2:], best[2:], color=GREEN, marker="o")
    for (who, *_), speed, share, colour in zip(
        PAPER_ROWS, speeds, best, (ORANGE, PURPLE, GREEN, GREEN, GREEN), strict=True
    ):
        panels[0].plot([speed], [share], "o", color=colour)
        note = who.removeprefix("tree + ILR, ")
        panels[0].annotate(note, (speed, share), (6, 5), textcoords="offset points", fontsize=9)
    panels[0].set_title("LSHTC, as printed", fontsize=11)
    panels[0].set_xlim(80, 6000)
    for axes, (title, of_model) in zip(panels[1:], found.items(), strict=True):
        for who, of_k in of_model.items():
            places = [(told["speed"], told["precision"][0]) for told in of_k.values()]
            axes.plot(*zip(*places, strict=True), color=COLOURS[who], marker="o", label=who)
            for k, place in zip(of_k, places, strict=True):
                axes.annotate(f"k = {k}", place, (6, 5), textcoords="offset points", fontsize=9)
        axes.set_title(f"{title}, measured", fontsize=11)
        axes.legend(frameon=False, fontsize=9)
        axes.margins(x=0.2, y=0.1)
    for axes in panels:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("examples per second (log scale)")
        axes.grid(color="#dddddd", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("P@1 (%)")
    save(figure, path)


def main() -> None:
    """Print the table."""
    args = parse(__doc__)
    names = ["lshtc"] if available("lshtc") else ["bibtex"]
    print(f"data: {', '.join(names)}" + ("" if names == ["lshtc"] else ", in place of lshtc, which is not here"))
    nothing = paired(None, None, "row above")
    rows = [row("LSHTC", f"paper: {who}", shares, speed, nothing) for who, *shares, speed in PAPER_ROWS]
    found: dict[str, dict[str, dict]] = {}
    right = {}
    for name in at_hand(names):
        title, sets = TITLES[name], inputs(name, args.quick)
        found[title] = {PAPER: {}, OURS: {}}
        for who, of_k in found[title].items():
            before = None
            for k in SETS[name][:2] if args.quick else SETS[name]:
                told = of_k[k] = measure(name, who, k, sets[who], args.quick)
                gap = paired(told["correct"], before, "row above")
                before = right[f"{title}: {who}, k = {k}"] = told["correct"]
                rows.append(row(title, f"{who}, k = {k}", told["precision"], f"{told['speed']:,.0f}", gap, told))
                print(f"{title}, {who}, k = {k}: {told['precision'][0]:.2f} % P@1", flush=True)
    if not found:
        return
    notes = [
        "Paper: LSHTC, Table 7 and §5.4; starred speeds as reported by other authors. Other data, so only the shape "
        "compares: more candidates are slower and better.",
        "Models, inputs, rate and epochs as in Table 6; one thread, all test rows in one call. Difference and p: error "
        "at rank 1 against the row above, McNemar's exact test on the same test rows.",
    ]  # fmt: skip
    title = "Table 7: precision against speed by the number of candidates"
    draw(found, publish("table_7", title, rows, notes, args.quick, right))


if __name__ == "__main__":
    main()
