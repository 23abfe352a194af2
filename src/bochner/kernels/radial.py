"""Kernels of a function of your own of the Euclidean distance, and of its powers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from bochner.kernels.base import check_positive
from bochner.kernels.measures import TINY, Isotropic, RadialLaw, SpectralMeasure
from bochner.kernels.stationary import CONCAVE, ISOTROPIC, Stationary
from bochner.kernels.transforms import hankel_law

ROUNDED = 16 * np.finfo(float).eps  # accuracy expected of a function that should be 1 at 0
LARGEST_SCALE = 600.0  # logarithm of the largest scale drawn, so that its square is finite


class OfFunction(Stationary):
    """A kernel of a function of your own: what `Coordinatewise` and `Radial` share."""

    def __init__(self, function: Callable[[NDArray], NDArray], lengthscale: float | ArrayLike = 1.0) -> None:
        self.function = function
        super().__init__(lengthscale)

    def _validate(self) -> None:
        super()._validate()
        if not callable(self.function):
            raise TypeError(f"function must be callable, got {self.function!r}.")
        at_zero = self._evaluate(np.array([[0.0, 1.0]]))[0, 0]
        if abs(at_zero - 1) > ROUNDED:
            raise ValueError(f"function must be 1 at distance 0, got {at_zero}.")

    def _evaluate(self, distances: NDArray) -> NDArray[np.float64]:
        """The function, checked, at distances whose powers may overflow."""
        try:
            with np.errstate(over="ignore", under="ignore"):
                values = np.asarray(self.function(distances))
        except (TypeError, ValueError) as error:
            raise TypeError(f"function must take an array of distances; it raised: {error}") from error
        if values.shape != distances.shape or values.dtype != np.float64:
            raise TypeError(
                f"function must turn a float64 array into a float64 array of the same shape; from shape "
                f"{distances.shape} it made {values.dtype} of shape {values.shape}."
            )
        if not np.all(finite := np.isfinite(values)):
            raise ValueError(f"function must be finite; at distance {distances[~finite][0]:.3g} it is not.")
        return values

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", None) or repr(self.function)
        return super().__repr__().replace(repr(self.function), name, 1)


class Radial(OfFunction):
    """A function of your own of the Euclidean distance, function(||(x - y) / l||).

    It is a kernel of d features where it is a mixture of the mean waves of all directions (Schoenberg, 1938). The law
    of their frequencies, which depends on d, is found by a numerical Hankel transform (step 1 of Algorithm 1); where
    that is negative the function is no kernel of d features, though it may be one of fewer. Kernels compare their
    functions by identity; one that is to be pickled needs a function that can be, hence no lambda.

    Parameters
    ----------
    function : callable array -> array of the same shape, float64
        Of distances r >= 0, with function(0) = 1, falling to 0.
    lengthscale : float or array of shape (d,), default=1.0

    Raises
    ------
    TypeError
        If `function` is not callable, or does not turn float64 arrays into float64 arrays of the same shape.
    ValueError
        If it is not 1 at 0 or not finite, here or when a matrix is computed; if a lengthscale is not positive and
        finite. When a map is drawn: where its transform is negative, and by how much.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Radial
    >>> def wendland(r):
    ...     return np.maximum(0.0, 1 - r) ** 4 * (4 * r + 1)
    >>> Radial(wendland, lengthscale=10.0)([[0.0, 0.0]], [[3.0, 4.0]])
    array([[0.1875]])
    """

    formula = "function(‖delta‖)"
    spectrum = "its Hankel transform, as numbers"

    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        return self._evaluate(cdist(U, V, "euclidean"))

    def spectral_measure(self) -> SpectralMeasure:
        """Law of the length of the frequencies in each dimension; drawing raises ValueError where it is negative."""
        return RadialLaw(
            lambda u, d: hankel_law(self._evaluate, d).quantile(u),
            lambda d: hankel_law(self._evaluate, d).second_moment,
        )

    def _not_hats(self) -> str:
        return f"{ISOTROPIC}; for one that is, take Coordinatewise"


class PowerExponential(Stationary):
    """Power exponential (generalised Gaussian) kernel, exp(-||(x - y) / l||^power).

    From `Matern` with nu = 1/2 (power 1) to the Gaussian of lengthscale l / sqrt(2) (power 2). A mixture of Gaussians
    whose scale has a positive stable law of index a = power / 2, E exp(-t S) = exp(-t^a), which is drawn from a uniform
    number and an exponential one (Kanter, 1975): S = sin(a U) / sin(U)^(1/a) (sin((1 - a) U) / E)^((1 - a) / a), U
    uniform on (0, pi). The frequencies then follow a multivariate stable law.

    Parameters
    ----------
    lengthscale : float or array of shape (d,), default=1.0
    power : float, default=1.0
        In (0, 2]: beyond 2 the function is no kernel.

    Raises
    ------
    ValueError
        If `power` is out of range.

    References
    ----------
    Kanter, "Stable densities under change of scale and total variation inequalities", Annals of Probability 1975.

    Examples
    --------
    >>> from bochner.kernels import PowerExponential
    >>> PowerExponential(power=1.5)([[0.0]], [[1.0], [2.0]]).round(4)
    array([[0.3679, 0.0591]])
    """

    formula = "exp(-‖delta‖^power)"
    spectrum = "multivariate stable of index power"

    def __init__(self, lengthscale: float | ArrayLike = 1.0, power: float = 1.0) -> None:
        self.power = power
        super().__init__(lengthscale)

    def _validate(self) -> None:
        super()._validate()
        check_positive(self.power, "power")
        if self.power > 2:
            raise ValueError(f"power must be at most 2, got {self.power}: beyond that exp(-r^power) is no kernel.")

    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        with np.errstate(over="ignore"):
            return np.exp(-(cdist(U, V, "euclidean") ** self.power))

    def spectral_measure(self) -> SpectralMeasure:
        """Normal times the root of twice a positive stable variable."""
        a = self.power / 2
        if a == 1:
            return Isotropic(lambda u: np.full(u.shape[1], 2.0), 2.0, n_uniforms=0)

        def scale(u: NDArray) -> NDArray:
            angle, exponential = np.pi * u[0], np.maximum(-np.log1p(-u[1]), TINY)
            log_stable = np.log(np.sin(a * angle)) - np.log(np.sin(angle)) / a
            log_stable += (1 - a) / a * (np.log(np.sin((1 - a) * angle)) - np.log(exponential))
            return 2 * np.exp(np.minimum(log_stable, LARGEST_SCALE))

        return Isotropic(scale, np.inf, n_uniforms=2)

    def _not_hats(self) -> str:
        return CONCAVE if self.power == 2 else ISOTROPIC
