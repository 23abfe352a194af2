"""Encodings of columns: of numbers, times and text; which each column of a table
has, and the names of its outputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats, Mask, n_distinct
from bochner.blocks import TILE_ENTRIES
from bochner.data.columns import LINEAR, are_finite, base_kind, missing, parts_of
from bochner.data.hashes import text_digests
from bochner.data.level_means import MISSING, LevelMeans, level_keys
from bochner.data.table_statistic import (
    TableStatistic,
    is_constant,
    part_offsets,
)
from bochner.data.weights import group_means


class Encoding:
    """The encoding of a column of the input, in consecutive columns from `start` on."""

    index: Any
    start: int
    suffixes: list[str]
    gaps: Any
    expected: str | None = None

    @property
    def width(self) -> Any:
        """Number of output columns of each column of the input."""
        return len(self.suffixes)

    def placed(self, start: Any) -> Any:
        """The encoding with these first output columns."""
        return replace(self, start=int(start))  # type: ignore[type-var]

    def new_gaps(self, values: Any) -> list[int]:
        """Columns of the input that miss values now and had all of them in the fit."""
        return [] if self.gaps or not missing(values).any() else [self.index]

    def outputs(self) -> Iterator[tuple[int, int, str, int]]:
        """Yield output columns, their input columns, what their names end in, and the
        first of the output columns that each belongs together with.
        """
        for output_column, suffix in enumerate(self.suffixes, self.start):
            tied = self.tied(output_column, suffix)
            yield output_column, self.index, f"_{suffix}", tied

    def tied(self, output_column: int, suffix: str) -> int:
        """The first of the output columns that one belongs together with: its own."""
        return output_column


def laid_out(columns: list[Any], n_columns: int) -> tuple[list[Any], int]:
    """The encodings with their outputs in the order of the columns of the input, and
    the number of outputs.
    """
    width = np.zeros(n_columns, np.intp)
    for column in columns:
        width[column.index] = column.width
    start = np.cumsum(width) - width
    return [column.placed(start[column.index]) for column in columns], int(width.sum())


@dataclass
class NumberColumns(Encoding):
    """The numeric columns of a table, z = (x - shift) / scale, missing values replaced
    by `fill`.

    Attributes
    ----------
    index : int array of shape (k,)
        Input columns.
    shift, scale, fill : float64 arrays of shape (k,)
    gaps : bool array of shape (k,)
        Whether a 0/1 indicator of missing values follows the value.
    low, high : float64 arrays of shape (k,)
        Least and greatest values beside outliers, which count as these; infinite where
        there are none.
    at : int array of shape (k,)
        Output columns of the values.
    """

    index: NDArray
    shift: NDArray
    scale: NDArray
    fill: NDArray
    gaps: NDArray
    low: NDArray
    high: NDArray
    at: NDArray

    @property
    def width(self) -> NDArray:
        """Number of output columns of each column of the input."""
        return 1 + self.gaps

    def placed(self, start: NDArray) -> NumberColumns:
        """The encoding with these first output columns."""
        return replace(self, at=start)

    def take(self, chosen: Mask) -> NumberColumns:
        """The encoding of some of the columns."""
        return NumberColumns(*(array[chosen] for array in vars(self).values()))

    def keeping_far(self) -> NumberColumns:
        """The encoding with outliers as far as they are, up to what single precision
        holds easily, and other values than those of constant columns far from these.
        """
        unit = FAINT * np.maximum(np.abs(self.shift), 1.0)
        scale = np.where(self.scale == IGNORED, unit, self.scale)
        with np.errstate(over="ignore"):
            reach = FARTHEST_UNITS * scale
            return replace(
                self, low=self.shift - reach, high=self.shift + reach, scale=scale
            )

    def telling_apart(self, samples: Floats) -> NumberColumns:
        """The encoding without shifts where these make different values of samples,
        (n, k), equal in single precision, as of concentrations over ten decades.
        """
        shift = self.shift.copy()
        for i, values in enumerate(samples.T):
            different = np.unique(values[np.isfinite(values)])
            with np.errstate(over="ignore"):
                centred = np.float32((different - shift[i]) / self.scale[i])
            if n_distinct(centred) < MOST_EQUAL * len(different):
                shift[i] = 0.0
        if (shift == self.shift).all():
            return self
        fill = self.fill + (self.shift - shift) / self.scale
        return replace(self, shift=shift, fill=fill)

    @property
    def has_outliers(self) -> Mask:
        """Which columns have outliers, shape (k,)."""
        return np.isfinite(self.low)

    def write(self, values: Floats, out: NDArray, fold: Any = 0) -> None:
        """Encode `values` of shape (n, k) into the zeroed `out`, a block of rows after
        the other.
        """
        step = max(1, TILE_ENTRIES // len(self.index))
        has_outliers = self.has_outliers.any()
        first, last = self.at[[0, -1]].tolist()
        follow = last - first == len(self.at) - 1
        for start in range(0, len(values), step):
            block = values[start : start + step]
            rows = out[start : start + step]
            z = rows[:, first : last + 1] if follow else rows[:, self.at]
            clipped = block
            if has_outliers:
                clipped = np.clip(block, self.low, self.high)
                clipped = np.where(np.isfinite(block), clipped, block)
            with np.errstate(over="ignore", invalid="ignore"):
                centred = np.subtract(clipped, self.shift, dtype=np.float64)
                np.divide(centred, self.scale, out=z, casting="same_kind")
            if not are_finite(z):
                gap = np.isnan(block)
                np.copyto(z, self.fill, where=gap, casting="same_kind")
                rows[:, self.at[self.gaps] + 1] = gap[:, self.gaps]
            if not follow:
                rows[:, self.at] = z

    def new_gaps(self, values: Floats) -> list[int]:
        """Columns of the input that miss values now and had all of them in the fit."""
        if are_finite(values):
            return []
        miss = np.isnan(values).any(axis=0) & ~self.gaps
        return self.index[miss].tolist()

    def outputs(self) -> Iterator[tuple[int, int, str, int]]:
        """Yield output columns, as of `Encoding`."""
        columns = zip(self.index.tolist(), self.at.tolist(), self.gaps, strict=True)
        for j, output_column, has_gaps in columns:
            yield output_column, j, "", output_column
            if has_gaps:
                yield output_column + 1, j, "_missing", output_column + 1


@dataclass
class TimeColumn(Encoding):
    """A column of dates, moments, durations or times of day: a number, and points on
    circles.

    Attributes
    ----------
    index : int
        Input column.
    kind : str
    shift, scale, fill : float
        Of the number, if the kind has one.
    cycles : list of int
        The parts that become a cosine and a sine: those that varied in the fit.
    gaps : bool
        Whether an indicator of missing values closes the columns.
    start : int
        First output column.
    """

    index: int
    kind: str
    shift: float
    scale: float
    fill: float
    cycles: list[int]
    gaps: bool
    start: int = 0

    @property
    def linear(self) -> list[str]:
        """The part that is a number, if the kind has one."""
        return [part for part in parts_of(self.kind) if part in LINEAR]

    def write(self, parts: Floats, out: NDArray, fold: Any = 0) -> None:
        """Encode `parts` of shape (n, parts) into the zeroed `out`."""
        gap = missing(parts)
        columns: list[Any] = [
            (self.fill, (parts[:, 0] - self.shift) / self.scale) for _ in self.linear
        ]
        for part in self.cycles:
            angle = 2.0 * np.pi * parts[:, part]
            columns += [(0.0, np.cos(angle)), (0.0, np.sin(angle))]
        columns += [(1.0, 0.0)] * self.gaps
        for j, (fill, values) in enumerate(columns, self.start):
            out[:, j] = np.where(gap, fill, values)

    @property
    def suffixes(self) -> list[str]:  # type: ignore[override]
        """What the names of the output columns end in."""
        cycles = [parts_of(self.kind)[part] for part in self.cycles]
        waves = [f"{part}_{wave}" for part in cycles for wave in ("cos", "sin")]
        return self.linear + waves + ["missing"] * self.gaps

    def tied(self, output_column: int, suffix: str) -> int:
        """The cosine of a circle, before its sine; else the column itself."""
        return output_column - suffix.endswith("_sin")


NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?")
PADDED = re.compile(r"-?0\d+")
# Which are the same level
TRUTHS = {"False": "0", "True": "1", "0": "False", "1": "True"}
SHOWN = 60  # characters of a level in messages
CODE_BYTES = 2
CODE_WIDTH = 8 * CODE_BYTES
# Two codes differ in half of their columns: by 2 in all, as two categories do
CODE_STEP = np.float32(4 / CODE_WIDTH)


@dataclass
class TextColumn(Encoding):
    """A column of strings or categories: one 0/1 column for each category kept, and
    codes of the others.

    No row of a fit lies near the code of a level that it did not see, and what a model
    predicts there may be anything. So where the levels of the fit are known, any other
    level counts as one of the categories, whose mean target is near that of all rows.

    A code is `CODE_WIDTH` columns of 0 or `CODE_STEP`, the bits of a hash of the
    category's text. Of two different codes the number of differing columns is binomial
    with probability 1/2, so that their L1 distance has mean 2, the distance of two
    columns 0/1, and standard deviation 1/2.

    Attributes
    ----------
    index : int
        Input column.
    categories : list of str
        Sorted; empty where the levels are left out.
    other, gaps : bool
        Whether a column for all other categories with their codes, and one for missing
        values, follow.
    start : int
        First output column.
    seen : uint64 array of shape (L,) or None
        Hashes of all levels of the fit and of refits, where they are known; zero where
        values were missing.
    stand_in : int
        Number of the category as which levels count that are not among `seen`, and
        missing values where the fit had none.
    means : LevelMeans or None
        Mean targets of the categories, which are numbers behind the columns above.
    """

    index: int
    categories: list[str]
    other: bool
    gaps: bool
    start: int = 0
    seen: NDArray[np.uint64] | None = None
    stand_in: int = 0
    means: LevelMeans | None = None

    @classmethod
    def of(
        cls, j: int, counts: Mapping[str, float], most: int, gaps: bool
    ) -> TextColumn:
        """Encoding of input column `j` with columns for its `most` heaviest categories
        at the most, and codes of all others.
        """
        ranked = sorted(counts, key=lambda name: (-counts[name], name))
        return cls(j, sorted(ranked[:most]), len(ranked) > most, gaps)

    @property
    def code(self) -> slice:
        """Output columns of the codes."""
        first = self.start + len(self.categories) + self.other
        return slice(first, first + CODE_WIDTH * self.other)

    @property
    def n_means(self) -> int:
        """Number of mean targets, with the flag of unknown categories."""
        return 0 if self.means is None else self.means.values.shape[2]

    @property
    def mean_columns(self) -> slice:
        """Output columns of mean targets."""
        first = self.code.stop + self.gaps
        return slice(first, first + self.n_means)

    @property
    def expected(self) -> str:  # type: ignore[override]
        """The kind as which rows are read, a key of `PARTS`: numbers are text where
        categories are plain numbers.

        Where one has leading zeros, which numbers have lost, they are refused.
        """
        are_truths = TRUTHS.keys() >= set(self.categories)
        plain = are_truths or any(map(NUMBER.fullmatch, self.categories))
        padded = any(map(PADDED.fullmatch, self.categories))
        return "mixed" if plain and not padded else "text"

    def category_numbers(self, labels: list[str]) -> NDArray:
        """Number of each label among `categories`; -1 for none."""
        places = {label: i for i, label in enumerate(self.categories)}
        # Numbers are levels of text such as 1.0, too
        whole = {
            label[:-2]: i
            for label, i in places.items()
            if label.endswith(".0") and NUMBER.fullmatch(label)
        }
        places = whole | places
        if TRUTHS.keys() >= places.keys():
            places = {TRUTHS[label]: i for label, i in places.items()} | places
        return np.array([places.get(label, -1) for label in labels], np.intp)

    def with_seen(
        self,
        levels: list[str],
        codes: NDArray,
        labels: list[str],
        y: NDArray,
        weight: NDArray,
    ) -> TextColumn:
        """Take note of levels of the fit, and of the category as which others count,
        by rows with codes of labels, targets of shape (n, K) and weights.
        """
        seen = level_keys(levels)
        if (codes < 0).any():
            seen = np.append(seen, MISSING)
        if self.seen is not None:
            seen = np.append(seen, self.seen)
        numbers = np.append(self.category_numbers(labels), -1)[codes]
        # That whose true mean target is nearest to the mean of all rows, by what is
        # known of it: fewer rows make it less certain
        y = y - weight @ y / weight.sum()
        spread = (weight @ np.square(y)).sum() / weight.sum()
        has = numbers >= 0
        n_levels = len(self.categories)
        n, means = group_means(numbers[has], y[has], weight[has], n_levels)
        error = spread / np.maximum(n, np.finfo(np.float64).tiny)
        stand_in = int(np.argmin(np.square(means).sum(axis=1) + error))
        return replace(self, seen=np.unique(seen), stand_in=stand_in)

    def places(self, labels: list[str]) -> NDArray:
        """Output column of each label, and of missing values at the end; -1 for
        none, as of what a refit saw and the fit did not.
        """
        numbers = np.append(self._level_numbers(labels), -1)
        if self.seen is not None:
            keys = np.append(level_keys(labels), MISSING)
            numbers[(numbers < 0) & ~np.isin(keys, self.seen)] = self.stand_in
        places = np.where(numbers < 0, -1, self.start + numbers)
        if self.gaps:
            places[-1] = self.code.stop
        return places

    def _level_numbers(self, labels: list[str]) -> NDArray:
        """Number of each label among `categories`, their count for other levels that
        have codes, and -1 for levels that the fit did not see.
        """
        numbers = self.category_numbers(labels)
        if self.other:
            others = numbers < 0
            if self.seen is not None:
                others &= np.isin(level_keys(labels), self.seen)
            numbers[others] = len(self.categories)
        return numbers

    @property
    def is_open(self) -> bool:
        """Whether levels beyond `categories` are not known, as of rows that came in
        parts.
        """
        return self.other and self.seen is None

    def are_unseen(self, labels: list[str]) -> NDArray:
        """Which levels the fit did not see; none where nothing tells, as in a column
        that is open, or whose levels were left out.
        """
        if self.is_open or not self.categories:
            return np.zeros(len(labels), bool)
        return self._level_numbers(labels) < 0

    def unseen_rows(self, codes: NDArray, labels: list[str]) -> NDArray:
        """Number of rows of each label that the fit did not see; 0 of others, and where
        nothing tells.
        """
        rows = np.bincount(codes[codes >= 0], minlength=len(labels))
        return rows * self.are_unseen(labels)

    def unseen(self, codes: NDArray, labels: list[str]) -> str:
        """What to say of levels that the fit did not see, where most values of a
        column are such; empty where not.
        """
        rows = self.unseen_rows(codes, labels)
        n_unseen = rows.sum()
        n_values = np.count_nonzero(codes >= 0)
        if 2 * n_unseen <= n_values:
            return ""
        label = labels[np.argmax(rows > 0)]
        (near,) = get_close_matches(label[:SHOWN], self.categories, 1, cutoff=0.0)
        return (
            f"{n_unseen:,} of {n_values:,} values are levels that the fit did not see, "
            f"such as {label[:SHOWN]!r}; the fit saw {near[:SHOWN]!r}"
        )

    def write(self, values: Any, out: NDArray, fold: Any = 0) -> None:
        """Encode codes of labels, -1 being missing, of rows in folds, into the zeroed
        `out`.
        """
        codes, labels = values
        column = self.places(labels)[codes]
        has = np.flatnonzero(column >= 0)
        out[has, column[has]] = 1.0
        if self.other:
            has = np.flatnonzero(column == self.code.start - 1)
            # Bits of the hashes of labels, which are the same in every process
            digits = np.frombuffer(text_digests(labels, CODE_BYTES), np.uint8)
            bits = np.unpackbits(digits.reshape(-1, CODE_BYTES), axis=1)
            out[has, self.code] = CODE_STEP * bits[codes[has]]
        if self.means is not None:
            out[:, self.mean_columns] = self.means.of(codes, labels, fold)

    @property
    def suffixes(self) -> list[str]:  # type: ignore[override]
        """What the names of the output columns end in."""
        codes = [f"code{i}" for i in range(CODE_WIDTH * self.other)]
        other, gap = ["other"] * self.other, ["missing"] * self.gaps
        means = [f"mean{i}" for i in range(self.n_means)]
        if self.means is not None and self.means.flags_unknown:
            means[-1] = "unknown"
        return self.categories + other + codes + gap + means

    def tied(self, output_column: int, suffix: str) -> int:
        """The first column of the categories, or of the codes, for each of them; else
        the column itself. Beside mean targets, categories have scales of their own.
        """
        end = self.start + len(self.categories) * (self.means is None)
        for first, last in ((self.start, end), (self.code.start, self.code.stop)):
            if first <= output_column < last:
                return first
        return output_column


@dataclass
class CodeColumn(Encoding):
    """A column of numbers that are codes of categories: one 0/1 column for each.

    Should the numbers be no codes after all, one that the fit did not see must not be
    nothing: a number between two codes has both columns by its distance from them, and
    one beyond all codes that of the nearest.

    Attributes
    ----------
    index : int
        Input column.
    codes : float64 array of shape (L,)
        Ascending.
    gaps : bool
        Whether a column for missing values follows.
    start : int
        First output column.
    """

    index: int
    codes: NDArray
    gaps: bool
    start: int = 0

    def write(self, values: Floats, out: NDArray, fold: Any = 0) -> None:
        """Encode `values` of shape (n, 1) into the zeroed `out`."""
        has = np.flatnonzero(~missing(values))
        n_codes = len(self.codes)
        place = np.interp(values[has, 0], self.codes, np.arange(n_codes))
        low = np.minimum(place.astype(np.intp), n_codes - 2)
        out[has, self.start + low] = low + 1 - place
        out[has, self.start + low + 1] = place - low
        if self.gaps:
            out[:, self.start + len(self.codes)] = missing(values)

    @property
    def suffixes(self) -> list[str]:  # type: ignore[override]
        """What the names of the output columns end in."""
        return [f"{code:g}" for code in self.codes.tolist()] + ["missing"] * self.gaps


# Scale of a column of one value, of which nothing is known but that
IGNORED = float(np.finfo(np.float64).max)
FARTHEST_UNITS = 1e9  # of a column, beyond which all values are equally far
MOST_EQUAL = 0.9  # of the values of a column, that single precision tells apart
FAINT = 1e-3  # of the value of a constant column, by which another one is far


def encodings(
    statistic: TableStatistic, with_std: bool, max_categories: int
) -> list[Any]:
    """Encodings of all columns that have values."""
    kinds = statistic.kinds
    offsets = part_offsets(kinds)
    # Shift, scale and replacement of missing values of every part
    summary = statistic.summary
    constant = is_constant(summary.low, summary.high)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        binary = ~summary.many & ~constant & with_std
        shift = np.where(binary | constant, summary.low, summary.mean)
        scale = np.where(
            binary,
            summary.high - summary.low,
            np.sqrt(summary.squares / summary.weight) if with_std else 1.0,
        )
        # Squares that vanish or overflow
        scale = np.where(
            (scale > 0) & np.isfinite(scale), scale, summary.high - summary.low
        )
        scale = np.where(constant, IGNORED if with_std else 1.0, scale)
        empty = summary.weight == 0
        shift = np.where(empty | statistic.sparse, 0.0, shift)
        scale = np.where(empty, 1.0, scale)
        fill = (summary.mean - shift) / scale
    for bad in np.flatnonzero(~np.isfinite(scale) | ~np.isfinite(shift)).tolist():
        name = statistic.name(int(np.searchsorted(offsets, bad, side="right")) - 1)
        raise ValueError(
            f"column {name!r} holds values too large to standardise: divide it by a "
            "constant"
        )
    gaps = statistic.missing > 0
    numbers = []
    others: list[Any] = []
    for j in np.flatnonzero(statistic.missing < statistic.rows).tolist():
        kind = kinds[j]
        first, end = offsets[j : j + 2].tolist()
        if base_kind(kind) == "number":
            numbers.append(j)
        elif first == end:
            counts = statistic.categories[str(j)]
            is_cut = str(j) in statistic.undercounts
            column = TextColumn.of(j, counts, max_categories, bool(gaps[j]))
            others.append(replace(column, other=column.other or is_cut))
        else:
            ends = summary.take(slice(first, end))
            varies = ends.high - ends.low > 1e-9
            cycles = [
                i
                for i, part in enumerate(parts_of(kind))
                if part not in LINEAR and varies[i]
            ]
            affine = float(shift[first]), float(scale[first]), float(fill[first])
            others.append(TimeColumn(j, kind, *affine, cycles, bool(gaps[j])))
    if not numbers:
        return others
    index = np.array(numbers)
    part = offsets[index]
    high = np.full(len(index), np.inf)
    affines = shift[part], scale[part], fill[part]
    return [NumberColumns(index, *affines, gaps[index], -high, high, index), *others]
