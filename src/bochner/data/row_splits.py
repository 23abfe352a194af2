"""Which rows validate a fit, and which of the others it is fitted to, where the user
says so: by groups, by splits or by rows that only validate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats, Indices, Mask
from bochner.data.hashes import mixed, row_hashes

# Of the rows of the largest split, that another one is fitted to at the least, where
# both are about as good as the fit of all rows
LIKE_ALL = 0.75
# What validates, in words
ROWS_ALONE, SPLITS_OF_CV = "rows that only validate", "splits of cv"


class Fold(NamedTuple):
    """Rows that validate a fit, and rows that it is fitted to; masks of shape (n,)."""

    held_out: Mask
    fitted: Mask


def complement(held_out: Mask) -> Fold:
    """A fold that is fitted to all rows that do not validate it."""
    return Fold(held_out, ~held_out)


@dataclass(frozen=True)
class RowSplits:
    """The split in which each row validates, and those in which it is fitted; the
    splits that are fitted to most rows come first.

    Attributes
    ----------
    held_out_in : int array of shape (n,)
        Number of a split; -1 for rows that never validate.
    fitted_in : bool array of shape (n, S)
    group : int array of shape (n,) or None
        Rows of one number belong together.
    validation_weight : array of shape (n,) or None
        Weights of the rows that validate, where these are never fitted and so have no
        weight in the fit.
    """

    held_out_in: Indices
    fitted_in: NDArray[np.bool_]
    group: Indices | None = None
    validation_weight: Floats | None = None

    @property
    def what_validates(self) -> str:
        """What the rows are that validate, in words."""
        if self.validation_weight is not None:
            return ROWS_ALONE
        return SPLITS_OF_CV if self.group is None else "whole groups"

    def take(self, rows: slice | Indices) -> RowSplits:
        """The splits of some of the rows."""
        taken: list[Any] = [
            None if values is None else values[rows] for values in vars(self).values()
        ]
        return RowSplits(*taken)

    @property
    def together(self) -> Indices:
        """Number of the unit that each row belongs to, shape (n,), of which no part is
        to validate another: its group, or else the split in which it validates.
        """
        return self.held_out_in if self.group is None else self.group

    def weighted(self, factors: NDArray) -> RowSplits:
        """The splits, weights of rows that only validate times these factors."""
        if self.validation_weight is None:
            return self
        return replace(self, validation_weight=self.validation_weight * factors)

    def weights(self, weights: NDArray) -> NDArray:
        """Weights with which rows validate, of those with which they are fitted."""
        return weights if self.validation_weight is None else self.validation_weight

    def folds(self, weights: NDArray) -> list[Fold]:
        """The splits that have rows of positive weight to validate and to fit, in their
        order; the first one compares candidates.
        """
        counts = self.weights(weights) > 0
        every = (
            Fold((self.held_out_in == k) & counts, self.fitted_in[:, k] & (weights > 0))
            for k in range(self.fitted_in.shape[1])
        )
        return [fold for fold in every if fold.held_out.any() and fold.fitted.any()]

    def folds_like_all(self, weights: NDArray) -> list[Fold]:
        """The splits that are fitted to about as many rows as the largest one: where
        they grow, as by time, the last ones.
        """
        folds = self.folds(weights)
        counts = [np.count_nonzero(fold.fitted) for fold in folds]
        largest = max(counts, default=0)
        return [
            fold
            for fold, count in zip(folds, counts, strict=True)
            if count >= LIKE_ALL * largest
        ]

    def told_apart(self, hashes: NDArray) -> NDArray:
        """Hashes of rows that are equal only for rows of one group and the same
        splits.
        """
        parts = [
            self.held_out_in[:, np.newaxis],
            self.fitted_in,
            self.together[:, None],
        ]
        if self.validation_weight is not None:
            # Rows that only validate have no weight that copies could add up
            number = np.where(self.validation_weight > 0, np.arange(len(hashes)), -1)
            parts.append(number[:, np.newaxis])
        return mixed(hashes ^ row_hashes(np.hstack(parts).astype(np.float64)))
