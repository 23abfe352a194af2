"""CSV files as tables: their rows go to a temporary file, the types of their columns
are those of all values, and remarks say what was done.

Types are the first of Arrow's (null, whole numbers, booleans, dates, times, floats,
text) that all values have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from bochner.engines.local import in_threads
from bochner.notices import warn
from bochner.sources.base import Batch, SourceError, TableSource
from bochner.sources.csv_text import CsvText, Types, whole_file
from bochner.sources.dialect import PLACE
from bochner.sources.imported import (
    ImportedPart,
    Piece,
    RowWriter,
    TemporaryFolder,
    importing,
)
from bochner.sources.schema import Selection, needed_of_files, unified, wider

# What pandas calls an index that has no name, and was written to a CSV and read
UNNAMED = re.compile(r"(Unnamed: 0(\.\d+)*)?")


def open_csv(paths: Sequence[Path], selection: Selection, what: str) -> TableSource:
    """CSV files as a table, whose rows are read from a temporary file.

    Parameters
    ----------
    paths : sequence of Path
    selection : Selection
    what : str
        Description of the files.

    Raises
    ------
    SourceError
        Where a file is no CSV, has other columns than the first, a row with too few or
        too many fields, or a value of another type than the schema gives; and where
        there are no rows, or the disk is full.
    """
    texts = []
    for path in paths:
        text = whole_file(path)
        with text.problems():
            text = text.surveyed()
        if selection.has_decimal_commas and not text.dialect.decimal_point:
            text = replace(text, dialect=replace(text.dialect, decimal_point=","))
        texts.append(text)
    # The columns that may be needed, of which a condition takes any
    every = [
        (text.path, pa.schema([(name, pa.null()) for name in text.dialect.names]))
        for text in texts
    ]
    needed = needed_of_files(every, replace(selection, where=None))
    if selection.where is not None:
        needed = every
    # Types that are given, and else those that files declare
    given_types = {name: pa.string() for text in texts for name in text.dialect.text}
    given_types |= {column.name: column.type for column in selection.asked}
    columns = unified(needed, pa.schema(given_types)).names
    with importing(sum(text.file.size for text in texts)) as folder:
        numbers = range(len(texts))
        files = in_threads(
            lambda k: import_text(texts[k], columns, given_types, folder, str(k)),
            numbers,
        )
        common = {
            name: reduce(widened, (one.types[name] for one in files))
            for name in files[0].types
        }

        def fitting(k: int) -> ImportedText:
            """Write a file again, unless its rows have the types of all values."""
            file = files[k]
            are_common = all(
                kind == common[name] or pa.types.is_null(kind)
                for name, kind in file.types.items()
            )
            if are_common and (file.pieces or not file.n_rows):
                return file
            return import_text(texts[k], columns, common, folder, str(k))

        files = in_threads(fitting, numbers)
        if not any(one.n_rows for one in files):
            raise SourceError(f"{paths[0]}: the table has column names but no rows")
    types = pa.schema(common)
    # What there is to say of the columns and of the files
    has_row_names = any(text.dialect.has_row_names for text in texts)
    numbered = [
        name
        for name in takewhile(UNNAMED.fullmatch, types.names)
        if pa.types.is_integer(types.field(name).type)
        and name not in given_types
        and (name or not has_row_names)
    ]
    index = selection.index([*numbered, *([""] if has_row_names else [])])
    number = columns.index("") + 1 if "" in columns else 0
    for name in selection.index(numbered):
        title = f"Column {name!r}" if name else f"Column {number}, which has no name,"
        warn(f"{title} is taken for numbers of the rows, and is left out.")
    is_quiet = "" in (*index, *(selection.columns or selection.named))
    if number and not is_quiet and not pa.types.is_null(types.field("").type):
        warn(f"Column {number} has no name; give it one.")
    # What has been done to read the files, once where the same is said of several
    remarks: dict[str, dict[str, None]] = {}
    for text in texts:
        for remark in text.dialect.remarks:
            remarks.setdefault(remark, {})[Path(text.path).name] = None
    for remark, (first, *others) in remarks.items():
        more = f" and {len(others):,} more files" if others else ""
        place = f" of {first}{more}" if len(texts) > 1 else ""
        warn(remark.replace(PLACE, place))
    # The columns that are read, and those that are kept: conditions may need others
    selection = selection.without(index).among(types.names)
    parts = [
        ImportedPart(
            piece,
            text.path,
            selection.needed(types),
            selection,
            (text.file,),
            text,
            folder=folder,
        )
        for text, one in zip(texts, files, strict=True)
        for piece in one.pieces
    ]
    schema = selection.schema(types)
    inferred = tuple(
        name
        for name in schema.names
        if name not in given_types and pa.types.is_string(types.field(name).type)
    )
    return TableSource(tuple(parts), schema, what, inferred=inferred)


def line_of(paths: Sequence[Path], row: int) -> str:
    """Where a row of the table in CSV files is, in words; it counts from 0."""
    lines = (
        f"line {line}" + (f" of {path.name}" if len(paths) > 1 else "")
        for path in paths
        for line in whole_file(path).surveyed().lines()
    )
    return next(islice(lines, row, None), f"row {row}")


class ImportedText(NamedTuple):
    """A CSV file whose rows are in a temporary file.

    Attributes
    ----------
    n_rows : int
    types : dict of str to pyarrow.DataType
        Of each column: the first of Arrow's that all values have.
    pieces : list of Piece
        Of the temporary file; none where values are written in other types.
    """

    n_rows: int
    types: dict[str, pa.DataType]
    pieces: list[Piece]


def import_text(
    text: CsvText,
    columns: Sequence[str],
    given_types: Types,
    folder: TemporaryFolder,
    name: str,
) -> ImportedText:
    """Write the rows of a file, as long as the values of each block have the types of
    those before; beyond that the types of all values are found out alone.

    Parameters
    ----------
    text : CsvText
    columns : sequence of str
    given_types : dict of str to pyarrow.DataType
        Types that columns are to have.
    folder : TemporaryFolder
    name : str
        Of the temporary file.

    Raises
    ------
    SourceError
        Where a row has too few or too many fields, or a value is not of a type that is
        given.
    """
    n_rows = 0
    types = {column: given_types.get(column, pa.null()) for column in columns}
    are_written = True
    with text.problems(), RowWriter(folder, name, text.path) as rows:
        for block in text.blocks():
            # In the types of rows before, where values have these, or else in their own
            of_rows = {
                column: kind
                for column, kind in types.items()
                if not pa.types.is_null(kind)
            }
            with text.problems(n_rows):
                try:
                    table = text.table(block, of_rows, columns)
                except pa.ArrowInvalid:
                    table = text.table(block, given_types, columns)
                # Text that is not UTF-8 is bytes to Arrow, and refused as text
                for column in table.schema:
                    is_given = column.name in given_types
                    if pa.types.is_binary(column.type) and not is_given:
                        text.table(block, {column.name: pa.string()}, columns)
            n_rows += len(table)
            former = types
            types = {
                column.name: widened(former[column.name], column.type)
                for column in table.schema
            }
            are_written = are_written and all(
                types[column] == kind or pa.types.is_null(kind)
                for column, kind in former.items()
            )
            if are_written:
                rows.write(Batch(table))
        pieces = rows.finish()
    text.file.check()
    return ImportedText(n_rows, types, pieces if are_written else [])


def widened(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type that values of two types have when they are read from text."""
    # Dates are moments at midnight
    if pa.types.is_timestamp(a) and pa.types.is_date(b):
        b = pa.timestamp("s")
    if pa.types.is_timestamp(b) and pa.types.is_date(a):
        a = pa.timestamp("s")
    return wider(a, b) or pa.string()
