"""Hostile model files that know the structure of a model: each must be refused, or work, or raise a clear ValueError.

    python tests/fuzz/fuzz_models.py [--n 100000] [--jobs 2] [--seed 0] [--boundscheck] [--out FILE] [--only NUMBER]

A small model of every kind is trained, and one or two of its invariants are broken: an index out of range or off by
one, a cycle, huge, negative or undefined numbers, arrays that are cut or enlarged together, other options. The
estimator is rebuilt as `load_model` does it after the checksums, which an attacker can make right. What is not refused
predicts, learns rows with new labels, so that it grows, and goes into another file.

The work is done by child processes. A child that is killed by a signal, or is busy with one file for longer than 20
seconds, is counted and replaced. `--boundscheck` compiles all kernels with a check of every index (kept in a cache of
its own).
"""

import argparse
import json
import mmap
import os
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

LONGEST = 20.0  # seconds for one file
PATIENCE = 600.0  # seconds before a child is stopped: the first use of an option may compile kernels
OUTCOMES = ("files", "refused", "used", "errors", "signals", "hangs")
WAYS: dict[str, dict[str, Any]] = {
    "": {"slim": False, "precision": "float32"},
    ", slim": {"slim": True, "precision": "float32"},
    ", int8": {"slim": True, "precision": "int8"},
}  # to save a model


# -- valid models --------------------------------------------------------------------------------------------------


def recipes(names: list[str] | None = None) -> dict[str, Any]:
    """Functions that train small models of every kind; only those whose names begin with one of `names`."""
    import scipy.sparse as sp

    import manyclass as mc

    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5)).astype(np.float32)
    y, words = rng.integers(0, 14, 80), np.array([f"class {i}" for i in range(14)])
    several = (rng.random((80, 14)) < 0.2).astype(np.int8)
    wide = sp.random_array((80, 300), density=0.03, rng=rng, format="csr", dtype=np.float32)
    far = sp.csr_array((wide.data, 500 * wide.indices, wide.indptr), shape=(80, 150_000))
    many = np.array([f"class {i % 20}" for i in range(80)])
    groups = {label: f"group {i % 3}" for i, label in enumerate(many[:20].tolist())}
    one, two = {"n_epochs": 1, "random_state": 0}, {"n_epochs": 2, "random_state": 0}
    recall, lom, mlom = mc.RecallTreeClassifier, mc.LomTreeClassifier, mc.MlomTreeClassifier
    label, spectral, oaa = mc.LabelTreeClassifier, mc.SpectralTreeClassifier, mc.OneAgainstAllClassifier
    made = {
        "one-against-all": lambda: oaa(**one).fit(X, y),
        "one-against-all, sgd": lambda: oaa(learner="sgd", n_negatives=3, **one).fit(X, words[y]),
        "one-against-all, low rank": lambda: oaa(rank=2, **one).fit(X, y),
        "one-against-all, hashed": lambda: oaa(table_bits=8, **one).fit(wide, y),
        "one-against-all, one feature": lambda: oaa(**one).partial_fit(X[:, :1], y),
        "recall-tree": lambda: recall(**one).fit(X, words[y]),
        "recall-tree, one path": lambda: recall(beam=1, learner="sgd", loss="logistic", **two).fit(X, y),
        "recall-tree, arity 4": lambda: recall(arity=4, max_depth=3, **one).fit(X, y),
        "recall-tree, crossed": lambda: recall(path_features="crossed", **one).fit(X, y),
        "recall-tree, bias": lambda: recall(path_features="bias", beam=1, **one).fit(X, y),
        "recall-tree, hashed": lambda: recall(table_bits=8, path_features="stop", **one).fit(wide, y),
        "lom-tree": lambda: lom(split_mass=1, **two).fit(X, words[y]),
        "lom-tree, swap": lambda: lom(nodes_per_class=1, split_mass=0, swap_resistance=0.1, **two).fit(X, y),
        "lom-tree, paper": lambda: lom(rules="paper", loss="absolute", swap=False, split_mass=1, **two).fit(X, y),
        "lom-tree, target": lambda: lom(descent="target", learner="sgd", table_bits=8, **two).fit(wide, y),
        "mlom-tree": lambda: mlom(split_mass=1, **two).fit(X, words[y]),
        "mlom-tree, no guests": lambda: mlom(guests=False, centre="median", **two).fit(X, y),
        "label-tree": lambda: label(arity=4, **one).fit(X, y),
        "label-tree, several": lambda: label(arity=4, **one).fit(X, several),
        "label-tree, online": lambda: label(arity=4, random_state=0).partial_fit(X, y),
        "label-tree, sparse": lambda: label(arity=4, **one).fit(wide, words[y]),
        "label-tree, pages": lambda: label(arity=4, **one).fit(far, words[y]),
        "label-tree, neighbors": lambda: near(label(arity=4, **one), X, words[y]),
        "label-tree, sets": lambda: extended(label(arity=4, **one), X, many, "isotonic", hierarchy=groups),
        "recall-tree, sets": lambda: extended(recall(**one), X, many, "temperature"),
        "lom-tree, sets": lambda: extended(lom(split_mass=1, **two), X, many, "temperature"),
        "mlom-tree, sets": lambda: extended(mlom(split_mass=1, **two), X, many, "isotonic"),
        "one-against-all, sets": lambda: extended(oaa(**one), X, many, "isotonic"),
        "spectral-tree, sets": lambda: extended(spectral(n_candidates=3, **one), X, many, "temperature"),
        "spectral-tree": lambda: spectral(n_candidates=3, **one).fit(X, words[y]),
        "spectral-tree, several": lambda: spectral(n_candidates=4, n_trees=2, beam=2, leaf="bias").fit(X, several),
        "spectral-tree, low rank": lambda: spectral(n_candidates=4, n_head=2, rank=3, **one).fit(X, y),
        "spectral-tree, sparse": lambda: spectral(n_candidates=4, leaf="separate", **one).fit(wide, y),
    }
    return {name: make for name, make in made.items() if not names or name.startswith(tuple(names))}


