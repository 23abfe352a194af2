"""Spectral clustering and kernel k-means, against scikit-learn and dense algebra."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_blobs, make_circles
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from bochner import (
    AnchorFeatures,
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    KernelKMeans,
    SpectralClustering,
    load,
    save,
    settings,
)
from bochner.display import ClusterDisplay
from bochner.kernels import Gaussian, Laplacian

DIGITS, LABELS = load_digits(return_X_y=True)
RINGS, RING = make_circles(1500, factor=0.4, noise=0.04, random_state=0)
BLOBS, BLOB = make_blobs(900, centers=4, n_features=3, cluster_std=0.7, random_state=1)
UNEQUAL = [
    f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")
]


@parametrize_with_checks(
    [
        SpectralClustering(2, n_init=3),
        KernelKMeans(2, n_init=3, features=FourierFeatures(Gaussian(2.0), 50)),
    ],
    expected_failed_checks=lambda model: dict.fromkeys(
        UNEQUAL if isinstance(model, KernelKMeans) else (),
        "k-means begins with other rows, as in scikit-learn",
    ),
)
def test_scikit_learn(estimator, check):
    check(estimator)


def graph_of(model, X):
    """The matrix of affinities, n x n, of which the model never held more than Z."""
    Z = model.features_.transform(model.encoder_.encode(X, np.float64))
    Z = Z.toarray() if sp.issparse(Z) else Z
    return Z / Z.sum(axis=0).clip(1e-300) @ Z.T


@pytest.mark.slow
def test_eigenvectors_are_those_of_the_whole_graph():
    X = BLOBS[:150]
    model = SpectralClustering(4, random_state=0).fit(X)
    values, vectors = np.linalg.eigh(graph_of(model, X))
    np.testing.assert_allclose(model.eigenvalues_, values[::-1][:4], rtol=0, atol=1e-4)
    U = vectors[:, -4:] / np.linalg.norm(vectors[:, -4:], axis=1, keepdims=True)
    np.testing.assert_allclose(
        model.embedding_ @ model.embedding_.T, U @ U.T, rtol=0, atol=5e-3
    )


def test_anchors_follow_rings():
    model = SpectralClustering(2, random_state=0).fit(RINGS)
    assert adjusted_rand_score(RING, model.labels_) == 1
    new, ring = make_circles(500, factor=0.4, noise=0.04, random_state=1)
    assert adjusted_rand_score(ring, model.predict(new)) > 0.99
    np.testing.assert_array_equal(model.predict(RINGS), model.labels_)
    assert (
        adjusted_rand_score(
            RING, KMeans(2, n_init=3, random_state=0).fit_predict(RINGS)
        )
        < 0.1
    )


@pytest.mark.parametrize("seed", range(3))
def test_digits_without_arguments(seed):
    """As good as a graph of nearest neighbours, .854 by scikit-learn's
    SpectralClustering.
    """
    labels = SpectralClustering(10, random_state=seed).fit_predict(DIGITS)
    assert normalized_mutual_info_score(LABELS, labels) > 0.85


@pytest.mark.parametrize(
    "model", [SpectralClustering(10), KernelKMeans(10)], ids=["spectral", "k-means"]
)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_no_unit_gives_nonsense(model, scale):
    """Scikit-learn's default kernel, gamma = 1, has .01 on rows of this unit."""
    model.set_params(random_state=0)
    assert (
        normalized_mutual_info_score(LABELS, model.fit_predict(scale * DIGITS)) > 0.65
    )


@pytest.mark.parametrize(
    "features", ["fourier", BinningFeatures(Laplacian(6.0), 50, n_buckets=8)], ids=str
)
def test_kernel_k_means_is_k_means_of_features(features):
    X = BLOBS[:300]
    model = KernelKMeans(4, features=features, random_state=0).fit(X)
    assert adjusted_rand_score(BLOB[:300], model.labels_) > 0.9
    Z = model.features_.transform(model.encoder_.encode(X, np.float64))
    Z = Z.toarray() if sp.issparse(Z) else Z
    apart = np.square(Z - model.cluster_centers_[model.labels_]).sum()
    np.testing.assert_allclose(model.inertia_, apart, rtol=1e-3)
    best = KMeans(4, n_init=10, random_state=0).fit(Z)
    assert model.inertia_ < 1.005 * best.inertia_
    np.testing.assert_array_equal(np.square(Z[:, np.newaxis] - model.cluster_centers_).sum(axis=2).argmin(axis=1)[:50],
                                  model.predict(X[:50]))  # fmt: skip


