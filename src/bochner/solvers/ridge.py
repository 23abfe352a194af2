"""Ridge regression from moments: one factorisation, then any alpha.

With the centred moments G = Z'WZ and c = Z'Wy, the solution of min_w ||Zw - y||_W^2 + alpha ||w||^2 is
w = (G + alpha I)^-1 c, and the intercept is the mean of y less that of Zw. With s_j the eigenvalues of G:

    residual sum of squares   y'Wy - w'c - alpha w'w
    degrees of freedom        1 + sum_j s_j / (s_j + alpha)
    leverage of a row z       h = 1 / n + (z - mean)'(G + alpha I)^-1 (z - mean)
    leave-one-out prediction  f_i - w h / (1 - w h) (y_i - f_i) for a row of weight w

The last line follows from the rank-one update (Sherman and Morrison) and is exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.engines.algebra import product, shifted_cholesky, solve_cholesky, solve_lower
from bochner.moments import Moments
from bochner.solvers.tridiagonal import Tridiagonal

if TYPE_CHECKING:
    from bochner.design import Design


PATH_LENGTH = 40
SCORED_OUTPUTS = 16
SCORED_VALUES = 1 << 22
TRIDIAGONAL_LIMIT = 3000


Score = Callable[[NDArray], NDArray]


class Factor(ABC):
    """A factorisation of the centred moments, from which the solution for any alpha follows."""

    def __init__(self, moments: Moments) -> None:
        centred = moments.centred()
        self.n_rows = moments.n_rows
        self.rounding = moments.centred_trace() * (1e-7 if moments.dtype == np.float32 else 1e-13)
        self.weight = moments.weight
        self.gram, self.cross, self.total = centred.gram, centred.cross, centred.total
        self.feature_mean, self.target_mean = centred.feature_mean, centred.target_mean

    def intercept(self, coef: NDArray) -> NDArray:
        """Intercepts that go with the coefficients, shape (K,)."""
        return self.target_mean - self.feature_mean @ coef

    def coef(self, alpha: float) -> NDArray:
        """Coefficients, shape (D, K)."""
        return self.coefs(np.array([alpha]))[:, 0]

    @abstractmethod
    def coefs(self, alphas: NDArray, mix: NDArray | None = None) -> NDArray:
        """Coefficients along a path, shape (D, A, K); with `mix`, of shape (K, M), those of combined outputs."""

    @abstractmethod
    def quadratic(self, Z: NDArray, alphas: NDArray) -> NDArray:
        """Quadratic form z'(G + alpha I)^-1 z of each centred row z of Z, shape (A, n)."""

    @abstractmethod
    def gcv(self, alphas: ArrayLike) -> NDArray:
        """Generalised cross-validation (Golub, Heath and Wahba, 1979), summed over the outputs, shape (A,)."""


class TridiagonalFactor(Factor):
    """Q T Q' = G, T tridiagonal: every alpha of a path afterwards costs O(D^2) or less.

    Takes 4/3 D^3 operations, half of them at the speed of memory. Prefer it where alpha is to be chosen and D is at
    most a few thousand. Where alpha is so small that rounding leaves the matrix indefinite, the rounding error of its
    trace is added.

    Parameters
    ----------
    moments : Moments

    Attributes
    ----------
    matrix : Tridiagonal
    rotated : array of shape (K, D)
        c'Q.
    """

    def __init__(self, moments: Moments) -> None:
        super().__init__(moments)
        self.matrix = Tridiagonal(self.gram)
        del self.gram
        self.rotated = self.matrix.rotate(self.cross.T)

    def _factors(self, alphas: ArrayLike) -> list[tuple[NDArray, NDArray]]:
        return [self.matrix.factors(alpha, self.rounding) for alpha in np.atleast_1d(alphas)]

    def coefs(self, alphas: NDArray, mix: NDArray | None = None) -> NDArray:
        rotated = self.rotated if mix is None else mix.T @ self.rotated
        solutions = np.stack([self.matrix.solve(factors, rotated) for factors in self._factors(alphas)])
        coefs = self.matrix.back(solutions.reshape(-1, rotated.shape[1]))
        return np.ascontiguousarray(np.moveaxis(coefs.reshape(solutions.shape), 2, 0))

    def quadratic(self, Z: NDArray, alphas: NDArray) -> NDArray:
        return self.matrix.forms(self._factors(alphas), self.matrix.rotate(Z))

    def degrees_of_freedom(self, alphas: ArrayLike) -> NDArray:
        """Trace of the hat matrix, intercept included, shape (A,)."""
        s = self.matrix.values()[:, np.newaxis]
        return 1 + (s / (s + np.atleast_1d(alphas))).sum(axis=0)

    def residual(self, alphas: ArrayLike) -> NDArray:
        """Weighted residual sums of squares on the training rows, shape (A, K)."""
        sums = []
        for alpha, factors in zip(np.atleast_1d(alphas), self._factors(alphas), strict=True):
            w = self.matrix.solve(factors, self.rotated)
            sums.append(self.total - (w * (self.rotated + alpha * w)).sum(axis=1))
        return np.maximum(sums, 0.0)

    def gcv(self, alphas: ArrayLike) -> NDArray:
        """Generalised cross-validation (Golub, Heath and Wahba, 1979), summed over the outputs, shape (A,)."""
        return _gcv(self, self.residual(alphas), self.degrees_of_freedom(alphas))


