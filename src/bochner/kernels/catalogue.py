"""The kernels that estimators know by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bochner.kernels.functions import Coordinatewise, Radial
from bochner.kernels.radial import (
    Gaussian,
    Matern,
    PowerExponential,
    RationalQuadratic,
    StudentT,
)
from bochner.kernels.separable import Cauchy, Hat, Laplacian, SmoothBins
from bochner.kernels.spectral import Gabor, Periodic
from bochner.kernels.spectral_measures import Isotropic, RadialLaw
from bochner.kernels.stationary import Stationary
from bochner.kernels.subspaces import Hamming

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


HEADER = (
    "| kernel | k(delta) | distribution of the frequencies w | sigma_p² | "
    "distribution of the pitches | maps |\n"
    "|---|---|---|---|---|---|"
)


def wendland(r: NDArray) -> NDArray:
    """A kernel of up to three features that is exactly 0 from distance 1 on."""
    return np.maximum(0.0, 1 - r) ** 4 * (4 * r + 1)


def heavy(t: NDArray) -> NDArray:
    """A convex function with a heavy tail."""
    return 1 / (1 + t) ** 2


KERNELS = (
    Gaussian(),
    Laplacian(),
    Cauchy(),
    Hat(),
    SmoothBins(),
    Matern(nu=0.5),
    Matern(nu=1.5),
    Matern(nu=2.5),
    RationalQuadratic(alpha=1.0),
    StudentT(nu=1.0),
    PowerExponential(power=1.5),
    PowerExponential(power=2.0),
    Gabor(frequency=0.5),
    Periodic(lengthscale=1.0),
    Hamming(),
    Radial(wendland),
    Coordinatewise(heavy),
)


def table() -> str:
    """The table in Markdown: one line a kernel, sigma_p² of one feature at unit
    lengthscale and unit period.
    """
    return "\n".join([HEADER, *(_row(kernel) for kernel in KERNELS)])


def _row(kernel: Stationary) -> str:
    shape = [
        f"{name}={value}"
        for name, value in kernel.get_params().items()
        if name not in ("lengthscale", "function")
    ]
    given = ["function"] * hasattr(kernel, "function") + shape
    own = f"`{type(kernel).__name__}({', '.join(given)})`"
    moment = float(kernel.spectral_measure().moments(1)[0])
    size = f"{moment:.4g}" if np.isfinite(moment) else "infinite"
    cells = [
        own,
        kernel.formula,
        kernel.spectrum,
        size,
        kernel.pitches,
        ", ".join(_maps(kernel)),
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _maps(kernel: Stationary) -> list[str]:
    maps = ["Fourier"]
    if isinstance(kernel.spectral_measure(), Isotropic | RadialLaw):
        maps.append("structured")
    try:
        kernel.pitch_measure()
    except ValueError:
        return maps
    return [*maps, "binning"]


if __name__ == "__main__":
    print(table())
