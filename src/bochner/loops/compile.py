"""How every loop of this package is compiled."""

import gc
import sys
from collections.abc import Callable
from typing import Any

from bochner.loops.clock import CLOCK

with CLOCK:
    import numba
    from numba import types
    from numba.core import event
    from numba.extending import intrinsic

Loop = Any  # a dispatcher of Numba
LOOPS: list[Loop] = []  # that have been imported
_options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def compiled(function: Callable, fastmath: frozenset[str] = frozenset({"contract"})) -> Loop:
    """Compile with Numba: no GIL, IEEE arithmetic with fused multiply-add, kept on disk between processes.

    Where no folder can be written (a read-only installation and home), the loop is compiled again in each process.
    References to arrays are counted only in loops that make arrays: to count them takes a sixth of a compilation.
    """
    options = _options | {"fastmath": set(fastmath), "_nrt": "empty" in function.__code__.co_names}
    try:
        loop = numba.njit(cache=True, **options)(function)
    except RuntimeError:
        loop = numba.njit(**options)(function)
    LOOPS.append(loop)
    return loop


def compiled_exactly(function: Callable) -> Loop:
    """Compile so that every operation is rounded by itself: the same numbers, whatever surrounds them in a loop."""
    return compiled(function, frozenset())


def compiled_sums(function: Callable) -> Loop:
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


def compiled_inside(function: Callable) -> Loop:
    """Compile as a part of the loops that call it, by their rules, and not by itself, which takes longer."""
    return numba.njit(inline="always", **_options)(function)


class _Compilations(event.Listener):
    """Stops the clock of work while a loop is compiled, and says on a terminal that this happens, once.

    Garbage is not collected meanwhile either: most objects of a compilation live to its end, and to look through them
    and all modules again and again takes a sixth of its time. Numba compiles one loop at a time, in whatever thread.
    """

    said, collecting_after = False, None

    def on_start(self, event: event.Event) -> None:
        CLOCK.__enter__()
        loop = event.data["dispatcher"]
        if not loop.py_func.__module__.startswith("bochner."):
            return
        if gc.isenabled():
            gc.disable()
            self.collecting_after = loop
        if not self.said:
            self.said = True
            _say(loop)

    def on_end(self, event: event.Event) -> None:
        CLOCK.__exit__()
        if event.data["dispatcher"] is self.collecting_after:
            self.collecting_after = None
            gc.enable()


def _say(loop: Loop) -> None:
    """Print a line on standard error; silent where that is no terminal."""
    folder = loop.stats.cache_path
    if sys.stderr.isatty():
        kept = "not cached, as no folder is writable" if folder is None else f"cached in {folder}"
        print(f"Compiling inner loops (once; takes some seconds), {kept}.", file=sys.stderr)


event.register("numba:compile", _Compilations())
