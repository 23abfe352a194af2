"""A fitted function as a sum of terms, each of which is a product of factors of the
input columns where it is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import comb
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from bochner.arrays import Floats, Indices
from bochner.blocks import BLOCK_ENTRIES
from bochner.data.table_input import as_dense
from bochner.engines.local import fold, in_threads, shards
from bochner.features.base import FeatureMap
from bochner.features.binning import BinningFeatures
from bochner.features.concatenate import LinearFeatures
from bochner.features.fourier import FourierFeatures
from bochner.features.grids import by_columns
from bochner.features.leaves import LeafMap, leaves
from bochner.features.metric import Metric

TILE = 128  # waves whose angles are held at a time
ROUNDING = 34.0  # -log of the error of a quadrature, a rounding error
Columns: TypeAlias = "tuple[NDArray, NDArray, NDArray]"


class Coordinates(NamedTuple):
    """Numbers that each depend on one input column, and of which a map sees the rows.

    Attributes
    ----------
    metrics : tuple of Metric
    column : int array of shape (q,)
        Input column of each.
    linear : array of shape (r, q), or None
        What the map sees of them, where that is not themselves.
    """

    metrics: tuple[Metric, ...]
    column: NDArray[np.intp]
    linear: Floats | None

    def of(self, X: Any) -> Floats:
        """Coordinates of encoded rows, shape (n, q)."""
        X = as_dense(X)
        for metric in self.metrics:
            X = metric.unmixed(X)
        return np.asarray(X, np.float64)

    def by_column(self, used: Any) -> tuple[NDArray, list[Indices]]:
        """Input columns of the coordinates that are used, and the coordinates of
        each.
        """
        columns = np.unique(self.column[used])
        return columns, [np.flatnonzero(self.column == j) for j in columns]


def coordinates(leaf: LeafMap, sources: NDArray) -> Coordinates | None:
    """Coordinates that a single map has of encoded columns, whose input columns are
    given; None where these mix.

    Only a last linear map may mix them: it is kept apart.
    """
    column = np.asarray(sources, np.intp)
    linear = None
    for metric in leaf.metrics:
        if linear is not None:
            return None
        column = column[metric.source_]
        if metric.linear_.size:
            rest = np.eye(len(column) - metric.linear_.shape[1])
            linear = block_diag(metric.linear_, rest)
    return Coordinates(leaf.metrics, column, linear)


class Waves:
    """Fourier features: the real part of coefficients times exp(i w'u), u the
    coordinates of a row.

    Parameters
    ----------
    coordinates : Coordinates
    features : FourierFeatures
    coef : array of shape (D, K)
    """

    def __init__(
        self, coordinates: Coordinates, features: FourierFeatures, coef: NDArray
    ) -> None:
        W = features.frequencies_
        if coordinates.linear is not None:
            W = coordinates.linear.T @ W
        pairs = W.shape[1] - len(features.offsets_)
        waves = (coef[:pairs] - 1j * coef[pairs : 2 * pairs]).T
        alone = coef[2 * pairs :].T * np.exp(1j * features.offsets_)
        self.coef = np.hstack([waves, alone]) * features.amplitudes_
        self.coordinates = coordinates
        self.frequencies = W
        self.columns, self._places = coordinates.by_column(W.any(axis=1))

    def add_values(self, X: Any, background: Any, values: NDArray) -> None:
        """Add the mean Shapley values against background rows to an array of shape (n,
        d, K).

        To one of shape (n, d, d, K) their interactions are added, above the diagonal.
        """
        from bochner.loops.coalitions import WAVES, add_waves

        U = self.coordinates.of(X)
        V = self.coordinates.of(background)
        d = len(self.columns)
        if d < values.ndim - 2:
            return
        sums = np.zeros((len(U), d, 1 if values.ndim == 3 else d, values.shape[-1]))
        rules = quadratures(d)
        few = int(np.clip(BLOCK_ENTRIES // (d * TILE), 1, 32))
        parts = [slice(a, a + few) for a in range(0, len(U), few)]

        def add(block: NDArray, W: NDArray, C: Any, other: Any, part: slice) -> None:
            rows = U[part]
            differ = [
                (rows[:, np.newaxis, places] != block[:, places]).any(axis=2)
                for places in self._places
            ]
            angles = self._angles(rows, W)
            add_waves(angles, other, np.stack(differ, axis=2), rules, C, sums[part])

        for first in range(0, self.frequencies.shape[1], TILE):
            # Some frequencies, and parts of their coefficients, filled up with zeros
            W = self.frequencies[:, first : first + TILE]
            more = (0, 0), (0, -W.shape[1] % WAVES)
            W = np.pad(W, more)
            coef = np.pad(self.coef[:, first : first + TILE], more)
            C = np.ascontiguousarray(coef.real), np.ascontiguousarray(coef.imag)
            for b in range(0, len(V), 4 * few):
                block = V[b : b + 4 * few]
                other = self._angles(block, W)
                in_threads(partial(add, block, W, C, other), parts)
        _add(sums / len(V), self.columns, values)

    def _angles(self, U: NDArray, W: NDArray) -> tuple[NDArray, ...]:
        """Cosines and sines of half the angles of each column, and of those of all
        columns.
        """
        half = np.empty((len(U), len(self.columns), W.shape[1]))
        for j, places in enumerate(self._places):
            np.matmul(U[:, places], W[places] / 2, out=half[:, j])
        whole = half.sum(axis=1)
        return np.cos(half), np.sin(half), np.cos(whole), np.sin(whole)


class Cells:
    """Bins: a coefficient for each occupied cell of each grid, the hash of which is a
    sum over the columns.

    Parameters
    ----------
    coordinates : Coordinates
        Without a linear map.
    whole : Opaque
        BinningFeatures without weights inside of bins.
    """

    def __init__(self, coordinates: Coordinates, whole: Opaque) -> None:
        self.coordinates = coordinates
        self.whole = whole
        self.features = whole.leaf.features
        self.coef = whole.coef
        split = np.isfinite(self.features.pitches_).any(axis=(0, 1))
        self.columns, self._places = coordinates.by_column(split)

    def add_values(self, X: Any, background: Any, values: NDArray) -> None:
        """Add the mean Shapley values, or interactions, against background rows, as
        those of waves.
        """
        from bochner.loops.coalitions import add_corners

        d = len(self.columns)
        if d < values.ndim - 2:
            return
        explained_columns = self._by_column(X)
        other = self._by_column(background)
        shape = d, 1 if values.ndim == 3 else d, values.shape[-1]
        shares = coalition_shares(d)
        lookups = self.features.lookups()
        offsets = self.features.offsets_

        def add(shard: tuple[int, int]) -> Floats:
            sums = np.zeros((len(values), *shape))
            for p in range(*shard):
                # Rows that share a bin are one
                rows, group, _ = self._hashes(p, explained_columns)
                others, _, counts = self._hashes(p, other)
                coef = self.coef[offsets[p] : offsets[p + 1]]
                bin_values = np.zeros((rows.shape[1], *shape))
                add_corners(
                    rows,
                    others,
                    counts.astype(np.float64),
                    (*lookups.of_grid(p), lookups.n_buckets),
                    self.features.values_[p] * coef,
                    shares,
                    bin_values,
                )
                sums += bin_values[group]
            return sums

        total = fold(add, shards(len(self.features.grids()), 1))
        _add(total / background.shape[0], self.columns, values)

    def corners(self, X: Any, background: Any) -> float:
        """Mean number of bins that a row and a background row span in a grid, by
        about 32 of the grids.
        """
        explained_columns = self._by_column(X)
        other = self._by_column(background)
        P = len(self.features.grids())
        bin_counts = []
        for p in range(0, P, -(-P // 32)):
            rows, _, counts = self._hashes(p, explained_columns)
            others, _, other_counts = self._hashes(p, other)
            differ = (rows[:, :, np.newaxis] != others[:, np.newaxis]).sum(axis=0)
            total = counts @ 2.0**differ @ other_counts
            bin_counts.append(total / (counts.sum() * other_counts.sum()))
        return float(np.mean(bin_counts))

    def _by_column(self, X: Any) -> list[Columns]:
        """Coordinates by column, with their least and greatest values, for each
        input column.
        """
        U = self.coordinates.of(X)
        return [by_columns(U[:, places]) for places in self._places]

    def _hashes(self, p: int, rows: list[Columns]) -> tuple[NDArray, NDArray, NDArray]:
        """Parts of the hashes of different bins by column, shape (d, m); the bin of
        each row, and rows of each bin.
        """
        from bochner.loops.bins import hash_dense

        *lattices, _ = self.features.grids().lattices
        hashes = np.empty((len(rows), rows[0][0].shape[1]), np.int64)
        for places, columns, out in zip(self._places, rows, hashes, strict=True):
            hash_dense(*columns, *(lattice[p][:, places] for lattice in lattices), out)
        _, first, group = np.unique(
            hashes.sum(axis=0), return_index=True, return_inverse=True
        )
        return np.ascontiguousarray(hashes[:, first]), group, np.bincount(group)


class Line(NamedTuple):
    """Features that are linear in the coordinates.

    Attributes
    ----------
    coordinates : Coordinates
    slope : array of shape (q, K)
    """

    coordinates: Coordinates
    slope: NDArray

    def add_values(self, X: Any, background: Any, values: NDArray) -> None:
        """Add the mean Shapley values against background rows, as those of waves;
        there are no interactions.
        """
        if values.ndim > 3:
            return
        moved = self.coordinates.of(X) - self.coordinates.of(background).mean(axis=0)
        for i, j in enumerate(self.coordinates.column.tolist()):
            values[:, j] += moved[:, i, np.newaxis] * self.slope[i]


class Opaque(NamedTuple):
    """Features that are no products of factors of the columns, of which only values are
    known.

    Attributes
    ----------
    leaf : LeafMap
    coef : array of shape (D, K)
    sources : int array
        Input column of each encoded column.
    """

    leaf: LeafMap
    coef: NDArray
    sources: NDArray

    def scores(self, X: Any) -> Floats:
        """The function at encoded rows, shape (n, K)."""
        return np.asarray(
            self.leaf.features.dot(self.leaf.coordinates(X), self.coef), np.float64
        )


Term: TypeAlias = "Waves | Cells | Line | Opaque"


def terms(features: FeatureMap, coef: NDArray, sources: NDArray) -> Iterator[Term]:
    """The single maps of a fitted map with coefficients of shape (D, K), as sums over
    products where they are such.

    Parameters
    ----------
    features : FeatureMap
    coef : array of shape (D, K)
    sources : int array
        Input column of each encoded column.
    """
    first = 0
    for leaf in leaves(features):
        stop = first + leaf.features.n_features_out
        leaf_coef = np.sqrt(leaf.weight) * np.asarray(coef[first:stop], np.float64)
        first = stop
        seen = coordinates(leaf, sources)
        part = leaf.features
        whole = Opaque(leaf, leaf_coef, sources)
        if seen is None:
            yield whole
        elif isinstance(part, FourierFeatures):
            yield Waves(seen, part, leaf_coef)
        elif isinstance(part, LinearFeatures):
            slope = leaf_coef / part.scale_[:, np.newaxis]
            yield Line(seen, slope if seen.linear is None else seen.linear.T @ slope)
        elif isinstance(part, BinningFeatures) and seen.linear is None:
            yield whole if part.grids().is_smooth else Cells(seen, whole)
        else:
            yield whole


def _add(sums: Floats, columns: NDArray, values: NDArray) -> None:
    """Add sums of the columns, or of pairs of them, to values."""
    sums = sums[:, :, 0] if values.ndim == 3 else sums
    places: Any = np.ix_(*[columns] * (values.ndim - 2))
    values[(slice(None), *places)] += sums


def coalition_shares(most: int) -> Floats:
    """Share of orders of m columns in which those before a given one are a given set of
    s: s! (m - s - 1)! / m!.

    Returns
    -------
    array of shape (most + 1, most + 1)
        In row m and column s; 0 where there are none.
    """
    shares = np.zeros((most + 1, most + 1))
    for m in range(1, most + 1):
        for s in range(m):
            shares[m, s] = 1 / (m * comb(m - 1, s))
    return shares


def quadratures(most: int) -> tuple[NDArray, NDArray, NDArray]:
    """Rules for the mean over [-1, 1] of real parts of products of cos h + i s sin h,
    by the number of factors.

    An even Gauss-Legendre rule of q nodes is exact for degrees below 2 q, and only its
    positive half is needed. The modulus of m factors is at most cosh(e)^m on the
    ellipse of Bernstein with radius exp(e), so that the error is some exp(m e^2 / 2 - 2
    q e), for e = 2 q / m exp(-2 q^2 / m): of many factors fewer nodes are exact to
    rounding.

    Returns
    -------
    sizes : int array of shape (most + 1,)
    nodes, weights : arrays
        Positive nodes and their weights, which sum to 1, in row h those of a rule of h.
    """
    count = np.arange(most + 1)
    fewest = np.minimum(count / 4, np.sqrt(ROUNDING * count / 8))
    sizes = np.ceil(fewest).astype(np.int64)
    largest = int(sizes.max())
    nodes, weights = np.zeros((2, largest + 1, max(largest, 1)))
    for h in range(1, largest + 1):
        x, w = np.polynomial.legendre.leggauss(2 * h)
        nodes[h, :h], weights[h, :h] = x[h:], w[h:]
    return sizes, nodes, weights
