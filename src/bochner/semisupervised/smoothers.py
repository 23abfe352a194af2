"""The graph of all rows, and smooth functions on it that follow a few known values,
with their leave-one-out values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from bochner.arrays import Floats, Indices
from bochner.blocks import STORED_BYTES
from bochner.data.hashes import row_hashes
from bochner.design.design import Design
from bochner.design.graph import AnchorGraph, GraphSums, sum_graph
from bochner.solvers.cg import System, conjugate_gradients
from bochner.solvers.preconditioners import jacobi

SAME = 1e5  # equal parts of one, to which features of equal rows are the same
CG_TOL, CG_STEPS = 1e-8, 1000
LEAST_EIGENVALUE = 1e-8  # of S, of whose eigenvectors less is noise
MOST_INFLUENCES = 2000  # rows with a target whose own share in their value is computed


def graph_of(design: Design, n_values: int) -> Graph:
    """The graph of all rows, in one pass over them.

    Parameters
    ----------
    design : Design
        With a map to landmarks. Targets of shape (b, K) have zeros alone in a row
        without one.
    n_values : int
        Numbers that are to be found for each row.
    """
    row = design.features.stored_bytes(np.dtype(np.float32), False) + 8 * n_values
    n_rows = design.source.n_rows
    keeps = n_rows is not None and row * n_rows <= STORED_BYTES
    return Graph(sum_graph(design, keeps), design.dtype)


class Graph(AnchorGraph):
    """A graph of rows of which some have targets, and what functions f = A v follow
    these.

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
        Targets of the rows that have one.
    labelled, targets, weight : sparse array (k, m), arrays (k, K) and (k,)
        Rows of A, mean targets and weights of the distinct ones.
    group : int array of shape (k,) or None
        Groups of the distinct ones, where rows belong to groups.
    """

    group: Indices | None = None

    def __init__(self, sums: GraphSums, dtype: DTypeLike) -> None:
        super().__init__(sums)
        self.dtype = np.dtype(dtype)
        if not sums.labelled:
            raise ValueError("No row of positive weight has a target: give some.")
        blocks, *beside = zip(*sums.labelled, strict=True)
        rows = sp.csr_array(sp.vstack(blocks))
        targets, weight, self.number = map(np.concatenate, beside)
        # Rows that differ, and of each row its equal among them
        rounded = sp.csr_array(
            (np.rint(rows.data * SAME), rows.indices, rows.indptr), shape=rows.shape
        )
        _, first, self.of = np.unique(
            row_hashes(rounded), return_index=True, return_inverse=True
        )
        self.weight = np.bincount(self.of, weight, len(first))
        sums_of = sp.csr_array(
            (weight, (self.of, np.arange(len(weight)))), shape=(len(first), len(weight))
        )
        self.targets = (sums_of @ targets) / self.weight[:, np.newaxis]
        self.given = targets
        self.labelled = sp.csr_array(rows[first] @ sp.diags_array(self.root))

    def belong_to(self, group: Indices) -> None:
        """Take the groups of all rows, (n,): values of a group are then left out
        together.
        """
        # Of equal rows the first one's
        self.group = group[self.number[np.unique(self.of, return_index=True)[1]]]

    @cached_property
    def back(self) -> Floats:
        """A_l' diag(w) Y_l, of shape (m, K)."""
        return self.labelled.T @ (self.targets * self.weight[:, np.newaxis])

    def deviation(self, v: NDArray) -> float:
        """Standard deviation over all rows of the functions A v, but for what they
        have in common, shape (m, K).
        """
        v = v - v.mean(axis=1, keepdims=True)
        zeros = np.zeros_like(self.root)
        lengths = np.divide(1.0, self.root, out=zeros, where=self.root > 0)
        means = lengths @ v / self.total
        squares = np.einsum("ik,ik->k", v, self.matrix @ v) / self.total
        return float(np.sqrt(max((squares - means**2).mean(), 0.0)))

    def spread(self, alpha: float, B: NDArray) -> Floats:
        """(I - alpha A'A)^-1 B, of shape (m, K), by conjugate gradients.

        I - alpha A'A is alpha (I - A'A), positive semidefinite, and 1 - alpha.
        """
        m, K = B.shape

        def apply(P: NDArray, Q: NDArray) -> Floats:
            product = alpha * (P - (self.matrix @ P.T).T)
            Q += product
            return np.einsum("km,km->k", P, product)

        rest = np.full((K, 1), 1 - alpha)
        system = System(apply, rest, jacobi(np.full(m, alpha), rest))
        rhs = np.ascontiguousarray(B.T)
        return conjugate_gradients(system, rhs, CG_TOL, CG_STEPS).coef.T

    def smoothest(self, count: int) -> tuple[Floats, Floats]:
        """Eigenvectors of S of the largest eigenvalues, as functions of mean square
        one.

        Returns
        -------
        array of shape (count,)
            Eigenvalues, descending from one.
        array of shape (m, count)
            Their v.
        """
        values, vectors = self.eigenvectors(count)
        is_positive = values > LEAST_EIGENVALUE
        values = values[is_positive]
        return values, vectors[:, is_positive] * np.sqrt(self.total / values)


