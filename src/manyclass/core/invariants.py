"""Checks of a state from a file before any kernel runs on it: kernels trust every index."""

from typing import Any, get_args, get_type_hints

import numpy as np

from .learners import HIGHEST_RATE, Learner
from .model_file import ModelFormatError
from .options import Constraint
from .state import Candidates, Linear, State, fields_of
from .trees import DEEPEST

_CHECKED = 1 << 20  # numbers checked at a time: no copy of the size of the model


def need(holds: Any, message: str) -> None:
    """Raise ModelFormatError unless the condition holds."""
    if not holds:
        raise ModelFormatError(message)


def need_range(name: str, values: np.ndarray, low: int, high: int) -> None:
    """Raise ModelFormatError unless all values are in low..high-1."""
    if values.size and (values.min() < low or values.max() >= high):
        at = tuple(int(i) for i in np.argwhere((values < low) | (values >= high))[0])
        raise ModelFormatError(f"{name}{list(at)} is {values[at]}, outside {low}..{high - 1}.")


def need_rows(n: int, **arrays: np.ndarray) -> None:
    """Raise ModelFormatError unless each array has a row for each of n nodes."""
    for name, array in arrays.items():
        need(len(array) == n, f"{name} has {len(array)} rows for {n} nodes.")


def is_power(n: int) -> bool:
    """Whether n is a power of two."""
    return n > 0 and n & (n - 1) == 0


def check_finite(state: State) -> None:
    """Raise ModelFormatError if a number is NaN or infinite, or larger than its array allows."""
    for name, group in state.items():
        for (field, how), array in zip(fields_of(type(group)).items(), group, strict=True):
            flat = array.reshape(-1) if how.dtype[0] == "f" else array[:0]
            for first in range(0, len(flat), _CHECKED):
                good = np.abs(flat[first : first + _CHECKED]) < how.limit  # NaN is not
                if not good.all():
                    at = first + int(good.argmin())
                    fault = "not finite" if not np.isfinite(flat[at]) else f"too large ({flat[at]:g})"
                    raise ModelFormatError(f"array {name}.{field} contains a number that is {fault}, at position {at}.")


def check_training(state: State, thorough: bool) -> None:
    """ValueError if training diverged: a score was not finite or, with `thorough`, any number of the model is not."""
    problem = "" if np.isfinite(state["seen"].mass[0]) else "a score is not finite."
    if thorough and not problem:
        try:
            check_finite(state)
        except ModelFormatError as error:
            problem = str(error)
    if problem:
        raise ValueError(
            f"Training diverged: {problem} Use a lower learning rate or lower sample weights, or scale X, and fit the "
            "model again."
        )


def check_option_types(options: Any, constraints: dict[str, Constraint]) -> Any:
    """The options with a float where one is declared; kernels are compiled again for another type.

    ModelFormatError unless each has its declared type, is finite, and lies in the range that the estimator allows.
    """
    hints = get_type_hints(type(options))
    for name, value in options._asdict().items():
        allowed = get_args(hints[name]) or (hints[name],)
        if float in allowed:
            allowed += (int,)
        wrong = not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed)
        wrong |= isinstance(value, (int, float)) and not abs(value) < 2**62
        wrong |= isinstance(value, Learner) and type(value) is Learner
        need(not wrong, f"the option {name} is {value!r}.")
        constraint = constraints.get(name)
        if constraint is not None and constraint.kind not in (None, bool) and type(value) in (int, float):
            unset = bool(constraint.words) and value in (-1, 0)  # chosen while training, or off
            need(unset or constraint.allows(value), f"the option {name} is {value!r}, expected {constraint}.")
    floats = {name: float(value) for name, value in options._asdict().items() if hints[name] is float}
    return options._replace(**floats)


