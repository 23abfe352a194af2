"""One BLAS thread inside of the library, whose own threads share the work: the same
bits whatever else runs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ContextDecorator
from ctypes import PYFUNCTYPE, c_int, c_void_p, cast
from itertools import product
from threading import Lock, RLock, local
from weakref import ref

from threadpoolctl import LibController, ThreadpoolController


class _Library:
    """How to read and to set the number of threads of a BLAS library.

    OpenBLAS is asked itself: threadpoolctl looks its functions up at every call, and
    heeds only the first thread that has set a number.
    """

    def __init__(self, library: LibController) -> None:
        self.threads = library.get_num_threads
        self.set_threads = library.set_num_threads
        self.is_of_a_thread = getattr(library, "threading_layer", "") == "openmp"
        for prefix, suffix in product(("", "scipy_"), ("", "64_", "_64")):
            names = [
                f"{prefix}openblas_{verb}_num_threads{suffix}"
                for verb in ("get", "set")
            ]
            if self.is_of_a_thread or not all(
                hasattr(library.dynlib, name) for name in names
            ):
                continue
            get, put = (
                cast(getattr(library.dynlib, name), c_void_p).value or 0
                for name in names
            )
            self.threads = PYFUNCTYPE(c_int)(get)
            self.set_threads = PYFUNCTYPE(None, c_int)(put)


class _Limits:
    """One thread for some BLAS libraries, set by the first of the users and lifted by
    the last.

    Others may set the number of threads meanwhile, as libraries do that limit BLAS for
    themselves and then give back what they had found. Whoever comes next sets it to one
    again, and the last one gives back what the others had set. An interrupt may end
    either method anywhere: a user that leaves once more undoes whatever was done.
    """

    def __init__(self, libraries: Sequence[_Library]) -> None:
        self.libraries = libraries
        self.former = [1] * len(libraries)
        self.users = list[ref]()

    def enter(self, user: ref) -> None:
        thread_counts = [library.threads() for library in self.libraries]
        for k, threads in enumerate(thread_counts):
            if threads != 1 or not self.users:
                self.former[k] = threads
        self.users.append(user)
        for library, threads in zip(self.libraries, thread_counts, strict=True):
            if threads != 1:
                library.set_threads(1)

    def leave(self, user: ref) -> None:
        if self.users == [user]:
            for library, threads in zip(self.libraries, self.former, strict=True):
                if threads != 1 and library.threads() == 1:
                    library.set_threads(threads)
        if user in self.users:
            self.users.remove(user)


class _Own(local):
    """Limits of the calling thread."""

    limits: _Limits | None = None


class _Process:
    """BLAS libraries of the process: most have one limit for all threads, those on
    OpenMP one for each.
    """

    def __init__(self) -> None:
        # A user may be let go in the midst of what its own thread does here
        self.lock = RLock()
        libraries = [
            _Library(one)
            for one in ThreadpoolController().select(user_api="blas").lib_controllers
        ]
        self.each = [library for library in libraries if library.is_of_a_thread]
        self.shared = _Limits(
            [library for library in libraries if not library.is_of_a_thread]
        )
        self.own = _Own()

    def enter(self, user: ref) -> None:
        with self.lock:
            self.shared.enter(user)
        if self.each:
            self.own.limits = self.own.limits or _Limits(self.each)
            self.own.limits.enter(user)

    def leave(self, user: ref) -> None:
        if self.own.limits is not None:
            self.own.limits.leave(user)
        with self.lock:
            self.shared.leave(user)


_lock = Lock()
_process: _Process | None = None


def _renew() -> None:
    global _process, _lock
    _process = None
    _lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def _loaded_libraries() -> _Process:
    """The libraries, looked for at the first use, when NumPy's and SciPy's are
    there.
    """
    global _process
    if _process is None:
        with _lock:
            _process = _process or _Process()
    return _process


class single_threaded_blas(ContextDecorator):
    """One BLAS thread; the former number comes back when the last of the callers that
    overlap in time has left.

    The number of threads decides in which order BLAS adds, and so the last bits of its
    results. Here it is always the same, however many threads call at once, so that a
    seed gives one model. It serves as a decorator too.

    An interrupt may come before the first line of `__exit__`, which is not called
    again: then the number comes back when the object is let go.
    """

    def __enter__(self) -> None:
        self.process = _loaded_libraries()
        self.user = ref(self, self.process.leave)
        try:
            self.process.enter(self.user)
        except BaseException:
            self.process.leave(self.user)
            raise

    def __exit__(self, *failure: object) -> None:
        try:
            self.process.leave(self.user)
        except BaseException:
            self.process.leave(self.user)
            raise
        del self.user  # lest it calls when this is let go

    def _recreate_cm(self) -> single_threaded_blas:
        """Of a function that is decorated each call has its own."""
        return single_threaded_blas()
