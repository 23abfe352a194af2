"""Row groups of Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from bochner.data.streams.base import SourceError
from bochner.data.streams.file_parts import Contents, FilePart, parts_of, width_of
from bochner.data.streams.folders import FileState, reason
from bochner.data.streams.selection import Selection

BUFFER_BYTES = 256 << 10  # of a column
TEXT_BYTES, TEXT_ROWS = 32, 1 << 16  # of a value at least, and of a batch that has text at most


class ParquetPart(FilePart):
    """Consecutive row groups of a file, decoded page by page, so that their size does not matter."""

    unit, units = "row group", "row groups"

    def batches(self, n_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield rows as many at a time as take about so many bytes."""
        groups = range(self.first, self.stop)
        with _opened(self.state.path, _footer(self.state)) as file:
            rows = max(n_bytes // _row_bytes(file, self.names, groups), 1)
            if not all(width_of(column.type) for column in self.schema):
                rows = min(rows, TEXT_ROWS)
            yield from file.iter_batches(min(rows, self.rows), list(groups), self.names, use_threads=False)


def parts(
    paths: Sequence[str | os.PathLike[str]],
    selection: Selection,
    schema: pa.Schema | None = None,
    constants: Sequence[pa.Table] | None = None,
) -> tuple[tuple[ParquetPart, ...], pa.Schema]:
    """Row groups of files, small neighbours together, and the schema of what is wanted of them; see `parts_of`."""
    return parts_of(ParquetPart, [_contents(path) for path in paths], selection, schema, constants)


def _contents(path: str | os.PathLike[str]) -> Contents:
    state = FileState.of(path)
    try:
        with _opened(state.path) as file, open(state.path, "rb") as raw:
            raw.seek(-8, os.SEEK_END)
            n_bytes = int.from_bytes(raw.read(4), "little") + 8
            groups = [file.metadata.row_group(k) for k in range(file.num_row_groups)]
            units = [(group.num_rows, group.total_byte_size) for group in groups]
            return Contents(state, file.schema_arrow, units, state.digest(n_bytes))
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path}: damaged Parquet file ({reason(error)}); copy or write it anew") from error


def _opened(path: str, footer: Any = None) -> Any:
    from pyarrow.parquet import ParquetFile

    return ParquetFile(path, metadata=footer, buffer_size=BUFFER_BYTES, pre_buffer=False)


@lru_cache(maxsize=4)
def _footer(state: FileState) -> Any:
    """What a file of many parts says of itself, which takes long to parse."""
    with _opened(state.path) as file:
        return file.metadata


def _row_bytes(file: Any, names: Sequence[str], groups: range) -> int:
    """Bytes of a row in memory, about; of text those in the file, in which equal values may be one."""
    schema = file.schema_arrow
    widths = {name: width_of(schema.field(name).type) for name in names}
    total, text = sum(widths.values()), {name for name in names if not widths[name]}
    if not text:
        return total // 8 + 1
    group = file.metadata.row_group(groups[0])
    chunks = [group.column(k) for k in range(group.num_columns)]
    size = sum(chunk.total_uncompressed_size for chunk in chunks if text & _ancestors(chunk.path_in_schema))
    return total // 8 + max(size // max(group.num_rows, 1), TEXT_BYTES * len(text)) + 1


def _ancestors(path: str) -> set[str]:
    """Names that the column of a path may have: it and all that hold it."""
    steps = path.split(".")
    return {".".join(steps[:k]) for k in range(1, len(steps) + 1)}
