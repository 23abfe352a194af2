"""The rows that a page is about: some of them, their columns, and what they would be with other values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from narwhals.dependencies import is_into_series
from numpy.typing import NDArray

from bochner.data.table_input import checked_sparse, is_frame
from bochner.display.names import column_names

MOST_ROWS, FEWEST_ROWS = 50_000, 20
MOST_DENSE = 10_000_000  # entries of sparse rows that are made dense


@dataclass(frozen=True)
class Rows:
    """Rows and their targets.

    Attributes
    ----------
    X : array, sparse matrix or narwhals data frame of shape (n, d)
    y : array of shape (n,)
    names : tuple of d str
    numbers : array of shape (n,)
        Where the rows are among those that were given.
    n_given : int
    """

    X: Any
    y: NDArray
    names: tuple[str, ...]
    numbers: NDArray
    n_given: int

    @classmethod
    def of(cls, X: Any, y: Any, model: Any) -> Rows:
        """Rows as they are given, at most 50,000 of them; ValueError for targets that are no single column."""
        framed = is_frame(X)
        X = nw.from_native(X, eager_only=True) if framed else checked_sparse(X) if sp.issparse(X) else np.asarray(X)
        given = nw.from_native(y, series_only=True).to_numpy() if is_into_series(y) else np.asarray(y)
        if given.ndim == 2 and given.shape[1] == 1:
            given = given[:, 0]
        if given.ndim != 1 or len(given) != X.shape[0]:
            raise ValueError(
                f"A report is about one target of each row; y has shape {given.shape} and X {X.shape[0]:,} rows."
            )
        n = len(given)
        if n < FEWEST_ROWS:
            raise ValueError(f"A report needs {FEWEST_ROWS} rows or more to judge the model by, got {n}.")
        known = X.columns if framed else getattr(model, "feature_names_in_", None)
        whole = cls(X.tocsr() if sp.issparse(X) else X, given, tuple(column_names(known, X.shape[1])), np.arange(n), n)
        return whole.some(MOST_ROWS, 0)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def native(self) -> Any:
        """The rows as the model takes them."""
        return self.X.to_native() if isinstance(self.X, nw.DataFrame) else self.X

    def take(self, where: NDArray) -> Rows:
        """Rows by their positions."""
        return replace(self, X=self.X[where, :], y=self.y[where], numbers=self.numbers[where])

    def some(self, most: int, seed: int) -> Rows:
        """At most so many rows, drawn at random, in their order."""
        if len(self) <= most:
            return self
        return self.take(np.sort(np.random.default_rng(seed).choice(len(self), most, replace=False)))

    @cached_property
    def dense(self) -> Rows | None:
        """The same with dense rows; None where they would be too large."""
        if not sp.issparse(self.X):
            return self
        return None if np.prod(self.X.shape) > MOST_DENSE else replace(self, X=self.X.toarray())

    def column(self, j: int) -> list[Any]:
        """Values of a column; None where one is missing."""
        if isinstance(self.X, nw.DataFrame):
            return [None if value != value else value for value in self.X[:, j].to_list()]
        values = self.X[:, [j]].toarray()[:, 0] if sp.issparse(self.X) else self.X[:, j]
        return list(values.tolist())

    def with_value(self, j: int, source: Rows, row: int) -> Rows:
        """The same rows, dense, all of which have the value that a row of another table has in column `j`."""
        if isinstance(self.X, nw.DataFrame):
            same = source.X[:, j][[row] * len(self)]
            return replace(self, X=self.X.with_columns(same.alias(self.X.columns[j])))
        X = self.X.copy()
        X[:, j] = source.X[row, j]
        return replace(self, X=X)
