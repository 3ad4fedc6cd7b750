"""Counter-based random numbers: the same (seed, counter) gives the same number, whatever the batch size."""

import numpy as np

from ..jit import device


@device
def uniform(seed, counter):
    """A number in [0, 1) from (seed, counter) by splitmix64. Cost: O(1)."""
    z = np.uint64(seed) + np.uint64(counter + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)
