"""How far the targets of new rows lie from their predictions: a scale that follows the inputs, and scores.

The scale sigma(x) is a second machine on the same features. Its target is the square root of |y - f(x)|, f a model
that has not seen the row, and its ridge term a larger one, for errors are noisier than targets; the root is near to
symmetric and needs no offset where errors vanish. Rows that calibrate are others than those that it is learned from.
Their scores (y - f(x)) / sigma(x) tell by their quantiles how many scales the ends of an interval are away (Lei et al.,
2018, section 5.2, "locally weighted").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bochner.data.sources import ArraySource
from bochner.solvers.conformal import Scores, in_order
from bochner.tuning.split import rows_held_out

FEWEST_ROWS = 400  # that a scale is learned from; of fewer it is one for all
LEARNED_ROWS = 16_384  # that are enough for it
BOUNDS = (0.05, 0.99)  # quantiles of the roots that it was learned from, between which predicted ones are kept
LIMIT_SHARE, LIMIT_ROWS = 0.01, 10  # of the weight and rows, by which the least or greatest target is a limit


@dataclass
class Affine:
    """A function of the features: coefficients of shape (D, K) and intercepts of shape (K,)."""

    coef: NDArray
    intercept: NDArray[np.float64]


@dataclass
class Spread:
    """Scale of the errors of a fitted model, and scores of rows that neither have seen; targets are standardised.

    Attributes
    ----------
    centre : Affine or None
        The model without the rows that calibrate, about which intervals are; None for the fitted model itself.
    roots : Affine or None
        Predicts the root of the scale; None where one scale, 1, serves all inputs.
    bounds : array of shape (2, K)
        Of the root of the scale.
    limits : array of shape (2, K)
        Least and greatest targets that there are; infinite where the rows show none.
    scores : Scores
        Signed errors over the scale.
    seed : int
        By which rows calibrate.
    """

    centre: Affine | None
    roots: Affine | None
    bounds: NDArray[np.float64]
    limits: NDArray[np.float64]
    scores: Scores
    seed: int

    def scale(self, roots: NDArray) -> NDArray[np.float64]:
        """Scale of shape (n, K) from its predicted roots."""
        return np.square(np.clip(roots, *self.bounds))

    def mapped(self, change: Callable[[NDArray], NDArray]) -> Spread:
        """The same, its coefficients changed."""
        both = [one and replace(one, coef=change(one.coef)) for one in (self.centre, self.roots)]
        return replace(self, centre=both[0], roots=both[1])


@dataclass(frozen=True)
class Rows:
    """Rows of a fit as they came, also those that solvers take for one.

    Attributes
    ----------
    targets : array of shape (n, K)
    weight : array of shape (n,)
    judge : bool array of shape (n,)
        Rows that calibrate.
    seed : int
        By which these were held out.
    """

    targets: NDArray[np.float64]
    weight: NDArray[np.float64]
    judge: NDArray[np.bool_]
    seed: int

    @classmethod
    def of(cls, source: ArraySource, seed: int, held_out: NDArray | None = None) -> Rows:
        """Those of a source, of which the ones calibrate that were held out, or others by their content."""
        weight = np.ascontiguousarray(source.weights)
        judge = rows_held_out(source.row_hashes(), weight, seed) if held_out is None else held_out
        return cls(source.targets(source.y), weight, judge & (weight > 0), seed)

    @property
    def others(self) -> NDArray[np.bool_]:
        """Rows that the scale may be learned from."""
        return ~self.judge & (self.weight > 0)

    def judged_by(self, judge: NDArray[np.bool_] | bool) -> Rows:
        """The same, with other rows that calibrate, of those that have weight; with True all of them."""
        return replace(self, judge=judge & (self.weight > 0))

    def spread(
        self,
        predicted: NDArray,
        centre: Affine | None = None,
        roots: Affine | None = None,
        found: NDArray | None = None,
        bounds: NDArray | None = None,
    ) -> Spread:
        """The spread by predictions for rows, (n, K), of models that have not seen them, NaN where there is none.

        Parameters
        ----------
        centre, roots, bounds
            See `Spread`; one scale for all inputs by default.
        found : array of shape (n, K), optional
            Predicted roots of the rows.
        """
        rows = self.judge & np.isfinite(predicted).all(axis=1)
        errors = self.targets[rows] - predicted[rows]
        if found is None or bounds is None:
            found, bounds = np.ones(predicted.shape), np.ones((2, predicted.shape[1]))
        scores = in_order(errors / np.square(np.clip(found[rows], *bounds)), self.weight[rows])
        return Spread(centre, roots, bounds, limits(self.targets, self.weight), scores, self.seed)


def distinct_numbers(source: ArraySource) -> NDArray[np.intp]:
    """For each row the number of its like among the distinct rows that have weight; shape (n,), 0 without weight."""
    counted = np.flatnonzero(source.weights)
    some = source.take(counted)
    some = ArraySource(*some.whole(), content=some.content)
    first_duplicate = some.first_duplicates(some.row_hashes())
    number = np.zeros(source.n_rows, np.intp)
    number[counted] = (np.cumsum(first_duplicate == np.arange(some.n_rows)) - 1)[first_duplicate]
    return number


def roots_of(errors: NDArray, weight: NDArray) -> tuple[NDArray, NDArray]:
    """Roots of the errors' sizes, shape (n, K), and the bounds of predicted ones, shape (2, K)."""
    roots = np.sqrt(np.abs(errors))
    counted = roots[weight > 0]
    least = 1e-6 * counted.max(axis=0) + np.finfo(np.float64).tiny
    return roots, np.maximum(np.quantile(counted, BOUNDS, axis=0), least)


def limits(targets: NDArray, weight: NDArray) -> NDArray[np.float64]:
    """Least and greatest target, shape (2, K), where a hundredth of the weight and ten rows lie; else infinite.

    Such targets are counts, ratings or censored: what they cannot be is no part of an interval. A new row lies beyond
    all n others at one end with a probability of at most 1 / (n + 1), so that no more coverage is lost.
    """
    counted, own = targets[weight > 0], weight[weight > 0]
    ends = np.stack([counted.min(axis=0), counted.max(axis=0)])
    there = [counted == end for end in ends]
    heavy = np.stack([own @ rows >= LIMIT_SHARE * own.sum() for rows in there])
    many = np.stack([rows.sum(axis=0) >= LIMIT_ROWS for rows in there])
    return np.where(heavy & many, ends, np.array([[-np.inf], [np.inf]]))
