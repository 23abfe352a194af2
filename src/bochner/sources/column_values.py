"""How tables are written as text: separators, decimal commas, and what is wrong with a line."""

from __future__ import annotations

import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bochner.data.files import HEAD
from bochner.data.hashes import mixed
from bochner.sources.text_files import lines_above

WITH_COMMAS = r"^\s*[+-]?[.,]?\d[\d.,]*([eE][+-]?\d+)?\s*$"
WITHOUT_COMMAS = r"^[^,]*$"
THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2}(,\d{3})*\s*$"  # which may be meant


@dataclass(frozen=True)
class Commas:
    """What a column of text has of numbers with commas; those of more rows add up.

    Attributes
    ----------
    numbers : bool
        Whether all values look like numbers, with or without commas.
    some : bool
        Whether one of them has a comma.
    thousands : bool
        Whether all commas may stand between thousands.
    """

    numbers: bool = True
    some: bool = False
    thousands: bool = True

    @classmethod
    def of(cls, column: Any) -> Commas:
        """Those of an Arrow column of any type."""
        import pyarrow.compute as pc

        if not pa.types.is_string(column.type):
            return cls(is_number(column.type) or pa.types.is_null(column.type))
        if pc.all(pc.less(column, ":")).as_py() is False:  # a value begins with no digit, sign, point or blank
            return cls(numbers=False)
        matches = [
            pc.all(pc.match_substring_regex(column, pattern)).as_py() is not False
            for pattern in (WITH_COMMAS, WITHOUT_COMMAS, THOUSANDS)
        ]
        return cls(matches[0], not matches[1], matches[2])

    def __add__(self, other: Commas) -> Commas:
        return Commas(self.numbers and other.numbers, self.some or other.some, self.thousands and other.thousands)


def with_commas(columns: Mapping[str, Commas], separator: str) -> tuple[list[str], list[str]]:
    """Names of the columns of numbers with commas, and of those among them whose commas may be no decimal ones."""
    found = [name for name, commas in columns.items() if commas.numbers and commas.some]
    return found, [name for name in found if separator == "," or columns[name].thousands]


def is_number(kind: pa.DataType) -> bool:
    """Whether values are whole or floating-point numbers."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def text_head(path: Any, compression: str | None) -> bytes:
    """The first bytes of a file of text, OSError where they cannot be decompressed."""
    with pa.input_stream(str(path), compression=compression) as stream:
        return stream.read(HEAD)


def separator_of(head: bytes) -> str:
    """What separates the fields of the first row: a comma where it has one, else the commonest of a few marks."""
    first = head.lstrip(b"\xef\xbb\xbf\r\n").partition(b"\n")[0].decode(errors="replace")
    plain = "".join(first.split('"')[::2])
    counts = {mark: plain.count(mark) for mark in ",\t;|"}
    return "," if counts[","] else max(counts, key=lambda mark: counts[mark])


def csv_options(separator: str, decimal_point: str, types: Mapping[str, pa.DataType], **more: Any) -> dict[str, Any]:
    """Options of `pyarrow.csv` for tables as people write them; empty fields, NA, NaN and null are missing."""
    from pyarrow import csv

    return {
        "parse_options": csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        "convert_options": csv.ConvertOptions(
            strings_can_be_null=True, column_types=dict(types), decimal_point=decimal_point, **more
        ),
    }


def csv_problem(error: Exception, names: Sequence[str], line_of: Callable[[int], int]) -> str:
    """What Arrow found wrong with a CSV, and the cure; with the line of the file, that of the names being 1.

    Parameters
    ----------
    error : Exception
        Raised by `pyarrow.csv` in one thread.
    names : sequence of str
        Of the columns of the file.
    line_of : callable
        Line of a row, which counts from 0 where Arrow began to read.
    """
    text = first_line(error).removeprefix("CSV parse error: ")
    place, text = _place(text, names, line_of)
    if "UTF8" in text:
        return not_utf8(place or text.partition(":")[0])
    if "mpty CSV file" in text:
        return "the table has no rows below its column names"
    if place and text.startswith("Expected "):
        counts = text.removeprefix("Expected ").partition(":")[0].replace(" columns, got ", " fields expected, ")
        return f"{place}: {counts} found; quote fields that hold the separator, or fix the line"
    if text.startswith("CSV conversion error to "):
        kind, _, value = text.removeprefix("CSV conversion error to ").partition(": ")
        text = f"{value} for {kind}; fix it, or give another type in schema="
    return f"{place}: {text}" if place else text


def _place(text: str, names: Sequence[str], line_of: Callable[[int], int]) -> tuple[str, str]:
    """Where an error is in words, and what else its message says."""
    column, line = "", ""
    if text.startswith("In CSV column #"):
        number, _, text = text.removeprefix("In CSV column #").partition(": ")
        known = int(number) < len(names)
        column = f"column {names[int(number)]!r}" if known else f"column number {int(number) + 1}"
    if text.startswith("Row #"):
        number, _, text = text.removeprefix("Row #").partition(": ")
        line = f"line {line_of(int(number) - 1)}"
    return ", ".join(filter(None, (line, column))), text


def names_problem(names: Sequence[str]) -> str:
    """What is wrong with the names of columns where some are equal, and the cure; empty where none are."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if "" in twice:
        numbers = [str(k) for k, name in enumerate(names, 1) if name == ""]
        return f"columns {', '.join(numbers[:-1])} and {numbers[-1]} have no name; give each column a name of its own"
    return f"column names repeat: {listed(twice)}; give each column a name of its own" if twice else ""


