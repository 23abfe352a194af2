"""Warnings that point at the line of whoever called the library."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

INSIDE = "bochner", "sklearn", "contextlib", "functools", "concurrent", "threading"
COMMAND = "bochner.cli"  # which calls the library as others do


_quiet: ContextVar[bool] = ContextVar("quiet", default=False)
_told: ContextVar[set[str] | None] = ContextVar("told", default=None)


@contextmanager
def quiet() -> Iterator[None]:
    """Warn of nothing, as in a fit to some of the rows of one that warns of the
    same.
    """
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


def is_quiet() -> bool:
    """Whether a fit is one to some of the rows of another one."""
    return _quiet.get()


@contextmanager
def once() -> Iterator[None]:
    """Warn once of each subject, as where a call reads rows block by block or
    several times.
    """
    told = _told.get()
    token = _told.set(set() if told is None else told)
    try:
        yield
    finally:
        _told.reset(token)


def warn(
    message: str, category: type[Warning] = UserWarning, subject: str | None = None
) -> None:
    """Warn with the place of the first caller that is no part of the library; see
    `once` for the subject.
    """
    if _quiet.get():
        return
    if subject is not None and (told := _told.get()) is not None:
        if subject in told:
            return
        told.add(subject)
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_inside(module: str) -> bool:
    return module.partition(".")[0] in INSIDE and not f"{module}.".startswith(
        f"{COMMAND}."
    )


def listed(names: Iterable[str], limit: int = 8, last: str = ", ") -> str:
    """Names in quotes, the first of many."""
    shown = [repr(name) for name in names]
    if len(shown) > limit:
        return f"{', '.join(shown[:limit])} and {len(shown) - limit} more"
    return last.join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))
