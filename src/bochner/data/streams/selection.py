"""Which columns and rows of a table are wanted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bochner.data.csv_text import listed, names_problem
from bochner.data.streams.base import SourceError


@dataclass(frozen=True)
class Selection:
    """Columns and rows that are wanted of a table.

    Attributes
    ----------
    columns : tuple of str, or None
        Those to keep, in this order; None for all.
    exclude : tuple of str
        Those to leave out.
    where : pyarrow.compute.Expression or None
        Keeps the rows for which it is true; may use columns that are not kept.
    named : tuple of str
        Those that are no index of the rows, as they have a part of their own, such as targets.
    """

    columns: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    where: pc.Expression | None = field(default=None, compare=False)  # whose == is no comparison
    named: tuple[str, ...] = ()

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The columns that are kept of a table with this schema.

        Raises
        ------
        SourceError
            Where names repeat, a column is asked for that the table does not have, or none is left.
        """
        if problem := names_problem(schema.names):
            raise SourceError(problem)
        require(schema.names, [*(self.columns or ()), *self.exclude])
        kept = self.kept(schema.names)
        if not kept:
            raise SourceError("no column is left; keep at least one")
        if self.where is not None:
            _check_condition(self.where, schema)
        return pa.schema([schema.field(name).remove_metadata() for name in kept])

    def kept(self, names: Iterable[str]) -> list[str]:
        """Those of some columns that are kept, which are not checked."""
        return [name for name in dict.fromkeys(self.columns or names) if name not in self.exclude]

    def needed(self, schema: pa.Schema) -> pa.Schema:
        """The columns that must be read of a table with this schema: those that are kept, then others of `where`."""
        kept = self.schema(schema)
        if self.where is None:
            return kept
        others = [column.remove_metadata() for column in schema if column.name not in kept.names]
        return pa.schema([*kept, *(column for column in others if _uses(self.where, column.name, schema))])

    def apply(self, table: pa.Table) -> pa.Table:
        """The wanted rows and columns of a table that has the needed ones; in its order of rows."""
        if self.where is not None:
            table = _filtered(table, self.where)
        return table.select(self.kept(table.column_names))

    def rows(self, table: pa.Table) -> NDArray[np.int64]:
        """Numbers of the wanted rows of a table that has the needed columns."""
        every = np.arange(len(table))
        if self.where is None:
            return every
        name = "".join(table.column_names) + "_"
        return _filtered(table.append_column(name, pa.array(every)), self.where)[name].to_numpy()

    def index(self, names: Iterable[str]) -> list[str]:
        """Those of some columns that are left out where they are the index of a data frame."""
        return [] if self.columns is not None else [name for name in names if name not in (*self.exclude, *self.named)]

    def without(self, names: Iterable[str]) -> Selection:
        """The same that leaves out more columns."""
        return replace(self, exclude=(*self.exclude, *names))

    def stamp(self) -> str:
        """Text that changes where the selection does."""
        where = b"" if self.where is None else bytes(self.where.__reduce__()[1][0])  # its text leaves out long lists
        return f"{self.columns} {self.exclude} {blake2b(where, digest_size=8).hexdigest()}"


def require(names: Iterable[str], wanted: Iterable[str], place: str = "") -> None:
    """Refuse a name that is not among those of a table, with those that come near it."""
    names = list(names)
    for name in wanted:
        if name not in names:
            near = get_close_matches(str(name), names, 3)
            cure = f"did you mean {listed(near, last=' or ')}?" if near else f"there are {listed(names)}"
            raise SourceError(f"{place}no column {name!r}; {cure}")


def _check_condition(where: pc.Expression, schema: pa.Schema) -> None:
    if not isinstance(where, pc.Expression):
        raise SourceError(f"where must be an expression such as pyarrow.compute.field('x') > 0, got {where!r}")
    if "FieldPath(" in str(where):
        raise SourceError(f"where: {where} refers to columns by their numbers; use their names")
    try:
        _filtered(schema.empty_table(), where)
    except pa.ArrowException as error:
        raise SourceError(f"where: {str(error).partition(chr(10))[0]}") from error


def _uses(where: pc.Expression, name: str, schema: pa.Schema) -> bool:
    """Whether a condition cannot do without a column."""
    if name not in str(where):
        return False
    try:
        _filtered(schema.remove(schema.get_field_index(name)).empty_table(), where)
    except pa.ArrowException:
        return True
    return False


def _filtered(table: pa.Table, where: pc.Expression) -> pa.Table:
    """Rows for which the condition is true, in their order: in this thread, as `Table.filter` is not."""
    from pyarrow.acero import Declaration, FilterNodeOptions, TableSourceNodeOptions

    steps = [
        Declaration("table_source", TableSourceNodeOptions(table)),
        Declaration("filter", FilterNodeOptions(where)),
    ]
    return Declaration.from_sequence(steps).to_table(use_threads=False)
