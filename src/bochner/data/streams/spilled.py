"""Batches that can be had once only, kept in a temporary file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.columns import is_missing
from bochner.data.streams.base import READ_BYTES, Batch, SourceError, TableSource
from bochner.data.streams.batches import cut, first_of, numbered, size_of
from bochner.data.streams.folders import reason
from bochner.data.streams.layouts import Columns, Layout
from bochner.data.streams.rows import stacked
from bochner.data.streams.schemas import fitted, unified
from bochner.data.streams.selection import Selection
from bochner.data.streams.temporary import TemporaryFolder
from bochner.notices import warn

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
        yield from cut(Batch(self._matrix(X), *beside), n_bytes)

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
        for piece in cut(Batch(X, y, weight), PART_BYTES):
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
    return stacked(values)


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
