"""Writes a table to a file batch by batch, so that it need never be in memory as a
whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from bochner.data.file_kinds import written_kind
from bochner.sources.paths import arrow_file
from bochner.whole_files import replacing


def write_table(
    batches: Iterable[Mapping[str, Any] | pa.Table], path: str | os.PathLike[str]
) -> int:
    """Write batches of rows to a CSV or Parquet file, which appears once it is
    complete; the number of rows.

    Parameters
    ----------
    batches : iterable of tables, or of arrays by the name of their column
    path : str or path-like
        Its name says the kind of file.

    Raises
    ------
    ValueError
        Where the name asks for no known kind, later batches have other columns than the
        first, or there is none.
    OSError
        Where the file cannot be written.
    """
    path, kind = os.fspath(path), written_kind(path)
    n_rows = 0
    schema: Any = None
    writer: Any = None
    with replacing(path) as temporary, ExitStack() as stack:
        file = stack.enter_context(arrow_file(temporary, "wb"))
        for columns in batches:
            table: Any = columns
            if not isinstance(columns, pa.Table):
                table = pa.table(dict(columns))
            if writer is None:
                schema = table.schema
                writer = _opened(file, kind, Path(path).suffix.lower(), schema, stack)
            if table.column_names != schema.names:
                raise ValueError(
                    f"{path}: columns {table.column_names} follow on {schema.names}"
                )
            writer.write_table(table.cast(schema))
            n_rows += table.num_rows
        if writer is None:
            raise ValueError(f"{path}: there are no rows to write")
    return n_rows


def _opened(
    file: pa.NativeFile, kind: str, suffix: str, schema: pa.Schema, stack: ExitStack
) -> Any:
    """A writer of tables, which is closed with the stack."""
    if kind == "parquet":
        from pyarrow.parquet import ParquetWriter

        return stack.enter_context(ParquetWriter(file, schema))
    from pyarrow import csv

    if compression := {".gz": "gzip", ".zst": "zstd"}.get(suffix):
        file = stack.enter_context(pa.CompressedOutputStream(file, compression))
    options = csv.WriteOptions(delimiter="\t" if kind == "tsv" else ",")
    return stack.enter_context(csv.CSVWriter(file, schema, write_options=options))
