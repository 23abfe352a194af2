"""Rows that a fit of the command learns from, and rows that are held out of it: by
chance, whole groups, or the latest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bochner.cli.arguments import Arguments
from bochner.cli.failures import CommandError
from bochner.cli.tables import drawn_rows, fitted_encoder, scored_share
from bochner.cli.target import (
    Target,
    TargetSummary,
    read_target,
    split_rows,
    with_target,
)
from bochner.sources.base import TableSource
from bochner.sources.rows import filter_rows

FEWEST_SPLIT = 5  # rows, of which one can be held out for a score
# One to test, and two of which one can validate a fit to the other
FEWEST_GROUPS = 3
# Earlier rows, of which the later ones validate fits to the others in turn
FEWEST_IN_TIME = 12


@dataclass(frozen=True)
class Split:
    """Rows to learn from, and rows that are held out of them.

    Attributes
    ----------
    train, all_rows : tuple
        Arguments of the estimator's `fit`: for the rows that are not held out, and for
        all rows with a target.
    test : tuple of rows and Target, or None
        The rows that are held out.
    train_target : TargetSummary
        Of the rows that are not held out.
    said : str
        What the rows held out are, where these are not drawn by chance.
    """

    train: tuple[Any, ...]
    all_rows: tuple[Any, ...]
    test: tuple[Any, Target] | None
    train_target: TargetSummary
    said: str = ""


def hold_out(
    table: pa.Table | TableSource,
    target: TargetSummary,
    task: str,
    asked: Arguments,
    notes: list[str],
) -> Split:
    """Hold out a share of the rows that have a target.

    Rows with equal features stay together: of a table in memory with as much of each
    class as there is in all rows, else by a hash of the content of each row. Where
    groups are named, whole ones are held out; where time is, the latest rows.
    """
    from sklearn.model_selection import GroupShuffleSplit, StratifiedGroupKFold

    if isinstance(table, TableSource):
        return _hold_out_by_content(table, target, task, asked)
    truth = read_target(table, target.name, asked.data)
    truth = truth.as_numbers(asked.data) if task == "regression" else truth
    X = table.drop_columns([target.name])
    X = X.take(truth.rows) if truth.missing else X
    if asked.time is not None:
        # From the earliest row to the latest
        column = X.select([asked.time])
        how_text_is_read = asked.how_text_is_read | {"text_features": None}
        values = fitted_encoder(column, [], how_text_is_read).values_of(column, 0)
        place = f"{asked.data}: column '{asked.time}'"
        if isinstance(values, tuple):
            raise CommandError(
                f"{place} holds text that is not read as dates; --time needs dates or "
                "numbers"
            )
        time = values[:, 0]
        missing = np.isnan(time)
        if missing.any():
            raise CommandError(
                f"{place} is missing in {np.count_nonzero(missing):,} rows; --time "
                "needs one for each row"
            )
        order = np.argsort(time, kind="stable")
        X = X.take(order)
        truth = truth.take(order)
    if asked.group is not None:
        truth = replace(truth, group=_groups(X, asked))
        X = X.drop_columns([asked.group])
    n = X.num_rows
    size = asked.test_size
    if size and n < FEWEST_SPLIT:
        raise CommandError(
            f"{n} row{'s' * (n > 1)} with a target cannot be split for a score; give "
            f"{FEWEST_SPLIT} or more, or use --test-size 0"
        )
    every = _of_fit(X, truth)
    if not size:
        return Split(every, every, None, target)
    said = ""
    if truth.group is not None:
        # Whole groups, of classes with about equal shares
        n_groups = len(set(truth.group.tolist()))
        if n_groups < FEWEST_GROUPS:
            raise CommandError(
                f"{asked.data}: column '{asked.group}' has {n_groups} "
                f"group{'s' * (n_groups > 1)}, and a score needs {FEWEST_GROUPS}: use "
                "--test-size 0, or leave out --group"
            )
        n_folds = min(max(round(1 / size), 2), n_groups)
        splitter: Any = GroupShuffleSplit(1, test_size=size, random_state=asked.seed)
        if task == "classification" and size <= 1 / 2:
            splitter = StratifiedGroupKFold(
                n_folds, shuffle=True, random_state=asked.seed
            )
        train, test = next(splitter.split(truth.values, truth.values, truth.group))
        if len(set(truth.group[train].tolist())) < FEWEST_GROUPS - 1:
            raise CommandError(
                f"{asked.data}: a test split of {100 * size:g} % leaves one group to "
                "learn from: use a smaller --test-size"
            )
        said = _whole_groups(truth.group[test], asked)
    elif asked.time is not None:
        n_train = n - math.ceil(size * n)
        if n_train < FEWEST_IN_TIME:
            raise CommandError(
                f"{asked.data}: --time leaves {n_train} rows to learn from, and "
                f"needs {FEWEST_IN_TIME}: give more rows, or a smaller --test-size"
            )
        train, test = np.split(np.arange(n), [n_train])
        said = f"the latest by '{asked.time}'"
    else:
        train, test = split_rows(X, truth, task, size, asked.seed, notes)
    test_truth = truth.take(test)
    return Split(
        _of_fit(X.take(train), truth.take(train)),
        every,
        (X.take(test), test_truth),
        target.without(test_truth),
        said,
    )


def _of_fit(X: pa.Table, truth: Target) -> tuple[Any, ...]:
    """Arguments of the estimator's `fit`."""
    beside = () if truth.group is None else (None, truth.group)
    return X, truth.values, *beside


