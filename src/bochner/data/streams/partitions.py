"""Partitions of Dask's collections: each apart, how many rows they have, and what they have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from bochner.data.array_source import rows_of
from bochner.data.streams.base import Batch, SourceError
from bochner.data.streams.batches import as_batch
from bochner.data.streams.clusters import Recipe, active_engine, has_futures, is_delayed, values_of
from bochner.data.streams.layouts import Layout
from bochner.data.streams.tables import frame_schema
from bochner.engines.base import together
from bochner.notices import warn

SHARED = 3  # times the work of all together, beyond which partitions share too much of it to be computed each apart
OPEN_KINDS = "object", "category"  # of columns, whose types Dask does not always know


class Pieces(NamedTuple):
    """Partitions that are still to be computed, each for itself, and their rows; None where these are unknown."""

    blocks: list[Any]
    rows: list[int | None]


def kind_of(data: Any) -> str:
    """What kind of collection something is, for people."""
    if is_delayed(data):
        return "list of delayed values"
    return "Dask data frame" if is_frame_of_dask(data) else "Dask array"


def is_frame_of_dask(data: Any) -> bool:
    """Whether a collection is a data frame."""
    return type(data).__name__ == "DataFrame"


def whole_rows(X: Any) -> Any:
    """An array of Dask of shape (n, d) whose chunks are whole rows, which is not computed for that.

    Raises
    ------
    SourceError
        Where it has not two dimensions, or its number of columns is unknown.
    """
    if X.ndim != 2:
        raise SourceError(f"Expected a Dask array of 2 dimensions, got {X.ndim}; reshape it with X.reshape")
    if np.isnan(X.shape[1]):
        raise SourceError("the number of columns of the Dask array is unknown; call X.compute_chunk_sizes() first")
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def pieces(data: Any) -> Pieces:
    """The partitions of a collection, or what is delayed."""
    if is_delayed(data):
        found = list(data) if isinstance(data, list | tuple) else [data]
        return Pieces(_apart(found), [None] * len(found))
    sizes = getattr(data, "chunks", None)
    data = whole_rows(data) if sizes is not None and data.ndim == 2 else data
    # Dask's optimiser drops futures of persisted arrays, which only the scheduler has then.
    found = data.to_delayed(optimize_graph=sizes is None or not has_futures(data))
    found = found if isinstance(found, list) else found.ravel().tolist()
    known = [np.nan] * len(found) if sizes is None else sizes[0]
    return Pieces(_apart(found), [None if np.isnan(size) else int(size) for size in known])


def _apart(delayed: list[Any]) -> list[Any]:
    """Each with the part of the graph that it needs: a recipe, or delayed where it shares much of its work with others.

    Such work, as of means of all rows, the scheduler of a cluster has done once for all.
    """
    from dask.delayed import Delayed
    from dask.optimization import cull

    graphs = [one.dask for one in delayed]
    whole = {id(graph): dict(graph) for graph in graphs}
    own = [cull(whole[id(graph)], [one.key])[0] for one, graph in zip(delayed, graphs, strict=True)]
    needed, all_keys = sum(map(len, own)), len(set().union(*own))
    if needed <= SHARED * all_keys:
        return [Recipe(one.key, graph) for one, graph in zip(delayed, own, strict=True)]
    if not active_engine().is_remote:
        warn(
            "Partitions share intermediate results, such as a mean of all rows, and each computes them again: "
            f"{needed / all_keys:.0f} times the work, in each pass. Compute such values first, write the rows to "
            "files, or use a Client."
        )
    return [Delayed(one.key, graph) for one, graph in zip(delayed, own, strict=True)]


def blocks_of(X: Any) -> Iterator[Any]:
    """Yield the partitions that have rows, computed one after the other."""
    for block in pieces(X).blocks:
        (values,) = values_of(block)
        if _n_rows(values):
            yield values


def first_blocks(X: Any, size: int) -> Iterator[Any]:
    """Yield rows of the first partitions that have some, so many at most; SourceError where there are none."""
    left = size
    for values in blocks_of(X):
        rows = rows_of(values, slice(left))
        left -= _n_rows(rows)
        yield rows
        if not left:
            return
    if left == size:
        raise SourceError(f"the {kind_of(X)} has no rows; give some")


def counted(*collections: Pieces) -> list[list[int | None]]:
    """Rows of the partitions of each; those that are unknown are computed, all at once."""
    unknown = [
        [block for block, n in partition if n is None]
        for partition in zip(*(zip(*one, strict=True) for one in collections), strict=True)
    ]
    engine = active_engine()
    handles = [engine.submit(_lengths, *blocks) for blocks in unknown if blocks]
    found = iter(engine.result(engine.submit(together, *handles)) if handles else ())
    lengths = [iter(next(found)) if blocks else iter(()) for blocks in unknown]
    return [[next(own) if n is None else n for n, own in zip(one.rows, lengths, strict=True)] for one in collections]


def layout_of(X: Any, rows: Pieces) -> Layout:
    """What the partitions have in common, by what Dask says; where it does not know, by the first one with rows.

    Raises
    ------
    SourceError
        Where that is asked for, and there are no rows.
    """
    if is_delayed(X):
        return _of_first(rows)
    if not is_frame_of_dask(X):
        return Layout(int(X.shape[1]), sp.issparse(X._meta), False, False)
    is_open = any(str(kind) in OPEN_KINDS for kind in X.dtypes)
    layout = _of_first(rows) if is_open else Layout(frame_schema(X._meta), False, False, False)
    assert isinstance(layout.schema, pa.Schema)
    return layout._replace(schema=pa.schema([_with_room(field) for field in layout.schema]))


def _with_room(field: pa.Field) -> pa.Field:
    """A column whose codes have room for the categories of all partitions."""
    kind = field.type
    return field.with_type(pa.dictionary(pa.int32(), kind.value_type)) if pa.types.is_dictionary(kind) else field


def _lengths(*blocks: Any) -> tuple[int, ...]:
    return tuple(_n_rows(block) for block in values_of(*blocks))


def _n_rows(block: Any) -> int:
    return int(block.shape[0]) if hasattr(block, "shape") else len(block)


def _of_first(rows: Pieces) -> Layout:
    engine = active_engine()
    for block, n in zip(*rows, strict=True):
        layout = engine.result(engine.submit(_described, block)) if n != 0 else None
        if layout is not None:
            return layout
    raise SourceError("there are no rows in any partition; there is nothing to learn from")


def _described(block: Any) -> Layout | None:
    """What a partition is like; None where it has no rows."""
    (X,) = values_of(block)
    return Layout.of(Batch(as_batch(X, "the first partition with rows").X)) if _n_rows(X) else None
