"""Shift-invariant kernels: what is approximated."""

from bochner.kernels.base import Kernel, Product, Scaled, Sum
from bochner.kernels.columns import Additive, Hamming, Subspace
from bochner.kernels.drawn import FromSpectrum
from bochner.kernels.linear import Linear
from bochner.kernels.radial import PowerExponential, Radial
from bochner.kernels.separable import Cauchy, Coordinatewise, Hat, Laplacian, SmoothBins
from bochner.kernels.stationary import Gaussian, Matern, RationalQuadratic, Stationary, StudentT
from bochner.kernels.waves import Gabor, Periodic, SpectralMixture

__all__ = [
    "Additive",
    "Cauchy",
    "Coordinatewise",
    "FromSpectrum",
    "Gabor",
    "Gaussian",
    "Hamming",
    "Hat",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Periodic",
    "PowerExponential",
    "Product",
    "Radial",
    "RationalQuadratic",
    "Scaled",
    "SmoothBins",
    "SpectralMixture",
    "Stationary",
    "StudentT",
    "Subspace",
    "Sum",
]
