"""Proposition 1 of the Recall Tree paper on K equal labels: how often the bound exceeds the true recall."""

import numpy as np
from report import parse, publish

from reproduce.theory.bounds import multiplier, multiplier_needed

SIZES = ((1000, 40), (100, 28))  # K, and F = 4 log2 K, the number of candidates here and in Vowpal Wabbit
ROWS = (100, 1000, 10_000, 100_000)
DELTA, DRAWS = 0.05, 200


def count(K: int, F: int, m: int, rng) -> dict:
    """One row of the table: m rows of K equal labels, counted DRAWS times, so that every list has the recall F / K."""
    equal = np.full(K, 1.0 / K)
    counts, fresh = rng.multinomial(m, equal, DRAWS), rng.multinomial(m, equal, DRAWS)
    top = np.argsort(-counts, axis=1, kind="stable")[:, :F]
    chosen, apart = (np.take_along_axis(table, top, axis=1).sum(axis=1) / m for table in (counts, fresh))
    needed, needed_apart = (multiplier_needed(recall, F / K, m) for recall in (chosen, apart))
    safe, safe_apart = multiplier(DELTA, m, K, F), multiplier(DELTA, m)
    return {
        "labels": K, "candidates": F, "rows": f"{m:,}", "true recall": f"{F / K:.3f}",
        "mean empirical recall": f"{chosen.mean():.3f}",
        "too high with λ = 1": int((needed > 1).sum()),
        f"λ needed in {1 - DELTA:.0%}": f"{np.quantile(needed, 1 - DELTA):.1f}",
        "proven λ": f"{safe:.0f}", "too high with it": int((needed > safe).sum()),
        "too high with λ = 1, list of other rows": int((needed_apart > 1).sum()),
        "proven λ, list of other rows": f"{safe_apart:.1f}",
        "too high with it, list of other rows": int((needed_apart > safe_apart).sum()),
    }  # fmt: skip


def main() -> None:
    """Print the table."""
    args = parse(__doc__)
    rng = np.random.default_rng(0)
    rows = [count(K, F, m, rng) for K, F in SIZES for m in (ROWS[:2] if args.quick else ROWS)]
    publish(
        "proposition_1", "Proposition 1 of the Recall Tree paper: bound and true recall of equal labels", rows,
        [f"Of {DRAWS} draws each. The candidates are the most frequent labels; too high: the bound exceeds the true "
         "recall. The bound with λ = 1 fails in every draw, because the same counts choose the candidates and "
         "estimate their recall.",
         f"Proven λ, for δ = {DELTA}: Maurer and Pontil's Theorem 4, for all lists of candidates at once, or for one "
         "list that was chosen by other rows. The proposition says that some λ exists; it does, but it grows with "
         "the number of candidates."],
        args.quick,
    )  # fmt: skip


if __name__ == "__main__":
    main()
