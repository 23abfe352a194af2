"""Settings of the run, not of the model: how much memory to take, where to keep what is done.

They hold inside of a ``with`` block, and are no parameters of estimators: copies, searches over parameters and model
files know nothing of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?|)b?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Settings:
    """What holds at present.

    Attributes
    ----------
    memory_limit : int or None
        Bytes that fits and predictions may take beside what the process held when the limit was set.
    memory_base : int
        Resident bytes of the process when the limit was set.
    checkpoint : str or None
        File that keeps what is done of a fit.
    resume : bool
        Whether to go on from that file, where there is one.
    every : float
        Seconds from one checkpoint to the next, at least.
    """

    memory_limit: int | None = None
    memory_base: int = 0
    checkpoint: str | None = None
    resume: bool = False
    every: float = 60.0


_CURRENT: ContextVar[Settings] = ContextVar("settings", default=Settings())


def current() -> Settings:
    """The settings that hold where this is called."""
    return _CURRENT.get()


@contextmanager
def settings(**changes: Any) -> Iterator[Settings]:
    """Change settings for what is done inside the block."""
    limit = changes.get("memory_limit")
    if limit is not None:
        changes |= {"memory_limit": as_bytes(limit), "memory_base": resident_bytes()}
    token = _CURRENT.set(replace(_CURRENT.get(), **changes))
    try:
        yield _CURRENT.get()
    finally:
        _CURRENT.reset(token)


def as_bytes(size: int | float | str) -> int:
    """Bytes of a size as people write it, "1.5 GB" or "300MiB"; ValueError for anything else."""
    if isinstance(size, str):
        found = SIZE.fullmatch(size)
        if found is None:
            raise ValueError(f"memory_limit must be a size such as '1.5 GB' or '600 MB', got {size!r}.")
        size = float(found[1]) * UNITS[found[2].lower()]
    return int(size)


def resident_bytes() -> int:
    """Memory that this process holds; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
