"""Shift-invariant kernels: what is approximated."""

from bochner.kernels.base import Kernel, Product, Scaled, Sum
from bochner.kernels.separable import Cauchy, Coordinatewise, Hat, Laplacian, SmoothBins
from bochner.kernels.stationary import Gaussian, Matern, RationalQuadratic, Stationary

__all__ = [
    "Cauchy",
    "Coordinatewise",
    "Gaussian",
    "Hat",
    "Kernel",
    "Laplacian",
    "Matern",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "SmoothBins",
    "Stationary",
    "Sum",
]
