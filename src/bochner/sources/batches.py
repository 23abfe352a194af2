"""Batches that a callable yields, again at each call, or an iterator once, which are
kept in a temporary file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.columns import is_missing
from bochner.data.table_input import as_array, check_frame, checked_sparse, is_frame
from bochner.notices import warn
from bochner.sources.base import READ_BYTES, Batch, SourceError, TableSource
from bochner.sources.memory import (
    arrow_bytes,
    as_table,
    frame_schema,
    table_of_bytes,
    values_beside,
)
from bochner.sources.paths import FileState, TemporaryFolder, reason
from bochner.sources.rows import joined
from bochner.sources.schema import Columns, Layout, Selection, fitted

ACCEPTED = "give tables, data frames, arrays, or tuples (X, y) or (X, y, sample_weight)"
PART_BYTES = 8 << 20  # of a part of a temporary file, about
END = object()


@dataclass(frozen=True)
class FactoryPart:
    """All rows of the batches that a callable yields, a `Part`.

    Attributes
    ----------
    factory : callable
        Takes no arguments, and returns a new iterator of batches.
    columns : Columns
        What is wanted of tables.
    """

    factory: Callable[[], Iterable[Any]]
    columns: Columns

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
            yield from self.columns.take(batch, place).split(n_bytes)


def open_factory(
    factory: Callable[[], Iterable[Any]],
    selection: Selection | None = None,
    schema: pa.Schema | None = None,
) -> TableSource:
    """Open a callable without arguments that returns a new iterator of batches at each
    call.

    Parameters
    ----------
    factory : callable
        Called twice at once, for the first batch and to see that the iterator is a new
        one.
    selection : Selection, optional
        Of batches that are tables.
    schema : pyarrow.Schema, optional
        Types that columns are to have.

    Raises
    ------
    SourceError
        Where it does not return a new iterator, there is no batch, or the first is none
        that is known here.
    """
    name = _name_of(factory)
    batches = _iterable(_called(factory, name), name)
    if isinstance(batches, Iterator) and _called(factory, name) is batches:
        raise SourceError(
            f"{name} returns the same iterator again; let it make a new one on each "
            "call"
        )
    _, first = first_of(numbered(batches, name), name)
    if isinstance(batches, Iterator) and hasattr(batches, "close"):
        batches.close()
    columns = Columns.of(Layout.of(first), selection, schema)
    return TableSource(
        (FactoryPart(factory, columns),),
        columns.kept(),
        f"batches of {name}",
        sparse=columns.layout.sparse,
    )


def _name_of(factory: Callable[[], Any]) -> str:
    """Name of a callable, for messages."""
    return f"{getattr(factory, '__name__', type(factory).__name__)}()"


def first_of(batches: Iterator[tuple[str, Batch]], name: str) -> tuple[str, Batch]:
    """The first batch and its place; SourceError where there is none."""
    try:
        return next(batches)
    except StopIteration:
        raise SourceError(f"{name} yields no rows; yield at least one batch") from None


@contextmanager
def errors_at(place: str, cure: str, kinds: Any = Exception) -> Iterator[None]:
    """Tell by SourceError what the code of a user has raised."""
    try:
        yield
    except SourceError:
        raise
    except kinds as error:
        raise SourceError(
            f"{place}: {type(error).__name__} ({reason(error)}){cure}"
        ) from error


def numbered(batches: Any, name: str) -> Iterator[tuple[str, Batch]]:
    """Yield batches that have rows, each with its place for messages."""
    batches = iter(_iterable(batches, name))
    number = 0
    while True:
        number += 1
        place = f"{name}, batch {number}"
        with errors_at(place, "; fix what yields it"):
            item = next(batches, END)
        if item is END:
            return
        batch = as_batch(item, place)
        if batch.X.shape[0]:
            yield place, batch


def as_batch(item: Any, place: str) -> Batch:
    """A batch of whatever was yielded; SourceError where that is none."""
    pair = isinstance(item, tuple) and 2 <= len(item) <= 3
    X, *beside = item if pair else (item,)
    try:
        X = _matrix(X, place)
        named = zip(("y", "sample_weight"), beside, strict=False)
        found = [values_beside(values, X.shape[0], name) for name, values in named]
    except SourceError as error:
        raise SourceError(f"{place}: {error}") from error
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


def _called(factory: Callable[[], Any], name: str) -> Any:
    with errors_at(name, "; fix what is called"):
        return factory()


def _iterable(batches: Any, name: str) -> Any:
    if (
        not isinstance(batches, Iterable)
        or is_frame(batches)
        or isinstance(batches, np.ndarray | str | bytes | dict)
    ):
        raise SourceError(
            f"{name} returned a {type(batches).__name__}, not an iterator of "
            "batches; yield the batches"
        )
    return batches


@dataclass(frozen=True)
class SpilledPart:
    """Rows in a temporary file, a `Part`: arrays, each as NumPy writes it.

    Attributes
    ----------
    file : FileState
    number : int
        Of the part.
    n_rows : int
    offset : int
        Bytes before it in the file.
    layout : Layout
        Of all rows.
    """

    file: FileState
    number: int
    n_rows: int
    offset: int
    layout: Layout

    @property
    def name(self) -> str:
        """The file, and the number of the part."""
        return f"{self.file.path}, part {self.number}"

    def read(self, n_bytes: int = READ_BYTES) -> Iterator[Batch]:
        """Yield the rows in order, in batches of about so many bytes at most."""
        _, sparse, with_y, with_weight = self.layout
        try:
            with open(self.file.path, "rb") as file:
                file.seek(self.offset)
                X = [_read(file) for _ in range(3 if sparse else 1)]
                y, weight = (
                    _read(file) if there else None for there in (with_y, with_weight)
                )
        except (OSError, ValueError) as error:
            raise SourceError(
                f"{self.name}: the temporary file is gone; open the iterator again"
            ) from error
        yield from Batch(self._matrix(X), y, weight).split(n_bytes)

    def _matrix(self, arrays: list[NDArray]) -> Any:
        """A table of its bytes as an Arrow stream, an array, or a CSR matrix of
        data, indices and indptr.
        """
        if isinstance(self.layout.schema, int):
            width = self.layout.schema
            return (
                sp.csr_array(tuple(arrays), shape=(self.n_rows, width))
                if self.layout.sparse
                else arrays[0]
            )
        return fitted(
            table_of_bytes(pa.py_buffer(arrays[0])), self.layout.schema, self.name
        )


def open_iterator(
    batches: Iterable[Any],
    selection: Selection | None = None,
    schema: pa.Schema | None = None,
) -> TableSource:
    """Write the batches of an iterator that can be run through once only to a temporary
    file; a warning says so.

    Parameters
    ----------
    batches : iterator of tables, frames, arrays, or tuples (X, y[, sample_weight])
    selection : Selection, optional
        Of batches that are tables.
    schema : pyarrow.Schema, optional
        Types that columns are to have.

    Raises
    ------
    SourceError
        Where there are no rows, a batch is of another kind than the first, the iterator
        fails, or the disk is full.
    """
    folder = TemporaryFolder()
    name = f"the {type(batches).__name__}"
    path = os.path.join(folder.path, "rows")
    cure = "give a callable that returns a new iterator, to read without a copy"
    warn(f"{name} can be read only once, and is written to {path}; {cure}.")
    try:
        return replace(
            _spilled(numbered(batches, name), name, path, selection, schema),
            owner=folder,
        )
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)  # which a traceback else keeps
        raise


def _spilled(
    places: Iterator[tuple[str, Batch]],
    name: str,
    path: str,
    selection: Selection | None,
    schema: pa.Schema | None,
) -> TableSource:
    """Write the batches to a file, and open that."""
    place, first = first_of(places, name)
    columns = Columns.of(Layout.of(first), selection, schema)
    schemas: list[
        tuple[str, pa.Schema]
    ] = []  # different ones, each with the place where it came first

    def wanted() -> Iterator[Batch]:
        for here, batch in chain([(place, first)], places):
            batch = columns.take(batch, here)
            if isinstance(batch.X, pa.Table) and batch.X.schema not in [
                known for _, known in schemas
            ]:
                schemas.append((here, batch.X.schema))
            yield Batch(
                *(
                    _writable(values, here)
                    if isinstance(values, np.ndarray)
                    else values
                    for values in batch
                )
            )

    written = []
    try:
        with open(path, "wb") as out:
            for batch in _regrouped(wanted()):
                written.append((batch.X.shape[0], _write(out, batch)))
    except OSError as error:
        cure = "free space there, or set TMPDIR to another folder"
        raise SourceError(
            f"{path}: cannot be written ({reason(error)}); {cure}"
        ) from error
    if not written:
        raise SourceError(
            f"{name} yields no rows that match where=; change the condition"
        )
    layout = columns.layout._replace(schema=columns.of_all(schemas))
    file = FileState.of(path)
    parts = tuple(
        SpilledPart(file, k, n, offset, layout) for k, (n, offset) in enumerate(written)
    )
    return TableSource(
        parts, layout.schema, f"{name} in a temporary file", sparse=layout.sparse
    )


def _regrouped(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the same rows in batches of about `PART_BYTES`: small ones together,
    large ones in pieces.
    """
    waiting: list[Batch] = []
    size = 0
    for piece in (piece for batch in batches for piece in batch.split(PART_BYTES)):
        waiting.append(piece)
        size += piece.n_bytes
        if size >= PART_BYTES:
            yield joined(waiting)
            waiting = []
            size = 0
    if waiting:
        yield joined(waiting)


def _writable(values: NDArray, place: str) -> NDArray:
    """An array of numbers or of text of fixed width, which has bytes to write."""
    if not values.dtype.hasobject:
        return values
    if any(
        not isinstance(value, str)
        for value in values.ravel().tolist()
        if not is_missing(value)
    ):
        raise SourceError(
            f"{place}: an array of objects cannot be written; yield data frames"
        )
    if any(is_missing(value) for value in values.ravel().tolist()):
        raise SourceError(
            f"{place}: text with missing values in an array; yield data frames"
        )
    return values.astype(str)


def _read(file: Any) -> NDArray:
    return np.lib.format.read_array(file, allow_pickle=False)


def _write(file: Any, batch: Batch) -> int:
    """Append the arrays of a batch to a file; where they begin."""
    X = batch.X
    offset = file.tell()
    if isinstance(X, pa.Table):
        X = np.frombuffer(arrow_bytes(X, "lz4"), np.uint8)
    arrays = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    for array in (*arrays, *(values for values in batch[1:] if values is not None)):
        np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)
    return offset
