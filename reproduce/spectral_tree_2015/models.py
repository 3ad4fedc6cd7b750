"""What Tables 4 to 7 compare: the paper's algorithm on the paper's inputs, its flat low-rank baseline, our defaults.

The tree of the paper and the flat model have the same search: the rate, then the number of epochs of a list, chosen by
the share of correct predictions on a tenth of the training rows. `search.py` runs it and writes `results/search.csv`,
which the tables read; a set that is not in it is searched at once.
"""

import csv
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from report import best_rate, load_or_skip, load_tfidf, load_unit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.utils import murmurhash3_32
from threadpoolctl import threadpool_limits

from benchmarks.timing import seconds_of
from manyclass import SGD, AdaGrad, Hellinger, SpectralTreeClassifier

PAPER, FLAT, OURS = "tree, the paper's algorithm", "flat, low rank", "tree, our defaults"
# The paper's own sets, and those that stand in for them.
SUBSTITUTES = {"odp": ("wordnet-hypernym",), "lshtc": ("bibtex", "delicious")}
TITLES = {
    "aloi": "ALOI", "odp": "ODP", "lshtc": "LSHTC", "wordnet-hypernym": "WordNet",
    "bibtex": "Bibtex", "delicious": "Delicious",
}  # fmt: skip
RANKS = {"odp": 300, "lshtc": 800}  # of the flat model, as in the paper; 50 on the other sets, as on ALOI
BITS = 15  # text is hashed to 2^15 features (§5.3)
EPOCHS = (5, 10, 20)
RATES, FACTOR = {PAPER: 1.0, FLAT: 0.03}, 3.0  # where the search of the rate begins, and its steps
SEARCH_ROWS = 30_000  # at most, of a search
QUICK_ROWS = 1200
MOST_CELLS = 1 << 29  # rows x classes up to which the flat model is run: its targets are a dense matrix
SEARCHED = Path(__file__).parent / "results" / "search.csv"


def hashed(X, bits: int = BITS) -> sp.csr_array:
    """Columns added up in 2^bits buckets [ST §5.3]; without signs, since square roots are taken next."""
    bucket = murmurhash3_32(np.arange(X.shape[1], dtype=np.int32), positive=True) % (1 << bits)
    ones = np.ones(X.shape[1], np.float32)
    return sp.csr_array(X @ sp.csr_array((ones, (np.arange(X.shape[1]), bucket)), shape=(X.shape[1], 1 << bits)))


