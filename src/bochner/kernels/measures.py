"""Spectral measures: the laws that Bochner's theorem pairs with kernels of unit lengthscale."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Isotropic:
    """Frequencies of uniform direction: a normal vector times the root of a random scale.

    Every kernel here that depends on the Euclidean distance is a scale mixture of Gaussians,
    k(r) = E exp(-s r^2 / 2), so that w = sqrt(s) z with z standard normal (*one* s for the whole vector).

    Parameters
    ----------
    scale : callable (rng, size) -> array of shape (size,)
        Draws of s.
    """

    scale: Callable[[np.random.Generator, int], NDArray]

    def radii(self, rng: np.random.Generator, size: int, n_features: int) -> NDArray:
        """Lengths of `size` frequencies in `n_features` dimensions, shape (size,)."""
        return np.sqrt(rng.chisquare(n_features, size) * self.scale(rng, size))


@dataclass(frozen=True)
class Separable:
    """Frequencies with independent, identically distributed coordinates.

    Parameters
    ----------
    quantile : callable array -> array
        Inverse of the distribution function of one coordinate.
    """

    quantile: Callable[[NDArray], NDArray]


SpectralMeasure = Isotropic | Separable
