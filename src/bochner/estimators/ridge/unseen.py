"""Rows, and functions of features that have not seen them: the importance of columns
is measured on both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats, Indices
from bochner.data.array_source import ArraySource
from bochner.data.row_splits import Fold
from bochner.data.weights import draw_rows
from bochner.design.design import Design
from bochner.estimators.ridge.interval_calibration import LinearPredictor
from bochner.features.base import FeatureMap, Rows
from bochner.solvers.factors import FeatureFactor

MOST_DIRECTIONS = 1 << 23  # numbers, 64 MB
LEAST_LEFT = 1e-9  # of the weight of a row beside its leverage
NONE = np.empty(0, np.intp)


class Influence(NamedTuple):
    """What each of m rows adds to a function that all are fitted by: (z'direction +
    offset) size, at features z.

    Attributes
    ----------
    directions : array of shape (m, D)
    offsets : array of shape (m,)
    sizes : array of shape (m, K)
    """

    directions: Floats
    offsets: Floats
    sizes: Floats

    def contributions(self, Z: NDArray, rows: Indices) -> Floats:
        """What these rows add at features of shape (b, D), each at one: shape (b,
        K).
        """
        moved = np.einsum("ij,ij->i", Z, self.directions[rows]) + self.offsets[rows]
        return moved[:, np.newaxis] * self.sizes[rows]


@dataclass(frozen=True)
class UnseenRows:
    """Rows, and functions of features that were fitted without them.

    Attributes
    ----------
    source : ArraySource
        Encoded, with the targets of the solver.
    features : FeatureMap
    dtype : dtype
        Of the features.
    functions : list of LinearPredictor
    fold : int array of shape (m,)
        The function that has not seen each row.
    influence : Influence or None
        By which the only function was fitted to the rows too; it is taken from it.
    name : str
        What the rows are.
    """

    source: ArraySource
    features: FeatureMap
    dtype: np.dtype
    functions: list[LinearPredictor]
    fold: Indices
    influence: Influence | None = None
    name: str = "validation rows"

    @classmethod
    def of_sets(
        cls,
        design: Design,
        folds: list[Fold],
        functions: list[LinearPredictor],
        y: NDArray | None = None,
    ) -> UnseenRows | None:
        """Sets of rows of a design that were held out in turn, with other targets if
        given; None without sets.
        """
        if not folds:
            return None
        rows = np.concatenate([np.flatnonzero(fold.held_out) for fold in folds])
        X, targets, weight = design.source.validating(rows).whole()
        fold = np.repeat(
            np.arange(len(folds)), [np.count_nonzero(fold.held_out) for fold in folds]
        )
        source = ArraySource(X, targets if y is None else y[rows], weight)
        return cls(source, design.features, design.dtype, functions, fold)

    def sample(self, size: int, seed: int) -> UnseenRows:
        """At most `size` of the rows, drawn by their weights."""
        rows, factors = (
            draw_rows(self.source.weights, size, np.random.default_rng(seed))
            if size
            else (NONE, None)
        )
        source = self.source.take(rows)
        source = source if factors is None else source.weighted(factors)
        influence = (
            None
            if self.influence is None
            else Influence(*(part[rows] for part in self.influence))
        )
        return replace(self, source=source, fold=self.fold[rows], influence=influence)

    def scores(self, Z: Rows, rows: Indices) -> Floats:
        """Values at encoded rows by the functions that have not seen the rows of
        these numbers, shape (b, K).
        """
        if self.influence is not None:
            return self._less_influence(Z, rows)
        fold = self.fold[rows]
        values = np.empty((Z.shape[0], len(self.functions[0].intercept)))
        for k in np.unique(fold):
            fold_rows = np.flatnonzero(fold == k)
            values[fold_rows] = self._design(Z[fold_rows]).predict(
                self.functions[k].coef, self.functions[k].intercept
            )
        return values

    def _less_influence(self, Z: Rows, rows: Indices) -> Floats:
        """Values by the only function, less what each row has added."""
        (function,), values = (
            self.functions,
            np.empty((Z.shape[0], len(self.functions[0].intercept))),
        )
        assert self.influence is not None
        done = 0
        for block, _, _ in self._design(Z).mapped():
            part = slice(done, done + len(block))
            values[part] = (
                block @ function.coef
                + function.intercept
                - self.influence.contributions(block, rows[part])
            )
            done = part.stop
        return values

    def _design(self, Z: Rows) -> Design:
        return Design(
            ArraySource(Z, np.empty((Z.shape[0], 0))), self.features, self.dtype
        )


def leave_one_out_rows(
    design: Design,
    factor: FeatureFactor,
    alpha: float,
    counts: Floats,
    name: str,
) -> UnseenRows:
    """The rows of a design, each left out of a ridge regression by itself.

    Without row i of weight w the value at features z is f(z) - w k(z, z_i) (y_i -
    f(z_i)) / (1 - w k(z_i, z_i)), with k(z, z') = 1 / W + (z - mean)'(G + alpha I)^-1
    (z' - mean) in the notation of the factorisation.

    Parameters
    ----------
    design : Design
        Of distinct rows with their whole weight.
    factor : FeatureFactor
        Of all rows.
    alpha : float
    counts : array of shape (m,)
        How much the rows count in means.
    name : str
        What the rows are.
    """
    Z, y, weight = design.whole()
    coef, intercept = factor.solve(alpha)
    U = Z.astype(np.float64) - factor.feature_mean
    V = factor.applied(alpha, np.ascontiguousarray(U.T)).T
    one_minus_leverage = 1 - weight * (1 / factor.weight + np.einsum("ij,ij->i", U, V))
    errors = (y - U @ coef - factor.target_mean) / np.maximum(
        one_minus_leverage, LEAST_LEFT
    )[:, np.newaxis]
    influence = Influence(
        V, 1 / factor.weight - V @ factor.feature_mean, weight[:, np.newaxis] * errors
    )
    rows = ArraySource(design.source.whole().X, y, counts)
    function = LinearPredictor(coef, intercept)
    return UnseenRows(
        rows,
        design.features,
        design.dtype,
        [function],
        np.zeros(len(y), np.intp),
        influence,
        name,
    )
