"""Checks of the parameters of tests."""

from __future__ import annotations

from numbers import Integral
from typing import Any


def check_number(name: str, value: Any, least: int) -> int:
    """An integer that is large enough; TypeError or ValueError which names it."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be {least} or more, got {value}.")
    return int(value)
