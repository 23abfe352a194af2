"""Rows of parts: split into inputs, targets and weights, checked, cut into blocks of
equal size, and chosen by their content.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.arrays import Mask
from bochner.blocks import PART_BYTES
from bochner.data.columns import DATES, first_row, missing_targets
from bochner.data.hashes import row_hashes, uniform
from bochner.data.table_input import as_numbers, checked_matrix, is_frame
from bochner.engines.local import in_threads
from bochner.scores.measures import MOST
from bochner.sources.base import (
    Batch,
    Part,
    RowError,
    SourceError,
    TableSource,
    infinite_value,
)
from bochner.sources.paths import FileState, reason
from bochner.sources.schema import decoded, fitted, is_text, require


class PartChecksum:
    """Number and checksum of rows that come batch by batch, in whatever batches they
    come.

    Attributes
    ----------
    n_rows : int
        Rows that have come.
    """

    def __init__(self) -> None:
        self.n_rows = 0
        self._sums: dict[str, int] = {}

    @property
    def checksum(self) -> int:
        """Checksum of the rows of which `add` had the content."""
        return crc32(repr(sorted(self._sums.items())).encode())

    def add(self, batch: Batch, content: bool = True) -> None:
        """Count the next rows, and take in their content where that is wanted."""
        self.n_rows += batch.X.shape[0]
        if not content or not batch.X.shape[0]:
            return
        X = batch.X
        columns = {"X": X}
        if isinstance(X, pa.Table):
            columns = {f"column {name}": X[name] for name in X.column_names}
        for name, values in (columns | {"y": batch.y, "weight": batch.weight}).items():
            if values is not None:
                content_before = self._sums.get(name, 0)
                self._sums[name] = crc32(_content(values), content_before)


def _content(values: Any) -> Any:
    """Bytes that tell rows of a column, an array or a sparse matrix from others; those
    of more rows follow on one another.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return np.ascontiguousarray(values)
    # Texts of which most differ take long to hash one by one
    if isinstance(values, np.ndarray):
        texts = values.ravel().tolist()
    elif isinstance(values, pa.ChunkedArray) and is_text(values.type):
        texts = values.to_pylist()
    else:
        is_column = isinstance(values, pa.ChunkedArray)
        return row_hashes(pa.table({"": values}) if is_column else values)
    return "\0".join([*map(str, texts), ""]).encode(errors="surrogatepass")


AnyRows = TypeVar("AnyRows", bound=NamedTuple)


@dataclass(frozen=True)
class Roles:
    """Columns with a part of their own.

    Attributes
    ----------
    target : tuple of str, or None
        Columns to predict; None where targets come apart from the table, or are not
        wanted.
    weight : str or None
        Column of weights.
    group : str or None
        Column that tells to which group a row belongs.
    one_target : bool
        Whether y is of shape (b,), not (b, K).
    without : {"refuse", "keep"}
        What becomes of rows whose target is missing; those that are kept have NaN or
        None for it. An infinite one is refused.
    classes, factors : arrays of shape (K,), or None
        Labels, ascending, and factors of the weights of their rows.
    """

    target: tuple[str, ...] | None = None
    weight: str | None = None
    one_target: bool = True
    without: str = "refuse"
    group: str | None = None
    classes: Any = None
    factors: Any = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return (*(self.target or ()), *filter(None, (self.weight, self.group)))

    def rows(self, batch: Batch, first: int = 0) -> Batch:
        """Take targets and weights out of the table of a batch, whose first row has
        that number.

        Returns
        -------
        Batch
            y holds float64, int64 or bool numbers, or objects; weight is float64 of
            shape (b,), or None.

        Raises
        ------
        SourceError
            Where a target is missing, infinite or a date, or a weight is negative; and
            for columns that are not there.
        """
        X = batch.X
        y, bad = self._targets(batch)
        weight = batch.weight
        if self.weight is not None:
            what = f"the weights {self.weight!r}"
            weight = _cast(_column(X, self.weight), pa.float64(), what)
        elif weight is not None:
            weight = np.asarray(weight)
            if weight.ndim != 1:
                raise SourceError(
                    "the weights must be one number for each row, not an array of "
                    f"{weight.ndim} dimensions"
                )
            try:
                weight = weight.astype(np.float64, copy=False)
            except (TypeError, ValueError) as error:
                raise SourceError(f"the weights must be numbers: {error}") from error
        outside = None if weight is None else ~((weight >= 0) & (weight <= MOST))
        if outside is not None and outside.any():
            row = first_row(outside)
            name = "" if self.weight is None else f" {self.weight!r}"
            bounds = f"; weights must be numbers of at least 0 and at most {MOST:g}"
            raise RowError(
                f"the weight{name} is {weight[row]} in ", first + row, bounds
            )
        group = batch.group
        if self.group is not None:
            group = _column(X, self.group).to_numpy(zero_copy_only=False)
        if isinstance(X, pa.Table):
            X = X.drop_columns(list(self.columns))
        if bad is not None and self.without == "keep":
            is_float = y.dtype.kind == "f"
            bad = np.isinf(y.reshape(len(y), -1)).any(axis=1) if is_float else None
        if bad is not None and bad.any():
            row = first_row(bad)
            values = np.atleast_1d(y[row])
            if values.dtype.kind == "f" and np.isinf(values).any():
                cure = "; drop such rows, or clip their targets"
                raise RowError("the target is infinite in ", first + row, cure)
            if self.target is None:
                cure = "; drop such rows"
                raise RowError("the target is missing in ", first + row, cure)
            none = " and in all rows after it" if bad.all() and first == 0 else ""
            raise RowError(
                f"the target {', '.join(map(repr, self.target))} is missing in ",
                first + row,
                f"{none}; drop such rows, leave them out with open_source(..., "
                f"where=~pyarrow.compute.field({self.target[0]!r})"
                ".is_null(nan_is_null=True)), or learn from them too with a "
                "SemiSupervised estimator",
            )
        if self.classes is not None:
            factor = self.factors[np.searchsorted(self.classes, np.asarray(y))]
            weight = factor if weight is None else weight * factor
        return Batch(X, y, weight, group)

    def _targets(self, batch: Batch) -> tuple[Any, Mask | None]:
        """Targets, and which rows lack one."""
        if self.target is None:
            return (None, None) if batch.y is None else _read_array(np.asarray(batch.y))
        if batch.y is not None:
            raise SourceError(
                "the rows come with their own targets; leave out the name "
                f"{self.target[0]!r}"
            )
        columns = []
        missing = []
        for name in self.target:
            values, gaps = read_column(_column(batch.X, name), name)
            # What is kept has NaN, or None among what are no numbers, in the gaps
            kind = values.dtype.kind
            if self.without == "keep" and kind in "ib" and gaps.any():
                values = values.astype(np.float64 if kind == "i" else object)
                values[gaps] = np.nan if kind == "i" else None
            columns.append(values)
            missing.append(gaps)
        y = np.column_stack(columns)
        return (y[:, 0] if self.one_target else y), np.logical_or.reduce(missing)


