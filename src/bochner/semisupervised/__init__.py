"""Classification and regression with few targets and many rows without one."""

from bochner.semisupervised.semisupervised_classifier import SemiSupervisedClassifier
from bochner.semisupervised.semisupervised_regressor import SemiSupervisedRegressor

__all__ = ["SemiSupervisedClassifier", "SemiSupervisedRegressor"]
