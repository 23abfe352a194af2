"""Leaves of the algebra: what they share, and those that depend on the Euclidean distance."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from scipy.special import gammaincinv, gammaln, kve

from bochner.kernels.base import Kernel, Term, check_positive
from bochner.kernels.measures import TINY, Isotropic, Pitches, SpectralMeasure

EXPANDED_ORDER = 50  # of the Bessel function, from which its expansion serves
LARGEST_ORDER = 1e7  # beyond which a Matern kernel is the Gaussian, to 1e-7
VANISHED = 1e4  # argument over the order at which Matern kernels are zero in double precision

CONCAVE = "it is a product over the features, but of a function concave near 0, where mixtures of hats are convex"
ISOTROPIC = "it depends on the Euclidean distance and is no product over the features"


class Stationary(Kernel):
    """A kernel of (x - y) / lengthscale with k(x, x) = 1: a leaf of the algebra.

    Parameters
    ----------
    lengthscale : float or array of shape (d,), default=1.0
        In the units of the columns; one for all features, or one per feature (automatic relevance determination).

    Raises
    ------
    ValueError
        If a lengthscale is not positive and finite.
    TypeError
        If it is not a number or a sequence of numbers.

    Attributes
    ----------
    formula, spectrum, pitches : str
        Of the class, at unit lengthscale with delta = x - y: the kernel, the law of its frequencies, and that of the
        pitches of its grids or why it has none.
    has_metric : bool
        Of the class: whether lengthscales are units of distance along the columns.
    """

    formula: ClassVar[str]
    spectrum: ClassVar[str]
    pitches: ClassVar[str] = "none: depends on ‖delta‖"
    has_metric: ClassVar[bool] = True

    def __init__(self, lengthscale: float | ArrayLike = 1.0) -> None:
        self.lengthscale = lengthscale
        self._validate()

    def _validate(self) -> None:
        scale = np.asarray(self.lengthscale)
        if scale.dtype.kind not in "iuf" or scale.ndim > 1:
            raise TypeError(f"lengthscale must be a number or one number per feature, got {self.lengthscale!r}.")
        if scale.size == 0 or not np.all((scale > 0) & np.isfinite(scale)):
            raise ValueError(f"lengthscale must be positive and finite, got {self.lengthscale!r}.")

    def scales(self, n_features: int) -> NDArray[np.float64]:
        """Lengthscales in float64, of shape () or (n_features,); ValueError where their number is another."""
        scale = np.asarray(self.lengthscale, dtype=np.float64)
        if scale.ndim and len(scale) != n_features:
            raise ValueError(f"The kernel has {len(scale)} lengthscales and the data have {n_features} features.")
        return scale

    def columns(self, n_features: int) -> NDArray[np.intp]:
        """Columns that the kernel compares, of `n_features`; ValueError where there are too few."""
        return np.arange(n_features)

    def check_columns(self, X: NDArray | sp.csr_array, columns: NDArray) -> None:
        """Raise ValueError where those columns of the rows hold values that the maps of this kernel do not serve."""

    def n_coordinates(self, n_features: int) -> int:
        """Coordinates of a frequency at unit lengthscale: one for each column that the kernel compares."""
        return len(self.columns(n_features))

    def frequencies(self, unit: NDArray, n_features: int) -> NDArray[np.float64]:
        """Frequencies along all columns, shape (n_features, size), from those at unit lengthscale."""
        total = np.zeros((n_features, unit.shape[1]))
        total[self.columns(n_features)] = unit / self.scales(n_features).reshape(-1, 1)
        return total

    def second_moments(self, n_features: int) -> NDArray[np.float64]:
        """E[w_j^2] of the frequencies w along all columns, shape (n_features,); may be infinite, or NaN if unknown."""
        total, columns = np.zeros(n_features), self.columns(n_features)
        total[columns] = self.spectral_measure().moments(len(columns)) / self.scales(n_features) ** 2
        return total

    def covariance(self, n_features: int) -> NDArray[np.float64]:
        """E[w w'], shape (n_features, n_features)."""
        total, columns = np.zeros((n_features, n_features)), self.columns(n_features)
        scale = np.broadcast_to(self.scales(n_features), len(columns))
        total[np.ix_(columns, columns)] = self.spectral_measure().covariance(len(columns)) / np.outer(scale, scale)
        return total

    def terms(self) -> list[Term]:
        """One term of one factor, with variance 1."""
        return [(1.0, (self,))]

    def _gram(self, X: NDArray, Y: NDArray) -> NDArray:
        scale = self.scales(X.shape[1])
        U = X / scale
        return self._unit_gram(U, U if Y is X else Y / scale)

    @abstractmethod
    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        """Kernel matrix at unit lengthscale."""

    @abstractmethod
    def spectral_measure(self) -> SpectralMeasure:
        """Law of the frequencies at unit lengthscale."""

    def pitch_measure(self) -> Pitches:
        """Law of the pitches of random grids at unit lengthscale, for kernels that are mixtures of hats.

        Raises
        ------
        ValueError
            If the kernel is none, with the reason.
        """
        raise ValueError(f"{self!r} is no mixture of hats: {self._not_hats()}. Use FourierFeatures.")

    def _not_hats(self) -> str:
        return "the law of its pitches is not known"


class Gaussian(Stationary):
    """Gaussian (squared exponential, RBF) kernel, exp(-||(x - y) / l||^2 / 2); scikit-learn's gamma is 1 / (2 l^2).

    Its frequencies are normal. It is a product over the features, but its factors are concave up to distance l: no
    mixture of hats.

    Parameters
    ----------
    lengthscale : float or array of shape (d,), default=1.0

    Examples
    --------
    >>> from bochner.kernels import Gaussian
    >>> Gaussian(lengthscale=2.0)([[0.0, 0.0]], [[2.0, 0.0]]).round(4)
    array([[0.6065]])
    """

    formula = "exp(-‖delta‖² / 2)"
    spectrum = "standard normal"
    pitches = "none: concave near 0"

    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        return np.exp(-0.5 * cdist(U, V, "sqeuclidean"))

    def spectral_measure(self) -> SpectralMeasure:
        """Standard normal."""
        return Isotropic(lambda u: np.ones(u.shape[1]), 1.0, n_uniforms=0)

    def _not_hats(self) -> str:
        return CONCAVE


class Matern(Stationary):
    """Matern kernel of smoothness nu, 2^(1 - nu) / Gamma(nu) s^nu K_nu(s) with s = sqrt(2 nu) ||(x - y) / l||.

    nu = 1/2 is exp(-r), 3/2 and 5/2 the once and twice differentiable ones, infinity the Gaussian. Its frequencies
    follow a *multivariate* Student t law with 2 nu degrees of freedom (Rasmussen and Williams, 2006, eq. 4.15).

    Over several features it is no product (unless nu is infinite), hence no mixture of hats; ``Matern(nu=0.5)`` in one
    column equals `Laplacian`, which is one.

    Parameters
    ----------
    lengthscale : float or array of shape (d,), default=1.0
    nu : float, default=1.5
        Smoothness, positive; ``inf`` is allowed.

    Examples
    --------
    >>> from bochner.kernels import Matern
    >>> Matern(nu=0.5)([[0.0, 0.0]], [[3.0, 4.0]]).round(4)
    array([[0.0067]])
    """

    formula = "2^(1 - nu) / Gamma(nu) s^nu K_nu(s), s = sqrt(2 nu) ‖delta‖"
    spectrum = "multivariate Student t, 2 nu degrees of freedom"

    def __init__(self, lengthscale: float | ArrayLike = 1.0, nu: float = 1.5) -> None:
        self.nu = nu
        super().__init__(lengthscale)

    def _validate(self) -> None:
        super()._validate()
        if self.nu != np.inf:
            check_positive(self.nu, "nu")

    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        r = cdist(U, V, "euclidean")
        if self.nu > LARGEST_ORDER:
            return np.exp(-0.5 * r**2)
        s = np.minimum(np.sqrt(2 * self.nu) * r, VANISHED * max(self.nu, 1.0))
        if self.nu in (0.5, 1.5, 2.5):
            return {0.5: 1.0, 1.5: 1 + s, 2.5: 1 + s + s**2 / 3}[self.nu] * np.exp(-s)
        s = np.maximum(s, 1e-12)
        log_k = (1 - self.nu) * np.log(2) - gammaln(self.nu) + self.nu * np.log(s) + _log_bessel_k(self.nu, s)
        return np.where(r == 0, 1.0, np.exp(np.minimum(log_k, 0.0)))

    def spectral_measure(self) -> SpectralMeasure:
        """Multivariate t: normal over the root of chi-square(2 nu) / (2 nu), one for the whole vector."""
        if self.nu == np.inf:
            return Gaussian().spectral_measure()
        nu = float(self.nu)
        moment = nu / (nu - 1) if nu > 1 else np.inf
        return Isotropic(lambda u: nu / np.maximum(gammaincinv(nu, u[0]), TINY), moment)

    def _not_hats(self) -> str:
        if self.nu == np.inf:
            return CONCAVE
        return f"{ISOTROPIC}; in one column it equals Laplacian, which is one" if self.nu == 0.5 else ISOTROPIC


class RationalQuadratic(Stationary):
    """Rational quadratic kernel, (1 + ||(x - y) / l||^2 / (2 alpha))^(-alpha).

    A Gamma(alpha, alpha) scale mixture of Gaussians, and so are its frequencies. No product over the features, hence
    no mixture of hats.

    Parameters
    ----------
    lengthscale : float or array of shape (d,), default=1.0
    alpha : float, default=1.0
        Shape of the mixture of scales, positive; the Gaussian kernel is its limit at infinity. (No relation to the
        ridge term of an estimator.)

    Examples
    --------
    >>> from bochner.kernels import RationalQuadratic
    >>> RationalQuadratic(alpha=0.5)([[0.0]], [[1.0]]).round(4)
    array([[0.7071]])
    """

    formula = "(1 + ‖delta‖² / (2 alpha))^(-alpha)"
    spectrum = "normal times sqrt(Gamma(alpha, rate alpha))"

    def __init__(self, lengthscale: float | ArrayLike = 1.0, alpha: float = 1.0) -> None:
        self.alpha = alpha
        super().__init__(lengthscale)

    def _validate(self) -> None:
        super()._validate()
        check_positive(self.alpha, "alpha")

    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        return np.exp(-self.alpha * np.log1p(cdist(U, V, "sqeuclidean") / (2 * self.alpha)))

    def spectral_measure(self) -> SpectralMeasure:
        """Normal times the root of a Gamma variable of mean 1."""
        return Isotropic(lambda u: gammaincinv(self.alpha, u[0]) / self.alpha, 1.0)

    def _not_hats(self) -> str:
        return ISOTROPIC


class StudentT(Stationary):
    """Student t kernel, (1 + ||(x - y) / l||^2 / nu)^(-(nu + 1) / 2), the shape of Student's density.

    `RationalQuadratic` with alpha = (nu + 1) / 2 and the lengthscale l sqrt(nu / (nu + 1)).

    Parameters
    ----------
    lengthscale : float or array of shape (d,), default=1.0
    nu : float, default=1.0
        Degrees of freedom, positive. 1 is 1 / (1 + r^2), the kernel of t-SNE.

    Examples
    --------
    >>> from bochner.kernels import StudentT
    >>> StudentT(nu=1.0)([[0.0]], [[1.0]])
    array([[0.5]])
    """

    formula = "(1 + ‖delta‖² / nu)^(-(nu + 1) / 2)"
    spectrum = "normal times sqrt(Gamma((nu + 1) / 2, rate nu / 2))"

    def __init__(self, lengthscale: float | ArrayLike = 1.0, nu: float = 1.0) -> None:
        self.nu = nu
        super().__init__(lengthscale)

    def _validate(self) -> None:
        super()._validate()
        check_positive(self.nu, "nu")

    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        return np.exp(-(self.nu + 1) / 2 * np.log1p(cdist(U, V, "sqeuclidean") / self.nu))

    def spectral_measure(self) -> SpectralMeasure:
        """Normal times the root of a Gamma variable of mean (nu + 1) / nu."""
        shape = (self.nu + 1) / 2
        return Isotropic(lambda u: gammaincinv(shape, u[0]) * (2 / self.nu), 2 * shape / self.nu)

    def _not_hats(self) -> str:
        return ISOTROPIC


def over_features(function: Callable[[NDArray], NDArray], U: NDArray, V: NDArray) -> NDArray:
    """Product over the features of a function of the distances, shape (len(U), len(V))."""
    product = np.ones((len(U), len(V)))
    for u, v in zip(U.T, V.T, strict=True):
        product *= function(np.abs(np.subtract.outer(u, v)))
    return product


def _log_bessel_k(nu: float, s: NDArray) -> NDArray:
    """Log of the modified Bessel function K_nu(s).

    From order 50 on by the uniform expansion in 1 / nu (DLMF 10.41.4, three terms), where SciPy's overflows.
    """
    if nu < EXPANDED_ORDER:
        with np.errstate(over="ignore", divide="ignore"):
            return np.log(kve(nu, s)) - s
    z = s / nu
    root = np.sqrt(1 + z * z)
    p = 1 / root
    eta = root + np.log(z / (1 + root))
    u1 = (3 * p - 5 * p**3) / 24
    u2 = (81 * p**2 - 462 * p**4 + 385 * p**6) / 1152
    u3 = (30375 * p**3 - 369603 * p**5 + 765765 * p**7 - 425425 * p**9) / 414720
    return 0.5 * np.log(np.pi / (2 * nu * root)) - nu * eta + np.log1p(-u1 / nu + u2 / nu**2 - u3 / nu**3)