def inputs(name: str, quick: bool = False) -> dict[str, tuple]:
    """{model: (X, y, X_test, y_test)}: the paper's inputs and ours; quick: about QUICK_ROWS rows to train on."""
    whole = load_or_skip(name)
    step = max(1, whole[0].shape[0] // QUICK_ROWS) if quick else 1
    X, y, X_test, y_test = (part[::step] for part in whole)
    if name == "aloi":
        X, X_test = X.toarray(), X_test.toarray()
        return dict.fromkeys((PAPER, FLAT, OURS), (X, y, X_test, y_test))
    hellinger = Hellinger().fit(hashed(X[:1]))
    paper = hellinger.transform(hashed(X)), y, hellinger.transform(hashed(X_test)), y_test
    ours = load_tfidf(name) if name in SUBSTITUTES else load_unit(name)
    return {PAPER: paper, FLAT: paper, OURS: tuple(part[::step] for part in ours)}


def make(who: str, name: str, rate: float | None = None, n_epochs: int | None = None):
    """An untrained model; our defaults have neither rate nor epochs."""
    if who == OURS:
        return SpectralTreeClassifier(random_state=0)
    if who == FLAT:
        return MLPClassifier(
            (RANKS.get(name, 50),), activation="identity", alpha=0.0, learning_rate_init=rate, max_iter=n_epochs,
            n_iter_no_change=n_epochs, random_state=0,
        )  # fmt: skip
    options = {"rules": "paper", "n_epochs": n_epochs, "random_state": 0}
    if name == "aloi":  # §5.2
        learner = AdaGrad(rate=rate, decay=0.9)
        return SpectralTreeClassifier(rank=50, n_candidates=25, max_depth=12, learner=learner, **options)
    k = {"n_candidates": 4000} if name in SUBSTITUTES else {}  # §5.3, §5.4
    return SpectralTreeClassifier(max_depth="validate", learner=SGD(rate=rate, decay=0.9), **k, **options)


def scaled(who: str, X):
    """Dense rows for the flat model, divided by their largest value: its steps are for values of about 1."""
    return X if who != FLAT or sp.issparse(X) else X / np.float32(np.abs(X).max())


def fit(model, X, y) -> float:
    """Train on one thread; seconds."""
    if isinstance(model, MLPClassifier) and sp.issparse(y):
        y = y.toarray().astype(np.int32)  # scikit-learn counts columns in the type of y: int8 ends at 127 labels
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of epochs is given
        return seconds_of(lambda: model.fit(X, y))


def top(model, X, k: int) -> np.ndarray:
    """The k best labels of each row."""
    if isinstance(model, MLPClassifier):
        scores = model.predict_proba(X)
        first = np.argpartition(-scores, min(k, scores.shape[1]) - 1, axis=1)[:, :k]
        best = np.take_along_axis(first, np.argsort(-np.take_along_axis(scores, first, axis=1), axis=1), axis=1)
        return model.classes_[best]
    return model.predict_topk(X, k)[0]


def correct(best: np.ndarray, y) -> np.ndarray:
    """Whether the first label of each row is right, or one of its labels."""
    if sp.issparse(y):
        return np.asarray(sp.csr_array(y)[np.arange(len(best)), best[:, 0]] > 0).ravel()
    return best[:, 0] == y


def held_out(n: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows to train on, a tenth to choose by)."""
    order = np.random.default_rng(0).permutation(n)
    return np.sort(order[n // 10 :]), np.sort(order[: n // 10])


def search(name: str, who: str, X, y) -> list[dict]:
    """Rates and numbers of epochs with their shares of correct predictions on held-out training rows.

    First rates with the fewest epochs, then the best rate with more.
    """
    rows, asked = held_out(X.shape[0])
    rows = rows[:: -(-len(rows) // SEARCH_ROWS)]
    found: list[dict] = []

    def try_out(rate: float, n_epochs: int) -> float:
        model = make(who, name, rate, n_epochs)
        fit(model, scaled(who, X[rows]), y[rows])
        share = 100 * correct(top(model, scaled(who, X[asked]), 1), y[asked]).mean()
        found.append({"data": name, "model": who, "rows": f"{len(rows):,}", "epochs": n_epochs, "rate": f"{rate:.3g}"})
        found[-1]["held-out %"] = f"{share:.2f}"
        print(f"{name}, {who}: rate {rate:g}, {n_epochs} epochs: {share:.2f} % of held-out rows", flush=True)
        return share

    rate = best_rate(lambda rate: try_out(rate, EPOCHS[0]), RATES[who], FACTOR)
    for n_epochs in EPOCHS[1:]:
        try_out(rate, n_epochs)
    best = max(found, key=lambda one: float(one["held-out %"]))
    return [{**one, "chosen": "yes" if one is best else "no"} for one in found]


def settings(name: str, who: str, X, y, quick: bool = False) -> tuple[float, int]:
    """(rate, epochs): as `search.csv` says, or found now."""
    if quick:
        return RATES[who], 1
    found: list[dict] = []
    if SEARCHED.exists():
        with open(SEARCHED, newline="", encoding="utf-8") as file:
            found = [one for one in csv.DictReader(file) if (one["data"], one["model"]) == (name, who)]
    best = next(one for one in found or search(name, who, X, y) if one["chosen"] == "yes")
    return float(best["rate"]), int(best["epochs"])


def run(name: str, who: str, rows: tuple, quick: bool = False, model=None) -> dict:
    """Train one model and predict the test rows: what the tables show, and whether each row was right."""
    X, y, X_test, y_test = rows
    X, X_test = scaled(who, X), scaled(who, X_test)
    if model is None:
        model = make(who, name, *(() if who == OURS else settings(name, who, X, y, quick)))
    if who != FLAT:
        clone(model).set_params(n_epochs=1).fit(X[:300], y[:300])  # compiles
    train = fit(model, X, y)
    seconds = seconds_of(lambda: top(model, X_test, 5))
    best = top(model, X_test, 5)
    told = {} if who == FLAT else model.diagnose(X_test, y_test)
    budget = "" if who == OURS else f"{model.max_iter if who == FLAT else model.n_epochs} epochs, rate "
    rate = "" if who == OURS else f"{model.learning_rate_init if who == FLAT else model.learner.rate:g}"
    return {
        **told, "best": best, "correct": correct(best, y_test), "train": train, "speed": X_test.shape[0] / seconds,
        "budget": budget + rate, "model": model,
    }  # fmt: skip


def recall_of_frequent(y, y_test, k: int) -> float:
    """Share of the test labels that are among the k most frequent training labels, in percent."""
    if sp.issparse(y):
        frequent = np.argsort(-np.asarray(y.sum(axis=0)).ravel(), kind="stable")[:k]
        return float(100 * y_test[:, frequent].sum() / y_test.sum())
    return float(100 * np.isin(y_test, np.argsort(-np.bincount(y), kind="stable")[:k]).mean())
