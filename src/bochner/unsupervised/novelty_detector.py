"""Novelty detection: rows unlike the training rows, by the leverages of Fourier
features and by empty bins.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import OutlierMixin

from bochner.arrays import Floats
from bochner.blocks import BLOCK_ROWS, LARGE_SAMPLE_ROWS
from bochner.data.hashes import groups_of_copies, row_hashes
from bochner.design.reductions import Blocks
from bochner.devices.conversion import any_arrays
from bochner.engines.algebra import binary_unit
from bochner.engines.local import in_threads
from bochner.features.base import Rows
from bochner.features.binning import BinningFeatures
from bochner.features.distances import (
    median,
    median_distance,
    pair_distances,
    paired_rows,
    weighted_quantile,
)
from bochner.features.fourier import FourierFeatures
from bochner.kernels import Gaussian, Laplacian
from bochner.solvers.posterior_variance import LEAST_LEFT, LinearPosterior, posterior_of
from bochner.sources.rowwise import rowwise
from bochner.unsupervised.base import RowModel

DIGITS = 1e-6  # of the range, to which values are rounded
ROUNDING = 1e-12  # of the greatest value, below which values differ by rounding alone
TAIL = 0.02  # share of the rows whose excess tells how fast the tail falls
# Lengthscale of bins over the median distance; how much finer ones are looked at for
# that
FINEST, NARROW = 0.4, 4
MEETING = 0.0015  # share of pairs that share a bin of the finer ones, at least
HALF = 0.1  # rows of a bin that is half as familiar as one of very many rows
# Share of the kernel's lengthscale to which rows are rounded that are to be recognised:
# far above the rounding of single precision, far below the distances of rows
RECOGNISED = 2.0**-11


class NoveltyDetector(OutlierMixin, RowModel):
    """Detect rows that are unlike the training rows, in two passes over any number of
    rows.

    Two measures of novelty are computed for a row x with Fourier features z(x), m their
    mean and C their covariance:

    - its leverage (z - m)'(C + ridge I)^-1 (z - m), the inverse of the Christoffel
      function, or the posterior variance of a Gaussian process: it is large far from
      the training rows, where predictions are uncertain;
    - how unfamiliar its bins are: minus the mean over random grids of count / (count +
      0.1), where count is the number of training rows in the row's bin. A single
      training row makes a bin familiar, so sparse but ordinary regions are not flagged.

    Each measure becomes the share of training rows that are at least as novel when they
    are left out themselves. Beyond the most novel one its logarithm is extrapolated by
    a straight line. The score is the smaller of the two logarithms, so a row is novel
    if either measure says so.

    Parameters
    ----------
    contamination : "auto" or float, default="auto"
        Share of the training rows that `predict` reports as novel, above 0 and at most
        0.5. "auto" takes all training rows as normal and sets the threshold by
        `false_alarms`. Up to 16,384 training rows are recognised and scored as if they
        had been left out, so that new rows like them are reported as often.
    false_alarms : float, default=0.02
        Share of new rows like the training rows that is reported as novel, above 0 and
        at most 0.5, for contamination="auto".
    n_components : int, default=1000
        Number D of Fourier features.
    n_grids : int, default=200
        Number P of grids of bins.
    scale : float, default=1.0
        Factor on the lengthscales, which are set by the distances between pairs of
        rows.
    ridge : float, default=1e-8
        Ridge term of the covariance, relative to the total variance of the features
        about 0, which is 1.
    standardize : bool or "auto", default="auto"
        Whether to scale columns of numbers to unit variance. "auto" does so unless all
        columns share a unit, as pixels do.
    random_state : int, RandomState or None, default=None
        Seed of the features, the grids and the samples.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    offset_ : float
        Score below which `predict` reports a row as novel.
    features_ : FourierFeatures
    bins_ : BinningFeatures
    leverage_ : LinearPosterior
    familiarity_ : array of shape (number of bins, 1)
        count / (count + 0.1) of each bin.
    leverage_table_, bin_table_ : arrays of shape (m, 2)
        Values of each measure, and the logarithm of the share of the training rows that
        are at least as novel.
    known_ : array of shape (n,) or None
        Hashes of the training rows, rounded to a 2,000th of a lengthscale, ascending,
        if `contamination` is a number and there are at most 16,384 rows.
    known_scores_ : array of shape (n,) or None
        Their scores, each as if the row had been left out.
    encoder_ : TableEncoder
    n_features_in_ : int

    Raises
    ------
    ValueError
        If `contamination`, `false_alarms`, `scale` or `ridge` is out of range, or rows
        cannot be encoded.

    References
    ----------
    Lasserre and Pauwels, "The Empirical Christoffel Function in Statistics and Machine
    Learning", 2019. Askari, Yang and El Ghaoui, "Kernel-based Outlier Detection using
    the Inverse Christoffel Function", arXiv:1806.06775. Sathe and Aggarwal, "Subspace
    Histograms for Outlier Detection in Linear Time", 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import NoveltyDetector
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(0, 2 * np.pi, 2000)
    >>> ring = np.column_stack(
    ...     [np.cos(angle), np.sin(angle)]
    ... ) + 0.05 * rng.standard_normal((2000, 2))
    >>> detector = NoveltyDetector(random_state=0).fit(ring)
    >>> detector.predict([[1.0, 0.0], [0.0, 0.0], [3.0, 3.0]]).tolist()
    [1, -1, -1]
    """

    learned = "offset_"
    keeps_far = True
    _allowed: ClassVar = {
        "contamination": ("auto", "above 0 and at most 0.5"),
        "false_alarms": ("above 0 and at most 0.5",),
        "scale": ("a positive number",),
        "ridge": ("a positive number",),
    }

    def __init__(
        self,
        contamination: float | str = "auto",
        *,
        false_alarms: float = 0.02,
        n_components: int = 1000,
        n_grids: int = 200,
        scale: float = 1.0,
        ridge: float = 1e-8,
        standardize: bool | str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.contamination = contamination
        self.false_alarms = false_alarms
        self.n_components = n_components
        self.n_grids = n_grids
        self.scale = scale
        self.ridge = ridge
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose

    @any_arrays
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> NoveltyDetector:
        """Learn what rows are like.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or a source
            Files, folders and collections are read in three passes: for statistics, for
            the features, and for the bins.
        y : ignored
        sample_weight : array of shape (n,), or str, optional
            A weight of w counts as w equal rows, up to the noise of the pairs of rows
            that choose the lengthscales; a name is that of a column.

        Returns
        -------
        self
        """
        self._begin()
        seed = self._seed()
        rows = self._open(X, sample_weight, seed, np.float64)
        # Of few rows each moves the leverages much
        dtype = np.float64 if rows.n_rows <= BLOCK_ROWS else np.float32
        reference = rows.sample.sample(LARGE_SAMPLE_ROWS, np.random.default_rng(seed))
        sample, _, weight = reference.whole()
        sample = sample.astype(dtype)
        # Both maps, with lengthscales by the distances of pairs
        few = paired_rows(rows.sample, seed)
        smooth = Gaussian(float(self.scale) * median_distance(*few))
        rough = Laplacian(float(self.scale) * bin_lengthscale(*few))
        features = FourierFeatures(smooth, self.n_components, random_state=seed)
        self.features_: FourierFeatures = rows.drawn(features, seed)
        bins = BinningFeatures(rough, self.n_grids, random_state=seed)
        self.bins_: BinningFeatures = rows.drawn(bins, seed)
        moments = rows.design(self.features_, dtype).moments()
        posterior = posterior_of(moments, float(self.ridge) * moments.weight)
        self.leverage_ = LinearPosterior(
            posterior.mean.astype(dtype),
            posterior.root.astype(dtype),
            posterior.weight,
        )
        # The bins of all rows are numbered, and the rows' weight in each is counted
        design = rows.design(self.bins_, dtype)
        by_grid: list[NDArray] = [np.zeros(0) for _ in self.bins_.values_]

        def add(ids: NDArray, weight: NDArray, p: int) -> None:
            bin_weights: NDArray = np.bincount(ids[p], weight, len(by_grid[p]))
            bin_weights[: len(by_grid[p])] += by_grid[p]
            by_grid[p] = bin_weights

        for X, _, block_weight in Blocks(
            design.source, design.block_rows, design.dtype, design.advance
        ):
            stored = self.bins_.fit_store(X)
            if stored.order is not None:
                block_weight = block_weight[stored.order]
            in_threads(partial(add, stored.ids, block_weight), range(len(by_grid)))
        self.bins_.finalize()
        counts = np.concatenate(by_grid)
        self.familiarity_ = familiarity(counts).astype(dtype)[:, np.newaxis]
        # Both suspicions of the rows of the sample, each by all other rows. All copies
        # of a row would make it look familiar; of levels that come again one row is
        # left out, and none where all rows are equal
        left_out = np.minimum(weight, 1.0)
        group = groups_of_copies(sample)
        if group is not None and not group.any():
            left_out = np.zeros(len(weight))
        elif group is not None:
            copies = np.bincount(group, weight)[group] - weight
            left_out = weight + moments.weight / weight.sum() * copies
        forms = self._leverages(sample)
        remainder = np.maximum(1 - left_out * forms, LEAST_LEFT)
        stored = self.bins_.store(sample)
        total = np.zeros(len(left_out))
        for bin_numbers, start in zip(stored.ids, stored.offsets[:-1], strict=True):
            others = counts[start + bin_numbers] - left_out
            total += familiarity(np.maximum(others, 0.0))
        # Single precision drops what rounding of leverages near 1 leaves to chance
        leverage = np.log(forms / remainder).astype(np.float32)
        suspicions = leverage.astype(np.float64), -total / len(stored.ids)
        self.leverage_table_, self.bin_table_ = (
            tail_table(suspicion, weight) for suspicion in suspicions
        )
        self.known_ = self.known_scores_ = None
        if isinstance(self.contamination, str):
            scores = self._combined(*suspicions)
            self.offset_ = alarm_level(scores, weight, float(self.false_alarms))
            return self
        if rows.n_rows > LARGE_SAMPLE_ROWS:
            scores = self.score_encoded(sample)
        else:
            scores = self._combined(*suspicions)
            hashes = self._rounded_hashes(sample)
            self.known_, first = np.unique(hashes, return_index=True)
            self.known_scores_ = scores[first]
        self.offset_ = weighted_quantile(scores, weight, float(self.contamination))
        return self

    def _rounded_hashes(self, rows: Rows) -> NDArray[np.uint64]:
        """Hashes of encoded rows, (n,), by which they are recognised, also in another
        precision or with some digits fewer.
        """
        kernel: Any = self.features_.kernel
        rounded: Any = rows * (1 / (RECOGNISED * float(kernel.lengthscale)))
        return row_hashes(rounded.rint() if issparse(rounded) else np.rint(rounded))

    def _leverages(self, rows: Rows) -> Floats:
        """Leverages of encoded rows over the weight of the fit, shape (n,)."""
        starts = range(0, rows.shape[0], BLOCK_ROWS)
        blocks = (self.features_.rows(rows[a : a + BLOCK_ROWS]) for a in starts)
        return np.concatenate([self.leverage_.forms(Z) for Z in blocks])

    def _combined(self, leverage: NDArray, strangeness: NDArray) -> Floats:
        """Scores of rows by both suspicions."""
        return np.minimum(
            log_tail(self.leverage_table_, leverage),
            log_tail(self.bin_table_, strangeness),
        )

    def score_encoded(self, rows: Any) -> Floats:
        """Scores of rows that `encoder_` has encoded, shape (n,), as
        `score_samples`.
        """
        rows = rows.astype(self.familiarity_.dtype, copy=False)
        familiar = self.bins_.dot(rows, self.familiarity_)[:, 0].astype(np.float64)
        familiar = familiar / np.sqrt(len(self.bins_.values_))
        forms = self._leverages(rows)
        scores = self._combined(np.log(forms), -familiar)
        if self.known_ is None or self.known_scores_ is None:
            return scores
        hashes = self._rounded_hashes(rows)
        place = np.searchsorted(self.known_, hashes)
        place = np.minimum(place, len(self.known_) - 1)
        is_known = self.known_[place] == hashes
        return np.where(is_known, self.known_scores_[place], scores)

    @rowwise("score")
    def score_samples(self, X: Any) -> Floats:
        """How normal rows are: the logarithm of the share of training rows that are as
        novel, the smaller of the two.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or a source

        Returns
        -------
        array of shape (n,)
            Near 0 for the most normal rows; -4.6 if a hundredth of the training rows
            are as novel.
        """
        return self._mapped(X, self.score_encoded, self.familiarity_.dtype)

    def decision_function(self, X: Any) -> Floats:
        """Scores less `offset_`, shape (n,), negative for novel rows."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for novel rows, 1 for the others, shape (n,)."""
        decisions = self.decision_function(X)
        return 1 - 2 * (decisions < 0).astype(int)


