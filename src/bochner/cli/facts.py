"""Describes a fitted model for the reports, and a model file for `bochner inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bochner.cli.saved import read_model
from bochner.features import BinningFeatures
from bochner.features.leaves import LeafMap, kernel_of, leaves

MOST_COLUMNS = 5


def model_facts(model: Any) -> dict[str, Any]:
    """Maps, ridge penalty, sizes and solution of a fitted estimator; kernel and so on at the top for a single map."""
    features = model.features_
    maps = [_map_facts(leaf) for leaf in leaves(features)]
    return {
        "class": type(model).__name__,
        **{key: maps[0][key] if len(maps) == 1 else None for key in ("kernel", "lengthscale", "n_components")},
        "alpha": float(model.alpha_),
        "n_features": int(features.n_features_out),
        "encoded_columns": int(model.encoder_.n_features_out_),
        "maps": maps,
        "uncertainty": bool(getattr(model, "uncertainty", False)),
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


def _map_facts(leaf: LeafMap) -> dict[str, Any]:
    """Kernel, lengthscale and sizes of a fitted map; of random bins also how the training rows fill them."""
    features, kernel = leaf.features, kernel_of(leaf.features)
    kernels = [_bare(factor) for _, factors in kernel.terms() for factor in factors] if kernel is not None else []
    scales = [scale for factor in kernels for scale in np.ravel(getattr(factor, "lengthscale", []))]
    size = int(features.n_features_out)
    facts: dict[str, Any] = {
        "map": type(getattr(features, "transformer", features)).__name__,
        "kernel": " and ".join(dict.fromkeys(type(factor).__name__ for factor in kernels)) or None,
        "lengthscale": _spread(np.array(scales)) if scales else None,
        "n_components": size if kernels else None,
        "n_features": size,
    }
    if isinstance(features, BinningFeatures):
        facts |= {"n_components": len(features.values_), "n_buckets": features.n_buckets}
        facts |= {"rows_per_bin": features.rows_per_bin_, "alone": features.singleton_share_}
    if leaf.metrics:
        facts["metric"] = "full" if leaf.metrics[-1].linear_.size else "ard"
    return facts | {"weight": leaf.weight}


def _bare(kernel: Any) -> Any:
    """The kernel inside of one that sees some of the columns, or combinations of them."""
    return _bare(kernel.leaf) if hasattr(kernel, "leaf") else kernel


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
