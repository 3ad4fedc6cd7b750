"""Random splits for the tests of the theory."""

import numpy as np
from hypothesis import strategies as st

SLACK = 1e-9  # what rounding may add


@st.composite
def splits(draw, least=1, most=8):
    """Counts of each label on either side, not all 0; many of them 0 or equal."""
    n_labels = draw(st.integers(least, most))
    counts = st.lists(st.one_of(st.integers(0, 3), st.integers(0, 1000)), min_size=n_labels, max_size=n_labels)
    left, right = np.array(draw(counts), float), np.array(draw(counts), float)
    if not (left.any() or right.any()):
        right[draw(st.integers(0, n_labels - 1))] = 1.0
    return left, right


def random_splits(n, n_labels=8, seed=0):
    """Splits with labels and their ways drawn uniformly: arrays of n x labels."""
    rng = np.random.default_rng(seed)
    share, goes_right = rng.dirichlet(np.ones(n_labels), n), rng.random((n, n_labels))
    return share * (1 - goes_right), share * goes_right
