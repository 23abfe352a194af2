"""Exact leave-one-out predictions of ridge regressions, and their errors.

With f_i the prediction for a row, h its leverage (see `factors`) and w its weight, the model that is left without the
row predicts

    f_i - w h / (1 - w h) (y_i - f_i),

which follows from the rank-one update (Sherman and Morrison) and is exact. Where a row stands for several of equal
inputs, of which one of weight u is left out, its own target takes the place of their mean, and u that of w.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bochner.engines.algebra import product
from bochner.solvers.factors import DualFactor, Factor, FeatureFactor, KernelFactor

if TYPE_CHECKING:
    from bochner.design import Design

SCORED_OUTPUTS = 16
SCORED_VALUES = 1 << 22
ALONE = 1e-12  # share of the weight of a row that others have, where there are none


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

    weight: NDArray

    @property
    @abstractmethod
    def y(self) -> NDArray:
        """Targets of the rows."""

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
        self.design, self._factor = design, factor
        self.weight = design.source.weights if counts is None else counts

    @property
    def factor(self) -> FeatureFactor:
        return self._factor

    @property
    def y(self) -> NDArray:
        return self.design.source.targets(self.design.source.y)

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
        self._factor = factor
        self.weight = factor.row_weight if counts is None else counts

    @property
    def factor(self) -> Factor:
        return self._factor

    @property
    def y(self) -> NDArray:
        return self._factor.y

    def _squares(self, alphas: NDArray, mix: NDArray) -> NDArray:
        return np.square(self._factor.leave_one_out(alphas, mix)).sum(axis=2) @ self.weight

    def predict(self, alpha: float) -> NDArray:
        return self.y - self._factor.leave_one_out(np.array([alpha]))[0]

    def errors_of_parts(
        self, alpha: float, number: NDArray[np.intp], y: NDArray, weight: NDArray
    ) -> NDArray[np.float64]:
        """Leave-one-out errors of the rows that the distinct ones stand for, shape (m, K).

        Parameters
        ----------
        alpha : float
        number : int array of shape (m,)
            Of the distinct row that each is part of.
        y : array of shape (m, K)
        weight : array of shape (m,)
        """
        alphas = np.array([alpha])
        left = self._factor.left(alphas)
        whole = self._factor.leave_one_out(alphas, left=left)[0][number]
        share = weight / self._factor.row_weight[number]
        return errors_of_parts(whole, alpha * left[0][number], y - self.y[number], share)


def errors_of_parts(whole: NDArray, left: NDArray, deviation: NDArray, share: NDArray) -> NDArray[np.float64]:
    """Leave-one-out errors of parts of rows of equal inputs, shape (m, K), by those of whole rows.

    Parameters
    ----------
    whole : array of shape (m, K)
        Leave-one-out errors of the rows' mean targets.
    left : array of shape (m,)
        1 - w h of the rows, w their whole weight.
    deviation : array of shape (m, K)
        Targets of the parts less the mean ones.
    share : array of shape (m,)
        Weight of the part over that of its row.
    """
    others = np.maximum(1 - share, 0.0)
    alone = others < ALONE
    rest = np.where(alone, 1.0, others + share * left)[:, np.newaxis]
    return np.where(alone[:, np.newaxis], whole, (deviation + left[:, np.newaxis] * whole) / rest)


def leave_one_out(
    factor: FeatureFactor, rows: Callable[[], Design], counts: NDArray[np.float64] | None = None
) -> LeaveOneOut:
    """Leave-one-out predictions of some rows, or of all distinct ones where there are fewer than features.

    Parameters
    ----------
    factor : FeatureFactor
    rows : callable () -> Design
    counts : array of shape (n,), optional
        How much these rows count in the mean, where they stand for others; by default their weights.
    """
    return DualLeaveOneOut(factor) if isinstance(factor, DualFactor) else PrimalLeaveOneOut(rows(), factor, counts)
