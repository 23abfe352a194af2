"""Rows that can be read only once, or slowly, such as those of text: they are written
to a temporary Arrow file, and every pass reads them from there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.blocks import PART_BYTES
from bochner.engines.progress import Advance, no_advance, progress
from bochner.sources.base import Batch, SourceError
from bochner.sources.paths import FileState, arrow_file, reason
from bochner.sources.rows import MOST_PIECES, joined
from bochner.sources.schema import EVERYTHING, Selection, fitted, roomy

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

PREFIX = "bochner-"
LOCK = "in-use"
LONG_BYTES = 64 << 20  # of text, beyond which progress is shown
SPARE_BYTES = 64 << 20  # of the disk that are left to others
CURE = "free space there, or set TMPDIR to another folder"
# Columns of targets and weights that come apart from X; no table has such names
Y = "\0y"
WEIGHT = "\0weight"


class TemporaryFolder:
    """A folder that is deleted with the object, or, where the process was killed, by
    the next process that makes one; a copy in another process is its path alone.

    Attributes
    ----------
    path : str
    advance : callable
        Is told the number of rows each time that some are written.

    Raises
    ------
    SourceError
        Where no folder can be made.
    """

    def __init__(self, advance: Advance = no_advance) -> None:
        try:
            _remove_abandoned()
            self.path = tempfile.mkdtemp(prefix=PREFIX)
        except OSError as error:
            raise SourceError(
                f"no temporary folder can be made for the rows ({reason(error)}); set "
                "TMPDIR to a folder that can be written to"
            ) from error
        self.advance = advance
        lock = _locked(self.path)
        self.remove = weakref.finalize(self, _removed, self.path, lock, os.getpid())

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (self.path,)

    def __deepcopy__(self, memo: Any) -> TemporaryFolder:
        return self


@contextmanager
def importing(n_bytes: int | None = None) -> Iterator[TemporaryFolder]:
    """A folder for the rows of a source of `n_bytes` bytes, which is removed where an
    error ends the work on it; with progress where they are many, or unknown.
    """
    is_long = n_bytes is None or n_bytes > LONG_BYTES
    with progress("Reading rows", None, is_long) as advance:
        folder = TemporaryFolder(advance)
        try:
            yield folder
        except BaseException:
            folder.remove()
            raise


def _locked(folder: str) -> int | None:
    """A lock that ends with this process; None where the system has none.

    The file gets its name once it is locked, as others remove what is not locked.
    """
    path = os.path.join(folder, LOCK)
    if fcntl is None:
        return None
    lock = os.open(f"{path}.new", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # of file systems of some networks
        os.close(lock)
        return None
    os.rename(f"{path}.new", path)
    return lock


def _removed(folder: str, lock: int | None, process: int) -> None:
    """Delete a folder, unless this is a fork of the process that made it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        os.close(lock)


def _remove_abandoned() -> None:
    """Delete the folders of processes that have ended without doing so."""
    if fcntl is None:
        return
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError):
            if path.stat().st_uid != os.getuid():
                continue
            lock = os.open(path, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.parent, ignore_errors=True)
            finally:
                os.close(lock)


class Piece(NamedTuple):
    """Rows that are read together: their temporary file and first byte in it, their
    number, and the rows before them.
    """

    file: FileState
    offset: int
    n_rows: int
    above: int


