"""Runs `bochner warmup`: all paths once, on a tiny table, so that their loops are compiled and kept."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from bochner.cli.errors import CommandError
from bochner.data.sources import ArraySource
from bochner.design import Design
from bochner.estimators import KernelMachineClassifier, KernelMachineRegressor
from bochner.features import BinningFeatures, FourierFeatures
from bochner.features.base import FeatureMap
from bochner.kernels import Gaussian, Laplacian, SmoothBins
from bochner.solvers.iterative import IterativeRidge
from bochner.tuning import learn_metric

ROWS, COLUMNS, SIZE, SEED = 300, 4, 5, 0
WIDE = 512  # columns of which a fast transform is worth its while
MAPS: list[FeatureMap] = [
    FourierFeatures(Gaussian(2.0), SIZE, random_state=SEED),  # of an odd size, so that one cosine has an offset
    BinningFeatures(Laplacian(2.0), SIZE, random_state=SEED),
    BinningFeatures(Laplacian(2.0), SIZE, n_buckets=SIZE, random_state=SEED),
    BinningFeatures(SmoothBins(2.0), SIZE, random_state=SEED),
]


def warmup() -> dict[str, Any]:
    """Compile the loops that the cache does not have yet.

    Raises CommandError where no folder can be written to keep them.
    """
    start = time.perf_counter()
    for dtype in (np.float32, np.float64):
        _learn(dtype)
        for features in MAPS:
            _solve(features, dtype)
        FourierFeatures(n_components=4 * WIDE, sampling="structured").fit_transform(np.ones((2, WIDE), dtype))
    from bochner.loops.compile import LOOPS

    stats = [loop.stats for loop in LOOPS]
    folders = sorted({one.cache_path for one in stats if one.cache_path})
    if not folders:
        raise CommandError("no folder can be written to keep compiled loops; name one in NUMBA_CACHE_DIR")
    return {
        "command": "warmup",
        "folder": folders[0],
        "compiled": sum(sum(one.cache_misses.values()) for one in stats),
        "kept_before": sum(sum(one.cache_hits.values()) for one in stats),
        "seconds": time.perf_counter() - start,
        "notes": [],
    }


def _solve(features: FeatureMap, dtype: DTypeLike) -> None:
    """By conjugate gradients and by the Gram matrix, on dense rows and on sparse ones; in 8 bits."""
    X, y = _rows(dtype)
    ridge = IterativeRidge(Design(ArraySource(X, y), features.draw(COLUMNS), dtype), SEED)
    V = ridge.fit(np.ones(1), 0.0, 3).solution.coef.astype(dtype)
    features.dot(X, V.T)
    features.dot(sp.csr_matrix(X), V.T)
    if features.is_dense:
        stored = features.store(X, packed=True)
        stored.backward(stored.forward(V), V)
        stored.normal(V, np.ones(ROWS, dtype), V)
        KernelMachineRegressor(features=features, alpha=[0.1, 1.0], solver="direct").fit(X, y)


def _learn(dtype: DTypeLike) -> None:
    """Learn a metric of warps, and fit by it."""
    X, y = _rows(dtype)
    learn_metric(X, y[:, 0], metric="full", random_state=SEED).coordinates(X)
    KernelMachineRegressor(random_state=SEED).fit(X, y[:, 0]).predict(X)
    KernelMachineClassifier(random_state=SEED).fit(X, y[:, 0] > 0).predict_proba(X)


def _rows(dtype: DTypeLike) -> tuple[Any, Any]:
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((ROWS, COLUMNS)).astype(dtype)
    return X, np.sin(3 * X[:, :1]) * X[:, 1:2]
