"""Pictures of random features, of learned metrics, of model selection and of
uncertainty, by matplotlib.
"""

from bochner.display.attribution_displays import (
    BeeswarmDisplay,
    InteractionDisplay,
    WaterfallDisplay,
)
from bochner.display.effect_displays import EffectDisplay
from bochner.display.importance_displays import ImportanceDisplay
from bochner.display.learning_displays import LearningDisplay, SizeDisplay
from bochner.display.map_displays import (
    ErrorDisplay,
    GramDisplay,
    KernelDisplay,
    SpectrumDisplay,
)
from bochner.display.relevance_displays import MetricDisplay, Warp
from bochner.display.uncertainty_displays import (
    BandDisplay,
    CoverageDisplay,
    ReliabilityDisplay,
    WidthDisplay,
)
from bochner.display.unsupervised_displays import (
    ClusterDisplay,
    CorrelationDisplay,
    EmbeddingDisplay,
    LabelDisplay,
    NoveltyDisplay,
    ScreeDisplay,
)

__all__ = [
    "BandDisplay",
    "BeeswarmDisplay",
    "ClusterDisplay",
    "CorrelationDisplay",
    "CoverageDisplay",
    "EffectDisplay",
    "EmbeddingDisplay",
    "ErrorDisplay",
    "GramDisplay",
    "ImportanceDisplay",
    "InteractionDisplay",
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
    "WaterfallDisplay",
    "WidthDisplay",
]
