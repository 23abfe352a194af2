"""Smooth functions on a graph that follow a few known values, and what they would say of each without its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.semisupervised.graph import Graph

MOST_INFLUENCES = 2000  # rows with a target whose own share in their value is computed


class Smooth(NamedTuple):
    """A function f = A v + c on a graph.

    Attributes
    ----------
    v : array of shape (m, K)
    own : float
        What is added to f in a row with a target Y: Y less the origin, times this.
    influence : array of shape (l,) or None
        d f_i / d Y_i of the rows with a target, the part by `own` left out; None where they are too many.
    shrinks : bool
        Whether a value left out changes its prediction as in least squares, by e h / (1 - h); else by Y h.
    origin : array of shape (K,) or float
        Mean of the targets where these are taken from it.
    reach : array of shape (l,) or None
        Sum over j of d f_i / d Y_j at a fixed origin, where the targets have one.
    """

    v: NDArray[np.float64]
    own: float
    influence: NDArray[np.float64] | None
    shrinks: bool
    origin: NDArray[np.float64] | float = 0.0
    reach: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Spreading:
    """F = (I - a S)^-1 Y: values spread along the graph, and return to where they came from (Zhou et al., 2004).

    By the matrix inversion lemma F = Y + a A (I - a A'A)^-1 A'Y, equations of the landmarks alone.
    """

    alpha: float
    name = "spreading"

    def fit(self, graph: Graph) -> Smooth:
        """The function of the targets of a graph."""
        v = self.alpha * graph.spread(self.alpha, graph.back)
        return Smooth(v, 1.0, _influence(graph, self.alpha)[0], shrinks=False)


@dataclass(frozen=True)
class Poisson:
    """L u = sum_j (y_j - mean) delta_j, L = I - S: sources and sinks of a flow (Calder et al., 2020).

    S is taken a little smaller than it is, so that parts of the graph without a target tell nothing. As by `Spreading`,
    u = y - mean + a A (I - a A'A)^-1 A'(y - mean).
    """

    alpha: float
    name = "poisson"

    def fit(self, graph: Graph) -> Smooth:
        """The function of the targets of a graph."""
        mean = np.average(graph.targets, axis=0, weights=graph.weight)
        back = graph.back - np.outer(graph.labelled.T @ graph.weight, mean)
        v = self.alpha * graph.spread(self.alpha, back)
        influence, reach = _influence(graph, self.alpha)
        return Smooth(v, 1.0, influence, False, mean, reach)


@dataclass(frozen=True)
class SmoothRidge:
    """Least squares on the K smoothest functions of a graph, u_k of S u_k = lam_k u_k and of mean square one.

    The sum of the squares of c_k (1 - lam_k) / (1 - lam_K), times the penalty and the weight of the known rows, is
    added to those of the errors: the constant function is free, and the last is held back.
    """

    count: int
    penalty: float
    name = "ridge"

    def fit(self, graph: Graph) -> Smooth:
        """The function of the targets of a graph."""
        values, V = graph.smoothest(self.count)
        B, weight = graph.labelled @ V, graph.weight
        roughness = (1 - values) / max(1 - values[-1], 1e-8) + 1e-4
        system = B.T @ (B * weight[:, np.newaxis]) + self.penalty * weight.sum() * np.diag(roughness)
        inverse = np.linalg.inv(system)
        c = inverse @ (B.T @ (graph.targets * weight[:, np.newaxis]))
        return Smooth(V @ c, 0.0, weight * np.einsum("ij,jk,ik->i", B, inverse, B), shrinks=True)


Smoother = Spreading | Poisson | SmoothRidge


def _influence(graph: Graph, alpha: float) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Derivatives of the values of rows with a target by that of each, and their sums over all targets."""
    rows = graph.labelled
    if rows.shape[0] > MOST_INFLUENCES:
        return None, None
    found = alpha * graph.spread(alpha, rows.T.toarray())
    own: NDArray[np.float64] = np.ravel(rows.multiply(found.T).sum(axis=1))
    return graph.weight * own, rows @ (found @ graph.weight)


def left_out(graph: Graph, smooth: Smooth, targets: NDArray) -> NDArray[np.float64] | None:
    """What the function would be in each row with a target, without this target; of shape (l, K).

    Exactly, with the ridge term as it is. By Poisson learning, f_i = sum_j G_ij (y_j - m) with G = a A M A'diag(w), the
    mean of the others is m' = m - w_i (y_i - m) / (sum of w - w_i), and the value

        sum_(j != i) G_ij (y_j - m') = f_i - G_ii (y_i - m) - (m' - m) sum_(j != i) G_ij.
    """
    if smooth.influence is None:
        return None
    f, h, e = graph.labelled @ smooth.v, smooth.influence[:, np.newaxis], targets - smooth.origin
    if smooth.shrinks:
        return (f - h * e) / np.maximum(1 - h, 1e-6)
    found = f - h * e
    if smooth.reach is not None:
        weight, rest = graph.weight[:, np.newaxis], smooth.reach[:, np.newaxis] - h
        others = weight.sum() - weight
        found += np.divide(weight * e, others, out=np.zeros_like(e), where=others > 0) * rest
    return found
