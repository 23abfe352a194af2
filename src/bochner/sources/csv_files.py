"""CSV files as tables: their rows go to a temporary file, the types of their columns
are those of all values, and remarks say what was done.

Types are the first of Arrow's (null, whole numbers, booleans, dates, times, floats,
text) that all values have. Where whole columns look like numbers with commas, these are
read as decimal commas if that makes more columns numbers.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import accumulate, islice
from operator import add
from pathlib import Path
from typing import Any

import pyarrow as pa

from bochner.engines.local import in_threads
from bochner.notices import warn
from bochner.sources.base import WHY_TEXT, Batch, SourceError, TableSource
from bochner.sources.column_values import (
    Values,
    is_number,
    numbered_columns,
    unnamed_first,
    why_text,
)
from bochner.sources.csv_text import CsvText, Types, csv_options, whole_file
from bochner.sources.dialect import PLACE
from bochner.sources.imported import ImportedPart, Piece, RowWriter, TemporaryFolder
from bochner.sources.paths import FileState
from bochner.sources.schema import Selection, require, unified

HEXADECIMAL = pa.uint64()  # of whole numbers such as 0x10, which are no floats
WITH_COMMAS = (
    "looks like numbers with commas; write a decimal point, and nothing between "
    "thousands"
)


def open_csv(
    paths: Sequence[Path], selection: Selection, schema: pa.Schema | None, what: str
) -> TableSource:
    """CSV files as a table, whose rows are read from a temporary file.

    Parameters
    ----------
    paths : sequence of Path
    selection : Selection
    schema : pyarrow.Schema or None
        Types of some or all columns.
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
            texts.append(text.surveyed())
    columns, known = _wanted(texts, selection, schema)
    folder = TemporaryFolder()
    try:
        table = ImportedCsv.of(texts, columns, known, folder)
    except BaseException:
        folder.remove()
        raise
    if not table.total.n_rows:
        raise SourceError(f"{paths[0]}: the table has column names but no rows")
    # What there is to say of the columns and of the files
    index = selection.index(table.index_columns())
    for sentence in table.remarks(index, selection.columns or selection.named):
        warn(sentence)
    for sentence in _remarks(texts):
        warn(sentence)
    # The columns that are read, and those that are kept: conditions may need others
    types = pa.schema(table.total.types)
    selection = selection.without(index).among(types.names)
    parts = [
        ImportedPart(
            one.file,
            piece,
            one.text.path,
            selection.needed(types),
            selection,
            one.text.file,
            one.text,
        )
        for one in table.files
        for piece in one.pieces
    ]
    # Why columns are text is told once they are used as numbers
    kept = [
        column.with_metadata({WHY_TEXT: table.reasons[column.name]})
        if column.name in table.reasons
        else column
        for column in selection.schema(types)
    ]
    return TableSource(tuple(parts), pa.schema(kept), what, owner=folder)


def _wanted(
    texts: Sequence[CsvText], selection: Selection, schema: pa.Schema | None
) -> tuple[list[str], Types]:
    """The columns that may be needed, of which a condition takes any, and the types
    that are given for them.
    """
    everything = dict.fromkeys(name for text in texts for name in text.names)
    require(everything, selection.exclude)
    require(everything, pa.schema(schema or ()).names, "schema: ")
    wanted = []
    for text in texts:
        columns = pa.schema([(name, pa.null()) for name in text.names])
        try:
            kept = replace(selection.among(text.names), where=None).schema(columns)
        except SourceError as error:
            raise SourceError(f"{text.path}: {error}") from error
        wanted.append((text.path, kept if selection.where is None else columns))
    # Types that are given, and else those that files declare
    types = {name: pa.string() for text in texts for name in text.dialect.text}
    types |= {column.name: column.type for column in schema or ()}
    checked = unified(wanted, pa.schema(types)).names
    return checked, {name: types[name] for name in checked if name in types}


