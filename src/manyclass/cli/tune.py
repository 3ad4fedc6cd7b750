"""`manyclass tune`: search the few options that matter, on a held-out part, within a time."""

import json
import shlex
import time
from typing import Any

import numpy as np
from rich.console import Console

from ..io import Source
from .algorithms import choose_algorithm, learns_at_once, make_estimator
from .errors import INTERRUPTED, CommandError
from .files import Columns, first_names, open_source, stacked

# name: (kind, lowest, highest, on a logarithmic scale), or the choices there are
_SPACES: dict[str, dict[str, Any]] = {
    "recall-tree": {
        "learner": ["sgd", "adagrad", "normalized-adagrad"],
        "learner.rate": (float, 0.1, 10.0, True),
        "beam": (int, 1, 16, True),
        "path_features": ["off", "bias"],
    },
    "label-tree": {
        "arity": (int, 8, 64, True),
        "beam": (int, 4, 32, True),
        "rate": (float, 0.2, 5.0, True),
        "start": (float, 2.0, 40.0, True),
        "prior": (float, 0.1, 1.0, False),
    },
    "spectral-tree": {
        "n_candidates": (int, 20, 500, True),
        "max_depth": (int, 2, 14, False),
        "beam": (int, 1, 8, True),
    },
    "lom-tree": {
        "learner": ["normalized-adagrad"],
        "learner.decay": [1.0],
        "learner.rate": (float, 0.5, 16.0, True),
        "split_mass": (float, 1.0, 50.0, True),
        "nodes_per_class": (int, 8, 64, True),
    },
    "mlom-tree": {
        "centre": ["auto", "median", "mean"],
        "learner": ["normalized-adagrad"],
        "learner.decay": [1.0],
        "learner.rate": (float, 0.5, 16.0, True),
        "split_mass": (float, 1.0, 50.0, True),
        "nodes_per_class": (int, 8, 64, True),
    },
    "one-against-all": {
        "learner": ["sgd", "adagrad", "normalized-adagrad"],
        "learner.rate": (float, 0.05, 10.0, True),
        "loss": ["softmax", "logistic"],
    },
}


def run(
    data: str, reading: dict, algorithm: str | None, seconds: float, trials: int | None, hold_out: float,
    max_rows: int, epochs: int, seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Search and print the command line of the best trial."""
    optuna = _optuna()
    console = Console(stderr=True, markup=False)
    source = open_source(data, reading)
    chosen = choose_algorithm(algorithm, source.reading)
    X, y, weights = _read(source, max_rows)
    order = np.random.default_rng(seed).permutation(X.shape[0])
    n_held = max(1, round(hold_out * len(order)))
    if n_held >= len(order):
        raise CommandError(f"{data}: {len(order)} rows are too few to hold some out.")
    held, learned = order[:n_held], order[n_held:]
    console.print(f"{chosen}: {len(learned):,} rows to learn, {n_held:,} to judge by", highlight=False)

    def accuracy(options: list[str]) -> float:
        clf = make_estimator(chosen, options, seed)
        if learns_at_once(chosen):
            clf.set_params(n_epochs=epochs)
            clf.fit(X[learned], y[learned], sample_weight=weights[learned])
            return clf.diagnose(X[held], y[held])["accuracy"]
        for epoch in range(epochs):
            clf._begin_epoch(epoch)
            rows = np.random.default_rng([seed, epoch]).permutation(learned)
            clf.partial_fit(X[rows], y[rows], sample_weight=weights[rows])
        return clf.diagnose(X[held], y[held])["accuracy"]

    space = dict(_SPACES[chosen])
    if "n_candidates" in space:  # more than there are labels would all be the same model
        n = y.shape[1] if y.ndim == 2 else len(np.unique(y))
        space["n_candidates"] = (int, min(max(2, n // 8), 20), min(n, 500), True)

    def objective(trial: Any) -> float:
        options = [f"{name}={value}" for name, value in _suggest(trial, space).items()]
        trial.set_user_attr("options", options)
        reached = accuracy(options)
        console.print(f"{100 * reached:6.2f} %  {' '.join(options)}", highlight=False, soft_wrap=True)
        return reached

    begun = time.perf_counter()
    usual = accuracy([])
    console.print(f"{100 * usual:6.2f} %  the defaults", highlight=False)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    left = seconds - (time.perf_counter() - begun)
    interrupted = False
    try:
        if left > 0:
            study.optimize(objective, n_trials=trials, timeout=left)
    except KeyboardInterrupt:
        interrupted = True
    done = [trial for trial in study.trials if trial.value is not None]
    better = len(done) > 0 and study.best_value > usual
    best, options = (study.best_value, study.best_trial.user_attrs["options"]) if better else (usual, [])
    command = _command(data, reading, chosen, options, epochs, seed)
    if as_json:
        told = {"accuracy": best, "default_accuracy": usual, "options": options, "trials": len(done)}
        print(json.dumps({**told, "command": command}))
    else:
        print(f"# {100 * best:.2f} % on the held-out rows, {100 * usual:.2f} % with the defaults\n{command}")
    if interrupted:
        raise SystemExit(INTERRUPTED)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise CommandError("tune needs optuna: pip install 'manyclass[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    return optuna


def _read(source: Source, max_rows: int) -> tuple[Any, Any, np.ndarray]:
    """The first rows of a file."""
    chunks, n = [], 0
    for chunk in source.chunks(min(4096, max_rows)):
        chunks.append(chunk)
        n += chunk.X.shape[0]
        if n >= max_rows:
            break
    if not chunks:
        raise CommandError(f"{source.path}: there are no rows.")
    several = source.reading.labels == "several"
    return stacked(chunks, Columns(first_names(source.reading), source.reading.n_labels or 0) if several else None)


def _suggest(trial: Any, space: dict[str, Any]) -> dict[str, Any]:
    out = {}
    for name, how in space.items():
        if isinstance(how, list):
            out[name] = trial.suggest_categorical(name, how)
        elif how[0] is int:
            out[name] = trial.suggest_int(name, how[1], how[2], log=how[3])
        else:
            out[name] = round(trial.suggest_float(name, how[1], how[2], log=how[3]), 4)
    return out


def _command(data: str, reading: dict, algorithm: str, options: list[str], epochs: int, seed: int) -> str:
    """The command line that trains with these options."""
    given: list[str] = []
    for name, value in reading.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            given += [flag] if value else []
        else:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                given += [flag, str(one)]
    for option in options:
        given += ["--option", option]
    fixed = ["--algorithm", algorithm, "--epochs", str(epochs), "--seed", str(seed), "--model", "MODEL"]
    return shlex.join(["manyclass", "train", "DATA" if data == "-" else data, *given, *fixed])
