"""Encodings of columns: of numbers, times and text; which each column of a table
has, and the names of its outputs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from bochner.data.columns import (
    LINEAR,
    PARTS,
    base_kind,
    column_name,
    missing,
    refuse_infinite,
)
from bochner.data.level_means import LevelMeans, levels_differ, text_digests
from bochner.data.table_input import are_finite
from bochner.data.table_statistic import TableStatistic, is_constant, part_offsets


class Encoding:
    """The encoding of a column of the input, in consecutive columns from `start` on."""

    index: Any
    start: int
    suffixes: list[str]

    @property
    def width(self) -> int:
        """Number of output columns."""
        return len(self.suffixes)

    def names(self, inputs: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Yield (output column, name)."""
        for at, suffix in enumerate(self.suffixes, self.start):
            yield at, f"{inputs[self.index]}_{suffix}"

    def column_groups(self) -> Iterator[slice]:
        """Yield the output columns that belong together: none."""
        return iter(())

    def sources(self) -> Iterator[tuple[Any, Any]]:
        """Yield output columns and their input columns."""
        yield slice(self.start, self.start + self.width), self.index


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

    index: np.ndarray
    shift: np.ndarray
    scale: np.ndarray
    fill: np.ndarray
    at: np.ndarray
    gap_at: np.ndarray
    limits: np.ndarray | None = None

    def write(
        self,
        values: np.ndarray,
        out: np.ndarray,
        names: Sequence[str] | None,
        start: int = 0,
        part: slice = slice(None),
    ) -> None:
        """Encode `values` of shape (n, k), whose first row is row `start`, into the
        zeroed `out`.
        """
        at = self.at[part]
        gap_at = self.gap_at[part]
        follow = at[-1] - at[0] == len(at) - 1
        z = out[:, at[0] : at[-1] + 1] if follow else np.empty(values.shape, out.dtype)
        if not self.standardise(values, z, part):
            named = [column_name(names, j) for j in self.index[part]]
            refuse_infinite(values, named, start)
            gap = np.isnan(values)
            np.copyto(z, self.fill[part], where=gap, casting="same_kind")
            bad = ~np.isfinite(z)
            if bad.any():
                row = int(bad.any(axis=1).argmax())
                name = named[int(bad[row].argmax())]
                raise ValueError(
                    f"column {name!r}, row {start + row}: value too large for "
                    f"{z.dtype} after scaling"
                )
            has = gap_at >= 0
            out[:, gap_at[has]] = gap[:, has]
        if not follow:
            out[:, at] = z

    def has_as_seen(self, values: np.ndarray) -> bool:
        """Whether `values` of shape (n, k) miss in columns alone where some did in
        the fit, and are not infinite.
        """
        return not (
            np.isinf(values).any() or np.isnan(values[:, self.gap_at < 0]).any()
        )

    def standardise(
        self, values: np.ndarray, z: np.ndarray, part: slice = slice(None)
    ) -> bool:
        """Write (values - shift) / scale into `z`, both of shape (n, k); whether all
        of it is finite.
        """
        if self.limits is not None:
            values = np.where(
                np.isfinite(values), np.clip(values, *self.limits[:, part]), values
            )
        with np.errstate(over="ignore", invalid="ignore"):
            centred = np.subtract(values, self.shift[part], dtype=np.float64)
            np.divide(centred, self.scale[part], out=z, casting="same_kind")
            return are_finite(z)

    def bounded(self, bounds: Mapping[str, tuple[float, ...]]) -> NumberColumns:
        """The columns with units and limits that do not go by outliers: `Bounds`, by
        the numbers of some columns.
        """
        shift = self.shift.copy()
        scale = self.scale.copy()
        fill = self.fill.copy()
        limits = np.tile([[-np.inf], [np.inf]], len(shift))
        for i, j in enumerate(self.index.tolist()):
            if str(j) in bounds:
                limits[0, i], limits[1, i], shift[i], scale[i] = bounds[str(j)]
                fill[i] = 0.0
        return replace(self, shift=shift, scale=scale, fill=fill, limits=limits)

    def names(self, inputs: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Yield (output column, name)."""
        for j, at, gap_at in zip(
            self.index.tolist(), self.at.tolist(), self.gap_at.tolist(), strict=True
        ):
            yield at, inputs[j]
            if gap_at >= 0:
                yield gap_at, f"{inputs[j]}_missing"

    def sources(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield output columns and their input columns."""
        has = self.gap_at >= 0
        yield self.at, self.index
        yield self.gap_at[has], self.index[has]


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

    def write(self, parts: np.ndarray, out: np.ndarray) -> None:
        """Encode `parts` of shape (n, parts) into the zeroed `out`."""
        gap = missing(parts)
        j = self.start
        if PARTS[self.kind][0] in LINEAR:
            out[:, j] = np.where(
                gap, self.fill, (parts[:, 0] - self.shift) / self.scale
            )
            j += 1
        for part in self.cycles:
            angle = 2.0 * np.pi * parts[:, part]
            out[:, j] = np.where(gap, 0.0, np.cos(angle))
            out[:, j + 1] = np.where(gap, 0.0, np.sin(angle))
            j += 2
        if self.gaps:
            out[:, j] = gap

    @property
    def suffixes(self) -> list[str]:  # type: ignore[override]
        """What the names of the output columns end in."""
        parts = PARTS[self.kind]
        suffixes = [parts[0]] if parts[0] in LINEAR else []
        suffixes += [
            f"{parts[part]}_{wave}" for part in self.cycles for wave in ("cos", "sin")
        ]
        return suffixes + ["missing"] * self.gaps

    def column_groups(self) -> Iterator[slice]:
        """Yield the output columns that belong together: the cosine and the sine of
        each circle.
        """
        first = self.start + (PARTS[self.kind][0] in LINEAR)
        return (slice(j, j + 2) for j in range(first, first + 2 * len(self.cycles), 2))


NUMBER, PADDED = (
    re.compile(r"-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?"),
    re.compile(r"-?0\d+"),
)
# Which are the same level
TRUTHS = {"False": "0", "True": "1", "0": "False", "1": "True"}
SHOWN = 60  # characters of a level in messages
FEW_ROWS = 16  # that are written one by one sooner than all at once
CODE_BYTES = 2
CODE_WIDTH = 8 * CODE_BYTES
CODE_STEP = np.float32(
    4 / CODE_WIDTH
)  # two codes differ in half of their columns: by 2 in all, as two categories do


@dataclass
class TextColumn(Encoding):
    """A column of strings or categories: one 0/1 column for each category kept, and
    codes of the others.

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
        Whether a column for all other categories, and one for missing values, follow.
    coded : bool
        Whether the codes of the other categories stand after the column for all of
        them. The default is for models saved before there were codes.
    means : LevelMeans or None
        Mean targets of the categories, which are numbers beside the columns above.
    means_at : int
        First output column of these.
    """

    index: int
    start: int
    categories: list[str]
    other: bool
    gaps: bool
    coded: bool = False
    means: LevelMeans | None = None
    means_at: int = 0

    @property
    def code(self) -> slice:
        """Output columns of the codes."""
        first = self.start + len(self.categories) + self.other
        return slice(first, first + CODE_WIDTH * self.coded)

    @property
    def mean_columns(self) -> slice:
        """Output columns of mean targets."""
        return slice(
            self.means_at,
            self.means_at + (0 if self.means is None else self.means.n_outputs),
        )

    @property
    def expected(self) -> str:
        """The kind as which rows are read, a key of `PARTS`: numbers are text where
        categories are plain numbers.

        Where one has leading zeros, which numbers have lost, they are refused.
        """
        plain = any(map(NUMBER.fullmatch, self.categories)) or TRUTHS.keys() >= set(
            self.categories
        )
        return (
            "mixed"
            if plain and not any(map(PADDED.fullmatch, self.categories))
            else "text"
        )

    def places(self, labels: list[str]) -> np.ndarray:
        """Output column of each label, and of missing values at the end; -1 for
        none.
        """
        place = {category: self.start + i for i, category in enumerate(self.categories)}
        # Of earlier releases
        whole = [
            label for label in place if label.endswith(".0") and NUMBER.fullmatch(label)
        ]
        place = {label[:-2]: place[label] for label in whole} | place
        if TRUTHS.keys() >= place.keys():
            place = {TRUTHS[label]: at for label, at in place.items()} | place
        other = self.start + len(self.categories) if self.other else -1
        return np.array(
            [
                *(place.get(label, other) for label in labels),
                self.code.stop if self.gaps else -1,
            ]
        )

    def known(
        self, labels: list[str], places: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Which levels the fit saw; None where nothing tells, as beyond `categories`
        without means, or in a column whose levels were left out.
        """
        if self.means is not None:
            return self.means.knows(labels)
        if self.other or not self.categories:
            return None
        return (self.places(labels) if places is None else places)[:-1] >= 0

    def says_something(
        self, codes: np.ndarray, fold: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> bool:
        """Whether mean targets of the levels differ by more than chance; see
        `levels_differ`.
        """
        return levels_differ(codes, fold, y, weight)

    def unseen_rows(
        self, codes: np.ndarray, labels: list[str], places: np.ndarray | None = None
    ) -> np.ndarray:
        """Number of rows of each label that the fit did not see; 0 of others, and where
        nothing tells.
        """
        rows = np.bincount(codes[codes >= 0], minlength=len(labels))
        known = self.known(labels, places)
        return rows * (False if known is None else ~known)

    def unseen(
        self, codes: np.ndarray, labels: list[str], places: np.ndarray | None = None
    ) -> str:
        """What to say of levels that the fit did not see, where most values of a
        column are such; empty where not.
        """
        rows = self.unseen_rows(codes, labels, places)
        n_unseen = int(rows.sum())
        n_values = int(np.count_nonzero(codes >= 0))
        if 2 * n_unseen <= n_values:
            return ""
        label = labels[int(np.argmax(rows > 0))]
        (near,) = get_close_matches(label[:SHOWN], self.categories, 1, cutoff=0.0)
        return (
            f"{n_unseen:,} of {n_values:,} values are levels that the fit did not "
            f"see, such as {label[:SHOWN]!r}; "
            f"the fit saw {near[:SHOWN]!r}"
        )

    def write(
        self,
        codes: np.ndarray,
        labels: list[str],
        out: np.ndarray,
        fold: np.ndarray | int = 0,
        places: np.ndarray | None = None,
    ) -> None:
        """Encode integer `codes` of `labels`, -1 being missing, into the zeroed
        `out`; `fold` is for means.
        """
        column = (self.places(labels) if places is None else places)[codes]
        if len(column) < FEW_ROWS and not self.coded and self.means is None:
            for row, at in enumerate(column.tolist()):
                if at >= 0:
                    out[row, at] = 1.0
            return
        rows = np.flatnonzero(column >= 0)
        out[rows, column[rows]] = 1.0
        if self.coded:
            rows = np.flatnonzero(column == self.code.start - 1)
            out[rows, self.code] = CODE_STEP * _hash_bits(codes[rows], labels)
        if self.means is not None:
            out[:, self.mean_columns] = self.means.of(codes, labels, fold)

    @property
    def suffixes(self) -> list[str]:  # type: ignore[override]
        """What the names of the output columns but the mean targets end in."""
        codes = [f"code{i}" for i in range(CODE_WIDTH * self.coded)]
        return [
            *self.categories,
            *["other"] * self.other,
            *codes,
            *["missing"] * self.gaps,
        ]

    def names(self, inputs: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Yield (output column, name)."""
        yield from super().names(inputs)
        for i in range(self.mean_columns.stop - self.mean_columns.start):
            yield self.means_at + i, f"{inputs[self.index]}_mean{i}"

    def column_groups(self) -> Iterator[slice]:
        """Yield the output columns that belong together: those of the codes."""
        return iter([self.code] * self.coded)

    def sources(self) -> Iterator[tuple[slice, int]]:
        """Yield the output columns and their input column."""
        yield from super().sources()
        yield self.mean_columns, self.index


def _hash_bits(codes: np.ndarray, labels: list[str]) -> np.ndarray:
    """Bits of the hashes of `labels[codes]`, uint8 of shape (n, CODE_WIDTH), the
    same in every process.
    """
    used, row = np.unique(
        codes, return_inverse=True
    )  # a categorical column lists labels that these rows lack
    digests = text_digests([labels[i] for i in used.tolist()], CODE_BYTES)
    return np.unpackbits(
        np.frombuffer(digests, np.uint8).reshape(-1, CODE_BYTES), axis=1
    )[row]


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
    codes: np.ndarray
    gaps: bool

    def write(self, values: np.ndarray, out: np.ndarray) -> None:
        """Encode `values` of shape (n, 1) into the zeroed `out`."""
        numbers = values[:, 0]
        rows = np.flatnonzero(~np.isnan(numbers))
        upper = np.clip(
            np.searchsorted(self.codes, numbers[rows]), 1, len(self.codes) - 1
        )
        lower_code = self.codes[upper - 1]
        upper_code = self.codes[upper]
        share = np.clip(
            (numbers[rows] - lower_code) / (upper_code - lower_code), 0.0, 1.0
        )
        out[rows, self.start + upper - 1] = 1.0 - share
        out[rows, self.start + upper] = share
        if self.gaps:
            out[:, self.start + len(self.codes)] = np.isnan(numbers)

    @property
    def suffixes(self) -> list[str]:  # type: ignore[override]
        """What the names of the output columns end in."""
        return [f"{code:g}" for code in self.codes.tolist()] + ["missing"] * self.gaps


IGNORED = float(
    np.finfo(np.float64).max
)  # scale of a column of one value, of which nothing is known but that


def encodings(
    statistic: TableStatistic,
    with_std: bool,
    max_categories: int,
    codes: Mapping[str, np.ndarray],
    left_out: Collection[str] = (),
) -> tuple[list[Any], int]:
    """Encodings of all columns that have values, and the number of output columns.

    Of some columns the codes are known; of those left out, by number, only missing
    values are encoded.
    """
    names = statistic.names
    gaps = statistic.missing > 0
    offsets = part_offsets(statistic.kinds)
    shift, scale, fill = _affine(statistic, with_std)
    for bad in np.flatnonzero(~np.isfinite(scale) | ~np.isfinite(shift)).tolist():
        name = column_name(names, int(np.searchsorted(offsets, bad, side="right")) - 1)
        raise ValueError(
            f"column {name!r} holds values too large to standardise: divide it by a "
            "constant"
        )
    width = np.zeros(len(statistic.kinds), np.int64)
    number = np.array([base_kind(kind) == "number" for kind in statistic.kinds]) & (
        statistic.missing < statistic.rows
    )
    number[[int(j) for j in codes]] = False
    width[number] = 1 + gaps[number]
    others: list[Any] = []
    for j in np.flatnonzero(~number & (statistic.missing < statistic.rows)).tolist():
        if str(j) in codes:
            others.append(CodeColumn(j, 0, codes[str(j)], bool(gaps[j])))
        elif str(j) in statistic.categories:
            # The heaviest categories, and codes of all others
            counts = statistic.categories[str(j)]
            ranked = sorted(counts, key=lambda name: (-counts[name], name))
            kept = sorted(ranked[:max_categories])
            other = len(ranked) > max_categories or str(j) in (
                statistic.undercounts or {}
            )
            if str(j) in left_out:
                kept = []
                other = False
            others.append(TextColumn(j, 0, kept, other, bool(gaps[j]), coded=other))
        else:
            o, end = offsets[j : j + 2].tolist()
            varies = (statistic.summary.high - statistic.summary.low)[o:end] > 1e-9
            cycles = [
                i
                for i, part in enumerate(PARTS[statistic.kinds[j]])
                if part not in LINEAR and varies[i]
            ]
            affine = float(shift[o]), float(scale[o]), float(fill[o])
            others.append(
                TimeColumn(j, statistic.kinds[j], 0, *affine, cycles, bool(gaps[j]))
            )
        width[j] = others[-1].width
    start = np.cumsum(width) - width
    others = [replace(column, start=int(start[column.index])) for column in others]
    index = np.flatnonzero(number)
    part = offsets[index]
    gap_at = np.where(gaps, start + 1, -1)[index]
    numbers = NumberColumns(
        index, shift[part], scale[part], fill[part], start[index], gap_at
    )
    return ([numbers] if len(index) else []) + others, int(width.sum())


def _affine(
    statistic: TableStatistic, with_std: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shift, scale and replacement of missing values of every part: float64 arrays."""
    s = statistic.summary
    constant = is_constant(s.low, s.high)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        binary = ~s.many & ~constant & with_std
        shift = np.where(binary | constant, s.low, s.mean)
        scale = np.where(
            binary, s.high - s.low, np.sqrt(s.squares / s.weight) if with_std else 1.0
        )
        scale = np.where(
            (scale > 0) & np.isfinite(scale), scale, s.high - s.low
        )  # squares that vanish or overflow
        scale = np.where(constant, IGNORED if with_std else 1.0, scale)
        empty = s.weight == 0
        shift = np.where(empty | statistic.sparse, 0.0, shift)
        scale = np.where(empty, 1.0, scale)
        return shift, scale, (s.mean - shift) / scale


def output_names(
    columns: Sequence[Any], inputs: Sequence[str], width: int
) -> list[str]:
    """Names of the `width` output columns, unique."""
    names = [""] * width
    for column in columns:
        for at, name in column.names(inputs):
            names[at] = str(name)
    return _unique(names)


def _unique(names: list[str]) -> list[str]:
    """`names` with _2, _3, ... after those that repeat an earlier one."""
    taken = set(names)
    out = []
    used: set[str] = set()
    for name in names:
        new = name
        k = 2
        while new in used or (new != name and new in taken):
            new = f"{name}_{k}"
            k = k + 1
        used.add(new)
        out.append(new)
    return out
