"""Arrays of other libraries, and fits whose features lie on a device."""

import subprocess
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import bochner
from bochner import (
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    LinearFeatures,
)
from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.devices import device_fourier
from bochner.devices.device import Device, is_tensor, to_host
from bochner.features import MetricFeatures
from bochner.features.device_features import features_there, on_device
from bochner.features.metric import Metric
from bochner.kernels import Cauchy, Gaussian, Hamming
from bochner.selection.policy import POLICY
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.shifted import CholeskyInverse, DeviceInverse

N, D = 600, 70


def data(dtype=np.float64, n=N):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 3))
    y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)
    return X.astype(dtype), y, rng.uniform(0.2, 2.0, n)


@pytest.fixture(params=["cpu", "cuda:0"])
def place(request):
    """The processor's memory as a device of PyTorch, and a GPU where there is one."""
    torch = pytest.importorskip("torch")
    if request.param != "cpu" and not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    return Device(torch.device(request.param))


def out_of_memory_beyond(most, tried):
    """Work that takes so many rows at most, and notes how many it was given."""

    def compute(rows):
        tried.append(rows)
        if rows > most:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return rows

    return compute


def test_without_memory_an_eighth_of_the_rows_is_tried_once():
    place = SimpleNamespace(
        memory_error=lambda n_bytes, what, cure: MemoryError(n_bytes, what)
    )
    for most, expected in ((800, [800]), (100, [800, 100])):
        tried = []
        compute = out_of_memory_beyond(most, tried)
        assert device_fourier.with_smaller_blocks(compute, 800, place, 8) <= most
        assert tried == expected
    with pytest.raises(MemoryError, match="810, 'A block of 100 rows'"):
        device_fourier.with_smaller_blocks(
            out_of_memory_beyond(99, []), 800, place, 8, beside=10
        )


def test_another_error_than_of_memory_passes():
    tried = []

    def compute(rows):
        tried.append(rows)
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        device_fourier.with_smaller_blocks(compute, 800, SimpleNamespace(), 8)
    assert tried == [800]


@pytest.fixture
def tensor(place, monkeypatch):
    """Makes tensors, which lie as on a device that is not the processor."""
    monkeypatch.setattr(Device, "is_host", False)
    return partial(place.torch.as_tensor, device=place.device)


WAYS = {
    "direct": {"solver": "direct", "metric": "isotropic"},
    "cg": {"solver": "cg", "kernel": Gaussian(0.4), "tol": 1e-4},
    "learned": {"metric": "ard"},
    "given": {"kernel": Gaussian(0.4), "alpha": 1e-2},
}


def machine(kind, **parameters):
    return kind(features="fourier", n_components=D, random_state=0, **parameters)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [KernelMachineRegressor, KernelMachineClassifier])
def test_a_fit_of_arrays_on_a_device_is_that_of_numpy(kind, way, tensor):
    X, y, weight = data(n=300)
    y = y if kind is KernelMachineRegressor else (y > 0.7).astype(int) + (y > 1.2)
    model, other = (machine(kind, **WAYS[way]) for _ in range(2))
    model.fit(X, y, weight)
    other.fit(tensor(X), tensor(y), sample_weight=tensor(weight))
    names = (
        ["predict"]
        if kind is KernelMachineRegressor
        else ["predict_proba", "decision_function"]
    )
    for name in names:
        found = getattr(other, name)(tensor(X))
        assert is_tensor(found)
        np.testing.assert_allclose(to_host(found), getattr(model, name)(X), atol=1e-4)
        np.testing.assert_allclose(getattr(other, name)(X), to_host(found), atol=1e-10)
    assert type(other.feature_weights_) is np.ndarray
    assert abs(other.score(tensor(X), tensor(y)) - model.score(X, y)) < 1e-6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver", ["direct", "cg"])
