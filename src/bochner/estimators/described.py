"""How large a table is, by its schema and what its files tell without being read."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bochner.data.files import COMPRESSED, kind_by_content
from bochner.estimators.work import Rows
from bochner.sources.base import SourceError, TableSource
from bochner.sources.csv_files import whole_span
from bochner.sources.dask_parts import is_collection, is_delayed
from bochner.sources.opening import is_streamed, open_selected
from bochner.sources.paths import files_of, kind_of
from bochner.sources.schema import Selection, require

HEAD = 1 << 18  # bytes of a file of text, by which its rows are estimated
ENTRY = 1.75e-8  # seconds of a thread to read an entry of a Parquet or Arrow file
TEXT_ENTRY, SPARSE_ENTRY = 1.35e-7, 2e-6  # the same of CSV and LIBSVM files


def described(X: Any, y: Any, classes: bool = False, sample: int | None = None, exclude: Collection[str] = ()) -> Rows:
    """What there is to fit, by the schema and the numbers of rows alone.

    Parameters
    ----------
    X : array, sparse matrix or data frame, or whatever `open_source` takes
    y : array, names of columns, or None
    classes : bool
        Whether the targets are labels; of those that are not at hand two are assumed.
    sample : int, optional
        First rows that are to stand for all.
    exclude : collection of str
        Columns that are left out.
    """
    if isinstance(X, Iterator):
        raise TypeError(
            "an iterator can be read only once: open it with bochner.open_source, then plan and fit the result."
        )
    if not isinstance(X, TableSource) and not is_streamed(X):
        return _held(X, y, classes)
    apart = is_collection(y) or is_delayed(y) or isinstance(y, np.ndarray)
    targets = [y] if isinstance(y, str) else [] if y is None or apart else list(y)
    wanted = Selection(exclude=tuple(exclude), named=tuple(targets))
    found = X if isinstance(X, TableSource) else _glance(X, exclude) or open_selected(X, wanted, sample=sample)
    schema = found.schema
    names = None if isinstance(schema, int) else tuple(schema.names)
    left_out = set(names or ()) & {*targets, *exclude}
    n_rows, estimated = (_n_rows(found), False) if isinstance(found, TableSource) else (found.n_rows, True)
    known = isinstance(schema, pa.Schema) and targets and targets[0] in schema.names
    return Rows(
        found.what,
        n_rows,
        (schema if isinstance(schema, int) else len(schema)) - len(left_out),
        1 if classes else _columns(y) if apart else max(len(targets), 1),
        held=False,
        estimated=estimated,
        entry_seconds=_entry_seconds(found),
        sample=sample or getattr(found, "sample", None),
        names=names,
        target=schema.field(targets[0]).type if known and isinstance(schema, pa.Schema) else None,
    )


def _columns(y: Any) -> int:
    shape: Any = getattr(y, "shape", ())
    return int(shape[1]) if len(shape) > 1 else 1


def _held(X: Any, y: Any, classes: bool) -> Rows:
    shape = np.shape(X)
    if len(shape) != 2:
        raise ValueError(f"X must have rows and columns, and has shape {shape}.")
    named = isinstance(y, str)
    n_outputs = 1 if named else _n_outputs(y, classes)
    return Rows(f"{type(X).__name__} in memory", shape[0], shape[1] - named, n_outputs)


@dataclass(frozen=True)
class Glance:
    """What the first lines and the sizes of CSV files tell."""

    schema: pa.Schema
    n_rows: int
    what: str
    sparse: bool = False


def _glance(data: Any, exclude: Collection[str]) -> Glance | None:
    """What is seen of CSV files without reading them; None of all else."""
    if not isinstance(data, str | os.PathLike | list | tuple) or is_delayed(data):
        return None
    files = files_of(data)
    if kind_of(files[0]) not in ("csv", "tsv"):
        return None
    what = f"{len(files):,} CSV file{'s' if len(files) > 1 else ''}"
    schemas = [whole_span(file).schema([], {}) for file in (files if exclude else files[:1])]
    require(dict.fromkeys(name for schema in schemas for name in schema.names), exclude)
    return Glance(schemas[0], sum(map(estimated_rows, files)), what)


def _n_rows(source: TableSource) -> int:
    if source.n_rows is not None:
        return source.n_rows
    raise ValueError(f"{source.what}: the number of rows is not known before they are read, so there is no plan.")


def estimated_rows(path: str | os.PathLike[str]) -> int:
    """Rows of a file of text, by its size and its first lines."""
    total = os.path.getsize(path)
    with open(path, "rb") as head:
        content = kind_by_content(head.read(1 << 12))
    codec = content if content in COMPRESSED else None
    with pa.OSFile(os.fspath(path)) as file:
        stream = file if codec is None else pa.CompressedInputStream(file, codec)
        try:
            lines, read = stream.read(HEAD).count(b"\n"), file.tell()
        except OSError as error:
            raise SourceError(f"{path}: damaged file ({error}); copy it again") from error
    return max(round(total * lines / max(read, 1)) - 1, 1)


def _entry_seconds(source: TableSource | Glance) -> float:
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
