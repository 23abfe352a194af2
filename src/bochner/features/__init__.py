"""Feature maps z with E z(x)'z(y) = k(x, y)."""

from bochner.features.anchors import AnchorFeatures
from bochner.features.binning import BinningFeatures
from bochner.features.concatenate import ConcatenatedFeatures, LinearFeatures
from bochner.features.fourier import FourierFeatures
from bochner.features.metric import Metric, MetricFeatures
from bochner.features.nystroem import NystroemFeatures
from bochner.features.sparse_columns import SparseColumns
from bochner.features.transformer import TransformerFeatures

__all__ = [
    "AnchorFeatures",
    "BinningFeatures",
    "ConcatenatedFeatures",
    "FourierFeatures",
    "LinearFeatures",
    "Metric",
    "MetricFeatures",
    "NystroemFeatures",
    "SparseColumns",
    "TransformerFeatures",
]