def line_of(paths: Sequence[Path], row: int) -> str:
    """Where a row of the table in CSV files is, in words; it counts from 0."""
    for path in paths:
        text = whole_file(path).surveyed()
        for line in islice(text.lines(), text.begins_with_names, None):
            if not row:
                return f"line {line}" + (f" of {path.name}" if len(paths) > 1 else "")
            row -= 1
    return f"row {row}"


@dataclass(frozen=True)
class CsvScan:
    """What was found in the rows of a file; the results of two files add.

    Attributes
    ----------
    n_rows : int
    types : dict of str to pyarrow.DataType
        Of each column: the first of Arrow's that all values have.
    values : dict of str to Values
        Of the columns whose types are not known.
    """

    n_rows: int
    types: dict[str, pa.DataType]
    values: dict[str, Values]

    def __add__(self, other: CsvScan) -> CsvScan:
        types = {
            name: widened(kind, other.types[name]) for name, kind in self.types.items()
        }
        values = {
            name: found + other.values[name] for name, found in self.values.items()
        }
        return CsvScan(self.n_rows + other.n_rows, types, values)

    def with_values_of(self, other: CsvScan) -> CsvScan:
        """With the values that another scan of the same rows has found too."""
        return replace(self, values={**other.values, **self.values})

    @property
    def numbers(self) -> set[str]:
        """Columns of numbers."""
        return {name for name, kind in self.types.items() if is_number(kind)}


@dataclass(frozen=True)
class ImportedText:
    """A CSV file whose rows are in a temporary file.

    Attributes
    ----------
    text : CsvText
    scan : CsvScan
    file : FileState
        The temporary file.
    pieces : list of Piece
    """

    text: CsvText
    scan: CsvScan
    file: FileState
    pieces: list[Piece]


