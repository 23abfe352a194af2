"""One BLAS thread inside of the library, whose own threads share the work: the same bits whatever else runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock, local

from threadpoolctl import LibController, ThreadpoolController


class _Limits:
    """One thread for some BLAS libraries, set by the first of the users and lifted by the last.

    Others may set the number of threads meanwhile, as libraries do that limit BLAS for themselves and then give back
    what they had found. Whoever comes next sets it to one again, and the last one gives back what the others had set.
    """

    def __init__(self, libraries: Sequence[LibController]) -> None:
        self.libraries, self.former, self.users = libraries, [1] * len(libraries), 0

    def enter(self) -> None:
        for k, library in enumerate(self.libraries):
            threads = library.num_threads
            if threads != 1 or not self.users:
                self.former[k] = threads
            if threads != 1:
                _set(library, 1)
        self.users += 1

    def leave(self) -> None:
        self.users -= 1
        if self.users:
            return
        for library, threads in zip(self.libraries, self.former, strict=True):
            if threads != 1 and library.num_threads == 1:
                _set(library, threads)


def _set(library: LibController, threads: int) -> None:
    """Set the number of threads, also where threadpoolctl would heed another thread only, the first that has set it."""
    clear = getattr(library, "clear_controlling_thread", None)
    if clear is None:
        library.set_num_threads(threads)
        return
    clear(force=True)
    library.set_num_threads(threads)
    clear(force=True)


class _Own(local):
    """Limits of the calling thread."""

    limits: _Limits | None = None


class _Process:
    """BLAS libraries of the process: most have one limit for all threads, those on OpenMP one for each."""

    def __init__(self) -> None:
        self.lock = Lock()
        libraries = ThreadpoolController().select(user_api="blas").lib_controllers
        self.each = [library for library in libraries if getattr(library, "threading_layer", "") == "openmp"]
        self.shared = _Limits([library for library in libraries if library not in self.each])
        self.own = _Own()

    def enter(self) -> None:
        with self.lock:
            self.shared.enter()
        if self.own.limits is None:
            self.own.limits = _Limits(self.each)
        self.own.limits.enter()

    def leave(self) -> None:
        assert self.own.limits is not None
        self.own.limits.leave()
        with self.lock:
            self.shared.leave()


_lock = Lock()
_process: _Process | None = None


def _renew() -> None:
    global _process, _lock
    _process, _lock = None, Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def _known() -> _Process:
    """The libraries, looked for at the first use, when NumPy's and SciPy's are there."""
    global _process
    with _lock:
        if _process is None:
            _process = _Process()
        return _process


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """One BLAS thread; the former number comes back when the last of the callers that overlap in time has left.

    The number of threads decides in which order BLAS adds, and so the last bits of its results. Here it is always the
    same, however many threads call at once, so that a seed gives one model. It serves as a decorator too.
    """
    process = _known()
    process.enter()
    try:
        yield
    finally:
        process.leave()
