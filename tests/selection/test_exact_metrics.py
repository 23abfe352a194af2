"""The exact kernel of a learned metric, for few rows of numbers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bochner import KernelMachineClassifier, KernelMachineRegressor, load, save
from bochner.data.array_source import ArraySource
from bochner.features import FourierFeatures
from bochner.features.metric import MetricFeatures
from bochner.features.nystroem import KernelRows
from bochner.inputs import opened
from bochner.kernels import Gaussian
from bochner.selection.few_rows import choose_for_few
from bochner.selection.policy import POLICY

N = 300
EXACT = "exact kernel, learned lengthscales"


@pytest.fixture(scope="module")
def surface():
    """Friedman's function of five of ten columns, with little noise."""
    return make_friedman1(3_000, noise=0.2, random_state=0)


@pytest.fixture(scope="module")
def model(surface):
    X, y = surface
    return KernelMachineRegressor(random_state=0, bounded=False).fit(X[:N], y[:N])


def test_it_is_kernel_ridge_on_the_coordinates(model, surface):
    X, y = surface
    assert model.report_.chosen == EXACT
    assert model.solver_ == "exact"
    assert isinstance(model.features_, MetricFeatures)
    assert isinstance(model.features_.features, KernelRows)
    encoded = model.encoder_.encode(X, dtype=np.float64)
    coordinates = model.metric_.transform(encoded)
    gamma = 0.5 / model.kernel_.lengthscale**2
    K = rbf_kernel(coordinates, coordinates[:N], gamma=gamma)
    ones = np.ones((1, N))
    ridge = K[:N] + model.alpha_ * np.eye(N)
    system = np.block([[ridge, ones.T], [ones, np.zeros((1, 1))]])
    *coef, intercept = np.linalg.solve(system, [*y[:N], 0.0])
    np.testing.assert_allclose(model.predict(X), K @ coef + intercept, atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The optimal value found")
def test_errors_are_those_of_a_gaussian_process(surface):
    X, y = surface
    process = GaussianProcessRegressor(
        ConstantKernel() * RBF(np.ones(10), (1e-2, 1e4)) + WhiteKernel(1e-2),
        normalize_y=True,
    )
    models = (
        KernelMachineRegressor(random_state=0),
        make_pipeline(StandardScaler(), process),
        KernelMachineRegressor(features="fourier", random_state=0),
        HistGradientBoostingRegressor(random_state=0),
    )
    scores = [one.fit(X[:N], y[:N]).score(X[N:], y[N:]) for one in models]
    ours, theirs, waves, trees = 1 - np.array(scores)
    assert ours < 2 * theirs
    assert ours < waves
    assert ours < 0.2 * trees


@pytest.mark.parametrize(
    ("machine", "n", "options"),
    [
        pytest.param(KernelMachineRegressor, 2_000, {}, marks=pytest.mark.slow),
        (KernelMachineRegressor, N, {"features": "fourier"}),
        (KernelMachineRegressor, N, {"n_components": 100}),
        (KernelMachineRegressor, N, {"solver": "direct"}),
        (KernelMachineRegressor, N, {"cv": 3}),
        (KernelMachineClassifier, N, {}),
    ],
)
def test_others_have_no_such_candidate(machine, n, options, surface):
    X, y = surface
    y = y > 14 if machine is KernelMachineClassifier else y
    other = machine(random_state=0, **options).fit(X[:n], y[:n])
    assert EXACT not in [one.name for one in other.report_.candidates]


def test_a_penalty_is_that_of_the_noise_whatever_the_number_of_rows(surface):
    """Of 400 rows that choose it, or of 1,000 that have it."""
    X, y = surface
    many = ArraySource(X[:1_000], y[:1_000, np.newaxis])
    few = many.sample(POLICY.searched_rows, np.random.default_rng(0))
    one, other = (
        choose_for_few(rows, "gaussian", None, None, False, rows.n_rows, 0)
        for rows in (many, few)
    )
    assert one.kernel.lengthscale == other.kernel.lengthscale
    np.testing.assert_allclose(
        one.alpha_per_weight * many.n_rows, other.alpha_per_weight * few.n_rows
    )


def test_weights_are_in_any_unit(model, surface):
    X, y = surface
    heavy = KernelMachineRegressor(random_state=0, bounded=False)
    heavy.fit(X[:N], y[:N], sample_weight=np.full(N, 8.0))
    np.testing.assert_allclose(heavy.predict(X), model.predict(X), atol=1e-6)


def test_a_file_has_the_model(model, surface, tmp_path):
    X, _ = surface
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_refit_to_many_rows_has_features_of_the_metric(surface, policy):
    policy(folded_rows=500)
    X, y = surface
    model = KernelMachineRegressor(random_state=0).fit(X[:N], y[:N])
    metric = model.metric_
    before = model.score(X[1_000:], y[1_000:])
    assert model.refit(X[:400], y[:400]).solver_ == "exact"
    assert model.refit(X[:1_000], y[:1_000]).solver_ == "direct"
    assert isinstance(model.features_.features, FourierFeatures)
    np.testing.assert_array_equal(model.features_.metric.scale_, metric.scale_)
    assert model.score(X[1_000:], y[1_000:]) > before


def test_a_refit_in_passes_has_features_of_the_metric(surface, tmp_path, monkeypatch):
    X, y = surface
    names = [f"x{j}" for j in range(10)]
    table = pd.DataFrame(X, columns=names).assign(target=y)
    table[:1_000].to_parquet(tmp_path / "table.parquet")
    model = KernelMachineRegressor(random_state=0).fit(table[:N], "target")
    before = model.score(table[1_000:], "target")
    monkeypatch.setattr(opened, "POLICY", replace(opened.POLICY, gathered_rows=500))
    model.refit(tmp_path / "table.parquet", "target")
    assert model.solver_ == "direct"
    assert model.score(table[1_000:], "target") > before


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_values_are_those_of_the_kernel(convert, shift):
    """Also of rows that are far from zero, where one of them is far from all."""
    rng = np.random.default_rng(0)
    rows = shift * (convert is np.asarray) + rng.standard_normal((200, 4))
    rows[0] += 1e5
    kernel = 2.0 * Gaussian([1.0, 2.0, 3.0, 4.0])
    features = KernelRows(kernel).fit(convert(rows))
    np.testing.assert_allclose(
        features.transform(convert(rows[50:])), kernel(rows[50:], rows), atol=1e-8
    )
