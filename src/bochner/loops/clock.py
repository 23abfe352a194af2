"""A clock that stands still while loops are compiled, which is done once."""

from __future__ import annotations

import os
import time
from threading import Lock


class WorkClock:
    """Seconds of work: those of `time.perf_counter`, without the time in which some
    thread is inside a `with` of it.

    Threads that work meanwhile are not waited for, so that their work of that time is
    not counted either.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._since, self._still = Lock(), 0, 0.0, 0.0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._since = time.perf_counter()
            self._inside += 1

    def __exit__(self, *failure: object) -> None:
        with self._lock:
            self._inside = max(self._inside - 1, 0)
            if not self._inside:
                self._still += time.perf_counter() - self._since

    def seconds(self) -> float:
        """Seconds of work since some moment."""
        with self._lock:
            return (self._since if self._inside else time.perf_counter()) - self._still

    def restart(self) -> None:
        """Forget the threads inside: a process that was forked has none of them."""
        self._lock, self._inside = Lock(), 0


CLOCK = WorkClock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=CLOCK.restart)
