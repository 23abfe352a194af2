"""Candidates fitted on some rows and judged on others."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.data.sources import ArraySource
from bochner.design import Design
from bochner.features.base import FeatureMap
from bochner.solvers.factors import factorise
from bochner.solvers.iterative import IterativeRidge
from bochner.tuning.budget import Budget
from bochner.tuning.policy import POLICY
from bochner.tuning.trace import Fold, Trace, average, mixture, stalls_for_long, standard_error


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


def standardise(y: NDArray, weight: NDArray) -> tuple[NDArray, NDArray]:
    """Weighted mean and standard deviation of targets, shape (K,); of constant ones 1."""
    mean = weight @ y / weight.sum()
    deviation = np.sqrt(weight @ np.square(y - mean) / weight.sum())
    return mean, np.where(deviation > 0, deviation, 1.0)


def squares(targets: NDArray, F: NDArray) -> NDArray:
    """Squared errors of predictions of shape (K, n) summed over the outputs, shape (n,)."""
    return np.square(targets.T - F).sum(axis=0)


class Judge:
    """Rows to fit candidates on, and rows to judge them by.

    Parameters
    ----------
    fit, out : tuples (X, y, weight)
        Encoded rows, targets of shape (n, K), weights of shape (n,).
    classes : bool
        Whether the targets are -1 and 1, to be judged by a logistic loss.
    seed : int

    Attributes
    ----------
    y, y_out : arrays
        Standardised targets, or four combinations of more than 16.
    """

    def __init__(self, fit: Any, out: Any, classes: bool, seed: int) -> None:
        (self.X, y, self.weight), (self.X_out, targets, self.weight_out) = fit, out
        self.seed, self.classes, self.targets = seed, classes, targets
        self.mean, deviation = standardise(y, self.weight)
        self.deviation = np.ones(len(deviation)) if classes else deviation
        self.y, self.y_out = (y - self.mean) / self.deviation, (targets - self.mean) / self.deviation
        if y.shape[1] > POLICY.mixed_outputs:
            mix = mixture(y.shape[1], POLICY.mixtures)
            self.y, self.y_out, self.classes = self.y @ mix, self.y_out @ mix, False
        self.y = np.ascontiguousarray(self.y)

    @property
    def n_rows(self) -> int:
        """Rows to fit."""
        return len(self.y)

    @property
    def fitted(self) -> ArraySource:
        """The rows to fit, with standardised targets."""
        return ArraySource(self.X, self.y, self.weight)

    def losses(self, F: NDArray) -> NDArray:
        """Loss of each held-out row summed over the outputs, shape (n,), for standardised predictions (K, n)."""
        if not self.classes:
            return squares(self.y_out, F)
        f = (F + self.mean[:, np.newaxis]) * self.targets.T
        each = [np.logaddexp(0, -slope * f).sum(axis=0) for slope in np.array(POLICY.slopes, np.float32)]
        return each[int(np.argmin([self.average(losses) for losses in each]))]

    def final_losses(self, predictions: NDArray) -> NDArray:
        """Losses of predictions of shape (K, n) in the units of the targets; of many outputs of all."""
        if predictions.shape[0] != self.y.shape[1]:
            return squares(self.targets, predictions)
        return self.losses(((predictions.T - self.mean) / self.deviation).T)

    def average(self, losses: NDArray) -> float:
        """Weighted mean loss; infinite where one is no number."""
        return average(losses, self.weight_out)

    def standard_error(self, losses: NDArray) -> float:
        """Standard error of the weighted mean loss."""
        return standard_error(losses, self.weight_out)

    def iterate(self, features: FeatureMap, X: Any, X_out: Any, penalties: NDArray, steps: int) -> Trial:
        """Fit by conjugate gradients, all candidates side by side, and judge after every iteration.

        Parameters
        ----------
        features : FeatureMap
            Drawn for the columns of X, the rows to fit; X_out are those to judge by.
        penalties : array of shape (A, M)
        steps : int
        """
        clock = Budget()
        ridge = IterativeRidge(Design(ArraySource(X, self.y, self.weight), features, np.float32), self.seed)
        fold = Fold(ridge.equations(), ridge.store(X_out), self.weight_out, self.losses)
        trace = Trace(fold, len(penalties), steps).run(ridge, penalties, 0.0, stalls_for_long)
        penalty, n_iter = penalties[trace.candidate], max(trace.n_iter, 1)
        return Trial(trace.losses, penalty, n_iter, trace.predicted.T, clock.elapsed)

    def solve(self, features: FeatureMap, shares: NDArray, alphas: NDArray | None) -> Trial:
        """Fit dense features by the Gram matrix, and judge ridge terms: those given, or shares of its trace."""
        clock = Budget()
        n_alphas = len(shares if alphas is None else alphas) if features.n_features_out <= POLICY.spectral else 1
        factor = factorise(Design(self.fitted, features, np.float32), n_alphas)
        trace = factor.bounds[1]
        rows = Design(ArraySource(self.X_out, self.y_out), features, np.float32)
        trials = []
        for alpha in shares * trace if alphas is None else alphas:
            coef = factor.coef(alpha)
            predicted = rows.predict(coef, factor.intercept(coef))
            trials.append(Trial(self.losses(predicted.T), np.array([alpha]), 0, predicted, 0.0, float(alpha / trace)))
        best = min(trials, key=lambda trial: self.average(trial.losses))
        return best._replace(seconds=clock.elapsed)

    def subsample(self, n_rows: int) -> Judge:
        """The same judge, with some of the rows to fit."""
        if self.n_rows <= n_rows:
            return self
        sample = self.fitted.sample(n_rows, np.random.default_rng(self.seed))
        few = copy(self)
        few.X, few.y, few.weight = sample.X, sample.y, sample.weights
        return few

    def unscaled(self, predicted: NDArray) -> NDArray:
        """Predictions in the units of the targets."""
        return predicted * self.deviation + self.mean
