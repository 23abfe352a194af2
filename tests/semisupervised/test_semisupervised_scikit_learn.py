"""Every promise of scikit-learn's own checks."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from bochner import SemiSupervisedClassifier, SemiSupervisedRegressor


def expected(estimator):
    if isinstance(estimator, SemiSupervisedClassifier):
        return {
            "check_classifiers_classes": "-1 marks rows without a label, as of "
            "LabelSpreading, and is no class"
        }
    return {}


@pytest.mark.slow
@parametrize_with_checks(
    [SemiSupervisedClassifier(random_state=0)], expected_failed_checks=expected
)
def test_classifier_keeps_the_promises(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([SemiSupervisedRegressor(random_state=0)])
def test_regressor_keeps_the_promises(estimator, check):
    check(estimator)
