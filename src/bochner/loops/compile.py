"""How every loop of this package is compiled."""

import gc
import logging
import sys
import time
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
PATIENCE = 2.0  # seconds of compilation that need not be explained where nobody watches
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
    """Stops the clock of work while a loop is compiled, and says once that this happens.

    It is logged at once, and printed at once on a terminal; elsewhere, as in a notebook or a pipe, where it takes long.

    Garbage is not collected meanwhile either: most objects of a compilation live to its end, and to look through them
    and all modules again and again takes a sixth of its time. Numba compiles one loop at a time, in whatever thread.
    """

    outermost, collects = None, False
    logged, printed = False, False
    began, seconds = 0.0, 0.0

    def on_start(self, event: event.Event) -> None:
        CLOCK.__enter__()
        loop = event.data["dispatcher"]
        if self.outermost is not None or not loop.py_func.__module__.startswith("bochner."):
            return
        self.outermost, self.began, self.collects = loop, time.perf_counter(), gc.isenabled()
        gc.disable()
        self._say(loop)

    def on_end(self, event: event.Event) -> None:
        CLOCK.__exit__()
        if event.data["dispatcher"] is self.outermost:
            self.seconds += time.perf_counter() - self.began
            if self.collects:
                gc.enable()
            self._say(self.outermost)
            self.outermost = None

    def _say(self, loop: Loop) -> None:
        prints = not self.printed and (sys.stderr.isatty() or self.seconds > PATIENCE)
        if self.logged and not prints:
            return
        folder = loop.stats.cache_path
        kept = "not cached, as no folder is writable" if folder is None else f"cached in {folder}"
        text = f"Compiling inner loops (once; takes some seconds), {kept}."
        if not self.logged:
            self.logged = True
            logging.getLogger("bochner").info(text)
        if prints:
            self.printed = True
            print(text, file=sys.stderr)


COMPILATIONS = _Compilations()
event.register("numba:compile", COMPILATIONS)
