"""Feature maps of collections of Dask: fitted by their rows, and applied block by
block.
"""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.kernel_approximation import Nystroem

from bochner import BinningFeatures, ConcatenatedFeatures, FourierFeatures
from bochner.features import Metric, MetricFeatures, TransformerFeatures
from bochner.kernels import Laplacian

N = 600
MAPS = {
    "fourier": FourierFeatures(n_components=31, random_state=0),
    "leverage": FourierFeatures(n_components=20, sampling="leverage", random_state=0),
    "bins": BinningFeatures(Laplacian(3.0), n_grids=9, random_state=0),
    "buckets": BinningFeatures(Laplacian(3.0), n_grids=9, n_buckets=16, random_state=0),
    "both": ConcatenatedFeatures(
        [
            FourierFeatures(n_components=8, random_state=0),
            BinningFeatures(Laplacian(3.0), 4, random_state=0),
        ],
        [0.5, 0.5],
    ),
    "metric": MetricFeatures(
        Metric(4, [0, 2], [1.0, 3.0]), FourierFeatures(n_components=10, random_state=0)
    ),
    "transformer": TransformerFeatures(Nystroem(n_components=12, random_state=0)),
}


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(N, 4))


def dense(Z):
    return Z.toarray() if sp.issparse(Z) else np.asarray(Z)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("kind", ["array", "frame"])
def test_the_same_features(name, kind, X):
    rows = (
        da.from_array(X, chunks=(170, 3))
        if kind == "array"
        else dd.from_pandas(pd.DataFrame(X), npartitions=4)
    )
    held = MAPS[name].fit(X)
    truth = held.transform(X)
    lazy = held.transform(rows)
    assert isinstance(lazy, da.Array)
    assert lazy.shape[1] == held.n_features_out
    assert lazy.chunks[0] == (170, 170, 170, 90) or kind == "frame"
    found = lazy.compute()
    assert sp.issparse(found) == sp.issparse(truth)
    np.testing.assert_allclose(dense(found), dense(truth), atol=1e-12)
    again = MAPS[name].fit(rows).transform(rows).compute()
    np.testing.assert_allclose(dense(again), dense(truth), atol=1e-12)


def test_single_precision_stays(X):
    rows = da.from_array(X.astype(np.float32), chunks=(200, 4))
    assert MAPS["fourier"].fit(rows).transform(rows).dtype == np.float32


def test_sparse_rows(X):
    rows = da.from_array(X, chunks=(200, 4)).map_blocks(sp.csr_matrix)
    found = MAPS["fourier"].fit(rows).transform(rows).compute()
    np.testing.assert_allclose(found, MAPS["fourier"].fit(X).transform(X), atol=1e-12)


def test_dense_maps_take_the_first_rows_alone(X):
    calls = []

    def noted(block):
        calls.append(len(block))
        return block

    rows = da.from_array(X, chunks=(100, 4)).repeat(50, axis=0).rechunk((5000, 4))
    MAPS["leverage"].fit(rows.map_blocks(noted, dtype=float, meta=np.empty((0, 0))))
    assert calls == [5000]


def test_no_rows(X):
    rows = da.from_array(X, chunks=(100, 4))
    with pytest.raises(ValueError, match="the Dask array has no rows"):
        MAPS["fourier"].fit(rows[rows[:, 0] > 100])
