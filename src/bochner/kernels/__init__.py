"""Shift-invariant kernels: what feature maps approximate."""

from bochner.kernels.base import Kernel, Product, Scaled, Sum
from bochner.kernels.functions import Coordinatewise, FromSpectrum, Radial
from bochner.kernels.linear import Linear
from bochner.kernels.radial import (
    Gaussian,
    Matern,
    PowerExponential,
    RationalQuadratic,
    StudentT,
)
from bochner.kernels.separable import Cauchy, Hat, Laplacian, SmoothBins
from bochner.kernels.spectral import Gabor, Periodic, SpectralMixture
from bochner.kernels.stationary import Stationary
from bochner.kernels.subspaces import Additive, Hamming, Subspace

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
