"""Arrays of other libraries: where they lie, what is refused, and products as exact as float32."""

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
from bochner.design import device_moments
from bochner.design.device_moments import GramSum
from bochner.devices.device import KNOWN, device_of, is_host, is_out_of_memory, parse_device, to_host
from bochner.devices.libraries import Standard
from bochner.devices.pytorch import Torch

DEVICE = array_api_strict.Device("device1")
PLACES = ["array_api_strict:device1", "array_api_strict:no_float64", "torch:cpu", "jax:cpu"]


def place_or_skip(name):
    pytest.importorskip(name.partition(":")[0])
    return parse_device(name)


@pytest.fixture(params=PLACES)
def place(request):
    return place_or_skip(request.param)


@pytest.mark.parametrize(
    "value",
    [None, 1.0, "text", [1, 2], np.ones(3), np.float64(1), pd.DataFrame({"a": [1]}), sparse.eye(3), DEVICE, object],
    ids=lambda value: type(value).__name__,
)
def test_what_is_of_no_other_library_has_no_place(value):
    assert device_of(value, None) is None
    assert is_host(device_of(value))


def test_place_is_that_of_the_arrays(place):
    found = device_of(None, place.put(np.ones((3, 2))), [1, 2], np.array(["a", "b"]), place.put(np.ones(3)))
    assert found == place
    assert (found.xp, found.device) == (place.xp, place.device)


def test_only_the_memory_of_the_processor_is_the_host():
    assert is_host(parse_device("array_api_strict:CPU_DEVICE"))
    assert not is_host(parse_device("array_api_strict:device1"))
    for name in ("torch:cpu", "jax:cpu"):
        if KNOWN[name.partition(":")[0]].is_installed:
            assert is_host(parse_device(name))


@pytest.mark.parametrize("other", [np.ones(3), pd.Series([1.0, 2.0, 3.0]), sparse.eye(3).tocsr()], ids=["y", "s", "m"])
def test_mixed_libraries_are_refused(other):
    with pytest.raises(TypeError, match=r"Arrays of array_api_strict and \w+ were given together: convert all"):
        device_of(array_api_strict.ones(3), other)


def test_two_libraries_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="array_api_strict and torch"):
        device_of(torch.ones(3), array_api_strict.ones(3))


def test_mixed_devices_are_refused():
    with pytest.raises(ValueError, match="Arrays on CPU_DEVICE and device1 of array_api_strict were given together"):
        device_of(array_api_strict.ones(3), array_api_strict.ones(3, device=DEVICE))


@pytest.mark.parametrize("text", ["foo", "cuda:x", "cuda:", "torch:foo", "", 3, "Cuda"])
def test_what_is_no_device_is_refused(text):
    with pytest.raises(ValueError, match="device must be a name such as 'cuda'"):
        parse_device(text)


def test_device_that_is_not_there():
    with pytest.raises(
        ValueError, match="device='array_api_strict:foo' is not available: array_api_strict has device1"
    ):
        parse_device("array_api_strict:foo")


def test_device_of_torch_that_is_not_there():
    pytest.importorskip("torch")
    with (
        pytest.raises(ValueError, match=r"device='torch:cuda:99' is not available: torch has .*cpu"),
        bochner.settings(device="torch:cuda:99"),
    ):
        pass


def test_device_without_a_library(monkeypatch):
    monkeypatch.setattr(Standard, "is_installed", False)
    with pytest.raises(ImportError, match=r"device='cuda' needs a library of arrays: python -m pip install torch, and"):
        parse_device("cuda")
    with pytest.raises(ImportError, match=r"needs cupy: python -m pip install cupy, and .*bochner\[arrays\]"):
        parse_device("cupy")


def test_arrays_without_the_extra(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "array_api_compat.torch", None)
    with pytest.raises(ImportError, match=r"Arrays of torch need array-api-compat: .*bochner\[arrays\]"):
        device_of(torch.ones(3))


