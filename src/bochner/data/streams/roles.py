"""Which columns of a table are targets and weights, and which are left to learn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bochner.data.streams.base import Batch


@dataclass(frozen=True)
class Roles:
    """Columns with a part of their own.

    Attributes
    ----------
    target : tuple of str, or None
        Columns to predict; None where targets come apart from the table, or are not wanted.
    weight : str or None
        Column of weights.
    one_target : bool
        Whether y is of shape (b,), not (b, K).
    without : {"refuse", "drop"}
        What becomes of rows whose target is missing.
    """

    target: tuple[str, ...] | None = None
    weight: str | None = None
    one_target: bool = True
    without: str = "refuse"

    def split(self, batch: Batch) -> Batch:
        """Take targets and weights out of the table of a batch: y as an array, weight as a float64 array or None."""
        raise NotImplementedError


def inputs(schema: Any, roles: Roles) -> Any:
    """The schema without targets and weights."""
    raise NotImplementedError