def test_designs_on_a_device_are_those_of_the_processor(
    place, solver, dtype, monkeypatch
):
    """Weights, some of them zero, several targets, and all forms of the features."""
    monkeypatch.setattr(device_fourier, "HELD_ENTRIES", 5000)
    X, y, weight = data(dtype, 400)
    source = ArraySource(
        X, np.column_stack([y, y**2]), np.where(np.arange(400) % 7, weight, 0)
    )
    metric = Metric(3, [0, 1, 2], [1.0, 2.0, 0.5], linear=[[1.0, 0.5, 0.0]])
    maps = [
        FourierFeatures(Cauchy(2.0), 61, random_state=0),
        FourierFeatures(paired=False, n_components=30),
    ]
    features = ConcatenatedFeatures(
        [*maps, MetricFeatures(metric, FourierFeatures(n_components=20))],
        [1.0, 0.5, 2.0],
    )
    features.fit(X)
    here, there = (
        Design(source, features, dtype),
        Design(source, features, dtype, place=place),
    )
    close = partial(
        np.testing.assert_allclose, rtol=0, atol=1e-3 if dtype == np.float32 else 1e-10
    )
    coef = np.random.default_rng(1).standard_normal((features.n_features_out, 2))
    close(there.predict(coef, np.ones(2)), here.predict(coef, np.ones(2)))
    if solver == "direct":
        close(there.moments().matrix, here.moments().matrix)
        assert there.moments().n_rows == here.moments().n_rows
        return
    ridges = [IterativeRidge(design, 0) for design in (here, there)]
    for ridge in ridges:
        ridge.blocks = list(ridge.design.again(ridge.centres))
    equations = [ridge.equations() for ridge in ridges]
    close(equations[0].rhs, equations[1].rhs)
    close(equations[0](coef.T), equations[1](coef.T))
    close(equations[0].diagonal(), equations[1].diagonal())
    close(
        ridges[0].predict(equations[0], coef.T), ridges[1].predict(equations[1], coef.T)
    )


@pytest.mark.parametrize(
    "features", ["few", "odd", "alone", "structured", "leverage", "far"]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fourier_features_on_a_device(features, dtype, tensor, place):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 20)).astype(dtype)
    made = {
        "few": FourierFeatures(n_components=10, random_state=0),
        "odd": FourierFeatures(n_components=11, random_state=0),
        "alone": FourierFeatures(n_components=10, paired=False, random_state=0),
        "structured": FourierFeatures(
            n_components=200, sampling="structured", random_state=0
        ),
        "leverage": FourierFeatures(
            n_components=30, sampling="leverage", random_state=0
        ),
        "far": FourierFeatures(Gaussian(1e-3), n_components=30, random_state=0),
    }[features]
    expected = made.fit(X).transform(X.astype(np.float64))
    far = 1e3 if features == "far" else 1.0  # angles are known to so many digits less
    found = made.transform(tensor(X))
    assert is_tensor(found)
    assert to_host(found).dtype == dtype
    tolerance = far * (1e-5 if dtype == np.float32 else 1e-12)
    np.testing.assert_allclose(to_host(found), expected, rtol=0, atol=tolerance)
    with bochner.settings(device=place):
        again = made.transform(X)
    assert type(again) is np.ndarray
    np.testing.assert_allclose(again, to_host(found), rtol=0, atol=1e-6)


def test_transforms_of_other_maps_come_back(tensor):
    X, _, _ = data()
    for features in (
        LinearFeatures(),
        ConcatenatedFeatures([FourierFeatures(random_state=0), LinearFeatures()]),
    ):
        found = features.fit_transform(tensor(X))
        assert is_tensor(found)
        np.testing.assert_allclose(to_host(found), features.transform(X), atol=1e-12)
    assert BinningFeatures(random_state=0).fit_transform(tensor(X)).shape[0] == N


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((2, 5)), "expecting 3 features"),
        (np.zeros(3), "expecting 3 features"),
        (np.full((2, 3), np.nan), "NaN or infinity"),
    ],
)
def test_bad_rows_on_a_device(X, message, tensor):
    features = FourierFeatures(random_state=0).fit(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=message):
        features.transform(tensor(X))


