"""Every promise of scikit-learn's own checks."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from bochner import FourierFeatures, KernelMachineClassifier, KernelMachineRegressor


@parametrize_with_checks(
    [FourierFeatures(), FourierFeatures(paired=False), KernelMachineRegressor(), KernelMachineClassifier()]
)
def test_scikit_learn(estimator, check):
    check(estimator)
