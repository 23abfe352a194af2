"""What the columns of files are like: numbers with commas, text by a few odd values,
numbers of rows, their names.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np
import pyarrow as pa

from bochner.data.hashes import mixed
from bochner.notices import listed, warn

WITH_COMMAS = r"^\s*[+-]?[.,]?\d[\d.,]*([eE][+-]?\d+)?\s*$"
WITHOUT_COMMAS = r"^[^,]*$"
THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2}(,\d{3})*\s*$"  # which may be meant
NAMELESS = re.compile(
    r"__index_level_\d+__"
)  # what Arrow calls an index of pandas that has no name
UNNAMED = re.compile(
    r"(Unnamed: 0(\.\d+)*)?"
)  # what pandas calls it when it has been written to a CSV, and read


def is_number(kind: pa.DataType) -> bool:
    """Whether values are whole or floating-point numbers."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether values are text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


FEW = 0.1  # share of the values of a column, at most, that make text of it by mistake
SHOWN_CHARACTERS = 40  # characters of a value
NUMBERS = r"^\s*[+-]?(\d+{point}?\d*|{point}\d+)([eE][+-]?\d+)?\s*$"
DAY, TIME = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d(:\d\d(\.\d+)?)?"
TIMES = rf"^({DAY}([ T]{TIME}(Z|[+-]\d\d(:?\d\d)?)?)?|{TIME})$"
KINDS: dict[str, tuple[str, Callable[[pa.DataType], bool]]] = {
    "numbers": (NUMBERS, is_number),
    "dates": (TIMES, pa.types.is_temporal),
}
BLOCK = 1 << 20


def _early(column: Any) -> Any:
    """Which values of a column of text are missing or sort before a colon: all that
    begin as numbers and dates do.
    """
    import pyarrow.compute as pc

    return pc.fill_null(pc.less(column, ":"), True)


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
    def of(cls, column: Any, early: Any = None) -> Commas:
        """Those of an Arrow column of any type; see `_early`."""
        import pyarrow.compute as pc

        if not pa.types.is_string(column.type):
            return cls(is_number(column.type) or pa.types.is_null(column.type))
        if pc.all(_early(column) if early is None else early).as_py() is False:
            return cls(numbers=False)
        matches = [
            pc.all(pc.match_substring_regex(column, pattern)).as_py() is not False
            for pattern in (WITH_COMMAS, WITHOUT_COMMAS, THOUSANDS)
        ]
        return cls(matches[0], not matches[1], matches[2])

    def __add__(self, other: Commas) -> Commas:
        return Commas(
            self.numbers and other.numbers,
            self.some or other.some,
            self.thousands and other.thousands,
        )


def names_problem(names: Sequence[str]) -> str:
    """What is wrong with the names of columns where some are equal, and the cure;
    empty where none are.
    """
    twice = [name for name, count in Counter(names).items() if count > 1]
    if "" in twice:
        numbers = [str(k) for k, name in enumerate(names, 1) if name == ""]
        return (
            f"columns {', '.join(numbers[:-1])} and {numbers[-1]} have no name; "
            "give each column a name of its own"
        )
    return (
        f"column names repeat: {listed(twice)}; give each column a name of its own"
        if twice
        else ""
    )


@dataclass(frozen=True)
class Odd:
    """How many values of a column are not of a kind, and the first of them; those of
    more rows add up.

    Attributes
    ----------
    rows, values : int
        All, and those that are not missing.
    odd : int
    first : tuple of int and str, or None
        Its row, counted from 0, and the value.
    """

    rows: int = 0
    values: int = 0
    odd: int = 0
    first: tuple[int, str] | None = None

    @classmethod
    def of(
        cls, column: Any, kind: str, decimal_point: str = ".", early: Any = None
    ) -> Odd:
        """Those of an Arrow column of any type, by the name of a kind; see `_early`."""
        import pyarrow.compute as pc

        n = len(column)
        values = len(column) - column.null_count
        if not is_text(column.type):
            odd = 0 if KINDS[kind][1](column.type) else values
            row = pc.index(column.is_valid(), True).as_py() if odd else None
            return cls(n, values, odd, None if row is None else (row, str(column[row])))
        pattern = KINDS[kind][0].replace(
            "{point}", "," if decimal_point == "," else r"\."
        )
        early = _early(column) if early is None else early
        fits = np.array(early)
        if fits.any():
            fits[fits] = pc.fill_null(
                pc.match_substring_regex(column.filter(early), pattern), True
            )
        odd = n - int(fits.sum())
        first = int(fits.argmin()) if odd else 0
        return cls(n, values, odd, (first, column[first].as_py()) if odd else None)

    def __add__(self, other: Odd) -> Odd:
        first = self.first
        if first is None and other.first is not None:
            first = self.rows + other.first[0], other.first[1]
        return Odd(
            self.rows + other.rows,
            self.values + other.values,
            self.odd + other.odd,
            first,
        )

    @property
    def are_few(self) -> bool:
        """Whether they are so few that they stand there by mistake, perhaps."""
        return 0 < self.odd <= FEW * self.values

    def described(self, place: Callable[[int], str]) -> str:
        """Their number and the first of them, with the place of its row in words."""
        row, value = self.first or (0, "")
        shown = (
            value
            if len(value) <= SHOWN_CHARACTERS
            else f"{value[:SHOWN_CHARACTERS]}..."
        )
        return (
            f"{self.odd:,} of {self.values:,} values, first {shown!r} in {place(row)}"
        )


