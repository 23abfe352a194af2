"""The kernels that estimators know by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bochner.kernels.radial import Gaussian, Matern, RationalQuadratic
from bochner.kernels.separable import Cauchy, Hat, Laplacian, SmoothBins
from bochner.kernels.stationary import Stationary

NAMED: dict[str, Callable[..., Stationary]] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "cauchy": Cauchy,
    "matern12": partial(Matern, nu=0.5),
    "matern32": partial(Matern, nu=1.5),
    "matern52": partial(Matern, nu=2.5),
    "rationalquadratic": RationalQuadratic,
    "hat": Hat,
    "smoothbins": SmoothBins,
}
SEPARABLE = ("laplacian", "hat")  # of the L1 distance, as their lengthscales are chosen
