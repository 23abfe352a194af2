"""Kernels of the Euclidean distance: Gaussian, rational quadratic, Student t, power
exponential.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import gammaincinv, gammaln, kve

from bochner.kernels.base import check_positive
from bochner.kernels.spectral_measures import TINY, Isotropic, SpectralMeasure
from bochner.kernels.stationary import Stationary

# Logarithm of the largest scale drawn, so that its square is finite
LARGEST_SCALE = 600.0


class Gaussian(Stationary):
    """Gaussian (squared exponential, RBF) kernel, exp(-||(x - y) / l||^2 / 2);
    scikit-learn's gamma is 1 / (2 l^2).

    Its frequencies are normal. It is a product over the features, but its factors are
    concave up to distance l, so it is not a mixture of hats.

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


@dataclass(eq=False, repr=False)
class RationalQuadratic(Stationary):
    """Rational quadratic kernel, (1 + ||(x - y) / l||^2 / (2 alpha))^(-alpha).

    It is a Gamma(alpha, alpha) scale mixture of Gaussians, and so are its frequencies.
    It is not a product over the features, hence not a mixture of hats.

    Parameters
    ----------
    lengthscale : float or array of shape (d,), default=1.0
    alpha : float, default=1.0
        Shape of the mixture of scales, positive; the Gaussian kernel is its limit at
        infinity. (Not the ridge penalty of an estimator.)

    Examples
    --------
    >>> from bochner.kernels import RationalQuadratic
    >>> RationalQuadratic(alpha=0.5)([[0.0]], [[1.0]]).round(4)
    array([[0.7071]])
    """

    formula = "(1 + ‖delta‖² / (2 alpha))^(-alpha)"
    spectrum = "normal times sqrt(Gamma(alpha, rate alpha))"

    alpha: float = 1.0

    def _validate(self) -> None:
        super()._validate()
        check_positive(self.alpha, "alpha")

    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        return np.exp(
            -self.alpha * np.log1p(cdist(U, V, "sqeuclidean") / (2 * self.alpha))
        )

    def spectral_measure(self) -> SpectralMeasure:
        """Normal times the root of a Gamma variable of mean 1."""
        return Isotropic(lambda u: gammaincinv(self.alpha, u[0]) / self.alpha, 1.0)


