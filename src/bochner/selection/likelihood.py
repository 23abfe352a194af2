"""Lengthscales of each column from few rows, by the marginal likelihood of a Gaussian
process.

Few rows cannot spare any to validate hundreds of steps of learning, but a smooth
function of some of the columns shows in how likely the targets are, given the
lengthscales (automatic relevance determination). With C the kernel of the rows, a
constant one, and the ridge penalty over the weight of each row, the likelihood of the
targets t, at the best variance of each output, has the negative logarithm

    n / 2 sum_k log(t_k' C^-1 t_k) + K / 2 log |C|.

It has a lengthscale for each column to learn from as many numbers as there are rows,
and may find too much: the lengthscales are taken where machines that are learned
without a fold of the rows predict it better than one lengthscale does.

References
----------
Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, sections 5.1
and 5.4.1. Neal, "Bayesian Learning for Neural Networks", 1996.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

from bochner.data.array_source import Block
from bochner.data.hashes import row_hashes
from bochner.engines.local import in_threads
from bochner.kernels import Gaussian
from bochner.selection.budget import Budget
from bochner.selection.few_rows import FewRows
from bochner.selection.lengthscale import deviations
from bochner.selection.policy import POLICY
from bochner.selection.report import Candidate
from bochner.selection.split import fold_numbers
from bochner.selection.validation import is_better, mean_and_error, standardise

LENGTHSCALE_EACH = "lengthscales of each column by the marginal likelihood"
# Bounds of the logarithms of lengthscales over the deviations of their columns, and of
# the ridge penalty of a row over the kernel's variance
LENGTHS, PENALTY = (-4.0, 8.0), (-18.0, 5.0)
# Of the likelihood's logarithm, beyond which steps go on: what is left says nothing
TOLERANCE = 1e-5
UNLIKELY = 1e10  # what stands for an infinite negative logarithm


class LikelyMachine:
    """The Gaussian process of the most likely lengthscales and ridge penalty.

    Parameters
    ----------
    rows : Block
        X dense, of shape (n, d).
    groups : int array of shape (d,)
        Equal for columns that have one lengthscale.

    Attributes
    ----------
    kernel : Gaussian
    penalty : float
        Of all rows together, as for a sum of their squares.
    """

    def __init__(self, rows: Block, groups: NDArray) -> None:
        X, y, weight = rows
        self._centre = weight @ X / weight.sum()
        spread = deviations(X, weight)
        spread = np.where(spread > 0, spread, 1.0)
        Z = (X - self._centre) / spread
        self._mean, self._deviation = standardise(y, weight)
        targets = (y - self._mean) / self._deviation
        # A constant target would ask for a constant function of the others too
        varying = targets[:, np.ptp(targets, axis=0) > 0]
        share = weight.mean() / weight
        n, n_outputs = varying.shape
        n_groups = int(groups.max()) + 1

        def objective(logs: NDArray) -> tuple[float, NDArray]:
            """Negative logarithm of the likelihood, and its gradient."""
            A = Z * np.exp(-logs[groups])
            penalty = np.exp(logs[-1]) * share
            K = _gaussian(A, A)
            C = K + 1
            C[np.diag_indices(n)] += penalty
            try:
                factor = cho_factor(C, lower=True, overwrite_a=True)
            except LinAlgError:
                return UNLIKELY, np.zeros_like(logs)
            a = cho_solve(factor, varying)
            fits = (varying * a).sum(axis=0)
            value = n / 2 * np.log(fits).sum()
            value += n_outputs * np.log(np.diag(factor[0])).sum()
            # Derivatives by the entries of C, and through those of the kernel
            inverse, _ = dpotri(factor[0], lower=1, overwrite_c=1)
            inverse = np.tril(inverse) + np.tril(inverse, -1).T
            by_C = n_outputs / 2 * inverse - n / 2 * (a / fits) @ a.T
            W = by_C * K
            sums = 2 * (W.sum(axis=1) @ np.square(A) - ((W @ A) * A).sum(axis=0))
            by_length = np.bincount(groups, sums, n_groups)
            return value, np.append(by_length, np.diag(by_C) @ penalty)

        start = np.full(n_groups + 1, np.log(Z.shape[1]) / 2)
        start[-1] = np.log(POLICY.first_alpha)
        logs = minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=[LENGTHS] * n_groups + [PENALTY],
            options={"ftol": TOLERANCE},
        ).x
        scales = np.exp(logs[groups])
        self._rows = Z / scales
        self.kernel = Gaussian(spread * scales)
        self.penalty = float(np.exp(logs[-1]) * weight.mean())
        C = _gaussian(self._rows, self._rows) + 1
        C[np.diag_indices(n)] += self.penalty / weight
        self._coef = np.linalg.solve(C, targets)

    def predict(self, X: NDArray) -> NDArray:
        """Predictions for rows of shape (m, d), shape (m, K)."""
        A = (X - self._centre) / self.kernel.lengthscale
        K = _gaussian(A, self._rows) + 1
        return self._mean + self._deviation * (K @ self._coef)


def _gaussian(A: NDArray, B: NDArray) -> NDArray:
    """The Gaussian kernel of lengthscale 1."""
    ends = np.square(A).sum(axis=1)[:, np.newaxis] + np.square(B).sum(axis=1)
    return np.exp(np.minimum(A @ B.T - ends / 2, 0.0))


def or_lengthscale_each(few: FewRows, groups: NDArray, budget: Budget) -> FewRows:
    """Lengthscales of each column, where they predict rows that are held out better
    than one lengthscale by more than its noise; else what is given.

    Parameters
    ----------
    few : FewRows
        One lengthscale, chosen for numbers.
    groups : int array of shape (d,)
        Equal for columns that have one lengthscale.
    budget : Budget
        In whose time lengthscales are learned.
    """
    clock = Budget()
    one, y, weight, X, *_ = few.predictions
    assert isinstance(X, np.ndarray)
    fold = fold_numbers(row_hashes(X), 0, POLICY.n_folds)

    def machine(number: int) -> LikelyMachine:
        """What is learned without a fold, or from all rows."""
        part = fold != number
        return LikelyMachine(Block(X[part], y[part], weight[part]), groups)

    learned = machine(POLICY.n_folds)
    # Each fold takes as long again at the most
    if POLICY.n_folds * clock.elapsed > budget.seconds_left:
        return few
    machines = in_threads(machine, range(POLICY.n_folds))
    predicted = np.empty(y.shape)
    for number, other in enumerate(machines):
        predicted[fold == number] = other.predict(X[fold == number])
    losses = np.square(predicted - y).sum(axis=1)
    leads = is_better(losses, np.square(one - y).sum(axis=1), POLICY.near, weight)
    candidate = Candidate(
        LENGTHSCALE_EACH, len(y), *mean_and_error(losses, weight), clock.elapsed
    )
    report = replace(few.report, candidates=[*few.report.candidates, candidate])
    if not leads:
        return few._replace(report=report)
    reason = "rows held out are predicted better than by one lengthscale"
    return few._replace(
        kernel=learned.kernel,
        alpha_per_weight=learned.penalty / float(weight.sum()),
        report=replace(report, chosen=LENGTHSCALE_EACH, reason=reason),
    )
