"""How often prediction intervals hold the target, how wide they are, and both in one score."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.scores.rows import checked_weights


def interval_coverage(y: ArrayLike, interval: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
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


def interval_width(interval: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
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


def interval_score(y: ArrayLike, interval: ArrayLike, coverage: float, sample_weight: ArrayLike | None = None) -> float:
    """Interval score of Winkler: the width, and for a target beyond an end 2 / (1 - coverage) times how far.

    It is least in the mean for the quantiles (1 - coverage) / 2 and (1 + coverage) / 2 of the target: Gneiting and
    Raftery, "Strictly Proper Scoring Rules, Prediction, and Estimation", JASA 2007, equation 43. It is
    4 / (1 - coverage) times the mean of the pinball losses of the two ends.

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


def interval_losses(y: ArrayLike, interval: ArrayLike, coverage: float) -> NDArray[np.float64]:
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
    >>> interval_losses([1.0, 2.0], [[0.0, 3.0], [2.5, 4.5]], coverage=0.9).round(6).tolist()
    [3.0, 12.0]
    """
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must be within 0 and 1, got {coverage!r}.")
    truth, low, high = _ends(y, interval)
    beyond = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
    return high - low + 2 / (1 - coverage) * beyond


def _pairs(ends: NDArray) -> NDArray:
    if ends.ndim < 2 or ends.shape[-1] != 2 or not len(ends):
        raise ValueError(f"interval must be of shape (n, 2) or (n, K, 2), got {ends.shape}.")
    return ends


def _ends(y: ArrayLike, interval: ArrayLike) -> tuple[NDArray, NDArray, NDArray]:
    truth, ends = np.asarray(y, np.float64), _pairs(np.asarray(interval, np.float64))
    if truth.shape != ends.shape[:-1]:
        raise ValueError(
            f"y of shape {truth.shape} and interval of shape {ends.shape} do not match: (n,) and (n, 2) do."
        )
    return truth, ends[..., 0], ends[..., 1]


def _mean(values: ArrayLike, sample_weight: ArrayLike | None) -> float:
    """Of rows, and of the targets of a row."""
    own = np.asarray(values, np.float64)
    return float(np.average(own.reshape(len(own), -1).mean(axis=1), weights=checked_weights(sample_weight, len(own))))
