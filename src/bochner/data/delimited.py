"""How tables are written as text: separators, decimal commas, and what is wrong with a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

HEAD = 1 << 16
WITH_COMMAS = r"^\s*[+-]?[.,]?\d[\d.,]*([eE][+-]?\d+)?\s*$"
WITHOUT_COMMAS = r"^[^,]*$"
THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2}(,\d{3})*\s*$"  # which may be meant


@dataclass(frozen=True)
class Commas:
    """What a column of text has of numbers with commas; those of more rows add up.

    Attributes
    ----------
    numbers : bool
        Whether all values look like numbers, with or without commas.
    some : bool
        Whether one of them has a comma.
    thousands : bool
        Whether all commas may stand between thousands.
    """

    numbers: bool = True
    some: bool = False
    thousands: bool = True

    @classmethod
    def of(cls, column: Any) -> Commas:
        """Those of an Arrow column of any type."""
        import pyarrow.compute as pc

        if not pa.types.is_string(column.type):
            return cls(is_number(column.type) or pa.types.is_null(column.type))
        if pc.all(pc.less(column, ":")).as_py() is False:  # a value begins with no digit, sign, point or blank
            return cls(numbers=False)
        matches = [
            pc.all(pc.match_substring_regex(column, pattern)).as_py() is not False
            for pattern in (WITH_COMMAS, WITHOUT_COMMAS, THOUSANDS)
        ]
        return cls(matches[0], not matches[1], matches[2])

    def __add__(self, other: Commas) -> Commas:
        return Commas(self.numbers and other.numbers, self.some or other.some, self.thousands and other.thousands)


def with_commas(columns: Mapping[str, Commas], separator: str) -> tuple[list[str], list[str]]:
    """Names of the columns of numbers with commas, and of those among them whose commas may be no decimal ones."""
    found = [name for name, commas in columns.items() if commas.numbers and commas.some]
    return found, [name for name in found if separator == "," or columns[name].thousands]


def is_number(kind: pa.DataType) -> bool:
    """Whether values are whole or floating-point numbers."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def text_head(path: Any, compression: str | None) -> bytes:
    """The first bytes of a file of text, OSError where they cannot be decompressed."""
    with pa.input_stream(str(path), compression=compression) as stream:
        return stream.read(HEAD)


def separator_of(head: bytes) -> str:
    """What separates the fields of the first row: a comma where it has one, else the commonest of a few marks."""
    first = head.lstrip(b"\xef\xbb\xbf\r\n").partition(b"\n")[0].decode(errors="replace")
    plain = "".join(first.split('"')[::2])
    counts = {mark: plain.count(mark) for mark in ",\t;|"}
    return "," if counts[","] else max(counts, key=lambda mark: counts[mark])


def csv_options(separator: str, decimal_point: str, types: Mapping[str, pa.DataType], **more: Any) -> dict[str, Any]:
    """Options of `pyarrow.csv` for tables as people write them; empty fields, NA, NaN and null are missing."""
    from pyarrow import csv

    return {
        "parse_options": csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        "convert_options": csv.ConvertOptions(
            strings_can_be_null=True, column_types=dict(types), decimal_point=decimal_point, **more
        ),
    }


def csv_problem(error: Exception, names: Sequence[str], line_of: Callable[[int], int]) -> str:
    """What Arrow found wrong with a CSV, and the cure; with the line of the file, that of the names being 1.

    Parameters
    ----------
    error : Exception
        Raised by `pyarrow.csv` in one thread.
    names : sequence of str
        Of the columns of the file.
    line_of : callable
        Line of a row, which counts from 0 where Arrow began to read.
    """
    text = first_line(error).removeprefix("CSV parse error: ")
    place, text = _place(text, names, line_of)
    if "UTF8" in text:
        return not_utf8(place or text.partition(":")[0])
    if "mpty CSV file" in text:
        return "the table has no rows below its column names"
    if place and text.startswith("Expected "):
        counts = text.removeprefix("Expected ").partition(":")[0].replace(" columns, got ", " fields expected, ")
        return f"{place}: {counts} found; quote fields that hold the separator, or fix the line"
    if text.startswith("CSV conversion error to "):
        kind, _, value = text.removeprefix("CSV conversion error to ").partition(": ")
        text = f"{value} for {kind}; fix it, or give another type in schema="
    return f"{place}: {text}" if place else text


def _place(text: str, names: Sequence[str], line_of: Callable[[int], int]) -> tuple[str, str]:
    """Where an error is in words, and what else its message says."""
    column, line = "", ""
    if text.startswith("In CSV column #"):
        number, _, text = text.removeprefix("In CSV column #").partition(": ")
        known = int(number) < len(names)
        column = f"column {names[int(number)]!r}" if known else f"column number {int(number) + 1}"
    if text.startswith("Row #"):
        number, _, text = text.removeprefix("Row #").partition(": ")
        line = f"line {line_of(int(number) - 1)}"
    return ", ".join(filter(None, (line, column))), text


def names_problem(names: Sequence[str]) -> str:
    """What is wrong with the names of columns where some are equal, and the cure; empty where none are."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if "" in twice:
        numbers = [str(k) for k, name in enumerate(names, 1) if name == ""]
        return f"columns {', '.join(numbers[:-1])} and {numbers[-1]} have no name; give each column a name of its own"
    return f"column names repeat: {listed(twice)}; give each column a name of its own" if twice else ""


def listed(names: Iterable[str], limit: int = 8, last: str = ", ") -> str:
    """Names in quotes, the first of many."""
    shown = [repr(name) for name in names]
    if len(shown) > limit:
        return f"{', '.join(shown[:limit])} and {len(shown) - limit} more"
    return last.join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def not_utf8(place: str) -> str:
    """What is wrong with text in another encoding than UTF-8."""
    return f"{place}: text that is not UTF-8; save the file with UTF-8 encoding"


def first_line(error: BaseException) -> str:
    """What an error says, in its first line without the full stop."""
    return str(error).partition("\n")[0].strip().rstrip(".") or type(error).__name__
