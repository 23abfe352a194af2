"""Frequencies drawn again by their ridge leverage scores on a sample of the rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigvalsh
from scipy.optimize import brentq

from bochner.data.weights import draw_rows
from bochner.features.sampling import draw_frequencies
from bochner.kernels import Kernel

POOL = 4  # frequencies drawn for each that is kept
LEVERAGE_ROWS = 1024
SHARE = 0.25  # effective dimension aimed at, of the number of frequencies or of rows, whichever is less
CHUNK = 1024  # frequencies


def draw_by_leverage(
    kernel: Kernel, n_frequencies: int, X: NDArray | sp.csr_array, weight: NDArray, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw frequencies by how much the rows need them, and weights that keep the estimate of the kernel unbiased.

    Of a pool with weights p_i the frequency i, with features phi_i = sqrt(p_i) [cos(w_i'x), sin(w_i'x)] at the rows x
    of a sample and their kernel matrix K = sum_i phi_i phi_i', has the leverage score

        l_i = trace(phi_i' (K + lambda I)^(-1) phi_i),    sum_i l_i = d(lambda), the effective dimension

    (Avron et al., 2017). It is taken m q_i times in the mean, q_i = l_i / d, by systematic resampling, with the weight
    p_i / (m q_i). Lambda is where the effective dimension is a quarter of m, or of the rows if these are fewer: what so
    many frequencies can be expected to serve.

    Parameters
    ----------
    kernel : Kernel
    n_frequencies : int
    X : array or CSR array of shape (n, d)
        Of more than 1,024 rows so many at random are the sample.
    weight : array of shape (n,)
        Rows count by it, and are drawn by it.
    rng : Generator

    Returns
    -------
    frequencies : array of shape (d, m)
    weights : array of shape (m,)
    """
    m = n_frequencies
    pool = draw_frequencies(kernel, POOL * m, X.shape[1], "auto", rng)
    rows, factors = draw_rows(weight, LEVERAGE_ROWS, rng)
    drawn = weight[rows] * (1.0 if factors is None else factors)
    root = np.sqrt(drawn / drawn.mean())
    X = X[rows].astype(np.float64)
    features = [
        (X @ pool.frequencies[:, a : a + CHUNK], np.sqrt(pool.weights[a : a + CHUNK]))
        for a in range(0, POOL * m, CHUNK)
    ]
    K = np.zeros((len(rows), len(rows)))
    for angles, amplitude in features:
        for wave in (np.cos, np.sin):
            phi = root[:, np.newaxis] * wave(angles) * amplitude
            K += phi @ phi.T
    factor = cho_factor(K + _ridge(K, m) * np.eye(len(rows)))
    scores = np.concatenate([_scores(factor, root, *one) for one in features])
    share = scores / scores.sum()
    places = (rng.uniform() + np.arange(m)) / m
    chosen = np.minimum(np.searchsorted(np.cumsum(share), places), len(share) - 1)
    return pool.frequencies[:, chosen], pool.weights[chosen] / (m * share[chosen])


def _ridge(K: NDArray, size: int) -> float:
    eigenvalues = np.maximum(eigvalsh(K), 0.0)
    aim = SHARE * min(size, int(np.count_nonzero(eigenvalues > eigenvalues[-1] * 1e-12)))

    def excess(log_ridge: float) -> float:
        return float((eigenvalues / (eigenvalues + np.exp(log_ridge))).sum() - aim)

    top = np.log(eigenvalues[-1])
    return float(np.exp(brentq(excess, top - 40, top + 40)))


def _scores(factor: tuple, root: NDArray, angles: NDArray, amplitude: NDArray) -> NDArray:
    total = np.zeros(angles.shape[1])
    for wave in (np.cos, np.sin):
        phi = root[:, np.newaxis] * wave(angles) * amplitude
        total += (phi * cho_solve(factor, phi)).sum(axis=0)
    return total
