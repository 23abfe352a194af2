"""The normal equations as an operator against dense NumPy, for every kind of held
features.
"""

from itertools import pairwise

import numpy as np
import pytest

import exact
from bochner import (
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    LinearFeatures,
)
from bochner.data.weights import unit_weights
from bochner.design.normal import NormalEquations
from bochner.features.stored import StoredBins, StoredRows
from bochner.kernels import Gaussian, Laplacian, SmoothBins

N, D_IN = 130, 3
FOURIER = FourierFeatures(Gaussian(2.0), 14, random_state=0)
MAPS = {
    "dense": FOURIER,
    "packed": FOURIER,
    "bins": BinningFeatures(Laplacian(6.0), 5, random_state=1),
    "smooth bins": BinningFeatures(SmoothBins(6.0), 4, random_state=2),
    "buckets": BinningFeatures(Laplacian(6.0), 5, n_buckets=7, random_state=3),
    "together": ConcatenatedFeatures(
        [FOURIER, BinningFeatures(Laplacian(6.0), 5, random_state=1), LinearFeatures()],
        weights=[0.5, 2.0, 3.0],
    ),
}


class Problem:
    """Blocks of held features, their equations, and the same features as one matrix
    in double precision.
    """

    def __init__(
        self, kind, dtype=np.float64, weighting="none", K=2, edges=(0, 60, 61, N)
    ):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((N, D_IN)).astype(dtype)
        self.Y = rng.standard_normal((N, K)) + 3
        weight = rng.uniform(0.1, 3, N)
        if weighting == "some zero":
            weight[::4] = 0
        self.weight = None if weighting == "none" else weight
        self.w = np.ones(N) if weighting == "none" else weight
        features = MAPS[kind].draw(D_IN)
        features.fit_sample(X, np.ones(X.shape[0]))
        parts = [slice(a, b) for a, b in pairwise(edges)]
        held = [features.fit_store(X[part], kind == "packed") for part in parts]
        features.finalize()
        self.D = D = features.n_features_out
        self.blocks = [
            StoredRows(
                own,
                self.Y[part],
                unit_weights(N)[part] if self.weight is None else weight[part],
            )
            for own, part in zip(held, parts, strict=True)
        ]
        self.Z = np.vstack([own.forward(np.eye(D)).T for own in held]).astype(
            np.float64
        )
        self.equations = NormalEquations(self.blocks, D, K, dtype)
        self.mean = self.w @ self.Z / self.w.sum()
        self.V = rng.standard_normal((3, D)).astype(dtype)
        # Packed features are summed in single precision whatever the vectors are.
        self.unit = float(np.finfo(np.float32 if kind == "packed" else dtype).eps)


@pytest.fixture(params=MAPS)
def kind(request):
    return request.param


@pytest.fixture(params=[np.float32, np.float64], ids=["single", "double"])
def dtype(request):
    return request.param


@pytest.fixture(params=["none", "uniform", "some zero"])
def weighting(request):
    return request.param


def test_product(kind, dtype, weighting):
    """Sums of D and n products in another order; the mean's n terms come in twice,
    and ten roundings by the way.
    """
    p = Problem(kind, dtype, weighting)
    centred = p.Z - p.mean
    expected = p.V.astype(float) @ (centred.T * p.w) @ centred
    sizes, mean = np.abs(p.Z), p.w @ np.abs(p.Z) / p.w.sum()
    size = np.abs(p.V) @ ((sizes.T * p.w) @ sizes + p.w.sum() * np.outer(mean, mean))
    found = p.equations(p.V)
    assert found.dtype == dtype
    assert np.all(np.abs(found - expected) <= (p.D + 3 * N + 10) * p.unit * size)


def test_sums(kind, dtype, weighting):
    p = Problem(kind, dtype, weighting)
    equations, total = p.equations, p.w.sum()
    assert equations.shape == (2, p.D)
    assert equations.n_rows == np.count_nonzero(p.w)
    # Weights and targets are rounded to the dtype, and their sums are double.
    assert equations.weight == pytest.approx(total, rel=(N + 2) * p.unit)
    np.testing.assert_allclose(
        equations.target_mean, p.w @ p.Y / total, rtol=(N + 4) * p.unit
    )
    size = p.w @ np.abs(p.Z)
    assert np.all(
        np.abs(equations.feature_mean - p.mean) <= (2 * N + 10) * p.unit * size / total
    )
    expected = (p.Y - p.w @ p.Y / total).T * p.w @ p.Z
    bound = (np.abs(p.Y).T * p.w) @ np.abs(p.Z) + np.outer(
        np.abs(p.w @ p.Y) / total, size
    )
    assert np.all(np.abs(equations.rhs - expected) <= (2 * N + 10) * p.unit * bound)
    squares = p.w @ p.Z**2
    diagonal = equations.diagonal()
    assert np.all(diagonal >= 0)
    # Squares, and the square of the mean, which by Cauchy and Schwarz is at most as
    # large, with twice its error.
    assert np.all(
        np.abs(diagonal - p.w @ (p.Z - p.mean) ** 2) <= (5 * N + 30) * p.unit * squares
    )
    coef = p.V[:2]
    bound = (2 * N + p.D + 20) * p.unit * (3 + np.abs(coef) @ (size / total))
    assert np.all(
        np.abs(equations.intercept(coef) - (p.w @ p.Y / total - coef @ p.mean)) <= bound
    )


