"""The first rows of a fit in parts, which fix all but the coefficients again while they are few."""

from __future__ import annotations

from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from bochner.data.streams.rows import stacked
from bochner.data.table_input import is_frame
from bochner.notices import warn

FIRST_ROWS = 256  # that fix encodings, kernel and features for good, where the first batch has not more


class FirstRows(NamedTuple):
    """Rows so far, while they are too few.

    Attributes
    ----------
    X : array, CSR matrix or data frame of n rows
    y : array of n rows
    weight : array of shape (n,) or None
    n_fixed : int
        Rows by which the encodings were fixed last.
    """

    X: Any
    y: Any
    weight: Any
    n_fixed: int = 0

    @classmethod
    def after(cls, before: tuple | None, X: Any, y: Any, weight: Any) -> FirstRows:
        """Other rows after those that were kept, where there are some."""
        return cls(X, y, weight) if before is None else cls(*before).plus(X, y, weight)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def are_due(self) -> bool:
        """Whether they fix the encodings again: their number has doubled."""
        return self.n_rows >= 2 * self.n_fixed

    def plus(self, X: Any, y: Any, weight: Any) -> FirstRows:
        """These rows and other ones after them."""
        both, own = weight, self.weight
        if own is not None or weight is not None:
            own = np.ones(self.n_rows) if own is None else own
            both = np.concatenate([own, np.ones(X.shape[0]) if weight is None else np.asarray(weight)])
        if is_frame(X):
            rows = nw.concat([nw.from_native(one, eager_only=True) for one in (self.X, X)]).to_native()
        else:
            rows = stacked([self.X, X])
        return FirstRows(rows, np.concatenate([np.asarray(self.y), np.asarray(y)]), both, self.n_fixed)

    def settled(self) -> tuple | None:
        """The same after they have fixed the encodings, for a file a plain tuple, or None where that was for good."""
        n_fixed = self.n_rows if self.are_due else self.n_fixed
        return tuple(self._replace(n_fixed=n_fixed)) if self.n_rows < FIRST_ROWS else None


def kept_by_file(rows: Any) -> Any:
    """First rows as a file can hold them, else None and a warning."""
    if rows is None or isinstance(rows[0], np.ndarray):
        return None if rows is None else (rows[0], np.asarray(rows[1]), *rows[2:])
    warn(
        f"The first {rows[3]} rows fix the scales and the kernel of the loaded model for good, for the file holds no "
        f"rows of frames and sparse matrices: save it after {FIRST_ROWS} rows, or prepare it."
    )
    return None
