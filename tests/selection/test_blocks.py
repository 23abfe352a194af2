"""The held-out loss of a block of rows and its gradient: against scikit-learn, and
against differences.
"""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.kernel_ridge import KernelRidge

from bochner.selection.metric_gradient import (
    Minibatch,
    Workspace,
    diagonal_loss,
    linear_loss,
)

ROWS, FIT, P, Q = 32, 24, 5, 3
LOG_NOISE, SIZE = np.log(0.3), 0.8
KERNELS = pytest.mark.parametrize("kernel", ["laplacian", "gaussian"])
OUTPUTS = pytest.mark.parametrize("K", [1, 3])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def targets(B, K):
    return np.sin(B.T @ normal(len(B), K, seed=1)) + 0.3 * normal(B.shape[1], K, seed=2)


def space(dtype=np.float64):
    return Workspace(ROWS, FIT, dtype)


def gram(kernel, Z, fit):
    return (
        np.exp(-cdist(Z, fit, "cityblock"))
        if kernel == "laplacian"
        else np.exp(-cdist(Z, fit, "sqeuclidean") / 2)
    )


def held_out_error(kernel, Z, y, noise):
    """Mean squared error, summed over the outputs, of scikit-learn's kernel ridge
    regression with k + 1.
    """
    K = gram(kernel, Z, Z[:FIT]) + 1
    predicted = (
        KernelRidge(alpha=noise, kernel="precomputed")
        .fit(K[:FIT], y[:FIT])
        .predict(K[FIT:])
    )
    return np.square(predicted - y[FIT:]).mean(axis=0).sum()


def differences(loss, x, step=1e-5):
    """Central differences of a function of a vector."""
    ways = step * np.eye(len(x))
    return np.array([(loss(x + way) - loss(x - way)) / (2 * step) for way in ways])


@KERNELS
@OUTPUTS
class TestDiagonal:
    log_scales = np.linspace(-1.5, 0.3, P)

    def test_is_kernel_ridge_regression(self, kernel, K):
        B = normal(P, ROWS)
        y = targets(B, K)
        found = diagonal_loss(
            kernel, Minibatch(B, y), space(), self.log_scales, LOG_NOISE
        ).loss
        assert found == pytest.approx(
            held_out_error(kernel, B.T * np.exp(self.log_scales), y, 0.3), rel=1e-10
        )

    def test_gradient(self, kernel, K):
        B, work = normal(P, ROWS), space()
        y = targets(B, K)

        def loss(x):
            return diagonal_loss(kernel, Minibatch(B, y), work, x[:-1], x[-1]).loss

        x = np.append(self.log_scales, LOG_NOISE)
        own = diagonal_loss(kernel, Minibatch(B, y), work, x[:-1], x[-1])
        expected = differences(loss, x)
        np.testing.assert_allclose(own.metric, expected[:-1], rtol=1e-5, atol=1e-8)
        assert own.log_noise == pytest.approx(expected[-1], rel=1e-5)

    def test_single_precision(self, kernel, K):
        B = normal(P, ROWS)
        y = targets(B, K)
        whole = diagonal_loss(
            kernel, Minibatch(B, y), space(), self.log_scales, LOG_NOISE
        )
        half = diagonal_loss(
            kernel,
            Minibatch(B.astype(np.float32), y),
            space(np.float32),
            self.log_scales,
            LOG_NOISE,
        )
        assert half.metric.dtype == np.float64
        assert half.loss == pytest.approx(whole.loss, rel=1e-3)
        assert half.log_noise == pytest.approx(whole.log_noise, rel=1e-3)
        np.testing.assert_allclose(
            half.metric, whole.metric, rtol=1e-3, atol=1e-3 * np.abs(whole.metric).max()
        )