@pytest.mark.parametrize("K", [1, 2, 5])
def test_their_solution_is_the_ridge_regression(kind, weighting, K):
    """Condition numbers are below n |z|^2 3 / 0.5 = 1e4: of the 16 digits, or 7 of
    packed features, 4 are lost.
    """
    p = Problem(kind, np.float64, weighting, K)
    matrix = p.equations(np.eye(p.D)).copy()
    coef = np.linalg.solve(matrix + 0.5 * np.eye(p.D), p.equations.rhs.T)
    expected, intercept = exact.ridge(p.Z, p.Y, 0.5, p.weight)
    rounding = 1e4 * p.unit * 10
    np.testing.assert_allclose(
        coef, expected, rtol=0, atol=rounding * np.abs(expected).max()
    )
    np.testing.assert_allclose(
        p.equations.intercept(coef.T),
        intercept,
        rtol=0,
        atol=rounding * np.abs(p.Y).max(),
    )


def test_blocks_do_not_matter(kind, weighting):
    one, many = (
        Problem(kind, weighting=weighting, edges=edges)
        for edges in ((0, N), (0, 1, 2, 50, 100, N))
    )
    for name in ("rhs", "feature_mean", "target_mean", "weight"):
        a, b = getattr(one.equations, name), getattr(many.equations, name)
        np.testing.assert_allclose(a, b, rtol=0, atol=4 * N * one.unit * 10 * N)


def test_a_product_changes_nothing_else(kind):
    p = Problem(kind)
    names = ("rhs", "feature_mean", "target_mean")
    before, V = [getattr(p.equations, name).copy() for name in names], p.V.copy()
    first = p.equations(p.V)
    kept = first.copy()
    second = p.equations(2 * p.V)
    np.testing.assert_array_equal(first, kept)
    np.testing.assert_allclose(
        second, 2 * kept, rtol=0, atol=4 * p.unit * np.abs(kept).max()
    )
    p.equations.diagonal()
    total = first.copy()
    found = p.equations.add(p.V, total)
    # The sum is taken row by row: N roundings of half a unit, of partial sums of some
    # times the size.
    np.testing.assert_allclose(
        total, 2 * kept, rtol=0, atol=2 * N * p.unit * np.abs(kept).max()
    )
    size = np.abs(p.V.astype(float)) @ np.abs(kept.astype(float)).T
    np.testing.assert_allclose(
        found,
        (p.V * kept).sum(axis=1),
        rtol=0,
        atol=8 * (N + p.D) * p.unit * size.max(),
    )
    assert p.equations(p.V[:1]).shape == (1, p.D)
    np.testing.assert_array_equal(p.V, V)
    for name, value in zip(names, before, strict=True):
        np.testing.assert_array_equal(getattr(p.equations, name), value)


def test_rows_of_weight_zero_are_as_none(kind):
    """Whatever their targets are."""
    p = Problem(kind, weighting="some zero")
    for block in p.blocks:
        block.y[block.weight == 0] = 1e3
    again = NormalEquations(p.blocks, p.D, 2, np.float64)
    np.testing.assert_array_equal(again.rhs, p.equations.rhs)
    np.testing.assert_array_equal(again.target_mean, p.equations.target_mean)
    with_weight = p.w > 0
    kept = p.Z[with_weight]
    assert again.n_rows == len(kept)
    assert np.allclose(
        again.feature_mean,
        np.average(kept, axis=0, weights=p.w[with_weight]),
        rtol=0,
        atol=N * p.unit,
    )


class Again:
    """Blocks that are made again in every pass."""

    many = True

    def __init__(self, blocks):
        self.blocks = blocks

    def __iter__(self):
        return iter(self.blocks)


def test_sums_of_very_many_rows_are_told_apart():
    """In single precision nothing is added to 2^24 any more."""
    features = StoredBins(np.zeros((1, 1), np.int32), np.ones((1, 1)), np.array([0, 1]))
    blocks = [
        StoredRows(features, np.ones((1, 1)), np.array([weight]))
        for weight in [2.0**24] + 100 * [1.0]
    ]
    equations = NormalEquations(Again(blocks), 1, 1, np.float32)
    np.testing.assert_allclose(equations.feature_mean, 1, rtol=1e-6)
    assert not np.isclose(
        NormalEquations(blocks, 1, 1, np.float32).feature_mean, 1, rtol=1e-6, atol=0
    )
