"""Classification and regression with few targets and many rows without one."""

from bochner.semisupervised.models import (
    SemiSupervisedClassifier,
    SemiSupervisedRegressor,
)

__all__ = ["SemiSupervisedClassifier", "SemiSupervisedRegressor"]
