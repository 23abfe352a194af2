"""Work that other processes do: what is sent, and how it is done there."""

from __future__ import annotations

import os
import pickle
import platform
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, TypeVar

from bochner import __version__
from bochner.engines.base import EngineError
from bochner.engines.local import at_most
from bochner.settings import current, settings

T = TypeVar("T")


def begun(call: Callable[[], T]) -> Future[T]:
    """Begin a call in a thread of its own, which does not keep the process from
    ending.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, name="bochner-wait", daemon=True).start()
    return future


_AWAY: ContextVar[bool] = ContextVar("away", default=False)


def is_away() -> bool:
    """Whether this is work that another process has given away, whose connections a
    fork may have copied.
    """
    return _AWAY.get()


class Packed:
    """A value that was pickled once, and travels with every work that takes it."""

    def __init__(self, value: Any) -> None:
        self.data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


@dataclass(frozen=True)
class Call:
    """Work and its arguments, as they travel.

    Attributes
    ----------
    work : callable
    arguments : tuple
        Those that are packed are not, for the work.
    device : str, Device or None
        Of the settings of who gave the work away; those of memory and files are each
        process's own.
    version : str
        Of bochner there.
    process : int
        Who that was.
    """

    work: Callable[..., Any]
    arguments: tuple = ()
    device: Any = field(default_factory=lambda: current().device)
    version: str = __version__
    process: int = field(default_factory=os.getpid)

    def do(self, threads: int = 1, where: str | None = None) -> Any:
        """Do the work on one thread, or on `threads` where it is for a whole worker.

        What it raises says where that was, as users know it.

        Raises
        ------
        EngineError
            Where it comes from another version.
        """
        token = _AWAY.set(os.getpid() != self.process)
        threads = threads if getattr(self.work, "whole_worker", False) else 1
        try:
            if self.version != __version__:
                raise EngineError(
                    f"A worker has bochner {__version__}, but its task comes from "
                    f"version {self.version}: install the same version everywhere."
                )
            with (
                at_most(threads),
                settings(engine=None, memory_limit=None, device=self.device),
            ):
                arguments = [
                    pickle.loads(one.data) if isinstance(one, Packed) else one  # noqa: S301 - made by `Packed` in this very program
                    for one in self.arguments
                ]
                return self.work(*arguments)
        except Exception as error:
            where = where or f"process {os.getpid()} on {platform.node()}"
            error.add_note(f"This happened on {where}.")
            raise
        finally:
            _AWAY.reset(token)
