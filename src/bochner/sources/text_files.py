"""Files of text as bytes: where lines begin, the rows of delimited text, and a
stream that leaves some of them out.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from bochner.sources.base import SourceError
from bochner.sources.paths import FileState, arrow_file, reason

CHUNK, LONGEST_LINE = 1 << 22, 1 << 24
MOST_CUTS = 4096


@dataclass(frozen=True)
class FileRange:
    """Whole lines of a file of text from one byte to another.

    Attributes
    ----------
    file : FileState
    compression : str or None
        Of a file that is read as one range.
    start, stop : int
        Bytes.
    """

    file: FileState
    compression: str | None
    start: int
    stop: int

    @property
    def name(self) -> str:
        """The file, and the bytes in it."""
        whole = self.start == 0 and self.stop == self.file.size
        return (
            self.file.path
            if whole
            else f"{self.file.path}, bytes {self.start:,} to {self.stop:,}"
        )

    @contextmanager
    def opened_bytes(self) -> Iterator[Any]:
        """A stream of the bytes."""
        if self.compression:
            with (
                arrow_file(self.file.path) as file,
                pa.CompressedInputStream(file, self.compression) as stream,
            ):
                yield stream
        else:
            with arrow_file(self.file.path) as file:
                yield file.get_stream(self.start, self.stop - self.start)

    def lines_above(self) -> int:
        """Number of lines before the first."""
        return sum(
            chunk.count(b"\n") for chunk in chunks(self.file.path, 0, self.start)
        )

    def damaged(self, error: OSError) -> SourceError:
        """What is wrong where the bytes cannot be read; SourceError at once where
        the file is another one by now.
        """
        self.file.check(self.name)
        what = (
            f"damaged {self.compression} file" if self.compression else "damaged file"
        )
        return SourceError(f"{self.file.path}: {what} ({reason(error)}); copy it again")


def line_starts(path: str, size: int, step: int) -> list[int]:
    """Byte positions of starts of lines, about `step` apart, with 0 in front and the
    size at the end.

    They depend on the file alone. A file of one line, or of none that ends soon, is not
    cut.
    """
    step = max(step, -(-size // MOST_CUTS))
    starts = [0]
    with open(path, "rb") as file:
        for position in range(step, size, step):
            if position > starts[-1]:
                file.seek(position - 1)
                if not file.readline(LONGEST_LINE).endswith(b"\n"):
                    break
                starts.append(file.tell())
    return [*(start for start in starts if start < size), size]


def chunks(path: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """Yield the bytes of a file from one position to another, some at a time."""
    with open(path, "rb") as file:
        file.seek(start)
        left = -1 if stop is None else stop - start
        while left and (chunk := file.read(CHUNK if left < 0 else min(CHUNK, left))):
            left -= len(chunk) if left > 0 else 0
            yield chunk


BOM, ROW_CHUNK = b"\xef\xbb\xbf", 1 << 20
CLOSING = re.compile(
    rb'(?:[^"]+|"")*+"'
)  # a quoted field, from behind the quote that opens it


class Row(NamedTuple):
    """A row of text: its first line, counted from 1, its first byte, and all of its
    bytes.
    """

    line: int
    start: int
    text: bytes

    @property
    def content(self) -> bytes:
        """The bytes without the end of the line, and without the mark that some
        files begin with.
        """
        return self.text.strip(b"\r\n").removeprefix(BOM)


def rows_of(stream: Any, separator: str) -> Iterator[Row]:
    """Yield the rows of delimited text as Arrow parses them: with line breaks in
    quoted fields, without blank lines.
    """
    opening = re.compile(rb'(?:^|%s)"' % re.escape(separator.encode()))
    position = 0
    text = b""
    open_quote = False
    line = 1
    start = 0
    for number, more in enumerate(io.BufferedReader(stream, ROW_CHUNK), 1):
        if not open_quote:
            text = b""
            line = number
            start = position
        position += len(more)
        text += more
        open_quote = _ends_open(
            more.removeprefix(BOM) if number == 1 else more, open_quote, opening
        )
        if not open_quote and text.strip(b"\r\n"):
            yield Row(line, start, text)
    if open_quote:
        yield Row(line, start, text)


def _ends_open(line: bytes, open_quote: bool, opening: re.Pattern[bytes]) -> bool:
    """Whether a quoted field goes on after a line; a quote within a field that has
    none in front is a character.
    """
    if b'"' not in line:
        return open_quote
    place = 0
    while True:
        found = (
            CLOSING.match(line, place) if open_quote else opening.search(line, place)
        )
        if found is None:
            return open_quote
        place = found.end()
        open_quote = not open_quote


class Without(io.RawIOBase):
    """A stream of bytes without some ranges of it, each given by its first byte and
    its length.
    """

    def __init__(self, stream: Any, gaps: Iterable[tuple[int, int]]) -> None:
        self._stream = stream
        self._gaps = sorted(gaps, reverse=True)
        self._position = 0

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes, up to the next gap at most; their
        number.
        """
        while self._gaps and self._gaps[-1][0] == self._position:
            self._position += len(self._stream.read(self._gaps.pop()[1]))
        most = min(
            len(buffer),
            self._gaps[-1][0] - self._position if self._gaps else len(buffer),
        )
        found = self._stream.read(most)
        buffer[: len(found)] = found
        self._position += len(found)
        return len(found)


def holds(stream: Any, mark: bytes, after: int) -> bool:
    """Whether a mark is in a stream behind a position."""
    stream.read(after)
    rest = b""
    while chunk := stream.read(ROW_CHUNK):
        block = rest + chunk
        if mark in block:
            return True
        rest = block[-len(mark) :]
    return False
