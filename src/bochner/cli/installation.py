"""Tries out and prepares an installation: `bochner demo` and `bochner warmup`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray
from sklearn import datasets
from sklearn.model_selection import train_test_split

from bochner.cli.failures import CommandError
from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.estimators import KernelMachineClassifier, KernelMachineRegressor
from bochner.features import BinningFeatures, FourierFeatures
from bochner.features.base import FeatureMap
from bochner.kernels import Gaussian, Laplacian, SmoothBins
from bochner.loops.clock import CLOCK
from bochner.scores import summaries as scores
from bochner.selection import learn_metric
from bochner.solvers.iterative import IterativeRidge

CODE = """\
model = KernelMachineClassifier(random_state=0).fit(X_train, y_train)
score = model.score(X_test, y_test)
"""
SPLIT_SEED, TEST_SIZE = 0, 0.25


def demo() -> dict[str, Any]:
    """Fit and score on data that scikit-learn brings along."""
    began, worked = time.perf_counter(), CLOCK.seconds()
    results = [
        _fit_and_score("digits", datasets.load_digits, _classifier),
        _fit_and_score("breast cancer", datasets.load_breast_cancer, _classifier),
        _fit_and_score("diabetes", datasets.load_diabetes, _regressor),
    ]
    compiling = max(time.perf_counter() - began - (CLOCK.seconds() - worked), 0.0)
    return {"code": CODE, "results": results, "compile_seconds": compiling, "notes": []}


def _classifier(X_train: NDArray, X_test: NDArray, y_train: NDArray, y_test: NDArray) -> tuple[Any, float]:
    model = KernelMachineClassifier(random_state=0).fit(X_train, y_train)
    score = model.score(X_test, y_test)
    return model, score


def _regressor(X_train: NDArray, X_test: NDArray, y_train: NDArray, y_test: NDArray) -> tuple[Any, float]:
    model = KernelMachineRegressor(random_state=0).fit(X_train, y_train)
    score = model.score(X_test, y_test)
    return model, score


def _fit_and_score(name: str, load: Callable[..., Any], learn: Callable[..., tuple[Any, float]]) -> dict[str, Any]:
    X, y = load(return_X_y=True)
    classes = learn is _classifier
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=TEST_SIZE, random_state=SPLIT_SEED, stratify=y if classes else None
    )
    start = CLOCK.seconds()
    model, score = learn(X_train, X_test, y_train, y_test)
    seconds = CLOCK.seconds() - start
    if classes:
        shares = np.bincount(y_train) / len(y_train)
        measured = scores.classification(y_test, model.predict(X_test), model.predict_proba(X_test), shares)["accuracy"]
    else:
        measured = scores.regression(y_test, model.predict(X_test), y_train.mean())["r2"]
    return {
        "data": name,
        "rows": len(y),
        "columns": X.shape[1],
        "score": "accuracy" if classes else "r2",
        **measured,
        "value": score,
        "seconds": seconds,
    }


ROWS, COLUMNS, SIZE, SEED = 300, 4, 5, 0
WIDE = 512  # columns of which a fast transform is worth its while
MAPS: list[FeatureMap] = [
    FourierFeatures(Gaussian(2.0), SIZE, random_state=SEED),  # of an odd size, so that one cosine has an offset
    BinningFeatures(Laplacian(2.0), SIZE, random_state=SEED),
    BinningFeatures(Laplacian(2.0), SIZE, n_buckets=SIZE, random_state=SEED),
    BinningFeatures(SmoothBins(2.0), SIZE, random_state=SEED),
]
HASHED = [BinningFeatures(Laplacian(2.0), SIZE, n_buckets=buckets, random_state=SEED) for buckets in (SIZE, 257)]


def warmup() -> dict[str, Any]:
    """Compile the loops that the cache does not have yet.

    Raises CommandError where no folder can be written to keep them.
    """
    from bochner.loops.compile import LOOPS

    start, before = time.perf_counter(), sum(_compiled(loop) for loop in LOOPS)
    metric = learn_metric(*_random_rows(np.float64), metric="full", random_state=SEED)
    for dtype in (np.float32, np.float64):
        metric.coordinates(_random_rows(dtype)[0])
        for features in MAPS:
            _solve(features, dtype)
        for features in HASHED:
            _sum(features, dtype)
        FourierFeatures(n_components=4 * WIDE, sampling="structured").fit_transform(np.ones((2, WIDE), dtype))
    folders = sorted({loop.stats.cache_path for loop in LOOPS if loop.stats.cache_path})
    if not folders:
        raise CommandError("no folder is writable for the cache of compiled loops; name one in NUMBA_CACHE_DIR")
    compiled = sum(_compiled(loop) for loop in LOOPS) - before
    return {
        "folder": folders[0],
        "compiled": compiled,
        "kept_before": sum(len(loop.signatures) for loop in LOOPS) - compiled,
        "seconds": time.perf_counter() - start,
        "notes": [],
    }


def _compiled(loop: Any) -> int:
    """For how many sets of types a loop was compiled, and not found in the cache."""
    return sum(loop.stats.cache_misses.values())


def _solve(features: FeatureMap, dtype: DTypeLike) -> None:
    """By conjugate gradients and by the Gram matrix, on dense rows and on sparse ones; in 8 bits."""
    X, y = _random_rows(dtype)
    ridge = IterativeRidge(Design(ArraySource(X, y), features.draw(COLUMNS), dtype), SEED)
    V = ridge.fit(np.ones(1), 0.0, 3).solution.coef.astype(dtype)
    for rows in (X, X[:1], sp.csr_matrix(X)):
        features.dot(rows, V.T)
    if features.is_dense:
        stored = features.store(X, packed=True)
        stored.backward(stored.forward(V), V)
        stored.normal(V, np.ones(ROWS, dtype), V)
        KernelMachineRegressor(features=features, alpha=[0.1, 1.0], solver="direct").fit(X, y)


def _sum(features: FeatureMap, dtype: DTypeLike) -> None:
    """Moments of hashed bins, of rows without weights and with such."""
    X, y = _random_rows(dtype)
    for weights in (None, np.arange(1.0, ROWS + 1)):
        Design(ArraySource(X, y, weights), features.draw(COLUMNS), dtype).moments()


def _random_rows(dtype: DTypeLike) -> tuple[Any, Any]:
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((ROWS, COLUMNS)).astype(dtype)
    return X, np.sin(3 * X[:, :3])  # of three outputs, for some loops take two at a time
