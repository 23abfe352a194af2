"""Functions on the graph, against matrices of all pairs of rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from bochner import AnchorFeatures
from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.semisupervised.base import labelled, of_all_rows
from bochner.semisupervised.smoothers import Graph, Poisson, SmoothRidge, Spreading

N, M, K = 300, 40, 3
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 2))
KNOWN = np.arange(0, N, 15)
Y = np.zeros((N, K))
Y[KNOWN, RNG.integers(0, K, len(KNOWN))] = 1
WAYS = [Spreading(0.9), Poisson(0.99), SmoothRidge(12, 0.5)]


def graph_with(targets=Y, weight=None, group=None):
    features = AnchorFeatures(M, 3, random_state=0).fit(X)
    source = ArraySource(X, targets, weight)
    return Graph(
        Design(source, features, np.float64, fixed=True), group
    ), features.transform(X).toarray()


def dense(Z):
    """S of all pairs of rows."""
    return Z @ np.diag(1 / Z.sum(axis=0)) @ Z.T


def test_marks_of_rows_without_a_label():
    """The number -1 in any type, None and NaN; a text of it is a class."""
    for y in (
        [0.0, -1.0, None],
        [0, -1, np.nan],
        [0, np.float64(-1), None],
        ["a", -1.0, None],
    ):
        assert labelled(np.array(y, dtype=object)).tolist() == [True, False, False]
    assert labelled(np.array([0.0, -1.0, np.nan])).tolist() == [True, False, False]
    assert labelled(np.array(["a", "-1"])).all()


def test_rows_of_the_graph_have_the_sum_one():
    _, Z = graph_with()
    assert_allclose(dense(Z).sum(axis=1), 1)


def test_spreading_is_that_of_all_rows():
    graph, Z = graph_with()
    expected = np.linalg.solve(np.eye(N) - 0.9 * dense(Z), Y)
    assert_allclose(
        of_all_rows(graph, Spreading(0.9).fit(graph))[1], expected, atol=1e-8
    )
    assert_allclose(
        expected.sum(axis=0), Y.sum(axis=0) / (1 - 0.9)
    )  # so that class masses are as of the labels


def test_poisson_is_that_of_all_rows():
    graph, Z = graph_with()
    sources = np.zeros((N, K))
    sources[KNOWN] = Y[KNOWN] - Y[KNOWN].mean(axis=0)
    expected = np.linalg.solve(np.eye(N) - 0.99 * dense(Z), sources)
    assert_allclose(
        of_all_rows(graph, Poisson(0.99).fit(graph))[1], expected, atol=1e-8
    )


def test_ridge_is_that_on_eigenvectors_of_all_rows():
    graph, Z = graph_with()
    lam, U = np.linalg.eigh(dense(Z))
    lam, U = lam[::-1][:12], U[:, ::-1][:, :12] * np.sqrt(N)
    penalty = 0.5 * len(KNOWN) * ((1 - lam) / (1 - lam[-1]) + 1e-4)
    B = U[KNOWN]
    expected = U @ np.linalg.solve(B.T @ B + np.diag(penalty), B.T @ Y[KNOWN])
    assert_allclose(
        of_all_rows(graph, SmoothRidge(12, 0.5).fit(graph))[1], expected, atol=1e-7
    )


@pytest.mark.parametrize(
    "weight", [None, RNG.uniform(0.1, 3, N)], ids=["equal", "weighted"]
)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_values_left_out_are_those_of_other_fits(way, weight):
    """Of all rows with a target, in several classes: the value of each by a fit to
    the others alone.
    """
    graph, _ = graph_with(weight=weight)
    found = way.fit(graph).left_out
    other, _ = graph_with(weight=weight)
    for i in range(len(graph.weight)):
        kept = np.arange(len(graph.weight)) != i
        other.labelled, other.targets, other.weight = (
            part[kept] for part in (graph.labelled, graph.targets, graph.weight)
        )
        # Whose product with the weights stays
        penalty = graph.weight.sum() / other.weight.sum()
        again = way if way.name != "ridge" else SmoothRidge(12, 0.5 * penalty)
        assert_allclose(found[i], (graph.labelled @ again.fit(other).v)[i], atol=1e-6)


@pytest.mark.parametrize(
    "weight", [None, RNG.uniform(0.1, 3, N)], ids=["equal", "weighted"]
)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_groups_left_out_are_those_of_other_fits(way, weight):
    """The values of each group by a fit to the other groups alone; groups of one row
    are rows.
    """
    graph, _ = graph_with(weight=weight)
    alone = way.fit(graph).left_out
    graph, _ = graph_with(weight=weight, group=np.arange(N))
    assert_allclose(way.fit(graph).left_out, alone, atol=1e-8)
    graph, _ = graph_with(weight=weight, group=np.arange(N) % 7)
    found = way.fit(graph).left_out
    assert len(np.unique(graph.group)) > 2
    other, _ = graph_with(weight=weight)
    for k in np.unique(graph.group):
        kept = graph.group != k
        other.labelled, other.targets, other.weight = (
            part[kept] for part in (graph.labelled, graph.targets, graph.weight)
        )
        penalty = graph.weight.sum() / other.weight.sum()
        again = way if way.name != "ridge" else SmoothRidge(12, 0.5 * penalty)
        wanted = (graph.labelled @ again.fit(other).v)[~kept]
        assert_allclose(found[~kept], wanted, atol=1e-6)


def test_one_place_with_a_target_has_nothing_left():
    targets = np.zeros((N, K))
    targets[0, 0] = 1
    graph, _ = graph_with(targets)
    for way in WAYS[:2]:
        assert_allclose(way.fit(graph).left_out, 0, atol=1e-12)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_weights_are_equal_rows(way):
    weight = RNG.integers(1, 4, N)
    features = AnchorFeatures(M, 3, random_state=0).fit(X)
    graphs = [
        Graph(
            Design(
                ArraySource(rows, targets, weights), features, np.float64, fixed=True
            )
        )
        for rows, targets, weights in [
            (X, Y, weight.astype(float)),
            (np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0), None),
        ]
    ]
    one, other = (way.fit(graph) for graph in graphs)
    assert_allclose(graphs[0].matrix.toarray(), graphs[1].matrix.toarray(), atol=1e-12)
    assert_allclose(graphs[0].matrix @ one.v, graphs[1].matrix @ other.v, atol=1e-7)
    assert_allclose(one.left_out, other.left_out, atol=1e-7)


def test_rows_beyond_the_first_shard_keep_their_numbers(monkeypatch):
    whole, _ = graph_with()
    monkeypatch.setattr("bochner.design.graph.LARGE_BLOCK_ROWS", 100)
    cut, _ = graph_with()
    assert len(cut.features) > len(whole.features) == 1
    assert_array_equal(cut.number, KNOWN)
    found, expected = (
        of_all_rows(graph, Spreading(0.9).fit(graph))[1] for graph in (cut, whole)
    )
    assert_allclose(found, expected, atol=1e-12)


def test_deviation_is_that_of_all_rows():
    graph, _ = graph_with()
    smooth = Spreading(0.9).fit(graph)
    rows = sp.vstack(graph.features) @ sp.diags_array(graph.root) @ smooth.v
    rows -= rows.mean(axis=1, keepdims=True)
    assert_allclose(
        graph.deviation(smooth.v), np.sqrt(rows.var(axis=0).mean()), rtol=1e-8
    )
