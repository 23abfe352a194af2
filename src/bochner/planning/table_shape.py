"""The rows and columns of what is to be fitted, before it is read."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bochner.data.file_kinds import compression_of
from bochner.sources.base import SourceError, TableSource
from bochner.sources.csv_text import whole_file
from bochner.sources.dask_parts import is_collection, is_delayed
from bochner.sources.opening import is_streamed, open_selected
from bochner.sources.paths import arrow_file, files_of, kind_of
from bochner.sources.schema import Selection, require

HEAD = 1 << 18  # bytes of a file of text, by which its rows are estimated


@dataclass(frozen=True)
class TableShape:
    """The table that is to be fitted.

    Attributes
    ----------
    what : str
        Where it is, for people: "3 Parquet files".
    n_rows, n_columns, n_outputs : int
    in_memory : bool
        Already.
    estimated : bool
        Whether the number of rows is an estimate.
    sample : int or None
        Rows that were declared to stand for all.
    names : tuple of str, or None
        Of all columns, targets among them.
    target : pyarrow.DataType or None
        Type of the first target, where it is known.
    """

    what: str
    n_rows: int
    n_columns: int
    n_outputs: int = 1
    in_memory: bool = True
    estimated: bool = False
    sample: int | None = None
    names: tuple[str, ...] | None = None
    target: Any = None


def table_shape(
    X: Any,
    y: Any,
    classes: bool = False,
    sample: int | None = None,
    exclude: Collection[str] = (),
) -> TableShape:
    """Describe a table by its schema and number of rows alone.

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
    if not isinstance(X, TableSource) and not is_streamed(X):
        shape = np.shape(X)
        if len(shape) != 2:
            raise ValueError(f"X must have rows and columns, and has shape {shape}.")
        named = isinstance(y, str)
        n_outputs = 1
        if y is not None and not named:
            n_outputs = _n_outputs(y)
            if classes and n_outputs == 1:
                n_classes = len(np.unique(np.asarray(y)))
                n_outputs = 1 if n_classes <= 2 else n_classes
        what = f"{type(X).__name__} in memory"
        return TableShape(what, shape[0], shape[1] - named, n_outputs)
    if isinstance(X, Iterator) or callable(X):
        raise TypeError(
            "batches are read to their end when they are opened: open them with "
            "bochner.open_source, then plan and fit the result."
        )
    apart = is_collection(y) or is_delayed(y) or isinstance(y, np.ndarray)
    targets = [y] if isinstance(y, str) else [] if y is None or apart else list(y)
    are_paths = isinstance(X, str | os.PathLike | list | tuple) and not is_delayed(X)
    files = files_of(X) if are_paths else []
    estimated = bool(files) and kind_of(files[0]) in ("csv", "tsv")
    schema: pa.Schema | int
    if estimated:
        # Of CSV files the first lines and the sizes tell enough
        schemas = [
            whole_file(file).first_types() for file in (files if exclude else files[:1])
        ]
        require(dict.fromkeys(name for one in schemas for name in one.names), exclude)
        schema = schemas[0]
        n_rows = sum(map(estimated_rows, files))
        what = f"{len(files):,} CSV file{'s' if len(files) > 1 else ''}"
    else:
        source = X
        if not isinstance(X, TableSource):
            wanted = Selection(exclude=tuple(exclude), named=tuple(targets))
            source = open_selected(X, wanted, sample)
        if source.n_rows is None:
            raise ValueError(
                f"{source.what}: the number of rows is not known before they are read, "
                "so there is no plan."
            )
        schema = source.schema
        n_rows = source.n_rows
        what = source.what
        sample = sample or source.sample
    n_outputs = _n_outputs(y) if apart else max(len(targets), 1)
    names = target = None
    n_columns = schema
    if not isinstance(schema, int):
        names = tuple(schema.names)
        n_columns = len(names) - len({*names} & {*targets, *exclude})
        if targets and targets[0] in names:
            target = schema.field(targets[0]).type
    return TableShape(
        what,
        n_rows,
        n_columns,
        1 if classes else n_outputs,
        in_memory=False,
        estimated=estimated,
        sample=sample,
        names=names,
        target=target,
    )


def _n_outputs(y: Any) -> int:
    shape: Any = np.shape(y) if isinstance(y, list | tuple) else getattr(y, "shape", ())
    return int(shape[1]) if len(shape) > 1 else 1


def estimated_rows(path: str | os.PathLike[str]) -> int:
    """Rows of a file of text, by its size and its first lines."""
    total = os.path.getsize(path)
    with arrow_file(path) as file:
        stream = pa.input_stream(file, compression=compression_of(path))
        try:
            lines = stream.read(HEAD).count(b"\n")
            read = file.tell()
        except OSError as error:
            raise SourceError(
                f"{path}: damaged file ({error}); copy it again"
            ) from error
    return max(round(total * lines / max(read, 1)) - 1, 1)
