"""How predictors learn: the step rule and its rate, as small frozen options."""

from dataclasses import dataclass, replace
from numbers import Real
from typing import ClassVar

from . import updates


@dataclass(frozen=True)
class Learner:
    """A step rule.

    Parameters
    ----------
    rate : float
        Size of a step.
    decay : float
        Factor on the rate after each epoch of `fit`. `partial_fit` goes on at the pace where `fit` ended, if any.
    """

    rate: float = 1.0
    decay: float = 1.0
    update: ClassVar[int] = -1
    adaptive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, low, high in (("rate", 0.0, float("inf")), ("decay", 0.0, 1.0)):
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not number or not low < value <= high or value == float("inf"):
                limit = "a number above 0" if name == "rate" else "in (0, 1]"
                raise ValueError(f"{type(self).__name__}: {name} must be {limit}, got {value!r}.")


@dataclass(frozen=True)
class SGD(Learner):
    """Plain gradient steps, divided by the mean squared length of the rows seen: no need to scale the inputs.

    With rows of unit length (tf-idf) it is textbook SGD. Best on sparse text.

    Parameters
    ----------
    rate : float, default=2.0
        Size of a step: with 1, a typical row's own score moves by its gradient.
    decay : float, default=0.7
        Factor on the rate after each epoch of `fit`.

    Examples
    --------
    >>> from manyclass import SGD
    >>> SGD(rate=0.5)
    SGD(rate=0.5, decay=0.7)
    """

    rate: float = 2.0
    decay: float = 0.7
    update: ClassVar[int] = updates.SGD
    adaptive: ClassVar[bool] = False


@dataclass(frozen=True)
class AdaGrad(Learner):
    """A step size for each weight, shrinking with the squared gradients it has seen. Wants inputs of size ~1.

    Parameters
    ----------
    rate : float, default=0.5
        Size of a step.
    decay : float, default=0.8
        Factor on the rate after each epoch of `fit`.
    """

    rate: float = 0.5
    decay: float = 0.8
    update: ClassVar[int] = updates.ADAGRAD


@dataclass(frozen=True)
class NormalizedAdaGrad(Learner):
    """AdaGrad on inputs divided by the largest value seen of each feature: any unit will do. Best on dense inputs.

    Parameters
    ----------
    rate : float, default=8.0
        Size of a step.
    decay : float, default=0.8
        Factor on the rate after each epoch of `fit`.
    """

    rate: float = 8.0
    decay: float = 0.8
    update: ClassVar[int] = updates.NORMALIZED_ADAGRAD


BY_NAME = {"sgd": SGD, "adagrad": AdaGrad, "normalized-adagrad": NormalizedAdaGrad}

# Above this many features sparse rows are taken for text, where a step size for each weight was measured to hurt.
TEXT_FEATURES = 1000


def resolve(learner: object, *, n_features: int, sparse: bool, name: str = "learner") -> Learner:
    """The learner that an option names: an instance, a name, or "auto" for what the inputs look like."""
    if isinstance(learner, Learner):
        return learner
    if learner == "auto":
        return SGD() if sparse and n_features > TEXT_FEATURES else NormalizedAdaGrad()
    if isinstance(learner, str) and learner in BY_NAME:
        return BY_NAME[learner]()
    choices = ", ".join(repr(choice) for choice in ["auto", *BY_NAME])
    raise ValueError(f"{name} must be one of {choices} or an instance such as SGD(rate=0.5), got {learner!r}.")


def slowed(learner: Learner, epoch: int) -> Learner:
    """The learner in the given epoch (0 is the first)."""
    # never quite 0: no rate at all would be no learner
    return replace(learner, rate=max(learner.rate * learner.decay**epoch, 1e-30))
