"""Table 1 of the online tree paper (2013): the split at the root against random partitions of the labels.

A label belongs to the child that saw more of it in training; an example is wrong if it is routed to the other one. A
random partition is learned by a linear predictor of two classes: its targets are given.
"""

import numpy as np
import scipy.sparse as sp
from report import compare, load_or_skip, parse, publish

from manyclass import LomTreeClassifier, OneAgainstAllClassifier

PAPER = {
    "data100": (0.0449, 0.0077, "0.4953 / 0.4954"),
    "MNIST": (0.1263, 0.1253, "0.1702 / 0.1744"),
    "RCV1": (0.0942, 0.1185, "0.1666 / 0.2176 (33/66), 0.1906 / 0.2443 (49/50)"),
}


def data100(seed: int = 0):
    """100 spherical Gaussians on a 10 x 10 grid, spacing 10, sigma 1."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(2):
        y = rng.integers(0, 100, 10_000)
        centres = 10.0 * np.stack([y // 10, y % 10], axis=1)
        parts += [(centres - 45.0 + rng.standard_normal((10_000, 2))).astype(np.float32), y]
    return parts


def rcv1():
    """Each row's rarest topic as its class."""
    X, Y, X_test, Y_test = load_or_skip("rcv1-topics")
    frequency = np.asarray(Y.sum(axis=0)).ravel()

    def rarest(matrix):
        matrix = sp.csr_matrix(matrix)
        return np.array(
            [
                labels[np.argmin(frequency[labels])] if len(labels) else -1
                for labels in np.split(matrix.indices, matrix.indptr[1:-1])
            ]
        )

    y, y_test = rarest(Y), rarest(Y_test)
    return X[y >= 0], y[y >= 0], X_test[y_test >= 0], y_test[y_test >= 0]


def sides(model, X) -> np.ndarray:
    """Which child of the root each row goes to."""
    return np.asarray(model.decision_path(X)[:, [2]].todense()).ravel() > 0


def split_errors(routes, y, routes_test, y_test):
    """(labels right, train error, test error) of a split by the children that saw more of each label."""
    right = np.zeros(max(y.max(), y_test.max()) + 1, bool)
    mass, went = np.bincount(y, minlength=len(right)), np.bincount(y, routes, minlength=len(right))
    right[:] = went > mass / 2
    return int(right[mass > 0].sum()), np.mean(routes != right[y]), np.mean(routes_test != right[y_test])


def root_split(X, y, X_test, y_test, n_epochs: int):
    """Our split of the root."""
    model = LomTreeClassifier(max_depth=1, split_mass=0, random_state=0, n_epochs=n_epochs).fit(X, y)
    return split_errors(sides(model, X), y, sides(model, X_test), y_test)


def random_split(X, y, X_test, y_test, n_right: int, seed: int, n_epochs: int):
    """Errors of one linear predictor taught a random partition of the labels."""
    rng = np.random.default_rng(seed)
    labels = np.unique(y)
    right = np.zeros(max(y.max(), y_test.max()) + 1, bool)
    right[rng.permutation(labels)[:n_right]] = True
    model = OneAgainstAllClassifier(random_state=seed, n_epochs=n_epochs).fit(X, right[y])
    return 1 - model.score(X, right[y]), 1 - model.score(X_test, right[y_test])


def main() -> None:
    args = parse(__doc__, partitions={"type": int, "default": 20})
    n_random, n_epochs = (2, 1) if args.quick else (args.partitions, 3)
    rows = []
    for name, load in (("data100", data100), ("RCV1", rcv1)):
        X, y, X_test, y_test = load()
        if args.quick:
            X, y, X_test, y_test = X[::10], y[::10], X_test[::10], y_test[::10]
        n_right, train, test = root_split(X, y, X_test, y_test, n_epochs)
        n_labels = len(np.unique(y))
        ours = f"ours, {min(n_right, n_labels - n_right)}/{max(n_right, n_labels - n_right)}"
        paper = PAPER[name]
        n = len(y_test)
        rows.append(row(name, ours, f"{paper[0]} / {paper[1]}", (f"{train:.4f}", f"{test:.4f}"), test, paper[1], n))
        for share in {n_right: None, n_labels // 2: None}:
            found = np.array([random_split(X, y, X_test, y_test, share, seed, n_epochs) for seed in range(n_random)])
            told = [f"{mean:.4f} ± {spread:.4f}" for mean, spread in zip(found.mean(0), found.std(0), strict=True)]
            rows.append(row(name, f"random, {share}/{n_labels - share}", paper[2], told, found[:, 1].mean(), test, n))
        print(rows[-2:], flush=True)
    notes = [
        "Paper: training / test error. MNIST is not at hand and left out (paper: 0.1263 / 0.1253; random "
        "0.1702 / 0.1744).",
        f"Ours: LomTreeClassifier(max_depth=1, split_mass=0), {n_epochs} epochs. Random: {n_random} partitions, each "
        "learned by one logistic predictor. RCV1: each row's rarest topic.",
        "Difference and p (N - 1 chi-squared test): our test error against the paper's, taken for as many rows as "
        "ours; the random partitions' mean against ours.",
    ]
    publish("table_1", "Root split against random partitions", rows, notes, args.quick)


def row(data, partition, paper, told, error, beside, n) -> dict:
    """One row: `told` are the errors as texts, `beside` is the test error to compare with."""
    gap = list(compare(100 * error, n, 100 * beside, n).values())
    return {
        "data": data, "partition": partition, "paper": paper, "training error": told[0], "test error": told[1],
        "difference in points [95 %]": gap[0], "p": gap[1],
    }  # fmt: skip


if __name__ == "__main__":
    main()
