"""Ridge regression by one factorisation, then any alpha.

With the centred moments G = Z'WZ and c = Z'Wy, the solution of min_w ||Zw - y||_W^2 + alpha ||w||^2 is
w = (G + alpha I)^-1 c, and the intercept is the mean of y less that of Zw. With A the centred rows of Z times the roots
of their weights, b the same of y, and K = AA', of the size of the rows instead of the features, it is
w = A'(K + alpha I)^-1 b too. The smaller matrix is factorised. With s_j the eigenvalues of either:

    residual sum of squares   b'b - w'c - alpha w'w = alpha^2 |(K + alpha I)^-1 b|^2
    degrees of freedom        1 + sum_j s_j / (s_j + alpha)
    leverage of a row z       h = 1 / n + u'(G + alpha I)^-1 u = 1 / n + (u'u - (Au)'(K + alpha I)^-1 Au) / alpha,
                              u = z - mean
    leave-one-out prediction  f_i - w h / (1 - w h) (y_i - f_i) for a row of weight w

The last line follows from the rank-one update (Sherman and Morrison) and is exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from bochner.engines.algebra import gram, product
from bochner.moments import Moments
from bochner.solvers.shifted import ShiftedInverse, shifted_inverse

if TYPE_CHECKING:
    from bochner.design import Design


PATH_LENGTH = 40
SCORED_OUTPUTS = 16
SCORED_VALUES, SQUARED_ROWS = 1 << 22, 1 << 14
ROUNDING = {np.dtype(np.float32): 1e-7, np.dtype(np.float64): 1e-13}  # of a trace


Score = Callable[[NDArray], NDArray]


class Factor(ABC):
    """A factorisation from which the solution for any alpha follows.

    Attributes
    ----------
    inverse : ShiftedInverse
        Of G or of K.
    n_rows : int
        Rows of positive weight.
    weight : float
        Sum of the weights.
    trace : float
        Of G and K: the total variance of the features.
    target_mean : array of shape (n_outputs,)
    """

    inverse: ShiftedInverse
    n_rows: int
    weight: float
    trace: float
    target_mean: NDArray

    @property
    def n_outputs(self) -> int:
        """Number of targets."""
        return len(self.target_mean)

    @property
    def bounds(self) -> tuple[float, float]:
        """Range of sensible alphas: from where rounding errors would show to the whole trace."""
        trace = self.trace or 1.0
        return 1e-7 * trace, trace

    @abstractmethod
    def residual(self, alphas: ArrayLike) -> NDArray:
        """Weighted residual sums of squares on the training rows, shape (A, K)."""

    @abstractmethod
    def degrees_of_freedom(self, alphas: ArrayLike) -> NDArray:
        """Trace of the hat matrix, intercept included, shape (A,)."""

    def gcv(self, alphas: ArrayLike) -> NDArray:
        """Generalised cross-validation (Golub, Heath and Wahba, 1979), summed over the outputs, shape (A,)."""
        left = np.maximum(1 - self.degrees_of_freedom(alphas) / self.n_rows, 1e-9)
        return self.residual(alphas).sum(axis=1) / self.weight / left**2


class FeatureFactor(Factor):
    """A factorisation for coefficients of features.

    Attributes
    ----------
    feature_mean : array of shape (D,)
    """

    feature_mean: NDArray

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
    def quadratic(self, U: NDArray, alphas: NDArray) -> NDArray:
        """Quadratic form u'(G + alpha I)^-1 u of each centred row u of U, shape (A, n)."""


