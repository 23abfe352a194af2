"""Rows with infinite and huge values, by every public estimator and map: an error or
finite numbers, no warning.
"""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.utils import get_tags

import bochner as bo
from bochner.kernels import Gaussian, Laplacian, Matern

N = 120
X = np.random.default_rng(0).normal(size=(N, 3))
Y = X[:, 0] + np.sin(2 * X[:, 1])
FEW = np.where(np.arange(N) < 60, Y, np.nan)
SMALL = {"n_components": 20, "random_state": 0}
MODELS = {
    "regressor": (bo.KernelMachineRegressor(**SMALL, features="fourier"), Y),
    "bins": (bo.KernelMachineRegressor(**SMALL, features="binning"), Y),
    "std": (
        bo.KernelMachineRegressor(kernel=Gaussian(1.0), **SMALL, uncertainty="std"),
        Y,
    ),
    "exact": (
        bo.KernelMachineRegressor(kernel=Gaussian(1.0), solver="exact", random_state=0),
        Y,
    ),
    "linear": (
        bo.KernelMachineRegressor(features=bo.LinearFeatures(), random_state=0),
        9 * Y,
    ),
    "poisson": (
        bo.KernelMachineRegressor(
            features=bo.LinearFeatures(), loss="poisson", random_state=0
        ),
        np.round(np.exp(Y)),
    ),
    "classifier": (bo.KernelMachineClassifier(kernel=Gaussian(1.0), **SMALL), Y > 0),
    "logistic": (
        bo.KernelMachineClassifier(
            features=bo.LinearFeatures(), loss="logistic", random_state=0
        ),
        Y > 0,
    ),
    "semi-supervised": (bo.SemiSupervisedRegressor(random_state=0), FEW),
    "semi-supervised classes": (
        bo.SemiSupervisedClassifier(random_state=0),
        np.where(np.isnan(FEW), -1, FEW > 0),
    ),
    "components": (bo.KernelPCA(random_state=0), None),
    "correlations": (bo.KernelCCA(random_state=0), np.column_stack([Y, X[:, 2] ** 2])),
    "k-means": (bo.KernelKMeans(2, random_state=0), None),
    "spectral": (bo.SpectralClustering(2, random_state=0), None),
    "novelty": (bo.NoveltyDetector(random_state=0), None),
    "table": (bo.TableEncoder(), None),
    "fourier": (bo.FourierFeatures(Gaussian(0.01), 20, random_state=0), None),
    "landmarks": (bo.NystroemFeatures(Gaussian(0.01), 20, random_state=0), None),
    "Matern landmarks": (bo.NystroemFeatures(Matern(), 20, random_state=0), None),
    "binned": (bo.BinningFeatures(Laplacian(), 5, random_state=0), None),
    "anchors": (bo.AnchorFeatures(20, random_state=0), None),
    "standardised": (bo.LinearFeatures(), None),
}
METHODS = "predict", "predict_proba", "decision_function", "score_samples", "transform"


@pytest.fixture(scope="module", params=MODELS, ids=str)
def model(request):
    model, y = MODELS[request.param]
    return model.fit(X) if y is None else model.fit(X, y)


@pytest.mark.parametrize("value", [1e308, -1e308, 1e200, 1e39, 1e20])
def test_huge_values_give_finite_numbers_or_an_error(model, value):
    rows = X[:5].copy()
    rows[1, 1], rows[2], rows[3] = value, value, (-value, value, 0.0)
    for name in METHODS:
        if hasattr(model, name):
            try:
                found = getattr(model, name)(rows)
            except ValueError as error:
                said = str(error)
                assert "too large" in said or "the prediction overflows" in said, name
            else:
                found = found.toarray() if sp.issparse(found) else np.asarray(found)
                assert found.dtype.kind not in "fc" or np.isfinite(found).all(), name


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_infinite_values_are_refused(model, value):
    """And missing ones, where the model does not say that it takes them."""
    takes_missing = np.isnan(value) and get_tags(model).input_tags.allow_nan
    rows = X[:5].copy()
    rows[1, 1] = value
    for name in METHODS:
        if not hasattr(model, name):
            continue
        if takes_missing:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Column 'x1' has missing values")
                assert len(getattr(model, name)(rows)) == len(rows)
        else:
            with pytest.raises(ValueError, match=r"(?i)infinity|NaN"):
                getattr(model, name)(rows)


def test_rows_far_beyond_the_landmarks_have_no_kernel_with_them():
    Z = (
        bo.NystroemFeatures(Gaussian(0.5), 20, random_state=0)
        .fit(X)
        .transform(np.full((1, 3), 1e300))
    )
    np.testing.assert_array_equal(Z, 0)


def test_a_prediction_that_overflows_names_its_row():
    model = bo.KernelMachineRegressor(features=bo.LinearFeatures(), random_state=0).fit(
        X, 9 * Y
    )
    with pytest.raises(
        ValueError, match=r"row 3: the prediction overflows, .* drop or clip such rows"
    ):
        model.predict(np.vstack([X[:3], np.full((1, 3), 1e308)]))
