"""§3.4 of the spectral paper: the deviation of fractional routing, λ/m or its root, on ALOI with rows as they are.

λ is the eigenvalue of Equation (2) and m the mass of the node, so that λ/m is a mean of squares: a variance, in the
square of the unit of the inputs. The paper sets the standard deviation σ = λ/m.
"""

import numpy as np
from report import load_or_skip, parse, publish
from sklearn.preprocessing import normalize

from manyclass import SpectralTreeClassifier
from manyclass.spectral_tree import filter as builder

OPTIONS = {"max_depth": 12, "n_candidates": 25, "leaf": "shared", "n_epochs": 1, "random_state": 0}
PRINTED, ROOT = "λ/m", "√(λ/m)"
LENGTHS = 34, 148  # of 95 % of the paper's rows (§5.2)


class AsTheyAre(SpectralTreeClassifier):
    """Rows are not scaled to length 1."""

    def _resolve_options(self, n_features, sparse, seed):
        return super()._resolve_options(n_features, sparse, seed)._replace(normalize=False)


def with_root(split_node):
    """A node's split with an eigenvalue whose quotient by the mass is the root of that of the true one."""

    def split(batch, part, *rest):
        features, direction, eigenvalue, margin = split_node(batch, part, *rest)
        return features, direction, float(np.sqrt(max(0.0, eigenvalue) * part.mass.sum())), margin

    return split


def main() -> None:
    args = parse(__doc__, step={"type": int, "default": 1, "help": "every STEP-th training row (1)"})
    X, y, X_test, y_test = load_or_skip("aloi")
    step = 40 if args.quick else args.step
    X, y = X.toarray()[::step], y[::step]
    X_test = X_test.toarray()
    length = np.linalg.norm(X, axis=1)
    to_paper = np.mean(LENGTHS) / length.mean()
    kinds = {
        "as they are": (X, X_test, (PRINTED, ROOT)),
        "with mean length 91": (to_paper * X, to_paper * X_test, (PRINTED,)),
        "with mean length 1": (X / length.mean(), X_test / length.mean(), (PRINTED,)),
        "of length 1": (normalize(X), normalize(X_test), (PRINTED, ROOT)),
    }
    split_node, rows = builder.split_node, []
    for kind, (inputs, test_inputs, deviations) in kinds.items():
        for deviation in deviations:
            builder.split_node = with_root(split_node) if deviation == ROOT else split_node
            model = AsTheyAre(**OPTIONS).fit(inputs.astype(np.float32), y)
            told = model.diagnose(test_inputs.astype(np.float32), y_test)
            rows.append(
                {
                    "rows": kind,
                    "σ": deviation,
                    "paper's test recall %": "96.5" if deviation == PRINTED else None,
                    "test recall %": f"{100 * told['recall']:.2f}",
                    "depth": f"{told['depth']:.2f}",
                }
            )
            print(rows[-1], flush=True)
    builder.split_node = split_node
    low, high = np.percentile(length, [2.5, 97.5])
    notes = [
        f"ALOI, {len(y):,} training rows, depth {OPTIONS['max_depth']}, {OPTIONS['n_candidates']} candidates. Lengths "
        f"of the rows: 95 % between {low:.0f} and {high:.0f} (paper: {LENGTHS[0]} and {LENGTHS[1]}). With √(λ/m) one "
        "factor for all rows changes nothing.",
    ]
    publish("spread", "ALOI: test recall by the deviation of fractional routing (§3.4)", rows, notes, args.quick)


if __name__ == "__main__":
    main()
