"""Chooses how each column of a table is encoded, and where its output columns stand and what they are called."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bochner.data.columns import LINEAR, PARTS, column_name
from bochner.data.large_integers import is_constant
from bochner.data.table_encodings import NumberColumns, TextColumn, TimeColumn
from bochner.data.table_statistic import TableStatistic, part_offsets

IGNORED = float(np.finfo(np.float64).max)  # scale of a column of one value, of which nothing is known but that


def encodings(statistic: TableStatistic, with_std: bool, max_categories: int) -> tuple[list[Any], int]:
    """Encodings of all columns that have values, and the number of output columns."""
    names, gaps = statistic.names, statistic.missing > 0
    offsets = part_offsets(statistic.kinds)
    shift, scale, fill = _affine(statistic, with_std)
    for bad in np.flatnonzero(~np.isfinite(scale) | ~np.isfinite(shift)).tolist():
        name = column_name(names, int(np.searchsorted(offsets, bad, side="right")) - 1)
        raise ValueError(f"column {name!r} holds values too large to standardise: divide it by a constant")
    width = np.zeros(len(statistic.kinds), np.int64)
    number = np.array([kind == "number" for kind in statistic.kinds]) & (statistic.missing < statistic.rows)
    width[number] = 1 + gaps[number]
    others: list[Any] = []
    for j in np.flatnonzero(~number & (statistic.missing < statistic.rows)).tolist():
        if str(j) in statistic.categories:
            kept, other = _most_frequent(statistic.categories[str(j)], max_categories)
            other |= str(j) in (statistic.undercounts or {})
            others.append(TextColumn(j, 0, kept, other, bool(gaps[j]), coded=other))
        else:
            o, end = offsets[j : j + 2].tolist()
            varies = (statistic.summary.high - statistic.summary.low)[o:end] > 1e-9
            cycles = [i for i, part in enumerate(PARTS[statistic.kinds[j]]) if part not in LINEAR and varies[i]]
            affine = float(shift[o]), float(scale[o]), float(fill[o])
            others.append(TimeColumn(j, statistic.kinds[j], 0, *affine, cycles, bool(gaps[j])))
        width[j] = others[-1].width
    start = np.cumsum(width) - width
    others = [replace(column, start=int(start[column.index])) for column in others]
    index = np.flatnonzero(number)
    part = offsets[index]
    gap_at = np.where(gaps, start + 1, -1)[index]
    numbers = NumberColumns(index, shift[part], scale[part], fill[part], start[index], gap_at)
    return ([numbers] if len(index) else []) + others, int(width.sum())


def _affine(statistic: TableStatistic, with_std: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shift, scale and replacement of missing values of every part: float64 arrays."""
    s = statistic.summary
    constant = is_constant(s.low, s.high)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        binary = ~s.many & ~constant & with_std
        shift = np.where(binary | constant, s.low, s.mean)
        scale = np.where(binary, s.high - s.low, np.sqrt(s.squares / s.weight) if with_std else 1.0)
        scale = np.where((scale > 0) & np.isfinite(scale), scale, s.high - s.low)  # squares that vanish or overflow
        scale = np.where(constant, IGNORED if with_std else 1.0, scale)
        empty = s.weight == 0
        shift, scale = np.where(empty | statistic.sparse, 0.0, shift), np.where(empty, 1.0, scale)
        return shift, scale, (s.mean - shift) / scale


def _most_frequent(counts: dict[str, float], limit: int) -> tuple[list[str], bool]:
    """The `limit` heaviest categories, sorted, and whether there are others."""
    ranked = sorted(counts, key=lambda category: (-counts[category], category))
    return sorted(ranked[:limit]), len(ranked) > limit


def output_names(columns: Sequence[Any], inputs: Sequence[str], width: int) -> list[str]:
    """Names of the `width` output columns, unique."""
    names = [""] * width
    for column in columns:
        for at, name in column.names(inputs):
            names[at] = str(name)
    return _unique(names)


def _unique(names: list[str]) -> list[str]:
    """`names` with _2, _3, ... after those that repeat an earlier one."""
    taken, out = set(names), []
    used: set[str] = set()
    for name in names:
        new, k = name, 2
        while new in used or (new != name and new in taken):
            new, k = f"{name}_{k}", k + 1
        used.add(new)
        out.append(new)
    return out
