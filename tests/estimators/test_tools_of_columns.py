"""Tools that look for weights of columns find the importance of columns, and no
coefficients of features.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_selection import RFE, RFECV, SelectFromModel

from bochner import (
    KernelMachineClassifier,
    KernelMachineRegressor,
    SemiSupervisedRegressor,
)

INFORMATIVE = ["a", "b"]


def regressor():
    return KernelMachineRegressor("gaussian", n_components=64, random_state=0)


def classifier():
    return KernelMachineClassifier(
        "gaussian", n_components=64, loss="squared", random_state=0
    )


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 5)), columns=list("cabde"))
    return X, (1.5 * X.a + 2 * np.sin(2 * X.b)).to_numpy()


def cases(y):
    """A machine and its targets: one target, two targets, three classes."""
    classes = np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))
    return [
        (regressor(), y),
        (regressor(), np.column_stack([y, -y])),
        (classifier(), classes),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("case", range(3), ids=["one", "two targets", "three classes"])
@pytest.mark.parametrize(
    "selector",
    [
        lambda machine: RFE(machine, n_features_to_select=2),
        lambda machine: RFECV(machine, cv=3, min_features_to_select=2),
        lambda machine: SelectFromModel(machine),
    ],
    ids=["RFE", "RFECV", "SelectFromModel"],
)
def test_selectors_keep_the_columns_that_matter(table, selector, case):
    X, y = table
    machine, target = cases(y)[case]
    selected = selector(machine).fit(X, target).get_support()
    assert sorted(X.columns[selected]) == INFORMATIVE


@pytest.mark.parametrize("case", range(3), ids=["one", "two targets", "three classes"])
def test_no_machine_has_coefficients_of_columns(table, case):
    X, y = table
    machine, target = cases(y)[case]
    model = machine.fit(X, target)
    assert not hasattr(model, "coef_")
    with pytest.raises(
        AttributeError, match=r"feature_weights_ .* feature_importances_"
    ):
        _ = model.coef_
    assert len(model.feature_weights_) == model.features_.n_features_out


def test_semisupervised_machines_have_none_either(table):
    X, y = table
    partly = np.where(np.arange(len(y)) < 50, y, np.nan)
    assert not hasattr(SemiSupervisedRegressor(random_state=0).fit(X, partly), "coef_")


@pytest.mark.slow
def test_shap_explains_columns(table):
    shap = pytest.importorskip("shap")
    X, y = table
    model = regressor().fit(X, y)
    explanation = shap.Explainer(model.predict, X[:50])(X[:2])
    total = explanation.values.sum(axis=1) + explanation.base_values
    np.testing.assert_allclose(total, model.predict(X[:2]), rtol=1e-6)
    with pytest.raises(TypeError, match="not callable"):  # as for any other learner
        shap.Explainer(model, X)
