"""Files of text as bytes, and the rows of delimited text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from bochner.data.file_kinds import compression_of
from bochner.sources.base import SourceError
from bochner.sources.paths import FileState, arrow_file, reason


def opened_bytes(path: str) -> Any:
    """A stream of the bytes of a file, without its compression."""
    return pa.input_stream(arrow_file(path), compression=compression_of(path))


def damaged(file: FileState, error: OSError) -> SourceError:
    """What is wrong where the bytes cannot be read; SourceError at once where the
    file is another one by now.
    """
    file.check()
    compression = compression_of(file.path)
    what = f"damaged {compression} file" if compression else "damaged file"
    return SourceError(f"{file.path}: {what} ({reason(error)}); copy it again")


BOM = b"\xef\xbb\xbf"
LONGEST_ROW = 1 << 30  # bytes; where it is longer, Arrow refuses a quote without an end


class Row(NamedTuple):
    """A row of text, or several: the first line, counted from 1, the first byte, and
    all bytes.
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


def _row_pattern(separator: str, last_quote: bytes = b'"?+') -> bytes:
    """What the fields of a row match, as Arrow parses them: with line breaks in quoted
    ones; the last quote may lack. A quote within a field is a character.
    """
    mark = re.escape(separator.encode())
    plain = rb"[^%s\n]*+" % mark
    field = rb'(?:"(?:[^"]++|"")*+%s%s|(?!")%s)' % (last_quote, plain, plain)
    return rb"%s(?:%s%s)*+" % (field, mark, field)


def whole_rows(
    stream: Any, separator: str, n_bytes: int, line: int = 1, start: int = 0
) -> Iterator[Row]:
    """Yield delimited text about `n_bytes` bytes at a time, whole rows each time; more
    where a row is longer.

    Parameters
    ----------
    stream : stream of bytes
    separator : str
    n_bytes : int
    line, start : int
        Place of the stream in the text.
    """
    rows = re.compile(rb"(?:%s\n)*+" % _row_pattern(separator))
    rest = stream.read(n_bytes)
    while more := stream.read(max(n_bytes, len(rest))):
        end = rest.rfind(b"\n") + 1
        if b'"' in rest:
            whole = rows.match(rest)
            end = whole.end() if whole else 0
        if len(rest) >= LONGEST_ROW:
            end = len(rest)
        if end:
            yield Row(line, start, rest[:end])
        line += rest.count(b"\n", 0, end)
        start += end
        rest = rest[end:] + more
    if rest:
        yield Row(line, start, rest)


def require_closed(row: Row, separator: str, path: str) -> None:
    """Raise SourceError where the last row of a file has a quote that is never
    closed, as its field would hold all lines below.
    """
    if not re.fullmatch(_row_pattern(separator, b'"'), row.content):
        raise SourceError(
            f"{path}: line {row.line}: a quote is never closed; close it, or write it "
            "twice in a field in quotes"
        )


def rows_of(blocks: Iterable[Row], separator: str) -> Iterator[Row]:
    """Yield the single rows of blocks of delimited text, without blank lines."""
    pattern = re.compile(rb"%s(?:\n|\Z)" % _row_pattern(separator))
    for block in blocks:
        line = block.line
        for match in pattern.finditer(block.text):
            text = match[0]
            if text.strip(b"\r\n"):
                yield Row(line, block.start + match.start(), text)
            line += text.count(b"\n")
