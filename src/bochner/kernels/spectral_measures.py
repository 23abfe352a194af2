"""Spectral measures: distributions of frequencies that belong to kernels by
Bochner's theorem, at unit lengthscale.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

TINY = np.finfo(float).tiny
SEED_NUMBERS = 4  # uniform numbers whose bits are the seed of a sampler


@dataclass(frozen=True)
class Isotropic:
    """Frequencies of uniform direction: a normal vector times the root of a random
    scale.

    A kernel that is a scale mixture of Gaussians in the Euclidean distance, k(r) = E
    exp(-s r^2 / 2), has the frequencies w = sqrt(s) z with z standard normal (*one* s
    for the whole vector).

    Parameters
    ----------
    scale : callable array of shape (n_uniforms, size) -> array of shape (size,)
        Draws of s from independent uniform numbers in (0, 1).
    second_moment : float
        E s, the variance of a coordinate; may be infinite.
    n_uniforms : int, default=1
    """

    scale: Callable[[NDArray], NDArray]
    second_moment: float
    n_uniforms: int = 1

    def frequencies(self, normal: NDArray, uniform: NDArray) -> NDArray:
        """Frequencies, shape (d, size), from normal vectors of that shape and
        uniform numbers, (n_uniforms, size).
        """
        return normal * np.sqrt(self.scale(uniform))

    def moments(self, n_features: int) -> NDArray:
        """Second moments of the coordinates, shape (n_features,)."""
        return np.full(n_features, self.second_moment)


@dataclass(frozen=True)
class RadialLaw:
    """Frequencies of uniform direction, whose length has a distribution that is known
    as numbers, one for each dimension.

    Parameters
    ----------
    distribution : callable d -> object
        That of the length in d dimensions: its `quantile` inverts the
        distribution function, its `second_moment` is the variance of a coordinate.
    """

    distribution: Callable[[int], Any]
    n_uniforms: int = 1

    def frequencies(self, normal: NDArray, uniform: NDArray) -> NDArray:
        """Frequencies in the directions of the normal vectors, shape (d, size)."""
        lengths = self.distribution(len(normal)).quantile(uniform[0])
        return normal * (lengths / np.linalg.norm(normal, axis=0))

    def moments(self, n_features: int) -> NDArray:
        """Second moments of the coordinates, shape (n_features,)."""
        return np.full(n_features, self.distribution(n_features).second_moment)


@dataclass(frozen=True)
class Separable:
    """Frequencies with independent coordinates.

    Parameters
    ----------
    quantile : callable array of shape (d, size) -> array of that shape
        Turns uniform numbers into coordinates, as the inverse of their distribution
        function does.
    second_moment : float or array of shape (d,)
        Variance of a coordinate; may be infinite.
    """

    quantile: Callable[[NDArray], NDArray]
    second_moment: float | NDArray
    n_uniforms: int = 0

    def frequencies(self, normal: NDArray, uniform: NDArray) -> NDArray:
        """Frequencies, shape (d, size), coordinate by coordinate from the normal
        ones.
        """
        return self.quantile(np.clip(ndtr(normal), TINY, 1 - 2**-53))

    def moments(self, n_features: int) -> NDArray:
        """Second moments of the coordinates, shape (n_features,)."""
        return np.broadcast_to(
            np.asarray(self.second_moment, dtype=np.float64), n_features
        )


@dataclass(frozen=True)
class Shifted:
    """Normal frequencies about a centre and about its opposite, half of them each.

    Parameters
    ----------
    centre : float or array of shape (d,)
    """

    centre: float | NDArray
    n_uniforms: int = 1

    def frequencies(self, normal: NDArray, uniform: NDArray) -> NDArray:
        """Frequencies, shape (d, size)."""
        return normal + np.sign(uniform - 0.5) * np.reshape(self.centre, (-1, 1))

    def moments(self, n_features: int) -> NDArray:
        """Second moments of the coordinates, shape (n_features,)."""
        return np.broadcast_to(1 + np.asarray(self.centre) ** 2, n_features)


@dataclass(frozen=True)
class Drawn:
    """Frequencies that a sampler draws by itself, of a distribution that is not known
    otherwise.

    Parameters
    ----------
    sampler : callable (size, d, rng) -> array of shape (size, d)
    """

    sampler: Callable[[int, int, np.random.Generator], NDArray]
    n_uniforms: int = 1

    def frequencies(self, normal: NDArray, uniform: NDArray) -> NDArray:
        """Frequencies, shape (d, size), drawn with the bits of uniform numbers for a
        seed.
        """
        seed = np.ascontiguousarray(uniform[0, :SEED_NUMBERS]).view(np.uint64)
        return self.sampler(
            uniform.shape[1], len(normal), np.random.default_rng(seed)
        ).T

    def moments(self, n_features: int) -> NDArray:
        """NaN: not known."""
        return np.full(n_features, np.nan)


SpectralMeasure = Isotropic | RadialLaw | Separable | Shifted | Drawn
