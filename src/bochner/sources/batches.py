"""Batches that a callable yields, again at each call, or an iterator once, which are kept in a temporary file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.array_source import rows_of
from bochner.data.columns import is_missing
from bochner.data.table_input import as_array, check_frame, checked_sparse, is_frame
from bochner.notices import warn
from bochner.sources.base import READ_BYTES, Batch, SourceError, TableSource
from bochner.sources.memory import as_table, frame_schema, stamp_of
from bochner.sources.paths import TemporaryFolder, reason
from bochner.sources.rows import concat
from bochner.sources.schema import Columns, Layout, Selection, fitted, unified

ACCEPTED = "give tables, data frames, arrays, or tuples (X, y) or (X, y, sample_weight)"


@dataclass(frozen=True)
class FactoryPart:
    """All rows of the batches that a callable yields, a `Part`.

    Attributes
    ----------
    factory : callable
        Takes no arguments, and returns a new iterator of batches.
    layout : Layout
    columns : Columns or None
        What is wanted of tables.
    digest : str
        Of the first batch.
    """

    factory: Callable[[], Iterable[Any]]
    layout: Layout
    columns: Columns | None
    digest: str

    @property
    def name(self) -> str:
        """Name of the callable."""
        return _name_of(self.factory)

    @property
    def n_rows(self) -> None:
        """None: the rows have not been counted."""
        return None

    def read(self, n_bytes: int = READ_BYTES) -> Iterator[Batch]:
        """Yield the rows in order, in batches of about so many bytes at most."""
        for place, batch in numbered(_called(self.factory, self.name), self.name):
            self.layout.require(batch, place)
            yield from split_batch(batch if self.columns is None else self.columns.take(batch, place), n_bytes)

    def stamp(self) -> str:
        """Name of the callable, and a hash of some rows of its first batch."""
        return f"{self.name} {self.digest} {self.columns.stamp() if self.columns else ''}"


def open_factory(
    factory: Callable[[], Iterable[Any]], selection: Selection | None = None, schema: pa.Schema | None = None
) -> TableSource:
    """Open a callable without arguments that returns a new iterator of batches at each call.

    Parameters
    ----------
    factory : callable
        Called twice at once, for the first batch and to see that the iterator is a new one.
    selection : Selection, optional
        Of batches that are tables.
    schema : pyarrow.Schema, optional
        Types that columns are to have.

    Raises
    ------
    SourceError
        Where it does not return a new iterator, there is no batch, or the first is none that is known here.
    """
    name = _name_of(factory)
    batches = _iterable(_called(factory, name), name)
    if isinstance(batches, Iterator) and _called(factory, name) is batches:
        raise SourceError(f"{name} returns the same iterator again; let it make a new one on each call")
    _, first = first_of(numbered(batches, name), name)
    if isinstance(batches, Iterator) and hasattr(batches, "close"):
        batches.close()
    layout = Layout.of(first)
    columns = Columns.of(layout, selection, schema)
    part = FactoryPart(factory, layout, columns, " ".join(map(stamp_of, first)))
    known = columns.kept() if columns else layout.schema
    return TableSource((part,), known, f"batches of {name}", sparse=layout.sparse)


def _name_of(factory: Callable[[], Any]) -> str:
    """Name of a callable, for messages."""
    return f"{getattr(factory, '__name__', type(factory).__name__)}()"


def first_of(batches: Iterator[tuple[str, Batch]], name: str) -> tuple[str, Batch]:
    """The first batch and its place; SourceError where there is none."""
    try:
        return next(batches)
    except StopIteration:
        raise SourceError(f"{name} yields no rows; yield at least one batch") from None


def numbered(batches: Any, name: str) -> Iterator[tuple[str, Batch]]:
    """Yield batches that have rows, each with its place for messages."""
    batches, number = iter(_iterable(batches, name)), 0
    while True:
        number += 1
        place = f"{name}, batch {number}"
        try:
            item = next(batches)
        except StopIteration:
            return
        except SourceError:
            raise
        except Exception as error:
            raise SourceError(f"{place}: {type(error).__name__} ({reason(error)}); fix what yields it") from error
        batch = as_batch(item, place)
        if batch.X.shape[0]:
            yield place, batch


def as_batch(item: Any, place: str) -> Batch:
    """A batch of whatever was yielded; SourceError where that is none."""
    pair = isinstance(item, tuple) and 2 <= len(item) <= 3
    X, *beside = item if pair else (item,)
    try:
        X = _matrix(X, place)
        found = [None if values is None else _values(values, X.shape[0]) for values in beside]
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise SourceError(f"{place}: {reason(error)}; {ACCEPTED}") from error
    return Batch(X, *found)


def _matrix(X: Any, place: str) -> Any:
    """A table, an array or a CSR matrix."""
    if isinstance(X, pa.RecordBatch):
        X = pa.Table.from_batches([X])
    if is_frame(X):
        if X.shape[0]:
            check_frame(X)
        return as_table(X, frame_schema(X), place)
    if sp.issparse(X) and X.ndim == 2:
        return checked_sparse(X).tocsr()
    if isinstance(X, str | bytes | dict) or X is None:
        raise TypeError(f"a {type(X).__name__} is not a batch of rows")
    return as_array(X)


def _values(values: Any, n: int) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim == 0 or len(array) != n:
        raise ValueError(f"{n} rows of X, but {array.size if array.ndim == 0 else len(array)} targets or weights")
    return array


def _called(factory: Callable[[], Any], name: str) -> Any:
    try:
        return factory()
    except SourceError:
        raise
    except Exception as error:
        raise SourceError(f"{name}: {type(error).__name__} ({reason(error)}); fix what is called") from error


def _iterable(batches: Any, name: str) -> Any:
    if not isinstance(batches, Iterable) or is_frame(batches) or isinstance(batches, np.ndarray | str | bytes | dict):
        raise SourceError(f"{name} returned a {type(batches).__name__}, not an iterator of batches; yield the batches")
    return batches


def split_batch(batch: Batch, n_bytes: int) -> Iterator[Batch]:
    """Yield a batch in pieces of about so many bytes at most."""
    n = batch.X.shape[0]
    step = max(n * n_bytes // max(size_of(batch), 1), 1)
    if step >= n:
        yield from [batch] * (n > 0)
        return
    for start in range(0, n, step):
        yield Batch(*(None if values is None else _slice(values, start, step) for values in batch))


def _slice(values: Any, start: int, step: int) -> Any:
    return values.slice(start, step) if isinstance(values, pa.Table) else rows_of(values, slice(start, start + step))


def size_of(batch: Batch) -> int:
    """Bytes of a batch in memory."""
    X = batch.X
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if sp.issparse(X) else X.nbytes
    return size + sum(values.nbytes for values in batch[1:] if values is not None)


PART_BYTES = 8 << 20


class Stored(NamedTuple):
    """Place of an array in a file: bytes before it, its type and shape."""

    offset: int
    dtype: str
    shape: tuple[int, ...]

    def read(self, path: str) -> NDArray:
        """The array."""
        count = int(np.prod(self.shape))
        return np.fromfile(path, self.dtype, count, offset=self.offset).reshape(self.shape)


@dataclass(frozen=True)
class SpilledPart:
    """Rows in a temporary file, a `Part`.

    Attributes
    ----------
    path : str
    number : int
        Of the part.
    n_rows : int
    X : tuple of Stored
        An array; data, indices and indptr of a CSR matrix; the bytes of a table as an Arrow stream.
    beside : tuple of Stored or None
        Of y and of the weights.
    schema : pyarrow.Schema or int
        Of tables; the number of columns.
    digest : str
        Of all that is stored.
    """

    path: str
    number: int
    n_rows: int
    X: tuple[Stored, ...]
    beside: tuple[Stored | None, Stored | None]
    schema: pa.Schema | int
    digest: str

    @property
    def name(self) -> str:
        """The file, and the number of the part."""
        return f"{self.path}, part {self.number}"

    def read(self, n_bytes: int = READ_BYTES) -> Iterator[Batch]:
        """Yield the rows in order, in batches of about so many bytes at most."""
        try:
            X = [stored.read(self.path) for stored in self.X]
            beside = [None if stored is None else stored.read(self.path) for stored in self.beside]
        except (OSError, ValueError) as error:
            raise SourceError(f"{self.name}: the temporary file is gone; open the iterator again") from error
        yield from split_batch(Batch(self._matrix(X), *beside), n_bytes)

    def stamp(self) -> str:
        """Hash of the content."""
        return f"{self.number} {self.n_rows} {self.digest}"

    def _matrix(self, X: list[NDArray]) -> Any:
        if isinstance(self.schema, pa.Schema):
            with pa.ipc.open_stream(pa.py_buffer(X[0])) as reader:
                return fitted(reader.read_all(), self.schema, self.name)
        if len(X) == 1:
            return X[0]
        return sp.csr_array(tuple(X), shape=(self.n_rows, self.schema))


def open_iterator(
    batches: Iterable[Any], selection: Selection | None = None, schema: pa.Schema | None = None
) -> TableSource:
    """Write the batches of an iterator that can be run through once only to a temporary file; a warning says so.

    Parameters
    ----------
    batches : iterator of tables, data frames, arrays, or tuples (X, y) or (X, y, sample_weight)
    selection : Selection, optional
        Of batches that are tables.
    schema : pyarrow.Schema, optional
        Types that columns are to have.

    Raises
    ------
    SourceError
        Where there are no rows, a batch is of another kind than the first, the iterator fails, or the disk is full.
    """
    folder, name = TemporaryFolder(), f"the {type(batches).__name__}"
    path = os.path.join(folder.path, "rows")
    cure = "give a callable that returns a new iterator, to read without a copy"
    warn(f"{name} can be read only once, and is written to {path}; {cure}.")
    try:
        return replace(_spilled(numbered(batches, name), name, path, selection, schema), owner=folder)
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)  # which a traceback else keeps
        raise


def _spilled(
    places: Iterator[tuple[str, Batch]], name: str, path: str, selection: Selection | None, schema: pa.Schema | None
) -> TableSource:
    """Write the batches to a file, and open that."""
    place, batch = first_of(places, name)
    layout, spill = Layout.of(batch), _Spill(path)
    columns = Columns.of(layout, selection, schema)
    try:
        with open(path, "wb") as file:
            for here, some in chain([(place, batch)], places):
                layout.require(some, here)
                spill.add(file, some if columns is None else columns.take(some, here), here)
            spill.flush(file)
    except OSError as error:
        cure = "free space there, or set TMPDIR to another folder"
        raise SourceError(f"{path}: cannot be written ({reason(error)}); {cure}") from error
    if not spill.parts:
        raise SourceError(f"{name} yields no rows that match where=; change the condition")
    known = layout.schema if columns is None else columns.of_all(spill.schemas)
    parts = tuple(
        SpilledPart(path, number, n_rows, X, beside, known, digest)
        for number, (n_rows, X, beside, digest) in enumerate(spill.parts)
    )
    return TableSource(parts, known, f"{name} in a temporary file", sparse=layout.sparse)


class _Spill:
    """Writes batches to a file, small ones together and large ones in pieces.

    Attributes
    ----------
    parts : list of tuple
        Rows, places of X and of what is beside it, and the hash of each part.
    schemas : list of (str, pyarrow.Schema)
        Different ones of the tables, each with the place where it came first.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.parts: list[tuple[int, tuple[Stored, ...], tuple[Stored | None, Stored | None], str]] = []
        self.schemas: list[tuple[str, pa.Schema]] = []
        self._waiting: list[Batch] = []
        self._size = 0

    def add(self, file: Any, batch: Batch, place: str) -> None:
        """Keep a batch, and write what is enough for a part."""
        if isinstance(batch.X, pa.Table) and batch.X.schema not in [schema for _, schema in self.schemas]:
            self.schemas.append((place, batch.X.schema))
        y, weight = (None if values is None else _plain(values, place) for values in batch[1:])
        X = _plain(batch.X, place) if isinstance(batch.X, np.ndarray) else batch.X
        for piece in split_batch(Batch(X, y, weight), PART_BYTES):
            self._waiting.append(piece)
            self._size += size_of(piece)
            if self._size >= PART_BYTES:
                self.flush(file)

    def flush(self, file: Any) -> None:
        """Write what waits as a part."""
        if not self._waiting:
            return
        X, y, weight = (_together(values) for values in zip(*self._waiting, strict=True))
        self._waiting, self._size = [], 0
        digest = blake2b(digest_size=16)
        arrays = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X if isinstance(X, np.ndarray) else _bytes(X)]
        stored = tuple(_write(file, array, digest) for array in arrays)
        beside = (
            None if y is None else _write(file, y, digest),
            None if weight is None else _write(file, weight, digest),
        )
        self.parts.append((X.shape[0], stored, beside, digest.hexdigest()))


