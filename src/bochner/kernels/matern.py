"""The Matern kernel, of any smoothness."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from scipy.special import gammaincinv, gammaln, kve

from bochner.kernels.base import check_positive
from bochner.kernels.measures import TINY, Isotropic, SpectralMeasure
from bochner.kernels.radial import Gaussian
from bochner.kernels.stationary import CONCAVE, ISOTROPIC, Stationary

EXPANDED_ORDER = 50  # of the Bessel function, from which its expansion serves
LARGEST_ORDER = 1e7  # beyond which a Matern kernel is the Gaussian, to 1e-7
VANISHED = 1e4  # argument over the order at which Matern kernels are zero in double precision


class Matern(Stationary):
    """Matern kernel of smoothness nu, 2^(1 - nu) / Gamma(nu) s^nu K_nu(s) with s = sqrt(2 nu) ||(x - y) / l||.

    nu = 1/2 is exp(-r), 3/2 and 5/2 are once and twice differentiable, and infinity is the Gaussian. Its frequencies
    follow a *multivariate* Student t law with 2 nu degrees of freedom (Rasmussen and Williams, 2006, eq. 4.15).

    Over several features it is not a product (unless nu is infinite), hence not a mixture of hats; ``Matern(nu=0.5)``
    in one column equals `Laplacian`, which is one.

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
