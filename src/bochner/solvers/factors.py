"""Ridge regression by one factorisation, from which the solution for any alpha follows.

With the centred moments G = Z'WZ and c = Z'Wy, the solution of min_w ||Zw - y||_W^2 +
alpha ||w||^2 is w = (G + alpha I)^-1 c, and the intercept is the mean of y less that of
Zw. With A the centred rows of Z times the roots of their weights, b the same of y, and
K = AA', of the size of the rows instead of the features, it is w = A'(K + alpha I)^-1 b
too. The smaller matrix is factorised. With s_j the eigenvalues of either:

    residual sum of squares   b'b - w'c - alpha w'w = alpha^2 |(K + alpha I)^-1 b|^2
    degrees of freedom        1 + sum_j s_j / (s_j + alpha) leverage of a row z       h
    = 1 / n + u'(G + alpha I)^-1 u = 1 / n + (u'u - (Au)'(K + alpha I)^-1 Au) / alpha,
                              u = z - mean
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from bochner.arrays import Floats
from bochner.blocks import BLOCK_ENTRIES, LARGE_BLOCK_ROWS
from bochner.design.moments import Moments
from bochner.devices.device import Device
from bochner.engines.algebra import gram, product
from bochner.solvers.shifted import (
    DeviceInverse,
    ShiftedInverse,
    serves,
    shifted_inverse,
)

if TYPE_CHECKING:
    from bochner.design.design import Design

LARGE = 4096  # features, whose matrix should not be copied
ROUNDING = {np.dtype(np.float32): 1e-7, np.dtype(np.float64): 1e-13}  # of a trace


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
    def bounds(self) -> tuple[float, float]:
        """Range of sensible alphas: from where rounding errors would show to the
        whole trace.
        """
        trace = self.trace or 1.0
        return 1e-7 * trace, trace

    @abstractmethod
    def residual(self, alphas: ArrayLike) -> NDArray:
        """Weighted residual sums of squares on the training rows, shape (A, K)."""

    @abstractmethod
    def degrees_of_freedom(self, alphas: ArrayLike) -> NDArray:
        """Trace of the hat matrix, intercept included, shape (A,)."""

    def gcv(self, alphas: ArrayLike) -> NDArray:
        """Generalised cross-validation (Golub, Heath and Wahba, 1979), summed over
        the outputs, shape (A,).
        """
        share = 1 - self.degrees_of_freedom(alphas) / self.n_rows
        residual_share = np.maximum(share, 1e-9)
        return self.residual(alphas).sum(axis=1) / self.weight / residual_share**2


class FeatureFactor(Factor):
    """A factorisation for coefficients of features.

    Attributes
    ----------
    feature_mean : array of shape (D,)
    """

    feature_mean: NDArray

    def solve(self, alpha: float) -> tuple[NDArray, NDArray]:
        """Coefficients, shape (D, K), and intercepts, shape (K,), with this alpha."""
        coef = self.coef(alpha)
        return coef, self.intercept(coef)

    def intercept(self, coef: NDArray) -> NDArray:
        """Intercepts that go with the coefficients, shape (K,)."""
        return self.target_mean - self.feature_mean @ coef

    def coef(self, alpha: float) -> NDArray:
        """Coefficients, shape (D, K)."""
        return self.coefs(np.array([alpha]))[:, 0]

    @abstractmethod
    def coefs(self, alphas: NDArray, mix: NDArray | None = None) -> NDArray:
        """Coefficients along a path, shape (D, A, K); with `mix`, of shape (K, M),
        those of combined outputs.
        """

    @abstractmethod
    def applied(self, alpha: float, cross: NDArray) -> NDArray:
        """(G + alpha I)^-1 times moments with other targets, shape (D, K)."""

    @abstractmethod
    def quadratic(self, U: NDArray, alphas: NDArray) -> NDArray:
        """Quadratic form u'(G + alpha I)^-1 u of each centred row u of U, shape (A,
        n).
        """


class PrimalFactor(FeatureFactor):
    """A factorisation of the centred moments, for no more features than rows.

    Parameters
    ----------
    moments : Moments
    n_alphas : int
        How many are to be tried.
    overwrite : bool, default=False
        Whether a large factorisation may take the place of the moments, which are lost.
    place : Device, optional
        A device that factorises, where the matrix is large and float64 fast there.
    """

    def __init__(
        self,
        moments: Moments,
        n_alphas: int,
        overwrite: bool = False,
        place: Device | None = None,
    ) -> None:
        self.n_rows = moments.n_rows
        self.weight = moments.weight
        self.trace = moments.centred_trace()
        centred = moments.centred(overwrite and moments.n_features > LARGE)
        self.cross = centred.cross
        self.total = centred.total
        self.feature_mean = centred.feature_mean
        self.target_mean = centred.target_mean
        rounding = self.trace * ROUNDING[moments.dtype]
        if place is not None and serves(place, len(centred.gram)):
            self.inverse = DeviceInverse(place, centred.gram, rounding)
        else:
            self.inverse = shifted_inverse(centred.gram, n_alphas, rounding)

    def degrees_of_freedom(self, alphas: ArrayLike) -> NDArray:
        alphas = np.atleast_1d(alphas)
        return 1 + len(self.cross) - alphas * self.inverse.traces(alphas)

    def coefs(self, alphas: NDArray, mix: NDArray | None = None) -> NDArray:
        cross = self.cross if mix is None else self.cross @ mix
        return _along_path(self.inverse.solve(alphas, cross.T))

    def applied(self, alpha: float, cross: NDArray) -> NDArray:
        return self.inverse.solve(np.array([alpha]), cross.T)[0].T

    def quadratic(self, U: NDArray, alphas: NDArray) -> NDArray:
        return self.inverse.forms(alphas, U)

    def residual(self, alphas: ArrayLike) -> NDArray:
        alphas = np.atleast_1d(alphas)
        W = self.coefs(alphas)
        sums = self.total - np.einsum(
            "dak,dak->ak", W, self.cross[:, np.newaxis] + alphas[:, np.newaxis] * W
        )
        return np.maximum(sums, 0.0)


class KernelFactor(Factor):
    """A factorisation of a kernel matrix K of distinct rows, centred in feature space.

    With u_i = sqrt(w_i / sum of w) the matrix has K u = 0; K + c u u', c the mean of
    its eigenvalues, is factorised in its place, for its inverse has no 1 / alpha along
    u that would be subtracted again, and is the same on what is orthogonal to u, as all
    targets are.

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

    # Squares of the targets about the means of equal rows
    within: NDArray | float = 0.0

    def __init__(
        self,
        kernel: NDArray,
        y: NDArray,
        weight: NDArray,
        n_alphas: int,
        precision: DTypeLike = np.float64,
    ) -> None:
        n = self.n_rows = len(y)
        self.y = y
        self.row_weight = weight
        self.weight = float(self.row_weight.sum())
        self.trace = float(np.trace(kernel))
        share = self.row_weight / self.weight
        self.root = np.sqrt(self.row_weight)[:, np.newaxis]
        self.target_mean = share @ y
        self.targets = (y - self.target_mean) * self.root
        self.lift = self.trace / n or 1.0
        kernel += self.lift * np.sqrt(np.outer(share, share))
        self.inverse = shifted_inverse(
            kernel, n_alphas, self.trace * ROUNDING[np.dtype(precision)]
        )

    def merge(self, design: Design) -> None:
        """Take note of the rows that were made distinct, whose number and targets
        generalised cross-validation asks.
        """
        self.n_rows = design.source.n_rows
        totals = np.zeros(len(self.target_mean))
        for _, y, weight in design.source.blocks(LARGE_BLOCK_ROWS):
            totals += weight @ np.square(y - self.target_mean)
        self.within = totals - np.square(self.targets).sum(axis=0)

    def degrees_of_freedom(self, alphas: ArrayLike) -> NDArray:
        alphas = np.atleast_1d(alphas)
        return len(self.y) - alphas * (
            self.inverse.traces(alphas) - 1 / (self.lift + alphas)
        )

    def duals(self, alphas: NDArray, mix: NDArray | None = None) -> NDArray:
        """(K + alpha I)^-1 b, shape (A, n_outputs, n)."""
        targets = self.targets if mix is None else self.targets @ mix
        return self.inverse.solve(alphas, targets.T)

    def residual(self, alphas: ArrayLike) -> NDArray:
        alphas = np.atleast_1d(alphas)
        return self.within + alphas[:, np.newaxis] ** 2 * np.square(
            self.duals(alphas)
        ).sum(axis=2)

    def leave_one_out(
        self,
        alphas: NDArray,
        mix: NDArray | None = None,
        residual_shares: NDArray | None = None,
    ) -> NDArray:
        """Errors of the distinct rows' targets by the model that is left without them,
        shape (A, n, n_outputs).

        (K + alpha I)^-1 b over the diagonal of (K + alpha I)^-1 - u u' / alpha, as y -
        f and 1 - w h are alpha times these: without alpha nothing cancels where the
        rows are interpolated.
        """
        if residual_shares is None:
            residual_shares = self.residual_shares(alphas)
        scale = residual_shares[:, :, np.newaxis] * self.root
        return np.moveaxis(self.duals(alphas, mix), 1, 2) / scale

    def residual_shares(self, alphas: NDArray) -> NDArray:
        """What is left of a row's weight beside its leverage, 1 - w h, over alpha,
        shape (A, n).
        """
        share = self.row_weight / self.weight
        diagonal = self.inverse.forms(alphas, np.eye(len(self.y)))
        return np.maximum(
            diagonal - share / (self.lift + alphas[:, np.newaxis]), 1e-12 * diagonal
        )


