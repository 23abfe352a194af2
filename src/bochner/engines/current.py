"""The engine that the settings name."""

from __future__ import annotations

import sys
from concurrent.futures import Executor
from typing import Any
from weakref import WeakKeyDictionary

from bochner.engines.base import Engine
from bochner.engines.futures import FuturesEngine
from bochner.engines.local import LOCAL
from bochner.settings import current

# Of Dask clusters that were given without one
_clients: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def current_engine() -> Engine:
    """The engine of the current settings; the threads of this process where they
    name none.
    """
    return as_engine(current().engine)


def as_engine(engine: Any) -> Engine:
    """What runs work, of what users have: a client of Dask, an executor, an engine;
    None for threads.

    Raises
    ------
    TypeError
        Where it is nothing of this kind.
    ImportError
        Where the library that it needs is not installed, with the command that installs
        it.
    """
    if engine is None:
        return LOCAL
    if (client := _client(engine)) is not None:
        from bochner.engines.dask import DaskEngine

        return DaskEngine(client)
    if isinstance(engine, Executor):
        return FuturesEngine(engine)
    asked = "submit", "share", "results", "is_remote"
    if not isinstance(engine, type) and all(hasattr(engine, one) for one in asked):
        return engine
    if "://" in str(engine):
        raise TypeError(
            "engine must be a Client of the scheduler, not its address: "
            f"dask.distributed.Client({engine!r})."
        )
    raise TypeError(
        "engine must be a dask.distributed.Client, an executor of "
        f"concurrent.futures or None, got {engine!r}."
    )


def _client(engine: Any) -> Any:
    """The client of Dask that somebody means, by a client itself, a cluster, or an
    executor that a client has made.
    """
    dask: Any = sys.modules.get("distributed")
    if not hasattr(dask, "Client"):
        return None
    if isinstance(engine, dask.cfexecutor.ClientExecutor):
        return engine._client
    if isinstance(engine, dask.deploy.Cluster):
        if engine not in _clients or _clients[engine].status == "closed":
            _clients[engine] = dask.Client(engine, set_as_default=False)
        return _clients[engine]
    return engine if isinstance(engine, dask.Client) else None