def extended(model: Any, X: np.ndarray, y: np.ndarray, method: str, **given: Any) -> Any:
    """A model with calibrated probabilities, thresholds of sets, and classes that were removed or merged."""
    model.fit(X, y, **given).calibrate(X, y, method)
    first, second, third = model.classes_[:3]
    model.merge_classes({first: second}).remove_classes([third])
    return model.conformal(X, y, coverage=0.1)


def near(model: Any, X: np.ndarray, y: np.ndarray) -> Any:
    """A label tree that keeps rows and their map, whether they help or not."""
    from manyclass.label_tree.neighbors import Ranking, no_neighbors, with_rows

    model.fit(X, y)
    ranking = Ranking(0.8, 0.5, 0.01, np.tri(X.shape[1], dtype=np.float32))
    model._state["neighbors"] = with_rows(no_neighbors(X.shape[1], ranking), X, model._index.encode(y))
    return model


def contents(names: list[str] | None = None) -> list[tuple[str, dict[str, np.ndarray], dict[str, Any]]]:
    """(name, arrays, metadata) of the files of all small models."""
    out = []
    for name, make in recipes(names).items():
        model = make()
        for way, how in WAYS.items():
            arrays, metadata = model._contents(prune=0.0, **how)
            out.append((name + way, arrays, json.loads(json.dumps(metadata))))
    return out


# -- broken invariants ---------------------------------------------------------------------------------------------

WHOLE = [-(2**63), -(2**31), -65536, -1000, -2, -1, 0, 1, 2, 3, 7, 8, 15, 16, 31, 40, 41, 60, 61, 255, 2**31 - 1, 2**62]
REAL = [np.nan, np.inf, -np.inf, -1.0, -1000.0, 0.0, 1e-45, 1e-30, 1.0, 1e9, 1e30, 3.3e38, -3.3e38, 1e300]
OPTIONS = [*WHOLE, 0.5, 1e-300, 1e300, True, False, None, "auto", "sgd", "softmax", "logistic", [], {}, 10**400]
OURS = ("classes", "feature_names", "names")


