"""Kernels of a function of your own, of the Euclidean distance or of the distance in each column."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from bochner.kernels.hats import Pitches, mixture_of_hats
from bochner.kernels.measures import RadialLaw, SpectralMeasure
from bochner.kernels.stationary import ISOTROPIC, Stationary, over_features
from bochner.kernels.transforms import cosine_law, hankel_law

ROUNDED = 16 * np.finfo(float).eps  # accuracy expected of a function that should be 1 at 0


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
    """A kernel from your own function of the Euclidean distance, function(||(x - y) / l||).

    It is a kernel of d features if it is a mixture of waves averaged over all directions (Schoenberg, 1938). The law of
    their frequencies, which depends on d, is computed by a numerical Hankel transform (step 1 of Algorithm 1). If that
    is negative, the function is not a kernel of d features, though it may be one of fewer. Kernels compare their
    functions by identity. To pickle the kernel, its function must be picklable, hence not a lambda.

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
        return f"{ISOTROPIC}; for one that is, use Coordinatewise"


class Coordinatewise(OfFunction):
    """A kernel from your own function of each coordinate: the product over the features of function(|x - y| / l).

    The law of its frequencies is computed by a numerical cosine transform (step 1 of Algorithm 1), which must not be
    negative. If the function is convex and falls to 0, it is also a mixture of hats, whose law of pitches is computed
    from second differences. Kernels compare their functions by identity. To pickle the kernel, its function must be
    picklable, hence not a lambda.

    Parameters
    ----------
    function : callable array -> array of the same shape, float64
        Of distances t >= 0, with function(0) = 1.
    lengthscale : float or array of shape (d,), default=1.0

    Raises
    ------
    TypeError
        If `function` is not callable, or does not turn float64 arrays into float64 arrays of the same shape.
    ValueError
        If it is not 1 at 0 or not finite, here or when a matrix or the law of the pitches is computed; if a
        lengthscale is not positive and finite. When a map is drawn: where its transform is negative, and by how much.

    Examples
    --------
    >>> from bochner.kernels import Coordinatewise
    >>> def heavy(t):
    ...     return 1 / (1 + t) ** 2
    >>> kernel = Coordinatewise(heavy, lengthscale=2.0)
    >>> kernel
    Coordinatewise(function=heavy, lengthscale=2.0)
    >>> kernel([[0.0, 0.0]], [[2.0, 2.0]])
    array([[0.0625]])
    """

    formula = "prod_j function(|delta_j|)"
    spectrum = "its cosine transform, as numbers"
    pitches = "delta function''(delta), as numbers"

    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        return over_features(self._evaluate, U, V)

    def spectral_measure(self) -> SpectralMeasure:
        """The cosine transform of the function, as numbers; ValueError where it is negative."""
        return cosine_law(self._evaluate)

    def pitch_measure(self) -> Pitches:
        """Pitches on a fine grid, from second differences; ValueError where the function is not convex."""
        return mixture_of_hats(self._evaluate)
