"""What all maps have in common: one life cycle, and nothing that changes after it."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem

from bochner import (
    AnchorFeatures,
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    LinearFeatures,
)
from bochner.data.weights import unit_weights
from bochner.features import (
    Metric,
    MetricFeatures,
    SparseColumns,
    TransformerFeatures,
)
from bochner.features.nystroem import KernelRows, exact_map
from bochner.kernels import Gaussian, Laplacian, SmoothBins

FOURIER, BINS = (
    FourierFeatures(Gaussian(2.0), 30, random_state=0),
    BinningFeatures(Laplacian(6.0), 9, random_state=1),
)
METRIC = Metric(3, [0, 2], [2.0, 1.0])
MAPS = {
    "fourier": FOURIER,
    "by leverage": FourierFeatures(
        Gaussian(2.0), 30, sampling="leverage", random_state=0
    ),
    "bins": BINS,
    "smooth bins": BinningFeatures(SmoothBins(6.0), 9, random_state=1),
    "buckets": BinningFeatures(Laplacian(6.0), 9, n_buckets=20, random_state=1),
    "anchors": AnchorFeatures(20, 3, random_state=0),
    "directions of anchors": AnchorFeatures(20, 3, normalize=True, random_state=0),
    "linear": LinearFeatures(),
    "sparse columns": SparseColumns([1.0, 2.0, 0.5]),
    "transformer": TransformerFeatures(Nystroem(n_components=10, random_state=0)),
    "rows": KernelRows(Gaussian(2.0)),
    "dense ones": ConcatenatedFeatures([FOURIER, LinearFeatures()], [2.0, 0.5]),
    "together": ConcatenatedFeatures(
        [FOURIER, BINS, LinearFeatures()], [2.0, 1.0, 0.5]
    ),
    "with anchors": ConcatenatedFeatures(
        [AnchorFeatures(20, 3, random_state=0), FOURIER, BINS], [2.0, 1.0, 0.5]
    ),
    "anchors of coordinates": MetricFeatures(
        METRIC, AnchorFeatures(20, 3, random_state=0)
    ),
    "fourier of coordinates": MetricFeatures(METRIC, FOURIER),
    "bins of coordinates": MetricFeatures(METRIC, BINS),
}
X, NEW = (
    np.random.default_rng(seed).standard_normal((n, 3))
    for seed, n in ((0, 90), (1, 40))
)


def dense(Z):
    return Z.toarray() if sp.issparse(Z) else Z


@pytest.fixture(params=MAPS)
def features(request):
    return clone(MAPS[request.param])


@pytest.fixture
def fitted(features):
    return features.fit(X)


@pytest.mark.parametrize("name", [name for name in MAPS if name != "rows"])
def test_in_blocks_as_all_at_once(name):
    """Of kernel values with rows the columns are those of the last block."""
    features = clone(MAPS[name])
    expected = dense(clone(features).fit(X).transform(NEW))
    features.draw(3)
    features.fit_sample(X, unit_weights(90))
    stored = [features.fit_store(block) for block in (X[:1], X[1:50], X[50:])]
    features.finalize()
    features.check_occupancy()
    np.testing.assert_array_equal(dense(features.transform(NEW)), expected)
    identity = np.eye(features.n_features_out)
    Z = np.vstack([block.forward(identity).T for block in stored])
    np.testing.assert_allclose(Z, dense(features.transform(X)), rtol=0, atol=1e-13)


def test_does_not_change_when_it_is_used(fitted):
    before = pickle.dumps(fitted)
    fitted.transform(NEW)
    centres = fitted.centres(NEW, unit_weights(40))
    fitted.store(NEW, centres=centres)
    fitted.store(NEW.astype(np.float32), packed=True)
    fitted.dot(NEW, np.ones((fitted.n_features_out, 2)))
    fitted.finalize()
    fitted.check_occupancy()
    assert pickle.dumps(fitted) == before


def test_dense_or_sparse(fitted):
    """`dense` gives the features where they are dense, and is None where they are
    not.
    """
    Z = fitted.transform(NEW)
    assert (fitted.dense is None) == sp.issparse(Z) == (not fitted.is_dense)
    if fitted.dense is not None:
        np.testing.assert_array_equal(fitted.dense.rows(NEW), Z)
        assert fitted.dense.n_features_out == fitted.n_features_out


def test_centres_are_taken_from_dense_parts(fitted):
    weight = np.random.default_rng(2).uniform(0.5, 2, 40)
    centres, Z = fitted.centres(NEW, weight), dense(fitted.transform(NEW))
    assert [centre is None for centre in centres] == [
        part.dense is None for part in fitted.parts
    ]
    sizes = [part.n_features_out for part in fitted.parts]
    mean = np.concatenate(
        [
            np.zeros(size) if centre is None else scale * centre
            for centre, scale, size in zip(centres, fitted.scales, sizes, strict=True)
        ]
    )
    stored = fitted.store(NEW, centres=centres).forward(np.eye(len(mean))).T
    np.testing.assert_allclose(stored, Z - mean, rtol=0, atol=1e-13)


def test_threads_that_come_first_at_once(fitted):
    expected = dense(fitted.transform(NEW))
    for _ in range(5):
        again = pickle.loads(pickle.dumps(fitted))  # noqa: S301 - our own, without what is made at first use
        assert "_caches" not in vars(again)
        with ThreadPoolExecutor(4) as pool:
            for Z in pool.map(again.transform, [NEW] * 4):
                np.testing.assert_array_equal(dense(Z), expected)


def test_exact_map_of_weighted_maps():
    weighted = ConcatenatedFeatures([MetricFeatures(METRIC, FOURIER)], [3.0])
    exact = exact_map(weighted).fit(X)
    U, V = METRIC.transform(NEW), METRIC.transform(X)
    np.testing.assert_allclose(
        exact.transform(NEW), 3 * Gaussian(2.0)(U, V), rtol=1e-13
    )
    with pytest.raises(ValueError, match="needs a known kernel"):
        exact_map(MAPS["together"])
