"""Slim files with weights rounded to float16 and int8: size, test accuracy, and how many answers change."""

import os
import tempfile
import time

import numpy as np
from report import at_hand, load_or_skip, load_tfidf, parse, publish

from manyclass import LabelTreeClassifier, OneAgainstAllClassifier, RecallTreeClassifier, load_model
from manyclass.core.precision import PRECISIONS

SETTINGS = [  # set, name, model, smallest weights left out
    ("aloi", "Recall Tree", RecallTreeClassifier(n_epochs=5, random_state=0), 0.0),
    ("aloi", "one-against-all", OneAgainstAllClassifier(n_epochs=2, random_state=0), 0.0),
    ("wordnet-hypernym", "label tree", LabelTreeClassifier(n_jobs=2, random_state=0), 0.0),
    ("wordnet-hypernym", "label tree, prune 0.3", LabelTreeClassifier(n_jobs=2, random_state=0), 0.3),
]


def lines(model, prune: float, X, y, folder: str) -> list[dict]:
    """A line for each precision."""
    path, out, before, first = f"{folder}/model", [], None, 0.0
    for precision in PRECISIONS:
        model.save(path, slim=True, prune=prune, precision=precision)
        answers = load_model(path).predict(X)
        accuracy = 100 * float(np.mean(answers == y))
        if before is None:
            before, first = answers, accuracy
        out.append(
            {
                "precision": precision,
                "MB": f"{os.path.getsize(path) / 1e6:.2f}",
                "test accuracy %": f"{accuracy:.2f}",
                "difference": f"{accuracy - first:.2f}",
                "answers changed": int(np.sum(answers != before)),
                "test rows": len(y),
            }
        )
    return out


def main() -> None:
    """Print the table."""
    args = parse(__doc__)
    rows, notes = [], ["Recall Tree on ALOI: 5 epochs; one-against-all: 2; on WordNet: one pass. Else the defaults."]
    for name, called, model, prune in SETTINGS:
        if not at_hand([name]):
            continue
        X, y, X_test, y_test = load_or_skip(name) if name == "aloi" else load_tfidf(name)
        if args.quick:
            X, y, X_test, y_test = X[:3000], y[:3000], X_test[:1000], y_test[:1000]
            model.set_params(n_epochs=1)
        start = time.perf_counter()
        model.fit(X, y)
        print(f"{name}, {called}: trained in {time.perf_counter() - start:.0f} s", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            rows += [{"set": name, "model": called, **line} for line in lines(model, prune, X_test, y_test, folder)]
    publish("precision", "Slim files by the precision of their weights", rows, notes, args.quick)


if __name__ == "__main__":
    main()