def listed(names: Iterable[str], limit: int = 8, last: str = ", ") -> str:
    """Names in quotes, the first of many."""
    shown = [repr(name) for name in names]
    if len(shown) > limit:
        return f"{', '.join(shown[:limit])} and {len(shown) - limit} more"
    return last.join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def not_utf8(place: str) -> str:
    """What is wrong with text in another encoding than UTF-8."""
    return f"{place}: text that is not UTF-8; save the file with UTF-8 encoding"


def first_line(error: BaseException) -> str:
    """What an error says, in its first line without the full stop."""
    return str(error).partition("\n")[0].strip().rstrip(".") or type(error).__name__


FEW = 0.1  # share of the values of a column, at most, that make text of it by mistake
SHOWN_CHARACTERS = 40  # characters of a value
NUMBERS = r"^\s*[+-]?(\d+{point}?\d*|{point}\d+)([eE][+-]?\d+)?\s*$"
DAY, TIME = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d(:\d\d(\.\d+)?)?"
TIMES = rf"^({DAY}([ T]{TIME}(Z|[+-]\d\d(:?\d\d)?)?)?|{TIME})$"
KINDS: dict[str, tuple[str, Callable[[pa.DataType], bool]]] = {
    "numbers": (NUMBERS, is_number),
    "dates": (TIMES, pa.types.is_temporal),
}
BLOCK = 1 << 20


