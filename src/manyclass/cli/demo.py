"""`manyclass demo`: two classifiers on WordNet definitions, predictions for a few sentences, and part of the tree."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.tree import Tree
from sklearn.pipeline import make_pipeline

from .. import LabelTreeClassifier, OneAgainstAllClassifier
from ..datasets import gloss_vectorizer, load_wordnet, tfidf_transformer
from ..trained import nodes_with_labels
from .messages import stderr

SENTENCES = [
    "a large sea bird with long wings that eats fish",
    "a person who repairs shoes and boots",
    "a sweet cake filled with fruit or cream",
    "the act of moving quickly from one place to another",
    "a tool with a sharp blade used for cutting wood",
]

out = Console(highlight=False)


def run(epochs: int, seed: int, ask: list[str] | None) -> None:
    """Train, compare and predict."""
    start = time.perf_counter()
    data = load_wordnet()
    weighting = tfidf_transformer().fit(data.X_train)
    X, X_test = weighting.transform(data.X_train), weighting.transform(data.X_test)
    names = np.array([name.split(".")[0].replace("_", " ") for name in data.label_names])
    out.print(
        f"WordNet (Princeton University, see its licence): {X.shape[0]:,} training and {X_test.shape[0]:,} test "
        f"definitions, {X.shape[1]:,} words, {len(names):,} categories"
    )
    models: dict[str, Any] = {
        "label tree": LabelTreeClassifier(n_epochs=epochs, random_state=seed, verbose=1),
        "one-against-all": OneAgainstAllClassifier(n_epochs=epochs, random_state=seed, verbose=1),
    }
    compilation = sum(_seconds(partial(_compile, model, X, data.y_train)) for model in models.values())
    out.print(f"Compilation: {compilation:.1f} s (cached on disk for the next time)")
    results = {}
    for name, model in models.items():
        stderr.print(f"Training {name}")
        times = {
            "train": _seconds(partial(model.fit, X, data.y_train)),
            "predict": _seconds(partial(model.predict, X_test)),
        }
        results[name] = {**times, **model.diagnose(X_test, data.y_test)}
    out.print(_comparison(results, X_test.shape[0], len(names)))
    tree = models["label tree"]
    best = _predict(tree, make_pipeline(gloss_vectorizer(data.feature_names), weighting), names, ask or SENTENCES)
    out.print(_tree(tree, names, best))
    out.print(f"Total time: {time.perf_counter() - start:.0f} s, including {compilation:.0f} s of compilation")


def _compile(model: Any, X, y) -> None:
    """Call everything once on a few rows, so that later times do not include compilation."""
    small = type(model)(**{**model.get_params(), "n_epochs": 1, "verbose": 0}).fit(X[:500], y[:500])
    small.diagnose(X[:5], y[:5])
    small.predict_topk(X[:5], 2)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _comparison(results: dict[str, dict], n_test: int, n_classes: int) -> Table:
    table = Table("", *results, title=f"Results on {n_test:,} test definitions")
    rows: list[tuple[str, Callable[[dict], str]]] = [
        ("accuracy", lambda r: f"{100 * r['accuracy']:.1f} %"),
        (f"categories scored, of {n_classes:,}", lambda r: f"{r['candidates_scored']:,.0f}"),
        ("correct one among them", lambda r: f"{100 * r['recall']:.1f} %"),
        ("routers scored", lambda r: f"{r['routers_scored']:.0f}"),
        ("training", lambda r: f"{r['train']:.1f} s"),
        ("prediction", lambda r: f"{1e6 * r['predict'] / n_test:.0f} µs per definition"),
    ]
    for title, cell in rows:
        table.add_row(title, *(cell(result) for result in results.values()))
    return table


def _predict(model: Any, features: Any, names: np.ndarray, sentences: list[str]) -> int | None:
    """Print the five best categories of each sentence; return the best one of the first sentence with known words."""
    first = None
    for sentence in sentences:
        x = features.transform([sentence])
        if x.nnz == 0:
            out.print(f'"{sentence}": none of these words is in the WordNet definitions', markup=False)
            continue
        labels, scores = model.predict_topk(x, 5)
        best = ", ".join(f"{names[label]} ({score:.1f})" for label, score in zip(labels[0], scores[0], strict=True))
        out.print(f'"{sentence}"\n    {best}', markup=False)
        first = int(labels[0, 0]) if first is None else first
    return first


def _tree(model: Any, names: np.ndarray, label: int | None, n_labels: int = 5) -> Tree:
    """The children of the root and of each node on the path to one label, with their most frequent labels."""
    nodes = nodes_with_labels(model)
    labels = {node["node"]: model.classes_[node["labels"]].tolist() for node in nodes}
    inner = {node["parent"] for node in nodes}
    path = {node for node in labels if label in labels[node]}
    title = "" if label is None else f' and the path to "{names[label]}"'
    branches = {nodes[0]["node"]: Tree(f"Top of the tree{title}: number of categories and the most frequent ones")}
    for node in nodes[1:]:
        number, parent = node["node"], node["parent"]
        if parent == nodes[0]["node"] or parent in path:
            every = number in path and number not in inner
            shown = ", ".join(names[labels[number][: None if every else n_labels]])
            text = f"{len(labels[number]):,}: {shown}{'' if every else ', ...'}"
            branches[number] = branches[parent].add(text)
    return branches[nodes[0]["node"]]
