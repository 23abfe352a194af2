"""Warnings that point at the line of whoever called the library."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

INSIDE = "bochner", "contextlib", "functools", "concurrent", "threading"
COMMAND = "bochner.cli"  # which calls the library as others do


_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def quiet() -> Iterator[None]:
    """Warn of nothing, as in a fit to some of the rows of one that warns of the same."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


def is_quiet() -> bool:
    """Whether a fit is one to some of the rows of another one."""
    return _quiet.get()


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the place of the first caller that is no part of the library."""
    if _quiet.get():
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_inside(module: str) -> bool:
    return module.partition(".")[0] in INSIDE and not f"{module}.".startswith(f"{COMMAND}.")


def listed(names: Iterable[str], limit: int = 8, last: str = ", ") -> str:
    """Names in quotes, the first of many."""
    shown = [repr(name) for name in names]
    if len(shown) > limit:
        return f"{', '.join(shown[:limit])} and {len(shown) - limit} more"
    return last.join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))
