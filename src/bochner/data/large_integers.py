"""Integers whose differences double precision drops, so that a column of them counts as constant."""

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from bochner.notices import first_names, warn

LARGE = 2.0**49
"""Size from which on columns are looked at: integers near the least that may count as equal though they differ."""

WHY = "integers differ only in digits that floating-point numbers drop at their size"

Extremes = dict[str, tuple[int, int]]


def is_constant(low: Any, high: Any) -> Any:
    """Whether the extremes of a variable are equal but for rounding."""
    with np.errstate(invalid="ignore", over="ignore"):
        return ~(high - low > 4 * np.finfo(np.float64).eps * np.maximum(np.abs(low), np.abs(high)))


def extremes(column: Any, keep: Any) -> tuple[int, int] | None:
    """Least and greatest of the kept values of a column, as integers; None where it is of another type.

    Parameters
    ----------
    column : narwhals.Series or array of shape (n,)
    keep : bool array of shape (n,), or None for all
    """
    if isinstance(column, nw.Series):
        if not column.dtype.is_integer():
            return None
        column = column if keep is None else column.filter(keep.tolist())
    elif column.dtype.kind in "iu":
        column = column if keep is None else column[keep]
    else:
        return None
    return int(column.min()), int(column.max())


def united(a: Extremes, b: Extremes) -> Extremes:
    """Extremes of the rows of both."""
    found = dict(a)
    for j, (low, high) in b.items():
        found[j] = (min(low, found[j][0]), max(high, found[j][1])) if j in found else (low, high)
    return found


def floats_of_targets(y: NDArray) -> NDArray[np.float64]:
    """Targets in double precision; a warning where they are different integers that count as constant there."""
    values = y.astype(np.float64, copy=False)
    if y.dtype.kind in "iu" and y.size:
        low, high = y.min(axis=0), y.max(axis=0)
        if np.any((low < high) & is_constant(values.min(axis=0), values.max(axis=0))):
            warn(f"A target counts as constant: its {WHY}; subtract the least of them.")
    return values


def warn_of_equal(names: Sequence[str]) -> None:
    """Warn of columns of different integers that count as constant."""
    if names:
        subject = "Column {} counts as constant: its" if len(names) == 1 else "Columns {} count as constant: their"
        subject = subject.format(first_names(names))
        warn(f"{subject} {WHY}; subtract the least of them, or give the column as text.")
