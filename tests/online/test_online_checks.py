"""Every promise of scikit-learn's own checks, for the online estimators."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from bochner import OnlineKernelClassifier, OnlineKernelRegressor
from bochner.kernels import Gaussian


@parametrize_with_checks(
    [OnlineKernelRegressor(n_components=40), OnlineKernelClassifier(Gaussian(2.0), n_components=40)]
)
def test_scikit_learn(estimator, check):
    """The kernel is chosen by one of them; both do it alike."""
    check(estimator)