def is_text(kind: pa.DataType) -> bool:
    """Whether values are text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


@dataclass(frozen=True)
class Odd:
    """How many values of a column are not of a kind, and the first of them; those of more rows add up.

    Attributes
    ----------
    rows, values : int
        All, and those that are not missing.
    odd : int
    first : tuple of int and str, or None
        Its row, counted from 0, and the value.
    """

    rows: int = 0
    values: int = 0
    odd: int = 0
    first: tuple[int, str] | None = None

    @classmethod
    def of(cls, column: Any, kind: str, decimal_point: str = ".") -> Odd:
        """Those of an Arrow column of any type, by the name of a kind."""
        import pyarrow.compute as pc

        n, values = len(column), len(column) - column.null_count
        if not is_text(column.type):
            odd = 0 if KINDS[kind][1](column.type) else values
            row = pc.index(column.is_valid(), True).as_py() if odd else None
            return cls(n, values, odd, None if row is None else (row, str(column[row])))
        pattern = KINDS[kind][0].replace("{point}", "," if decimal_point == "," else r"\.")
        early = pc.fill_null(pc.less(column, ":"), True)  # all others begin with no digit, sign, point or blank
        rows = np.flatnonzero(early)
        fits = np.asarray(early).copy()
        fits[rows] = pc.fill_null(pc.match_substring_regex(column.filter(early), pattern), True)
        odd = n - int(fits.sum())
        first = int(fits.argmin()) if odd else 0
        return cls(n, values, odd, (first, column[first].as_py()) if odd else None)

    def __add__(self, other: Odd) -> Odd:
        first = self.first
        if first is None and other.first is not None:
            first = self.rows + other.first[0], other.first[1]
        return Odd(self.rows + other.rows, self.values + other.values, self.odd + other.odd, first)

    @property
    def are_few(self) -> bool:
        """Whether they are so few that they stand there by mistake, perhaps."""
        return 0 < self.odd <= FEW * self.values

    def described(self, place: Callable[[int], str]) -> str:
        """Their number and the first of them, with the place of its row in words."""
        row, value = self.first or (0, "")
        shown = value if len(value) <= SHOWN_CHARACTERS else f"{value[:SHOWN_CHARACTERS]}..."
        return f"{self.odd:,} of {self.values:,} values, first {shown!r} in {place(row)}"


@dataclass(frozen=True)
class Numbering:
    """Whether whole numbers are those of rows in any order, with certainty but for 2^-64; those of more rows add up.

    Attributes
    ----------
    rows : int
    low, high : int
    total : int
        Sum of hashes of the numbers, which decides the set of them where the number, the least and the greatest do not.
    whole : bool
        Whether all values are whole numbers.
    """

    rows: int = 0
    low: int = 2**63
    high: int = -(2**63)
    total: int = 0
    whole: bool = True

    @classmethod
    def of(cls, column: Any) -> Numbering:
        """That of an Arrow column of whole numbers, or of text."""
        import pyarrow.compute as pc

        if is_text(column.type):
            try:
                column = pc.utf8_trim_whitespace(column).cast(pa.int64())
            except pa.ArrowInvalid:
                return cls(whole=False)
        if not pa.types.is_integer(column.type) or column.null_count:
            return cls(whole=not len(column))
        if not len(column):
            return cls()
        numbers = np.asarray(column).astype(np.int64)
        return cls(len(numbers), int(numbers.min()), int(numbers.max()), _hash_sum(numbers))

    def __add__(self, other: Numbering) -> Numbering:
        total, whole = (self.total + other.total) % 2**64, self.whole and other.whole
        return Numbering(self.rows + other.rows, min(self.low, other.low), max(self.high, other.high), total, whole)

    @property
    def counts_rows(self) -> bool:
        """Whether the numbers are those from 0 or from 1 on, each once."""
        if not (self.whole and self.rows and self.low in (0, 1) and self.high - self.low + 1 == self.rows):
            return False
        starts = range(self.low, self.high + 1, BLOCK)
        sums = (_hash_sum(np.arange(start, min(start + BLOCK, self.high + 1))) for start in starts)
        return sum(sums) % 2**64 == self.total


def _hash_sum(numbers: Any) -> int:
    return int(mixed(numbers.astype(np.uint64) + np.uint64(1)).sum(dtype=np.uint64))


@dataclass(frozen=True)
class Values:
    """What the values of a column are like; those of more rows add up.

    Attributes
    ----------
    commas : Commas
    odd : dict of str to Odd
        By kinds.
    numbering : Numbering
        Of columns that may have the numbers of the rows; of others that of no rows.
    """

    commas: Commas
    odd: dict[str, Odd]
    numbering: Numbering

    @classmethod
    def none(cls) -> Values:
        """Those of no rows."""
        return cls(Commas(), {kind: Odd() for kind in KINDS}, Numbering())

    def add(self, column: Any, decimal_point: str, numbered: bool) -> Values:
        """With those of more rows, an Arrow column."""
        commas = self.commas + Commas.of(column) if self.commas.numbers else self.commas
        odd = {kind: found + Odd.of(column, kind, decimal_point) for kind, found in self.odd.items()}
        return Values(commas, odd, self.numbering + Numbering.of(column) if numbered else self.numbering)

    def __add__(self, other: Values) -> Values:
        odd = {kind: found + other.odd[kind] for kind, found in self.odd.items()}
        return Values(self.commas + other.commas, odd, self.numbering + other.numbering)


def why_text(odd: Mapping[str, Odd], place: Callable[[int], str]) -> str:
    """Why a column of text is no column of another kind, where few values are odd, and the cure; else empty.

    Parameters
    ----------
    odd : dict of str to Odd
        By kinds.
    place : callable
        The place of a row in words.
    """
    for kind, found in odd.items():
        if found.are_few:
            return f"is text because of {found.described(place)}; write {kind} there, or nothing"
    return ""


NAMELESS = re.compile(r"__index_level_\d+__")  # what Arrow calls an index of pandas that has no name
UNNAMED = re.compile(r"(Unnamed: 0(\.\d+)*)?")  # what pandas calls it when it has been written to a CSV, and read


def index_columns(schema: pa.Schema) -> list[str]:
    """Columns of a Parquet or Arrow file that were the index of a data frame of pandas."""
    try:
        said = list(json.loads((schema.metadata or {})[b"pandas"])["index_columns"])
    except (KeyError, TypeError, ValueError):
        said = []  # not written by pandas, or by one of long ago
    return [name for name in schema.names if name in said or NAMELESS.fullmatch(name)]


def unnamed_first(names: Iterable[str]) -> list[str]:
    """The first columns of a CSV, as far as they have no name."""
    return list(takewhile(UNNAMED.fullmatch, names))


def numbered_columns(names: Iterable[str], *values: Mapping[str, Values]) -> list[str]:
    """Those of the first columns without a name that number the rows, in any order, of each of some files."""
    return [name for name in unnamed_first(names) if all(_counts_rows(name, some) for some in values)]


def _counts_rows(name: str, values: Mapping[str, Values]) -> bool:
    return name in values and values[name].numbering.counts_rows


def index_left_out(names: Sequence[str]) -> Iterator[str]:
    """Yield what to say of the index of a Parquet or Arrow file that is left out, where it has a name."""
    for name in names:
        if not NAMELESS.fullmatch(name):
            cure = "name it in columns=, or write the file after reset_index(), to learn from it"
            yield f"Column {name!r} is the index of the data frame in the file, and is left out; {cure}."


COMMAS = "write a decimal point, and nothing between thousands"


@dataclass(frozen=True)
class Remarks:
    """Remarks on columns.

    Attributes
    ----------
    types : dict of str to pyarrow.DataType
        Of the columns.
    few : dict of str to str
        Why columns are text that are not but for few values, and the cure.
    doubtful : list of str
        Columns that may be numbers with commas, others than those.
    """

    types: Mapping[str, pa.DataType]
    few: Mapping[str, str]
    doubtful: Collection[str]

    @classmethod
    def of(
        cls,
        values: Mapping[str, Values],
        types: Mapping[str, pa.DataType],
        doubtful: Collection[str],
        place: Callable[[int], str],
    ) -> Remarks:
        """Those on columns by their values.

        Parameters
        ----------
        values : dict of str to Values
            Of columns whose types follow from them.
        types : dict of str to pyarrow.DataType
        doubtful : list of str
            Columns that may be numbers with commas.
        place : callable
            Line of a row in words.
        """
        texts = {name: one for name, one in values.items() if pa.types.is_string(types[name])}
        few = {name: why for name, one in texts.items() if (why := why_text(one.odd, place))}
        return cls(types, few, [name for name in doubtful if name not in few])

    @property
    def reasons(self) -> dict[str, str]:
        """Why columns are text by mistake, perhaps, and the cure."""
        return {**self.few, **dict.fromkeys(self.doubtful, f"looks like numbers with commas; {COMMAS}")}

    def sentences(self, index: Collection[str], exclude: Collection[str] = ()) -> Iterator[str]:
        """Yield the remarks; of columns that number the rows that they are left out, of those to exclude nothing."""
        for name in index:
            yield f"{self._column(name)} numbers the rows, and is left out."
        for k, (name, kind) in enumerate(self.types.items(), 1):
            if name == "" and name not in (*index, *exclude) and not pa.types.is_null(kind):
                yield f"Column {k} has no name; give it one."
        for name, reason in self.few.items():
            yield f"{self._column(name)} {reason}."
        if self.doubtful:
            what, are, were = ("Columns", "look", "were") if len(self.doubtful) > 1 else ("Column", "looks", "was")
            names = listed(self.doubtful)
            yield f"{what} {names} {are} like numbers with commas, and {were} read as text; {COMMAS}."

    def _column(self, name: str) -> str:
        place = list(self.types).index(name) + 1
        return f"Column {name!r}" if name else f"Column {place}, which has no name,"


BOM, CHUNK, SHOWN_LINES = b"\xef\xbb\xbf", 1 << 20, 3
NUMBER = re.compile(rb'\s*"?[+-]?[\d.,]+"?\s*')
CLOSING = re.compile(rb'(?:[^"]+|"")*+"')  # a quoted field, from behind the quote that opens it


class Row(NamedTuple):
    """A row of text: its first line, counted from 1, its first byte, and all of its bytes."""

    line: int
    start: int
    text: bytes

    @property
    def content(self) -> bytes:
        """The bytes without the end of the line, and without the mark that some files begin with."""
        return self.text.strip(b"\r\n").removeprefix(BOM)


@dataclass(frozen=True)
class TextRange:
    """Rows of a file of delimited text from one byte to another, without some of them.

    Attributes
    ----------
    path : str
    compression : str or None
    separator : str
    start : int
        Byte; 0 of a compressed file.
    stop : int or None
    without : tuple of Row
        Rows that are left out.
    """

    path: str
    compression: str | None
    separator: str
    start: int = 0
    stop: int | None = None
    without: tuple[Row, ...] = ()

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """A stream of the bytes."""
        with self._all() as stream:
            gaps = [(row.start - self.start, len(row.text)) for row in self.without]
            yield io.BufferedReader(Without(stream, gaps), CHUNK) if gaps else stream

    def lines(self) -> Iterator[int]:
        """Yield the line of each row, where the first line of the file is 1; blank lines are no rows."""
        left_out, above = {row.start for row in self.without}, lines_above(self.path, self.start)
        with self._all() as stream:
            for row in rows_of(stream, self.separator):
                if row.start + self.start not in left_out:
                    yield above + row.line

    def line(self, index: int) -> int:
        """Line of a row, which counts from 0."""
        return next(islice(self.lines(), index, None), index + 1)

    def names_again(self) -> tuple[Row, ...]:
        """Rows below that of the names that equal it, by the bytes.

        A single column may hold its name, and names that are all numbers are perhaps a row of a file without names.
        """
        with self._all() as stream:
            first = next(rows_of(stream, self.separator), None)
        if first is None or b"\n" in first.content:
            return ()
        fields = first.content.split(self.separator.encode())
        if len(fields) < 2 or all(map(NUMBER.fullmatch, fields)):
            return ()
        with self._all() as stream:
            if not _holds(stream, first.content, first.start + len(first.text)):
                return ()
        with self._all() as stream:
            rows = rows_of(stream, self.separator)
            return tuple(row for row in rows if row.start > first.start and row.content == first.content)

    @contextmanager
    def _all(self) -> Iterator[Any]:
        if self.compression:
            with pa.input_stream(self.path, compression=self.compression) as stream:
                yield stream
        else:
            with pa.OSFile(self.path) as file:
                stop = os.path.getsize(self.path) if self.stop is None else self.stop
                yield file.get_stream(self.start, stop - self.start)


class Without(io.RawIOBase):
    """A stream of bytes without some ranges of it, each given by its first byte and its length."""

    def __init__(self, stream: Any, gaps: Iterable[tuple[int, int]]) -> None:
        self._stream, self._gaps, self._position = stream, sorted(gaps, reverse=True), 0

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes, up to the next gap at most; their number."""
        while self._gaps and self._gaps[-1][0] == self._position:
            self._position += len(self._stream.read(self._gaps.pop()[1]))
        most = min(len(buffer), self._gaps[-1][0] - self._position if self._gaps else len(buffer))
        found = self._stream.read(most)
        buffer[: len(found)] = found
        self._position += len(found)
        return len(found)


