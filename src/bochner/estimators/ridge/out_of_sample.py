"""Rows that a model has not seen: observations with predictions for them, and functions
that were fitted without them.

Exact copies of a row are one observation, repeated measurements at the same inputs are
several. Least squares may take equal rows of inputs as one row, of their mean target.
What they tell of the noise may not: the targets vary about that mean, and the error of
a row is that of one row, however much it weighs. New rows are exchangeable with the
observations, which therefore are what calibrates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats, Indices, Mask, n_distinct
from bochner.data.array_source import ArraySource
from bochner.data.hashes import observation_hashes
from bochner.data.row_splits import Fold
from bochner.data.weights import draw_rows
from bochner.design.design import Design
from bochner.features.base import Rows
from bochner.selection.split import rows_held_out
from bochner.selection.validation import HeldOutPredictions

# Of the distinct rows: where no column has more values than that, equal rows may be
# chance
CHANCE_SHARE = 0.5
EXAMINED_ROWS = 1 << 13  # in which values are counted
FEWEST_ROWS = 400  # that a scale of errors is learned from, if others calibrate it


@dataclass
class LinearPredictor:
    """A function of the features: coefficients of shape (D, K) and intercepts of
    shape (K,).
    """

    coef: NDArray
    intercept: Floats


@dataclass(frozen=True)
class OutOfSample:
    """The observations of a fit, rows of positive weight with copies merged, and
    predictions for them by models that have not seen them.

    Attributes
    ----------
    source : ArraySource
        The rows of a fit as they came, also those that solvers take for one.
    row : int array of shape (m,)
        Number of a row of the source that holds each.
    weight : array of shape (m,)
        Of all its copies.
    inputs, hashes : arrays of shape (m,)
        Hashes of the inputs, and of inputs and targets.
    number : int array of shape (n,)
        Of the observation that each row of the source is, -1 without weight.
    targets : array of shape (m, K)
    calibrating : bool array of shape (m,)
        Those that calibrate.
    seed : int
        By which these were held out.
    predicted : array of shape (m, K)
        NaN where there is no prediction; of shape (0, K) before there are any.
    centre : LinearPredictor or None
        The model that has not seen those that calibrate, if it is one.
    """

    source: ArraySource
    row: Indices
    weight: Floats
    inputs: NDArray[np.uint64]
    hashes: NDArray[np.uint64]
    number: Indices
    targets: Floats
    calibrating: Mask
    seed: int
    predicted: Floats
    centre: LinearPredictor | None = None

    @classmethod
    def of(
        cls, source: ArraySource, seed: int = 0, held_out: Mask | None = None
    ) -> OutOfSample:
        """Those of a source, of which the ones calibrate that were held out, or
        others by their content.
        """
        counts = np.maximum(source.weights, source.validation_weights)
        row = np.flatnonzero(counts)
        inputs = source.row_hashes()[row]
        hashes = observation_hashes(inputs, source.y[row].reshape(len(row), -1))
        _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
        if len(first) == len(row) or _equal_by_chance(
            source.take(row[np.sort(first)[:EXAMINED_ROWS]])
        ):
            first = group = np.arange(len(row))
        # Numbered in the order of the rows
        group = np.argsort(np.argsort(first))[group]
        first = np.sort(first)
        number = np.full(source.n_rows, -1)
        number[row] = group
        weight = np.bincount(group, counts[row], len(first)).astype(float)
        row = row[first]
        inputs = inputs[first]
        targets = source.targets(source.y[row])
        calibrating = (
            rows_held_out(inputs, weight, seed) if held_out is None else held_out[row]
        )
        return cls(
            source,
            row,
            weight,
            inputs,
            hashes[first],
            number,
            targets,
            calibrating,
            seed,
            targets[:0],
        )

    def rows_of(self, numbers: Indices) -> ArraySource:
        """The rows of some observations, encoded, with the observations' weights."""
        X, y, _ = self.source.take(self.row[numbers]).whole()
        return ArraySource(X, y, self.weight[numbers])

    def group_of(self, numbers: Indices) -> Indices | None:
        """The groups of some observations, where rows belong to such."""
        group = self.source.group
        return None if group is None else group[self.row[numbers]]

    def held_out(
        self,
        numbers: Indices,
        predicted: NDArray,
        factors: NDArray | float = 1.0,
        fold: Indices | None = None,
    ) -> HeldOutPredictions:
        """Some of the observations with predictions, (k, K), factors on how much
        they count, and their folds.
        """
        weight = self.weight[numbers]
        return HeldOutPredictions(
            predicted,
            self.targets[numbers],
            weight * factors,
            self.rows_of(numbers).X,
            self.group_of(numbers),
            weight,
            fold,
        )

    @property
    def seen(self) -> Mask:
        """Which of the observations have predictions, shape (m,)."""
        return np.asarray(np.isfinite(self.predicted).all(axis=1))

    @property
    def few(self) -> bool:
        """Whether too few are left to learn a scale from, so that all calibrate."""
        return int(np.count_nonzero(~self.calibrating)) < FEWEST_ROWS

    def all_calibrating(self) -> OutOfSample:
        """Copy the observations, all of which calibrate."""
        return replace(self, calibrating=np.ones(len(self.row), bool))


