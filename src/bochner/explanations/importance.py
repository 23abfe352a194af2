"""Permutation importance: how much the loss of a model grows when rows get the values
of a column from other rows.

For a column j it is the mean of L(y, f(x')) - L(y, f(x)) over pairs of rows, x' being x
with column j of the other row (Breiman, "Random Forests", Machine Learning 2001;
Fisher, Rudin and Dominici, "All Models are Wrong, but Many are Useful", JMLR 2019). For
the squared error and a function a_j x_j + g(other columns), with x_j independent of the
other columns, it is 2 a_j^2 var(x_j).

Each pair depends on two rows, the one that is scored and the one that lends the value.
The standard error counts both: the terms of each row, in either part, are summed and
squared, less the squares of the single terms, which are then in two sums (dyadic
clustering: Aronow, Samii and Assenova, Political Analysis 2015). For independent rows
this is unbiased for the variance over rows and permutations together.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.arrays import Floats, Indices
from bochner.data.table_input import as_dense
from bochner.features.base import Rows
from bochner.markup import cut_named, named_shares, number, percent, table

MOST_SHOWN = 20  # columns of a table
HEAD = "column", "growth of the loss", "standard error", "share of the total"
RowLosses = Callable[[Rows, Indices], Floats]


@dataclass(frozen=True, repr=False)
class Importance:
    """Permutation importance of the columns: how much the mean loss grows when a column
    is permuted.

    It says what the model uses. Of columns that tell the same, each may seem
    unimportant, because the model can use the other one; and a permuted row may be one
    that does not occur.

    Attributes
    ----------
    names : tuple of str
        Of the columns as they were given, categories and dates whole.
    values : array of shape (d,)
        Growth of the mean loss, in units of the loss; by chance below zero for columns
        without effect.
    errors : array of shape (d,)
        Standard errors of the values, over rows and permutations.
    loss : str
        Name of the loss.
    baseline : float
        Mean loss with no column permuted.
    n_rows, n_repeats : int
        Rows, and permutations of each column.
    rows : str
        Which rows these are.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import KernelMachineRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = KernelMachineRegressor("gaussian", random_state=0).fit(X[:350], y[:350])
    >>> found = model.importance(X[350:], y[350:], random_state=0)
    >>> sorted(name for name, _ in found.top_columns(3))
    ['bmi', 'bp', 's5']
    """

    names: tuple[str, ...]
    values: Floats
    errors: Floats
    loss: str
    baseline: float
    n_rows: int
    n_repeats: int
    rows: str = "rows"

    @property
    def total(self) -> float:
        """The sum of the positive values, of which the shares are; 1 where no column
        has one.
        """
        return float(np.maximum(self.values, 0.0).sum() or 1.0)

    @property
    def shares(self) -> Floats:
        """Values clipped at zero and divided by their sum, shape (d,); zero where no
        column has a positive value.
        """
        return np.maximum(self.values, 0.0) / self.total

    def top_columns(self, most: int = 5) -> list[tuple[str, float]]:
        """Names and shares of the most important columns, the first one first; only
        positive ones.

        Parameters
        ----------
        most : int, default=5
        """
        first = self._records()[:most]
        return [(one["column"], one["share"]) for one in first if one["share"] > 0]

    def share_errors(self) -> Floats:
        """Standard errors of the values, divided by what the shares are: shape (d,)."""
        return self.errors / self.total

    def headline(self, most: int = 5) -> str:
        """The most important columns in words, each with its share and standard error.

        Parameters
        ----------
        most : int, default=5
        """
        errors = dict(zip(self.names, self.share_errors(), strict=True))
        return ", ".join(named_shares(dict(self.top_columns(most)), errors))

    def to_frame(self) -> Any:
        """A pandas data frame with a row for each column, the most important first.

        Its columns are column, importance, standard_error and share.
        """
        from pandas import DataFrame

        return DataFrame(self._records())

    def to_json(self) -> str:
        """The record as a JSON object: facts, and under "columns" a list of objects,
        the most important first.
        """
        names = "loss", "baseline", "rows", "n_rows", "n_repeats"
        whole = {name: getattr(self, name) for name in names}
        whole["columns"] = self._records()
        return json.dumps(whole, allow_nan=False, indent=2)

    def plot(
        self, ax: Any = None, *, max_columns: int = MOST_SHOWN, **kwargs: Any
    ) -> Any:
        """Draw the shares of the total as bars with 95 % intervals, the most important
        column on top.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        max_columns : int, default=20
            Of more columns the most important are drawn.
        **kwargs
            As of `ImportanceDisplay.plot`.

        Returns
        -------
        ImportanceDisplay
        """
        from bochner.display import ImportanceDisplay

        return ImportanceDisplay.from_importance(self, max_columns=max_columns).plot(
            ax, **kwargs
        )

    def __repr__(self) -> str:
        first = ", ".join(
            f"{name} {percent(share)}" for name, share in cut_named(self.top_columns(3))
        )
        return f"Importance({self._facts()}; {first or 'no column matters'})"

    def __str__(self) -> str:
        rows = [HEAD, *self._cells()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([f"Importance: {self._facts()}", *lines])

    def _repr_html_(self) -> str:
        return table(f"Importance: {self._facts()}", HEAD, self._cells())

    def _facts(self) -> str:
        """The loss and what it was measured on."""
        facts = (
            f"{self.loss} {number(self.baseline)} on {self.n_rows:,} {self.rows}, "
            f"{self.n_repeats} permutation{'s' * (self.n_repeats != 1)} of each column"
        )
        if len(self.names) > MOST_SHOWN:
            facts += f", {MOST_SHOWN} of {len(self.names):,} columns"
        return facts

    def _cells(self) -> list[tuple[str, ...]]:
        """Rows of the table."""
        first = [tuple(one.values()) for one in self._records()[:MOST_SHOWN]]
        return [
            (name, number(value), number(error), percent(share))
            for name, value, error, share in cut_named(first)
        ]

    def _records(self) -> list[dict[str, Any]]:
        """Name, value, standard error and share of each column, the most important
        first.
        """
        shares = self.shares.tolist()
        return [
            {
                "column": self.names[j],
                "importance": self.values[j],
                "standard_error": self.errors[j],
                "share": shares[j],
            }
            for j in np.argsort(-self.values, kind="stable")
        ]


def growths(
    losses: RowLosses,
    X: Any,
    weight: NDArray,
    sources: Indices,
    n_columns: int,
    n_repeats: int,
    seed: int,
) -> tuple[Floats, Floats, float]:
    """Growth of the mean loss when a column is permuted, its standard error, both of
    shape (d,); and the mean loss.

    A pair of rows with the same value of the column has no term, and its loss is not
    computed.

    Parameters
    ----------
    losses : callable (rows, numbers of shape (m,)) -> array of shape (m,)
        Losses of encoded rows, which have the targets of the rows of X with these
        numbers.
    X : array or CSR matrix of shape (n, D)
        Encoded rows, n of 2 or more.
    weight : array of shape (n,)
        Positive.
    sources : int array of shape (D,)
        Column of the input of each encoded column; those of one column are permuted
        together.
    n_columns : int
        Columns of the input.
    n_repeats : int
    seed : int
    """
    n = X.shape[0]
    share = weight / weight.sum()
    rng = np.random.default_rng(seed)
    base = losses(X, np.arange(n))
    lenders = np.stack([derangement(share, rng) for _ in range(n_repeats)])
    values = np.zeros(n_columns)
    errors = np.zeros(n_columns)
    of_columns = X.tocsc() if sp.issparse(X) else X
    order = np.argsort(sources, kind="stable")
    edges = np.searchsorted(sources[order], np.arange(n_columns + 1))
    for j in range(n_columns):
        encoded_columns = order[edges[j] : edges[j + 1]]
        part = as_dense(of_columns[:, encoded_columns])
        repeat, row = np.nonzero((part[lenders] != part).any(axis=2))
        if not len(row):
            continue
        rows = _replaced(X, row, encoded_columns, part[lenders[repeat, row]])
        growth = np.zeros(lenders.shape)
        growth[repeat, row] = losses(rows, row) - base[row]
        values[j] = (growth @ share).mean()
        terms = share * (growth - values[j]) / n_repeats
        sums = terms.sum(axis=0) + np.bincount(lenders.ravel(), terms.ravel(), n)
        single = np.square(terms).sum()
        errors[j] = np.sqrt(max(np.square(sums).sum() - single, single))
    return values, errors, float(share @ base)


def derangement(share: NDArray, rng: np.random.Generator) -> Indices:
    """The row that lends its value to each row, shape (n,): a random cycle, in which no
    row lends to itself.

    Of unequal shares of the weight each row lends in proportion to its own, rounded up
    or down.
    """
    n = len(share)
    lenders = np.arange(n)
    order = rng.permutation(n)
    if np.ptp(share) > 0:
        ends = np.cumsum(share[order])
        places = (rng.uniform() + lenders) / n * ends[-1]
        lenders = order[np.minimum(np.searchsorted(ends, places), n - 1)]
        order = rng.permutation(n)
    row_lenders = np.empty(n, np.intp)
    row_lenders[order] = lenders[np.roll(order, 1)]
    return row_lenders


def _replaced(X: Any, rows: Indices, columns: Indices, values: NDArray) -> Rows:
    """Some of the rows, with other values, shape (m, k), in some of the columns."""
    replaced_rows = X[rows]
    if not sp.issparse(replaced_rows):
        replaced_rows[:, columns] = values
        return replaced_rows
    indices = replaced_rows.indices
    replaced_rows.data[np.isin(indices, columns)] = 0.0
    m, k = values.shape
    places = (
        np.repeat(np.arange(m, dtype=indices.dtype), k),
        np.tile(columns.astype(indices.dtype), m),
    )
    other = sp.csr_array((values.ravel(), places), shape=replaced_rows.shape)
    other.eliminate_zeros()
    replaced_rows.eliminate_zeros()
    return replaced_rows + other
