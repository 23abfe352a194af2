"""Random Fourier features (Algorithm 1)."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_feature_names_in as check_feature_names_in
from sklearn.utils.validation import check_is_fitted

from bochner.engines.local import require_memory
from bochner.features.base import DenseFeatureMap, Rows
from bochner.features.sampling import SAMPLINGS, draw_frequencies
from bochner.kernels import Gaussian, Kernel


class FourierFeatures(DenseFeatureMap):
    """Random Fourier features: z(x)'z(y) is an unbiased estimate of k(x, y).

    By Bochner's theorem a shift-invariant kernel with k(x, x) = v is v E cos(w'(x - y)), w drawn from its spectral
    measure. With m frequencies, cos(a - b) = cos a cos b + sin a sin b gives

        z(x) = sqrt(v / m) [cos(w_1'x), ..., cos(w_m'x), sin(w_1'x), ..., sin(w_m'x)],

    whose products with itself are exactly v. The seed paper's other form, sqrt(2 v / D) cos(w_j'x + b_j) with b_j
    uniform on [0, 2 pi], needs twice the projections for as many columns and has a larger variance. It serves for the
    last column where D is odd.

    Parameters
    ----------
    kernel : Kernel, default=Gaussian()
        Any sum, product and scaling of the kernels in `bochner.kernels`, with lengthscales in the units of X.
    n_components : int, default=1000
        Columns D of the output. The error of z(x)'z(y) falls as 1 / sqrt(D).
    sampling : {"orthogonal", "iid"}, default="orthogonal"
        Orthogonal draws have the smaller variance (Yu et al., 2016). For kernels that are products over the
        features (Laplacian, Cauchy) they are made normal-orthogonal first and then mapped coordinate by coordinate.
    paired : bool, default=True
        Cosines and sines of D / 2 frequencies; otherwise cosines with random offsets of D frequencies.
    random_state : int, RandomState or None, default=None
        Seed of the draw.

    Attributes
    ----------
    frequencies_ : array of shape (d, m), float64
        In radians per unit of the columns; m = ceil(D / 2) where paired, else D.
    amplitudes_ : array of shape (m,), float64
    offsets_ : array of shape (q,), float64
        In radians, of the last q frequencies, which have a cosine only: D of them, or D mod 2 where paired.
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    ValueError
        At fit: `n_components` not positive, or fewer frequencies than terms in the kernel; unknown sampling;
        lengthscales that do not fit the columns. At transform: another number of columns.
    MemoryError
        Before any work: the frequencies, or at transform the output, do not fit the memory that is free.
    TypeError
        At fit: a kernel that is none, or `n_components` that is no integer.
    NotFittedError
        At transform, before fit.

    References
    ----------
    Rahimi and Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007, Algorithm 1. Yu et al.,
    "Orthogonal Random Features", NIPS 2016. Sutherland and Schneider, "On the Error of Random Fourier Features",
    UAI 2015 (the two forms compared).

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FourierFeatures
    >>> from bochner.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> features = FourierFeatures(Gaussian(lengthscale=2.0), n_components=4000, random_state=0)
    >>> Z = features.fit_transform(X)
    >>> Z.shape
    (100, 4000)
    >>> bool(abs(Z @ Z.T - Gaussian(2.0)(X)).max() < 0.1)
    True
    """

    def __init__(
        self,
        kernel: Kernel = Gaussian(),  # noqa: B008 - changed on a copy only, see FeatureMap.set_params
        n_components: int = 1000,
        *,
        sampling: str = "orthogonal",
        paired: bool = True,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.sampling = sampling
        self.paired = paired
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> FourierFeatures:
        """Draw the frequencies; of X only the number of columns matters.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : ignored

        Returns
        -------
        self
        """
        X = self._checked(X)
        return self.draw(X.shape[1])

    def draw(self, n_features: int) -> FourierFeatures:
        """Draw the frequencies for `n_features` columns, where the rows are still to come."""
        self._check_parameters()
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31, size=4))
        lone = self.n_components % 2 if self.paired else self.n_components
        m = (self.n_components + lone) // 2
        require_memory(
            32 * m * n_features,
            f"Drawing {m:,} frequencies in {n_features:,} dimensions",
            "Take fewer n_components.",
        )
        self.frequencies_, weights = draw_frequencies(self.kernel, m, n_features, self.sampling, rng)
        self.offsets_ = rng.uniform(0, 2 * np.pi, lone)
        self.amplitudes_ = np.sqrt(weights * np.repeat([1, 2], [m - lone, lone]))
        self.n_features_in_ = n_features
        self._turns: dict[str, tuple] = {}
        self._centre = None
        return self

    def _check_parameters(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"kernel must be a bochner kernel such as Gaussian(2.0), got {self.kernel!r}.")
        D = self.n_components
        if not isinstance(D, Integral) or isinstance(D, bool):
            raise TypeError(f"n_components must be an integer, got {D!r}.")
        if D < 1:
            raise ValueError(f"n_components must be positive, got {D}.")
        if not isinstance(self.paired, bool | np.bool_):
            raise TypeError(f"paired must be True or False, got {self.paired!r}.")
        if self.sampling not in SAMPLINGS:
            raise ValueError(f"sampling must be one of {SAMPLINGS}, got {self.sampling!r}.")

    @property
    def n_features_out(self) -> int:
        """Number D of columns of the map as it was drawn."""
        return 2 * self.frequencies_.shape[1] - len(self.offsets_)

    def bounds(self) -> NDArray[np.float64]:
        """Amplitudes of the columns, shape (D,)."""
        pairs = self.frequencies_.shape[1] - len(self.offsets_)
        return np.concatenate([self.amplitudes_[:pairs], self.amplitudes_])

    def transform(self, X: Any) -> NDArray:
        """Compute the features.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            float32 stays float32; everything else is computed in float64. Sparse rows are not densified.

        Returns
        -------
        array of shape (n, n_components)
        """
        X = self._checked(X, reset=False)
        require_memory(
            X.shape[0] * self.n_features_out * X.dtype.itemsize,
            f"The array of {X.shape[0]:,} x {self.n_features_out:,} features",
            "Transform in blocks of rows, take fewer n_components, or fit a KernelMachine, which never holds it.",
        )
        return self.rows(X)

    def write(self, X: Rows, out: NDArray) -> None:
        """Write the features of a few rows into the first columns of `out`.

        The projections land in `out` itself, in turns, and are overwritten there by their cosines and sines.
        """
        from bochner.loops.trig import cos_offset, cos_sin

        turns, amplitudes, offsets = self._projection(X.dtype)
        pairs = turns.shape[1] - len(offsets)
        if pairs:
            _project(X, turns[:, :pairs], out[:, :pairs])
            cos_sin(out, amplitudes[:pairs])
        if len(offsets):
            _project(X, turns[:, pairs:], out[:, 2 * pairs : 2 * pairs + len(offsets)])
            cos_offset(out, 2 * pairs, offsets, amplitudes[pairs:])

    def _projection(self, dtype: np.dtype) -> tuple[NDArray, NDArray, NDArray]:
        """Frequencies and offsets in turns, amplitudes, in the precision of the rows, kept for the next call."""
        d, m = self.frequencies_.shape
        if d != self.n_features_in_ or len(self.amplitudes_) != m or len(self.offsets_) > m:
            raise ValueError("frequencies_, amplitudes_ and offsets_ of this FourierFeatures do not fit together.")
        key = np.dtype(dtype).name
        if key not in self._turns:
            turns = (self.frequencies_ / (2 * np.pi)).astype(dtype)
            offsets = (self.offsets_ / (2 * np.pi)).astype(dtype)
            self._turns[key] = turns, self.amplitudes_.astype(dtype), offsets
        return self._turns[key]

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "_turns" in state:
            state["_turns"] = {}
        return state

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names ``cos0``, ..., ``sin0``, ... of the columns, prefixed by the class in lower case."""
        check_is_fitted(self)
        check_feature_names_in(self, input_features)
        m, lone = self.frequencies_.shape[1], len(self.offsets_)
        names = [f"cos{j}" for j in range(m - lone)] + [f"sin{j}" for j in range(m - lone)]
        names += [f"cos{j}" for j in range(m - lone, m)]
        return np.array([f"fourierfeatures_{name}" for name in names], dtype=object)


def _project(X: Rows, turns: NDArray, out: NDArray) -> None:
    if sp.issparse(X):
        out[:] = X @ turns
    else:
        np.matmul(X, turns, out=out)
