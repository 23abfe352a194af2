"""The graph of all rows, and smooth functions on it that follow a few known values,
with their leave-one-out values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.arrays import Floats, Indices
from bochner.blocks import STORED_BYTES
from bochner.data.hashes import row_hashes
from bochner.design.design import Design
from bochner.design.graph import AnchorGraph, sum_graph
from bochner.solvers.cg import System, conjugate_gradients
from bochner.solvers.preconditioners import jacobi

SAME = 1e5  # equal parts of one, to which features of equal rows are the same
CG_TOL, CG_STEPS = 1e-8, 1000
LEAST_EIGENVALUE = 1e-8  # of S, of whose eigenvectors less is noise
MOST_INFLUENCES = 2000  # rows with a target whose own share in their value is computed


class Graph(AnchorGraph):
    """A graph of rows of which some have targets, and what functions f = A v follow
    these.

    It is summed in one pass over all rows, and their features are kept where they take
    little memory.

    Parameters
    ----------
    design : Design
        With a map to landmarks. Targets of shape (b, K) have zeros alone in a row
        without one.
    group : int array of shape (n,), optional
        Groups of all rows: targets of a group are left out together.

    Attributes
    ----------
    dtype : dtype
        Of features and coefficients.
    number, of : int arrays
        Of each row with a target its number among all, and among the distinct ones.
    given : array of shape (l, K)
        Targets of the rows that have one.
    labelled, targets, weight : sparse array (k, m), arrays (k, K) and (k,)
        Rows of A, mean targets and weights of the distinct ones.
    group : int array of shape (k,) or None
        Groups of the distinct ones, where rows belong to groups.
    """

    def __init__(self, design: Design, group: Indices | None = None) -> None:
        source = design.source
        row = design.features.stored_bytes(np.dtype(np.float32), False)
        row += 8 * source.n_outputs
        keeps = source.n_rows is not None and row * source.n_rows <= STORED_BYTES
        sums = sum_graph(design, keeps)
        super().__init__(sums)
        self.dtype = np.dtype(design.dtype)
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
        # Of equal rows the group of the first one
        self.group = None if group is None else group[self.number[first]]

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
    left_out : array of shape (k, K) or None
        What f would be in each distinct row with a target without this target, or those
        of its group, exactly, with the ridge penalty as it is; None where there are too
        many.
    origin : array of shape (K,) or float
        Mean of the targets where these are taken from it.
    """

    v: Floats
    own: float
    left_out: Floats | None
    origin: Floats | float = 0.0


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
        """The function of the targets of a graph.

        With G = a A M A'diag(w), f_i = sum_j G_ij (y_j - m), where m is the mean of the
        targets in `Poisson`, and 0 here. The mean of the others is m' = m - w_i (y_i -
        m) / (sum of w - w_i), and the value without a target

            sum_(j != i) G_ij (y_j - m') = f_i - G_ii (y_i - m) - (m' - m) sum_(j != i)
            G_ij.
        """
        rows = graph.labelled
        weight = graph.weight
        origin = np.zeros(graph.targets.shape[1])
        if self.is_centred:
            origin = np.average(graph.targets, axis=0, weights=weight)
        back = rows.T @ (graph.targets * weight[:, np.newaxis])
        back = back - np.outer(rows.T @ weight, origin)
        v = self.alpha * graph.spread(self.alpha, back)
        if rows.shape[0] > MOST_INFLUENCES:
            return Smooth(v, 1.0, None, origin)
        derivatives = self.alpha * graph.spread(self.alpha, rows.T.toarray())
        reach = rows @ (derivatives @ weight)
        errors = graph.targets - origin
        values = rows @ v
        if graph.group is None:
            influence = weight * np.ravel(rows.multiply(derivatives.T).sum(axis=1))
            values -= influence[:, np.newaxis] * errors
            if self.is_centred:
                mass = weight[:, np.newaxis]
                others = mass.sum() - mass
                moved = np.zeros_like(errors)
                np.divide(mass * errors, others, out=moved, where=others > 0)
                values += moved * (reach - influence)[:, np.newaxis]
            return Smooth(v, 1.0, values, origin)
        pairs = (rows @ derivatives) * weight
        for k in np.unique(graph.group):
            group = np.flatnonzero(graph.group == k)
            block = pairs[np.ix_(group, group)]
            values[group] -= block @ errors[group]
            rest = weight.sum() - weight[group].sum()
            if self.is_centred and rest > 0:
                moved = (weight[group] @ errors[group]) / rest
                values[group] += np.outer(reach[group] - block.sum(axis=1), moved)
        return Smooth(v, 1.0, values, origin)


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
        """The function of the targets of a graph.

        With H the derivatives of the values by the targets, the values of a group
        without its targets are y - (I - H)^-1 (y - f).
        """
        values, V = graph.smoothest(self.count)
        B = graph.labelled @ V
        targets = graph.targets
        weight = graph.weight
        roughness = (1 - values) / max(1 - values[-1], 1e-8) + 1e-4
        penalty = self.penalty * weight.sum() * np.diag(roughness)
        inverse = np.linalg.inv(B.T @ (B * weight[:, np.newaxis]) + penalty)
        v = V @ (inverse @ (B.T @ (targets * weight[:, np.newaxis])))
        fitted = graph.labelled @ v
        if graph.group is None:
            influence = weight * np.einsum("ij,jk,ik->i", B, inverse, B)
            influence = influence[:, np.newaxis]
            alone = (fitted - influence * targets) / np.maximum(1 - influence, 1e-6)
            return Smooth(v, 0.0, alone)
        if len(weight) > MOST_INFLUENCES:
            return Smooth(v, 0.0, None)
        pairs = B @ inverse @ B.T * weight
        left_out = np.empty_like(targets)
        for k in np.unique(graph.group):
            group = np.flatnonzero(graph.group == k)
            rest = np.eye(len(group)) - pairs[np.ix_(group, group)]
            errors = targets[group] - fitted[group]
            errors = np.linalg.lstsq(rest, errors, rcond=1e-9)[0]
            left_out[group] = targets[group] - errors
        return Smooth(v, 0.0, left_out)


Smoother = Spreading | SmoothRidge
