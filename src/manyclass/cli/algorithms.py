"""Which algorithm, with which options, from words on the command line."""

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..core.learners import BY_NAME
from ..estimators import ESTIMATORS
from ..io import Reading
from .errors import CommandError

DEFAULT_EPOCHS = 5
# Weights of the tables: 64 MB each. A model file holds them all, and a checkpoint should not take long.
_TABLE_BITS = 24
_SET_OTHERWISE = {
    "n_epochs": "--epochs",
    "shuffle": "--shuffle or --no-shuffle",
    "random_state": "--seed",
    "n_jobs": "--threads",
    "verbose": "nothing: progress is always shown",
}


def choose_algorithm(asked: str | None, reading: Reading) -> str:
    """The algorithm asked for, or what serves such data best."""
    if asked is None:
        return "label-tree" if reading.text or reading.labels == "several" else "recall-tree"
    if asked not in ESTIMATORS:
        raise CommandError(f"--algorithm must be one of {', '.join(ESTIMATORS)}, got {asked!r}.")
    return asked


def learns_at_once(algorithm: str) -> bool:
    """Whether the algorithm needs all rows at once."""
    return not hasattr(ESTIMATORS[algorithm]._model, "learn")


def make_estimator(algorithm: str, options: Sequence[str], seed: int) -> Any:
    """An estimator that has learned nothing, with options given as NAME=VALUE."""
    estimator = ESTIMATORS[algorithm](random_state=seed)
    known = estimator.get_params(deep=False)
    if "table_bits" in known:
        estimator.set_params(table_bits=_TABLE_BITS)
    nested: dict[str, dict[str, Any]] = {}
    names = [option.partition("=")[0] for option in options]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise CommandError(f"--option {twice[0]} is given twice.")
    for option in options:
        name, equals, text = option.partition("=")
        outer, dot, inner = name.partition(".")
        if name in _SET_OTHERWISE:
            raise CommandError(f"--option {name}: use {_SET_OTHERWISE[name]}.")
        if not equals or outer not in known or (dot and outer not in ("learner", "router_learner")):
            allowed = ", ".join(sorted(set(known) - set(_SET_OTHERWISE)))
            raise CommandError(f"--option {option!r}: {algorithm} knows NAME=VALUE for {allowed}.")
        if dot:
            nested.setdefault(outer, {})[inner] = _value(text)
        else:
            estimator.set_params(**{name: _value(text)})
    for name, values in nested.items():
        learner = getattr(estimator, name)
        if not isinstance(learner, str) or learner not in BY_NAME:
            raise CommandError(f"--option {name}.…: give --option {name}={'|'.join(BY_NAME)} too.")
        try:
            estimator.set_params(**{name: replace(BY_NAME[learner](), **values)})
        except TypeError as error:
            raise CommandError(f"--option {name}: {error}") from error
    estimator._check_options()
    return estimator


def _value(text: str) -> Any:
    """A number, True, False or None as in Python; anything else is text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