@dataclass(frozen=True)
class ImportedCsv:
    """CSV files whose rows are in temporary files, and what has been found out.

    Attributes
    ----------
    files : list of ImportedText
        With the decimal point that numbers have.
    doubtful : list of str
        Columns of text that may be numbers with commas.
    """

    files: list[ImportedText]
    doubtful: list[str]

    @classmethod
    def of(
        cls,
        texts: Sequence[CsvText],
        columns: Sequence[str],
        known: Types,
        folder: TemporaryFolder,
    ) -> ImportedCsv:
        """Import files, and again with decimal commas where numbers have them.

        Parameters
        ----------
        texts : sequence of CsvText
        columns : sequence of str
            Those that are wanted.
        known : dict of str to pyarrow.DataType
            Types that columns are to have.
        folder : TemporaryFolder
        """
        files = import_texts(texts, columns, known, folder)
        # Columns that have commas in the places of decimal points
        first = cls(files, [])
        with_commas = [
            name
            for name, values in first.total.values.items()
            if values.commas.numbers and values.commas.some
        ]
        separates = any(text.separator == "," for text in texts)
        doubtful = [
            name
            for name in with_commas
            if separates or first.total.values[name].commas.thousands
        ]
        if len(doubtful) < len(with_commas):
            again = [replace(text, decimal_point=",") for text in texts]
            fixed = {**known, **dict.fromkeys(doubtful, pa.string())}
            others = import_texts(again, columns, fixed, folder, "with-commas-")
            is_better = first.total.numbers < cls(others, []).total.numbers
            if is_better:
                files = [
                    replace(other, scan=other.scan.with_values_of(one.scan))
                    for one, other in zip(files, others, strict=True)
                ]
            for one in first.files if is_better else others:
                os.remove(one.file.path)
            numbers = cls(files, []).total.numbers
            doubtful = [name for name in with_commas if name not in numbers]
        return cls(files, doubtful)._with_one_type(columns, folder)

    def _with_one_type(
        self, columns: Sequence[str], folder: TemporaryFolder
    ) -> ImportedCsv:
        """Import the files again whose columns have other types than all together."""
        types = self.total.types
        files = list(self.files)
        for k, one in enumerate(self.files):
            if any(
                not (kind == types[name] or pa.types.is_null(kind))
                for name, kind in one.scan.types.items()
            ):
                name = os.path.basename(one.file.path)
                again = import_text(one.text, columns, types, folder, name)
                files[k] = replace(again, scan=one.scan)
        return replace(self, files=files)

    @cached_property
    def total(self) -> CsvScan:
        """What was found in all files together."""
        return reduce(add, (one.scan for one in self.files))

    def index_columns(self) -> list[str]:
        """First columns without a name that number the rows of all files, or of
        each.
        """
        each = [one.scan.values for one in self.files if one.scan.n_rows]
        names = self.files[0].text.names
        return sorted(
            {
                *numbered_columns(names, self.total.values),
                *numbered_columns(names, *each),
            }
        )

    @cached_property
    def reasons(self) -> dict[str, str]:
        """Why columns are text by mistake, perhaps, and the cure."""
        few = {
            name: why
            for name, one in self._texts.items()
            if (why := why_text(one.odd, self._place))
        }
        return {
            **few,
            **{name: WITH_COMMAS for name in self.doubtful if name not in few},
        }

    @property
    def _texts(self) -> dict[str, Values]:
        """What the values of columns of text are like."""
        return {
            name: one
            for name, one in self.total.values.items()
            if pa.types.is_string(self.total.types[name])
        }

    def remarks(self, index: Collection[str], quiet: Collection[str]) -> Iterator[str]:
        """Yield what to say of the columns; of the index that it is left out, of
        some whose name is known less.

        Columns of numbers but for few are read as numbers where they are encoded, which
        says so.
        """
        types = self.total.types
        titles = {name: f"Column {name!r}" for name in types}
        if "" in types:
            number = list(types).index("") + 1
            titles[""] = f"Column {number}, which has no name,"
        for name in index:
            yield f"{titles[name]} numbers the rows, and is left out."
        if (
            "" in types
            and "" not in (*index, *quiet)
            and not pa.types.is_null(types[""])
        ):
            yield f"Column {number} has no name; give it one."
        for name, one in self._texts.items():
            if why := why_text({"dates": one.odd["dates"]}, self._place):
                yield f"{titles[name]} {why}."

    def _place(self, row: int) -> str:
        """Line of a row in words, and the file where there are several."""
        ends = list(accumulate(one.scan.n_rows for one in self.files))
        k = bisect_right(ends, row)
        text = self.files[k].text
        line = f"line {text.line_of_row(row - (ends[k - 1] if k else 0))}"
        return f"{line} of {Path(text.path).name}" if len(ends) > 1 else line


def import_texts(
    texts: Sequence[CsvText],
    columns: Sequence[str],
    known: Types,
    folder: TemporaryFolder,
    prefix: str = "",
) -> list[ImportedText]:
    """Write the rows of files, of several on all threads; see `import_text`."""

    def imported(k: int) -> ImportedText:
        return import_text(texts[k], columns, known, folder, f"{prefix}{k}")

    return in_threads(imported, range(len(texts)))


def import_text(
    text: CsvText,
    columns: Sequence[str],
    known: Types,
    folder: TemporaryFolder,
    name: str,
) -> ImportedText:
    """Write the rows of a file with the types of its first block, and once more with
    those of all its values where these do not hold.

    Parameters
    ----------
    text : CsvText
    columns : sequence of str
    known : dict of str to pyarrow.DataType
        Types that columns are to have.
    folder : TemporaryFolder
    name : str
        Of the temporary file.

    Raises
    ------
    SourceError
        Where a row has too few or too many fields, or a value is not of a type that is
        known.
    """
    with text.problems():
        try:
            with RowWriter(folder, name) as rows:
                found = _scan(text, columns, known, rows)
                file = rows.finish()
            by_text = any(map(pa.types.is_binary, found.types.values()))
        except pa.ArrowInvalid as error:
            if "conversion error" not in str(error) or len(known) == len(columns):
                raise
            by_text = True
        if by_text:
            found = _scan(text, columns, known)
            with RowWriter(folder, name) as rows:
                _scan(text, columns, found.types, rows)
                file = rows.finish()
    text.file.check(text.path)
    return ImportedText(text, found, file, rows.pieces)


