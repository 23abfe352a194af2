"""Every promise of scikit-learn's own checks, for the online estimators."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from bochner import OnlineKernelClassifier, OnlineKernelRegressor


@parametrize_with_checks([OnlineKernelRegressor(n_components=40), OnlineKernelClassifier(n_components=40)])
def test_scikit_learn(estimator, check):
    check(estimator)
