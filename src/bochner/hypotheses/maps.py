"""Maps that tests see rows through, their principal directions, and the columns that a function of the rows follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.features.dense import Rows
from bochner.features.fourier import FourierFeatures
from bochner.kernels import Gaussian

MEDIAN_ROWS = 250
NEGLIGIBLE = 1e-10  # of the greatest eigenvalue


@dataclass(frozen=True)
class Member:
    """Statistics of one map: of one kernel width or of several together, for several ridge terms.

    Attributes
    ----------
    widths : tuple of float
        Lengthscales over the median distance of two rows.
    ridges : tuple of float
        Added to the eigenvalues of the covariance, whose sum is one at most.
    shares : tuple of float
        Of the level, of each ridge term.
    """

    widths: tuple[float, ...]
    ridges: tuple[float, ...]
    shares: tuple[float, ...]

    @property
    def labels(self) -> list[str]:
        """What each statistic is."""
        low, high = min(self.widths), max(self.widths)
        width = f"median x {low:g}" if low == high else f"median x {low:g} to {high:g}"
        return [f"{width}, ridge {ridge:g}" for ridge in self.ridges]


def draw_map(X: Rows, widths: Sequence[float], unit: float, n_components: int, seed: Any) -> FourierFeatures:
    """Fourier features of the mean of Gaussian kernels of several widths, in units of `unit`."""
    share = 1 / len(widths)
    kernels = [Gaussian(unit * width) if share == 1 else share * Gaussian(unit * width) for width in widths]
    features = FourierFeatures(reduce(add, kernels), n_components, random_state=seed)
    features.draw(X.shape[1])
    return features


@dataclass(frozen=True)
class Axes:
    """Principal axes of features.

    Attributes
    ----------
    variances : array of shape (r,)
        Ascending.
    vectors : array of shape (D, r)
    """

    variances: NDArray[np.float64]
    vectors: NDArray[np.float64]

    @classmethod
    def of(cls, covariance: NDArray) -> Axes:
        """The axes of a covariance matrix of shape (D, D), but for those without variance."""
        from scipy.linalg import eigh

        variances, vectors = eigh(covariance, driver="evd")
        kept = variances > NEGLIGIBLE * max(variances[-1], np.finfo(np.float64).tiny)
        return cls(variances[kept], vectors[:, kept])

    def leading(self, share: float, most: int) -> Axes:
        """Those of the greatest variance, which have a share of all of it, and are so many at most."""
        falling = np.cumsum(self.variances[::-1])
        r = min(int(np.searchsorted(falling, share * falling[-1])) + 1, most) if len(falling) else 0
        return Axes(self.variances[len(falling) - r :], self.vectors[:, len(falling) - r :])


def column_slopes(features: FourierFeatures, X: Any, coef: NDArray) -> NDArray[np.float64]:
    """Mean squared derivatives of a function z(x)'c of the rows by each column.

    Parameters
    ----------
    features : FourierFeatures
        Of cosines and sines in pairs.
    X : array or CSR matrix of shape (n, d)
    coef : array of shape (D,), or (n, D) where each row has a function of its own

    Returns
    -------
    array of shape (d,)
    """
    W, m = features.frequencies_, features.frequencies_.shape[1]
    angles = np.asarray(X @ W, np.float64)
    c = np.atleast_2d(coef)
    slopes = features.amplitudes_ * (c[:, m:] * np.cos(angles) - c[:, :m] * np.sin(angles))
    return np.einsum("jm,jm->j", W @ (slopes.T @ slopes), W) / len(slopes)


def column_shares(slopes: NDArray, sources: NDArray, n_columns: int) -> NDArray[np.float64]:
    """Slopes of encoded columns as shares of the columns of the table, which sum to one, or are zero."""
    found = np.bincount(sources, slopes, n_columns).astype(np.float64)
    return found / found.sum() if found.sum() > 0 else found
