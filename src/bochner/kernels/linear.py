"""Kernels of linear combinations of the columns: anisotropy by a full matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from bochner.arrays import Floats
from bochner.kernels.base import Around, Kernel, Term, check_kernel


@dataclass(eq=False, repr=False)
class Mapped(Around):
    """A leaf that sees linear combinations of the columns: what `Linear` is made of."""

    pitches = (
        "none: grids are along the columns; give BinningFeatures the kernel inside "
        "and the rows X @ matrix.T"
    )

    matrix: Floats

    def columns(self, n_features: int) -> NDArray[np.intp]:
        """All columns; ValueError where the matrix has another number of them."""
        if n_features != self.matrix.shape[1]:
            raise ValueError(
                f"The kernel maps {self.matrix.shape[1]} features by its matrix, and "
                f"the data have {n_features}."
            )
        return np.arange(n_features)

    def scales(self, n_features: int) -> Floats:
        """One, for the leaf has the lengthscales of what it sees; ValueError where
        sizes do not fit one another.
        """
        self.columns(n_features)
        self.leaf.scales(len(self.matrix))
        return np.ones(())

    def check_columns(self, X: NDArray | sp.csr_array, columns: NDArray) -> None:
        """Raise ValueError where the leaf does not serve the combinations."""
        self.leaf.check_columns(
            X[:, columns] @ self.matrix.T, self.leaf.columns(len(self.matrix))
        )

    def __repr__(self) -> str:
        rows, columns = self.matrix.shape
        return f"Linear({self.leaf!r}, <{rows} x {columns}>)"

    def n_coordinates(self, n_features: int) -> int:
        """Coordinates of the frequencies of the leaf."""
        self.columns(n_features)
        return self.leaf.n_coordinates(len(self.matrix))

    def frequencies(self, unit: NDArray, n_features: int) -> Floats:
        """A'w, of shape (n_features, size), for frequencies w of the leaf."""
        return self.matrix.T @ self.leaf.frequencies(unit, len(self.matrix))

    def covariance(self, n_features: int) -> Floats:
        """Covariance of the frequencies."""
        return self.matrix.T @ self.leaf.covariance(len(self.matrix)) @ self.matrix

    def second_moments(self, n_features: int) -> Floats:
        """Diagonal of the covariance."""
        moments = self.leaf.second_moments(len(self.matrix))
        if not (finite := np.isfinite(moments)).all():
            return np.where(
                self.matrix[~finite].any(axis=0), moments[~finite].max(), 0.0
            )
        covariance = self.leaf.covariance(len(self.matrix))
        return np.einsum("ij,ij->j", self.matrix, covariance @ self.matrix)

    def _gram(self, X: NDArray, Y: NDArray) -> NDArray:
        U = X @ self.matrix.T
        return self.leaf._gram(U, U if Y is X else Y @ self.matrix.T)


@dataclass(eq=False, repr=False)
class Linear(Kernel):
    """A kernel of linear combinations of the columns, kernel(A x, A y): anisotropy by a
    full matrix A.

    Lengthscales scale along the columns; A scales along any directions, and may ignore
    some. A kernel of the Euclidean distance becomes one of the Mahalanobis distance,
    ||A (x - y)||^2 = (x - y)' A'A (x - y). If w is a frequency of the inner kernel, A'w
    is a frequency of this one.

    Parameters
    ----------
    kernel : Kernel
        Of q features, with lengthscales in units of the combinations.
    matrix : array of shape (q, d)
        A, one combination of the d columns in each row.

    Raises
    ------
    TypeError, ValueError
        If `kernel` is not a kernel, or `matrix` is not a finite matrix of numbers. When
        rows are compared or a map is drawn: if they do not have d columns.

    Examples
    --------
    Along the diagonal the kernel falls ten times as fast as across:

    >>> import numpy as np
    >>> from bochner.kernels import Gaussian, Linear
    >>> kernel = Linear(Gaussian(), [[0.5, 0.5], [0.05, -0.05]])
    >>> kernel([[0.0, 0.0]], [[1.0, 1.0], [1.0, -1.0]]).round(4)
    array([[0.6065, 0.995 ]])

    Of a covariance matrix C of the columns, the inverse of its Cholesky factor measures
    in standard deviations:

    >>> C = np.array([[4.0, 1.0], [1.0, 1.0]])
    >>> kernel = Linear(Gaussian(), np.linalg.inv(np.linalg.cholesky(C)))
    """

    kernel: Kernel
    matrix: ArrayLike

    def _validate(self) -> None:
        check_kernel(self.kernel)
        try:
            matrix: Any = np.asarray(self.matrix)
        except ValueError:  # rows of unequal length
            matrix = np.empty(0, object)
        if matrix.dtype.kind not in "iuf" or matrix.ndim != 2:
            raise TypeError(
                "matrix must be a matrix of numbers, of shape (q, d), got "
                f"{self.matrix!r}."
            )
        if not matrix.size or not np.isfinite(matrix).all():
            raise ValueError(
                f"matrix must be finite and not empty, got {self.matrix!r}."
            )
        try:
            self.kernel.check_features(len(matrix))
        except ValueError as error:
            raise ValueError(
                f"matrix has {len(matrix)} rows, which are the features of the "
                f"kernel. {error}"
            ) from None

    def terms(self) -> list[Term]:
        """Terms of the kernel, of the combinations."""
        matrix = np.asarray(self.matrix, np.float64)
        return [
            (v, tuple(Mapped(leaf, matrix) for leaf in leaves))
            for v, leaves in self.kernel.terms()
        ]
