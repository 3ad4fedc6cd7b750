"""Learners refuse nonsense, resolve by name and inputs, and slow down by epochs."""

import pytest

from manyclass import RecallTreeClassifier
from manyclass.core.learners import SGD, AdaGrad, NormalizedAdaGrad, at_epoch, resolve

KINDS = [SGD, AdaGrad, NormalizedAdaGrad]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", [0, -1.0, 1e300, float("nan"), float("inf"), "1", None, True])
def test_bad_rate(kind, rate):
    with pytest.raises(ValueError, match=f"{kind.__name__}: rate must be in"):
        kind(rate=rate)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("decay", [0.0, 1.1, -0.5, float("nan"), "1", None, False])
def test_bad_decay(kind, decay):
    with pytest.raises(ValueError, match=r"decay must be in \(0, 1\]"):
        kind(decay=decay)


def test_learners_are_frozen_and_compare_by_value():
    assert SGD(rate=0.5) == SGD(rate=0.5) != SGD(rate=0.6)
    assert SGD(rate=0.5) != AdaGrad(rate=0.5)
    with pytest.raises(AttributeError):
        SGD().rate = 3.0


@pytest.mark.parametrize(
    ("learner", "n_features", "sparse", "expected"),
    [
        ("auto", 1001, True, SGD()),
        ("auto", 1000, True, NormalizedAdaGrad()),
        ("auto", 5000, False, NormalizedAdaGrad()),
        ("sgd", 5, False, SGD()),
        ("adagrad", 5, False, AdaGrad()),
        ("normalized-adagrad", 9999, True, NormalizedAdaGrad()),
        (AdaGrad(rate=3.0), 5, True, AdaGrad(rate=3.0)),
    ],
)
def test_resolve(learner, n_features, sparse, expected):
    assert resolve(learner, n_features=n_features, sparse=sparse) == expected


@pytest.mark.parametrize("learner", ["adam", None, 3, SGD])
def test_resolve_names_the_option_and_the_choices(learner):
    with pytest.raises(ValueError, match="learner must be one of 'auto', 'sgd'"):
        resolve(learner, n_features=3, sparse=False)


def test_rate_of_an_epoch():
    learner = SGD(rate=2.0, decay=0.5)
    options = RecallTreeClassifier(learner=learner)._resolve_options(3, False, 0)
    assert [at_epoch(options, epoch).rate for epoch in range(3)] == [2.0, 1.0, 0.5]
    assert at_epoch(options._replace(decay=1.0), 7) == options._replace(decay=1.0)
    assert at_epoch(options, 10_000).rate > 0
