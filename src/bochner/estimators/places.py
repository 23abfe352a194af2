"""Which device an estimator computes on."""

from __future__ import annotations

from typing import Any

import numpy as np

from bochner.arrays import Place, named
from bochner.features.fourier import FourierFeatures
from bochner.features.leaves import leaves
from bochner.notices import warn
from bochner.settings import current

SQUARED = "squared", "auto"


def place() -> Place | None:
    """The device of the settings; None for the processor."""
    return named(current().device)


def place_for(features: Any, solver: str, loss: str, dtype: np.dtype) -> Place | None:
    """The device for a fit; None, with a warning that says why, for one that stays on the processor."""
    device = place()
    if device is None:
        return None
    others = {type(leaf.features).__name__ for leaf in leaves(features)} - {FourierFeatures.__name__}
    reasons = {
        f"{' and '.join(sorted(others))} are not Fourier features": bool(others),
        "weights of several maps are learned": features.learns_weights,
        "solver='exact' compares all rows": solver == "exact",
        f"loss={loss!r} is not the squared loss": loss not in SQUARED,
        "it has no double precision, which so small a fit, tol or alpha needs": dtype == np.float64
        and not device.has_double,
    }
    why = next((reason for reason, holds in reasons.items() if holds), None)
    if why is not None:
        warn(f"The fit runs on the CPU, and the device {device} is not used: {why}.")
        return None
    return device
