"""Which columns of a table are targets and weights, and which are left to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bochner.data.columns import DATES, first_row, missing_targets
from bochner.data.streams.base import Batch, SourceError
from bochner.data.streams.row_errors import RowError
from bochner.scores.rows import MOST

SHOWN = 8  # names in a message


class Rows(NamedTuple):
    """Consecutive rows of a part, as of `Batch`, and their numbers in it, shape (b,)."""

    X: Any
    y: NDArray | None
    weight: NDArray | None
    number: NDArray[np.int64]


@dataclass(frozen=True)
class Roles:
    """Columns with a part of their own.

    Attributes
    ----------
    target : tuple of str, or None
        Columns to predict; None where targets come apart from the table, or are not wanted.
    weight : str or None
        Column of weights.
    one_target : bool
        Whether y is of shape (b,), not (b, K).
    without : {"refuse", "drop", "keep"}
        What becomes of rows whose target is missing or infinite; those that are kept have NaN or None for a missing
        one, and an infinite one is refused.
    """

    target: tuple[str, ...] | None = None
    weight: str | None = None
    one_target: bool = True
    without: str = "refuse"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return (*(self.target or ()), *([self.weight] if self.weight else []))

    def split(self, batch: Batch) -> Batch:
        """Take targets and weights out of the table of a batch: y as an array, weight as a float64 array or None."""
        return Batch(*self.rows(batch)[:3])

    def rows(self, batch: Batch, first: int = 0) -> Rows:
        """Split a batch whose first row has that number; see `split`.

        Returns
        -------
        Rows
            y holds float64, int64 or bool numbers, or objects; weight is of shape (b,) or None.

        Raises
        ------
        SourceError
            Where a target is missing, infinite or a date, or a weight is negative; and for columns that are not there.
        """
        X, number = batch.X, np.arange(first, first + batch.X.shape[0])
        y, bad = self._targets(batch)
        weight = self._weights(batch, first)
        if isinstance(X, pa.Table):
            X = X.drop_columns(list(self.columns))
        if bad is not None and self.without == "keep":
            bad = np.isinf(y.reshape(len(y), -1)).any(axis=1) if y.dtype.kind == "f" else None
        if bad is None or not bad.any():
            return Rows(X, y, weight, number)
        if self.without != "drop":
            self._refuse(y, bad, first)
        kept = ~bad
        X = X.filter(pa.array(kept)) if isinstance(X, pa.Table) else X[kept]
        return Rows(X, y[kept], None if weight is None else weight[kept], number[kept])

    def _targets(self, batch: Batch) -> tuple[Any, NDArray[np.bool_] | None]:
        """Targets, and which rows lack one."""
        if self.target is None:
            return (None, None) if batch.y is None else _read_array(np.asarray(batch.y))
        if batch.y is not None:
            raise SourceError(f"the rows come with their own targets; leave out the name {self.target[0]!r}")
        columns = [_read_target(_column(batch.X, name), name) for name in self.target]
        bad = np.logical_or.reduce([gaps for _, gaps in columns])
        y = np.column_stack([_marked(*column) if self.without == "keep" else column[0] for column in columns])
        return (y[:, 0] if self.one_target else y), bad

    def _weights(self, batch: Batch, first: int) -> NDArray[np.float64] | None:
        """Weights; SourceError for those that are negative, infinite or missing."""
        if self.weight is None:
            weight = None if batch.weight is None else _weight_array(np.asarray(batch.weight))
        else:
            weight = _as_floats(_column(batch.X, self.weight), f"the weights {self.weight!r}")
        if weight is None:
            return None
        bad = ~((weight >= 0) & (weight <= MOST))
        if bad.any():
            row = first_row(bad)
            what = "the weight" if self.weight is None else f"the weight {self.weight!r}"
            bounds = f"; weights must be numbers of at least 0 and at most {MOST:g}"
            raise RowError(f"{what} is {weight[row]} in ", first + row, bounds)
        return weight

    def _refuse(self, y: Any, bad: NDArray[np.bool_], first: int) -> None:
        row = first_row(bad)
        values = np.atleast_1d(y[row])
        if values.dtype.kind == "f" and np.isinf(values).any():
            raise RowError("the target is infinite in ", first + row, "; drop such rows, or clip their targets")
        if self.target is None:
            raise RowError("the target is missing in ", first + row, "; drop such rows")
        cure = f"open_source(..., where=~pyarrow.compute.field({self.target[0]!r}).is_null(nan_is_null=True))"
        none = " and in all rows after it" if bad.all() and first == 0 else ""
        raise RowError(
            f"the target {', '.join(map(repr, self.target))} is missing in ",
            first + row,
            f"{none}; drop such rows, leave them out with {cure}, or learn from them too with a SemiSupervised "
            "estimator",
        )


def inputs(schema: Any, roles: Roles) -> Any:
    """The schema without targets and weights; SourceError where these are not in it, or nothing is left.

    Parameters
    ----------
    schema : pyarrow.Schema or int
        As of `TableSource`.
    roles : Roles
    """
    named = [*(roles.target or ()), *([roles.weight] if roles.weight else [])]
    if isinstance(schema, int):
        if named:
            raise SourceError(f"the columns have no names, so none is {named[0]!r}; give the targets as an array")
        return schema
    for name in named:
        require_column(schema.names, name)
    left = pa.schema([field for field in schema if field.name not in named])
    if not len(left):
        raise SourceError(f"the table has no columns but {', '.join(map(repr, named))}; none is left to learn from")
    return left


def require_column(names: Sequence[str], name: str) -> None:
    """Raise SourceError, with names that are alike, where a table has no column of this name."""
    if name not in names:
        near = get_close_matches(name, names, 3) or list(names)[:SHOWN]
        more = ", ..." if len(near) == SHOWN < len(names) else ""
        raise SourceError(f"there is no column {name!r}; there are {', '.join(map(repr, near))}{more}")


def _column(X: Any, name: str) -> pa.ChunkedArray:
    if not isinstance(X, pa.Table):
        raise SourceError(f"the columns have no names, so none is {name!r}; give the targets as an array")
    require_column(X.column_names, name)
    return X.column(name)


def _read_target(column: pa.ChunkedArray, name: str) -> tuple[NDArray, NDArray[np.bool_]]:
    """Values of a column of targets, and where there are none."""
    import pyarrow.compute as pc

    is_a, kind = pa.types, column.type
    if is_a.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if is_a.is_temporal(kind):
        raise SourceError(f"column {name!r}: {DATES}")
    if is_a.is_floating(kind) or is_a.is_decimal(kind):
        values = _as_floats(column, f"the target {name!r}")
        return values, ~np.isfinite(values)
    gaps = column.is_null().to_numpy()
    if is_a.is_null(kind):
        return np.full(len(column), np.nan), gaps
    if is_a.is_boolean(kind):
        return pc.fill_null(column, False).to_numpy(), gaps
    if is_a.is_integer(kind):
        return _cast(pc.fill_null(column, 0), pa.int64(), f"the target {name!r}").to_numpy(), gaps
    if is_a.is_string(kind) or is_a.is_large_string(kind) or is_a.is_string_view(kind):
        return column.to_numpy().astype(object, copy=False), gaps
    raise SourceError(f"column {name!r}: targets must be numbers, text or booleans, not {kind}")


def _marked(values: NDArray, gaps: NDArray[np.bool_]) -> NDArray:
    """Values with NaN, or None among what are no numbers, in the gaps."""
    if values.dtype.kind not in "ib" or not gaps.any():
        return values
    values = values.astype(np.float64 if values.dtype.kind == "i" else object)
    values[gaps] = np.nan if values.dtype.kind == "f" else None
    return values


def _read_array(y: NDArray) -> tuple[NDArray, NDArray[np.bool_] | None]:
    """Targets of an array in the types of those of columns, and which rows lack one."""
    kind = y.dtype.kind
    if kind in "iu":
        return y.astype(np.int64, copy=False), None
    if kind == "f":
        y = y.astype(np.float64, copy=False)
        gaps = ~np.isfinite(y)
    elif kind in "bOmMUS":
        y = y.astype(object) if kind in "US" else y
        try:
            gaps = missing_targets(y)
        except ValueError as error:
            raise SourceError(str(error)) from None
    else:
        raise SourceError(f"targets must be numbers, text or booleans, not {y.dtype}")
    return y, gaps if gaps.ndim == 1 else gaps.any(axis=1)


def _weight_array(weight: NDArray) -> NDArray[np.float64]:
    """Weights that came apart from the rows; SourceError where there is not one number for each row."""
    if weight.ndim != 1:
        raise SourceError(f"the weights must be one number for each row, not an array of {weight.ndim} dimensions")
    try:
        return weight.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise SourceError(f"the weights must be numbers: {error}") from error


def _as_floats(column: pa.ChunkedArray, what: str) -> NDArray[np.float64]:
    """A column of numbers, missing ones as NaN."""
    return _cast(column, pa.float64(), what).to_numpy()


def _cast(column: pa.ChunkedArray, kind: pa.DataType, what: str) -> pa.ChunkedArray:
    try:
        return column.cast(kind, safe=pa.types.is_integer(kind))
    except pa.ArrowException as error:
        raise SourceError(f"{what} cannot be read as numbers: {str(error).partition(chr(10))[0]}") from error
