"""What errors cost: losses of targets and fitted values, with the derivatives that solvers take."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Loss(Protocol):
    """A convex loss, the same for each entry; targets y and fitted values f of shapes that broadcast."""

    def value(self, y: NDArray, f: NDArray) -> NDArray:
        """The loss."""

    def gradient(self, y: NDArray, f: NDArray) -> NDArray:
        """First derivative by f."""

    def curvature(self, y: NDArray, f: NDArray) -> NDArray:
        """Second derivative by f, not negative: the weight of a row in the next reweighted least squares."""


class Squared:
    """(y - f)^2, whose curvature is the same everywhere, so that one solution of the normal equations is all."""

    def value(self, y: NDArray, f: NDArray) -> NDArray:
        return np.square(y - f)

    def gradient(self, y: NDArray, f: NDArray) -> NDArray:
        return 2 * (f - y)

    def curvature(self, y: NDArray, f: NDArray) -> NDArray:
        return np.full(np.broadcast_shapes(np.shape(y), np.shape(f)), 2.0)


SQUARED = Squared()
