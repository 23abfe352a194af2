"""Random grids, and the tables of their occupied bins."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.arrays import n_distinct
from bochner.blocks import BLOCK_ROWS, SAMPLE_ROWS
from bochner.data.table_input import as_dense
from bochner.engines.local import in_threads, require_memory, tiles
from bochner.features.sampling import allocate
from bochner.features.structured import of_shapes
from bochner.kernels import Kernel

Numbers: TypeAlias = Callable[
    [int, NDArray, NDArray], None
]  # (grid, hashes, ids): writes the number of each hash into ids
LARGE_TABLE, GROWTH = 1 << 24, 2  # bins, and the factor by which a full table grows
MANY_BINS, NO_COUNTS = 1 << 12, np.empty(0, np.int32)
# Rows of a tile at the most, which are as many as the bins of a grid
MOST_TILE_ROWS = 32768
SAMPLED_GRIDS = 8  # that tell how many bins there are
MANY_OWN = 0.5  # bins for each row of that sample
# Pitches, whose inverses are finite
SMALLEST, LARGEST = np.finfo(float).tiny, np.finfo(float).max


def draw_grids(
    kernel: Kernel, n_grids: int, n_features: int, rng: np.random.Generator
) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Draw pitches and shifts such that two rows meet in a bin with the probability
    k(x, y) / k(x, x).

    Returns
    -------
    pitches, shifts : arrays of shape (n_grids, F, n_features)
        One lattice for each factor of the kernel; where a term has fewer than F, the
        rest have infinite pitches.
    values : array of shape (n_grids,)
        Root of the share of the kernel's variance that each grid bears.
    smooth : array of shape (n_grids, F), bool
        Lattices whose rows have a weight inside their bins.

    Raises
    ------
    ValueError
        If the pitches of a factor are not known, lengthscales do not fit, or there are
        fewer grids than terms.
    MemoryError
        Before the draw.
    """
    terms = kernel.terms()
    counts = allocate([variance for variance, _ in terms], n_grids, "n_grids")
    shape = n_grids, max(len(leaves) for _, leaves in terms)
    need = 7 * 8 * n_grids * shape[1] * n_features
    require_memory(
        need,
        f"Drawing {n_grids:,} grids in {n_features:,} dimensions",
        "Use fewer n_grids.",
    )
    pitches = np.full((*shape, n_features), np.inf)
    values = np.empty(n_grids)
    smooth = np.zeros(shape, bool)
    first = 0
    for (variance, leaves), count in zip(terms, counts, strict=True):
        part = slice(first, first + count)
        first += count
        values[part] = np.sqrt(variance / count)
        for f, leaf in enumerate(leaves):
            law = leaf.pitch_measure()
            columns = leaf.columns(n_features)
            unit = law.quantile(rng.uniform(SMALLEST, 1.0, (count, len(columns))))
            with np.errstate(over="ignore"):
                finite = np.clip(unit * leaf.scales(n_features), SMALLEST, LARGEST)
            pitches[part, f, columns] = np.where(np.isfinite(unit), finite, np.inf)
            smooth[part, f] = law.smooth
    is_finite = np.isfinite(pitches)
    shifts = np.where(is_finite, rng.uniform(size=pitches.shape), 0.0)
    shifts *= np.where(is_finite, pitches, 0.0)
    return pitches, shifts, values, smooth


class Table:
    """Numbers of the occupied bins of one grid, by an open-addressing hash table that
    grows as it fills.

    It is as large as its bins need, and not its rows: a small one stays in the cache.
    """

    def __init__(self, capacity: int = 512) -> None:
        self.count = 0
        self.keys = np.empty(capacity, np.int64)
        self.counts = np.zeros(capacity, np.int32)
        self.slots = np.full(2 * capacity, -1, np.int32)

    def number(self, hashes: NDArray, ids: NDArray) -> None:
        """Write the number of each hash into `ids`, a new one for each that is new."""
        from bochner.loops.bins import number

        done = 0
        while done < len(hashes):
            self.count, more = number(
                hashes[done:],
                self.keys,
                self.counts,
                self.slots,
                self.count,
                ids[done:],
            )
            done += more
            if done < len(hashes):
                # The table is full
                capacity = GROWTH * len(self.keys)
                if capacity >= LARGE_TABLE:
                    require_memory(
                        24 * capacity,
                        f"A table of {capacity:,} bins",
                        "Use larger lengthscales or fewer n_grids.",
                    )
                larger = Table(capacity)
                larger.number(self.keys[: self.count], np.empty(self.count, np.int32))
                larger.counts[: self.count] = self.counts[: self.count]
                self.keys = larger.keys
                self.counts = larger.counts
                self.slots = larger.slots


