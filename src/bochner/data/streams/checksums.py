"""Checksums of the rows of a part, the same in whatever batches they come."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from bochner.data.streams.base import Batch


class Tally:
    """Number and CRC-32 of rows that come batch by batch: of the bytes of each column, and of where values are missing.

    Attributes
    ----------
    n_read : int
        Rows that have come.
    n_kept : int
        Rows that were counted by `keep`: those that have a target.
    """

    def __init__(self) -> None:
        self.n_read = self.n_kept = 0
        self._sums: dict[tuple[str, str], int] = {}

    @property
    def checksum(self) -> int:
        """Checksum of all that has come."""
        return crc32(repr(sorted(self._sums.items())).encode())

    def add(self, batch: Batch) -> None:
        """Take in the next rows."""
        X, y, weight = batch
        if isinstance(X, pa.Table):
            for name, column in zip(X.column_names, X.columns, strict=True):
                start = self.n_read
                for chunk in column.chunks:
                    self._add_column(name, chunk, start)
                    start += len(chunk)
        elif sp.issparse(X):
            self._add_bytes("X", "data", X.data)
            self._add_bytes("X", "column", X.indices.astype(np.int64))
            self._add_bytes("X", "length", np.diff(X.indptr).astype(np.int64))
        else:
            self._add_bytes("X", "", X)
        for name, values in (("y", y), ("weight", weight)):
            if values is not None:
                self._add_bytes(name, "apart", np.asarray(values))
        self.n_read += X.shape[0]

    def keep(self, rows: int) -> None:
        """Count rows that have a target."""
        self.n_kept += rows

    def _add_bytes(self, name: str, what: str, values: Any) -> None:
        if isinstance(values, np.ndarray) and values.dtype == object:
            values = "".join(f"{value!r}\n" for value in values.ravel()).encode(errors="surrogatepass")
        elif isinstance(values, np.ndarray):
            values = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        self._sums[name, what] = crc32(values, self._sums.get((name, what), 0))

    def _add_column(self, name: str, array: pa.Array, start: int) -> None:
        """Add values of a column, the first of which has the number `start`."""
        if pa.types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        if array.null_count:
            gaps = array.is_null().to_numpy(zero_copy_only=False)
            self._add_bytes(name, "missing", start + np.flatnonzero(gaps))
            array = array.drop_null()
        if not len(array):
            return
        kind = array.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
            self._add_text(name, array.cast(pa.large_string()))
        elif pa.types.is_boolean(kind):
            self._add_bytes(name, "", array.to_numpy(zero_copy_only=False))
        elif pa.types.is_primitive(kind) or pa.types.is_decimal(kind):
            width = kind.bit_width // 8
            self._add_bytes(name, "", array.buffers()[1][width * array.offset : width * (array.offset + len(array))])

    def _add_text(self, name: str, array: pa.Array) -> None:
        _, offsets, content = array.buffers()
        edges = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
        self._add_bytes(name, "length", np.diff(edges))
        self._add_bytes(name, "", b"" if content is None else content[int(edges[0]) : int(edges[-1])])
