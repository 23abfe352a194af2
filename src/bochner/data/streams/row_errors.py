"""Errors that name a row, which whoever knows the file may name by its line."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bochner.data.streams.base import SourceError


class RowError(SourceError):
    """Something is wrong in a row of a table.

    Attributes
    ----------
    before, after : str
        The message around the name of the row.
    row : int
        Number of the row, from 0.
    """

    def __init__(self, before: str, row: int, after: str = "") -> None:
        super().__init__(f"{before}row {row}{after}")
        self.before, self.row, self.after = before, row, after

    def at(self, place: str) -> str:
        """The message with another name of the row."""
        return f"{self.before}{place}{self.after}"

    def __reduce__(self) -> tuple[Any, ...]:
        return RowError, (self.before, self.row, self.after)


def infinite_value(table: pa.Table) -> RowError | None:
    """The first infinite value of a table, in the order of its columns; None where there is none."""
    import pyarrow.compute as pc

    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_floating(column.type):
            row = pc.index(pc.is_inf(column), True).as_py()
            if row >= 0:
                return RowError(f"Input X contains infinity: column {name!r}, ", row, "; drop or clip such values")
    return None
