"""Files of text as bytes: the rows of delimited text, and a stream that leaves some
of them out.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from bochner.data.file_kinds import compression_of
from bochner.sources.base import SourceError
from bochner.sources.paths import FileState, arrow_file, reason


def opened_bytes(path: str) -> Any:
    """A stream of the bytes of a file, without its compression."""
    compression = compression_of(path)
    stream = arrow_file(path)
    return pa.CompressedInputStream(stream, compression) if compression else stream


def damaged(file: FileState, error: OSError) -> SourceError:
    """What is wrong where the bytes cannot be read; SourceError at once where the
    file is another one by now.
    """
    file.check(file.path)
    compression = compression_of(file.path)
    what = f"damaged {compression} file" if compression else "damaged file"
    return SourceError(f"{file.path}: {what} ({reason(error)}); copy it again")


BOM, ROW_CHUNK = b"\xef\xbb\xbf", 1 << 20
TAIL = 1 << 13  # bytes at the end of a file that tell what stands below its table
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


def whole_rows(stream: Any, separator: str, n_bytes: int) -> Iterator[bytes]:
    """Yield delimited text about `n_bytes` bytes at a time, whole rows each time, as
    Arrow parses them; more where a row is longer.
    """
    mark = re.escape(separator.encode())
    plain = rb"[^%s\n]*+" % mark
    field = rb'(?:"(?:[^"]++|"")*+"%s|(?!")%s)' % (plain, plain)
    rows = re.compile(rb"(?:%s(?:%s%s)*+\n)*+" % (field, mark, field))
    rest = stream.read(n_bytes).removeprefix(BOM)
    while more := stream.read(max(n_bytes, len(rest))):
        end = rest.rfind(b"\n") + 1
        if b'"' in rest:
            whole = rows.match(rest)
            end = whole.end() if whole else 0
        if end:
            yield rest[:end]
        rest = rest[end:] + more
    if rest:
        yield rest


def rows_of(
    stream: Any, separator: str, begin: int = 0, lines_above: int = 0
) -> Iterator[Row]:
    """Yield the rows of delimited text as Arrow parses them: with line breaks in
    quoted fields, without blank lines.

    Parameters
    ----------
    stream : stream of bytes
    separator : str
    begin, lines_above : int
        Place of the stream in the text: its first byte, and the lines before it.
    """
    opening = re.compile(rb'(?:^|%s)"' % re.escape(separator.encode()))
    position = begin
    text = b""
    open_quote = False
    line = 1
    start = begin
    first = lines_above + 1
    for number, more in enumerate(io.BufferedReader(stream, ROW_CHUNK), first):
        if not open_quote:
            text = b""
            line = number
            start = position
        position += len(more)
        text += more
        open_quote = _ends_open(
            more.removeprefix(BOM) if number == first else more, open_quote, opening
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
        match = (
            CLOSING.match(line, place) if open_quote else opening.search(line, place)
        )
        if match is None:
            return open_quote
        place = match.end()
        open_quote = not open_quote


class Pieces(io.RawIOBase):
    """A stream of bytes that come in pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = filter(None, pieces)
        self._rest = b""

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes, of one piece at most; their number."""
        piece = self._rest or next(self._pieces, b"")
        n = min(len(buffer), len(piece))
        buffer[:n] = piece[:n]
        self._rest = piece[n:]
        return n


def stream_of(pieces: Iterable[bytes]) -> io.BufferedReader:
    """A stream of bytes that come in pieces."""
    return io.BufferedReader(Pieces(pieces), ROW_CHUNK)


def stream_without(stream: Any, gaps: Sequence[tuple[int, int]]) -> Any:
    """A stream without some ranges of it, each given by its first byte and its
    length.
    """
    return stream_of(_blocks_without(stream, gaps)) if gaps else stream


def _blocks_without(stream: Any, gaps: Sequence[tuple[int, int]]) -> Iterator[bytes]:
    position = 0
    for first, length in sorted(gaps):
        for start in range(position, first, ROW_CHUNK):
            yield stream.read(min(ROW_CHUNK, first - start))
        stream.read(length)
        position = first + length
    yield from blocks(stream)


def blocks(stream: Any) -> Iterator[bytes]:
    """Yield the bytes of a stream, some at a time."""
    return iter(lambda: stream.read(ROW_CHUNK), b"")


class Survey(NamedTuple):
    """What all bytes of a text tell.

    Attributes
    ----------
    size : int
        Bytes.
    has_mark : bool
        Whether a mark is in it.
    beyond_ascii : bytes
        The first block that has other characters; empty where none has.
    tail : bytes
        The last lines.
    """

    size: int
    has_mark: bool
    beyond_ascii: bytes
    tail: bytes


def survey(stream: Any, after: int, mark: bytes) -> Survey:
    """Read a stream to its end, and look for a mark behind a position."""
    size = above = len(stream.read(after))
    has_mark = False
    beyond_ascii = b""
    rest = b""
    for block in blocks(stream):
        size += len(block)
        has_mark = has_mark or (bool(mark) and mark in rest + block)
        if not beyond_ascii and not block.isascii():
            beyond_ascii = block
        rest = (rest + block)[-max(TAIL, len(mark)) :]
    # Whole lines, where there are more above the last bytes
    if size - above > len(rest):
        _, _, rest = rest.partition(b"\n")
    return Survey(size, has_mark, beyond_ascii, rest)