class Lookups:
    """Numbers of known bins of all grids: of tables, or of buckets where there are no
    keys.

    Parameters
    ----------
    keys : array of shape (D,), int64
        Hashes of the bins; those of grid p are keys[offsets[p] : offsets[p + 1]].
    offsets : array of shape (P + 1,), int64
    n_grids : int

    Attributes
    ----------
    tables : tuple of arrays
        Keys, offsets, starts, bits and slots, as the loops take them; not of buckets.
    tile_rows : int
        Rows that go through all grids at a time: as many as a grid has bins, whose
        table then pays its way.

    Raises
    ------
    ValueError
        If these do not fit together.
    """

    def __init__(self, keys: NDArray, offsets: NDArray, n_grids: int) -> None:
        from bochner.loops.bins import number

        whole = of_shapes([keys, offsets], [(len(keys),), (n_grids + 1,)], np.int64)
        _require(whole)
        self.keys = np.require(keys, None, "W")
        self.offsets = offsets
        self.n_buckets = int(offsets[1]) if not len(keys) and offsets.any() else 0
        if self.n_buckets:
            multiples = np.arange(n_grids + 1) * self.n_buckets
            fit = 0 < self.n_buckets < 2**31 and np.array_equal(offsets, multiples)
            _require(fit)
            self.starts = np.zeros_like(offsets)
            self.slots = np.empty(0, np.int32)
            return
        rise = bool(np.all(np.diff(offsets) >= 0))
        _require(rise and offsets[0] == 0 and offsets[-1] == len(keys))
        # Of few bins tables are a quarter full at most, lest look-ups search, of many
        # bins half full
        sizes = np.diff(offsets)
        slots = np.maximum(np.where(sizes < MANY_BINS, 4, 2) * sizes, 2)
        named_by = np.ceil(np.log2(slots)).astype(np.int64)
        self.starts = np.concatenate([[0], np.cumsum(1 << named_by)])
        self.slots = np.full(self.starts[-1], -1, np.int32)

        def fill(p: int) -> None:
            keys, slots = self.of_grid(p)
            hashes, counts, ids = keys.copy(), *np.zeros((2, len(keys)), np.int32)
            number(hashes, hashes, counts, slots, 0, ids)

        in_threads(fill, range(len(sizes)))
        self.tables = (
            self.keys,
            self.offsets,
            self.starts,
            (64 - named_by).view(np.uint64),
            self.slots,
        )
        rows = len(self.keys) // max(len(sizes), 1)
        self.tile_rows = min(max(rows, BLOCK_ROWS), MOST_TILE_ROWS)

    def of_grid(self, p: int) -> tuple[NDArray, NDArray]:
        """Keys and slots of a grid; of buckets none."""
        keys = self.keys[slice(*self.offsets[p : p + 2])]
        return keys, self.slots[slice(*self.starts[p : p + 2])]

    def look_up(self, p: int, hashes: NDArray, ids: NDArray) -> None:
        """Write the numbers of the hashes in a grid into `ids`, -1 for bins that are
        not known.
        """
        from bochner.loops.bins import bucket, number

        if self.n_buckets:
            bucket(hashes, self.n_buckets, ids)
            return
        keys, slots = self.of_grid(p)
        number(hashes, keys, NO_COUNTS, slots, -1, ids)


