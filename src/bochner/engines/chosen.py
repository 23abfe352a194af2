"""The engine that the settings name."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

from bochner.engines.base import Engine
from bochner.engines.futures import FuturesEngine
from bochner.engines.local import LOCAL
from bochner.settings import current


def chosen() -> Engine:
    """The engine of the current settings; the threads of this process where they name none."""
    return as_engine(current().engine)


def as_engine(given: Any) -> Engine:
    """What runs work, of what users have: a client of Dask, an executor, "ray", an engine; None for threads.

    Raises
    ------
    TypeError
        Where it is nothing of this kind.
    ImportError
        Where the library that it needs is not installed, with the command that installs it.
    """
    if given is None:
        return LOCAL
    if isinstance(given, Executor):
        return FuturesEngine(given)
    if all(hasattr(given, name) for name in ("submit", "share", "result", "is_remote")):
        return given
    raise TypeError(
        "engine must be a dask.distributed.Client, an executor of concurrent.futures, 'ray' or None, "
        f"got {type(given).__name__}."
    )
