"""Opens whatever holds a table as a source of rows."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import pyarrow as pa
import scipy.sparse as sp

from bochner.data.file_kinds import kind_by_name
from bochner.data.table_input import is_frame
from bochner.notices import warn
from bochner.sources.arrow_files import (
    ParquetPart,
    open_arrow,
    open_dataset,
    open_lazy,
)
from bochner.sources.base import SourceError, TableSource, is_a
from bochner.sources.batches import open_batches
from bochner.sources.csv_files import open_csv
from bochner.sources.dask_parts import is_collection, is_delayed, open_collection
from bochner.sources.libsvm_files import open_libsvm
from bochner.sources.memory import of_arrays
from bochner.sources.paths import files_of, folder_columns, kind_of
from bochner.sources.schema import Selection, takes_all

TITLES = {"parquet": "Parquet", "arrow": "Arrow"}  # of kinds that are no acronyms
NO_NUMBER = (
    "schema= can be a number of columns for LIBSVM files only; give a pyarrow.Schema"
)
LIBSVM_LINE = re.compile(rb"\s*[-+.\w]+(\s+(qid|\d+):[-+.\w]+)+\s*(#.*)?")


def open_source(
    data: Any,
    *,
    columns: Sequence[str] | None = None,
    exclude: Collection[str] = (),
    where: Any = None,
    schema: pa.Schema | int | None = None,
    sample: int | None = None,
) -> TableSource:
    """Open a table that may be larger than memory.

    Its rows are read part by part, again in every pass. Those of Parquet files, arrays,
    data frames and Dask are read where they are. All others are written to a temporary
    file of about the size of the rows in memory or less, which is deleted with the
    source. Files are recognised
    by their content, and text by its name: it is CSV without one of the endings below.
    A folder
    stands for all files in it and in its subfolders, sorted by name, except those whose
    names begin with a dot or an underscore. Their columns are matched by name; of
    Parquet files, folders named as ``year=2020`` hold one more column. The index of a
    data frame is left out unless `columns` names it: columns that a Parquet
    or Arrow file declares as one, and first columns of a CSV without a name that hold
    whole numbers.

    Parameters
    ----------
    data : path, list of paths, table of any kind, callable or iterator
        - The path of a file, a folder, or a pattern such as ``"rows/*.parquet"``, or a
          list of these: Parquet, Arrow IPC (Feather), CSV, TSV (``.tsv``) and ARFF
          (``.arff``), plain or compressed (``.gz``, ``.zst``), LIBSVM (``.svm``,
          ``.svmlight``, ``.libsvm``). Separators are found by the first lines. Titles,
          units and sums around the table of a CSV are left out with a warning.
        - NumPy arrays (memory-mapped ones too), SciPy sparse matrices, data frames of
          pandas, polars or Arrow.
        - Dask arrays and data frames, and lists of delayed ones, whose partitions are
          computed again in each pass.
        - A `pyarrow.dataset.Dataset`; a polars `LazyFrame`.
        - An iterator of batches, or a callable without arguments that returns one, and
          is called once; batches are tables, data frames, arrays, or tuples ``(X, y)``
          or ``(X, y, sample_weight)`` of these.
    columns : sequence of str, optional
        Columns to read, in this order. By default all.
    exclude : collection of str
        Columns to leave out.
    where : pyarrow.compute.Expression, optional
        Condition on the rows to keep, such as ``pyarrow.compute.field("x") > 0``.
    schema : pyarrow.Schema or int, optional
        Types of some or all columns, which override those of the files. The types of a
        CSV are inferred from all its values. An int is the number of columns of LIBSVM
        files; these may then have any name.
    sample : int, optional
        Number of first rows on which the model is selected. This saves the pass that
        draws a sample of all rows.

    Returns
    -------
    TableSource
        A source that `fit`, `predict` and `plan` accept in place of X.

    Raises
    ------
    SourceError
        If the path does not exist or is not a table, or there is no room for a
        temporary file in the folder of the system, which TMPDIR changes. It names the
        file and the place in it, and is a ValueError.
    TypeError
        If the data are of none of the kinds above.

    Examples
    --------
    >>> from pathlib import Path
    >>> import bochner
    >>> Path("rows").mkdir()
    >>> for k in range(2):
    ...     _ = Path(f"rows/{k}.csv").write_text("x,y\\n1,2.5\\n2,3.5\\n")
    >>> bochner.open_source("rows")
    TableSource(4 rows x 2 columns: 2 CSV files)
    """
    left_out = tuple(sorted(_names(exclude) or ()))
    selection = Selection(_names(columns), left_out, where, types=schema)
    return open_selected(data, selection, sample)


def open_selected(
    data: Any, selection: Selection, sample: int | None = None
) -> TableSource:
    """Open a table as `open_source` does, by a selection."""
    if isinstance(data, TableSource):
        if not takes_all(selection) or selection.types is not None:
            raise ValueError(
                "the source is already open; give columns, exclude, where and schema "
                "when it is opened."
            )
        source = data
    else:
        opener = _opener(data)
        if isinstance(selection.types, int) and opener is not _open_files:
            raise SourceError(NO_NUMBER)
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        if not (opener or _in_memory(data) or isinstance(data, list | tuple)):
            raise TypeError(
                f"a {type(data).__name__} cannot be opened as a table; give a path, an "
                "array, a data frame, or a callable that returns an iterator of "
                "batches."
            )
        source = (opener or of_arrays)(data, selection=selection)
    if sample is None:
        return source
    if not isinstance(sample, Integral) or sample < 1:
        raise ValueError(f"sample must be a number of rows, 1 or more, got {sample!r}.")
    return replace(source, sample=int(sample))


def is_streamed(data: Any) -> bool:
    """Whether something is no array or data frame in memory but a place that rows
    are read from.
    """
    return isinstance(data, TableSource) or _opener(data) is not None


def _opener(data: Any) -> Callable[..., TableSource] | None:
    """What opens data that are not in memory, with a selection; else None."""
    if isinstance(data, str | os.PathLike):
        return _open_files
    if is_collection(data) or is_delayed(data):
        return open_collection
    if isinstance(data, list | tuple):
        are_paths = all(isinstance(item, str | os.PathLike) for item in data)
        return _open_files if data and are_paths else None
    if is_a(data, "pyarrow", "Dataset"):
        return open_dataset
    if is_a(data, "polars", "LazyFrame"):
        return open_lazy
    if isinstance(data, type) or _in_memory(data):
        return None
    is_yielding = callable(data) or isinstance(data, Iterator)
    return open_batches if is_yielding else None


def _open_files(data: Any, selection: Selection) -> TableSource:
    paths = files_of(data)
    first = paths[0]
    types = selection.types
    kind = kind_of(first)
    columns = folder_columns(data, paths)
    if columns and kind != "parquet":
        warn(
            f"{first}: the names of its folders hold values of {next(iter(columns))!r},"
            " which are read beside Parquet files alone; pyarrow.dataset.dataset(..., "
            "partitioning='hive') reads them beside others."
        )
    if kind == "csv" and isinstance(types, int):
        kind = "libsvm"
    elif kind == "csv" and kind_by_name(first) is None:
        with open(first, "rb") as file:
            line = file.readline(1 << 12)
        if LIBSVM_LINE.fullmatch(line.rstrip()):
            raise SourceError(
                f"{first}: a LIBSVM file, it seems; name it .svm, or give its number "
                "of columns as schema="
            )
    title = TITLES.get(kind, kind.upper())
    what = f"{len(paths):,} {title} file{'s' * (len(paths) > 1)}"
    if kind == "libsvm":
        if not takes_all(selection) or isinstance(types, pa.Schema):
            raise SourceError(
                f"{first}: the columns of LIBSVM files have no names; leave out "
                "columns=, exclude= and where=; schema= may be the number of columns"
            )
        return open_libsvm(paths, types, what, selection.first_index)
    if isinstance(types, int):
        raise SourceError(f"{first}: {NO_NUMBER}")
    if kind == "arrow":
        return open_arrow(paths, selection, what)
    if kind != "parquet":
        return open_csv(paths, selection, what)
    parts, selected_schema = ParquetPart.of_files(paths, selection, columns)
    return TableSource(parts, selected_schema, what)


def _names(names: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    return (names,) if isinstance(names, str) else tuple(names)


def _in_memory(data: Any) -> bool:
    return hasattr(data, "__array__") or sp.issparse(data) or is_frame(data)
