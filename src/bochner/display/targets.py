"""Asks a model for means, deviations and intervals of one target, and says what it lacks."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def target_of(y: ArrayLike, target: int = 0) -> NDArray[np.float64]:
    """One of several targets, shape (n,); ValueError where there is none."""
    values = np.asarray(y, np.float64)
    if values.ndim not in (1, 2) or not len(values):
        raise ValueError(f"y must be of shape (n,) or (n, K), with one row at least, got {values.shape}.")
    return _one(values[:, np.newaxis] if values.ndim == 1 else values, target)


def mean_of(model: Any, X: Any, target: int = 0) -> NDArray[np.float64]:
    """Predictions of a target, shape (n,)."""
    return target_of(model.predict(X), target)


def interval_of(model: Any, X: Any, coverage: float, target: int = 0) -> NDArray[np.float64]:
    """Prediction intervals of a target, shape (n, 2); ValueError for a model that has none."""
    if not hasattr(model, "predict_interval"):
        raise ValueError(
            f"{type(model).__name__} has no prediction intervals: give a KernelMachineRegressor, fitted with "
            "uncertainty=True, or another model with predict_interval."
        )
    ends = np.asarray(model.predict_interval(X, coverage=coverage), np.float64)
    return _one(ends[:, np.newaxis] if ends.ndim == 2 else ends, target)


def deviation_of(model: Any, X: Any, target: int = 0) -> NDArray[np.float64]:
    """Standard deviations of a target, shape (n,); ValueError for a model that has none."""
    if "return_std" not in signature(model.predict).parameters:
        raise ValueError(
            f"{type(model).__name__} has no standard deviations: give a KernelMachineRegressor, fitted with "
            "uncertainty=True, or another model whose predict takes return_std."
        )
    return target_of(model.predict(X, return_std=True)[1], target)


def _one(values: NDArray[np.float64], target: int) -> NDArray[np.float64]:
    if not isinstance(target, int | np.integer) or not 0 <= target < values.shape[1]:
        raise ValueError(f"target must be from 0 to {values.shape[1] - 1}, got {target!r}.")
    return values[:, int(target)]
