"""Opens the tables that commands are given: small ones are read into memory, others stay where they are."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from bochner.cli.errors import CommandError, errors_of
from bochner.data.files import COMPRESSED, HEAD, kind_by_content
from bochner.engines.current import current_engine
from bochner.inputs.training import gathers
from bochner.planning.plan import estimated_rows
from bochner.settings import current
from bochner.sources.base import Batch, SourceError, TableSource, infinite_value
from bochner.sources.csv_files import line_of, whole_span
from bochner.sources.hash_split import HashSplit, filter_rows
from bochner.sources.opening import open_selected
from bochner.sources.paths import files_of, kind_of
from bochner.sources.rows import concat
from bochner.sources.schema import Selection
from bochner.sources.table_files import TableFileError, read_table

STREAMED = (".arrow", ".arrows", ".ipc", ".feather", ".svm", ".svmlight", ".libsvm")  # that only sources can read
SCORED_ROWS, SCORED_ENTRIES = 1 << 18, 1 << 24  # rows at most that judge a model, of a table that stays where it is


def open_table(
    path: Path,
    note: Callable[[str], None],
    as_text: Collection[str] = (),
    sample: int | None = None,
    exclude: Collection[str] = (),
    named: Collection[str] = (),
    refused: Mapping[str, str] = MappingProxyType({}),
) -> pa.Table | TableSource:
    """A table in memory, or a source where it is too large for that, has no names, or is to be sampled.

    Parameters
    ----------
    path : Path
        Of a file or folder, or a pattern.
    note : callable
        Is told what a user should know.
    as_text : collection of str
        Columns of CSV files whose values are text, whatever they look like.
    sample : int, optional
        First rows that stand for all.
    exclude : collection of str
        Columns that are left out, where the table stays where it is or has several files.
    named : collection of str
        Columns that are no index of the rows.
    refused : mapping of str to str
        Columns of CSV files that are refused where they are text because of few values, with a cure or nothing.
    """
    if sample is None and _is_small_file(path):
        return read_table(path, as_text=as_text, refused=refused, named=named, exclude=exclude, note=note)
    with noted(note):
        source = open_files(path, exclude, named, schema=_text_schema(path, as_text), sample=sample)
    for name, cure in refused.items():
        if why := source.why_text(name):
            raise CommandError(f"{path}: column '{name}' {'; '.join(filter(None, (why, cure)))}")
    if source.sample is not None or source.names is None:
        return source
    n_rows = source.n_rows
    if n_rows is None or not _gathers(n_rows, len(source.names)):
        return source
    return gathered_table(source, path)


@contextmanager
def noted(note: Callable[[str], None]) -> Iterator[None]:
    """Tell of what is warned inside."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for one in caught:
        if issubclass(one.category, UserWarning):
            note(str(one.message))


def open_files(path: Path, exclude: Collection[str] = (), named: Collection[str] = (), **others: Any) -> TableSource:
    """A source of files, without some columns, which may be in some of the files only."""
    if exclude and kind_of(files_of(path)[0]) == "libsvm":
        raise CommandError(f"{path}: its columns have no names; leave out --exclude")
    with errors_of(path):
        return open_selected(path, Selection(exclude=tuple(sorted(exclude)), named=tuple(named)), **others)


def refuse_infinite(X: Any, path: Path) -> None:
    """Raise CommandError at the first infinite value of all rows of a table that has names."""
    if isinstance(X, pa.Table) and (infinite := infinite_value(X)):
        raise CommandError(f"{path}: {infinite.at(place_of(path, infinite.row))}")


def place_of(path: str | os.PathLike[str], row: int) -> str:
    """Where a row of a table is, in words: the line in files of text; rows count from 0."""
    try:
        files = files_of(path)
        if kind_of(files[0]) in ("csv", "tsv"):
            return line_of(files, row)
    except (OSError, SourceError):
        pass
    return f"row {row + 1}"


def gathered_table(source: TableSource, path: Path) -> pa.Table:
    """All rows of a source with names, in memory."""
    tables = [batch.X for part in source.parts for batch in part.read()]
    if not any(table.num_rows for table in tables):
        raise CommandError(f"{path}: the table has column names but no rows")
    return concat(tables).combine_chunks()


def judging_rows(source: TableSource, n_rows: int, share: float, rule: HashSplit) -> tuple[TableSource, float]:
    """Rows that judge a model, a share of all, but no more than tell its score; and the share that they are.

    Parameters
    ----------
    source : TableSource
    n_rows : int
        Of the source.
    share : float
    rule : HashSplit
        With the seed and the target.
    """
    columns = source.schema if isinstance(source.schema, int) else len(source.schema)
    most = min(SCORED_ROWS, max(SCORED_ENTRIES // max(columns, 1), 1))
    share = min(share, most / max(n_rows, 1))
    return filter_rows(source, HashSplit(0.0, share, rule.seed, rule.target)), share


def joined(batches: list[Batch]) -> Batch:
    """Batches as one."""
    X = concat([batch.X for batch in batches])
    y = None if batches[0].y is None else concat([batch.y for batch in batches])
    return Batch(X.combine_chunks() if isinstance(X, pa.Table) else X, y)


def _is_small_file(path: Path) -> bool:
    """Whether a path is one file that is read into memory, by what is said where it cannot be read."""
    if path.is_dir() or (not path.exists() and any(mark in str(path) for mark in "*?[")):
        return False
    if path.suffix.lower() in STREAMED or not path.is_file():
        return not path.is_file()
    with open(path, "rb") as file:
        head = file.read(HEAD)
    kind = kind_by_content(head)
    if kind == "parquet":
        return _is_small_parquet(path)
    if kind != "text" and kind not in COMPRESSED:
        return True
    first = head.partition(b"\n")[0]
    columns = 1 + max(map(first.count, (b",", b"\t", b";", b"|"))) if kind == "text" else 20
    return _gathers(estimated_rows(path), columns)


def _gathers(n_rows: int, n_columns: int) -> bool:
    return gathers(n_rows, n_columns, current().memory_limit, current_engine().is_remote)


def _is_small_parquet(path: Path) -> bool:
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            return _gathers(file.metadata.num_rows, file.metadata.num_columns)
    except (pa.ArrowException, OSError, TableFileError):
        return True


def _text_schema(path: Path, as_text: Collection[str]) -> pa.Schema | None:
    """The columns of CSV files that are text; None where there are none, and of other files, which know their types."""
    first = files_of(path)[0] if as_text else path
    if not as_text or kind_of(first) not in ("csv", "tsv"):
        return None
    text = [(name, pa.string()) for name in as_text if name in whole_span(first).names]
    return pa.schema(text) if text else None