def _equal_by_chance(distinct: ArraySource) -> bool:
    """Whether rows may be equal by chance, because each column and target has few
    values.

    With a column of continuous values, or such targets, equal rows are copies.
    """
    X, y, _ = distinct.whole()
    most = CHANCE_SHARE * len(y)
    columns: Iterable[NDArray] = X.T
    if not isinstance(X, np.ndarray):
        X = X.tocsc()
        # Values that are stored, with zero; others are too few
        many = np.flatnonzero(np.diff(X.indptr) >= most - 1)
        columns = (X[:, [j]].toarray() for j in many)
    return all(n_distinct(column) <= most for column in chain(y.T, columns))


def distinct_numbers(source: ArraySource) -> Indices:
    """Index of each row among the distinct rows of positive weight, shape (n,); 0
    without weight.
    """
    counted = np.flatnonzero(source.weights)
    rows = source.take(counted)
    rows = ArraySource(*rows.whole(), content=rows.content)
    first_duplicate = rows.first_duplicates(rows.row_hashes())
    leads = first_duplicate == np.arange(rows.n_rows)
    number = np.zeros(source.n_rows, np.intp)
    number[counted] = (np.cumsum(leads) - 1)[first_duplicate]
    return number


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


@dataclass(frozen=True)
class UnseenRows:
    """Rows, and functions of features that were fitted without them.

    Attributes
    ----------
    design : Design
        Of encoded rows, with the targets of the solver.
    functions : list of LinearPredictor
    fold : int array of shape (m,)
        The function that has not seen each row.
    influence : Influence or None
        By which the only function was fitted to the rows too; it is taken from it.
    name : str
        What the rows are.
    """

    design: Design
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
        sets = [np.flatnonzero(fold.held_out) for fold in folds]
        rows = np.concatenate(sets)
        X, targets, weight = design.source.validating(rows).whole()
        source = ArraySource(X, targets if y is None else y[rows], weight)
        fold = np.repeat(np.arange(len(sets)), list(map(len, sets)))
        return cls(Design(source, design.features, design.dtype), functions, fold)

    def sample(self, size: int, seed: int) -> UnseenRows:
        """At most `size` of the rows, drawn by their weights."""
        source = self.design.source
        rows, factors = draw_rows(source.weights, size, np.random.default_rng(seed))
        source = source.take(rows).weighted(factors)
        influence = self.influence
        if influence is not None:
            influence = Influence(*(part[rows] for part in influence))
        design = self.design.of(source)
        return replace(self, design=design, fold=self.fold[rows], influence=influence)

    def scores(self, Z: Rows, rows: Indices) -> Floats:
        """Values at encoded rows by the functions that have not seen the rows of
        these numbers, shape (b, K).
        """
        values = np.empty((Z.shape[0], len(self.functions[0].intercept)))
        if self.influence is None:
            fold = self.fold[rows]
            for k in np.unique(fold):
                fold_rows = np.flatnonzero(fold == k)
                function = self.functions[k]
                values[fold_rows] = self._design_of(Z[fold_rows]).predict(
                    function.coef, function.intercept
                )
            return values
        (function,) = self.functions
        directions, offsets, sizes = self.influence
        done = 0
        for block, _, _ in self._design_of(Z).mapped():
            part = slice(done, done + len(block))
            numbers = rows[part]
            added = np.einsum("ij,ij->i", block, directions[numbers])
            added = (added + offsets[numbers])[:, np.newaxis] * sizes[numbers]
            values[part] = block @ function.coef + function.intercept - added
            done = part.stop
        return values

    def _design_of(self, Z: Rows) -> Design:
        return self.design.of(ArraySource(Z, np.empty((Z.shape[0], 0))))