class PrimalFactor(FeatureFactor):
    """A factorisation of the centred moments, for no more features than rows.

    Parameters
    ----------
    moments : Moments
    n_alphas : int
        How many are to be tried.
    """

    def __init__(self, moments: Moments, n_alphas: int) -> None:
        centred = moments.centred()
        self.n_rows, self.weight, self.trace = moments.n_rows, moments.weight, moments.centred_trace()
        self.cross, self.total = centred.cross, centred.total
        self.feature_mean, self.target_mean = centred.feature_mean, centred.target_mean
        self.inverse = shifted_inverse(centred.gram, n_alphas, self.trace * ROUNDING[moments.dtype])

    def degrees_of_freedom(self, alphas: ArrayLike) -> NDArray:
        alphas = np.atleast_1d(alphas)
        return 1 + len(self.cross) - alphas * self.inverse.traces(alphas)

    def coefs(self, alphas: NDArray, mix: NDArray | None = None) -> NDArray:
        cross = self.cross if mix is None else self.cross @ mix
        return np.ascontiguousarray(np.moveaxis(self.inverse.solve(alphas, cross.T), 2, 0))

    def quadratic(self, U: NDArray, alphas: NDArray) -> NDArray:
        return self.inverse.forms(alphas, U)

    def residual(self, alphas: ArrayLike) -> NDArray:
        alphas = np.atleast_1d(alphas)
        W = self.coefs(alphas)
        sums = self.total - np.einsum("dak,dak->ak", W, self.cross[:, np.newaxis] + alphas[:, np.newaxis] * W)
        return np.maximum(sums, 0.0)


class KernelFactor(Factor):
    """A factorisation of a kernel matrix K of distinct rows, centred in feature space.

    With u_i = sqrt(w_i / sum of w) the matrix has K u = 0; K + c u u', c the mean of its eigenvalues, is factorised in
    its place, for its inverse has no 1 / alpha along u that would be subtracted again, and is the same on what is
    orthogonal to u, as all targets are.

    Parameters
    ----------
    kernel : array of shape (n, n)
        Centred, times the roots of the weights from both sides; overwritten.
    y : array of shape (n, n_outputs)
    weight : array of shape (n,)
    n_alphas : int
        How many are to be tried.
    precision : dtype, default=float64
        Of the values of the kernel.

    Attributes
    ----------
    y : array of shape (n, n_outputs)
    row_weight : array of shape (n,)
    """

    within: NDArray | float = 0.0  # squares of the targets about the means of equal rows

    def __init__(
        self, kernel: NDArray, y: NDArray, weight: NDArray, n_alphas: int, precision: DTypeLike = np.float64
    ) -> None:
        n = self.n_rows = len(y)
        self.y, self.row_weight = y, weight
        self.weight, self.trace = float(self.row_weight.sum()), float(np.trace(kernel))
        share, self.root = self.row_weight / self.weight, np.sqrt(self.row_weight)[:, np.newaxis]
        self.target_mean = share @ y
        self.targets = (y - self.target_mean) * self.root
        self.lift = self.trace / n or 1.0
        kernel += self.lift * np.sqrt(np.outer(share, share))
        self.inverse = shifted_inverse(kernel, n_alphas, self.trace * ROUNDING[np.dtype(precision)])

    def merge(self, design: Design) -> None:
        """Take note of the rows that were made distinct, whose number and targets generalised cross-validation asks."""
        self.n_rows = design.source.n_rows
        self.within = _squares(design, self.target_mean) - np.square(self.targets).sum(axis=0)

    def degrees_of_freedom(self, alphas: ArrayLike) -> NDArray:
        alphas = np.atleast_1d(alphas)
        return len(self.y) - alphas * (self.inverse.traces(alphas) - 1 / (self.lift + alphas))

    def duals(self, alphas: NDArray, mix: NDArray | None = None) -> NDArray:
        """(K + alpha I)^-1 b, shape (A, n_outputs, n)."""
        targets = self.targets if mix is None else self.targets @ mix
        return self.inverse.solve(alphas, targets.T)

    def residual(self, alphas: ArrayLike) -> NDArray:
        alphas = np.atleast_1d(alphas)
        return self.within + alphas[:, np.newaxis] ** 2 * np.square(self.duals(alphas)).sum(axis=2)

    def leave_one_out(self, alphas: NDArray, mix: NDArray | None = None) -> NDArray:
        """Errors of the distinct rows' targets by the model that is left without them, shape (A, n, n_outputs).

        (K + alpha I)^-1 b over the diagonal of (K + alpha I)^-1 - u u' / alpha, as y - f and 1 - w h are alpha times
        these: without alpha nothing cancels where the rows are interpolated.
        """
        eye, share = np.eye(len(self.y)), self.row_weight / self.weight
        diagonal = self.inverse.forms(alphas, eye)
        left = np.maximum(diagonal - share / (self.lift + alphas[:, np.newaxis]), 1e-12 * diagonal)
        return np.moveaxis(self.duals(alphas, mix), 1, 2) / (left[:, :, np.newaxis] * self.root)


