"""ARFF files, as Weka writes them: the header that names the columns, and the rows."""

from __future__ import annotations

import io
import re
from typing import NamedTuple

from bochner.sources.base import SourceError

# A name in quotes or of one word, and the type behind it
ATTRIBUTE = re.compile(
    rb"""@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{]+)\s*(.*)""",
    re.IGNORECASE,
)
# Values of a row, in quotes or not
VALUES = re.compile(rb"""(?:^|,)\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^,]*)""")
ESCAPED = re.compile(rb"\\(.)")
QUOTES = (b"'", b'"')


class ArffHeader(NamedTuple):
    """What stands above the rows.

    Attributes
    ----------
    names : tuple of str
        Of the columns.
    text : tuple of str
        Columns of text or of named classes.
    size, lines : int
        Bytes and lines.
    """

    names: tuple[str, ...]
    text: tuple[str, ...]
    size: int
    lines: int

    @classmethod
    def of(cls, head: bytes) -> ArffHeader:
        """That of a text that begins so, in UTF-8.

        Raises
        ------
        SourceError
            Where there is none, or its rows are sparse.
        """
        names = []
        text = []
        stream = io.BytesIO(head)
        for line in stream:
            content = line.strip()
            if content.lower() == b"@data":
                break
            if match := ATTRIBUTE.match(content):
                name = _unquoted(match[1]).decode(errors="replace")
                names.append(name)
                if match[2].lower().startswith((b"{", b"string")):
                    text.append(name)
        else:
            raise SourceError(
                "an ARFF file without a line @data; write @attribute lines and @data "
                "above the rows, or rename it .csv if it is a CSV"
            )
        size = stream.tell()
        n_lines = head.count(b"\n", 0, size)
        header = cls(tuple(names), tuple(text), size, n_lines)
        first = next(filter(None, map(row_of, stream)), b"")
        if first.startswith(b"{"):
            raise SourceError(
                "an ARFF file with sparse rows, such as {0 1, 3 2}; write all values "
                "of each row, such as 1,0,0,2"
            )
        return header


def row_of(row: bytes) -> bytes:
    """A row of an ARFF file as one of a CSV; empty where it is a comment."""
    content = row.strip()
    if not content or content.startswith(b"%"):
        return b""
    if b"," not in content:
        content = content.replace(b"\t", b",")
    if any(quote in content for quote in QUOTES):
        values = map(_requoted, VALUES.findall(content))
    else:
        values = map(bytes.strip, content.split(b","))
    return b",".join(values) + b"\n"


def _unquoted(word: bytes) -> bytes:
    """A word without the quotes around it."""
    if not word.startswith(QUOTES):
        return word.strip()
    return ESCAPED.sub(rb"\1", word[1:-1])


def _requoted(word: bytes) -> bytes:
    """A word with the quotes of a CSV, where it has quotes."""
    text = _unquoted(word)
    if not word.startswith(QUOTES):
        return text
    return b'"' + text.replace(b'"', b'""') + b'"'
