"""Sums of the graph of anchors: the same by threads and by workers, and its
eigenvectors those of all pairs of rows.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bochner import (
    AnchorFeatures,
    ConcatenatedFeatures,
    MetricFeatures,
    SpectralClustering,
    open_source,
    settings,
)
from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.design.graph import AnchorGraph, is_anchored, sum_graph
from bochner.features import Metric
from farm import Farm

N = 40_000
X = np.random.default_rng(0).standard_normal((N, 2))
WEIGHT = np.random.default_rng(1).integers(0, 3, N).astype(float)


def summed(rows, weight=None, keeps=False):
    features = AnchorFeatures(50, 3, random_state=0).fit(X)
    design = Design(
        ArraySource(rows, np.empty((len(rows), 0)), weight),
        features,
        np.float64,
        fixed=True,
    )
    return sum_graph(design, keeps=keeps), features.transform(rows).toarray()


def test_sums_of_many_shards_are_those_of_all_rows():
    sums, Z = summed(X, WEIGHT, keeps=True)
    assert_allclose(sums.gram.toarray(), Z.T @ (Z * WEIGHT[:, np.newaxis]), atol=1e-8)
    assert_allclose(sums.degree, WEIGHT @ Z)
    assert sums.n_rows == N
    assert_array_equal(np.concatenate([block.toarray() for block in sums.features]), Z)


def test_eigenvectors_are_those_of_all_pairs():
    sums, Z = summed(X[:500])
    graph = AnchorGraph(sums)
    A = Z * graph.root
    assert_allclose((A @ A.T).sum(axis=1), 1)
    expected = np.linalg.eigvalsh(A @ A.T)[::-1]
    values, vectors = graph.eigenvectors(20)
    assert_allclose(values, expected[:20])
    U = A @ vectors / np.sqrt(values)
    assert_allclose(U.T @ U, np.eye(20), atol=1e-9)
    assert_allclose(A @ (A.T @ U), U * values, atol=1e-9)
    assert_array_equal(graph.eigenvectors(5)[1], vectors[:, :5])
    assert len(graph.eigenvectors(100)[0]) == graph.rank == 50


def test_which_maps_are_anchors():
    anchors, metric = AnchorFeatures(), Metric(2, [0], [2.0])
    assert is_anchored(anchors)
    assert is_anchored(MetricFeatures(metric, anchors))
    assert not is_anchored(ConcatenatedFeatures([anchors, anchors]))


@pytest.mark.slow
def test_clusters_of_files_by_workers(tmp_path):
    """To the same bits as by threads."""
    for k, rows in enumerate(np.split(X, 8)):
        pq.write_table(
            pa.table({"a": rows[:, 0], "b": rows[:, 1]}), tmp_path / f"{k}.parquet"
        )
    source = open_source(tmp_path, sample=2000)
    farm, models = Farm(), []
    for engine in (None, farm):
        with settings(engine=engine):
            models.append(
                SpectralClustering(3, features=AnchorFeatures(60), random_state=0).fit(
                    source
                )
            )
    here, there = models
    assert_array_equal(here.eigenvalues_, there.eigenvalues_)
    assert_array_equal(here.labels_, there.labels_)
    assert any(b"SumOverRows" in work for work in farm.works)