class DualFactor(KernelFactor, FeatureFactor):
    """A factorisation of the kernel matrix of the rows' features, for fewer rows than features.

    Equal rows are one, of their weight and mean target.

    Parameters
    ----------
    design : Design
        Of dense features.
    n_alphas : int
        How many are to be tried.
    """

    def __init__(self, design: Design, n_alphas: int) -> None:
        counted = design.counted()
        Z, y, weight = counted.distinct().whole()
        self.feature_mean = np.einsum("i,ij->j", weight / weight.sum(), Z, dtype=np.float64)
        Z -= self.feature_mean.astype(Z.dtype)
        Z *= np.sqrt(weight)[:, np.newaxis].astype(Z.dtype)
        kernel = gram(Z.T, np.empty((len(y), len(y)), Z.dtype)).astype(np.float64, copy=False)
        super().__init__(kernel, y, weight, n_alphas, Z.dtype)
        self.rows = Z
        self.merge(counted)

    def coefs(self, alphas: NDArray, mix: NDArray | None = None) -> NDArray:
        duals = self.duals(alphas, mix)
        coefs = product(duals.reshape(-1, len(self.y)), self.rows.astype(np.float64, copy=False))
        return np.ascontiguousarray(np.moveaxis(coefs.reshape(*duals.shape[:2], -1), 2, 0))

    def quadratic(self, U: NDArray, alphas: NDArray) -> NDArray:
        inner = product(U, self.rows.T.astype(U.dtype, copy=False)).astype(np.float64, copy=False)
        squares = np.square(U, dtype=np.float64).sum(axis=1)
        return np.maximum(squares - self.inverse.forms(alphas, inner), 0.0) / alphas[:, np.newaxis]


def _squares(design: Design, mean: NDArray) -> NDArray:
    """Weighted sums of squares of the targets about their mean, shape (K,)."""
    totals = np.zeros(len(mean))
    for _, y, weight in design.source.blocks(SQUARED_ROWS):
        totals += weight @ np.square(y - mean)
    return totals


def factorise(design: Design, n_alphas: int) -> FeatureFactor:
    """Factorise the smaller of the matrices, for choosing among `n_alphas`, or for the only one."""
    if design.counted().source.n_rows < design.features.n_features_out:
        return DualFactor(design, n_alphas)
    return PrimalFactor(design.moments(), n_alphas)


def choose_alpha(factor: Factor, score: Score) -> tuple[float, NDArray, NDArray]:
    """Minimise a score over alpha within the bounds of the factor.

    Returns
    -------
    alpha : float
        The largest of those with the least score.
    alphas, scores : arrays of shape (A,)
        What was tried, ascending, and its scores.
    """
    if factor.inverse.serves_paths:
        alphas = np.geomspace(*factor.bounds, PATH_LENGTH)
        scores = score(alphas)
    else:
        alphas, scores = _descend(score, factor.bounds)
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


class LeaveOneOut(ABC):
    """Exact leave-one-out predictions and their score for a set of training rows.

    Called with alphas it returns, for each, the weighted mean squared leave-one-out error summed over the outputs;
    more than 16 outputs are first condensed to 16 random combinations, which keep the sum in expectation.

    Attributes
    ----------
    y : array of shape (n, K)
        Targets of the rows.
    weight : array of shape (n,)
    """

    y: NDArray
    weight: NDArray

    def __call__(self, alphas: NDArray) -> NDArray:
        if not self.factor.inverse.serves_paths and len(alphas) > 1:
            return np.concatenate([self(alphas[i : i + 1]) for i in range(len(alphas))])
        n_outputs = self.factor.n_outputs
        mix = np.eye(n_outputs)
        if n_outputs > SCORED_OUTPUTS:
            signs = np.random.default_rng(0).choice([-1.0, 1.0], (n_outputs, SCORED_OUTPUTS))
            mix = signs / np.sqrt(SCORED_OUTPUTS)
        return self._squares(alphas, mix) / self.weight.sum()

    @property
    @abstractmethod
    def factor(self) -> Factor:
        """The factorisation of all rows."""

    @abstractmethod
    def _squares(self, alphas: NDArray, mix: NDArray) -> NDArray:
        """Weighted sums of the squared errors of combined outputs, shape (A,)."""

    @abstractmethod
    def predict(self, alpha: float) -> NDArray:
        """Leave-one-out predictions, shape (n, K)."""


