"""CSV files, read in parts or whole: their rows, the types of their columns by a scan
of all values, and what to say.

Types are the first of Arrow's (null, whole numbers, booleans, dates, times, floats,
text) that all values have. Where whole columns look like numbers with commas, these are
read as decimal commas if that makes more columns numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import accumulate, islice, pairwise
from operator import add
from pathlib import Path
from typing import Any

import pyarrow as pa

from bochner.engines.local import in_threads
from bochner.notices import warn
from bochner.sources.base import READ_BYTES, WHY_TEXT, SourceError, TableSource
from bochner.sources.column_values import (
    Values,
    is_number,
    numbered_columns,
    unnamed_first,
    why_text,
)
from bochner.sources.csv_part import CsvPart, Types, csv_options, whole_file
from bochner.sources.dialect import PLACE
from bochner.sources.schema import Selection, require, unified
from bochner.sources.text_files import line_starts

SPAN_BYTES = 1 << 25  # of the parts of a large file
WITH_COMMAS = (
    "looks like numbers with commas; write a decimal point, and nothing between "
    "thousands"
)


def csv_parts(
    paths: Sequence[Path], selection: Selection, schema: pa.Schema | None = None
) -> tuple[tuple[CsvPart, ...], pa.Schema]:
    """Parts of CSV files, and the schema of the columns that are wanted.

    Parameters
    ----------
    paths : sequence of Path
    selection : Selection
    schema : pyarrow.Schema, optional
        Types of some or all columns; where it has all, there is no scan of the rows,
        which are not counted then.

    Raises
    ------
    SourceError
        Where a file is no CSV, has other columns than the first, a row with too few or
        too many fields, or a value of another type than the schema gives.
    """
    parts = [part for path in paths for part in _cut(path)]
    everything = dict.fromkeys(name for part in parts for name in part.names)
    require(everything, selection.exclude)
    require(everything, pa.schema(schema or ()).names, "schema: ")
    schema = _with_declared(schema, parts)
    # The columns that may be needed, of which a condition takes any
    wanted = []
    for part in parts:
        columns = pa.schema([(name, pa.null()) for name in part.names])
        try:
            kept = replace(selection.among(part.names), where=None).schema(columns)
        except SourceError as error:
            raise SourceError(f"{part.file.path}: {error}") from error
        wanted.append((part.file.path, kept if selection.where is None else columns))
    checked = unified(wanted, schema)
    known = {
        column.name: column.type
        for column in schema or ()
        if column.name in checked.names
    }
    reasons: Mapping[str, str] = {}
    if len(known) < len(checked):
        found = ScannedCsv.of(parts, checked.names, known)
        if not found.total.n_rows:
            raise SourceError(f"{paths[0]}: the table has column names but no rows")
        reasons = found.reasons
        index = selection.index(found.index_columns())
        for sentence in found.remarks(index, selection.columns or selection.named):
            warn(sentence)
        parts = found.parts
        selection = selection.without(index)
        checked = pa.schema([(name, found.total.types[name]) for name in checked.names])
    for sentence in _remarks(parts):
        warn(sentence)
    left = selection.among(checked.names)
    needed = left.needed(checked)
    parts = [replace(part, selection=selection, schema=needed) for part in parts]
    # Why columns are text is told once they are used as numbers
    explained = [
        column.with_metadata({WHY_TEXT: reasons[column.name]})
        if column.name in reasons
        else column
        for column in left.schema(checked)
    ]
    return tuple(parts), pa.schema(explained)


def counted(source: TableSource) -> TableSource:
    """The source with its number of rows, for which CSV files without a scan are
    read once, a batch at a time.
    """
    if source.n_rows is not None:
        return source
    parts: Any = source.parts
    counts = in_threads(
        lambda part: sum(batch.X.num_rows for batch in part.read()), parts
    )
    return replace(
        source,
        parts=tuple(
            replace(part, counted=n) for part, n in zip(parts, counts, strict=True)
        ),
    )


def line_of(paths: Sequence[Path], row: int) -> str:
    """Where a row of the table in CSV files is, in words; it counts from 0."""
    for path in paths:
        whole, _ = whole_file(path).surveyed()
        for line in islice(whole.lines(), whole.begins_with_names, None):
            if not row:
                return f"line {line}" + (f" of {path.name}" if len(paths) > 1 else "")
            row -= 1
    return f"row {row}"


@dataclass(frozen=True)
class CsvScan:
    """What a scan of the rows of a part found; the results of two parts add.

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

    @property
    def numbers(self) -> set[str]:
        """Columns of numbers."""
        return {name for name, kind in self.types.items() if is_number(kind)}


