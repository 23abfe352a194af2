"""Encodings of columns: of numbers, times and text; which each column of a table
has, and the names of its outputs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats
from bochner.data.columns import (
    LINEAR,
    PARTS,
    base_kind,
    column_name,
    missing,
    refuse_infinite,
)
from bochner.data.hashes import text_digests
from bochner.data.level_means import LevelMeans, level_keys, typical_level
from bochner.data.table_input import are_finite
from bochner.data.table_statistic import TableStatistic, is_constant, part_offsets


class Rows(NamedTuple):
    """What is known of rows to encode.

    Attributes
    ----------
    names : sequence of str or None
        Of the columns, for messages.
    first : int
        Number of the first row.
    fold : int array of shape (n,), or int
        Folds, by which rows have mean targets.
    """

    names: Sequence[str] | None = None
    first: int = 0
    fold: Any = 0


class Encoding:
    """The encoding of a column of the input, in consecutive columns from `start` on."""

    index: Any
    start: int
    suffixes: list[str]
    gaps: bool

    def single(self) -> Iterator[tuple[int, Any]]:
        """Yield each column of the input and its encoding."""
        yield self.index, self

    def has_as_seen(self, values: Any) -> bool:
        """Whether values of the column are missing only if some were in the fit."""
        return self.gaps or not missing(values).any()

    def outputs(self) -> Iterator[tuple[int, int, str, int]]:
        """Yield output columns, their input columns, what their names end in, and the
        first of the output columns that each belongs together with.
        """
        for output_column, suffix in enumerate(self.suffixes, self.start):
            yield output_column, self.index, f"_{suffix}", output_column


@dataclass
class NumberColumns(Encoding):
    """The numeric columns of a table, z = (x - shift) / scale, missing values replaced
    by `fill`.

    Attributes
    ----------
    index : int array of shape (k,)
        Input columns.
    shift, scale, fill : float64 arrays of shape (k,)
    at, gap_at : int arrays of shape (k,)
        Output columns of the values and of the 0/1 indicators of missing ones; -1 for
        none.
    limits : array of shape (2, k) or None
        Least and greatest values beside outliers, which count as these; infinite where
        there are none.
    """

    index: NDArray
    shift: NDArray
    scale: NDArray
    fill: NDArray
    at: NDArray
    gap_at: NDArray
    limits: NDArray | None = None

    def single(self) -> Iterator[tuple[int, NumberColumns]]:
        """Yield each column of the input and its encoding."""
        for i, j in enumerate(self.index.tolist()):
            arrays = {
                name: array[..., i : i + 1]
                for name, array in vars(self).items()
                if array is not None
            }
            yield j, replace(self, **arrays)

    def write(self, values: Floats, out: NDArray, rows: Rows) -> None:
        """Encode `values` of shape (n, k) into the zeroed `out`."""
        first, last = self.at[[0, -1]]
        follow = last - first == len(self.at) - 1
        z = out[:, first : last + 1] if follow else np.empty(values.shape, out.dtype)
        clipped = values
        if self.limits is not None:
            clipped = np.clip(values, *self.limits)
            clipped = np.where(np.isfinite(values), clipped, values)
        with np.errstate(over="ignore", invalid="ignore"):
            centred = np.subtract(clipped, self.shift, dtype=np.float64)
            np.divide(centred, self.scale, out=z, casting="same_kind")
            all_finite = are_finite(z)
        if not all_finite:
            names = [column_name(rows.names, j) for j in self.index]
            refuse_infinite(values, names, rows.first)
            gap = np.isnan(values)
            np.copyto(z, self.fill, where=gap, casting="same_kind")
            for row, i in np.argwhere(~np.isfinite(z))[:1].tolist():
                raise ValueError(
                    f"column {names[i]!r}, row {rows.first + row}: value too large for "
                    f"{z.dtype} after scaling"
                )
            has = self.gap_at >= 0
            out[:, self.gap_at[has]] = gap[:, has]
        if not follow:
            out[:, self.at] = z

    def has_as_seen(self, values: Floats) -> bool:
        """Whether `values` of shape (n, k) miss in columns alone where some did in
        the fit, and are not infinite.
        """
        return are_finite(values) or not (
            np.isinf(values).any() or np.isnan(values[:, self.gap_at < 0]).any()
        )

    def outputs(self) -> Iterator[tuple[int, int, str, int]]:
        """Yield output columns, as of `Encoding`."""
        columns = np.stack([self.index, self.at, self.gap_at], axis=1).tolist()
        for j, output_column, gap_at in columns:
            yield output_column, j, "", output_column
            if gap_at >= 0:
                yield gap_at, j, "_missing", gap_at


@dataclass
class TimeColumn(Encoding):
    """A column of dates, moments, durations or times of day: a number, and points on
    circles.

    Attributes
    ----------
    index : int
        Input column.
    kind : str
    start : int
        First output column.
    shift, scale, fill : float
        Of the number, if the kind has one.
    cycles : list of int
        The parts that become a cosine and a sine: those that varied in the fit.
    gaps : bool
        Whether an indicator of missing values closes the columns.
    """

    index: int
    kind: str
    start: int
    shift: float
    scale: float
    fill: float
    cycles: list[int]
    gaps: bool

    @property
    def linear(self) -> list[str]:
        """The part that is a number, if the kind has one."""
        return [part for part in PARTS[self.kind] if part in LINEAR]

    def write(self, parts: Floats, out: NDArray, rows: Rows) -> None:
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
        cycles = [PARTS[self.kind][part] for part in self.cycles]
        waves = [f"{part}_{wave}" for part in cycles for wave in ("cos", "sin")]
        return self.linear + waves + ["missing"] * self.gaps

    def outputs(self) -> Iterator[tuple[int, int, str, int]]:
        """Yield output columns, of which those of a circle belong together."""
        for output_column, j, suffix, _ in super().outputs():
            yield output_column, j, suffix, output_column - suffix.endswith("_sin")


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
    start : int
        First output column.
    categories : list of str
        Sorted.
    other, gaps : bool
        Whether a column for all other categories with their codes, and one for missing
        values, follow.
    seen : uint64 array of shape (L,) or None
        Hashes of all levels of the fit, where they are more than `categories` and
        known.
    stand_in : int
        Number of the category as which levels count that are not among `seen`.
    means : LevelMeans or None
        Mean targets of the categories, which are numbers beside the columns above.
    means_at : int
        First output column of the mean targets.
    """

    index: int
    start: int
    categories: list[str]
    other: bool
    gaps: bool
    seen: NDArray[np.uint64] | None = None
    stand_in: int = 0
    means: LevelMeans | None = None
    means_at: int = 0

    @property
    def code(self) -> slice:
        """Output columns of the codes."""
        first = self.start + len(self.categories) + self.other
        return slice(first, first + CODE_WIDTH * self.other)

    @property
    def mean_columns(self) -> slice:
        """Output columns of mean targets."""
        n_means = 0 if self.means is None else self.means.n_outputs
        return slice(self.means_at, self.means_at + n_means)

    @property
    def expected(self) -> str:
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
        if self.seen is not None:
            seen = np.append(seen, self.seen)
        numbers = np.append(self.category_numbers(labels), -1)[codes]
        stand_in = typical_level(numbers, len(self.categories), y, weight)
        return replace(self, seen=np.unique(seen), stand_in=stand_in)

    def places(self, labels: list[str]) -> NDArray:
        """Output column of each label, and of missing values at the end; -1 for
        none.
        """
        numbers = self._level_numbers(labels)
        if self.seen is not None:
            numbers[numbers < 0] = self.stand_in
        places = np.where(numbers < 0, -1, self.start + numbers)
        return np.append(places, self.code.stop if self.gaps else -1)

    def _level_numbers(self, labels: list[str]) -> NDArray:
        """Number of each label among `categories`, their count for other levels that
        have codes, and -1 for levels that the fit did not see.
        """
        numbers = self.category_numbers(labels)
        others = np.flatnonzero(numbers < 0)
        if self.seen is not None:
            keys = level_keys([labels[i] for i in others.tolist()])
            others = others[np.isin(keys, self.seen)]
        if self.other:
            numbers[others] = len(self.categories)
        return numbers

    def seen_in_fit(self, labels: list[str]) -> NDArray | None:
        """Which levels the fit saw; None where nothing tells, as beyond `categories`
        of rows that came in parts, or in a column whose levels were left out.
        """
        is_open = self.other and self.seen is None
        if is_open or not self.categories:
            return None
        return self._level_numbers(labels) >= 0

    def has_effect(self, labels: list[str]) -> NDArray | None:
        """Which levels have an effect of their own: those that the fit saw; where
        nothing tells, those with a column. None where no level has one.
        """
        is_seen = self.seen_in_fit(labels)
        if is_seen is None and self.categories:
            return np.isin(labels, self.categories)
        return is_seen

    def unseen_rows(self, codes: NDArray, labels: list[str]) -> NDArray:
        """Number of rows of each label that the fit did not see; 0 of others, and where
        nothing tells.
        """
        rows = np.bincount(codes[codes >= 0], minlength=len(labels))
        is_seen = self.seen_in_fit(labels)
        return rows * (False if is_seen is None else ~is_seen)

    def unseen(self, codes: NDArray, labels: list[str]) -> str:
        """What to say of levels that the fit did not see, where most values of a
        column are such; empty where not.
        """
        rows = self.unseen_rows(codes, labels)
        n_unseen = int(rows.sum())
        n_values = int(np.count_nonzero(codes >= 0))
        if 2 * n_unseen <= n_values:
            return ""
        label = labels[int(np.argmax(rows > 0))]
        (near,) = get_close_matches(label[:SHOWN], self.categories, 1, cutoff=0.0)
        return (
            f"{n_unseen:,} of {n_values:,} values are levels that the fit did not see, "
            f"such as {label[:SHOWN]!r}; the fit saw {near[:SHOWN]!r}"
        )

    def write(self, values: Any, out: NDArray, rows: Rows) -> None:
        """Encode codes of labels, -1 being missing, into the zeroed `out`."""
        codes, labels = values
        column = self.places(labels)[codes]
        has = np.flatnonzero(column >= 0)
        out[has, column[has]] = 1.0
        if self.other:
            has = np.flatnonzero(column == self.code.start - 1)
            out[has, self.code] = CODE_STEP * _hash_bits(codes[has], labels)
        if self.means is not None:
            out[:, self.mean_columns] = self.means.of(codes, labels, rows.fold)

    @property
    def suffixes(self) -> list[str]:  # type: ignore[override]
        """What the names of the output columns but the mean targets end in."""
        codes = [f"code{i}" for i in range(CODE_WIDTH * self.other)]
        other, gap = ["other"] * self.other, ["missing"] * self.gaps
        return self.categories + other + codes + gap

    def outputs(self) -> Iterator[tuple[int, int, str, int]]:
        """Yield output columns, of which those of the codes belong together."""
        code = self.code
        for output_column, j, suffix, tied in super().outputs():
            if code.start <= output_column < code.stop:
                tied = code.start
            yield output_column, j, suffix, tied
        means = self.mean_columns
        for i, output_column in enumerate(range(means.start, means.stop)):
            yield output_column, self.index, f"_mean{i}", output_column


