"""Rows seen through a feature map, one block at a time."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from bochner import FourierFeatures
from bochner.data.array_source import ArraySource
from bochner.data.weights import are_unit
from bochner.design.design import Design
from bochner.design.reductions import Blocks
from bochner.engines.local import n_threads
from bochner.kernels import Gaussian

N, D = 700, 30


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return (
        rng.standard_normal((N, 3)),
        rng.standard_normal((N, 2)),
        rng.uniform(0.2, 2, N),
    )


@pytest.fixture
def features():
    return FourierFeatures(Gaussian(2.0), D, random_state=0).draw(3)


def blocks_of(monkeypatch, size):
    monkeypatch.setattr(Design, "block_rows", property(lambda self: size))


@pytest.mark.parametrize("size", [1, 64, 257, 699, 700, 5000])
@pytest.mark.parametrize("weighted", [False, True])
def test_block_size_does_not_matter(rows, features, monkeypatch, size, weighted):
    X, y, weight = rows
    weight = weight if weighted else None
    Z = features.rows(X)
    blocks_of(monkeypatch, size)
    design = Design(ArraySource(X, y, weight), features, np.float64)
    A = np.hstack([Z, y, np.ones((N, 1))])
    w = np.ones((N, 1)) if weight is None else weight[:, None]
    # Sums of n products in another order, of features that a tile of another size
    # rounds differently: 4 (n + 20) eps.
    bound = (
        4
        * (N + 20)
        * np.finfo(float).eps
        * (np.abs(A).T @ (w * np.maximum(np.abs(A), 0.01)))
    )
    moments = design.moments()
    assert np.all(np.abs(moments.matrix - A.T @ (w * A)) <= bound)
    assert moments.n_rows == N
    coef = np.random.default_rng(1).standard_normal((D, 2))
    predicted = design.predict(coef, np.array([1.0, -1.0]))
    np.testing.assert_allclose(predicted, Z @ coef + [1.0, -1.0], rtol=0, atol=1e-12)
    mapped = list(design.mapped())
    np.testing.assert_allclose(
        np.vstack([block.X for block in mapped]), Z, rtol=0, atol=1e-14
    )
    np.testing.assert_array_equal(np.vstack([block.y for block in mapped]), y)
    assert all(are_unit(block.weight) == (weight is None) for block in mapped)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_is_that_of_the_design(rows, features, dtype):
    X, y, _ = rows
    for data in (X, X.astype(np.float32), sp.csr_array(X)):
        design = Design(ArraySource(data, y), features, dtype)
        assert design.predict(np.ones((D, 2)), np.zeros(2)).dtype == np.float64
        assert next(design.mapped()).X.dtype == dtype
        moments = design.moments()
        assert moments.dtype == dtype
        assert moments.matrix.dtype == np.float64


def test_sparse_rows_and_encoded_rows(rows, features):
    X, y, weight = rows
    X = np.where(np.abs(X) > 1, X, 0.0)
    dense = Design(ArraySource(X, y, weight), features, np.float64).moments().matrix
    sparse = (
        Design(ArraySource(sp.csr_array(X), y, weight), features, np.float64)
        .moments()
        .matrix
    )
    np.testing.assert_allclose(sparse, dense, rtol=0, atol=1e-10)
    encoded = (
        Design(
            ArraySource(X / 2, y, weight, lambda part: part * 2), features, np.float64
        )
        .moments()
        .matrix
    )
    np.testing.assert_array_equal(encoded, dense)


def test_a_source_of_some_of_the_rows(rows, features):
    X, y, weight = rows
    some = np.array([5, 3, 699, 3])
    taken = ArraySource(X, y, weight).take(some)
    (block,) = taken.blocks(10)
    np.testing.assert_array_equal(block.X, X[some])
    np.testing.assert_array_equal(block.y, y[some])
    np.testing.assert_array_equal(block.weight, weight[some])
    assert are_unit(ArraySource(X, y).take(some).weights)
    assert [len(block.y) for block in ArraySource(X, y).blocks(300)] == [300, 300, 100]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_source_of_frames(rows, library):
    module = pytest.importorskip(library)
    X, y, _ = rows
    columns = {"a": X[:, 0], "b": X[:, 1]}
    frame = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    source = ArraySource(
        frame,
        y,
        encode=lambda part: np.column_stack(
            [np.asarray(part["a"]), np.asarray(part["b"])]
        ),
    )
    np.testing.assert_array_equal(
        np.vstack([block.X for block in source.blocks(300)]), X[:, :2]
    )
    (block,) = source.take(np.array([5, 3])).blocks(10)
    np.testing.assert_array_equal(block.X, X[[5, 3], :2])


def test_progress_counts_every_row(rows, features, monkeypatch):
    X, y, _ = rows
    blocks_of(monkeypatch, 300)
    done = []
    Design(ArraySource(X, y), features, advance=done.append).moments()
    assert sum(done) == len(X)
    assert max(done) <= 300


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_share_the_rows(rows, features, monkeypatch, threads):
    X, y, weight = rows
    blocks_of(monkeypatch, 256)
    whole = Design(ArraySource(X, y, weight), features, np.float64)
    expected = sum_of_blocks(whole)
    monkeypatch.setattr("bochner.engines.local.n_threads", lambda: threads)
    moments = Design(ArraySource(X, y, weight), features, np.float64).moments()
    np.testing.assert_allclose(moments.matrix, expected, rtol=0, atol=1e-10)
    assert moments.n_rows == len(X)


def sum_of_blocks(design):
    (block,) = design.source.blocks(len(design.source.y))
    A = np.column_stack([design.features.rows(block.X), block.y, np.ones(len(block.y))])
    return A.T @ (A * block.weight[:, np.newaxis])


def test_a_fault_in_one_thread_stops_the_others(rows, features, monkeypatch):
    X, y, _ = (np.concatenate([part] * 20) for part in rows)
    blocks_of(monkeypatch, 256)
    monkeypatch.setattr("bochner.engines.local.n_threads", lambda: 2)
    seen = []

    def advance(n):
        seen.append(n)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Design(ArraySource(X, y), features, advance=advance).moments()
    assert len(seen) <= 4


def test_inputs_are_not_modified(rows, features, frozen):
    X, y, weight = frozen(*rows)
    for dtype in (np.float32, np.float64):
        design = Design(ArraySource(X, y, weight), features, dtype)
        design.moments()
        design.predict(frozen(np.ones((D, 2))), frozen(np.zeros(2)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_memory_of_moments_is_one_block(dtype):
    """Peak within each thread's moments, their product of a block, their sum, and a
    block; far below n x D.
    """
    n, D = 100_000, 400
    X, y = np.ones((n, 2), dtype), np.ones((n, 1))
    features = FourierFeatures(n_components=D, random_state=0).draw(2)
    design = Design(ArraySource(X, y), features, dtype)
    design.features.rows(X[:10])  # compiled
    tracemalloc.start()
    try:
        design.moments()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size = np.dtype(dtype).itemsize
    assert peak <= Blocks.most_bytes * (D + 2) / D + (D + 2) ** 2 * (
        n_threads() * (8 + size) + 8
    ) + (2 << 20)
    assert peak < n * D * size / 2


def test_memory_is_asked_for_first(rows, features, little_memory):
    X, y, _ = rows
    with pytest.raises(
        MemoryError, match=r"Ridge regression on 30 features needs .*n_components"
    ):
        Design(ArraySource(X, y), features).moments()


@pytest.mark.parametrize("panels", [False, True], ids=["own sums", "one sum"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_do_not_depend_on_threads(monkeypatch, dtype, panels):
    """Shares of the rows, or panels of one sum, that the shapes alone decide."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((9001, 3)).astype(dtype), rng.standard_normal((9001, 2))
    features = FourierFeatures(Gaussian(2.0), 600, random_state=0).draw(3)
    monkeypatch.setattr(
        "bochner.design.design.OWN_MOMENTS_FEATURES", 0 if panels else 600
    )
    coef, found = rng.standard_normal((600, 2)), []
    for threads in (1, 2, 5):
        monkeypatch.setattr(
            "bochner.engines.local.n_threads", lambda threads=threads: threads
        )
        design = Design(ArraySource(X, y), features, dtype)
        found.append((design.moments().matrix, design.predict(coef, np.zeros(2))))
    for matrix, predicted in found[1:]:
        np.testing.assert_array_equal(matrix, found[0][0])
        np.testing.assert_array_equal(predicted, found[0][1])
