"""What a fitted model shows of its columns and of itself: importances, gradients, and what it has learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.features.base import FeatureMap
from bochner.features.metric import Metric, MetricFeatures, with_relevance
from bochner.markup import Markup, number, percent, table

GRADIENT_ROWS, STEP = 1000, 0.5
DENSE_ENTRIES = 30_000_000
MOST_COLUMNS = 5


def column_shares(model: Any) -> NDArray[np.float64]:
    """Share of each input column in the mean distance of two rows, by the metric of a fitted model: shape (d,)."""
    shares = _relevance(model.features_)
    if shares is None and model.metric_ is not None:
        shares = model.metric_.relevance_
    if shares is None:
        raise AttributeError("feature_importances_ needs a kernel with lengthscales, or a learned metric.")
    return np.bincount(model.encoder_.sources(), shares, model.encoder_.n_features_in_).astype(np.float64)


def average_gradient(model: Any, X: Any) -> NDArray[np.float64]:
    """Mean absolute gradient of a fitted model at checked rows, by finite differences: shape (d,)."""
    source = ArraySource(X, np.empty((X.shape[0], 0)), None, model.encoder_.transform)
    block = source.sample(GRADIENT_ROWS, np.random.default_rng(0)).whole()
    Z: NDArray = block.X.toarray() if sp.issparse(block.X) else block.X  # type: ignore[union-attr]
    gradient = np.zeros(Z.shape[1])
    for j in np.flatnonzero(np.ptp(Z, axis=0)):
        two = np.unique(Z[:, j])
        below, above = Z.copy(), Z.copy()
        if len(two) == 2:
            below[:, j], above[:, j] = two
        else:
            below[:, j] -= STEP / 2 * Z[:, j].std()
            above[:, j] += STEP / 2 * Z[:, j].std()
        run = (above[:, j] - below[:, j]).mean()
        gradient[j] = np.abs(_at(model, above) - _at(model, below)).mean() / run * Z[:, j].std()
    return np.bincount(model.encoder_.sources(), gradient, model.encoder_.n_features_in_).astype(np.float64)


def _at(model: Any, Z: NDArray) -> NDArray:
    """The fitted function at encoded rows, in the units of the targets."""
    source = ArraySource(Z, np.empty((len(Z), 0)))
    predicted = Design(source, model.features_, model.coef_.dtype).predict(model.coef_, model.intercept_)
    return predicted * getattr(model, "target_scale_", 1.0)


def _relevance(features: FeatureMap) -> NDArray | None:
    """Relevance of the encoded columns, the mean of those of the maps by their weights; None without metrics."""
    parts = [
        (scale**2, part.metric.relevance_)
        for part, scale in zip(features.parts, features.scales, strict=True)
        if isinstance(part, MetricFeatures)
    ]
    return sum(weight * own for weight, own in parts) / sum(weight for weight, _ in parts) if parts else None


def metric_of(features: FeatureMap, X: Any, seed: int) -> Metric | None:
    """The learned metric of a map, of its last part where it has several; or that of a kernel with lengthscales.

    Parameters
    ----------
    features : FeatureMap
    X : array or sparse matrix of shape (n, d)
        Some encoded rows.
    seed : int
    """
    learned = [part.metric for part in features.parts if isinstance(part, MetricFeatures)]
    if learned:
        return learned[-1]
    kernel = getattr(features, "kernel", None)
    lengthscale = getattr(kernel, "lengthscale", None) if getattr(kernel, "has_metric", False) else None
    if lengthscale is None or X.shape[0] * X.shape[1] > DENSE_ENTRIES:
        return None
    d = X.shape[1]
    metric = Metric(d, np.arange(d), np.broadcast_to(1 / np.asarray(lengthscale, np.float64), d))
    return with_relevance(metric, X.toarray() if sp.issparse(X) else X, seed)


def most_relevant(model: Any) -> dict[str, float]:
    """Names and shares of the columns that matter most to the metric, the largest first; none where there is none."""
    shares = getattr(model, "feature_importances_", None)
    if shares is None:
        return {}
    names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(len(shares))])
    return {str(names[j]): float(shares[j]) for j in np.argsort(-shares, kind="stable")[:MOST_COLUMNS]}


def learned_table(model: Any) -> Markup:
    """What a fit has found, in a few lines of HTML."""
    report = getattr(model, "report_", None)
    facts = {
        "model": "" if report is None else f"{report.chosen}: {report.reason}",
        "features": f"{model.features_.n_features_out:,}",
        "ridge penalty": number(getattr(model, "alpha_", None)),
        "solver": f"{getattr(model, 'solver_', '')}: {getattr(model, 'solver_reason_', '')}",
    }
    relevant = [f"{name} {percent(share)}" for name, share in most_relevant(model).items() if share]
    facts["most relevant columns"] = ", ".join(relevant)
    rows = [(name, value) for name, value in facts.items() if value]
    return table("Learned", ("quantity", "value"), rows, words=(0, 1))