def _hash_bits(codes: NDArray, labels: list[str]) -> NDArray:
    """Bits of the hashes of `labels[codes]`, uint8 of shape (n, CODE_WIDTH), the
    same in every process.
    """
    # A categorical column lists labels that these rows lack
    used, row = np.unique(codes, return_inverse=True)
    digests = text_digests([labels[i] for i in used.tolist()], CODE_BYTES)
    digits = np.frombuffer(digests, np.uint8).reshape(-1, CODE_BYTES)
    return np.unpackbits(digits, axis=1)[row]


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
    start : int
        First output column.
    codes : float64 array of shape (L,)
        Ascending.
    gaps : bool
        Whether a column for missing values follows.
    """

    index: int
    start: int
    codes: NDArray
    gaps: bool

    def write(self, values: Floats, out: NDArray, rows: Rows) -> None:
        """Encode `values` of shape (n, 1) into the zeroed `out`."""
        numbers = values[:, 0]
        has = np.flatnonzero(~np.isnan(numbers))
        numbers = numbers[has]
        upper = np.clip(np.searchsorted(self.codes, numbers), 1, len(self.codes) - 1)
        low, high = self.codes[upper - 1], self.codes[upper]
        share = np.clip((numbers - low) / (high - low), 0.0, 1.0)
        out[has, self.start + upper - 1] = 1.0 - share
        out[has, self.start + upper] = share
        if self.gaps:
            out[:, self.start + len(self.codes)] = missing(values)

    @property
    def suffixes(self) -> list[str]:  # type: ignore[override]
        """What the names of the output columns end in."""
        return [f"{code:g}" for code in self.codes.tolist()] + ["missing"] * self.gaps


# Scale of a column of one value, of which nothing is known but that
IGNORED = float(np.finfo(np.float64).max)


def encodings(
    statistic: TableStatistic,
    with_std: bool,
    max_categories: int,
    codes: Mapping[str, NDArray],
    left_out: Collection[str],
    bounds: Mapping[str, tuple[float, ...]],
) -> tuple[list[Any], int]:
    """Encodings of all columns that have values, and the number of output columns.

    Of some columns the codes, or what `bounds_of` returns, are known; of those left
    out, by number, only missing values are encoded.
    """
    gaps = statistic.missing > 0
    seen = statistic.missing < statistic.rows
    kinds = statistic.kinds
    offsets = part_offsets(kinds)
    shift, scale, fill = _affine(statistic, with_std)
    for bad in np.flatnonzero(~np.isfinite(scale) | ~np.isfinite(shift)).tolist():
        name = statistic.name(int(np.searchsorted(offsets, bad, side="right")) - 1)
        raise ValueError(
            f"column {name!r} holds values too large to standardise: divide it by a "
            "constant"
        )
    number = seen & np.array([base_kind(kind) == "number" for kind in kinds])
    number[[int(j) for j in codes]] = False
    width = np.where(number, 1 + gaps, 0)
    others: list[Any] = []
    for j in np.flatnonzero(seen & ~number).tolist():
        key, gap = str(j), bool(gaps[j])
        column: Any
        if key in codes:
            column = CodeColumn(j, 0, codes[key], gap)
        elif key in left_out:
            column = TextColumn(j, 0, [], False, gap)
        elif key in statistic.categories:
            # The heaviest categories, and codes of all others
            counts = statistic.categories[key]
            ranked = sorted(counts, key=lambda name: (-counts[name], name))
            other = len(ranked) > max_categories or key in (statistic.undercounts or {})
            categories = sorted(ranked[:max_categories])
            column = TextColumn(j, 0, categories, other, gap)
        else:
            o, end = offsets[j : j + 2].tolist()
            varies = (statistic.summary.high - statistic.summary.low)[o:end] > 1e-9
            cycles = [
                i
                for i, part in enumerate(PARTS[kinds[j]])
                if part not in LINEAR and varies[i]
            ]
            affine = float(shift[o]), float(scale[o]), float(fill[o])
            column = TimeColumn(j, kinds[j], 0, *affine, cycles, gap)
        others.append(column)
        width[j] = len(column.suffixes)
    start = np.cumsum(width) - width
    others = [replace(column, start=int(start[column.index])) for column in others]
    index = np.flatnonzero(number)
    if not len(index):
        return others, int(width.sum())
    # Units and limits of columns with outliers do not go by these
    limits = np.tile([[-np.inf], [np.inf]], len(index))
    for i, j in enumerate(index.tolist()):
        if str(j) in bounds:
            o = offsets[j]
            limits[0, i], limits[1, i], shift[o], scale[o] = bounds[str(j)]
            fill[o] = 0.0
    part = offsets[index]
    numbers = NumberColumns(
        index,
        shift[part],
        scale[part],
        fill[part],
        start[index],
        np.where(gaps, start + 1, -1)[index],
        limits if bounds else None,
    )
    return [numbers, *others], int(width.sum())


def _affine(
    statistic: TableStatistic, with_std: bool
) -> tuple[NDArray, NDArray, NDArray]:
    """Shift, scale and replacement of missing values of every part: float64 arrays."""
    s = statistic.summary
    constant = is_constant(s.low, s.high)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        binary = ~s.many & ~constant & with_std
        shift = np.where(binary | constant, s.low, s.mean)
        scale = np.where(
            binary, s.high - s.low, np.sqrt(s.squares / s.weight) if with_std else 1.0
        )
        # Squares that vanish or overflow
        scale = np.where((scale > 0) & np.isfinite(scale), scale, s.high - s.low)
        scale = np.where(constant, IGNORED if with_std else 1.0, scale)
        empty = s.weight == 0
        shift = np.where(empty | statistic.sparse, 0.0, shift)
        scale = np.where(empty, 1.0, scale)
        return shift, scale, (s.mean - shift) / scale


def unique_names(names: list[str]) -> list[str]:
    """`names` with _2, _3, ... after those that repeat an earlier one."""
    taken = set(names)
    used: dict[str, None] = {}
    for name in names:
        new = name
        k = 2
        while new in used or (new != name and new in taken):
            new = f"{name}_{k}"
            k = k + 1
        used[new] = None
    return list(used)
