"""Waits for others that come to an end: with a limit, or open to an interrupt."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

from bochner.engines.base import EngineError

T = TypeVar("T")


def begun(call: Callable[[], T]) -> Future[T]:
    """Begin a call in a thread of its own, which does not keep the process from ending."""
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
