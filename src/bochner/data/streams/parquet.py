"""Row groups of Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from bochner.data.csv_text import index_columns
from bochner.data.streams.base import SourceError
from bochner.data.streams.file_parts import Contents, FilePart, parts_of, width_of
from bochner.data.streams.folders import FileState, reason
from bochner.data.streams.schemas import bare
from bochner.data.streams.selection import Selection

BUFFER_BYTES = 256 << 10  # of a column
TEXT_BYTES, TEXT_ROWS = 32, 1 << 16  # of a value at least, and of a batch that has text at most


class ParquetPart(FilePart):
    """Consecutive row groups of a file, decoded page by page, so that their size does not matter."""

    unit, units = "row group", "row groups"

    def batches(self, n_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield rows as many at a time as take about so many bytes."""
        groups = list(range(self.first, self.stop))
        with _opened(self.state.path, _footer(self.state)) as file:
            rows = max(n_bytes // _row_bytes(file, self.names, self.first), 1)
            if not all(width_of(column.type) for column in self.schema):
                rows = min(rows, TEXT_ROWS)
            for batch in file.iter_batches(min(rows, self.rows), groups, self.names, use_threads=False):
                batch.validate(full=True)
                yield batch


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
            index = tuple(index_columns(file.schema_arrow))
            return Contents(state, bare(file.schema_arrow), units, state.digest(n_bytes), frame_index=index)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SourceError(f"{path}: damaged Parquet file ({reason(error)}); copy or write it again") from error


def _opened(path: str, footer: Any = None) -> Any:
    from pyarrow.parquet import ParquetFile

    return ParquetFile(path, metadata=footer, buffer_size=BUFFER_BYTES, pre_buffer=False)


@lru_cache(maxsize=4)
def _footer(state: FileState) -> Any:
    """What a file of many parts says of itself, which takes long to parse."""
    with _opened(state.path) as file:
        return file.metadata


def _row_bytes(file: Any, names: Sequence[str], group: int) -> int:
    """Bytes of a row in memory, about; of text those that the file leaves for it, in which equal values may be one."""
    widths = {column.name: width_of(column.type) for column in file.schema_arrow}
    fixed, text = sum(widths[name] for name in names) // 8, sum(not widths[name] for name in names)
    if not text:
        return fixed + 1
    facts = file.metadata.row_group(group)
    rest = facts.total_byte_size // max(facts.num_rows, 1) - sum(widths.values()) // 8
    return fixed + max(rest, TEXT_BYTES * text)
