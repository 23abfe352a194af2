"""Kernels of a function of your own, of the Euclidean distance or of the distance in
each column.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from bochner.arrays import Floats
from bochner.blocks import BLOCK_ROWS
from bochner.kernels.hats import Function, Pitches, mixture_of_hats
from bochner.kernels.spectral_measures import Drawn, RadialLaw, SpectralMeasure
from bochner.kernels.stationary import Stationary, over_features
from bochner.kernels.transforms import cosine_law, hankel_law

# Accuracy expected of a function that should be 1 at 0
ROUNDED = 16 * np.finfo(float).eps


class OfFunction(Stationary):
    """A kernel of a function of your own: what `Coordinatewise` and `Radial` share."""

    def __init__(
        self,
        function: Function,
        lengthscale: float | ArrayLike = 1.0,
    ) -> None:
        self.function = function
        super().__init__(lengthscale)

    def _validate(self) -> None:
        super()._validate()
        if not callable(self.function):
            raise TypeError(f"function must be callable, got {self.function!r}.")
        at_zero = self._evaluate(np.array([[0.0, 1.0]]))[0, 0]
        if abs(at_zero - 1) > ROUNDED:
            raise ValueError(f"function must be 1 at distance 0, got {at_zero}.")

    def _evaluate(self, distances: NDArray) -> Floats:
        """The function, checked, at distances whose powers may overflow."""
        try:
            with np.errstate(over="ignore", under="ignore"):
                values = np.asarray(self.function(distances))
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"function must take an array of distances; it raised: {error}"
            ) from error
        if values.shape != distances.shape or values.dtype != np.float64:
            raise TypeError(
                "function must turn a float64 array into a float64 array of the "
                "same shape; from shape "
                f"{distances.shape} it made {values.dtype} of shape {values.shape}."
            )
        if not np.all(finite := np.isfinite(values)):
            raise ValueError(
                f"function must be finite; at distance {distances[~finite][0]:.3g} "
                "it is not."
            )
        return values


class Radial(OfFunction):
    """A kernel from your own function of the Euclidean distance, function(||(x - y) /
    l||).

    It is a kernel of d features if it is a mixture of waves averaged over all
    directions (Schoenberg, 1938). The distribution of their frequencies, which depends
    on d, is computed by a numerical Hankel transform (step 1 of Algorithm 1). If that
    is negative, the function is not a kernel of d features, though it may be one of
    fewer. Kernels compare their functions by identity. To pickle the kernel, its
    function must be picklable, hence not a lambda.

    Parameters
    ----------
    function : callable array -> array of the same shape, float64
        Of distances r >= 0, with function(0) = 1, falling to 0.
    lengthscale : float or array of shape (d,), default=1.0

    Raises
    ------
    TypeError
        If `function` is not callable, or does not turn float64 arrays into float64
        arrays of the same shape.
    ValueError
        If it is not 1 at 0 or not finite, here or when a matrix is computed; if a
        lengthscale is not positive and finite. When a map is drawn: where its transform
        is negative, and by how much.

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
        """Distribution of the length of the frequencies by dimension; drawing raises
        ValueError if it is negative.
        """
        return RadialLaw(partial(hankel_law, self._evaluate))


