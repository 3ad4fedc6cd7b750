"""`manyclass demo`: real data, both contenders, answers a person can judge, and the tree."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.tree import Tree as Picture

from .. import LabelTreeClassifier, OneAgainstAllClassifier
from ..datasets import gloss_vectorizer, load_wordnet, tfidf_transformer

SENTENCES = [
    "a large sea bird with long wings that eats fish",
    "a person who repairs shoes and boots",
    "a sweet cake filled with fruit or cream",
    "the act of moving quickly from one place to another",
    "a tool with a sharp blade used for cutting wood",
]

out, progress = Console(), Console(stderr=True)


def run(epochs: int, seed: int, ask: list[str]) -> None:
    """Train, compare, answer, draw."""
    begun = time.perf_counter()
    data = load_wordnet()
    weighting = tfidf_transformer().fit(data.X_train)
    X, X_test = weighting.transform(data.X_train), weighting.transform(data.X_test)
    names = np.array([name.split(".")[0].replace("_", " ") for name in data.label_names])
    out.print(
        f"WordNet glosses: {X.shape[0]:,} definitions to learn, {X_test.shape[0]:,} to test, "
        f"{X.shape[1]:,} words, {len(names):,} categories (Princeton WordNet, see its licence)"
    )
    contenders: dict[str, Any] = {
        "label tree": LabelTreeClassifier(n_epochs=epochs, random_state=seed, verbose=1),
        "one-against-all": OneAgainstAllClassifier(n_epochs=epochs, random_state=seed, verbose=1),
    }
    compile_seconds = sum(_timed(partial(_compile, model, X, data.y_train)) for model in contenders.values())
    out.print(f"compiling: {compile_seconds:.1f} s (kept on disk: the next start skips it)")
    results = {}
    for name, model in contenders.items():
        progress.print(f"training {name}")
        train = _timed(partial(model.fit, X, data.y_train))
        predict = _timed(partial(model.predict, X_test))
        results[name] = {"train": train, "predict": predict, **model.diagnose(X_test, data.y_test)}
    out.print(_comparison(results, len(X_test.indptr) - 1, len(names)))
    out.print(_verdict(results))
    tree = contenders["label tree"]
    shown = _answer(tree, weighting, data, names, ask or SENTENCES)
    out.print(_picture(tree, names, np.bincount(data.y_train, minlength=len(names)), shown))
    out.print(f"all of it took {time.perf_counter() - begun:.0f} s, {compile_seconds:.0f} s of them compiling")


def _compile(model: Any, X, y) -> None:
    """Call everything once on a few rows, so that what is timed below is work and not compilation."""
    small = type(model)(**{**model.get_params(), "n_epochs": 1, "verbose": 0}).fit(X[:500], y[:500])
    small.diagnose(X[:5], y[:5])
    small.predict_topk(X[:5], 2)


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _comparison(results: dict[str, dict], n_test: int, n_classes: int) -> Table:
    table = Table("", *results, title=f"on {n_test:,} definitions never seen")
    rows: list[tuple[str, Callable[[dict], str]]] = [
        ("answers right", lambda r: f"{100 * r['accuracy']:.1f} %"),
        (f"categories scored, of {n_classes:,}", lambda r: f"{r['candidates_scored']:,.0f}"),
        ("right one among them", lambda r: f"{100 * r['recall']:.1f} %"),
        ("routers scored", lambda r: f"{r['routers_scored']:.0f}"),
        ("training", lambda r: f"{r['train']:.1f} s"),
        ("answering", lambda r: f"{1e6 * r['predict'] / n_test:.0f} µs each"),
    ]
    for title, cell in rows:
        table.add_row(title, *(cell(result) for result in results.values()))
    return table


def _verdict(results: dict[str, dict]) -> str:
    """Who won what, whoever it was."""
    tree, every = results["label tree"], results["one-against-all"]

    def winner(name: str, more_is_better: bool) -> str:
        tree_wins = (tree[name] > every[name]) == more_is_better
        return "the label tree" if tree_wins else "one-against-all"

    return (
        f"More right answers: {winner('accuracy', True)}. Faster to train: {winner('train', False)}. "
        f"Faster to answer: {winner('predict', False)}."
    )


def _answer(model, weighting, data, names: np.ndarray, sentences: list[str]) -> int | None:
    """The five best categories for what a person typed; return the best one for the first sentence with known words."""
    vectorizer = gloss_vectorizer(data.feature_names)
    first = None
    for sentence in sentences:
        counts = vectorizer.transform([sentence])
        if counts.nnz == 0:
            out.print(f'"{sentence}": none of these words occurs in WordNet\'s glosses', highlight=False)
            continue
        labels, scores = model.predict_topk(weighting.transform(counts), 5)
        answers = ", ".join(f"{names[label]} ({score:.1f})" for label, score in zip(labels[0], scores[0], strict=True))
        out.print(f'"{sentence}"\n    {answers}', highlight=False)
        first = int(labels[0, 0]) if first is None else first
    return first


def _picture(model, names: np.ndarray, counts: np.ndarray, shown: int | None, n_labels: int = 5) -> Picture:
    """The root's branches and, level by level, those on the way to one label, with the most frequent labels of each."""
    rows = model.tree_table()
    below: dict[int, list[int]] = {row["node"]: list(row["labels"]) for row in rows}
    for row in reversed(rows[1:]):
        below[row["parent"]] += below[row["node"]]
    way = {row["node"] for row in rows if shown in below[row["node"]]}
    to = "" if shown is None else f', and the way to "{names[shown]}"'
    picture = Picture(f"The tree's first branches{to}: how many categories, and which mostly")
    branches = {0: picture}
    for row in rows[1:]:
        if row["parent"] == 0 or row["parent"] in way:
            labels = sorted(below[row["node"]], key=lambda label: -counts[label])
            whole = row["node"] in way and len(row["labels"]) > 0  # the leaf that the way leads to
            told = ", ".join(names[label] for label in labels[: None if whole else n_labels])
            branches[row["node"]] = branches[row["parent"]].add(f"{len(labels):,}: {told}{'' if whole else ', …'}")
    return picture
