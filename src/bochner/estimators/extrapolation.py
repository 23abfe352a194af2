"""How far the predictions of a regression may go beyond the targets of its fit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats
from bochner.estimators.ridge.out_of_sample import UnseenRows
from bochner.inputs.targets import Standardised

# Rows left out of the fit, without whose errors nothing is bounded; more than the most
# tell no more
FEWEST_ROWS, MOST_ROWS = 50, 1_000
END_SHARE = 0.2  # of the rows left out, that have the least or greatest predictions
# Share of the variance of the targets over the mean squared error, by which times the
# range of the targets predictions go on: errors of a tenth of the deviation allow the
# range once more, and errors of a third of it a tenth of the range
TRUST = 1 / 100
# Times the variance that is explained at an end, which for normal targets is then that
# of all: where little varies there, small errors do not tell that a trend goes on
END_TRUST = 5
# Rate, whose squares and those of its reciprocal are numbers
TINIEST = 1e-100


@dataclass(frozen=True)
class PredictionBounds:
    """Least and greatest targets of a fit, and how far predictions may go beyond them.

    A trend that is known well may go on beyond the targets of the fit; a lone corner of
    the inputs, of which nobody has seen the target, may not. Rows that were left out of
    the fit show which it is. Let R be the range of all targets, s the deviation of
    the targets of the rows left out, t the deviation and e the root mean square of the
    errors at the fifth of those rows whose predictions are the greatest. Predictions go
    up to R min(s^2, 5 (t^2 - e^2)) / (100 e^2) beyond the greatest target, and not
    beyond it where t < e. How far they go below the least target is decided likewise by
    the fifth of the rows whose predictions are the least. Of counts whose logarithms
    are fitted, all of this is of logarithms, and R is that of the greatest count over
    the mean.

    Attributes
    ----------
    low, high : arrays of shape (K,)
        Least and greatest targets.
    reach : array of shape (2, K)
        How far predictions may go below the least and above the greatest target, over
        the range of the targets.
    """

    low: Floats
    high: Floats
    reach: Floats

    @classmethod
    def of(cls, y: NDArray, weight: NDArray | None) -> PredictionBounds:
        """The bounds of targets, (n, K), beyond which predictions go anywhere."""
        counted = y if weight is None else y[weight > 0]
        low = counted.min(axis=0)
        return cls(low, counted.max(axis=0), np.full((2, len(low)), np.inf))

    @property
    def ends(self) -> Floats:
        """The least and the greatest prediction, shape (2, K)."""
        below, above = self.reach * self._unit
        return np.stack([self.low - below, self.high + above])

    @property
    def _unit(self) -> Floats:
        """The range of the targets; of constant ones 1."""
        return np.where(self.high > self.low, self.high - self.low, 1.0)

    def learned(
        self,
        unseen: UnseenRows | None,
        seed: int,
        targets: Standardised,
        exponential: bool,
    ) -> PredictionBounds | None:
        """The bounds by the errors at rows left out; None where these are too few.

        Parameters
        ----------
        unseen : UnseenRows or None
            With targets of the solver.
        seed : int
            Of the rows that are drawn where there are many.
        targets : Standardised
            What the solver's targets are made by.
        exponential : bool
            Whether scores are logarithms of predictions.
        """
        if unseen is None or unseen.design.source.n_rows < FEWEST_ROWS:
            return None
        drawn = unseen.sample(MOST_ROWS, seed)
        X, y, weight = drawn.design.source.whole()
        weight = np.broadcast_to(weight[:, np.newaxis], y.shape)
        unit = self._unit
        with np.errstate(over="ignore"):
            predicted = drawn.scores(X, np.arange(len(y))) * targets.scale
            predicted += targets.mean
            if not exponential:
                # Squares of targets as they are might overflow
                wanted = (y * targets.scale + targets.mean) / unit
                return replace(self, reach=_reach(predicted / unit, wanted, weight))
            # Working targets and weights of iteratively reweighted least squares. Of
            # rates that are too small for a number nothing is expected.
            smallest, largest = np.log([TINIEST, 1 / TINIEST])
            predicted = np.clip(predicted, smallest, largest)
            means = np.exp(predicted)
            reach = _reach(predicted, predicted + y / means - 1, weight * means)
            # Rates next to zero make no range: that is from the mean to the greatest
            mean = np.maximum(np.average(y, axis=0, weights=weight), TINIEST)
            log_range = np.log(np.maximum(self.high / mean, 1.0))
            below, above = np.exp(log_range * reach * [[-1], [1]])
            beyond = [self.low * (1 - below), self.high * (above - 1)]
        return replace(self, reach=np.stack(beyond) / unit)

    def clipped(self, predictions: NDArray) -> Floats:
        """Predictions of shape (n, K), those that lie beyond the bounds at these."""
        return np.clip(predictions, *self.ends)

    def within(self, scores: NDArray, targets: Standardised) -> Floats:
        """The solver's predictions, (n, K), those beyond the bounds at these."""
        return np.clip(scores, *targets(self.ends))


def _reach(predicted: NDArray, targets: NDArray, weight: NDArray) -> Floats:
    """How far predictions may go below and above all targets, over their range, shape
    (2, K), by predictions and weights of rows left out, (n, K), in units of the range.
    """
    size = max(round(END_SHARE * len(predicted)), 1)
    order = np.argsort(predicted, axis=0, kind="stable")
    variance = _variance(targets, weight)
    reach = []
    for end in (order[:size], order[-size:]):
        at_end = np.take_along_axis(targets, end, 0)
        end_weight = np.take_along_axis(weight, end, 0)
        errors = at_end - np.take_along_axis(predicted, end, 0)
        error = np.average(np.square(errors), axis=0, weights=end_weight)
        explained = np.maximum(_variance(at_end, end_weight) - error, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            trusted = TRUST * np.minimum(variance, END_TRUST * explained) / error
        reach.append(np.where(explained > 0, trusted, 0.0))
    return np.stack(reach)


def _variance(targets: NDArray, weight: NDArray) -> Floats:
    """The weighted variance of each column, exactly zero where it is constant."""
    share = weight / weight.sum(axis=0)
    shifted = targets - targets[0]
    mean = (share * shifted).sum(axis=0)
    variance: Floats = (share * np.square(shifted - mean)).sum(axis=0)
    return variance
