"""Pictures of random features, of learned metrics, of how a model was chosen and of how sure it is, by matplotlib."""

from bochner.display.band import BandDisplay
from bochner.display.circle import CircleDisplay
from bochner.display.components import CorrelationDisplay, ScreeDisplay
from bochner.display.coverage import CoverageDisplay
from bochner.display.density import DensityDisplay
from bochner.display.error import ErrorDisplay
from bochner.display.gram import GramDisplay
from bochner.display.grid import GridDisplay
from bochner.display.hypothesis import HypothesisDisplay
from bochner.display.kernel import KernelDisplay
from bochner.display.learning import DriftDisplay, LearningDisplay
from bochner.display.metric import MetricDisplay, Warp
from bochner.display.novelty import NoveltyDisplay
from bochner.display.points import ClusterDisplay, EmbeddingDisplay, LabelDisplay
from bochner.display.reliability import ReliabilityDisplay
from bochner.display.size import SizeDisplay
from bochner.display.spectrum import SpectrumDisplay
from bochner.display.width import WidthDisplay

__all__ = [
    "BandDisplay",
    "CircleDisplay",
    "ClusterDisplay",
    "CorrelationDisplay",
    "CoverageDisplay",
    "DensityDisplay",
    "DriftDisplay",
    "EmbeddingDisplay",
    "ErrorDisplay",
    "GramDisplay",
    "GridDisplay",
    "HypothesisDisplay",
    "KernelDisplay",
    "LabelDisplay",
    "LearningDisplay",
    "MetricDisplay",
    "NoveltyDisplay",
    "ReliabilityDisplay",
    "ScreeDisplay",
    "SizeDisplay",
    "SpectrumDisplay",
    "Warp",
    "WidthDisplay",
]