def inputs(schema: Any, roles: Roles) -> Any:
    """The schema without targets and weights; SourceError where these are not in it, or
    nothing is left.

    Parameters
    ----------
    schema : pyarrow.Schema or int
        As of `TableSource`.
    roles : Roles
    """
    named = roles.columns
    if isinstance(schema, int):
        if named:
            raise SourceError(
                f"the columns have no names, so none is {named[0]!r}; give the "
                "targets as an array"
            )
        return schema
    require(schema.names, named)
    input_schema = pa.schema([field for field in schema if field.name not in named])
    if not len(input_schema):
        raise SourceError(
            f"the table has no columns but {', '.join(map(repr, named))}; none is "
            "left to learn from"
        )
    return input_schema


def _column(X: Any, name: str) -> pa.ChunkedArray:
    if not isinstance(X, pa.Table):
        raise SourceError(
            f"the columns have no names, so none is {name!r}; give the targets as an "
            "array"
        )
    require(X.column_names, [name])
    return X.column(name)


def read_column(column: pa.ChunkedArray, name: str) -> tuple[NDArray, Mask]:
    """Values of a column of targets, and where there are none."""
    is_a = pa.types
    kind = column.type
    if is_a.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = kind.value_type
    if is_a.is_temporal(kind):
        raise SourceError(f"column {name!r}: {DATES}")
    what = f"the target {name!r}"
    if is_a.is_floating(kind) or is_a.is_decimal(kind) or is_a.is_null(kind):
        values = _cast(column, pa.float64(), what)
        return values, ~np.isfinite(values)
    gaps = column.is_null().to_numpy()
    if is_a.is_boolean(kind):
        return pc.fill_null(column, False).to_numpy(), gaps
    if is_a.is_integer(kind):
        return _cast(pc.fill_null(column, 0), pa.int64(), what), gaps
    if is_text(kind):
        return column.to_numpy().astype(object, copy=False), gaps
    raise SourceError(
        f"column {name!r}: targets must be numbers, text or booleans, not {kind}"
    )


def _read_array(y: NDArray) -> tuple[NDArray, Mask | None]:
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


def _cast(column: pa.ChunkedArray, kind: pa.DataType, what: str) -> NDArray:
    """A column of numbers, missing ones as NaN."""
    try:
        return column.cast(kind, safe=pa.types.is_integer(kind)).to_numpy()
    except pa.ArrowException as error:
        raise SourceError(
            f"{what} cannot be read as numbers: {reason(error)}"
        ) from error


