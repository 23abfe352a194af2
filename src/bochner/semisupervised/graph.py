"""The graph of rows that share landmarks: its sums over the rows, and smooth functions on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from bochner.data.sources import Source
from bochner.design import Design
from bochner.engines.base import reduce
from bochner.engines.local import LOCAL, shards
from bochner.features.base import FeatureMap
from bochner.passes import OnSpan

SHARD_ROWS, MOST_SUMS, BLOCK_ROWS = 1 << 14, 64, 1 << 13
KEPT_BYTES = 1 << 30  # of the features of all rows
SAME = 1e5  # equal parts of one, to which features of equal rows are the same
CG_TOL, CG_STEPS = 1e-8, 1000
DENSE = 500  # landmarks, of which all eigenvectors are found
SPARE, ROUNDS, DEGREE = 20, 8, 8
LEAST_EIGENVALUE = 1e-8  # of S, of whose eigenvectors less is noise


@dataclass
class GraphSums:
    """What is known of a graph W = Z L^-1 Z', L = diag(Z'w), after a pass over its rows; two of them add up.

    Attributes
    ----------
    n_rows : int
    gram : sparse array of shape (m, m)
        Z' diag(w) Z.
    degree : array of shape (m,)
        Z'w.
    labelled : list of tuple
        Features, targets, weights and numbers of rows with a target.
    features : list of CSR matrix, or None
        Of all rows, where they are kept.
    """

    n_rows: int
    gram: Any
    degree: NDArray[np.float64]
    labelled: list[tuple[Any, NDArray, NDArray, NDArray]] = field(default_factory=list)
    features: list[Any] | None = None

    def add(self, Z: Any, targets: NDArray, weight: NDArray) -> None:
        """Add the next rows, of features Z; a row without a target has zeros alone."""
        wide = Z.astype(np.float64)
        weighted = sp.diags_array(weight) @ wide
        self.gram = self.gram + wide.T @ weighted
        self.degree = self.degree + np.ravel(weighted.sum(axis=0))
        known = np.flatnonzero(targets.any(axis=1) & (weight > 0))
        if len(known):
            self.labelled.append((wide[known], targets[known], weight[known], self.n_rows + known))
        if self.features is not None:
            self.features.append(Z)
        self.n_rows += len(weight)

    def __iadd__(self, other: GraphSums) -> GraphSums:
        self.gram, self.degree = self.gram + other.gram, self.degree + other.degree
        self.labelled += [(*rows, number + self.n_rows) for *rows, number in other.labelled]
        if self.features is not None and other.features is not None:
            self.features += other.features
        self.n_rows += other.n_rows
        return self


@dataclass(frozen=True)
class SumGraph:
    """The work of a pass over some rows.

    Attributes
    ----------
    n_features : int
        Number m of landmarks.
    keeps : bool
        Whether the features of all rows are kept.
    advance : callable
    n_bytes : int
        Memory of a call, about.
    """

    n_features: int
    keeps: bool
    advance: Callable[[int], object]
    n_bytes: int = 1 << 28

    def __call__(self, source: Source, features: FeatureMap) -> GraphSums:
        """Sum over the blocks of a source."""
        m = self.n_features
        sums = GraphSums(0, sp.csr_array((m, m)), np.zeros(m), features=[] if self.keeps else None)
        for X, targets, weight in source.blocks(BLOCK_ROWS):
            sums.add(sp.csr_array(features.store(X).Z), targets, weight)  # type: ignore[attr-defined]
            self.advance(len(weight))
        return sums


def graph_of(design: Design, n_values: int) -> Graph:
    """The graph of all rows, in one pass over them on all threads, or by the workers of an engine.

    Parameters
    ----------
    design : Design
        With a map to landmarks. Targets of shape (b, K) have zeros alone in a row without one.
    n_values : int
        Numbers that are to be found for each row.
    """
    source, features, engine = design.source, design.features, design.engine
    row = features.stored_bytes(np.dtype(np.float32), False) + 8 * n_values
    keeps = source.n_rows is not None and row * source.n_rows <= KEPT_BYTES
    work = SumGraph(features.n_features_out, keeps, design.advance)
    n_parts, n_rows = source.n_parts, max(design.n_rows, 1)
    spans = shards(n_parts, -(-SHARD_ROWS * n_parts // n_rows), MOST_SUMS)
    if engine.is_remote:
        items = [source.cut(*span) for span in spans]
        shared = source.stripped(), features
        sums = reduce(engine, items, OnSpan(SumGraph(features.n_features_out, keeps, _silent)), shared)
    else:
        sums = reduce(LOCAL, [source.span(*span) for span in spans], work, features)
    return Graph(sums, design.dtype)


def _silent(n_rows: int) -> None:
    """Tell nobody."""


class Graph:
    """Rows as a graph, S = A A' its matrix, A = Z L^-1/2, and functions f = A v on it.

    The degrees of S are one, for Z 1 = 1; so are its rows' sums, and a random walk on the rows has all of them equally
    often. What is found is v, or coefficients L^-1/2 v of the features.

    Parameters
    ----------
    sums : GraphSums
        Of at least one row with a target.
    dtype : dtype
        Of features and coefficients.

    Attributes
    ----------
    number, of : int arrays
        Of each row with a target its number among all, and among the distinct ones.
    given : array of shape (l, K)
        Targets of these.
    labelled, targets, weight : sparse array of shape (k, m), arrays of shape (k, K) and (k,)
        Rows of A, mean targets and weights of the distinct ones.
    matrix : sparse array of shape (m, m)
        A'A.
    """

    def __init__(self, sums: GraphSums, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self.n_rows, self.features = sums.n_rows, sums.features
        if not sums.labelled:
            raise ValueError("No row of positive weight has a target: give some.")
        rows, targets, weight, self.number = _stacked(sums.labelled)
        with np.errstate(divide="ignore"):
            self.root = np.where(sums.degree > 0, sums.degree**-0.5, 0.0)
        scale = sp.diags_array(self.root)
        self.total = float(sums.degree.sum())
        self.matrix = sp.csr_array(scale @ sums.gram @ scale)
        first, self.of = _distinct(rows)
        self.weight = np.bincount(self.of, weight, len(first))
        sums_of = sp.csr_array((weight, (self.of, np.arange(len(weight)))), shape=(len(first), len(weight)))
        self.targets = (sums_of @ targets) / self.weight[:, np.newaxis]
        self.given = targets
        self.labelled = sp.csr_array(rows[first] @ scale)

    def change_targets(self, change: Callable[[NDArray], NDArray]) -> None:
        """Put what ``change`` makes of arrays of targets, row by row, in their place."""
        self.targets, self.given = change(self.targets), change(self.given)

    @property
    def rank(self) -> int:
        """Number of landmarks that rows share."""
        return int(np.count_nonzero(self.root))

    @cached_property
    def back(self) -> NDArray[np.float64]:
        """A_l' diag(w) Y_l, of shape (m, K)."""
        return self.labelled.T @ (self.targets * self.weight[:, np.newaxis])

    def deviation(self, v: NDArray) -> float:
        """Standard deviation over all rows of the functions A v, but for what they have in common, shape (m, K)."""
        v = v - v.mean(axis=1, keepdims=True)
        lengths = np.divide(1.0, self.root, out=np.zeros_like(self.root), where=self.root > 0)
        means = lengths @ v / self.total
        squares = np.einsum("ik,ik->k", v, self.matrix @ v) / self.total
        return float(np.sqrt(max((squares - means**2).mean(), 0.0)))

    def spread(self, alpha: float, B: NDArray) -> NDArray[np.float64]:
        """(I - alpha A'A)^-1 B, of shape (m, K), by conjugate gradients."""
        return solve(lambda V: V - alpha * (self.matrix @ V), B)

    def smoothest(self, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Eigenvectors of S of the largest eigenvalues, as functions of mean square one.

        Returns
        -------
        array of shape (count,)
            Eigenvalues, descending from one.
        array of shape (m, count)
            Their v.
        """
        values, vectors = self._eigenvectors(max(count, 1 if self._found is None else len(self._found[0])))
        values, vectors = values[:count], vectors[:, :count]
        kept = values > LEAST_EIGENVALUE
        return values[kept], vectors[:, kept] * np.sqrt(self.total / values[kept])

    _found: tuple[NDArray, NDArray] | None = None

    def _eigenvectors(self, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Those of A'A, of the largest eigenvalues, found once."""
        count = min(count, self.rank)
        if self._found is not None and len(self._found[0]) >= count:
            return self._found
        if self.matrix.shape[0] <= DENSE:
            values, vectors = np.linalg.eigh(self.matrix.toarray())
        else:
            values, vectors = leading(self.matrix, count)
        order = np.argsort(-values, kind="stable")[:count]
        self._found = np.clip(values[order], 0.0, 1.0), vectors[:, order]
        return self._found


def leading(matrix: Any, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues within 0 and 1 that are largest, and their vectors, by filtered subspace iteration.

    Each round damps what is below the least of the block by a Chebyshev polynomial (Zhou, Saad, Tiago and Chelikowsky,
    2006). Its work does not depend on the gaps: of a graph in many parts the value one is as frequent as these, where
    Lanczos' method stalls.
    """
    start = np.random.default_rng(0).standard_normal((matrix.shape[0], count + SPARE))
    Q = np.linalg.qr(start)[0]
    for _ in range(ROUNDS):
        values, inner = np.linalg.eigh(Q.T @ (matrix @ Q))
        Q = Q @ inner
        half = max(float(values[0]), 1e-3) / 2
        before, now = Q, (matrix @ Q) / half - Q
        for _ in range(DEGREE - 1):
            before, now = now, 2 * ((matrix @ now) / half - now) - before
        Q = np.linalg.qr(now)[0]
    values, inner = np.linalg.eigh(Q.T @ (matrix @ Q))
    return values[SPARE:], (Q @ inner)[:, SPARE:]


def _stacked(blocks: list[tuple[Any, NDArray, NDArray, NDArray]]) -> tuple[Any, NDArray, NDArray, NDArray]:
    rows, targets, weight, number = zip(*blocks, strict=True)
    return sp.csr_array(sp.vstack(rows)), np.concatenate(targets), np.concatenate(weight), np.concatenate(number)


def _distinct(rows: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Numbers of rows that differ, and of each row that of its equal among them."""
    known: dict[tuple[bytes, bytes], int] = {}
    first: list[int] = []
    of = np.empty(rows.shape[0], np.intp)
    for i, (a, b) in enumerate(pairwise(rows.indptr)):
        order = np.argsort(rows.indices[a:b])
        key = rows.indices[a:b][order].tobytes(), np.rint(rows.data[a:b][order] * SAME).tobytes()
        of[i] = known.setdefault(key, len(first))
        if of[i] == len(first):
            first.append(i)
    return np.array(first), of


def solve(apply: Callable[[NDArray], NDArray], B: NDArray) -> NDArray[np.float64]:
    """Solve positive definite equations for the columns of B, of shape (m, K), together by conjugate gradients."""
    X, R = np.zeros_like(B), B.copy()
    P, squares = R.copy(), (R * R).sum(axis=0)
    least = CG_TOL**2 * squares
    for _ in range(CG_STEPS):
        if (squares <= least).all():
            break
        Q = apply(P)
        step = np.divide(squares, (P * Q).sum(axis=0), out=np.zeros_like(squares), where=squares > least)
        X += step * P
        R -= step * Q
        before, squares = squares, (R * R).sum(axis=0)
        P = R + np.divide(squares, before, out=np.zeros_like(squares), where=before > 0) * P
    return X