def by_columns(rows: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Rows by columns, and the least and greatest value of each."""
    columns = np.array(rows.T, order="C")
    return columns, columns.min(axis=1).astype(float), columns.max(axis=1).astype(float)


def _require(fit: bool) -> None:
    if not fit:
        raise ValueError(
            "The arrays of this BinningFeatures are inconsistent. Fit it again."
        )


class Grids:
    """The grids of a map in the form that the compiled loops take, which check no
    bounds: here they are checked.

    Parameters
    ----------
    pitches, shifts : arrays of shape (P, F, d), float64
    multipliers : array of shape (P, F, d), int64
        Of the hashes; those of a grid are its salt.
    values : array of shape (P,), float64
    smooth : array of shape (P, F), bool
    n_features : int

    Attributes
    ----------
    lattices : tuple of arrays
        Inverses of the pitches, shifts over the pitches, multipliers and values, as the
        loops take them.
    is_smooth : bool
        Whether rows have weights inside bins of some lattice.

    Raises
    ------
    ValueError
        If shapes or dtypes are others, or pitches are not positive.
    """

    def __init__(
        self,
        pitches: NDArray,
        shifts: NDArray,
        multipliers: NDArray,
        values: NDArray,
        smooth: NDArray,
        n_features: int,
    ) -> None:
        shape = np.shape(pitches)[:2]
        whole = (*shape, n_features)
        _require(
            of_shapes([pitches, shifts, values], [whole, whole, shape[:1]])
            and of_shapes([multipliers], [whole], np.int64)
            and of_shapes([smooth], [shape], np.bool_)
            and pitches.size > 0
            and bool(np.all(pitches >= SMALLEST) and np.all(np.isfinite(shifts)))
        )
        self.inverses = 1 / pitches
        self.shifts = np.where(np.isfinite(pitches), shifts / pitches, 0.0)
        self.multipliers = multipliers
        self.values = values
        self.smooth = smooth
        self.lattices = self.inverses, self.shifts, multipliers, values
        self.is_smooth = bool(smooth.any())

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def of_few(self) -> tuple[tuple[NDArray, ...], NDArray, NDArray]:
        """What the loop for few rows takes: lattices with the grids last, hashes of
        zeros, sizes of near entries.
        """
        from bochner.loops.bins import FAR, NEAR

        cells = np.clip(np.floor(-self.shifts), -FAR, FAR).astype(np.int64)
        with np.errstate(over="ignore"):
            at_zero = (cells * self.multipliers).sum(axis=(1, 2))
        largest = np.maximum(self.inverses.max(axis=0), 1 / NEAR)
        is_near = np.abs(self.shifts).max(axis=0) < NEAR / 2
        reach = np.where(is_near, NEAR / 2 / largest, 0.0)
        *lattices, values = self.lattices
        last = [np.ascontiguousarray(one.transpose(1, 2, 0)) for one in lattices]
        return (*last, values), at_zero, reach

    def tiles(self, X: Any) -> list[tuple[slice, Any]]:
        """Rows in pieces that stay in the cache, with their places, dense ones by
        columns with the least and greatest value of each.

        Raises MemoryError where rows with smooth bins are sparse and do not fit the
        memory when they are dense.
        """
        sparse = sp.issparse(X)
        if sparse and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        if sparse and self.is_smooth:
            require_memory(
                X.shape[0] * X.shape[1] * X.dtype.itemsize,
                f"A dense copy of {X.shape[0]:,} sparse rows, for smooth bins,",
                "Use fewer rows or columns at a time.",
            )
        parts = tiles(0, X.shape[0], BLOCK_ROWS)
        if sparse and not self.is_smooth:
            return [(part, X[part]) for part in parts]
        return [(part, by_columns(as_dense(X[part]))) for part in parts]

    def order(self, X: NDArray) -> NDArray[np.intp] | None:
        """Order in which neighbours share many bins: along the column that the grids
        cut most often.

        None where a sample of the rows has few bins, whose coefficients a cache holds
        in any order.
        """
        sample = X[:: max(len(X) // SAMPLE_ROWS, 1)]
        tile = by_columns(sample)
        n_bins = [
            n_distinct(self.hashes(tile, p))
            for p in range(min(len(self), SAMPLED_GRIDS))
        ]
        if np.mean(n_bins) < MANY_OWN * len(sample):
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            spread = np.abs(sample - sample.mean(axis=0, dtype=np.float64)).mean(axis=0)
            cuts = spread * self.inverses.sum(axis=(0, 1))
        return np.argsort(X[:, np.argmax(cuts)], kind="stable")

    def hashes(self, tile: Any, p: int) -> NDArray[np.int64]:
        """Hashes of the bins of a tile's rows in grid p."""
        from bochner.loops.bins import hash_dense, hash_sparse

        lattices = self.inverses[p], self.shifts[p], self.multipliers[p]
        if sp.issparse(tile):
            hashes = np.empty(tile.shape[0], np.int64)
            hash_sparse(tile.indptr, tile.indices, tile.data, *lattices, hashes)
        else:
            hashes = np.empty(tile[0].shape[1], np.int64)
            hash_dense(*tile, *lattices, hashes)
        return hashes

    def weigh(self, tiles: list[tuple[slice, Any]], p: int, values: NDArray) -> None:
        """Write the value of the grid times the weight of each row inside its bin
        into `values`.
        """
        from bochner.loops.bins import weigh

        values[:] = self.values[p]
        for rows, (columns, _, _) in tiles:
            weigh(
                columns, self.inverses[p], self.shifts[p], self.smooth[p], values[rows]
            )
