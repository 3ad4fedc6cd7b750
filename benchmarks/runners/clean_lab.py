"""Label issues by cleanlab from out-of-fold probabilities in an npz file. Prints JSON."""

import json
import sys

import numpy as np
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores


def main(path: str) -> None:
    """Run cleanlab's methods."""
    with np.load(path) as file:
        row, label, probability, given, k = (file[name] for name in ("row", "label", "probability", "given", "k"))
    chances = np.zeros((len(given), int(k)), np.float32)
    chances[row, label] = probability
    chances += ((1.0 - chances.sum(axis=1, keepdims=True)).clip(0) + 1e-6) / int(k)  # what the candidates leave
    chances /= chances.sum(axis=1, keepdims=True)
    rows, ranking = {}, {}
    for method in ("prune_by_noise_rate", "confident_learning", "both"):
        found = find_label_issues(given, chances, filter_by=method, n_jobs=1)
        rows[method], ranking[method] = np.flatnonzero(found).tolist(), "self_confidence"
    quality = {
        name: get_label_quality_scores(given, chances, method=name).tolist()
        for name in ("self_confidence", "normalized_margin")
    }
    best = np.argsort(quality["normalized_margin"])[: len(rows["prune_by_noise_rate"])]
    rows["prune_by_noise_rate, normalized margin"] = best.tolist()
    ranking["prune_by_noise_rate, normalized margin"] = "normalized_margin"
    print(json.dumps({"rows": rows, "ranking": ranking, "quality": quality}))


if __name__ == "__main__":
    main(sys.argv[1])
