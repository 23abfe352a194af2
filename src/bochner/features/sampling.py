"""How the frequencies of Fourier features are drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigvalsh
from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats.qmc import Sobol

from bochner.arrays import Floats
from bochner.data.weights import draw_rows
from bochner.engines.local import require_memory
from bochner.features.structured import SignedHadamard, cheaper, orthonormal
from bochner.kernels import Kernel, Stationary
from bochner.kernels.base import Leaf
from bochner.kernels.spectral_measures import (
    TINY,
    Drawn,
    Isotropic,
    RadialLaw,
    SpectralMeasure,
)

POOL = 4  # frequencies drawn by leverage for each that is kept
SAMPLINGS = ("auto", "orthogonal", "iid", "structured", "qmc", "leverage")
# Frequency over the lengthscale up to which single precision tells the phase of a wave
RESOLVED = 1e5
# Columns up to which Sobol points err less: any number of points; at least `POINTS`
# for each column
LOW, MIDDLE, POINTS = 5, 10, 50
# Times as fast as a matrix product that structured frequencies are where they are taken
# unasked
CLEARLY = 1.5
Directed = Isotropic | RadialLaw  # normal vectors times a number each


def draw_frequencies(
    kernel: Kernel,
    n_frequencies: int,
    n_features: int,
    sampling: str,
    rng: np.random.Generator,
) -> tuple[Floats, Floats, SignedHadamard | None]:
    """Draw frequencies and weights of a kernel k, with k(x, y) = E sum_j weights_j
    cos(frequencies_j'(x - y)).

    A sum of kernels splits the draws over its terms, in proportion to their variances
    (Neyman's allocation: the deviation of a term's estimate is proportional to its
    variance); a product adds independent frequencies, one of each factor.

    Returns
    -------
    frequencies : array of shape (d, m)
        In radians per unit of the columns.
    weights : array of shape (m,)
    sign_flips : SignedHadamard or None
        The frequencies as a fast transform, where they have one.

    Raises
    ------
    ValueError
        If there are fewer frequencies than terms in the kernel, or `sampling` is not a
        known scheme, or not one of this kernel.
    MemoryError
        Before the draw.
    """
    if sampling not in SAMPLINGS:
        raise ValueError(f"sampling must be one of {SAMPLINGS}, got {sampling!r}.")
    require_memory(
        32 * n_frequencies * n_features * (POOL if sampling == "leverage" else 1),
        f"Drawing {n_frequencies:,} frequencies in {n_features:,} dimensions",
        "Use fewer n_components.",
    )
    terms = kernel.terms()
    variances = [variance for variance, _ in terms]
    counts = allocate(variances, n_frequencies, "n_components")
    weights = np.repeat(variances / counts, counts)
    # Whether the kernel is one leaf, of all columns, whose frequencies have directions
    only = terms[0][1][0]
    alone = (
        len(terms) == len(terms[0][1]) == 1
        and type(only).frequencies is Stationary.frequencies
        and isinstance(only.spectral_measure(), Directed)
    )
    if sampling == "auto" and alone and cheaper(n_features, n_frequencies, CLEARLY):
        sampling = "structured"
    for leaf in (leaf for _, leaves in terms for leaf in leaves):
        measure: SpectralMeasure = leaf.spectral_measure()
        if isinstance(measure, Drawn) and sampling not in ("auto", "iid", "leverage"):
            raise ValueError(
                f"sampling={sampling!r} computes frequencies from its own points, and "
                f"those of {leaf!r} are drawn by its sampler: use sampling='iid'."
            )
        if sampling == "structured" and not isinstance(measure, Directed):
            raise ValueError(
                "sampling='structured' needs frequencies of uniform direction, and "
                f"those of {leaf!r} have none: use sampling='orthogonal' or 'qmc'."
            )
    if sampling == "structured" and alone and n_features >= SignedHadamard.fewest:
        flips = SignedHadamard.draw(n_features, n_frequencies, rng)
        normal = flips.frequencies()
        uniform = rng.uniform(TINY, 1.0, (measure.n_uniforms, n_frequencies))
        unit = unit_frequencies(measure, normal, uniform)
        factors = np.linalg.norm(unit, axis=0) / np.linalg.norm(normal, axis=0)
        flips = flips.scaled(factors, 1 / only.scales(n_features))
        return flips.frequencies(), weights, flips
    blocks = [
        _draw_term(leaves, count, n_features, sampling, rng)
        for (_, leaves), count in zip(terms, counts, strict=True)
    ]
    return np.hstack(blocks), weights, None


def allocate(variances: Sequence[float], total: int, name: str) -> NDArray[np.int64]:
    """Share `total` draws in proportion to the variances, at least one each, by largest
    remainders.

    Raises ValueError, which tells to raise the parameter `name`, where there are fewer
    draws than variances.
    """
    weights = np.array(variances)
    if total < len(weights):
        raise ValueError(
            f"The kernel is a sum of {len(weights)} terms and only {total} draws would "
            f"be made; each term needs one: raise {name}."
        )
    shares = weights / weights.sum() * (total - len(weights))
    counts = 1 + np.floor(shares).astype(np.int64)
    order = np.argsort(np.floor(shares) - shares, kind="stable")
    counts[order[: total - counts.sum()]] += 1
    return counts


def _draw_term(
    leaves: Sequence[Leaf],
    size: int,
    n_features: int,
    sampling: str,
    rng: np.random.Generator,
) -> NDArray:
    """Sum of one frequency of each factor, shape (n_features, size)."""
    measures = [leaf.spectral_measure() for leaf in leaves]
    shapes = [
        (leaf.n_coordinates(n_features), measure.n_uniforms)
        for leaf, measure in zip(leaves, measures, strict=True)
    ]
    if any(isinstance(measure, Drawn) for measure in measures):
        sampling = "iid"
    elif sampling == "auto":
        # Few dimensions and many points, which Sobol's fill more evenly; uniform
        # numbers beside the coordinates do not count
        columns = sum(d for d, _ in shapes)
        even = columns <= LOW or (columns <= MIDDLE and size >= POINTS * columns)
        sampling = "qmc" if even else "orthogonal"
    if sampling == "qmc":
        # Every point of one scrambled Sobol sequence (Yang et al., 2014) has a
        # dimension for each coordinate of each factor. Scrambled points are uniform
        # each for itself, so that estimates stay unbiased; together they fill the cube
        # more evenly than independent ones.
        dimensions = sum(d + more for d, more in shapes)
        if dimensions > Sobol.MAXDIM:
            raise ValueError(
                f"sampling='qmc' has Sobol points of at most {Sobol.MAXDIM:,} "
                "dimensions, and this kernel needs "
                f"{dimensions:,}: use sampling='orthogonal'."
            )
        # A power of two of them, of which the first serve: of any other number SciPy
        # warns
        sobol = Sobol(dimensions, rng=rng).random_base2((int(size) - 1).bit_length())
        points = np.clip(sobol[:size].T, TINY, 1 - 2**-53)
        numbers = []
        for d, more in shapes:
            normal, uniform, points = np.split(points, [d, d + more])
            numbers.append((ndtri(normal), uniform))
    else:
        numbers = [
            (
                normal_vectors(d, size, sampling, rng),
                rng.uniform(TINY, 1.0, (more, size)),
            )
            for d, more in shapes
        ]
    total = np.zeros((n_features, size))
    for leaf, measure, drawn in zip(leaves, measures, numbers, strict=True):
        total += leaf.frequencies(unit_frequencies(measure, *drawn), n_features)
    return total


def unit_frequencies(
    measure: SpectralMeasure, normal: NDArray, uniform: NDArray
) -> NDArray:
    """Frequencies at unit lengthscale, of heavy tails those beyond R = 10^5 near it, R
    (1 + log(1 + log(|w| / R))).

    Distributions without second moments reach frequencies whose phase x'w no
    floating-point number tells. Waves so short average out between rows that are apart,
    unless they are rounded to a constant; the kernel changes below 10^-5 lengthscales.
    Far ones of other distributions, a narrow `Gabor` kernel's or harmonics, are told
    from their neighbours.
    """
    unit = measure.frequencies(normal, uniform)
    size = np.abs(unit)
    if (
        size.max(initial=0.0) <= RESOLVED
        or isinstance(measure, Drawn)
        or np.isfinite(measure.moments(len(unit))).all()
    ):
        return unit
    octaves = np.log(np.maximum(size, RESOLVED) / RESOLVED)
    return np.where(
        octaves > 0, np.sign(unit) * RESOLVED * (1 + np.log1p(octaves)), unit
    )


def normal_vectors(
    n_features: int, size: int, sampling: str, rng: np.random.Generator
) -> NDArray:
    """Standard normal vectors, the columns of an array of shape (n_features, size).

    "iid": independent. "orthogonal": of directions that are, in groups of `n_features`
    columns, those of a Haar orthogonal matrix (Yu et al., 2016), and of independent
    lengths. Any one column is normal, so that estimates stay unbiased; the columns of a
    group repel one another. "structured": see `SignedHadamard`; "orthogonal" below 9
    columns.
    """
    if sampling == "structured" and n_features >= SignedHadamard.fewest:
        return SignedHadamard.draw(n_features, size, rng).frequencies()
    normal = rng.standard_normal((n_features, size))
    if sampling in ("iid", "leverage"):
        return normal
    lengths = np.sqrt(rng.chisquare(n_features, size))
    whole = size // n_features * n_features
    if not whole:
        return orthonormal(normal) * lengths
    groups = normal[:, :whole].reshape(n_features, -1, n_features).transpose(1, 0, 2)
    directions = orthonormal(groups).transpose(1, 0, 2).reshape(n_features, whole)
    return np.hstack([directions, orthonormal(normal[:, whole:])]) * lengths


LEVERAGE_ROWS = 1024
# Effective dimension aimed at, of the number of frequencies or of rows, whichever is
# less
SHARE = 0.25


def draw_by_leverage(
    kernel: Kernel,
    n_frequencies: int,
    X: NDArray | sp.csr_array,
    weight: NDArray,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Draw frequencies by how much the rows need them, and weights that keep the
    estimate of the kernel unbiased.

    Of a pool with weights p_i the frequency i, with features phi_i = sqrt(p_i)
    [cos(w_i'x), sin(w_i'x)] at the rows x of a sample and their kernel matrix K = sum_i
    phi_i phi_i', has the leverage score

        l_i = trace(phi_i' (K + lambda I)^(-1) phi_i),
        sum_i l_i = d(lambda), the effective dimension

    (Avron et al., 2017). It is taken m q_i times in the mean, q_i = l_i / d, by
    systematic resampling, with the weight p_i / (m q_i). Lambda is where the effective
    dimension is a quarter of m, or of the rows if these are fewer: what m frequencies
    can be expected to serve.

    Parameters
    ----------
    kernel : Kernel
    n_frequencies : int
    X : array or CSR array of shape (n, d)
        The sample is all rows, or 1,024 of them at random if there are more.
    weight : array of shape (n,)
        Rows count by it, and are drawn by it.
    rng : Generator

    Returns
    -------
    frequencies : array of shape (d, m)
    weights : array of shape (m,)
    """
    m = n_frequencies
    pool, weights, _ = draw_frequencies(kernel, POOL * m, X.shape[1], "auto", rng)
    rows, factors = draw_rows(weight, LEVERAGE_ROWS, rng)
    drawn = weight[rows] * factors
    root = np.sqrt(drawn / drawn.mean())[:, np.newaxis]
    X = X[rows].astype(np.float64)
    angles = X @ pool
    phis = [root * wave(angles) * np.sqrt(weights) for wave in (np.cos, np.sin)]
    K = sum(phi @ phi.T for phi in phis)
    eigenvalues = np.maximum(eigvalsh(K), 0.0)
    rank = int(np.count_nonzero(eigenvalues > eigenvalues[-1] * 1e-12))
    aim = SHARE * min(m, rank)

    def excess(log_ridge: float) -> float:
        return float((eigenvalues / (eigenvalues + np.exp(log_ridge))).sum() - aim)

    top = np.log(eigenvalues[-1])
    ridge = np.exp(brentq(excess, top - 40, top + 40))
    factor = cho_factor(K + ridge * np.eye(len(rows)))
    scores = sum((phi * cho_solve(factor, phi)).sum(axis=0) for phi in phis)
    share = scores / scores.sum()
    places = (rng.uniform() + np.arange(m)) / m
    chosen = np.minimum(np.searchsorted(np.cumsum(share), places), len(share) - 1)
    return pool[:, chosen], weights[chosen] / (m * share[chosen])
