"""Parquet and Arrow files, and datasets of these, as parts: row groups and record
batches.
"""

from __future__ import annotations

import math
import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import pyarrow as pa

from bochner.sources.base import READ_BYTES, Batch, SourceError, TableSource
from bochner.sources.column_values import index_columns, warn_of_index
from bochner.sources.imported import TemporaryFolder
from bochner.sources.paths import FileState, arrow_file, reason
from bochner.sources.schema import (
    EVERYTHING,
    Selection,
    bare,
    fitted,
    needed_of_files,
    require,
    standard_layout,
    unified,
)

PART_ROWS, PART_BYTES = 1 << 17, 16 << 20  # of what is read together, at most
BUFFER_BYTES = 256 << 10  # of a column
# Of a value at least, and of a batch that has text at most
TEXT_BYTES, TEXT_ROWS = 32, 1 << 16
MAGIC = b"ARROW1"
ROW_GROUP = 1 << 16  # rows of a row group that is written
CURE = "give their folder, or their paths, in place of the Dataset"


class Contents(NamedTuple):
    """What a file says that it holds.

    Attributes
    ----------
    file : FileState
    schema : pyarrow.Schema
    units : list of (int, int)
        Rows and bytes of the row groups or record batches.
    whole : bool
        Whether it can only be read from its first byte on, and is one part.
    frame_index : tuple of str
        Columns that are the index of a data frame.
    """

    file: FileState
    schema: pa.Schema
    units: list[tuple[int, int]]
    whole: bool = False
    frame_index: tuple[str, ...] = ()


