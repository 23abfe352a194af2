"""Hashes of the content of rows: equal rows have equal ones, wherever and in
whatever order they come.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.arrays import Floats, Indices
from bochner.data.columns import floats, is_missing, levels, table_columns
from bochner.data.outliers import RANGED_ROWS, drawn
from bochner.engines.local import for_rows

TILE_ENTRIES = 1 << 16  # half a megabyte of numbers, which stay in a core's cache
NEAR = 1e-6  # of an interquartile range, within which numbers agree
MANY_VALUES = 0.1  # of a number of rows, that differ in a quantity
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
        columns = table_columns(X)[0]
        return mixed(np.stack([*map(_column_bits, columns)], axis=1) @ multipliers)
    sums = np.empty(len(X), np.uint64)
    tile = max(TILE_ENTRIES // max(X.shape[1], 1), 1)

    def loop(start: int, stop: int) -> None:
        for a in range(start, stop, tile):
            rows = slice(a, min(a + tile, stop))
            sums[rows] = (_bits(X[rows]) * multipliers).sum(axis=1)

    for_rows(loop, len(X), tile)
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


def near_copies(X: Any) -> Indices | None:
    """Number of the first row that agrees with each in all columns, but for numbers
    that are very near; (n,).

    Numbers agree that round to one multiple of a millionth of the column's
    interquartile range. None where no row agrees with an earlier one, and for sparse
    matrices.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
    """
    if sp.issparse(X) or X.shape[0] < 2:
        return None
    columns = map(_as_numbers, table_columns(X)[0])
    row_numbers = drawn(np.arange(X.shape[0]), RANGED_ROWS)
    sums = np.zeros(X.shape[0], np.uint64)
    for column, multiplier in zip(columns, _odd_numbers(X.shape[1]), strict=True):
        is_hashed = column.dtype == np.uint64
        bits = column if is_hashed else _bits(_rounded(column, row_numbers))
        sums += bits * multiplier
    _, first, group = np.unique(sums, return_index=True, return_inverse=True)
    return None if len(first) == len(sums) else first[group]


def holds_quantities(X: Any) -> bool:
    """Whether a column of different rows, of an array or data frame, holds numbers or
    times of which most rows have one of their own.

    Numbers with few values, as of counts and codes, are levels.
    """
    import narwhals as nw

    many = MANY_VALUES * len(X)
    columns = table_columns(X)[0]
    if not isinstance(X, np.ndarray):
        return any(
            column.n_unique() > many
            for column in columns
            if column.dtype.is_numeric()
            or column.dtype.is_temporal()
            or (column.dtype == nw.Object and _as_numbers(column).dtype != np.uint64)
        )
    if X.dtype.kind not in "biufmM":
        read = map(_as_numbers, columns)
        columns = [column for column in read if column.dtype != np.uint64]
    return any(len(np.unique(column)) > many for column in columns)


def _as_numbers(column: Any) -> NDArray:
    """Numbers of a column as they are, and objects where all are such or missing; else
    the bits of what they are.
    """
    import narwhals as nw

    objects = column
    if not isinstance(column, np.ndarray):
        if column.dtype.is_numeric():
            return _as_floats(column)
        objects = column.to_numpy() if column.dtype == nw.Object else None
    elif column.dtype.kind in "biuf":
        return column
    if objects is not None and not any(
        isinstance(value, str) for value in objects.tolist()
    ):
        with suppress(TypeError, ValueError, OverflowError):
            return objects.astype(np.float64)
    return _column_bits(column)


def _rounded(values: NDArray, sample_rows: Indices) -> Floats:
    """Numbers of a column rounded to a millionth of the interquartile range of some
    rows; as they are where it is zero.
    """
    values = values.astype(np.float64, copy=False)
    sample = values[sample_rows]
    sample = sample[np.isfinite(sample)]
    if not len(sample):
        return values
    upper, lower = np.quantile(sample, [0.75, 0.25])
    unit = NEAR * (upper - lower)
    if not np.finfo(np.float64).tiny < unit < np.inf:
        return values
    with np.errstate(over="ignore"):
        return np.rint((values - lower) / unit)


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


def _column_bits(column: Any) -> NDArray:
    """Numbers by their bits, times by their nanoseconds, all else by a hash of the
    text of each different value; objects as those of a column of a frame.
    """
    import narwhals as nw
    import pyarrow as pa

    if isinstance(column, np.ndarray):
        unreadable = pa.ArrowException, OverflowError, TypeError, UnicodeEncodeError
        try:
            array = pa.chunked_array([pa.array(column, from_pandas=True)])
        except unreadable:  # of several kinds, or refused later on
            return _bits_of_objects(column.tolist())
        column = nw.from_native(array, series_only=True)
    if column.dtype in (nw.Date, nw.Datetime):
        column = column.cast(nw.Datetime).dt.timestamp("ns")
    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        return _bits(_as_floats(column))
    try:
        return _text_bits(*levels(column.to_arrow()))
    except (pa.ArrowException, OverflowError):  # objects of several kinds
        return _bits_of_objects(column.to_list())


def _text_bits(values: list, places: Indices) -> NDArray:
    """Hashes of the texts of different values at their places; zero where one is
    missing.
    """
    digests = text_digests(map(str, values), 8) + bytes(8)
    return np.frombuffer(digests, np.uint64)[places]


def _as_floats(column: Any) -> Floats:
    """Numbers in double precision, to which Arrow rounds whole ones only where it is
    told to.
    """
    import narwhals as nw
    import pyarrow as pa

    native = column.to_native()
    if isinstance(native, pa.ChunkedArray):
        return floats(native)
    if type(getattr(native, "dtype", None)).__name__ == "ArrowDtype":  # of pandas
        return floats(column.to_arrow())
    return column.cast(nw.Float64).to_numpy()


def _bits_of_objects(values: list) -> NDArray:
    """Hashes of the texts of objects of several kinds."""
    texts, places = np.unique([str(value) for value in values], return_inverse=True)
    gaps = [is_missing(value) for value in values]
    return _text_bits(texts.tolist(), np.where(gaps, -1, places))


def text_digests(texts: Iterable[str], size: int) -> bytes:
    """Hashes of texts, of `size` bytes each, the same in every process."""
    encoded = (text.encode(errors="surrogatepass") for text in texts)
    return b"".join(
        blake2b(text, digest_size=size, usedforsecurity=False).digest()
        for text in encoded
    )


def mixed(numbers: NDArray) -> NDArray:
    """Numbers whose every bit depends on all bits of those given: the finaliser of
    SplitMix64 (Steele et al., 2014).
    """
    x = numbers ^ (numbers >> np.uint64(30))
    x = x * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
