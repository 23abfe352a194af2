"""What all estimators on feature maps share."""

from __future__ import annotations

from typing import Any

from sklearn.utils import check_random_state

from bochner.features.base import KernelParameter


class BaseKernelEstimator(KernelParameter):
    """An estimator with a parameter `random_state`, whose fits begin anew, and which takes sparse rows."""

    random_state: Any

    def _forget_fit(self) -> None:
        """Delete all that an earlier fit has learned, so that a fit that fails leaves no mixture behind."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.endswith("__")]:
            delattr(self, name)

    def _seed(self) -> int:
        """Seed of a fit."""
        return int(check_random_state(self.random_state).randint(2**31))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
