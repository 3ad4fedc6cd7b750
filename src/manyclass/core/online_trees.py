"""What the estimators of online trees tell about their tree."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .spec import ModelSpec


class OnlineTreeMixin:
    """The tree as a table, and how evenly it is filled."""

    _spec: ModelSpec
    _state: dict[str, Any]
    classes_: np.ndarray

    def tree_table(self, max_depth: int | None = None) -> list[dict]:
        """The tree as a list of nodes, parents before children.

        Parameters
        ----------
        max_depth : int, optional
            Deepest level to list; all by default.

        Returns
        -------
        list of dict
            For each node: `node`, `parent` (-1 for the root), `depth`, `mass` (weight of the rows that came by) and
            `labels`, those that came by with the most frequent first; of a slim model no masses and no labels.
        """
        check_is_fitted(self, "_state")
        assert self._spec.tree_table is not None
        return [
            {**row, "labels": self.classes_[row["labels"]]} for row in self._spec.tree_table(self._state, max_depth)
        ]

    def balance(self, max_depth: int | None = None) -> list[dict]:
        """How evenly classes and rows are spread over the nodes of each level.

        Parameters
        ----------
        max_depth : int, optional
            Deepest level to tell of; all by default.

        Returns
        -------
        list of dict
            For each level: `depth`, `nodes` (how many), `leaves` (how many of them), and for each of its nodes
            `classes` (how many came by; of an MLOM tree, how many it has now, without guests) and `mass` (weight of the
            rows).
        """
        check_is_fitted(self, "_state")
        assert self._spec.tree_table is not None
        table = self._spec.tree_table(self._state, max_depth)
        parents = {row["parent"] for row in self._spec.tree_table(self._state)}
        told = []
        for depth in range(1 + max(row["depth"] for row in table)):
            rows = [row for row in table if row["depth"] == depth]
            told.append(
                {
                    "depth": depth,
                    "nodes": len(rows),
                    "leaves": sum(row["node"] not in parents for row in rows),
                    "classes": [len(row["labels"]) for row in rows],
                    "mass": [row["mass"] for row in rows],
                }
            )
        return told
