"""What LightGBM gives with the usual conformal wrappers, written out: the peers of
`uncertainty`.

Split conformal prediction: a fifth of the training rows calibrate what the others have
fitted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SHARE = 0.2  # of the training rows that calibrate


def fitted_and_held_out(n: int, seed: int) -> tuple[NDArray, NDArray]:
    """Rows that fit, and rows that calibrate."""
    order = np.random.default_rng(seed).permutation(n)
    return order[: n - int(SHARE * n)], order[n - int(SHARE * n) :]


def conformal_quantile(scores: NDArray, coverage: float) -> float:
    """The score at rank ceil((n + 1) coverage)."""
    rank = int(np.ceil((len(scores) + 1) * coverage))
    return float(np.sort(scores)[rank - 1]) if rank <= len(scores) else np.inf


def quantile_intervals(
    X: Any, y: NDArray, X_test: Any, coverage: float, seed: int, **options: Any
) -> NDArray:
    """Conformalised quantile regression by LightGBM, shape (n, 2): Romano, Patterson
    and Candes, NeurIPS 2019.
    """
    from lightgbm import LGBMRegressor

    fit, held_out = fitted_and_held_out(len(y), seed)
    tails = ((1 - coverage) / 2, (1 + coverage) / 2)
    models = [
        LGBMRegressor(
            objective="quantile", alpha=tail, random_state=seed, verbose=-1, **options
        ).fit(X[fit], y[fit])
        for tail in tails
    ]
    low, high = (model.predict(X[held_out]) for model in models)
    margin = conformal_quantile(
        np.maximum(low - y[held_out], y[held_out] - high), coverage
    )
    low, high = (model.predict(X_test) for model in models)
    return np.stack([low - margin, high + margin], axis=1)


def least_sets(
    proba: NDArray, labels: NDArray, proba_test: NDArray, coverage: float
) -> NDArray[np.bool_]:
    """Sets of the classes whose probability is large enough, some of them empty:
    Sadinle, Lei and Wasserman, 2019.
    """
    scores = 1 - proba[np.arange(len(labels)), labels]
    return np.asarray(1 - proba_test <= conformal_quantile(scores, coverage))


def adaptive_sets(
    proba: NDArray, labels: NDArray, proba_test: NDArray, coverage: float, seed: int
) -> NDArray[np.bool_]:
    """Sets of the most probable classes up to a sum, never empty: Romano, Sesia and
    Candes, NeurIPS 2020.
    """
    rng = np.random.default_rng(seed)
    scores = _sums(proba, rng)[np.arange(len(labels)), labels]
    sets = _sums(proba_test, rng) <= conformal_quantile(scores, coverage)
    sets[np.arange(len(sets)), proba_test.argmax(axis=1)] = True
    return np.asarray(sets)


def _sums(proba: NDArray, rng: np.random.Generator) -> NDArray[np.float64]:
    """Probability of all classes that are more probable, and a random part of the
    own one.
    """
    order = np.argsort(-proba, axis=1)
    ranked = np.take_along_axis(proba, order, 1)
    below = np.cumsum(ranked, axis=1) - ranked * rng.random((len(proba), 1))
    sums = np.empty_like(below)
    np.put_along_axis(sums, order, below, 1)
    return sums
