"""Sparse matrices that name rows or columns that they do not have: SciPy makes them,
and nothing may read by them.
"""

import numpy as np
import pytest
import scipy.sparse as sp

from bochner import (
    AnchorFeatures,
    BinningFeatures,
    FourierFeatures,
    KernelCCA,
    KernelKMeans,
    KernelMachineClassifier,
    KernelMachineRegressor,
    KernelPCA,
    LinearFeatures,
    NoveltyDetector,
    NystroemFeatures,
    SemiSupervisedClassifier,
    SpectralClustering,
    TableEncoder,
    open_source,
)
from bochner.data.table_input import checked_sparse

N, D = 60, 20
WHOLE = sp.random_array((N, D), density=0.3, format="csr", rng=np.random.default_rng(0))
Y = np.arange(N) % 3


def damaged(fault, kind=sp.csr_array):
    X = kind(WHOLE, copy=True)
    if fault == "rows that fall":
        X.indptr[5] = X.indptr[-1]
    elif fault == "too many":
        X.indptr[-1] += 3
    else:
        (X.indices if hasattr(X, "indices") else X.coords[0])[3] = fault
    return X


FITS = {
    "regressor": lambda X: KernelMachineRegressor(n_components=10).fit(X, Y),
    "classifier": lambda X: KernelMachineClassifier(features="binning").fit(X, Y),
    "prepare": lambda X: KernelMachineRegressor(n_components=10).prepare(X, Y),
    "partial_fit": lambda X: KernelMachineRegressor(n_components=10).partial_fit(X, Y),
    "semi-supervised": lambda X: SemiSupervisedClassifier().fit(X, Y),
    "pca": lambda X: KernelPCA(2).fit(X),
    "cca, first": lambda X: KernelCCA().fit(X, Y.astype(float)),
    "cca, second": lambda X: KernelCCA().fit(WHOLE, X),
    "k-means": lambda X: KernelKMeans(2).fit(X),
    "spectral": lambda X: SpectralClustering(2).fit(X),
    "novelty": lambda X: NoveltyDetector().fit(X),
    "encoder": lambda X: TableEncoder().fit(X),
    "source": open_source,
    "batches": lambda X: KernelMachineRegressor(n_components=10).fit(
        open_source(lambda: iter([(X, Y)]))
    ),
} | {
    type(features).__name__: features.fit
    for features in (
        *(
            AnchorFeatures(5),
            BinningFeatures(n_grids=3),
            FourierFeatures(n_components=4),
            LinearFeatures(),
        ),
        NystroemFeatures(n_components=4),
    )
}


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("fault", [10**9, -5, "rows that fall"])
def test_no_fit_reads_by_them(name, fault):
    with pytest.raises(ValueError, match=r"damaged sparse matrix.*Build it again"):
        FITS[name](damaged(fault))


MODELS = {
    "regressor": lambda: KernelMachineRegressor(n_components=10).fit(WHOLE, Y).predict,
    "binning": lambda: (
        KernelMachineRegressor(
            "laplacian", features="binning", n_components=5, alpha=1.0
        )
        .fit(WHOLE, Y)
        .predict
    ),
    "pca": lambda: KernelPCA(2).fit(WHOLE).transform,
    "fourier": lambda: FourierFeatures(n_components=4).fit(WHOLE).transform,
    "bins": lambda: BinningFeatures(n_grids=3).fit(WHOLE).transform,
    "encoder": lambda: TableEncoder().fit(WHOLE).transform,
    "metric": lambda: (
        KernelMachineRegressor(n_components=10, features="fourier")
        .fit(np.eye(30), Y[:30])
        .metric_.transform
    ),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*rows are alone:UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_no_fitted_model_reads_by_them(name):
    predict = MODELS[name]()
    for fault in (25, -5, "rows that fall", "too many"):
        with pytest.raises(ValueError, match="damaged sparse matrix"):
            predict(damaged(fault))


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        *(
            (kind, fault)
            for kind in (sp.csr_array, sp.csr_matrix, sp.csc_array)
            for fault in (70, -1, "too many")
        ),
        *((sp.coo_array, fault) for fault in (60, -1)),
        (sp.bsr_array, 30),
    ],
)
def test_every_format(kind, fault):
    assert checked_sparse(kind(WHOLE)).format == kind(WHOLE).format
    with pytest.raises(ValueError, match="damaged sparse matrix"):
        checked_sparse(damaged(fault, kind))


def test_lists_of_rows():
    X = sp.lil_array(WHOLE)
    assert (checked_sparse(X) != WHOLE).nnz == 0
    X.rows[2] = [99]
    X.data[2] = [1.0]
    with pytest.raises(ValueError, match="damaged sparse matrix: indices must be < 20"):
        checked_sparse(X)


def test_partitions_of_dask():
    array = pytest.importorskip("dask.array")
    model = KernelMachineRegressor(n_components=10).fit(WHOLE, Y)
    whole, bad = (
        array.from_array(sp.csr_matrix(X), chunks=(N, D)) for X in (WHOLE, damaged(25))
    )
    np.testing.assert_allclose(
        model.predict(whole).compute(), model.predict(WHOLE), atol=1e-9
    )
    for use in (
        lambda: model.predict(bad).compute(),
        lambda: KernelMachineRegressor(n_components=10).fit(bad, Y),
    ):
        with pytest.raises(ValueError, match="damaged sparse matrix"):
            use()