class CholeskyFactor(Factor):
    """Cholesky factors of G + alpha I, one at a time: D^3 / 3 operations for each alpha.

    Where alpha is so small that rounding leaves the matrix indefinite, the rounding error of its trace is added.

    Prefer it for a given alpha, or for large D, where a search over a few alphas costs less.

    Parameters
    ----------
    moments : Moments
    """

    def __init__(self, moments: Moments) -> None:
        super().__init__(moments)
        self._alpha, self._lower = 0.0, np.empty((0, 0))

    def _factor(self, alpha: float) -> NDArray:
        if alpha != self._alpha:
            self._lower = shifted_cholesky(self.gram, alpha, self.rounding)
            self._alpha = alpha
        return self._lower

    def coefs(self, alphas: NDArray, mix: NDArray | None = None) -> NDArray:
        cross = self.cross if mix is None else self.cross @ mix
        return np.stack([solve_cholesky(self._factor(alpha), cross) for alpha in alphas], axis=1)

    def quadratic(self, Z: NDArray, alphas: NDArray) -> NDArray:
        forms = []
        for alpha in alphas:
            half = solve_lower(self._factor(alpha).astype(Z.dtype, copy=False), Z.T)
            forms.append(np.einsum("ij,ij->j", half, half))
        return np.array(forms)

    def gcv(self, alphas: ArrayLike) -> NDArray:
        """Generalised cross-validation with Hutchinson's estimate of the trace, from 64 fixed random signs.

        The deviation of the degrees of freedom is below sqrt(2 D / 64).
        """
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(self.gram), 64))
        scores = []
        for alpha in np.atleast_1d(alphas):
            w = self.coef(alpha)
            residual = self.total - (self.cross * w).sum(axis=0) - alpha * (w**2).sum(axis=0)
            inverse_trace = (signs * solve_cholesky(self._factor(alpha), signs)).sum() / 64
            dof = 1 + len(self.gram) - alpha * inverse_trace
            scores.append(_gcv(self, np.maximum(residual, 0.0)[np.newaxis], np.array([dof]))[0])
        return np.array(scores)


def _gcv(factor: Factor, residual: NDArray, dof: NDArray) -> NDArray:
    left = np.maximum(1 - dof / factor.n_rows, 1e-9)
    return residual.sum(axis=1) / factor.weight / left**2


def factorise(moments: Moments, n_alphas: int) -> Factor:
    """Return the cheaper factorisation for choosing among `n_alphas`, or for the only one."""
    if n_alphas > 1 and moments.n_features <= TRIDIAGONAL_LIMIT:
        return TridiagonalFactor(moments)
    return CholeskyFactor(moments)


def alpha_bounds(moments: Moments) -> tuple[float, float]:
    """Range of sensible alphas: from where rounding errors would show to the whole trace of the Gram matrix."""
    trace = moments.centred_trace() or 1.0
    return 1e-7 * trace, trace


def choose_alpha(factor: Factor, score: Score, bounds: tuple[float, float]) -> tuple[float, NDArray, NDArray]:
    """Minimise a score over alpha within bounds.

    Returns
    -------
    alpha : float
        The largest of those with the least score.
    alphas, scores : arrays of shape (A,)
        What was tried, ascending, and its scores.
    """
    if isinstance(factor, TridiagonalFactor):
        alphas = np.geomspace(*bounds, PATH_LENGTH)
        scores = score(alphas)
    else:
        alphas, scores = _descend(score, bounds)
    return best_alpha(alphas, scores), alphas, scores


