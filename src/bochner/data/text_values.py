"""What the values of a column of delimited text are like, as a sum over its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bochner.data.delimited import Commas, is_number
from bochner.data.hashes import mixed

FEW = 0.1  # share of the values of a column, at most, that make text of it by mistake
SHOWN = 40  # characters of a value
NUMBERS = r"^\s*[+-]?(\d+{point}?\d*|{point}\d+)([eE][+-]?\d+)?\s*$"
DAY, TIME = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d(:\d\d(\.\d+)?)?"
TIMES = rf"^({DAY}([ T]{TIME}(Z|[+-]\d\d(:?\d\d)?)?)?|{TIME})$"
KINDS: dict[str, tuple[str, Callable[[pa.DataType], bool]]] = {
    "numbers": (NUMBERS, is_number),
    "dates": (TIMES, pa.types.is_temporal),
}
BLOCK = 1 << 20


def is_text(kind: pa.DataType) -> bool:
    """Whether values are text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


@dataclass(frozen=True)
class Odd:
    """How many values of a column are not of a kind, and the first of them; those of more rows add up.

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
    def of(cls, column: Any, kind: str, decimal_point: str = ".") -> Odd:
        """Those of an Arrow column of any type, by the name of a kind."""
        import pyarrow.compute as pc

        n, values = len(column), len(column) - column.null_count
        if not is_text(column.type):
            odd = 0 if KINDS[kind][1](column.type) else values
            row = pc.index(column.is_valid(), True).as_py() if odd else None
            return cls(n, values, odd, None if row is None else (row, str(column[row])))
        pattern = KINDS[kind][0].replace("{point}", "," if decimal_point == "," else r"\.")
        early = pc.fill_null(pc.less(column, ":"), True)  # all others begin with no digit, sign, point or blank
        rows = np.flatnonzero(early)
        fits = np.asarray(early).copy()
        fits[rows] = pc.fill_null(pc.match_substring_regex(column.filter(early), pattern), True)
        odd = n - int(fits.sum())
        first = int(fits.argmin()) if odd else 0
        return cls(n, values, odd, (first, column[first].as_py()) if odd else None)

    def __add__(self, other: Odd) -> Odd:
        first = self.first
        if first is None and other.first is not None:
            first = self.rows + other.first[0], other.first[1]
        return Odd(self.rows + other.rows, self.values + other.values, self.odd + other.odd, first)

    @property
    def are_few(self) -> bool:
        """Whether they are so few that they stand there by mistake, perhaps."""
        return 0 < self.odd <= FEW * self.values

    def described(self, place: Callable[[int], str]) -> str:
        """Their number and the first of them, with the place of its row in words."""
        row, value = self.first or (0, "")
        shown = value if len(value) <= SHOWN else f"{value[:SHOWN]}..."
        return f"{self.odd:,} of {self.values:,} values, first {shown!r} in {place(row)}"


@dataclass(frozen=True)
class Numbering:
    """Whether whole numbers are those of rows in any order, with certainty but for 2^-64; those of more rows add up.

    Attributes
    ----------
    rows : int
    low, high : int
    total : int
        Sum of hashes of the numbers, which decides the set of them where the number, the least and the greatest do not.
    whole : bool
        Whether all values are whole numbers.
    """

    rows: int = 0
    low: int = 2**63
    high: int = -(2**63)
    total: int = 0
    whole: bool = True

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
        return cls(len(numbers), int(numbers.min()), int(numbers.max()), _hash_sum(numbers))

    def __add__(self, other: Numbering) -> Numbering:
        total, whole = (self.total + other.total) % 2**64, self.whole and other.whole
        return Numbering(self.rows + other.rows, min(self.low, other.low), max(self.high, other.high), total, whole)

    @property
    def counts_rows(self) -> bool:
        """Whether the numbers are those from 0 or from 1 on, each once."""
        if not (self.whole and self.rows and self.low in (0, 1) and self.high - self.low + 1 == self.rows):
            return False
        starts = range(self.low, self.high + 1, BLOCK)
        sums = (_hash_sum(np.arange(start, min(start + BLOCK, self.high + 1))) for start in starts)
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

    commas: Commas
    odd: dict[str, Odd]
    numbering: Numbering

    @classmethod
    def none(cls) -> Values:
        """Those of no rows."""
        return cls(Commas(), {kind: Odd() for kind in KINDS}, Numbering())

    def add(self, column: Any, decimal_point: str, numbered: bool) -> Values:
        """With those of more rows, an Arrow column."""
        commas = self.commas + Commas.of(column) if self.commas.numbers else self.commas
        odd = {kind: found + Odd.of(column, kind, decimal_point) for kind, found in self.odd.items()}
        return Values(commas, odd, self.numbering + Numbering.of(column) if numbered else self.numbering)

    def __add__(self, other: Values) -> Values:
        odd = {kind: found + other.odd[kind] for kind, found in self.odd.items()}
        return Values(self.commas + other.commas, odd, self.numbering + other.numbering)


def why_text(odd: Mapping[str, Odd], place: Callable[[int], str]) -> str:
    """Why a column of text is no column of another kind, where few values are odd, and the cure; else empty.

    Parameters
    ----------
    odd : dict of str to Odd
        By kinds.
    place : callable
        The place of a row in words.
    """
    for kind, found in odd.items():
        if found.are_few:
            return f"is text because of {found.described(place)}; write {kind} there, or nothing"
    return ""
