"""Large-scale kernel machines by random features (Rahimi and Recht, NIPS 2007)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bochner.settings import (
    settings,
)  # at once, lest the module of that name be what is found

if TYPE_CHECKING:
    from bochner.data.table import TableEncoder
    from bochner.estimators.classifier import KernelMachineClassifier
    from bochner.estimators.loop_cache import warmup
    from bochner.estimators.machine import merge
    from bochner.estimators.regressor import KernelMachineRegressor
    from bochner.features import (
        AnchorFeatures,
        BinningFeatures,
        ConcatenatedFeatures,
        FourierFeatures,
        LinearFeatures,
        MetricFeatures,
        NystroemFeatures,
    )
    from bochner.persistence import load, save
    from bochner.selection import learn_metric
    from bochner.semisupervised import SemiSupervisedClassifier, SemiSupervisedRegressor
    from bochner.sources.opening import open_source
    from bochner.unsupervised import (
        KernelCCA,
        KernelKMeans,
        KernelPCA,
        SpectralClustering,
    )
    from bochner.unsupervised.novelty_detector import NoveltyDetector

__version__ = "0.4.0"
__all__ = [
    "AnchorFeatures",
    "BinningFeatures",
    "ConcatenatedFeatures",
    "FourierFeatures",
    "KernelCCA",
    "KernelKMeans",
    "KernelMachineClassifier",
    "KernelMachineRegressor",
    "KernelPCA",
    "LinearFeatures",
    "MetricFeatures",
    "NoveltyDetector",
    "NystroemFeatures",
    "SemiSupervisedClassifier",
    "SemiSupervisedRegressor",
    "SpectralClustering",
    "TableEncoder",
    "learn_metric",
    "load",
    "merge",
    "open_source",
    "save",
    "settings",
    "warmup",
]
_HOMES = {
    "AnchorFeatures": "bochner.features",
    "BinningFeatures": "bochner.features",
    "ConcatenatedFeatures": "bochner.features",
    "FourierFeatures": "bochner.features",
    "KernelCCA": "bochner.unsupervised",
    "KernelKMeans": "bochner.unsupervised",
    "KernelMachineClassifier": "bochner.estimators.classifier",
    "KernelMachineRegressor": "bochner.estimators.regressor",
    "KernelPCA": "bochner.unsupervised",
    "LinearFeatures": "bochner.features",
    "MetricFeatures": "bochner.features",
    "NoveltyDetector": "bochner.unsupervised.novelty_detector",
    "NystroemFeatures": "bochner.features",
    "SemiSupervisedClassifier": "bochner.semisupervised",
    "SemiSupervisedRegressor": "bochner.semisupervised",
    "SpectralClustering": "bochner.unsupervised",
    "TableEncoder": "bochner.data.table",
    "learn_metric": "bochner.selection",
    "load": "bochner.persistence",
    "merge": "bochner.estimators.machine",
    "open_source": "bochner.sources.opening",
    "save": "bochner.persistence",
    "warmup": "bochner.estimators.loop_cache",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that the command answers without
    loading scikit-learn.
    """
    if name not in _HOMES:
        raise AttributeError(f"module 'bochner' has no attribute {name!r}")
    import sklearn.base  # noqa: F401 - from here, for deep in a stack of imports its own take longer, up to 60 ms

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
