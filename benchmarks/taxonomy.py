"""Coarser predictions on real taxonomies, and the taxonomy against the learned tree.

    python benchmarks/taxonomy.py

Sets: WordNet with its hypernym tree, inside the package; ICD-10-CM: the texts of diseases and their inclusion terms,
to be classified into categories of three or four characters that have at least five texts. The latter needs the
tabular list in XML as `icd10cm-tabular.xml` in the folder `MANYCLASS_DATA`: https://www.cdc.gov/nchs/icd/icd-10-cm, or
the file inside the package simple-icd-10-cm of PyPI. A set that is not there is named and left out.

Writes `taxonomy/results.md`.
"""

import argparse
import os
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # of the repository: `benchmarks` is not installed

from benchmarks.origin import machine, when  # noqa: E402
from benchmarks.sets import SetUnavailable  # noqa: E402
from benchmarks.tables import markdown_table  # noqa: E402
from manyclass import LabelTreeClassifier, Taxonomy  # noqa: E402
from manyclass.datasets import load_wordnet, load_wordnet_labels, tfidf_transformer  # noqa: E402
from manyclass.datasets.local import FOLDER_VARIABLE  # noqa: E402
from manyclass.metrics import accuracy_by_depth, hierarchical_scores, path_accuracy  # noqa: E402

SEEDS = (0, 1)
LEARNED = "learned"
CONFIDENCES = (0.9, 0.95)
ICD_FILE = "icd10cm-tabular.xml"
FEWEST_TEXTS = 5  # of a category
LONGEST_CODE = 4  # characters of a category
TEST_SHARE = 0.2


class Rows(NamedTuple):
    """A set with a taxonomy of its labels."""

    X_train: Any
    y_train: np.ndarray
    X_test: Any
    y_test: np.ndarray
    taxonomy: Taxonomy


def wordnet() -> Rows:
    """WordNet: definitions to hypernyms."""
    data = load_wordnet()
    weights = tfidf_transformer().fit(data.X_train)
    X_train, X_test = (weights.transform(X).tocsr() for X in (data.X_train, data.X_test))
    taxonomy = Taxonomy.from_parents(load_wordnet_labels().parents)
    return Rows(X_train, data.label_names[data.y_train], X_test, data.label_names[data.y_test], taxonomy)


def icd() -> Rows:
    """ICD-10-CM: texts of diseases to categories."""
    path = Path(os.environ.get(FOLDER_VARIABLE, "")) / ICD_FILE
    if not path.is_file():
        raise SetUnavailable(f"ICD-10-CM left out: no {ICD_FILE} in the folder {FOLDER_VARIABLE}.")
    parents: dict[str, str | None] = {}
    texts, labels = [], []
    for text, label in _texts(ElementTree.parse(path).getroot(), parents):
        texts.append(text)
        labels.append(label)
    y = np.array(labels)
    names, counts = np.unique(y, return_counts=True)
    kept = np.flatnonzero(np.isin(y, names[counts >= FEWEST_TEXTS]))
    kept = np.random.default_rng(0).permutation(kept)
    n_test = int(TEST_SHARE * len(kept))
    test, train = kept[:n_test], kept[n_test:]
    vectorizer = TfidfVectorizer(sublinear_tf=True, dtype=np.float32)
    X_train = vectorizer.fit_transform([texts[row] for row in train])
    X_test = vectorizer.transform([texts[row] for row in test])
    return Rows(X_train, y[train], X_test, y[test], Taxonomy.from_parents(parents))


def _texts(root: Any, parents: dict[str, str | None]) -> Iterator[tuple[str, str]]:
    """(text, category) of all codes. Enters all nodes into `parents`."""

    def below(code: Any, above: str) -> Iterator[tuple[str, str]]:
        name = code.findtext("name")
        if len(name.replace(".", "")) <= LONGEST_CODE:
            parents[name], above = above, name
        notes = [note.text for kind in ("inclusionTerm", "includes") for note in code.findall(f"{kind}/note")]
        yield from ((text, above) for text in [code.findtext("desc"), *notes])
        for child in code.findall("diag"):
            yield from below(child, above)

    for chapter in root.findall("chapter"):
        parents[chapter.findtext("desc")] = None
        for section in chapter.findall("section"):
            parents[section.findtext("desc")] = chapter.findtext("desc")
            for code in section.findall("diag"):
                yield from below(code, section.findtext("desc"))


SETS: dict[str, Callable[[], Rows]] = {"WordNet": wordnet, "ICD-10-CM": icd}


class Trial(NamedTuple):
    """One model."""

    tree: str
    model: LabelTreeClassifier
    facts: dict[str, float]  # of `diagnose`


def trials(rows: Rows) -> list[Trial]:
    """The learned tree and the tree with the taxonomy, for all seeds."""
    found = []
    for seed in SEEDS:
        for tree, hierarchy in ((LEARNED, None), ("with taxonomy", rows.taxonomy)):
            model = LabelTreeClassifier(random_state=seed).fit(rows.X_train, rows.y_train, hierarchy=hierarchy)
            found.append(Trial(tree, model, model.diagnose(rows.X_test, rows.y_test)))
            print(tree, seed, found[-1].facts, file=sys.stderr, flush=True)
    return found


