"""Which rows validate which, as users say it: by groups, or by splits as scikit-learn
makes them.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Indices, Mask
from bochner.data.columns import first_row, missing_targets
from bochner.data.hashes import observation_hashes, row_hashes
from bochner.data.row_splits import Fold, RowSplits
from bochner.data.table_input import is_frame
from bochner.data.weights import refuse_column_name
from bochner.notices import warn
from bochner.selection.policy import POLICY
from bochner.sources.rows import stacked

# Splits that are as they are given, of rows each of which validates once
MOST_SPLITS = 10
# Groups that are shared out among folds by their classes; of more, chance does it
MOST_STRATIFIED = 5_000
# Of the validation rows, that may equal rows of the fit beyond what rows of the fit
# equal one another
SHARED = 0.05


def checked_groups(groups: Any, X: Any) -> NDArray | None:
    """To which group each row belongs, shape (n,), None without any groups; ValueError
    where there is not one for each row, or one is missing.
    """
    if groups is None:
        return None
    refuse_column_name("groups", groups)
    values = np.asarray(groups)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or len(values) != X.shape[0]:
        raise ValueError(
            f"groups must be one value for each of the {X.shape[0]:,} rows, or the "
            f"name of a column of X; got shape {values.shape}."
        )
    # Moments, unlike targets, may be groups
    missing = missing_targets(values) if values.dtype == object else values != values
    if missing.any():
        row = first_row(missing)
        raise ValueError(
            f"groups are missing for {np.count_nonzero(missing):,} rows (row {row} is "
            "the first): give each of them a group of its own if it belongs to none."
        )
    return values


def group_numbers(groups: NDArray) -> Indices:
    """Number of the group of each row, shape (n,)."""
    if groups.dtype.kind == "O":
        groups = np.array([str(value) for value in groups.tolist()])
    return np.unique(groups, return_inverse=True)[1]


def row_splits(cv: Any, y: NDArray, groups: NDArray | None, labels: bool) -> RowSplits:
    """The splits of the rows.

    Groups alone make five folds of whole groups, or as many as there are groups; of
    many rows as many as hold some 10,000 rows each. Of classes the folds have about
    equal shares, by `StratifiedGroupKFold`. More than ten splits that are each fitted
    to all rows but those that they validate, as of `LeaveOneGroupOut`, become five,
    which validate those of several: a single group tells little.

    Parameters
    ----------
    cv : int, splitter, iterable of pairs of row numbers, or None
        As scikit-learn's `check_cv` takes it.
    y : array of shape (n,) or (n, K)
    groups : array of shape (n,) or None
    labels : bool
        Whether targets are classes.

    Raises
    ------
    ValueError
        Where there are fewer than two groups, splits are empty, name rows that there
        are not, validate rows that they fit, or tear groups apart.
    """
    # Of 2 MB, and only where rows are split
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv

    n_rows = len(y)
    group = None if groups is None else group_numbers(groups)
    n_groups = 0 if group is None else int(group.max()) + 1
    if group is not None and n_groups < 2:
        raise ValueError(
            "groups has the same value for all rows, so that no group can validate a "
            "fit to others: give a column with two groups or more, or leave groups out."
        )
    is_number = cv is None or isinstance(cv, int | np.integer)
    if group is not None and is_number:
        n_splits = max(POLICY.n_folds, n_rows // POLICY.compared_rows)
        n_splits = min(n_splits if cv is None else int(cv), n_groups)
        largest = np.unique(y, return_counts=True)[1].max() if labels else 0
        stratified = n_splits <= largest and n_groups <= MOST_STRATIFIED
        splitter = (StratifiedGroupKFold if stratified else GroupKFold)(n_splits)
    else:
        splitter = check_cv(cv, y, classifier=labels)
    folds = _folds_of(splitter, y, group)
    # Those of most rows to fit first, as by time the last one is
    folds.sort(key=lambda fold: -int(np.count_nonzero(fold.fitted)))
    held_out_in = np.full(n_rows, -1)
    for k, fold in enumerate(folds):
        held_out_in[fold.held_out & (held_out_in < 0)] = k
    fitted_in = np.stack([fold.fitted for fold in folds], axis=1)
    validates = np.arange(len(folds)) == held_out_in[:, np.newaxis]
    are_single = cv is not None and len(folds) > MOST_SPLITS
    if are_single and (fitted_in != validates).all():
        held_out_in = held_out_in * POLICY.n_folds // len(folds)
        fitted_in = np.arange(POLICY.n_folds) != held_out_in[:, np.newaxis]
    return RowSplits(held_out_in, fitted_in, group)


def with_validation(rows: Any, others: Any) -> Any:
    """Training rows, and other ones below them that only validate: they have no weight
    in the fit. Both are `TrainingRows`.
    """
    _refuse_other_kinds(rows.X, others.X)
    n_rows, n_others = rows.X.shape[0], others.X.shape[0]
    is_other = np.arange(n_rows + n_others) >= n_rows
    weight = np.zeros(len(is_other))
    weight[~is_other] = 1.0 if rows.weight is None else rows.weight
    validating = np.zeros(len(is_other))
    validating[is_other] = 1.0 if others.weight is None else others.weight
    y = np.concatenate([np.asarray(rows.y), np.asarray(others.y)])
    X = stacked([rows.X, others.X])
    # Rows of the fit, with their targets, are not to validate it
    hashes = observation_hashes(row_hashes(X), y.reshape(len(y), -1))
    different, counts = np.unique(hashes[~is_other], return_counts=True)
    by_chance = counts[counts > 1].sum() / n_rows
    n_shared = int(np.isin(hashes[is_other], different).sum())
    if n_shared > (by_chance + SHARED) * n_others:
        warn(
            f"{n_shared:,} of {n_others:,} rows of validation= are rows of the fit: "
            "choices and intervals that they tell are too good. Leave them out of one "
            "of both."
        )
    splits = RowSplits(
        np.where(is_other, 0, -1), ~is_other[:, np.newaxis], None, validating
    )
    target = rows.target._replace(y=y, weight=weight)
    return replace(rows, X=X, target=target, splits=splits)


def _refuse_other_kinds(X: Any, other: Any) -> None:
    """Raise ValueError where a column of validation rows is of another kind than that
    of X.
    """
    if not (is_frame(X) and is_frame(other)):
        return
    first, second = (nw.from_native(one, eager_only=True).schema for one in (X, other))
    for column, kind in first.items():
        if _kind(kind) != _kind(second.get(column, kind)):
            raise ValueError(
                f"Column {column!r} of validation has the type {second[column]}, and "
                f"that of X {kind}: give both the same."
            )


def _kind(kind: Any) -> str:
    """What a type holds: numbers, text, or what its name says."""
    if kind.is_numeric() or kind == nw.Boolean:
        return "numbers"
    if kind in (nw.String, nw.Categorical, nw.Enum):
        return "text"
    return type(kind).__name__ if isinstance(kind, nw.dtypes.DType) else str(kind)


def _folds_of(splitter: Any, y: NDArray, group: Indices | None) -> list[Fold]:
    """The splits of a splitter; ValueError where they are none that can validate."""
    n_rows = len(y)
    try:
        with warnings.catch_warnings():
            # Of classes with few rows; and that groups are ignored, which is refused
            warnings.simplefilter("ignore", UserWarning)
            pairs = list(splitter.split(np.zeros((n_rows, 1)), y, group))
    except ValueError as error:
        cure = " Pass fit(groups=)." if "groups" in str(error) else ""
        if "unpack" in str(error):
            cure = " Each split is a pair of arrays of row numbers."
        raise ValueError(f"cv cannot split the rows: {error}{cure}") from error
    if not pairs:
        raise ValueError(
            "cv yields no split: give one with rows to fit and to validate. A "
            "generator can be read once alone: give a list."
        )
    folds = []
    for k, pair in enumerate(pairs):
        fitted, held_out = (_row_mask(rows, n_rows, k) for rows in pair)
        if (fitted & held_out).any():
            raise ValueError(f"Split {k} of cv validates rows that it is fitted to.")
        if group is not None and np.isin(group[fitted], group[held_out]).any():
            raise ValueError(
                f"Split {k} of cv has rows of one group on both sides: use a splitter "
                "that keeps groups whole, such as GroupKFold, or leave groups out."
            )
        folds.append(Fold(held_out, fitted))
    return folds


def _row_mask(rows: Any, n_rows: int, k: int) -> Mask:
    """The rows of a split, given by their numbers or as a mask."""
    rows = np.asarray(rows)
    mask = np.zeros(n_rows, bool)
    if rows.dtype.kind not in "biu" or rows.ndim != 1 or not len(rows):
        raise ValueError(
            f"Split {k} of cv must be two arrays of whole row numbers, or masks, "
            "neither of them empty."
        )
    if rows.dtype.kind == "b" and len(rows) != n_rows:
        raise ValueError(
            f"Split {k} of cv is a mask of {len(rows):,} rows; there are {n_rows:,}."
        )
    outside = (rows < 0) | (rows >= n_rows)
    if rows.dtype.kind != "b" and outside.any():
        raise ValueError(
            f"Split {k} of cv names row {rows[outside][0]}; rows are numbered from 0 "
            f"to {n_rows - 1}."
        )
    mask[rows] = True
    return mask
