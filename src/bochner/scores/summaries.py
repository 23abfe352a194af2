"""Scores on held-out rows, each with its uncertainty and the score of a baseline.

A score is a mean over rows, or a function of two, so that its standard error follows
from the spread over the rows (to first order). Intervals are of 95 %: the value plus
and minus 1.96 standard errors, Wilson's for the accuracy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.arrays import n_distinct
from bochner.markup import number
from bochner.scores.measures import (
    Z,
    expected_calibration_error,
    interval_losses,
    judged_event,
    wilson_interval,
)

NAMES = {
    "accuracy": "accuracy",
    "log_loss": "log loss",
    "brier": "Brier score",
    "calibration_error": "calibration error",
    "r2": "R²",
    "rmse": "RMSE",
    "interval_coverage": "in intervals",
    "interval_width": "mean width",
    "interval_score": "Winkler score",
}
IN_UNITS = ("rmse", "interval_width", "interval_score")  # of the target


def cells(
    key: str, score: dict[str, Any], unknown: str = "n/a"
) -> tuple[str, str, str]:
    """A score, its interval and its baseline as text: shares with three decimals,
    errors with four digits.
    """

    def form(value: float | None) -> str:
        if key in IN_UNITS or value is None:
            return number(value, unknown)
        return f"{value:z.3f}"

    interval = (
        ""
        if score["interval"] is None
        else " to ".join(form(end) for end in score["interval"])
    )
    return (
        form(score["value"]),
        interval,
        "" if key.startswith("interval_") else form(score["baseline"]),
    )


def score_rows(
    scores: dict[str, Any], unknown: str = "n/a"
) -> list[tuple[str, str, str, str]]:
    """Name and cells of each score, with the coverage that was asked for."""
    asked = {
        key: f" of {100 * one['asked_for']:g} %" if "asked_for" in one else ""
        for key, one in scores.items()
    }
    return [
        (f"{NAMES[key]}{asked[key]}", *cells(key, one, unknown))
        for key, one in scores.items()
    ]


def classification(
    labels: NDArray,
    predicted: NDArray,
    proba: NDArray,
    baseline: ArrayLike | None = None,
    group: NDArray | None = None,
) -> dict[str, Any]:
    """Accuracy, log loss, Brier score, and the expected calibration error in 15 bins of
    equal counts.

    The Brier score is that of `sklearn.metrics.brier_score_loss`: the squared error of
    the probability of one class of two, or the sum of those of more. The calibration
    error is that of the second class of two, or of the predicted one of more.

    Parameters
    ----------
    labels : array of shape (n,)
        Positions of the true classes, -1 for one that the model does not know.
    predicted : array of shape (n,)
        Positions of the predicted classes.
    proba : array of shape (n, K)
    baseline : array of shape (K,), optional
        Shares of the classes in training, or else in these rows: the baseline predicts
        the most frequent one, with these probabilities.
    group : int array of shape (n,), optional
        Of rows that belong together; errors are then those of groups.
    """
    is_known_class = labels >= 0
    rows = labels[is_known_class]
    if baseline is None:
        baseline = np.bincount(rows, minlength=proba.shape[1]) / max(len(rows), 1)
    shares = np.asarray(baseline)
    loss, plain = (
        -np.log(np.maximum(p, np.finfo(float).eps))
        for p in (proba[is_known_class, rows], shares[rows])
    )
    accuracy = _share(predicted == labels, group)
    accuracy["baseline"] = float((labels == shares.argmax()).mean())
    known_group = None if group is None else group[is_known_class]
    given = (proba[is_known_class], np.tile(shares, (len(rows), 1)))
    calibration = [
        expected_calibration_error(*judged_event(rows, np.clip(p, 0, 1)))
        if len(rows)
        else None
        for p in given
    ]
    return {
        "accuracy": accuracy,
        "log_loss": _mean(loss, plain, known_group),
        "brier": _mean(_squares(rows, given[0]), _squares(rows, given[1]), known_group),
        "calibration_error": _score(calibration[0], None, calibration[1]),
    }


def _squares(rows: NDArray, proba: NDArray) -> NDArray[np.float64]:
    """Brier score of each row."""
    off = proba.copy()
    off[np.arange(len(rows)), rows] -= 1
    return np.asarray((off**2).sum(axis=1) / (2 if proba.shape[1] == 2 else 1))


def intervals(
    y: NDArray, interval: NDArray, coverage: float, group: NDArray | None = None
) -> dict[str, Any]:
    """Coverage, mean width and Winkler's interval score, which have no baseline.

    Parameters
    ----------
    y : array of shape (n,)
    interval : array of shape (n, 2)
    coverage : float
        That was requested.
    group : int array of shape (n,), optional
        Of rows that belong together; errors are then those of groups.
    """
    low, high = interval.T
    widths, losses = (
        _mean(values, None, group)
        for values in (high - low, interval_losses(y, interval, coverage))
    )
    return {
        "interval_coverage": _share((low <= y) & (y <= high), group)
        | {"asked_for": coverage},
        "interval_width": widths,
        "interval_score": losses,
    }


def regression(
    y: NDArray,
    predicted: NDArray,
    baseline: float | None = None,
    group: NDArray | None = None,
) -> dict[str, Any]:
    """R^2 and the root of the mean squared error (RMSE).

    With e_i the errors, v_i the squared deviations from the mean of y, and bars for
    means, R^2 = 1 - r, r = e2 / v, has by the delta method the standard error sd(e_i^2
    - r v_i) / (v sqrt n), and RMSE that of sd(e_i^2) / (2 RMSE sqrt n).

    Parameters
    ----------
    y, predicted : arrays of shape (n,)
    baseline : float, optional
        What the baseline predicts: the mean of the target in training, or else of y.
    group : int array of shape (n,), optional
        Of rows that belong together; errors are then those of groups.
    """
    mean = y.mean() if baseline is None else baseline
    errors = (y - predicted) ** 2
    plain = (y - mean) ** 2
    spread = (y - y.mean()) ** 2
    rmse = math.sqrt(errors.mean())
    total = spread.mean()
    error = _standard_error(errors, group)
    se = None if error is None else error / (2 * rmse) if rmse else 0.0
    scores = {
        "r2": _score(None, None, None),
        "rmse": _score(rmse, se, math.sqrt(plain.mean()), low=0.0),
    }
    if total > 0:
        ratio = errors.mean() / total
        spread_of = _standard_error(errors - ratio * spread, group)
        se = None if spread_of is None else spread_of / total
        scores["r2"] = _score(1 - ratio, se, 1 - plain.mean() / total, high=1.0)
    return scores


def _mean(
    values: NDArray, plain: NDArray | None, group: NDArray | None = None
) -> dict[str, Any]:
    if not len(values):
        return _score(None, None, None)
    error = _standard_error(values, group)
    baseline = None if plain is None else plain.mean()
    return _score(values.mean(), error, baseline, low=0.0)


def _standard_error(values: NDArray, group: NDArray | None = None) -> float | None:
    """Standard error of the mean of rows; where these belong to groups, that of a ratio
    of sums over groups (Cochran, 1977). None for one row or group.
    """
    if group is not None:
        _, number = np.unique(group, return_inverse=True)
        sums = np.bincount(number, values - values.mean())
        n_groups = len(sums)
        spread = np.square(sums).sum() * n_groups / max(n_groups - 1, 1)
        return float(math.sqrt(spread) / len(values)) if n_groups > 1 else None
    if len(values) > 1:
        return float(values.std(ddof=1) / math.sqrt(len(values)))
    return None


def _share(are_right: NDArray, group: NDArray | None) -> dict[str, Any]:
    """A share of rows, with Wilson's interval; of rows that belong to groups that
    of as many independent rows as have its standard error, or of one a group.
    """
    share = float(are_right.mean())
    n: float = len(are_right)
    spread = share * (1 - share)
    error: float | None = math.sqrt(spread / n)
    if group is not None:
        error = _standard_error(are_right.astype(np.float64), group)
        n = min(spread / error**2 if error else n_distinct(group), n)
    interval = wilson_interval(share, n).tolist()
    return _score(share, error, None) | {"interval": interval}


def _score(
    value: Any,
    error: float | None,
    baseline: Any,
    low: float = -math.inf,
    high: float = math.inf,
) -> dict[str, Any]:
    interval = None
    if value is not None and error is not None:
        interval = [
            max(float(value - Z * error), low),
            min(float(value + Z * error), high),
        ]
    return {
        "value": None if value is None else float(value),
        "standard_error": error,
        "interval": interval,
        "baseline": None if baseline is None else float(baseline),
    }
