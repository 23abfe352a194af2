"""Opens the tables that commands are given: small ones are read into memory, others
stay where they are; and checks that a file can be written beside them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from bochner.blocks import HELD_ENTRIES
from bochner.cli.failures import CommandError, Facts, errors_of
from bochner.data.table import TableEncoder
from bochner.engines.current import current_engine
from bochner.inputs.opened import gathers
from bochner.sources.base import Batch, SourceError, TableSource, infinite_value
from bochner.sources.csv_files import line_of
from bochner.sources.csv_text import CsvText, whole_file
from bochner.sources.opening import open_selected
from bochner.sources.paths import files_of, kind_of
from bochner.sources.rows import filter_rows, joined
from bochner.sources.schema import Selection

TEXT_KINDS = "csv", "tsv", "arff"
DECIMAL_COMMAS = "Numbers have decimal commas."
FROM_ZERO = "Columns are counted from 0."
# Rows at most that evaluate a model, of a table that stays where it is
SCORED_ROWS = 1 << 18


def open_rows(
    path: Path,
    notes: list[str],
    selection: Selection,
    as_text: Collection[str] = (),
    sample: int | None = None,
) -> TableSource:
    """A table that is read part by part.

    Parameters
    ----------
    path : Path
        Of a file or folder, or a pattern.
    notes : list of str
        Is told what a user should know.
    selection : Selection
        Without the types of columns, but for the number of those of a LIBSVM file, the
        last of which may have no values in it.
    as_text : collection of str
        Columns of CSV files whose values are text, whatever they look like.
    sample : int, optional
        First rows that stand for all.
    """
    remarks = list[str]()
    with noted(remarks), errors_of(path):
        first = files_of(path)[0]
        kind = kind_of(first)
        if kind != "libsvm":
            # Columns of CSV files that are text; other files know their types
            is_text = bool(as_text) and kind in TEXT_KINDS
            names = whole_file(first).dialect.names if is_text else []
            columns = [(name, pa.string()) for name in as_text if name in names]
            selection = replace(selection, types=pa.schema(columns) or None)
        elif selection.exclude:
            raise CommandError(
                f"{path}: its columns have no names; leave out --exclude"
            )
        source = open_selected(path, selection, sample)
    # What is unusual about the fields of CSV files
    text = getattr(source.parts[0], "text", None)
    if isinstance(text, CsvText):
        if text.separator not in ", " and kind != "tsv":
            name = "tabs" if text.separator == "\t" else repr(text.separator)
            notes.append(f"Fields are separated by {name}.")
        if text.dialect.decimal_point == ",":
            notes.append(DECIMAL_COMMAS)
    if source.sparse and getattr(source.parts[0], "first_index", 1) == 0:
        notes.append(FROM_ZERO)
    notes += dict.fromkeys(remarks)
    return source


def open_table(
    path: Path,
    notes: list[str],
    exclude: Collection[str] = (),
    named: Collection[str] = (),
    **options: Any,
) -> pa.Table | TableSource:
    """A table in memory, or a source where it is too large for that, has no names, or
    is to be sampled; the columns that are left out and those that are no index of the
    rows, and options as of `open_rows`.
    """
    selection = Selection(exclude=tuple(sorted(exclude)), named=tuple(named))
    source = open_rows(path, notes, selection, **options)
    if source.sample is not None or source.names is None or not _is_small(source):
        return source
    return read_rows(source).X


def _is_small(source: TableSource) -> bool:
    """Whether the command reads all rows of a table into memory."""
    n_rows = source.n_rows or 0
    return gathers(n_rows, source.n_columns, current_engine().is_remote)


@contextmanager
def noted(notes: list[str]) -> Iterator[None]:
    """Note what is warned inside."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    notes += [
        str(one.message) for one in caught if issubclass(one.category, UserWarning)
    ]


def fitted_encoder(
    X: pa.Table, notes: list[str], how_text_is_read: Facts
) -> TableEncoder:
    """The encoder of a table; `notes` are told what it has to say."""
    with noted(notes):
        return TableEncoder(**how_text_is_read).fit(X)


def refuse_infinite(X: pa.Table, path: Path, first: int = 0) -> None:
    """Raise CommandError at the first infinite value of a table, whose first row has
    this number in the file.
    """
    if infinite := infinite_value(X, first):
        place = place_of(path, infinite.row)
        raise CommandError(f"{path}: {infinite.message_at(place)}")


def place_of(path: str | os.PathLike[str], row: int) -> str:
    """Where a row of a table is, in words: the line in files of text; rows count
    from 0.
    """
    try:
        files = files_of(path)
        if kind_of(files[0]) in TEXT_KINDS:
            return line_of(files, row)
    except (OSError, SourceError):
        pass
    return f"row {row}"


def read_rows(source: TableSource) -> Batch:
    """All rows of a source as one batch; SourceError where there are none."""
    batches = [
        batch for part in source.parts for batch in part.read() if batch.X.shape[0]
    ]
    if not batches:
        raise SourceError(f"{source.what}: there are no rows, or a share of none")
    return joined(batches, copied=True)


def some_rows(source: TableSource, share: float = 1.0) -> tuple[Batch, float]:
    """All rows of a small table; of others about a share, or what tells a score; and
    the share that was read.
    """
    if _is_small(source):
        return read_rows(source), 1.0
    share = scored_share(source, source.n_rows or 0, share)
    return drawn_rows(source, share, 0), share


def scored_share(source: TableSource, n_rows: int, share: float) -> float:
    """The share of its n rows that a model is scored on: no more than `share`, and
    no more than tell the score.
    """
    most = min(SCORED_ROWS, max(HELD_ENTRIES // max(source.n_columns, 1), 1))
    return min(share, most / max(n_rows, 1))


def drawn_rows(
    source: TableSource,
    share: float,
    seed: int,
    target: str | None = None,
    group: str | None = None,
) -> Batch:
    """A share of the rows, drawn by a hash of their content, or of their group, of
    those that have a target; SourceError where there are none.
    """
    return read_rows(filter_rows(source, 0.0, share, seed, target, group))


def check_output(path: Path, *inputs: Path) -> None:
    """Raise CommandError where a file could not be written, before any work."""
    # Takes links in a circle as they are
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise CommandError(
            f"{path}: the folder '{folder}' does not exist; create it first"
        )
    if path.is_dir():
        raise CommandError(f"{path}: is a folder; give the name of a file")
    if path.exists() and not path.is_file():
        raise CommandError(
            f"{path}: is not a regular file, and would be replaced by one; give "
            "another name"
        )
    if not os.access(folder, os.W_OK):
        raise CommandError(f"{path}: the folder '{folder}' cannot be written to")
    for source in inputs:
        # None of an input that cannot be read, as is said where it is opened
        try:
            files = files_of(source)
        except SourceError:
            files = [source] if source.exists() else []
        if path.exists() and any(map(path.samefile, files)):
            raise CommandError(
                f"{path}: is also the input, and would be overwritten; give another "
                "name"
            )