def _plain(values: Any, place: str) -> NDArray:
    """An array of numbers or of text of fixed width, which has bytes to write."""
    if not values.dtype.hasobject:
        return values
    if any(not isinstance(value, str) for value in values.ravel().tolist() if not is_missing(value)):
        raise SourceError(f"{place}: an array of objects cannot be written; yield data frames")
    if any(is_missing(value) for value in values.ravel().tolist()):
        raise SourceError(f"{place}: text with missing values in an array; yield data frames")
    return values.astype(str)


def _together(values: tuple) -> Any:
    """Consecutive rows as one."""
    if values[0] is None or len(values) == 1:
        return values[0]
    if isinstance(values[0], pa.Table):
        schema = unified([(f"batch {k}", table.schema) for k, table in enumerate(values)])
        return pa.concat_tables([fitted(table, schema, "a batch") for table in values])
    return concat(values)


def _bytes(table: pa.Table) -> NDArray[np.uint8]:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table.combine_chunks())
    return np.frombuffer(sink.getvalue(), np.uint8)


def _write(file: Any, array: NDArray, digest: Any) -> Stored:
    """Append an array to the file."""
    place = Stored(file.tell(), array.dtype.str, array.shape)
    content = np.ascontiguousarray(array).tobytes()
    digest.update(f"{place.dtype} {place.shape}".encode())
    digest.update(content)
    file.write(content)
    return place