MOST_PIECES = 256  # of a block, before they become one


def part_rows(
    part: Part, schema: Any, roles: Roles, tally: PartChecksum
) -> Generator[Batch]:
    """Yield the rows of a part, split by their roles.

    Parameters
    ----------
    part : Part
    schema : pyarrow.Schema or int
        Of the source: columns are taken by name, and become of its types.
    roles : Roles
    tally : PartChecksum
        Takes in what is read.

    Raises
    ------
    SourceError
        Naming the part, for rows that are not as the schema or the roles want them, for
        arrays of anything but finite numbers, and where there are not as many rows as
        the part has said.
    """
    # Parts of files refuse those that have changed
    content = getattr(part, "file", None) is None
    for batch in part.read():
        first = tally.n_rows
        X = batch.X
        with _errors_in(part):
            if isinstance(X, pa.Table):
                missing = [name for name in schema.names if name not in X.column_names]
                if missing:
                    raise SourceError(
                        f"column {missing[0]!r} is missing; give all rows the same "
                        "columns"
                    )
                X = fitted(X, schema)
            elif X.shape[1] != schema:
                raise SourceError(
                    f"the rows have {X.shape[1]:,} columns where {schema:,} are "
                    "expected"
                )
            else:
                # Text in later rows would change what the columns of arrays are
                X = numbers_of(X, first)
            batch = batch._replace(X=X)
            tally.add(batch, content)
            rows = roles.rows(batch, first)
            _refuse_infinite(part, rows.X, first)
        if rows.X.shape[0]:
            yield rows
    if part.n_rows not in (None, tally.n_rows):
        raise SourceError(
            f"{part.name}: {tally.n_rows:,} rows came where there were "
            f"{part.n_rows:,} before; do not change the data "
            "while they are read, and start again"
        )


def has_lines(part: Any) -> bool:
    """Whether the rows of a part are lines of text."""
    return getattr(part, "text", None) is not None


@contextmanager
def _errors_in(part: Any) -> Iterator[None]:
    """Tell what is wrong in a part by SourceError, with the line of the file where
    there are lines.
    """
    try:
        yield
    except ValueError as error:
        problem = f"{part.name}: {error}"
        if has_lines(part) and isinstance(error, RowError):
            line = f"line {part.line(error.row)}"
            problem = f"{part.place}: {error.message_at(line)}"
        raise SourceError(problem) from error


@contextmanager
def errors_from(part: Part, row: int) -> Iterator[None]:
    """Tell by SourceError what is wrong in rows of a part, of which the first has this
    number.
    """
    try:
        yield
    except ValueError as error:
        raise SourceError(f"{part.name}, counted from row {row:,}: {error}") from error


def finite_batches(parts: Iterable[Part]) -> Iterator[Batch]:
    """Yield the batches of parts that have rows; SourceError, with the line, at the
    first infinite value in lines of text.
    """
    for part in parts:
        first = 0
        for batch in part.read():
            with _errors_in(part):
                _refuse_infinite(part, batch.X, first)
            if batch.X.shape[0]:
                yield batch
            first += batch.X.shape[0]


def _refuse_infinite(part: Part, X: Any, first: int) -> None:
    """Raise RowError at the first infinite value of lines of text, whose first row has
    this number in the part; others are refused where they are encoded.
    """
    are_lines = has_lines(part) and isinstance(X, pa.Table)
    if are_lines and (infinite := infinite_value(X, first)):
        raise infinite


def numbers_of(X: Any, first: int = 0) -> Any:
    """An array or a sparse matrix of numbers, whose first row has this number;
    ValueError for other values.
    """
    X = checked_matrix(X, first)
    if X.dtype == object and (X := as_numbers(X)).dtype == object:
        raise SourceError("X is an array of text or other objects; pass a data frame.")
    return X


def rebatch(batches: Iterator[Batch], size: int) -> Iterator[Batch]:
    """Yield the rows in blocks of exactly `size` rows; the last one may be shorter."""
    held: list[Batch] = []
    count = 0
    for batch in batches:
        n_rows = batch.X.shape[0]
        start = 0
        while start < n_rows:
            stop = min(start + size - count, n_rows)
            held.append(batch.take(slice(start, stop)))
            count += stop - start
            start = stop
            if count == size:
                yield joined(held)
                held = []
                count = 0
        if len(held) > MOST_PIECES:
            held = [joined(held, copied=True)]
    if held:
        yield joined(held)


def joined(pieces: Sequence[AnyRows], copied: bool = False) -> AnyRows:
    """Consecutive rows, such as batches or blocks, as one; tables, on request, in
    one piece of memory.
    """
    rows: Any = pieces[0]
    if len(pieces) > 1:
        rows = rows._make(
            None if values[0] is None else concat(values)
            for values in zip(*pieces, strict=True)
        )
    if copied and isinstance(rows.X, pa.Table):
        rows = rows._replace(X=rows.X.combine_chunks())
    return rows


