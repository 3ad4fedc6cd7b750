"""Earlier rows of a stream, which `partial_fit` repeats while the stream looks sorted by label.

Online learning forgets a label whose rows all came long ago: in a stream that is sorted by label, only the last label
would be predicted. So a model keeps some rows of every label. It compares how often the label of a row appears among
the last `WINDOW` labels and among all labels so far. While the first share is clearly larger, `TIMES` earlier rows,
drawn at random, are learned again for each new row. A shuffled stream repeats nothing.

The rows are kept in slots. The features and values of a slot are a range of two long arrays, to which new rows are
appended; a row that is removed leaves a gap until the arrays are packed.
"""

from typing import Annotated, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..jit import device, kernel
from .inputs import feature as feature_at
from .inputs import gather, span, value
from .invariants import need, need_range
from .rng import uniform
from .state import Array, Field, cut, make, resize
from .validation import HEAVIEST

BLOCK = 16  # rows between two repetitions
TIMES = 2  # earlier rows repeated for each new row
WINDOW = 64
_MEMORY = 0.002  # rate of the two moving averages
_RATIO, _MARGIN = 1.5, 0.005  # sorted: the share of recent labels is above _RATIO x the share of all labels + _MARGIN
_ENTRIES = 1 << 20  # values kept at most, 8 MB with their features, or ...
_PER_LABEL = 4  # ... this many rows of average length for each label
_SLOT = 4  # what is stored beside the values of a row (label, weight, place) counts as this many values
_FIRST_SLOTS, _FIRST_ENTRIES = 64, 1024
_DRAWS = 3  # slots drawn to find one to empty

N_SLOTS, N_ENTRIES, N_KEPT, N_ROWS, N_LABELS, N_DRAWN = range(6)  # of `Replay.counter`
DONE, REPEAT, FULL = range(3)  # reasons why `store` returns


class Replay(NamedTuple):
    """Rows kept from the stream, and what is known of the order of its labels."""

    begin: Annotated[Array, Field("i8", ("slot",))]
    length: Annotated[Array, Field("i8", ("slot",))]
    label: Annotated[Array, Field("i4", ("slot",))]
    weight: Annotated[Array, Field("f8", ("slot",), limit=1.01 * HEAVIEST**2)]  # of the row times that of its class
    feature: Annotated[Array, Field("i4", ("entry",))]
    value: Annotated[Array, Field("f4", ("entry",))]
    seen: Annotated[Array, Field("i8", ("label",))]  # rows of each label so far
    kept: Annotated[Array, Field("i8", ("label",))]  # slots of each label
    recent: Annotated[Array, Field("i4", ("window",), -1)]  # the last labels
    counter: Annotated[Array, Field("i8", ("counter",))]  # numbers that change, see N_SLOTS
    share: Annotated[Array, Field("f8", ("average",), 0, limit=2.0)]  # of a row's label: among recent ones, among all


def new_replay() -> Replay:
    """A group without rows."""
    sizes = {"slot": _FIRST_SLOTS, "entry": _FIRST_ENTRIES, "label": 1, "window": WINDOW, "counter": 6, "average": 2}
    replay: Replay = make(Replay, **sizes)
    return replay


@device
def _looks_sorted(share):
    return share[0] > _RATIO * share[1] + _MARGIN


@device
def _watch(replay, label):
    """Count the label of a new row and compare its share of the last rows with that of all. Cost: O(WINDOW)."""
    recent, count = replay.recent, replay.counter
    same = 0
    for j in range(WINDOW):
        same += recent[j] == label
    n_recent, n_rows = min(count[N_ROWS], WINDOW), count[N_ROWS]
    if n_rows > 0:
        replay.share[0] += _MEMORY * (same / n_recent - replay.share[0])
        replay.share[1] += _MEMORY * (replay.seen[label] / n_rows - replay.share[1])
    recent[n_rows % WINDOW] = label
    count[N_LABELS] += replay.seen[label] == 0
    replay.seen[label] += 1
    count[N_ROWS] += 1


@device
def _draw(replay):
    """A random slot. Mutates: replay.counter."""
    n = replay.counter[N_SLOTS]
    replay.counter[N_DRAWN] += 1
    return min(n - 1, np.int64(uniform(0, replay.counter[N_DRAWN]) * n))


@device
def _remove_one(replay):
    """Empty the slot, of a few random ones, whose label has the most rows. The last slot moves to its place."""
    worst = _draw(replay)
    for _ in range(_DRAWS - 1):
        other = _draw(replay)
        if replay.kept[replay.label[other]] > replay.kept[replay.label[worst]]:
            worst = other
    replay.kept[replay.label[worst]] -= 1
    replay.counter[N_KEPT] -= replay.length[worst]
    replay.counter[N_SLOTS] -= 1
    last = replay.counter[N_SLOTS]
    replay.begin[worst], replay.length[worst] = replay.begin[last], replay.length[last]
    replay.label[worst], replay.weight[worst] = replay.label[last], replay.weight[last]


@device
def _most_entries(replay):
    """Values that may be kept, with `_SLOT` more for each row."""
    count = replay.counter
    average = (count[N_KEPT] + _SLOT * count[N_SLOTS]) / max(1, count[N_SLOTS])
    return max(float(_ENTRIES), _PER_LABEL * count[N_LABELS] * average)


