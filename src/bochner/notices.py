"""Warnings that point at the line of whoever called the library."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

INSIDE = "bochner", "contextlib", "functools", "concurrent", "threading"
COMMAND = "bochner.cli"  # which calls the library as others do
NAMED = 5  # columns in a warning


_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def quiet() -> Iterator[None]:
    """Warn of nothing, as in a fit to some of the rows of one that warns of the same."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


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


def first_names(names: Sequence[str]) -> str:
    """Names in quotes, the first of many."""
    return ", ".join(map(repr, names[:NAMED])) + (", ..." if len(names) > NAMED else "")
