"""Batches that a callable or an iterator yields: they are run through once, into a
temporary file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.table_input import (
    as_array,
    check_names,
    check_size,
    checked_sparse,
    is_frame,
)
from bochner.sources.base import Batch, SourceError, TableSource
from bochner.sources.imported import ImportedPart, RowWriter, importing
from bochner.sources.memory import as_table, frame_schema, values_beside
from bochner.sources.paths import FileState, reason
from bochner.sources.rows import numbers_of
from bochner.sources.schema import (
    EVERYTHING,
    Columns,
    Selection,
    is_number,
    roomy,
    unified,
)

ACCEPTED = "give tables, data frames, arrays, or tuples (X, y) or (X, y, sample_weight)"
END = object()


def open_batches(batches: Any, selection: Selection = EVERYTHING) -> TableSource:
    """Write the batches of an iterator, or of a callable that returns one, to a
    temporary file, and open that.

    Parameters
    ----------
    batches : iterator, or callable without arguments that returns an iterable
        Of tables, frames, arrays, or tuples (X, y[, sample_weight]).
    selection : Selection, optional
        Of batches that are tables.

    Raises
    ------
    SourceError
        Where there are no rows, a batch is of another kind than the first, what yields
        them fails, or the disk is full.
    """
    if isinstance(batches, Iterator):
        name = f"the {type(batches).__name__}"
    else:
        name = f"{getattr(batches, '__name__', type(batches).__name__)}()"
        with errors_at(name, "; fix what is called"):
            batches = batches()
    what = f"{name} in a temporary file"
    empty = f"{name} yields no rows; yield at least one batch"
    return import_batches(numbered(batches, name), name, what, selection, empty)


def import_batches(
    batches: Iterator[tuple[str, Batch]],
    name: str,
    what: str,
    selection: Selection,
    empty: str,
    origins: tuple[FileState, ...] = (),
) -> TableSource:
    """Write batches to a temporary file, and open that.

    Parameters
    ----------
    batches : iterator of pairs (place, Batch)
        Batches that have rows, each with its place for messages.
    name : str
        What the rows come from, for messages.
    what : str
        Description of the source.
    selection : Selection
    empty : str
        What is wrong where there are no batches.
    origins : tuple of FileState, optional
        The files that they come from.

    Raises
    ------
    SourceError
        Where there are no rows, a batch is of another kind than the first, or the disk
        is full.
    """
    columns: Columns | None = None
    # Different types of the batches, each with the place where it came first
    places: dict[pa.Schema, str] = {}
    targets: str | None = None
    with importing() as folder, RowWriter(folder, "rows", name) as rows:
        for place, batch in batches:
            columns = columns or Columns.of(batch, selection)
            batch = columns.take(batch, place)
            description = _described(batch.y, place)
            targets = targets or description
            if description not in (targets, ""):
                raise SourceError(
                    f"{place}: targets are {description}, but those before are "
                    f"{targets}; yield targets of one kind"
                )
            if isinstance(batch.X, pa.Table):
                places.setdefault(batch.X.schema, place)
            rows.write(batch)
        if columns is None:
            raise SourceError(empty)
        pieces = rows.finish()
        if not pieces:
            raise SourceError(f"{name}: no rows match where=; change the condition")
    all_columns = columns.schema
    if isinstance(all_columns, pa.Schema):
        schemas = ((place, schema) for schema, place in places.items())
        all_columns = roomy(unified(schemas, selection.asked))
    parts = tuple(
        ImportedPart(piece, name, all_columns, origins=origins, folder=folder)
        for piece in pieces
    )
    return TableSource(parts, all_columns, what, sparse=sp.issparse(batch.X))


def _described(y: NDArray | None, place: str) -> str:
    """What targets are, in words; empty where that is open."""
    if y is None:
        return ""
    if y.ndim > 2 or 0 in y.shape[1:]:
        raise SourceError(
            f"{place}: y has shape {y.shape}; give one or more targets for each row"
        )
    try:
        kind = pa.float64()
        if y.dtype.kind not in "iuf":
            kind = pa.array(y.ravel(), from_pandas=True).type
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SourceError(
            f"{place}: targets are values of several kinds ({reason(error)}); give "
            "numbers, or text"
        ) from error
    if pa.types.is_null(kind):
        return ""
    what = "numbers" if is_number(kind) else str(kind).removeprefix("large_")
    return what if y.ndim == 1 else f"{what} in {y.shape[1]:,} columns"


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


def numbered(
    batches: Any, name: str, cure: str = "; fix what yields it"
) -> Iterator[tuple[str, Batch]]:
    """Yield batches that have rows, each with its place for messages; the cure is that
    of errors of what yields them.
    """
    if (
        not isinstance(batches, Iterable)
        or is_frame(batches)
        or isinstance(batches, np.ndarray | str | bytes | dict)
    ):
        raise SourceError(
            f"{name} returned a {type(batches).__name__}, not an iterator of "
            "batches; yield the batches"
        )
    batches = iter(batches)
    number = 0
    while True:
        number += 1
        place = f"{name}, batch {number}"
        with errors_at(place, cure):
            item = next(batches, END)
        if item is END:
            return
        batch = as_batch(item, place)
        if not batch.X.shape[1]:
            raise SourceError(f"{place}: the rows have no columns; give at least one")
        if not isinstance(batch.X, pa.Table):
            try:
                batch = batch._replace(X=numbers_of(batch.X))
            except ValueError as error:
                raise SourceError(f"{place}: {error}") from error
        if batch.X.shape[0]:
            yield place, batch


def as_batch(item: Any, place: str) -> Batch:
    """A batch of whatever was yielded; SourceError where that is none."""
    pair = isinstance(item, tuple) and 2 <= len(item) <= 3
    X, *beside = item if pair else (item,)
    try:
        if isinstance(X, pa.RecordBatch):
            X = pa.Table.from_batches([X])
        if isinstance(X, str | bytes | dict) or X is None:
            raise TypeError(f"a {type(X).__name__} is not a batch of rows")
        if is_frame(X):
            if X.shape[0]:
                check_names(X)
                check_size(X.shape)
            X = as_table(X, frame_schema(X), place)
        elif sp.issparse(X) and X.ndim == 2:
            X = checked_sparse(X).tocsr()
        else:
            X = as_array(X)
        named = zip(("y", "sample_weight"), beside, strict=False)
        targets_and_weights = [
            values_beside(values, X.shape[0], name) for name, values in named
        ]
    except SourceError as error:
        raise SourceError(f"{place}: {error}") from error
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise SourceError(f"{place}: {reason(error)}; {ACCEPTED}") from error
    return Batch(X, *targets_and_weights)
