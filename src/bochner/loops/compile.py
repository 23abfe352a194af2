"""How every loop of this package is compiled."""

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable, fastmath: frozenset[str] = frozenset({"contract"})) -> Any:
    """Compile with Numba: no GIL, IEEE arithmetic with fused multiply-add, kept on disk between processes.

    Where no folder can be written (a read-only installation and home), the loop is compiled anew in each process.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": set(fastmath)}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:
        return numba.njit(**options)(function)


def compiled_exactly(function: Callable) -> Any:
    """Compile so that every operation is rounded by itself: the same numbers, whatever surrounds them in a loop."""
    return compiled(function, frozenset())


def compiled_sums(function: Callable) -> Any:
    """Compile so that sums may be taken in any order, which lets them run in vector registers."""
    return compiled(function, frozenset({"contract", "reassoc"}))
