"""Blocks of rows, the steps that are taken on them, and what they share."""

import numpy as np
import pytest

from bochner.selection import metric_learning
from bochner.selection.metric_learning import (
    Adam,
    EarlyStopping,
    MinibatchSampler,
    Schedule,
    learn_map,
    learn_scales,
)
from bochner.selection.policy import POLICY

SCALES = np.array([1.0, 0.2, 3.0])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def numbered(n, size, seed=0, weight=None, kinds=("near",)):
    """Blocks whose targets are the numbers of the rows."""
    return MinibatchSampler(
        normal(n, 3),
        np.arange(n)[:, np.newaxis],
        Schedule(1, size, kinds),
        seed,
        weight,
    )


def drawn(blocks, kind):
    """Numbers of the rows of a block."""
    B, y, *_ = blocks.draw(kind, SCALES)
    np.testing.assert_array_equal(B.T, blocks.rows[y[:, 0]])
    assert B.flags.c_contiguous
    assert len(np.unique(y)) == len(y) == blocks.size
    return y[:, 0]


def distances(blocks, anchors):
    """To all rows, shape (anchors, n), by the formula."""
    X = blocks.rows.astype(float)
    return (np.abs(X[anchors, np.newaxis] - X) * SCALES).sum(axis=2)


def is_nearest(blocks, chosen):
    """Whether these are the nearest rows of one of them."""
    for anchor in chosen:
        D = distances(blocks, [anchor])[0]
        if D[chosen].max() <= np.sort(D)[len(chosen) - 1] * (1 + 1e-5):
            return True
    return False


class TestBlocks:
    def test_uniform(self):
        blocks = numbered(200, 40)
        counts = np.bincount(
            np.concatenate([drawn(blocks, "uniform") for _ in range(300)]),
            minlength=200,
        )
        # 300 draws that take a row with probability 1/5: mean 60, deviation 7.
        assert counts.min() > 60 - 5 * 7
        assert counts.max() < 60 + 5 * 7

    def test_near(self):
        blocks = numbered(1000, 30)
        for _ in range(5):
            assert is_nearest(blocks, drawn(blocks, "near"))
        assert not is_nearest(blocks, drawn(blocks, "uniform"))

    def test_wide(self):
        """Rows at random of the 8 blocks nearest to a row, which need not be among
        them.
        """
        blocks = numbered(1000, 20)
        D = distances(blocks, np.arange(1000))
        limit = np.partition(D, 159, axis=1)[:, 159] * (1 + 1e-5)
        for _ in range(5):
            chosen = drawn(blocks, "wide")
            assert (D[:, chosen].max(axis=1) <= limit).any()
            assert not is_nearest(blocks, chosen)
        assert not (D[:, drawn(blocks, "uniform")].max(axis=1) <= limit).any()

    @pytest.mark.parametrize(
        ("kind", "n"), [("near", 30), ("wide", 200), ("uniform", 30)]
    )
    def test_few_rows_are_all_the_rows_there_are(self, kind, n):
        blocks = numbered(n, 30)
        seen = [drawn(blocks, kind) for _ in range(200)]
        assert len(np.unique(seen)) == n
        assert numbered(10, 30).size == 10

    def test_heavy_rows_are_drawn_more(self):
        weight = np.ones(1000)
        weight[:50] = 100
        blocks = numbered(1000, 40, weight=weight)
        share = np.mean([(drawn(blocks, "uniform") < 50).mean() for _ in range(200)])
        # 40 draws with replacement meet 50 * (1 - (1 - 100 / 5950)^40) = 24.6 of the
        # heavy rows.
        assert 0.55 < share < 0.7
        anchors = [drawn(blocks, "near") for _ in range(40)]
        near_heavy = np.mean([any(row < 50 for row in chosen) for chosen in anchors])
        assert near_heavy > 0.8

    def test_rows_beside_the_heavy_ones_are_any(self):
        """Where heavy rows are drawn again and again, what makes up for them has no
        favourites.
        """
        weight = np.ones(1000)
        weight[500:510] = 1e6
        blocks = numbered(1000, 20, weight=weight)
        light = np.concatenate([drawn(blocks, "uniform") for _ in range(400)])
        light = light[(light < 500) | (light >= 510)]
        # Uniform numbers have a deviation of 289: the mean of about 4,000 has one of
        # 4.6.
        assert abs(light.mean() - 500) < 25

    def test_rows_without_weight_are_no_neighbourhoods(self):
        weight = np.zeros(1000)
        weight[7] = 1.0
        blocks = numbered(1000, 20, weight=weight)
        nearest = np.argsort(distances(blocks, [7])[0])[:20]
        assert set(drawn(blocks, "near")) == set(nearest)

    def test_any_row_of_a_neighbourhood_may_judge(self):
        """Not the farthest ones, which the order of the rows would make of it."""
        weight = np.zeros(1000)
        weight[0] = 1.0
        blocks = MinibatchSampler(
            np.arange(1000, dtype=np.float32)[:, np.newaxis],
            np.arange(1000),
            Schedule(1, 20),
            0,
            weight,
        )
        places = [
            np.flatnonzero(blocks.draw("near", np.ones(1))[1] == 0)[0]
            for _ in range(100)
        ]
        assert len(set(places)) == 20

    def test_equal_weights_are_none(self):
        one, other = numbered(500, 20, weight=np.full(500, 2.5)), numbered(500, 20)
        np.testing.assert_array_equal(drawn(one, "uniform"), drawn(other, "uniform"))


