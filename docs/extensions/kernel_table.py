"""Prints the table of kernels that stands in `docs/kernels.md`."""

import numpy as np

from bochner.kernels import (
    Cauchy,
    Coordinatewise,
    Gabor,
    Gaussian,
    Hamming,
    Hat,
    Laplacian,
    Matern,
    Periodic,
    PowerExponential,
    Radial,
    RationalQuadratic,
    SmoothBins,
    StudentT,
)
from bochner.kernels.spectral_measures import Isotropic, RadialLaw

HEADER = (
    "| kernel | k(delta) | distribution of the frequencies w | sigma_p² | "
    "distribution of the pitches | maps |\n"
    "|---|---|---|---|---|---|"
)


def wendland(r):
    """A kernel of up to three features that is exactly 0 from distance 1 on."""
    return np.maximum(0.0, 1 - r) ** 4 * (4 * r + 1)


def heavy(t):
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
# Cards show several shapes of a kernel, of which the table has one
ONLY_CARDS = ("Matern(nu=0.5)", "Matern(nu=2.5)", "PowerExponential(power=2.0)")


def title(kernel):
    """The call that makes a kernel, without its lengthscale."""
    given = {
        name: value
        for name, value in kernel.get_params().items()
        if name not in ("lengthscale", "function")
    }
    shape = [f"{name}={value}" for name, value in given.items()]
    given = ["function"] * hasattr(kernel, "function") + shape
    return f"{type(kernel).__name__}({', '.join(given)})"


def table():
    """The table in Markdown: one line a kernel, sigma_p² of one feature at unit
    lengthscale and unit period.
    """
    rows = [_row(kernel) for kernel in KERNELS if title(kernel) not in ONLY_CARDS]
    return "\n".join([HEADER, *rows])


def _row(kernel):
    moment = float(kernel.spectral_measure().moments(1)[0])
    size = f"{moment:.4g}" if np.isfinite(moment) else "infinite"
    cells = [
        f"`{title(kernel)}`",
        kernel.formula,
        kernel.spectrum,
        size,
        kernel.pitches,
        ", ".join(_maps(kernel)),
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _maps(kernel):
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
