"""What is inside a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bochner.cli.stored import read_model


def model_facts(model: Any) -> dict[str, Any]:
    """Kernel, lengthscale, ridge term and sizes of a fitted estimator."""
    leaves = [leaf for _, leaves in model.kernel_.terms() for leaf in leaves]
    scales = [scale for leaf in leaves for scale in np.ravel(getattr(leaf, "lengthscale", []))]
    return {
        "class": type(model).__name__,
        "kernel": " and ".join(dict.fromkeys(type(leaf).__name__ for leaf in leaves)),
        "lengthscale": _spread(np.array(scales)) if scales else None,
        "alpha": float(model.alpha_),
        "n_components": int(model.features_.n_components),
        "encoded_columns": int(model.encoder_.n_features_out_),
    }


def _spread(values: np.ndarray) -> dict[str, float]:
    return {"min": float(values.min()), "median": float(np.median(values)), "max": float(values.max())}


def inspect(path: Path) -> dict[str, Any]:
    """Report on a model file."""
    stored = read_model(path)
    classes = getattr(stored.model, "classes_", None)
    kinds = stored.model.encoder_.statistic_.kinds
    names = stored.columns or [f"x{k}" for k in range(len(kinds))]
    about_file = {key: stored.description[key] for key in ("file_bytes", "format_version", "library_version")}
    return {
        "command": "inspect",
        "model_file": str(path),
        **about_file,
        "task": stored.task,
        "target": stored.target,
        "classes": None if classes is None else classes.tolist(),
        "columns": dict(zip(names, kinds, strict=False)),
        "rows_train": stored.rows,
        "model": model_facts(stored.model),
        "scores": stored.scores,
        "notes": [],
    }
