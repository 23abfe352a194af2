"""Pictures of learned metrics and of how a model was chosen, by matplotlib."""

from bochner.display.metric import MetricDisplay
from bochner.display.size import SizeDisplay
from bochner.display.warps import Warp

__all__ = ["MetricDisplay", "SizeDisplay", "Warp"]
