"""What batches have in common, and what is wanted of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
import scipy.sparse as sp

from bochner.data.streams.base import Batch, SourceError
from bochner.data.streams.schemas import fitted, unified
from bochner.data.streams.selection import Selection, require


class Layout(NamedTuple):
    """What all batches have in common.

    Attributes
    ----------
    schema : pyarrow.Schema or int
        Of tables as they come; the number of columns of arrays.
    sparse, with_y, with_weight : bool
    """

    schema: pa.Schema | int
    sparse: bool
    with_y: bool
    with_weight: bool

    @classmethod
    def of(cls, batch: Batch) -> Layout:
        """That of a batch."""
        X = batch.X
        schema = X.schema if isinstance(X, pa.Table) else X.shape[1]
        return cls(schema, sp.issparse(X), batch.y is not None, batch.weight is not None)

    def require(self, batch: Batch, place: str) -> None:
        """Raise SourceError where a later batch is of another kind, or has another number of columns."""
        other = Layout.of(batch)
        kinds = [_kind(one) for one in (self, other)]
        if kinds[0] != kinds[1]:
            raise SourceError(f"{place}: {kinds[1]}, but the first batch is {kinds[0]}; yield batches of one kind")
        if isinstance(self.schema, int) and self.schema != other.schema:
            raise SourceError(f"{place}: {other.schema} columns, but the first batch has {self.schema}; fix the batch")


def _kind(layout: Layout) -> str:
    table = "a table" if isinstance(layout.schema, pa.Schema) else "a sparse matrix" if layout.sparse else "an array"
    more = [what for what, there in (("y", layout.with_y), ("weights", layout.with_weight)) if there]
    return " with ".join([table, " and ".join(more)] if more else [table])


@dataclass(frozen=True)
class Columns:
    """Columns and rows that are wanted of batches that are tables.

    Attributes
    ----------
    selection : Selection
    types : pyarrow.Schema
        Of the columns that are needed, as the first batch has them.
    asked : pyarrow.Schema
        Types that columns are to have.
    """

    selection: Selection
    types: pa.Schema
    asked: pa.Schema

    @classmethod
    def of(cls, layout: Layout, selection: Selection | None, asked: pa.Schema | None) -> Columns | None:
        """Those of batches with the layout of the first; None of arrays, whose columns have no names."""
        selection = selection or Selection()
        if isinstance(layout.schema, pa.Schema):
            require(layout.schema.names, pa.schema(asked or ()).names, "schema: ")
            needed = selection.needed(layout.schema)
            asked = pa.schema([column for column in asked or () if column.name in needed.names])
            return cls(selection, unified([("the first batch", needed)], asked), asked)
        if not takes_all(selection) or asked is not None:
            raise SourceError("columns of arrays have no names; leave out columns=, exclude=, where= and schema=")
        return None

    def stamp(self) -> str:
        """Text that changes where what is wanted does."""
        types = " ".join(f"{column.name} {column.type}" for column in self.types)
        return f"{types} {self.selection.stamp()}"

    def kept(self) -> pa.Schema:
        """The schema of what is wanted."""
        return pa.schema([self.types.field(name) for name in self.selection.kept(self.types.names)])

    def of_all(self, schemas: Sequence[tuple[str, pa.Schema]]) -> pa.Schema:
        """The schema of what has been taken of all batches, of the different ones that it had."""
        names = schemas[0][1].names
        return unified(schemas, pa.schema([column for column in self.asked if column.name in names]))

    def take(self, batch: Batch, place: str) -> Batch:
        """What is wanted of a batch; wider types where those of the first are too narrow.

        Raises
        ------
        SourceError
            Where it has other columns than the first batch, or values of another kind.
        """
        table = self._fitted(batch.X, place)
        if self.selection.where is None:
            return batch._replace(X=self.selection.apply(table))
        rows = self.selection.rows(table)
        beside = [None if values is None else values[rows] for values in batch[1:]]
        return Batch(replace(self.selection, where=None).apply(table.take(pa.array(rows))), *beside)

    def _fitted(self, table: pa.Table, place: str) -> pa.Table:
        closed = self.selection.columns is None
        for k, column in enumerate(table.schema):
            name = column.name
            if name in self.types.names and table[k].null_count == len(table):
                kind = self.types.field(name).type
                table = table.set_column(k, name, pa.chunked_array([pa.nulls(len(table), kind)]))
        there = [name for name in table.column_names if name in self.types.names or self._is_new(name, closed)]
        pairs = [("the first batch", self.types), (place, table.select(there).schema)]
        return fitted(table, unified(pairs, self.asked), place)

    def _is_new(self, name: str, closed: bool) -> bool:
        return closed and name not in self.selection.exclude


def takes_all(selection: Selection) -> bool:
    """Whether no column and no row is left out."""
    return selection.columns is None and not selection.exclude and selection.where is None