@dataclass(frozen=True)
class ScannedCsv:
    """What a scan of all parts of CSV files found.

    Attributes
    ----------
    parts : list of CsvPart
        With the decimal point that numbers have, and the numbers of their rows.
    scans : list of CsvScan
        Of each part.
    doubtful : list of str
        Columns of text that may be numbers with commas.
    """

    parts: list[CsvPart]
    scans: list[CsvScan]
    doubtful: list[str]

    @classmethod
    def of(
        cls, parts: Sequence[CsvPart], columns: Sequence[str], known: Types
    ) -> ScannedCsv:
        """Scan parts, and again with decimal commas where numbers have them.

        Parameters
        ----------
        parts : sequence of CsvPart
        columns : sequence of str
            Those that are wanted.
        known : dict of str to pyarrow.DataType
            Types that columns are to have.
        """
        scans = in_threads(lambda part: scan_part(part, columns, known), parts)
        total = reduce(add, scans)
        separator = (
            "," if any(part.separator == "," for part in parts) else parts[0].separator
        )
        found = [
            name
            for name, one in total.values.items()
            if one.commas.numbers and one.commas.some
        ]
        doubtful = [
            name
            for name in found
            if separator == "," or total.values[name].commas.thousands
        ]
        if len(doubtful) < len(found):
            again = [replace(part, decimal_point=",") for part in parts]
            fixed = {**known, **dict.fromkeys(doubtful, pa.string())}
            scans_again = in_threads(
                lambda part: scan_part(part, columns, fixed), again
            )
            if total.numbers < reduce(add, scans_again).numbers:
                values = [
                    {**one.values, **new.values}
                    for one, new in zip(scans, scans_again, strict=True)
                ]
                scans = [
                    replace(new, values=own)
                    for new, own in zip(scans_again, values, strict=True)
                ]
                parts = again
            doubtful = [
                name for name in found if name not in reduce(add, scans).numbers
            ]
        return cls(
            [
                replace(part, counted=one.n_rows)
                for part, one in zip(parts, scans, strict=True)
            ],
            scans,
            doubtful,
        )

    @cached_property
    def total(self) -> CsvScan:
        """Of all parts together."""
        return reduce(add, self.scans)

    def index_columns(self) -> list[str]:
        """First columns without a name that number the rows of all files, or of
        each.
        """
        files: dict[str, CsvScan] = {}
        for part, one in zip(self.parts, self.scans, strict=True):
            files[part.file.path] = (
                files[part.file.path] + one if part.file.path in files else one
            )
        each = [one.values for one in files.values() if one.n_rows]
        names = self.parts[0].names
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
        ends = list(accumulate(one.n_rows for one in self.scans))
        k = bisect_right(ends, row)
        part = self.parts[k]
        line = f"line {part.line_of_row(row - (ends[k - 1] if k else 0))}"
        return (
            f"{line} of {Path(part.file.path).name}"
            if _are_several(self.parts)
            else line
        )


def scan_part(part: CsvPart, columns: Sequence[str], known: Types) -> CsvScan:
    """Scan a part batch by batch, and again by the text of its values where the types
    of the first block do not hold.

    Parameters
    ----------
    part : CsvPart
    columns : sequence of str
    known : dict of str to pyarrow.DataType
        Types that columns are to have.

    Raises
    ------
    SourceError
        Where a row has too few or too many fields, or a value is not of a type that is
        known.
    """
    with part.problems():
        try:
            found = _scan(part, columns, known, by_text=False)
            if not any(pa.types.is_binary(found.types[name]) for name in found.values):
                return found
        except pa.ArrowInvalid as error:
            if "conversion error" not in str(error):
                raise
        return _scan(part, columns, known, by_text=True)


def _scan(
    part: CsvPart, columns: Sequence[str], known: Types, by_text: bool
) -> CsvScan:
    """Rows, types and values of a part, whose types are those of its first block, or
    of the text in each batch.
    """
    rows = 0
    unnamed = unnamed_first(part.names)
    values = {name: Values() for name in columns if name not in known}
    types = {name: known.get(name, pa.null()) for name in columns}
    asked = (
        {name: known.get(name, pa.string()) for name in columns} if by_text else known
    )
    for batch in part.batches(columns, asked, READ_BYTES):
        rows += batch.num_rows
        for name in values:
            column = batch.column(name)
            values[name] += Values.of(column, part.decimal_point, name in unnamed)
            if not pa.types.is_string(types[name]):
                types[name] = widened(
                    types[name],
                    _type_of(column, part.decimal_point) if by_text else column.type,
                )
    return CsvScan(rows, types, values)


def widened(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type that values of two types have when they are read from text."""
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    if is_number(a) and is_number(b):
        return pa.float64()
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
    return (
        kind
        if len(table) == len(values) and not pa.types.is_binary(kind)
        else pa.string()
    )


def _cut(path: Path) -> list[CsvPart]:
    """Parts of a file: one, or several of a large file that is neither compressed nor
    has quotes.

    Between quotes a line may end without the row.
    """
    whole = whole_file(path)
    with whole.problems():
        whole, has_quotes = whole.surveyed()
    file = whole.file
    dialect = whole.dialect
    if (
        whole.compression
        or file.size < 2 * SPAN_BYTES
        or has_quotes
        or dialect.is_recoded
        or dialect.form != "plain"
    ):
        return [whole]
    # The first part has the first row
    first = next(whole.rows())
    least = first.start + len(first.text)
    starts = line_starts(file.path, file.size, SPAN_BYTES)
    starts = [start for start in starts if start == 0 or start >= least]
    return [
        replace(
            whole,
            start=start,
            stop=stop,
            without=tuple(row for row in whole.without if start <= row.start < stop),
        )
        for start, stop in pairwise(starts)
    ]


def _are_several(parts: Sequence[CsvPart]) -> bool:
    return len({part.file.path for part in parts}) > 1


def _with_declared(schema: pa.Schema | None, parts: Sequence[CsvPart]) -> pa.Schema:
    """Types that are given, and else those that files declare."""
    given = {column.name: column.type for column in schema or ()}
    declared = {name: pa.string() for part in parts for name in part.dialect.text}
    return pa.schema(declared | given)


def _remarks(parts: Sequence[CsvPart]) -> Iterator[str]:
    """Yield what has been done to read the files, once for files of which the same is
    said.
    """
    files: dict[str, dict[str, None]] = {}
    for part in parts:
        for remark in part.dialect.remarks:
            files.setdefault(remark, {})[Path(part.file.path).name] = None
    for remark, names in files.items():
        first, *others = names
        more = f" and {len(others):,} more files" if others else ""
        place = f" of {first}{more}" if _are_several(parts) else ""
        yield remark.replace(PLACE, place)
