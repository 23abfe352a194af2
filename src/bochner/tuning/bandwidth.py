"""The kernel and its lengthscale from the data, where only a name is given.

A kernel's shape matters less than its lengthscale, which is tried in steps of 1.5 (at first of 1.5^4) around the spread
of the columns: the root of their summed variances, the distance scale of a Euclidean kernel, or half of their summed
deviations, that of a kernel of the L1 distance. Each trial is a small ridge regression on a sample of the rows, scored
by its exact leave-one-out error at the best alpha. Where all columns are numbers, one trial asks whether they had
better keep their common unit, as the pixels of images should, than be scaled to unit variance each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.sources import ArraySource
from bochner.design import Design
from bochner.engines.local import in_threads
from bochner.features import BinningFeatures, FourierFeatures
from bochner.kernels import Cauchy, Gaussian, Hat, Laplacian, Matern, RationalQuadratic, SmoothBins, Stationary
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.ridge import choose_alpha, factorise, leave_one_out
from bochner.tuning.held_out import HeldOut, candidates, choose_penalty
from bochner.tuning.size import choose_n_components

NAMED: dict[str, Callable[..., Stationary]] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "cauchy": Cauchy,
    "matern12": partial(Matern, nu=0.5),
    "matern32": partial(Matern, nu=1.5),
    "matern52": partial(Matern, nu=2.5),
    "rationalquadratic": RationalQuadratic,
    "hat": Hat,
    "smoothbins": SmoothBins,
}
AUTO = ("gaussian", "laplacian")
SEPARABLE = ("laplacian", "hat")
TRIAL_GRIDS = 32
STEP = 1.5
AFAR, FARTHEST = (0, -4, 4, -8), 12
FEWEST_ROWS = 5
LEAST_SHARE = 1e-100
ROUNDS = ((4096, 512), (16384, 1024))  # rows and features of the trials
QUICK, QUICKEST, FEW_ROWS = (2048, 256), (1024, 128), 2000


class _KernelTrials:
    """Leave-one-out scores of kernels on a sample of encoded rows, each computed once.

    Where alphas are given, they are scaled as the sum of squares is by the sampling, so that they mean the same.
    """

    def __init__(
        self, source: ArraySource, n_rows: int, n_components: int, alphas: NDArray | None, seed: int, binned: bool
    ) -> None:
        self.binned = binned
        sample = source.sample(n_rows, np.random.default_rng(seed))
        self.alphas = alphas if alphas is None else alphas * sample.n_rows / max(source.n_counted, 1)
        sample = sample.distinct()
        X, _, weight = sample.whole()
        self.source = sample.encoded(np.float64)
        self.n_components, self.seed, self.spread = n_components, seed, _deviations(X, weight)
        self.scores: dict[Stationary, float] = {}

    def best(self, kernels: Sequence[Stationary]) -> int:
        """Index of the kernel with the least score, the first of several."""
        fresh = [kernel for kernel in dict.fromkeys(kernels) if kernel not in self.scores]
        self.scores |= zip(fresh, in_threads(self._score, fresh), strict=True)
        return min(range(len(kernels)), key=lambda i: self.scores[kernels[i]])

    def _score(self, kernel: Stationary) -> float:
        """Leave-one-out error at the best alpha; for bins the error on rows that are held out."""
        if self.binned:
            return self._held_out_score(kernel)
        features = FourierFeatures(kernel, self.n_components, random_state=self.seed).draw(len(self.spread))
        design = Design(self.source, features, np.float64)
        factor = factorise(design, 2)
        score = leave_one_out(factor, lambda: design)
        if self.alphas is None:
            return float(choose_alpha(factor, score)[2].min())
        return float(score(self.alphas).min())

    def _held_out_score(self, kernel: Stationary) -> float:
        features = BinningFeatures(kernel, TRIAL_GRIDS, random_state=self.seed).draw(len(self.spread))
        ridge = IterativeRidge(Design(self.source, features, np.float32), self.seed)
        held = HeldOut(ridge, self.seed)
        if not held.folds:
            return np.inf
        return float(choose_penalty(held, candidates(ridge) if self.alphas is None else self.alphas)[1].min())

    def kernel(self, name: str, units: NDArray, power: int) -> Stationary:
        """Kernel of the columns over `units`, its lengthscale STEP^power times their spread."""
        spread = self.spread / units
        base = spread.sum() / 2 if name in SEPARABLE else np.linalg.norm(spread)
        scale = float(base) * STEP**power
        return NAMED[name](scale * units if np.ptp(units) else scale * float(units[0]))

    def search(self, name: str, units: NDArray) -> int:
        """Look far around first, for short waves look like noise from afar; then walk from the best."""
        return self.descend(name, units, AFAR[self.best([self.kernel(name, units, power) for power in AFAR])])

    def descend(self, name: str, units: NDArray, power: int) -> int:
        """Walk from a power to one whose neighbours are no better."""
        while True:
            around = (power, power + 1, power - 1)
            lowest = around[self.best([self.kernel(name, units, p) for p in around])]
            if lowest == power or abs(power) > FARTHEST:
                return power
            power = lowest


def choose_kernel(
    source: ArraySource,
    name: str,
    scales: NDArray | None,
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
        A key of `NAMED`, or "auto" for the better of Gaussian and Laplacian.
    scales : array of shape (d,) or None
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
    n_rows, most = (QUICK if source.n_rows >= FEW_ROWS else QUICKEST) if quick else ROUNDS[0]
    trials = _KernelTrials(source, n_rows, min(n_components, most), alphas, seed, binned)
    one = np.ones(len(trials.spread))
    if trials.source.n_rows < FEWEST_ROWS or not trials.spread.any():
        return trials.kernel(names[0], one, 0) if trials.spread.any() else NAMED[names[0]]()
    ways = [one] if scales is None else [one, _common_unit(scales, trials.spread)]
    units = ways[trials.best([trials.kernel(names[0], way, 0) for way in ways])]
    powers = {candidate: trials.search(candidate, units) for candidate in names}
    best = names[trials.best([trials.kernel(candidate, units, powers[candidate]) for candidate in names])]
    if not quick and source.n_rows >= ROUNDS[1][0]:
        trials = _KernelTrials(source, ROUNDS[1][0], min(n_components, ROUNDS[1][1]), alphas, seed, binned)
        powers[best] = trials.descend(best, units, powers[best])
    return trials.kernel(best, units, powers[best])


def _common_unit(scales: NDArray, spread: NDArray) -> NDArray:
    """Lengthscales, up to a factor, of encoded columns that are to keep their common unit; 1 for constant ones.

    Columns of less than 1e-100 of the largest deviation count as if they had that much, which is nothing.
    """
    units, varies = np.ones(len(scales)), spread > 0
    own = scales[varies]
    units[varies] = 1 / np.maximum(own / own.max(), LEAST_SHARE)
    return units


def _deviations(X: Any, weight: NDArray) -> NDArray:
    """Weighted standard deviations of the columns, shape (d,)."""
    share = weight / weight.sum()
    mean = share @ X
    square = share @ (X.power(2) if sp.issparse(X) else np.square(X, dtype=np.float64))
    return np.sqrt(np.maximum(square - mean**2, 0.0))
