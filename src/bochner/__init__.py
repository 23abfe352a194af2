"""Large-scale kernel machines by random features (Rahimi and Recht, NIPS 2007)."""

from bochner.features import FourierFeatures

__all__ = ["FourierFeatures"]
__version__ = "0.1.0.dev0"
