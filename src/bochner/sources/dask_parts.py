"""Arrays, data frames and delayed values of Dask as parts: one for each partition,
computed whenever it is read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from bochner.blocks import PART_BYTES
from bochner.data.array_source import rows_of
from bochner.engines.base import Engine
from bochner.engines.current import as_engine, current_engine
from bochner.engines.local import LOCAL
from bochner.engines.remote import is_away
from bochner.engines.sums import reduce
from bochner.notices import warn
from bochner.settings import current
from bochner.sources.base import Batch, SourceError, TableSource, is_a, take_rows
from bochner.sources.batches import as_batch, errors_at
from bochner.sources.memory import frame_schema, values_beside
from bochner.sources.schema import (
    EVERYTHING,
    Columns,
    Selection,
    narrowed,
    require_distinct,
    roomy,
)


def is_collection(data: Any) -> bool:
    """Whether something is an array, a data frame or a series of Dask."""
    return is_a(data, "dask", "Array", "DataFrame", "Series")


def is_delayed(data: Any) -> bool:
    """Whether something is a delayed value of Dask, or a list of such."""
    if isinstance(data, list | tuple):
        return len(data) > 0 and all(is_delayed(item) for item in data)
    return is_a(data, "dask", "Delayed")


def active_engine() -> Engine:
    """What computes Dask's collections: the engine of the settings, else the active
    client, else threads here.
    """
    if current().engine is not None:
        return current_engine()
    client = _active_client()
    return LOCAL if client is None else as_engine(client)


@dataclass(frozen=True, eq=False)
class Recipe:
    """The graph of one partition, which is computed by whoever reads it, in one thread,
    and let go thereafter.

    Attributes
    ----------
    key : str or tuple
        Of the partition in its graph.
    graph : dict
    """

    key: Any
    graph: dict[Any, Any]


def is_waiting(block: Any) -> bool:
    """Whether a partition is still to be computed."""
    return isinstance(block, Recipe) or is_delayed(block)


def values_of(*blocks: Any) -> tuple[Any, ...]:
    """The blocks, with the values of those that are still to be computed.

    A recipe is carried out by the worker that reads it; by the cluster, where a client
    reads it; or in this thread.
    """
    waiting = [block for block in blocks if is_waiting(block)]
    if not waiting:
        return blocks
    client = _active_client()
    if client is None:
        import dask

        graph: dict[Any, Any] = {}
        for block in waiting:
            graph |= block.graph if isinstance(block, Recipe) else dict(block.dask)
        computed_values = iter(dask.get(graph, [block.key for block in waiting]))
    else:
        engine = as_engine(client)
        handle = engine.submit(values_of, *waiting)
        computed_values = iter(next(engine.results([handle])))
    return tuple(
        next(computed_values) if is_waiting(block) else block for block in blocks
    )


def _active_client() -> Any:
    """The client of the settings, or else the one that Dask itself would use; None
    where there is none.

    Work that is done elsewhere has none: a worker that waited for others might wait for
    itself.
    """
    distributed = sys.modules.get("distributed")
    if distributed is None or is_away():
        return None
    with suppress(ValueError):
        distributed.get_worker()
        return None
    given = current().engine
    if isinstance(given, distributed.Client):
        return given
    with suppress(ValueError):
        return distributed.Client.current()
    return None


# Times the work of all together, beyond which partitions share too much of it to be
# computed each apart
SHARED = 3
OPEN_KINDS = "object", "category"  # of columns, whose types Dask does not always know


class Pieces(NamedTuple):
    """Partitions that are still to be computed, each for itself, and their rows;
    None where these are unknown.
    """

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
    """An array of Dask of shape (n, d) whose chunks are whole rows, which is not
    computed for that.

    Raises
    ------
    SourceError
        Where it has not two dimensions, or its number of columns is unknown.
    """
    if X.ndim != 2:
        raise SourceError(
            f"Expected a Dask array of 2 dimensions, got {X.ndim}; reshape it with "
            "X.reshape"
        )
    if np.isnan(X.shape[1]):
        raise SourceError(
            "the number of columns of the Dask array is unknown; call "
            "X.compute_chunk_sizes() first"
        )
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def pieces(data: Any) -> Pieces:
    """The partitions of a collection, or what is delayed."""
    if is_delayed(data):
        partitions = list(data) if isinstance(data, list | tuple) else [data]
        return Pieces(_with_needed_graphs(partitions), [None] * len(partitions))
    sizes = getattr(data, "chunks", None)
    data = whole_rows(data) if sizes is not None and data.ndim == 2 else data
    # Dask's optimiser drops futures of persisted arrays, which only the scheduler has
    # then.
    # What is persisted on a cluster stays there
    distributed = sys.modules.get("distributed")
    is_persisted = distributed is not None and bool(distributed.futures_of(data))
    partitions = data.to_delayed(optimize_graph=sizes is None or not is_persisted)
    if not isinstance(partitions, list):
        partitions = partitions.ravel().tolist()
    row_counts = [np.nan] * len(partitions) if sizes is None else sizes[0]
    return Pieces(
        _with_needed_graphs(partitions),
        [None if np.isnan(size) else int(size) for size in row_counts],
    )


def _with_needed_graphs(delayed: list[Any]) -> list[Any]:
    """Each with the part of the graph that it needs: a recipe, or delayed where it
    shares much of its work with others.

    Such work, as of means of all rows, the scheduler of a cluster has done once for
    all.
    """
    from dask.delayed import Delayed
    from dask.optimization import cull

    # Many share one graph, which is made a dictionary once
    graphs = [one.dask for one in delayed]
    whole = {id(graph): dict(graph) for graph in graphs}
    needed_graphs = [
        cull(whole[id(graph)], [one.key])[0]
        for one, graph in zip(delayed, graphs, strict=True)
    ]
    needed = sum(map(len, needed_graphs))
    all_keys = len(set().union(*needed_graphs))
    is_shared = needed > SHARED * all_keys
    if is_shared and not active_engine().is_remote:
        warn(
            "Partitions share intermediate results, such as a mean of all rows, and "
            "each computes them again: "
            f"{needed / all_keys:.0f} times the work, in each pass. Compute such "
            "values first, write the rows to "
            "files, or use a Client."
        )
    kind = Delayed if is_shared else Recipe
    pairs = zip(delayed, needed_graphs, strict=True)
    return [kind(one.key, graph) for one, graph in pairs]


def blocks_of(X: Any) -> Iterator[Any]:
    """Yield the partitions that have rows, computed one after the other."""
    for block in pieces(X).blocks:
        (values,) = values_of(block)
        if _n_rows(values):
            yield values


def first_blocks(X: Any, size: int) -> Iterator[Any]:
    """Yield rows of the first partitions that have some, at most `size` rows;
    SourceError where there are none.
    """
    remaining_rows = size
    for values in blocks_of(X):
        rows = rows_of(values, slice(remaining_rows))
        remaining_rows -= _n_rows(rows)
        yield rows
        if not remaining_rows:
            return
    if remaining_rows == size:
        raise SourceError(f"the {kind_of(X)} has no rows; give some")


def counted(*collections: Pieces) -> list[list[int | None]]:
    """Rows of the partitions of each; those that are unknown are computed, all at
    once.
    """
    partitions = list(
        zip(*(zip(*one, strict=True) for one in collections), strict=True)
    )
    blocks = (
        [block for block, n in partition if n is None] for partition in partitions
    )
    unknown = list(filter(None, blocks))
    lengths = iter(reduce(active_engine(), unknown, _lengths) if unknown else ())
    counts = [
        [next(lengths) if n is None else n for _, n in partition]
        for partition in partitions
    ]
    return [list(column) for column in zip(*counts, strict=True)]


def _lengths(blocks: Sequence[Any], shared: None) -> list[int]:
    return [_n_rows(block) for block in values_of(*blocks)]


def _n_rows(block: Any) -> int:
    return int(block.shape[0]) if hasattr(block, "shape") else len(block)


def _example(block: Any) -> Any:
    """What is like a partition, without its rows; None where it has none."""
    (X,) = values_of(block)
    if not _n_rows(X):
        return None
    X = as_batch(X, "the first partition with rows").X
    return X.schema.empty_table() if isinstance(X, pa.Table) else X[:0]


@dataclass(frozen=True, eq=False)
class CollectionPart:
    """Rows of one partition, a `Part`; numbered from 0, as by Dask.

    Where work on it goes to a cluster, the cluster puts values in the place of what is
    delayed, and of futures.

    Attributes
    ----------
    name : str
        Number of the partition.
    X, y, weight : Recipe, Delayed, its value, an array of b rows, or None
    n_rows : int or None
        None where the rows have not been counted, or a condition leaves some out.
    columns : Columns
        What is wanted of frames.
    """

    name: str
    X: Any
    y: Any
    weight: Any
    n_rows: int | None
    columns: Columns

    def read(self, n_bytes: int = PART_BYTES) -> Iterator[Batch]:
        """Compute the partition, and yield its rows in order, in batches of about so
        many bytes at most.
        """
        kinds = ValueError, TypeError, LookupError, ArithmeticError, OSError
        cure = " when it was computed; fix the code that makes it"
        with errors_at(self.name, cure, kinds):
            values = values_of(self.X, self.y, self.weight)
        batch = as_batch((values[0], *map(series_as_array, values[1:])), self.name)
        if not batch.X.shape[0]:
            return
        yield from self.columns.take(batch, self.name).split(n_bytes)


def open_collection(
    X: Any,
    y: Any = None,
    weight: Any = None,
    selection: Selection = EVERYTHING,
    counts_rows: bool = True,
) -> TableSource:
    """Open a collection of Dask as a source; nothing of it is kept or persisted, and
    each pass computes it again.

    Where columns of a frame are objects or categories, it has the types of the first
    partition with rows; else those that Dask says.

    Parameters
    ----------
    X : Dask array (n, d), Dask data frame, or list of delayed ones
        Chunks of columns become whole rows.
    y, weight : Dask array or series, list of delayed arrays, or array, optional
        With the same partitions as X, where they are of Dask.
    selection : Selection, optional
        Of data frames.
    counts_rows : bool, default=True
        Whether rows of unknown number are counted, which computes what tells it, once.

    Raises
    ------
    SourceError
        Where y or the weights have other partitions than X, or X has no columns.
    """
    kind = kind_of(X)
    frame = is_frame_of_dask(X)
    if is_collection(X):
        if X.ndim != 2:
            raise SourceError(
                f"Expected 2D input, got a {X.ndim}D {type(X).__name__} of Dask; give "
                "rows and columns"
            )
        if X.shape[1] == 0:
            raise SourceError(f"the {kind} has no columns; give at least one")
    if frame:
        # The columns that are needed, so that others need not be read
        labels = {str(label): label for label in X.columns}
        require_distinct([str(label) for label in X.columns])
        names, selection = narrowed(frame_schema(X._meta), selection)
        if list(labels) != names:
            X = X[[labels[name] for name in names]]
    rows = pieces(X)
    given = {"y": y, "sample_weight": weight}
    apart: dict[str, Pieces] = {}
    for name, values in given.items():
        if is_collection(values) or is_delayed(values):
            apart[name] = pieces(values)
            n_parts = len(apart[name].blocks)
            if n_parts != len(rows.blocks):
                raise SourceError(
                    f"{name} has {n_parts} partitions, but X has {len(rows.blocks)}; "
                    f"partition it like X, with {name}.repartition or "
                    f"{name}.rechunk(X.chunks[0])"
                )
    counts = rows.rows
    if counts_rows:
        counts, *others = counted(
            pieces(X[[X.columns[0]]]) if frame else rows, *apart.values()
        )
        for name, sizes in zip(apart, others, strict=True):
            for k, (n, wanted) in enumerate(zip(sizes, counts, strict=True)):
                if n != wanted:
                    raise SourceError(
                        f"partition {k} of {name} has {n:,} rows, but that of X has "
                        f"{wanted:,}; partition both alike, with "
                        f"{name}.rechunk(X.chunks[0]) or repartition(divisions=)"
                    )
    # Targets and weights of each partition, which may be in memory
    beside: list[list[Any]] = []
    edges = list(accumulate((n or 0 for n in counts), initial=0))
    for name, values in given.items():
        if name in apart:
            beside.append(apart[name].blocks)
            continue
        held = values_beside(series_as_array(values), edges[-1], name)
        beside.append([take_rows(held, slice(*edge)) for edge in pairwise(edges)])
    # What the partitions are like, by what Dask says
    example: Any = None
    if frame and not any(str(kind) in OPEN_KINDS for kind in X.dtypes):
        example = frame_schema(X._meta).empty_table()
    elif is_collection(X) and not frame:
        empty = np.empty((0, int(X.shape[1])))
        example = sp.csr_array(empty) if sp.issparse(X._meta) else empty
    if example is None:
        # By the first one with rows, where it does not know
        engine = active_engine()
        examples = (
            next(engine.results([engine.submit(_example, block)]))
            for block, n in zip(rows.blocks, counts, strict=True)
            if n != 0
        )
        example = next((one for one in examples if one is not None), None)
        if example is None:
            raise SourceError(
                "there are no rows in any partition; there is nothing to learn from"
            )
    if frame:
        example = roomy(example.schema).empty_table()
    columns = Columns.of(Batch(example, y, weight), selection)
    row_counts = counts if columns.selection.where is None else [None] * len(counts)
    partitions = zip(rows.blocks, *beside, row_counts, strict=True)
    parts = tuple(
        CollectionPart(f"partition {k} of the {kind}", X, y, weight, n, columns)
        for k, (X, y, weight, n) in enumerate(partitions)
    )
    return TableSource(
        parts,
        columns.kept(),
        f"a {kind} of {len(parts):,} partitions",
        sparse=sp.issparse(example),
    )


def series_as_array(values: Any) -> Any:
    """Targets or weights of a series or a data frame as an array, whatever its types;
    others as they are.
    """
    column = nw.from_native(values, pass_through=True, allow_series=True)
    return column.to_numpy() if isinstance(column, nw.DataFrame | nw.Series) else values
