"""The mergeable statistic of ridge regression."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bochner.blocks import TILE_ROWS
from bochner.data.array_source import Block
from bochner.data.weights import are_one, are_unit, unit_weights
from bochner.engines.algebra import gram
from bochner.engines.blas import single_threaded_blas
from bochner.engines.local import in_threads, tiles
from bochner.features.binning import hashed_bins

PAIRED = 8  # grids that a thread pairs with another one at a time, an even number
BIN_BYTES = 64 << 20  # of bins whose products are added at once


class Centred(NamedTuple):
    """Moments about the weighted means, which is what an unpenalised intercept
    leaves of the problem.
    """

    gram: NDArray  # (D, D)
    cross: NDArray  # (D, K)
    total: NDArray  # (K,), sums of squares of the targets
    feature_mean: NDArray  # (D,)
    target_mean: NDArray  # (K,)


class Moments:
    """Weighted sums of products of the columns of A = [Z, Y, 1]: the matrix A'WA in
    float64, and the row count.

    It holds Z'WZ, Z'WY, Y'WY and all weighted sums and means, and adds: the moments of
    two sets of rows are the sum of theirs. A block's product is taken in the precision
    of the block by one symmetric BLAS call and added in float64.

    Parameters
    ----------
    n_features : int
        Columns D of Z.
    n_outputs : int
        Columns K of Y.
    dtype : dtype, default=float32
        Precision of the blocks.
    shared : bool, default=False
        Whether all threads make one block's product, in panels, which takes a tenth
        more operations.
    """

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        dtype: DTypeLike = np.float32,
        shared: bool = False,
    ) -> None:
        self.n_features = n_features
        self.n_outputs = n_outputs
        self.dtype = np.dtype(dtype)
        self.shared = shared
        self.n_columns = n_features + n_outputs + 1
        self.matrix = np.zeros((self.n_columns, self.n_columns))
        self.n_rows = 0

    @classmethod
    def holding(
        cls, matrix: NDArray, n_rows: int, n_outputs: int, dtype: DTypeLike
    ) -> Moments:
        """Moments whose matrix, of shape (D + K + 1, D + K + 1), is summed already."""
        moments = cls(len(matrix) - n_outputs - 1, n_outputs, dtype)
        moments.matrix = matrix
        moments.n_rows = n_rows
        return moments

    def workspace(self, rows: int) -> NDArray:
        """Return an empty array for a block of A; its first `n_features` columns are
        for the features.
        """
        return np.empty((rows, self.n_columns), self.dtype)

    def add(self, features: Any, blocks: Iterable[Block]) -> None:
        """Add rows seen through a map.

        Parameters
        ----------
        features : DenseFeatures, or FeatureMap of hashed bins
        blocks : iterable of Block
        """
        if hashed_bins(features) is None:
            workspace = self.workspace(0)
            for X, y, weight in blocks:
                if len(workspace) < len(y):
                    workspace = self.workspace(len(y))
                A = workspace[: len(y)]
                features.rows(X, out=A)
                self.add_block(A, y, weight)
            return
        held = list[tuple[NDArray, ...]]()
        n_bytes = 0
        for X, y, weight in blocks:
            bins = features.store(X)
            number = np.min_scalar_type(int(bins.offsets[1]) - 1)
            held.append((bins.ids.astype(number), bins.values, y, weight))
            n_bytes += sum(part.nbytes for part in held[-1])
            if n_bytes > BIN_BYTES:
                self._add_held(held)
                n_bytes = 0
        if held:
            self._add_held(held)

    def _add_held(self, held: list[tuple[NDArray, ...]]) -> None:
        """Add numbers, values, targets and weights of blocks of rows as those of one
        block, and forget them.

        The more rows, the less it matters that their moments go through the whole of a
        large matrix.
        """
        ids, values, targets, weights = zip(*held, strict=True)
        held.clear()
        weight = np.concatenate(weights)
        self.add_bins(
            np.hstack(ids),
            values[0] if values[0].shape[1] == 1 else np.hstack(values),
            np.concatenate(targets),
            unit_weights(len(weight)) if are_one(weight) else weight,
        )

    def add_block(self, A: NDArray, y: NDArray, weight: NDArray) -> None:
        """Add the rows of A, shape (b, n_columns), whose first columns hold Z; A is
        overwritten.

        Parameters
        ----------
        A : array of shape (b, D + K + 1)
        y : array of shape (b, K)
        weight : array of shape (b,)
        """
        A[:, self.n_features : -1] = y
        A[:, -1] = 1
        if not are_unit(weight):
            A *= np.sqrt(weight, dtype=self.dtype)[:, np.newaxis]
        with single_threaded_blas():
            self.matrix += gram(A) if self.shared else A.T @ A
        self.n_rows += int(np.count_nonzero(weight))

    def add_bins(
        self, ids: NDArray, values: NDArray, y: NDArray, weight: NDArray
    ) -> None:
        """Add rows of binning features, which have one entry in each of P grids of D /
        P columns.

        A thread takes the products of one grid with some others at a time, in the order
        of the rows, so that bits do not depend on the number of threads. Where rows
        have no weights and a grid one value, bins are counted, and only the counts of
        all rows are rounded; other products are taken and added in float64.

        Parameters
        ----------
        ids : int array of shape (P, b)
            Number of each row's bin in its grid.
        values : array of shape (P, b), or (P, 1) where all entries of a grid are equal
        y : array of shape (b, K)
        weight : array of shape (b,)

        Raises
        ------
        ValueError
            Where the numbers are not below D / P, or P does not divide D.
        """
        from bochner.loops.bins import add_panel, count_pairs, sum_pairs, sum_rows

        P = len(ids)
        D = self.n_features
        B = D // max(P, 1)
        if P * B != D or (ids.size and not 0 <= ids.min() <= ids.max() < B):
            raise ValueError(
                f"{P:,} grids do not number {D:,} columns: bins must be hashed to "
                "have moments."
            )
        ids = ids.astype(np.min_scalar_type(B - 1), copy=False)
        is_one_value = values.shape[1] == 1
        counted = is_one_value and are_unit(weight)
        scales = values[:, 0].astype(np.float64) if is_one_value else np.ones(P)
        columns = tiles(0, D, B)
        T = np.ascontiguousarray(np.column_stack([y, np.ones(len(y))]).T) * weight

        def times_value(p: int, factor: NDArray) -> NDArray:
            return factor if is_one_value else factor * values[p]

        def add_pairs(p: int, first: int) -> None:
            """Add products of grid p with itself or earlier ones, from the first on."""
            factor = times_value(p, weight)
            for q in range(first, min(first + PAIRED, p + 1), 2):
                pair = [q] if q == p else [q, q + 1]
                second = pair[-1]
                panels = np.zeros((2, B, B), np.int32 if counted else np.float64)
                if counted:
                    count_pairs(ids[p], ids[q], ids[second], panels)
                else:
                    factors = times_value(q, factor), times_value(second, factor)
                    sum_pairs(ids[p], ids[q], ids[second], *factors, panels)
                for other, panel in zip(pair, panels, strict=False):
                    add_panel(
                        panel,
                        scales[p] * scales[other],
                        self.matrix[columns[p], columns[other]],
                        self.matrix[columns[other], columns[p]],
                    )

        def add_sums(p: int) -> None:
            bin_sums = np.zeros((len(T), B))
            sum_rows(ids[p], times_value(p, T), bin_sums)
            self.matrix[D:, columns[p]] += scales[p] * bin_sums

        items = [(p, q) for p in range(P) for q in range(0, p + 1, PAIRED)]
        in_threads(lambda item: add_pairs(*item), items)
        in_threads(add_sums, range(P))
        self.matrix[:D, D:] = self.matrix[D:, :D].T
        E = np.column_stack([y, np.ones(len(y))]) * np.sqrt(weight)[:, np.newaxis]
        with single_threaded_blas():
            self.matrix[D:, D:] += E.T @ E
        self.n_rows += int(np.count_nonzero(weight))

    def __iadd__(self, other: Moments) -> Moments:
        self.matrix += other.matrix
        self.n_rows += other.n_rows
        self.dtype = np.promote_types(self.dtype, other.dtype)
        return self

    def __add__(self, other: Moments) -> Moments:
        total = deepcopy(self)
        total += other
        return total

    def __sub__(self, other: Moments) -> Moments:
        """Moments without those of some of the rows."""
        rest = deepcopy(self)
        rest.matrix -= other.matrix
        rest.n_rows -= other.n_rows
        return rest

    def __itruediv__(self, unit: float) -> Moments:
        """Moments of rows with weights over a number."""
        self.matrix /= unit
        return self

    @property
    def weight(self) -> float:
        """Sum of the weights; the number of rows where there are none."""
        return float(self.matrix[-1, -1])

    def centred(self, overwrite: bool = False) -> Centred:
        """Moments about the weighted means.

        Parameters
        ----------
        overwrite : bool, default=False
            Whether the Gram matrix may take the place of the moments, which are lost.
        """
        D = self.n_features
        means = self.matrix[-1, :-1] / self.weight
        feature_mean = means[:D]
        target_mean = means[D:]
        gram = self.matrix[:D, :D] if overwrite else self.matrix[:D, :D].copy()
        for part in tiles(0, D, TILE_ROWS):
            gram[part] -= self.weight * np.outer(feature_mean[part], feature_mean)
        cross = self.matrix[:D, D:-1] - self.weight * np.outer(
            feature_mean, target_mean
        )
        squares = np.diagonal(self.matrix)[D:-1] - self.weight * target_mean**2
        return Centred(gram, cross, np.maximum(squares, 0.0), feature_mean, target_mean)

    def centred_trace(self) -> float:
        """Trace of the centred Gram matrix: total variance of the features."""
        D = self.n_features
        squares = np.diagonal(self.matrix)[:D] - self.matrix[-1, :D] ** 2 / self.weight
        return float(np.maximum(squares, 0.0).sum())
