"""Parquet files, whose row groups are parts; Arrow files, datasets and lazy frames,
whose rows go to a temporary file.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from bochner.blocks import PART_BYTES, PART_ROWS
from bochner.data.file_kinds import AnyPath
from bochner.notices import warn
from bochner.sources.base import Batch, SourceError, TableSource
from bochner.sources.batches import errors_at, import_batches, numbered
from bochner.sources.imported import TemporaryFolder
from bochner.sources.paths import FileState, arrow_file, reason
from bochner.sources.schema import (
    EVERYTHING,
    NAMELESS,
    Selection,
    bare,
    fitted,
    index_columns,
    narrowed,
    needed_of_files,
    unified,
)

BUFFER_BYTES = 256 << 10  # of a column
MAGIC = b"ARROW1"  # of Arrow files, which streams lack
DAMAGED = "copy or write the file again"


@dataclass(frozen=True)
class ParquetPart:
    """Consecutive row groups of a Parquet file, a `Part`; they are decoded page by
    page, so that their size does not matter.

    Attributes
    ----------
    file : FileState
    first, stop : int
        Row groups.
    rows : int
        Of all of them.
    selection : Selection
    schema : pyarrow.Schema
        Of the columns to read.
    constants : tuple of (str, pyarrow.Scalar)
        Columns that the file does not have, and their value in all rows.
    folder : TemporaryFolder or None
        Which lives as long as parts of a temporary file; in another process its path.
    """

    file: FileState
    first: int
    stop: int
    rows: int
    selection: Selection
    schema: pa.Schema
    constants: tuple[tuple[str, pa.Scalar], ...] = ()
    folder: Any = field(default=None, compare=False, repr=False)

    @classmethod
    def of_files(
        cls,
        paths: Sequence[AnyPath],
        selection: Selection,
        columns: Mapping[str, pa.Array] | None = None,
    ) -> tuple[tuple[Self, ...], pa.Schema]:
        """Parts of files, small neighbours together, and the schema of what is wanted
        of them.

        Parameters
        ----------
        paths : sequence of paths
        selection : Selection
        columns : mapping of str to array, optional
            Columns that the files do not have, a value for each file.

        Raises
        ------
        SourceError
            Where a file is damaged, or has other columns than the first, or there are
            no rows at all.
        """
        states = list(map(FileState.of, paths))
        schemas = []
        sizes = []
        for state in states:
            try:
                with _opened(state.path) as file:
                    groups = map(file.metadata.row_group, range(file.num_row_groups))
                    sizes.append(
                        [(one.num_rows, one.total_byte_size) for one in groups]
                    )
                    schemas.append(file.schema_arrow)
            except (pa.ArrowException, OSError, ValueError) as error:
                raise SourceError(
                    f"{state.path}: damaged Parquet file ({reason(error)}); copy or "
                    "write it again"
                ) from error
        index = [name for schema in schemas for name in index_columns(schema)]
        selection = _without_index(selection, index)
        # Files may hold the columns of their folders themselves
        in_files = {name for schema in schemas for name in schema.names}
        columns = {
            name: values
            for name, values in (columns or {}).items()
            if name not in in_files
        }
        beside = [pa.field(name, values.type) for name, values in columns.items()]
        files = [
            (state.path, pa.schema([*bare(schema), *beside]))
            for state, schema in zip(states, schemas, strict=True)
        ]
        schema = unified(needed_of_files(files, selection), selection.asked)
        parts = tuple(
            cls(state, first, stop, rows, selection, schema, constants)
            for state, groups, *values in zip(
                states, sizes, *columns.values(), strict=True
            )
            for constants in [tuple(zip(columns, values, strict=True))]
            for first, stop, rows in _read_together(groups)
        )
        if not parts:
            raise SourceError(f"{paths[0]}: the table has column names but no rows")
        return parts, selection.kept(schema)

    @property
    def name(self) -> str:
        """The file and the place in it."""
        place = f"row group {self.first}"
        if self.stop > self.first + 1:
            place = f"row groups {self.first} to {self.stop - 1}"
        return f"{self.file.path}, {place}"

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where a condition leaves some out."""
        return None if self.selection.where is not None else self.rows

    def read(self, n_bytes: int = PART_BYTES) -> Iterator[Batch]:
        """Yield tables of at most about `n_bytes` bytes."""
        self.file.check(self.name)
        count = 0
        for batch in self._batches(n_bytes):
            self.file.check(self.name)
            count += batch.num_rows
            table = pa.Table.from_batches([batch])
            for name, value in self.constants:
                table = table.append_column(name, pa.repeat(value, len(table)))
            table = fitted(table, self.schema, self.name)
            yield from self.selection.take(Batch(table)).split(n_bytes)
        if count != self.rows:
            raise SourceError(
                f"{self.name}: {count} rows, but the file declares {self.rows}; "
                "write it again"
            )

    def _batches(self, n_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield what is in the file, found valid: other batches can end the process."""
        constants = dict(self.constants)
        names = [name for name in self.schema.names if name not in constants]
        groups = list(range(self.first, self.stop))
        try:
            with _opened(self.file.path, _footer(self.file)) as file:
                # Of a value at least the bytes of a number, and what is written of it
                group = file.metadata.row_group(self.first)
                written = group.total_byte_size // max(group.num_rows, 1)
                value_bytes = 8 + written // max(file.metadata.num_columns, 1)
                rows = max(n_bytes // (len(names) * value_bytes + 1), 1)
                # Equal texts may be written once, and take more memory than that
                rows = min(rows, self.rows, PART_ROWS)
                for batch in file.iter_batches(rows, groups, names, use_threads=False):
                    batch.validate(full=True)
                    yield batch
        except pa.ArrowMemoryError:
            raise
        except (pa.ArrowException, OSError) as error:
            self.file.check(self.name)
            raise SourceError(
                f"{self.name}: damaged ({reason(error)}); {DAMAGED}"
            ) from error


def _read_together(sizes: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield first, stop and rows of row groups that are read together, of the rows and
    bytes of each: small neighbours are.
    """
    first = rows = size = 0
    for stop, (more_rows, more_size) in enumerate(sizes):
        if rows and (rows + more_rows > PART_ROWS or size + more_size > PART_BYTES):
            yield first, stop, rows
            first = stop
            rows = 0
            size = 0
        rows += more_rows
        size += more_size
    if rows:
        yield first, len(sizes), rows


@contextmanager
def _opened(path: str, footer: Any = None) -> Iterator[Any]:
    from pyarrow.parquet import ParquetFile

    with arrow_file(path) as file:
        yield ParquetFile(
            file, metadata=footer, buffer_size=BUFFER_BYTES, pre_buffer=False
        )


@lru_cache(maxsize=4)
def _footer(state: FileState) -> Any:
    """What a file of many parts says of itself, which takes long to parse."""
    with _opened(state.path) as file:
        return file.metadata


def open_arrow(paths: Sequence[Path], selection: Selection, what: str) -> TableSource:
    """Arrow IPC files and streams as a table, whose rows are read from a temporary
    file.

    Parameters
    ----------
    paths : sequence of Path
    selection : Selection
    what : str
        Description of the files.

    Raises
    ------
    SourceError
        Where a file is damaged, or has other columns than the first, there are no rows,
        or the disk is full.
    """
    files = []
    index: list[str] = []
    for path in paths:
        with errors_at(str(path), f"; {DAMAGED}"):
            schema = _reader(path).schema
            files.append((str(path), bare(schema)))
        index += index_columns(schema)
    selection = _without_index(selection, index)
    schema = unified(needed_of_files(files, selection), selection.asked)

    def batches() -> Iterator[tuple[str, Batch]]:
        for path in paths:
            for place, batch in numbered(_tables(path), str(path), f"; {DAMAGED}"):
                yield place, Batch(fitted(batch.X, schema, place))

    place = str(paths[0]) if len(paths) == 1 else what
    empty = f"{paths[0]}: the table has column names but no rows"
    origins = tuple(map(FileState.of, paths))
    selection = replace(selection.among(schema.names), types=None)
    return import_batches(batches(), place, what, selection, empty, origins)


def _tables(path: Path) -> Iterator[pa.Table]:
    """Yield the record batches of an Arrow file, found valid."""
    state = FileState.of(path)
    reader = _reader(path)
    if hasattr(reader, "get_batch"):
        reader = map(reader.get_batch, range(reader.num_record_batches))
    for batch in reader:
        batch.validate(full=True)
        yield pa.Table.from_batches([batch])
    state.check()


def _reader(path: Path) -> Any:
    """A reader of an Arrow file, or of a stream, whose bytes are mapped."""
    from pyarrow import ipc

    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    opened = ipc.open_file if mapped[: len(MAGIC)] == MAGIC else ipc.open_stream
    options = ipc.IpcReadOptions(use_threads=False)
    return opened(pa.py_buffer(mapped), options=options)


def _without_index(selection: Selection, names: Iterable[str]) -> Selection:
    """The selection without columns that are the index of a data frame, of which it
    warns.
    """
    index = selection.index(dict.fromkeys(names))
    for name in index:
        if not NAMELESS.fullmatch(name):
            warn(
                f"Column {name!r} is the index of the data frame in the file, and is "
                "left out; name it in columns=, or write the file after "
                "reset_index(), to learn from it."
            )
    return selection.without(index)


def open_dataset(dataset: Any, selection: Selection = EVERYTHING) -> TableSource:
    """The rows of a `pyarrow.dataset.Dataset`, which Arrow reads once, into a temporary
    file.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset
        Of files of any kind, on any file system, that Arrow reads; it may hold a
        condition.
    selection : Selection, optional

    Raises
    ------
    SourceError
        Where it cannot be read, there are no rows, or the disk is full.
    """
    selection = _without_index(selection, index_columns(dataset.schema))
    names, selection = narrowed(bare(dataset.schema), selection)

    def batches() -> Iterator[pa.Table]:
        for batch in dataset.to_batches(
            columns=names, use_threads=False, batch_readahead=0, fragment_readahead=0
        ):
            batch.validate(full=True)
            table = pa.Table.from_batches([batch])
            # Nulls among the categories, as those of folders are, cannot be kept
            for k, column in enumerate(table.columns):
                if pa.types.is_dictionary(column.type):
                    values = column.cast(column.type.value_type)
                    table = table.set_column(k, names[k], values.dictionary_encode())
            yield table

    name = "the Dataset"
    what = "a Dataset in a temporary file"
    empty = "the Dataset has no rows; give one with rows"
    placed = numbered(batches(), name, f"; {DAMAGED}")
    return import_batches(placed, name, what, selection, empty)


def open_lazy(frame: Any, selection: Selection = EVERYTHING) -> TableSource:
    """The rows of a polars `LazyFrame`, which is computed once, in batches, into a
    temporary file.

    Parameters
    ----------
    frame : polars.LazyFrame
    selection : Selection, optional

    Raises
    ------
    SourceError
        Where polars cannot compute it, or the disk is full.
    """
    from polars.exceptions import PolarsError

    folder = TemporaryFolder()
    path = os.path.join(folder.path, "rows.parquet")
    try:
        frame.sink_parquet(path, compression="lz4", row_group_size=PART_ROWS)
    except (PolarsError, OSError) as error:
        cure = "fix it, or free space in the temporary folder"
        raise SourceError(
            f"the LazyFrame cannot be computed ({reason(error)}); {cure}"
        ) from error
    parts, selected_schema = ParquetPart.of_files([path], selection)
    parts = tuple(replace(part, folder=folder) for part in parts)
    return TableSource(parts, selected_schema, "a LazyFrame in a temporary file")
