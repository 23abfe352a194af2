"""Encodes tables of numbers, text and dates as matrices, on whose rows
shift-invariant kernels make sense.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from numbers import Integral
from types import NoneType
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_n_features,
    check_is_fitted,
    validate_data,
)

from bochner.arrays import Floats
from bochner.data.array_source import rows_of
from bochner.data.columns import (
    are_finite,
    column_number,
    is_missing,
    library_of,
    read_column,
    require_finite,
    text_codes,
    unique_names,
)
from bochner.data.encodings import (
    CodeColumn,
    Encoding,
    NumberColumns,
    TextColumn,
    TimeColumn,
    encodings,
    laid_out,
)
from bochner.data.hashes import row_hashes, uniform
from bochner.data.level_means import (
    MOST_CODES,
    MOST_OUTPUTS,
    are_codes,
    level_means,
    level_variances,
    levels_differ,
    may_be_codes,
    order_test,
)
from bochner.data.outliers import (
    FARTHEST,
    MOST_OUTLYING,
    drawn,
    farthest_fences,
    stand_in_for_missing,
)
from bochner.data.table_input import (
    IMPUTE,
    as_table_or_matrix,
    require_names,
)
from bochner.data.table_statistic import (
    WHY,
    Summary,
    TableStatistic,
    part_offsets,
)
from bochner.data.weights import checked_weight
from bochner.data.written_values import WRITTEN, is_whole_number
from bochner.notices import listed, warn

FEW_GAPS = 10  # missing values of a column of text, fewer of which tell nothing
# Rows that may seem to be numbered, and what share of the numbers from the first to the
# last they then are
FEWEST_NUMBERED, NUMBERED = 20, 0.6
MEAN_FOLDS = 5  # of the rows that mean targets are learned from
# Rows a level, of the levels that have columns or of those that have mean targets, with
# fewer of which new levels are usual
ROWS_A_LEVEL, ROWS_A_MEAN = 2, 3
# Rows of a level, from which it may matter together with other columns alone: where
# levels have columns of their own, and where they share codes
INTERACTING, INTERACTING_CODED = 5, 20
# Numeric columns, as pictures have more; rows that tell codes from numbers
MOST_CODED, CODE_ROWS = 100, 20_000
FEW_ROWS = 100  # that are no work for threads, and are checked at once
NUMBERS = frozenset({bool, int, float, NoneType})  # types of values of polars
# Of numbers that no array of NumPy holds
WIDE_TYPES = nw.Decimal, nw.Int128, nw.UInt128


@dataclass(frozen=True, eq=False)
class TargetRows:
    """Rows with targets, of which an encoder learns what levels and codes tell.

    Attributes
    ----------
    X : array, sparse matrix or data frame of shape (n, p)
    y : array of shape (n, K)
    weight : array of shape (n,) or None
    seed : int
        Of the folds, and of the rows that tell codes from numbers.
    given_fold : int array of shape (n,), optional
        In the place of the folds that the content of the rows decides.
    """

    X: Any
    y: NDArray
    weight: NDArray | None = None
    seed: int = 0
    given_fold: NDArray | None = None

    @cached_property
    def hashes(self) -> NDArray:
        """Hashes of the content of the rows, shape (n,)."""
        return row_hashes(self.X)

    @cached_property
    def fold(self) -> NDArray:
        """The fold of each row, shape (n,)."""
        if self.given_fold is not None:
            return self.given_fold
        return _folds(self.hashes, self.seed)

    @cached_property
    def distinct_weight(self) -> NDArray:
        """Weights of rows, whose sum is the number of distinct ones."""
        return _in_distinct_rows(self.weight, self.hashes)


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode a table as a float32 matrix, so that distances between rows are
    meaningful.

    Numbers are standardised. Booleans, and numbers with two distinct values, become 0
    and 1. Each frequent string or category becomes a 0/1 column, and rare ones a random
    code. Dates and datetimes become days since 1970 and points on the circles of the
    year, the week and, for datetimes, the day. Durations become seconds, and times of
    day points on a circle. Times with a zone are read as clocks show them in the zone
    of the fit, whatever the zone of later rows.

    Text is read as people write it where that is certain: dates such as 31/12/2017,
    1-Dec-17, December-2017 and 8/31/2015 01:19 PM where all values of a column have one
    order of day, month and year; and numbers such as 23.4 kg, $2,399, 5 %, 1.200,50 and
    (3.2) where nine tenths of the values are numbers of one unit. The other values of
    such a column, and words such as ?, - and n/a, count as missing. A warning says so.
    Later rows are read in the same way, and ISO dates too. Columns of numbers and dates
    may come as text later: a warning names values that are none, which count as
    missing, and where most are none the column is refused.

    A missing number or date becomes the mean of its column (a point on a circle: its
    centre) and, if the fit saw one, a 1 in an extra column `<name>_missing`. A missing
    category is a category. Columns without any value in the fit, and circles with a
    single point in the fit, have no output. A number that was the same in all rows of
    the fit becomes 0, even if it differs later (unless with_std=False). Numbers whose
    squares overflow or underflow, such as 1e200, are scaled by their range.

    The text of a level is its identity, but for blanks at its end. Whole
    numbers have one text in every type, so that 1.0 is 1. Numbers count as levels where
    levels of the fit are numbers, and False and True are 0 and 1 where the fit saw no
    others. A warning shows a level where most values of a column are levels that the
    fit did not see (of columns with rare categories only in fitted machines, for which
    such a level counts as one of mean effect), and names columns that have missing
    values now and had none in the fit.

    Sparse input stays sparse: it is scaled but not centred, which shift-invariant
    kernels do not notice. With one seed, the grids of bins lie elsewhere on sparse rows
    than on dense ones, but follow the same distribution.

    Parameters
    ----------
    with_std : bool, default=True
        Whether to scale numeric columns. Otherwise they are only centred, including
        those with two values.
    max_categories : int, default=100
        Number of most frequent categories kept per column. All others, including those
        that the fit did not see, share a column `<name>_other` and are distinguished by
        16 columns `<name>_code0` to `<name>_code15`.
    text_features : sequence of int or str, "all" or None, default=None
        Columns, by number or name, whose text is never read as dates or numbers; "all"
        for all columns. Columns of a categorical type are not in any case.
    day_first : bool or None, default=None
        Whether 1/2/2017 is in February where all dates of a column may have days or
        months first. None takes the order in which the rows are sorted, and else leaves
        the column as text.

    Attributes
    ----------
    statistic_ : TableStatistic
        The statistic of all rows seen, from which the encoding follows.
    columns_ : list of NumberColumns, TextColumn, TimeColumn and CodeColumn
        The encodings.
    n_features_out_ : int
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)
        Only if the column names are strings. Other names of a data frame, such as
        numbers or dates, are compared with those of later frames too; columns numbered
        from 0 on are those of an array.

    Notes
    -----
    All categories are counted, so memory grows with the number of distinct strings of a
    column. When batches are added, at most the 2^20 heaviest are kept, and no weight is
    wrong by more than 2^-19 of the total.

    The code of a rare category is 16 bits of a hash of its text, each 0 or 1/4: a
    random projection of its 0/1 columns that needs no fit and has a bounded width. The
    mean L1 distance of two codes is 2, as for two categories that are kept; one pair in
    65,536 shares a code.

    Examples
    --------
    >>> import polars as pl
    >>> from bochner import TableEncoder
    >>> frame = pl.DataFrame(
    ...     {"size": [1.0, None, 5.0], "town": ["Bern", "Jena", "Bern"]}
    ... )
    >>> encoder = TableEncoder().fit(frame)
    >>> encoder.get_feature_names_out().tolist()
    ['size', 'size_missing', 'town_Bern', 'town_Jena']
    >>> encoder.transform(frame).tolist()
    [[0.0, 0.0, 1.0, 0.0], [0.5, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0]]
    """

    statistic_: TableStatistic
    columns_: list[Any]
    n_features_out_: int
    # Folds of rows by hashes of their content, where rows do not tell their own means
    _fold_of: Callable[[NDArray], NDArray] | None = None

    def __init__(
        self,
        *,
        with_std: bool = True,
        max_categories: int = 100,
        text_features: Any = None,
        day_first: bool | None = None,
    ):
        self.with_std = with_std
        self.max_categories = max_categories
        self.text_features = text_features
        self.day_first = day_first

    @classmethod
    def of(cls, statistic: TableStatistic, **parameters: Any) -> TableEncoder:
        """Return the encoder that `fit` would learn from the rows of a statistic.

        Parameters
        ----------
        statistic : TableStatistic
            Statistic of at least one row; its names are those of the columns.
        **parameters
            Parameters of the constructor.

        Raises
        ------
        ValueError
            As in `fit`.
        """
        encoder = cls(**parameters)
        encoder.n_features_in_ = len(statistic.kinds)
        if statistic.names is not None:
            encoder.feature_names_in_ = np.array(statistic.names, dtype=object)
        return encoder._begin(statistic)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> TableEncoder:
        """Learn the encoding.

        Parameters
        ----------
        X : data frame, array or sparse matrix of shape (n, p)
            pandas, polars or Arrow tables; arrays of numbers, strings or objects.
        y : ignored
        sample_weight : array of shape (n,), optional
            A weight of w counts as w equal rows.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            For columns that are neither numbers, text nor dates.
        ValueError
            For empty tables, repeated column names, infinite and complex numbers.
        """
        for name in ("statistic_", "columns_"):
            self.__dict__.pop(name, None)
        return self.partial_fit(X, y, sample_weight)

    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None
    ) -> TableEncoder:
        """Add rows to those already seen; parameters as in `fit`."""
        if not isinstance(self.max_categories, Integral) or self.max_categories < 1:
            raise ValueError(
                "max_categories must be an integer of at least 1, got "
                f"{self.max_categories!r}"
            )
        before = getattr(self, "statistic_", None)
        X = as_table_or_matrix(X)
        validate_data(self, X, reset=before is None, skip_check_array=True)
        weight = checked_weight(sample_weight, X)
        if before is None:
            self._begin(TableStatistic.of(X, weight))
        else:
            require_names(before.names, X)
            new = TableStatistic.of(X, weight, kinds=before.expected())
            self._settle(before + new)
        self.caution(X, weight)
        return self

    def caution(self, X: Any, weight: NDArray | None) -> None:
        """Warn of columns of different integers that count as constant, or lie close
        together, as numbers of rows do; the latter of no column that is alone.

        Parameters
        ----------
        X : data frame, array or sparse matrix of shape (n, p)
        weight : array of shape (n,) or None
        """
        n = X.shape[0]
        rows = np.arange(n) if weight is None else np.flatnonzero(weight)
        for j in self.statistic_.constant_columns():
            column = column_values(X, j)[rows]
            if isinstance(column, nw.Series) and column.dtype == nw.Object:
                column = column.to_numpy()
            if isinstance(column, nw.Series):
                are_whole = column.dtype.is_integer()
            elif column.dtype == object:
                column = np.array([one for one in column if isinstance(one, int)], "O")
                are_whole = len(column) > 0
            else:
                are_whole = column.dtype.kind in "iu"
            if are_whole and column.min() < column.max():
                warn(
                    f"Column {self.statistic_.name(j)!r} counts as constant: its {WHY};"
                    " subtract the least of them, or give the column as text."
                )
        is_small = len(rows) < FEWEST_NUMBERED or X.shape[1] == 1
        if is_small or sp.issparse(X) or not self._encodings(NumberColumns):
            return
        index = self.columns_[0].index
        samples, summary = self._samples_of_numbers(X, rows)
        is_close = summary.high - summary.low < len(rows) / NUMBERED
        for i in np.flatnonzero(is_close):
            j = index[i]
            values = np.unique(samples[:, i])
            are_different = len(values) == len(samples)
            is_number = self.statistic_.kinds[j] == "number"
            if is_number and are_different and (values == np.round(values)).all():
                warn(
                    f"Column {self.statistic_.name(j)!r} seems to number the rows, and "
                    "new rows lie beyond: leave it out (--exclude in the command), "
                    "unless it stands for time."
                )

    def _samples_of_numbers(self, X: Any, rows: NDArray) -> tuple[NDArray, Summary]:
        """Values of the columns of numbers in some of the rows, and what all rows said
        of them.
        """
        index = self.columns_[0].index
        # Differences of booleans and of small integers would not be numbers
        samples = self._numbers_of(rows_of(X, drawn(rows)), index).astype(np.float64)
        offsets = part_offsets(self.statistic_.kinds)[index]
        return samples, self.statistic_.summary.take(offsets)

    def forget_categories(self) -> None:
        """Drop the counts of categories, which only `partial_fit` needs; the encoding
        does not change.

        A saved model then holds no text of the table except the names of columns and of
        the kept categories.
        """
        self.statistic_ = replace(
            self.statistic_, categories={key: {} for key in self.statistic_.categories}
        )

    def without_outliers(
        self, X: Any, weight: NDArray | None, keeps_far: bool = False
    ) -> TableEncoder:
        """Take units of numbers from the others where some lie so far away that all
        others would look equal; without units, the median is the origin there.

        Parameters
        ----------
        X : data frame, array or sparse matrix of shape (n, p)
        weight : array of shape (n,) or None
        keeps_far : bool, default=False
            Whether these stay as far as they are, and values of columns that were
            constant differ, as where what is far is looked for. Else they count as the
            nearest of the others, with a warning, and constant columns as nothing.
        """
        if sp.issparse(X) or not self._encodings(NumberColumns):
            return self
        numbers, *others = self.columns_
        weight = np.ones(X.shape[0]) if weight is None else weight
        counted = weight > 0
        samples, summary = self._samples_of_numbers(X, np.flatnonzero(counted))
        low, high = farthest_fences(samples)
        reaches = (summary.low < low) | (summary.high > high)
        numbers = deepcopy(numbers)
        if not self.with_std:
            if not reaches.any():
                return self
            # Seen from a mean among far values, all others would lose their digits
            numbers.shift[reaches] = np.nanmedian(samples[:, reaches], axis=0)
            numbers.fill[reaches] = 0.0
            return self._but(columns_=[numbers, *others])
        for i, j in enumerate(numbers.index.tolist()):
            name = self.statistic_.name(j)
            stand_in = stand_in_for_missing(samples[:, i])
            if stand_in is not None:
                share = np.mean(samples[:, i] == stand_in)
                # Of few values beyond all others it is told below
                if low[i] <= stand_in <= high[i] or share > MOST_OUTLYING:
                    warn(
                        f"Column {name!r}: {stand_in:g} in {100 * share:.2g} % of the "
                        "rows stands apart from all other values; if it stands for a "
                        "missing value, make it NaN."
                    )
            if not reaches[i]:
                continue
            values = self.values_of(X, j)[:, 0]
            beyond = (values < low[i]) | (values > high[i])
            # More are no outliers, but another part of the column
            if beyond[counted].mean() > MOST_OUTLYING:
                continue
            inside = counted & ~beyond & ~np.isnan(values)
            rest = Summary.of(values[inside, np.newaxis], weight[inside])
            numbers.low[i], numbers.high[i] = rest.low[0], rest.high[0]
            numbers.shift[i] = rest.mean[0]
            numbers.scale[i] = np.sqrt(rest.squares[0] / rest.weight[0]) or 1.0
            numbers.fill[i] = 0.0
            # Unless they are in rows of a larger table that are not at hand
            if beyond.any() and not keeps_far:
                row = np.argmax(beyond)
                n_more = beyond.sum() - 1
                more = f", as {n_more:,} more do," if n_more else ""
                warn(
                    f"Column {name!r}: {values[row]:g}{more} lies more than "
                    f"{FARTHEST:,.0f} times the spread of the other values beyond "
                    f"them. They are from {rest.low[0]:g} to {rest.high[0]:g}, and it "
                    "counts as the nearest of these; if it stands for a missing value, "
                    "make it NaN."
                )
        if keeps_far:
            numbers = numbers.keeping_far()
        told_apart = numbers.telling_apart(samples)
        if told_apart is numbers and not numbers.has_outliers.any():
            return self
        return self._but(columns_=[told_apart, *others])

    def _encodings(self, kind: Any) -> list[Any]:
        """Encodings of one kind."""
        return [column for column in self.columns_ if isinstance(column, kind)]

    def _but(self, **changes: Any) -> TableEncoder:
        """An encoder that knows something else."""
        other = copy(self)
        other.__dict__.update(changes)
        return other

    def with_codes(self, rows: TargetRows, quantities: Any = None) -> TableEncoder:
        """Take numbers for codes of categories where few of them differ, and their mean
        targets are on no curve.

        Columns of the same numbers, as of the fields of a board, are codes together or
        not at all.

        Parameters
        ----------
        rows : TargetRows
        quantities : sequence of int or str, "all" or None
            Columns that are numbers in any case, by number or name.
        """
        refused = self.require_columns(quantities)
        if (
            sp.issparse(rows.X)
            or not self._encodings(NumberColumns)
            or rows.y.shape[1] > MOST_OUTPUTS
        ):
            return self
        numbers, *others = self.columns_
        if len(numbers.index) > MOST_CODED:
            return self
        refused |= {*numbers.index[numbers.has_outliers].tolist()}
        row_numbers = np.sort(
            np.random.default_rng(rows.seed).permutation(len(rows.y))[:CODE_ROWS]
        )
        few = rows_of(rows.X, row_numbers)
        targets = rows.y[row_numbers]
        hashes = row_hashes(few) ^ (row_hashes(targets) >> np.uint64(1))
        row_weights = _in_distinct_rows(
            None if rows.weight is None else rows.weight[row_numbers], hashes
        )
        # Columns of the same numbers, and what their mean targets say
        alike: dict[bytes, dict[int, Floats]] = {}
        for j in numbers.index.tolist():
            values = self.values_of(few, j)[:, 0]
            if j not in refused and may_be_codes(values, row_weights):
                used = np.unique(values[~np.isnan(values)])
                tests = alike.setdefault(used.tobytes(), {})
                tests[j] = order_test(values, targets, row_weights)
        coded: dict[int, CodeColumn | TextColumn] = {}
        for tests in alike.values():
            for j in tests if are_codes([*tests.values()]) else ():
                gaps = bool(self.statistic_.missing[j] > 0)
                values = self.values_of(rows.X, j)
                codes = np.unique(values[~np.isnan(values)])
                if len(codes) <= MOST_CODES:
                    coded[j] = CodeColumn(j, codes, gaps)
                elif self.statistic_.kinds[j] == "number":
                    column = nw.from_native(rows.X, pass_through=True)[:, [j]]
                    as_text = TableStatistic.of(column, rows.weight, kinds=["mixed"])
                    counts = as_text.categories["0"]
                    coded[j] = TextColumn.of(j, counts, self.max_categories, gaps)
        if not coded:
            return self
        is_number = ~np.isin(numbers.index, [*coded])
        rest = [numbers.take(is_number)] if is_number.any() else []
        return self._with_columns([*rest, *others, *coded.values()])

    def _with_columns(self, columns: list[Any]) -> TableEncoder:
        """An encoder of these encodings, in the order of the columns of the input."""
        columns, width = laid_out(columns, self.n_features_in_)
        return self._but(columns_=columns, n_features_out_=width)

    def without_noise(self, rows: TargetRows) -> TableEncoder:
        """Leave out the levels of a column where there are many for the rows, and their
        mean targets do not differ by more than chance.

        They are many where there are fewer than 5 rows for each, or fewer than 20 and
        more levels than are kept. Missing values keep their column, and a table without
        any other column keeps its levels.

        Parameters
        ----------
        rows : TargetRows
        """
        columns = list(self.columns_)
        for k, column in enumerate(self.columns_):
            if not isinstance(column, TextColumn):
                continue
            enough = INTERACTING_CODED if column.other else INTERACTING
            if not column.other and len(column.categories) * enough <= len(rows.y):
                continue
            codes, _ = self.values_of(rows.X, column.index, column.expected)
            are_many = len(np.unique(codes)) * enough > len(codes)
            if are_many and not levels_differ(
                codes, rows.fold, rows.y, rows.distinct_weight
            ):
                columns[k] = replace(column, categories=[], other=False)
                if all(map(is_whole_number, column.categories)):
                    warn(
                        f"Column {self.statistic_.name(column.index)!r}: left out, as "
                        "its whole numbers tell nothing of the target as categories; "
                        "make them numbers if they are quantities."
                    )
        if columns == self.columns_:
            return self
        without = self._with_columns(columns)
        return without if without.n_features_out_ else self

    def require_columns(self, columns: Any) -> set[int]:
        """Numbers of the columns that an argument names; ValueError where there is no
        such column.

        Parameters
        ----------
        columns : sequence of int or str, int or str, "all" or None
            By number or name.
        """
        names = [*map(self.statistic_.name, range(self.n_features_in_))]
        if isinstance(columns, str) and columns == "all" and "all" not in names:
            return set(range(len(names)))
        alone = isinstance(columns, str | Integral)
        given = [columns] if alone else [] if columns is None else columns
        return {column_number(column, names) for column in given}

    @property
    def left_out(self) -> list[str]:
        """Names of columns whose levels say nothing of the target."""
        return [
            self.statistic_.name(column.index)
            for column in self._encodings(TextColumn)
            if not column.categories
        ]

    @property
    def written(self) -> dict[str, str]:
        """Columns of text that are read as dates or numbers, by name, and how they are
        written, such as "date written day/month/year".
        """
        kinds = enumerate(self.statistic_.kinds)
        return {self.statistic_.name(j): kind for j, kind in kinds if WRITTEN in kind}

    @property
    def codes(self) -> dict[str, list[float]]:
        """Columns of numbers that were taken for codes of categories, by name, and
        the codes that have features of their own.
        """
        codes: dict[str, list[float]] = {}
        for column in self._encodings((CodeColumn, TextColumn)):
            name = self.statistic_.name(column.index)
            if isinstance(column, CodeColumn):
                codes[name] = column.codes.tolist()
            elif self.statistic_.kinds[column.index] == "number":
                codes[name] = sorted(map(float, column.categories))
        return codes

    def __str__(self) -> str:
        if not hasattr(self, "columns_"):
            return repr(self)
        kinds = {"numbers": NumberColumns, "text": TextColumn, "times": TimeColumn}
        codes = self.codes
        names_of = {"codes of categories": [*codes]}
        for title, kind in kinds.items():
            indices = [np.atleast_1d(column.index) for column in self._encodings(kind)]
            names = map(self.statistic_.name, (j for part in indices for j in part))
            names_of[title] = [name for name in names if name not in codes]
        lines = [f"{title}: {listed(them)}" for title, them in names_of.items() if them]
        return "\n".join([repr(self), *lines])

    def with_seen_levels(
        self, rows: TargetRows, statistic: TableStatistic | None = None
    ) -> TableEncoder:
        """Take note of the levels of columns of text, and of the category as which
        others will count, and missing values that the fit had not.

        Parameters
        ----------
        rows : TargetRows
        statistic : TableStatistic, optional
            Counts of the levels of all rows, where `rows` are a part of them.
        """
        weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        unknown = {} if statistic is None else statistic.undercounts
        columns = list(self.columns_)
        for k, column in enumerate(columns):
            key = str(column.index)
            is_text = isinstance(column, TextColumn) and column.categories
            if not is_text or key in unknown:
                continue
            codes, labels = self.values_of(rows.X, column.index, column.expected)
            levels = [labels[i] for i in np.unique(codes[codes >= 0]).tolist()]
            if statistic is not None:
                levels += statistic.categories.get(key, {})
            columns[k] = column.with_seen(levels, codes, labels, rows.y, weight)
        return self._but(columns_=columns)

    def open_to_levels(self) -> TableEncoder:
        """Give levels that the fit did not see codes of their own again."""
        columns = [
            replace(column, seen=None) if isinstance(column, TextColumn) else column
            for column in self.columns_
        ]
        return self._but(columns_=columns)

    @property
    def has_level_means(self) -> bool:
        """Whether categories of some columns have mean targets beside them."""
        return any(column.means is not None for column in self._encodings(TextColumn))

    def with_level_means(self, rows: TargetRows) -> tuple[TableEncoder, TableEncoder]:
        """Add mean targets of categories of columns that have more than are kept; or
        learn those there are again.

        Parameters
        ----------
        rows : TargetRows

        Returns
        -------
        TableEncoder
            For other rows.
        TableEncoder
            For these, which do not tell their own means; each is this one where there
            are no such columns.
        """
        if not any(column.other for column in self._encodings(TextColumn)):
            return self, self
        again = self.has_level_means
        fold_of_hash = partial(_folds, seed=rows.seed)
        if rows.given_fold is not None:
            distinct_hashes, first = np.unique(rows.hashes, return_index=True)
            fold_of_hash = partial(_folds_among, distinct_hashes, rows.fold[first])
        has_learned = False
        numbers = self._encodings((NumberColumns, TimeColumn))
        others = self._with_columns(numbers).encode(rows.X, np.float32)
        for_others = list(self.columns_)
        for_these = list(self.columns_)
        for k, column in enumerate(self.columns_):
            if not isinstance(column, TextColumn):
                continue
            if column.means is None if again else not column.other:
                continue
            codes, labels = self.values_of(rows.X, column.index, column.expected)
            pair = level_means(
                codes,
                labels,
                rows.fold,
                rows.y,
                rows.distinct_weight,
                column.means,
                others,
            )
            if pair is not None:
                has_learned = True
                for_others[k], for_these[k] = (
                    replace(column, means=means) for means in pair
                )
        if not has_learned:
            return self, self
        other = self._but(_fold_of=None)._with_columns(for_others)
        return other, self._but(_fold_of=fold_of_hash)._with_columns(for_these)

    def level_variances(self, rows: TargetRows) -> dict[str, NDArray]:
        """Variances between the levels of columns of text, (K,), by the number of the
        column; only positive ones.

        Parameters
        ----------
        rows : TargetRows
        """
        variances = {
            str(column.index): level_variances(codes, rows.y, rows.distinct_weight)
            for column, (codes, _) in self._columns_of(rows.X, TextColumn)
        }
        return {key: values for key, values in variances.items() if values.any()}

    def unseen_variances(
        self, X: Any, variances: Mapping[str, NDArray]
    ) -> NDArray | float:
        """Variances that levels without an effect of their own add to each row, (n, K):
        those that the fit did not see, missing values where it saw few, and where
        nothing tells these, those without a column. 0 without columns of text.

        Parameters
        ----------
        X : data frame or array of shape (n, p)
            With the columns of the fit.
        variances : dict of str to array of shape (K,)
            As of `level_variances`.
        """
        total: NDArray | float = 0.0
        columns = self._columns_of(X, TextColumn) if variances else ()
        for column, (codes, labels) in columns:
            key = str(column.index)
            if key in variances and column.categories:
                unseen = column.are_unseen(labels)
                times = 1
                if column.is_open:
                    unseen = ~np.isin(labels, column.categories)
                    # A code that it shares with others has their effect in place of its
                    # own
                    times = 2
                # A missing value may be of any level
                is_open = self.statistic_.missing[column.index] < FEW_GAPS
                unseen = np.append(unseen, is_open)[codes][:, np.newaxis]
                total = total + unseen * times * variances[key]
        return total

    def transform(self, X: Any) -> Any:
        """Encode rows.

        Parameters
        ----------
        X : data frame, array or sparse matrix of shape (n, p)

        Returns
        -------
        Z : float32 array, or CSR if X is sparse, of shape (n, n_features_out_)

        Raises
        ------
        ValueError
            If columns, or the types of their values, differ from those of the fit.
        """
        check_is_fitted(self)
        X = as_table_or_matrix(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        Z = self.encode(X, np.float32)
        self.caution_unseen(X)
        return Z

    def caution_unseen(self, X: Any) -> None:
        """Warn where most values of a column are levels that the fit did not see, or
        some are missing that never were.

        Parameters
        ----------
        X : data frame, array or sparse matrix of shape (n, p)
            With the columns of the fit.
        """
        if sp.issparse(X) or not self.columns_:
            return
        levels = {}
        gaps: list[int] = []
        for column, values in self._columns_of(X):
            gaps += column.new_gaps(values)
            if isinstance(column, TextColumn) and (
                unseen := self._unseen(column, *values)
            ):
                name = self.statistic_.name(column.index)
                levels[name] = f"column {name!r}: {unseen}"
        if levels:
            warn("; ".join(levels.values()), subject=f"levels {[*levels]}")
        if gaps:
            which = listed(map(self.statistic_.name, sorted(gaps)))
            which = f"Column {which} has" if len(gaps) == 1 else f"Columns {which} have"
            warn(
                f"{which} missing values, and had none in the fit: these count as the "
                "mean of the column, or as a category of mean effect, if any.",
                subject=f"gaps {gaps}",
            )

    def count_unseen(self, X: Any) -> Counter[str]:
        """Count the rows that have a level which the fit did not see, by the name of
        the column, of columns whose levels are all known.

        Parameters
        ----------
        X : data frame, array or sparse matrix of shape (n, p)
            With the columns of the fit.
        """
        return Counter(
            {
                self.statistic_.name(column.index): int(
                    column.unseen_rows(*values).sum()
                )
                for column, values in self._columns_of(X, TextColumn)
            }
        )

    def encode_few(self, X: Any, dtype: DTypeLike) -> NDArray | None:
        """Encode like `encode` a few rows: an array of finite numbers, or a frame of
        pandas or polars, as of the fit.

        None for all else, such as what is to be refused, or warned of: these rows are
        checked at once, in a tenth of the time. To make a series of each column takes
        longer than a prediction for a row.
        """
        library = library_of(X)
        is_array = type(X) is np.ndarray and X.ndim == 2
        is_array = is_array and X.dtype.kind in "iuf" and X.dtype.itemsize <= 8
        if not (library or is_array) or not 0 < len(X) <= FEW_ROWS:
            return None
        # Numbers that are categories would look like others
        if library == "pandas" and any(
            hasattr(kind, "pyarrow_dtype")
            or (hasattr(kind, "categories") and kind.categories.dtype.kind != "O")
            for kind in X.dtypes
        ):
            return None
        table = X
        if library:
            is_polars = library == "polars"
            table = np.array(X.rows(), dtype=object) if is_polars else X.to_numpy()
        names = list(X.columns) if library else None
        named = "feature_names_in_" in vars(self)
        if (
            names != (self.statistic_.names if named else None)
            or table.shape[1:] != (self.n_features_in_,)
            or self._fold_of is not None
            or not self.columns_
        ):
            return None
        out = np.zeros((len(X), self.n_features_out_), dtype)
        for column in self.columns_:
            values: Any = table[:, column.index]
            if isinstance(column, NumberColumns):
                are_objects = values.dtype == object
                if are_objects and NUMBERS.issuperset(map(type, values.flat)):
                    values = values.astype(np.float64)
                if values.dtype.kind not in "biuf":
                    return None
            elif isinstance(column, TextColumn):
                if not all(isinstance(one, str) or is_missing(one) for one in values):
                    return None
                values = text_codes(values)
                if self._unseen(column, *values):
                    return None
            else:
                return None
            if column.new_gaps(values):
                return None
            column.write(values, out)
        return out if are_finite(out) else None

    def _unseen(self, column: TextColumn, *values: Any) -> str:
        """What `TextColumn.unseen` says; nothing of identifiers, most of which came
        once, as new ones are usual.
        """
        n_values = self.statistic_.rows - self.statistic_.missing[column.index]
        fewest = ROWS_A_LEVEL * len(column.categories)
        if column.means is not None:
            fewest = ROWS_A_MEAN * len(column.means.keys)
        return "" if fewest > n_values else column.unseen(*values)

    def encode(self, X: Any, dtype: DTypeLike) -> Any:
        """Encode rows like `transform`, in single or double precision; without a
        warning where only one has names.
        """
        check_is_fitted(self)
        few = self.encode_few(X, dtype)
        if few is not None:
            return few
        X = as_table_or_matrix(X)
        _check_n_features(self, X, reset=False)
        require_names(self.statistic_.names, X)
        if sp.issparse(X):
            if not self.statistic_.sparse:
                raise ValueError(
                    "cannot transform sparse input: the encoder was fitted on dense "
                    "data, which it centres; give X.toarray(), or fit to sparse rows"
                )
            (column,) = self.columns_
            X = X.tocsr()
            with np.errstate(over="ignore"):
                data = (X.data / column.scale[X.indices]).astype(dtype)
            Z = type(X)((data, X.indices, X.indptr), shape=X.shape, copy=True)
            require_finite(Z, self.statistic_.names, cure=IMPUTE)
            return Z
        out = np.zeros((X.shape[0], self.n_features_out_), dtype)
        fold = 0 if self._fold_of is None else self._fold_of(row_hashes(X))
        for column, values in self._columns_of(X):
            column.write(values, out, fold)
        if not are_finite(out):
            row, output_column = np.argwhere(~np.isfinite(out))[0].tolist()
            j = int(self.sources()[output_column])
            name = self.statistic_.name(j)
            value = float(column_values(X, j)[row])
            require_finite(np.full((1, 1), value), [name], row)
            raise ValueError(
                f"column {name!r}, row {row}: value too large for {out.dtype} after "
                "scaling"
            )
        return out

    def get_feature_names_out(self, input_features: Any = None) -> NDArray:
        """Names of the output columns, unique.

        Parameters
        ----------
        input_features : array of str of shape (n_features_in_,), optional
            Must equal `feature_names_in_`, if that exists.

        Returns
        -------
        names : object array of shape (n_features_out_,)
        """
        outputs = self._outputs()
        inputs = _check_feature_names_in(self, input_features)
        names = [f"{inputs[j]}{suffix}" for _, j, suffix, _ in outputs]
        return np.array(unique_names(names), dtype=object)

    def _outputs(self) -> list[tuple[int, int, str, int]]:
        """All output columns in their order, as of `Encoding.outputs`."""
        check_is_fitted(self)
        return sorted(one for column in self.columns_ for one in column.outputs())

    def column_groups(self) -> NDArray:
        """Groups of output columns that belong together, for learners that scale
        columns individually.

        The cosine and the sine of a circle are tied, and so are the categories, but
        beside their mean targets, and the code columns of a text column: they need a
        common scale to keep distances meaningful, and none of them may be transformed
        alone. Hundreds of scales of categories would be learned from noise.

        Returns
        -------
        groups : int array of shape (n_features_out_,)
            Equal for tied columns, distinct otherwise; 0, 1, ... in order of first
            appearance.
        """
        first = [tied for *_, tied in self._outputs()]
        return np.unique(first, return_inverse=True)[1]

    def sources(self) -> NDArray:
        """Input column of each output column, int array of shape (n_features_out_,)."""
        return np.array([j for _, j, *_ in self._outputs()], np.int64)

    def _begin(self, statistic: TableStatistic) -> TableEncoder:
        """Take the statistic of the first rows, whose columns of text with dates and
        numbers are read as such; a warning says so.
        """
        self.statistic_ = statistic  # by whose names columns are found
        as_text = self.require_columns(self.text_features)
        return self._settle(statistic.with_written(as_text, self.day_first))

    def _settle(self, statistic: TableStatistic) -> TableEncoder:
        columns = encodings(statistic, self.with_std, self.max_categories)
        self.columns_, self.n_features_out_ = laid_out(columns, len(statistic.kinds))
        self.statistic_ = statistic
        return self

    def values_of(self, X: Any, j: int, expected: str | None = None) -> Any:
        """Values of a column, of which the statistic knows the kind.

        Parameters
        ----------
        X : data frame or array of shape (n, p)
        j : int
            Its number.
        expected : str, optional
            Another kind as which it is read.

        Returns
        -------
        array of shape (n, k), or a pair of codes of shape (n,) and their labels
            Numbers and times; or text.
        """
        return self._read(column_values(X, j), j, expected)

    def _read(self, column: Any, j: int, expected: str | None = None) -> Any:
        """Values of column `j`, given by itself."""
        name, kind = self.statistic_.name(j), self.statistic_.kinds[j]
        return read_column(column, name, expected or kind)[1]

    def _numbers_of(self, X: Any, index: NDArray) -> NDArray:
        """Values of some columns of numbers, NaN where they are missing, shape (n, k);
        all at once where they are stored as numbers.
        """
        if isinstance(X, np.ndarray):
            if X.dtype.kind in "biuf":
                return X if len(index) == X.shape[1] else X[:, index]
        else:
            frame = nw.from_native(X, eager_only=True)[:, index.tolist()]
            kinds = frame.schema.items()
            truths = [name for name, kind in kinds if kind == nw.Boolean]
            if all(
                kind == nw.Boolean or (kind.is_numeric() and kind not in WIDE_TYPES)
                for _, kind in kinds
            ):
                if truths:
                    frame = frame.with_columns(nw.col(truths).cast(nw.Float32))
                array = frame.to_numpy()
                if array.dtype.kind in "iuf":
                    return array
        columns = some_columns(X, index.tolist())
        return np.hstack([*map(self._read, columns, index.tolist())])

    def _columns_of(self, X: Any, kind: Any = Encoding) -> Iterator[tuple[Any, Any]]:
        """Yield the encodings of one kind, and the values of their columns."""
        encodings = self._encodings(kind)
        alone = [one for one in encodings if not isinstance(one, NumberColumns)]
        columns = some_columns(X, [one.index for one in alone])
        for column in encodings:
            j = column.index
            if isinstance(column, NumberColumns):
                yield column, self._numbers_of(X, j)
            else:
                yield column, self._read(next(columns), j, column.expected)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.input_tags.categorical = tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


def column_values(X: Any, j: int) -> Any:
    """A column of a data frame, a series of narwhals, or of a matrix, an array."""
    if sp.issparse(X):
        return X.tocsr()[:, [j]].toarray()[:, 0]
    return X[:, j] if isinstance(X, np.ndarray) else nw.from_native(X)[:, j]


def some_columns(X: Any, index: list[int]) -> Iterator[Any]:
    """Columns of a data frame or an array as `column_values` gives them: one after the
    other, as a frame of thousands is slow to give each.
    """
    if not index:
        return iter(())
    if isinstance(X, np.ndarray):
        return iter(X.T[index])
    return nw.from_native(X, eager_only=True)[:, index].iter_columns()


def _in_distinct_rows(weight: NDArray | None, hashes: NDArray) -> NDArray:
    """Weights of rows, whose sum is the number of distinct ones."""
    weight = np.ones(len(hashes)) if weight is None else weight
    return weight * (len(np.unique(hashes[weight > 0])) / weight.sum())


def _folds_among(given: NDArray, folds: NDArray, hashes: NDArray) -> NDArray:
    """Folds of rows that are among given ones, by the hashes of these, ascending."""
    return folds[np.minimum(np.searchsorted(given, hashes), len(folds) - 1)]


def _folds(hashes: NDArray, seed: int) -> NDArray:
    """Folds of rows by hashes of their content; the first one has those that
    validate a fit with this seed.
    """
    return (MEAN_FOLDS * uniform(hashes, seed)).astype(np.intp)
