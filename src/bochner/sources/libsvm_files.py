"""LIBSVM (svmlight) files, parsed by scikit-learn chunk by chunk into a temporary
file.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from bochner.blocks import TEXT_BYTES
from bochner.data.table_input import require_width
from bochner.sources.base import Batch, SourceError, TableSource
from bochner.sources.imported import ImportedPart, RowWriter, importing
from bochner.sources.paths import FileState, reason
from bochner.sources.text_files import Row, damaged, opened_bytes, whole_rows

NO_SEPARATOR = "\0"
MOST_FEATURES = 2**31 - 1
LINE = "each line is a label and index:value pairs in order of indices"


def open_libsvm(
    paths: Sequence[Path],
    n_features: int | None,
    what: str,
    first_index: int | None = None,
) -> TableSource:
    """LIBSVM files as a table of sparse rows and their labels, in one pass over the
    text.

    Parameters
    ----------
    paths : sequence of Path
    n_features : int or None
        Number of columns, where the files need not have all of them; by default the
        greatest that they have.
    what : str
        Description of the files.
    first_index : int, optional
        Index of the first column; by default 1, or 0 where some index is 0.

    Raises
    ------
    SourceError
        Where a line is no label with index:value pairs, there are no rows, more columns
        than are given, or more than there is memory for; where an index is below that
        of the first column; and where the disk is full.
    """
    files = []
    least = MOST_FEATURES
    greatest = -1
    origins = list(map(FileState.of, paths))
    with importing(sum(origin.size for origin in origins)) as folder:
        for k, origin in enumerate(origins):
            with RowWriter(folder, str(k), origin.path) as rows:
                for batch in _batches(origin):
                    rows.write(batch)
                    indices = batch.X.indices
                    least = int(indices.min(initial=least))
                    greatest = int(indices.max(initial=greatest))
                files.append((origin, rows.finish()))
        if not any(pieces for _, pieces in files):
            raise SourceError(f"{paths[0]}: the file has no rows")
        if first_index is None:
            first_index = min(1, least)
        if least < first_index:
            raise SourceError(
                f"{paths[0]}: an index is {least}, and that of the first column is "
                f"{first_index}; count columns as in the rows of the fit"
            )
        width = max(1, greatest + 1 - first_index)
        if n_features is not None and width > n_features:
            raise SourceError(
                f"{paths[0]}: {width} columns, more than the {n_features} that schema= "
                "gives"
            )
    width = n_features or width
    parts = tuple(
        ImportedPart(
            piece,
            origin.path,
            width,
            origins=(origin,),
            first_index=first_index,
            folder=folder,
        )
        for origin, pieces in files
        for piece in pieces
    )
    return TableSource(parts, width, what, sparse=True)


def _batches(file: FileState) -> Iterator[Batch]:
    """Yield the rows of a file in order, as CSR matrices with the indices as they are
    written, and the labels.

    Raises
    ------
    SourceError
        Where a line is not valid, or the file changes or is damaged.
    """
    try:
        with opened_bytes(file.path) as stream:
            # Quotes have no meaning there: with no separator there are no fields
            for lines in whole_rows(stream, NO_SEPARATOR, TEXT_BYTES):
                try:
                    yield _rows(lines.text)
                except (ValueError, OverflowError, MemoryError) as error:
                    raise _line_error(file.path, lines) from error
    except OSError as error:
        raise damaged(file, error) from error
    file.check()


def _line_error(path: str, lines: Row) -> SourceError:
    """What is wrong with the first line that cannot be parsed by itself."""
    for number, line in enumerate(lines.text.splitlines(keepends=True), lines.line):
        try:
            _rows(line)
        except MemoryError as error:
            return SourceError(f"{path}, line {number}: {error}")
        except (ValueError, OverflowError) as error:
            return SourceError(f"{path}, line {number}: {reason(error)}; {LINE}")
    return SourceError(f"{path}: {LINE}")


def _rows(text: bytes) -> Batch:
    """Rows and labels of lines, indices as written; MemoryError where these are too
    large for the memory there is.
    """
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(
        io.BytesIO(text), n_features=MOST_FEATURES, zero_based=True
    )
    if X.indices.min(initial=0) < 0:
        raise ValueError("a negative index")
    index = int(X.indices.max(initial=0))
    require_width(
        index,
        f"the index {index:,} is too large: a table of",
        "Fix the line, or hash the features into fewer columns",
    )
    return Batch(X, y)