def _pick(rng: np.random.Generator, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


def _set(array: np.ndarray, at: Any, value: Any) -> None:
    """array[at] = value, converted to the type of the array in any way."""
    if array.dtype.kind in "iu" and not isinstance(value, np.integer):
        info = np.iinfo(array.dtype)
        value = min(max(int(value), info.min), info.max)
    with np.errstate(all="ignore"):
        array[at] = np.array(value).astype(array.dtype)


def break_number(arrays: dict[str, np.ndarray], rng: np.random.Generator) -> str:
    """A few elements of one array get a number that is extreme, off by one, a size, or that of another element."""
    whole = [name for name, array in arrays.items() if array.dtype.kind in "iub"]
    name = _pick(rng, whole if rng.random() < 0.7 else list(arrays))
    array = arrays[name] = arrays[name].copy()
    flat = array.reshape(-1)
    if not len(flat):
        return f"{name} is empty"
    used = np.flatnonzero(flat != flat[-1]) if rng.random() < 0.7 else np.arange(len(flat))
    at = int(_pick(rng, used if len(used) else np.arange(len(flat))))
    sizes = [size for other in arrays.values() for size in other.shape]
    kind = int(rng.integers(6))
    if array.dtype.kind == "f" and kind < 4:
        value: Any = _pick(rng, REAL)
    elif kind == 0:
        value = _pick(rng, WHOLE)
    elif kind == 1:
        value = _pick(rng, sizes) + int(rng.integers(-1, 2))
    elif kind == 2:
        value = flat[at].item() + _pick(rng, [-1, 1])
    elif kind == 3:
        value = 2 ** int(rng.integers(1, 63)) - 1
    else:
        value = _pick(rng, flat)
    where = slice(None) if rng.random() < 0.1 else slice(at, at + (1 if rng.random() < 0.8 else 3))
    _set(flat, where, value)
    return f"{name}[{where}] = {value}"


def break_link(arrays: dict[str, np.ndarray], rng: np.random.Generator) -> str:
    """Two elements or lines of an array of links are exchanged, or one is copied onto another."""
    names = [name for name, array in arrays.items() if array.dtype.kind in "iu" and len(array) > 1]
    name = _pick(rng, names)
    array = arrays[name] = arrays[name].copy()
    lines = np.flatnonzero((array != array[-1]).reshape(len(array), -1).any(axis=1))
    lines = lines if len(lines) > 1 else np.arange(len(array))
    one, other = int(_pick(rng, lines)), int(_pick(rng, lines))
    if rng.random() < 0.5:
        array[[one, other]] = array[[other, one]]
    else:
        array[one] = array[other]
    return f"{name}[{one}] and [{other}]"


def break_size(arrays: dict[str, np.ndarray], rng: np.random.Generator, types: dict[str, Any]) -> str:
    """A dimension of one group, or of all groups that have it with the same size, gets another size."""
    from manyclass.core.state import fields_of, groups_of

    state = {name: array for name, array in arrays.items() if name.split(".")[0] not in OURS}
    groups = groups_of(state, types, ignore="_scale")
    places = [
        (name, field, axis, dim)
        for name, (kind, _) in groups.items()
        for field, how in fields_of(kind).items()
        for axis, dim in enumerate(how.dims)
        if f"{name}.{field}" in arrays
    ]
    group, field, axis, dim = _pick(rng, places)
    old = arrays[f"{group}.{field}"].shape[axis]
    counters = (arrays.get(name, np.empty(0)) for name in ("tree.n_nodes", "blocks.n_entries", "table.n_entries"))
    used = [int(number) for counter in counters for number in counter]
    new = _pick(rng, [0, 1, 2, old - 1, old + 1, old // 2, 2 * old, *used, *(n + 1 for n in used)])
    new = min(max(0, new), 1 << 16)
    everywhere, alone = rng.random() < 0.5, rng.random() < 0.2
    for name, field_, axis_, dim_ in places:
        full = f"{name}.{field_}"
        here = (name, field_, axis_) == (group, field, axis)
        same = dim_ == dim and (name == group or everywhere) and arrays[full].shape[axis_] == old
        if here or (same and not alone):
            if old:
                arrays[full] = np.take(arrays[full], np.arange(new) % old, axis=axis_)
            else:
                shape = list(arrays[full].shape)
                shape[axis_] = new
                arrays[full] = np.zeros(shape, arrays[full].dtype)
    return f"{group}.{dim}: {old} -> {new}" + (", everywhere" if everywhere else "") + (", alone" if alone else "")


def break_squares(arrays: dict[str, np.ndarray], rng: np.random.Generator) -> str:
    """The sums of squared gradients get another shape, or the weights the shape of one row by one feature."""
    names = [name for name in arrays if name.endswith("grad_sq") and arrays[name].ndim == 2]
    if not names:
        return break_number(arrays, rng)
    name = _pick(rng, names)
    n, m = arrays[name.replace("grad_sq", "weight")].shape
    arrays[name] = np.zeros(_pick(rng, [(1, 1), (1, m), (n, 1), (n, m), (n + 1, m)]), np.float32)
    return f"{name} has the shape {arrays[name].shape}"


def break_metadata(metadata: dict[str, Any], rng: np.random.Generator) -> str:
    """One value is replaced or left out."""
    place: Any = metadata.get(_pick(rng, ["config", "config", "options", "fitted"]))
    if rng.random() < 0.3 or not isinstance(place, dict):
        place = metadata
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return "nothing"
        key = _pick(rng, keys)
        inner = place[key]
        if isinstance(inner, (dict, list)) and inner and rng.random() < 0.8:
            place = inner
            continue
        if rng.random() < 0.1:
            del place[key]
            return f"without {key}"
        if type(inner) is bool and rng.random() < 0.7:
            place[key] = not inner
        elif type(inner) in (int, float) and rng.random() < 0.5:
            place[key] = inner + _pick(rng, [-1, 1])
        else:
            place[key] = _pick(rng, OPTIONS)
        return f"{key} = {place[key]!r}"


def mutant(
    arrays: dict[str, np.ndarray], metadata: dict[str, Any], types: dict[str, Any], rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], dict[str, Any], str]:
    """A copy of a file with one or two broken invariants, and what they are."""
    arrays, metadata = {name: array.copy() for name, array in arrays.items()}, json.loads(json.dumps(metadata))
    done = []
    for _ in range(1 if rng.random() < 0.7 else 2):
        kind = rng.random()
        if kind < 0.45:
            done.append(break_number(arrays, rng))
        elif kind < 0.6:
            done.append(break_link(arrays, rng))
        elif kind < 0.75:
            done.append(break_size(arrays, rng, types))
        elif kind < 0.8:
            done.append(break_squares(arrays, rng))
        else:
            done.append(break_metadata(metadata, rng))
    return arrays, metadata, "; ".join(done)


# -- what a model must survive -------------------------------------------------------------------------------------


def use(model: Any, rng: np.random.Generator) -> None:
    """Do everything that runs a kernel: predictions, growth by new labels, predictions again, another file."""
    import scipy.sparse as sp

    from manyclass.core import files
    from manyclass.estimators import ESTIMATORS

    n_features = model.n_features_in_
    if n_features > 3_000_000:
        return
    if n_features > 10_000:  # those of the wide models are multiples of 500
        columns = 500 * rng.integers(0, 1 + (n_features - 1) // 500, (70, 9))
        values, pointer = rng.normal(size=columns.size).astype(np.float32), np.arange(0, columns.size + 1, 9)
        X: Any = sp.csr_array((values, columns.ravel(), pointer), shape=(70, n_features))
        X.sum_duplicates()
    else:
        X = rng.normal(size=(70, n_features)).astype(np.float32)
        X[:, rng.random(n_features) < 0.5] *= 0.5
    _predict(model, X)
    if not model._slim and hasattr(model, "partial_fit"):
        k, more = len(model.classes_), X[:40]
        if getattr(model, "_multilabel", False):
            y = np.zeros((40, min(k, 1000) + 20 if k <= 1000 else k), np.int8)
            y[np.arange(40), rng.integers(0, y.shape[1], 40)] = 1
        else:
            y = rng.integers(0, 40, 40)
            y = np.array([f"new {i}" for i in y]) if isinstance(model.classes_[0], (str, bytes)) else 1000 + y
            y[::3] = np.resize(model.classes_, len(y[::3]))
        model.partial_fit(more, y)
        model.partial_fit(more[:3], y[:3], sample_weight=[0.0, 0.5, 30.0])
        _predict(model, X)
    slim = model._slim or rng.random() < 0.25
    arrays, metadata = model._contents(slim, 0.0, "int8" if slim else "float32")
    if rng.random() < 0.25:
        files.rebuild(ESTIMATORS, dict(arrays), metadata, True).predict(X[:1])


def _predict(model: Any, X: Any) -> None:
    k = min(3, len(model.classes_))
    model.predict_topk(X, k)
    model.predict(X[:2])
    model.predict_proba(X[:9])
    model.decision_path(X[:9])
    model.predictor(k)(X[:1])
    model.explain(X[:1])
    if "conformal" in model._state:
        model.predict_set(X[:9])
    if "taxonomy" in model._state:
        model.predict_path(X[:9], confidence=0.3)
    for name in ("tree_table", "balance", "topics"):
        if hasattr(model, name):
            getattr(model, name)()


def judge(arrays: dict[str, np.ndarray], metadata: dict[str, Any], rng: np.random.Generator) -> str:
    """`refused` or `used`; anything but a ValueError or a lack of memory is raised."""
    from manyclass.core import files
    from manyclass.estimators import ESTIMATORS

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model = files.rebuild(ESTIMATORS, arrays, metadata, bool(rng.integers(2)))
        except files.ModelFormatError:
            return "refused"
        try:
            use(model, rng)
        except (ValueError, MemoryError):
            pass
        return "used"


# -- children ------------------------------------------------------------------------------------------------------

_PROGRESS = struct.Struct("q6q")  # the number of the file at work (-1: not ready), and the counts so far


def run_child(options: argparse.Namespace) -> int:
    """Judge the files first, first + step, ...; the progress is in a file that the parent reads."""
    from manyclass.core.files import groups_of_file
    from manyclass.estimators import ESTIMATORS

    files = contents(options.models)
    for _, arrays, metadata in files:  # compile before the clock runs
        judge({name: array.copy() for name, array in arrays.items()}, metadata, np.random.default_rng(0))
    kinds = list(ESTIMATORS)
    with open(options.progress, "r+b") as file, mmap.mmap(file.fileno(), 0) as shared:
        for number in range(options.first, options.n, options.step):
            name, arrays, metadata = files[number % len(files)]
            rng = np.random.default_rng([options.seed, number])
            types = groups_of_file(ESTIMATORS[metadata["algorithm"]]._model)
            arrays, metadata, what = mutant(arrays, metadata, types, rng)
            row = kinds.index(name.split(",")[0])
            struct.pack_into("q", shared, 0, number)
            try:
                outcome = judge(arrays, metadata, rng)
            except Exception:
                outcome = "errors"
                print(f"file {number}, {name}: {what}\n{traceback.format_exc()}", file=sys.stderr, flush=True)
            for counted in ("files", outcome):
                at = 8 * (1 + row * len(OUTCOMES) + OUTCOMES.index(counted))
                struct.pack_into("q", shared, at, struct.unpack_from("q", shared, at)[0] + 1)
    return 0


class Child:
    """A process that judges every `step`-th file, started again after a crash or a hang."""

    def __init__(self, options: argparse.Namespace, first: int, step: int, n_kinds: int, folder: str):
        self.options, self.step, self.n_kinds = options, step, n_kinds
        self.path = Path(folder) / f"progress-{first}"
        self.path.write_bytes(struct.pack("q", -1) + bytes(8 * n_kinds * len(OUTCOMES)))
        self.retried = -1
        self.start(first)

    def start(self, first: int) -> None:
        """Start at a file."""
        with self.path.open("r+b") as file:
            file.write(struct.pack("q", -1))
        named = [f"--{name}={value}" for name, value in
                 (("first", first), ("step", self.step), ("n", self.options.n), ("seed", self.options.seed),
                  ("progress", self.path))]  # fmt: skip
        named += ["--models", *self.options.models] if self.options.models else []
        self.process = subprocess.Popen([sys.executable, __file__, *named], env=environment(self.options))
        self.number, self.since = -1, time.monotonic()

    def counts(self) -> np.ndarray:
        """(kind, outcome)."""
        return np.frombuffer(self.path.read_bytes(), np.int64)[1:].reshape(self.n_kinds, len(OUTCOMES)).copy()

    def watch(self, names: list[str]) -> tuple[int, str] | None:
        """(file, "signals" or "hangs") if the child has to be replaced; it is."""
        number = struct.unpack("q", self.path.read_bytes()[:8])[0]
        if number != self.number:
            self.number, self.since = number, time.monotonic()
        code, busy = self.process.poll(), time.monotonic() - self.since
        # The first use of an option may compile: a file that took long is tried again.
        limit = LONGEST if number == self.retried else PATIENCE
        if code == 0 or (code is None and (number < 0 or busy < limit)):
            return None
        if number < 0 or (code or 0) > 0:
            raise RuntimeError(f"a child ended with code {code}")
        hang = code is None
        if hang:
            self.process.kill()
            self.process.wait()
        if hang and number != self.retried:
            self.retried = number
            self.start(number)
            return None
        self.start(number + self.step)
        return number, "hangs" if hang else "signals"


def environment(options: argparse.Namespace) -> dict[str, str]:
    """That of the children."""
    out = {**os.environ, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if options.boundscheck:
        cache = options.cache or Path(__file__).parent / ".boundscheck"
        out |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache)}
    return out


def run(options: argparse.Namespace) -> dict[str, Counter]:
    """Counts of outcomes per algorithm."""
    from manyclass.estimators import ESTIMATORS

    kinds = list(ESTIMATORS)
    names = [name + way for name in recipes(options.models) for way in WAYS]
    lost: Counter = Counter()
    began = shown = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        children = [Child(options, first, options.jobs, len(kinds), folder) for first in range(options.jobs)]
        try:
            while any(child.process.poll() is None for child in children):
                time.sleep(0.2)
                for child in children:
                    end = child.watch(names)
                    if end is not None:
                        name = names[end[0] % len(names)]
                        print(f"file {end[0]}, {name}: {end[1]}", file=sys.stderr, flush=True)
                        lost[name.split(",")[0], end[1]] += 1
                if time.monotonic() - shown > 60:
                    shown = time.monotonic()
                    counts = totals(kinds, children, lost)
                    report(options, counts)
                    n = sum(row["files"] for row in counts.values())
                    print(f"{n} files in {shown - began:.0f} s", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            print("interrupted; the counts so far:", file=sys.stderr)
        finally:
            for child in children:
                child.process.kill()
                child.process.wait()
        counts = totals(kinds, children, lost)
    report(options, counts)
    return counts


def totals(kinds: list[str], children: list[Child], lost: Counter) -> dict[str, Counter]:
    """Counts of outcomes per algorithm: those of the children, and the files at which one was replaced."""
    total = sum(child.counts() for child in children)
    out = {
        kind: Counter(dict(zip(OUTCOMES, row.tolist(), strict=True))) for kind, row in zip(kinds, total, strict=True)
    }
    for (kind, end), n in lost.items():
        out[kind] += Counter({"files": n, end: n})
    return out


def report(options: argparse.Namespace, counts: dict[str, Counter]) -> None:
    """Write the counts to the file that was asked for."""
    if options.out is not None:
        table = {kind: {name: row[name] for name in OUTCOMES} for kind, row in counts.items()}
        found = {"seed": options.seed, "boundscheck": options.boundscheck, "estimators": table}
        options.out.write_text(json.dumps(found, indent=2) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=100_000, help="number of files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--models", nargs="*", help="only models whose names begin so")
    parser.add_argument("--boundscheck", action="store_true", help="check every index in the kernels")
    parser.add_argument("--out", type=Path, help="write the counts to this file (JSON) every minute")
    parser.add_argument("--cache", help="folder of the kernels compiled with --boundscheck")
    parser.add_argument("--only", type=int, help="this file alone, in this process")
    for name in ("first", "step"):
        parser.add_argument(f"--{name}", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--progress", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.progress:
        return run_child(options)
    if options.only is not None:
        return run_one(options)
    counts = run(options)
    print(f"{'estimator':<18}" + "".join(f"{name:>10}" for name in OUTCOMES))
    for kind, row in counts.items():
        print(f"{kind:<18}" + "".join(f"{row[name]:>10}" for name in OUTCOMES))
    return int(any(row[name] for row in counts.values() for name in ("errors", "signals", "hangs")))


def run_one(options: argparse.Namespace) -> int:
    """Judge one file and print what was broken."""
    from manyclass.core.files import groups_of_file
    from manyclass.estimators import ESTIMATORS

    files = contents(options.models)
    name, arrays, metadata = files[options.only % len(files)]
    rng = np.random.default_rng([options.seed, options.only])
    types = groups_of_file(ESTIMATORS[metadata["algorithm"]]._model)
    arrays, metadata, what = mutant(arrays, metadata, types, rng)
    print(f"{name}: {what}", flush=True)
    print(judge(arrays, metadata, rng))
    return 0


if __name__ == "__main__":
    sys.exit(main())
