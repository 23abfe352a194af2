"""The scikit-learn faces, imported at their first use, so that the command reads
their parameters at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bochner.estimators.classifier import KernelMachineClassifier
    from bochner.estimators.regressor import KernelMachineRegressor

__all__ = ["KernelMachineClassifier", "KernelMachineRegressor"]
_HOMES = {
    "KernelMachineClassifier": "classifier",
    "KernelMachineRegressor": "regressor",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bochner.estimators' has no attribute {name!r}")
    return getattr(import_module(f"bochner.estimators.{_HOMES[name]}"), name)
