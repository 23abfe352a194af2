"""Rows unlike those of the fit: by their leverage in Fourier features, and by how many rows share their bins."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from bochner.data.hashes import row_hashes
from bochner.estimators.streamed_predictions import named_columns, predicted
from bochner.features.binning import BinningFeatures
from bochner.features.boundary import any_arrays
from bochner.features.distances import median, median_distance, pair_distances, paired_rows
from bochner.features.fourier import FourierFeatures
from bochner.kernels import Gaussian, Laplacian
from bochner.solvers.posterior import posterior_of
from bochner.sources.dask_map import MethodCall
from bochner.sources.opening import is_streamed
from bochner.unsupervised.base import Opened, RowModel
from bochner.unsupervised.counts import count_rows
from bochner.unsupervised.leverages import LEAST_LEFT, Leverage
from bochner.unsupervised.tails import log_tail, tail_table

DOUBLE_ROWS = 4096
FINEST, NARROW = 0.4, 4  # lengthscale of bins over the median distance; how much finer ones are looked at for that
MEETING = 0.0015  # share of pairs that share a bin of these, at least
HALF = 0.1  # rows of a bin that is half as familiar as one of very many rows
REFERENCE_ROWS = 16384  # among which a row's place is found


class NoveltyDetector(OutlierMixin, RowModel):
    """Tell rows that are unlike those of the fit, in two passes over any number of rows.

    Two measures of suspicion are taken of a row x with Fourier features z(x), m their mean and C their covariance:

    - its leverage (z - m)'(C + ridge I)^-1 (z - m), the inverse of the Christoffel function, or the posterior variance
      of a Gaussian process: it is large where the rows of the fit would not tell what a function is;
    - how unfamiliar its bins are: minus the mean over random grids of count / (count + 0.1), count the rows of the fit
      that share the row's bin. One such row is nearly all that it takes, so that this tells where rows have been, not
      how many: rows in thin but ordinary places are no novelty.

    Each becomes the share of the rows of the fit that are at least as suspicious when they are left out themselves; its
    logarithm goes on as a straight line beyond the most suspicious one. The score is the smaller of the two logarithms:
    what either measure suspects is suspicious.

    Parameters
    ----------
    contamination : "auto" or float, default="auto"
        Share of the rows of the fit that `predict` sets apart, above 0 and at most one half. Up to 16,384 rows are
        known again and scored as if left out, so that new rows like them are set apart as often. With "auto" the rows
        of the fit are taken as normal, and `false_alarms` is the share of new rows like them that is set apart.
    false_alarms : float, default=0.02
        Above 0 and at most one half, for contamination="auto". The rows of the fit stand for new ones, each scored as
        if it had been left out.
    n_components : int, default=1000
        Number D of Fourier features.
    n_grids : int, default=200
        Number P of grids of bins.
    scale : float, default=1.0
        Factor on the lengthscales, which are chosen by the distances of pairs of rows.
    ridge : float, default=1e-8
        Over the features' total variance about 0, which is 1.
    standardize : bool or "auto", default="auto"
        Whether columns of numbers get unit variance; "auto" unless all have one unit, as pixels have.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        Show progress on a terminal where positive.

    Attributes
    ----------
    offset_ : float
        Score below which `predict` tells a row apart.
    features_ : FourierFeatures
    bins_ : BinningFeatures
    leverage_ : Leverage
    familiarity_ : array of shape (number of bins, 1)
        count / (count + 0.1) of each bin.
    leverage_table_, bin_table_ : arrays of shape (m, 2)
        Suspicion, and the logarithm of the share of the rows that are at least as suspicious.
    known_ : array of shape (n,) or None
        Hashes of the rows of the fit, ascending, where `contamination` is a number and these are at most 16,384.
    known_scores_ : array of shape (n,) or None
        Their scores, each as if the row had been left out.
    encoder_ : TableEncoder
    n_features_in_ : int

    Raises
    ------
    ValueError
        Where `contamination`, `false_alarms`, `scale` or `ridge` are out of their range, or rows cannot be encoded.

    References
    ----------
    Lasserre and Pauwels, "The Empirical Christoffel Function in Statistics and Machine Learning", 2019. Askari, Yang
    and El Ghaoui, "Kernel-based Outlier Detection using the Inverse Christoffel Function", arXiv:1806.06775. Sathe and
    Aggarwal, "Subspace Histograms for Outlier Detection in Linear Time", 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import NoveltyDetector
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(0, 2 * np.pi, 2000)
    >>> ring = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.05 * rng.standard_normal((2000, 2))
    >>> detector = NoveltyDetector(random_state=0).fit(ring)
    >>> detector.predict([[1.0, 0.0], [0.0, 0.0], [3.0, 3.0]]).tolist()
    [1, -1, -1]
    """

    learned = "offset_"

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
        X : array, sparse matrix or data frame of shape (n, d), or what `open_source` opens
            Files, folders and collections are read in three passes: a look, the features, the bins.
        y : ignored
        sample_weight : array of shape (n,), or str, optional
            A weight of w counts as w equal rows, up to the noise of the pairs of rows that choose the lengthscales; a
            name is that of a column.

        Returns
        -------
        self
        """
        share = self._checked_share()
        self._begin()
        seed = self._seed()
        rows = self._open(X, sample_weight, seed, np.float64)
        self._double = rows.n_rows <= DOUBLE_ROWS
        reference = rows.sample.sample(REFERENCE_ROWS, np.random.default_rng(seed))
        sample, _, weight = reference.whole()
        sample = sample.astype(self._dtype)
        self._draw_maps(rows, seed)
        self.leverage_ = Leverage.of(posterior_of(*self._moments(rows)), self._dtype)
        counts = count_rows(self._design(rows, self.bins_, self._dtype))
        self.familiarity_ = familiarity(counts).astype(self._dtype)[:, np.newaxis]
        left = self._left_out(sample, weight, counts)
        self.leverage_table_, self.bin_table_ = (tail_table(own, weight) for own in left)
        self.known_ = self.known_scores_ = None
        known = share is None or rows.n_rows <= REFERENCE_ROWS
        scores = self._combined(*left) if known else self.score_encoded(sample)
        if known and share is not None:
            self.known_, first = np.unique(row_hashes(sample), return_index=True)
            self.known_scores_ = scores[first]
        self.offset_ = share_below(scores, weight, float(self.false_alarms) if share is None else share)
        return self

    @property
    def _dtype(self) -> type[np.floating]:
        """Precision of the features: double where there were few rows, of which each moves the leverages much."""
        return np.float64 if self._double else np.float32

    def _checked_share(self) -> float | None:
        """The contamination, None for "auto"; all parameters are checked."""
        for name in ("scale", "ridge"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not 0 < float(value) < np.inf:
                raise ValueError(f"{name} must be a positive number, got {value!r}.")
        if not is_share(self.false_alarms):
            raise ValueError(f"false_alarms must be above 0 and at most 0.5, got {self.false_alarms!r}.")
        share = self.contamination
        if isinstance(share, str) and share == "auto":
            return None
        if not is_share(share):
            raise ValueError(f'contamination must be "auto", or above 0 and at most 0.5, got {share!r}.')
        return float(share)

    def _draw_maps(self, rows: Opened, seed: int) -> None:
        """Draw both maps, with lengthscales by the distances of pairs."""
        few = paired_rows(rows.sample, seed)
        smooth = Gaussian(float(self.scale) * median_distance(*few))
        rough = Laplacian(float(self.scale) * bin_lengthscale(*few))
        features = FourierFeatures(smooth, self.n_components, random_state=seed)
        self.features_: FourierFeatures = self._drawn(features, rows, seed)
        bins = BinningFeatures(rough, self.n_grids, random_state=seed)
        self.bins_: BinningFeatures = self._drawn(bins, rows, seed)

    def _moments(self, rows: Opened) -> tuple[Any, float]:
        """Moments of the Fourier features, and the ridge term on them."""
        moments = self._design(rows, self.features_, self._dtype).moments()
        return moments, float(self.ridge) * moments.weight

    def _left_out(self, sample: Any, weight: NDArray, counts: NDArray) -> tuple[NDArray, NDArray]:
        """Both suspicions of rows of the fit, each by all others; of a row of larger weight one row is left out."""
        one = np.minimum(weight, 1.0)
        forms = self.leverage_.forms(self.features_, sample)
        left = np.maximum(1 - one * forms, LEAST_LEFT)
        stored, total = self.bins_.store(sample), np.zeros(len(weight))
        for own, first in zip(stored.ids, stored.offsets[:-1], strict=True):
            total += familiarity(np.maximum(counts[first + own] - one, 0.0))
        return np.log(forms / left), -total / len(stored.ids)

    def _combined(self, leverage: NDArray, strangeness: NDArray) -> NDArray[np.float64]:
        """Scores of rows by both suspicions."""
        return np.minimum(log_tail(self.leverage_table_, leverage), log_tail(self.bin_table_, strangeness))

    def score_encoded(self, rows: Any) -> NDArray[np.float64]:
        """Scores of rows that `encoder_` has encoded, shape (n,), as `score_samples`."""
        rows = rows.astype(self._dtype, copy=False)
        n_grids = len(self.bins_.values_)
        familiar = self.bins_.dot(rows, self.familiarity_)[:, 0].astype(np.float64) / np.sqrt(n_grids)
        scores = self._combined(np.log(self.leverage_.forms(self.features_, rows)), -familiar)
        known, left = (getattr(self, name, None) for name in ("known_", "known_scores_"))  # which earlier files lack
        if known is not None and left is not None:
            hashes = row_hashes(rows)
            place = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
            scores = np.where(known[place] == hashes, left[place], scores)
        return scores

    @any_arrays
    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """How normal rows are: the logarithm of the share of rows that are as suspicious, the smaller of the two.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or what `open_source` opens

        Returns
        -------
        array of shape (n,)
            Near 0 for the most normal rows; -4.6 where a hundredth of the rows are as suspicious.
        """
        check_is_fitted(self)
        if is_streamed(X):
            names = getattr(self, "feature_names_in_", None)
            return predicted(X, MethodCall.of(self, "score_samples"), _columns, names, None)
        return self._mapped(X, self.score_encoded, self._dtype)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores less `offset_`, shape (n,), negative for rows that are told apart."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for rows that are told apart, 1 for the others, shape (n,)."""
        found = self.decision_function(X)
        return 1 - 2 * (found < 0).astype(int)


def _columns(found: NDArray) -> dict[str, NDArray]:
    return named_columns(None, {"score": found})


def bin_lengthscale(X: Any, weight: NDArray) -> float:
    """Lengthscale of the bins: fine, but such that with a quarter of it one in 700 pairs of rows would share a bin.

    In many columns all pairs are about as far from one another, and finer bins would hold one row each.
    """
    distances, shares = pair_distances(X, weight, 1)
    length = max(FINEST * median(distances, shares), np.finfo(np.float64).tiny)  # from which it can grow
    while len(distances) and shares @ np.exp(-NARROW * distances / length) < MEETING:
        length *= 2**0.25
    return length


def familiarity(counts: NDArray) -> NDArray[np.float64]:
    """How familiar bins of so many rows are: 0 where there are none, near 1 from the first few on."""
    return counts / (counts + HALF)


def is_share(value: Any) -> bool:
    """Whether a parameter is a number above 0 and at most one half."""
    return isinstance(value, Real) and 0 < float(value) <= 0.5


def share_below(scores: NDArray, weight: NDArray, share: float) -> float:
    """A number below which scores have such a share of the weight: in the middle of the two about it."""
    order = np.argsort(scores, kind="stable")
    order = order[weight[order] > 0]
    below = np.cumsum(weight[order]) <= share * weight.sum() * (1 + 1e-9)
    k = int(np.count_nonzero(below))
    return float(scores[order[[max(k - 1, 0), min(k, len(order) - 1)]]].mean())
