"""Models that learn from rows as they come, and forget old ones where the world changes."""

from bochner.online.classifier import OnlineKernelClassifier
from bochner.online.regressor import OnlineKernelRegressor

__all__ = ["OnlineKernelClassifier", "OnlineKernelRegressor"]
