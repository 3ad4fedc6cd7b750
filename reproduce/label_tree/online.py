"""Online against batch: one pass of `partial_fit` from nothing or after `fit` of a half, beside `fit` of all rows."""

import time

import numpy as np
from report import at_hand, load_tfidf, parse, publish

from manyclass import LabelTreeClassifier

SETS = {"clinc150": "CLINC150", "wordnet-hypernym": "WordNet", "revdict": "revdict"}


def orders(y: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Row orders of one pass."""
    shuffled = np.random.default_rng(seed).permutation(len(y))
    classes = np.random.default_rng(seed).permutation(y.max() + 1)
    return {"one pass, shuffled": shuffled, "one pass, class after class": shuffled[np.argsort(classes[y[shuffled]])]}


def main() -> None:
    """Print the table."""
    args = parse(__doc__, sets={"nargs": "*", "default": list(SETS), "help": "which sets to run"})
    rows = []
    for name in at_hand(args.sets):
        title = SETS[name]
        X, y, X_test, y_test = load_tfidf(name)
        if args.quick:
            keep = y < np.quantile(y, 0.05)
            X, y = X[keep], y[keep]
        batch = LabelTreeClassifier(random_state=0).fit(X, y).diagnose(X_test, y_test)
        rows.append(_row(title, "fit", batch, batch, None))
        runs = {what: [] for what in orders(y, 0)}
        for seed in range(1 if args.quick else 3):
            for what, order in orders(y, seed).items():
                start = time.perf_counter()
                model = LabelTreeClassifier(random_state=seed).partial_fit(X[order], y[order])
                seconds = time.perf_counter() - start
                runs[what].append((model.diagnose(X_test, y_test), len(y) / seconds))
                shuffled = np.random.default_rng(seed + 100).permutation(len(y))
                if "class after class" in what:  # what one more, shuffled pass makes of it
                    model.partial_fit(X[shuffled], y[shuffled])
                    runs.setdefault(f"{what}, then one shuffled", []).append((model.diagnose(X_test, y_test), None))
            first, rest = np.array_split(np.random.default_rng(seed).permutation(len(y)), 2)
            model = LabelTreeClassifier(random_state=seed).fit(X[first], y[first]).partial_fit(X[rest], y[rest])
            runs.setdefault("fit of one half, then one pass over the other", []).append(
                (model.diagnose(X_test, y_test), None)
            )
        for what, told in runs.items():
            mean = {key: float(np.mean([run[0][key] for run in told])) for key in told[0][0]}
            rows.append(_row(title, what, mean, batch, None if told[0][1] is None else np.median([r[1] for r in told])))
    notes = [
        "Defaults of LabelTreeClassifier; tf-idf, unit rows. partial_fit begins with nothing: no labels, no tree. "
        "Means over three orders. One thread; the first run's speed includes compilation.",
    ]
    publish("online", "Label tree: online against batch", rows, notes, args.quick)


def _row(title: str, what: str, told: dict, batch: dict, speed: float | None) -> dict:
    return {
        "set": title,
        "training": what,
        "accuracy %": f"{100 * told['accuracy']:.2f}",
        "against fit": f"{100 * (told['accuracy'] - batch['accuracy']):+.2f}",
        "recall %": f"{100 * told['recall']:.1f}",
        "work": f"{told['work']:.0f}",
        "rows/s": None if speed is None else f"{speed:,.0f}",
    }


if __name__ == "__main__":
    main()
