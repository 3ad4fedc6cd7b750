"""Mean depth of LOM and MLOM trees against 4 log2 K, and work against depth, by counters."""

import numpy as np
from report import load_or_skip, load_tfidf, parse, publish

from manyclass import LomTreeClassifier, MlomTreeClassifier

MODELS = {
    "LOM tree": (LomTreeClassifier, {}),
    "MLOM tree, ours": (MlomTreeClassifier, {}),
    "MLOM tree, the paper's": (MlomTreeClassifier, {"centre": "median", "guests": False}),
}


def main() -> None:
    args = parse(__doc__)
    rows = []
    for name in ("aloi", "wordnet-hypernym", "revdict"):
        X, y, X_test, y_test = load_or_skip(name) if name == "aloi" else load_tfidf(name)
        if args.quick:
            X, y, X_test, y_test = X[::20], y[::20], X_test[::20], y_test[::20]
        for who, (kind, options) in MODELS.items():
            model = kind(random_state=0, n_epochs=3, **options).fit(X, y)
            told, n_classes = model.diagnose(X_test, y_test), len(model.classes_)
            limit = 4 * np.log2(n_classes)
            rows.append(
                {
                    "data": name,
                    "model": who,
                    "classes": n_classes,
                    "mean depth": f"{told['depth']:.1f}",
                    "4 log2 K": f"{limit:.1f}",
                    "work": f"{told['work']:.1f}",
                    "within": "yes" if told["work"] <= told["depth"] <= limit else "no",
                    "accuracy %": f"{100 * told['accuracy']:.1f}",
                    "model MB": f"{model.n_bytes_ / 1e6:.0f}",
                }
            )
            print(rows[-1], flush=True)
    notes = ["Test rows, three epochs. Work: routers scored per prediction; no class predictor is ever scored."]
    publish("depth", "Depth of the online trees", rows, notes, args.quick)


if __name__ == "__main__":
    main()
