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


def as_engine(given: Any) -> Engine:
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
    if given is None:
        return LOCAL
    if (client := _client(given)) is not None:
        from bochner.engines.dask import DaskEngine

        return DaskEngine(client)
    if isinstance(given, Executor):
        return FuturesEngine(given)
    asked = "submit", "share", "result", "is_remote"
    if not isinstance(given, type) and all(hasattr(given, one) for one in asked):
        return given
    if "://" in str(given):
        raise TypeError(
            "engine must be a Client of the scheduler, not its address: "
            f"dask.distributed.Client({given!r})."
        )
    raise TypeError(
        "engine must be a dask.distributed.Client, an executor of "
        f"concurrent.futures or None, got {given!r}."
    )


def _client(given: Any) -> Any:
    """The client of Dask that somebody means, by a client itself, a cluster, or an
    executor that a client has made.
    """
    dask: Any = sys.modules.get("distributed")
    if not hasattr(dask, "Client"):
        return None
    if isinstance(given, dask.cfexecutor.ClientExecutor):
        return given._client
    if isinstance(given, dask.deploy.Cluster):
        if given not in _clients or _clients[given].status == "closed":
            _clients[given] = dask.Client(given, set_as_default=False)
        return _clients[given]
    return given if isinstance(given, dask.Client) else None
