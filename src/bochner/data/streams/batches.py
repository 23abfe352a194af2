"""Batches of rows that a callable yields, again at each call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from bochner.data.sources import rows_of
from bochner.data.streams.arrays import stamp_of
from bochner.data.streams.base import READ_BYTES, Batch, SourceError, TableSource
from bochner.data.streams.folders import reason
from bochner.data.streams.schemas import fitted, unified
from bochner.data.streams.selection import Selection
from bochner.data.streams.tables import as_table, frame_schema
from bochner.data.table_input import as_array, check_frame, is_frame

WANTED = "give tables, data frames, arrays, or tuples (X, y) or (X, y, sample_weight)"


class Layout(NamedTuple):
    """What all batches have in common.

    Attributes
    ----------
    schema : pyarrow.Schema or int
        Of tables as they come; the number of columns of arrays.
    sparse, with_y, with_weight : bool
    """

    schema: pa.Schema | int
    sparse: bool
    with_y: bool
    with_weight: bool

    @classmethod
    def of(cls, batch: Batch) -> Layout:
        """That of a batch."""
        X = batch.X
        schema = X.schema if isinstance(X, pa.Table) else X.shape[1]
        return cls(schema, sp.issparse(X), batch.y is not None, batch.weight is not None)

    def require(self, batch: Batch, place: str) -> None:
        """Raise SourceError where a later batch is of another kind, or has another number of columns."""
        other = Layout.of(batch)
        kinds = [_kind(one) for one in (self, other)]
        if kinds[0] != kinds[1]:
            raise SourceError(f"{place}: {kinds[1]}, but the first batch is {kinds[0]}; yield batches of one kind")
        if isinstance(self.schema, int) and self.schema != other.schema:
            raise SourceError(f"{place}: {other.schema} columns, but the first batch has {self.schema}; mend the batch")


def _kind(layout: Layout) -> str:
    table = "a table" if isinstance(layout.schema, pa.Schema) else "a sparse matrix" if layout.sparse else "an array"
    more = [what for what, there in (("y", layout.with_y), ("weights", layout.with_weight)) if there]
    return " with ".join([table, " and ".join(more)] if more else [table])


@dataclass(frozen=True)
class FactoryPart:
    """All rows of the batches that a callable yields, a `Part`.

    Attributes
    ----------
    factory : callable
        Takes no arguments, and returns a new iterator of batches.
    layout : Layout
    selection : Selection
    schema : pyarrow.Schema or None
        Types of the columns of tables.
    digest : str
        Of the first batch.
    """

    factory: Callable[[], Iterable[Any]]
    layout: Layout
    selection: Selection
    schema: pa.Schema | None
    digest: str

    @property
    def name(self) -> str:
        """Name of the callable."""
        return f"{getattr(self.factory, '__name__', type(self.factory).__name__)}()"

    @property
    def n_rows(self) -> None:
        """None: the rows have not been counted."""
        return None

    def read(self, n_bytes: int = READ_BYTES) -> Iterator[Batch]:
        """Yield the rows in order, in batches of about so many bytes at most."""
        for place, batch in numbered(self.factory(), self.name):
            self.layout.require(batch, place)
            if self.schema is not None:
                batch = selected(batch, self.selection, self.schema, place)
            yield from cut(batch, n_bytes)

    def stamp(self) -> str:
        """Name of the callable, and a hash of some rows of its first batch."""
        return f"{self.name} {self.digest} {self.selection.stamp()}"


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
    selection, name = selection or Selection(), getattr(factory, "__name__", type(factory).__name__)
    batches = _iterable(factory(), name)
    if isinstance(batches, Iterator) and factory() is batches:
        raise SourceError(f"{name}() returns the same iterator again; let it make a new one at each call")
    _, first = first_of(numbered(batches, f"{name}()"), f"{name}()")
    if isinstance(batches, Iterator) and hasattr(batches, "close"):
        batches.close()
    layout = Layout.of(first)
    types = types_of(layout, selection, schema)
    digest = " ".join(map(stamp_of, first))
    part = FactoryPart(factory, layout, selection, types, digest)
    return TableSource((part,), kept(layout, selection, types), f"batches of {name}()", sparse=layout.sparse)


def first_of(batches: Iterator[tuple[str, Batch]], name: str) -> tuple[str, Batch]:
    """The first batch and its place; SourceError where there is none."""
    try:
        return next(batches)
    except StopIteration:
        raise SourceError(f"{name} yields no rows; give at least one batch") from None


def types_of(layout: Layout, selection: Selection, schema: pa.Schema | None) -> pa.Schema | None:
    """Types of the columns that are needed of tables; None of arrays, whose columns have no names to be asked for."""
    if isinstance(layout.schema, pa.Schema):
        return unified([("the first batch", selection.needed(layout.schema))], schema)
    refuse_selection(selection, schema)
    return None


def kept(layout: Layout, selection: Selection, types: pa.Schema | None) -> pa.Schema | int:
    """The schema of what is wanted of the batches."""
    if types is None or isinstance(layout.schema, int):
        return layout.schema
    return pa.schema([types.field(name) for name in selection.kept(types.names)])


def refuse_selection(selection: Selection, schema: pa.Schema | None) -> None:
    """Raise SourceError where columns are asked for by names that they do not have."""
    if selection.stamp() or schema is not None:
        raise SourceError("the columns of arrays have no names; leave out columns, exclude, where and schema")


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
            raise SourceError(f"{place}: {type(error).__name__} ({reason(error)}); mend what yields it") from error
        batch = as_batch(item, place)
        if batch.X.shape[0]:
            yield place, batch


def as_batch(item: Any, place: str) -> Batch:
    """A batch of whatever was yielded; SourceError where that is none."""
    pair = isinstance(item, tuple) and 2 <= len(item) <= 3
    X, *beside = item if pair else (item,)
    try:
        X = _matrix(X)
        found = [None if values is None else _values(values, X.shape[0]) for values in beside]
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise SourceError(f"{place}: {reason(error)}; {WANTED}") from error
    return Batch(X, *found)


def _matrix(X: Any) -> Any:
    """A table, an array or a CSR matrix."""
    if isinstance(X, pa.RecordBatch):
        X = pa.Table.from_batches([X])
    if is_frame(X):
        if X.shape[0]:
            check_frame(X)
        return as_table(X, frame_schema(X), "")
    if sp.issparse(X) and X.ndim == 2:
        return X.tocsr()
    if isinstance(X, str | bytes | dict) or X is None:
        raise TypeError(f"a {type(X).__name__} is no batch of rows")
    return as_array(X)


def _values(values: Any, n: int) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim == 0 or len(array) != n:
        raise ValueError(f"{n} rows of X, but {array.size if array.ndim == 0 else len(array)} beside it")
    return array


def _iterable(batches: Any, name: str) -> Any:
    if not isinstance(batches, Iterable) or is_frame(batches) or isinstance(batches, np.ndarray | str | bytes | dict):
        raise SourceError(f"{name} returned a {type(batches).__name__}, no iterator of batches; yield the batches")
    return batches


def selected(batch: Batch, selection: Selection, schema: pa.Schema, place: str) -> Batch:
    """What is wanted of a batch, with types of its own where those of the first batch are too narrow."""
    wanted = unified([("the first batch", schema), (place, _named(batch.X.schema, schema, place))])
    table = batch.X.select(schema.names)
    table = fitted(table, schema if wanted == schema else wanted, place)
    if selection.where is None:
        return batch._replace(X=selection.apply(table))
    numbers = pa.array(np.arange(len(table)))
    name = "".join(table.column_names) + "_"
    rows = Selection((name,), (), selection.where).apply(table.append_column(name, numbers))[name].to_numpy()
    beside = [None if values is None else values[rows] for values in batch[1:]]
    return Batch(Selection(selection.columns, selection.exclude).apply(table.take(pa.array(rows))), *beside)


def _named(schema: pa.Schema, wanted: pa.Schema, place: str) -> pa.Schema:
    """The columns of a batch that are wanted, if it has them."""
    return pa.schema([column for column in schema if column.name in wanted.names])


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
