"""Parts of LIBSVM (svmlight) files."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.csv_text import first_line
from bochner.data.files import COMPRESSED, kind_by_content
from bochner.data.streams.lines import line_starts, lines_above, span_digest
from bochner.data.table_input import require_width
from bochner.engines.local import in_threads
from bochner.sources.base import READ_BYTES, Batch, SourceError
from bochner.sources.paths import FileState, labels

PART_BYTES, READ_SHARE, LEAST_READ = 1 << 24, 4, 1 << 10  # of text; its numbers take about as much, and as much again
MOST_FEATURES = 2**31 - 1


class Seen(NamedTuple):
    """What a look at the rows of a span found: their number, the least and the greatest index."""

    n_rows: int
    least: int
    greatest: int


@dataclass(frozen=True)
class Lines:
    """Lines of a LIBSVM file from one byte to another; all of a compressed one."""

    file: FileState
    compression: str | None
    start: int
    stop: int

    @property
    def place(self) -> str:
        """Where the rows are, for messages."""
        whole = self.start == 0 and self.stop == self.file.size
        return self.file.path if whole else f"{self.file.path}, bytes {self.start:,} to {self.stop:,}"

    def matrices(self, n_features: int, n_bytes: int) -> Iterator[tuple[sp.csr_array, NDArray[np.float64]]]:
        """Yield the rows and their labels, the text of about so many bytes at a time; indices as they are written."""
        line = 0
        for text in self._texts(n_bytes):
            try:
                X, y = _parsed(text, n_features)
            except (ValueError, OverflowError) as error:
                bad, cause = _first_bad(text, n_features, error)
                number = lines_above(self.file.path, self.start) + line + bad + 1
                cure = "each line is a label and index:value pairs in order of indices"
                raise SourceError(f"{self.file.path}, line {number}: {first_line(cause)}; {cure}") from error
            line += text.count(b"\n")
            if X.shape[0]:
                yield X, y

    def look(self) -> Seen:
        """Look at all rows once."""
        n_rows, least, greatest = 0, MOST_FEATURES, -1
        for X, _ in self.matrices(MOST_FEATURES, READ_BYTES):
            n_rows += X.shape[0]
            if X.nnz:
                least, greatest = min(least, int(X.indices.min())), max(greatest, int(X.indices.max()))
        return Seen(n_rows, least, greatest)

    def line(self, index: int) -> int:
        """Number of the first line that has this index, or a greater one; 0 where there is none."""
        above = lines_above(self.file.path, self.start)
        for text in self._texts(READ_BYTES):
            try:
                _parsed(text, index)
            except ValueError as error:
                return above + _first_bad(text, index, error)[0] + 1
            above += text.count(b"\n")
        return 0

    def _texts(self, n_bytes: int) -> Iterator[bytes]:
        """Yield whole lines, about so many bytes of them at a time."""
        rest = b""
        for chunk in self._chunks(n_bytes):
            end = chunk.rfind(b"\n") + 1
            if end:
                yield rest + chunk[:end]
                rest = chunk[end:]
            else:
                rest += chunk
        if rest:
            yield rest

    def _chunks(self, n_bytes: int) -> Iterator[bytes]:
        try:
            with pa.input_stream(self.file.path, compression=self.compression) as stream:
                if self.compression is None:
                    stream.seek(self.start)
                left = self.stop - self.start
                while chunk := stream.read(n_bytes if self.compression else min(n_bytes, left)):
                    left -= len(chunk)
                    yield chunk
        except OSError as error:
            self.file.check(self.place)
            what = f"damaged {self.compression or ''} file".replace("  ", " ")
            raise SourceError(f"{self.file.path}: {what} ({first_line(error)}); copy it again") from error


@dataclass(frozen=True)
class SvmlightPart:
    """Rows of a LIBSVM file, a `Part` whose batches are CSR matrices with their labels.

    Attributes
    ----------
    lines : Lines
    label : str
        Name of the file relative to the folder of all.
    n_features : int
    first_index : int
        Index of the first column, 0 or 1.
    rows : int
    """

    lines: Lines
    label: str
    n_features: int
    first_index: int
    rows: int

    @property
    def file(self) -> FileState:
        """The file that holds the rows."""
        return self.lines.file

    @property
    def name(self) -> str:
        """The file, and the bytes in it."""
        return self.lines.place

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows

    def read(self, n_bytes: int = READ_BYTES) -> Iterator[Batch]:
        """Yield the rows in order, in batches of about so many bytes at most."""
        self.lines.file.check(self.name)
        count, width = 0, self.n_features + self.first_index
        for X, y in self.lines.matrices(width, max(n_bytes // READ_SHARE, LEAST_READ)):
            count += len(y)
            shape = (len(y), self.n_features)
            yield Batch(sp.csr_array((X.data, X.indices - self.first_index, X.indptr), shape=shape), y)
        self.lines.file.check(self.name)
        if count != self.rows:
            raise SourceError(f"{self.name}: {count} rows where there were {self.rows}; open the file again")

    def stamp(self) -> str:
        """Size, first and last bytes of what is read."""
        file, start, stop = self.lines.file, self.lines.start, self.lines.stop
        place = f"{self.label} {file.size} {start} {stop} {span_digest(file.path, start, stop)}"
        return f"{place} {self.n_features} {self.first_index}"


def parts(paths: Sequence[Path], n_features: int | None = None) -> tuple[tuple[SvmlightPart, ...], int]:
    """Parts of LIBSVM files, and the number of columns, by a look at all rows.

    Columns are counted from 1, unless some index is 0.

    Parameters
    ----------
    paths : sequence of Path
    n_features : int, optional
        Number of columns, where the files need not have all of them; by default the greatest that they have.

    Raises
    ------
    SourceError
        Where a line is no label with index:value pairs, there are no rows, more columns than are given, or more than
        there is memory for.
    """
    files = dict(zip(paths, labels(paths), strict=True))
    spans = [(span, label) for path, label in files.items() for span in _spans(path)]
    seen = in_threads(Lines.look, [span for span, _ in spans])
    if not sum(one.n_rows for one in seen):
        raise SourceError(f"{paths[0]}: the file has no rows")
    first_index = min(1, *(one.least for one in seen))
    width = max(1, *(one.greatest + 1 - first_index for one in seen))
    if n_features is not None and width > n_features:
        raise SourceError(f"{paths[0]}: {width} columns, more than the {n_features} that schema= gives")
    _require_width(width, [span for span, _ in spans], seen)
    width = n_features or width
    found = [
        SvmlightPart(span, label, width, first_index, one.n_rows)
        for (span, label), one in zip(spans, seen, strict=True)
    ]
    return tuple(found), width


def _require_width(width: int, spans: Sequence[Lines], seen: Sequence[Seen]) -> None:
    """Raise SourceError, which names the line of the greatest index, where there is not enough memory."""
    try:
        require_width(width, "a table of", "Fix the line, or hash the features into fewer columns")
    except MemoryError as error:
        widest = max(range(len(seen)), key=lambda k: seen[k].greatest)
        line, index = spans[widest].line(seen[widest].greatest), seen[widest].greatest
        raise SourceError(
            f"{spans[widest].file.path}, line {line}: the index {index:,} is too large: {error}"
        ) from error


def _spans(path: Path) -> list[Lines]:
    """Lines of a file, cut where it is large."""
    file = FileState.of(path)
    with open(path, "rb") as stream:
        content = kind_by_content(stream.read(1 << 12))
    if content in COMPRESSED:
        return [Lines(file, content, 0, file.size)]
    if content != "text":
        raise SourceError(f"{path}: this is {content}, not a LIBSVM file; leave it out")
    starts = line_starts(file.path, file.size, PART_BYTES)
    return [Lines(file, None, start, stop) for start, stop in pairwise(starts)]


def _parsed(text: bytes, n_features: int) -> Any:
    """Rows and labels of lines; indices as they are written."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(io.BytesIO(text), n_features=n_features, zero_based=True)
    if X.nnz and X.indices.min() < 0:
        raise ValueError("a negative index")
    return X, y


def _first_bad(text: bytes, n_features: int, error: Exception) -> tuple[int, Exception]:
    """Number of the first line that cannot be parsed, found by halves, and why."""
    lines = text.splitlines(keepends=True)
    good, bad = 0, len(lines)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            _parsed(b"".join(lines[good:middle]), n_features)
            good = middle
        except (ValueError, OverflowError) as cause:
            bad, error = middle, cause
    return good, error
