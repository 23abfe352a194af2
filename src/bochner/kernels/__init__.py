"""Shift-invariant kernels: what feature maps approximate."""

from bochner.kernels.base import Kernel, Product, Scaled, Sum
from bochner.kernels.columns import Additive, Hamming, Subspace
from bochner.kernels.drawn import FromSpectrum
from bochner.kernels.functions import Coordinatewise, Radial
from bochner.kernels.linear import Linear
from bochner.kernels.matern import Matern
from bochner.kernels.radial import Gaussian, PowerExponential, RationalQuadratic, StudentT
from bochner.kernels.separable import Cauchy, Hat, Laplacian, SmoothBins
from bochner.kernels.stationary import Stationary
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
