"""Sets of classes: scores, thresholds, and the coverage that they promise."""

import numpy as np
import pytest

from bochner.solvers.conformal import mass_before, threshold, thresholds_of


def draws(n, K=5, seed=0, sharpness=2.0):
    """Probabilities, and classes drawn by them."""
    rng = np.random.default_rng(seed)
    P = np.exp(sharpness * rng.standard_normal((n, K)))
    P /= P.sum(axis=1, keepdims=True)
    return P, (P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=K - 1)


def members(y, K=5):
    return np.eye(K)[y]


class TestScores:
    def test_by_hand(self):
        np.testing.assert_allclose(
            mass_before(np.array([[0.2, 0.5, 0.3]])), [[0.8, 0.0, 0.5]]
        )

    def test_of_equal_probabilities_the_first_comes_first(self):
        np.testing.assert_allclose(
            mass_before(np.full((2, 4), 0.25)), [[0.0, 0.25, 0.5, 0.75]] * 2
        )

    def test_the_most_probable_class_has_none_before_it(self):
        P, _ = draws(100)
        scores = mass_before(P)
        np.testing.assert_array_equal(scores.argmin(axis=1), P.argmax(axis=1))
        np.testing.assert_array_equal(scores.min(axis=1), 0.0)

    def test_against_sums(self):
        P, _ = draws(50)
        expected = [[p[p > own].sum() for own in p] for p in P]
        np.testing.assert_allclose(mass_before(P), expected, atol=1e-14)

    def test_of_one_class(self):
        np.testing.assert_array_equal(mass_before(np.ones((3, 1))), np.zeros((3, 1)))


class TestThresholds:
    def test_is_the_order_statistic(self):
        """The ceil((n + 1) q)-th of n scores."""
        P, y = draws(99)
        own = np.sort(mass_before(P)[np.arange(99), y])
        table = thresholds_of(P, members(y), np.ones(99))
        for coverage in (0.5, 0.6, 0.9, 0.905, 0.99):
            assert (
                threshold(table, coverage)
                == own[int(np.ceil(np.round(100 * coverage, 9))) - 1]
            )

    @pytest.mark.parametrize("scale", [1.0, 1e-3, 1e6])
    def test_only_ratios_of_weights_matter(self, scale):
        P, y = draws(60)
        weight = np.random.default_rng(1).integers(0, 4, 60).astype(float)
        np.testing.assert_allclose(
            thresholds_of(P, members(y), scale * weight),
            thresholds_of(P, members(y), weight),
            rtol=1e-12,
        )

    def test_rows_of_no_weight_are_none(self):
        P, y = draws(60)
        some = thresholds_of(P[:40], members(y[:40]), np.ones(40))
        np.testing.assert_array_equal(
            thresholds_of(P, members(y), (np.arange(60) < 40).astype(float)), some
        )

    def test_equal_rows_of_several_classes(self):
        """Two rows of one place count as each of their classes by half."""
        P = np.array([[0.7, 0.3], [0.6, 0.4]])
        table = thresholds_of(
            P, np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([2.0, 1.0])
        )
        np.testing.assert_allclose(
            table, [[0.0, 0.7], [3 / 7, 9 / 14]]
        )  # 9 / 5 effective rows

    @pytest.mark.parametrize("coverage", [0.0, 1.0, -0.1, 1.5, 90, np.nan])
    def test_coverage_out_of_range(self, coverage):
        with pytest.raises(ValueError, match="between 0 and 1"):
            threshold(np.array([[0.0], [0.99]]), coverage)

    @pytest.mark.parametrize(
        ("coverage", "needed"), [(0.9, 9), (0.95, 19), (0.99, 99), (0.8, 4)]
    )
    def test_too_few_rows(self, coverage, needed):
        P, y = draws(needed)
        threshold(thresholds_of(P, members(y), np.ones(needed)), coverage)
        few = thresholds_of(P[1:], members(y[1:]), np.ones(needed - 1))
        with pytest.raises(
            ValueError,
            match=f"needs {needed} validation rows, and there were {needed - 1}",
        ):
            threshold(few, coverage)

    def test_no_rows(self):
        with pytest.raises(ValueError, match="there were 0"):
            threshold(
                thresholds_of(np.empty((0, 3)), np.empty((0, 3)), np.empty(0)), 0.5
            )


@pytest.mark.parametrize(("n", "coverage"), [(19, 0.9), (50, 0.95), (200, 0.8)])
@pytest.mark.parametrize("distortion", [1.0, 0.3, 3.0])
def test_coverage_by_draws(n, coverage, distortion):
    """Within q and q + 1 / (n + 1) where the most probable class does not do more,
    however wrong probabilities are.
    """
    covered, K = [], 8
    for seed in range(300):
        P, y = draws(n + 100, K, seed, 1.0)
        P = P**distortion / (P**distortion).sum(axis=1, keepdims=True)
        table = thresholds_of(P[:n], members(y[:n], K), np.ones(n))
        sets = mass_before(P[n:]) <= threshold(table, coverage)
        assert sets.any(axis=1).all()
        covered.append(sets[np.arange(100), y[n:]].mean())
    error = np.std(covered) / np.sqrt(len(covered))
    assert (
        coverage - 4 * error <= np.mean(covered) <= coverage + 1 / (n + 1) + 4 * error
    )
