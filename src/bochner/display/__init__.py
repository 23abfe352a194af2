"""Pictures of random features, of learned metrics and of how a model was chosen, by matplotlib."""

from bochner.display.circle import CircleDisplay
from bochner.display.error import ErrorDisplay
from bochner.display.gram import GramDisplay
from bochner.display.grid import GridDisplay
from bochner.display.kernel import KernelDisplay
from bochner.display.metric import MetricDisplay
from bochner.display.size import SizeDisplay
from bochner.display.spectrum import SpectrumDisplay
from bochner.display.warps import Warp

__all__ = [
    "CircleDisplay",
    "ErrorDisplay",
    "GramDisplay",
    "GridDisplay",
    "KernelDisplay",
    "MetricDisplay",
    "SizeDisplay",
    "SpectrumDisplay",
    "Warp",
]