class Accelerated(Standard):
    """A library with more devices than there are here."""

    def __init__(self, name, texts):
        super().__init__(name)
        self.texts, self.home = texts, "cpu"

    is_installed, xp = True, array_api_strict

    def devices(self):
        return self.texts

    def device(self, text):
        return f"{self.name} {text}"


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("cuda", "torch cuda:1"),
        ("gpu", "torch cuda:1"),
        ("cuda:0", "torch cuda:0"),
        ("cuda:2", "jax gpu:2"),
        ("tpu", "jax tpu:0"),
        ("torch", "torch cuda:1"),
        ("jax:cuda", "jax gpu:2"),
        ("jax:cpu", "jax cpu:0"),
    ],
)
def test_first_library_that_has_the_device(monkeypatch, text, device):
    monkeypatch.setitem(KNOWN, "torch", Accelerated("torch", ["cuda:1", "cuda:0", "cpu"]))
    jax = Accelerated("jax", ["gpu:2", "tpu:0", "cpu:0"])
    jax.spelled = {"cuda": "gpu", "tpu": "tpu", "gpu": "gpu", "cpu": "cpu"}.get
    monkeypatch.setitem(KNOWN, "jax", jax)
    assert parse_device(text).device == device


def test_no_library_is_asked_beyond_the_first_that_has_the_device(monkeypatch):
    """JAX would take most of a GPU's memory."""
    monkeypatch.setitem(KNOWN, "torch", Accelerated("torch", ["cuda:0"]))
    monkeypatch.setitem(KNOWN, "jax", Accelerated("jax", None))
    assert parse_device("cuda").device == "torch cuda:0"


def test_a_platform_that_the_process_leaves_out(monkeypatch):
    jax = pytest.importorskip("jax")

    def devices(kind=None):
        raise RuntimeError(f"Unknown backend {kind}")

    monkeypatch.setattr(jax, "devices", devices)
    with pytest.raises(
        ValueError, match=r"device='jax:gpu' is not available: jax has none\. Choose an available device, install"
    ):
        parse_device("jax:gpu")


def test_devices_of_torch_name_themselves():
    torch = pytest.importorskip("torch")
    assert parse_device(torch.device("cpu")) == parse_device("torch:cpu")
    with pytest.raises(ValueError, match="device='torch:cuda:99' is not available"):
        parse_device(torch.device("cuda", 99))


def test_processor_needs_no_place():
    assert parse_device(None) is None
    assert parse_device("cpu") is None
    with bochner.settings(device="cpu"):
        pass


def test_a_place_is_its_own_name(place):
    assert parse_device(place) is place
    assert parse_device(str(place)) == place
    assert pickle.loads(pickle.dumps(place)) == place  # noqa: S301
    with bochner.settings(device=place) as inside:
        assert inside.device is place


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_])
@pytest.mark.parametrize("layout", ["rows", "columns", "read-only", "every other"])
def test_there_and_back(place, dtype, layout):
    array = np.arange(24).reshape(6, 4).astype(dtype)
    array = {"columns": np.asfortranarray(array), "every other": array[::2, ::-1]}.get(layout, array)
    expected = array.copy()
    array.flags.writeable = layout != "read-only"
    there = place.put(array)
    if layout != "read-only":
        array[:] = 0
    back = place.host(there)
    np.testing.assert_array_equal(back, expected)
    np.testing.assert_array_equal(to_host(there), expected)
    if dtype == np.float32 or (dtype == np.float64 and place.has_double):
        assert back.dtype == dtype
    np.testing.assert_array_equal(place.host(place.put(there)), expected)


def test_ahead_puts_what_blocks_are_made_of(place):
    blocks = [(np.full((2, 3), k, np.float32), None, np.full(2, k, np.float32)) for k in range(3)]
    for k, (X, y, weight) in enumerate(place.ahead(iter(blocks))):
        assert y is None
        assert device_of(X, weight) == place
        np.testing.assert_array_equal(to_host(X), blocks[k][0])
    assert k == 2
    assert [to_host(block).sum() for block in place.ahead([np.ones(3), np.ones(4)])] == [3, 4]


