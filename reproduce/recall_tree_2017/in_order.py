"""§4.3 and Figure 5a of the Recall Tree paper: progressive error of the next word, in order and permuted.

Each chunk of rows is answered before it is learned. Text in its own order lets the tree follow the topic.
"""

import time

import numpy as np
from report import BLUE, ORANGE, load_or_skip, new_plot, next_word, p_text, p_value, parse, publish, save

from manyclass import AdaGrad, RecallTreeClassifier

PAPER = {"in order": 73.3, "permuted": 74.6}
CHUNK = 250


def progressive_errors(X, y, classes) -> np.ndarray:
    """Which rows are answered wrongly just before they are learned; the first chunk all is."""
    model = RecallTreeClassifier(beam=1, learner=AdaGrad(), random_state=0)
    wrong = np.ones(len(y), bool)
    for first in range(0, len(y), CHUNK):
        part = slice(first, first + CHUNK)
        if first:
            wrong[part] = model.predict(X[part]) != y[part]
        model.partial_fit(X[part], y[part], classes=None if first else classes)
    return wrong


def main() -> None:
    args = parse(__doc__, tokens={"type": int, "default": 2_000_000, "help": "enwik8 words to learn (2,000,000)"})
    train, _, _ = load_or_skip("enwik8")
    X, y = next_word(train[: 20_000 if args.quick else args.tokens])
    classes, n = np.unique(y), len(y)
    orders = {"in order": np.arange(n), "permuted": np.random.default_rng(0).permutation(n)}
    curves, seconds = {}, {}
    for name, order in orders.items():
        start = time.perf_counter()
        wrong = progressive_errors(X[order], y[order], classes)
        curves[name], seconds[name] = 100 * np.cumsum(wrong) / np.arange(1, n + 1), time.perf_counter() - start
        print(f"{name}: {curves[name][-1]:.2f} % progressive error after {seconds[name]:.0f} s", flush=True)

    p = p_text(p_value(curves["in order"][-1], n, curves["permuted"][-1], n))
    rows = [
        {
            "order": name,
            "paper error %": PAPER[name],
            "our error %": f"{curve[-1]:.2f}",
            **{f"after {share:.0%}": f"{curve[int(share * n) - 1]:.2f}" for share in (0.1, 0.25, 0.5)},
            "p, vs in order": None if name == "in order" else p,
            "seconds": f"{seconds[name]:.0f}",
        }
        for name, curve in curves.items()
    ]
    notes = [
        "Paper (§4.3, Figure 5a, LTCB: enwik9, 80,000 words): 73.3 against 74.6 % at the far right, P < 0.0001; the "
        "caption says accuracy, but with 78 % test error it must be error.",
        f"Ours: the first {n + 6:,} words of enwik8, {len(classes):,} of its 50,000-word vocabulary; one pass; "
        f"RecallTreeClassifier(beam=1, learner=AdaGrad()), answers in chunks of {CHUNK} rows before these are learned "
        "(so an answer never knows of up to 249 rows before it). p: N - 1 chi-squared test.",
    ]
    title = "Next word of enwik8: progressive error, in order against permuted (Figure 5a)"
    path = publish("in_order", title, rows, notes, args.quick)

    figure, axes = new_plot("words learned", "average progressive error (%)", "Next word of enwik8, one pass")
    at = np.unique(np.geomspace(CHUNK * 4, n, 400).astype(int)) - 1
    for (name, curve), colour, style in zip(curves.items(), (BLUE, ORANGE), ("-", "--"), strict=True):
        axes.plot(at + 1, curve[at], color=colour, linestyle=style, label=f"{name}: {curve[-1]:.2f} %")
    axes.set_xscale("log")
    axes.legend(frameon=False)
    save(figure, path)


if __name__ == "__main__":
    main()