@dataclass(frozen=True)
class Numbering:
    """Whether whole numbers are those of rows: from 0 or 1 on in any order, with
    certainty but for 2^-64, or some of them in order; those of more rows add up.

    Attributes
    ----------
    rows : int
    low, high : int
    total : int
        Sum of hashes of the numbers, which decides the set of them where the number,
        the least and the greatest do not.
    whole : bool
        Whether all values are whole numbers.
    rising : bool
        Whether each number is greater than the one before.
    """

    rows: int = 0
    low: int = 2**63
    high: int = -(2**63)
    total: int = 0
    whole: bool = True
    rising: bool = True

    @classmethod
    def of(cls, column: Any) -> Numbering:
        """That of an Arrow column of whole numbers, or of text."""
        import pyarrow.compute as pc

        if is_text(column.type):
            try:
                column = pc.utf8_trim_whitespace(column).cast(pa.int64())
            except pa.ArrowInvalid:
                return cls(whole=False)
        if not pa.types.is_integer(column.type) or column.null_count:
            return cls(whole=not len(column))
        if not len(column):
            return cls()
        numbers = np.asarray(column).astype(np.int64)
        return cls(
            len(numbers),
            int(numbers.min()),
            int(numbers.max()),
            _hash_sum(numbers),
            rising=bool((numbers[1:] > numbers[:-1]).all()),
        )

    def __add__(self, other: Numbering) -> Numbering:
        total = (self.total + other.total) % 2**64
        whole = self.whole and other.whole
        # Of numbers that rise, the greatest is the last one
        in_order = not self.rows or not other.rows or self.high < other.low
        return Numbering(
            self.rows + other.rows,
            min(self.low, other.low),
            max(self.high, other.high),
            total,
            whole,
            self.rising and other.rising and in_order,
        )

    @property
    def is_index(self) -> bool:
        """Whether the numbers are those of rows, of which some may have been taken
        out.
        """
        some_in_order = self.whole and self.rising and self.rows > 1 and self.low >= 0
        return some_in_order or self.counts_rows

    @property
    def counts_rows(self) -> bool:
        """Whether the numbers are those from 0 or from 1 on, each once."""
        if not (
            self.whole
            and self.rows
            and self.low in (0, 1)
            and self.high - self.low + 1 == self.rows
        ):
            return False
        starts = range(self.low, self.high + 1, BLOCK)
        sums = (
            _hash_sum(np.arange(start, min(start + BLOCK, self.high + 1)))
            for start in starts
        )
        return sum(sums) % 2**64 == self.total


def _hash_sum(numbers: Any) -> int:
    return int(mixed(numbers.astype(np.uint64) + np.uint64(1)).sum(dtype=np.uint64))


@dataclass(frozen=True)
class Values:
    """What the values of a column are like; those of more rows add up.

    Attributes
    ----------
    commas : Commas
    odd : dict of str to Odd
        By kinds.
    numbering : Numbering
        Of columns that may have the numbers of the rows; of others that of no rows.
    """

    commas: Commas = Commas()
    odd: dict[str, Odd] = field(default_factory=lambda: {kind: Odd() for kind in KINDS})
    numbering: Numbering = Numbering()

    @classmethod
    def of(cls, column: Any, decimal_point: str, numbered: bool) -> Values:
        """Those of an Arrow column."""
        early = _early(column) if is_text(column.type) else None
        odd = {kind: Odd.of(column, kind, decimal_point, early) for kind in KINDS}
        return cls(
            Commas.of(column, early),
            odd,
            Numbering.of(column) if numbered else Numbering(),
        )

    def __add__(self, other: Values) -> Values:
        odd = {kind: found + other.odd[kind] for kind, found in self.odd.items()}
        return Values(self.commas + other.commas, odd, self.numbering + other.numbering)


def why_text(odd: Mapping[str, Odd], place: Callable[[int], str]) -> str:
    """Why a column of text is no column of another kind, where few values are odd, and
    the cure; else empty.

    Parameters
    ----------
    odd : dict of str to Odd
        By kinds.
    place : callable
        The place of a row in words.
    """
    for kind, found in odd.items():
        if found.are_few:
            return (
                f"is text because of {found.described(place)}; write {kind} "
                "there, or nothing"
            )
    return ""


def index_columns(schema: pa.Schema) -> list[str]:
    """Columns of a Parquet or Arrow file that were the index of a data frame of
    pandas.
    """
    try:
        said = list(json.loads((schema.metadata or {})[b"pandas"])["index_columns"])
    except (KeyError, TypeError, ValueError):
        said = []  # not written by pandas, or by one of long ago
    return [name for name in schema.names if name in said or NAMELESS.fullmatch(name)]


def unnamed_first(names: Iterable[str]) -> list[str]:
    """The first columns of a CSV, as far as they have no name."""
    return list(takewhile(UNNAMED.fullmatch, names))


def numbered_columns(names: Iterable[str], *values: Mapping[str, Values]) -> list[str]:
    """Those of the first columns without a name that number the rows of each of some
    files: in any order, or with gaps in order.
    """
    return [
        name
        for name in unnamed_first(names)
        if all(name in some and some[name].numbering.is_index for some in values)
    ]


def warn_of_index(names: Sequence[str]) -> None:
    """Say that the index of a Parquet or Arrow file is left out, if it has a name."""
    for name in names:
        if not NAMELESS.fullmatch(name):
            cure = (
                "name it in columns=, or write the file after reset_index(), to "
                "learn from it"
            )
            warn(
                f"Column {name!r} is the index of the data frame in the file, and "
                f"is left out; {cure}."
            )
