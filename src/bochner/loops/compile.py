"""How every loop of this package is compiled."""

import gc
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import IO, Any

from bochner.loops.clock import CLOCK
from bochner.settings import require_addresses
from bochner.whole_files import replacing

with CLOCK:
    import numba
    from numba import types
    from numba.core import event
    from numba.core.caching import FunctionCache, IndexDataCacheFile
    from numba.extending import intrinsic

Loop = Any  # a dispatcher of Numba
LOOPS: list[Loop] = []  # that have been imported
PATIENCE = 2.0  # seconds of compilation that need not be explained where nobody watches
_options: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}


class _LoopFiles(IndexDataCacheFile):
    """The code of a loop on disk: for each set of types its own index, which is written
    after the code.

    Numba keeps one index for all types, and writes it first. Where two processes
    compile a loop for different types at the same time, or one is killed in between, it
    may name the code of other types, or of an older version.
    """

    def __init__(self, folder: str, name: str, stamp: Any) -> None:
        super().__init__(folder, name, stamp)
        self.folder, self.name, self.stamp = folder, name, stamp

    def of(self, key: Any) -> "_LoopFiles":
        """The files of one set of types, processor and code."""
        return _LoopFiles(
            self.folder,
            f"{self.name}-{blake2b(repr(key).encode(), digest_size=8).hexdigest()}",
            self.stamp,
        )

    def load(self, key: Any) -> Any:
        return IndexDataCacheFile.load(self.of(key), key)

    def save(self, key: Any, data: Any) -> None:
        files = self.of(key)
        files._save_data(f"{files.name}.nbc", data)
        files._save_index({key: f"{files.name}.nbc"})

    @contextmanager
    def _open_for_write(self, path: str) -> Iterator[IO[bytes]]:
        """As Numba does, but what a killed process leaves is removed by the next
        one.
        """
        with replacing(path) as temporary, open(temporary, "xb") as file:
            yield file


class DiskCache(FunctionCache):
    """Keeps a loop on disk where it can: a full disk is no reason to stop, and the next
    process compiles it again.

    Attributes
    ----------
    failure : OSError or None
        Why the last code was not kept.
    """

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        self.failure: OSError | None = None
        self._cache_file = _LoopFiles(
            self._cache_path,
            self._impl.filename_base,
            self._impl.locator.get_source_stamp(),
        )

    def load_overload(self, *arguments: Any) -> Any:
        """The code from the disk, None where there is none that can be read; it is
        compiled then.
        """
        require_addresses("A compiled loop")
        with suppress(OSError):
            return super().load_overload(*arguments)

    def save_overload(self, *arguments: Any) -> None:
        """Keep the code."""
        try:
            super().save_overload(*arguments)
        except OSError as error:
            self.failure = error


def compiled(
    function: Callable, fastmath: frozenset[str] = frozenset({"contract"})
) -> Loop:
    """Compile with Numba: no GIL, IEEE arithmetic with fused multiply-add, kept on disk
    between processes.

    Where no folder can be written (a read-only installation and home), or the disk is
    full, the loop is compiled again in each process. References to arrays are counted
    only in loops that make arrays: to count them takes a sixth of a compilation.
    """
    options = _options | {
        "fastmath": set(fastmath),
        "_nrt": "empty" in function.__code__.co_names,
    }
    loop = numba.njit(**options)(function)
    with suppress(RuntimeError):  # no folder
        loop._cache = DiskCache(function)
    LOOPS.append(loop)
    return loop


def compiled_exactly(function: Callable) -> Loop:
    """Compile so that every operation is rounded by itself: the same numbers,
    whatever surrounds them in a loop.
    """
    return compiled(function, frozenset())


def compiled_sums(function: Callable) -> Loop:
    """Compile so that sums may be taken in any order, which lets them run in vector
    registers.
    """
    return compiled(function, frozenset({"contract", "reassoc"}))


def _use_wide_vectors(context: Any) -> Any:
    """Let the loops of the function that calls this use the whole of vector registers.

    By itself LLVM takes half of them on many processors with AVX-512, the first of
    which slowed down otherwise.
    """

    def mark(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        set.add(
            builder.function.attributes, '"prefer-vector-width"="512"'
        )  # its own add knows few names
        return context.get_dummy_value()

    return types.none(), mark


use_wide_vectors: Any = intrinsic(_use_wide_vectors)


def compiled_inside(function: Callable) -> Loop:
    """Compile as a part of the loops that call it, by their rules, and not by
    itself, which takes longer.
    """
    return numba.njit(inline="always", **_options)(function)


class _Compilations(event.Listener):
    """Stops the clock of work while a loop is compiled, and says once that this
    happens.

    It is logged at once, and printed at once on a terminal; elsewhere, as in a notebook
    or a pipe, where it takes long.

    Garbage is not collected meanwhile either: most objects of a compilation live to its
    end, and to look through them and all modules again and again takes a sixth of its
    time. Numba compiles one loop at a time, in whatever thread.
    """

    outermost, collects = None, False
    logged, printed = False, False
    began, seconds = 0.0, 0.0

    def on_start(self, event: event.Event) -> None:
        CLOCK.__enter__()
        loop = event.data["dispatcher"]
        if self.outermost is not None or not loop.py_func.__module__.startswith(
            "bochner."
        ):
            return
        self.outermost, self.began, self.collects = (
            loop,
            time.perf_counter(),
            gc.isenabled(),
        )
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
        cache_note = (
            "not cached, as no folder is writable"
            if folder is None
            else f"cached in {folder}"
        )
        text = f"Compiling inner loops (once; takes some seconds), {cache_note}."
        if not self.logged:
            self.logged = True
            logging.getLogger("bochner").info(text)
        if prints:
            self.printed = True
            print(text, file=sys.stderr)


COMPILATIONS = _Compilations()
event.register("numba:compile", COMPILATIONS)
