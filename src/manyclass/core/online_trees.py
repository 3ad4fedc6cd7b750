"""Methods that the estimators of the online trees share."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted


class OnlineTreeMixin:
    """How evenly an online tree is filled."""

    _model: Any
    _state: dict[str, Any]
    classes_: np.ndarray

    def balance(self, max_depth: int | None = None) -> list[dict]:
        """How evenly classes and rows are distributed over the nodes of each level.

        Parameters
        ----------
        max_depth : int, optional
            Deepest level to list; all by default.

        Returns
        -------
        list of dict
            For each level: `depth`, `nodes` (how many), `leaves` (how many of them), and for each of its nodes
            `classes` (how many came by; of an MLOM tree, how many it has now, without guests) and `mass` (weight of the
            rows).
        """
        check_is_fitted(self, "_state")
        table = self._model.tree_table(self._state, max_depth)
        parents = {row["parent"] for row in self._model.tree_table(self._state)}
        levels = []
        for depth in range(1 + max(row["depth"] for row in table)):
            rows = [row for row in table if row["depth"] == depth]
            levels.append(
                {
                    "depth": depth,
                    "nodes": len(rows),
                    "leaves": sum(row["node"] not in parents for row in rows),
                    "classes": [len(row["labels"]) for row in rows],
                    "mass": [row["mass"] for row in rows],
                }
            )
        return levels
