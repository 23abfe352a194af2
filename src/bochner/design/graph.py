"""The graph of all pairs of rows that anchor features stand for, by sums over the
rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.arrays import Floats
from bochner.blocks import BLOCK_ROWS, LARGE_BLOCK_ROWS
from bochner.data.array_source import Block
from bochner.design.design import Design
from bochner.design.reductions import SumOverRows
from bochner.engines.algebra import leading
from bochner.features.anchors import AnchorFeatures
from bochner.features.base import FeatureMap
from bochner.features.metric import without_metrics

MOST_SUMS = 64
CALL_BYTES = 1 << 28  # of memory for the sums of a shard, about


class GraphSums:
    """What is known of a graph W = Z L^-1 Z', L = diag(Z'w), after a pass over its
    rows; two of them add up.

    Parameters
    ----------
    n_landmarks : int
    keeps : bool
        Whether the features of all rows are kept.

    Attributes
    ----------
    n_rows : int
    gram : sparse array of shape (m, m)
        Z' diag(w) Z, of which a twentieth is not zero with 1,000 landmarks, and less
        with more.
    degree : array of shape (m,)
        Z'w.
    features : list of CSR matrix, or None
        Of all rows, where they are kept.
    labelled : list of tuple
        Features, targets, weights and numbers of the rows with a target; a row without
        one has zeros alone.
    """

    def __init__(self, n_landmarks: int, keeps: bool) -> None:
        self.n_rows = 0
        self.gram: Any = sp.csr_array((n_landmarks, n_landmarks))
        self.degree: Floats = np.zeros(n_landmarks)
        self.features: list[Any] | None = [] if keeps else None
        self.labelled: list[tuple[Any, NDArray, NDArray, NDArray]] = []

    def add(self, features: Any, blocks: Iterable[Block]) -> None:
        """Add the next rows, seen through a map to landmarks."""
        for X, targets, weight in blocks:
            Z = sp.csr_array(features.map_rows(X))
            wide = Z.astype(np.float64)
            rows = np.flatnonzero(targets.any(axis=1) & (weight > 0))
            if len(rows):
                beside = targets[rows], weight[rows], self.n_rows + rows
                self.labelled.append((wide[rows], *beside))
            weighted = sp.diags_array(weight) @ wide
            self.gram = self.gram + wide.T @ weighted
            self.degree = self.degree + np.ravel(weighted.sum(axis=0))
            if self.features is not None:
                self.features.append(Z)
            self.n_rows += len(weight)

    def __iadd__(self, other: GraphSums) -> GraphSums:
        self.labelled += [
            (*rows, number + self.n_rows) for *rows, number in other.labelled
        ]
        self.gram = self.gram + other.gram
        self.degree = self.degree + other.degree
        if self.features is not None and other.features is not None:
            self.features += other.features
        self.n_rows += other.n_rows
        return self


def sum_graph(design: Design, keeps: bool = False) -> GraphSums:
    """Sums over all rows, in one pass over them on all threads, or by the workers of an
    engine.

    Parameters
    ----------
    design : Design
        With a map of which `is_anchored` is true.
    keeps : bool
        Whether the features of all rows are kept.

    Returns
    -------
    GraphSums
    """
    work = SumOverRows(
        partial(GraphSums, design.features.n_features_out, keeps),
        BLOCK_ROWS,
        CALL_BYTES,
    )
    return design.reduce(
        work, design.features, design.shards(LARGE_BLOCK_ROWS, most=MOST_SUMS)
    )


class AnchorGraph:
    """W = Z L^-1 Z' = A A', A = Z L^-1/2, L = diag(Z'1), for anchor features Z of n
    rows, each of sum one.

    No weight is negative, and all degrees are one: W 1 = Z 1 = 1. What is asked of the
    n x n matrix comes of the small one A'A = L^-1/2 Z'Z L^-1/2, and functions on the
    rows are f = A v, or coefficients L^-1/2 v of the features, also of new rows. With
    weights of the rows, sums are weighted.

    Parameters
    ----------
    sums : GraphSums

    Attributes
    ----------
    n_rows : int
    features : list of CSR matrix, or None
    root : array of shape (m,)
        L^-1/2, zero for landmarks of no row.
    total : float
        Sum of the weights of the rows.
    matrix : sparse array of shape (m, m)
        A'A, with the eigenvalues of W but for zeros.

    References
    ----------
    Liu, He and Chang, "Large Graph Construction for Scalable Semi-Supervised Learning",
    ICML 2010, equation 6.
    """

    def __init__(self, sums: GraphSums) -> None:
        self.n_rows = sums.n_rows
        self.features = sums.features
        with np.errstate(divide="ignore"):
            self.root = np.where(sums.degree > 0, sums.degree**-0.5, 0.0)
        self.total = float(sums.degree.sum())
        scale = sp.diags_array(self.root)
        self.matrix = sp.csr_array(scale @ sums.gram @ scale)

    @property
    def rank(self) -> int:
        """Number of landmarks that rows share."""
        return int(np.count_nonzero(self.root))

    _eigenpairs: tuple[int, NDArray, NDArray] | None = None

    def eigenvectors(self, count: int) -> tuple[Floats, Floats]:
        """The largest eigenvalues of A'A, descending from one, and their vectors,
        shape (m, count); found once.
        """
        if self._eigenpairs is None or self._eigenpairs[0] < count:
            values, vectors = leading(self.matrix, min(count, self.rank))
            self._eigenpairs = count, np.minimum(values, 1.0), vectors
        _, values, vectors = self._eigenpairs
        return values[:count], vectors[:, :count]


def is_anchored(features: FeatureMap) -> bool:
    """Whether a map is one of anchors alone, maybe of learned coordinates."""
    return isinstance(without_metrics(features), AnchorFeatures)