def check_learner(options: Any) -> None:
    """The fields of options that describe the steps and the weights of linear predictors."""
    need(0 <= options.update <= 2, f"update is {options.update}.")
    need(0 < options.rate <= HIGHEST_RATE, f"rate is {options.rate}.")
    need(0 < options.decay <= 1, f"decay is {options.decay}.")
    need(8 <= options.table_bits <= 40, f"table_bits is {options.table_bits}.")


def check_bank(name: str, bank: Linear, width: int, squares: bool) -> None:
    """Linear predictors over `width` features, with a sum of squared gradients for each weight if `squares`."""
    rows, mask = len(bank.bias), int(bank.mask[0])
    if mask == 0:
        need(bank.weight.shape == (rows, width), f"{name}.weight has the shape {bank.weight.shape}, not {rows, width}.")
    else:
        need(is_power(mask + 1), f"{name}.mask is {mask}, not a power of two minus one.")
        need(bank.weight.shape == (1, mask + 1), f"{name}.weight has the shape {bank.weight.shape}, mask {mask}.")
    check_squares(name, bank.grad_sq, bank.weight.shape if squares else (1, 1))
    need_range(f"{name}.n_rows", bank.n_rows, 0, rows + 1)


def check_squares(name: str, grad_sq: np.ndarray, shape: tuple[int, ...]) -> None:
    """A sum of squared gradients for each weight; a single number if there are none."""
    need(grad_sq.shape == shape, f"{name}.grad_sq has the shape {grad_sq.shape}, not {shape}.")


def check_links(tree: Any, n: int) -> None:
    """The first n nodes are one or more trees: one parent per node, before it, right depths, no cycle."""
    parent, depth, children = tree.parent[:n], tree.depth[:n], tree.children[:n]
    need_range("tree.parent", parent, -1, n)
    below = np.flatnonzero(parent >= 0)
    need((parent[below] < below).all(), "a node comes before its parent.")  # so there is no cycle
    need((depth[parent < 0] == 0).all(), "the depth of a root is not 0.")
    need((depth[below] == depth[parent[below]] + 1).all(), "tree.depth does not match the tree.")
    need_range("tree.depth", depth, 0, DEEPEST + 1)
    need_range("tree.children", children, -1, n)
    owner, side = np.nonzero(children >= 0)
    found = children[owner, side]
    matches = len(np.unique(found)) == len(found) == len(below) and (parent[found] == owner).all()
    need(matches, "a node is not its parent's child.")


def check_candidates(candidates: Candidates, n_labels: int, most: int) -> None:
    """Lists of different labels that exist, with space for `most` at most."""
    slots = candidates.label.shape[1]
    need(1 <= slots <= most, f"candidates.label has {slots} slots, not 1 to {most}.")
    need_range("candidates.size", candidates.size, 0, slots + 1)
    used = np.arange(slots) < candidates.size[:, None]
    need_range("candidates.label", candidates.label[used], 0, n_labels)
    in_order = np.sort(np.where(used, candidates.label, -1 - np.arange(slots)), axis=1)
    need((np.diff(in_order, axis=1) > 0).all(), "candidates.label has a label twice at one node.")


def check_counts(state: State, n_features: int, n_classes: int) -> None:
    """What the rows so far have shown: sizes of all features, and sums and counts within their limits."""
    scale, seen = state["scale"], state["seen"]
    need(len(scale.inverse) == n_features, f"scale.inverse has {len(scale.inverse)} features, not {n_features}.")
    for name in ("sq_norm", "normalized", "n_rows"):
        need(getattr(scale, name)[0] >= 0, f"scale.{name} is {getattr(scale, name)[0]}.")
    need_range("seen.n_labels", seen.n_labels, 0, n_classes + 1)
    need_range("seen.n_rows", seen.n_rows, 0, 1 << 62)
    sound = 0 <= seen.mass[0] < np.inf and 0 <= seen.wrong_mass[0] < np.inf
    need(sound, "seen.mass or seen.wrong_mass is below 0 or not finite.")
