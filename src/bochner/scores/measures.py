"""How far probabilities are from frequencies, and how often and how tightly
intervals hold the target.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.arrays import Floats

# Of the largest weight: sums stay within single precision, and so do their reciprocals
LEAST, MOST = 1e-25, 1e25
Z = 1.959963984540054  # of 95 %


def checked_weights(sample_weight: ArrayLike | None, n: int) -> Floats:
    """Weights of n rows, ones where none are given; ValueError for negative ones,
    and where all are zero.
    """
    weight = (
        np.ones(n) if sample_weight is None else np.asarray(sample_weight, np.float64)
    )
    if weight.shape != (n,) or not (weight >= 0).all() or not weight.any():
        raise ValueError(
            f"sample_weight must be {n} numbers that are not negative, and not all "
            "zero."
        )
    require_scale(float(weight.max()))
    return weight


def require_scale(largest: float) -> None:
    """Raise ValueError where the largest weight is so small or large that sums of
    products might not be finite.
    """
    if not LEAST <= largest <= MOST:
        raise ValueError(
            f"The largest sample_weight is {largest:.3g}, and must be within "
            f"{LEAST:g} and {MOST:g}: divide all "
            "weights by their mean, and a given ridge penalty too."
        )


class Reliability(NamedTuple):
    """Probabilities and what came of them, in bins of about equal counts.

    Attributes
    ----------
    probability : array of shape (B,)
        Mean probability of the rows in each bin, ascending.
    frequency : array of shape (B,)
        Share of the rows in each bin in which the event happened.
    weight : array of shape (B,)
        Number of rows, or sum of their weights.

    Examples
    --------
    >>> from bochner.scores import reliability
    >>> found = reliability([0, 1, 1, 1], [0.2, 0.4, 0.8, 0.9], n_bins=2)
    >>> found.frequency.tolist(), found.weight.tolist(), round(found.error, 3)
    ([0.5, 1.0], [2.0, 2.0], 0.175)
    """

    probability: Floats
    frequency: Floats
    weight: Floats

    @property
    def error(self) -> float:
        """Expected calibration error: mean over the rows of how far their bin's
        frequency is from its probability.
        """
        return float(
            np.average(np.abs(self.frequency - self.probability), weights=self.weight)
        )

    @property
    def interval(self) -> Floats:
        """Wilson's 95 % intervals of the frequencies, shape (B, 2), a weight of w
        counting as w rows.
        """
        return wilson_interval(self.frequency, self.weight)


def equal_count_bins(
    values: ArrayLike, n_bins: int, sample_weight: ArrayLike | None = None
) -> NDArray[np.intp]:
    """Number of each value's bin, where bins hold about equally many values.

    Equal values are in one bin, so that the order of the rows does not matter; bins
    that are empty for it are left out.

    Parameters
    ----------
    values : array of shape (n,)
    n_bins : int
        Number of bins, at most.
    sample_weight : array of shape (n,), optional
        A weight of w is as w equal rows.

    Returns
    -------
    array of shape (n,)
        From 0 for the least values.

    Raises
    ------
    ValueError
        For no values, or n_bins below 1.

    Examples
    --------
    >>> from bochner.scores import equal_count_bins
    >>> equal_count_bins([3.0, 1.0, 2.0, 2.0, 5.0, 4.0], 3).tolist()
    [1, 0, 0, 0, 2, 2]
    """
    x = _column(values, "values")
    if n_bins < 1:
        raise ValueError(f"n_bins must be positive, got {n_bins}.")
    weight = checked_weights(sample_weight, len(x))
    order = np.argsort(x, kind="stable")
    below = np.cumsum(weight[order]) / weight.sum()
    ends = np.searchsorted(below, np.arange(1, n_bins) / n_bins * (1 - 1e-12))
    edges = x[order][np.minimum(ends, len(x) - 1)]
    return np.unique(np.searchsorted(edges, x), return_inverse=True)[1]


def reliability(
    happened: ArrayLike,
    probability: ArrayLike,
    n_bins: int = 15,
    sample_weight: ArrayLike | None = None,
) -> Reliability:
    """Mean probability and frequency of an event, in bins of about equal counts of
    rows.

    Parameters
    ----------
    happened : array of shape (n,)
        Whether the event happened: booleans, or 0 and 1.
    probability : array of shape (n,)
        Predicted, from 0 to 1.
    n_bins : int, default=15
        Number of bins, at most: rows of one probability are in one bin.
    sample_weight : array of shape (n,), optional
        A weight of w is as w equal rows.

    Returns
    -------
    Reliability

    Raises
    ------
    ValueError
        For lengths that differ, no rows, probabilities beyond 0 and 1, and events that
        are neither 0 nor 1.

    Examples
    --------
    >>> from bochner.scores import reliability
    >>> reliability(
    ...     [True, False, True, False], [0.9, 0.1, 0.9, 0.1]
    ... ).probability.tolist()
    [0.1, 0.9]
    """
    p = _column(probability, "probability")
    event = _column(happened, "happened")
    if len(p) != len(event):
        raise ValueError(
            "probability and happened must be of one length, got "
            f"{len(p)} and {len(event)}."
        )
    if p.min() < 0 or p.max() > 1:
        raise ValueError(
            f"probability must be within 0 and 1, got values from {p.min():g} to "
            f"{p.max():g}."
        )
    if not np.isin(event, (0.0, 1.0)).all():
        raise ValueError(
            "happened must hold booleans, or 0 and 1; with several classes use "
            "`judged_event` first."
        )
    weight = checked_weights(sample_weight, len(p))
    p = p[weight > 0]
    event = event[weight > 0]
    weight = weight[weight > 0]
    bins = equal_count_bins(p, n_bins, weight)
    total = np.bincount(bins, weight).astype(np.float64)
    return Reliability(
        np.bincount(bins, weight * p) / total,
        np.bincount(bins, weight * event) / total,
        total,
    )


def expected_calibration_error(
    happened: ArrayLike,
    probability: ArrayLike,
    n_bins: int = 15,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Expected calibration error by bins of about equal counts.

    The mean over the rows of |frequency - mean probability| of their bin: Naeini,
    Cooper and Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian
    Binning", AAAI 2015, there with bins of equal width, here of equal counts as in
    Nguyen and O'Connor, EMNLP 2015. It is not 0 for probabilities that are right: with
    m rows in a bin the frequency is off by about 0.8 sqrt(p (1 - p) / m) by chance.

    Parameters
    ----------
    happened : array of shape (n,)
        Whether the event happened: booleans, or 0 and 1.
    probability : array of shape (n,)
        Predicted, from 0 to 1.
    n_bins : int, default=15
    sample_weight : array of shape (n,), optional
        A weight of w is as w equal rows.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    ValueError
        As `reliability`.

    Examples
    --------
    Of several classes, the probability of the predicted one is compared:

    >>> import numpy as np
    >>> from bochner.scores import expected_calibration_error, judged_event
    >>> proba = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
    >>> round(expected_calibration_error(*judged_event([0, 1, 0], proba), n_bins=1), 4)
    0.0333
    """
    return reliability(happened, probability, n_bins, sample_weight).error


