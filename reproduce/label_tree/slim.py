"""Slim files of the label tree: size and accuracy by how much is pruned, on held-out rows and on the test set."""

import os
import tempfile

import numpy as np
from report import at_hand, load_unit, parse, publish

from manyclass import LabelTreeClassifier, load_model

SETS = ("wordnet-hypernym", "clinc150", "eurlex-4k")
PRUNES = (None, 0.0, 0.1, 0.3, 0.5, 1.0)  # None: the whole model


def sizes(X, y, tests: list, folder: str) -> list[tuple[float, list[float]]]:
    """For each way to save: megabytes, and the accuracy on each of the test sets."""
    model, path, out = LabelTreeClassifier(random_state=0, n_jobs=2).fit(X, y), f"{folder}/model", []
    for prune in PRUNES:
        model.save(path, slim=prune is not None, prune=prune or 0.0)
        loaded = load_model(path)
        out.append((os.path.getsize(path) / 1e6, [100 * loaded.diagnose(*rows)["accuracy"] for rows in tests]))
    return out


def main() -> None:
    """Print the table."""
    args = parse(__doc__, sets={"nargs": "*", "default": list(SETS), "help": "which sets to run"})
    rows = []
    for name in at_hand(args.sets):
        X, y, X_test, y_test = load_unit(name)
        if args.quick:
            X, y = X[:2000], y[:2000]
        order = np.random.default_rng(0).permutation(X.shape[0])
        held, kept = order[: len(order) // 10], order[len(order) // 10 :]
        with tempfile.TemporaryDirectory() as folder:
            held_out = sizes(X[kept], y[kept], [(X[held], y[held])], folder)
            tested = sizes(X, y, [(X_test, y_test)], folder)
        for prune, (_, [held_accuracy]), (megabytes, [accuracy]) in zip(PRUNES, held_out, tested, strict=True):
            rows.append(
                {
                    "set": name,
                    "file": "whole" if prune is None else f"slim, prune {prune:g}",
                    "MB": f"{megabytes:.1f}",
                    "held-out P@1": f"{held_accuracy:.2f}",
                    "test P@1": f"{accuracy:.2f}",
                }
            )
    notes = ["Held out: a tenth of the training rows, of a model trained on the others."]
    publish("slim", "Label tree: slim and pruned files", rows, notes, args.quick)


if __name__ == "__main__":
    main()
