"""Looking into a model: words of a text, the tree, labels. Endpoints of the page."""

import re
import threading
import time
from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Response
from sklearn.utils import murmurhash3_32
from starlette.concurrency import run_in_threadpool

from ..core.base import algorithm_of
from ..datasets import load_wordnet
from ..trained import nodes_with_labels
from .gate import Problem
from .model import Copy, ServedModel
from .service import Service, reply

_WORD = re.compile(r"(?u)\b\w\w+\b")  # as scikit-learn's vectorizers find them
MOST_ROWS = 20  # of a request with details
_MOST_WORDS, _LONGEST = 60, 20_000  # words and characters of a text
_SHOWN = 5  # labels of a node
_FOUND = 20  # labels of a search
_NEIGHBOURS = 12
_TOP_WORDS = 15
_LARGE, _OLD = 20_000, 10.0  # labels of a large tree, which is listed at most once in these seconds
_MOST_REMEMBERED = 200_000  # words
_WIDE = 1 << 20  # features; in smaller tables many of WordNet's words would share their number with others
Name = Annotated[str, Query(max_length=1000)]


# -- details of a prediction ---------------------------------------------------------------------------------------


def words_of(copy: Copy, text: str, label: Any) -> list[dict[str, Any]]:
    """The words of a text, and by how much the score of a label drops if the word is left out everywhere."""
    places: dict[str, list[tuple[int, int]]] = {}
    for match in _WORD.finditer(text):
        places.setdefault(match[0].lower(), []).append(match.span())
        if len(places) == _MOST_WORDS:
            break
    without = ["".join(_pieces(text, spans)) for spans in places.values()]
    scores = [_score_of(one, label) for one in copy.predict([text, *without], 50, probabilities=False)]
    out = [
        {"word": text[begin:end], "begin": begin, "end": end, "change": scores[0] - score}
        for spans, score in zip(places.values(), scores[1:], strict=True)
        for begin, end in spans
    ]
    return sorted(out, key=lambda one: one["begin"])


def _pieces(text: str, spans: list[tuple[int, int]]) -> list[str]:
    """The parts of a text outside of some spans."""
    ends = [0, *(end for _, end in spans)]
    return [text[begin:end] for begin, end in zip(ends, [*(begin for begin, _ in spans), len(text)], strict=True)]


def _score_of(prediction: Any, label: Any) -> float:
    """The score of a label, or the lowest one that was found if it is not among them."""
    if label in prediction.labels:
        return prediction.scores[prediction.labels.index(label)]
    return prediction.scores[-1] if prediction.scores else 0.0


# -- the tree ------------------------------------------------------------------------------------------------------


def _nodes(copy: Copy) -> dict[int, dict[str, Any]]:
    out: dict[int, dict[str, Any]] = {}
    for node in nodes_with_labels(copy.estimator):
        labels = copy.trained.labels(np.array(node["labels"][:_SHOWN], np.int64))
        about = {name: node[name] for name in ("node", "parent", "depth")}
        out[node["node"]] = {**about, "n_labels": len(node["labels"]), "labels": labels, "children": []}
        if node["parent"] in out:
            out[node["parent"]]["children"].append(node["node"])
    return out


# -- labels --------------------------------------------------------------------------------------------------------