class Recorded(Torch):
    """Torch with a CUDA device that only writes down what is asked of it."""

    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    @property
    def module(self):
        return SimpleNamespace(cuda=self)

    def Stream(self, device):
        return SimpleNamespace(record_event=lambda: f"copy of {self.calls[-1].split()[-1]}")

    def stream(self, stream):
        return nullcontext()

    def current_stream(self, device):
        return SimpleNamespace(wait_event=lambda event: self.calls.append(f"wait for {event}"))

    def put(self, array, device):
        self.calls.append(f"put {array}")
        return SimpleNamespace(record_stream=lambda stream: self.calls.append(f"keep {array}"))


def test_next_block_is_copied_before_the_present_one_is_worked_on():
    calls = []
    for k, _ in enumerate(Recorded(calls).ahead(["A", ("B", None), "C"], SimpleNamespace(type="cuda"))):
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
    np.testing.assert_array_equal(to_host(torch.ones(3, dtype=torch.bfloat16)), np.ones(3))


def test_host_shares_memory_with_tensors():
    torch = pytest.importorskip("torch")
    X = torch.zeros(3)
    to_host(X)[0] = 1
    assert X[0] == 1


def drawn(n_rows, n_columns, seed=0):
    return np.random.default_rng(seed).normal(size=(n_rows, n_columns)).astype(np.float32)


