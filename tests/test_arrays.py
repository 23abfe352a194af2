"""Arrays of other libraries: where they lie, what is refused, and products as exact
as float32.
"""

import pickle
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from scipy import linalg, sparse

import bochner
from bochner import KernelMachineRegressor
from bochner.arrays import n_distinct
from bochner.design import device_moments
from bochner.design.device_moments import GramSum
from bochner.devices.device import (
    Device,
    device_of,
    is_foreign,
    is_out_of_memory,
    parse_device,
    to_host,
)


@pytest.fixture
def place():
    """The processor's memory as a device of PyTorch."""
    return Device(pytest.importorskip("torch").device("cpu"))


@pytest.mark.parametrize(
    "value",
    [
        None,
        1.0,
        "text",
        [1, 2],
        np.ones(3),
        np.float64(1),
        pd.DataFrame({"a": [1]}),
        sparse.eye(3),
        object,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_of_no_other_library_has_no_place(value):
    assert device_of(value, None) is None
    assert not is_foreign(value)


@pytest.mark.parametrize("name", ["CPU_DEVICE", "device1"])
def test_arrays_of_the_standard_are_read(name):
    array = array_api_strict.asarray([[1.0, 2.0]], device=array_api_strict.Device(name))
    assert is_foreign(array)
    assert device_of(array) is None
    np.testing.assert_array_equal(to_host(array), [[1.0, 2.0]])


class Exported:
    """An array of the standard, which other libraries may read in some of the ways
    there are.
    """

    def __init__(self, ways):
        self.ways, self.array = ways, np.arange(3.0)

    def __array_namespace__(self):
        return np

    def __dlpack_device__(self):
        return (1, 0) if "dlpack" in self.ways else (2, 0)

    def __dlpack__(self, **options):
        if "dlpack" in self.ways or (
            "copy" in self.ways and options.get("dl_device") == (1, 0)
        ):
            return self.array.__dlpack__()
        raise BufferError("on another device")

    def __array__(self, dtype=None, copy=None):
        if "array" in self.ways:
            return self.array
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")


@pytest.mark.parametrize("way", ["dlpack", "copy", "array"])
def test_arrays_are_read_in_the_way_that_their_library_allows(way):
    np.testing.assert_array_equal(to_host(Exported([way])), np.arange(3.0))


def test_arrays_that_nobody_may_read_say_so():
    with pytest.raises(
        TypeError,
        match=r"NumPy cannot read this .*Exported: copy it to the memory of the "
        r"processor",
    ):
        to_host(Exported([]))


def test_a_model_takes_arrays_of_any_library():
    """The answers are NumPy's."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(100, 2)), rng.normal(size=100)
    own, other = (
        KernelMachineRegressor(n_components=20, random_state=0) for _ in range(2)
    )
    own.fit(X, y)
    other.fit(
        array_api_strict.asarray(X, device=array_api_strict.Device("device1")),
        array_api_strict.asarray(y),
    )
    np.testing.assert_array_equal(other.feature_weights_, own.feature_weights_)
    found = other.predict(array_api_strict.asarray(X))
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, own.predict(X))


def test_a_model_takes_arrays_of_jax():
    jax = pytest.importorskip("jax")
    X = np.random.default_rng(0).uniform(size=(100, 2)).astype(np.float32)
    own, other = (
        KernelMachineRegressor(n_components=20, random_state=0) for _ in range(2)
    )
    own.fit(X, X[:, 0])
    other.fit(jax.numpy.asarray(X), jax.numpy.asarray(X[:, 0]))
    np.testing.assert_array_equal(other.predict(jax.numpy.asarray(X)), own.predict(X))


def test_place_is_that_of_the_tensors(place):
    found = device_of(
        None,
        place.put(np.ones((3, 2))),
        [1, 2],
        np.array(["a", "b"]),
        place.put(np.ones(3)),
    )
    assert found == place
    assert place.is_host


def test_mixed_devices_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(
        ValueError,
        match="Tensors on cpu and meta were given together: move all of them to one "
        "device",
    ):
        device_of(torch.ones(3), torch.ones(3, device="meta"))


@pytest.mark.parametrize(
    "text", ["foo", "cuda:x", "cuda:", "torch:cuda", "", 3, "Cuda"]
)
def test_what_is_no_device_is_refused(text):
    with pytest.raises(
        ValueError, match="device must be 'cuda', 'cuda:1', 'mps' or 'cpu', got"
    ):
        parse_device(text)


def test_device_that_is_not_there():
    torch = pytest.importorskip("torch")
    for device in ("cuda:99", torch.device("cuda", 99)):
        with (
            pytest.raises(
                ValueError,
                match=r"device='cuda:99' is not available: PyTorch has .*cpu",
            ),
            bochner.settings(device=device),
        ):
            pass


def test_device_without_pytorch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        ImportError, match=r"device='cuda' needs PyTorch: python -m pip install torch\."
    ):
        parse_device("cuda")


@pytest.mark.parametrize(
    ("text", "device"), [("cuda", "cuda:1"), ("cuda:1", "cuda:1"), ("cuda:0", "cuda:0")]
)
def test_the_current_device_comes_first(monkeypatch, text, device):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert str(parse_device(text)) == device


def test_processor_needs_no_place():
    assert parse_device(None) is None
    assert parse_device("cpu") is None
    with bochner.settings(device="cpu"):
        pass


def test_a_place_stays_itself(place):
    assert parse_device(place) is place
    assert pickle.loads(pickle.dumps(place)) == place  # noqa: S301
    with bochner.settings(device=place) as inside:
        assert inside.device is place


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_])
@pytest.mark.parametrize("layout", ["rows", "columns", "read-only", "every other"])
def test_there_and_back(place, dtype, layout):
    array = np.arange(24).reshape(6, 4).astype(dtype)
    array = {"columns": np.asfortranarray(array), "every other": array[::2, ::-1]}.get(
        layout, array
    )
    expected = array.copy()
    array.flags.writeable = layout != "read-only"
    there = place.put(array)
    if layout != "read-only":
        array[:] = 0
    back = to_host(there)
    np.testing.assert_array_equal(back, expected)
    np.testing.assert_array_equal(to_host(there), expected)
    assert back.dtype == dtype
    np.testing.assert_array_equal(to_host(place.put(there)), expected)


def test_ahead_puts_what_blocks_are_made_of(place):
    blocks = [
        (np.full((2, 3), k, np.float32), None, np.full(2, k, np.float32))
        for k in range(3)
    ]
    for k, (X, y, weight) in enumerate(place.ahead(iter(blocks))):
        assert y is None
        assert device_of(X, weight) == place
        np.testing.assert_array_equal(to_host(X), blocks[k][0])
    assert k == 2
    assert [
        to_host(block).sum() for (block,) in place.ahead([(np.ones(3),), (np.ones(4),)])
    ] == [3, 4]


class Recorded(Device):
    """A CUDA device that only writes down what is asked of it."""

    def __init__(self, calls):
        super().__init__(SimpleNamespace(type="cuda"))
        object.__setattr__(self, "calls", calls)

    @property
    def torch(self):
        return SimpleNamespace(cuda=self)

    def Stream(self, device):
        return SimpleNamespace(
            record_event=lambda: f"copy of {self.calls[-1].split()[-1]}"
        )

    def stream(self, stream):
        return nullcontext()

    def current_stream(self, device):
        return SimpleNamespace(
            wait_event=lambda event: self.calls.append(f"wait for {event}")
        )

    def put(self, array):
        self.calls.append(f"put {array}")
        return SimpleNamespace(
            record_stream=lambda stream: self.calls.append(f"keep {array}")
        )


def test_next_block_is_copied_before_the_present_one_is_worked_on():
    calls = []
    for k, _ in enumerate(Recorded(calls).ahead([("A",), ("B", None), ("C",)])):
        calls.append(f"work {k}")
    assert calls == [
        *("put A", "put B", "wait for copy of A", "keep A", "work 0"),
        *("put C", "wait for copy of B", "keep B", "work 1"),
        *("wait for copy of C", "keep C", "work 2"),
    ]


def test_history_of_derivatives_is_left_behind():
    torch = pytest.importorskip("torch")
    X = torch.ones(3, requires_grad=True)
    place = device_of(X)
    assert not place.put(X).requires_grad
    np.testing.assert_array_equal(to_host(X), np.ones(3))
    np.testing.assert_array_equal(
        to_host(torch.ones(3, dtype=torch.bfloat16)), np.ones(3)
    )


def test_host_shares_memory_with_tensors():
    torch = pytest.importorskip("torch")
    X = torch.zeros(3)
    to_host(X)[0] = 1
    assert X[0] == 1


def drawn(n_rows, n_columns, seed=0):
    return (
        np.random.default_rng(seed).normal(size=(n_rows, n_columns)).astype(np.float32)
    )


@pytest.mark.parametrize("n_beside", [0, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sum_of_grams(place, n_beside, dtype, monkeypatch):
    """Of blocks that are cut, in panels, the last of each shorter."""
    monkeypatch.setattr(device_moments, "PANEL", 3)
    monkeypatch.setattr(device_moments, "LARGE_BLOCK_ROWS", 16)
    A = drawn(70, 8 + n_beside).astype(dtype)
    total = GramSum(place, 8, n_beside)
    for block in (A[:40], A[40:40], A[40:]):
        total.add(place.put(block[:, :8]), place.put(block[:, 8:]))
    found = total.host()
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(
        found,
        A.T.astype(float) @ A,
        rtol=0,
        atol=1e-12 if dtype == np.float64 else 1e-4,
    )
    found[0, 0] = 0
    assert total.host()[0, 0] > 1, "the sum is not the caller's to change"


def test_sums_of_columns_beside_keep_their_digits(place):
    """Also where rows are added one after the other."""
    Z, E = drawn(5000, 20) + 3, np.ones((5000, 1), np.float32)
    total = GramSum(place, 20, 1)
    total.add(place.put(Z), place.put(E))
    np.testing.assert_allclose(
        total.host()[-1, :-1], Z.sum(axis=0, dtype=float), rtol=3e-7
    )


@pytest.mark.parametrize("n_beside", [0, 2])
def test_sum_of_grams_without_double_precision(place, n_beside, monkeypatch):
    """As on Apple's GPUs: the processor adds."""
    monkeypatch.setattr(Device, "has_double", False)
    A, total = drawn(70, 8 + n_beside), GramSum(place, 8, n_beside)
    for block in (A[:40], A[40:]):
        total.add(place.put(block[:, :8]), place.put(block[:, 8:]))
    np.testing.assert_allclose(total.host(), A.T.astype(float) @ A, rtol=0, atol=1e-4)
    assert place.put(np.ones(3)).dtype == place.torch.float32


def ridge_problem(n_rows=8_000, d=10, D=300):
    """Random features of a smooth function with noise, without their amplitude, and
    targets of variance one.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, d))
    y = np.sin(X[:, 0] + X[:, 1]) + X[:, 2] * X[:, 3] + 0.1 * rng.normal(size=n_rows)
    angles = X @ rng.normal(size=(d, D // 2)) / np.sqrt(d)
    Z = np.hstack([np.cos(angles), np.sin(angles)])
    return Z, (y - y.mean()) / y.std()


def predictions(gram, Z, y, alpha):
    A = gram + alpha * np.trace(gram) * np.eye(len(gram))
    return Z @ linalg.solve(A, Z.T @ y, assume_a="pos")


@pytest.mark.parametrize("sizes", ["unit", "of all sizes"])
@pytest.mark.parametrize("alpha", [1e-7, 1e-5])
def test_grams_in_single_precision_predict_as_in_double(place, alpha, sizes):
    """At most 5e-5 of a deviation from float64, whatever the sizes of the columns."""
    Z, y = ridge_problem()
    columns = np.ones(Z.shape[1]) if sizes == "unit" else np.logspace(-6, 6, Z.shape[1])
    total = GramSum(place, Z.shape[1], 0)
    Z_in_units = (Z * columns).astype(np.float32)
    total.add(place.put(Z_in_units), place.put(Z_in_units[:, :0]))
    found = predictions(total.host() / columns / columns[:, np.newaxis], Z, y, alpha)
    assert np.sqrt(np.mean((found - predictions(Z.T @ Z, Z, y, alpha)) ** 2)) < 5e-5


def test_products_are_exact_where_the_process_allows_tf32(place, monkeypatch):
    """The switch is off for the time of the product, and then as it was."""
    torch = place.torch
    switch, seen = torch.backends.cuda.matmul, []
    if not hasattr(switch, "fp32_precision"):
        pytest.skip("an older interface")
    product, before = torch.matmul, switch.fp32_precision
    monkeypatch.setattr(
        torch,
        "matmul",
        lambda A, B: seen.append(switch.fp32_precision) or product(A, B),
    )
    try:
        for allowed in ("none", "ieee", "tf32"):
            switch.fp32_precision = allowed
            place.product(torch.ones(2, 2), torch.ones(2, 2))
            assert switch.fp32_precision == allowed
    finally:
        switch.fp32_precision = before
    assert seen == ["none", "ieee", "ieee"]


def test_linear_algebra(place):
    A = drawn(6, 6).astype(float)
    A, B = A @ A.T + np.eye(6), drawn(6, 2).astype(float)
    tolerance = {"rtol": 1e-9}
    L = place.cholesky(place.put(A))
    np.testing.assert_allclose(to_host(L), linalg.cholesky(A, lower=True), **tolerance)
    forward = place.solve_triangular(L, place.put(B))
    np.testing.assert_allclose(
        to_host(place.solve_triangular(L, forward, True)),
        linalg.solve(A, B),
        **tolerance,
    )
    assert device_of(L, forward) == place
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        place.cholesky(place.put(-np.eye(3)))


def test_where_double_precision_is_fast(place, monkeypatch):
    assert place.has_fast_double
    assert not Device(SimpleNamespace(type="mps")).has_fast_double
    for capability, fast, equal in (
        ((9, 0), True, True),
        ((7, 0), True, False),
        ((8, 9), False, False),
    ):
        monkeypatch.setattr(
            place.torch.cuda,
            "get_device_capability",
            lambda device, own=capability: own,
        )
        assert Device(SimpleNamespace(type="cuda")).has_fast_double == fast
        assert Device(SimpleNamespace(type="cuda")).has_equal_double == equal
    assert not Device(SimpleNamespace(type="mps")).has_equal_double
    assert not place.has_equal_double


def test_sums_are_in_double_precision_where_that_is_as_fast(place, monkeypatch):
    """Of features and targets in single precision, to the digits of NumPy's sums in
    double precision.
    """
    monkeypatch.setattr(Device, "has_equal_double", True)
    A = drawn(5000, 9)
    total = GramSum(place, 8, 1)
    total.add(place.put(A[:, :8]), place.put(A[:, 8:]))
    np.testing.assert_allclose(total.host(), A.T.astype(float) @ A, rtol=0, atol=1e-10)


def test_too_little_memory_on_the_device(place, monkeypatch):
    assert is_out_of_memory(place.torch.OutOfMemoryError("CUDA out of memory."))
    assert is_out_of_memory(
        RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)")
    )
    assert not is_out_of_memory(RuntimeError("shapes differ"))
    assert not is_out_of_memory(ValueError("out of memory"))
    assert place.free_bytes() is None
    error = place.memory_error(
        2 * 10**9, "A block of 64 rows", "Use fewer n_components."
    )
    assert (
        str(error) == "A block of 64 rows needs 2.00 GB on cpu. Use fewer n_components."
    )
    monkeypatch.setattr(Device, "free_bytes", lambda self: 10**9)
    assert "cpu and 1.00 GB are free. Take" in str(
        place.memory_error(2 * 10**9, "A", "Take.")
    )


def test_nothing_is_loaded_without_need():
    libraries = ["torch", "array_api_strict"]
    code = f"""
import sys
import numpy as np
import bochner
from bochner.devices.device import device_of
X = np.linspace(0, 1, 50)[:, np.newaxis]
with bochner.settings(device="cpu"):
    bochner.FourierFeatures(n_components=4, random_state=0).fit(X).transform(X)
assert device_of(X, [1], None) is None
assert not set(sys.modules) & set({libraries}), sys.modules.keys()
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "values",
    [
        [],
        [1],
        [3, 1, 3],
        [0.0, -0.0, np.nan, np.nan],
        ["b", "a", "b"],
        [[1, 2], [2, 3]],
    ],
)
def test_numbers_of_different_values(values):
    assert n_distinct(values) == len(np.unique(values))
