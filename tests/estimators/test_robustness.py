"""Faults that once were: weights, state after refusals, far values, races."""

import threading

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_info

from bochner import (
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    save,
)
from bochner.engines.local import single_threaded_blas
from bochner.kernels import Gaussian


def wavy(n=300, d=3):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(n)


@pytest.mark.parametrize("factor", [1e-6, 10.0, 1e6])
def test_a_common_factor_of_the_weights_changes_nothing(factor):
    X, y = wavy()
    options = {"kernel": "gaussian", "n_components": 100, "random_state": 0}
    plain = KernelMachineRegressor(**options).fit(X, y)
    scaled = KernelMachineRegressor(**options).fit(X, y, np.full(len(y), factor))
    np.testing.assert_allclose(scaled.predict(X), plain.predict(X), atol=1e-6)


@pytest.mark.slow
def test_rows_of_weight_zero_choose_nothing():
    X, y = wavy(6000)
    weight = np.zeros(len(y))
    weight[:200] = 1.0
    X[200:] *= 1e3
    few = KernelMachineRegressor(random_state=0).fit(X, y, weight)
    assert few.score(X[:200], y[:200]) > 0.8


@pytest.mark.parametrize("n", [300, 20_000])
def test_an_alpha_below_rounding(n):
    """As by least squares less is left than the noise, by a share of features over
    rows at most.
    """
    X, y = wavy(n, 2)
    size = 2 * n if n < 1000 else 1000
    model = KernelMachineRegressor(
        Gaussian(3.0), n_components=size, alpha=1e-14, random_state=0
    ).fit(X, y)
    noise = y - np.sin(2 * X[:, 0]) - X[:, 1]
    assert (
        max(1 - 1.2 * size / n, 0)
        < np.sum((y - model.predict(X)) ** 2) / np.sum(noise**2)
        < 1
    )


def test_a_drawn_map_keeps_its_size():
    features = FourierFeatures(n_components=4, random_state=0).fit(np.zeros((1, 2)))
    features.set_params(n_components=8)
    assert features.transform(np.ones((5, 2))).shape == (5, 4)


@pytest.mark.slow
def test_targets_of_any_scale_in_single_precision():
    X, y = wavy(20_000)
    for scale in (1e-50, 1e50):
        model = KernelMachineRegressor(
            Gaussian(2.0), n_components=1300, alpha=1.0, random_state=0
        ).fit(X, scale * y)
        assert model.feature_weights_.dtype == np.float32
        assert model.score(X, scale * y) > 0.8


def test_a_refused_fit_forgets_the_one_before(tmp_path):
    X, y = wavy()
    model = KernelMachineRegressor(Gaussian(), alpha=1.0).fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, np.where(y > 0, y, np.nan))
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(NotFittedError):
        save(model, tmp_path / "model.safetensors")


@pytest.mark.slow
def test_a_column_constant_in_training_may_change():
    X, y = wavy()
    X = np.column_stack([X, np.full(len(X), 2023.0)])
    for data in (X, sp.csr_array(X)):
        model = KernelMachineRegressor(random_state=0).fit(data, y)
        later = X.copy()
        later[:, 3] = 2030.0
        later = later if data is X else sp.csr_array(later)
        np.testing.assert_allclose(model.predict(later), model.predict(data), atol=1e-8)


@pytest.mark.slow
def test_wide_sparse_data():
    X = sp.random_array(
        (60, 20_000), density=1e-3, rng=np.random.default_rng(0), format="csr"
    )
    W = FourierFeatures(Gaussian(2.0), 64, random_state=0).fit(X).frequencies_ * 2.0
    directions = W / np.linalg.norm(W, axis=0)
    np.testing.assert_allclose(directions.T @ directions, np.eye(32), atol=1e-12)
    labels = np.arange(60) % 3
    assert KernelMachineClassifier(random_state=0).fit(X, labels).predict(X).shape == (
        60,
    )


@pytest.mark.parametrize(
    "y", [np.array(["2020", "NaT"] * 10, "M8[D]"), ["a", np.nan] * 10, [1.0, None] * 10]
)
def test_targets_that_are_missing_or_dates(y):
    X = np.random.default_rng(0).standard_normal((20, 2))
    for machine in (KernelMachineClassifier, KernelMachineRegressor):
        with pytest.raises(ValueError, match=r"NaN|dates"):
            machine().fit(X, y)


def test_limits_of_threads_that_begin_together():
    before = [pool["num_threads"] for pool in threadpool_info()]
    gate = threading.Barrier(4)

    def store():
        gate.wait()
        with single_threaded_blas():
            gate.wait()

    threads = [threading.Thread(target=store) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [pool["num_threads"] for pool in threadpool_info()] == before


@pytest.mark.parametrize(
    ("as_rows", "size"),
    [
        *((np.asarray, size) for size in (1e-310, 1e-160, 1e160, 1e300)),
        (sp.csr_array, 1e-310),
        (sp.csr_array, 1e300),
    ],
)
@pytest.mark.parametrize(
    "options",
    [{}, {"kernel": "gaussian"}, {"kernel": "laplacian", "metric": "isotropic"}],
)
def test_a_column_of_any_size(size, as_rows, options):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((250, 3)) * [1.0, size, 1.0]
    y = np.sin(X[:, 0]) + X[:, 1] / size
    model = KernelMachineRegressor(**options, n_components=100, random_state=0).fit(
        as_rows(X[:150]), y[:150]
    )
    assert model.score(as_rows(X[150:]), y[150:]) > 0.99


@pytest.mark.parametrize("frame_first", [True, False])
def test_one_warning_on_names(frame_first):
    X, y = wavy(100)
    frame = pd.DataFrame(X, columns=list("abc"))
    first, other = (frame, X) if frame_first else (X, frame)
    model = KernelMachineRegressor(n_components=20, random_state=0).fit(first, y)
    with pytest.warns(
        UserWarning, match="valid feature names" if frame_first else "has feature names"
    ) as caught:
        found = model.predict(other)
    assert len(caught) == 1
    np.testing.assert_allclose(found, model.predict(first))
    if not frame_first:
        with pytest.raises(
            ValueError, match="features, but KernelMachineRegressor is expecting 3"
        ):
            model.predict(X[:, :2])