def concat(blocks: Sequence[Any]) -> Any:
    """Tables, or matrices and arrays, one below the other; a sparse matrix where one
    is.
    """
    if len(blocks) == 1:
        return blocks[0]
    if isinstance(blocks[0], pa.Table):
        # Columns may lack a type, or hold text in one table and its codes in another
        if any(table.schema != blocks[0].schema for table in blocks):
            blocks = [table.cast(decoded(table.schema)) for table in blocks]
        return pa.concat_tables(blocks, promote_options="permissive")
    if any(map(sp.issparse, blocks)):
        return sp.vstack(blocks, format="csr")
    return np.concatenate(blocks)


def stacked(tables: Sequence[Any]) -> Any:
    """Tables one below the other: of frames of one library a frame of it, of others a
    table of Arrow, whose types widen; a sparse matrix where one is, else an array;
    ValueError for frames beside arrays.
    """
    are_frames = [*map(is_frame, tables)]
    if all(are_frames):
        frames = [nw.from_native(table, eager_only=True) for table in tables]
        library = frames[0].implementation
        schema = frames[0].schema
        if all(
            one.implementation is library
            and (library.is_pandas_like() or one.schema == schema)
            for one in frames
        ):
            return nw.concat(frames).to_native()
        # Libraries or types differ; without an index of pandas
        try:
            return concat([one.to_arrow().select(one.columns) for one in frames])
        except pa.ArrowException as error:
            raise ValueError(
                f"The columns of the tables differ ({error}); give all of them the "
                "same types."
            ) from error
    if any(are_frames):
        raise ValueError(
            "Some rows are data frames and some are arrays: give all of them in one "
            "form."
        )
    return concat(tables)


@dataclass(frozen=True)
class FilteredPart:
    """Those rows of a part that their content keeps.

    Attributes
    ----------
    part : Part
    low, high : float
        Of the numbers from 0 to 1 that the content of rows and the seed decide, those
        that are kept: low is, high not.
    seed : int
    target : str or None
        Column that is no part of the content, and must have a value.
    group : str or None
        Column that alone decides, so that rows with one value go together.
    """

    part: Part
    low: float
    high: float
    seed: int
    target: str | None
    group: str | None

    @property
    def name(self) -> str:
        """That of the part."""
        return self.part.name

    @property
    def file(self) -> FileState | None:
        """The file that holds the rows, where there is one."""
        return getattr(self.part, "file", None)

    # Not known before they have been read
    n_rows = None

    def read(self, n_bytes: int = PART_BYTES) -> Iterator[Batch]:
        """Yield the rows that are kept, in their order."""
        for batch in self.part.read(n_bytes):
            X = batch.X
            is_kept = np.ones(X.shape[0], bool)
            if self.target is not None and isinstance(X, pa.Table):
                is_kept = ~pc.is_null(X[self.target], nan_is_null=True).to_numpy()
                X = X.drop_columns([self.target])
            if self.group is not None:
                X = X.select([self.group])
            if self.low > 0 or self.high < 1:
                numbers = uniform(row_hashes(X), self.seed)
                is_kept = is_kept & (numbers >= self.low) & (numbers < self.high)
            yield batch if is_kept.all() else batch.take(np.flatnonzero(is_kept))


def filter_rows(
    source: TableSource,
    low: float,
    high: float,
    seed: int,
    target: str | None = None,
    group: str | None = None,
) -> TableSource:
    """Some rows of a table by their content, as a table that is read part by part;
    parameters as of `FilteredPart`.

    Whether its columns of text hold numbers was asked of all rows before.
    """
    expected = source.n_rows
    if expected is not None:
        expected = round(expected * (min(high, 1.0) - max(low, 0.0)))
    parts = tuple(
        FilteredPart(part, low, high, seed, target, group) for part in source.parts
    )
    return replace(source, parts=parts, expected=expected, inferred=())


def no_rows(source: TableSource) -> SourceError:
    return SourceError(
        f"{source.what}: there are no rows; there is nothing to learn from"
    )


def read_all(source: TableSource, roles: Roles) -> Batch:
    """All rows in memory: what `fit` takes.

    Returns
    -------
    Batch
        X is a pyarrow.Table, an array or a CSR matrix; y an array, and weight one or
        None.

    Raises
    ------
    SourceError
        As of `look`.
    """
    inputs(source.schema, roles)

    def read(part: Part) -> list[Batch]:
        return list(part_rows(part, source.schema, roles, PartChecksum()))

    pieces = [rows for part in in_threads(read, source.parts) for rows in part]
    if not pieces:
        raise no_rows(source)
    return joined(pieces)