@KERNELS
@OUTPUTS
@pytest.mark.parametrize("q", [1, Q, P])
class TestLinear:
    """Of the first q columns of P; the others keep their scale of one."""

    def mapping(self, q):
        return 0.7 * np.eye(q) + 0.2 * normal(q, q, seed=3)

    def mapped(self, B, A):
        return SIZE * np.hstack([B[: len(A)].T @ A.T, B[len(A) :].T])

    def test_is_kernel_ridge_regression(self, kernel, K, q):
        B, A = normal(P, ROWS), self.mapping(q)
        y = targets(B, K)
        found = linear_loss(kernel, Minibatch(B, y), space(), A, SIZE, LOG_NOISE).loss
        assert found == pytest.approx(
            held_out_error(kernel, self.mapped(B, A), y, 0.3), rel=1e-10
        )

    def test_gradient(self, kernel, K, q):
        """By the entries of the map, the logarithm of the size, and that of the
        ridge penalty.
        """
        B, A, work = normal(P, ROWS), self.mapping(q), space()
        y = targets(B, K)

        def loss(x):
            return linear_loss(
                kernel,
                Minibatch(B, y),
                work,
                x[:-2].reshape(q, q),
                np.exp(x[-2]),
                x[-1],
            ).loss

        own = linear_loss(kernel, Minibatch(B, y), work, A, SIZE, LOG_NOISE)
        expected = differences(
            loss, np.concatenate([A.ravel(), [np.log(SIZE), LOG_NOISE]])
        )
        assert own.metric.shape == (q * q + 1,)
        np.testing.assert_allclose(own.metric, expected[:-1], rtol=1e-5, atol=1e-8)
        assert own.log_noise == pytest.approx(expected[-1], rel=1e-5)

    def test_single_precision(self, kernel, K, q):
        B, A = normal(P, ROWS), self.mapping(q)
        y = targets(B, K)
        whole = linear_loss(kernel, Minibatch(B, y), space(), A, SIZE, LOG_NOISE)
        half = linear_loss(
            kernel,
            Minibatch(B.astype(np.float32), y),
            space(np.float32),
            A,
            SIZE,
            LOG_NOISE,
        )
        assert half.loss == pytest.approx(whole.loss, rel=1e-3)
        np.testing.assert_allclose(
            half.metric, whole.metric, rtol=1e-3, atol=1e-3 * np.abs(whole.metric).max()
        )


@OUTPUTS
class TestColumns:
    """What is known of columns changes how distances are computed, and not what they
    are.
    """

    def block(self, K, dtype=np.float64):
        """Two pairs of columns that rise together, two loose ones, and four binary
        ones, one of them constant.
        """
        first, rng = normal(2, ROWS), np.random.default_rng(5)
        loose = normal(2, ROWS, seed=4)
        binary = np.array([[1.0], [3.0], [0.5], [0.0]]) * rng.integers(0, 2, (4, ROWS))
        B = np.concatenate(
            [first, np.arctan(first), binary[:2], loose, binary[2:]]
        ).astype(dtype)
        return Minibatch(B, targets(B, K), 2, np.array([4, 5, 8, 9]))

    def test_scales(self, K):
        block, log_scales = self.block(K), np.linspace(-1.5, 0.3, 10)
        known = diagonal_loss("laplacian", block, space(), log_scales, LOG_NOISE)
        plain = diagonal_loss(
            "laplacian", Minibatch(block.B, block.y), space(), log_scales, LOG_NOISE
        )
        assert known.loss == pytest.approx(plain.loss, rel=1e-10)
        np.testing.assert_allclose(known.metric, plain.metric, rtol=1e-8, atol=1e-12)
        assert known.metric[-1] == 0

    def test_a_map_of_columns_that_are_not_binary(self, K):
        block, A = self.block(K), normal(4, 4, seed=3)
        block = block._replace(n_pairs=0)
        known = linear_loss("laplacian", block, space(), A, SIZE, LOG_NOISE)
        plain = linear_loss(
            "laplacian", Minibatch(block.B, block.y), space(), A, SIZE, LOG_NOISE
        )
        assert known.loss == pytest.approx(plain.loss, rel=1e-10)
        np.testing.assert_allclose(known.metric, plain.metric, rtol=1e-8, atol=1e-12)

    def test_varying(self, K):
        block = self.block(K)
        B = block.B.copy()
        B[[0, 2]] = 1.0
        few, varies = block._replace(B=B).varying()
        np.testing.assert_array_equal(varies, [1, 3, 4, 5, 6, 7, 8])
        np.testing.assert_array_equal(few.B, B[varies])
        assert few.n_pairs == 1
        np.testing.assert_array_equal(few.binary, [2, 3, 6])
        B[2] = block.B[2]
        few, varies = block._replace(B=B).varying()
        np.testing.assert_array_equal(varies, range(9))  # one of a pair keeps the other
        assert few.n_pairs == 2
        whole = Minibatch(normal(P, ROWS), block.y)
        assert whole.varying()[0] is whole