@kernel
def store(replay, batch, labels, weights, begin):
    """Keep rows from `begin` on, until rows must be repeated or the arrays are full: (next row, reason).

    Rows of weight 0 are not kept.

    Mutates: replay. Cost: O(WINDOW + non-zeros) per row.
    """
    count = replay.counter
    for i in range(begin, len(labels)):
        if weights[i] == 0:
            continue
        first, last = span(batch, i)
        length = 0
        for j in range(first, last):
            length += value(batch, i, j) != 0
        if count[N_SLOTS] == len(replay.label) or count[N_ENTRIES] + length > len(replay.value):
            return i, FULL
        label = labels[i]
        _watch(replay, label)
        most = _most_entries(replay)
        while count[N_SLOTS] > 0 and count[N_KEPT] + length + _SLOT * (count[N_SLOTS] + 1) > most:
            _remove_one(replay)
        slot, at = count[N_SLOTS], count[N_ENTRIES]
        replay.begin[slot], replay.length[slot] = at, length
        replay.label[slot], replay.weight[slot] = label, weights[i]
        for j in range(first, last):
            if value(batch, i, j) != 0:
                replay.feature[at], replay.value[at] = feature_at(batch, j), value(batch, i, j)
                at += 1
        replay.kept[label] += 1
        count[N_SLOTS] += 1
        count[N_ENTRIES] = at
        count[N_KEPT] += length
        if count[N_ROWS] % BLOCK == 0 and _looks_sorted(replay.share):
            return i + 1, REPEAT
    return len(labels), DONE


@kernel
def draw_slots(replay, n):
    """n random slots, possibly repeated. Mutates: replay.counter."""
    out = np.empty(n, np.int64)
    for i in range(n):
        out[i] = _draw(replay)
    return out


def with_space(replay: Replay, longest: int) -> Replay:
    """The same rows without gaps, and space for more; a new row has up to `longest` values."""
    n_slots, n_kept = int(replay.counter[N_SLOTS]), int(replay.counter[N_KEPT])
    sizes = {"slot": max(_FIRST_SLOTS, 2 * n_slots), "entry": max(_FIRST_ENTRIES, 2 * n_kept + longest)}
    grown: Replay = resize(packed(replay), **sizes)
    return grown


def with_labels(replay: Replay, n_labels: int) -> Replay:
    """The same rows and space for this many labels."""
    if n_labels <= len(replay.seen):
        return replay
    return resize(replay, label=max(n_labels, len(replay.seen) * 3 // 2))


def packed(replay: Replay, n_labels: int | None = None) -> Replay:
    """A copy without gaps and spare space: rows that are the same in the same slots give the same bytes."""
    n = int(replay.counter[N_SLOTS])
    feature, values, indptr = _entries(replay, np.arange(n))
    out: Replay = cut(replay, slot=n, label=len(replay.seen) if n_labels is None else n_labels)
    count = replay.counter.copy()
    count[N_ENTRIES] = len(values)
    return out._replace(begin=indptr[:-1].copy(), feature=feature, value=values, counter=count)


def rows_of_slots(replay: Replay, slots: np.ndarray, n_features: int) -> sp.csr_array:
    """The rows in some slots."""
    feature, values, indptr = _entries(replay, slots)
    return sp.csr_array((values, feature, indptr), shape=(len(slots), n_features))


def _entries(replay: Replay, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(features, values, indptr) of the rows in some slots."""
    indptr, at = gather(replay.begin[slots], replay.length[slots])
    return replay.feature[at], replay.value[at], indptr


def check_replay(replay: Replay, n_features: int, n_labels: int) -> None:
    """ModelFormatError unless the kernels may run on it."""
    sizes = len(replay.recent), len(replay.counter), len(replay.share)
    need(sizes == (WINDOW, 6, 2), f"replay has arrays of the sizes {sizes}.")
    count, length = replay.counter, replay.length
    need_range("replay.counter", count, 0, 1 << 62)
    used = slice(0, int(count[N_SLOTS]))
    need(count[N_SLOTS] <= len(length), "replay.counter has more rows than there are slots.")
    need(count[N_ENTRIES] <= len(replay.value), "replay.counter has more values than there are.")
    need(len(replay.seen) <= n_labels, f"replay.seen has {len(replay.seen)} labels, the model {n_labels}.")
    need_range("replay.seen", replay.seen, 0, int(count[N_ROWS]) + 1)
    need_range("replay.label", replay.label[used], 0, len(replay.seen))
    need_range("replay.recent", replay.recent, -1, len(replay.seen))
    need_range("replay.length", length[used], 0, len(replay.value) + 1)
    need_range("replay.begin", replay.begin[used], 0, len(replay.value) + 1)
    inside = (replay.begin[used] + length[used] <= count[N_ENTRIES]).all()
    need(inside, "a row of replay ends behind the last value.")
    need(count[N_KEPT] == length[used].sum(), "replay.counter and replay.length contradict each other.")
    need(count[N_KEPT] <= count[N_ENTRIES], "rows of replay share values.")
    need(count[N_LABELS] == np.count_nonzero(replay.seen), "replay.counter and replay.seen contradict each other.")
    kept = np.bincount(replay.label[used], minlength=len(replay.seen))
    need(np.array_equal(kept, replay.kept), "replay.kept and replay.label contradict each other.")
    need_range("replay.feature", replay.feature[: int(count[N_ENTRIES])], 0, n_features)
    need((replay.weight[used] >= 0).all(), "replay.weight has a number below 0.")
