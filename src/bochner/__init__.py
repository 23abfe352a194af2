"""Large-scale kernel machines by random features (Rahimi and Recht, NIPS 2007)."""

__version__ = "0.1.0.dev0"

from bochner.data.table import TableEncoder
from bochner.estimators import KernelMachineClassifier, KernelMachineRegressor
from bochner.features import FourierFeatures
from bochner.persistence import load, save

__all__ = [
    "FourierFeatures",
    "KernelMachineClassifier",
    "KernelMachineRegressor",
    "TableEncoder",
    "load",
    "save",
]