class PrimalLeaveOneOut(LeaveOneOut):
    """Of any of the rows, by their leverages.

    Parameters
    ----------
    design : Design
        Of the rows that the factor is of, all or some of them.
    factor : Factor
    counts : array of shape (n,), optional
        How much the rows count in the mean, where they stand for others; by default their weights.
    """

    def __init__(self, design: Design, factor: FeatureFactor, counts: NDArray | None = None) -> None:
        self.design, self._factor, source = design, factor, design.source
        self.y = source.targets(source.y)
        self.weight = source.weights if counts is None else counts

    @property
    def factor(self) -> FeatureFactor:
        return self._factor

    def _leverage(self, Z: NDArray, weight: NDArray, alphas: NDArray) -> NDArray:
        centred = Z - self.factor.feature_mean.astype(Z.dtype)
        leverage = 1 / self.factor.weight + self.factor.quadratic(centred, alphas).astype(np.float64)
        return np.minimum(leverage * weight, 1 - 1e-9)

    def _squares(self, alphas: NDArray, mix: NDArray) -> NDArray:
        coefs = self.factor.coefs(alphas, mix)
        intercepts = self.factor.target_mean @ mix - np.tensordot(self.factor.feature_mean, coefs, 1)
        total, done = np.zeros(len(alphas)), 0
        for Z, y, weight in self.design.mapped(SCORED_VALUES // (len(alphas) * mix.shape[1]) + 1):
            fitted = product(Z, coefs.reshape(len(coefs), -1).astype(Z.dtype)).reshape(len(Z), *coefs.shape[1:])
            squares = np.square((y @ mix)[:, np.newaxis] - fitted - intercepts).sum(axis=2)
            squares /= np.square(1 - self._leverage(Z, weight, alphas).T)
            total += self.weight[done : done + len(y)] @ squares
            done += len(y)
        return total

    def predict(self, alpha: float) -> NDArray:
        coef = self.factor.coef(alpha)
        intercept = self.factor.intercept(coef)
        predictions = []
        for Z, y, weight in self.design.mapped():
            fitted = product(Z, coef) + intercept
            h = self._leverage(Z, weight, np.array([alpha])).T
            predictions.append(fitted - h / (1 - h) * (y - fitted))
        return np.concatenate(predictions)


class DualLeaveOneOut(LeaveOneOut):
    """Of all distinct rows of a kernel matrix.

    Parameters
    ----------
    factor : KernelFactor
    counts : array of shape (n,), optional
        How much the rows count in the mean, where they stand for others; by default their weights.
    """

    def __init__(self, factor: KernelFactor, counts: NDArray | None = None) -> None:
        self._factor, self.y = factor, factor.y
        self.weight = factor.row_weight if counts is None else counts

    @property
    def factor(self) -> Factor:
        return self._factor

    def _squares(self, alphas: NDArray, mix: NDArray) -> NDArray:
        return np.square(self._factor.leave_one_out(alphas, mix)).sum(axis=2) @ self.weight

    def predict(self, alpha: float) -> NDArray:
        return self.y - self._factor.leave_one_out(np.array([alpha]))[0]


def leave_one_out(factor: FeatureFactor, rows: Callable[[], Design]) -> LeaveOneOut:
    """Leave-one-out predictions of some rows, or of all distinct ones where there are fewer than features.

    Parameters
    ----------
    factor : FeatureFactor
    rows : callable () -> Design
    """
    return DualLeaveOneOut(factor) if isinstance(factor, DualFactor) else PrimalLeaveOneOut(rows(), factor)