def rows_of(stream: Any, separator: str) -> Iterator[Row]:
    """Yield the rows of delimited text as Arrow parses them: with line breaks in quoted fields, without blank lines."""
    opening = re.compile(rb'(?:^|%s)"' % re.escape(separator.encode()))
    position, text, open_quote, line, start = 0, b"", False, 1, 0
    for number, more in enumerate(io.BufferedReader(stream, CHUNK), 1):
        if not open_quote:
            text, line, start = b"", number, position
        position += len(more)
        text += more
        open_quote = _ends_open(more.removeprefix(BOM) if number == 1 else more, open_quote, opening)
        if not open_quote and text.strip(b"\r\n"):
            yield Row(line, start, text)
    if open_quote:
        yield Row(line, start, text)


def _ends_open(line: bytes, open_quote: bool, opening: re.Pattern[bytes]) -> bool:
    """Whether a quoted field goes on after a line; a quote within a field that has none in front is a character."""
    if b'"' not in line:
        return open_quote
    place = 0
    while True:
        found = CLOSING.match(line, place) if open_quote else opening.search(line, place)
        if found is None:
            return open_quote
        place, open_quote = found.end(), not open_quote


def _holds(stream: Any, mark: bytes, after: int) -> bool:
    """Whether a mark is in a stream behind a position."""
    stream.read(after)
    rest = b""
    while chunk := stream.read(CHUNK):
        block = rest + chunk
        if mark in block:
            return True
        rest = block[-len(mark) :]
    return False


def names_left_out(lines: Sequence[int], place: str = "") -> str:
    """What to say of rows of names below the first, with a place such as " of b.csv"."""
    shown, more = [f"{line:,}" for line in lines[:SHOWN_LINES]], len(lines) - SHOWN_LINES
    if len(lines) == 1:
        return f"Line {shown[0]}{place} repeats the column names, and is left out."
    listed = f"{', '.join(shown)} and {more:,} more" if more > 0 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"Lines {listed}{place} repeat the column names, and are left out."
