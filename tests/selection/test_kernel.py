"""What is chosen from the data."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_score

from bochner import (
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
)
from bochner.data.array_source import ArraySource
from bochner.kernels import Gaussian, Laplacian
from bochner.kernels.catalogue import NAMED
from bochner.selection.budget import Budget, choose_n_components
from bochner.selection.lengthscale import (
    KernelScores,
    choose_kernel,
    common_unit_lengths,
)
from bochner.selection.policy import POLICY

SMALLEST, LARGEST = POLICY.n_components
STEP, FARTHEST = POLICY.step, POLICY.most_steps


def smooth(n=300, d=2, frequency=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, (np.sin(frequency * X[:, 0]) + 0.1 * rng.standard_normal(n))[:, None]


def chosen(
    X,
    y,
    name="gaussian",
    column_units=None,
    alphas=None,
    weight=None,
    seed=0,
    binned=False,
):
    return choose_kernel(
        ArraySource(X, y, weight), name, column_units, alphas, seed, binned
    )


class TestSize:
    def test_grows_with_the_rows_and_stops(self):
        assert choose_n_components(1) == SMALLEST
        assert choose_n_components(300) == 600
        assert choose_n_components(500_000) <= LARGEST
        sizes = [choose_n_components(n) for n in (10, 100, 1000, 1024, 100_000)]
        assert sizes == sorted(sizes)
        assert sizes[-1] == LARGEST

    def test_bounds_the_work(self):
        for n in (10**5, 10**6, 3 * 10**6):
            D = choose_n_components(n)
            assert n * D**2 <= 1.01 * 2e12 or D == LARGEST
        assert choose_n_components(10**9) == 512

    @pytest.mark.parametrize("n", [1, 64.3, 77, 1001, 12345.6, 7e6])
    def test_is_even(self, n):
        D = choose_n_components(n)
        assert D % 2 == 0
        assert isinstance(D, int)


class TestKernel:
    def test_longer_waves_longer_lengthscales(self):
        scales = [chosen(*smooth(frequency=f)).lengthscale for f in (8.0, 2.0, 0.3)]
        assert scales[0] < scales[1] < scales[2]

    def test_goes_to_the_better_side(self):
        """Where lengthscales either side of the usual one are better."""
        losses = {-2: 0.3, -1: 0.1, 0: 1.0, 1: 0.9, 2: 0.95, 4: 2.0, -4: 2.0, -8: 2.0}

        class Scores(KernelScores):
            def _score(self, kernel):
                power = np.log(kernel.lengthscale / np.sqrt(2)) / np.log(1.5)
                return losses[round(float(power))]

        X, y = smooth()
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        scores = Scores(ArraySource(X, y), 300, 16, None, 0, False, Budget())
        assert scores.search("gaussian", np.ones(2), (0, -4, 4, -8)) == -1

    def test_moves_with_the_unit(self):
        """A lengthscale is a length: it multiplies as the columns do. Powers of two
        change no rounding.
        """
        X, y = smooth()
        assert chosen(8 * X, y).lengthscale == 8 * chosen(X, y).lengthscale

    def test_is_a_step_from_the_spread(self):
        X, y = smooth()
        power = np.log(
            chosen(X, y).lengthscale / np.linalg.norm(X.std(axis=0))
        ) / np.log(STEP)
        assert abs(power - round(power)) < 1e-9
        assert abs(power) <= FARTHEST + 1

    @pytest.mark.parametrize("name", NAMED)
    def test_every_name(self, name):
        kernel = chosen(*smooth(100), name)
        assert type(kernel) is type(NAMED[name]())
        assert {k: v for k, v in kernel.get_params().items() if k != "lengthscale"} == {
            k: v for k, v in NAMED[name]().get_params().items() if k != "lengthscale"
        }

    def test_kernels_that_bins_cannot_have(self):
        with pytest.raises(ValueError, match="FourierFeatures"):
            chosen(*smooth(20), "gaussian", binned=True)

    @pytest.mark.slow
    def test_auto_takes_the_better_one(self):
        X, y = smooth(400)
        assert isinstance(chosen(X, y, "auto"), Gaussian)
        rng = np.random.default_rng(0)
        corners = (
            np.sign(X[:, :1])
            + np.abs(X[:, 1:]) * np.sign(X[:, 1:])
            + 0.1 * rng.standard_normal((400, 1))
        )
        assert isinstance(chosen(X, corners, "auto"), Laplacian)

    def test_keeps_a_common_unit_where_that_is_better(self):
        """Two columns matter, eighteen are faint noise in the same unit, which
        scaling would make as loud.
        """
        rng = np.random.default_rng(0)
        X = np.column_stack(
            [rng.standard_normal((300, 2)), 0.01 * rng.standard_normal((300, 18))]
        )
        y = np.sin(2 * X[:, :1]) + X[:, 1:2] ** 2
        scales = X.std(axis=0)
        kernel = chosen(X / scales, y, column_units=scales)
        ratio = kernel.lengthscale * scales
        np.testing.assert_allclose(
            ratio, ratio[0]
        )  # one lengthscale in the unit of the input
        assert np.ndim(chosen(X / scales, y).lengthscale) == 0

    def test_weights_are_repeats(self):
        X, y = smooth(100)
        repeats = np.random.default_rng(1).integers(0, 4, 100)
        weighted = chosen(X, y, weight=repeats.astype(float))
        repeated = chosen(np.repeat(X, repeats, axis=0), np.repeat(y, repeats, axis=0))
        assert weighted.lengthscale == pytest.approx(repeated.lengthscale)

    def test_sparse_is_dense(self):
        X, y = smooth(100)
        X = np.where(np.abs(X) > 0.7, X, 0.0)
        assert chosen(sp.csr_array(X), y).lengthscale == pytest.approx(
            chosen(X, y).lengthscale
        )

    def test_given_alphas_count(self):
        X, y = smooth()
        # Next to no smoothing by alpha asks for a longer lengthscale than the freedom
        # to smooth by it.
        assert (
            chosen(X, y, alphas=np.array([1e-6])).lengthscale
            >= chosen(X, y).lengthscale
        )

    @pytest.mark.parametrize(
        "X",
        [
            np.zeros((50, 2)),
            np.ones((50, 1)),
            np.random.default_rng(0).standard_normal((4, 2)),
        ],
    )
    def test_without_anything_to_learn(self, X):
        kernel = chosen(X, np.arange(len(X), dtype=float)[:, None], "auto")
        assert isinstance(kernel, Gaussian)
        assert kernel.lengthscale > 0

    @pytest.mark.slow
    def test_on_a_sample_of_many_rows(self, policy, monkeypatch):
        policy(rounds=((100, 64), (200, 64)))
        X, y = smooth(1000, frequency=2.0)
        sample = chosen(X, y)
        assert sample == chosen(X, y)
        monkeypatch.undo()
        # Neighbours on the grid of steps, or their neighbours.
        assert (
            abs(np.log(sample.lengthscale / chosen(X, y).lengthscale))
            <= 2 * np.log(STEP) + 1e-9
        )

    @pytest.mark.parametrize(
        ("sign", "powers"),
        [(1, (-FARTHEST, -FARTHEST - 1)), (-1, (FARTHEST, FARTHEST + 1)), (0, (0,))],
    )
    def test_walk_ends_far_out(self, monkeypatch, sign, powers):
        """Where ever shorter or longer lengthscales seem better the walk stops at
        its limit; on a plain it stays.
        """
        monkeypatch.setattr(
            KernelScores, "_left_out", lambda self, kernel: sign * kernel.lengthscale
        )
        X, y = smooth(50)
        power = np.log(
            chosen(X, y).lengthscale / np.linalg.norm(X.std(axis=0))
        ) / np.log(STEP)
        assert round(power, 6) in powers


def test_a_kernel_is_scored_at_its_best_alpha():
    """By the errors of ridge regression on each row, fitted without it."""
    (X, y), kernel, alphas = smooth(40), Gaussian(1.0), np.array([1e-3, 0.1, 1e4])
    Z = FourierFeatures(kernel, 20, random_state=0).fit(X).transform(X)
    errors = [
        -cross_val_score(
            Ridge(alpha), Z, y, cv=LeaveOneOut(), scoring="neg_mean_squared_error"
        ).mean()
        for alpha in alphas
    ]
    scores = KernelScores(ArraySource(X, y), 40, 20, alphas, 0, False, Budget())
    assert scores._left_out(kernel) == pytest.approx(min(errors), rel=1e-6)


@pytest.mark.parametrize("d", [1, 10, 50])
def test_no_default_makes_every_row_a_stranger(d):
    """The pitfall of a bandwidth that makes K the identity on standardised data of
    many columns.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, d))
    y = X @ rng.standard_normal(d)
    y += 0.5 * y.std() * rng.standard_normal(200)
    for estimator, target in (
        (KernelMachineRegressor, y),
        (KernelMachineClassifier, y > 0),
    ):
        kernel = estimator(n_components=100, random_state=0).fit(X, target).kernel_
        K = kernel(X / X.std(axis=0))
        assert np.median(K[np.triu_indices(200, 1)]) > 0.05


def test_a_common_unit_of_columns_that_do_not_vary_in_the_sample():
    """They may in other rows, as pixels at the border do: small in the common unit,
    large in one of their own.
    """
    lengths = common_unit_lengths(
        np.array([2.0, 4.0, 1.0, 9.0, np.inf, np.nan]),
        np.array([0.3, 0.1, 0.0, 0.0, 0.0, 0.0]),
    )
    np.testing.assert_allclose(lengths, [2.0, 1.0, 4.0, 1.0, 1.0, 1.0])
