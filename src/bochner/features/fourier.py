"""Random Fourier features (Algorithm 1)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bochner.arrays import Floats
from bochner.data.table_input import as_dense
from bochner.devices.device import device_of
from bochner.engines.blas import single_threaded_blas
from bochner.features.base import DenseFeatureMap, Rows, random_generator
from bochner.features.device_features import current_device, features_there, on_device
from bochner.features.sampling import draw_by_leverage, draw_frequencies
from bochner.features.structured import SignedHadamard, cheaper, of_shapes
from bochner.kernels import Gaussian, Kernel
from bochner.kernels.base import check_count, check_kernel

# Bits of the fraction of a turn, of angles of very many turns
FRACTION_BITS = 3


class FourierFeatures(DenseFeatureMap):
    """Random Fourier features: z(x)'z(y) is an unbiased estimate of k(x, y).

    By Bochner's theorem a shift-invariant kernel with k(x, x) = v is v E cos(w'(x -
    y)), with w drawn from its spectral measure. With m frequencies, cos(a - b) = cos a
    cos b + sin a sin b gives

        z(x) = sqrt(v / m) [cos(w_1'x), ..., cos(w_m'x), sin(w_1'x), ..., sin(w_m'x)],

    so that z(x)'z(x) = v exactly. The paper's other form, sqrt(2 v / D) cos(w_j'x +
    b_j) with b_j uniform on [0, 2 pi], needs twice the projections for as many columns.
    Its variance is larger where k(2 (x - y)) < 2 k(x - y)^2 / v, which always holds for
    the Gaussian. It is used for the last column if D is odd.

    Parameters
    ----------
    kernel : Kernel, default=Gaussian()
        Any sum, product and scaling of the kernels in `bochner.kernels`, with
        lengthscales in the units of X.
    n_components : int, default=1000
        Columns D of the output. The error of z(x)'z(y) falls as 1 / sqrt(D).
    sampling : str, default="auto"
        Joint distribution of the frequencies. Each one follows the kernel's spectral
        measure, so the estimate is unbiased.

        - "orthogonal": groups of d orthogonal directions, which lower the variance (Yu
          et al., 2016). For kernels whose frequencies have independent coordinates
          (Laplacian, Cauchy), orthogonal normal vectors are mapped coordinate by
          coordinate.
        - "iid": independent draws.
        - "structured": orthogonal directions from a fast Walsh-Hadamard transform, with
          D log2(d) additions for a row in place of d D / 2 multiplications (Choromanski
          et al., 2017), if that is estimated to be faster. For kernels of the Euclidean
          distance; "orthogonal" below 9 columns.
        - "qmc": scrambled Sobol points through the inverse distribution function (Yang
          et al., 2014). The error is smaller in fewer columns: with 200 features of the
          Gaussian kernel it is .16, .30, .44 and .61 of that of independent draws in 1,
          3, 5 and 8 columns.
        - "leverage": resampled from 4 times as many frequencies, with probabilities in
          proportion to their ridge leverage scores on a sample of the rows (Avron et
          al., 2017; Li et al., 2019), and reweighted accordingly. For regression with
          few features, not for the kernel itself: its error is 1.1 to 1.4 times that of
          independent draws in one to five columns.
        - "auto": "structured" if it computes features of one kernel of the Euclidean
          distance at least 1.5 times as fast as a matrix product (many columns); "qmc"
          for up to 5 columns, and up to 10 with at least 50 frequencies for each
          column; else "orthogonal".
    paired : bool, default=True
        Whether to use cosines and sines of D / 2 frequencies, rather than cosines with
        random offsets of D frequencies.
    random_state : int, RandomState or None, default=None
        Seed of the draw.

    Attributes
    ----------
    frequencies_ : array of shape (d, m), float64
        In radians per unit of the columns; m = ceil(D / 2) if paired, else D.
    amplitudes_ : array of shape (m,), float64
    sign_flips_ : SignedHadamard or None
        The frequencies as a fast transform, if they were drawn as one.
    offsets_ : array of shape (q,), float64
        In radians, of the last q frequencies, which have a cosine only: q is D, or D
        mod 2 if paired.
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    ValueError
        At fit: `n_components` not positive, or fewer frequencies than terms in the
        kernel; a sampling that is unknown, or that the kernel does not support;
        lengthscales that do not match the columns; values that the kernel does not
        accept. At transform: a different number of columns.
    MemoryError
        Before any work: the frequencies, or at transform the output, do not fit in the
        free memory.
    TypeError
        At fit: `kernel` is not a kernel, or `n_components` is not an integer.
    NotFittedError
        At transform, before fit.

    References
    ----------
    Rahimi and Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007,
    Algorithm 1. Yu et al., "Orthogonal Random Features", NIPS 2016. Choromanski,
    Rowland and Weller, "The Unreasonable Effectiveness of Structured Random Orthogonal
    Embeddings", NIPS 2017. Yang, Sindhwani, Avron and Mahoney, "Quasi-Monte Carlo
    Feature Maps for Shift-Invariant Kernels", ICML 2014. Avron, Kapralov, Musco, Musco,
    Velingker and Zandieh, "Random Fourier Features for Kernel Ridge Regression", ICML
    2017. Li, Ton, Oglic and Sejdinovic, "Towards a Unified Analysis of Random Fourier
    Features", ICML 2019. Sutherland and Schneider, "On the Error of Random Fourier
    Features", UAI 2015 (the two forms compared).

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FourierFeatures
    >>> from bochner.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> features = FourierFeatures(
    ...     Gaussian(lengthscale=2.0), n_components=4000, random_state=0
    ... )
    >>> Z = features.fit_transform(X)
    >>> Z.shape
    (100, 4000)
    >>> bool(abs(Z @ Z.T - Gaussian(2.0)(X)).max() < 0.1)
    True
    """

    on_devices = True  # see `bochner.features.device_features`
    remedy = (
        "Transform in blocks of rows, use fewer n_components, or fit a "
        "KernelMachine, which never holds it."
    )

    def __init__(
        self,
        kernel: Kernel = Gaussian(),  # noqa: B008 - changed on a copy only, see FeatureMap.set_params
        n_components: int = 1000,
        *,
        sampling: str = "auto",
        paired: bool = True,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.sampling = sampling
        self.paired = paired
        self.random_state = random_state

    @single_threaded_blas()
    def draw(self, n_features: int) -> FourierFeatures:
        """Draw the frequencies for `n_features` columns, before any rows are seen."""
        check_kernel(self.kernel)
        check_count(self.n_components, "n_components")
        if not isinstance(self.paired, bool | np.bool_):
            raise TypeError(f"paired must be True or False, got {self.paired!r}.")
        rng = random_generator(self.random_state)
        lone = self.n_components % 2 if self.paired else self.n_components
        m = (self.n_components + lone) // 2
        self.frequencies_, weights, self.sign_flips_ = draw_frequencies(
            self.kernel, m, n_features, self.sampling, rng
        )
        self.offsets_ = rng.uniform(0, 2 * np.pi, lone)
        self._weigh(weights)
        self.n_features_in_ = n_features
        self._rng = rng
        return self

    @single_threaded_blas()
    def fit_sample(self, X: Rows, weight: NDArray) -> None:
        """Check that the kernel serves such rows; with sampling="leverage" resample
        the frequencies for them.
        """
        self.kernel.check_rows(X)
        if self.sampling == "leverage":
            m = self.frequencies_.shape[1]
            self.frequencies_, weights = draw_by_leverage(
                self.kernel, m, X, weight, self._rng
            )
            self._weigh(weights)

    def _weigh(self, weights: NDArray) -> None:
        # Frequencies that have a cosine only count twice
        twice = np.arange(len(weights)) >= len(weights) - len(self.offsets_)
        self.amplitudes_ = np.sqrt(weights * np.where(twice, 2, 1))
        self._caches = {}

    @property
    def n_features_out(self) -> int:
        """Number D of columns of the drawn map."""
        return 2 * self.frequencies_.shape[1] - len(self.offsets_)

    def bounds(self) -> Floats:
        """Amplitudes of the columns, shape (D,)."""
        pairs = len(self.amplitudes_) - len(self.offsets_)
        return np.concatenate([self.amplitudes_[:pairs], self.amplitudes_])

    def write(self, X: Rows, out: NDArray) -> None:
        """Write the features of a few rows into the first columns of `out`.

        The projections are in turns, and in memory of their own: a product reads and
        writes its result several times, which costs less where no columns lie between.
        """
        from bochner.loops import trig

        first, rest, amplitudes, offsets, longest = self._cached(
            X.dtype.char, lambda: self._projection(X.dtype)
        )
        pairs = len(amplitudes) - len(offsets)
        values = X if isinstance(X, np.ndarray) else X.data
        may_be_far = not math.sqrt(np.vdot(values, values)) * longest < trig.FAR
        if pairs:
            trig.cos_sin(_turns(X, first, may_be_far), amplitudes[:pairs], out)
        if len(offsets):
            angles = _turns(X, rest if pairs else first, may_be_far)
            trig.cos_offset(angles, offsets, amplitudes[pairs:], out, 2 * pairs)

    def transform(self, X: Any) -> Any:
        """Compute the features, on the device of X or on that of the settings.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            float32 gives float32; everything else float64. Sparse rows are not made
            dense as a whole.

        Returns
        -------
        array of shape (n, D)
            Of tensors a tensor, where X lies.
        """
        place = device_of(X)
        if place is None or place.is_host:
            return super().transform(X)
        check_is_fitted(self)
        return features_there(self, X, place)

    def map_rows(self, X: Rows) -> NDArray:
        """Features of rows that are checked, by the device of the settings, shape (n,
        D).
        """
        self.kernel.check_rows(X)
        self.require_output(X, self.remedy)
        place = current_device()
        there = None if place is None else on_device(self, place, X.dtype)
        return (there or self).rows(X)

    def _projection(
        self, dtype: np.dtype
    ) -> tuple[NDArray | SignedHadamard, NDArray, NDArray, NDArray, float]:
        """Frequencies of the pairs and of the rest in turns, amplitudes, offsets in
        turns, the longest frequency.
        """
        # Arrays that do not fit together, of which compiled loops would not be aware
        d = self.n_features_in_
        m = np.size(self.amplitudes_)
        lone = np.size(self.offsets_)
        arrays = [self.frequencies_, self.amplitudes_, self.offsets_]
        whole = lone <= m and of_shapes(arrays, [(d, m), (m,), (lone,)])
        sign_flips = self.sign_flips_ is None or (
            isinstance(self.sign_flips_, SignedHadamard) and self.sign_flips_.fits(d, m)
        )
        if not (whole and sign_flips):
            raise ValueError(
                "The arrays of this FourierFeatures are inconsistent. Fit it again."
            )
        size = m - lone or m
        turns = self.frequencies_ / (2 * np.pi)
        first: NDArray | SignedHadamard = turns[:, :size]
        if self.sign_flips_ is not None and cheaper(d, size):
            first = self.sign_flips_.first(size).scaled(1 / (2 * np.pi), 1)
        squares = np.einsum("ij,ij->j", self.frequencies_, self.frequencies_)
        return (
            first.astype(dtype),
            turns[:, size:].astype(dtype),
            self.amplitudes_.astype(dtype),
            (self.offsets_ / (2 * np.pi)).astype(dtype),
            float(np.sqrt(squares.max()) / (2 * np.pi)),
        )


def _turns(X: Rows, factor: NDArray | SignedHadamard, may_be_far: bool) -> NDArray:
    """Products of the rows and the frequencies, without whole turns in rows that are
    far, where there may be such.
    """
    if isinstance(factor, SignedHadamard):
        T = np.empty((X.shape[0], len(factor.lengths)), X.dtype)
        factor.project(X, T)
    else:
        # Rows that are far overflow; and what a product leaves in unused parts of
        # vectors may be told as invalid
        with np.errstate(over="ignore", invalid="ignore"):
            T = X @ factor
    if may_be_far:
        from bochner.loops.trig import FAR

        far = np.flatnonzero(~(np.abs(T).max(axis=1) < FAR))
        turns = T[far]
        endless = ~np.isfinite(turns)
        if endless.any():
            largest = np.finfo(X.dtype).max
            rows = np.clip(as_dense(X[far]), -largest, largest)
            rows /= np.abs(rows).max(axis=1, keepdims=True)
            turns = np.where(endless, _turns(rows, factor, may_be_far=False), turns)
        # Where no digit is left for a fraction of a turn, the leading digits stand for
        # one: whole turns would be those of the origin
        digits, size = np.frexp(turns)
        most = np.finfo(T.dtype).nmant - FRACTION_BITS
        turns = np.where(endless | (size > most), np.ldexp(digits, most), turns)
        T[far] = turns - np.rint(turns)
    return T
