"""How large a table is, by its schema and what its files tell without being read."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa

from bochner.data.streams.base import TableSource
from bochner.data.streams.opening import is_streamed, open_source
from bochner.estimators.work import Rows

HEAD = 1 << 18  # bytes of a file of text, by which its rows are estimated
ENTRY = 1.75e-8  # seconds of a thread to read an entry of a Parquet or Arrow file
TEXT_ENTRY, SPARSE_ENTRY = 1.35e-7, 2e-6  # the same of CSV and LIBSVM files
SUFFIXES = {".gz": "gzip", ".zst": "zstd"}


def described(X: Any, y: Any, classes: bool) -> Rows:
    """What there is to fit.

    Parameters
    ----------
    X : array, sparse matrix or data frame, or whatever `open_source` takes
    y : array, names of columns, or None
    classes : bool
        Whether the targets are labels; of those that are not at hand two are assumed.
    """
    if not isinstance(X, TableSource) and not is_streamed(X):
        shape = np.shape(X)
        if len(shape) != 2:
            raise ValueError(f"X must have rows and columns, and has shape {shape}.")
        return Rows(f"{type(X).__name__} in memory", *shape, n_outputs=_n_outputs(y, classes))
    source = X if isinstance(X, TableSource) else open_source(X)
    targets = [y] if isinstance(y, str) else [] if y is None else list(y)
    columns = source.schema if isinstance(source.schema, int) else len(source.schema)
    n_rows, estimated = row_count(source)
    return Rows(
        source.what,
        n_rows,
        columns - (0 if source.names is None else len(set(targets) & set(source.names))),
        1 if classes else max(len(targets), 1),
        held=False,
        estimated=estimated,
        entry_seconds=_entry_seconds(source),
        sample=source.sample,
    )


def row_count(source: TableSource) -> tuple[int, bool]:
    """Number of rows, and whether it is an estimate by the sizes of files; ValueError where these are not known."""
    if source.n_rows is not None:
        return source.n_rows, False
    paths = [getattr(part, "path", None) for part in source.parts]
    if None in paths:
        raise ValueError(f"{source.what}: the number of rows is not known before they are read, so there is no plan.")
    return sum(estimated_rows(path) for path in paths if path is not None), True


def estimated_rows(path: str | os.PathLike[str]) -> int:
    """Rows of a file of text, by its size and its first lines."""
    total = os.path.getsize(path)
    with pa.OSFile(os.fspath(path)) as file:
        codec = SUFFIXES.get(os.path.splitext(path)[1].lower())
        stream = file if codec is None else pa.CompressedInputStream(file, codec)
        lines, read = stream.read(HEAD).count(b"\n"), file.tell()
    return max(round(total * lines / max(read, 1)) - 1, 1)


def _entry_seconds(source: TableSource) -> float:
    if source.sparse:
        return SPARSE_ENTRY
    return TEXT_ENTRY if any(kind in source.what for kind in ("CSV", "TSV")) else ENTRY


def _n_outputs(y: Any, classes: bool) -> int:
    if y is None:
        return 1
    if classes:
        n_classes = len(np.unique(np.asarray(y)))
        return 1 if n_classes <= 2 else n_classes
    shape = np.shape(y)
    return shape[1] if len(shape) > 1 else 1

