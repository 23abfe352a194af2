"""Maps that tests see rows through, their principal directions, and the columns that a function of the rows follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.sparsefuncs import mean_variance_axis

from bochner.data.encodings import TextColumn
from bochner.data.table import TableEncoder
from bochner.features.base import Rows
from bochner.features.fourier import FourierFeatures
from bochner.kernels import Gaussian

MEDIAN_ROWS = 250
NEGLIGIBLE = 1e-10  # of the greatest eigenvalue


@dataclass(frozen=True)
class Member:
    """Statistics of one map: of one kernel width or of several together, for several ridge penalties.

    Attributes
    ----------
    widths : tuple of float
        Lengthscales over the median distance of two rows.
    ridges : tuple of float
        Added to the eigenvalues of the covariance, whose sum is one at most.
    shares : tuple of float
        Of the level, of each ridge penalty.
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


def category_groups(encoder: TableEncoder) -> list[NDArray[np.intp]]:
    """Numbers of the encoded columns of zeros and ones of each column of text, of which a row has a single one."""
    groups = []
    for column in encoder.columns_:
        if isinstance(column, TextColumn):
            own = np.arange(column.start, column.start + column.width)
            groups.append(own[(own < column.code.start) | (own >= column.code.stop)])
    return groups


def column_slopes(
    features: FourierFeatures, X: Any, coef: NDArray, groups: Sequence[NDArray] = ()
) -> NDArray[np.float64]:
    """How much of the variance of a function z(x)'c of the rows is by each column, by its derivatives.

    That is the mean squared derivative times the variance of the column. Of categories, one of which a row has, it is
    the share of rows times the squared derivative, less the mean derivative of all categories in these shares: the
    variance over categories, to which one that is rare adds little.

    Parameters
    ----------
    features : FourierFeatures
        Of cosines and sines in pairs.
    X : array or CSR matrix of shape (n, d)
    coef : array of shape (D,), or (n, D) where each row has a function of its own
    groups : sequence of int arrays
        Columns of the categories of one column of the table each.

    Returns
    -------
    array of shape (d,)
    """
    W, m = features.frequencies_, features.frequencies_.shape[1]
    angles = np.asarray(X @ W, np.float64)
    c = np.atleast_2d(coef)
    slopes = features.amplitudes_ * (c[:, m:] * np.cos(angles) - c[:, :m] * np.sin(angles))
    mean, scale = _mean_and_variance(X)
    ways = W.astype(np.float64)
    for group in groups:
        share = mean[group]
        ways[group] -= share @ ways[group] / max(share.sum(), np.finfo(np.float64).tiny)
        scale[group] = share
    return scale * np.einsum("jm,jm->j", ways @ (slopes.T @ slopes), ways) / len(slopes)


def _mean_and_variance(X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of the columns of an array or CSR matrix, in double precision."""
    if not sp.issparse(X):
        return X.mean(axis=0, dtype=np.float64), X.var(axis=0, dtype=np.float64)
    return mean_variance_axis(X.astype(np.float64), axis=0)


def encoded_shares(features: FourierFeatures, X: Any, coef: NDArray, encoder: TableEncoder) -> NDArray[np.float64]:
    """`column_slopes` of encoded rows as shares, which sum to one, or are zero; rounding makes none negative."""
    found = np.maximum(column_slopes(features, X, coef, category_groups(encoder)), 0.0)
    return found / found.sum() if found.sum() > 0 else found
