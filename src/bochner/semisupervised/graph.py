"""The graph of rows of which a few have targets, and equations of functions on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from bochner.design import Design
from bochner.graph import AnchorGraph, GraphSums, sum_graph

KEPT_BYTES = 1 << 30  # of the features of all rows
SAME = 1e5  # equal parts of one, to which features of equal rows are the same
CG_TOL, CG_STEPS = 1e-8, 1000
LEAST_EIGENVALUE = 1e-8  # of S, of whose eigenvectors less is noise


@dataclass
class LabelledSums(GraphSums):
    """Sums of a graph, and its rows with a target.

    Attributes
    ----------
    labelled : list of tuple
        Features, targets, weights and numbers of these.
    """

    labelled: list[tuple[Any, NDArray, NDArray, NDArray]] = field(default_factory=list)

    def add(self, Z: Any, targets: NDArray, weight: NDArray) -> None:
        """Add the next rows, of features Z; a row without a target has zeros alone."""
        known = np.flatnonzero(targets.any(axis=1) & (weight > 0))
        if len(known):
            self.labelled.append((Z[known].astype(np.float64), targets[known], weight[known], self.n_rows + known))
        super().add(Z, targets, weight)

    def __iadd__(self, other: GraphSums) -> LabelledSums:
        assert isinstance(other, LabelledSums)
        self.labelled += [(*rows, number + self.n_rows) for *rows, number in other.labelled]
        super().__iadd__(other)
        return self


def graph_of(design: Design, n_values: int) -> Graph:
    """The graph of all rows, in one pass over them.

    Parameters
    ----------
    design : Design
        With a map to landmarks. Targets of shape (b, K) have zeros alone in a row without one.
    n_values : int
        Numbers that are to be found for each row.
    """
    row = design.features.stored_bytes(np.dtype(np.float32), False) + 8 * n_values
    keeps = design.source.n_rows is not None and row * design.source.n_rows <= KEPT_BYTES
    return Graph(sum_graph(design, LabelledSums, keeps), design.dtype)


class Graph(AnchorGraph):
    """A graph of rows of which some have targets, and what functions f = A v follow these.

    Parameters
    ----------
    sums : LabelledSums
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
    """

    def __init__(self, sums: LabelledSums, dtype: DTypeLike) -> None:
        super().__init__(sums)
        self.dtype = np.dtype(dtype)
        if not sums.labelled:
            raise ValueError("No row of positive weight has a target: give some.")
        rows, targets, weight, self.number = _stacked(sums.labelled)
        first, self.of = _distinct(rows)
        self.weight = np.bincount(self.of, weight, len(first))
        sums_of = sp.csr_array((weight, (self.of, np.arange(len(weight)))), shape=(len(first), len(weight)))
        self.targets = (sums_of @ targets) / self.weight[:, np.newaxis]
        self.given = targets
        self.labelled = sp.csr_array(rows[first] @ sp.diags_array(self.root))

    def change_targets(self, change: Callable[[NDArray], NDArray]) -> None:
        """Put what ``change`` makes of arrays of targets, row by row, in their place."""
        self.targets, self.given = change(self.targets), change(self.given)

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
        values, vectors = self.eigenvectors(count)
        kept = values > LEAST_EIGENVALUE
        return values[kept], vectors[:, kept] * np.sqrt(self.total / values[kept])


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