def test_maps_that_are_given():
    bins = BinningFeatures(Laplacian(6.0), 30, n_buckets=16, random_state=0)
    anchors = AnchorFeatures(60, random_state=0)
    for model in (
        KernelKMeans(4, features=bins, random_state=0),
        SpectralClustering(4, features=anchors, random_state=0),
    ):
        labels = model.fit_predict(BLOBS[:400])
        assert adjusted_rand_score(BLOB[:400], labels) > 0.85
    for features in ("fourier", "wavelets", bins):
        with pytest.raises(
            ValueError, match="'anchors' or AnchorFeatures: use KernelKMeans"
        ):
            SpectralClustering(features=features).fit(BLOBS)
    waves = FourierFeatures(Gaussian(1.0), 200, random_state=0)
    for features in (anchors, ConcatenatedFeatures([bins, waves])):
        with pytest.raises(ValueError, match="features must be dense, or bins"):
            KernelKMeans(features=features).fit(BLOBS)
    with pytest.raises(ValueError, match="'fourier', 'binning'"):
        KernelKMeans(features="anchors").fit(BLOBS)
    with pytest.raises(ValueError, match="n_clusters"):
        SpectralClustering(0).fit(BLOBS)


def test_weights_are_repeated_rows():
    weight = np.random.default_rng(0).integers(1, 3, len(BLOBS)).astype(float)
    features = FourierFeatures(Gaussian(1.0), 200, random_state=0)
    weighted = KernelKMeans(
        4, features=features, standardize=False, random_state=0
    ).fit(BLOBS, sample_weight=weight)
    repeated = KernelKMeans(4, features=features, standardize=False, random_state=0)
    repeated.fit(np.repeat(BLOBS, weight.astype(int), axis=0))
    np.testing.assert_allclose(weighted.inertia_, repeated.inertia_, rtol=1e-3)
    assert adjusted_rand_score(weighted.predict(BLOBS), repeated.predict(BLOBS)) == 1


@pytest.mark.parametrize(
    "model", [SpectralClustering(4), KernelKMeans(4)], ids=["spectral", "k-means"]
)
def test_frames_files_and_sparse_rows(model, tmp_path):
    pd = pytest.importorskip("pandas")
    model.set_params(random_state=0)
    frame = pd.DataFrame(BLOBS, columns=list("abc")).assign(
        town=np.where(BLOB % 2, "Bern", "Jena")
    )
    labels = model.fit_predict(frame)
    assert adjusted_rand_score(BLOB, labels) > 0.9
    frame.to_parquet(tmp_path / "rows.parquet")
    with settings(memory_limit="1GB"):
        assert (
            adjusted_rand_score(model.fit(tmp_path / "rows.parquet").labels_, labels)
            > 0.95
        )
    rows = sp.csr_array(np.where(BLOBS > 0, BLOBS, 0))
    np.testing.assert_array_equal(model.fit(rows).predict(rows), model.labels_)


@pytest.mark.parametrize(
    "model", [SpectralClustering(4), KernelKMeans(4)], ids=["spectral", "k-means"]
)
def test_save_and_plot(model, tmp_path):
    model.set_params(random_state=0).fit(BLOBS)
    save(model, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(
        load(tmp_path / "model.safetensors").predict(BLOBS), model.labels_
    )
    display = model.plot(max_rows=100)
    assert isinstance(display, ClusterDisplay)
    np.testing.assert_array_equal(
        [bar.get_height() for bar in display.bars_], np.bincount(model.labels_)
    )
    assert sum(len(points.get_offsets()) for points in display.points_) == 100
    two = model.fit(BLOBS[:, :2])
    given = ClusterDisplay.from_estimator(two, BLOBS[:50, :2])
    np.testing.assert_allclose(given.points, BLOBS[:50, :2], atol=1e-6)
    np.testing.assert_array_equal(given.labels, two.predict(BLOBS[:50, :2]))
    plt.close("all")


@pytest.mark.parametrize(
    "model",
    [
        SpectralClustering(2),
        KernelKMeans(2),
        KernelKMeans(2, features=BinningFeatures(Laplacian(1.0), 8, n_buckets=64)),
    ],
    ids=["spectral", "k-means", "binning"],
)
@pytest.mark.filterwarnings(
    "ignore:Number of distinct clusters:sklearn.exceptions.ConvergenceWarning"
)
def test_equal_rows_are_one_cluster(model):
    rows = np.full((20, 2), 3.0)
    found = model.set_params(random_state=0).fit(rows)
    assert len(np.unique(found.predict(rows))) == 1


def test_clusters_of_rows_in_another_order_are_the_same():
    order = np.random.default_rng(0).permutation(len(BLOBS))
    a, b = (
        SpectralClustering(4, random_state=0).fit(rows).labels_
        for rows in (BLOBS[order], BLOBS)
    )
    assert adjusted_rand_score(a, b[order]) > 0.98
