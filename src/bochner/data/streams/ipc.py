"""Record batches of Arrow IPC files (Feather) and streams."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from bochner.data.csv_text import index_columns
from bochner.data.streams.base import SourceError
from bochner.data.streams.file_parts import Contents, FilePart, parts_of, width_of
from bochner.data.streams.folders import FileState, reason
from bochner.data.streams.schemas import bare, plain
from bochner.data.streams.selection import Selection

MAGIC = b"ARROW1"


class IpcPart(FilePart):
    """Consecutive record batches of a file, copied a slice at a time, so that their size does not matter.

    But those that are compressed are held as a whole.
    """

    unit, units = "record batch", "record batches"

    def batches(self, n_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield slices of about so many bytes."""
        mapped = _mapped(self.state.path)
        schema = _reader(mapped).schema
        names = self.names or schema.names[:1]
        for batch in _batches(mapped, [schema.get_field_index(name) for name in names], self.first, self.stop):
            batch.validate()
            batch = batch.select(names)
            rows = max(batch.num_rows * n_bytes // max(batch.nbytes, 1), 1)
            for start in range(0, batch.num_rows, rows):
                self.state.check(self.name)
                piece = batch.slice(start, rows)
                piece.validate(full=True)
                piece = _copied(piece)
                if hasattr(mmap, "MADV_DONTNEED"):
                    mapped.madvise(mmap.MADV_DONTNEED)  # which else counts as memory of this process
                yield piece


def parts(
    paths: Sequence[str | os.PathLike[str]],
    selection: Selection,
    schema: pa.Schema | None = None,
    constants: Sequence[pa.Table] | None = None,
) -> tuple[tuple[IpcPart, ...], pa.Schema]:
    """Record batches of files, small neighbours together, and the schema of what is wanted of them; see `parts_of`.

    A stream is one part: what it holds is known by reading it from the first byte.
    """
    return parts_of(IpcPart, [_contents(path) for path in paths], selection, schema, constants)


def _contents(path: str | os.PathLike[str]) -> Contents:
    state, counts = FileState.of(path), []
    try:
        mapped = _mapped(state.path)
        declared, stream = _reader(mapped).schema, not _is_file(mapped)
        schema, index = bare(declared), tuple(index_columns(declared))
        for batch in _batches(mapped, _narrowest(schema), 0, None):
            counts.append(batch.num_rows)
    except (pa.ArrowException, OSError, ValueError) as error:
        place = f"{path}, record batch {len(counts)}"
        raise SourceError(f"{place}: damaged Arrow file ({reason(error)}); copy or write it again") from error
    units = [(count, state.size * count // max(sum(counts), 1)) for count in counts]
    return Contents(state, schema, units, state.digest(), stream, index)


def _mapped(path: str) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _batches(mapped: mmap.mmap, columns: Sequence[int], first: int, stop: int | None) -> Iterator[pa.RecordBatch]:
    """Consecutive record batches; of a stream all, and only some columns, by their numbers.

    To ask for columns of a file would copy all of a batch.
    """
    reader = _reader(mapped, columns)
    if _is_file(mapped):
        stop = reader.num_record_batches if stop is None else stop
        yield from (reader.get_batch(k) for k in range(first, stop))
    else:
        yield from reader


def _is_file(mapped: mmap.mmap) -> bool:
    """Whether record batches can be read in any order, not as a stream."""
    return mapped[: len(MAGIC)] == MAGIC


def _reader(mapped: mmap.mmap, columns: Sequence[int] = ()) -> Any:
    from pyarrow import ipc

    if _is_file(mapped):
        return ipc.open_file(pa.py_buffer(mapped), options=ipc.IpcReadOptions(use_threads=False))
    options = ipc.IpcReadOptions(included_fields=list(columns), use_threads=False)
    return ipc.open_stream(pa.py_buffer(mapped), options=options)


def _narrowest(schema: pa.Schema) -> list[int]:
    """A column that is fast to read."""
    widths = [width_of(column.type) or math.inf for column in schema]
    return [widths.index(min(widths))] if widths else []


def _copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch in memory of its own, not in that of the file: which may be cut short, and the process with it."""
    return pa.RecordBatch.from_arrays([_owned(values) for values in batch.columns], names=batch.schema.names)


def _owned(values: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        indices, dictionary = _owned(values.indices), _owned(values.dictionary)
        return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=values.type.ordered)
    return pa.concat_arrays([values, values[:0]]).cast(plain(values.type))
