"""Any executor of `concurrent.futures` as an engine: its own processes, loky's,
MPI's, Dask's.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    wait,
)
from itertools import islice
from typing import Any

from bochner.engines.base import EngineError
from bochner.engines.remote import Call, Packed

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
        Seconds to wait for the first of the works that are not done. Few executors
        notice that a process stands still.
    """

    is_remote = True
    keeps_results = False
    share = Packed

    def __init__(self, executor: Executor, patience: float = PATIENCE) -> None:
        self.executor = executor
        self.patience = patience

    @property
    def n_workers(self) -> int:
        """Workers, as many as there are processors where the executor does not tell."""
        return int(
            getattr(self.executor, "_max_workers", None)
            or getattr(self.executor, "num_workers", None)
            or os.cpu_count()
            or 1
        )

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Call:
        """Note what is to be done."""
        return Call(work, arguments)

    def results(self, handles: Sequence[Call]) -> Generator[Any]:
        """Let the workers do the works, a few ahead of the one that is waited for.

        Raises
        ------
        EngineError
            Where a process of the executor has died, it takes no work, or has not done
            the next one within its patience.
        """
        waiting = iter(handles)
        running = deque[Future]()
        try:
            while True:
                try:
                    for call in islice(waiting, AHEAD * self.n_workers - len(running)):
                        running.append(self.executor.submit(call.do))
                except RuntimeError as error:
                    raise _lost(error) from error
                if not running:
                    return
                if not wait([running[0]], self.patience).done:
                    raise EngineError(
                        f"The executor has not finished a work for {self.patience:g} "
                        "s: a process of it may stand still. Make a new one and start "
                        "again; if it only is slow, give it more time: "
                        "engine=bochner.engines.futures.FuturesEngine(executor, "
                        "patience=3600)."
                    )
                yield running.popleft().result()
        except (BrokenExecutor, CancelledError) as error:
            raise _lost(error) from error
        finally:
            for future in running:
                future.cancel()


def _lost(error: BaseException) -> EngineError:
    return EngineError(
        f"The executor accepts no work, or has given it up ({error}). A process of it "
        "may have died for lack of memory: use a smaller n_components or fewer "
        "processes, make a new executor, and start again."
    )
