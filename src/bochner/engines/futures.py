"""Any executor of `concurrent.futures` as an engine: its own processes, loky's, MPI's, Dask's."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from typing import Any

from bochner.engines.tasks import Task, ready_tasks

AHEAD = 2  # works that are given to an executor at a time, for each of its workers


@dataclass(frozen=True)
class Packed:
    """A value that was pickled once, and travels with every work that takes it."""

    data: bytes

    def value(self) -> Any:
        """The value."""
        return pickle.loads(self.data)  # noqa: S301 - made by `FuturesEngine.share` in this very program


class FuturesEngine:
    """The workers of an executor. Work begins when its result is asked for; results come here, and are added here.

    Parameters
    ----------
    executor : concurrent.futures.Executor
        Of processes, on this machine or on others.
    """

    is_remote, keeps_results = True, False

    def __init__(self, executor: Executor) -> None:
        self.executor = executor

    @property
    def n_workers(self) -> int:
        """Workers, as many as there are processors where the executor does not tell."""
        return int(getattr(self.executor, "_max_workers", None) or os.cpu_count() or 1)

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Task:
        """Note what is to be done."""
        return Task(work, arguments)

    def share(self, value: Any) -> Packed:
        """The value, pickled once."""
        return Packed(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))

    def result(self, handle: Task) -> Any:
        """Let the workers do what waits for nothing, a few works ahead, and do here what waits for their results."""
        waiting, running = ready_tasks(handle)[::-1], dict[Future, Task]()
        try:
            while waiting or running:
                while waiting and len(running) < AHEAD * self.n_workers:
                    task = waiting.pop()
                    running[self.executor.submit(_run, task.work, *task.take_arguments())] = task
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    self._finish(running.pop(future), future.result())
        finally:
            for future in running:
                future.cancel()
        return handle.value

    def _finish(self, task: Task, value: Any) -> None:
        for follower in task.finish(value):
            self._finish(follower, follower.work(*follower.take_arguments()))


def _run(work: Callable[..., Any], *arguments: Any) -> Any:
    return work(*(argument.value() if isinstance(argument, Packed) else argument for argument in arguments))
