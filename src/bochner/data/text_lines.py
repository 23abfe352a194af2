"""Delimited text by the lines of its file: where rows begin, and where the row of names comes again."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

from bochner.data.streams.lines import lines_above

BOM, CHUNK, SHOWN = b"\xef\xbb\xbf", 1 << 20, 3
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
    shown, more = [f"{line:,}" for line in lines[:SHOWN]], len(lines) - SHOWN
    if len(lines) == 1:
        return f"Line {shown[0]}{place} repeats the column names, and is left out."
    listed = f"{', '.join(shown)} and {more:,} more" if more > 0 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"Lines {listed}{place} repeat the column names, and are left out."