def bin_lengthscale(X: Any, weight: NDArray) -> float:
    """Lengthscale of the bins: fine, but such that with a quarter of it one in 700
    pairs of rows would share a bin.

    In many columns all pairs are about as far from one another, and finer bins would
    hold one row each.
    """
    distances, shares = pair_distances(X, weight, 1)
    # From a positive number it can grow
    length = max(FINEST * median(distances, shares), np.finfo(np.float64).tiny)
    # With which all pairs together are enough
    longest = NARROW * distances.max(initial=0.0) / -np.log(MEETING)
    while length < longest and shares @ np.exp(-NARROW * distances / length) < MEETING:
        length *= 2**0.25
    return length


def tail_table(values: NDArray, weight: NDArray) -> Floats:
    """Knots of the function log P(at least t), shape (m, 2): values t ascending, and
    the logarithms, falling.

    Equal values are one knot, at the middle of their ranks.

    Parameters
    ----------
    values : array of shape (n,)
    weight : array of shape (n,)
        A weight of w counts as w equal rows.
    """
    values = values[weight > 0]
    weight = weight[weight > 0]
    rounding = ROUNDING * np.abs(values).max()
    # A power of 2, which rounding of the values leaves as it is
    unit = binary_unit(max(DIGITS * np.ptp(values), rounding))
    knots, group = np.unique(-np.rint(values / unit) * unit, return_inverse=True)
    mass = np.bincount(group, weight)
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    return np.column_stack([-knots, np.log(middle)])[::-1].copy()


