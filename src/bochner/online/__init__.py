"""Models that learn from rows as they come, and forget old ones where the world changes."""

from bochner.online.online_classifier import OnlineKernelClassifier
from bochner.online.online_regressor import OnlineKernelRegressor

__all__ = ["OnlineKernelClassifier", "OnlineKernelRegressor"]
