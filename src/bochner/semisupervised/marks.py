"""Rows with a target and rows without: how these are marked, and both as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.data.columns import missing_targets

UNLABELLED = -1
TEXT_OF_MARKS = "-1", "-1.0", "nan", "None"


def labelled(y: NDArray) -> NDArray[np.bool_]:
    """Which labels there are: all but the number -1, None and NaN; shape (n,)."""
    if y.dtype.kind in "iuf":
        return ~(missing_targets(y) | (y == UNLABELLED))
    known = ~missing_targets(y)
    if y.dtype == object:
        is_mark = (isinstance(label, int | float | np.number) and label == UNLABELLED for label in y)
        known &= ~np.fromiter(is_mark, bool, len(y))
    return known


def plain(labels: NDArray) -> NDArray:
    """Labels in the type of what they are, where they are objects."""
    return np.asarray(labels.tolist()) if labels.dtype == object and len(labels) else labels


def refuse_mixed(labels: NDArray) -> None:
    """Raise ValueError where some labels are text and others are not, of which NumPy would make text."""
    if labels.dtype == object:
        other = [label for label in labels if not isinstance(label, str)]
        if 0 < len(other) < len(labels):
            raise ValueError(f"Some labels are text and others, such as {other[0]!r}, are not: make all of them text.")


@dataclass(frozen=True)
class Memberships:
    """Labels as columns of zeros and ones, one for each class; zeros alone where there is none.

    Attributes
    ----------
    classes : array of shape (K,)
        Ascending.
    """

    classes: NDArray

    def __call__(self, y: NDArray) -> NDArray[np.float64]:
        """Memberships of some rows, shape (b, K)."""
        found, known = np.zeros((len(y), len(self.classes))), np.flatnonzero(labelled(y))
        labels = plain(y[known])
        if len(labels):
            found[known, np.searchsorted(self.classes, labels)] = 1.0
        return found


@dataclass(frozen=True)
class Measured:
    """Numbers beside a column of ones; zeros alone where one of them is missing."""

    n_targets: int

    def __call__(self, y: NDArray) -> NDArray[np.float64]:
        """Numbers of some rows, shape (b, K + 1)."""
        values = y.reshape(len(y), -1).astype(np.float64)
        known = np.isfinite(values).all(axis=1, keepdims=True)
        return np.hstack([np.where(known, values, 0.0), known])


def checked_marks(y: Any, estimator: Any, mark: str) -> NDArray:
    """Targets as an array; ValueError where there are none at all."""
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    y = np.asarray(y if hasattr(y, "dtype") else _array(y))
    if y.dtype.kind not in "biufUSO":
        raise ValueError(f"Targets must be numbers, text or booleans, with {mark} in rows without one, not {y.dtype}.")
    return y.astype(object) if y.dtype.kind == "S" else y


def _array(y: Any) -> NDArray:
    """A list as an array; of text beside marks that are no text as objects, which NumPy would make text."""
    found = np.asarray(y)
    return np.asarray(y, dtype=object) if found.dtype.kind in "US" else found
