"""Sets of labels: coverage against the exact distribution, groups of labels, checks."""

import numpy as np
import pytest
from scipy.stats import betabinom

from manyclass import LabelTreeClassifier, load_model
from manyclass.core import conformal, model_file
from manyclass.core.model_file import ModelFormatError
from manyclass.core.protocol import Labels, Scored, as_labels

NO_BEAM = np.array([0]), np.array([10.0])


def rows(n: int, seed: int, missing: float = 0.02, hard: bool = False) -> tuple[Scored, Labels]:
    """Candidates 0 to 9 of each row; with `hard`, odd labels get low probabilities where they are true."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 10, n)
    scores = rng.standard_normal((n, 10))
    scores[np.arange(n), y] += np.where(hard & (y % 2 == 1), 0.5, 3.0)
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    y = np.where(rng.random(n) < missing, -1, y)
    return Scored(np.full(n, 10), np.tile(np.arange(10), n), probabilities.ravel()), as_labels(y)


def misses(group, scored, truth) -> np.ndarray:
    """Whether the true label of each row is not in its set."""
    inside = conformal.in_set(group, scored.labels, scored.probabilities).reshape(-1, 10)
    return (truth.label < 0) | ~inside[np.arange(len(inside)), truth.label]


@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.95])
def test_coverage_is_as_stated(coverage):
    """Without equal scores, the number of misses on new rows has a beta-binomial distribution."""
    n, n_new = 500, 4000
    group = conformal.fit(conformal.true_labels([rows(n, 0)[0]], rows(n, 0)[1]), coverage, 10)
    missed = misses(group, *rows(n_new, 1)).sum()
    may_miss = int((1 - coverage) * (n + 1) + 1e-9)
    chances = betabinom(n_new, may_miss, n + 1 - may_miss)
    assert chances.ppf(1e-6) <= missed <= chances.ppf(1 - 1e-6)


def test_the_threshold_is_the_exact_quantile():
    scored = Scored(np.ones(9, int), np.zeros(9, int), np.arange(1, 10) / 10)
    true = conformal.true_labels([scored], as_labels(np.zeros(9, int)))
    assert conformal.fit(true, 0.9, 1).threshold[0] == 0.1  # no miss among 9 rows
    assert conformal.fit(true, 0.8, 1).threshold[0] == 0.2  # one miss
    with pytest.raises(ValueError, match="requires at least 19 rows"):
        conformal.fit(true, 0.95, 1)


def test_missing_candidates_are_misses():
    scored, truth = rows(500, 0, missing=0.15)
    with pytest.raises(ValueError, match=r"1\d\.\d% of the true labels are not among the candidates"):
        conformal.fit(conformal.true_labels([scored], truth), 0.9, 10)
    group = conformal.fit(conformal.true_labels([scored], truth), 0.8, 10)
    assert misses(group, *rows(4000, 1, missing=0.15)).mean() == pytest.approx(0.2, abs=0.06)


def test_several_labels_per_row_share_a_row():
    """Rows with the labels 0 and 1; the second is missed in all rows, which is half of the labels."""
    scored = Scored(np.full(99, 2), np.tile([0, 1], 99), np.tile([0.9, 0.2], 99))
    truth = Labels(np.arange(0, 200, 2), np.tile([0, 1], 99))
    true = conformal.true_labels([scored], truth)
    assert conformal.fit(true, 0.4, 2).threshold[0] == 0.9
    assert conformal.fit(true, 0.6, 2).threshold[0] == 0.2


def test_groups_of_labels_have_their_own_coverage():
    scored, truth = rows(6000, 0, hard=True, missing=0.0)
    true, new = conformal.true_labels([scored], truth), rows(6000, 1, hard=True, missing=0.0)
    one, grouped = conformal.fit(true, 0.9, 10), conformal.fit_by_class(true, 0.9, 10, 2)
    odd = new[1].label % 2 == 1
    assert misses(one, *new)[odd].mean() > 0.14  # hard labels are missed more often
    for group in (odd, ~odd):
        assert misses(grouped, *new)[group].mean() == pytest.approx(0.1, abs=0.03)
    assert len(set(grouped.cluster[1::2])) == 1 and grouped.cluster[0] != grouped.cluster[1]


def test_few_rows_have_one_threshold():
    true = conformal.true_labels([rows(100, 0)[0]], rows(100, 0)[1])
    assert len(conformal.fit_by_class(true, 0.9, 10, 8).threshold) == 1


def test_labels_that_are_newer_than_the_thresholds_have_the_first():
    group = conformal.Conformal(np.array([0.9]), np.array([0.3, 0.6]), np.array([1, 1], np.int32), *NO_BEAM)
    assert conformal.in_set(group, np.array([0, 1, 2]), np.array([0.5, 0.7, 0.4])).tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"coverage": np.array([1.5])}, "coverage is 1.5"),
        ({"threshold": np.array([-1.0])}, "outside 0..1"),
        ({"cluster": np.array([7], np.int32)}, "outside 0..0"),
        ({"cluster": np.zeros(9, np.int32)}, "9 of 3 labels"),
        ({"beam": np.array([257])}, "outside 0..256"),
        ({"n_candidates": np.array([-1.0])}, "n_candidates is -1"),
    ],
)
def test_wrong_arrays_in_a_file_are_errors(change, message):
    group = conformal.Conformal(np.array([0.9]), np.array([0.3]), np.zeros(3, np.int32), *NO_BEAM)
    conformal.check_conformal(group, 3, 256)
    with pytest.raises(ModelFormatError, match=message):
        conformal.check_conformal(group._replace(**change), 3, 256)


def test_sets_follow_more_paths_if_the_coverage_requires_it(tmp_path):
    """With one path, a third of the true labels are no candidates; predictions stay those of one path."""
    rng = np.random.default_rng(0)
    centres, y = rng.standard_normal((120, 8)), rng.integers(0, 120, 3000)
    X = (centres[y] + 0.8 * rng.standard_normal((3000, 8))).astype(np.float32)
    model = LabelTreeClassifier(arity=4, beam=1, neighbors=False, random_state=0).fit(X[:1500], y[:1500])
    before, shares = model.predict(X[2000:]), []
    assert model.diagnose(X[2000:], y[2000:])["recall"] < 0.8
    for coverage in (0.2, 0.8, 0.9):
        model.conformal(X[1500:2000], y[1500:2000], coverage=coverage)
        sets = model.predict_set(X[2000:])
        shares.append(model.conformal_["n_candidates"])
        assert sets[np.arange(1000), y[2000:]].mean() == pytest.approx(coverage, abs=0.06)
    assert shares[0] < shares[1] <= shares[2] <= 120
    assert model.conformal_["beam"] > 1
    np.testing.assert_array_equal(model.predict(X[2000:]), before)
    model.save(tmp_path / "m.model")
    again = load_model(tmp_path / "m.model")
    assert again.conformal_ == model.conformal_ and (again.predict_set(X[2000:]) != sets).nnz == 0
    arrays, metadata = model_file.read(tmp_path / "m.model", mmap=False)
    arrays = {name: array for name, array in arrays.items() if name not in ("conformal.beam", "conformal.n_candidates")}
    model_file.write(tmp_path / "old.model", arrays, metadata)  # as version 0.1.0 wrote it: the paths of predictions
    assert load_model(tmp_path / "old.model").predict_set(X[2000:]).shape == sets.shape
    assert model.fit(X[:300], y[:300]) is model
    with pytest.raises(AttributeError, match="call conformal"):
        model.conformal_  # noqa: B018


def unequal(n: int, seed: int) -> tuple[Scored, Labels]:
    """As `rows`, with 10 frequent labels that are easy and 390 rare ones that are hard; the true one and one other."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, rng.integers(0, 10, n), rng.integers(10, 400, n))
    true = np.where(y < 10, rng.beta(8, 2, n), rng.beta(2, 8, n))
    labels = np.stack([y, (y + 1) % 400], axis=1).ravel()
    return Scored(np.full(n, 2), labels, np.stack([true, 1.0 - true], axis=1).ravel()), as_labels(y)


