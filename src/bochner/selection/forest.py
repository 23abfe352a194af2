"""Jumps of the targets, as of rules, where a random forest splits columns.

A distance that grows evenly along a column takes many rows to learn a rule such as
"older than 65, and without a pension". The squared error that all splits of a column up
to x take away is a function of x that rises where the targets jump.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.selection.policy import POLICY
from bochner.selection.validation import Validator


class TreeSplits(NamedTuple):
    """The splits of a forest.

    Attributes
    ----------
    columns : int array of shape (s,)
        Which column is split.
    thresholds : array of shape (s,)
        At which value.
    gains : array of shape (s,)
        How much squared error of the rows the split takes away.
    """

    columns: NDArray
    thresholds: NDArray
    gains: NDArray

    def gained(self, column: int, values: NDArray) -> NDArray:
        """Squared error that the splits of a column up to each of some values take
        away.
        """
        splits = np.flatnonzero(self.columns == column)
        splits = splits[np.argsort(self.thresholds[splits])]
        sums = np.concatenate([[0.0], np.cumsum(self.gains[splits])])
        return sums[np.searchsorted(self.thresholds[splits], values)]


# Trees, their most leaves, and columns among which a split is chosen, at the most: half
# or twice of each hardly matters
TREES, LEAVES, COLUMNS = 8, 256, 16


def tree_splits(validator: Validator, seed: int) -> TreeSplits:
    """Splits of a small random forest of some of the rows to fit."""
    from sklearn.ensemble import RandomForestRegressor

    d = validator.X.shape[1]
    rows = validator.subsample(min(POLICY.compared_rows, POLICY.final_entries // d))
    forest = RandomForestRegressor(
        TREES,
        max_leaf_nodes=LEAVES,
        max_features=min(-(-d // 2), COLUMNS),
        random_state=seed,
    ).fit(rows.X, rows.y.squeeze(), rows.weight)
    splits = []
    for tree in (fitted.tree_ for fitted in forest.estimators_):
        inner = np.flatnonzero(tree.children_left >= 0)
        error = tree.weighted_n_node_samples * tree.impurity
        left = error[tree.children_left[inner]]
        right = error[tree.children_right[inner]]
        gains = error[inner] - left - right
        splits.append((tree.feature[inner], tree.threshold[inner], gains))
    return TreeSplits(*map(np.concatenate, zip(*splits, strict=True)))
