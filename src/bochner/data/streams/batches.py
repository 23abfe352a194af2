"""Batches of rows that a callable yields, again at each call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from bochner.data.array_source import rows_of
from bochner.data.streams.arrays import stamp_of
from bochner.data.streams.base import READ_BYTES, Batch, SourceError, TableSource
from bochner.data.streams.folders import reason
from bochner.data.streams.layouts import Columns, Layout
from bochner.data.streams.selection import Selection
from bochner.data.streams.tables import as_table, frame_schema
from bochner.data.table_input import as_array, check_frame, checked_sparse, is_frame

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
            yield from cut(batch if self.columns is None else self.columns.take(batch, place), n_bytes)

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


def cut(batch: Batch, n_bytes: int) -> Iterator[Batch]:
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