def test_labels_with_few_rows_are_a_group_with_the_coverage():
    scored, truth = unequal(4000, 0)
    group = conformal.fit_by_class(conformal.true_labels([scored], truth), 0.9, 400, 4)
    assert len(np.unique(group.cluster[:10])) > 1 and not group.cluster[10:].any()
    (_, labels, probabilities), truth = unequal(20_000, 1)
    inside = conformal.in_set(group, labels, probabilities).reshape(-1, 2)[:, 0]
    for part in (truth.label < 10, truth.label >= 10):
        assert inside[part].mean() == pytest.approx(0.9, abs=0.025)


def test_a_group_with_too_few_rows_joins_the_others():
    """Label 9 is a group of its own by its scores, but nearly all its rows are in the half that chooses the groups."""
    n, rng = 2000, np.random.default_rng(1)
    half = np.random.default_rng(0).permutation(n) < n // 2  # as in fit_by_class
    y = np.where(half, np.arange(n) % 10, np.arange(n) % 9)
    probability = np.where(y == 9, 0.05, np.where(y < 5, 0.9, 0.5)) + 0.01 * rng.random(n)
    group = conformal.fit_by_class(conformal.TrueLabels(np.arange(n), y, probability, n, 1.0), 0.9, 10, 3)
    assert group.cluster[9] == 0 and (group.cluster[:9] > 0).all()
