"""Feature maps z with E z(x)'z(y) = k(x, y)."""

from bochner.features.fourier import FourierFeatures

__all__ = ["FourierFeatures"]
