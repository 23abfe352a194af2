"""Rows drawn by their weights."""

import numpy as np
import pytest

from bochner.data.array_source import ArraySource
from bochner.data.weights import draw_rows, unit_weights
from bochner.design.design import Design
from bochner.estimators.ridge.direct import scored_rows
from bochner.estimators.ridge.ridge_problem import RidgeProblem
from bochner.features import FourierFeatures
from bochner.kernels import Gaussian
from bochner.solvers.factors import PrimalLeaveOneOut, factorise

WEIGHT = np.random.default_rng(0).lognormal(sigma=3.0, size=2000)
VALUES = np.random.default_rng(1).standard_normal(2000)


def test_sums_are_unbiased():
    """Horvitz and Thompson: by z-score over draws, for values that have nothing to
    do with the weights.
    """
    found = []
    for seed in range(400):
        rows, factors = draw_rows(WEIGHT, 100, np.random.default_rng(seed))
        assert len(rows) == 100
        assert (np.diff(rows) > 0).all()
        found.append(
            WEIGHT[rows]
            * factors
            @ np.column_stack([VALUES[rows], VALUES[rows] ** 2])
            * 2000
            / 100
        )
    exact = WEIGHT @ np.column_stack([VALUES, VALUES**2])
    z = (np.mean(found, axis=0) - exact) / (np.std(found, axis=0) / np.sqrt(len(found)))
    assert (np.abs(z) < 4).all()


def test_a_place_that_rounds_beyond_the_last_row_is_its():
    class Last:
        """A generator of the largest number below one, which rounds to one when a
        whole number is added.
        """

        def permutation(self, n):
            return np.arange(n)

        def uniform(self):
            return 1 - 2.0**-53

    rows, factors = draw_rows(np.arange(1.0, 8.0), 3, Last())
    assert rows[-1] == 6
    assert np.isfinite(factors).all()


def test_sums_vary_less_than_of_a_uniform_draw():
    def spread(draw):
        return np.std([draw(np.random.default_rng(seed)) for seed in range(100)])

    def by_weight(rng):
        rows, factors = draw_rows(WEIGHT, 100, rng)
        return (WEIGHT[rows] * factors) @ VALUES[rows]

    def uniform(rng):
        rows = rng.choice(2000, 100, replace=False)
        return WEIGHT[rows] @ VALUES[rows]

    assert spread(by_weight) < spread(uniform) / 5


def test_probabilities_are_in_proportion():
    weight = np.array([0.0, 1.0, 1.0, 2.0, 4.0, 1000.0])
    counts = np.zeros(6)
    for seed in range(2000):
        rows, factors = draw_rows(weight, 2, np.random.default_rng(seed))
        counts[rows] += 1
        assert factors == pytest.approx(
            2 / 5 / np.where(rows == 5, 1.0, weight[rows] / 8)
        )
    assert counts[0] == 0
    assert counts[5] == 2000
    share = np.array([1, 1, 2, 4]) / 8
    assert (
        np.abs(counts[1:5] / 2000 - share) < 4 * np.sqrt(share * (1 - share) / 2000)
    ).all()


def test_equal_weights_are_drawn_uniformly():
    for weight in (unit_weights(50), np.full(50, 0.3)):
        rows, factors = draw_rows(weight, 7, np.random.default_rng(3))
        assert factors == 1.0
        np.testing.assert_array_equal(
            rows, np.sort(np.random.default_rng(3).choice(50, 7, replace=False))
        )
    rows, factors = draw_rows(np.array([1.0, 0.0, 5.0]), 2, np.random.default_rng(0))
    assert list(rows) == [0, 2]
    assert factors == 1.0


def test_extreme_weights():
    for weight in (
        np.geomspace(1e-300, 1e300, 40),
        np.r_[np.full(39, 1e-17), 1.0],
        np.linspace(1, 2, 40) * 5e306,
        np.arange(40, dtype=np.uint8) + 1,
        np.r_[np.full(39, 5e-324), 1.0],
    ):
        rows, factors = draw_rows(weight, 20, np.random.default_rng(0))
        assert len(rows) == 20
        assert np.isfinite(factors).all()
        assert 39 in rows


def test_a_sample_keeps_the_mean_weight():
    X = VALUES[:, np.newaxis]
    sample = ArraySource(X, X, WEIGHT).sample(1000, np.random.default_rng(0))
    assert sample.weights.sum() / 1000 == pytest.approx(WEIGHT.sum() / 2000, rel=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_leave_one_out_errors_of_few_heavy_rows(seed):
    """A tenth of a per cent of the rows has half of the weight: they are among those
    that are looked at.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30_000, 2))
    rare = np.arange(30_000) % 1000 == 0
    X[rare] += 2
    y = np.where(rare, 1.0, -1.0)[:, np.newaxis]
    features = FourierFeatures(Gaussian(1.0), 64, random_state=0).fit(X)
    design = Design(ArraySource(X, y, np.where(rare, 999.0, 1.0)), features, np.float64)
    factor = factorise(design, 2)
    alphas = np.array([1.0, 100.0])
    some, every = (
        scored_rows(design, factor, RidgeProblem("auto", 1e-2, seed)),
        PrimalLeaveOneOut(design, factor),
    )
    assert some.design.source.n_rows == 4096
    np.testing.assert_allclose(some(alphas), every(alphas), rtol=0.1)


@pytest.mark.parametrize("alpha", ["auto", "loo"])
def test_rows_that_judge_are_left_out_with_all_their_copies(alpha):
    """Those that were not drawn too; on 1,500 rows in four copies, as by rows of
    fourfold weight.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 2))
    y = np.sin(2 * X[:, :1]) + 0.3 * rng.standard_normal((1500, 1))
    features = FourierFeatures(Gaussian(1.0), 64, random_state=0).fit(X)
    copies = rng.permutation(np.arange(1500).repeat(4))
    design = Design(ArraySource(X[copies], y[copies]), features, np.float64)
    weighted = Design(ArraySource(X, y, np.full(1500, 4.0)), features, np.float64)
    factor = factorise(design, 2)
    alphas = np.array([1e-3, 1.0, 100.0])
    found, expected = (
        scored_rows(design, factor, RidgeProblem(alpha, 1e-2, 0)),
        PrimalLeaveOneOut(weighted, factor),
    )
    assert found.design.source.n_rows > 1400
    np.testing.assert_allclose(
        found(alphas), expected(alphas), rtol=0.1 if alpha == "auto" else 1e-9
    )
    rows = found.design.source.X
    where = (rows[:, np.newaxis] == X).all(axis=2).argmax(axis=1)
    np.testing.assert_allclose(
        found.predict(1.0), expected.predict(1.0)[where], atol=1e-10
    )
