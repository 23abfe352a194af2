"""All inner loops, compiled ahead of the first fit."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.design.vector_arithmetic import SHORT, dots, update_direction
from bochner.estimators.regressor import KernelMachineRegressor
from bochner.features import BinningFeatures, FourierFeatures
from bochner.features.base import FeatureMap
from bochner.kernels import Gaussian, Laplacian, SmoothBins
from bochner.selection import learn_metric
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.losses import Logistic
from bochner.solvers.newton import Reweighted
from bochner.solvers.sweeps import Grids, has_grids_alone, minimise_by_sweeps

ROWS, COLUMNS, SIZE, SEED = 300, 4, 5, 0
WIDE = 512  # columns of which a fast transform is worth its while
MAPS: list[FeatureMap] = [
    FourierFeatures(
        Gaussian(2.0), SIZE, random_state=SEED
    ),  # of an odd size, so that one cosine has an offset
    BinningFeatures(Laplacian(2.0), SIZE, random_state=SEED),
    BinningFeatures(Laplacian(2.0), SIZE, n_buckets=SIZE, random_state=SEED),
    BinningFeatures(SmoothBins(2.0), SIZE, random_state=SEED),
]
HASHED = [
    BinningFeatures(Laplacian(2.0), SIZE, n_buckets=buckets, random_state=SEED)
    for buckets in (SIZE, 257)
]


class LoopCache(NamedTuple):
    """What `warmup` has done.

    Attributes
    ----------
    folder : str
        Where compiled loops are cached.
    compiled, kept_before : int
        Loops compiled now, and those that were cached.
    seconds : float
    """

    folder: str
    compiled: int
    kept_before: int
    seconds: float


def warmup() -> LoopCache:
    """Compile all inner loops that the cache does not have yet, so that no later fit
    has to wait for them.

    Otherwise each loop is compiled when it is first needed, a few seconds in all for
    the first fit, and kept on disk. Call it once where an image or an environment is
    built; the command ``bochner warmup`` does the same.

    Returns
    -------
    LoopCache
        The `folder` of the cache, how many loops were `compiled` and `kept_before`, and
        the `seconds` it took.

    Raises
    ------
    OSError
        Where no folder can be written to keep them, or the disk is full.

    Examples
    --------
    >>> import bochner
    >>> done = bochner.warmup()
    >>> done.compiled + done.kept_before > 50
    True
    """
    from bochner.loops.compile import LOOPS
    from bochner.loops.coordinates import nearness

    start = time.perf_counter()
    before = sum(_compiled(loop) for loop in LOOPS)
    metric = learn_metric(*_random_rows(np.float64), metric="full", random_state=SEED)
    rows = _random_rows(np.float32)[0]
    nearness(rows, rows[0], rows[0], np.empty(ROWS, np.float32))
    long = np.ones((1, SHORT + 1))
    update_direction(long.copy(), long, np.ones(1), long, long.copy())
    dots(long, long)
    for dtype in (np.float32, np.float64):
        metric.coordinates(_random_rows(dtype)[0])
        for features in MAPS:
            _solve(features, dtype)
        for features in HASHED:
            # Moments of hashed bins, of rows without weights and with such
            for weights in (None, np.arange(1.0, ROWS + 1)):
                source = ArraySource(*_random_rows(dtype), weights)
                Design(source, features.draw(COLUMNS), dtype).moments()
        FourierFeatures(n_components=4 * WIDE, sampling="structured").fit_transform(
            np.ones((2, WIDE), dtype)
        )
    X, y = _random_rows(np.float64)
    KernelMachineRegressor(features=MAPS[1], alpha=1.0).fit(X, y).interactions(X[:1])
    folders = sorted({loop.stats.cache_path for loop in LOOPS if loop.stats.cache_path})
    if not folders:
        raise OSError(
            "no folder is writable for the cache of compiled loops; name one in "
            "NUMBA_CACHE_DIR"
        )
    if failure := next(filter(None, (loop._cache.failure for loop in LOOPS)), None):
        raise failure
    compiled = sum(_compiled(loop) for loop in LOOPS) - before
    there = sum(len(loop.signatures) for loop in LOOPS)
    return LoopCache(
        folders[0], compiled, there - compiled, time.perf_counter() - start
    )


def _compiled(loop: Any) -> int:
    """For how many sets of types a loop was compiled, and not found in the cache."""
    return sum(loop.stats.cache_misses.values())


def _solve(features: FeatureMap, dtype: DTypeLike) -> None:
    """By conjugate gradients and by the Gram matrix, on dense rows and on sparse
    ones; in 8 bits.
    """
    X, y = _random_rows(dtype)
    ridge = IterativeRidge(
        Design(ArraySource(X, y), features.draw(COLUMNS), dtype), SEED
    )
    V = ridge.fit(np.ones(1), 0.0, 3).solution.coef.astype(dtype)
    if has_grids_alone(ridge.blocks):
        problem = Reweighted(
            ridge.blocks, Logistic(), np.ones((3, 1)), V, np.zeros(3), dtype
        )
        minimise_by_sweeps(problem, Grids(ridge.blocks), 1, SEED)
    for rows in (X, X[:1], sp.csr_matrix(X)):
        features.dot(rows, V.T)
        features.dot(
            rows, V.T.astype(np.float64)
        )  # explanations have coefficients in double precision
    if features.is_dense:
        stored = features.store(X, packed=True)
        stored.backward(stored.forward(V), V)
        stored.normal(V, np.ones(ROWS, dtype), V)
        KernelMachineRegressor(
            features=features, alpha=[0.1, 1.0], solver="direct"
        ).fit(X, y).interactions(X[:1])


def _random_rows(dtype: DTypeLike) -> tuple[Any, Any]:
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((ROWS, COLUMNS)).astype(dtype)
    return X, np.sin(
        3 * X[:, :3]
    )  # of three outputs, for some loops take two at a time
