"""Parts of LIBSVM (svmlight) files, parsed by scikit-learn chunk by chunk."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import scipy.sparse as sp

from bochner.data.files import compression_of
from bochner.data.table_input import require_width
from bochner.engines.local import in_threads
from bochner.sources.base import READ_BYTES, Batch, SourceError
from bochner.sources.paths import FileState, reason
from bochner.sources.text_files import FileRange, line_starts

PART_BYTES, SCAN_BYTES = 1 << 24, 1 << 20
# Of text; its numbers take about as much, and as much again
READ_SHARE, LEAST_READ = 4, 1 << 10
MOST_FEATURES = 2**31 - 1
LINE = "each line is a label and index:value pairs in order of indices"


class Extent(NamedTuple):
    """Number of rows of a part, and the least and the greatest index in them."""

    n_rows: int
    least: int
    greatest: int


@dataclass(frozen=True)
class LibsvmPart(FileRange):
    """Lines of a LIBSVM file from one byte to another, a `Part` whose batches are CSR
    matrices with their labels.

    Attributes
    ----------
    n_features : int
    first_index : int
        Index of the first column, 0 or 1.
    n_rows : int
    """

    n_features: int = MOST_FEATURES
    first_index: int = 0
    n_rows: int = 0

    def read(self, n_bytes: int = READ_BYTES) -> Iterator[Batch]:
        """Yield the rows in order, in batches of about so many bytes at most."""
        self.file.check(self.name)
        width = self.n_features + self.first_index
        for X, y in self._blocks(max(n_bytes // READ_SHARE, LEAST_READ), width):
            shape = (len(y), self.n_features)
            yield Batch(
                sp.csr_array(
                    (X.data, X.indices - self.first_index, X.indptr), shape=shape
                ),
                y,
            )
        self.file.check(self.name)

    def extent(self) -> Extent:
        """Number of rows and range of the indices, by a pass over the rows;
        SourceError where a line is not valid.
        """
        n_rows = 0
        least = MOST_FEATURES
        greatest = -1
        for X, y in self._blocks(SCAN_BYTES, MOST_FEATURES):
            n_rows += len(y)
            if X.nnz:
                least = min(least, int(X.indices.min()))
                greatest = max(greatest, int(X.indices.max()))
        return Extent(n_rows, least, greatest)

    def _blocks(self, n_bytes: int, n_features: int) -> Iterator[Any]:
        """Yield matrices and labels of the rows in order, their indices as written,
        from about so many bytes each.
        """
        line = self.lines_above()
        for text in self._texts(n_bytes):
            try:
                X, y = _parsed(text, n_features)
            except (ValueError, OverflowError, MemoryError) as error:
                raise self._line_error(text, n_features, line + 1) from error
            line += text.count(b"\n")
            if len(y):
                yield X, y

    def _line_error(self, text: bytes, n_features: int, first: int) -> SourceError:
        """What is wrong with the first line that cannot be parsed by itself."""
        for number, line in enumerate(text.splitlines(keepends=True), first):
            try:
                _parsed(line, n_features)
            except MemoryError as error:
                return SourceError(f"{self.file.path}, line {number}: {error}")
            except (ValueError, OverflowError) as error:
                return SourceError(
                    f"{self.file.path}, line {number}: {reason(error)}; {LINE}"
                )
        return SourceError(f"{self.name}: {LINE}")

    def _texts(self, n_bytes: int) -> Iterator[bytes]:
        """Yield whole lines, about so many bytes of them at a time."""
        rest = b""
        try:
            with self.opened_bytes() as stream:
                while chunk := stream.read(n_bytes):
                    lines, mark, rest = (rest + chunk).rpartition(b"\n")
                    if mark:
                        yield lines + mark
        except OSError as error:
            raise self.damaged(error) from error
        if rest:
            yield rest


def libsvm_parts(
    paths: Sequence[Path], n_features: int | None = None
) -> tuple[tuple[LibsvmPart, ...], int]:
    """Parts of LIBSVM files, and the number of columns, by a pass over all rows.

    Columns are counted from 1, unless some index is 0.

    Parameters
    ----------
    paths : sequence of Path
    n_features : int, optional
        Number of columns, where the files need not have all of them; by default the
        greatest that they have.

    Raises
    ------
    SourceError
        Where a line is no label with index:value pairs, there are no rows, more columns
        than are given, or more than there is memory for.
    """
    found = [part for path in paths for part in _cut(path)]
    extents = in_threads(LibsvmPart.extent, found)
    if not sum(extent.n_rows for extent in extents):
        raise SourceError(f"{paths[0]}: the file has no rows")
    first_index = min(1, *(extent.least for extent in extents))
    width = max(1, *(extent.greatest + 1 - first_index for extent in extents))
    if n_features is not None and width > n_features:
        raise SourceError(
            f"{paths[0]}: {width} columns, more than the {n_features} that schema= "
            "gives"
        )
    width = n_features or width
    known = zip(found, extents, strict=True)
    return tuple(
        replace(part, n_features=width, first_index=first_index, n_rows=one.n_rows)
        for part, one in known
    ), width


def _cut(path: Path) -> list[LibsvmPart]:
    """Parts of a file that is cut between lines where it is large, before its rows
    are counted.
    """
    file = FileState.of(path)
    if compression := compression_of(path):
        return [LibsvmPart(file, compression, 0, file.size)]
    starts = line_starts(file.path, file.size, PART_BYTES)
    return [LibsvmPart(file, None, start, stop) for start, stop in pairwise(starts)]


def _parsed(text: bytes, n_features: int) -> Any:
    """Rows and labels of lines, indices as written; MemoryError where these are too
    large for the memory there is.
    """
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(io.BytesIO(text), n_features=n_features, zero_based=True)
    if X.nnz and X.indices.min() < 0:
        raise ValueError("a negative index")
    if X.nnz and n_features == MOST_FEATURES:
        index = int(X.indices.max())
        require_width(
            index,
            f"the index {index:,} is too large: a table of",
            "Fix the line, or hash the features into fewer columns",
        )
    return X, y
