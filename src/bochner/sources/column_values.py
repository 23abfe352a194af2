"""What the columns of files are like: text by a few odd values, an index of the rows,
their names.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from bochner.notices import listed
from bochner.sources.base import SourceError, TableSource

# What Arrow calls an index of pandas that has no name
NAMELESS = re.compile(r"__index_level_\d+__")


def is_number(kind: pa.DataType) -> bool:
    """Whether values are whole or floating-point numbers."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether values are text."""
    return (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
    )


FEW = 0.1  # share of the values of a column, at most, that make text of it by mistake
SHOWN_CHARACTERS = 40  # characters of a value
NUMBER = r"^\s*[+-]?(\d+{point}?\d*|{point}\d+)([eE][+-]?\d+)?\s*$"
WITH_COMMAS = r"^\s*[+-]?[.,]?\d[\d.,]*([eE][+-]?\d+)?\s*$"


def require_distinct(names: Sequence[str]) -> None:
    """Raise SourceError where some names of columns are equal."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if not twice:
        return
    problem = f"column names repeat: {listed(twice)}"
    if "" in twice:
        numbers = [str(k) for k, name in enumerate(names, 1) if name == ""]
        problem = f"columns {', '.join(numbers[:-1])} and {numbers[-1]} have no name"
    raise SourceError(f"{problem}; give each column a name of its own")


def why_text(source: TableSource, name: str) -> str:
    """Why a column of files of text is no column of numbers, where few of its values
    are none, and the cure; else empty.

    Reads all rows where the type of the column is that of its values.
    """
    import pyarrow.compute as pc

    if name not in source.inferred:
        return ""
    parts: Sequence[Any] = source.parts
    comma = parts[0].text.dialect.decimal_point == ","
    number = NUMBER.replace("{point}", "," if comma else r"\.")
    n_values = 0
    n_odd = 0
    first = ""
    have_commas = True
    for part in parts:
        above = 0
        for batch in part.read():
            column = batch.X[name]
            is_odd = pc.invert(pc.match_substring_regex(column, number))
            n_values += len(column) - column.null_count
            n_odd += pc.sum(is_odd).as_py() or 0
            if n_odd and not first:
                row = pc.index(is_odd, True).as_py()
                value = column[row].as_py()
                if len(value) > SHOWN_CHARACTERS:
                    value = f"{value[:SHOWN_CHARACTERS]}..."
                several = len({other.place for other in parts}) > 1
                of_file = f" of {os.path.basename(part.place)}" if several else ""
                first = f"{value!r} in line {part.line(above + row)}{of_file}"
            odd = column.filter(is_odd)
            matches = pc.match_substring_regex(odd, WITH_COMMAS)
            have_commas = have_commas and pc.all(matches, min_count=0).as_py()
            above += len(column)
    if 0 < n_odd <= FEW * n_values:
        return (
            f"is text because of {n_odd:,} of {n_values:,} values, first {first}; "
            "write numbers there, or nothing"
        )
    if n_odd and have_commas:
        if comma:
            return f"has points between thousands, first {first}; write nothing there"
        return (
            f"has numbers with commas, first {first}; write a decimal point, and "
            "nothing between thousands"
        )
    return ""


def index_columns(schema: pa.Schema) -> list[str]:
    """Columns of a Parquet or Arrow file that were the index of a data frame of
    pandas.
    """
    said = []  # where it is not written by pandas, or by one of long ago
    with suppress(KeyError, TypeError, ValueError):
        said = list(json.loads((schema.metadata or {})[b"pandas"])["index_columns"])
    return [name for name in schema.names if name in said or NAMELESS.fullmatch(name)]
