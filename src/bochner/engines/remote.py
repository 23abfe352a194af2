"""Work that other processes do: what is sent, and how long is waited for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
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


def within(seconds: float, call: Callable[[], T], what: str) -> T:
    """Return what a call returns; EngineError where that takes longer.

    Parameters
    ----------
    seconds : float
    call : callable
    what : str
        Who does not answer and what to do about it: a sentence, for the error.
    """
    future: Future[Any] = begun(call)
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():
            raise
        raise EngineError(what) from None


_AWAY: ContextVar[bool] = ContextVar("away", default=False)


def is_away() -> bool:
    """Whether this is work that another process has given away, whose connections a
    fork may have copied.
    """
    return _AWAY.get()


def _carried() -> dict[str, Any]:
    """Settings that hold for work wherever it is done; those of memory and files are
    this process's own.
    """
    return {"device": current().device}


@dataclass(frozen=True)
class Call:
    """Work and its arguments, as they travel.

    Attributes
    ----------
    work : callable
    arguments : tuple
    settings : dict
        Of who gave the work away.
    version : str
        Of bochner there.
    process : int
        Who that was.
    """

    work: Callable[..., Any]
    arguments: tuple = ()
    settings: dict[str, Any] = field(default_factory=_carried)
    version: str = __version__
    process: int = field(default_factory=os.getpid)

    def do(self, threads: int = 1) -> Any:
        """Do the work on so many threads.

        Raises
        ------
        EngineError
            Where it comes from another version.
        """
        if self.version != __version__:
            raise EngineError(
                f"A worker has bochner {__version__}, but its task comes from "
                f"version {self.version}: install the "
                "same version everywhere."
            )
        own: dict[str, Any] = {"engine": None, "memory_limit": None}
        token = _AWAY.set(os.getpid() != self.process)
        try:
            with at_most(threads), settings(**own, **self.settings):
                return self.work(*self.arguments)
        finally:
            _AWAY.reset(token)


@contextmanager
def at(where: str) -> Iterator[None]:
    """Let what is raised inside say where that was: the worker, as users know it."""
    try:
        yield
    except Exception as error:
        error.add_note(f"This happened on {where}.")
        raise


def itself(value: Any) -> Any:
    """The value: work that makes of it what a cluster keeps, and can make again."""
    return value


def name_of(work: Callable[..., Any]) -> str:
    """What to call work where users see it."""
    while isinstance(work, partial):
        work = work.func
    return getattr(work, "__name__", type(work).__name__).strip("_<>")