def test_a_small_ridge_term_is_not_lost_in_single_precision():
    """The kernel matrix of close rows has eigenvalues below the rounding of its
    largest one.
    """
    B = (0.3 * normal(2, ROWS)).astype(np.float32)
    y = targets(B, 1)
    whole = diagonal_loss(
        "gaussian",
        Minibatch(B.astype(np.float64), y),
        space(),
        np.zeros(2),
        np.log(1e-3),
    )
    half = diagonal_loss(
        "gaussian", Minibatch(B, y), space(np.float32), np.zeros(2), np.log(1e-3)
    )
    assert half.loss == pytest.approx(whole.loss, rel=1e-2)
    np.testing.assert_allclose(half.metric, whole.metric, rtol=0.1)


def test_the_two_agree():
    """A diagonal map with entries s is the scales s."""
    B, s = normal(P, ROWS), np.linspace(0.4, 1.2, P)
    y = targets(B, 2)
    for kernel in ("laplacian", "gaussian"):
        scaled = diagonal_loss(kernel, Minibatch(B, y), space(), np.log(s), LOG_NOISE)
        mapped = linear_loss(
            kernel, Minibatch(B, y), space(), np.diag(s), 1.0, LOG_NOISE
        )
        assert mapped.loss == pytest.approx(scaled.loss, rel=1e-12)
        entries = mapped.metric[:-1].reshape(P, P)
        np.testing.assert_allclose(np.diagonal(entries) * s, scaled.metric, rtol=1e-9)
        assert mapped.metric[-1] == pytest.approx(scaled.metric.sum(), rel=1e-9)


def test_a_workspace_is_used_again():
    B, work = normal(P, ROWS), space()
    y = targets(B, 1)
    first = diagonal_loss("laplacian", Minibatch(B, y), work, np.zeros(P), LOG_NOISE)
    diagonal_loss(
        "gaussian", Minibatch(normal(P, ROWS, seed=9), y), work, np.ones(P), 0.0
    )
    again = diagonal_loss("laplacian", Minibatch(B, y), work, np.zeros(P), LOG_NOISE)
    assert again.loss == first.loss
    np.testing.assert_array_equal(again.metric, first.metric)


def test_no_loss_where_the_matrix_is_not_positive():
    """The kernel matrix of equal rows has eigenvalues of zero, which no ridge
    penalty lifts here.
    """
    B = np.zeros((P, ROWS), np.float32)
    y = normal(ROWS, 2)
    for own in (
        diagonal_loss(
            "gaussian", Minibatch(B, y), space(np.float32), np.zeros(P), -700.0
        ),
        linear_loss(
            "gaussian", Minibatch(B, y), space(np.float32), np.eye(Q), 1.0, -700.0
        ),
    ):
        assert np.isnan(own.loss)
        assert own.log_noise == 0
        np.testing.assert_array_equal(own.metric, 0)
