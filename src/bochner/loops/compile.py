"""How every loop of this package is compiled."""

from collections.abc import Callable
from typing import Any

import numba
from numba import types
from numba.extending import intrinsic


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


def _use_wide_vectors(context: Any) -> Any:
    """Let the loops of the function that calls this use the whole of vector registers.

    By itself LLVM takes half of them on many processors with AVX-512, the first of which slowed down otherwise.
    """

    def mark(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')  # its own add knows few names
        return context.get_dummy_value()

    return types.none(), mark


use_wide_vectors: Any = intrinsic(_use_wide_vectors)