class Explorer:
    """The trees of models, and the words behind the numbers of hashed features.

    Words are those of the WordNet set in this package and those of texts that were looked at.
    """

    def __init__(self) -> None:
        self._trees: dict[str, tuple[tuple[int, int], float, dict[int, dict[str, Any]]]] = {}
        self._tree_lock = threading.Lock()
        self._words: dict[int, str] = {}  # by hash
        self._features: dict[int, dict[int, str]] = {}  # the first words by their feature, for each number of features
        self._n_numbered: dict[int, int] = {}  # how many words these are
        self._loaded = False  # the words of WordNet
        self._word_lock = threading.Lock()  # another one: predictions must not wait for a tree

    def add_details(self, service: Service, ask: Any, rows: Sequence[Any], found: list[dict[str, Any]]) -> None:
        """Add the path, the explanation and the words of each row to its prediction."""
        if len(rows) > MOST_ROWS:
            raise Problem(413, f"path, explanation and words: at most {MOST_ROWS} rows per request.")
        if ask.words and any(isinstance(row, str) and len(row) > _LONGEST for row in rows):
            raise Problem(413, f"words: a text may have at most {_LONGEST} characters.")
        for row, one in zip(rows, found, strict=True):
            with service.published(ask.model, ask.version) as copy:  # the learner may publish between two rows
                if ask.path:
                    one["path"] = copy.path(row)
                if ask.explanation:
                    one["explanation"] = copy.explain(row)
                if ask.words and isinstance(row, str) and one["labels"]:
                    one["words"] = words_of(copy, row, one["labels"][0])
                    self._remember(_WORD.findall(row.lower()))

    def tree(self, model: ServedModel) -> dict[int, dict[str, Any]]:
        """The nodes by number: parent, depth, children, labels. Those of a large model may be some seconds old."""
        with self._tree_lock:
            state, now = (model.version, model.applied), time.monotonic()
            known = self._trees.get(model.name)
            large = known is not None and 0 in known[2] and known[2][0]["n_labels"] > _LARGE
            if known is None or (known[0] != state and not (large and now - known[1] < _OLD)):
                with model.published() as copy:
                    known = self._trees[model.name] = state, now, _nodes(copy)
            return known[2]

    def _remember(self, words: Sequence[str]) -> None:
        with self._word_lock:
            if len(self._words) < _MOST_REMEMBERED:
                self._words.update({murmurhash3_32(word, seed=0): word for word in words})

    def top_words(self, features: np.ndarray, weights: np.ndarray, copy: Copy) -> list[dict[str, Any]]:
        """The known words with the largest positive weights."""
        best = np.argsort(-weights)[: 20 * _TOP_WORDS]
        names = self._names(copy)
        found = [(names.get(int(features[i])), float(weights[i])) for i in best]
        return [{"word": word, "weight": weight} for word, weight in found if word and weight > 0][:_TOP_WORDS]

    def _names(self, copy: Copy) -> dict[int, str]:
        """The words behind the features of a model of texts."""
        width, words = copy.estimator.n_features_in_, getattr(copy.trained.reading.vectorizer, "vocabulary_", None)
        if words is not None:
            return {int(number): word for word, number in words.items()}
        if not self._loaded and width >= _WIDE:
            self._loaded = True
            self._remember(load_wordnet().feature_names.tolist())
        with self._word_lock:
            features, n_numbered = self._features.setdefault(width, {}), self._n_numbered.get(width, 0)
            new = islice(self._words.items(), n_numbered, None)
            features.update({abs(number) % width: word for number, word in new})
            self._n_numbered[width] = len(self._words)
            return features


def label_page(copy: Copy, label: Any, look: Explorer) -> dict[str, Any]:
    """What a model knows about a label; LookupError if it is unknown."""
    trained, clf = copy.trained, copy.estimator
    number = copy.labels.id(trained, label)
    if number < 0:
        raise LookupError(label)
    counts = trained.label_counts
    out: dict[str, Any] = {
        "label": label,
        "rows": (int(counts[number]) if number < len(counts) else 0) if trained.n_counted else None,
        "neighbours": [],
        "words": [],
        "node": None,
    }
    if algorithm_of(clf) == "label-tree":
        tree, blocks = clf._model.trees_of(clf._state)[0]
        leaf = int(tree.leaf_of[number]) if number < len(tree.leaf_of) else -1
        if leaf >= 0:
            others = tree.outputs[leaf, : tree.size[leaf]]
            out["node"], out["neighbours"] = leaf, copy.trained.labels(others[others != number][:_NEIGHBOURS])
            start = clf._model.starts_of(clf._options, tree)[leaf]
            features, weights = clf._model.dense_weights(blocks, leaf, start)
            if copy.features.table:
                own = weights[:, int(tree.place_of[number])]
                out["words"] = look.top_words(features, own, copy)
    return out


def router(service: Service, look: Explorer) -> APIRouter:
    """The endpoints."""
    out = APIRouter(prefix="/models/{name}")

    @out.get("/tree")
    async def tree(name: str, node: Annotated[int, Query(ge=0, lt=2**31)] = 0) -> Response:
        """A node with its children, and all nodes above it."""
        nodes = await run_in_threadpool(look.tree, service.model(name))
        if node not in nodes:
            raise Problem(404, f"there is no node {node}: the tree has {len(nodes)}.")
        above, at = [], nodes[node]["parent"]
        while at in nodes:
            above.append(at)
            at = nodes[at]["parent"]
        children = [nodes[child] for child in nodes[node]["children"]]
        return reply({**nodes[node], "above": above[::-1], "children": children, "n_nodes": len(nodes)})

    @out.get("/labels")
    async def labels(name: str, search: Name = "") -> Response:
        """Labels that contain a text, the most frequent first."""

        def find() -> list[dict[str, Any]]:
            with service.published(name) as copy:
                text, counts = search.lower(), copy.trained.label_counts
                names = copy.trained.labels(slice(None))
                found = [i for i, label in enumerate(names) if text in str(label).lower()]
                found.sort(key=lambda i: -int(counts[i]) if i < len(counts) else 0)
                return [{"label": names[i], "rows": int(counts[i]) if i < len(counts) else 0} for i in found[:_FOUND]]

        service.model(name)
        return reply({"labels": await run_in_threadpool(find)})

    @out.get("/label")
    async def label(name: str, label: Name) -> Response:
        """What the model knows about a label: rows, neighbours in the tree, words."""

        def find() -> dict[str, Any]:
            with service.published(name) as copy:
                given = int(label) if not copy.labels.text and re.fullmatch(r"-?\d{1,15}", label) else label
                return label_page(copy, given, look)

        try:
            return reply(await run_in_threadpool(find))
        except LookupError:
            raise Problem(404, f"there is no label {label[:100]!r}.") from None

    return out
