"""Rows of CSV files, block by block."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate, islice, pairwise
from operator import add
from pathlib import Path
from typing import Any

import pyarrow as pa

from bochner.data.files import COMPRESSED, kind_by_content
from bochner.engines.local import in_threads
from bochner.notices import warn
from bochner.sources.base import READ_BYTES, WHY_TEXT, Batch, SourceError
from bochner.sources.column_values import (
    HEAD,
    Remarks,
    Row,
    TextRange,
    Values,
    csv_options,
    csv_problem,
    first_line,
    is_number,
    names_left_out,
    not_utf8,
    numbered_columns,
    separator_of,
    unnamed_first,
    with_commas,
)
from bochner.sources.paths import FileState, kind_of, labels
from bochner.sources.schema import Selection, require, unified
from bochner.sources.table_files import TableFileError, checked_head
from bochner.sources.text_files import chunks, line_starts, span_digest

BLOCK_BYTES, LEAST_BLOCK, MOST_BLOCK = 1 << 20, 1 << 12, 1 << 30
SPAN_BYTES = 1 << 25  # of the parts of a large file


@dataclass(frozen=True)
class TextSpan:
    """Rows of a CSV file from one byte to another.

    Attributes
    ----------
    file : FileState
    compression : str or None
    separator, decimal_point : str
    names : tuple of str
        Of all columns of the file.
    start, stop : int
        Bytes; the first row of a file, which names the columns, belongs to the span that begins at 0.
    decimal_point : str
    without : tuple of Row
        Rows that repeat the names, and are left out.
    """

    file: FileState
    compression: str | None
    separator: str
    names: tuple[str, ...]
    start: int
    stop: int
    decimal_point: str = "."
    without: tuple[Row, ...] = ()

    @property
    def place(self) -> str:
        """Where the rows are, for messages."""
        whole = self.start == 0 and self.stop == self.file.size
        return self.file.path if whole else f"{self.file.path}, bytes {self.start:,} to {self.stop:,}"

    @property
    def text(self) -> TextRange:
        """The bytes and lines of the rows."""
        stop = None if self.compression else self.stop
        return TextRange(self.file.path, self.compression, self.separator, self.start, stop, self.without)

    def line(self, row: int) -> int:
        """Line of the file of a row, which counts from 0; the names are in line 1."""
        return self.text.line(row + (self.start == 0))

    def batches(
        self, columns: Sequence[str], types: Mapping[str, pa.DataType], n_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some columns in order; Arrow takes other types than those given from its first block.

        A row that is longer than two blocks makes them larger.
        """
        block, done = min(max(n_bytes // 4, LEAST_BLOCK), BLOCK_BYTES), 0
        while True:
            skip = done
            try:
                for batch in self._stream(columns, types, block):
                    rows = batch.slice(min(skip, batch.num_rows))
                    skip -= batch.num_rows - rows.num_rows
                    done += rows.num_rows
                    if rows.num_rows:
                        yield rows
                return
            except pa.ArrowInvalid as error:
                if "straddl" not in str(error) or block >= MOST_BLOCK:
                    raise
            block *= 4

    def schema(self, columns: Sequence[str], types: Mapping[str, pa.DataType]) -> pa.Schema:
        """The types that Arrow takes from the first block."""
        block = BLOCK_BYTES
        while True:
            try:
                with self.text.opened() as stream:
                    return self._reader(stream, columns, types, block).schema
            except pa.ArrowInvalid as error:
                if "straddl" not in str(error) or block >= MOST_BLOCK:
                    raise
            block *= 4

    @contextmanager
    def problems(self) -> Iterator[None]:
        """Tell what is wrong with the file by SourceError."""
        try:
            yield
        except UnicodeDecodeError:
            raise SourceError(f"{self.file.path}: {not_utf8('the column names')}") from None
        except pa.ArrowMemoryError:
            raise
        except (pa.ArrowException, OSError) as error:
            self.file.check(self.place)
            if isinstance(error, OSError) and self.compression:
                what = f"damaged {self.compression} file ({first_line(error)}); copy it again"
            else:
                what = csv_problem(error, self.names, self.text.line)
            raise SourceError(f"{self.file.path}: {what}") from error

    def _stream(self, columns: Sequence[str], types: Mapping[str, pa.DataType], block: int) -> Iterator[Any]:
        with self.text.opened() as stream:
            yield from self._reader(stream, columns, types, block)

    def _reader(self, stream: Any, columns: Sequence[str], types: Mapping[str, pa.DataType], block: int) -> Any:
        from pyarrow import csv

        names = {"column_names": self.names} if self.start else {}
        options = csv.ReadOptions(use_threads=False, block_size=block, **names)
        types = {name: kind for name, kind in types.items() if name in columns}
        more = csv_options(self.separator, self.decimal_point, types, include_columns=columns)
        return csv.open_csv(stream, read_options=options, **more)


def spans_of(path: Path) -> list[TextSpan]:
    """Spans of a file: one, or several of a large file that is neither compressed nor has quotes.

    Raises
    ------
    SourceError
        Where the file is no CSV.
    """
    whole = whole_span(path)
    file = whole.file
    with whole.problems():
        without = whole.text.names_again()
    if whole.compression or file.size < 2 * SPAN_BYTES:
        return [replace(whole, without=without)]
    return [
        replace(whole, start=start, stop=stop, without=tuple(row for row in without if start <= row.start < stop))
        for start, stop in pairwise(_cuts(file))
    ]


def line_of(paths: Sequence[Path], row: int) -> str:
    """Where a row of the table in CSV files is, in words; it counts from 0."""
    for path in paths:
        whole = whole_span(path)
        lines = replace(whole.text, without=whole.text.names_again()).lines()
        for line in islice(lines, 1, None):
            if not row:
                return f"line {line}" + (f" of {path.name}" if len(paths) > 1 else "")
            row -= 1
    return f"row {row}"


def whole_span(path: Path) -> TextSpan:
    """All rows of a file, of which only the first line is read; SourceError where it is no CSV."""
    file = FileState.of(path)
    with open(path, "rb") as stream:
        content = kind_by_content(stream.read(1 << 12))
    compression = content if content in COMPRESSED else None
    try:
        head = checked_head(path, compression)
    except TableFileError as error:
        raise SourceError(str(error)) from error
    separator = "\t" if kind_of(path) == "tsv" else separator_of(head)
    whole = TextSpan(file, compression, separator, (), 0, file.size)
    with whole.problems():
        return replace(whole, names=tuple(whole.schema([], {}).names))


def _cuts(file: FileState) -> list[int]:
    """Where a file can be cut: nowhere if rows have quotes, between which a line may end without the row."""
    with open(file.path, "rb") as stream:
        names = stream.readline(HEAD)
    if names.count(b'"') % 2 or any(b'"' in chunk for chunk in chunks(file.path, len(names))):
        return [0, file.size]
    return line_starts(file.path, file.size, SPAN_BYTES)


Types = Mapping[str, pa.DataType]


@dataclass(frozen=True)
class CsvScan:
    """What a look at the rows of a span found.

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
        types = {name: widened(kind, other.types[name]) for name, kind in self.types.items()}
        values = {name: found + other.values[name] for name, found in self.values.items()}
        return CsvScan(self.n_rows + other.n_rows, types, values)


def scan(span: TextSpan, columns: Sequence[str], known: Types) -> CsvScan:
    """Look at all rows once, and again at their values where the types of the first block do not hold below.

    Parameters
    ----------
    span : TextSpan
    columns : sequence of str
    known : dict of str to pyarrow.DataType
        Types that columns are to have.

    Raises
    ------
    SourceError
        Where a row has too few or too many fields, or a value is not of a type that is known.
    """
    with span.problems():
        try:
            types = {column.name: column.type for column in span.schema(columns, known)}
            if not any(pa.types.is_binary(kind) for name, kind in types.items() if name not in known):
                return _of_types(span, columns, types, known)
        except pa.ArrowInvalid as error:
            if "conversion error" not in str(error):
                raise
        return _of_values(span, columns, known)


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
        if len({kind.tz for kind in times}) == 1 and (len(times) == 2 or times[0].tz is None):
            return max(times, key=lambda kind: ("s", "ms", "us", "ns").index(kind.unit))
    return pa.string()


def _of_types(span: TextSpan, columns: Sequence[str], types: Types, known: Types) -> CsvScan:
    """What is found where all values have the types of the first block."""
    rows, values = 0, {name: Values.none() for name in columns if name not in known}
    for batch in span.batches(columns, types, READ_BYTES):
        rows += batch.num_rows
        _add_values(values, batch, span)
    return CsvScan(rows, dict(types), values)


def _of_values(span: TextSpan, columns: Sequence[str], known: Types) -> CsvScan:
    """What is found by the values of each block."""
    rows, values = 0, {name: Values.none() for name in columns if name not in known}
    types = {name: known.get(name, pa.null()) for name in columns}
    texts = {name: known.get(name, pa.string()) for name in columns}
    for batch in span.batches(columns, texts, READ_BYTES):
        rows += batch.num_rows
        _add_values(values, batch, span)
        for name in values:
            if not pa.types.is_string(types[name]):
                types[name] = widened(types[name], _type_of(batch.column(name), span.decimal_point))
    return CsvScan(rows, types, values)


def _add_values(values: dict[str, Values], batch: pa.RecordBatch, span: TextSpan) -> None:
    unnamed = unnamed_first(span.names)
    for name, found in values.items():
        values[name] = found.add(batch.column(name), span.decimal_point, name in unnamed)


def _type_of(values: Any, decimal_point: str) -> pa.DataType:
    """The type that Arrow gives to a column of texts when it reads them from a CSV."""
    from pyarrow import csv

    values = values.drop_null()
    if not len(values):
        return pa.null()
    lines = pa.ListArray.from_arrays([0, len(values)], values)
    import pyarrow.compute as pc

    text = pc.binary_join(lines, "\n")[0].as_buffer()
    options = csv_options("\x1f", decimal_point, {})
    reading = csv.ReadOptions(use_threads=False, column_names=["text"], block_size=max(text.size, 1))
    try:
        table = csv.read_csv(pa.BufferReader(text), read_options=reading, **options)
    except pa.ArrowInvalid:  # quotes and separators in the values
        return pa.string()
    kind = table.schema.field(0).type
    return kind if len(table) == len(values) and not pa.types.is_binary(kind) else pa.string()


@dataclass(frozen=True)
class TextPart:
    """Rows of a CSV file, a `Part`.

    Attributes
    ----------
    span : TextSpan
    label : str
        Name of the file relative to the folder of all.
    selection : Selection
    schema : pyarrow.Schema
        Columns that are read.
    counted : int or None
        Rows, before any are left out; None where they have not been counted.
    """

    span: TextSpan
    label: str
    selection: Selection
    schema: pa.Schema
    counted: int | None

    @property
    def file(self) -> FileState:
        """The file that holds the rows."""
        return self.span.file

    @property
    def name(self) -> str:
        """The file, and the bytes in it."""
        return self.span.place

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where a condition, or no count, leaves that open."""
        return self.counted if self.selection.where is None else None

    def read(self, n_bytes: int = READ_BYTES) -> Iterator[Batch]:
        """Yield the rows in order, in batches of about so many bytes at most."""
        self.span.file.check(self.name)
        rows, types = 0, {column.name: column.type for column in self.schema}
        with self.span.problems():
            for batch in self.span.batches(self.schema.names, types, n_bytes):
                rows += batch.num_rows
                table = self.selection.apply(pa.Table.from_batches([batch]))
                if table.num_rows:
                    yield Batch(table)
        self.span.file.check(self.name)
        if self.counted not in (None, rows):
            raise SourceError(f"{self.name}: {rows} rows where there were {self.counted}; open the file again")

    def line(self, row: int) -> int:
        """Line of the file of one of the rows that are read, which count from 0."""
        if self.selection.where is None:
            return self.span.line(row)
        types, above = {column.name: column.type for column in self.schema}, 0
        for batch in self.span.batches(self.schema.names, types, READ_BYTES):
            kept = self.selection.rows(pa.Table.from_batches([batch]))
            if row < len(kept):
                return self.span.line(above + int(kept[row]))
            row, above = row - len(kept), above + batch.num_rows
        raise IndexError(f"{self.name}: no row {row}")

    def stamp(self) -> str:
        """Size, first and last bytes of the file, and what of it is read."""
        file, start, stop = self.span.file, self.span.start, self.span.stop
        place = f"{self.label} {file.size} {start} {stop} {span_digest(file.path, start, stop)}"
        types = " ".join(f"{column.name} {column.type}" for column in self.schema)
        return f"{place} {self.span.decimal_point} {types} {self.selection.stamp()}"


def csv_parts(
    paths: Sequence[Path], selection: Selection, schema: pa.Schema | None = None
) -> tuple[tuple[TextPart, ...], pa.Schema]:
    """Parts of CSV files, and the schema of the columns that are wanted.

    Types are the first of Arrow's (null, whole numbers, booleans, dates, times, floats, text) that all values of all
    files have, which takes a look at all rows, and counts them.

    Parameters
    ----------
    paths : sequence of Path
    selection : Selection
    schema : pyarrow.Schema, optional
        Types of some or all columns; where it has all, there is no look at the rows, which are not counted then.

    Raises
    ------
    SourceError
        Where a file is no CSV, has other columns than the first, a row with too few or too many fields, or a value of
        another type than the schema gives.
    """
    spans = [span for path in paths for span in spans_of(path)]
    everything = dict.fromkeys(name for span in spans for name in span.names)
    require(everything, selection.exclude)
    require(everything, pa.schema(schema or ()).names, "schema: ")
    names = [_wanted(span, selection) for span in spans]
    known = {column.name: column.type for column in schema or () if column.name in names[0].names}
    files = [(span.file.path, some) for span, some in zip(spans, names, strict=True)]
    checked = unified(files, pa.schema(known.items()))
    counts: list[int | None] = [None] * len(spans)
    reasons: Mapping[str, str] = {}
    if len(known) < len(checked):
        spans, seen, doubtful = _looked(spans, checked.names, known)
        counts, types = [one.n_rows for one in seen], reduce(add, seen).types
        if not sum(one.n_rows for one in seen):
            raise SourceError(f"{paths[0]}: the table has column names but no rows")
        remarks = _remarks(spans, seen, doubtful)
        index = selection.index(_numbered(spans, seen))
        for sentence in remarks.sentences(index, selection.columns or selection.named):
            warn(sentence)
        selection, reasons = selection.without(index), remarks.reasons
        checked = pa.schema([(name, types[name]) for name in checked.names])
    _note_names(spans)
    left = replace(selection, exclude=tuple(name for name in selection.exclude if name in checked.names))
    needed, by_path = left.needed(checked), dict(zip(map(str, paths), labels(paths), strict=True))
    found = [
        TextPart(span, by_path[span.file.path], selection, needed, count)
        for span, count in zip(spans, counts, strict=True)
    ]
    return tuple(found), pa.schema([_explained(field, reasons) for field in left.schema(checked)])


def _explained(field: pa.Field, reasons: Mapping[str, str]) -> pa.Field:
    return field.with_metadata({WHY_TEXT: reasons[field.name]}) if field.name in reasons else field


def _wanted(span: TextSpan, selection: Selection) -> pa.Schema:
    """Columns that may be needed, their types not known yet; those to leave out may be in other files only."""
    schema = pa.schema([(name, pa.null()) for name in span.names])
    try:
        kept = Selection(selection.columns, tuple(set(selection.exclude) & set(span.names))).schema(schema)
    except SourceError as error:
        raise SourceError(f"{span.file.path}: {error}") from error
    return kept if selection.where is None else schema


def _looked(
    spans: Sequence[TextSpan], columns: Sequence[str], known: Types
) -> tuple[list[TextSpan], list[CsvScan], list[str]]:
    """Spans, with decimal commas where numbers have them; what is found in each; columns whose commas are doubtful."""
    seen = in_threads(lambda span: scan(span, columns, known), spans)
    total, separator = reduce(add, seen), "," if any(span.separator == "," for span in spans) else spans[0].separator
    found, doubtful = with_commas({name: one.commas for name, one in total.values.items()}, separator)
    if len(doubtful) < len(found):
        again = [replace(span, decimal_point=",") for span in spans]
        fixed = {**known, **dict.fromkeys(doubtful, pa.string())}
        seen_again = in_threads(lambda span: scan(span, columns, fixed), again)
        if _numbers(total) < _numbers(reduce(add, seen_again)):
            values = [{**one.values, **new.values} for one, new in zip(seen, seen_again, strict=True)]
            spans, seen = again, [replace(new, values=own) for new, own in zip(seen_again, values, strict=True)]
        doubtful = [name for name in found if name not in _numbers(reduce(add, seen))]
    return list(spans), seen, doubtful


def _remarks(spans: Sequence[TextSpan], seen: Sequence[CsvScan], doubtful: Sequence[str]) -> Remarks:
    """What there is to say of the columns of all files."""
    files, total = {span.file.path for span in spans}, reduce(add, seen)

    def place(row: int) -> str:
        k = bisect_right(ends := list(accumulate(one.n_rows for one in seen)), row)
        line = f"line {spans[k].line(row - (ends[k - 1] if k else 0))}"
        return f"{line} of {Path(spans[k].file.path).name}" if len(files) > 1 else line

    return Remarks.of(total.values, total.types, doubtful, place)


def _numbered(spans: Sequence[TextSpan], seen: Sequence[CsvScan]) -> list[str]:
    """First columns without a name that number the rows of all files, or of each."""
    files: dict[str, CsvScan] = {}
    for span, one in zip(spans, seen, strict=True):
        path = span.file.path
        files[path] = files[path] + one if path in files else one
    each = [one.values for one in files.values() if one.n_rows]
    names = spans[0].names
    return sorted({*numbered_columns(names, reduce(add, seen).values), *numbered_columns(names, *each)})


def _note_names(spans: Sequence[TextSpan]) -> None:
    """Say where the names of the columns are repeated."""
    paths = dict.fromkeys(span.file.path for span in spans)
    for path in paths:
        if lines := [row.line for span in spans if span.file.path == path for row in span.without]:
            warn(names_left_out(lines, f" of {Path(path).name}" if len(paths) > 1 else ""))


def _numbers(seen: CsvScan) -> set[str]:
    return {name for name, kind in seen.types.items() if is_number(kind)}
