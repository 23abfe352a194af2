"""Arrays, data frames and delayed values of Dask as parts: one for each partition, computed whenever it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
from narwhals.dependencies import is_into_series

from bochner.data.streams.arrays import stamp_of
from bochner.data.streams.base import READ_BYTES, Batch, SourceError, TableSource
from bochner.data.streams.batches import as_batch, cut
from bochner.data.streams.clusters import is_collection, is_delayed, values_of
from bochner.data.streams.folders import reason
from bochner.data.streams.layouts import Columns, Layout
from bochner.data.streams.partitions import Pieces, counted, is_frame_of_dask, kind_of, layout_of, pieces
from bochner.data.streams.selection import Selection, require
from bochner.data.streams.tables import frame_schema
from bochner.data.table_input import is_frame

Y, WEIGHT = "y", "sample_weight"


@dataclass(frozen=True, eq=False)
class CollectionPart:
    """Rows of one partition, a `Part`; numbered from 0, as by Dask.

    Where work on it goes to a cluster, the cluster puts values in the place of what is delayed, and of futures.

    Attributes
    ----------
    number : int
    kind : str
        What it is a partition of, for people.
    X, y, weight : Recipe, Delayed or its value; of targets and weights also an array of b rows, or None
    n_rows : int or None
        None where the rows have not been counted, or a condition leaves some out.
    layout : Layout
        What all partitions have in common.
    columns : Columns or None
        What is wanted of frames.
    key : str
        Names what is delayed: another name where other data are computed, or in another way.
    """

    number: int
    kind: str
    X: Any
    y: Any
    weight: Any
    n_rows: int | None
    layout: Layout
    columns: Columns | None
    key: str

    @property
    def name(self) -> str:
        """Number of the partition."""
        return f"partition {self.number} of the {self.kind}"

    def read(self, n_bytes: int = READ_BYTES) -> Iterator[Batch]:
        """Compute the partition, and yield its rows in order, in batches of about so many bytes at most."""
        X, *beside = self._values()
        batch = as_batch((X, *map(plain, beside)), self.name)
        if not batch.X.shape[0]:
            return
        if self.columns is not None and isinstance(batch.X, pa.Table):
            batch = self.columns.take(batch, self.name)
        else:
            self._require_alike(batch.X)
        yield from cut(batch, n_bytes)

    def stamp(self) -> str:
        """Name of what is computed, and a hash of some of the targets and weights that are at hand."""
        beside = [stamp_of(values) if isinstance(values, np.ndarray) else "-" for values in (self.y, self.weight)]
        return f"{self.number} {self.key} {' '.join(beside)} {'' if self.columns is None else self.columns.stamp()}"

    def _values(self) -> tuple[Any, ...]:
        try:
            return values_of(self.X, self.y, self.weight)
        except SourceError:
            raise
        except (ValueError, TypeError, LookupError, ArithmeticError, OSError) as error:
            what = f"{type(error).__name__} ({reason(error)})"
            raise SourceError(f"{self.name}: {what} when it was computed; fix the code that makes it") from error

    def _require_alike(self, X: Any) -> None:
        """Raise SourceError where the rows are not what all partitions are to be."""
        found, wanted = _what(Layout.of(Batch(X))), _what(self.layout)
        if found != wanted:
            raise SourceError(
                f"{self.name}: {found}, but Dask declares {wanted}; give all partitions the same columns, and declare "
                "them with map_blocks(..., meta=)"
            )


def _what(layout: Layout) -> str:
    if isinstance(layout.schema, pa.Schema):
        return "a data frame"
    return f"{'a sparse matrix' if layout.sparse else 'an array'} of {layout.schema:,} columns"


def open_collection(
    X: Any,
    y: Any = None,
    weight: Any = None,
    selection: Selection | None = None,
    schema: pa.Schema | None = None,
    counts_rows: bool = True,
) -> TableSource:
    """Open a collection of Dask as a source; nothing of it is kept or persisted, and each pass computes it again.

    Where columns of a frame are objects or categories, it has the types of the first partition with rows; else those
    that Dask says.

    Parameters
    ----------
    X : Dask array of shape (n, d), Dask data frame, or list of delayed arrays or data frames
        Chunks of columns become whole rows.
    y, weight : Dask array or series, list of delayed arrays, or array of n rows, optional
        With the same partitions as X, where they are of Dask.
    selection : Selection, optional
        Of data frames.
    schema : pyarrow.Schema, optional
        Types that columns of data frames are to have.
    counts_rows : bool, default=True
        Whether rows of unknown number are counted, which computes what tells it, once.

    Raises
    ------
    SourceError
        Where y or the weights have other partitions than X, or X has no columns.
    """
    if is_collection(X) and X.ndim != 2:
        raise SourceError(f"Expected 2D input, got a {X.ndim}D {type(X).__name__} of Dask; give rows and columns")
    kind, frame = kind_of(X), is_frame_of_dask(X)
    if is_collection(X) and X.shape[1] == 0:
        raise SourceError(f"the {kind} has no columns; give at least one")
    if frame:
        X, selection, schema = _narrowed(X, selection or Selection(), schema)
    rows = pieces(X)
    found = {name: _beside(values, name, len(rows.blocks)) for name, values in ((Y, y), (WEIGHT, weight))}
    counts = rows.rows
    if counts_rows:
        apart = {name: values for name, values in found.items() if isinstance(values, Pieces)}
        counts, *others = counted(pieces(X[[X.columns[0]]]) if frame else rows, *apart.values())
        for name, own in zip(apart, others, strict=True):
            _require_equal(name, own, counts)
    layout = layout_of(X, Pieces(rows.blocks, counts))
    columns = Columns.of(layout, selection, schema)
    known = counts if columns is None or columns.selection.where is None else [None] * len(counts)
    targets, weights = (_by_partition(values, counts, name) for name, values in found.items())
    parts = tuple(
        CollectionPart(k, kind, block, targets[k], weights[k], known[k], layout, columns, str(block.key))
        for k, block in enumerate(rows.blocks)
    )
    wanted = columns.kept() if columns else layout.schema
    return TableSource(parts, wanted, f"a {kind} of {len(parts):,} partitions", sparse=layout.sparse)


def _narrowed(X: Any, selection: Selection, schema: pa.Schema | None) -> tuple[Any, Selection, pa.Schema | None]:
    """A frame with the columns that are needed, so that others need not be read, and what is wanted of these."""
    labels = {str(label): label for label in X.columns}
    require(labels, pa.schema(schema or ()).names, "schema: ")
    Selection().schema(pa.schema([(str(label), pa.null()) for label in X.columns]))  # refuses names that repeat
    needed = selection.needed(frame_schema(X._meta)).names
    if list(labels) != needed:
        X = X[[labels[name] for name in needed]]
    asked = None if schema is None else pa.schema([field for field in schema if field.name in needed])
    return X, replace(selection, exclude=tuple(name for name in selection.exclude if name in needed)), asked


def _beside(values: Any, name: str, n_parts: int) -> Pieces | np.ndarray | None:
    """Partitions of targets or weights; what is in memory as an array."""
    if values is None or not (is_collection(values) or is_delayed(values)):
        return None if values is None else np.asarray(plain(values))
    own = pieces(values)
    if len(own.blocks) != n_parts:
        cure = f"partition it like X, with {name}.repartition or {name}.rechunk(X.chunks[0])"
        raise SourceError(f"{name} has {len(own.blocks)} partitions, but X has {n_parts}; {cure}")
    return own


def _require_equal(name: str, own: list[int | None], counts: list[int | None]) -> None:
    """Raise SourceError where partitions of targets or weights have not as many rows as those of X."""
    for k, (n, wanted) in enumerate(zip(own, counts, strict=True)):
        if n != wanted:
            raise SourceError(
                f"partition {k} of {name} has {n:,} rows, but that of X has {wanted:,}; partition both alike, with "
                f"{name}.rechunk(X.chunks[0]) or repartition(divisions=)"
            )


def _by_partition(values: Any, counts: list[int | None], name: str) -> list[Any]:
    """Targets or weights of each partition."""
    if values is None:
        return [None] * len(counts)
    if isinstance(values, Pieces):
        return values.blocks
    edges = list(accumulate((n or 0 for n in counts), initial=0))
    if values.ndim == 0 or len(values) != edges[-1]:
        found = "a single value" if values.ndim == 0 else f"{len(values):,} rows"
        raise SourceError(f"{name} has {found}, but X has {edges[-1]:,}; give one for each row")
    return [values[a:b] for a, b in pairwise(edges)]


def plain(values: Any) -> Any:
    """Targets or weights of a series or a data frame as an array, whatever its types; others as they are."""
    if is_frame(values):
        return nw.from_native(values, eager_only=True).to_numpy()
    return nw.from_native(values, series_only=True).to_numpy() if is_into_series(values) else values
