"""Labels that are described before they have rows: WordNet with a fifth of its labels held out.

    python benchmarks/label_text.py

A description is the words of a label's synset and its definition, weighted as the rows are. The labels that are held
out get 0, 1 or 5 of their training rows, in `fit` or with `partial_fit` after it; all other labels keep their rows.
Accuracy on the test rows of both kinds.

The description of a label is the text of its synset, and that synset may be a test row of the label above it: such a
row looks exactly like the new label, so it is no longer predicted correctly. One column leaves these rows out. The
last one shows which part of the loss of the other labels is not due to predictions of new labels.
Writes `label_text/results.md`.
"""

import argparse
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # of the repository: `benchmarks` is not installed

from benchmarks.origin import machine, when  # noqa: E402
from benchmarks.tables import markdown_table  # noqa: E402
from manyclass import LabelTreeClassifier, Taxonomy  # noqa: E402
from manyclass.datasets import gloss_vectorizer, load_wordnet, load_wordnet_labels, tfidf_transformer  # noqa: E402

HELD_OUT = 0.2
N_ROWS = (0, 1, 5)
SEED = 0
SAME = 0.99  # cosine of a row that is the description of a label


class Rows(NamedTuple):
    """The set, with descriptions of all labels and which labels are held out."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    described: tuple[np.ndarray, Any]
    held_out: np.ndarray
    taxonomy: Taxonomy


def load() -> Rows:
    """WordNet; labels are their names."""
    data, known = load_wordnet(), load_wordnet_labels()
    weights = tfidf_transformer().fit(data.X_train)
    counts = data.X_train, data.X_test, gloss_vectorizer(data.feature_names).transform(known.descriptions)
    X, X_test, vectors = (weights.transform(part).tocsr() for part in counts)
    names = data.label_names
    held_out = np.random.default_rng(SEED).permutation(names)[: int(HELD_OUT * len(names))]
    described, taxonomy = (names, vectors), Taxonomy.from_parents(known.parents)
    return Rows(X, names[data.y_train], X_test, names[data.y_test], described, held_out, taxonomy)


def first_rows(rows: Rows, n: int) -> np.ndarray:
    """Up to n random training rows of each label that is held out."""
    order = np.random.default_rng(SEED).permutation(np.flatnonzero(np.isin(rows.y, rows.held_out)))
    of_label = np.argsort(rows.y[order], kind="stable")
    order, y = order[of_label], rows.y[order][of_label]
    number = np.arange(len(y)) - np.searchsorted(y, y)  # among those of its label
    return order[number < n]


def accuracies(model: LabelTreeClassifier, rows: Rows) -> list[str]:
    """In %, on test rows of held-out labels, and of the others: all, without descriptions, without new predictions."""
    right, held_out = model.predict(rows.X_test) == rows.y_test, np.isin(rows.y_test, rows.held_out)
    labels, vectors = rows.described
    cosines = rows.X_test @ vectors[np.isin(labels, rows.held_out)].T
    is_description = cosines.max(axis=1).toarray().ravel() > SAME
    found = [f"{100 * right[part].mean():.2f}" for part in (held_out, ~held_out, ~held_out & ~is_description)]
    new = model.classes_[np.isin(model.classes_, rows.held_out)]
    if len(new):
        right = model.remove_classes(new).predict(rows.X_test) == rows.y_test
        model.add_classes(new)
    found.append(f"{100 * right[~held_out].mean():.2f}")
    print(*found, file=sys.stderr, flush=True)
    return found


def batch(rows: Rows) -> list[list[str]]:
    """`fit` with the descriptions of all labels or none, and some rows of the labels that are held out."""
    others, lines = np.flatnonzero(~np.isin(rows.y, rows.held_out)), []
    for n in N_ROWS:
        used = np.sort(np.concatenate([others, first_rows(rows, n)]))
        X, y = rows.X[used], rows.y[used]
        for given, arguments in {
            "nothing": {},
            "descriptions": {"label_features": rows.described},
            "descriptions and taxonomy": {"label_features": rows.described, "hierarchy": rows.taxonomy},
        }.items():
            if "taxonomy" not in given or n == 0:
                model = LabelTreeClassifier(random_state=0).fit(X, y, **arguments)
                lines.append(["fit", given, str(n), *accuracies(model, rows)])
    return lines


def online(rows: Rows) -> list[list[str]]:
    """`fit` without the labels that are held out; then their descriptions and rows come one after the other."""
    others, held_out = ~np.isin(rows.y, rows.held_out), np.isin(rows.described[0], rows.held_out)
    labels, vectors = rows.described
    old, new = ((labels[part], vectors[part]) for part in (~held_out, held_out))
    model = LabelTreeClassifier(random_state=0).fit(rows.X[others], rows.y[others], label_features=old)
    model.partial_fit(None, None, label_features=new)
    lines, before = [], np.empty(0, int)
    for n in N_ROWS:
        now = first_rows(rows, n)
        more = np.random.default_rng(SEED).permutation(np.setdiff1d(now, before))
        if len(more):
            model.partial_fit(sp.csr_matrix(rows.X[more]), rows.y[more])
        before = now
        lines.append(["partial_fit", "descriptions", str(n), *accuracies(model, rows)])
    return lines


def main() -> int:
    """Measure and write the page."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    rows, about = load(), machine()
    text = (
        f"`python benchmarks/label_text.py` writes this page. {about['machine']}; {when()}. "
        f"LabelTreeClassifier with default options on WordNet; {len(rows.held_out):,} of {len(rows.described[0]):,} "
        "labels are held out. A description is that of `load_wordnet_labels`: words of the synset and its definition. "
        'With `partial_fit`, new labels and their rows come after `fit`, each row once. "Without descriptions": '
        "without the test rows that are themselves the description of a new label. Last column: if new labels are "
        "learned but not predicted (`remove_classes`)."
    )
    head = ["learned with", "given", "rows per new label", "new labels %", "other labels %", "without descriptions %"]
    head += ["not predicting new labels %"]
    table = markdown_table(head, [*batch(rows), *online(rows)])
    (ROOT / "benchmarks" / "label_text" / "results.md").write_text(f"# Label descriptions\n\n{text}\n\n{table}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