def alarm_level(scores: NDArray, weight: NDArray, share: float) -> float:
    """Score below which a share of new rows is expected, by those of training rows that
    were left out.

    Of n scores the least is above that of a new row once in n + 1 times. A smaller
    share lies as far below it as the tail of an exponential distribution goes.

    Parameters
    ----------
    scores, weight : arrays of shape (n,)
        A weight of w counts as w equal rows, where they are no fewer than there are.
    share : float
    """
    scores = scores[weight > 0]
    weight = weight[weight > 0]
    weight = weight * max(len(weight) / weight.sum(), 1.0)
    order = np.argsort(scores)
    last_rank = np.cumsum(weight[order])
    first_rank = last_rank - np.maximum(weight[order] - 1, 0)
    ranks = np.column_stack([first_rank, last_rank]).ravel()
    rank = share * (last_rank[-1] + 1)
    level = np.interp(rank, ranks, np.repeat(scores[order], 2))
    return float(level + min(np.log(rank / ranks[0]), 0.0))


def log_tail(table: NDArray, values: NDArray) -> Floats:
    """Log P(at least t) of some values, shape (n,), straight between the knots and
    beyond them.

    Beyond the greatest knot it falls as it did over the last 2 % of the rows, as an
    exponential tail would; below the least it rises on towards 0, so that no two values
    are equal.
    """
    t, log_share = table.T
    interpolated = np.interp(values, t, log_share)
    # Values that differ by rounding alone are equal
    over = np.maximum(values - t[-1] - DIGITS * abs(t[-1]), 0.0)
    under = np.maximum(t[0] - values, 0.0)
    if len(t) == 1:
        return interpolated - over - log_share[0] * under / (1 + under)
    start = min(np.searchsorted(-log_share, -np.log(TAIL)), len(t) - 2)
    slope = (log_share[-1] - log_share[start]) / (t[-1] - t[start])
    return interpolated + slope * over - log_share[0] * under / (t[-1] - t[0] + under)


def familiarity(counts: NDArray) -> Floats:
    """How familiar bins of `counts` rows are: 0 where there are none, near 1 from the
    first few on.
    """
    return counts / (counts + HALF)
