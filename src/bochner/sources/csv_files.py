"""CSV files, read in parts or whole: their rows, the types of their columns by a scan
of all values, and what to say.

Types are the first of Arrow's (null, whole numbers, booleans, dates, times, floats,
text) that all values have. Where whole columns look like numbers with commas, these are
read as decimal commas if that makes more columns numbers.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import accumulate, islice, pairwise
from operator import add
from pathlib import Path
from typing import Any

import pyarrow as pa

from bochner.data.files import HEAD, compression_of, kind_by_content, kind_by_name
from bochner.engines.local import in_threads
from bochner.notices import listed, warn
from bochner.settings import require_addresses
from bochner.sources.base import READ_BYTES, WHY_TEXT, Batch, SourceError, TableSource
from bochner.sources.column_values import (
    Values,
    is_number,
    numbered_columns,
    unnamed_first,
    why_text,
)
from bochner.sources.paths import FileState, reason
from bochner.sources.schema import Selection, require, unified
from bochner.sources.text_files import (
    ROW_CHUNK,
    FileRange,
    Row,
    Without,
    chunks,
    holds,
    line_starts,
    rows_of,
)

BLOCK_BYTES, LEAST_BLOCK, MOST_BLOCK = 1 << 20, 1 << 12, 1 << 30
SPAN_BYTES = 1 << 25  # of the parts of a large file
SHOWN_LINES = 3
NUMBER = re.compile(rb'\s*"?[+-]?[\d.,]+"?\s*')
NOT_UTF8 = "{}: text that is not UTF-8; save the file with UTF-8 encoding"
COMMAS = "write a decimal point, and nothing between thousands"
WITH_COMMAS = f"looks like numbers with commas; {COMMAS}"

Types = Mapping[str, pa.DataType]


@dataclass(frozen=True)
class CsvPart(FileRange):
    """Rows of a CSV file, a `Part`.

    Attributes
    ----------
    separator : str
    names : tuple of str
        Of all columns of the file; its first row, which names them, belongs to the part
        that begins at byte 0.
    decimal_point : str
    without : tuple of Row
        Rows that repeat the names, and are left out.
    selection : Selection
    schema : pyarrow.Schema
        Columns that are read.
    counted : int or None
        Rows, before any are left out; None where they have not been counted.
    """

    separator: str
    names: tuple[str, ...] = ()
    decimal_point: str = "."
    without: tuple[Row, ...] = ()
    selection: Selection = field(default_factory=Selection)
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    counted: int | None = None

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where a condition, or no count, leaves that open."""
        return self.counted if self.selection.where is None else None

    def read(self, n_bytes: int = READ_BYTES) -> Iterator[Batch]:
        """Yield the rows in order, in batches of about so many bytes at most."""
        self.file.check(self.name)
        types = {column.name: column.type for column in self.schema}
        with self.problems():
            for batch in self.batches(self.schema.names, types, n_bytes):
                table = self.selection.apply(pa.Table.from_batches([batch]))
                if table.num_rows:
                    yield Batch(table)
        self.file.check(self.name)

    def line(self, row: int) -> int:
        """Line of the file of one of the rows that are read, which count from 0."""
        if self.selection.where is None:
            return self.line_of_row(row)
        above = 0
        types = {column.name: column.type for column in self.schema}
        for batch in self.batches(self.schema.names, types, READ_BYTES):
            kept = self.selection.rows(pa.Table.from_batches([batch]))
            if row < len(kept):
                return self.line_of_row(above + int(kept[row]))
            row = row - len(kept)
            above = above + batch.num_rows
        raise IndexError(f"{self.name}: no row {row}")

    def line_of_row(self, row: int) -> int:
        """Line of the file of one of all rows, which count from 0 below the names."""
        return self._line(row + (self.start == 0))

    def lines(self) -> Iterator[int]:
        """Yield the line of each row, that of the names too; the first line is 1,
        and blank lines are no rows.
        """
        left_out = {row.start for row in self.without}
        above = self.lines_above()
        with self.opened_bytes() as stream:
            for row in rows_of(stream, self.separator):
                if row.start + self.start not in left_out:
                    yield above + row.line

    def _line(self, index: int) -> int:
        return next(islice(self.lines(), index, None), index + 1)

    def repeated_names(self) -> tuple[Row, ...]:
        """Rows below that of the names that equal it, by the bytes.

        A single column may hold its name, and names that are all numbers are perhaps a
        row of a file without names.
        """
        with self.opened_bytes() as stream:
            first = next(rows_of(stream, self.separator), None)
        if first is None or b"\n" in first.content:
            return ()
        fields = first.content.split(self.separator.encode())
        if len(fields) < 2 or all(map(NUMBER.fullmatch, fields)):
            return ()
        with self.opened_bytes() as stream:
            if not holds(stream, first.content, first.start + len(first.text)):
                return ()
        with self.opened_bytes() as stream:
            rows = rows_of(stream, self.separator)
            return tuple(
                row
                for row in rows
                if row.start > first.start and row.content == first.content
            )

    def batches(
        self, columns: Sequence[str], types: Types, n_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield empty batches, and then the rows of some columns (all, where none are
        given) in order.

        Arrow takes other types than those given from its first block; the rows of
        further blocks are read with these types given, which is faster. A row longer
        than two blocks makes them larger.
        """
        from pyarrow import csv

        require_addresses(
            "Reading a CSV file"
        )  # its threads are waited for, also where they cannot begin
        block = min(max(n_bytes // 4, LEAST_BLOCK), BLOCK_BYTES)
        done = 0
        while True:
            skip = done
            known = {
                name: kind for name, kind in types.items() if name in (columns or types)
            }
            try:
                with self.opened() as stream:
                    reader = csv.open_csv(
                        stream, **self._options(block, known, include_columns=columns)
                    )
                    types = {column.name: column.type for column in reader.schema}
                    yield pa.RecordBatch.from_pylist([], reader.schema)
                    if len(known) < len(types) and self.stop - self.start > block:
                        continue
                    for batch in reader:
                        rows = batch.slice(min(skip, batch.num_rows))
                        skip -= batch.num_rows - rows.num_rows
                        done += rows.num_rows
                        yield rows
                return
            except pa.ArrowInvalid as error:
                if "straddl" not in str(error) or block >= MOST_BLOCK:
                    raise
            block *= 4

    def first_types(self, n_bytes: int = READ_BYTES) -> pa.Schema:
        """The columns of the file, with the types that Arrow takes from the first
        block; see `batches`.
        """
        return next(self.batches([], {}, n_bytes)).schema

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """A stream of the bytes of the rows that are not left out."""
        with self.opened_bytes() as stream:
            gaps = [(row.start - self.start, len(row.text)) for row in self.without]
            yield (
                io.BufferedReader(Without(stream, gaps), ROW_CHUNK) if gaps else stream
            )

    @contextmanager
    def problems(self) -> Iterator[None]:
        """Tell what is wrong with the file by SourceError."""
        try:
            yield
        except UnicodeDecodeError:
            raise SourceError(
                f"{self.file.path}: {NOT_UTF8.format('the column names')}"
            ) from None
        except pa.ArrowMemoryError:
            raise
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and self.compression:
                raise self.damaged(error) from error
            self.file.check(self.name)
            raise SourceError(
                f"{self.file.path}: {_problem(error, self.names, self._line)}"
            ) from error

    def _options(self, block_bytes: int, types: Types, **more: Any) -> dict[str, Any]:
        names = self.names if self.start else None
        return csv_options(
            self.separator,
            self.decimal_point,
            block_bytes,
            types,
            column_names=names,
            **more,
        )


def whole_file(path: Path) -> CsvPart:
    """All rows of a file, of which only the first line is read; SourceError where it
    is no CSV.
    """
    file = FileState.of(path)
    compression = compression_of(path)
    whole = CsvPart(file, compression, 0, file.size, "\t")
    with whole.problems(), whole.opened_bytes() as stream:
        head = stream.read(HEAD)
    if (content := kind_by_content(head)) != "text":
        what = (
            f"this is {content} under {compression}; write it as CSV or Parquet"
            if compression
            else "not a CSV"
        )
        raise SourceError(f"{path}: {what}")
    if kind_by_name(path) != "tsv":
        # A comma where the first row has one outside of quotes, else the commonest mark
        first = head.lstrip(b"\xef\xbb\xbf\r\n").partition(b"\n")[0]
        plain = "".join(first.decode(errors="replace").split('"')[::2])
        separator = "," if "," in plain else max(",\t;|", key=plain.count)
        whole = replace(whole, separator=separator)
    with whole.problems():
        return replace(whole, names=tuple(whole.first_types(4 * HEAD).names))


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
    for sentence in _names_left_out(parts):
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
        whole = whole_file(path)
        for line in islice(
            replace(whole, without=whole.repeated_names()).lines(), 1, None
        ):
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
        texts = {
            name: one
            for name, one in self.total.values.items()
            if pa.types.is_string(self.total.types[name])
        }
        few = {
            name: why
            for name, one in texts.items()
            if (why := why_text(one.odd, self._place))
        }
        return {
            **few,
            **{name: WITH_COMMAS for name in self.doubtful if name not in few},
        }

    def remarks(self, index: Collection[str], quiet: Collection[str]) -> Iterator[str]:
        """Yield what to say of the columns; of the index that it is left out, of
        some whose name is known less.
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
        commas = [name for name, why in self.reasons.items() if why == WITH_COMMAS]
        for name, why in self.reasons.items():
            if name not in commas:
                yield f"{titles[name]} {why}."
        if commas:
            what, are, were = (
                ("Columns", "look", "were")
                if len(commas) > 1
                else ("Column", "looks", "was")
            )
            yield (
                f"{what} {listed(commas)} {are} like numbers with commas, and "
                f"{were} read as text; {COMMAS}."
            )

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


def csv_options(
    separator: str,
    decimal_point: str,
    block_bytes: int,
    types: Types | None = None,
    column_names: Sequence[str] | None = None,
    include_columns: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Options of `pyarrow.csv` for tables as people write them; empty fields, NA,
    NaN and null are missing.
    """
    from pyarrow import csv

    return {
        "read_options": csv.ReadOptions(
            use_threads=False, block_size=block_bytes, column_names=column_names
        ),
        "parse_options": csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        "convert_options": csv.ConvertOptions(
            strings_can_be_null=True,
            column_types=types,
            decimal_point=decimal_point,
            include_columns=include_columns,
        ),
    }


def _cut(path: Path) -> list[CsvPart]:
    """Parts of a file: one, or several of a large file that is neither compressed nor
    has quotes.

    Between quotes a line may end without the row.
    """
    whole = whole_file(path)
    with whole.problems():
        whole = replace(whole, without=whole.repeated_names())
    file = whole.file
    if whole.compression or file.size < 2 * SPAN_BYTES:
        return [whole]
    with open(file.path, "rb") as stream:
        names = stream.readline(HEAD)
    if names.count(b'"') % 2 or any(
        b'"' in chunk for chunk in chunks(file.path, len(names))
    ):
        return [whole]
    return [
        replace(
            whole,
            start=start,
            stop=stop,
            without=tuple(row for row in whole.without if start <= row.start < stop),
        )
        for start, stop in pairwise(line_starts(file.path, file.size, SPAN_BYTES))
    ]


def _are_several(parts: Sequence[CsvPart]) -> bool:
    return len({part.file.path for part in parts}) > 1


def _names_left_out(parts: Sequence[CsvPart]) -> Iterator[str]:
    """Yield where the names of the columns are repeated, for each file."""
    for path in dict.fromkeys(part.file.path for part in parts):
        lines = [
            f"{row.line:,}"
            for part in parts
            if part.file.path == path
            for row in part.without
        ]
        place = f" of {Path(path).name}" if _are_several(parts) else ""
        more = len(lines) - SHOWN_LINES
        if len(lines) == 1:
            yield f"Line {lines[0]}{place} repeats the column names, and is left out."
        elif lines:
            shown = [*lines[:SHOWN_LINES], f"{more:,} more"] if more > 0 else lines
            yield (
                f"Lines {', '.join(shown[:-1])} and {shown[-1]}{place} repeat the "
                "column names, and are left out."
            )


def _problem(
    error: Exception, names: Sequence[str], line_of: Callable[[int], int]
) -> str:
    """What Arrow found wrong with a CSV in one thread, and the cure; with the line of
    the file, and the column.

    Parameters
    ----------
    error : Exception
    names : sequence of str
        Of the columns of the file.
    line_of : callable
        Line of a row, which counts from 0 where Arrow began to read.
    """
    text = reason(error).removeprefix("CSV parse error: ")
    place = list[str]()
    if found := re.match(r"In CSV column #(\d+): ", text):
        k = int(found[1])
        text = text[found.end() :]
        place = [f"column {names[k]!r}" if k < len(names) else f"column number {k + 1}"]
    if found := re.match(r"Row #(\d+): ", text):
        text = text[found.end() :]
        place = [f"line {line_of(int(found[1]) - 1)}", *place]
    where = ", ".join(place)
    if "UTF8" in text:
        return NOT_UTF8.format(where or text.partition(":")[0])
    if "mpty CSV file" in text:
        return "the table has no rows below its column names"
    if where and text.startswith("Expected "):
        counts = (
            text.removeprefix("Expected ")
            .partition(":")[0]
            .replace(" columns, got ", " fields expected, ")
        )
        return (
            f"{where}: {counts} found; quote fields that hold the separator, or "
            "fix the line"
        )
    if text.startswith("CSV conversion error to "):
        kind, _, value = text.removeprefix("CSV conversion error to ").partition(": ")
        text = f"{value} for {kind}; fix it, or give another type in schema="
    return f"{where}: {text}" if where else text
