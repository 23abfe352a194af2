"""Settings of a run, not of a model: memory limit, engine and device.

They hold inside a ``with`` block. They are not parameters of estimators, so copies,
parameter searches and model files do not contain them.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib import import_module
from numbers import Real
from typing import Any

UNITS = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}
# That every fit of files loads
LIBRARIES = ("sklearn.base", "scipy.optimize", "pyarrow.parquet", "numba")
ADDRESSES = 1 << 27  # that are left before threads start or loops load
SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?|)b?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Settings:
    """The settings in force.

    Attributes
    ----------
    memory_limit : int or None
        Bytes that fits and predictions may use, in addition to what the process held
        when the limit was set.
    memory_base : int
        Resident bytes of the process when the limit was set.
    engine : object
        Where the work on rows that are read in passes runs, as given; None for the
        threads of this process.
    device : str or object
        Where features and their products are computed, as given; None for the CPU.
    """

    memory_limit: int | None = None
    memory_base: int = 0
    engine: Any = None
    device: Any = None


class _AsBefore:
    """The default of each setting: what holds outside."""

    def __repr__(self) -> str:
        return "as before"


_AS_BEFORE: Any = _AsBefore()
_DEFAULTS = Settings()
_CURRENT: ContextVar[Settings] = ContextVar("settings", default=_DEFAULTS)


def current() -> Settings:
    """The settings that hold where this is called."""
    return _CURRENT.get()


@contextmanager
def settings(
    *,
    memory_limit: int | float | str | None = _AS_BEFORE,
    engine: Any = _AS_BEFORE,
    device: Any = _AS_BEFORE,
) -> Iterator[Settings]:
    """Set how fits and predictions run inside a ``with`` block.

    Settings that are not given keep their values outside the block. They hold for the
    thread that enters the block, and for the threads that work for it.

    Parameters
    ----------
    memory_limit : int, float or str, optional
        Memory to use, in bytes or as a size such as ``"1.5 GB"`` or ``"600 MiB"``, in
        addition to what the process holds when the block is entered and libraries are
        loaded. None for all free memory.
    engine : dask.distributed.Client, concurrent.futures.Executor or Engine, optional
        Where the work on rows that are read in passes runs: on the workers of a
        cluster, or in processes. None for the threads of this process. See
        `bochner.engines.current.as_engine`.
    device : str, optional
        Where dense features and their products are computed by PyTorch: ``"cuda"``,
        ``"cuda:1"`` or ``"mps"``. None or "cpu" for the CPU.

    Yields
    ------
    Settings
        The settings in force inside the block.

    Raises
    ------
    ValueError
        If a size is invalid, or the device is not available.
    ImportError
        If a device is given and PyTorch is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import bochner
    >>> X = np.linspace(0, 1, 100)[:, np.newaxis]
    >>> with bochner.settings(memory_limit="1.5 GB") as inside:
    ...     model = bochner.KernelMachineRegressor().fit(X, np.sin(X[:, 0]))
    >>> inside.memory_limit
    1500000000
    """
    outside = _CURRENT.get()
    given = {"memory_limit": memory_limit, "engine": engine, "device": device}
    changes: dict[str, Any] = {
        name: value for name, value in given.items() if value is not _AS_BEFORE
    }
    if changes.get("memory_limit") is not None:
        changes["memory_limit"] = as_bytes(changes["memory_limit"])
        for name in LIBRARIES:  # lest they count
            import_module(name)
        changes["memory_base"] = resident_bytes()
    inside = replace(outside, **changes)
    # The workers of an engine have devices of their own
    if inside.device is not None and inside.engine is None:
        import_module("bochner.devices.device").parse_device(inside.device)
    token = _CURRENT.set(inside)
    try:
        yield inside
    finally:
        _CURRENT.reset(token)


def as_bytes(size: int | float | str) -> int:
    """Bytes of a size as people write it, "1.5 GB" or "300MiB"; ValueError for
    anything else.
    """
    amount = math.nan
    if isinstance(size, str):
        match = SIZE.fullmatch(size)
        amount = float(match[1]) * UNITS[match[2].lower()] if match else amount
    elif isinstance(size, Real) and not isinstance(size, bool):
        amount = float(size)
    if not 1 <= amount < math.inf:
        raise ValueError(
            "memory_limit must be a size such as '1.5 GB', '600 MB' or a number of "
            f"bytes, got {size!r}."
        )
    return round(amount)


def as_size(n_bytes: float) -> str:
    """Bytes as people write them, two digits of kB, MB or GB, and as settings take
    them.
    """
    names = {1e9: "GB", 1e6: "MB", 1e3: "kB"}
    unit = next((unit for unit in names if n_bytes >= 0.9995 * unit), 1e3)
    digits = 1 if n_bytes < 100 * unit else 0
    return f"{n_bytes / unit:,.{digits}f} {names[unit]}"


def _pages(column: int) -> int:
    """Bytes of pages of this process: 0 for those of addresses, 1 for resident ones."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[column]) * os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Memory that this process holds; 0 where the system does not tell."""
    try:
        return _pages(1)
    except (OSError, ValueError, IndexError):
        return 0


def free_addresses() -> int | None:
    """Bytes of addresses that a limit of the process (``ulimit -v``) leaves; None
    where there is none.
    """
    try:
        from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit

        limit = getrlimit(RLIMIT_AS)[0]
        if limit == RLIM_INFINITY:
            return None
        return max(limit - _pages(0), 0)
    except (ImportError, OSError, ValueError, IndexError):
        return None


def require_addresses(what: str, n_bytes: int = ADDRESSES) -> None:
    """Raise MemoryError where so few addresses are left that libraries would abort,
    or wait for ever, in this work.
    """
    free = free_addresses()
    if free is not None and free < n_bytes:
        raise MemoryError(
            f"{what} takes {as_size(n_bytes)} of addresses, and the limit on the "
            "memory of this process leaves "
            f"{as_size(free)}: raise it (ulimit -v)."
        )


def peak_bytes() -> int | None:
    """Largest resident memory of this process so far; None where the system does not
    tell.
    """
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:
        return None
    peak = getrusage(RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
