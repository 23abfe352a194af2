"""Encodes tables of numbers, text and dates as matrices, on whose rows
shift-invariant kernels make sense.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property, reduce
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import (
    _check_feature_names_in,
    check_is_fitted,
    validate_data,
)
from sklearn.utils.validation import _check_n_features as check_n_features
from sklearn.utils.validation import _get_feature_names as get_feature_names

from bochner.data.array_source import rows_of
from bochner.data.columns import (
    column_name,
    columns_of,
    label_text,
    library_of,
    missing,
    read_column,
    stored_columns,
    stored_numbers,
    stored_texts,
)
from bochner.data.encodings import (
    CodeColumn,
    NumberColumns,
    TextColumn,
    TimeColumn,
    encodings,
    output_names,
)
from bochner.data.hashes import row_hashes, uniform
from bochner.data.level_means import (
    MOST_CODES,
    MOST_OUTPUTS,
    OrderTest,
    few_integers,
    level_means,
    level_variances,
    order_test,
)
from bochner.data.outliers import (
    FARTHEST,
    MOST_OUTLYING,
    Bounds,
    bounds_of,
    drawn,
    farthest_fences,
    stand_in_for_missing,
)
from bochner.data.table_input import (
    are_finite,
    as_one_array,
    as_table_or_matrix,
    check_frame,
    check_size,
    require_names,
)
from bochner.data.table_statistic import (
    BLOCK_ENTRIES,
    TableStatistic,
    part_offsets,
    table_columns,
    warn_of_equal,
)
from bochner.data.weights import checked_weight
from bochner.notices import listed, warn

__all__ = [
    "CodeColumn",
    "NumberColumns",
    "TableEncoder",
    "TableStatistic",
    "TextColumn",
    "TimeColumn",
    "check_frame",
]

FEW_ROWS = 100  # that are no work for threads, and are checked at once
MEAN_FOLDS = 5  # of the rows that mean targets are learned from
# Rows a level, of the levels that have columns or of those that have mean targets, with
# fewer of which new levels are usual
ROWS_A_LEVEL, ROWS_A_MEAN = 2, 3
# Rows of a level, from which it may matter together with other columns alone: where
# levels have columns of their own, and where they share codes
INTERACTING, INTERACTING_CODED = 5, 20
# Numeric columns, as pictures have more; rows that tell codes from numbers
MOST_CODED, CODE_ROWS = 100, 20_000


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
    Later rows are read in the same way, and ISO dates too.

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
    fit did not see (of columns with rare categories only if these have mean targets),
    and names columns that have missing values now and had none in the fit.

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
    _fold_seed: int | None = None
    _codes: dict[str, np.ndarray] | None = None  # by the number of the column
    # Numbers of columns whose levels are left out
    _left_out: list[str] | None = None
    # `Bounds` of columns with outliers, by their number
    _bounds: dict[str, tuple[float, ...]] | None = None
    _unsaved: ClassVar[frozenset[str]] = frozenset({"_known"})

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
        return encoder._settle(encoder._with_written(statistic))

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
        for name in {
            "statistic_",
            "columns_",
            "n_features_out_",
            "_codes",
            "_bounds",
            "_left_out",
        } & vars(self).keys():
            delattr(self, name)
        return self._update(X, sample_weight, None)

    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None
    ) -> TableEncoder:
        """Add rows to those already seen; parameters as in `fit`."""
        return self._update(X, sample_weight, getattr(self, "statistic_", None))

    def forget_categories(self) -> None:
        """Drop the counts of categories, which only `partial_fit` needs; the encoding
        does not change.

        A saved model then holds no text of the table except the names of columns and of
        the kept categories.
        """
        self.statistic_ = replace(
            self.statistic_, categories={key: {} for key in self.statistic_.categories}
        )

    def without_outliers(self, X: Any, weight: np.ndarray | None) -> TableEncoder:
        """Take units of numbers from the others where some lie so far away that all
        others would look equal.

        Parameters
        ----------
        X : data frame, array or sparse matrix of shape (n, p)
        weight : array of shape (n,) or None
        """
        numbers = next(
            (column for column in self.columns_ if isinstance(column, NumberColumns)),
            None,
        )
        if sp.issparse(X) or numbers is None or not self.with_std:
            return self
        series = table_columns(X)[0]
        counted = (
            np.arange(X.shape[0]) if weight is None else np.flatnonzero(weight > 0)
        )
        some = drawn(counted)
        first_part = part_offsets(self.statistic_.kinds)[numbers.index]
        summary = self.statistic_.summary.take(first_part)
        bounds = dict[str, tuple[float, ...]]()
        values_of_some = np.column_stack(
            [self._read(series[j][some], j)[:, 0] for j in numbers.index.tolist()]
        )
        low, high = farthest_fences(values_of_some)
        for k, values in enumerate(values_of_some.T):
            stand_in = stand_in_for_missing(values)
            if stand_in is None:
                continue
            share = float(np.mean(values == stand_in))
            # Of few values beyond all others it is told below
            if low[k] <= stand_in <= high[k] or share > MOST_OUTLYING:
                name = column_name(self.statistic_.names, int(numbers.index[k]))
                _warn_of_stand_in(name, stand_in, share)
        for i in np.flatnonzero((summary.low < low) | (summary.high > high)).tolist():
            j = int(numbers.index[i])
            values = self._read(series[j], j)[:, 0]
            beyond = (values[counted] < low[i]) | (values[counted] > high[i])
            if (
                beyond.mean() > MOST_OUTLYING
            ):  # which are no outliers, but another part of the column
                continue
            found = bounds_of(values, weight, low[i], high[i])
            bounds[str(j)] = tuple(found)
            _warn_of_outliers(column_name(self.statistic_.names, j), values, found)
        if not bounds:
            return self
        bounded = copy(self)
        bounded._bounds = bounds
        return bounded._widened(
            bounded._with_bounds(self.columns_), self.n_features_out_, self._fold_seed
        )

    def _with_bounds(self, columns: list[Any]) -> list[Any]:
        """Encodings of columns, those of numbers with the bounds that were found."""
        if not self._bounds:
            return columns
        return [
            one.bounded(self._bounds) if isinstance(one, NumberColumns) else one
            for one in columns
        ]

    def with_codes(
        self,
        X: Any,
        y: np.ndarray,
        weight: np.ndarray | None,
        seed: int,
        quantities: Any = None,
    ) -> TableEncoder:
        """Take numbers for codes of categories where few of them differ, and their mean
        targets are on no curve.

        Columns of the same numbers, as of the fields of a board, are codes together or
        not at all.

        Parameters
        ----------
        X : data frame or array of shape (n, p)
        y : array of shape (n, K)
        weight : array of shape (n,) or None
        seed : int
            Of the rows that tell it.
        quantities : sequence of int or str, "all" or None
            Columns that are numbers in any case, by number or name.
        """
        numbers = next(
            (column for column in self.columns_ if isinstance(column, NumberColumns)),
            None,
        )
        refused = self.require_columns(quantities) | {
            int(j) for j in self._bounds or ()
        }
        if (
            sp.issparse(X)
            or numbers is None
            or len(numbers.index) > MOST_CODED
            or y.shape[1] > MOST_OUTPUTS
        ):
            return self
        some = np.sort(np.random.default_rng(seed).permutation(X.shape[0])[:CODE_ROWS])
        series = table_columns(X)[0]
        few = rows_of(X, some)
        targets = y[some]
        hashes = row_hashes(few) ^ (row_hashes(targets) >> np.uint64(1))
        own = np.ones(len(some)) if weight is None else weight[some]
        own = own * (len(np.unique(hashes[own > 0])) / own.sum())
        sample = table_columns(few)[0]
        alike = dict[tuple[float, ...], list[tuple[int, OrderTest]]]()
        for j in numbers.index.tolist():
            column = self._read(sample[j], j)[:, 0]
            if j not in refused and (used := few_integers(column)) is not None:
                alike.setdefault(tuple(used), []).append(
                    (j, order_test(column, targets, own))
                )
        tests = {
            used: reduce(OrderTest.plus, (test for _, test in group))
            for used, group in alike.items()
        }
        chosen = [
            j
            for used, group in alike.items()
            if tests[used].are_codes
            for j, _ in group
        ]
        codes = dict[str, np.ndarray]()
        for j in chosen:
            column = self._read(series[j], j)
            found = np.unique(column[~np.isnan(column)])
            codes |= {str(j): found} if len(found) <= MOST_CODES else {}
        if not codes:
            return self
        coded = copy(self)
        coded._codes = codes
        return coded._settled_again()

    def _settled_again(self) -> TableEncoder:
        """Take the encodings that follow from what is known of columns
        now; the counts of the statistic may be forgotten.
        """
        statistic = self.statistic_
        texts = {
            str(column.index): column
            for column in self.columns_
            if isinstance(column, TextColumn)
        }
        kept = {
            key: dict.fromkeys(column.categories, 1.0) for key, column in texts.items()
        }
        cut = {key: 0.0 for key, column in texts.items() if column.other}
        self._settle(replace(statistic, categories=kept, undercounts=cut))
        self.statistic_ = statistic
        return self

    def without_noise(
        self, X: Any, y: np.ndarray, weight: np.ndarray | None, seed: int
    ) -> TableEncoder:
        """Leave out the levels of a column where there are many for the rows, and their
        mean targets do not differ by more than chance.

        They are many where there are fewer than 5 rows for each, or fewer than 20 and
        more levels than are kept. Missing values keep their column, and a table without
        any other column keeps its levels.

        Parameters
        ----------
        X : data frame or array of shape (n, p)
        y : array of shape (n, K)
        weight : array of shape (n,) or None
        seed : int
            Of the folds of rows.
        """
        tested = [
            column
            for column in self.columns_
            if isinstance(column, TextColumn)
            and (column.coded or len(column.categories) * INTERACTING > X.shape[0])
        ]
        if not tested:
            return self
        hashes = row_hashes(X)
        weight = _in_distinct_rows(weight, hashes)
        fold = _folds(hashes, seed)
        series = table_columns(X)[0]
        left_out = list[str]()
        for column in tested:
            codes = self._read(series[column.index], column.index)[0]
            enough = INTERACTING_CODED if column.coded else INTERACTING
            if len(np.unique(codes)) * enough <= len(codes):
                continue
            if not column.says_something(codes, fold, y, weight):
                left_out.append(str(column.index))
        if not left_out:
            return self
        without = copy(self)
        without._left_out = left_out
        without = without._settled_again()
        return without if without.n_features_out_ else self

    def require_columns(self, columns: Any) -> set[int]:
        """Numbers of the columns that an argument names; ValueError where there is no
        such column.

        Parameters
        ----------
        columns : sequence of int or str, int or str, "all" or None
            By number or name.
        """
        every = range(self.n_features_in_)
        return columns_of(
            columns, [column_name(self.statistic_.names, j) for j in every]
        )

    @property
    def left_out(self) -> list[str]:
        """Names of columns whose levels say nothing of the target."""
        names = self.statistic_.names
        return [column_name(names, int(j)) for j in self._left_out or ()]

    @property
    def written(self) -> dict[str, str]:
        """Columns of text that are read as dates or numbers, by name, and how they are
        written, such as "date written day/month/year".
        """
        return self.statistic_.written()

    @property
    def codes(self) -> dict[str, list[float]]:
        """Columns of numbers that were taken for codes of categories, by name, and
        the codes that the fit saw.
        """
        columns = [column for column in self.columns_ if isinstance(column, CodeColumn)]
        return {
            column_name(self.statistic_.names, column.index): column.codes.tolist()
            for column in columns
        }

    def __str__(self) -> str:
        if not hasattr(self, "columns_"):
            return repr(self)
        kinds: dict[Any, str] = {
            NumberColumns: "numbers",
            CodeColumn: "codes of categories",
            TextColumn: "text",
            TimeColumn: "times",
        }
        lines = [repr(self)]
        for kind, title in kinds.items():
            indices = [
                np.atleast_1d(column.index)
                for column in self.columns_
                if isinstance(column, kind)
            ]
            names = [
                column_name(self.statistic_.names, j)
                for j in np.concatenate([*indices, np.empty(0, int)])
                .astype(int)
                .tolist()
            ]
            if names:
                lines.append(f"{title}: {listed(names)}")
        return "\n".join(lines)

    @property
    def has_level_means(self) -> bool:
        """Whether categories of some columns have mean targets beside them."""
        return any(
            isinstance(column, TextColumn) and column.means is not None
            for column in self.columns_
        )

    def with_level_means(
        self, X: Any, y: np.ndarray, weight: np.ndarray | None, seed: int
    ) -> tuple[TableEncoder, TableEncoder]:
        """Add mean targets of categories of columns that have more than are kept; or
        learn those there are again.

        Parameters
        ----------
        X : data frame or array of shape (n, p)
        y : array of shape (n, K)
        weight : array of shape (n,) or None
        seed : int
            Of the folds.

        Returns
        -------
        TableEncoder
            For other rows.
        TableEncoder
            For these, which do not tell their own means; each is this one where there
            are no such columns.
        """
        if not any(
            isinstance(column, TextColumn) and column.coded for column in self.columns_
        ):
            return self, self
        again = self.has_level_means
        hashes = row_hashes(X)
        weight = _in_distinct_rows(weight, hashes)
        fold = _folds(hashes, seed)
        width = self.n_features_out_
        series = table_columns(X)[0]
        learned: list[list[Any]] = [[], []]
        for column in self.columns_:
            pair = None
            if isinstance(column, TextColumn) and (
                column.means is not None if again else column.coded
            ):
                j = column.index
                known = column.means
                codes, labels = self._read(series[j], j)
                pair = level_means(
                    codes,
                    labels,
                    fold,
                    y,
                    weight,
                    None if known is None else known.directions,
                )
            for k in range(2):
                at = column.means_at if again and pair else width
                learned[k].append(
                    replace(column, means=pair[k], means_at=at) if pair else column
                )
            width += pair[0].n_outputs if pair and not again else 0
        if all(
            one is other for one, other in zip(learned[0], self.columns_, strict=True)
        ):
            return self, self
        return copy(self)._widened(learned[0], width, None), copy(self)._widened(
            learned[1], width, seed
        )

    def level_variances(
        self, X: Any, y: np.ndarray, weight: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Variances between the levels of columns of text, (K,), by the number of the
        column; only positive ones.

        Parameters
        ----------
        X : data frame or array of shape (n, p)
        y : array of shape (n, K)
        weight : array of shape (n,)
        """
        if not any(isinstance(column, TextColumn) for column in self.columns_):
            return {}
        hashes = row_hashes(X)
        weight = _in_distinct_rows(weight, hashes)
        found = {
            str(column.index): level_variances(values[0], y, weight)
            for column, _, _, values in self._columns_of(X, TextColumn)
        }
        return {key: variances for key, variances in found.items() if variances.any()}

    def unseen_variances(
        self, X: Any, variances: Mapping[str, np.ndarray]
    ) -> np.ndarray | float:
        """Variances that levels which the fit did not see add to each row, (n, K); 0
        without columns of text.

        Parameters
        ----------
        X : data frame or array of shape (n, p)
            With the columns of the fit.
        variances : dict of str to array of shape (K,)
            As of `level_variances`.
        """
        total: np.ndarray | float = 0.0
        columns = self._columns_of(X, TextColumn) if variances else iter(())
        for column, _, _, (codes, labels) in columns:
            key = str(column.index)
            known = column.known(labels) if key in variances else None
            if known is not None:
                total = (
                    total
                    + ~np.append(known, True)[codes][:, np.newaxis] * variances[key]
                )
        return total

    def _widened(
        self, columns: list[Any], width: int, fold_seed: int | None
    ) -> TableEncoder:
        """Take other columns; a seed is that of the folds of rows that are encoded."""
        self.columns_ = columns
        self.n_features_out_ = width
        self._fold_seed = fold_seed
        self._known = {}
        return self

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
        X = self._validated(X, reset=False)
        Z = self._encoded(X, np.float32)
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
        X = self._numbers_of(X)
        names = self.statistic_.names
        levels = dict[str, str]()
        gaps = list[str]()
        if (
            self._has_only_numbers
            and isinstance(X, np.ndarray)
            and X.dtype.kind in "biuf"
        ):
            whole = self.columns_[0].index[self.columns_[0].gap_at < 0]
            missed = (
                []
                if are_finite(X)
                else np.flatnonzero(np.isnan(X[:, whole]).any(axis=0)).tolist()
            )
            gaps = [column_name(names, j) for j in whole[missed].tolist()]
        else:
            for column, i, name, values in self._columns_of(X):
                is_whole = (
                    column.gap_at[i] < 0
                    if isinstance(column, NumberColumns)
                    else not column.gaps
                )
                gaps += [name] * bool(is_whole and missing(values).any())
                if isinstance(column, TextColumn) and (
                    unseen := self._unseen(column, *values)
                ):
                    levels[name] = f"column {name!r}: {unseen}"
        if levels:
            warn("; ".join(levels.values()), subject=f"levels {[*levels]}")
        if gaps:
            which = (
                f"Column {listed(gaps)} has"
                if len(gaps) == 1
                else f"Columns {listed(gaps)} have"
            )
            meaning = "these count as the mean of the column, or as no category"
            warn(
                f"{which} missing values, and had none in the fit: {meaning}.",
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
        found = Counter[str]()
        if sp.issparse(X) or not self.columns_:
            return found
        for column, _, name, (codes, labels) in self._columns_of(X, TextColumn):
            found[name] += int(column.unseen_rows(codes, labels).sum())
        return found

    def encode_few(self, X: Any, dtype: DTypeLike) -> np.ndarray | None:
        """Encode like `encode` a few rows: an array of finite numbers, or a frame of
        pandas or polars, as of the fit.

        None for all else, such as what is to be refused, or warned of: these rows are
        checked at once, in a tenth of the time.
        """
        if type(X) is not np.ndarray:
            return (
                self._encode_few_of_frame(X, dtype)
                if library_of(X) and 0 < len(X) <= FEW_ROWS
                else None
            )
        plain = X.ndim == 2 and X.dtype.kind in "iuf" and X.dtype.itemsize <= 8
        if not plain or not 0 < len(X) <= FEW_ROWS or X.shape[1] != self.n_features_in_:
            return None
        column = self.columns_[0] if len(self.columns_) == 1 else None
        if not isinstance(column, NumberColumns) or "feature_names_in_" in vars(self):
            return None
        out = np.zeros((len(X), self.n_features_out_), dtype)
        if len(column.index) == X.shape[1] == out.shape[1]:
            return out if column.standardise(X, out) else None
        if not are_finite(X) and not column.has_as_seen(X[:, column.index]):
            return None
        column.write(
            X if len(column.index) == X.shape[1] else X[:, column.index], out, None
        )
        return out

    def _encode_few_of_frame(self, X: Any, dtype: DTypeLike) -> np.ndarray | None:
        """Encode few rows of a data frame, whose columns are read as they are stored,
        where their types are common ones.
        """
        if (
            "feature_names_in_" not in vars(self)
            or self._fold_seed is not None
            or not self._has_names(X.columns)
        ):
            return None
        arrays = stored_columns(X)
        if arrays is None:
            return None
        out = np.zeros((len(X), self.n_features_out_), dtype)
        for column in self.columns_:
            if isinstance(column, NumberColumns):
                values = stored_numbers([arrays[j] for j in column.index.tolist()])
                if values is None or not (
                    are_finite(values) or column.has_as_seen(values)
                ):
                    return None
                column.write(values, out, self.statistic_.names)
            elif not isinstance(column, TextColumn) or not self._write_few_texts(
                column, arrays[column.index], out
            ):
                return None
        return out

    def _has_names(self, columns: Any) -> bool:
        """Whether a frame has the names of the fit; pandas tells at once that an
        index is the same as before.
        """
        if hasattr(columns, "is_") and columns.is_(self._known.get("names")):
            return True
        same: bool = list(columns) == self.statistic_.names
        if same:
            self._known["names"] = columns
        return same

    @cached_property
    def _known(self) -> dict[Any, Any]:
        """What is kept of frames of few rows: their index, and labels and places of
        categories by column.
        """
        return {}

    def _write_few_texts(self, column: TextColumn, array: Any, out: np.ndarray) -> bool:
        """Encode a stored column of strings or categories; whether it is one.
        Categories are looked up only once.
        """
        if type(array).__name__ == "Categorical":
            known = self._known.get(column.index)
            if known is None or known[0] is not array.dtype:
                labels = [label_text(label) for label in array.categories]
                known = self._known[column.index] = (
                    array.dtype,
                    labels,
                    column.places(labels),
                )
            codes = array.codes
            labels = known[1]
            places = known[2]
        elif (texts := stored_texts(array)) is not None:
            codes, labels = texts
            places = column.places(labels)
        else:
            return False
        if self._unseen(column, codes, labels, places) or (
            not column.gaps and codes.min() < 0
        ):
            return False
        column.write(codes, labels, out, places=places)
        return True

    def _unseen(self, column: TextColumn, *values: Any) -> str:
        """What `TextColumn.unseen` says; nothing of identifiers, most of which came
        once, as new ones are usual.
        """
        n_values = self.statistic_.rows - int(self.statistic_.missing[column.index])
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
        return (
            self._encoded(self._validated(X, reset=False, warns=False), dtype)
            if few is None
            else few
        )

    def _encoded(self, X: Any, dtype: DTypeLike) -> Any:
        if sp.issparse(X):
            if not self.statistic_.sparse:
                raise ValueError(
                    "cannot transform sparse input: the encoder was fitted on dense "
                    "data, which it centres"
                )
            X = X.tocsr()
            (column,) = self.columns_
            with np.errstate(over="ignore"):
                data = np.divide(X.data, column.scale[X.indices], dtype=np.float64)
                data = data.astype(dtype)
            if not np.isfinite(data).all():
                raise ValueError(
                    "Input X contains NaN, infinity or a value too large for "
                    f"{np.dtype(dtype)}"
                )
            return type(X)((data, X.indices.copy(), X.indptr.copy()), shape=X.shape)
        out = np.zeros((X.shape[0], self.n_features_out_), dtype)
        X = self._numbers_of(X)
        names = self.statistic_.names
        if (
            self._has_only_numbers
            and isinstance(X, np.ndarray)
            and X.dtype.kind in "biuf"
        ):
            step = max(1, BLOCK_ENTRIES // X.shape[1])
            for column in self.columns_:
                every = len(column.index) == X.shape[1]
                for s in range(0, len(X), step):
                    block = X[s : s + step]
                    block = block if every else block[:, column.index]
                    column.write(block, out[s : s + step], names, s)
            return out
        fold = 0 if self._fold_seed is None else _folds(row_hashes(X), self._fold_seed)
        for column, i, _, values in self._columns_of(X):
            if isinstance(column, NumberColumns):
                column.write(values, out, names, part=slice(i, i + 1))
            elif isinstance(column, TextColumn):
                column.write(values[0], values[1], out, fold)
            else:
                column.write(values, out)
        return out

    @property
    def _has_only_numbers(self) -> bool:
        return all(isinstance(column, NumberColumns) for column in self.columns_)

    def _numbers_of(self, X: Any) -> Any:
        """A frame as one array where all encoded columns are numbers; else X."""
        return as_one_array(X) if self._has_only_numbers else X

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the output columns, unique.

        Parameters
        ----------
        input_features : array of str of shape (n_features_in_,), optional
            Must equal `feature_names_in_`, if that exists.

        Returns
        -------
        names : object array of shape (n_features_out_,)
        """
        check_is_fitted(self)
        inputs = _check_feature_names_in(self, input_features)
        return np.array(
            output_names(self.columns_, inputs, self.n_features_out_), dtype=object
        )

    def column_groups(self) -> np.ndarray:
        """Groups of output columns that belong together, for learners that scale
        columns individually.

        The cosine and the sine of a circle are tied, and so are the code columns of a
        text column: they need a common scale to keep distances meaningful, and none of
        them may be transformed alone.

        Returns
        -------
        groups : int array of shape (n_features_out_,)
            Equal for tied columns, distinct otherwise; 0, 1, ... in order of first
            appearance.
        """
        check_is_fitted(self)
        first = np.arange(self.n_features_out_)
        for column in self.columns_:
            for tied in column.column_groups():
                first[tied] = tied.start
        return np.unique(first, return_inverse=True)[1]

    def sources(self) -> np.ndarray:
        """Input column of each output column, int array of shape (n_features_out_,)."""
        check_is_fitted(self)
        inputs = np.empty(self.n_features_out_, np.int64)
        for column in self.columns_:
            for part, index in column.sources():
                inputs[part] = index
        return inputs

    def _update(
        self, X: Any, sample_weight: Any, before: TableStatistic | None
    ) -> TableEncoder:
        if not isinstance(self.max_categories, Integral) or self.max_categories < 1:
            raise ValueError(
                "max_categories must be an integer of at least 1, got "
                f"{self.max_categories!r}"
            )
        X = self._validated(X, reset=before is None)
        weight = checked_weight(sample_weight, X)
        if before is None:
            return self._settle(self._with_written(TableStatistic.of(X, weight)))
        return self._settle(
            before + TableStatistic.of(X, weight, kinds=before.expected())
        )

    def _with_written(self, statistic: TableStatistic) -> TableStatistic:
        """The statistic of the first rows, whose columns of text with dates and numbers
        are read as such; a warning says so.
        """
        names = [column_name(statistic.names, j) for j in range(len(statistic.kinds))]
        as_text = columns_of(self.text_features, names)
        statistic, sentences = statistic.with_written(as_text, self.day_first)
        for sentence in sentences:
            warn(sentence)
        return statistic

    def _settle(self, statistic: TableStatistic) -> TableEncoder:
        known_codes = self._codes or {}
        columns, self.n_features_out_ = encodings(
            statistic,
            self.with_std,
            self.max_categories,
            known_codes,
            self._left_out or (),
        )
        self.columns_ = self._with_bounds(columns)
        self._known = {}
        known = self.statistic_.equal_integers() if hasattr(self, "statistic_") else []
        warn_of_equal(
            [name for name in statistic.equal_integers() if name not in known]
        )
        self.statistic_ = statistic
        return self

    def _validated(self, X: Any, *, reset: bool, warns: bool = True) -> Any:
        """X as a data frame, an array or a CSR matrix of the expected width and
        names.
        """
        X = as_table_or_matrix(X)
        dtype = getattr(X, "dtype", None)
        if isinstance(dtype, np.dtype) and dtype.kind == "c":
            raise ValueError("Complex data not supported")
        check_size(X.shape)
        if warns or (get_feature_names(X) is None) != hasattr(
            self, "feature_names_in_"
        ):
            validate_data(self, X, reset=reset, skip_check_array=True)
        else:
            check_n_features(self, X, reset=reset)
        if not reset:
            require_names(self.statistic_.names, X)
        return X

    def _read(self, values: Any, j: int) -> Any:
        """Values of a column of which the statistic knows the kind."""
        name = column_name(self.statistic_.names, j)
        return read_column(values, name, self.statistic_.kinds[j])[1]

    def _columns_of(
        self, X: Any, kind: Any = object
    ) -> Iterator[tuple[Any, int, str, Any]]:
        """Yield the encoding of each column, its place among those of numbers, its
        name, and its values.
        """
        series, names = table_columns(X)
        for column in self.columns_:
            if not isinstance(column, kind):
                continue
            for i, j in enumerate(np.atleast_1d(column.index).tolist()):
                name = column_name(names, j)
                expected = self.statistic_.kinds[j]
                if expected == "text":
                    expected = column.expected
                yield column, i, name, read_column(series[j], name, expected)[1]

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in super().__getstate__().items()
            if name not in self._unsaved
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


def _warn_of_stand_in(name: str, value: float, share: float) -> None:
    """Say that a value of a column perhaps stands for a missing one."""
    warn(
        f"Column {name!r}: {value:g} in {100 * share:.2g} % of the rows stands apart "
        "from all other values; if it stands for a missing value, make it NaN."
    )


def _warn_of_outliers(name: str, values: np.ndarray, bounds: Bounds) -> None:
    """Say which values lie so far beyond the others of a column that they count as
    the last of these.
    """
    beyond = np.flatnonzero((values < bounds.low) | (values > bounds.high))
    if not len(beyond):
        return  # in rows of a larger table that are not at hand
    row = int(beyond[0])
    more = f" and {len(beyond) - 1:,} more" if len(beyond) > 1 else ""
    warn(
        f"column {name!r}, row {row}{more}: {values[row]:g} lies more than "
        f"{FARTHEST:,.0f} times the spread of the "
        f"other values beyond them. They are from {bounds.low:g} to {bounds.high:g}, "
        "and it counts as the nearest of "
        "these; if it stands for a missing value, make it NaN."
    )


def _in_distinct_rows(weight: np.ndarray | None, hashes: np.ndarray) -> np.ndarray:
    """Weights of rows, whose sum is the number of distinct ones."""
    weight = np.ones(len(hashes)) if weight is None else weight
    distinct: np.ndarray = weight * (len(np.unique(hashes[weight > 0])) / weight.sum())
    return distinct


def _folds(hashes: np.ndarray, seed: int) -> np.ndarray:
    """Folds of rows by hashes of their content; the first one has those that
    validate a fit with this seed.
    """
    return (MEAN_FOLDS * uniform(hashes, seed)).astype(np.intp)