@dataclass(eq=False, repr=False)
class StudentT(Stationary):
    """Student t kernel, (1 + ||(x - y) / l||^2 / nu)^(-(nu + 1) / 2), the shape of
    Student's density.

    `RationalQuadratic` with alpha = (nu + 1) / 2 and the lengthscale l sqrt(nu / (nu +
    1)).

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

    nu: float = 1.0

    def _validate(self) -> None:
        super()._validate()
        check_positive(self.nu, "nu")

    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        return np.exp(
            -(self.nu + 1) / 2 * np.log1p(cdist(U, V, "sqeuclidean") / self.nu)
        )

    def spectral_measure(self) -> SpectralMeasure:
        """Normal times the root of a Gamma variable of mean (nu + 1) / nu."""
        shape = (self.nu + 1) / 2
        return Isotropic(
            lambda u: gammaincinv(shape, u[0]) * (2 / self.nu), 2 * shape / self.nu
        )


@dataclass(eq=False, repr=False)
class PowerExponential(Stationary):
    """Power exponential (generalised Gaussian) kernel, exp(-||(x - y) / l||^power).

    It ranges from `Matern` with nu = 1/2 (power 1) to the Gaussian of lengthscale l /
    sqrt(2) (power 2). It is a mixture of Gaussians whose scale has a positive stable
    distribution of index a = power / 2, E exp(-t S) = exp(-t^a), which is drawn from a
    uniform and an exponential number (Kanter, 1975), with U uniform on (0, pi):
    S = sin(a U) / sin(U)^(1/a) (sin((1 - a) U) / E)^((1 - a) / a). The frequencies
    then follow a multivariate stable distribution.

    Parameters
    ----------
    lengthscale : float or array of shape (d,), default=1.0
    power : float, default=1.0
        In (0, 2]: beyond 2 the function is not a kernel.

    Raises
    ------
    ValueError
        If `power` is out of range.

    References
    ----------
    Kanter, "Stable densities under change of scale and total variation inequalities",
    Annals of Probability 1975.

    Examples
    --------
    >>> from bochner.kernels import PowerExponential
    >>> PowerExponential(power=1.5)([[0.0]], [[1.0], [2.0]]).round(4)
    array([[0.3679, 0.0591]])
    """

    formula = "exp(-‖delta‖^power)"
    spectrum = "multivariate stable of index power"

    power: float = 1.0

    def _validate(self) -> None:
        super()._validate()
        check_positive(self.power, "power")
        if self.power > 2:
            raise ValueError(
                f"power must be at most 2, got {self.power}: beyond that "
                "exp(-r^power) is not a kernel."
            )

    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        with np.errstate(over="ignore"):
            return np.exp(-(cdist(U, V, "euclidean") ** self.power))

    def spectral_measure(self) -> SpectralMeasure:
        """Normal times the root of twice a positive stable variable."""
        a = self.power / 2
        if a == 1:
            return Isotropic(lambda u: np.full(u.shape[1], 2.0), 2.0, n_uniforms=0)

        def scale(u: NDArray) -> NDArray:
            angle = np.pi * u[0]
            exponential = np.maximum(-np.log1p(-u[1]), TINY)
            log_stable = np.log(np.sin(a * angle)) - np.log(np.sin(angle)) / a
            log_stable += (
                (1 - a) / a * (np.log(np.sin((1 - a) * angle)) - np.log(exponential))
            )
            return 2 * np.exp(np.minimum(log_stable, LARGEST_SCALE))

        return Isotropic(scale, np.inf, n_uniforms=2)


EXPANDED_ORDER = 50  # of the Bessel function, from which its expansion serves
LARGEST_ORDER = 1e7  # beyond which a Matern kernel is the Gaussian, to 1e-7
# Argument over the order at which Matern kernels are zero in double precision
VANISHED = 1e4


@dataclass(eq=False, repr=False)
class Matern(Stationary):
    """Matern kernel of smoothness nu, 2^(1 - nu) / Gamma(nu) s^nu K_nu(s) with s =
    sqrt(2 nu) ||(x - y) / l||.

    nu = 1/2 is exp(-r), 3/2 and 5/2 are once and twice differentiable, and infinity is
    the Gaussian. Its frequencies follow a *multivariate* Student t distribution with 2
    nu degrees of freedom (Rasmussen and Williams, 2006, eq. 4.15).

    Over several features it is not a product (unless nu is infinite), hence not a
    mixture of hats; ``Matern(nu=0.5)`` in one column equals `Laplacian`, which is one.

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

    nu: float = 1.5

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
        nu = self.nu
        # Log of the modified Bessel function K_nu(s): from order 50 on by the uniform
        # expansion in 1 / nu (DLMF 10.41.4, three terms), where SciPy's overflows
        if nu < EXPANDED_ORDER:
            with np.errstate(over="ignore", divide="ignore"):
                log_bessel = np.log(kve(nu, s)) - s
        else:
            z = s / nu
            root = np.sqrt(1 + z * z)
            p = 1 / root
            eta = root + np.log(z / (1 + root))
            u1 = (3 * p - 5 * p**3) / 24
            u2 = (81 * p**2 - 462 * p**4 + 385 * p**6) / 1152
            u3 = 30375 * p**3 - 369603 * p**5 + 765765 * p**7 - 425425 * p**9
            log_bessel = (
                0.5 * np.log(np.pi / (2 * nu * root))
                - nu * eta
                + np.log1p(-u1 / nu + u2 / nu**2 - u3 / 414720 / nu**3)
            )
        log_k = (1 - nu) * np.log(2) - gammaln(nu) + nu * np.log(s) + log_bessel
        return np.where(r == 0, 1.0, np.exp(np.minimum(log_k, 0.0)))

    def spectral_measure(self) -> SpectralMeasure:
        """Multivariate t: normal over the root of chi-square(2 nu) / (2 nu), one for
        the whole vector.
        """
        if self.nu == np.inf:
            return Gaussian().spectral_measure()
        nu = float(self.nu)
        moment = nu / (nu - 1) if nu > 1 else np.inf
        return Isotropic(lambda u: nu / np.maximum(gammaincinv(nu, u[0]), TINY), moment)
