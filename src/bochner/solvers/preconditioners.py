"""Approximate inverses of Z'WZ + penalty, cheap to apply, which save conjugate
gradients most of their iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.design.vector_arithmetic import dots, scale
from bochner.engines.algebra import gram, product, shifted_cholesky, solve_cholesky
from bochner.solvers.shifted import Tridiagonal

TAIL_ROWS, ROUNDINGS = 512, 4
FEW_SHIFTS = 4  # each of which has a Cholesky factor of its own
KEPT_FACTORS = 2  # of a matrix of samples, for the next steps


class Preconditioner(NamedTuple):
    """An approximate inverse.

    Attributes
    ----------
    apply : callable (R, Z)
        Writes approximate solutions Z for residuals R, both of shape (K, D), and
        returns the inner products of their rows, shape (K,).
    least : array of shape (K,) or None
        A bound below all eigenvalues of the preconditioned matrix.
    """

    apply: Callable[[NDArray, NDArray], NDArray]
    least: NDArray | None = None


def jacobi(diagonal: NDArray, penalty: NDArray) -> Preconditioner:
    """The diagonal: for bins, whose columns of one grid are orthogonal, most of the
    matrix.

    Parameters
    ----------
    diagonal : array of shape (D,)
        Of Z'WZ.
    penalty : array of shape (K, D) or (K, 1)
    """
    same = (penalty == penalty[:1]).all()
    whole = diagonal + (penalty[:1] if same else penalty)
    inverse = (1 / whole).astype(diagonal.dtype)
    # What is added to a positive semidefinite matrix by the ridge penalty is left by
    # the inverse at the least. Less than the rounding of the products is not told from
    # nothing.
    least = np.maximum(
        (penalty / whole).min(axis=1).astype(np.float64),
        ROUNDINGS * np.finfo(diagonal.dtype).eps,
    )
    least = np.broadcast_to(least, len(penalty))
    return Preconditioner(lambda R, Z: scale(R, inverse, Z), least)


def side_by_side(parts: Sequence[Preconditioner], edges: NDArray) -> Preconditioner:
    """A preconditioner for each of several ranges of columns.

    Parameters
    ----------
    parts : sequence of Preconditioner
    edges : array of shape (M + 1,)
        First column of each, and the end of the last.
    """
    if len(parts) == 1:
        return parts[0]

    def apply(R: NDArray, Z: NDArray) -> NDArray:
        products = [
            part.apply(R[:, a:b], Z[:, a:b])
            for part, (a, b) in zip(parts, pairwise(edges), strict=True)
        ]
        return np.sum(products, axis=0)

    return Preconditioner(apply)


class SampledGram:
    """Inverse of w G + alpha I, G the mean Gram matrix of centred features of sampled
    rows, w the sum of all weights.

    A few alphas have a Cholesky factor each; for more, one reduction to a tridiagonal
    matrix, as long as five of these, serves all. Prefer it for up to 2,048 features, of
    which several times as many rows can be sampled (Rudi, Carratino and Rosasco,
    "FALKON", NIPS 2017). The rounding error of the largest eigenvalue is added to
    alpha, for a tiny alpha would take what is left of the smallest ones for directions
    without any rows.

    Parameters
    ----------
    S : array of shape (m, D)
        Centred features times the roots of the rows' weights, of mean 1.
    """

    def __init__(self, S: NDArray) -> None:
        self.gram = gram(S) / len(S)
        largest = max(float(np.linalg.norm(self.gram)), np.finfo(np.float32).tiny)
        self.rounding = float(np.finfo(S.dtype).eps * largest)
        # The factors for the last few shifts are kept
        self._factor = lru_cache(KEPT_FACTORS)(
            partial(shifted_cholesky, self.gram, rounding=self.rounding)
        )

    @cached_property
    def tridiagonal(self) -> Tridiagonal:
        """The matrix, reduced."""
        return Tridiagonal(self.gram.copy())

    def with_penalty(self, weight: float, penalty: NDArray) -> Preconditioner:
        """Preconditioner for rows of the given sum of weights and ridge penalties of
        shape (K,).
        """
        shifts, choice = np.unique(
            penalty / weight + self.rounding, return_inverse=True
        )
        if len(shifts) <= FEW_SHIFTS:
            factors = [self._factor(float(shift)) for shift in shifts]
            return _factorised(factors, choice, weight)
        matrix = self.tridiagonal
        pivots = [matrix.factors(shift, self.rounding) for shift in shifts]

        def apply(R: NDArray, Z: NDArray) -> NDArray:
            scaled, size = _scaled(R, matrix.dtype)
            rotated = matrix.rotate(scaled)
            for c, factor in enumerate(pivots):
                rotated[choice == c] = matrix.solve(factor, rotated[choice == c])
            np.multiply(matrix.back(rotated), size / weight, out=Z)
            return dots(R, Z)

        return Preconditioner(apply)


class LowRank:
    """Inverse of (w / m) S'S + a I for a matrix S of m rows, fewer than columns.

    Only an m x m matrix is factorised, for (S'S + a I)^-1 = (I - S'(SS' + a I)^-1 S) /
    a. The directions that m < D rows do not span have eigenvalues too; a = alpha + w
    tail gives them their mean. With a = alpha alone five times as many iterations are
    needed.

    Parameters
    ----------
    S : array of shape (m, D)
    products : array of shape (m, m)
        SS'.
    tail : float
        Mean eigenvalue, for w = 1, of what the rows do not span.

    References
    ----------
    Frangella, Tropp and Udell, "Randomized Nystrom Preconditioning", 2023 (what to do
    about the tail).
    """

    def __init__(self, S: NDArray, products: NDArray, tail: float) -> None:
        self.S = S
        self.gram = products
        self.tail = tail

    def with_penalty(self, weight: float, penalty: NDArray) -> Preconditioner:
        """Preconditioner for a weight w and ridge penalties of shape (K,)."""
        shifts, choice = np.unique(penalty + weight * self.tail, return_inverse=True)
        factors = [_factor(self.gram, shift * len(self.S) / weight) for shift in shifts]

        def apply(R: NDArray, Z: NDArray) -> NDArray:
            scaled, size = _scaled(R, self.S.dtype)
            products = product(scaled, self.S.T)
            for c, lower in enumerate(factors):
                is_chosen = choice == c
                inner = solve_cholesky(lower, products[is_chosen].T)
                Z[is_chosen] = (scaled[is_chosen] - product(inner.T, self.S)) * (
                    size[is_chosen] / shifts[c]
                )
            return dots(R, Z)

        return Preconditioner(apply)

    def draw(
        self, weight: float, penalty: float, size: int, rng: np.random.Generator
    ) -> NDArray:
        """Solutions for normal right-hand sides whose covariance is the matrix
        itself, shape (size, D).
        """
        m, D = self.S.shape
        rest = penalty + weight * self.tail
        B = np.sqrt(weight / m) * product(
            rng.standard_normal((size, m)).astype(self.S.dtype), self.S
        )
        B = B + np.sqrt(rest) * rng.standard_normal((size, D))
        V = np.empty_like(B)
        self.with_penalty(weight, np.full(size, penalty)).apply(B, V)
        return V


class LeverageGram:
    """Inverse of w G + alpha I, G = S'S the mean Gram matrix of all rows, estimated by
    rows drawn by their leverage.

    Prefer it where the ridge penalty is small and there are many more rows than
    features: rows of rare kinds, which a uniform sample misses, make directions of
    their own (Cohen, Lee, Musco, Musco, Peng and Sidford, "Uniform Sampling for Matrix
    Approximation", 2015). One Cholesky factor for each ridge penalty.

    Parameters
    ----------
    S : array of shape (s, D)
        Centred features times the roots of weights, so that S'S estimates the mean over
        all rows; s >= D.
    """

    def __init__(self, S: NDArray) -> None:
        self.gram = gram(S)

    def with_penalty(self, weight: float, penalty: NDArray) -> Preconditioner:
        """Preconditioner for a weight w and ridge penalties of shape (K,)."""
        shifts, choice = np.unique(penalty, return_inverse=True)
        factors = [_factor(self.gram, shift / weight) for shift in shifts]
        return _factorised(factors, choice, weight)


class SampledRows(LowRank):
    """Inverse of w G + alpha I, G the mean Gram matrix S'S / m of the centred features
    of m < D sampled rows.

    The tail is measured on further rows, as what the span of the others leaves of them.

    Parameters
    ----------
    S : array of shape (m + h, D)
        Centred features times the roots of the rows' weights, of mean 1; the last h
        rows, a quarter and 512 at most, are those that measure the tail; of fewer than
        four rows none, and the tail is zero.
    """

    def __init__(self, S: NDArray) -> None:
        m = len(S) - min(TAIL_ROWS, len(S) // 4)
        products = gram(S.T)
        tail = 0.0
        if m < len(S):
            # The mean squared length of what the span of the first m rows leaves of
            # the others
            shift = 1e-3 * float(np.trace(products)) / len(products)
            across = products[:m, m:]
            inside = across * solve_cholesky(_factor(products[:m, :m], shift), across)
            rest = np.diagonal(products)[m:] - inside.sum(axis=0)
            tail = max(float(np.mean(rest)), 0.0) / max(S.shape[1] - m, 1)
        super().__init__(S[:m], products[:m, :m], tail)


def _scaled(R: NDArray, dtype: np.dtype) -> tuple[NDArray, NDArray]:
    """Rows of R over their largest entries, in a precision that may not reach these,
    and the entries, shape (K, 1).
    """
    size = np.maximum(np.abs(R).max(axis=1, keepdims=True), np.finfo(R.dtype).tiny)
    return (R / size).astype(dtype), size


def _factorised(
    factors: Sequence[NDArray], choice: NDArray, weight: float
) -> Preconditioner:
    """Inverse of a weight times a matrix, of whose Cholesky factors each residual
    chooses one.
    """

    def apply(R: NDArray, Z: NDArray) -> NDArray:
        scaled, size = _scaled(R, factors[0].dtype)
        for c, lower in enumerate(factors):
            is_chosen = choice == c
            Z[is_chosen] = solve_cholesky(lower, scaled[is_chosen].T).T * (
                size[is_chosen] / weight
            )
        return dots(R, Z)

    return Preconditioner(apply)


def _factor(products: NDArray, shift: float) -> NDArray:
    rounding = np.finfo(products.dtype).eps * max(
        float(np.trace(products)), np.finfo(np.float32).tiny
    )
    return shifted_cholesky(products, shift, float(rounding))
