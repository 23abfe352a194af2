"""Checks of the numbers that bounds and sizes are asked for."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from bochner.kernels import Kernel
from bochner.kernels.base import check_positive


def check_count(value: Any, name: str) -> None:
    """Raise TypeError unless `value` is an integer, ValueError unless it is positive."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    if value < 1:
        raise ValueError(f"{name} must be positive, got {value}.")


def check_components(n_components: Any, paired: bool) -> None:
    """Raise TypeError or ValueError unless `n_components` is a number of columns, even where they are paired."""
    check_count(n_components, "n_components")
    if paired and n_components % 2:
        raise ValueError(
            f"n_components must be even where cosines and sines are paired, got {n_components}: use "
            f"{n_components + 1}, or paired=False."
        )


def relative(eps: Any, kernel: Kernel) -> float:
    """The error in units of k(x, x)."""
    check_positive(eps, "eps")
    return float(eps) / kernel.variance


def log_probability(delta: Any) -> float:
    """Logarithm of a probability; ValueError where `delta` is none."""
    if not isinstance(delta, Real) or not 0 < float(delta) < 1:
        raise ValueError(f"delta must be a probability between 0 and 1, got {delta!r}.")
    return float(np.log(float(delta)))
