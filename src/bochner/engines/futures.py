"""Any executor of `concurrent.futures` as an engine: its own processes, loky's,
MPI's, Dask's.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    wait,
)
from itertools import islice
from typing import Any

from bochner.engines.base import EngineError
from bochner.engines.local import Task, ready_tasks
from bochner.engines.remote import Call, Packed, unpacked

AHEAD = 2  # works that are given to an executor at a time, for each of its workers
PATIENCE = 600.0  # seconds without any result; a part of the rows takes seconds


class FuturesEngine:
    """The workers of an executor. Work begins when its result is asked for; results
    come here, and are added here.

    Parameters
    ----------
    executor : concurrent.futures.Executor
        Of processes, on this machine or on others; of threads, each of which does a
        work by itself.
    patience : float, default=600
        Seconds to wait while no work is done at all. Few executors notice that a
        process stands still.
    """

    is_remote = True
    keeps_results = False
    share = Packed

    def __init__(self, executor: Executor, patience: float = PATIENCE) -> None:
        self.executor = executor
        self.patience = patience
        self._watched = dict[Task, Callable[[], object]]()

    @property
    def n_workers(self) -> int:
        """Workers, as many as there are processors where the executor does not tell."""
        return int(
            getattr(self.executor, "_max_workers", None)
            or getattr(self.executor, "num_workers", None)
            or os.cpu_count()
            or 1
        )

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Task:
        """Note what is to be done."""
        return Task(work, arguments)

    def watch(self, handle: Task, done: Callable[[], object]) -> None:
        """Call ``done()`` while a result is waited for, once that of the handle is
        there.
        """
        self._watched[handle] = done

    def result(self, handle: Task | Packed) -> Any:
        """Let the workers do what waits for nothing, a few works ahead, and do here
        what waits for their results.

        Raises
        ------
        EngineError
            Where a process of the executor has died, it takes no work, or does none for
            as long as its patience.
        """
        if isinstance(handle, Packed):
            return unpacked(handle)
        waiting = iter(ready_tasks(handle))
        running = dict[Future, Task]()
        try:
            while not handle.done:
                try:
                    for task in islice(waiting, AHEAD * self.n_workers - len(running)):
                        call = Call(task.work, tuple(task.take_arguments()))
                        running[self.executor.submit(call.do)] = task
                except RuntimeError as error:
                    raise _lost(error) from error
                done = wait(running, self.patience, FIRST_COMPLETED).done
                if not done:
                    raise EngineError(
                        f"The executor has finished no work for {self.patience:g} s: "
                        "a process of it may stand "
                        "still. Make a new one and start again; if it only is slow, "
                        "give it more time: "
                        "engine=bochner.engines.futures.FuturesEngine(executor, "
                        "patience=3600)."
                    )
                for future in done:
                    self._finish(running.pop(future), future.result())
        except (BrokenExecutor, CancelledError) as error:
            raise _lost(error) from error
        finally:
            self._watched = {}
            for future in running:
                future.cancel()
        return handle.value

    def _finish(self, task: Task, value: Any) -> None:
        followers = task.finish(value)
        if done := self._watched.pop(task, None):
            done()
        for one in followers:
            self._finish(one, one.work(*map(unpacked, one.take_arguments())))


def _lost(error: BaseException) -> EngineError:
    return EngineError(
        f"The executor accepts no work, or has given it up ({error}). A process of it "
        "may have died for lack of memory: use a smaller n_components or fewer "
        "processes, make a new executor, and start again."
    )
