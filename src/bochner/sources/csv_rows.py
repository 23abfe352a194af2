"""Rows of delimited text by its bytes: where each begins, and a stream that leaves some of them out."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

BOM, CHUNK = b"\xef\xbb\xbf", 1 << 20
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


def holds(stream: Any, mark: bytes, after: int) -> bool:
    """Whether a mark is in a stream behind a position."""
    stream.read(after)
    rest = b""
    while chunk := stream.read(CHUNK):
        block = rest + chunk
        if mark in block:
            return True
        rest = block[-len(mark) :]
    return False
