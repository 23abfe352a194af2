"""The scikit-learn faces."""

from bochner.estimators.classifier import KernelMachineClassifier
from bochner.estimators.regressor import KernelMachineRegressor

__all__ = ["KernelMachineClassifier", "KernelMachineRegressor"]
