"""The kernel and its lengthscale from the data, where only a name is given.

A kernel's shape matters less than its lengthscale, which is tried in steps of 1.5 (at first of 1.5^4) around the spread
of the columns: the root of their summed variances, the distance scale of a Euclidean kernel, or half of their summed
deviations, that of a kernel of the L1 distance. Each trial is a small ridge regression on a sample of the rows, scored
by its exact leave-one-out error at the best alpha. Where all columns are numbers, one trial asks whether they had
better keep their common unit, as the pixels of images should, than be scaled to unit variance each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.sources import ArraySource
from bochner.design import Design
from bochner.engines.local import in_threads
from bochner.features import BinningFeatures, FourierFeatures
from bochner.kernels import Stationary
from bochner.kernels.named import NAMED, SEPARABLE
from bochner.solvers.factors import factorise
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.leave_one_out import leave_one_out
from bochner.solvers.path import choose_alpha
from bochner.tuning.held_out import HeldOut, alphas_to_try, choose_penalty
from bochner.tuning.policy import POLICY
from bochner.tuning.search import walk_downhill
from bochner.tuning.size import choose_n_components

AUTO = ("gaussian", "laplacian")


class KernelScores:
    """Scores of kernels on a sample of encoded rows, each computed once: leave-one-out, or of rows held out for bins.

    Where alphas are given, they are scaled as the sum of squares is by the sampling, so that they mean the same.
    """

    def __init__(
        self, source: ArraySource, n_rows: int, n_components: int, alphas: NDArray | None, seed: int, binned: bool
    ) -> None:
        self.score = self._held_out if binned else self._left_out
        sample = source.sample(n_rows, np.random.default_rng(seed))
        self.alphas = alphas if alphas is None else alphas * sample.n_rows / max(source.n_counted, 1)
        sample = sample.distinct()
        X, _, weight = sample.whole()
        self.source = sample.encoded(np.float64)
        self.n_components, self.seed, self.spread = n_components, seed, deviations(X, weight)
        self.scores: dict[Stationary, float] = {}

    def best(self, kernels: Sequence[Stationary]) -> int:
        """Index of the kernel with the least score, the first of several."""
        fresh = [kernel for kernel in dict.fromkeys(kernels) if kernel not in self.scores]
        self.scores |= zip(fresh, in_threads(self.score, fresh), strict=True)
        return min(range(len(kernels)), key=lambda i: self.scores[kernels[i]])

    def _left_out(self, kernel: Stationary) -> float:
        """Leave-one-out error of Fourier features at the best alpha."""
        features = FourierFeatures(kernel, self.n_components, random_state=self.seed).draw(len(self.spread))
        design = Design(self.source, features, np.float64)
        factor = factorise(design, 2)
        score = leave_one_out(factor, lambda: design)
        if self.alphas is None:
            return float(choose_alpha(factor, score)[2].min())
        return float(score(self.alphas).min())

    def _held_out(self, kernel: Stationary) -> float:
        """Error of bins on rows that are held out, at the best alpha."""
        features = BinningFeatures(kernel, POLICY.kernel_grids, random_state=self.seed).draw(len(self.spread))
        ridge = IterativeRidge(Design(self.source, features, np.float32), self.seed)
        held_out = HeldOut(ridge, self.seed)
        if not held_out.folds:
            return np.inf
        return float(choose_penalty(held_out, alphas_to_try(ridge) if self.alphas is None else self.alphas)[1].min())

    def kernel(self, name: str, lengths: NDArray, power: float) -> Stationary:
        """Kernel of the columns over `lengths`, its lengthscale 1.5^power times their spread."""
        spread = self.spread / lengths
        base = spread.sum() / 2 if name in SEPARABLE else np.linalg.norm(spread)
        scale = float(base) * POLICY.step**power
        return NAMED[name](scale * lengths if np.ptp(lengths) else scale * float(lengths[0]))

    def search(self, name: str, lengths: NDArray, powers: Sequence[float]) -> float:
        """The power to which the walk from the best of some leads."""
        start = powers[self.best([self.kernel(name, lengths, power) for power in powers])]
        self.best([self.kernel(name, lengths, start + way) for way in (0, 1, -1)])  # side by side

        def loss(power: float) -> float:
            kernel = self.kernel(name, lengths, power)
            self.best([kernel])
            return self.scores[kernel]

        return walk_downhill(loss, start, 1, POLICY.farthest)


def choose_kernel(
    source: ArraySource,
    name: str,
    column_units: NDArray | None,
    alphas: NDArray | None,
    seed: int,
    binned: bool = False,
    quick: bool = False,
) -> Stationary:
    """Choose the lengthscale of a named kernel, or the kernel too.

    Parameters
    ----------
    source : ArraySource
        Encoded on the way out.
    name : str
        A key of `bochner.kernels.named.NAMED`, or "auto" for the better of Gaussian and Laplacian.
    column_units : array of shape (d,) or None
        What one unit of each encoded column is in the unit of the input; None where that has no meaning.
    alphas : array of shape (A,) or None
        The ridge terms allowed; None where they are chosen too.
    seed : int
    binned : bool, default=False
        Whether the kernel is for random binning features, by which it is then judged; "auto" is Laplacian.
    quick : bool, default=False
        Whether a look at fewer rows with fewer features is enough.
    """
    names = (name,) if name != "auto" else AUTO[1:] if binned else AUTO
    for candidate in names if binned else ():
        NAMED[candidate]().pitch_measure()  # refused where there is none
    n_components = choose_n_components(source.n_rows, source.weights)
    n_rows, most = POLICY.quick_round if quick else POLICY.rounds[0]
    trials = KernelScores(source, n_rows, min(n_components, most), alphas, seed, binned)
    one = np.ones(len(trials.spread))
    if trials.source.n_rows < POLICY.fewest_distinct or not trials.spread.any():
        return trials.kernel(names[0], one, 0) if trials.spread.any() else NAMED[names[0]]()
    ways = [one] if column_units is None else [one, common_unit_lengths(column_units, trials.spread)]
    lengths = ways[trials.best([trials.kernel(names[0], way, 0) for way in ways])]
    powers = {candidate: trials.search(candidate, lengths, POLICY.afar) for candidate in names}
    best = names[trials.best([trials.kernel(candidate, lengths, powers[candidate]) for candidate in names])]
    if not quick and source.n_rows >= POLICY.rounds[1][0]:
        n_rows, most = POLICY.rounds[1]
        trials = KernelScores(source, n_rows, min(n_components, most), alphas, seed, binned)
        powers[best] = trials.search(best, lengths, [powers[best]])
    return trials.kernel(best, lengths, powers[best])


def common_unit_lengths(column_units: NDArray, spread: NDArray) -> NDArray:
    """Lengthscales, up to a factor, of encoded columns that are to keep their common unit.

    Columns of less than 1e-100 of the largest deviation of those that vary count as if they had that much, which is
    nothing. Those that do not vary in the rows at hand may in others, and are of no larger deviation than these.
    """
    largest = column_units[spread > 0].max()
    return 1 / np.maximum(np.fmin(column_units, largest) / largest, POLICY.least_share)


def deviations(X: Any, weight: NDArray) -> NDArray:
    """Weighted standard deviations of the columns, shape (d,)."""
    share = weight / weight.sum()
    mean = share @ X
    square = share @ (X.power(2) if sp.issparse(X) else np.square(X, dtype=np.float64))
    return np.sqrt(np.maximum(square - mean**2, 0.0))