def adam(x, gradients, rate):
    """Kingma and Ba's algorithm 1, with the falling rate, and the mean of the second
    half of its points.
    """
    m, v, points, steps = np.zeros_like(x), np.zeros_like(x), [], len(gradients)
    for t, g in enumerate(gradients, start=1):
        m, v = 0.9 * m + 0.1 * g, 0.97 * v + 0.03 * g * g
        m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.97**t)
        fall = 1.0 if 2 * t <= steps + 1 else 2 * (steps + 1 - t) / (steps + 1)
        x = x - rate * fall * m_hat / np.sqrt(v_hat)
        points.append(x)
    return points, np.mean(points[steps // 2 :], axis=0)


class TestAdam:
    @pytest.mark.parametrize("steps", [1, 2, 7, 10])
    def test_is_the_algorithm(self, steps):
        gradients = np.random.default_rng(0).standard_normal((steps, 4)) * [
            1,
            100,
            1e-3,
            5,
        ]
        start = np.array([1.0, -2.0, 0.5, 0.0])
        points, mean = adam(start, gradients, POLICY.rate)
        own, course = Adam(start.copy()), EarlyStopping(Schedule(steps, 8))
        for step in course:
            own.step(gradients[step], course.remaining)
            point = points[step]
            np.testing.assert_allclose(own.x, point, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(own.mean, mean, rtol=1e-7, atol=1e-9)

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_gradients_that_are_no_numbers(self, bad):
        one, other = Adam(np.zeros(2)), Adam(np.zeros(2))
        for own, gradient in ((one, [1.0, bad]), (other, [0.0, 0.0])):
            own.step(np.array([1.0, 2.0]))
            own.step(np.array(gradient))
        np.testing.assert_array_equal(one.x, other.x)
        assert np.isfinite(one.x).all()

    def test_what_has_no_gradient_stays(self):
        own = Adam(np.array([3.0, 3.0]))
        for _ in range(5):
            own.step(np.array([0.0, -1.0]))
        assert own.x[0] == 3
        assert own.x[1] > 3


class TestCourse:
    """Windows are of 48 blocks, and losses must fall by 2 % from one to the next."""

    def steps(self, most, loss):
        course, taken = EarlyStopping(Schedule(most, 8)), []
        for step in course:
            course.note(loss(step))
            taken.append(course.remaining)
        return taken

    @pytest.mark.parametrize("most", [1, 2, 7, 95, 450])
    def test_all_steps_while_losses_fall(self, most):
        taken = self.steps(most, lambda step: 0.999**step)
        assert len(taken) == most
        np.testing.assert_allclose(
            taken, 2 * (1 - np.arange(1, most + 1) / (most + 1)), rtol=1e-12
        )

    @pytest.mark.parametrize(
        ("stall", "steps"), [(0, 192), (47, 288), (96, 384), (110, 450), (200, 450)]
    )
    def test_an_end_where_they_stall(self, stall, steps):
        """After the first whole window without a gain, in as many steps as there
        were till then.
        """
        taken = self.steps(450, lambda step: 0.99 ** min(step, stall))
        assert len(taken) == steps
        assert taken[-1] == pytest.approx(2 / (steps + 1))

    def test_losses_that_are_no_numbers(self):
        assert (
            len(self.steps(300, lambda step: np.nan if step % 7 else 0.999**step))
            == 300
        )
        with pytest.warns(RuntimeWarning, match="empty"):
            assert len(self.steps(300, lambda step: np.nan)) == 192


@pytest.mark.parametrize(("kernel", "early"), [("laplacian", 24), ("gaussian", 60)])
def test_blocks_grow_when_steps_become_shorter(kernel, early, monkeypatch):
    """Those of the L1 distance, for scales and for a map."""
    X, seen = normal(300, 4), []
    for name in ("diagonal_loss", "linear_loss"):
        loss = getattr(metric_learning, name)

        def spy(kernel, block, space, *parameters, loss=loss):
            seen.append(len(block.y))
            assert len(space.K) == len(block.y)
            assert space.n_fit == 0.75 * len(block.y)
            return loss(kernel, block, space, *parameters)

        monkeypatch.setattr(metric_learning, name, spy)
    blocks = MinibatchSampler(
        X, X[:, :1].astype(float), Schedule(20, 60, early_block=24), 0
    )
    learn_scales(kernel, blocks, np.zeros(4), np.arange(4))
    learn_map(kernel, blocks, 3, np.zeros(3))
    assert seen == 2 * (10 * [early] + 10 * [60])


def test_pairs_are_never_binary():
    """A numeric column whose ranks, or whose values in the sample, are only two."""
    Z = normal(100, 2)
    R = np.sign(Z)
    flags = 3 + (Z[:, :1] > 0.5)
    blocks = MinibatchSampler(
        np.hstack([Z, R, flags]).astype(np.float32),
        Z[:, :1],
        Schedule(5, 40),
        0,
        n_pairs=2,
    )
    np.testing.assert_array_equal(blocks.binary, [4])
    assert set(blocks.rows[:, 4]) == {0, 1}
    log_scales, _ = learn_scales("laplacian", blocks, np.zeros(5), np.arange(5))
    assert np.isfinite(log_scales).all()


def learn(
    steps=30,
    seed=0,
    kernel="laplacian",
    column_groups=(0, 1, 2, 3),
    X=None,
    size=64,
    kinds=("uniform", "near"),
):
    """Scales of rows whose first two columns matter."""
    X = normal(300, len(column_groups)) if X is None else X
    y = np.sin(2 * X[:, :1]) + X[:, 1:2]
    blocks = MinibatchSampler(X, y.astype(float), Schedule(steps, size, kinds), seed)
    return learn_scales(
        kernel, blocks, np.full(len(column_groups), -0.7), np.array(column_groups)
    )


@pytest.mark.parametrize("kernel", ["laplacian", "gaussian"])
class TestScales:
    def test_the_columns_that_matter_grow(self, kernel):
        log_scales, sizes = learn(120, kernel=kernel)
        assert log_scales[:2].min() > log_scales[2:].max() + 0.7
        assert sizes.shape == (2,)

    def test_ties(self, kernel):
        """A column that matters takes along the one that it is tied to."""
        log_scales, _ = learn(120, kernel=kernel, column_groups=(1, 0, 1, 2))
        assert log_scales[0] == log_scales[2]
        assert log_scales[0] > log_scales[3] + 1

    def test_seeds(self, kernel):
        one, again, other = (
            learn(kernel=kernel),
            learn(kernel=kernel),
            learn(kernel=kernel, seed=1),
        )
        for a, b in zip(one, again, strict=True):
            np.testing.assert_array_equal(a, b)
        assert not np.array_equal(one[0], other[0])

    def test_columns_that_are_constant_in_a_block_are_passed_over(
        self, kernel, monkeypatch
    ):
        """Without them the loss is the same: here one row in 10 has another value."""
        X, seen, loss = normal(300, 4), [], metric_learning.diagonal_loss
        X[:, 3] = np.arange(300) % 10 == 0

        def spy(kernel, block, space, log_scales, log_noise):
            seen.append(len(block.B))
            assert (np.ptp(block.B, axis=1) > 0).all()
            assert len(log_scales) == len(block.B)
            return loss(kernel, block, space, log_scales, log_noise)

        monkeypatch.setattr(metric_learning, "diagonal_loss", spy)
        learn(40, kernel=kernel, X=X, size=20)
        assert set(seen) == {3, 4}

    def test_a_block_of_equal_rows_tells_nothing(self, kernel):
        log_scales, sizes = learn(
            4, kernel=kernel, X=np.zeros((100, 4), np.float32), size=20
        )
        np.testing.assert_array_equal(log_scales, -0.7)
        np.testing.assert_array_equal(sizes, 0)

    def test_within_bounds(self, kernel):
        """Columns that tell nothing of a target are switched off, but no further
        than that.
        """
        X = normal(200, 4)
        blocks = MinibatchSampler(
            X, normal(200, 1, seed=5).astype(float), Schedule(300, 32, ("uniform",)), 0
        )
        log_scales, _ = learn_scales(kernel, blocks, np.full(4, -8.9), np.arange(4))
        assert np.all((log_scales >= -9) & (log_scales <= 9))


@pytest.mark.parametrize("kernel", ["laplacian", "gaussian"])
class TestMap:
    def learn(self, kernel, steps=20, seed=0, kinds=("uniform", "near")):
        X = normal(400, 4)
        y = np.sin(2 * (X[:, :1] + X[:, 1:2])).astype(float)
        blocks = MinibatchSampler(X, y, Schedule(steps, 96, kinds), seed)
        linear, sizes = learn_map(kernel, blocks, 3, np.zeros(len(kinds)))
        assert sizes.shape == (len(kinds),)
        return linear

    def test_the_direction_that_matters_grows(self, kernel):
        A = self.learn(kernel, 150)
        assert A.shape == (3, 3)
        along, across = A @ [1, 1, 0], A @ [1, -1, 0]
        assert np.abs(along).sum() > 3 * np.abs(across).sum()
        assert np.abs(along).sum() > 3 * np.abs(A[:, 2]).sum()

    def test_seeds(self, kernel):
        one = self.learn(kernel)
        np.testing.assert_array_equal(one, self.learn(kernel))
        assert not np.array_equal(one, self.learn(kernel, seed=1))
        assert not np.array_equal(one, self.learn(kernel, kinds=("uniform",)))
