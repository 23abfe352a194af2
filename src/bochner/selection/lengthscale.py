"""The kernel and its lengthscale from the data, where only a name is given.

A kernel's shape matters less than its lengthscale, which is tried in steps of 1.5 (at
first of 1.5^4) around the spread of the columns: the root of their summed variances,
the distance scale of a Euclidean kernel, or half of their summed deviations, that of a
kernel of the L1 distance. Each trial is a small ridge regression on a sample of the
rows, scored by its exact leave-one-out error at the best alpha. Where all columns are
numbers, one trial asks whether they had better keep their common unit, as the pixels of
images should, than be scaled to unit variance each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.array_source import ArraySource
from bochner.data.table_input import as_dense
from bochner.design.design import Design
from bochner.engines.algebra import binary_unit
from bochner.features import BinningFeatures, FourierFeatures
from bochner.kernels import Stationary
from bochner.kernels.catalogue import NAMED, SEPARABLE
from bochner.selection.budget import Budget, choose_n_components
from bochner.selection.policy import POLICY
from bochner.selection.validation import (
    HeldOut,
    choose_penalty,
)
from bochner.solvers.factors import factorise, leave_one_out
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.line_search import Tried, choose_alpha, walk_downhill

AUTO = ("gaussian", "laplacian")
SCALED, COMMON_UNIT = (
    "one lengthscale, columns of unit variance",
    "one lengthscale, columns in their common unit",
)


class KernelScores:
    """Scores of kernels on a sample of encoded rows: leave-one-out errors, or held-out
    errors of bins.

    Where alphas are given, they are scaled as the sum of squares is by the sampling, so
    that they mean the same.
    """

    def __init__(
        self,
        source: ArraySource,
        n_rows: int,
        n_components: int,
        alphas: NDArray | None,
        seed: int,
        binned: bool,
        budget: Budget,
    ) -> None:
        sample = source.sample(n_rows, np.random.default_rng(seed))
        self.alphas = (
            alphas
            if alphas is None
            else alphas * sample.n_rows / max(source.n_counted, 1)
        )
        sample = sample.distinct()
        X, y, weight = sample.whole()
        # Constant targets, or columns, tell of no lengthscale
        self.is_constant = not np.ptp(y, axis=0).any()
        self.source = sample.encoded(np.float64)
        self.n_components = n_components
        self.seed = seed
        self.spread = deviations(X, weight)
        self.budget = budget
        self.binned = binned
        self.scores: Tried[Stationary, float] = Tried(self._score)

    def best(self, kernels: Sequence[Stationary]) -> int:
        """Index of the kernel with the least score, the first of several."""
        self.scores.compute(kernels)
        return min(range(len(kernels)), key=lambda i: self.scores[kernels[i]])

    def _score(self, kernel: Stationary) -> float:
        """Error of a kernel; infinite where there is no time for more of them."""
        if self.scores and self.budget.is_over:
            return np.inf
        if self.binned:
            return self._held_out(kernel)
        if self.source.splits is not None:
            return self._by_splits(kernel)
        return self._left_out(kernel)

    def _waves(self, kernel: Stationary) -> FourierFeatures:
        """Drawn Fourier features of a kernel."""
        features = FourierFeatures(kernel, self.n_components, random_state=self.seed)
        return features.draw(len(self.spread))

    def _left_out(self, kernel: Stationary) -> float:
        """Leave-one-out error of Fourier features at the best alpha."""
        design = Design(self.source, self._waves(kernel), np.float64)
        factor = factorise(design, 2)
        score = leave_one_out(factor, design)
        if self.alphas is None:
            return float(choose_alpha(factor, score)[2].min())
        return float(score(self.alphas).min())

    def _by_splits(self, kernel: Stationary) -> float:
        """Error of Fourier features on the rows that validate in each split, at the
        best alpha of all splits.
        """
        source = self.source
        assert source.splits is not None
        features = self._waves(kernel)
        errors: NDArray | float = 0.0
        total = 0.0
        for fold in source.splits.folds(source.weights):
            fitted, held_out = source.parts(fold)
            shares = np.array(POLICY.shares)
            n_alphas = len(shares if self.alphas is None else self.alphas)
            factor = factorise(Design(fitted, features, np.float64), n_alphas)
            alphas = self.alphas
            if alphas is None:
                alphas = shares * factor.bounds[1]
            coefs, intercepts = zip(*map(factor.solve, alphas), strict=True)
            predicted = Design(held_out, features, np.float64).predict(
                np.hstack(coefs), np.concatenate(intercepts)
            )
            _, y, weight = held_out.whole()
            squares = np.square(predicted.reshape(len(y), len(alphas), -1) - y[:, None])
            errors = errors + weight @ squares.sum(axis=2)
            total += weight.sum()
        return float(np.min(errors) / total) if total else np.inf

    def _held_out(self, kernel: Stationary) -> float:
        """Error of bins on rows that are held out, at the best alpha."""
        features = BinningFeatures(
            kernel, POLICY.trial_grids[1], random_state=self.seed
        ).draw(len(self.spread))
        ridge = IterativeRidge(Design(self.source, features, np.float32), self.seed)
        held_out = HeldOut(ridge, self.seed)
        if not held_out.folds:
            return np.inf
        _, scores = choose_penalty(held_out, self.alphas)
        return float(scores.min())

    def kernel(self, name: str, lengths: NDArray, power: float) -> Stationary:
        """Kernel of the columns over `lengths`, its lengthscale 1.5^power times
        their spread.
        """
        return kernel_at(name, lengths, self.spread, power)

    def search(self, name: str, lengths: NDArray, powers: Sequence[float]) -> float:
        """Walk downhill from the best of some powers, on the better side of it."""

        def best(powers: Sequence[float]) -> float:
            return powers[
                self.best([self.kernel(name, lengths, power) for power in powers])
            ]

        start = best(powers)
        start = best([start, start + 1, start - 1])
        return walk_downhill(
            lambda power: self.scores[self.kernel(name, lengths, power)],
            start,
            1,
            POLICY.most_steps,
        )


def choose_kernel(
    source: ArraySource,
    name: str,
    column_units: NDArray | None,
    alphas: NDArray | None,
    seed: int,
    binned: bool = False,
    budget: Budget | None = None,
) -> Stationary:
    """Choose the lengthscale of a named kernel, or the kernel too.

    Parameters
    ----------
    source : ArraySource
        Encoded on the way out.
    name : str
        A key of `bochner.kernels.catalogue.NAMED`, or "auto" for the better of Gaussian
        and Laplacian.
    column_units : array of shape (d,) or None
        What one unit of each encoded column is in the unit of the input; None where
        that has no meaning.
    alphas : array of shape (A,) or None
        The ridge penalties allowed; None where they are chosen too.
    seed : int
    binned : bool, default=False
        Whether the kernel is for random binning features, by which it is then chosen;
        "auto" is Laplacian.
    budget : Budget, optional
        Where a look at fewer rows with fewer features is enough, within the time that
        is left.
    """
    names = (name,) if name != "auto" else AUTO[1:] if binned else AUTO
    for candidate in names if binned else ():
        NAMED[candidate]().pitch_measure()  # refused where there is none
    n_components = choose_n_components(source.n_rows, source.weights)
    quick = budget is not None
    budget = budget or Budget()
    n_rows, most = POLICY.quick_round if quick else POLICY.rounds[0]
    trials = KernelScores(
        source, n_rows, min(n_components, most), alphas, seed, binned, budget
    )
    one = np.ones(len(trials.spread))
    few = trials.source.n_rows < POLICY.n_folds
    if few or trials.is_constant or not trials.spread.any():
        return (
            trials.kernel(names[0], one, 0)
            if trials.spread.any()
            else NAMED[names[0]]()
        )
    ways = (
        [one]
        if column_units is None
        else [one, common_unit_lengths(column_units, trials.spread)]
    )
    lengths = ways[trials.best([trials.kernel(names[0], way, 0) for way in ways])]
    powers = {
        candidate: trials.search(candidate, lengths, POLICY.afar) for candidate in names
    }
    best = names[
        trials.best(
            [
                trials.kernel(candidate, lengths, powers[candidate])
                for candidate in names
            ]
        )
    ]
    if not quick and source.n_rows >= POLICY.rounds[1][0]:
        n_rows, most = POLICY.rounds[1]
        trials = KernelScores(
            source, n_rows, min(n_components, most), alphas, seed, binned, budget
        )
        powers[best] = trials.search(best, lengths, [powers[best]])
    return trials.kernel(best, lengths, powers[best])


def kernel_at(name: str, lengths: NDArray, spread: NDArray, power: float) -> Stationary:
    """Kernel of columns divided by `lengths`, with a lengthscale of 1.5^power times
    their spread.
    """
    spread = spread / lengths
    unit = binary_unit(spread.max())
    size = (
        spread.sum() / 2 if name in SEPARABLE else unit * np.linalg.norm(spread / unit)
    )
    scale = float(size) * POLICY.step**power
    return NAMED[name](
        scale * lengths if np.ptp(lengths) else scale * float(lengths[0])
    )


def common_unit_lengths(column_units: NDArray, spread: NDArray) -> NDArray:
    """Relative lengthscales that keep the common unit of the encoded columns.

    Columns of less than 1e-38 of the largest deviation of those that vary count as if
    they had that much, which is nothing. Those that do not vary in the rows at hand may
    in others, and are of no larger deviation than these.
    """
    largest = column_units[spread > 0].max()
    nothing = np.finfo(np.float32).tiny
    return 1 / np.maximum(np.fmin(column_units, largest) / largest, nothing)


# Of a column that is no constant: frequencies over it are finite
LEAST_DEVIATION = 1e-300


def deviations(X: Any, weight: NDArray) -> NDArray:
    """Weighted standard deviations of the columns, shape (d,)."""
    share = weight / weight.sum()
    sizes = abs(X).max(axis=0)
    unit = binary_unit(as_dense(sizes).ravel().astype(np.float64))
    if sp.issparse(X):
        scaled = X @ sp.diags_array(1 / unit)
        column_deviations = unit * np.sqrt(
            np.maximum(share @ scaled.power(2) - (share @ scaled) ** 2, 0.0)
        )
    else:
        scaled = X / unit
        column_deviations = unit * np.sqrt(share @ np.square(scaled - share @ scaled))
    return np.where(column_deviations > LEAST_DEVIATION, column_deviations, 0.0)
