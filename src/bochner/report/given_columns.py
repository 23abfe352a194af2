"""Looks at the columns of the given rows and at their target: gaps, constants,
identifiers, copies, leaks, a cap, and drift from the training rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_ind_from_stats
from sklearn.base import is_classifier
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from bochner.arrays import n_distinct
from bochner.data.outliers import drawn, stand_in_for_missing
from bochner.data.table_input import as_dense
from bochner.data.table_statistic import TableStatistic, part_offsets
from bochner.data.written_values import is_missing_word
from bochner.explanations.effects import own_values
from bochner.markup import cut, number, percent
from bochner.report.given_rows import Predictions, Rows

LEVEL = 0.01
# Rows that differ from the most frequent value of a column, from which on another one
# that agrees with it in all rows is no chance
FEWEST_OTHERS = 10
ROUNDING = 1e-9  # of a mean


@dataclass(frozen=True)
class Column:
    """One column of the given rows.

    Attributes
    ----------
    name, kind : str
    missing : float
        Share of the rows.
    distinct : int
    typical : str
        Range of numbers, most frequent value of others.
    drift : float or None
        p-value of equal means and shares of missing values in the given and all
        training rows, corrected for the number of columns; None of text, of which the
        model keeps no counts.
    alone : float or None
        Area under the ROC curve of classes, or share of the variance, that a small tree
        reaches by this column alone.
    leaks : bool
        Whether that is nearly all there is.
    stand_in : str
        A value that probably means a missing one, and its share; empty without such.
    twin : str
        Another column, whose values tell those of this one and the other way round;
        empty without such.
    unseen : float
        Share of the rows whose level of text the fit did not see.
    """

    name: str
    kind: str
    missing: float
    distinct: int
    typical: str
    drift: float | None
    alone: float | None
    leaks: bool
    stand_in: str
    twin: str
    unseen: float

    @property
    def drifts(self) -> bool:
        """Whether it differs from the training rows."""
        return self.drift is not None and self.drift < LEVEL

    def remarks(self, n: int) -> list[str]:
        """What is unusual."""
        many = max(0.9 * n * (1 - self.missing), 1)
        remarks = {
            "constant": self.distinct <= 1,
            "like an identifier": self.kind == "text" and self.distinct > many,
            "predicts the target alone: a leak?": self.leaks,
            f"one-to-one with {cut(self.twin)}": self.twin,
            f"{self.stand_in}: missing?": self.stand_in,
            f"new levels in {percent(self.unseen)} of the rows": self.unseen > 0.01,
            "differs from the training rows": self.drifts,
        }
        return [remark for remark, holds in remarks.items() if holds]


def columns(model: Any, rows: Rows, predictions: Predictions) -> list[Column]:
    """What is known of each column; of many rows at most 2,000 are drawn. None of
    more than 300 columns.
    """
    d = len(rows.names)
    encoder = model.encoder_
    if d > 300 or encoder.n_features_out_ > 2000:
        return []
    # Some of many rows, and their targets
    positions = drawn(np.arange(len(rows)), n_looked_at(rows), 10)
    some_rows = rows.take(positions)
    is_class = is_classifier(model)
    y = predictions.truth[positions]
    # Values as they are given, as the model reads them, and as it encodes them
    values = [own_values(some_rows.X, j) for j in range(d)]
    checked = model._rows(some_rows.X, reset=False)
    dense = as_dense(checked)
    read_values = [encoder.values_of(dense, j) for j in range(d)]
    encoded = as_dense(encoder.encode(checked, np.dtype(np.float32)))
    sources = encoder.sources()
    unseen = encoder.count_unseen(checked)
    # For each column that is one-to-one with others, one of the others
    first: dict[bytes, int] = {}
    twins: dict[int, int] = {}
    for j, column in enumerate(values):
        if pattern := _pattern(column):
            one = first.setdefault(pattern, j)
            if one < j:
                twins[j] = one
                twins.setdefault(one, j)
    # What each column shows
    described = []
    for j, read in enumerate(read_values):
        present_values = [value for value in values[j] if value is not None]
        is_text = isinstance(read, tuple)
        alone = _alone(encoded[:, sources == j], y, is_class)
        # Of the area under the curve, or the share of the variance
        least_leak = 0.975 if is_class else 0.95
        described.append(
            Column(
                name=rows.names[j],
                kind=encoder.statistic_.kinds[j],
                missing=1 - len(present_values) / len(positions),
                distinct=len(set(map(str, present_values))),
                typical=_typical(present_values),
                drift=None if is_text else _drift(read, encoder.statistic_, j),
                alone=alone,
                leaks=alone is not None and alone > least_leak,
                stand_in=_stand_in(present_values, len(positions)),
                twin=rows.names[twins[j]] if j in twins else "",
                unseen=unseen[encoder.statistic_.name(j)] / len(positions),
            )
        )
    return described


def n_looked_at(rows: Rows) -> int:
    """Number of rows that columns are looked at in."""
    return min(len(rows), 2000, 80_000 // max(len(rows.names), 1))


def capped_share(y: NDArray) -> float:
    """Share of the rows that have the greatest of many targets, where these are so many
    that it seems to be a cap; 0 where not.

    They are more than the rows in the tenth of the range below it.

    Parameters
    ----------
    y : float array of shape (n,)
    """
    greatest = y.max()
    below = greatest - 0.1 * np.ptp(y)
    n_greatest = np.count_nonzero(y == greatest)
    n_below = np.count_nonzero((y >= below) & (y < greatest))
    share = n_greatest / len(y)
    is_cap = share >= 0.01 and n_greatest > n_below and n_distinct(y) >= 20
    return share if is_cap else 0.0


def _typical(present_values: list[Any]) -> str:
    """Least and largest number, or the most frequent value."""
    if _are_numbers(present_values):
        least, largest = min(present_values), max(present_values)
        return f"{number(least)} to {number(largest)}"
    texts, counts = np.unique(
        [str(value) for value in present_values] or [""], return_counts=True
    )
    return str(texts[counts.argmax()])


def _are_numbers(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(value, int | float) for value in values)


def _stand_in(present_values: list[Any], n: int) -> str:
    """A word or a number that probably means a missing value, and its share of `n`
    rows.
    """
    words = [v for v in present_values if isinstance(v, str) and is_missing_word(v)]
    if words:
        return f"{cut(repr(words[0]))} in {percent(len(words) / n)} of the rows"
    if not _are_numbers(present_values):
        return ""
    values = np.array(present_values, np.float64)
    value = stand_in_for_missing(values)
    if value is None:
        return ""
    return f"{value:g} in {percent(np.count_nonzero(values == value) / n)} of the rows"


def _pattern(column: Sequence[Any]) -> bytes:
    """What columns have in common that are one-to-one; empty where that may be by
    chance.

    It is which rows have equal values, and of values that hardly repeat their order.
    """
    numbers: dict[Any, int] = {}
    codes = np.array([numbers.setdefault(value, len(numbers)) for value in column])
    n = len(codes)
    if n - np.bincount(codes).max() < FEWEST_OTHERS:
        return b""
    if 2 * len(numbers) <= n:
        return codes.tobytes()
    if not _are_numbers(column):
        return b""
    ranks = np.unique(np.array(column, np.float64), return_inverse=True)[1]
    return min(ranks.tobytes(), (ranks.max() - ranks).tobytes())


def _drift(values: NDArray, trained: TableStatistic, j: int) -> float:
    """p-value of equal means and equal shares of gaps in the given and all training
    rows, by Welch's tests with Bonferroni's correction for all columns.

    Parameters
    ----------
    values : array of shape (n, k)
        Of a column of numbers or times.
    trained : TableStatistic
        Of the training rows.
    j : int
        Number of the column.
    """
    gaps = np.isnan(values[:, 0])
    present_values = values[~gaps]
    n_trained = trained.rows - trained.missing[j]
    share = trained.missing[j] / trained.rows
    # Means, deviations and numbers of rows: of gaps, then of the parts of the values
    given = [(gaps.mean(), gaps.std(), len(gaps))]
    before = [(share, np.sqrt(share * (1 - share)), trained.rows)]
    if min(len(present_values), n_trained) > 1:
        start, stop = part_offsets(trained.kinds)[j : j + 2]
        summary = trained.summary.take(slice(start, stop))
        for k, column in enumerate(present_values.T):
            spread = np.sqrt(summary.squares[k] / summary.weight[k])
            given.append((column.mean(), column.std(ddof=1), len(column)))
            before.append((summary.mean[k], spread, n_trained))
    p = min(map(_test, given, before))
    return float(min(p * len(given) * len(trained.kinds), 1.0))


def _test(side: tuple[Any, ...], other: tuple[Any, ...]) -> float:
    """p-value of equal means of two sides, each a mean, a deviation, a number."""
    # Equal values but for rounding
    if side[1] + other[1] <= ROUNDING * (abs(side[0]) + abs(other[0])):
        return float(np.isclose(side[0], other[0]))
    return float(ttest_ind_from_stats(*side, *other, equal_var=False).pvalue)


def _alone(X: NDArray, y: NDArray, is_class: bool) -> float | None:
    """How well a small tree predicts the target by one column, encoded in the columns
    of X, on rows that it has not seen; best of two sizes.
    """
    if is_class:
        # Classes that both halves of the rows have
        frequent = np.bincount(y)[y] > 1
        X, y = X[frequent], y[frequent]
    if not X.shape[1] or n_distinct(y) < 2:
        return None
    tree, folds, scoring = DecisionTreeRegressor, KFold, "r2"
    if is_class:
        tree, folds = DecisionTreeClassifier, StratifiedKFold
        scoring = "roc_auc_ovr_weighted"
    halves = folds(2, shuffle=True, random_state=11)
    trees = [tree(max_leaf_nodes=n_leaves, random_state=0) for n_leaves in (5, 32)]
    parts = [cross_val_score(one, X, y, cv=halves, scoring=scoring) for one in trees]
    return float(max(0.0, *np.mean(parts, axis=1)))