class Smooth(NamedTuple):
    """A function f = A v + c on a graph.

    Attributes
    ----------
    v : array of shape (m, K)
    own : float
        What is added to f in a row with a target Y: Y less the origin, times this.
    influence : array of shape (l,) or None
        d f_i / d Y_i of the rows with a target, the part by `own` left out; None where
        they are too many.
    shrinks : bool
        Whether a value left out changes its prediction as in least squares, by e h / (1
        - h); else by Y h.
    origin : array of shape (K,) or float
        Mean of the targets where these are taken from it.
    reach : array of shape (l,) or None
        Sum over j of d f_i / d Y_j at a fixed origin, where the targets have one.
    influences : array of shape (l, l) or None
        d f_i / d Y_j of all pairs, where values are left out by groups.
    """

    v: Floats
    own: float
    influence: Floats | None
    origin: Floats | float = 0.0
    reach: Floats | None = None
    influences: Floats | None = None


@dataclass(frozen=True)
class Spreading:
    """F = (I - a S)^-1 Y: values spread along the graph, and return to where they came
    from (Zhou et al., 2004).

    By the matrix inversion lemma F = Y + a A (I - a A'A)^-1 A'Y, equations of the
    landmarks alone.
    """

    alpha: float
    name = "spreading"
    is_centred = False

    def fit(self, graph: Graph) -> Smooth:
        """The function of the targets of a graph."""
        origin = np.zeros(graph.targets.shape[1])
        if self.is_centred:
            origin = np.average(graph.targets, axis=0, weights=graph.weight)
        back = graph.back - np.outer(graph.labelled.T @ graph.weight, origin)
        v = self.alpha * graph.spread(self.alpha, back)
        influence, reach, pairs = _influence(graph, self.alpha)
        reach = reach if self.is_centred else None
        return Smooth(v, 1.0, influence, origin, reach, pairs)


class Poisson(Spreading):
    """L u = sum_j (y_j - mean) delta_j, L = I - S: sources and sinks of a flow (Calder
    et al., 2020).

    S is taken a little smaller than it is, so that parts of the graph without a target
    tell nothing. So u is what `Spreading` makes of targets less their mean.
    """

    name = "poisson"
    is_centred = True


