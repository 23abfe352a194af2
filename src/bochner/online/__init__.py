"""Models that learn from rows as they arrive, and can forget old ones if the distribution changes."""

from bochner.online.online_classifier import OnlineKernelClassifier
from bochner.online.online_regressor import OnlineKernelRegressor

__all__ = ["OnlineKernelClassifier", "OnlineKernelRegressor"]
