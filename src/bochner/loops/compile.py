"""How every loop of this package is compiled."""

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable) -> Any:
    """Compile with Numba: no GIL, IEEE arithmetic with fused multiply-add, kept on disk between processes.

    Where no folder can be written (a read-only installation and home), the loop is compiled anew in each process.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:
        return numba.njit(**options)(function)
