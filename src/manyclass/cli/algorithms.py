"""The estimator that a command line describes."""

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..core.base import algorithm_of
from ..core.learners import BY_NAME
from ..estimators import ESTIMATORS
from ..many_class import choose
from .messages import CommandError

_TABLE_BITS = 24  # 64 MB per table: smaller than in Python, since model files and checkpoints contain whole tables
_OTHER_FLAGS = {
    "n_epochs": "--epochs",
    "shuffle": "--shuffle or --no-shuffle",
    "random_state": "--seed",
    "n_jobs": "--threads",
    "calibration": "--calibrate",
    "max_memory": "--max-memory",
    "verbose": "nothing; progress is always shown",
}


def default_algorithm(text: bool = True, several: bool = False, stream: bool = False) -> str:
    """The algorithm that `ManyClassClassifier` chooses."""
    return algorithm_of(choose(text, several, stream))


def make_estimator(algorithm: str, options: Sequence[str], seed: int) -> Any:
    """An unfitted estimator with options given as NAME=VALUE; `learner.NAME` is an option of the learner."""
    estimator = ESTIMATORS[algorithm](random_state=seed)
    known = estimator.get_params(deep=False)
    if "table_bits" in known:
        estimator.set_params(table_bits=_TABLE_BITS)
    names = [option.partition("=")[0] for option in options]
    for name in names:
        if names.count(name) > 1:
            raise CommandError(f"--option {name} is given twice.")
        if name in _OTHER_FLAGS:
            raise CommandError(f"--option {name}: use {_OTHER_FLAGS[name]}.")
    learner: dict[str, Any] = {}
    for option in options:
        name, equals, text = option.partition("=")
        outer, dot, inner = name.partition(".")
        if not equals or outer not in known or (dot and outer != "learner"):
            allowed = ", ".join(sorted(set(known) - set(_OTHER_FLAGS)))
            what = f"{algorithm} has no option {name!r}" if equals else "use NAME=VALUE"
            raise CommandError(
                f"--option {option!r}: {what}. Options of {algorithm}: {allowed}. Others are flags, such as --epochs."
            )
        if dot:
            learner[inner] = _value(text)
        else:
            estimator.set_params(**{name: _value(text)})
    if learner:
        kind = BY_NAME.get(estimator.learner) if isinstance(estimator.learner, str) else None
        if kind is None:
            raise CommandError(f"--option learner.{next(iter(learner))} requires --option learner={'|'.join(BY_NAME)}.")
        try:
            estimator.set_params(learner=replace(kind(), **learner))
        except TypeError as error:
            raise CommandError(f"--option learner: {error}") from error
    estimator._check_options()
    return estimator


def option_help(algorithm: str) -> str:
    """A table of the options of an algorithm: default values and allowed values."""
    estimator = make_estimator(algorithm, [], 0)
    lines = [f"Options of {algorithm}, with their default values:"]
    for name, value in estimator.get_params(deep=False).items():
        if name not in _OTHER_FLAGS:
            allowed = estimator._constraints.get(name)
            default = f"{name}={value}" if isinstance(value, (bool, int, float, str, type(None))) else name
            lines.append(f"  {default:<28}{allowed or ''}".rstrip())
    return "\n".join(lines)


def _value(text: str) -> Any:
    """A Python literal such as 3, 0.5 or True; anything else is a string."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
