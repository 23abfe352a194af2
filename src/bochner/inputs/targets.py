"""Targets as the solver takes them: plain objects that can be sent to other
processes with the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats, Indices
from bochner.data.outliers import SHARES, outer_fences
from bochner.data.table_input import finite_predictions
from bochner.data.table_statistic import Summary, TableStatistic
from bochner.inputs.checks import normalised_weights
from bochner.notices import warn

# Of the deviation of targets, above which rounding loses digits that matter
ROUNDED = 0.01
HALF = 0.5  # mean counts that are added before logarithms
LARGEST_COUNT = 1e30
FAR = 5.0  # ranges of four fifths of the targets, beyond which they choose no features


def target_moments(y: NDArray, weight: NDArray | None) -> Summary:
    """Means, squared deviations and extremes of targets, (n, K)."""
    return TableStatistic.of(y, normalised_weights(weight)).summary


def mean_and_scale(moments: Summary) -> tuple[Floats, Floats]:
    """Means and deviations of targets; ValueError where they are too large to be
    standardised.
    """
    scale = np.sqrt(moments.squares / moments.weight)
    if not np.isfinite(scale).all():
        raise ValueError(
            "The target holds values too large to standardise: divide it by a constant."
        )
    scale = np.where(
        scale > 0, scale, moments.high - moments.low
    )  # squares of tiny values vanish
    differ = moments.low < moments.high
    rounding = np.spacing(np.maximum(np.abs(moments.low), np.abs(moments.high)))
    if (differ & (rounding > ROUNDED * scale)).any():
        warn(
            "A target differs by little more than floating-point numbers are rounded "
            "by at its size, so that predictions lose digits: subtract the least "
            "value, of integers before they become floating-point numbers."
        )
    scale[~differ] = 1.0
    return moments.mean, scale


@dataclass(frozen=True)
class Standardised:
    """Numbers of mean 0 and deviation 1, of means and deviations of shape (K,)."""

    mean: Floats
    scale: Floats

    def __call__(self, y: NDArray) -> Floats:
        """Targets of some rows, shape (b, K)."""
        return (y.reshape(len(y), -1) - self.mean) / self.scale

    def inverse(self, scores: NDArray, exponential: bool = False) -> Floats:
        """Predictions, or their exponentials, in the units of the targets;
        ValueError where they overflow.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            values = scores * self.scale + self.mean
            return finite_predictions(np.exp(values) if exponential else values)


@dataclass(frozen=True)
class Clipped(Standardised):
    """Standardised numbers without outliers: what lies beyond the fences, of shape
    (K,), counts as lying on them.
    """

    low: Floats
    high: Floats

    def __call__(self, y: NDArray) -> Floats:
        """Targets of some rows, shape (b, K)."""
        return super().__call__(np.clip(y.reshape(len(y), -1), self.low, self.high))

    @staticmethod
    def are_near(y: NDArray, weight: NDArray) -> NDArray[np.bool_]:
        """Which rows have no target far beyond the others, shape (b,).

        The range of four fifths of them tells what is far: more than half may be zero.
        """
        values = y.reshape(len(y), -1)
        low, high = outer_fences(values, weight, FAR, SHARES[1:])
        near: NDArray[np.bool_] = np.all((values >= low) & (values <= high), axis=1)
        return near


@dataclass(frozen=True)
class Signs:
    """Signs that tell the classes of labels, one column for each class, or one for
    two.
    """

    classes: NDArray

    def __call__(self, y: NDArray) -> Floats:
        """Targets of some rows, shape (b, K)."""
        K = len(self.classes)
        place = self._places(y)
        if K == 2:
            return np.where(place[:, np.newaxis] == 1, 1.0, -1.0)
        signs = np.full((len(place), K), -1.0)
        signs[np.arange(len(place)), place] = 1.0
        return signs

    def mixed(self, mix: NDArray) -> MixedSigns:
        """Combinations of the columns, (K, M), in their place."""
        return MixedSigns(self.classes, 2 * mix - mix.sum(axis=0))

    def _places(self, y: NDArray) -> Indices:
        """Position of the class of each row, shape (b,)."""
        place = np.minimum(np.searchsorted(self.classes, y), len(self.classes) - 1)
        if (other := self.classes[place] != y).any():
            raise ValueError(
                f"some labels are not in the first rows, such as {y[other][0]!r}: "
                "name all classes."
            )
        return place


@dataclass(frozen=True)
class MixedSigns(Signs):
    """Combinations of the signs of many classes, (K, M) for each class, of which no
    array with K columns is made.
    """

    values: NDArray

    def __call__(self, y: NDArray) -> Floats:
        """Targets of some rows, shape (b, M)."""
        return self.values[self._places(y)]


@dataclass(frozen=True)
class LogCounts(Standardised):
    """Standardised logarithms of counts, more by half of their mean, of shape (K,)."""

    added: Floats

    def __call__(self, y: NDArray) -> Floats:
        """Targets of some rows, shape (b, K)."""
        counts = np.maximum(y.reshape(len(y), -1), 0)
        return super().__call__(np.log(counts + self.added))


def log_counts(y: NDArray, weight: NDArray | None) -> LogCounts:
    """The logarithms with which a Poisson regression begins.

    Raises
    ------
    ValueError
        Where a count is negative, or larger than single precision holds, or all are
        zero.
    """
    counted = slice(None) if weight is None else weight > 0
    y = y.reshape(len(y), -1)[counted]
    weight = None if weight is None else weight[counted]
    if (y < 0).any():
        raise ValueError(
            "loss='poisson' needs counts, and the target has negative values: use "
            "loss='squared'."
        )
    if y.max() > LARGEST_COUNT:
        raise ValueError(
            f"loss='poisson' needs counts of at most {LARGEST_COUNT:.0e}: divide the "
            "target by a constant."
        )
    mean = np.average(y, axis=0, weights=weight)
    if not (mean > 0).all():
        raise ValueError(
            "loss='poisson' needs a count above zero, and the target has none."
        )
    logs = np.log(y + HALF * mean)
    centre = np.average(logs, axis=0, weights=weight)
    scale = np.sqrt(np.average(np.square(logs - centre), axis=0, weights=weight))
    return LogCounts(centre, np.where(scale > 0, scale, 1.0), HALF * mean)