def test_kernels_of_codes_look_at_rows_on_a_device(tensor):
    features = FourierFeatures(Hamming(), random_state=0).fit(np.zeros((2, 1)))
    with pytest.raises(ValueError, match=r"differ by 0\.5"):
        features.transform(tensor(np.array([[0.0], [0.5]])))


@pytest.mark.parametrize(
    "parameters",
    [{}, {"n_components": 11}, {"paired": False}],
    ids=["even", "odd", "alone"],
)
def test_features_of_tensors_are_written_where_they_stay(
    parameters, place, monkeypatch
):
    """As on a GPU: a few rows at a time, of tensors with a history and of any
    precision.
    """
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(device_fourier, "HELD_ENTRIES", 64)
    X, _, _ = data(n=50)
    features = FourierFeatures(
        **{"n_components": 10, "random_state": 0, **parameters}
    ).fit(X)
    for dtype, tolerance in (
        (torch.float64, 1e-12),
        (torch.float32, 1e-5),
        (torch.float16, 1e-3),
    ):
        given = place.put(X).to(dtype).requires_grad_()
        found = features_there(features, given, place)
        assert not found.requires_grad
        assert found.dtype == (
            torch.float32 if dtype == torch.float32 else torch.float64
        )
        np.testing.assert_allclose(
            to_host(found), features.transform(X), rtol=0, atol=tolerance
        )


def test_features_that_the_device_has_no_memory_for(place, monkeypatch):
    X, _, _ = data(n=50)
    features = FourierFeatures(random_state=0).fit(X)
    monkeypatch.setattr(Device, "product", scarce(10))
    free = "" if str(place) == "cpu" else r" and [\d,.]+ GB are free"
    what = r"array of 50 x 1,000 features needs 0\.00 GB"
    with pytest.raises(MemoryError, match=rf"{what} on {place}{free}\. Transform in"):
        features_there(features, place.put(X), place)


def test_whole_numbers_become_double_precision(tensor):
    features = FourierFeatures(random_state=0).fit(np.zeros((2, 1)))
    codes = np.arange(4)[:, np.newaxis]
    found = to_host(features.transform(tensor(codes)))
    np.testing.assert_allclose(found, features.transform(codes), atol=1e-12)


def test_torch_on_the_processor():
    """Where they lie in its memory, NumPy's path is taken, to the bit; results have
    the precision of X.
    """
    torch = pytest.importorskip("torch")
    X, y, _ = data()
    model = machine(KernelMachineRegressor, **WAYS["given"], uncertainty=True)
    other = machine(KernelMachineRegressor, **WAYS["given"], uncertainty=True)
    model.fit(X, y)
    other.fit(torch.as_tensor(X), torch.as_tensor(y))
    np.testing.assert_array_equal(model.feature_weights_, other.feature_weights_)
    found, deviations = other.predict(torch.as_tensor(X), return_std=True)
    assert isinstance(found, torch.Tensor)
    assert isinstance(deviations, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), model.predict(X))
    single = other.predict(torch.as_tensor(X, dtype=torch.float32))
    assert single.dtype == torch.float32
    assert isinstance(other.predict_interval(torch.as_tensor(X)), torch.Tensor)
    X = torch.as_tensor(X, dtype=torch.float64).requires_grad_()
    assert FourierFeatures(random_state=0).fit_transform(X).shape == (N, 1000)


def test_numpy_on_the_device_of_the_settings(place, monkeypatch):
    """In single precision, as where there are many rows."""
    X, y, _ = data(np.float32, 3000)
    monkeypatch.setattr(
        "bochner.planning.request.POLICY", replace(POLICY, double_seconds=0.0)
    )
    for kind in (KernelMachineRegressor, KernelMachineClassifier):
        target = (
            y if kind is KernelMachineRegressor else np.where(y > 0.7, "high", "low")
        )
        model = machine(kind, **WAYS["given"]).fit(X, target)
        assert model.feature_weights_.dtype == np.float32
        with bochner.settings(device=place):
            other = machine(kind, **WAYS["given"]).fit(X, target)
            found = other.predict(X)
        assert type(found) is np.ndarray
        if kind is KernelMachineRegressor:
            np.testing.assert_allclose(found, model.predict(X), atol=2e-4)
        else:
            assert (found == model.predict(X)).mean() > 0.999


