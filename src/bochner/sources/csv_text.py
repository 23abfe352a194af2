"""The text of one CSV file: how it is opened, read block by block, and what is wrong
with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import pyarrow as pa

from bochner.blocks import TEXT_BYTES
from bochner.data.file_kinds import HEAD, compression_of, kind_by_content, kind_by_name
from bochner.settings import require_addresses
from bochner.sources.base import SourceError
from bochner.sources.dialect import Dialect, dialect_of, fields_of, left_out
from bochner.sources.paths import FileState, reason
from bochner.sources.text_files import (
    Row,
    damaged,
    opened_bytes,
    require_closed,
    rows_of,
    whole_rows,
)

FIRST_BYTES = 4 * HEAD  # which tell how a table is written
LONGEST_HEADER = 1 << 24  # bytes of the header of an ARFF file
NUMBER = re.compile(rb'\s*"?[+-]?[\d.,]+"?\s*')
NOT_UTF8 = "text that is not UTF-8; save the file with UTF-8 encoding"

Types = Mapping[str, pa.DataType]


@dataclass(frozen=True)
class CsvText:
    """A CSV file.

    Attributes
    ----------
    file : FileState
    dialect : Dialect
        How the file is written.
    """

    file: FileState
    dialect: Dialect = field(default_factory=Dialect)

    @property
    def path(self) -> str:
        """Of the file."""
        return self.file.path

    @property
    def separator(self) -> str:
        """What stands between fields."""
        return self.dialect.separator

    def lines(self) -> Iterator[int]:
        """Yield the line of each row that is read; the first line is 1, and blank
        lines are no rows.
        """
        starts = {row.start for row in self.dialect.without}
        for row in self.rows():
            if row.start not in starts and self.dialect.rewritten(row.text):
                yield row.line

    def line_of(self, row: int) -> int:
        """Line of the file of one of the rows that are read, which count from 0."""
        return next(islice(self.lines(), row, None), row + 1)

    def rows(self) -> Iterator[Row]:
        """Yield the rows as they are in the file, from that of the names on."""
        return rows_of(self._whole_rows(), self.separator)

    def _whole_rows(self) -> Iterator[Row]:
        """Yield the rows as they are in the file, in UTF-8, many at a time."""
        dialect = self.dialect
        line = dialect.lines_above + 1
        with opened_bytes(self.path) as raw, dialect.recoded(raw) as stream:
            stream.read(dialect.begin)
            yield from whole_rows(
                stream, self.separator, TEXT_BYTES, line, dialect.begin
            )

    def surveyed(self) -> CsvText:
        """The file without the rows that only a look at all bytes tells to be none of
        the table.
        """
        first = next(self.rows(), Row(1, 0, b""))
        # What a row is like that repeats the names: a single column may hold its name,
        # and names that are all numbers are perhaps a row of a file without names
        fields = first.content.split(self.separator.encode())
        may_repeat = (
            self.dialect.has_names
            and b"\n" not in first.content
            and len(fields) > 1
            and not all(map(NUMBER.fullmatch, fields))
        )
        mark = first.content if may_repeat else b""
        starts = {first.start, *(row.start for row in self.dialect.without)}
        repeated = list[Row]()
        ends = list[Row]()
        for block in self._whole_rows():
            # Bytes that are not UTF-8
            if not block.text.isascii() and first.text.isascii():
                dialect = self.dialect.with_encoding_of(block.text)
                before = self.dialect.encoding, self.dialect.lone_returns
                if dialect.encoding != "utf-8" and before == ("utf-8", False):
                    return replace(self, dialect=dialect).surveyed()
            # Rows that repeat the names, but for those that are left out already
            if mark and mark in block.text:
                rows = rows_of([block], self.separator)
                repeated += [
                    row
                    for row in rows
                    if row.content == mark and row.start not in starts
                ]
            ends = [*ends[-1:], block]
        last = list(rows_of(ends, self.separator))
        if last:
            require_closed(last[-1], self.separator, self.path)
        # Rows below the table
        n_below = self.dialect.rows_below(last)
        below = [row for row in last[len(last) - n_below :] if row.start not in starts]
        without = (*self.dialect.without, *repeated, *below)
        dialect = replace(self.dialect, without=without).saying(
            left_out(repeated, "the column names again"),
            left_out(below, "below the table"),
        )
        return replace(self, dialect=dialect)

    def blocks(self) -> Iterator[bytes]:
        """Yield the rows that are not left out as Arrow reads them, many at a time."""
        without = sorted(self.dialect.without, key=lambda row: row.start, reverse=True)
        for block in self._whole_rows():
            text = block.text
            for row in without:
                start = row.start - block.start
                if 0 <= start < len(block.text):
                    text = text[:start] + text[start + len(row.text) :]
            if self.dialect.form != "plain":
                rows = rows_of([Row(1, 0, text)], self.separator)
                text = b"".join(self.dialect.rewritten(row.text) for row in rows)
            if text.strip(b"\r\n"):
                yield text

    def table(
        self, block: bytes, types: Types, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Some columns of a block of rows, or all, in types that are given, or else
        those of their values in the block.

        Empty fields, NA, NaN and null are missing; in an ARFF file ? and empty ones.
        """
        from pyarrow import csv

        # Its threads are waited for, also where they cannot begin
        require_addresses("Reading a CSV file")
        return csv.read_csv(
            pa.BufferReader(block),
            csv.ReadOptions(
                use_threads=False,
                block_size=len(block),
                column_names=self.dialect.names,
            ),
            csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
            csv.ConvertOptions(
                strings_can_be_null=True,
                null_values=["?", ""] if self.dialect.form == "arff" else None,
                column_types=types,
                decimal_point=self.dialect.decimal_point or ".",
                include_columns=columns,
            ),
        )

    def first_types(self) -> pa.Schema:
        """The columns of the file, with the types of their values in the first
        block.
        """
        with self.problems():
            for block in self.blocks():
                return self.table(block, {}).schema
        return pa.schema([(name, pa.null()) for name in self.dialect.names])

    @contextmanager
    def problems(self, rows_above: int = 0) -> Iterator[None]:
        """Tell what is wrong with the file by SourceError; Arrow counts the rows of a
        block, above which others are.
        """
        try:
            yield
        except UnicodeDecodeError:
            raise SourceError(f"{self.path}: {NOT_UTF8}") from None
        except pa.ArrowMemoryError:
            raise
        except (pa.ArrowException, OSError) as error:
            self.file.check()
            if isinstance(error, OSError) and compression_of(self.path):
                raise damaged(self.file, error) from error
            raise SourceError(
                f"{self.path}: {_problem(error, self, rows_above)}"
            ) from error


