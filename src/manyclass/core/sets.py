"""A set of labels that is emptied in O(1): entries carry the stamp of the example that made them."""

from typing import NamedTuple

import numpy as np

from ..jit import device


class LabelSet(NamedTuple):
    """Open addressing; the length is a power of two, at least twice the labels it will hold."""

    label: np.ndarray
    stamp: np.ndarray


@device
def add_label(known, label, stamp):
    """Put label in; return whether it was missing. Mutates: known. Cost: O(1) expected."""
    last = known.label.shape[0] - 1
    at = np.int64((np.uint64(label) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(33)) & last
    while known.stamp[at] == stamp:
        if known.label[at] == label:
            return False
        at = (at + 1) & last
    known.label[at] = label
    known.stamp[at] = stamp
    return True
