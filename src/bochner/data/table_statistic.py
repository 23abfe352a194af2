"""Counts, moments and categories of the columns of a table, which decide its encoding,
as a sum over its rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import iadd
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.sparsefuncs import mean_variance_axis, min_max_axis

from bochner.blocks import BLOCK_ENTRIES
from bochner.data.columns import (
    as_written,
    base_kind,
    column_name,
    missing,
    parts_of,
    read_column,
    require_finite,
    table_columns,
)
from bochner.data.table_input import checked_matrix, require_width
from bochner.data.written_values import written_kind
from bochner.notices import warn

LARGE = 2.0**49  # from which on different integers may count as equal
WHY = "integers differ only in digits that floating-point numbers drop at their size"


def is_constant(low: Any, high: Any) -> Any:
    """Whether the extremes of a variable are equal but for rounding."""
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.maximum(np.abs(low), np.abs(high))
        return ~(high - low > 4 * np.finfo(np.float64).eps * size)


def floats_of_targets(y: NDArray) -> NDArray:
    """Targets in double precision; a warning where they are different integers that
    are equal there.
    """
    values = y.astype(np.float64, copy=False)
    if y.dtype.kind in "iu" and y.size:
        differ = y.min(axis=0) < y.max(axis=0)
        if np.any(differ & (values.min(axis=0) == values.max(axis=0))):
            warn(f"A target counts as constant: its {WHY}; subtract the least of them.")
    return values


def heaviest(counts: dict[str, float], most: int) -> tuple[dict[str, float], float]:
    """The categories that are heavier than the one of rank `most + 1`, less its weight,
    and that weight.

    What is taken off is taken off at least `most + 1` times, so that all that is lost
    of one count, in any number of such steps and sums, is at most the total weight over
    ``most + 1`` (Misra & Gries, 1982; that sums of such counts keep the bound: Agarwal
    et al., "Mergeable summaries", 2012, theorem 1).
    """
    weights = np.fromiter(counts.values(), np.float64, len(counts))
    place = len(weights) - most - 1
    lost = float(np.partition(weights, place)[place])
    return {key: weight - lost for key, weight in counts.items() if weight > lost}, lost


DIGITS = 32
"""Binary ones, to which sums over parts are rounded."""

MOST_CATEGORIES = 1 << 20
"""Categories of a column that are counted."""


@dataclass
class Summary:
    """Weighted moments and extremes of several variables, NaN being missing.

    Two summaries add by Chan, Golub & LeVeque (1983), equation 2.1: with weights u and
    v, means m and m + d, and sums of squared deviations s and t, the union has weight u
    + v, mean m + d v / (u + v) and squares s + t + d^2 u v / (u + v). Within a block,
    equation 1.7: what rounding leaves of the sum of the deviations corrects the mean
    and the squares.

    Attributes
    ----------
    weight, mean, squares, low, high : float64 arrays of shape (q,)
        Sum of weights, mean, sum of squared deviations, least and greatest value.
    many : bool array of shape (q,)
        Whether some value lies between `low` and `high`: there are more than two
        distinct ones.
    """

    weight: NDArray
    mean: NDArray
    squares: NDArray
    low: NDArray
    high: NDArray
    many: NDArray

    @classmethod
    def empty(cls, q: int) -> Summary:
        """Summary of no rows."""
        zero, infinite = np.zeros(q), np.full(q, np.inf)
        return cls(zero, zero, zero, infinite, -infinite, zero > 0)

    @classmethod
    def of(cls, values: NDArray, weight: NDArray) -> Summary:
        """Summary of finite or missing float64 `values` of shape (n, q), with
        positive weights of shape (n,).
        """
        from bochner.loops.vectors import column_moments

        values, weight = (
            np.require(A, np.float64, ["C", "W"]) for A in (values, weight)
        )
        weights, mean, residual, squares = np.zeros((4, values.shape[1]))
        low, high = np.full_like(mean, np.inf), np.full_like(mean, -np.inf)
        many = np.zeros_like(mean, bool)
        column_moments(
            values, weight, weights, mean, residual, squares, low, high, many
        )
        return cls(weights, mean, squares, low, high, many)

    def __add__(self, other: Summary) -> Summary:
        weight = self.weight + other.weight
        share = _ratio(other.weight, weight)
        with np.errstate(over="ignore", invalid="ignore"):
            step = other.mean - self.mean
            squares = self.squares + other.squares + step**2 * self.weight * share
            mean = self.mean + step * share
        low = np.minimum(self.low, other.low)
        high = np.maximum(self.high, other.high)
        extremes = np.stack([self.low, self.high, other.low, other.high])
        is_between = ((extremes > low) & (extremes < high)).any(axis=0)
        many = self.many | other.many | is_between
        return Summary(weight, mean, squares, low, high, many)

    def rounded(self) -> Summary:
        """A summary of 32 binary digits of each moment: those that the order of
        additions does not change, as a rule.

        Means are rounded on the scale of their variable; variables of one value stay as
        they are.
        """
        varies = (self.low < self.high) & np.isfinite(self.squares)
        spread = np.sqrt(_ratio(self.squares, self.weight))
        mean = rounded(self.mean, np.abs(self.mean) + spread)
        squares = rounded(self.squares, self.squares)
        return replace(
            self,
            weight=rounded(self.weight, self.weight),
            mean=np.where(varies, mean, self.mean),
            squares=np.where(varies, squares, self.squares),
        )

    def take(self, part: Any) -> Summary:
        """Summary of some of the variables."""
        return Summary(*(array[part] for array in vars(self).values()))


def rounded(values: Any, scale: Any) -> Any:
    """Values as multiples of the 2^-32th part of the power of two above their scale;
    finite ones.
    """
    unit = np.ldexp(1.0, np.frexp(scale)[1] - DIGITS)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(unit > 0, np.rint(values / unit) * unit, values)


def _ratio(sums: NDArray, weight: NDArray) -> NDArray:
    """Sums over weights; 0 without any weight."""
    return np.divide(sums, weight, out=np.zeros_like(weight), where=weight > 0)


def _stack(summaries: Sequence[Summary]) -> Summary:
    """Summary of the variables of all `summaries`."""
    parts = zip(*(vars(one).values() for one in summaries), strict=True)
    return Summary(*map(np.concatenate, parts))


@dataclass
class TableStatistic:
    """Statistic of a block of rows; the statistic of two blocks is the sum of theirs.

    Rows of weight zero do not count at all.

    Attributes
    ----------
    rows : int
        Rows that count.
    kinds : list of str, one per column
        Keys of `PARTS`. A column without any value yet merges with every kind.
    names : list of str or None
        Column names, for errors.
    sparse : bool
    missing : int array, one per column
        Rows without a value; `rows - missing` have one.
    summary : Summary
        Of the parts of all columns, in order.
    categories : dict of str to dict of str to float
        Weight of every category of a column of text, by the column's number. In sums of
        blocks with more than 2^20 categories, only the heaviest of such a column; their
        weights may be too small.
    undercounts : dict of str to float
        For such columns, by how much each weight may be too small at most, also that of
        a category that is left out: at most the sum of all weights over 2^19.
    declared : list of str
        Numbers of columns of text whose type says that they are categories.
    """

    rows: int
    kinds: list[str]
    names: list[str] | None
    sparse: bool
    missing: NDArray
    summary: Summary
    categories: dict[str, dict[str, float]]
    undercounts: dict[str, float] = field(default_factory=dict)
    declared: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        X: Any,
        sample_weight: NDArray | None = None,
        *,
        kinds: Sequence[str | None] | None = None,
    ) -> TableStatistic:
        """Statistic of one block of rows.

        Parameters
        ----------
        X : data frame, array or sparse matrix of shape (n, p)
        sample_weight : array of shape (n,), optional
            Not negative.
        kinds : sequence of str or None, optional
            Kinds that earlier blocks had.

        Raises
        ------
        MemoryError
            Where there are more columns than memory holds figures of.
        """
        n, p = X.shape
        require_width(p)
        weight = np.ones(n) if sample_weight is None else sample_weight
        weight = np.asarray(weight, np.float64)
        counted = weight > 0
        rows = int(np.count_nonzero(counted))
        all_rows = rows == n
        keep = slice(None) if all_rows else counted
        gaps = np.zeros(p, np.int64)
        if sp.issparse(X):
            X = checked_matrix(X.tocsr())
            if not all_rows:
                X, weight = X[counted], weight[counted]
            if not X.has_canonical_format:
                X = X.copy()
                X.sum_duplicates()
            summary = Summary.empty(p)
            if rows:
                X = X.astype(np.float64)
                weights = np.full(p, weight.sum())
                with np.errstate(over="ignore", invalid="ignore"):
                    mean, variance = mean_variance_axis(X, axis=0, weights=weight)
                    squares = variance * weights
                low, high = min_max_axis(X, axis=0)
                has_zeros = np.bincount(X.indices, minlength=p) < rows
                is_between = (X.data > low[X.indices]) & (X.data < high[X.indices])
                many = np.bincount(X.indices, is_between, p) > 0
                many |= has_zeros & (low < 0.0) & (high > 0.0)
                summary = Summary(weights, mean, squares, low, high, many)
            return cls(rows, ["number"] * p, None, True, gaps, summary, {})
        is_matrix = isinstance(X, np.ndarray) and X.dtype.kind in "biuf"
        if is_matrix and not (kinds and "mixed" in kinds):
            # Numbers, a block of rows after the other
            summary = Summary.empty(p)
            step = max(1, BLOCK_ENTRIES // p)
            for start in range(0, n, step):
                block = slice(start, start + step)
                values = X[block].astype(np.float64, order="C")
                require_finite(values, None, start)
                if not all_rows:
                    values = values[counted[block]]
                gaps += np.isnan(values).sum(axis=0)
                summary += Summary.of(values, weight[block][counted[block]])
            return cls(rows, ["number"] * p, None, False, gaps, summary, {})
        # Columns that differ in kind, one after the other
        columns, names = table_columns(X)
        weight = weight[keep]
        column_kinds = []
        parts = [Summary.empty(0)]
        categories: dict[str, dict[str, float]] = {}
        declared = []
        for j, column in enumerate(columns):
            is_series = isinstance(column, nw.Series)
            if is_series and column.dtype in (nw.Categorical, nw.Enum):
                declared.append(str(j))
            expected = kinds[j] if kinds else None
            kind, values = read_column(column, column_name(names, j), expected)
            gap = missing(values)[keep]
            column_kinds.append(kind)
            gaps[j] = gap.sum()
            if not isinstance(values, tuple):
                parts.append(Summary.of(values[keep], weight))
                continue
            codes, labels = values[0][keep][~gap], values[1]
            totals = np.bincount(codes, weight[~gap], len(labels)).tolist()
            counts = categories[str(j)] = {}
            for label, total in zip(labels, totals, strict=True):
                if total > 0:
                    counts[label] = counts.get(label, 0.0) + total
        summary = _stack(parts)
        return cls(
            rows,
            column_kinds,
            names,
            False,
            gaps,
            summary,
            categories,
            declared=declared,
        )

    def __add__(self, other: TableStatistic) -> TableStatistic:
        categories = {j: dict(counts) for j, counts in self.categories.items()}
        return iadd(replace(self, categories=categories), other)

    def __iadd__(self, other: TableStatistic) -> TableStatistic:
        if len(self.kinds) != len(other.kinds) or self.sparse != other.sparse:
            raise ValueError(
                "blocks of one table must have the same width, and be all dense or "
                "all sparse"
            )
        a, b = self, other
        if a.kinds != b.kinds:
            kinds = list(a.kinds)
            for k, (mine, theirs) in enumerate(zip(a.kinds, b.kinds, strict=True)):
                if mine == theirs or b.missing[k] == b.rows:
                    continue
                if a.missing[k] == a.rows:
                    kinds[k] = theirs
                elif {mine, theirs} == {"text", "mixed"}:
                    kinds[k] = "mixed"
                else:
                    raise ValueError(
                        f"column {a.name(k)!r} holds {theirs} values where the fit saw "
                        f"{mine} values"
                    )
            a, b = a._as_kinds(kinds), b._as_kinds(kinds)
        self.kinds, self.categories = a.kinds, a.categories
        self.rows = a.rows + b.rows
        self.missing = a.missing + b.missing
        self.summary = a.summary + b.summary
        for j, lost in other.undercounts.items():
            self._lose(j, lost)
        self.declared = sorted({*self.declared, *other.declared})
        for j, weights in b.categories.items():
            counts = self.categories.setdefault(j, {})
            for category, weight in weights.items():
                counts[category] = counts.get(category, 0.0) + weight
        self.keep_heaviest(MOST_CATEGORIES)
        return self

    def keep_heaviest(self, most: int) -> None:
        """Keep half of `most` categories of each column that has more than `most`,
        and note what their counts lack.
        """
        for j, counts in self.categories.items():
            if len(counts) > most:
                self.categories[j], lost = heaviest(counts, most // 2)
                self._lose(j, lost)

    def _lose(self, j: str, weight: float) -> None:
        """Note that counts of a column may be too small by so much more."""
        lost = self.undercounts.get(j, 0.0) + weight
        self.undercounts = self.undercounts | {j: lost}

    def with_written(
        self, as_text: Collection[int], day_first: bool | None
    ) -> TableStatistic:
        """A statistic whose columns of text that hold dates or numbers are such; a
        warning says so.

        Parameters
        ----------
        as_text : collection of int
            Numbers of columns that stay text, as those that are declared categories.
        day_first : bool or None
            As of `written_kind`.
        """
        stay = {*map(str, as_text), *self.declared}
        kinds = list(self.kinds)
        gaps = self.missing.copy()
        read: dict[int, Summary] = {}
        categories = dict(self.categories)
        undercounts = dict(self.undercounts)
        for key, counts in self.categories.items():
            if key in stay:
                continue
            j = int(key)
            written = written_kind(counts, self.name(j), day_first)
            if written.note:
                warn(written.note)
            if written.kind == "text":
                continue
            weights = np.fromiter(counts.values(), np.float64, len(counts))
            values = as_written(np.arange(len(counts)), list(counts), written.kind)
            read[j] = Summary.of(values, weights)
            # Rows without a value, of which only the weights are known
            lost = sum(counts[value] for value in written.others) / weights.sum()
            gaps[j] += int(np.ceil(lost * (self.rows - gaps[j])))
            kinds[j] = written.kind
            del categories[key]
            undercounts.pop(key, None)
        if not read:
            return self
        parts = [read.get(j, part) for j, part in enumerate(self._parts())]
        return replace(
            self,
            kinds=kinds,
            missing=gaps,
            summary=_stack(parts),
            categories=categories,
            undercounts=undercounts,
        )

    def _parts(self) -> list[Summary]:
        """Summary of the parts of each column."""
        offsets = part_offsets(self.kinds).tolist()
        return [self.summary.take(slice(*ends)) for ends in pairwise(offsets)]

    def name(self, j: int) -> str:
        """Name of a column."""
        return column_name(self.names, j)

    def constant_columns(self) -> list[int]:
        """Numbers of columns of numbers that count as constant in double precision,
        though large integers in them may differ.
        """
        summary = self.summary
        is_suspect = is_constant(summary.low, summary.high)
        is_suspect &= np.abs(summary.low) >= LARGE
        offsets = part_offsets(self.kinds)
        columns = np.searchsorted(offsets, np.flatnonzero(is_suspect), side="right") - 1
        return [j for j in columns.tolist() if base_kind(self.kinds[j]) == "number"]

    def expected(self) -> list[str | None]:
        """Kind of each column, None where no value has been seen."""
        has = (self.missing < self.rows).tolist()
        return [
            kind if seen else None for kind, seen in zip(self.kinds, has, strict=True)
        ]

    def _as_kinds(self, kinds: list[str]) -> TableStatistic:
        """A statistic whose columns without values are turned into columns of
        other kinds.
        """
        parts = [
            summary
            if parts_of(old) == parts_of(new)
            else Summary.empty(len(parts_of(new)))
            for summary, old, new in zip(self._parts(), self.kinds, kinds, strict=True)
        ]
        texts = [str(j) for j, kind in enumerate(kinds) if not parts_of(kind)]
        categories = {j: self.categories.get(j, {}) for j in texts}
        return replace(self, kinds=kinds, summary=_stack(parts), categories=categories)


def part_offsets(kinds: Sequence[str]) -> NDArray:
    """First part of each column, and their number: int array of shape (p + 1,)."""
    return np.cumsum([0, *(len(parts_of(kind)) for kind in kinds)])


# Of a common unit: columns, and the share of them and of the greatest value
FEWEST_COLUMNS, NEAR = 16, 0.5


def has_common_unit(statistic: TableStatistic) -> bool:
    """Whether all columns are numbers in one unit, as pixels and counts are, so that
    none is to be scaled by itself.

    There are many columns, with the same least value, and half of them reach half of
    the greatest one.
    """
    summary = statistic.summary
    varies = summary.low < summary.high
    if (
        set(map(base_kind, statistic.kinds)) - {"number"}
        or varies.sum() < FEWEST_COLUMNS
        or statistic.missing.any()
    ):
        return False
    low = summary.low[varies]
    high = summary.high[varies]
    return bool(
        (low == low[0]).all()
        and np.mean(high - low[0] >= NEAR * (high.max() - low[0])) >= NEAR
    )