@pytest.mark.parametrize("n_beside", [0, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sum_of_grams(place, n_beside, dtype, monkeypatch):
    """Of blocks that are cut, in panels, the last of each shorter."""
    monkeypatch.setattr(device_moments, "PANEL", 3)
    monkeypatch.setattr(device_moments, "ROWS", 16)
    A = drawn(70, 8 + n_beside).astype(dtype)
    total = GramSum(place, 8, n_beside)
    for block in (A[:40], A[40:40], A[40:]):
        total.add(place.put(block[:, :8]), place.put(block[:, 8:]) if n_beside else None)
    found = total.host()
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, found.T)
    exact = dtype == np.float64 and place.has_double
    np.testing.assert_allclose(found, A.T.astype(float) @ A, rtol=0, atol=1e-12 if exact else 1e-4)
    found[0, 0] = 0
    assert total.host()[0, 0] > 1, "the sum is not the caller's to change"


def test_sums_of_columns_beside_keep_their_digits():
    """Also where the library adds row after row."""
    place = place_or_skip("torch:cpu")
    Z, E = drawn(5000, 20) + 3, np.ones((5000, 1), np.float32)
    total = GramSum(place, 20, 1)
    total.add(place.put(Z), place.put(E))
    np.testing.assert_allclose(total.host()[-1, :-1], Z.sum(axis=0, dtype=float), rtol=3e-7)


def test_sum_of_grams_of_jax_in_double_precision():
    """On the device itself, where the process has float64."""
    jax = pytest.importorskip("jax")
    place, A = parse_device("jax:cpu"), drawn(70, 8).astype(float)
    assert not place.has_double
    with jax.enable_x64(True):
        assert place.has_fast_double
        total = GramSum(place, 8)
        total.add(place.put(A))
        np.testing.assert_allclose(total.host(), A.T @ A, atol=1e-12)


def ridge_problem(n_rows=8_000, d=10, D=300):
    """Random features of a smooth function with noise, without their amplitude, and targets of variance one."""
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
    total = GramSum(place, Z.shape[1])
    total.add(place.put((Z * columns).astype(np.float32)))
    found = predictions(total.host() / columns / columns[:, np.newaxis], Z, y, alpha)
    assert np.sqrt(np.mean((found - predictions(Z.T @ Z, Z, y, alpha)) ** 2)) < 5e-5


def test_products_are_exact_where_the_process_allows_tf32(monkeypatch):
    """The switch is off for the time of the product, and then as it was."""
    torch = pytest.importorskip("torch")
    switch, seen, place = torch.backends.cuda.matmul, [], parse_device("torch:cpu")
    if not hasattr(switch, "fp32_precision"):
        pytest.skip("an older interface")
    product, before = torch.matmul, switch.fp32_precision
    monkeypatch.setattr(torch, "matmul", lambda A, B: seen.append(switch.fp32_precision) or product(A, B))
    try:
        for allowed in ("none", "ieee", "tf32"):
            switch.fp32_precision = allowed
            place.product(torch.ones(2, 2), torch.ones(2, 2))
            assert switch.fp32_precision == allowed
    finally:
        switch.fp32_precision = before
    assert seen == ["none", "ieee", "ieee"]


def test_products_of_jax_say_their_precision():
    jax = pytest.importorskip("jax")
    place = parse_device("jax:cpu")
    A = place.put(drawn(3, 3))
    assert "HIGHEST" in str(jax.make_jaxpr(place.product)(A, A))


def test_linear_algebra(place):
    A = drawn(6, 6).astype(float)
    A, B = A @ A.T + np.eye(6), drawn(6, 2).astype(float)
    tolerance = {"rtol": 1e-9} if place.has_double else {"rtol": 2e-3, "atol": 1e-4}
    L = place.cholesky(place.put(A))
    np.testing.assert_allclose(to_host(L), linalg.cholesky(A, lower=True), **tolerance)
    forward = place.solve_triangular(L, place.put(B))
    np.testing.assert_allclose(to_host(place.solve_triangular(L, forward, True)), linalg.solve(A, B), **tolerance)
    values, vectors = place.eigh(place.put(A))
    assert device_of(L, forward, values, vectors) == place
    np.testing.assert_allclose(to_host(values), linalg.eigvalsh(A), **tolerance)
    np.testing.assert_allclose(to_host(vectors * values) @ to_host(vectors).T, A, **tolerance)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        place.cholesky(place.put(-np.eye(3)))


def test_where_double_precision_is_fast(monkeypatch):
    assert not parse_device("array_api_strict:device1").has_fast_double
    if KNOWN["torch"].is_installed:
        assert parse_device("torch:cpu").has_fast_double
    monkeypatch.setattr(Standard, "capability", lambda self, device: (9, 0))
    assert parse_device("array_api_strict:device1").has_fast_double
    assert not parse_device("array_api_strict:no_float64").has_fast_double
    monkeypatch.setattr(Standard, "capability", lambda self, device: (8, 9))
    assert not parse_device("array_api_strict:device1").has_fast_double


def test_too_little_memory_on_the_device(monkeypatch):
    class OutOfMemoryError(Exception):
        pass

    assert is_out_of_memory(OutOfMemoryError())
    assert is_out_of_memory(RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8 bytes."))
    assert is_out_of_memory(RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)"))
    assert not is_out_of_memory(RuntimeError("shapes differ"))
    assert not is_out_of_memory(ValueError("out of memory"))
    place = parse_device("array_api_strict:device1")
    assert place.free_bytes() is None
    error = place.memory_error(2 * 10**9, "A block of 64 rows", "Use fewer n_components.")
    assert str(error) == "A block of 64 rows needs 2.00 GB on array_api_strict:device1. Use fewer n_components."
    monkeypatch.setattr(Standard, "free_bytes", lambda self, device: 10**9)
    assert "device1 and 1.00 GB are free. Take" in str(place.memory_error(2 * 10**9, "A", "Take."))


def test_memory_errors_of_torch():
    torch = pytest.importorskip("torch")
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    assert parse_device("torch:cpu").free_bytes() is None


def test_nothing_is_loaded_without_need():
    libraries = ["torch", "jax", "cupy", "array_api_compat", "array_api_strict"]
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
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