@dataclass(frozen=True)
class ImportedPart:
    """Rows in a temporary file, a `Part`.

    Attributes
    ----------
    piece : Piece
    place : str
        What the rows come from, for messages.
    schema : pyarrow.Schema or int
        Of the columns to read of tables; the number of columns of arrays.
    selection : Selection
        Of tables.
    origins : tuple of FileState
        The files that the rows come from, or may.
    text : CsvText or None
        What it has on its lines.
    first_index : int
        Number of the first column of sparse rows.
    folder : TemporaryFolder or None
        Which lives as long as its parts; in another process its path.
    """

    piece: Piece
    place: str
    schema: pa.Schema | int
    selection: Selection = EVERYTHING
    origins: tuple[FileState, ...] = ()
    text: Any = None
    first_index: int = 0
    folder: Any = field(default=None, compare=False, repr=False)

    @property
    def file(self) -> FileState:
        """The temporary file."""
        return self.piece.file

    @property
    def name(self) -> str:
        """What the rows come from, and their numbers."""
        _, _, n_rows, above = self.piece
        return f"{self.place}, rows {above + 1:,} to {above + n_rows:,}"

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where a condition leaves some out."""
        return None if self.selection.where is not None else self.piece.n_rows

    def read(self, n_bytes: int = PART_BYTES) -> Iterator[Batch]:
        """Yield the rows in order, in batches of at most about `n_bytes` bytes."""
        # Other processes may not see the file, or another state of it
        for origin in self.origins:
            if origin.inode is not None:
                origin.check()
        yield from self._batch().split(n_bytes)

    def line(self, row: int) -> int:
        """Line of the text of one of the rows that are read, which count from 0."""
        assert isinstance(self.schema, pa.Schema)
        row_numbers = self.selection.rows(fitted(self._table(), self.schema))
        line: int = self.text.line_of(self.piece.above + int(row_numbers[row]))
        return line

    def _batch(self) -> Batch:
        table = self._table()
        y, weight = (
            _as_array(table[name]) if name in table.column_names else None
            for name in (Y, WEIGHT)
        )
        if isinstance(self.schema, pa.Schema):
            rows = fitted(table, self.schema, self.name)
            return self.selection.take(Batch(rows, y, weight))
        if "values" not in table.column_names:
            return Batch(_as_array(table["X"]), y, weight)
        values = table["values"].combine_chunks()
        indices = table["indices"].combine_chunks().values.to_numpy()
        X = sp.csr_array(
            (values.values.to_numpy(), indices - self.first_index, values.offsets),
            shape=(len(values), self.schema),
        )
        return Batch(X, y, weight)

    def _table(self) -> pa.Table:
        try:
            with arrow_file(self.file.path) as file:
                file.seek(self.piece.offset)
                with pa.ipc.open_stream(file) as reader:
                    return reader.read_all()
        except pa.ArrowMemoryError:
            raise
        except FileNotFoundError as error:
            raise SourceError(
                f"{self.name}: the temporary file {self.file.path} is gone, which "
                "lives with the source in the process that has opened it; open the "
                "rows where they are read, and where other machines read them too, set "
                "TMPDIR to a folder that all of them see"
            ) from error
        except (OSError, pa.ArrowException) as error:
            raise SourceError(
                f"{self.name}: the temporary file {self.file.path} cannot be read "
                f"({reason(error)}); open the rows again"
            ) from error


@dataclass
class RowWriter:
    """Writes batches to a file of a temporary folder, one Arrow stream for each piece
    of about `PART_BYTES`, so that pieces may differ in types and categories.

    Parameters
    ----------
    folder : TemporaryFolder
    name : str
        Of the file.
    place : str
        What the rows come from, for messages.
    """

    folder: TemporaryFolder
    name: str
    place: str
    _waiting: list[Batch] = field(default_factory=list)
    _size: int = 0
    _above: int = 0
    _pieces: list[tuple[int, int, int]] = field(default_factory=list)

    def __enter__(self) -> RowWriter:
        self._path = os.path.join(self.folder.path, self.name)
        self._file = arrow_file(self._path, "wb")
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):
            self._file.close()

    def write(self, batch: Batch) -> None:
        """Add rows, small batches together and large ones in pieces.

        Raises
        ------
        SourceError
            Where the disk is full, or the rows have values that no file holds.
        """
        self.folder.advance(batch.X.shape[0])
        if isinstance(batch.X, pa.Table):
            batch = batch._replace(X=batch.X.cast(roomy(batch.X.schema)))
        for few in batch.split(PART_BYTES):
            self._waiting.append(few)
            self._size += few.n_bytes
            if self._size >= PART_BYTES:
                self._flush()
            elif len(self._waiting) > MOST_PIECES:
                self._waiting = [joined(self._waiting, copied=True)]

    def finish(self) -> list[Piece]:
        """Write the rest; the pieces that hold all rows."""
        if self._waiting:
            self._flush()
        self._file.close()
        file = FileState.of(self._path)
        return [Piece(file, *numbers) for numbers in self._pieces]

    def _flush(self) -> None:
        try:
            table = _as_table(joined(self._waiting)).combine_chunks()
        except pa.ArrowMemoryError:
            raise
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise SourceError(
                f"{self.place}: the rows cannot be kept in a file ({reason(error)}); "
                "give each column values of one kind"
            ) from error
        try:
            offset = self._file.tell()
            free = shutil.disk_usage(self.folder.path).free
            if free < table.nbytes + min(SPARE_BYTES, offset):
                raise SourceError(
                    f"{self.folder.path}: the rows do not fit the disk, of which "
                    f"{free / 1e9:.2f} GB are free after {offset / 1e9:.2f} GB of rows;"
                    f" {CURE}"
                )
            options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
            with pa.ipc.new_stream(self._file, table.schema, options=options) as out:
                out.write_table(table)
        except OSError as error:
            raise SourceError(
                f"{self._path}: cannot be written ({reason(error)}); {CURE}"
            ) from error
        self._pieces.append((offset, len(table), self._above))
        self._above += len(table)
        self._waiting = []
        self._size = 0


def _as_table(batch: Batch) -> pa.Table:
    """The rows of a batch with all that belongs to them as columns."""
    X = batch.X
    if isinstance(X, pa.Table):
        table = X
    elif sp.issparse(X):
        offsets = pa.array(X.indptr, pa.int64())
        lists = {
            name: pa.LargeListArray.from_arrays(offsets, values)
            for name, values in (("values", _as_column(X.data)), ("indices", X.indices))
        }
        table = pa.table(lists)
    else:
        table = pa.table({"X": _as_column(X)})
    for name, values in ((Y, batch.y), (WEIGHT, batch.weight)):
        if values is not None:
            table = table.append_column(name, _as_column(values))
    return table


def _as_column(values: NDArray) -> pa.Array:
    """An array of rows as a column, of lists where rows have several values."""
    if values.dtype == np.longdouble:
        values = values.astype(np.float64)
    # Which makes missing values of the NaN among objects
    from_pandas = values.dtype == object
    flat = pa.array(np.ascontiguousarray(values).reshape(-1), from_pandas=from_pandas)
    if values.ndim == 1:
        return flat
    return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def _as_array(column: pa.ChunkedArray) -> NDArray:
    """The array of rows that a column was made of; text is an array of objects."""
    values = column.combine_chunks()
    if not pa.types.is_fixed_size_list(values.type):
        return values.to_numpy(zero_copy_only=False)
    flat = values.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(values), values.type.list_size)
