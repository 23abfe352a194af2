"""Describes a fitted model for the reports, and a model file for `bochner inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bochner.cli.saved import read_model
from bochner.features import BinningFeatures, MetricFeatures

MOST_COLUMNS = 5


def model_facts(model: Any) -> dict[str, Any]:
    """Maps, ridge term, sizes and solution of a fitted estimator; kernel and so on at the top for a single map."""
    features = model.features_
    maps = [_map_facts(part) for part in getattr(features, "maps_", [features])]
    for part, weight in zip(maps, getattr(features, "weights_", [1.0]), strict=True):
        part["weight"] = float(weight)
    return {
        "class": type(model).__name__,
        **{key: maps[0][key] if len(maps) == 1 else None for key in ("kernel", "lengthscale", "n_components")},
        "alpha": float(model.alpha_),
        "n_features": int(features.n_features_out),
        "encoded_columns": int(model.encoder_.n_features_out_),
        "maps": maps,
        "choice": _choice(model),
        "importances": _importances(model),
        **{key: getattr(model, f"{key}_", None) for key in ("solver", "solver_reason", "n_iter", "residual")},
    }


def _choice(model: Any) -> dict[str, Any] | None:
    """How the model was chosen; None where nothing was learned."""
    report = getattr(model, "report_", None)
    if report is None:
        return None
    return {
        "chosen": report.chosen,
        "reason": report.reason,
        "criterion": report.criterion,
        "rows_held_out": report.rows_held_out,
        "candidates": [vars(candidate) for candidate in sorted(report.candidates, key=lambda one: one.loss)],
        "seconds": report.seconds,
    }


def _importances(model: Any) -> dict[str, float] | None:
    """Shares of the columns that matter most to the metric."""
    shares = getattr(model, "feature_importances_", None)
    if shares is None:
        return None
    names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(len(shares))])
    return {str(names[j]): float(shares[j]) for j in np.argsort(-shares)[:MOST_COLUMNS]}


def _map_facts(part: Any) -> dict[str, Any]:
    """Kernel, lengthscale and sizes of a fitted map; of random bins also how the training rows fill them."""
    if isinstance(part, MetricFeatures):
        metric = part.metric
        return {**_map_facts(part.features_), "metric": "full" if metric.linear_.size else "ard"}
    kernel = getattr(part, "kernel", None)
    leaves = [_bare(leaf) for _, leaves in kernel.terms() for leaf in leaves] if kernel is not None else []
    scales = [scale for leaf in leaves for scale in np.ravel(getattr(leaf, "lengthscale", []))]
    size = int(part.n_features_out)
    facts: dict[str, Any] = {
        "map": type(getattr(part, "transformer", part)).__name__,
        "kernel": " and ".join(dict.fromkeys(type(leaf).__name__ for leaf in leaves)) or None,
        "lengthscale": _spread(np.array(scales)) if scales else None,
        "n_components": size if leaves else None,
        "n_features": size,
    }
    if isinstance(part, BinningFeatures):
        facts |= {"n_components": len(part.values_), "n_buckets": part.n_buckets}
        facts |= {"rows_per_bin": part.rows_per_bin_, "alone": part.singleton_share_}
    return facts


def _bare(leaf: Any) -> Any:
    """The kernel of a leaf that sees some of the columns, or combinations of them."""
    return _bare(leaf.leaf) if hasattr(leaf, "leaf") else leaf


def _spread(values: np.ndarray) -> dict[str, float]:
    return {"min": float(values.min()), "median": float(np.median(values)), "max": float(values.max())}


def inspect(path: Path) -> dict[str, Any]:
    """Report on a model file."""
    saved = read_model(path)
    classes = getattr(saved.model, "classes_", None)
    kinds = saved.model.encoder_.statistic_.kinds
    names = saved.columns or [f"x{k}" for k in range(len(kinds))]
    of_file = {key: saved.description[key] for key in ("file_bytes", "format_version", "library_version")}
    return {
        "command": "inspect",
        "model_file": str(path),
        **of_file,
        "task": saved.task,
        "target": saved.target,
        "classes": None if classes is None else classes.tolist(),
        "columns": dict(zip(names, kinds, strict=False)),
        "rows_train": saved.rows,
        "model": model_facts(saved.model),
        "scores": saved.scores,
        "notes": [],
    }
