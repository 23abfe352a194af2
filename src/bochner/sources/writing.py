"""Writes a table to a file batch by batch, so that it need never be in memory as a whole."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from bochner.data.files import replacing, written_kind


class TableWriter:
    """A context that writes batches of rows to a CSV or Parquet file, which appears once it is complete.

    Parameters
    ----------
    path : str or path-like
        Its name says the kind of file.

    Attributes
    ----------
    n_rows : int
        Rows that are written.

    Raises
    ------
    ValueError
        Where the name asks for no known kind, later batches have other columns than the first, or there is none.
    OSError
        Where the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path, self.n_rows = os.fspath(path), 0
        self._kind = written_kind(self.path)
        self._writer: Any = None

    def __enter__(self) -> TableWriter:
        with ExitStack() as stack:
            self._temporary = stack.enter_context(replacing(self.path))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._writer is None:
            error = ValueError(f"{self.path}: there are no rows to write")
            self._stack.__exit__(ValueError, error, None)
            raise error
        self._stack.__exit__(kind, error, trace)

    def write(self, columns: Mapping[str, Any] | pa.Table) -> None:
        """Append rows: arrays by the name of their column, or a table."""
        table = columns if isinstance(columns, pa.Table) else pa.table(dict(columns))
        if self._writer is None:
            self._schema = table.schema
            self._writer = self._stack.enter_context(self._opened(table.schema))
        if table.column_names != self._schema.names:
            raise ValueError(f"{self.path}: columns {table.column_names} follow on {self._schema.names}")
        self._writer.write_table(table.cast(self._schema))
        self.n_rows += table.num_rows

    def _opened(self, schema: pa.Schema) -> Any:
        if self._kind == "parquet":
            from pyarrow.parquet import ParquetWriter

            return ParquetWriter(self._temporary, schema)
        from pyarrow import csv

        compression = {".gz": "gzip", ".zst": "zstd"}.get(Path(self.path).suffix.lower())
        stream = self._stack.enter_context(pa.output_stream(self._temporary, compression=compression))
        options = csv.WriteOptions(delimiter="\t" if self._kind == "tsv" else ",")
        return csv.CSVWriter(stream, schema, write_options=options)
