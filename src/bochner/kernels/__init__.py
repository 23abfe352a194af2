"""Shift-invariant kernels: what is approximated."""

from bochner.kernels.base import Kernel, Product, Scaled, Sum
from bochner.kernels.stationary import Cauchy, Gaussian, Laplacian, Matern, RationalQuadratic, Stationary

__all__ = [
    "Cauchy",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Matern",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Stationary",
    "Sum",
]