def test_small_fits_say_that_the_device_has_no_double_precision(place, monkeypatch):
    X, y, _ = data(n=400)
    model = machine(KernelMachineRegressor, **WAYS["given"])
    other = clone(model.fit(X, y))
    monkeypatch.setattr(Device, "has_double", False)
    with bochner.settings(device=place):
        with pytest.warns(
            UserWarning, match="it has no double precision, which so small a fit"
        ):
            other.fit(X, y)
        np.testing.assert_array_equal(other.predict(X), model.predict(X))


def test_labels_that_are_text_stay_numpys(tensor):
    X, y, _ = data()
    labels = np.where(y > 0.7, "high", "low")
    model = machine(KernelMachineClassifier, **WAYS["given"]).fit(tensor(X), labels)
    assert type(model.predict(tensor(X))) is np.ndarray
    assert model.predict_proba(tensor(X)).dtype == tensor(X).dtype
    assert model.score(tensor(X), labels) > 0.9
    assert str(model.predict_set(tensor(X)).dtype) == "torch.bool"


def test_inverses_on_a_device(place):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 60))
    matrix, alphas, B = A @ A.T, np.array([0.5, 3.0]), rng.standard_normal((3, 40))
    inverse = DeviceInverse(place, matrix, 1e-9)
    exact = np.array([np.linalg.inv(matrix + alpha * np.eye(40)) for alpha in alphas])
    np.testing.assert_allclose(inverse.solve(alphas, B), B @ exact, atol=1e-10)
    np.testing.assert_allclose(
        inverse.forms(alphas, B), np.einsum("ij,ajk,ik->ai", B, exact, B), atol=1e-10
    )
    np.testing.assert_allclose(
        inverse.traces(alphas), CholeskyInverse(matrix, 1e-9).traces(alphas), atol=1e-9
    )


def test_a_singular_matrix_on_a_device(place):
    ones = np.ones((5, 5))
    assert DeviceInverse(place, ones, 1e-6).solve(
        np.zeros(1), np.ones((1, 5))
    ).sum() == pytest.approx(1, abs=1e-3)
    with pytest.raises(np.linalg.LinAlgError, match="NaN or infinity"):
        DeviceInverse(place, np.full((2, 2), np.nan), 1e-6)


def test_the_device_factorises_large_matrices(place, monkeypatch):
    X, y, _ = data()
    monkeypatch.setattr("bochner.solvers.shifted.TRIDIAGONAL_LIMIT", 0)
    model = machine(KernelMachineRegressor, solver="direct", kernel=Gaussian(0.4)).fit(
        X, y
    )
    monkeypatch.setattr("bochner.solvers.shifted.FEWEST", D)
    used, half = [], DeviceInverse._half
    monkeypatch.setattr(
        DeviceInverse,
        "_half",
        lambda self, *rest: used.append(rest) or half(self, *rest),
    )
    with bochner.settings(device=place):
        other = machine(
            KernelMachineRegressor, solver="direct", kernel=Gaussian(0.4)
        ).fit(X, y)
    assert used
    assert other.alpha_ == pytest.approx(model.alpha_)
    np.testing.assert_allclose(other.predict(X), model.predict(X), atol=1e-6)


@pytest.mark.parametrize("solver", ["direct", "cg"])
def test_files_on_a_device(tmp_path, solver, place, monkeypatch):
    X, y, weight = data(n=4000)
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y, "w": weight})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=300)
    source = bochner.open_source(tmp_path / "rows.parquet", sample=1500)
    parameters = {"solver": solver, "kernel": Gaussian(0.4), "alpha": 1e-2, "tol": 1e-5}
    model = machine(KernelMachineRegressor, **parameters).fit(source, "y", "w")
    used = []
    monkeypatch.setattr(
        Device, "product", lambda self, A, B: used.append(1) or self.torch.matmul(A, B)
    )
    with bochner.settings(device=place):
        other = machine(KernelMachineRegressor, **parameters).fit(source, "y", "w")
        found = other.predict(tmp_path / "rows.parquet")
        again = other.refit(source, "y", "w").predict(tmp_path / "rows.parquet")
    assert len(used) > 5
    np.testing.assert_allclose(
        found, model.predict(tmp_path / "rows.parquet"), atol=1e-4
    )
    np.testing.assert_allclose(again, found, atol=1e-4)


