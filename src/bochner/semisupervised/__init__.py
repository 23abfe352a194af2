"""Classification and regression with few targets and many rows without one."""

from bochner.semisupervised.classifier import SemiSupervisedClassifier
from bochner.semisupervised.regressor import SemiSupervisedRegressor

__all__ = ["SemiSupervisedClassifier", "SemiSupervisedRegressor"]
