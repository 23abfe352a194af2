"""Tells what Dask made, without loading it, and asks for its values where there is a client."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from bochner.engines.base import Engine
from bochner.engines.chosen import as_engine, chosen
from bochner.engines.local import LOCAL
from bochner.engines.remote import is_away
from bochner.settings import current

ROWS = "Array", "DataFrame", "Series"


def is_collection(data: Any) -> bool:
    """Whether something is an array, a data frame or a series of Dask."""
    return any(kind.__module__.startswith("dask.") and kind.__name__ in ROWS for kind in type(data).__mro__)


def is_delayed(data: Any) -> bool:
    """Whether something is a delayed value of Dask, or a list of such."""
    if isinstance(data, list | tuple):
        return len(data) > 0 and all(is_delayed(item) for item in data)
    return any((kind.__module__, kind.__name__) == ("dask.delayed", "Delayed") for kind in type(data).__mro__)


def active_engine() -> Engine:
    """What computes Dask's collections: the engine of the settings, else the active client, else threads here."""
    if current().engine is not None:
        return chosen()
    client = _active_client()
    return LOCAL if client is None else as_engine(client)


@dataclass(frozen=True, eq=False)
class Recipe:
    """The graph of one partition, which is computed by whoever reads it, in one thread, and let go thereafter.

    Attributes
    ----------
    key : str or tuple
        Of the partition in its graph.
    graph : dict
    """

    key: Any
    graph: dict[Any, Any]


def has_futures(collection: Any) -> bool:
    """Whether some of a collection is persisted on a cluster."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and bool(distributed.futures_of(collection))


def is_waiting(block: Any) -> bool:
    """Whether a partition is still to be computed."""
    return isinstance(block, Recipe) or is_delayed(block)


def values_of(*blocks: Any) -> tuple[Any, ...]:
    """The same, with the values of those that are still to be computed.

    A recipe is carried out by the worker that reads it; by the cluster, where a client reads it; or in this thread.
    """
    waiting = [block for block in blocks if is_waiting(block)]
    if not waiting:
        return blocks
    client = _active_client()
    if client is None:
        found = iter(_computed(waiting))
    else:
        engine = as_engine(client)
        found = iter(engine.result(engine.submit(values_of, *waiting)))
    return tuple(next(found) if is_waiting(block) else block for block in blocks)


def _computed(waiting: list[Any]) -> list[Any]:
    import dask

    graph: dict[Any, Any] = {}
    for block in waiting:
        graph |= block.graph if isinstance(block, Recipe) else dict(block.dask)
    return list(dask.get(graph, [block.key for block in waiting]))


def _active_client() -> Any:
    """The client of the settings, or else the one that Dask itself would use; None where there is none.

    Work that is done elsewhere has none: a worker that waited for others might wait for itself.
    """
    distributed = sys.modules.get("distributed")
    if distributed is None or is_away() or _is_worker(distributed):
        return None
    given = current().engine
    if isinstance(given, distributed.Client):
        return given
    try:
        return distributed.Client.current()
    except ValueError:
        return None


def _is_worker(distributed: Any) -> bool:
    try:
        distributed.get_worker()
    except ValueError:
        return False
    return True
