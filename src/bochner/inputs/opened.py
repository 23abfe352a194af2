"""What users pass, opened: rows in memory, or a table that is read in passes, and the
sizes that decide between them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Self

import narwhals as nw
import numpy as np
import scipy.sparse as sp

from bochner.data.table_input import is_frame
from bochner.engines.base import Engine
from bochner.engines.current import current_engine
from bochner.engines.progress import progress
from bochner.selection.policy import POLICY
from bochner.settings import current
from bochner.sources.base import TableSource
from bochner.sources.dask_parts import (
    CollectionPart,
    active_engine,
    is_collection,
    is_delayed,
    open_collection,
)
from bochner.sources.memory import of_arrays
from bochner.sources.opening import is_streamed, open_selected, open_source
from bochner.sources.rows import Roles, read_all
from bochner.sources.rowwise import inputs_of, tables_of
from bochner.sources.scan import scan
from bochner.sources.schema import Selection, why_text
from bochner.sources.table_summary import TableSummary

# Of a row in memory: its columns as they came and encoded; targets, hashes, bins
CELL_BYTES, ROW_BYTES = 12, 300
AROUND = 1.5  # of what rows in memory take, over the rows alone
GATHERED_SHARE = 2  # of a memory limit, one part may be taken by rows in memory
SAMPLE_SHARE = 16  # of a memory limit, one part is for the sample
FEWEST_SAMPLED = 5_000


def row_bytes(n_columns: int) -> int:
    """Bytes of a row that is held in memory for a fit."""
    return CELL_BYTES * n_columns + ROW_BYTES


def gathers(n_rows: int, n_columns: int, elsewhere: bool = False) -> bool:
    """Whether a table is small enough to be read into memory as a whole, and fitted
    there, by the memory limit of the settings too.

    Parameters
    ----------
    n_rows, n_columns : int
    elsewhere : bool, default=False
        Whether others can read the table: it is gathered then only if a sample would be
        all of it.
    """
    if elsewhere and n_rows > sampled_rows(n_columns):
        return False
    if n_rows > POLICY.gathered_rows or n_rows * n_columns > POLICY.gathered_entries:
        return False
    limit = current().memory_limit
    return (
        limit is None
        or GATHERED_SHARE * AROUND * n_rows * row_bytes(n_columns) <= limit
    )


def sampled_rows(n_columns: int) -> int:
    """Rows of the sample on which choices are made where the table stays where it is,
    by the memory limit of the settings too.
    """
    most = POLICY.sampled_rows
    width = POLICY.gathered_entries // POLICY.gathered_rows
    rows = min(most, max(most * width // max(n_columns, 1), FEWEST_SAMPLED))
    limit = current().memory_limit
    if limit is None:
        return rows
    rows = min(rows, limit // (SAMPLE_SHARE * row_bytes(n_columns)))
    return max(rows, FEWEST_SAMPLED)


@dataclass(frozen=True)
class Stream:
    """A table that is read part by part, and which of its columns are targets and
    weights.

    Attributes
    ----------
    table : TableSource
    roles : Roles
    engine : Engine
        What reads it.
    """

    table: TableSource
    roles: Roles
    engine: Engine = field(default_factory=current_engine)

    @classmethod
    def of_rows(cls, X: Any, y: Any, weight: Any, without: str) -> Self:
        """Checked rows in memory; parameters as of `Roles` and `open_data`."""
        one_target = y is not None and y.ndim == 1
        beside = Roles(None, one_target=one_target, without=without)
        return cls(of_arrays(X, y, weight), beside)

    @property
    def n_columns(self) -> int:
        """Columns of the table, but for those with a part of their own."""
        return self.table.n_columns - len(self.roles.columns)

    def without_sample(self) -> Stream:
        """Copy the stream without its sample: all rows are read, not first ones that
        stand for all.
        """
        return replace(self, table=replace(self.table, sample=None))

    def scan(self, seed: int, labels: bool, verbose: Any, what: str) -> TableSummary:
        """Read all rows once, or the first ones where these stand for all, for their
        statistics and a sample; parameters as of `TrainingRows.of`.
        """
        table = self.table
        size = table.sample or sampled_rows(self.n_columns)
        label = f"Reading statistics of {what}"
        with progress(label, table.n_rows, bool(verbose)) as advance:
            return scan(table, self.roles, labels, seed, size, advance, self.engine)


class Given(NamedTuple):
    """What `fit` was given: arrays and frames, or else a stream."""

    X: Any
    y: Any
    weight: Any
    groups: Any = None
    stream: Stream | None = None


def open_data(
    X: Any,
    y: Any,
    sample_weight: Any,
    without: str = "refuse",
    groups: Any = None,
    here: bool = False,
) -> Given:
    """Open what is to be read, and take columns that are named out of a frame; small
    tables are read at once.

    Parameters
    ----------
    X, y, sample_weight : what `fit` takes
    without : {"refuse", "keep"}
        What becomes of rows without a target that are read; see `Roles`.
    groups : array of shape (n,) or str, optional
        To which group each row belongs.
    here : bool, default=False
        Whether tables that fit the memory are read even where others could read them.

    Raises
    ------
    TypeError
        Where X is a place that rows are read from, and y, `sample_weight` or `groups`
        are no names of its columns.
    """
    if is_collection(X) or is_delayed(X):
        # Targets and weights are of Dask too, or arrays, or names of its columns
        targets, weight = y, sample_weight
        y = y if are_names(y) else None
        sample_weight = sample_weight if isinstance(sample_weight, str) else None
        table = open_collection(
            X,
            targets if y is None else None,
            weight if sample_weight is None else None,
        )
        column_roles = roles(y, sample_weight, groups)
        if y is None:
            one_target = getattr(targets, "ndim", 1) == 1
            column_roles = replace(column_roles, one_target=one_target)
    elif is_streamed(X):
        names = [*(y if isinstance(y, list | tuple) else [y]), sample_weight, groups]
        wanted = tuple(name for name in names if isinstance(name, str))
        # Opened first, so that a path that is none is told of before its columns
        table = open_selected(X, Selection(named=wanted))
        column_roles = roles(y, sample_weight, groups)
        for name in column_roles.target or ():
            if why := why_text(table, name):
                cure = (
                    f"open_source(..., schema=pyarrow.schema({{{name!r}: "
                    f"pyarrow.string()}}))"
                )
                raise ValueError(
                    f"The target {name!r} {why}; if it holds classes, open the file "
                    f"with {cure}."
                )
    else:
        beside = y, sample_weight, groups
        names = [name for name in beside if isinstance(name, str)]
        # A list of text may be the labels of all rows as well, some of which are equal
        are_several = isinstance(y, list | tuple) and are_names(y)
        are_several = are_several and len({*y}) == len(y)
        are_several = are_several and is_frame(X) and len(y) != X.shape[0]
        names += list(y) if are_several else []
        if not names or not is_frame(X):
            return Given(X, *beside)
        frame = _frame_with(X, names)
        targets, *others = (
            frame[name].to_native() if isinstance(name, str) else name
            for name in beside
        )
        if are_several:
            targets = frame.select(list(y)).to_native()
        return Given(frame.drop(names).to_native(), targets, *others)
    of_dask = any(isinstance(part, CollectionPart) for part in table.parts[:1])
    engine = active_engine() if of_dask else current_engine()
    stream = Stream(table, replace(column_roles, without=without), engine)
    # Where it is known to be small enough, in the memory of this process or of others
    n_rows = None if table.sample is not None else table.n_rows
    elsewhere = engine.is_remote and not here
    if n_rows is not None and gathers(n_rows, stream.n_columns, elsewhere):
        return Given(*read_all(table, stream.roles))
    return Given(None, None, None, stream=stream)


def _frame_with(X: Any, names: Sequence[str]) -> nw.DataFrame[Any]:
    """A data frame by narwhals; ValueError where it lacks one of some columns."""
    frame = nw.from_native(X, eager_only=True)
    if missing := [name for name in names if name not in frame.columns]:
        raise ValueError(
            f"X has no column {missing[0]!r}; its columns are "
            f"{', '.join(map(repr, frame.columns[:20]))}."
        )
    return frame


def are_names(y: Any) -> bool:
    """Whether targets are the name of a column, or several."""
    several = isinstance(y, list | tuple) and len(y) > 0
    return isinstance(y, str) or (several and all(isinstance(name, str) for name in y))


def roles(y: Any, sample_weight: Any = None, groups: Any = None) -> Roles:
    """The roles of columns that are named as targets, weights and groups."""
    given_names = {"y": y, "sample_weight": sample_weight, "groups": groups}
    for name, value in given_names.items():
        names = value if name == "y" and isinstance(value, list | tuple) else [value]
        if not all(one is None or isinstance(one, str) for one in names):
            raise TypeError(
                f"{name} must be the name of a column where X is read from files or "
                "batches, "
                f"got {type(value).__name__}."
            )
    if y is None:
        return Roles(None, sample_weight, group=groups)
    targets = (y,) if isinstance(y, str) else tuple(y)
    return Roles(targets, sample_weight, isinstance(y, str), group=groups)


def given_batch(
    X: Any,
    y: Any,
    sample_weight: Any,
    groups: str | None = None,
    names: Sequence[str] | None = None,
) -> tuple[Any, Any, Any]:
    """X, y and weights of rows that must fit the memory, without a column of groups;
    ValueError where they are a larger source.

    Parameters
    ----------
    X, y, sample_weight, groups
        As of `open_data`.
    names : sequence of str, optional
        Columns that a fitted model needs: others that a source has are left out.
    """
    is_read = is_streamed(X)
    X, y, weight, _, stream = open_data(X, y, sample_weight, groups=groups, here=True)
    if stream is not None:
        raise ValueError(
            "Rows are taken into memory here, and this source is larger: give a part "
            "of it; to fit all rows in passes, call fit."
        )
    if is_read:
        X = inputs_of(X, names)
    return X, y, weight


def columns_apart(X: Any, Y: Any, shared: str | None = None) -> tuple[Any, Any]:
    """A table and columns of it by name as two tables; others as they are.

    Parameters
    ----------
    X : table of any kind
    Y : table of any kind, or names of columns of X
        Text that is the path of a file or folder, with a separator or a suffix, is no
        name.
    shared : str, optional
        A column that both tables are to have where they are read in passes, such as
        that of weights.

    Raises
    ------
    ValueError
        Where the table has no such columns, or none with names.
    """
    is_file = (
        isinstance(Y, str)
        and os.path.exists(Y)
        and (os.path.dirname(Y) or os.path.splitext(Y)[1])
    )
    if is_file or not are_names(Y):
        return X, Y
    wanted = [Y] if isinstance(Y, str) else Y
    if isinstance(X, Iterator) or (callable(X) and is_streamed(X)):
        # Batches are read once, and both tables from what is kept of them
        source = open_source(X)
        X = partial(tables_of, source)
    if is_streamed(X):
        return open_source(X, exclude=wanted), open_source(
            X, columns=[*wanted, *([shared] if shared else [])]
        )
    if not is_frame(X):
        # Text that is the labels of the rows, or a place to read from
        shape = getattr(X, "shape", ())
        if isinstance(Y, str) and len(shape) and not os.path.exists(Y):
            raise ValueError(
                f"{Y!r} is no column of X, an array whose columns have no names: give "
                "a data frame, or Y itself."
            )
        are_labels = not isinstance(Y, str) and len(Y) == (shape or (0,))[0]
        return X, np.array(Y, dtype=object) if are_labels else Y
    frame = _frame_with(X, wanted)
    if not set(frame.columns) - set(wanted):
        raise ValueError(
            "Y names all columns of X, to which none is left: name some of them."
        )
    return frame.drop(wanted).to_native(), frame.select(wanted).to_native()


def is_large(X: Any) -> bool:
    """Whether rows in memory are more than a sample, and too many for copies and marks
    of all of them.
    """
    is_more = X.shape[0] > sampled_rows(X.shape[1])
    return is_more and not _is_held(X)


def _is_held(X: Any) -> bool:
    """Whether a fit may hold rows in memory with all that it makes of them."""
    n_rows, n_columns = X.shape
    held = X.nnz // max(n_rows, 1) if sp.issparse(X) else n_columns
    return gathers(n_rows, held)


def exceeds_limit(X: Any) -> bool:
    """Whether rows in memory, few as they are, are too many for the memory limit."""
    return current().memory_limit is not None and not _is_held(X)