def judged_event(
    labels: ArrayLike, proba: ArrayLike
) -> tuple[NDArray[np.bool_], Floats]:
    """The event by which the calibration of classes is measured, and its probability.

    Of two classes it is the second one; of more, that the class of the largest
    probability is right.

    Parameters
    ----------
    labels : array of shape (n,)
        Positions of the true classes, from 0 to K - 1.
    proba : array of shape (n, K)

    Returns
    -------
    happened, probability : arrays of shape (n,)

    Raises
    ------
    ValueError
        For shapes that do not fit.

    Examples
    --------
    >>> from bochner.scores import judged_event
    >>> happened, probability = judged_event([1, 0], [[0.4, 0.6], [0.1, 0.9]])
    >>> happened.tolist(), probability.tolist()
    ([True, False], [0.6, 0.9])
    """
    true_classes = np.asarray(labels)
    p = np.asarray(proba, np.float64)
    if p.ndim != 2 or p.shape[1] < 1 or true_classes.shape != p.shape[:1]:
        raise ValueError(
            "labels and proba must be of shapes (n,) and (n, K), got "
            f"{true_classes.shape} and {p.shape}."
        )
    top = np.ones(len(p), np.intp) if p.shape[1] == 2 else p.argmax(axis=1)
    return true_classes == top, p[np.arange(len(p)), top]


def wilson_interval(share: ArrayLike, n: ArrayLike) -> Floats:
    """Wilson's 95 % interval of a share in n rows, which stays within 0 and 1, also for
    few rows.

    Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", JASA
    1927.

    Parameters
    ----------
    share : float, or array of shape (B,)
        From 0 to 1.
    n : float, or array of shape (B,)
        Number of rows.

    Returns
    -------
    array of shape (2,) or (B, 2)

    Examples
    --------
    >>> from bochner.scores import wilson_interval
    >>> wilson_interval(0.5, 100).round(3).tolist()
    [0.404, 0.596]
    """
    p = np.asarray(share, np.float64)
    n = np.asarray(n, np.float64)
    centre = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z * np.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2)) / (1 + Z**2 / n)
    low = np.maximum(centre - half, 0.0)
    high = np.minimum(centre + half, 1.0)
    return np.stack(
        [np.minimum(low, p), np.maximum(high, p)], axis=-1
    )  # p is inside, beyond rounding