class DualFactor(KernelFactor, FeatureFactor):
    """A factorisation of the kernel matrix of the rows' features, for fewer rows than
    features.

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
        self.feature_mean = np.einsum(
            "i,ij->j", weight / weight.sum(), Z, dtype=np.float64
        )
        Z -= self.feature_mean.astype(Z.dtype)
        Z *= np.sqrt(weight)[:, np.newaxis].astype(Z.dtype)
        kernel = gram(Z.T).astype(np.float64, copy=False)
        super().__init__(kernel, y, weight, n_alphas, Z.dtype)
        self.rows = Z
        self.merge(counted)

    def coefs(self, alphas: NDArray, mix: NDArray | None = None) -> NDArray:
        duals = self.duals(alphas, mix)
        rows = self.rows.astype(np.float64, copy=False)
        coefs = product(duals.reshape(-1, len(rows)), rows)
        return _along_path(coefs.reshape(*duals.shape[:2], -1))

    def applied(self, alpha: float, cross: NDArray) -> NDArray:
        rows = self.rows.astype(np.float64, copy=False)
        duals = self.inverse.solve(np.array([alpha]), product(cross.T, rows.T))[0]
        return (cross - product(duals, rows).T) / alpha

    def quadratic(self, U: NDArray, alphas: NDArray) -> NDArray:
        inner = product(U, self.rows.T.astype(U.dtype, copy=False)).astype(
            np.float64, copy=False
        )
        squares = np.square(U, dtype=np.float64).sum(axis=1)
        rest = np.maximum(squares - self.inverse.forms(alphas, inner), 0.0)
        return rest / alphas[:, np.newaxis]


def _along_path(coefs: NDArray) -> NDArray:
    """Coefficients of shape (A, K, D) as (D, A, K)."""
    return np.ascontiguousarray(np.moveaxis(coefs, 2, 0))


def factorise(
    design: Design,
    n_alphas: int,
    moments: Moments | None = None,
    overwrite: bool = True,
) -> FeatureFactor:
    """Factorise the smaller of the matrices, for choosing among `n_alphas`, or for
    the only one; that of the moments, where these are given.

    With `overwrite` the moments may be lost, to save memory.
    """
    if moments is None:
        if design.source.n_counted < design.features.n_features_out:
            return DualFactor(design, n_alphas)
        moments = design.moments()
    return PrimalFactor(moments, n_alphas, overwrite, design.place)


SCORED_OUTPUTS = 16
ALONE = 1e-12  # share of the weight of a row that others have, where there are none


class LeaveOneOut(ABC):
    """Exact leave-one-out predictions and their score for a set of training rows.

    Called with alphas it returns, for each, the weighted mean squared leave-one-out
    error summed over the outputs; more than 16 outputs are first condensed to 16 random
    combinations, which keep the sum in expectation.

    Attributes
    ----------
    factor : Factor
        Of all rows.
    y : array of shape (n, K)
        Targets of the rows.
    weight : array of shape (n,)
    """

    factor: Factor
    y: NDArray
    weight: NDArray

    def __call__(self, alphas: NDArray) -> NDArray:
        if not self.factor.inverse.serves_paths and len(alphas) > 1:
            return np.concatenate([self(alphas[i : i + 1]) for i in range(len(alphas))])
        n_outputs = len(self.factor.target_mean)
        mix = np.eye(n_outputs)
        if n_outputs > SCORED_OUTPUTS:
            signs = np.random.default_rng(0).choice(
                [-1.0, 1.0], (n_outputs, SCORED_OUTPUTS)
            )
            mix = signs / np.sqrt(SCORED_OUTPUTS)
        return self._squares(alphas, mix) / self.weight.sum()

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
        How much the rows count in the mean, where they stand for others; by default
        their weights.
    """

    factor: FeatureFactor

    def __init__(
        self, design: Design, factor: FeatureFactor, counts: NDArray | None = None
    ) -> None:
        self.design = design
        self.factor = factor
        self.y = design.source.targets(design.source.y)
        self.weight = design.source.weights if counts is None else counts

    def _leverage(self, Z: NDArray, weight: NDArray, alphas: NDArray) -> NDArray:
        centred = Z - self.factor.feature_mean.astype(Z.dtype)
        forms = self.factor.quadratic(centred, alphas).astype(np.float64)
        return np.minimum((1 / self.factor.weight + forms) * weight, 1 - 1e-9)

    def _squares(self, alphas: NDArray, mix: NDArray) -> NDArray:
        coefs = self.factor.coefs(alphas, mix)
        intercepts = self.factor.target_mean @ mix - np.tensordot(
            self.factor.feature_mean, coefs, 1
        )
        by_features = coefs.reshape(len(coefs), -1)
        total = np.zeros(len(alphas))
        done = 0
        most = BLOCK_ENTRIES // (len(alphas) * mix.shape[1]) + 1
        for Z, y, weight in self.design.mapped(most):
            fitted = product(Z, by_features.astype(Z.dtype))
            fitted = fitted.reshape(len(Z), *coefs.shape[1:])
            errors = (y @ mix)[:, np.newaxis] - fitted - intercepts
            squares = np.square(errors).sum(axis=2)
            squares /= np.square(1 - self._leverage(Z, weight, alphas).T)
            total += self.weight[done : done + len(y)] @ squares
            done += len(y)
        return total

    def predict(self, alpha: float) -> NDArray:
        coef, intercept = self.factor.solve(alpha)
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
        How much the rows count in the mean, where they stand for others; by default
        their weights.
    """

    factor: KernelFactor

    def __init__(self, factor: KernelFactor, counts: NDArray | None = None) -> None:
        self.factor = factor
        self.y = factor.y
        self.weight = factor.row_weight if counts is None else counts

    def _squares(self, alphas: NDArray, mix: NDArray) -> NDArray:
        return (
            np.square(self.factor.leave_one_out(alphas, mix)).sum(axis=2) @ self.weight
        )

    def predict(self, alpha: float) -> NDArray:
        return self.y - self.factor.leave_one_out(np.array([alpha]))[0]

    def errors_of_parts(
        self, alpha: float, number: NDArray[np.intp], y: NDArray, weight: NDArray
    ) -> Floats:
        """Leave-one-out errors of the rows that the distinct ones stand for, shape (m,
        K).

        Parameters
        ----------
        alpha : float
        number : int array of shape (m,)
            Of the distinct row that each is part of.
        y : array of shape (m, K)
        weight : array of shape (m,)
        """
        alphas = np.array([alpha])
        residual_shares = self.factor.residual_shares(alphas)
        (errors,) = self.factor.leave_one_out(alphas, residual_shares=residual_shares)
        return errors_of_parts(
            errors[number],
            alpha * residual_shares[0][number],
            y - self.y[number],
            weight / self.factor.row_weight[number],
        )


def errors_of_parts(
    whole: NDArray, one_minus_leverage: NDArray, deviation: NDArray, share: NDArray
) -> Floats:
    """Leave-one-out errors of parts of rows of equal inputs, shape (m, K), by those of
    whole rows.

    Parameters
    ----------
    whole : array of shape (m, K)
        Leave-one-out errors of the rows' mean targets.
    one_minus_leverage : array of shape (m,)
        1 - w h of the rows, w their whole weight.
    deviation : array of shape (m, K)
        Targets of the parts less the mean ones.
    share : array of shape (m,)
        Weight of the part over that of its row.
    """
    others = np.maximum(1 - share, 0.0)
    alone = others < ALONE
    rest = np.where(alone, 1.0, others + share * one_minus_leverage)[:, np.newaxis]
    errors = (deviation + one_minus_leverage[:, np.newaxis] * whole) / rest
    return np.where(alone[:, np.newaxis], whole, errors)


def leave_one_out(
    factor: FeatureFactor, design: Design, counts: Floats | None = None
) -> LeaveOneOut:
    """Leave-one-out predictions of the rows of a design, or of all distinct ones where
    there are fewer than features; see `PrimalLeaveOneOut`.
    """
    if isinstance(factor, DualFactor):
        return DualLeaveOneOut(factor)
    return PrimalLeaveOneOut(design, factor, counts)
