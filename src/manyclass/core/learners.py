"""Learners: the public options for the step rule of linear predictors, its rate and its decay."""

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from . import updates
from .options import as_float

HIGHEST_RATE = 1e6  # the step of a higher one may overflow float32


@dataclass(frozen=True)
class Learner:
    """A step rule.

    Parameters
    ----------
    rate : float
        Size of a step, above 0 and at most 1,000,000.
    decay : float
        The rate is multiplied by this factor after each epoch of `fit`. `partial_fit` continues with the rate
        of the last epoch.
    """

    rate: float = 1.0
    decay: float = 1.0
    update: ClassVar[int] = -1

    def __post_init__(self) -> None:
        for name, high in (("rate", HIGHEST_RATE), ("decay", 1.0)):
            value = getattr(self, name)
            if not isinstance(value, Real) or isinstance(value, bool) or not 0.0 < as_float(value) <= high:
                raise ValueError(f"{type(self).__name__}: {name} must be in (0, {high:g}], got {value!r}.")

    def as_options(self) -> dict[str, Any]:
        """The fields `update`, `rate` and `decay` of an algorithm's options."""
        return {"update": self.update, "rate": float(self.rate), "decay": float(self.decay)}


@dataclass(frozen=True)
class SGD(Learner):
    """Stochastic gradient descent, with steps divided by the mean squared length of the rows seen so far.

    Inputs need no scaling. For rows of unit length, such as tf-idf, this is plain SGD. Best for sparse text.

    Parameters
    ----------
    rate : float, default=2.0
        Size of a step. With 1, the score of a typical row changes by its gradient.
    decay : float, default=0.7
        The rate is multiplied by this factor after each epoch of `fit`.

    Examples
    --------
    >>> from manyclass import SGD
    >>> SGD(rate=0.5)
    SGD(rate=0.5, decay=0.7)
    """

    rate: float = 2.0
    decay: float = 0.7
    update: ClassVar[int] = updates.SGD


@dataclass(frozen=True)
class AdaGrad(Learner):
    """AdaGrad: the step size of each weight shrinks with its squared gradients. Requires inputs of size about 1.

    Parameters
    ----------
    rate : float, default=0.5
        Size of a step.
    decay : float, default=0.8
        The rate is multiplied by this factor after each epoch of `fit`.

    Examples
    --------
    >>> from manyclass import AdaGrad, OneAgainstAllClassifier
    >>> OneAgainstAllClassifier(learner=AdaGrad(decay=0.9)).learner
    AdaGrad(rate=0.5, decay=0.9)
    """

    rate: float = 0.5
    decay: float = 0.8
    update: ClassVar[int] = updates.ADAGRAD


@dataclass(frozen=True)
class NormalizedAdaGrad(Learner):
    """AdaGrad on inputs divided by the largest value of each feature so far. Best for dense inputs, in any unit.

    Parameters
    ----------
    rate : float, default=8.0
        Size of a step.
    decay : float, default=0.8
        The rate is multiplied by this factor after each epoch of `fit`.

    Examples
    --------
    >>> from manyclass import NormalizedAdaGrad, RecallTreeClassifier
    >>> RecallTreeClassifier(learner=NormalizedAdaGrad(rate=4.0)).learner
    NormalizedAdaGrad(rate=4.0, decay=0.8)
    """

    rate: float = 8.0
    decay: float = 0.8
    update: ClassVar[int] = updates.NORMALIZED_ADAGRAD


BY_NAME = {"sgd": SGD, "adagrad": AdaGrad, "normalized-adagrad": NormalizedAdaGrad}

# Sparse rows with more features are assumed to be text, for which SGD is more accurate.
TEXT_FEATURES = 1000


def resolve(
    learner: object, *, n_features: int, sparse: bool, name: str = "learner", auto: Learner | None = None
) -> Learner:
    """The learner that an option means: an instance, a name, or "auto": `auto` if given, else by the inputs."""
    if isinstance(learner, Learner):
        return learner
    if isinstance(learner, str) and learner == "auto":
        return auto or (SGD() if sparse and n_features > TEXT_FEATURES else NormalizedAdaGrad())
    if isinstance(learner, str) and learner in BY_NAME:
        return BY_NAME[learner]()
    choices = ", ".join(repr(choice) for choice in ["auto", *BY_NAME])
    raise ValueError(f"{name} must be one of {choices} or an instance such as SGD(rate=0.5), got {learner!r}.")


def at_epoch(options: Any, epoch: int) -> Any:
    """The options with the learning rate of the given epoch (0 is the first), which never becomes 0."""
    return options._replace(rate=max(options.rate * options.decay**epoch, 1e-30))
