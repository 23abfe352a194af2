"""Hashes of the content of rows: equal rows have equal ones, wherever and in
whatever order they come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.arrays import Floats, Indices, n_distinct
from bochner.blocks import TILE_ENTRIES
from bochner.data.columns import (
    column_name,
    label_text,
    levels,
    read_unchecked,
    table_columns,
    text_codes,
    without_frame,
)
from bochner.data.outliers import drawn
from bochner.engines.local import for_tiles

NEAR = 1e-6  # of an interquartile range, within which numbers agree
NEAR_SMALL = 1e-3  # of numbers of one sign themselves, where that is less
# Times that unit, from which on a floating-point number has hardly a digit for it: it
# would take those of other columns from a sum
FAR = 1e15
FACTOR = np.uint64(0x9E3779B97F4A7C15)
MANY_VALUES = 0.1  # of a number of rows, that differ in a quantity
# Of the rows, that must differ, lest equal ones be levels that come again; different
# rows, fewer of which are levels whatever they hold
COPIED_SHARE, LIKELY_SHARE, FEW_DIFFERENT = 0.1, 1 / 3, 20
NAN = np.float64("nan").view(np.uint64)


def row_hashes(X: Any) -> NDArray:
    """Numbers of 64 bits that are equal for equal rows and hardly ever for others,
    shape (n,).

    Numbers hash the same in arrays of any dtype that holds them, in sparse matrices,
    and in data frames.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
    """
    multipliers = _odd_numbers(X.shape[1])
    if isinstance(X, sp.csr_array | sp.csr_matrix):
        return mixed(
            sp.csr_array((_bits(X.data), X.indices, X.indptr), shape=X.shape)
            @ multipliers
        )
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "biuf":
        import pyarrow as pa

        columns, names = table_columns(X)
        bits = []
        for j, column in enumerate(columns):
            # Objects of a frame are text whatever they are, so that their hashes do not
            # depend on the other rows at hand
            objects = without_frame(column)
            if objects is column:
                _, values = read_unchecked(column, column_name(names, j))
            else:
                try:
                    labels, codes = levels(pa.array(objects, from_pandas=True))
                    values = codes, [*map(label_text, labels)]
                except (
                    pa.ArrowException,
                    OverflowError,
                    TypeError,
                    UnicodeEncodeError,
                ):  # objects of several kinds
                    values = text_codes(objects.tolist())
            bits.append(_value_bits(values))
        return mixed(np.stack(bits, axis=1) @ multipliers)
    sums = np.empty(len(X), np.uint64)
    tile = max(TILE_ENTRIES // max(X.shape[1], 1), 1)

    def hash_rows(rows: slice) -> None:
        sums[rows] = (_bits(X[rows]) * multipliers).sum(axis=1)

    for_tiles(hash_rows, len(X), tile)
    return mixed(sums)


def distinct_rows(X: Any, weight: NDArray) -> tuple[Indices | slice, NDArray]:
    """Numbers of rows in their order, of equal ones the first, and the weight of all
    that are equal to each.
    """
    _, first, of = np.unique(row_hashes(X), return_index=True, return_inverse=True)
    if len(first) == len(weight):
        return slice(None), weight
    order = np.argsort(first)
    return first[order], np.bincount(of, weight)[order]


@np.errstate(over="ignore", invalid="ignore")
def near_copies(X: Any, weights: NDArray | None = None) -> Indices | None:
    """Number of the first row that agrees with each in all columns, but for numbers
    that are very near; (n,).

    Numbers agree whose difference is at most a millionth of the interquartile range of
    the column's different values, lest a frequent number for missing values be taken
    for half of what it holds. Rows are sorted by a random combination of these, in
    which copies are neighbours, as they are not on a grid: of many columns one has a
    line between them. None where no row agrees with an earlier one, and for sparse
    matrices.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
    weights : array of shape (n,), optional
        Rows without weight tell no range.
    """
    n, d = X.shape
    if sp.issparse(X) or n < 2:
        return None
    sample = drawn(np.arange(n) if weights is None else np.flatnonzero(weights))
    multipliers = _odd_numbers(d)
    factors = np.random.default_rng(0).uniform(1, 2, d) * np.resize([1, -1], d)
    exact = np.zeros(n, np.uint64)
    place = np.zeros(n)
    units = np.zeros(d)
    for j, (kind, values) in enumerate(_read_columns(X)):
        if kind == "number":
            different = values[sample, 0]
            different = np.unique(different[np.isfinite(different)])
            if len(different):
                range_of = np.subtract(*np.quantile(different, [0.75, 0.25]))
                # Of no use where it is no normal number
                is_normal = np.finfo(np.float64).tiny / NEAR < range_of < np.inf
                units[j] = NEAR * range_of * is_normal
        if units[j]:
            numbers = values[:, 0]
            is_near = np.abs(numbers) < FAR * units[j]
            if not is_near.all():
                exact += _bits(np.where(is_near, 0.0, numbers)) * multipliers[j]
                numbers = np.where(is_near, numbers, 0.0)
            place += numbers * (factors[j] / units[j])
        else:
            exact += _value_bits(values) * multipliers[j]
    order = np.lexsort((place, exact))
    reach = np.sqrt(d)
    is_pair = (np.diff(place[order]) <= reach) & (np.diff(exact[order]) == 0)
    pair = np.flatnonzero(is_pair)
    for j, (_, values) in enumerate(_read_columns(X)):
        if units[j]:
            ends = values[order[[pair, pair + 1]], 0]
            change = np.abs(ends[1] - ends[0])
            # As of concentrations over many decades, unless they are noise about zero
            size = np.where(np.sign(ends).prod(0) > 0, np.abs(ends).max(0), np.inf)
            pair = pair[~(change > np.minimum(units[j], NEAR_SMALL * size))]
    starts = np.ones(n, bool)
    starts[pair + 1] = False
    # A chain of neighbours ends where it has gone too far from its first row
    first = np.flatnonzero(starts)[np.cumsum(starts) - 1]
    steps = np.floor((place[order] - place[order[first]]) / reach)
    starts[1:] |= np.diff(steps) != 0
    if starts.all():
        return None
    copied = np.empty(n, np.intp)
    least = np.minimum.reduceat(order, np.flatnonzero(starts))
    copied[order] = least[np.cumsum(starts) - 1]
    return copied


def may_come_again(n_different: int, n_rows: int, is_likely: bool = False) -> bool:
    """Whether less than a tenth of the rows differ, or a third where there is more
    reason, which may then be levels that come again, and equal ones no copies.
    """
    share = LIKELY_SHARE if is_likely else COPIED_SHARE
    return 1 < n_different < share * n_rows


def are_levels(different: Any) -> bool:
    """Whether different rows, which may come again, are levels: they are very few, or
    have categories and numbers with few values alone.

    Parameters
    ----------
    different : array, CSR matrix or data frame
    """
    n = different.shape[0]
    if n < FEW_DIFFERENT or sp.issparse(different):
        return n < FEW_DIFFERENT
    # Numbers or times of which most rows have one of their own are quantities; those
    # with few values, as of counts and codes, are levels
    return not any(
        isinstance(values, np.ndarray) and n_distinct(values[:, 0]) > MANY_VALUES * n
        for _, values in _read_columns(different)
    )


def groups_of_copies(X: Any) -> Indices | None:
    """Number of the group of near copies to which each row belongs, shape (n,); of
    equal rows, where `X` is sparse. None where equal rows are levels that come again.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    """
    copied = near_copies(X)
    if copied is None:
        copied = row_hashes(X)
    _, first, group = np.unique(copied, return_index=True, return_inverse=True)
    come_again = may_come_again(len(first), len(group)) and are_levels(X[first])
    return None if come_again else group


def _read_columns(X: Any) -> Iterator[tuple[str, Any]]:
    """Yield the kind and the values of each column of an array or data frame."""
    columns, names = table_columns(X)
    for j, column in enumerate(columns):
        yield read_unchecked(column, column_name(names, j))


def uniform(hashes: NDArray, seed: int) -> Floats:
    """Numbers from 0 to 1 that the hashes and a seed decide, as good as random;
    shape (n,).
    """
    salt = np.random.default_rng(seed).integers(2**63, dtype=np.uint64)
    return (mixed(hashes ^ salt) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _odd_numbers(n_columns: int) -> NDArray:
    """Factors of the bits of columns in the hash of a row; (n_columns,)."""
    halves = np.random.default_rng(0).integers(1, 2**63, n_columns, dtype=np.uint64)
    return halves * np.uint64(2) + np.uint64(1)


def _bits(values: NDArray) -> NDArray:
    """Numbers as whole ones, zero for zeros of either sign."""
    floats_of_values = values.astype(np.float64, copy=False) + 0.0
    bits = np.ascontiguousarray(floats_of_values).view(np.uint64)
    bits = np.where(np.isnan(values), NAN, bits)
    # Small whole numbers have zeros in their lower half.
    return bits ^ (bits >> np.uint64(32))


def _value_bits(values: Any) -> NDArray:
    """Bits of values as of `read_column`: of the first of their parts, or of hashes of
    text, zero where it is missing.
    """
    if isinstance(values, np.ndarray):
        return _bits(values[:, 0])
    codes, labels = values
    return np.frombuffer(text_digests(labels, 8) + bytes(8), np.uint64)[codes]


def text_digests(texts: Iterable[str], size: int) -> bytes:
    """Hashes of texts, of `size` bytes each, the same in every process."""
    return b"".join(
        blake2b(
            text.encode(errors="surrogatepass"), digest_size=size, usedforsecurity=False
        ).digest()
        for text in texts
    )


def observation_hashes(
    inputs: NDArray[np.uint64], targets: NDArray
) -> NDArray[np.uint64]:
    """Hashes of rows by those of their inputs, (n,), and their targets, (n, K)."""
    return mixed(inputs * FACTOR + row_hashes(targets))


def mixed(numbers: NDArray) -> NDArray:
    """Numbers whose every bit depends on all bits of those given: the finaliser of
    SplitMix64 (Steele et al., 2014).
    """
    x = numbers ^ (numbers >> np.uint64(30))
    x = x * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
