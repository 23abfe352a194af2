"""Candidates fitted on some rows and judged on others."""

from __future__ import annotations

import time
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.data.draws import draw_rows
from bochner.data.sources import ArraySource
from bochner.design import Design
from bochner.features.base import FeatureMap
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.ridge import factorise
from bochner.tuning.held_out import PATIENCE, WORTHWHILE

SLOPES = np.array([1.0, 1.5, 2.0, 3.0, 5.0, 8.0])
SPECTRAL = 600
CLEAR = 0.5  # standard errors of the paired gain over what is preferred
MIXED_OUTPUTS, MIXTURES = 16, 4


class Trial(NamedTuple):
    """What a trial of a candidate tells.

    Attributes
    ----------
    losses : array of shape (n,)
        Of the held-out rows, at the best of all that was tried.
    penalty : array of shape (M,)
        The best ridge terms.
    n_iter : int
        The best number of iterations; 0 for a direct solution.
    predicted : array of shape (n, K)
        Of standardised targets.
    seconds : float
    share : float
        The best ridge term of a direct solution over the trace of the Gram matrix.
    """

    losses: NDArray
    penalty: NDArray
    n_iter: int
    predicted: NDArray
    seconds: float
    share: float = 0.0


class Judge:
    """Rows to fit candidates on, and rows to judge them by.

    Parameters
    ----------
    fit, out : tuples (X, y, weight)
        Encoded rows, targets of shape (n, K), weights of shape (n,).
    classes : bool
        Whether the targets are -1 and 1, to be judged by a logistic loss.
    seed : int
    """

    def __init__(self, fit: Any, out: Any, classes: bool, seed: int) -> None:
        (self.X, y, self.weight), (self.X_out, y_out, self.weight_out) = fit, out
        self.seed, self.classes, self.truth = seed, classes, y_out
        self.mean = self.weight @ y / self.weight.sum()
        deviation = np.sqrt(self.weight @ np.square(y - self.mean) / self.weight.sum())
        self.deviation = np.where((deviation > 0) & (not classes), deviation, 1.0)
        self.y, self.y_out = (y - self.mean) / self.deviation, (y_out - self.mean) / self.deviation
        if y.shape[1] > MIXED_OUTPUTS:
            mix = np.linalg.qr(np.random.default_rng(0).standard_normal((y.shape[1], MIXTURES)))[0]
            self.y, self.y_out, self.classes = self.y @ mix, self.y_out @ mix, False
        self.signs = y_out if self.classes else None
        self.y = np.ascontiguousarray(self.y)

    @property
    def n_rows(self) -> int:
        """Rows to fit."""
        return len(self.y)

    def losses(self, F: NDArray) -> NDArray:
        """Loss of each held-out row summed over the outputs, shape (n,), for standardised predictions (K, n)."""
        if self.signs is None:
            return np.square(self.y_out.T - F).sum(axis=0)
        f = (F + self.mean[:, np.newaxis]) * self.signs.T
        each = [np.logaddexp(0, -slope * f).sum(axis=0) for slope in SLOPES.astype(np.float32)]
        return each[int(np.argmin([self.average(losses) for losses in each]))]

    def mean_loss(self, predictions: NDArray) -> float:
        """Mean loss of predictions of shape (K, n), in the units of the targets."""
        if predictions.shape[0] != self.y.shape[1]:  # of many outputs, of which combinations are judged here
            return self.average(np.square(self.truth.T - predictions).sum(axis=0))
        return self.average(self.losses(((predictions.T - self.mean) / self.deviation).T))

    def average(self, losses: NDArray) -> float:
        """Weighted mean loss; infinite where one is no number."""
        mean = float(self.weight_out @ losses / self.weight_out.sum())
        return mean if np.isfinite(mean) else np.inf

    def standard_error(self, losses: NDArray) -> float:
        """Standard error of the weighted mean loss."""
        share = self.weight_out / self.weight_out.sum()
        return float(np.sqrt(np.square(share * (losses - share @ losses)).sum()))

    def iterate(self, features: FeatureMap, X: Any, X_out: Any, penalties: NDArray, steps: int) -> Trial:
        """Fit by conjugate gradients, all candidates side by side, and judge after every iteration.

        Parameters
        ----------
        features : FeatureMap
            Drawn for the columns of X, the rows to fit; X_out are those to judge by.
        penalties : array of shape (A, M)
        steps : int
        """
        start, K = time.perf_counter(), self.y.shape[1]
        source = ArraySource(X, self.y, self.fitted.weights)
        ridge = IterativeRidge(Design(source, features, np.float32), self.seed)
        equations, held = ridge.equations(), ridge.store(X_out)
        best: list[Any] = [np.inf, np.zeros(len(self.y_out)), penalties[0], 1, np.zeros((K, len(self.y_out)))]
        since = 0

        def visit(coef: NDArray, n_iter: int) -> bool:
            nonlocal since
            offset = coef @ equations.feature_mean - np.tile(equations.target_mean, len(penalties))
            F = (held.forward(coef) - offset[:, np.newaxis]).reshape(len(penalties), K, -1)
            each = [self.losses(f) for f in F]
            means = [self.average(losses) for losses in each]
            a = int(np.argmin(means))
            since = 0 if means[a] < best[0] * (1 - WORTHWHILE) else since + 1
            if means[a] < best[0]:
                best[:] = means[a], each[a], penalties[a], n_iter, F[a].copy()
            return since > PATIENCE

        ridge.solve(
            equations, np.repeat(penalties, K, axis=0), 0.0, steps, np.tile(equations.rhs, (len(penalties), 1)), visit
        )
        return Trial(best[1], best[2], best[3], best[4].T, time.perf_counter() - start)

    def solve(self, features: FeatureMap, shares: NDArray, alphas: NDArray | None) -> Trial:
        """Fit dense features by the Gram matrix, and judge ridge terms: those given, or shares of its trace."""
        start = time.perf_counter()
        n_alphas = len(shares if alphas is None else alphas) if features.n_features_out <= SPECTRAL else 1
        factor = factorise(Design(self.fitted, features, np.float32), n_alphas)
        trace = factor.bounds[1]
        alphas = shares * trace if alphas is None else alphas
        rows = Design(ArraySource(self.X_out, self.y_out), features, np.float32)
        best: Trial | None = None
        for alpha in alphas:
            coef = factor.coef(alpha)
            predicted = rows.predict(coef, factor.intercept(coef))
            losses = self.losses(predicted.T)
            if best is None or self.average(losses) < self.average(best.losses):
                best = Trial(losses, np.array([alpha]), 0, predicted, 0.0, float(alpha / trace))
        assert best is not None
        return best._replace(seconds=time.perf_counter() - start)

    def subsample(self, n_rows: int) -> Judge:
        """The same judge, with some of the rows to fit."""
        if self.n_rows <= n_rows:
            return self
        few = copy(self)
        kept, factors = draw_rows(self.weight, n_rows, np.random.default_rng(self.seed))
        few.X, few.y, few.weight = self.X[kept], self.y[kept], self.weight[kept]
        if factors is not None:
            few.weight = few.weight * factors
        return few

    @property
    def fitted(self) -> ArraySource:
        """The rows to fit, with standardised targets."""
        return ArraySource(self.X, self.y, self.weight)

    def unscaled(self, predicted: NDArray) -> NDArray:
        """Predictions in the units of the targets."""
        return predicted * self.deviation + self.mean
