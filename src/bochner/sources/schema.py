"""Columns and rows that are wanted of a table, what columns are like, and one schema
for tables of many files or batches.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.notices import listed
from bochner.sources.base import Batch, SourceError, TableSource
from bochner.sources.paths import reason

# What Arrow calls an index of pandas that has no name
NAMELESS = re.compile(r"__index_level_\d+__")


def is_number(kind: pa.DataType) -> bool:
    """Whether values are whole or floating-point numbers."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether values are text."""
    return str(kind) in ("string", "large_string", "string_view")


FEW = 0.1  # share of the values of a column, at most, that make text of it by mistake
SHOWN_CHARACTERS = 40  # characters of a value
NUMBER = r"^\s*[+-]?(\d+{point}?\d*|{point}\d+)([eE][+-]?\d+)?\s*$"
WITH_COMMAS = r"^\s*[+-]?[.,]?\d[\d.,]*([eE][+-]?\d+)?\s*$"


def require_distinct(names: Sequence[str]) -> None:
    """Raise SourceError where some names of columns are equal."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if not twice:
        return
    problem = f"column names repeat: {listed(twice)}"
    if "" in twice:
        numbers = [str(k) for k, name in enumerate(names, 1) if name == ""]
        problem = f"columns {', '.join(numbers[:-1])} and {numbers[-1]} have no name"
    raise SourceError(f"{problem}; give each column a name of its own")


def why_text(source: TableSource, name: str) -> str:
    """Why a column of files of text is no column of numbers, where few of its values
    are none, and the cure; else empty.

    Reads all rows where the type of the column is that of its values.
    """
    if name not in source.inferred:
        return ""
    parts: Sequence[Any] = source.parts
    comma = parts[0].text.dialect.decimal_point == ","
    number = NUMBER.replace("{point}", "," if comma else r"\.")
    n_values = 0
    n_odd = 0
    first = ""
    have_commas = True
    for part in parts:
        above = 0
        for batch in part.read():
            column = batch.X[name]
            is_odd = pc.invert(pc.match_substring_regex(column, number))
            n_values += len(column) - column.null_count
            n_odd += pc.sum(is_odd).as_py() or 0
            if n_odd and not first:
                row = pc.index(is_odd, True).as_py()
                value = column[row].as_py()
                if len(value) > SHOWN_CHARACTERS:
                    value = f"{value[:SHOWN_CHARACTERS]}..."
                several = len({other.place for other in parts}) > 1
                of_file = f" of {os.path.basename(part.place)}" if several else ""
                first = f"{value!r} in line {part.line(above + row)}{of_file}"
            odd = column.filter(is_odd)
            matches = pc.match_substring_regex(odd, WITH_COMMAS)
            have_commas = have_commas and pc.all(matches, min_count=0).as_py()
            above += len(column)
    if 0 < n_odd <= FEW * n_values:
        return (
            f"is text because of {n_odd:,} of {n_values:,} values, first {first}; "
            "write numbers there, or nothing"
        )
    if n_odd and have_commas:
        if comma:
            return f"has points between thousands, first {first}; write nothing there"
        return (
            f"has numbers with commas, first {first}; write a decimal point, and "
            "nothing between thousands"
        )
    return ""


def index_columns(schema: pa.Schema) -> list[str]:
    """Columns of a Parquet or Arrow file that were the index of a data frame of
    pandas.
    """
    said = []  # where it is not written by pandas, or by one of long ago
    with suppress(KeyError, TypeError, ValueError):
        said = list(json.loads((schema.metadata or {})[b"pandas"])["index_columns"])
    return [name for name in schema.names if name in said or NAMELESS.fullmatch(name)]


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
        Those that are no index of the rows, as they have a part of their own, such as
        targets.
    types : pyarrow.Schema, int or None
        Types that columns are to have, whatever they have in the table; it may leave
        columns out. Of LIBSVM files the number of columns.
    has_decimal_commas : bool
        Whether commas are decimal in CSV files that do not tell.
    first_index : int or None
        Index of the first column of LIBSVM files; None where these tell it.
    others_may_differ : bool
        Whether columns that are not named may be in some files only, and are left out
        then.
    """

    columns: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    where: pc.Expression | None = field(
        default=None, compare=False
    )  # whose == is no comparison
    named: tuple[str, ...] = ()
    types: pa.Schema | int | None = None
    has_decimal_commas: bool = False
    first_index: int | None = None
    others_may_differ: bool = False

    @property
    def asked(self) -> pa.Schema:
        """The types that columns are to have."""
        return pa.schema([] if isinstance(self.types, int) else self.types or [])

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The columns that are kept of a table with this schema.

        Raises
        ------
        SourceError
            Where names repeat, a column is asked for that the table does not have, or
            none is left.
        """
        require_distinct(schema.names)
        require(schema.names, [*(self.columns or ()), *self.exclude])
        if not self.kept_names(schema.names):
            raise SourceError("no column is left; keep at least one")
        if (where := self.where) is not None:
            if not isinstance(where, pc.Expression):
                raise SourceError(
                    "where must be an expression such as pyarrow.compute.field('x') > "
                    f"0, got {where!r}"
                )
            if "FieldPath(" in str(where):
                raise SourceError(
                    f"where: {where} refers to columns by their numbers; use their "
                    "names"
                )
            try:
                _filtered(schema.empty_table(), where)
            except pa.ArrowException as error:
                raise SourceError(f"where: {reason(error)}") from error
        return self.kept(schema)

    def kept(self, schema: pa.Schema) -> pa.Schema:
        """The columns that are kept, which are not checked."""
        names = self.kept_names(schema.names)
        return pa.schema([schema.field(name) for name in names])

    def kept_names(self, names: Iterable[str]) -> list[str]:
        """Those of some columns that are kept, which are not checked."""
        return [
            name
            for name in dict.fromkeys(self.columns or names)
            if name not in self.exclude
        ]

    def needed(self, schema: pa.Schema) -> pa.Schema:
        """The columns that must be read of a table with this schema: those that are
        kept, then others that `where` may use.
        """
        columns = list(self.schema(schema))
        if self.where is not None:
            names = self.kept_names(schema.names)
            columns += [
                column
                for column in schema
                if column.name not in names and column.name in str(self.where)
            ]
        return pa.schema(columns)

    def take(self, batch: Batch) -> Batch:
        """The wanted rows and columns of tables that have the needed ones; in their
        order of rows.
        """
        if self.where is not None:
            batch = batch.take(self.rows(batch.X))
        names = self.kept_names(batch.X.column_names)
        return batch._replace(X=batch.X.select(names))

    def rows(self, table: pa.Table) -> NDArray[np.int64]:
        """Numbers of the wanted rows of a table that has the needed columns."""
        every = np.arange(len(table))
        if self.where is None:
            return every
        name = "".join(table.column_names) + "_"
        return _filtered(table.append_column(name, pa.array(every)), self.where)[
            name
        ].to_numpy()

    def index(self, names: Iterable[str]) -> list[str]:
        """Those of some columns that are left out where they are the index of a data
        frame.
        """
        if self.columns is not None:
            return []
        return [name for name in names if name not in (*self.exclude, *self.named)]

    def without(self, names: Iterable[str]) -> Selection:
        """The selection that leaves out the columns `names` too."""
        return replace(self, exclude=(*self.exclude, *names))

    def among(self, names: Iterable[str]) -> Selection:
        """The selection for a table with the columns `names`, where those to leave out
        may be in other tables only.
        """
        there = set(names)
        exclude = tuple(name for name in self.exclude if name in there)
        return replace(self, exclude=exclude)


EVERYTHING = Selection()


def require(names: Iterable[str], wanted: Iterable[str], place: str = "") -> None:
    """Refuse a name that is not among those of a table, with those that come near
    it.
    """
    names = list(names)
    for name in wanted:
        if name not in names:
            near = get_close_matches(str(name), names, 3)
            cure = (
                f"did you mean {listed(near, last=' or ')}?"
                if near
                else f"there are {listed(names)}"
            )
            raise SourceError(f"{place}no column {name!r}; {cure}")


def needed_of_files(
    files: Sequence[tuple[str, pa.Schema]], selection: Selection
) -> list[tuple[str, pa.Schema]]:
    """The columns that must be read of each of some files.

    Parameters
    ----------
    files : pairs of a path and a schema
    selection : Selection
        May leave out columns that are in other files only.

    Raises
    ------
    SourceError
        Where columns are asked for that are not there; names the file.
    """
    names = dict.fromkeys(name for _, schema in files for name in schema.names)
    require(names, selection.exclude)
    require(names, selection.asked.names, "schema: ")
    needed = []
    for path, schema in files:
        try:
            needed.append((path, selection.among(schema.names).needed(schema)))
        except SourceError as error:
            raise SourceError(f"{path}: {error}") from error
    if selection.others_may_differ:
        common = set(names).intersection(*(schema.names for _, schema in needed))
        wanted = {*common, *selection.named}
        return [
            (path, pa.schema([column for column in schema if column.name in wanted]))
            for path, schema in needed
        ]
    return needed


def narrowed(schema: pa.Schema, selection: Selection) -> tuple[list[str], Selection]:
    """The columns that must be read of a table, and the selection of these;
    SourceError where columns are asked for that are not there.
    """
    require(schema.names, selection.asked.names, "schema: ")
    names = selection.needed(schema).names
    types = pa.schema([column for column in selection.asked if column.name in names])
    return names, replace(selection.among(names), types=types)


def _filtered(table: pa.Table, where: pc.Expression) -> pa.Table:
    """Rows for which the condition is true, in their order: in this thread, as
    `Table.filter` is not.
    """
    from pyarrow.acero import Declaration, FilterNodeOptions, TableSourceNodeOptions

    steps = [
        Declaration("table_source", TableSourceNodeOptions(table)),
        Declaration("filter", FilterNodeOptions(where)),
    ]
    return Declaration.from_sequence(steps).to_table(use_threads=False)


def unified(
    schemas: Iterable[tuple[str, pa.Schema]], asked: pa.Schema | None = None
) -> pa.Schema:
    """One schema for tables that have the same columns, in any order.

    Types that differ become the one that holds both: of whole numbers and of floats the
    wider, floats of both, text of text and categories, anything of nothing but nulls.

    Parameters
    ----------
    schemas : pairs of a name for messages and a schema
        The order of columns is that of the first.
    asked : pyarrow.Schema, optional
        Types that columns are to have whatever they have in the files; it may leave
        columns out, and have others.

    Raises
    ------
    SourceError
        Where a column is missing, is there in some tables only, or changes its type;
        names the file and the column.
    """
    pairs = iter(schemas)
    first, schema = next(pairs)
    given = {column.name: column for column in asked or ()}
    types = {column.name: standard_layout(column.type) for column in schema}
    for name, other in pairs:
        there = set(other.names)
        if missing := [column for column in types if column not in there]:
            raise SourceError(
                f"{name}: there is no column {listed(missing)}, which {first} has; add "
                "it, or exclude it"
            )
        if more := [column for column in other.names if column not in types]:
            raise SourceError(
                f"{name}: column {listed(more)} is not in {first}; exclude it"
            )
        for column, a in types.items():
            b = standard_layout(other.field(column).type)
            is_typed = pa.null() not in (a, b)
            if is_typed and pa.types.is_dictionary(a) != pa.types.is_dictionary(b):
                a = value_type(a)
                b = value_type(b)
            both = wider(a, b)
            if both is None and column not in given:
                raise SourceError(
                    f"{name}: column {column!r} is {b}, but {a} in {first}; give its "
                    "type in schema=, or exclude it"
                )
            types[column] = both or a
    columns = [pa.field(column, kind) for column, kind in types.items()]
    return pa.schema([given.get(column.name, column) for column in columns])


def fitted(table: pa.Table, schema: pa.Schema, place: str = "") -> pa.Table:
    """The table with the columns and types of a schema; columns of no type stay as they
    come.

    Raises
    ------
    SourceError
        Where a value does not fit the type; names the place, if one is given, and the
        column.
    """
    table = table.select(schema.names)
    if table.schema.types == schema.types:
        return table
    columns = []
    for column, values in zip(schema, table.columns, strict=True):
        kind = values.type if pa.types.is_null(column.type) else column.type
        try:
            if not pa.types.is_dictionary(kind):
                values = values.cast(value_type(values.type))
            values = values.cast(kind)
        except pa.ArrowException as error:
            raise SourceError(
                f"{place}{': ' if place else ''}column {column.name!r} does not fit "
                f"its type {column.type} ({reason(error)}); it holds {values.type} "
                "values: give all rows one type, or another one in schema="
            ) from error
        columns.append(values)
    return pa.table(columns, names=schema.names)


def bare(schema: pa.Schema) -> pa.Schema:
    """The names and types alone."""
    return pa.schema([(column.name, column.type) for column in schema])


def standard_layout(kind: pa.DataType) -> pa.DataType:
    """The type of the same values in the usual layout."""
    return pa.string() if str(kind) == "string_view" else kind


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values of categories; others as they are."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def roomy(schema: pa.Schema) -> pa.Schema:
    """The schema with room for more categories."""
    columns = []
    for column in schema:
        kind = column.type
        if pa.types.is_dictionary(kind):
            kind = pa.dictionary(pa.int32(), kind.value_type, kind.ordered)
        columns.append(column.with_type(kind))
    return pa.schema(columns)


def decoded(schema: pa.Schema) -> pa.Schema:
    """The schema of a table with the values of its categories."""
    return pa.schema([column.with_type(value_type(column.type)) for column in schema])


def wider(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type that holds the values of two; None where there is none."""
    if a == b:
        return a
    are_bytes = {
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) for kind in (a, b)
    }
    if pa.null() not in (a, b) and len(are_bytes) > 1:
        return None
    both = [pa.schema([("", kind)]) for kind in (a, b)]
    try:
        return pa.unify_schemas(both, promote_options="permissive").types[0]
    except pa.ArrowException:
        return None


