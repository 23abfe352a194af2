"""Parts of files that say at their end, or at the head of each part, what they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeVar

import pyarrow as pa

from bochner.data.csv_text import index_left_out
from bochner.data.streams.base import READ_BYTES, Batch, SourceError
from bochner.data.streams.folders import FileState, labels, reason
from bochner.data.streams.schemas import fitted, unified
from bochner.data.streams.selection import Selection, require
from bochner.notices import warn

PART_ROWS, PART_BYTES = 1 << 17, 16 << 20  # of what is read together, at most


class Contents(NamedTuple):
    """What a file says that it holds.

    Attributes
    ----------
    state : FileState
    schema : pyarrow.Schema
    units : list of (int, int)
        Rows and bytes of the row groups or record batches.
    digest : str
        Hash of the end of the file.
    whole : bool
        Whether it can only be read from its first byte on, and is one part.
    frame_index : tuple of str
        Columns that are the index of a data frame.
    """

    state: FileState
    schema: pa.Schema
    units: list[tuple[int, int]]
    digest: str
    whole: bool = False
    frame_index: tuple[str, ...] = ()


@dataclass(frozen=True)
class FilePart:
    """Consecutive row groups or record batches of a file.

    Attributes
    ----------
    state : FileState
    label : str
        Name of the file, which stays when its folder is moved.
    digest : str
        Hash of the end of the file.
    first, stop : int
        Row groups or record batches.
    rows : int
        Of all of them.
    selection : Selection
    schema : pyarrow.Schema
        Of the columns to read.
    constants : pyarrow.Table
        Columns that are the same in all rows, and not in the file: one row.
    """

    unit: ClassVar[str]
    units: ClassVar[str]
    state: FileState
    label: str
    digest: str
    first: int
    stop: int
    rows: int
    selection: Selection
    schema: pa.Schema
    constants: pa.Table

    @property
    def file(self) -> FileState:
        """The file that holds the rows."""
        return self.state

    @property
    def name(self) -> str:
        """The file and the place in it."""
        several = self.stop > self.first + 1
        place = f"{self.units} {self.first} to {self.stop - 1}" if several else f"{self.unit} {self.first}"
        return f"{self.state.path}, {place}"

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where a condition leaves some out."""
        return None if self.selection.where is not None else self.rows

    @property
    def names(self) -> list[str]:
        """Columns to read of the file."""
        return [name for name in self.schema.names if name not in self.constants.column_names]

    def batches(self, n_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield what is in the file, those columns at least, found valid: others can end the process."""
        raise NotImplementedError

    def read(self, n_bytes: int = READ_BYTES) -> Iterator[Batch]:
        """Yield tables of about so many bytes at most."""
        self.state.check(self.name)
        count = 0
        for batch in self._undamaged(n_bytes):
            self.state.check(self.name)
            count += batch.num_rows
            table = self.selection.apply(fitted(self._complete(batch), self.schema, self.name))
            rows = -(-table.num_rows // max(round(table.nbytes / n_bytes), 1)) or 1
            yield from (Batch(table.slice(start, rows)) for start in range(0, table.num_rows, rows))
        if count != self.rows:
            raise SourceError(f"{self.name}: {count} rows, but the file declares {self.rows}; write it again")

    def stamp(self) -> str:
        """Place in the file, its size, the hash of its end, and what is taken of it."""
        place = f"{self.label} {self.first}:{self.stop} {self.state.size} {self.digest}"
        return f"{place} {self.constants.to_pylist()} {self.selection.stamp()}"

    def _undamaged(self, n_bytes: int) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.batches(n_bytes)
        except pa.ArrowMemoryError:
            raise
        except (pa.ArrowException, OSError) as error:
            self.state.check(self.name)
            raise SourceError(f"{self.name}: damaged ({reason(error)}); copy or write the file again") from error

    def _complete(self, batch: pa.RecordBatch) -> pa.Table:
        """The columns that are wanted, with those that are not in the file."""
        columns = {name: batch.column(name) for name in self.names}
        for name in self.constants.column_names:
            columns[name] = pa.repeat(self.constants[name][0], batch.num_rows)
        return pa.table(columns)


P = TypeVar("P", bound=FilePart)


def parts_of(
    kind: Callable[..., P],
    contents: Sequence[Contents],
    selection: Selection,
    schema: pa.Schema | None,
    constants: Sequence[pa.Table] | None,
) -> tuple[tuple[P, ...], pa.Schema]:
    """Parts of files of one kind, and the schema of what is wanted of them.

    Parameters
    ----------
    kind : FilePart
    contents : sequence of Contents
        Of each file.
    selection : Selection
    schema : pyarrow.Schema or None
        Types that columns are to have, whatever they have in the files; it may leave columns out.
    constants : sequence of pyarrow.Table of one row, or None
        For each file columns that are not in it.

    Raises
    ------
    SourceError
        Where a file has other columns than the first, or there are no rows at all.
    """
    constants = [pa.table({})] * len(contents) if constants is None else constants
    wholes = [pa.schema([*one.schema, *more.schema]) for one, more in zip(contents, constants, strict=True)]
    names, asked = dict.fromkeys(name for whole in wholes for name in whole.names), pa.schema(schema or ())
    require(names, selection.exclude)
    require(names, asked.names, "schema: ")
    index = selection.index(dict.fromkeys(name for one in contents for name in one.frame_index))
    for sentence in index_left_out(index):
        warn(sentence)
    selection = selection.without(index)
    needed = [(one.state.path, _needed(one, whole, selection)) for one, whole in zip(contents, wholes, strict=True)]
    schema = unified(needed, pa.schema([column for column in asked if column.name in needed[0][1].names]))
    paths = [Path(one.state.path) for one in contents]
    parts = [
        kind(one.state, label, one.digest, first, stop, rows, selection, schema, more)
        for one, label, more in zip(contents, labels(paths), constants, strict=True)
        for first, stop, rows in _cuts(one)
    ]
    if not parts:
        raise SourceError(f"{paths[0]}: the table has column names but no rows")
    return tuple(parts), pa.schema([schema.field(name) for name in selection.kept(schema.names)])


def _needed(one: Contents, whole: pa.Schema, selection: Selection) -> pa.Schema:
    """Columns to read of one file, of which those to leave out may be in others only."""
    try:
        return replace(selection, exclude=tuple(set(selection.exclude) & set(whole.names))).needed(whole)
    except SourceError as error:
        raise SourceError(f"{one.state.path}: {error}") from error


def _cuts(one: Contents) -> Iterator[tuple[int, int, int]]:
    """First, stop and rows of units that are read together: small neighbours are."""
    first = rows = size = 0
    for stop, (more_rows, more_size) in enumerate(one.units):
        if rows and not one.whole and (rows + more_rows > PART_ROWS or size + more_size > PART_BYTES):
            yield first, stop, rows
            first, rows, size = stop, 0, 0
        rows, size = rows + more_rows, size + more_size
    if rows:
        yield first, len(one.units), rows


def width_of(kind: pa.DataType) -> int:
    """Bits of a value; 0 of text, categories and whatever else has no fixed width."""
    try:
        return 0 if pa.types.is_dictionary(kind) else kind.bit_width
    except ValueError:
        return 0