def _scan(
    text: CsvText, columns: Sequence[str], known: Types, rows: RowWriter | None = None
) -> CsvScan:
    """Rows, types and values of a file: its types are those of the first block where
    the rows are written, or else those of the text in each batch.
    """
    n_rows = 0
    unnamed = unnamed_first(text.names)
    values = {name: Values() for name in columns if name not in known}
    types = {name: known.get(name, pa.null()) for name in columns}
    asked = known
    if rows is None:
        asked = {name: known.get(name, pa.string()) for name in columns}
    for batch in text.batches(columns, asked):
        n_rows += batch.num_rows
        for name in values:
            column = batch.column(name)
            values[name] += Values.of(column, text.decimal_point, name in unnamed)
            if not pa.types.is_string(types[name]):
                kind = (
                    _type_of(column, text.decimal_point)
                    if rows is None
                    else column.type
                )
                types[name] = widened(types[name], kind)
        if rows is not None:
            rows.write(Batch(pa.Table.from_batches([batch])))
    types = {
        name: pa.int64() if kind == HEXADECIMAL and name in values else kind
        for name, kind in types.items()
    }
    return CsvScan(n_rows, types, values)


def widened(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type that values of two types have when they are read from text."""
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    if is_number(a) and is_number(b) and HEXADECIMAL not in (a, b):
        return pa.float64()
    if pa.types.is_integer(a) and pa.types.is_integer(b):
        return HEXADECIMAL
    if all(pa.types.is_date(kind) or pa.types.is_timestamp(kind) for kind in (a, b)):
        times = [kind for kind in (a, b) if pa.types.is_timestamp(kind)]
        if len({kind.tz for kind in times}) == 1 and (
            len(times) == 2 or times[0].tz is None
        ):
            return max(times, key=lambda kind: ("s", "ms", "us", "ns").index(kind.unit))
    return pa.string()


def _type_of(values: Any, decimal_point: str) -> pa.DataType:
    """The type that Arrow gives to a column of texts when it reads them from a CSV."""
    import pyarrow.compute as pc
    from pyarrow import csv

    values = values.drop_null()
    if not len(values):
        return pa.null()
    text = pc.binary_join(pa.ListArray.from_arrays([0, len(values)], values), "\n")[
        0
    ].as_buffer()
    options = csv_options(
        "\x1f", decimal_point, max(text.size, 1), column_names=["text"]
    )
    try:
        table = csv.read_csv(pa.BufferReader(text), **options)
    except pa.ArrowInvalid:  # quotes and separators in the values
        return pa.string()
    kind = table.schema.field(0).type
    if (
        pa.types.is_integer(kind)
        and pc.any(pc.match_substring(values, "x", ignore_case=True)).as_py()
    ):
        return HEXADECIMAL
    return (
        kind
        if len(table) == len(values) and not pa.types.is_binary(kind)
        else pa.string()
    )


def _remarks(texts: Sequence[CsvText]) -> Iterator[str]:
    """Yield what has been done to read the files, once for files of which the same is
    said.
    """
    files: dict[str, dict[str, None]] = {}
    for text in texts:
        for remark in text.dialect.remarks:
            files.setdefault(remark, {})[Path(text.path).name] = None
    for remark, names in files.items():
        first, *others = names
        more = f" and {len(others):,} more files" if others else ""
        place = f" of {first}{more}" if len(texts) > 1 else ""
        yield remark.replace(PLACE, place)