def whole_file(path: Path) -> CsvText:
    """All rows of a file, of which only the first lines are read; SourceError where it
    is no CSV.
    """
    whole = CsvText(FileState.of(path))
    kind = kind_by_name(path)
    most = LONGEST_HEADER if kind == "arff" else FIRST_BYTES
    with whole.problems(), opened_bytes(whole.path) as stream:
        head = stream.read(most)
    is_whole = len(head) < most
    if (content := kind_by_content(head)) != "text":
        what = "not a CSV"
        if compression := compression_of(path):
            what = f"this is {content} under {compression}; write it as CSV or Parquet"
        raise SourceError(f"{path}: {what}")
    try:
        dialect = dialect_of(head, is_whole, kind)
    except SourceError as error:
        raise SourceError(f"{path}: {error}") from None
    whole = replace(whole, dialect=dialect)
    with whole.problems():
        if dialect.has_names:
            first = next(whole.rows(), Row(1, 0, b""))
            first.text.decode()  # an error where it is not UTF-8
            written = first._replace(text=dialect.rewritten(first.text))
            dialect = replace(
                dialect,
                names=dialect.names
                or tuple(fields_of(written.content, dialect.separator)),
                without=(first, *dialect.without),
            )
    if not dialect.names:
        raise SourceError(f"{path}: the file has no column names and no rows")
    return replace(whole, dialect=dialect)


def _problem(error: Exception, text: CsvText, rows_above: int) -> str:
    """What Arrow found wrong with a block of rows, and the cure; with the line of the
    file, and the column.
    """
    names = text.dialect.names
    said = reason(error).removeprefix("CSV parse error: ")
    place = list[str]()
    row = 0
    if match := re.match(r"In CSV column #(\d+): ", said):
        k = int(match[1])
        said = said[match.end() :]
        place = [f"column {names[k]!r}" if k < len(names) else f"column number {k + 1}"]
    if match := re.match(r"Row #(\d+): ", said):
        said = said[match.end() :]
        row = int(match[1]) - 1 + rows_above
        place = [f"line {text.line_of(row)}", *place]
    where = ", ".join(place)
    if "UTF8" in said:
        return f"{where}: {NOT_UTF8}"
    if where and (match := re.match(r"Expected (\d+) columns, got (\d+)", said)):
        cure = "quote fields that hold the separator, or fix the line"
        if text.dialect.form == "ends":
            cure = (
                "name each column that has values, or empty the fields behind the last "
                "name"
            )
        elif text.dialect.has_names and row == 0 != int(match[1]) - text.dialect.width:
            line = next(text.rows()).line
            cure = (
                f"line {line} should name each column: remove what is above the names, "
                "or add those that lack"
            )
        elif text.dialect.form == "blanks":
            cure = "put fields that hold blanks in quotes, or fix the line"
        return f"{where}: {match[1]} fields expected, {match[2]} found; {cure}"
    if said.startswith("CSV conversion error to "):
        kind, _, value = said.removeprefix("CSV conversion error to ").partition(": ")
        said = f"{value} for {kind}; fix it, or give another type in schema="
    return f"{where}: {said}" if where else said
