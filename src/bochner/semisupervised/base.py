"""What models of rows of which a few have targets share."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.design import Design
from bochner.engines.progress import progress
from bochner.estimators.lazy_scores import LazyScore
from bochner.features.anchors import AnchorFeatures
from bochner.features.base import FeatureMap
from bochner.features.copies import seeded
from bochner.features.transformer import as_map
from bochner.semisupervised.graph import Graph, graph_of
from bochner.semisupervised.smoothers import Poisson, Smooth, Smoother, SmoothRidge, Spreading
from bochner.unsupervised.base import Opened, RowModel

ROWS_A_LANDMARK, FEWEST_LANDMARKS, MOST_LANDMARKS, NEIGHBOURS = 3, 1000, 8000, 3
SAMPLE_ROWS = 8  # of the sample, for each landmark
ALPHA, FLOW_ALPHA = 0.99, 0.999
METHODS = ("auto", "spreading", "poisson", "ridge")


class SemiSupervised(LazyScore, RowModel):
    """Functions of rows that change little where these are dense, and follow the targets that are known."""

    def __init__(
        self,
        features: FeatureMap | str = "auto",
        method: str = "auto",
        alpha: Any = "auto",
        standardize: bool | str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.features = features
        self.method = method
        self.alpha = alpha
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose

    def _fit_graph(self, X: Any, y: Any, sample_weight: Any) -> Graph:
        """Find landmarks, and the graph of all rows."""
        self._check_parameters()
        self._begin()
        seed = self._seed()
        rows = self._open(X, sample_weight, seed, y=y)
        self.features_ = self._landmarks(rows, seed)
        with progress("Reading the graph", rows.n_rows, bool(self.verbose)) as advance:
            design = Design(rows.source, self.features_, np.float32, advance, fixed=True, engine=rows.engine)
            return graph_of(design, rows.source.n_outputs)

    def _check_parameters(self) -> None:
        methods = METHODS if self._may_flow else [name for name in METHODS if name != "poisson"]
        if self.method not in methods:
            raise ValueError(f"method must be one of {', '.join(map(repr, methods))}, got {self.method!r}.")
        if isinstance(self.alpha, str) and self.alpha == "auto":
            return
        if not isinstance(self.alpha, Real) or isinstance(self.alpha, bool) or not 0 < self.alpha < 1:
            raise ValueError(f"alpha must be a number between 0 and 1, both left out, or 'auto', got {self.alpha!r}.")

    _may_flow = False

    def _landmarks(self, rows: Opened, seed: int) -> AnchorFeatures:
        """The map to landmarks, which are found in a sample of the rows."""
        features = self.features
        if isinstance(features, str):
            if features != "auto":
                raise ValueError(f"features must be 'auto' or AnchorFeatures, got {features!r}.")
            wanted = min(max(rows.n_rows // ROWS_A_LANDMARK, FEWEST_LANDMARKS), MOST_LANDMARKS)
            features = AnchorFeatures(wanted, NEIGHBOURS, random_state=seed)
        elif not isinstance(features, AnchorFeatures):
            raise TypeError(f"features must be AnchorFeatures or 'auto', got {type(features).__name__}.")
        drawn = seeded(as_map(features), seed)
        drawn.draw(self.encoder_.n_features_out_)
        size = SAMPLE_ROWS * int(features.n_components)
        X, _, weight = rows.sample.sample(size, np.random.default_rng(seed)).whole()
        drawn.fit_sample(X, weight)
        return drawn

    def _spreading_alpha(self, default: float) -> float:
        return default if isinstance(self.alpha, str) else float(self.alpha)

    def _values(self, X: Any) -> NDArray[np.float64]:
        """The function of some rows, shape (n, K)."""
        return self._mapped(X, lambda rows: self.features_.dot(rows, self.coef_))

    def _of_all_rows(self, graph: Graph, smooth: Smooth) -> NDArray[np.float64] | None:
        """The function of all rows of the fit, and of those with a target with its own part; None without features."""
        if graph.features is None:
            return None
        found = np.concatenate([Z @ self.coef_ for Z in graph.features])
        found[graph.number] += smooth.own * graph.targets * self._scale
        return found
