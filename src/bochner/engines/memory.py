"""Memory that the system has left for this process, and memory given back to it."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path


def free_bytes() -> int | None:
    """Bytes that are free by the system's and the container's account; None where unknown."""
    figures = []
    try:
        meminfo = Path("/proc/meminfo").read_text()
        figures.append(int(meminfo.split("MemAvailable:")[1].split()[0]) * 1024)
    except (OSError, IndexError, ValueError):
        pass
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        figures.append(limit - int(Path("/sys/fs/cgroup/memory.current").read_text()))
    except (OSError, ValueError):
        pass
    if not figures and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        figures.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(figures) if figures else None


def give_back() -> None:
    """Return to the system what has been freed: malloc and Arrow keep it for the next who asks, but it counts."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and hasattr(arrow, "default_memory_pool"):
        arrow.default_memory_pool().release_unused()
    _trim()(0)


@cache
def _trim() -> Callable[[int], int]:
    """Function malloc_trim of the GNU C library, or one that does nothing where there is another library."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return lambda _: 0