@dataclass(frozen=True)
class SmoothRidge:
    """Least squares on the K smoothest functions of a graph, u_k of S u_k = lam_k u_k
    and of mean square one.

    The sum of the squares of c_k (1 - lam_k) / (1 - lam_K), times the penalty and the
    weight of the known rows, is added to those of the errors: the constant function is
    free, and the last is held back.
    """

    count: int
    penalty: float
    name = "ridge"

    def fit(self, graph: Graph) -> Smooth:
        """The function of the targets of a graph."""
        values, V = graph.smoothest(self.count)
        B = graph.labelled @ V
        weight = graph.weight
        roughness = (1 - values) / max(1 - values[-1], 1e-8) + 1e-4
        penalty = self.penalty * weight.sum() * np.diag(roughness)
        inverse = np.linalg.inv(B.T @ (B * weight[:, np.newaxis]) + penalty)
        c = inverse @ (B.T @ (graph.targets * weight[:, np.newaxis]))
        influence = weight * np.einsum("ij,jk,ik->i", B, inverse, B)
        pairs = None
        if graph.group is not None and len(weight) <= MOST_INFLUENCES:
            pairs = B @ inverse @ B.T * weight
        return Smooth(V @ c, 0.0, influence, influences=pairs)


Smoother = Spreading | SmoothRidge


def _influence(
    graph: Graph, alpha: float
) -> tuple[Floats | None, Floats | None, Floats | None]:
    """Derivatives of the values of rows with a target by that of each, their sums over
    all targets, and those of all pairs where rows belong to groups.
    """
    rows = graph.labelled
    if rows.shape[0] > MOST_INFLUENCES:
        return None, None, None
    derivatives = alpha * graph.spread(alpha, rows.T.toarray())
    influence: Floats = np.ravel(rows.multiply(derivatives.T).sum(axis=1))
    pairs = None if graph.group is None else (rows @ derivatives) * graph.weight
    return graph.weight * influence, rows @ (derivatives @ graph.weight), pairs


def left_out(graph: Graph, smooth: Smooth) -> Floats | None:
    """What the function would be in each row with a target, without this target, or
    those of its group; of shape (l, K).

    Exactly, with the ridge penalty as it is. By Poisson learning, f_i = sum_j G_ij (y_j
    - m) with G = a A M A'diag(w), the mean of the others is m' = m - w_i (y_i - m) /
    (sum of w - w_i), and the value

        sum_(j != i) G_ij (y_j - m') = f_i - G_ii (y_i - m) - (m' - m) sum_(j != i)
        G_ij.
    """
    f = graph.labelled @ smooth.v
    e = graph.targets - smooth.origin
    weight = graph.weight[:, np.newaxis]
    if graph.group is not None:
        return _groups_left_out(graph, smooth, f, e)
    if smooth.influence is None:
        return None
    h = smooth.influence[:, np.newaxis]
    values = f - h * e
    if not smooth.own:
        return values / np.maximum(1 - h, 1e-6)
    if smooth.reach is not None:
        rest = smooth.reach[:, np.newaxis] - h
        others = weight.sum() - weight
        zeros = np.zeros_like(e)
        values += np.divide(weight * e, others, out=zeros, where=others > 0) * rest
    return values


def _groups_left_out(graph: Graph, smooth: Smooth, f: NDArray, e: NDArray) -> Any:
    """As `left_out`, without the targets of the whole group of each row.

    With H the derivatives by these targets: y - (I - H)^-1 (y - f) in least squares,
    and f - H y otherwise; by Poisson learning y is less the mean of the other groups.
    """
    H, group = smooth.influences, graph.group
    if H is None or group is None:
        return None
    weight = graph.weight
    values = np.empty_like(e)
    for k in np.unique(group):
        rows = np.flatnonzero(group == k)
        block = H[np.ix_(rows, rows)]
        if not smooth.own:
            targets = graph.targets[rows]
            rest = np.eye(len(rows)) - block
            errors = np.linalg.lstsq(rest, targets - f[rows], rcond=1e-9)[0]
            values[rows] = targets - errors
            continue
        values[rows] = f[rows] - block @ e[rows]
        others = weight.sum() - weight[rows].sum()
        if smooth.reach is not None and others > 0:
            moved = (weight[rows] @ e[rows]) / others
            values[rows] += np.outer(smooth.reach[rows] - block.sum(axis=1), moved)
    return values
