"""Where work runs: what every engine offers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol


class EngineError(RuntimeError):
    """Work could not be done where it was sent: workers or a scheduler that are
    lost, or of another version.
    """


class Engine(Protocol):
    """A place that work can be given to: threads, processes, a cluster.

    Work and its arguments are plain objects that can be pickled, where they have to
    travel. Work may say with an attribute `n_bytes` what memory a call takes, and with
    ``whole_worker = True`` that it uses all threads of its worker; any other has one.
    An engine that keeps results may have a method ``watch(handle, done)``, which lets
    it call ``done()`` in the thread that waits for a result, once that of the handle is
    there; an attribute `n_processes`, the workers that keep results each for itself;
    and `worker_memory`, the bytes that work may take on each worker, or None.

    Attributes
    ----------
    is_remote : bool
        Whether work runs in other processes: what it is given travels, and is never
        changed by work done elsewhere.
    keeps_results : bool
        Whether results stay where they were made until they are asked for; other work
        may take them there, by their handles.
    n_workers : int
        Works that can run at a time, about.
    """

    is_remote: bool
    keeps_results: bool

    @property
    def n_workers(self) -> int:
        """Works that can run at a time, about."""

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Give work away; a handle of its result."""

    def share(self, value: Any) -> Any:
        """A handle of a value that many calls take as an argument."""

    def results(self, handles: Sequence[Any]) -> Generator[Any]:
        """Wait for the results of works that may be done at the same time, and yield
        them in order; raises what the work has raised.
        """
