"""Kernels that oscillate: Gabor, spectral mixture, periodic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from scipy.special import ive, ndtri

from bochner.arrays import Floats
from bochner.kernels.base import Kernel, Term, check_positive
from bochner.kernels.spectral_measures import Separable, Shifted, SpectralMeasure
from bochner.kernels.stationary import (
    Stationary,
    check_units,
    over_features,
    units,
)

# Lengthscale of a periodic kernel told from 0, whose inverse square is finite
SHORTEST = 1e-75
# 1 / lengthscale^2 from which the harmonics of a periodic kernel are rounded normal
# numbers
NORMAL_HARMONICS = 1e6


@dataclass(eq=False, repr=False)
class Gabor(Stationary):
    """Gabor kernel, exp(-||(x - y) / l||^2 / 2) cos(2 pi f'(x - y)): a wave under a
    Gaussian.

    Its frequencies are normal about 2 pi f or, equivalently for cosines, about -2 pi f:
    one component of a `SpectralMixture`.

    Parameters
    ----------
    lengthscale : float or array of shape (d,), default=1.0
    frequency : float or array of shape (d,), default=0.0
        f, in cycles per unit of the columns.

    Examples
    --------
    >>> from bochner.kernels import Gabor
    >>> Gabor(lengthscale=100.0, frequency=0.5)([[0.0]], [[1.0], [2.0]]).round(3)
    array([[-1.,  1.]])
    """

    formula = "exp(-‖delta‖² / 2) cos(2 pi l f'delta)"
    spectrum = "normal about 2 pi l f and -2 pi l f"
    pitches = "none: rises again"

    frequency: float | ArrayLike = 0.0

    def _validate(self) -> None:
        super()._validate()
        check_units(self.frequency, "frequency", positive=False)
        both = self.lengthscale, self.frequency
        sizes = {np.size(value) for value in both if np.ndim(value)}
        if len(sizes) > 1:
            raise ValueError(
                f"lengthscale and frequency must be of one length, got {sorted(sizes)}."
            )

    def scales(self, n_features: int) -> Floats:
        """Lengthscales; ValueError where their number, or that of the frequencies,
        is another.
        """
        units(self.frequency, "frequencies", n_features)
        return super().scales(n_features)

    @property
    def _centre(self) -> Floats:
        """Of the frequencies at unit lengthscale, in radians."""
        frequency = np.asarray(self.frequency, np.float64)
        return 2 * np.pi * frequency * np.asarray(self.lengthscale, np.float64)

    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        u, v = ((W * self._centre).sum(axis=1) for W in (U, V))
        wave = np.cos(np.subtract.outer(u, v))
        return np.exp(-0.5 * cdist(U, V, "sqeuclidean")) * wave

    def spectral_measure(self) -> SpectralMeasure:
        """Normal about the centre."""
        return Shifted(self._centre)

    def covariance(self, n_features: int) -> Floats:
        """E[w w'], shape (n_features, n_features)."""
        scale = np.broadcast_to(self.scales(n_features), n_features)
        centre = np.broadcast_to(self._centre, n_features)
        unit = np.eye(n_features) + np.outer(centre, centre)
        return unit / np.outer(scale, scale)


@dataclass(eq=False, repr=False)
class SpectralMixture(Kernel):
    """Spectral mixture kernel, sum_q weights_q exp(-2 pi^2 ||scales_q * delta||^2)
    cos(2 pi means_q'delta).

    Its spectral density is a mixture of normal ones about means_q and -means_q. These
    are dense among all densities, so that every stationary kernel is a limit of such
    mixtures.

    Parameters
    ----------
    weights : array of shape (Q,)
        Positive; their sum is k(x, x).
    means : array of shape (Q,), or (Q, d) for one per feature
        Centres of the frequencies, in cycles per unit of the columns.
    scales : array of the same shape
        Their standard deviations, positive, in cycles per unit of the columns.

    Raises
    ------
    ValueError
        If shapes do not match, weights or scales are not positive, or anything is not
        finite.

    References
    ----------
    Wilson and Adams, "Gaussian Process Kernels for Pattern Discovery and
    Extrapolation", ICML 2013. Its equation 12 has a cosine per feature in place of the
    one here, which is the transform of the density above it.

    Examples
    --------
    >>> from bochner.kernels import SpectralMixture
    >>> kernel = SpectralMixture(
    ...     weights=[1.0, 0.5], means=[0.0, 1.0], scales=[0.1, 0.01]
    ... )
    >>> kernel([[0.0]], [[0.0], [0.5], [1.0]]).round(3)
    array([[1.5  , 0.452, 1.32 ]])
    """

    weights: ArrayLike
    means: ArrayLike
    scales: ArrayLike

    def _validate(self) -> None:
        given = self.weights, self.means, self.scales
        weights, means, scales = arrays = [np.asarray(value) for value in given]
        if any(value.dtype.kind not in "iuf" for value in arrays):
            raise TypeError("weights, means and scales must be numbers.")
        fit = weights.ndim == 1 and weights.size and means.shape == scales.shape
        fit = fit and means.shape[:1] == weights.shape
        if not fit or means.ndim > 2 or means.size == 0:
            raise ValueError(
                "weights must have the shape (Q,), means and scales (Q,) or (Q, d); "
                f"got {weights.shape}, {means.shape} and {scales.shape}."
            )
        if not all(np.all(np.isfinite(value)) for value in arrays):
            raise ValueError("weights, means and scales must be finite.")
        if np.any(weights <= 0) or np.any(scales <= 0):
            raise ValueError("weights and scales must be positive.")

    def terms(self) -> list[Term]:
        """One `Gabor` kernel for each component."""
        weights, means, scales = (
            np.asarray(value, np.float64)
            for value in (self.weights, self.means, self.scales)
        )
        parts = zip(weights.tolist(), 1 / (2 * np.pi * scales), means, strict=True)
        return [
            (w, (Gabor(l if l.ndim else float(l), f if f.ndim else float(f)),))
            for w, l, f in parts
        ]


@dataclass(eq=False, repr=False)
class Periodic(Stationary):
    """Periodic kernel, the product over the features of exp(-2 sin(pi (x - y) /
    period)^2 / lengthscale^2).

    Its frequencies are harmonics, 2 pi n / period with a whole number n of probability
    exp(-z) I_n(z), z the inverse square of the lengthscale and I_n the modified Bessel
    function (the Jacobi-Anger expansion of exp(z cos(t) - z)). scikit-learn's
    `ExpSineSquared` is this kernel of the Euclidean distance, which is positive
    definite for one feature only.

    Parameters
    ----------
    lengthscale : float, default=1.0
        Without unit: that of a Gaussian kernel of chords on a circle of radius 1, whose
        circumference is one period.
    period : float or array of shape (d,), default=1.0
        In the units of the columns.

    Examples
    --------
    >>> from bochner.kernels import Periodic
    >>> Periodic(period=7.0)([[0.0]], [[3.5], [7.0]]).round(4)
    array([[0.1353, 1.    ]])
    """

    formula = "prod_j exp(-2 sin(pi delta_j)² / lengthscale²), delta over the period"
    spectrum = (
        "2 pi n in each coordinate, n a whole number of distribution exp(-z) "
        "I_n(z), z = 1 / lengthscale²"
    )
    pitches = "none: rises again"
    has_metric = False

    period: float | ArrayLike = 1.0

    def _validate(self) -> None:
        check_positive(self.lengthscale, "lengthscale")
        check_units(self.period, "period")

    def scales(self, n_features: int) -> Floats:
        """Periods in float64, of shape () or (n_features,); ValueError where their
        number is another.
        """
        return units(self.period, "periods", n_features)

    @property
    def _concentration(self) -> float:
        return float(np.maximum(self.lengthscale, SHORTEST)) ** -2

    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        z = self._concentration
        return over_features(
            lambda t: np.exp(-2 * z * np.sin(np.pi * (t - np.rint(t))) ** 2), U, V
        )

    def spectral_measure(self) -> SpectralMeasure:
        """Harmonics, independently per coordinate."""
        z = self._concentration
        if z > NORMAL_HARMONICS:
            return Separable(
                lambda u: 2 * np.pi * np.rint(np.sqrt(z) * ndtri(u)), 4 * np.pi**2 * z
            )
        harmonics = np.arange(int(40 + 9 * np.sqrt(z)))  # beyond: less than rounding
        tail = ive(harmonics, z) * np.where(harmonics > 0, 2.0, 1.0)
        shares = np.cumsum(tail) / tail.sum()

        def quantile(u: NDArray) -> NDArray:
            size = np.minimum(
                np.searchsorted(shares, np.abs(2 * u - 1)), len(shares) - 1
            )
            return 2 * np.pi * np.copysign(size, u - 0.5)

        return Separable(quantile, 4 * np.pi**2 * z)