def _column(values: ArrayLike, name: str) -> Floats:
    column = np.asarray(values, np.float64)
    if column.ndim != 1 or not len(column) or np.isnan(column).any():
        raise ValueError(
            f"{name} must be one number for each row, of one row at least, got shape "
            f"{column.shape}."
        )
    return column


def interval_coverage(
    y: ArrayLike, interval: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Share of the targets that lie within their intervals, ends included.

    Parameters
    ----------
    y : array of shape (n,) or (n, K)
    interval : array of shape (n, 2) or (n, K, 2)
        Lower and upper ends, as of `KernelMachineRegressor.predict_interval`.
    sample_weight : array of shape (n,), optional

    Returns
    -------
    float
        The mean over rows and targets.

    Raises
    ------
    ValueError
        For shapes that do not fit.

    Examples
    --------
    >>> from bochner.scores import interval_coverage
    >>> interval_coverage([1.0, 2.0], [[0.0, 3.0], [2.5, 4.0]])
    0.5
    """
    truth, low, high = _ends(y, interval)
    return _mean((low <= truth) & (truth <= high), sample_weight)


def interval_width(
    interval: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Mean width of prediction intervals.

    Parameters
    ----------
    interval : array of shape (n, 2) or (n, K, 2)
        Lower and upper ends.
    sample_weight : array of shape (n,), optional

    Returns
    -------
    float
        In units of the target.

    Raises
    ------
    ValueError
        For another shape.

    Examples
    --------
    >>> from bochner.scores import interval_width
    >>> interval_width([[0.0, 3.0], [2.5, 4.5]])
    2.5
    """
    ends = np.asarray(interval, np.float64)
    return _mean(np.diff(_pairs(ends), axis=-1)[..., 0], sample_weight)


def interval_score(
    y: ArrayLike,
    interval: ArrayLike,
    coverage: float,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Interval score of Winkler: the width, and for a target beyond an end 2 / (1 -
    coverage) times how far.

    It is least in the mean for the quantiles (1 - coverage) / 2 and (1 + coverage) / 2
    of the target: Gneiting and Raftery, "Strictly Proper Scoring Rules, Prediction, and
    Estimation", JASA 2007, equation 43. It is 4 / (1 - coverage) times the mean of the
    pinball losses of the two ends.

    Parameters
    ----------
    y : array of shape (n,) or (n, K)
    interval : array of shape (n, 2) or (n, K, 2)
        Lower and upper ends.
    coverage : float
        That the intervals are meant to have, within 0 and 1.
    sample_weight : array of shape (n,), optional

    Returns
    -------
    float
        In units of the target, the less the better.

    Raises
    ------
    ValueError
        For shapes that do not fit, and a coverage that is not within 0 and 1.

    Examples
    --------
    >>> from bochner.scores import interval_score
    >>> round(interval_score([1.0, 2.0], [[0.0, 3.0], [2.5, 4.5]], coverage=0.9), 6)
    7.5
    """
    return _mean(interval_losses(y, interval, coverage), sample_weight)


def interval_losses(y: ArrayLike, interval: ArrayLike, coverage: float) -> Floats:
    """Interval score of each target, of which `interval_score` is the mean.

    Parameters
    ----------
    y, interval, coverage
        As of `interval_score`.

    Returns
    -------
    array of the shape of y

    Examples
    --------
    >>> from bochner.scores import interval_losses
    >>> interval_losses([1.0, 2.0], [[0.0, 3.0], [2.5, 4.5]], coverage=0.9).round(
    ...     6
    ... ).tolist()
    [3.0, 12.0]
    """
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must be within 0 and 1, got {coverage!r}.")
    truth, low, high = _ends(y, interval)
    beyond = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
    return high - low + 2 / (1 - coverage) * beyond


def _pairs(ends: NDArray) -> NDArray:
    if ends.ndim < 2 or ends.shape[-1] != 2 or not len(ends):
        raise ValueError(
            f"interval must be of shape (n, 2) or (n, K, 2), got {ends.shape}."
        )
    return ends


def _ends(y: ArrayLike, interval: ArrayLike) -> tuple[NDArray, NDArray, NDArray]:
    truth = np.asarray(y, np.float64)
    ends = _pairs(np.asarray(interval, np.float64))
    if truth.shape != ends.shape[:-1]:
        raise ValueError(
            f"y of shape {truth.shape} and interval of shape {ends.shape} do not "
            "match: (n,) and (n, 2) do."
        )
    return truth, ends[..., 0], ends[..., 1]


def _mean(values: ArrayLike, sample_weight: ArrayLike | None) -> float:
    """Of rows, and of the targets of a row."""
    row_values = np.asarray(values, np.float64)
    return float(
        np.average(
            row_values.reshape(len(row_values), -1).mean(axis=1),
            weights=checked_weights(sample_weight, len(row_values)),
        )
    )