def _whole_groups(groups: NDArray, asked: Arguments) -> str:
    n_groups = len(set(groups.tolist()))
    return f"{n_groups:,} whole group{'s' * (n_groups > 1)} of '{asked.group}'"


def _groups(X: pa.Table, asked: Arguments) -> NDArray:
    """To which group each row belongs."""
    column = X[asked.group]
    if n_missing := pc.sum(pc.is_null(column, nan_is_null=True)).as_py():
        raise CommandError(
            f"{asked.data}: column '{asked.group}' is missing in "
            f"{n_missing:,} rows: give each a group, of its own if it belongs to none"
        )
    return column.to_numpy()


def _hold_out_by_content(
    source: TableSource, target: TargetSummary, task: str, asked: Arguments
) -> Split:
    """As `hold_out`, of a table that stays where it is; no more rows are held out
    than tell the score.
    """
    path = asked.data
    name = target.name
    group = asked.group
    seed = asked.seed
    if task == "regression" and target.kind in {"text", "category"}:
        raise CommandError(
            f"{path}: column '{name}' holds text; regression needs numbers: use "
            "--task classification"
        )
    if asked.time is not None:
        raise CommandError(
            f"{path}: --time sorts the rows in memory, and these are too many, or "
            "--sample is given: give fewer rows, or leave out --time"
        )
    # Of the estimator's `fit`, beside the rows
    others: tuple[Any, ...] = () if source.names is None else (name,)
    others += () if group is None else (None, group)
    with_a_target = source
    if target.missing:
        with_a_target = filter_rows(source, 0.0, 1.0, seed, name)
    every = (with_a_target, *others)
    if not asked.test_size:
        return Split(every, every, None, target)
    share = scored_share(source, target.n_known, asked.test_size)
    drawn = drawn_rows(source, share, seed, name, group)
    X, test = with_target(drawn.X, drawn.y, name, task, path, [])
    said = ""
    if group is not None:
        groups = _groups(X, asked)
        test = replace(test, group=groups[test.rows])
        said = _whole_groups(groups, asked)
        X = X.drop_columns([group])
    train = filter_rows(source, share, 1.0, seed, name, group)
    return Split((train, *others), every, (X, test), target.without(test), said)