@dataclass(frozen=True)
class FilePart(ABC):
    """Consecutive row groups or record batches of a file.

    Attributes
    ----------
    file : FileState
    first, stop : int
        Row groups or record batches.
    rows : int
        Of all of them.
    selection : Selection
    schema : pyarrow.Schema
        Of the columns to read.
    constants : pyarrow.Table
        Columns that are the same in all rows, and not in the file: one row.
    folder : TemporaryFolder or None
        Which lives as long as parts of a temporary file; in another process its path.
    """

    unit: ClassVar[str]
    units: ClassVar[str]
    file: FileState
    first: int
    stop: int
    rows: int
    selection: Selection
    schema: pa.Schema
    constants: pa.Table
    folder: Any = field(default=None, compare=False, repr=False)

    @classmethod
    def of_files(
        cls,
        paths: Sequence[str | os.PathLike[str]],
        selection: Selection,
        schema: pa.Schema | None = None,
        constants: Sequence[pa.Table] | None = None,
    ) -> tuple[tuple[Self, ...], pa.Schema]:
        """Parts of files of one kind, small neighbours together, and the schema of what
        is wanted of them.

        Parameters
        ----------
        paths : sequence of paths
        selection : Selection
        schema : pyarrow.Schema, optional
            Types that columns are to have, whatever they have in the files; it may
            leave columns out.
        constants : sequence of pyarrow.Table of one row, optional
            For each file columns that are not in it.

        Raises
        ------
        SourceError
            Where a file has other columns than the first, or there are no rows at all.
        """
        contents = [cls.contents(path) for path in paths]
        constants = [pa.table({})] * len(contents) if constants is None else constants
        wholes = [
            pa.schema([*one.schema, *more.schema])
            for one, more in zip(contents, constants, strict=True)
        ]
        index = selection.index(
            dict.fromkeys(name for one in contents for name in one.frame_index)
        )
        selection = selection.without(index)
        asked = pa.schema(schema or ())
        files = [
            (one.file.path, whole) for one, whole in zip(contents, wholes, strict=True)
        ]
        schema = unified(needed_of_files(files, selection, asked), asked)
        warn_of_index(index)
        parts = tuple(
            cls(one.file, first, stop, rows, selection, schema, more)
            for one, more in zip(contents, constants, strict=True)
            for first, stop, rows in _cuts(one)
        )
        if not parts:
            raise SourceError(f"{paths[0]}: the table has column names but no rows")
        return parts, selection.kept(schema)

    @classmethod
    @abstractmethod
    def contents(cls, path: str | os.PathLike[str]) -> Contents:
        """What a file says that it holds; SourceError for a damaged one."""

    @abstractmethod
    def batches(self, n_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield what is in the file, those columns at least, found valid: others can
        end the process.
        """

    @property
    def name(self) -> str:
        """The file and the place in it."""
        place = f"{self.unit} {self.first}"
        if self.stop > self.first + 1:
            place = f"{self.units} {self.first} to {self.stop - 1}"
        return f"{self.file.path}, {place}"

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where a condition leaves some out."""
        return None if self.selection.where is not None else self.rows

    @property
    def names(self) -> list[str]:
        """Columns to read of the file."""
        return [
            name
            for name in self.schema.names
            if name not in self.constants.column_names
        ]

    def read(self, n_bytes: int = READ_BYTES) -> Iterator[Batch]:
        """Yield tables of at most about `n_bytes` bytes."""
        self.file.check(self.name)
        count = 0
        for batch in self._undamaged(n_bytes):
            self.file.check(self.name)
            count += batch.num_rows
            columns = {name: batch.column(name) for name in self.names}
            for name in self.constants.column_names:
                columns[name] = pa.repeat(self.constants[name][0], batch.num_rows)
            table = fitted(pa.table(columns), self.schema, self.name)
            yield from Batch(self.selection.apply(table)).split(n_bytes)
        if count != self.rows:
            raise SourceError(
                f"{self.name}: {count} rows, but the file declares {self.rows}; "
                "write it again"
            )

    def _undamaged(self, n_bytes: int) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.batches(n_bytes)
        except pa.ArrowMemoryError:
            raise
        except (pa.ArrowException, OSError) as error:
            self.file.check(self.name)
            raise SourceError(
                f"{self.name}: damaged ({reason(error)}); copy or write the file again"
            ) from error


def _cuts(one: Contents) -> Iterator[tuple[int, int, int]]:
    """First, stop and rows of units that are read together: small neighbours are."""
    first = rows = size = 0
    for stop, (more_rows, more_size) in enumerate(one.units):
        if (
            rows
            and not one.whole
            and (rows + more_rows > PART_ROWS or size + more_size > PART_BYTES)
        ):
            yield first, stop, rows
            first = stop
            rows = 0
            size = 0
        rows += more_rows
        size += more_size
    if rows:
        yield first, len(one.units), rows


def width_of(kind: pa.DataType) -> int:
    """Bits of a value; 0 of text, categories and whatever else has no fixed width."""
    try:
        return 0 if pa.types.is_dictionary(kind) else kind.bit_width
    except ValueError:
        return 0


class ParquetPart(FilePart):
    """Consecutive row groups of a file, decoded page by page, so that their size
    does not matter.
    """

    unit = "row group"
    units = "row groups"

    @classmethod
    def contents(cls, path: str | os.PathLike[str]) -> Contents:
        """Its row groups, by its footer."""
        state = FileState.of(path)
        try:
            with _opened(state.path) as file:
                groups = map(file.metadata.row_group, range(file.num_row_groups))
                units = [(group.num_rows, group.total_byte_size) for group in groups]
                schema = file.schema_arrow
                index = tuple(index_columns(schema))
                return Contents(state, bare(schema), units, frame_index=index)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise SourceError(
                f"{path}: damaged Parquet file ({reason(error)}); copy or write it "
                "again"
            ) from error

    def batches(self, n_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield rows in batches of at most about `n_bytes` bytes."""
        groups = list(range(self.first, self.stop))
        with _opened(self.file.path, _footer(self.file)) as file:
            rows = max(n_bytes // _row_bytes(file, self.names, self.first), 1)
            if not all(width_of(column.type) for column in self.schema):
                rows = min(rows, TEXT_ROWS)
            for batch in file.iter_batches(
                min(rows, self.rows), groups, self.names, use_threads=False
            ):
                batch.validate(full=True)
                yield batch


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


def _row_bytes(file: Any, names: Sequence[str], group: int) -> int:
    """Bytes of a row in memory, about; of text those that the file leaves for it, in
    which equal values may be one.
    """
    widths = {column.name: width_of(column.type) for column in file.schema_arrow}
    fixed = sum(widths[name] for name in names) // 8
    text = sum(not widths[name] for name in names)
    if not text:
        return fixed + 1
    facts = file.metadata.row_group(group)
    rest = facts.total_byte_size // max(facts.num_rows, 1) - sum(widths.values()) // 8
    return fixed + max(rest, TEXT_BYTES * text)


class IpcPart(FilePart):
    """Consecutive record batches of a file, copied a slice at a time, so that their
    size does not matter.

    But those that are compressed are held as a whole.
    """

    unit = "record batch"
    units = "record batches"

    @classmethod
    def contents(cls, path: str | os.PathLike[str]) -> Contents:
        """Its record batches, which of a stream are known by reading it from the
        first byte.
        """
        state = FileState.of(path)
        counts = []
        try:
            mapped = _mapped(state.path)
            declared = _reader(mapped).schema
            schema = bare(declared)
            index = tuple(index_columns(declared))
            # Of a stream one column is decoded, one that is fast to read
            widths = [width_of(column.type) or math.inf for column in schema]
            narrowest = [widths.index(min(widths))] if widths else []
            for batch in _batches(mapped, narrowest, 0, None):
                counts.append(batch.num_rows)
        except (pa.ArrowException, OSError, ValueError) as error:
            place = f"{path}, record batch {len(counts)}"
            raise SourceError(
                f"{place}: damaged Arrow file ({reason(error)}); copy or write it again"
            ) from error
        units = [(count, state.size * count // max(sum(counts), 1)) for count in counts]
        return Contents(state, schema, units, not _is_file(mapped), index)

    def batches(self, n_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield slices of about `n_bytes` bytes."""
        mapped = _mapped(self.file.path)
        schema = _reader(mapped).schema
        names = self.names or schema.names[:1]
        for batch in _batches(
            mapped,
            [schema.get_field_index(name) for name in names],
            self.first,
            self.stop,
        ):
            batch.validate()
            batch = batch.select(names)
            rows = max(batch.num_rows * n_bytes // max(batch.nbytes, 1), 1)
            for start in range(0, batch.num_rows, rows):
                self.file.check(self.name)
                piece = batch.slice(start, rows)
                piece.validate(full=True)
                # In memory of its own: a file may be cut short, and the process with it
                piece = pa.RecordBatch.from_arrays(
                    [_owned(values) for values in piece.columns], names=names
                )
                # Which else counts as memory of this process
                if hasattr(mmap, "MADV_DONTNEED"):
                    mapped.madvise(mmap.MADV_DONTNEED)
                yield piece


def _mapped(path: str) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _batches(
    mapped: mmap.mmap, columns: Sequence[int], first: int, stop: int | None
) -> Iterator[pa.RecordBatch]:
    """Consecutive record batches; of a stream all, and only some columns, by their
    numbers.

    To ask for columns of a file would copy all of a batch.
    """
    reader = _reader(mapped, columns)
    if _is_file(mapped):
        stop = reader.num_record_batches if stop is None else stop
        yield from (reader.get_batch(k) for k in range(first, stop))
    else:
        yield from reader


def _is_file(mapped: mmap.mmap) -> bool:
    """Whether record batches can be read in any order, not as a stream."""
    return mapped[: len(MAGIC)] == MAGIC


def _reader(mapped: mmap.mmap, columns: Sequence[int] = ()) -> Any:
    from pyarrow import ipc

    if _is_file(mapped):
        return ipc.open_file(
            pa.py_buffer(mapped), options=ipc.IpcReadOptions(use_threads=False)
        )
    options = ipc.IpcReadOptions(included_fields=list(columns), use_threads=False)
    return ipc.open_stream(pa.py_buffer(mapped), options=options)


def _owned(values: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        indices = _owned(values.indices)
        dictionary = _owned(values.dictionary)
        return pa.DictionaryArray.from_arrays(
            indices, dictionary, ordered=values.type.ordered
        )
    return pa.concat_arrays([values, values[:0]]).cast(standard_layout(values.type))


def open_dataset(
    dataset: Any, selection: Selection = EVERYTHING, schema: pa.Schema | None = None
) -> TableSource:
    """The files of a `pyarrow.dataset.Dataset`, with the columns that the names of
    their folders hold.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset
        Of Parquet or Arrow files on this machine.
    selection : Selection, optional
    schema : pyarrow.Schema, optional
        Types that columns are to have; those of the Dataset by default, where they
        differ from those of its first file.

    Raises
    ------
    SourceError
        Where the Dataset holds a condition, or anything else than whole files that can
        be read here.
    """
    try:
        fragments = list(dataset.get_fragments())
    except ValueError as error:
        raise SourceError(
            "a Dataset with a condition cannot be opened; give the condition as where="
        ) from error
    paths, kind, what = _files(fragments)
    constants = [_constants(fragment, dataset.schema) for fragment in fragments]
    index = selection.index(index_columns(dataset.schema))
    warn_of_index(index)
    names = selection.without(index).kept_names(dataset.schema.names)
    require(dataset.schema.names, [*names, *selection.exclude])
    types = {
        column.name: column.type
        for column in [*fragments[0].physical_schema, *constants[0].schema]
    }
    asked = {
        column.name: column
        for column in dataset.schema
        if column.type != types.get(column.name, column.type)
    }
    asked |= {column.name: column for column in schema or ()}
    selection = replace(selection, columns=tuple(names))
    parts, selected_schema = kind.of_files(
        paths, selection, pa.schema(asked.values()), constants
    )
    return TableSource(parts, selected_schema, f"a Dataset of {what}")


def open_lazy(
    frame: Any, selection: Selection = EVERYTHING, schema: pa.Schema | None = None
) -> TableSource:
    """The rows of a polars `LazyFrame`, which is computed once, in batches, into a
    temporary file.

    Parameters
    ----------
    frame : polars.LazyFrame
    selection : Selection, optional
    schema : pyarrow.Schema, optional
        Types that columns are to have.

    Raises
    ------
    SourceError
        Where polars cannot compute it, or the disk is full.
    """
    from polars.exceptions import PolarsError

    folder = TemporaryFolder()
    path = os.path.join(folder.path, "rows.parquet")
    try:
        frame.sink_parquet(path, compression="lz4", row_group_size=ROW_GROUP)
    except (PolarsError, OSError) as error:
        cure = "fix it, or free space in the temporary folder"
        raise SourceError(
            f"the LazyFrame cannot be computed ({reason(error)}); {cure}"
        ) from error
    parts, selected_schema = ParquetPart.of_files([path], selection, schema)
    parts = tuple(replace(part, folder=folder) for part in parts)
    return TableSource(parts, selected_schema, "a LazyFrame in a temporary file")


def _files(fragments: Sequence[Any]) -> tuple[list[str], type[FilePart], str]:
    """Paths of the files, what reads them, and what they are."""
    from pyarrow import dataset as ds

    if not fragments:
        raise SourceError("the Dataset has no files; give one with rows")
    if not all(isinstance(fragment, ds.FileFragment) for fragment in fragments):
        raise SourceError(
            "the Dataset is not made of files; give the table or the batches that it "
            "was made from"
        )
    kinds = {fragment.format.default_extname for fragment in fragments}
    if kinds not in ({"parquet"}, {"arrow"}, {"feather"}):
        raise SourceError(
            f"the Dataset is of {' and '.join(sorted(kinds))} files; {CURE}"
        )
    first = fragments[0]
    if kinds == {"parquet"} and first.num_row_groups < first.metadata.num_row_groups:
        raise SourceError(f"the Dataset leaves out row groups of {first.path}; {CURE}")
    paths = [_local(fragment.path, fragment.filesystem) for fragment in fragments]
    if len(set(paths)) < len(paths):
        raise SourceError(f"the Dataset reads parts of a file, or one twice; {CURE}")
    what = "Parquet" if kinds == {"parquet"} else "Arrow"
    kind = ParquetPart if what == "Parquet" else IpcPart
    return paths, kind, f"{len(paths):,} {what} file{'s' * (len(paths) > 1)}"


def _local(path: str, filesystem: Any) -> str:
    from pyarrow import fs

    if isinstance(filesystem, fs.SubTreeFileSystem):
        return _local(
            os.path.join(filesystem.base_path, path.lstrip("/")), filesystem.base_fs
        )
    if not isinstance(filesystem, fs.LocalFileSystem):
        raise SourceError(
            f"{path} is on {filesystem.type_name}; files are read from this machine "
            "only: copy them"
        )
    return path


def _constants(fragment: Any, schema: pa.Schema) -> pa.Table:
    """Columns whose values the folders of a file hold: one row."""
    from pyarrow.dataset import get_partition_keys

    keys = get_partition_keys(fragment.partition_expression)
    return pa.table(
        {
            name: pa.array([value], schema.field(name).type)
            for name, value in keys.items()
        }
    )