class Coordinatewise(OfFunction):
    """A kernel from your own function of each coordinate: the product over the features
    of function(|x - y| / l).

    The distribution of its frequencies is computed by a numerical cosine transform
    (step 1 of Algorithm 1), which must not be negative. If the function is convex and
    falls to 0, it is also a mixture of hats, whose distribution of pitches is computed
    from second differences. Kernels compare their functions by identity. To pickle the
    kernel, its function must be picklable, hence not a lambda.

    Parameters
    ----------
    function : callable array -> array of the same shape, float64
        Of distances t >= 0, with function(0) = 1.
    lengthscale : float or array of shape (d,), default=1.0

    Raises
    ------
    TypeError
        If `function` is not callable, or does not turn float64 arrays into float64
        arrays of the same shape.
    ValueError
        If it is not 1 at 0 or not finite, here or when a matrix or the distribution of
        the pitches is computed; if a lengthscale is not positive and finite. When a map
        is drawn: where its transform is negative, and by how much.

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
        """The cosine transform of the function, as numbers; ValueError where it is
        negative.
        """
        return cosine_law(self._evaluate)

    def pitch_measure(self) -> Pitches:
        """Pitches on a fine grid, from second differences; ValueError where the
        function is not convex.
        """
        return mixture_of_hats(self._evaluate)


DRAWS = 1 << 15  # frequencies of an estimate
Sampler = Callable[[int, int, np.random.Generator], NDArray]


class FromSpectrum(Stationary):
    """A kernel from samples of its spectral measure, k(x, y) = E cos(w'(x - y) / l),
    with your own sampler of w.

    By Bochner's theorem frequencies of any distribution define a kernel: mixtures,
    empirical spectra, distributions known only by simulation. `FourierFeatures` of it
    use independent draws (sampling "auto" or "iid"). Unless `exact` is given, kernel
    matrices are estimated from 32,768 draws, always the same ones: this is slow, and
    the standard deviation of the errors is below 0.006 (give `exact` for
    `solver="exact"`). Kernels compare their functions by identity. To pickle the
    kernel, its functions must be picklable, hence not lambdas.

    Parameters
    ----------
    sampler : callable (size, d, rng) -> array of shape (size, d)
        Independent frequencies in radians per lengthscale, drawn with the given NumPy
        `Generator`. Their distribution need not be symmetric: w and -w give the same
        wave.
    exact : callable (X, Y) -> array of shape (n, m), optional
        The kernel matrix of rows over the lengthscale, 1 where they are equal, such as
        a function of `sklearn.metrics.pairwise`.
    lengthscale : float or array of shape (d,), default=1.0

    Raises
    ------
    TypeError, ValueError
        If `sampler` or `exact` is not callable; when called, if they return something
        else.

    Examples
    --------
    Frequencies on a sphere, whose kernel of three features is sin(r) / r:

    >>> import numpy as np
    >>> from bochner.kernels import FromSpectrum
    >>> def on_a_sphere(size, d, rng):
    ...     w = rng.standard_normal((size, d))
    ...     return w / np.linalg.norm(w, axis=1, keepdims=True)
    >>> value = FromSpectrum(on_a_sphere)([[0.0, 0.0, 0.0]], [[2.0, 0.0, 0.0]])[0, 0]
    >>> bool(abs(value - np.sin(2) / 2) < 0.01)
    True
    """

    formula = "E cos(w'delta), w by a sampler"
    spectrum = "that of the sampler"
    pitches = "none: its pitches are not known"

    def __init__(
        self,
        sampler: Sampler,
        exact: Callable[[NDArray, NDArray], NDArray] | None = None,
        lengthscale: float | ArrayLike = 1.0,
    ) -> None:
        self.sampler = sampler
        self.exact = exact
        super().__init__(lengthscale)

    def _validate(self) -> None:
        super()._validate()
        if not callable(self.sampler):
            raise TypeError(
                f"sampler must be a function of (size, d, rng), got {self.sampler!r}."
            )
        if self.exact is not None and not callable(self.exact):
            raise TypeError(
                f"exact must be a function of (X, Y), or None, got {self.exact!r}."
            )

    def _draw(self, size: int, d: int, rng: np.random.Generator) -> Floats:
        return _checked(self.sampler(size, d, rng), (size, d), "sampler")

    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        if self.exact is not None:
            return _checked(self.exact(U, V), (len(U), len(V)), "exact")
        gram = np.zeros((len(U), len(V)))
        rng = np.random.default_rng(0)
        frequencies = self._draw(DRAWS, U.shape[1], rng).T
        for a in range(0, DRAWS, BLOCK_ROWS):
            u, v = (W @ frequencies[:, a : a + BLOCK_ROWS] for W in (U, V))
            gram += np.cos(u) @ np.cos(v).T + np.sin(u) @ np.sin(v).T
        return gram / DRAWS

    def spectral_measure(self) -> SpectralMeasure:
        """That of the sampler."""
        return Drawn(self._draw)


def _checked(values: Any, shape: tuple[int, int], name: str) -> Floats:
    values = np.asarray(values)
    if values.shape != shape or values.dtype.kind not in "fiu":
        raise TypeError(
            f"{name} must return numbers of shape {shape}, and made {values.dtype} "
            f"of {values.shape}."
        )
    if not np.isfinite(values).all():
        raise ValueError(
            f"{name} must return finite numbers, and made NaN or infinity."
        )
    return values.astype(np.float64, copy=False)
