"""Datasets of Arrow and lazy frames of polars, by files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from bochner.data.csv_text import index_columns, index_left_out
from bochner.data.streams import ipc, parquet
from bochner.data.streams.base import SourceError, TableSource
from bochner.data.streams.folders import reason
from bochner.data.streams.selection import Selection, require
from bochner.data.streams.temporary import TemporaryFolder
from bochner.notices import warn

ROW_GROUP = 1 << 16
CURE = "give their folder, or their paths, in place of the Dataset"


def open_dataset(dataset: Any, selection: Selection | None = None, schema: pa.Schema | None = None) -> TableSource:
    """The files of a `pyarrow.dataset.Dataset`, with the columns that the names of their folders hold.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset
        Of Parquet or Arrow files on this machine.
    selection : Selection, optional
    schema : pyarrow.Schema, optional
        Types that columns are to have; those of the Dataset by default, where they differ from those of its first file.

    Raises
    ------
    SourceError
        Where the Dataset holds a condition, or anything else than whole files that can be read here.
    """
    try:
        fragments = list(dataset.get_fragments())
    except ValueError as error:
        raise SourceError("a Dataset with a condition cannot be opened; give the condition as where=") from error
    paths, reader, what = _files(fragments)
    constants = [_constants(fragment, dataset.schema) for fragment in fragments]
    selection = selection or Selection()
    index = selection.index(index_columns(dataset.schema))
    for sentence in index_left_out(index):
        warn(sentence)
    names = selection.without(index).kept(dataset.schema.names)
    require(dataset.schema.names, [*names, *selection.exclude])
    types = {column.name: column.type for column in [*fragments[0].physical_schema, *constants[0].schema]}
    asked = {column.name: column for column in dataset.schema if column.type != types.get(column.name, column.type)}
    asked |= {column.name: column for column in schema or ()}
    parts, kept = reader.parts(paths, replace(selection, columns=tuple(names)), pa.schema(asked.values()), constants)
    return TableSource(parts, kept, f"a Dataset of {what}")


def open_lazy(frame: Any, selection: Selection | None = None, schema: pa.Schema | None = None) -> TableSource:
    """The rows of a polars `LazyFrame`, which is computed once, in batches, into a temporary file; a warning says so.

    Parameters
    ----------
    frame : polars.LazyFrame
    selection : Selection, optional
    schema : pyarrow.Schema, optional
        Types that columns are to have.

    Raises
    ------
    SourceError
        Where polars cannot compute it, or the disk is full.
    """
    from polars.exceptions import PolarsError

    selection, folder = selection or Selection(), TemporaryFolder()
    path = os.path.join(folder.path, "rows.parquet")
    warn(f"The LazyFrame is written to {path}; sink it to a file of your own to use it again.")
    try:
        if selection.where is None:
            names = frame.collect_schema().names()
            require(names, [*(selection.columns or ()), *selection.exclude])
            require(names, pa.schema(schema or ()).names, "schema: ")
            wanted = selection.kept(names)
            frame = frame.select(wanted)
            schema = pa.schema([column for column in schema or () if column.name in wanted])
        frame.sink_parquet(path, compression="lz4", row_group_size=ROW_GROUP)
    except (PolarsError, OSError) as error:
        cure = "fix it, or free space in the temporary folder"
        raise SourceError(f"the LazyFrame cannot be computed ({reason(error)}); {cure}") from error
    parts, kept = parquet.parts(
        [path], replace(selection, exclude=()) if selection.where is None else selection, schema
    )
    return TableSource(parts, kept, "a LazyFrame in a temporary file", owner=folder)


def _files(fragments: Sequence[Any]) -> tuple[list[str], Any, str]:
    """Paths of the files, what reads them, and what they are."""
    from pyarrow import dataset as ds

    if not fragments:
        raise SourceError("the Dataset has no files; give one with rows")
    if not all(isinstance(fragment, ds.FileFragment) for fragment in fragments):
        raise SourceError("the Dataset is not made of files; give the table or the batches that it was made from")
    kinds = {fragment.format.default_extname for fragment in fragments}
    if kinds not in ({"parquet"}, {"arrow"}, {"feather"}):
        raise SourceError(f"the Dataset is of {' and '.join(sorted(kinds))} files; {CURE}")
    first = fragments[0]
    if kinds == {"parquet"} and first.num_row_groups < first.metadata.num_row_groups:
        raise SourceError(f"the Dataset leaves out row groups of {first.path}; {CURE}")
    paths = [_local(fragment.path, fragment.filesystem) for fragment in fragments]
    if len(set(paths)) < len(paths):
        raise SourceError(f"the Dataset reads parts of a file, or one twice; {CURE}")
    what = "Parquet" if kinds == {"parquet"} else "Arrow"
    return paths, parquet if what == "Parquet" else ipc, f"{len(paths):,} {what} file{'s' * (len(paths) > 1)}"


def _local(path: str, filesystem: Any) -> str:
    from pyarrow import fs

    if isinstance(filesystem, fs.SubTreeFileSystem):
        return _local(os.path.join(filesystem.base_path, path.lstrip("/")), filesystem.base_fs)
    if not isinstance(filesystem, fs.LocalFileSystem):
        raise SourceError(f"{path} is on {filesystem.type_name}; files are read from this machine only: copy them")
    return path


def _constants(fragment: Any, schema: pa.Schema) -> pa.Table:
    """Columns whose values the folders of a file hold: one row."""
    from pyarrow.dataset import get_partition_keys

    keys = get_partition_keys(fragment.partition_expression)
    return pa.table({name: pa.array([value], schema.field(name).type) for name, value in keys.items()})
