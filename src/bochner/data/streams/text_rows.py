"""Rows of CSV files, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from bochner.data.csv_text import HEAD, Row, TextRange, csv_options, csv_problem, first_line, not_utf8, separator_of
from bochner.data.files import COMPRESSED, kind_by_content
from bochner.data.streams.lines import chunks, line_starts
from bochner.data.table_files import TableFileError, checked_head
from bochner.sources.base import SourceError
from bochner.sources.paths import FileState, kind_of

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
