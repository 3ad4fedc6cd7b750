"""`manyclass tune`: search for good options on held-out rows within a time limit."""

import json
import shlex
import time
from typing import Any

import numpy as np

from ..core.base import learns_online
from .algorithms import choose_algorithm, make_estimator
from .files import LabelColumns, initial_names, open_training_source
from .messages import INTERRUPTED, CommandError, stderr
from .rows import read_rows

_HELD_OUT = 0.2  # share of the rows

# A list has choices; (low, high) is a range of integers or floats, searched on a logarithmic scale.
_ONLINE = {
    "learner": ["normalized-adagrad"],
    "learner.decay": [1.0],
    "learner.rate": (0.5, 16.0),
    "split_mass": (1.0, 50.0),
    "nodes_per_class": (8, 64),
}
_LEARNERS = ["sgd", "adagrad", "normalized-adagrad"]
_SPACES: dict[str, dict[str, Any]] = {
    "recall-tree": {
        "learner": _LEARNERS,
        "learner.rate": (0.1, 10.0),
        "beam": (1, 16),
        "path_features": ["off", "bias"],
    },
    "label-tree": {
        "arity": (8, 64),
        "beam": (4, 32),
        "rate": (0.2, 5.0),
        "start": (2.0, 40.0),
        "prior": (0.1, 1.0),
    },
    "spectral-tree": {"n_candidates": (20, 500), "max_depth": (2, 14), "beam": (1, 8)},
    "lom-tree": _ONLINE,
    "mlom-tree": {"centre": ["auto", "median", "mean"], **_ONLINE},
    "one-against-all": {"learner": _LEARNERS, "learner.rate": (0.05, 10.0), "loss": ["softmax", "logistic"]},
}


def run(
    data: str, reading: dict, algorithm: str | None, seconds: float, trials: int | None, max_rows: int,
    epochs: int, seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Search, and print the command line of the best trial."""
    optuna = _optuna()
    source = open_training_source(data, reading)
    chosen = choose_algorithm(algorithm, source.reading)
    several = source.reading.labels == "several"
    columns = LabelColumns(initial_names(source.reading), source.reading.n_labels or 0) if several else None
    X, y, weights = read_rows(source, columns, max_rows)
    order = np.random.default_rng(seed).permutation(X.shape[0])
    n_held = max(1, round(_HELD_OUT * len(order)))
    if n_held >= len(order):
        raise CommandError(f"{data}: {len(order)} rows are too few to hold some out.")
    held, learned = order[:n_held], order[n_held:]
    stderr.print(f"{chosen}: {len(learned):,} training rows, {n_held:,} held-out rows")

    def accuracy(options: list[str]) -> float:
        clf = make_estimator(chosen, options, seed)
        if not learns_online(clf):
            clf.set_params(n_epochs=epochs).fit(X[learned], y[learned], sample_weight=weights[learned])
        else:
            for epoch in range(epochs):
                clf._begin_epoch(epoch)
                rows = np.random.default_rng([seed, epoch]).permutation(learned)
                clf.partial_fit(X[rows], y[rows], sample_weight=weights[rows])
        found = clf.diagnose(X[held], y[held])["accuracy"]
        stderr.print(f"{100 * found:6.2f} %  {' '.join(options) or 'default options'}")
        return found

    space = dict(_SPACES[chosen])
    if "n_candidates" in space:  # more candidates than labels make no difference
        n = y.shape[1] if y.ndim == 2 else len(np.unique(y))
        space["n_candidates"] = (min(max(2, n // 8), 20), min(n, 500))

    def objective(trial: Any) -> float:
        options = [f"{name}={_suggest(trial, name, values)}" for name, values in space.items()]
        trial.set_user_attr("options", options)
        return accuracy(options)

    start = time.perf_counter()
    default = accuracy([])
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    remaining = seconds - (time.perf_counter() - start)
    interrupted = False
    try:
        if remaining > 0:
            study.optimize(objective, n_trials=trials, timeout=remaining)
    except KeyboardInterrupt:
        interrupted = True
    n_done = sum(trial.value is not None for trial in study.trials)
    best, options = default, []
    if n_done and study.best_value > default:
        best, options = study.best_value, study.best_trial.user_attrs["options"]
    command = _command(data, reading, chosen, options, epochs, seed)
    if as_json:
        result = {"accuracy": best, "default_accuracy": default, "options": options, "trials": n_done}
        print(json.dumps({**result, "command": command}))
    else:
        print(f"# accuracy on held-out rows: {100 * best:.2f} %, with the default options {100 * default:.2f} %")
        print(command)
    if interrupted:
        raise SystemExit(INTERRUPTED)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise CommandError("tune requires optuna: pip install 'manyclass[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    return optuna


def _suggest(trial: Any, name: str, values: Any) -> Any:
    if isinstance(values, list):
        return trial.suggest_categorical(name, values)
    if isinstance(values[0], int):
        return trial.suggest_int(name, *values, log=True)
    return round(trial.suggest_float(name, *values, log=True), 4)


def _command(data: str, reading: dict, algorithm: str, options: list[str], epochs: int, seed: int) -> str:
    """The command line that trains with these options."""
    words = ["manyclass", "train", "DATA" if data == "-" else data]
    for name, value in reading.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        else:
            for one in value if isinstance(value, list) else [value]:
                words += [flag, str(one)]
    for option in options:
        words += ["--option", option]
    words += ["--algorithm", algorithm, "--epochs", str(epochs), "--seed", str(seed), "--model", "MODEL"]
    return shlex.join(words)
