"""How many features statistical theory asks for: effective dimension and spectral
approximation.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigvalsh

from bochner.data.outliers import drawn
from bochner.kernels import Kernel
from bochner.kernels.base import check_count, check_kernel, check_positive
from bochner.theory.region import dense_rows


def effective_dimension(
    K: Kernel | ArrayLike,
    alpha: float,
    X: ArrayLike | None = None,
    *,
    n_rows: int = 2000,
    random_state: Any = None,
) -> float:
    """Effective dimension of kernel ridge regression, trace K (K + alpha I)^(-1).

    It is the sum of mu / (mu + alpha) over the eigenvalues mu of the kernel matrix: the
    number of directions that the ridge penalty leaves free. For a sample of s of n rows
    the eigenvalues are about s / n times as large, so alpha s / n replaces alpha. The
    result is slightly smaller than for all rows, because the smallest eigenvalues are
    missing.

    Parameters
    ----------
    K : array of shape (n, n), or Kernel
        The kernel matrix, symmetric and positive semidefinite; or the kernel, with X.
    alpha : float
        Ridge penalty of the estimators, in min_w ||y - Z w||^2 + alpha ||w||^2.
    X : array of shape (n, d), optional
    n_rows : int, default=2000
        Number of rows that are drawn at random, if there are more.
    random_state : int, Generator or None, default=None

    Returns
    -------
    float
        Between 0 and n.

    Raises
    ------
    ValueError
        If alpha is not positive, K is not square or not symmetric, or X does not fit
        the kernel.
    TypeError
        If a kernel comes without X, or a matrix with it; if X is sparse.

    References
    ----------
    Avron, Kapralov, Musco, Musco, Velingker and Zandieh, "Random Fourier Features for
    Kernel Ridge Regression", ICML 2017 (there s_lambda, the statistical dimension).

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Gaussian
    >>> from bochner.theory import effective_dimension
    >>> effective_dimension(np.eye(4), alpha=1.0)
    2.0
    >>> X = np.random.default_rng(0).standard_normal((300, 2))
    >>> round(effective_dimension(Gaussian(), 1.0, X), 2)
    18.53
    """
    check_positive(alpha, "alpha")
    eigenvalues, n = _eigenvalues(K, X, n_rows, random_state)
    ridge = float(alpha) * len(eigenvalues) / n
    return float((eigenvalues / (eigenvalues + ridge)).sum())


def _eigenvalues(K: Any, X: Any, n_rows: int, random_state: Any) -> tuple[NDArray, int]:
    """Eigenvalues of the kernel matrix of all rows or of some, and the number of
    all.
    """
    if isinstance(K, Kernel):
        if X is None:
            raise TypeError("A kernel needs the rows: give X.")
        check_count(n_rows, "n_rows")
        rows = dense_rows(X)
        n = len(rows)
        few = rows[drawn(np.arange(n), n_rows, random_state)]
        return np.maximum(eigvalsh(K(few)), 0.0), n
    if X is not None:
        raise TypeError("X is for a kernel; leave it out with a matrix K.")
    matrix = np.asarray(K, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(
            f"K must be a square matrix, got shape {matrix.shape}; for rows give "
            "effective_dimension(kernel, alpha, X)."
        )
    if not np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-6 * np.abs(matrix).max()):
        raise ValueError(
            "K is not symmetric, or not finite: not the kernel matrix of rows with "
            "themselves."
        )
    return np.maximum(eigvalsh(matrix), 0.0), len(matrix)


@dataclass(frozen=True)
class StatisticalComponents:
    """Numbers of columns D of paired random Fourier features, by three theorems.

    Attributes
    ----------
    effective_dimension : float
        s = trace K (K + alpha I)^(-1).
    spectral : int
        D with which (1 - spectral_error) (K + alpha I) <= Z Z' + alpha I <= (1 +
        spectral_error) (K + alpha I) holds with probability at least 1 - delta, for
        independent frequencies of the kernel's own distribution (Avron et al., 2017,
        Theorem 7): 2 (8 / 3) spectral_error^(-2) (n k(0) / alpha) ln(16 s / delta). The
        constants are those that the matrix Bernstein inequality with intrinsic
        dimension (Tropp, 2015, Theorem 7.3.1) gives.
    leverage : int
        As `spectral`, for frequencies drawn by their exact ridge leverage scores: with
        s in place of n k(0) / alpha. For approximate scores, as with
        sampling="leverage", up to a constant.
    learning : int
        sqrt(n) ln(n), the order of D with which ridge regression with alpha of the
        order sqrt(n) learns at the rate 1 / sqrt(n) of the exact one (Rudi and Rosasco,
        2017, Theorem 1): up to a constant, which is not known.

    Examples
    --------
    >>> from bochner.theory import StatisticalComponents
    >>> StatisticalComponents(10.0, 200_000, 2_000, 700).leverage
    2000
    """

    effective_dimension: float
    spectral: int
    leverage: int
    learning: int


def statistical_components(
    kernel: Kernel,
    alpha: float,
    X: ArrayLike,
    *,
    spectral_error: float = 0.5,
    delta: float = 0.1,
    n_rows: int = 2000,
    random_state: Any = None,
) -> StatisticalComponents:
    """Columns D that statistical theory requires, usually far fewer than Claim 1 if
    alpha is large.

    Claim 1 requires every kernel value to be accurate. Ridge regression needs less: K +
    alpha I as a whole, up to a factor. The theorems count complex waves exp(i w'x); a
    pair of a cosine and a sine is one, hence D = 2 times their numbers.

    Parameters
    ----------
    kernel : Kernel
    alpha : float
        Ridge penalty of the estimators.
    X : array of shape (n, d)
    spectral_error : float, default=0.5
        At most 1 / 2.
    delta : float, default=0.1
    n_rows, random_state
        As in `effective_dimension`.

    Returns
    -------
    StatisticalComponents

    Raises
    ------
    ValueError
        If alpha is not positive or exceeds the largest eigenvalue of K, for which there
        is no theorem; if spectral_error or delta is out of range.
    TypeError
        If `kernel` is not a kernel, or X is sparse.

    References
    ----------
    Avron, Kapralov, Musco, Musco, Velingker and Zandieh, "Random Fourier Features for
    Kernel Ridge Regression", ICML 2017. Tropp, "An Introduction to Matrix Concentration
    Inequalities", Foundations and Trends in Machine Learning 8, 2015. Rudi and Rosasco,
    "Generalization Properties of Learning with Random Features", NIPS 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Gaussian
    >>> from bochner.theory import statistical_components
    >>> X = np.random.default_rng(0).standard_normal((300, 2))
    >>> sizes = statistical_components(Gaussian(), 1.0, X)
    >>> sizes.spectral, sizes.leverage, sizes.learning
    (51168, 3162, 99)
    """
    check_kernel(kernel)
    check_positive(alpha, "alpha")
    for name, value, most in (
        ("spectral_error", spectral_error, 0.5),
        ("delta", delta, 1.0),
    ):
        if not isinstance(value, Real) or not 0 < float(value) <= most or value == 1:
            raise ValueError(
                f"{name} must be above 0 and at most {most} (below 1), got {value!r}."
            )
    eigenvalues, n = _eigenvalues(kernel, X, n_rows, random_state)
    ridge = float(alpha) * len(eigenvalues) / n
    if eigenvalues[-1] < ridge:
        raise ValueError(
            f"alpha = {alpha:g} exceeds the largest eigenvalue of the kernel matrix, "
            f"about {eigenvalues[-1] * n / len(eigenvalues):.3g}, beyond which the "
            "theorem says nothing: lower alpha."
        )
    s = float((eigenvalues / (eigenvalues + ridge)).sum())
    waves = 8 / 3 / float(spectral_error) ** 2 * np.log(16 * s / float(delta))
    spectral = 2 * int(np.ceil(waves * n * kernel.variance / float(alpha)))
    return StatisticalComponents(
        s, spectral, 2 * int(np.ceil(waves * s)), int(np.ceil(np.sqrt(n) * np.log(n)))
    )
