"""The Fejer distribution, the spectral measure of the hat kernel, by its quantiles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize.elementwise import find_root
from scipy.spatial.distance import cdist
from scipy.special import gammaincinv, sici

from bochner.kernels.hats import Pitches
from bochner.kernels.spectral_measures import TINY, Separable, SpectralMeasure
from bochner.kernels.stationary import Stationary, over_features
from bochner.kernels.transforms import cosine_law

# From which the sine integral is expanded, to 24 terms: 24! / 50^24 = 1e-17
EXPANDED_FREQUENCY = 50.0
CONVERGED = 1e-13  # relative error of the tail probability at which a quantile is found


def fejer_quantile(u: NDArray) -> NDArray:
    """Inverse of the distribution function of the Fejer distribution, density (1 - cos
    w) / (pi w^2).

    With Si the sine integral, pi P(frequency > w) = pi / 2 - Si(w) + (1 - cos w) / w
    for w >= 0; the distribution is symmetric. The reciprocal r(w) of the right hand
    side is nearly Kepler's w - sin w: it rises from 2 / pi, never decreases, and keeps
    within 1.1 of w. The probability beyond the result is right to 1e-13 of itself, for
    u from 2.2e-308 (smaller ones count as that) to 1 - 2^-53.
    """
    u = np.asarray(u, dtype=np.float64)
    tail = np.maximum(np.minimum(u, 1 - u), TINY)
    goal = 1 / (np.pi * tail)
    root = find_root(
        lambda w, goal: _reciprocal_tail(w) / goal - 1,
        (np.maximum(goal - 1.1, 0.0), goal + 1.1),
        args=(goal,),
        tolerances={"fatol": CONVERGED},
    )
    return np.sign(u - 0.5) * root.x


def _reciprocal_tail(w: NDArray) -> NDArray:
    """1 / (pi P(frequency > w)) for w >= 0; where pi / 2 - Si(w) would cancel, by its
    asymptotic series.

    That is w pi P = 1 + Re(exp(-i w) sum_m m! (i / w)^m), m = 1, 2, ... (DLMF 6.2.20,
    6.12.3, 6.12.4).
    """
    near = np.minimum(w, EXPANDED_FREQUENCY)
    versine = near / 2 * np.sinc(near / (2 * np.pi)) ** 2
    reciprocal = 1 / (np.pi / 2 - sici(near)[0] + versine)
    far = w > EXPANDED_FREQUENCY
    x = w[far]
    series = np.zeros(len(x), dtype=np.complex128)
    for m in range(24, 0, -1):
        series = (1 + series) * (m * 1j / x)
    reciprocal[far] = x / (1 + np.cos(x) * series.real + np.sin(x) * series.imag)
    return reciprocal


VANISHED = 1000.0  # from which exp(-s) is 0


class Laplacian(Stationary):
    """Laplacian kernel, exp(-||(x - y) / l||_1), a product over the features.

    Its frequencies are Cauchy, independently per feature. It is the mixture of hats
    whose pitches follow a Gamma(2) distribution, p(delta) = delta exp(-delta).

    Parameters
    ----------
    lengthscale : float or array of shape (d,), default=1.0

    Examples
    --------
    >>> from bochner.kernels import Laplacian
    >>> Laplacian()([[0.0, 0.0]], [[1.0, 1.0]]).round(4)
    array([[0.1353]])
    """

    formula = "exp(-‖delta‖₁)"
    spectrum = "Cauchy in each coordinate"
    pitches = "Gamma(2)"

    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        return np.exp(-cdist(U, V, "cityblock"))

    def spectral_measure(self) -> SpectralMeasure:
        """Standard Cauchy per coordinate."""
        return Separable(lambda u: np.tan(np.pi * (u - 0.5)), np.inf)

    def pitch_measure(self) -> Pitches:
        """Gamma of shape 2 per coordinate."""
        return Pitches(lambda u: gammaincinv(2.0, u), 1.0)


class Cauchy(Stationary):
    """Cauchy kernel, the product over the features of 1 / (1 + ((x - y) / l)^2).

    Its frequencies are Laplace (double exponential), independently per feature. Figure
    1 of the paper writes the factor as 2 / (1 + delta^2); here k(x, x) = 1. The factors
    are concave up to distance l / sqrt(3), so it is not a mixture of hats.

    Parameters
    ----------
    lengthscale : float or array of shape (d,), default=1.0

    Examples
    --------
    >>> from bochner.kernels import Cauchy
    >>> Cauchy()([[0.0, 0.0]], [[1.0, 1.0]])
    array([[0.25]])
    """

    formula = "prod_j 1 / (1 + delta_j²)"
    spectrum = "Laplace in each coordinate"
    pitches = "none: concave near 0"

    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        with np.errstate(over="ignore"):
            return 1 / over_features(lambda t: 1 + t**2, U, V)

    def spectral_measure(self) -> SpectralMeasure:
        """Standard Laplace per coordinate."""
        return Separable(
            lambda u: -np.sign(u - 0.5) * np.log1p(-2 * np.abs(u - 0.5)), 2.0
        )


class Hat(Stationary):
    """Hat (triangular) kernel, the product over the features of max(0, 1 - |x - y| /
    l): exactly 0 from l on.

    It is the probability that x and y share a cell of a randomly shifted grid of pitch
    l: every pitch is the same. Its frequencies follow Fejer's density, (1 - cos w) /
    (pi w^2), independently per feature.

    Parameters
    ----------
    lengthscale : float or array of shape (d,), default=1.0

    Examples
    --------
    >>> from bochner.kernels import Hat
    >>> Hat(2.0)([[0.0, 0.0]], [[1.0, 1.0], [2.0, 0.0]])
    array([[0.25, 0.  ]])
    """

    formula = "prod_j max(0, 1 - |delta_j|)"
    spectrum = "Fejer in each coordinate, sinc² (w_j / 2) / (2 pi)"
    pitches = "constant 1"

    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        return over_features(lambda t: np.maximum(0.0, 1 - t), U, V)

    def spectral_measure(self) -> SpectralMeasure:
        """The Fejer distribution per coordinate."""
        return Separable(fejer_quantile, np.inf)

    def pitch_measure(self) -> Pitches:
        """The constant 1."""
        return Pitches(lambda u: np.ones(np.shape(u)), 1.0)


class SmoothBins(Stationary):
    """Kernel of smoothly weighted bins, the product over the features of (1 + s + s^2 /
    3 + s^3 / 24) exp(-s).

    Here s = sqrt(3) |x - y| / l, so that the kernel falls from 1 like the Gaussian of
    the same lengthscale, 1 - ((x - y) / l)^2 / 2. It is twice differentiable at 0, as
    `Matern` with nu = 3/2, where mixtures of hats have a cusp: it suits smoother
    targets, and its features cost as little.

    In a grid of pitch delta with a random shift let a row at the place s in [0, 1)
    inside its bin have the weight f(s) = sqrt(30) s (1 - s), whose square integrates to
    1. Two rows at distance t delta have the expected product

        rho(t) = integral from 0 to 1 - t of f(s) f(s + t) ds
               = (1 - t)^3 (1 + 3 t + t^2),    0 <= t <= 1,

    and where sqrt(3) delta / l follows a Gamma(7) distribution the mean of rho(|x - y|
    / delta) is the kernel (Kapralov et al., 2020, for weights of any shape).

    Parameters
    ----------
    lengthscale : float or array of shape (d,), default=1.0

    References
    ----------
    Kapralov, Nouri, Razenshteyn, Velingker and Zandieh, "Scaling up Kernel Ridge
    Regression via Locality Sensitive Hashing", AISTATS 2020.

    Examples
    --------
    >>> from bochner.kernels import SmoothBins
    >>> SmoothBins()([[0.0]], [[0.1], [1.0]]).round(4)
    array([[0.9952, 0.6986]])
    """

    formula = "prod_j (1 + s + s² / 3 + s³ / 24) exp(-s), s = sqrt(3) |delta_j|"
    spectrum = "its cosine transform, as numbers"
    pitches = "Gamma(7) / sqrt(3), with weights inside the bins"

    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        return over_features(_mean_product, U, V)

    def spectral_measure(self) -> SpectralMeasure:
        """The cosine transform of the factor, as numbers."""
        return cosine_law(_mean_product)

    def pitch_measure(self) -> Pitches:
        """Gamma of shape 7 over sqrt(3) per coordinate, with weights inside the
        bins.
        """
        return Pitches(
            lambda u: gammaincinv(7.0, u) / np.sqrt(3), np.sqrt(3) / 6, smooth=True
        )


def _mean_product(t: NDArray) -> NDArray:
    """Of the weights of two rows inside of their smooth bins, over the pitches."""
    s = np.minimum(np.sqrt(3) * t, VANISHED)
    return (1 + s * (1 + s * (1 / 3 + s / 24))) * np.exp(-s)