@pytest.mark.parametrize("paired", [False, True])
def test_features_that_are_written_in_place(paired, place, monkeypatch):
    """As on devices whose arrays can be changed, here by NumPy, a few rows at a
    time.
    """
    monkeypatch.setattr(device_fourier, "HELD_ENTRIES", 100)
    X = data(n=50)[0]
    features = FourierFeatures(Gaussian(0.5), 21, paired=paired, random_state=0).fit(X)
    place = SimpleNamespace(torch=np, product=np.matmul)
    place.put = np.asarray
    made = device_fourier.DeviceFourier(features, place, X.dtype)
    out = np.full((50, features.n_features_out), np.nan)
    made.write(X, out)
    np.testing.assert_allclose(out * made.amplitudes, features.transform(X), atol=1e-12)


def test_predictions_go_to_files_alone(tensor):
    X, y, _ = data()
    model = machine(KernelMachineRegressor, **WAYS["given"]).fit(tensor(X), tensor(y))
    with pytest.raises(
        TypeError,
        match="out must be the path of a CSV or Parquet file to write to, got ndarray",
    ):
        model.predict(tensor(X), out=np.empty(N))


def test_quantiles_that_lie_on_a_device(tensor):
    X, y, _ = data()
    model = machine(KernelMachineRegressor, **WAYS["given"], uncertainty=True).fit(
        tensor(X), tensor(y)
    )
    q = np.array([0.1, 0.5])
    found = model.predict_quantile(tensor(X), tensor(q))
    np.testing.assert_allclose(
        to_host(found), to_host(model.predict_quantile(tensor(X), q)), rtol=0, atol=0
    )


def test_partial_fits_of_classes_on_a_device(tensor):
    """Of two classes that have come, and one that has not yet."""
    X, y, _ = data()
    model, other = (machine(KernelMachineClassifier, **WAYS["given"]) for _ in range(2))
    labels, classes = (y > 1).astype(int), np.array([0, 1, 2])
    with pytest.warns(UserWarning, match="have none of '2'"):
        model.partial_fit(tensor(X), tensor(labels), classes=classes)
    with pytest.warns(UserWarning, match="have none of '2'"):
        other.partial_fit(X, labels, classes=classes)
    found = to_host(model.predict_proba(tensor(X)))
    np.testing.assert_allclose(found, other.predict_proba(X), atol=1e-6)
    assert np.mean(found.argmax(axis=1) == labels) > 0.9


def test_partial_fits_on_a_device(tensor):
    X, y, _ = data()
    model = machine(KernelMachineRegressor, **WAYS["given"]).prepare(X, y)
    other = machine(KernelMachineRegressor, **WAYS["given"]).prepare(
        tensor(X), tensor(y)
    )
    for rows in (slice(0, 350), slice(350, N)):
        model.partial_fit(X[rows], y[rows])
        other.partial_fit(tensor(X[rows]), tensor(y[rows]))
    np.testing.assert_allclose(other.predict(X), model.predict(X), atol=1e-6)


def test_passes_where_the_device_holds_little(tensor, monkeypatch):
    X, y, _ = data()
    model = machine(KernelMachineRegressor, **WAYS["cg"]).fit(X, y)
    monkeypatch.setattr(Device, "free_bytes", lambda self: 1 << 20)
    other = machine(KernelMachineRegressor, **WAYS["cg"]).fit(tensor(X), tensor(y))
    np.testing.assert_allclose(other.predict(X), model.predict(X), atol=1e-4)


class OutOfMemoryError(Exception):
    """As of a library of arrays."""