def form_of(batch: Batch) -> str:
    """What a batch is, in words."""
    form = "a sparse matrix" if sp.issparse(batch.X) else "an array"
    if isinstance(batch.X, pa.Table):
        form = "a table"
    more = ["y"] * (batch.y is not None) + ["weights"] * (batch.weight is not None)
    return f"{form} with {' and '.join(more)}" if more else form


@dataclass(frozen=True)
class Columns:
    """Columns and rows that are wanted of batches: of arrays all, as their columns have
    no names.

    Attributes
    ----------
    selection : Selection
    form : str
        What all batches are, as of `form_of`.
    schema : pyarrow.Schema or int
        Of the columns that are needed, as the first batch has them; the number of
        columns of arrays.
    """

    selection: Selection
    form: str
    schema: pa.Schema | int

    @classmethod
    def of(cls, first: Batch, selection: Selection) -> Columns:
        """Those of batches such as the first, which need not have rows; SourceError
        where some are wanted of arrays.
        """
        form = form_of(first)
        if isinstance(first.X, pa.Table):
            schema = first.X.schema
            require(schema.names, selection.asked.names, "schema: ")
            wanted = "the first batch", selection.needed(schema)
            return cls(selection, form, unified([wanted], selection.asked))
        if not takes_all(selection) or selection.types is not None:
            raise SourceError(
                "columns of arrays have no names; leave out columns=, exclude=, "
                "where= and schema="
            )
        return cls(selection, form, first.X.shape[1])

    def kept(self) -> pa.Schema | int:
        """The schema of what is wanted; the number of columns of arrays."""
        schema = self.schema
        return schema if isinstance(schema, int) else self.selection.kept(schema)

    def take(self, batch: Batch, place: str) -> Batch:
        """What is wanted of a batch; wider types where those of the first are too
        narrow.

        Raises
        ------
        SourceError
            Where it is of another form than the first batch, has other columns, or
            values of another kind.
        """
        form = form_of(batch)
        if form != self.form:
            raise SourceError(
                f"{place}: {form}, where {self.form} is expected; give all rows in one "
                "form"
            )
        types = self.schema
        if isinstance(types, int):
            n_columns = batch.X.shape[1]
            if n_columns != types:
                raise SourceError(
                    f"{place}: {n_columns} columns, where {types} are expected; give "
                    "all rows the same columns"
                )
            return batch
        # The columns that are needed, in types that hold the values of both batches
        table = batch.X
        there = []
        for k, name in enumerate(table.column_names):
            if name in types.names and table[k].null_count == len(table):
                nulls = pa.nulls(len(table), types.field(name).type)
                table = table.set_column(k, name, pa.chunked_array([nulls]))
            # Which is refused
            is_new = (
                self.selection.columns is None and name not in self.selection.exclude
            )
            there += [name] * (name in types.names or is_new)
        pairs = [("the first batch", types), (place, table.select(there).schema)]
        table = fitted(table, unified(pairs, self.selection.asked), place)
        return self.selection.take(batch._replace(X=table))


def takes_all(selection: Selection) -> bool:
    """Whether no column and no row is left out."""
    return (
        selection.columns is None and not selection.exclude and selection.where is None
    )
