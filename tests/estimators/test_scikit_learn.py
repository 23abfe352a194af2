"""Every promise of scikit-learn's own checks, and what its routing of metadata asks
for.
"""

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from bochner import (
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    SemiSupervisedClassifier,
    SemiSupervisedRegressor,
)

MODELS = [
    KernelMachineRegressor,
    KernelMachineClassifier,
    SemiSupervisedRegressor,
    SemiSupervisedClassifier,
]
ROWS = {
    "fit": {"sample_weight", "groups"},
    "partial_fit": {"sample_weight", "classes"},
    "score": {"sample_weight"},
}


def refused_by_design(estimator):
    """Reasons, by check, where the library refuses what a check of scikit-learn does
    on the way to its question.
    """
    if isinstance(estimator, FourierFeatures):
        return {}
    return {
        "check_fit_score_takes_y": "it calls partial_fit after fit, which keeps no "
        "sums to add rows to"
    }


@parametrize_with_checks(
    [
        FourierFeatures(n_components=20),
        KernelMachineRegressor(),
        KernelMachineClassifier(),
    ],
    expected_failed_checks=refused_by_design,
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("model", MODELS)
def test_only_what_belongs_to_rows_is_metadata(model):
    """Threads, files of predictions and deviations go with a call: scikit-learn is
    not to route them.
    """
    with sklearn.config_context(enable_metadata_routing=True):
        routed = model().set_score_request(sample_weight=True).get_metadata_routing()
    for method in (
        "fit",
        "partial_fit",
        "predict",
        "predict_proba",
        "decision_function",
        "score",
    ):
        assert set(getattr(routed, method).requests) <= ROWS.get(method, set())


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("model", [KernelMachineRegressor, KernelMachineClassifier])
def test_search_passes_weights_of_rows_on(model, routing):
    X = np.random.default_rng(0).standard_normal((80, 2))
    y = (X[:, 0] > 0).astype(int)
    with sklearn.config_context(enable_metadata_routing=routing):
        machine = model(
            kernel="gaussian", n_components=20, metric="isotropic", random_state=0
        )
        if routing:
            machine.set_fit_request(sample_weight=True).set_score_request(
                sample_weight=True
            )
        search = GridSearchCV(machine, {"alpha": [0.1, 1.0]}, cv=2, error_score="raise")
        search.fit(X, y, sample_weight=np.ones(80))
    assert search.best_params_["alpha"] in (0.1, 1.0)
