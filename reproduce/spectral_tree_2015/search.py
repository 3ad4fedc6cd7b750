"""Rate and epochs of the paper's tree and of its flat baseline on each set, by held-out training rows (Tables 4-7)."""

import csv

from models import FACTOR, FLAT, PAPER, SEARCH_ROWS, SEARCHED, SUBSTITUTES, inputs, search
from report import at_hand, parse, publish

SETS = ["aloi", *SUBSTITUTES["odp"], *SUBSTITUTES["lshtc"]]
EXTRA = {
    "sets": {"nargs": "*", "default": SETS, "help": "which sets to search; the others keep what was found before"},
}


def main() -> None:
    """Print the table after each set."""
    args = parse(__doc__, **EXTRA)
    found: list[dict] = []
    if SEARCHED.exists() and not args.quick:
        with open(SEARCHED, newline="", encoding="utf-8") as file:
            found = list(csv.DictReader(file))
    for name in at_hand(args.sets):
        rows = inputs(name, args.quick)
        for who in (PAPER, FLAT):
            X, y, _, _ = rows[who]
            new = search(name, who, X, y)
            found = [one for one in found if (one["data"], one["model"]) != (name, who)] + new
            publish(
                "search", "Rate and epochs of Tables 4 to 7, chosen on held-out training rows", found,
                ["held-out %: accuracy, or P@1, on a tenth of the training rows; rows: trained on, at most "
                 f"{SEARCH_ROWS:,}. The rate goes up, or else down, by a factor of {FACTOR:g} as long as it rises; the "
                 "best rate then gets more epochs. The search is the same for both. flat: rate of Adam, "
                 "batches of 200; tree: rate of plain SGD (of AdaGrad on ALOI), times 0.9 after each epoch. No test "
                 "row has a part in this."],
                args.quick,
            )  # fmt: skip


if __name__ == "__main__":
    main()