def scarce(rows):
    """A product for which so many rows are too many."""

    def product(self, A, B):
        if max(A.shape[0], B.shape[0]) > rows:
            raise OutOfMemoryError
        return self.torch.matmul(A, B)

    return product


def test_smaller_blocks_are_tried_once(tensor, place, monkeypatch):
    X, y, weight = data()
    for solver in ("direct", "cg"):
        given = WAYS["given"] | {"solver": solver, "tol": 1e-5}
        model = machine(KernelMachineRegressor, **given).fit(X, y, weight)
        with monkeypatch.context() as patch:
            patch.setattr(Device, "product", scarce(N // 8))
            other = machine(KernelMachineRegressor, **given)
            other.fit(tensor(X), tensor(y), tensor(weight))
            found = other.predict(tensor(X))
        np.testing.assert_allclose(to_host(found), model.predict(X), atol=1e-4)
    monkeypatch.setattr(Device, "product", scarce(N // 8 - 1))
    with pytest.raises(
        MemoryError, match=rf"block of 75 rows needs 0\.00 GB on {place}"
    ):
        machine(KernelMachineRegressor, **WAYS["given"]).fit(tensor(X), tensor(y))


CPU_ALONE = {
    "BinningFeatures are not Fourier features": {
        "features": "binning",
        "n_components": 50,
    },
    "solver='exact' compares all rows": {"solver": "exact", "kernel": Gaussian(0.4)},
    "loss='huber' is not the squared loss": {
        "loss": "huber",
        "features": "fourier",
        "metric": "isotropic",
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("why", CPU_ALONE)
def test_what_stays_on_the_processor_says_so(why, tensor):
    X, y, _ = data(n=400)
    model = KernelMachineRegressor(random_state=0, **CPU_ALONE[why]).fit(X, y)
    other = KernelMachineRegressor(random_state=0, **CPU_ALONE[why])
    with pytest.warns(UserWarning, match=why) as caught:
        other.fit(tensor(X), tensor(y))
    assert [warning.filename for warning in caught] == [__file__]
    np.testing.assert_array_equal(model.feature_weights_, other.feature_weights_)
    np.testing.assert_allclose(
        to_host(other.predict(tensor(X))), model.predict(X), atol=1e-6
    )


def test_mixed_arrays(tensor, place):
    """The device is that of the tensors, which are all on one."""
    X, y, _ = data()
    model, other = (machine(KernelMachineRegressor, **WAYS["given"]) for _ in range(2))
    np.testing.assert_array_equal(
        other.fit(tensor(X), y).feature_weights_,
        model.fit(tensor(X), tensor(y)).feature_weights_,
    )
    with pytest.raises(
        ValueError, match=f"Tensors on {place} and meta were given together"
    ):
        model.fit(tensor(X), tensor(y).to("meta"))


def test_a_device_that_is_not_there():
    pytest.importorskip("torch")
    X, y, _ = data()
    with pytest.raises(ValueError, match="cuda:7"), bochner.settings(device="cuda:7"):
        machine(KernelMachineRegressor, **WAYS["given"]).fit(X, y)


def test_pipelines_pass_arrays_through(tensor):
    X, y, _ = data()
    model = make_pipeline(
        FunctionTransformer(), machine(KernelMachineRegressor, **WAYS["given"])
    )
    assert model.fit(tensor(X), tensor(y)).predict(tensor(X)).dtype == tensor(X).dtype


def test_maps_that_no_device_computes(place):
    X, _, _ = data()
    for features in (
        LinearFeatures(),
        BinningFeatures(),
        ConcatenatedFeatures([FourierFeatures(), LinearFeatures()]),
    ):
        assert on_device(features.fit(X), place, np.float32) is None


def test_numpy_loads_no_other_library():
    code = """
import sys, numpy as np, bochner
X = np.random.default_rng(0).uniform(size=(200, 2))
bochner.KernelMachineRegressor(random_state=0).fit(X, X[:, 0]).predict(X)
bochner.FourierFeatures().fit_transform(X)
print([name for name in ("torch", "array_api_strict") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == "[]", done.stderr
