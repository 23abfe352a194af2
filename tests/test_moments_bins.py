"""Moments of hashed bins, against dense products of NumPy."""

import numpy as np
import pytest

from bochner import BinningFeatures
from bochner.data.array_source import ArraySource
from bochner.data.weights import unit_weights
from bochner.design.design import Design
from bochner.design.moments import Moments
from bochner.engines import local
from bochner.features import MetricFeatures
from bochner.features.metric import Metric
from bochner.kernels import Laplacian, SmoothBins

EPS = np.finfo(float).eps
N, K = 3001, 2
KERNELS = pytest.mark.parametrize(
    "kernel", [Laplacian(1.0), SmoothBins(1.0)], ids=["indicators", "smooth"]
)
WEIGHTED = pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])


def rows(weighted=False, n=N):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, 3)), rng.standard_normal((n, K))
    return X, y, rng.uniform(0, 2, n).round(1) if weighted else unit_weights(n)


def map_of(kernel, n_grids=11, n_buckets=20):
    return BinningFeatures(kernel, n_grids, n_buckets=n_buckets, random_state=0).draw(3)


def assert_moments(moments, Z, y, weight):
    """Within the rounding of a sum of n products in any order."""
    A = np.hstack([Z, y, np.ones((len(Z), 1))])
    expected, size = (
        A.T @ (A * weight[:, np.newaxis]),
        np.abs(A).T @ (np.abs(A) * weight[:, np.newaxis]),
    )
    assert np.all(np.abs(moments.matrix - expected) <= 2 * (len(Z) + 8) * EPS * size)
    np.testing.assert_allclose(
        moments.matrix, expected, rtol=0, atol=1e-12 * np.abs(expected).max()
    )
    np.testing.assert_array_equal(moments.matrix, moments.matrix.T)
    assert moments.n_rows == np.count_nonzero(weight)


@KERNELS
@WEIGHTED
@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 300), (2, 7), (11, 20), (17, 16), (3, 257)], ids=str
)
def test_against_dense_products(kernel, weighted, shape):
    X, y, weight = rows(weighted)
    features = map_of(kernel, *shape)
    moments = Design(ArraySource(X, y, weight), features, np.float64).moments()
    assert moments.dtype == np.float64
    assert_moments(moments, features.transform(X).toarray(), y, weight)


@KERNELS
def test_one_weight_of_all_rows_in_one_place_of_memory(kernel):
    X, y, _ = rows()
    features, two = map_of(kernel), np.broadcast_to(2.0, N)
    moments = Design(ArraySource(X, y, two), features, np.float64).moments()
    assert_moments(moments, features.transform(X).toarray(), y, two)


def test_rows_in_single_precision():
    """Bins are those of the rounded rows, and weights inside of them are rounded;
    all else is in double precision.
    """
    X, y, weight = rows()
    X = X.astype(np.float32)
    indicators, smooth = map_of(Laplacian(1.0)), map_of(SmoothBins(1.0))
    for features, Z in (
        (indicators, indicators.transform(X.astype(float))),
        (smooth, smooth.transform(X)),
    ):
        assert_moments(
            Design(ArraySource(X, y), features).moments(),
            Z.toarray().astype(float),
            y,
            weight,
        )


def test_learned_coordinates():
    X, y, weight = rows()
    metric = Metric(3, source=[2, 0], scale=[2.0, 0.5])
    inner = BinningFeatures(Laplacian(1.0), 5, n_buckets=30, random_state=0)
    features = MetricFeatures(
        metric, MetricFeatures(Metric(2, [0, 1], [1.0, 3.0]), inner)
    ).draw(3)
    moments = Design(ArraySource(X, y), features, np.float64).moments()
    assert_moments(moments, features.transform(X).toarray(), y, weight)


@KERNELS
@WEIGHTED
def test_bits_depend_neither_on_threads_nor_on_what_is_read_at_once(
    kernel, weighted, monkeypatch
):
    X, y, weight = rows(weighted)
    features, found = map_of(kernel, 19, 9), []
    for threads in (1, 2, 5):
        monkeypatch.setattr(local, "n_threads", lambda threads=threads: threads)
        for binned, held in ((1 << 16, 64 << 20), (500, 64 << 20), (250, 64 << 20)):
            monkeypatch.setattr("bochner.design.design.BINNED_ROWS", binned)
            monkeypatch.setattr("bochner.design.moments.BIN_BYTES", held)
            found.append(
                Design(ArraySource(X, y, weight), features, np.float64).moments().matrix
            )
    for matrix in found[1:]:
        np.testing.assert_array_equal(matrix, found[0])


@KERNELS
@WEIGHTED
def test_what_is_held_until_it_is_added(kernel, weighted, monkeypatch):
    """Many small blocks, and a last one of a single row."""
    X, y, weight = rows(weighted)
    features = map_of(kernel)
    monkeypatch.setattr("bochner.design.design.BINNED_ROWS", 300)
    monkeypatch.setattr("bochner.design.moments.BIN_BYTES", 100_000)
    moments = Design(ArraySource(X, y, weight), features, np.float64).moments()
    assert_moments(moments, features.transform(X).toarray(), y, weight)


@WEIGHTED
def test_sums_over_parts_are_those_over_all(weighted):
    X, y, weight = rows(weighted)
    features, parts = (
        map_of(Laplacian(1.0)),
        [slice(0, 1000), slice(1000, 1001), slice(1001, N)],
    )
    designs = [
        Design(ArraySource(X[p], y[p], weight[p]), features, np.float64) for p in parts
    ]
    first, second, third = (design.moments() for design in designs)
    Z = features.transform(X).toarray()
    assert_moments(first + second + third, Z, y, weight)
    np.testing.assert_allclose(
        (first + second + third - third).matrix,
        (first + second).matrix,
        rtol=0,
        atol=1e-10,
    )


def test_counts_are_exact():
    """Of a map of 4 grids all entries are a half, and every product of them is a
    quarter of a count.
    """
    X, y, _ = rows()
    features = map_of(Laplacian(1.0), 4, 40)
    Z = features.transform(X).toarray()
    moments = Design(ArraySource(X, y), features, np.float64).moments()
    np.testing.assert_array_equal(moments.matrix[:160, :160], Z.T @ Z)
    np.testing.assert_array_equal(moments.matrix[-1, :160], Z.sum(axis=0))


def test_what_are_no_hashed_bins():
    moments, values = Moments(6, 1, np.float64), np.ones((2, 1))
    y, weight = np.ones((1, 1)), np.ones(1)
    for ids in ([[3], [0]], [[0], [-1]]):
        with pytest.raises(ValueError, match="must be hashed"):
            moments.add_bins(np.array(ids, np.int32), values, y, weight)
    with pytest.raises(ValueError, match="4 grids do not number 6 columns"):
        moments.add_bins(np.zeros((4, 1), np.int32), np.ones((4, 1)), y, weight)
    assert not moments.matrix.any()
    with pytest.raises(TypeError, match="not dense features"):
        Design(ArraySource(*rows()), BinningFeatures(Laplacian(), 5).draw(3)).moments()