def best_alpha(alphas: NDArray, scores: NDArray) -> float:
    """Return the largest alpha among those with the least score; ValueError where none is a number."""
    scores = np.where(np.isfinite(scores), scores, np.inf)
    if np.isinf(scores.min()):
        raise ValueError(
            "No ridge term gives finite errors: the lengthscale, the target or the weights are extreme; rescale them."
        )
    return float(alphas[np.flatnonzero(scores == scores.min())[-1]])


def _descend(score: Score, bounds: tuple[float, float], step: float = 6.0) -> tuple[NDArray, NDArray]:
    """Walk downhill in log alpha from the middle until the least score is bracketed, then halve the step."""
    tried: dict[float, float] = {}

    def at(log_alpha: float) -> float:
        if log_alpha not in tried:
            tried[log_alpha] = float(score(np.exp([log_alpha]))[0])
        return tried[log_alpha]

    low, high = np.log(bounds)
    best, width = (low + high) / 2, np.log(step)
    while width > np.log(step) / 3:
        lowest = min((min(max(best + shift, low), high) for shift in (0.0, width, -width)), key=at)
        if lowest == best:
            width /= 2
        best = lowest
    logs = sorted(tried)
    return np.exp(logs), np.array([tried[log] for log in logs])


class LeaveOneOut:
    """Exact leave-one-out predictions and their score for a set of training rows.

    Called with alphas it returns, for each, the weighted mean squared leave-one-out error summed over the outputs;
    more than 16 outputs are first condensed to 16 random combinations, which keep the sum in expectation.

    Parameters
    ----------
    design : Design
        Of the rows that the factor's moments were summed over, all or some of them.
    factor : Factor
    """

    def __init__(self, design: Design, factor: Factor) -> None:
        self.design, self.factor = design, factor

    def _leverage(self, Z: NDArray, weight: NDArray | None, alphas: NDArray) -> NDArray:
        centred = Z - self.factor.feature_mean.astype(Z.dtype)
        leverage = 1 / self.factor.weight + self.factor.quadratic(centred, alphas).astype(np.float64)
        return np.minimum(leverage if weight is None else leverage * weight, 1 - 1e-9)

    def __call__(self, alphas: NDArray) -> NDArray:
        if isinstance(self.factor, CholeskyFactor) and len(alphas) > 1:
            return np.concatenate([self(alphas[i : i + 1]) for i in range(len(alphas))])
        n_outputs = self.factor.cross.shape[1]
        mix = np.eye(n_outputs)
        if n_outputs > SCORED_OUTPUTS:
            signs = np.random.default_rng(0).choice([-1.0, 1.0], (n_outputs, SCORED_OUTPUTS))
            mix = signs / np.sqrt(SCORED_OUTPUTS)
        coefs = self.factor.coefs(alphas, mix)
        intercepts = self.factor.target_mean @ mix - np.tensordot(self.factor.feature_mean, coefs, 1)
        total, rows = np.zeros(len(alphas)), 0.0
        for Z, y, weight in self.design.mapped(SCORED_VALUES // (len(alphas) * mix.shape[1]) + 1):
            fitted = product(Z, coefs.reshape(len(coefs), -1).astype(Z.dtype)).reshape(len(Z), *coefs.shape[1:])
            squares = np.square((y @ mix)[:, np.newaxis] - fitted - intercepts).sum(axis=2)
            squares /= np.square(1 - self._leverage(Z, weight, alphas).T)
            total += squares.sum(axis=0) if weight is None else weight @ squares
            rows += len(y) if weight is None else weight.sum()
        return total / rows

    def predict(self, alpha: float) -> NDArray:
        """Leave-one-out predictions, shape (n, K)."""
        coef = self.factor.coef(alpha)
        intercept = self.factor.intercept(coef)
        predictions = []
        for Z, y, weight in self.design.mapped():
            fitted = product(Z, coef) + intercept
            h = self._leverage(Z, weight, np.array([alpha])).T
            predictions.append(fitted - h / (1 - h) * (y - fitted))
        return np.concatenate(predictions)
