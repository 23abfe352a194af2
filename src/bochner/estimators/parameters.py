"""Checks of the parameters of the estimators, with errors that say what to do."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from bochner.features.rows import has_kernel_rows
from bochner.features.transformer import as_map
from bochner.kernels import Kernel
from bochner.kernels.base import check_positive
from bochner.tuning.bandwidth import NAMED

CHOICES = {
    "features": ("auto", "fourier", "binning", "hybrid"),
    "metric": ("auto", "isotropic", "ard", "full"),
    "loss": ("squared",),
    "solver": ("auto", "direct", "cg", "exact"),
}
CRITERIA = ("auto", "gcv", "loo")


def check_parameters(model: Any) -> None:
    """Raise TypeError or ValueError where a parameter of an estimator is out of range, or excludes another one."""
    named = isinstance(model.kernel, str) and model.kernel in ("auto", *NAMED)
    if not isinstance(model.kernel, Kernel) and not named:
        raise ValueError(f"kernel must be a Kernel, 'auto' or one of {sorted(NAMED)}, got {model.kernel!r}.")
    given = model.features is not None and not isinstance(model.features, str)
    if given:
        _check_map(model.features)
    if given and model.kernel != "auto":
        raise ValueError("features is a map with a kernel of its own: leave kernel='auto'.")
    for name, allowed in CHOICES.items():
        value = getattr(model, name)
        if name == "features" and given:
            continue
        if not isinstance(value, str) or value not in allowed:
            raise ValueError(f"{name} must be one of {allowed}, got {value!r}.")
    _check_numbers(model)
    _check_alpha(model.alpha)
    _check_learned(model)
    if given and model.solver != "exact" and has_kernel_rows(model.features):
        raise ValueError("KernelRows are what solver='exact' makes of a kernel: take solver='exact', or kernel=.")
    if model.solver == "exact" and isinstance(model.features, str) and model.features in ("binning", "hybrid"):
        raise ValueError(
            f"solver='exact' computes the kernel itself, without features={model.features!r}: leave features='auto'; "
            "the kernel of bins is kernel='laplacian'."
        )


def _check_map(features: Any) -> None:
    try:
        as_map(features)
    except TypeError as error:
        raise TypeError(f"features must be one of {CHOICES['features']}, or a map: {error}") from None


def _check_numbers(model: Any) -> None:
    D = model.n_components
    if not (D == "auto" if isinstance(D, str) else isinstance(D, Integral) and not isinstance(D, bool)):
        raise TypeError(f"n_components must be an integer or 'auto', got {D!r}.")
    if not isinstance(D, str) and D < 1:
        raise ValueError(f"n_components must be positive, got {D}.")
    check_positive(model.tol, "tol")
    if model.time_limit is not None:
        check_positive(model.time_limit, "time_limit")


def _check_alpha(alpha: Any) -> None:
    if isinstance(alpha, str):
        if alpha not in CRITERIA:
            raise ValueError(f"alpha must be a positive number, a sequence of them, or one of {CRITERIA}.")
        return
    alphas = np.atleast_1d(np.asarray(alpha))
    if alphas.dtype.kind not in "iuf" or alphas.ndim > 1 or alphas.size == 0:
        raise TypeError(f"alpha must be a positive number, a sequence of them, or one of {CRITERIA}.")
    if not np.all((alphas > 0) & np.isfinite(alphas)):
        raise ValueError(f"alpha must be positive and finite, got {alpha!r}.")


def _check_learned(model: Any) -> None:
    """A metric is learned for named kernels, and for bins of the Laplacian one, by conjugate gradients."""
    learned = model.metric in ("ard", "full")
    if learned and (isinstance(model.kernel, Kernel) or not isinstance(model.features, str)):
        raise ValueError(
            f"metric={model.metric!r} is learned, but a kernel or a map with lengthscales of its own is given: leave "
            "metric='auto', or give the kernel's name."
        )
    hybrid = model.features == "hybrid"
    if not (hybrid or (learned and model.features == "binning")):
        return
    direct = model.solver == "direct" or (isinstance(model.alpha, str) and model.alpha != "auto")
    if direct:
        raise ValueError(
            f"features={model.features!r} with a learned metric is solved by conjugate gradients: take solver='auto' "
            "or 'cg', and alpha='auto' or numbers."
        )
    if model.kernel not in ("auto", "laplacian"):
        raise ValueError(
            f"features={model.features!r} with a learned metric is one of the Laplacian kernel: take kernel='auto', or "
            "features='fourier'."
        )
    if hybrid and model.metric == "isotropic":
        raise ValueError(
            "features='hybrid' learns its metrics: take metric='auto', 'ard' or 'full', or give ConcatenatedFeatures."
        )
