"""Features of sparse rows put in order, and repeated ones added up."""

import numpy as np

from ..jit import exact_device, exact_kernel
from .decimals import FLOAT32_END


@exact_device
def _sort(keys, n):
    """Sort the first n keys by Shell's method: short, in place, and no order of keys is slow."""
    gap = 1
    while gap < n // 3:
        gap = gap * 9 // 4 + 1
    while gap > 0:
        for i in range(gap, n):
            key, j = keys[i], i
            while j >= gap and keys[j - gap] > key:
                keys[j] = keys[j - gap]
                j -= gap
            keys[j] = key
        gap = 0 if gap == 1 else max(gap * 4 // 9, 1)


@exact_kernel
def merge_features(indptr, indices, values, places, too_large):
    """Sort the features of each row and add repeated ones up, in place: the new number of features and of overflows.

    `too_large` gets the place of the last addend of each row's first sum beyond float32.
    Mutates: all but places. Cost: O(features) for rows in order, else about features**1.3 of a row.
    """
    longest = 0
    for row in range(indptr.size - 1):
        longest = max(longest, indptr[row + 1] - indptr[row])
    keys = np.empty(longest, dtype=np.int64)
    copies = np.empty(longest, dtype=np.float32)
    n_written, n_too_large, start = 0, 0, 0
    for row in range(indptr.size - 1):
        stop = indptr[row + 1]
        n = stop - start
        in_order = True
        for j in range(start + 1, stop):
            in_order &= indices[j - 1] < indices[j]
        if in_order:
            for j in range(n if n_written != start else 0):
                indices[n_written + j] = indices[start + j]
                values[n_written + j] = values[start + j]
            n_written += n
        else:
            for j in range(n):
                copies[j] = values[start + j]  # no slice: assigning one takes three seconds to compile
                keys[j] = (np.int64(indices[start + j]) << 32) | j
            _sort(keys, n)
            j, overflowed = 0, False
            while j < n:
                index, total, last = keys[j] >> 32, 0.0, 0
                while j < n and keys[j] >> 32 == index:
                    last = keys[j] & 0xFFFFFFFF
                    total += np.float64(copies[last])
                    j += 1
                if abs(total) >= FLOAT32_END:
                    if not overflowed:
                        too_large[n_too_large] = places[start + last]
                        n_too_large += 1
                    overflowed, total = True, 0.0
                indices[n_written] = index
                values[n_written] = total
                n_written += 1
        start = stop
        indptr[row + 1] = n_written
    return n_written, n_too_large