def trees_table(rows: Rows, found: list[Trial]) -> str:
    """What the taxonomy costs or gains: means over the seeds."""
    lines = []
    for tree in dict.fromkeys(trial.tree for trial in found):
        own = [trial for trial in found if trial.tree == tree]
        scores = [hierarchical_scores(rows.y_test, t.model.predict(rows.X_test), rows.taxonomy)[2] for t in own]
        means = {name: np.mean([trial.facts[name] for trial in own]) for name in own[0].facts}
        each = ", ".join(f"{100 * trial.facts['accuracy']:.2f}" for trial in own)
        size = np.mean([trial.model.n_bytes_ for trial in own]) / 1e6
        lines.append([
            tree, f"{100 * means['accuracy']:.2f}", each, f"{100 * np.mean(scores):.2f}",
            f"{100 * means['recall']:.2f}", f"{means['depth']:.0f}", f"{means['work']:.0f}", f"{size:.1f}",
        ])  # fmt: skip
    head = ["tree", "accuracy %", "of each seed", "hierarchical F1 %", "recall %", "depth", "work per row", "model MB"]
    return markdown_table(head, lines)


def paths_table(rows: Rows, found: list[Trial]) -> str:
    """Coarser predictions of the models of the first seed."""
    lines = []
    for trial in found[:2]:
        trees = {"taxonomy": rows.taxonomy}
        if trial.tree == LEARNED:
            trees["learned groups"] = trial.model.taxonomy_
        for nodes, tree in trees.items():
            depth_of_label = tree.depth[tree.find(rows.y_test)].mean()
            for confidence in CONFIDENCES:
                paths = trial.model.predict_path(rows.X_test, confidence, tree)
                depth = np.array([len(path) for path in paths.paths])
                is_label = np.isin(paths.keys, trial.model.classes_.astype(str))
                lines.append([
                    trial.tree, nodes, f"{100 * confidence:.0f}",
                    f"{100 * path_accuracy(rows.y_test, paths.keys, tree):.2f}", f"{depth.mean():.2f}",
                    f"{depth_of_label:.2f}", f"{100 * np.mean(is_label):.1f}", f"{100 * np.mean(depth == 0):.1f}",
                ])  # fmt: skip
    head = ["tree", "nodes", "confidence %", "accuracy %", "mean depth", "depth of labels", "a label %", "nothing %"]
    return markdown_table(head, lines)


def depths_table(rows: Rows, found: list[Trial]) -> str:
    """Accuracy of `predict` by depth."""
    columns = [accuracy_by_depth(rows.y_test, t.model.predict(rows.X_test), rows.taxonomy) for t in found[:2]]
    known = taxonomy_depths(rows)
    lines = [
        [str(depth), f"{known[depth - 1]:,}", *(f"{100 * column[depth - 1]:.2f}" for column in columns)]
        for depth in range(1, len(known) + 1)
    ]
    return markdown_table(["depth", "test rows", *(trial.tree for trial in found[:2])], lines)


def taxonomy_depths(rows: Rows) -> list[int]:
    """The number of test rows whose label is at least so deep, for depth 1, 2, ..."""
    depth = rows.taxonomy.depth[rows.taxonomy.find(rows.y_test)]
    return [int((depth >= least).sum()) for least in range(1, depth.max() + 1)]


def section(name: str, rows: Rows) -> str:
    """The results of a set."""
    found = trials(rows)
    n_labels = len(np.unique(rows.y_train))
    facts = (
        f"{rows.X_train.shape[0]:,} training rows, {rows.X_test.shape[0]:,} test rows, {n_labels:,} labels; taxonomy: "
        f"{len(rows.taxonomy) - 1:,} nodes, {rows.taxonomy.depth.max()} levels."
    )
    tables = [trees_table(rows, found), "Coarser predictions:", paths_table(rows, found)]
    return "\n\n".join([f"## {name}", facts, *tables, "Accuracy by depth:", depths_table(rows, found)])


def main() -> int:
    """Measure all sets that are on this machine."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    about = machine()
    parts = [
        "# Taxonomies",
        f"`python benchmarks/taxonomy.py` writes this page. {about['machine']}; {when()}. "
        f"LabelTreeClassifier with default options, seeds {', '.join(map(str, SEEDS))}. Recall: share of rows whose "
        "label is a candidate. Work: routers and labels scored per row. Coarser predictions: `predict_path` of the "
        "first seed. Accuracy: of the rows with a prediction, those whose node is the true label or above it. "
        "A label: the prediction is a label. Nothing: not even a node at the top is probable enough.",
    ]
    for name, load in SETS.items():
        try:
            parts.append(section(name, load()))
        except SetUnavailable as error:
            print(error, file=sys.stderr)
    (ROOT / "benchmarks" / "taxonomy" / "results.md").write_text("\n\n".join(parts) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
