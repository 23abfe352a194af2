"""Columns of files that are the index of a data frame, and say nothing of its rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

import pyarrow as pa

from bochner.data.text_values import Values

NAMELESS = re.compile(r"__index_level_\d+__")  # what Arrow calls an index of pandas that has no name
UNNAMED = re.compile(r"(Unnamed: 0(\.\d+)*)?")  # what pandas calls it when it has been written to a CSV, and read


def index_columns(schema: pa.Schema) -> list[str]:
    """Columns of a Parquet or Arrow file that were the index of a data frame of pandas."""
    try:
        said = list(json.loads((schema.metadata or {})[b"pandas"])["index_columns"])
    except (KeyError, TypeError, ValueError):
        said = []  # not written by pandas, or by one of long ago
    return [name for name in schema.names if name in said or NAMELESS.fullmatch(name)]


def unnamed_first(names: Iterable[str]) -> list[str]:
    """The first columns of a CSV, as far as they have no name."""
    return list(takewhile(UNNAMED.fullmatch, names))


def numbered_columns(names: Iterable[str], *values: Mapping[str, Values]) -> list[str]:
    """Those of the first columns without a name that number the rows, in any order, of each of some files."""
    return [name for name in unnamed_first(names) if all(_counts_rows(name, some) for some in values)]


def _counts_rows(name: str, values: Mapping[str, Values]) -> bool:
    return name in values and values[name].numbering.counts_rows


def index_left_out(names: Sequence[str]) -> Iterator[str]:
    """Yield what to say of the index of a Parquet or Arrow file that is left out, where it has a name."""
    for name in names:
        if not NAMELESS.fullmatch(name):
            cure = "name it in columns=, or write the file after reset_index(), to learn from it"
            yield f"Column {name!r} is the index of the data frame in the file, and is left out; {cure}."
