"""Maps of hashed bins, in rows of few bytes and in dense ones."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from bochner import BinningFeatures, FourierFeatures
from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.features import ConcatenatedFeatures, MetricFeatures
from bochner.features.binning import DenseBins, hashed, hashed_bins, require_hashed
from bochner.features.metric import Metric
from bochner.kernels import Laplacian, SmoothBins
from bochner.solvers.factors import PrimalFactor, PrimalLeaveOneOut

X = np.random.default_rng(0).standard_normal((400, 3))
METRIC = Metric(3, [0, 2], [1.0, 2.0])


@pytest.mark.parametrize(
    ("n_grids", "most", "expected"),
    [
        (50, 12_800, (50, 256)),
        (200, 12_800, (100, 128)),
        (3, 1000, (3, 333)),
        (9, 100, (1, 100)),
    ],
)
def test_bins_get_buckets(n_grids, most, expected):
    for features in (
        BinningFeatures(Laplacian(2.0), n_grids, column_share=0.5, random_state=3),
        MetricFeatures(
            METRIC,
            BinningFeatures(Laplacian(2.0), n_grids, column_share=0.5, random_state=3),
        ),
    ):
        found = hashed(features, most)
        inner = getattr(found, "features", found)
        assert (inner.n_grids, inner.n_buckets) == expected
        assert (inner.kernel.lengthscale, inner.column_share, inner.random_state) == (
            2.0,
            0.5,
            3,
        )
        drawn = found.draw(3)
        assert hashed_bins(drawn) is getattr(drawn, "features_", drawn)
        assert drawn.n_features_out == expected[0] * expected[1] <= most
        require_hashed(found, most)
        assert getattr(features, "features", features).n_buckets is None


def test_buckets_that_are_there_stay():
    features = BinningFeatures(n_grids=5, n_buckets=20, random_state=0)
    found = hashed(features, 100)
    assert found is not features
    assert (found.n_grids, found.n_buckets) == (5, 20)


def test_what_is_refused():
    cures = (
        r"fit all rows at once, with fit\(source\), or use n_buckets=128 and at "
        r"most 100 grids"
    )
    with pytest.raises(
        ValueError,
        match=rf"200 grids of 128 buckets are more than 12,800 columns.*{cures}",
    ):
        hashed(BinningFeatures(n_grids=200, n_buckets=128), 12_800)
    with pytest.raises(
        ValueError, match=f"The bins of BinningFeatures depend on all rows: {cures}"
    ):
        require_hashed(MetricFeatures(METRIC, BinningFeatures()), 12_800)
    for other in (
        FourierFeatures(),
        ConcatenatedFeatures([BinningFeatures(n_buckets=5)]),
    ):
        with pytest.raises(ValueError, match=f"not hashed bins: {cures}"):
            hashed(other, 12_800)


def test_other_maps_have_no_hashed_bins():
    for features in (
        FourierFeatures(),
        BinningFeatures(),
        MetricFeatures(METRIC, BinningFeatures()),
    ):
        assert hashed_bins(features.fit(X)) is None


@pytest.mark.parametrize("kernel", [Laplacian(1.0), SmoothBins(1.0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_rows(kernel, dtype):
    features = MetricFeatures(
        METRIC, BinningFeatures(kernel, 7, n_buckets=50, random_state=0)
    ).draw(3)
    dense, rows = DenseBins(features), np.concatenate([X] * 3).astype(dtype)
    Z = dense.rows(rows)
    assert Z.dtype == dtype
    np.testing.assert_array_equal(Z, features.transform(rows).toarray())
    out = np.full((len(rows), 352), 7.0, dtype)
    dense.rows(rows, out)
    np.testing.assert_array_equal(out[:, :350], Z)
    assert (out[:, 350:] == 7).all()
    if kernel == Laplacian(1.0):
        np.testing.assert_array_equal(dense.rows(sp.csr_array(rows)), Z)


def test_direct_solution_and_leave_one_out():
    """As for dense features: scikit-learn's ridge regression, and refits without
    single rows.
    """
    features = BinningFeatures(Laplacian(3.0), 4, n_buckets=16, random_state=0).draw(3)
    y, alpha = np.sin(X[:, :1]), 0.3
    design = Design(ArraySource(X, y), features, np.float64)
    factor = PrimalFactor(design.moments(), 1)
    Z = features.transform(X).toarray()
    coef = factor.coef(alpha)
    expected = Ridge(alpha).fit(Z, y)
    np.testing.assert_allclose(coef.ravel(), expected.coef_.ravel(), rtol=0, atol=1e-10)
    predicted = PrimalLeaveOneOut(design, factor).predict(alpha)
    for i in (0, 17, 399):
        without = Ridge(alpha).fit(np.delete(Z, i, axis=0), np.delete(y, i, axis=0))
        np.testing.assert_allclose(
            predicted[i], without.predict(Z[i : i + 1]).ravel(), rtol=0, atol=1e-9
        )
