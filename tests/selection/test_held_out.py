"""What is chosen on rows that are held out, and the choice of the solver."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import exact
from bochner import (
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    KernelMachineRegressor,
    LinearFeatures,
)
from bochner.data.array_source import ArraySource
from bochner.data.hashes import row_hashes
from bochner.design.design import Design
from bochner.kernels import Gaussian, Laplacian
from bochner.selection.budget import Budget
from bochner.selection.policy import POLICY
from bochner.selection.split import rows_held_out
from bochner.selection.validation import (
    HeldOut,
    alphas_to_try,
    choose_penalty,
    compared,
)
from bochner.solvers.iterative import IterativeRidge

ALPHAS, SHARES = np.array(POLICY.bin_alphas), np.array(POLICY.shares)

N = 300
FOURIER = FourierFeatures(Gaussian(2.0), 40, random_state=0)
BINS = BinningFeatures(Laplacian(8.0), 30, random_state=1)
MIXED = ConcatenatedFeatures([FOURIER, BINS])
MAPS = pytest.mark.parametrize(
    "features", [FOURIER, BINS, MIXED], ids=["fourier", "bins", "mixed"]
)


def rows(n=N, K=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, np.sin(X @ rng.standard_normal((3, K))) + 0.3 * rng.standard_normal(
        (n, K)
    )


def ridge_on(features, X, Y, weight=None):
    drawn = clone(features).draw(X.shape[1])
    drawn.fit_sample(X, np.ones(X.shape[0]))
    return IterativeRidge(Design(ArraySource(X, Y, weight), drawn, np.float64), seed=0)


def held_on(features, X, Y, weight=None):
    return HeldOut(ridge_on(features, X, Y, weight), seed=0)


def matrix(ridge):
    """Features of all rows, from those that are held."""
    identity = np.eye(ridge.edges[-1])
    return np.vstack([block.features.forward(identity).T for block in ridge.blocks])


def validated(held):
    """Masks of the rows that are held out at a time."""
    return [fold.held_out for fold in held.folds]


@pytest.fixture
def one_fold(policy):
    policy(folded_rows=0)


class TestFolds:
    @pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 11, 300])
    def test_few_rows_are_all_held_out_in_turn(self, n):
        held = held_on(FOURIER, *rows(n))
        np.testing.assert_array_equal(np.sum(validated(held), axis=0), 1)
        sizes = [mask.sum() for mask in validated(held)]
        assert len(sizes) <= 5
        assert max(sizes) <= -(-n // 5)

    @pytest.mark.parametrize(("n", "size"), [(5_001, 1_000), (60_000, 10_000)])
    def test_of_many_rows_a_fifth_and_about_10000_at_most(self, n, size):
        held = held_on(LinearFeatures(), *rows(n))
        (mask,) = validated(held)
        assert abs(mask.sum() - size) < 4 * np.sqrt(size)
        assert len(held._rows[0].y) == mask.sum()

    def test_neither_order_nor_other_rows_matter(self):
        """What a row holds decides whether it is held out, so that parts of the data
        can be asked one by one.
        """
        X = rows(20_000)[0].astype(np.float32)
        order, hashes = np.random.default_rng(1).permutation(20_000), row_hashes(X)
        mask = rows_held_out(hashes, np.ones(20_000), 0)
        np.testing.assert_array_equal(
            rows_held_out(row_hashes(X[order]), np.ones(20_000), 0), mask[order]
        )
        np.testing.assert_array_equal(row_hashes(sp.csr_array(X)), hashes)
        assert 0.1 < np.mean(mask[rows_held_out(hashes, np.ones(20_000), 1)]) < 0.3

    def test_a_seed_holds_out_its_own_rows(self, one_fold):
        X, Y = rows()
        ridge = ridge_on(FOURIER, X, Y)
        masks = [validated(HeldOut(ridge, seed))[0] for seed in range(3)]
        for seed, mask in enumerate(masks):
            np.testing.assert_array_equal(
                mask, rows_held_out(row_hashes(X), np.ones(N), seed)
            )
        assert not np.array_equal(masks[0], masks[1])
        assert not np.array_equal(masks[1], masks[2])

    @pytest.mark.parametrize("copies", [1, 2, 7])
    def test_equal_rows_are_held_out_together(self, copies, policy):
        X, Y = rows(100)
        for few in (5_000, 0):
            policy(folded_rows=few)
            held = held_on(FOURIER, np.tile(X, (copies, 1)), np.tile(Y, (copies, 1)))
            for mask in validated(held):
                np.testing.assert_array_equal(
                    mask.reshape(copies, 100), np.tile(mask[:100], (copies, 1))
                )
            assert (
                validated(held)[0].sum() == 20 * copies
                if few
                else 5 * copies <= validated(held)[0].sum() <= 40 * copies
            )

    def test_all_rows_equal(self):
        Y = rows()[1]
        assert held_on(FOURIER, np.ones((N, 3)), Y).folds == []
        weight = np.zeros(N)
        weight[7] = 1
        assert held_on(FOURIER, rows()[0], Y, weight).folds == []
        model = KernelMachineRegressor(features="binning", random_state=0).fit(
            np.ones((N, 3)), Y[:, 0]
        )
        np.testing.assert_allclose(model.predict(np.ones((1, 3))), Y.mean(), rtol=1e-12)
        assert model.alpha_scores_ is None

    @pytest.mark.parametrize("n", [300, 6000])
    def test_rows_of_weight_zero_are_as_none(self, n):
        X, Y = rows(n)
        weight = np.random.default_rng(1).integers(0, 3, n).astype(float)
        kept = weight > 0
        held, alone = (
            held_on(FOURIER, X, Y, weight),
            held_on(FOURIER, X[kept], Y[kept], weight[kept]),
        )
        for mask, expected in zip(validated(held), validated(alone), strict=True):
            assert not mask[~kept].any()
            np.testing.assert_array_equal(mask[kept], expected)


class TestScores:
    def test_of_noise_are_no_better_than_the_mean(self):
        """Each row is there three times: were a copy of a held-out row fitted, its
        target would be known.

        Of 200 independent targets, the held-out error over the variance deviates by
        sqrt(2 / 200) = 0.1.
        """
        rng = np.random.default_rng(0)
        X, Y = rng.standard_normal((200, 2)), rng.standard_normal((200, 1))
        features = FourierFeatures(Gaussian(0.3), 600, random_state=0)
        held = held_on(features, np.tile(X, (3, 1)), np.tile(Y, (3, 1)))
        scores = held.scores(np.array([[1e-6], [1e-2]])) / Y.var()
        assert np.all(scores >= 1 - 5 * 0.1)
        assert (
            np.mean(
                (
                    matrix(held.ridge)
                    @ exact.ridge(matrix(held.ridge), np.tile(Y, (3, 1)), 1e-6)[0]
                )
                ** 2
            )
            > 0.5
        )

    @MAPS
    @pytest.mark.parametrize("K", [1, 2])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_predictions_are_those_of_a_fit_without_the_rows(
        self, features, K, weighted
    ):
        """Solved to 1e-12 in the norm of the matrix, of condition number 300 / 0.5."""
        X, Y = rows(K=K)
        weight = (
            np.random.default_rng(1).integers(0, 3, N).astype(float)
            if weighted
            else None
        )
        held = held_on(features, X, Y, weight)
        Z = matrix(held.ridge)
        w = np.ones(N) if weight is None else weight
        penalty = np.full(len(held.ridge.maps), 0.5)
        n_iter, held_out_predictions, separate, _, error, *_ = held.solve(
            penalty, 1e-12
        )
        coefs = []
        start = 0
        for mask in validated(held):
            coef, intercept = exact.ridge(Z, Y, 0.5, w * ~mask)
            coefs.append(coef.T)
            part = slice(start, start + mask.sum())
            np.testing.assert_allclose(
                held_out_predictions.predicted[part],
                Z[mask] @ coef + intercept,
                rtol=0,
                atol=1e-9,
            )
            np.testing.assert_array_equal(held_out_predictions.targets[part], Y[mask])
            np.testing.assert_array_equal(held_out_predictions.weight[part], w[mask])
            start += mask.sum()
        assert start == len(held_out_predictions.targets) == np.count_nonzero(w)
        assert n_iter == POLICY.most_iterations
        np.testing.assert_allclose(separate, coefs, rtol=0, atol=1e-9)
        assert error == 1e-12

    @MAPS
    @pytest.mark.parametrize("K", [1, 2])
    def test_are_the_held_out_errors_at_convergence(self, features, K, policy):
        """With ridge penalties so large that to stop early gains nothing, and no early
        stop.

        The solution is found to 1e-3 of its length in the norm of the matrix, which is
        at least sqrt(alpha) of its own; that times the length of a row bounds the error
        of a prediction, and of their root mean square.
        """
        policy(patience=POLICY.traced_iterations)
        X, Y = rows(K=K)
        held = held_on(features, X, Y)
        Z = matrix(held.ridge)
        alphas = np.array([20.0, 100.0])
        found = np.sqrt(
            held.scores(np.tile(alphas[:, None], (1, len(held.ridge.maps))))
        )
        for alpha, root in zip(alphas, found, strict=True):
            squares, bound = 0.0, 0.0
            for mask in validated(held):
                coef, intercept = exact.ridge(Z, Y, alpha, (~mask).astype(float))
                squares += ((Z[mask] @ coef + intercept - Y[mask]) ** 2).sum()
                size = np.sqrt((Y[~mask] ** 2).sum() / alpha) * 1e-3
                bound = max(
                    bound,
                    size * np.linalg.norm(Z - Z[~mask].mean(axis=0), axis=1).max(),
                )
            assert root == pytest.approx(np.sqrt(squares / N), abs=bound)
            assert bound < 0.05

    @pytest.mark.parametrize("features", [BINS, MIXED], ids=["bins", "mixed"])
    def test_the_number_of_iterations_is_the_best_that_was_traced(
        self, features, one_fold, policy
    ):
        policy(patience=POLICY.traced_iterations)
        X, Y = rows()
        held = held_on(features, X, Y)
        ridge, (mask,), Z = held.ridge, validated(held), matrix(held.ridge)
        alpha = 1e-3  # so small that it pays to stop early
        n_iter, held_out_predictions, *_ = held.trace(
            np.full(len(ridge.maps), alpha), 0.0
        )
        equations = ridge.equations(~mask)
        penalty, predictions = np.full((1, len(ridge.maps)), alpha), []
        for j in range(1, POLICY.traced_iterations + 1):
            coef = ridge.solve(equations, penalty, 0.0, j).coef
            predictions.append(Z[mask] @ coef.T + equations.intercept(coef))
        losses = [((predicted - Y[mask]) ** 2).sum() for predicted in predictions]
        assert n_iter == 1 + np.argmin(losses)
        assert 1 < n_iter < POLICY.traced_iterations
        np.testing.assert_allclose(
            held_out_predictions.predicted, predictions[n_iter - 1], rtol=0, atol=1e-9
        )
        # Another number of columns makes BLAS sum in another order.
        np.testing.assert_allclose(
            held.scores(penalty), min(losses[:15]) / mask.sum(), rtol=1e-6
        )

    def test_iterations_of_several_folds_are_their_median(self):
        ridge = ridge_on(BINS, *rows())
        folds, penalty = validated(HeldOut(ridge, 0)), np.array([1e-3])
        each = [HeldOut(ridge, 0, mask).trace(penalty, 0.0).n_iter for mask in folds]
        found = HeldOut(ridge, 0).trace(penalty, 0.0).n_iter
        assert found == sorted(each)[2]
        assert found not in (each[0], min(each), max(each))

    def test_without_time_there_are_some_iterations(self):
        """As many as those of a trial: after one, predictions are hardly fitted."""
        ridge = ridge_on(BINS, *rows())
        run = HeldOut(ridge, 0, budget=Budget(0.0)).trace(np.array([1e-3]), 0.0)
        assert run.n_done == POLICY.trial_steps

    def test_folds_count_by_their_weight(self):
        """One fold has nearly all of it, whose score is then that of all."""
        X, Y = rows()
        heavy = validated(held_on(FOURIER, X, Y))[3]
        ridge = ridge_on(FOURIER, X, Y, np.where(heavy, 1.0, 1e-6))
        penalties = np.array([[1e-7], [1e-5]])
        alone = HeldOut(ridge, 0, heavy).scores(penalties)
        np.testing.assert_allclose(
            HeldOut(ridge, 0).scores(penalties), alone, rtol=1e-4
        )

    def test_what_has_settled_is_enough(self, one_fold, monkeypatch):
        """Fewer iterations, and what they leave is a small share of what the
        predictions are wrong by.

        They have moved by a twentieth of that in the last two iterations, and each
        gains a tenth or more.
        """
        monkeypatch.setattr("bochner.selection.validation.SETTLING_STEPS", 2)
        monkeypatch.setattr("bochner.solvers.iterative.GRAM_LIMIT", 10)
        X, Y = rows()
        held, penalty = held_on(FOURIER, X, Y), np.array([0.01])
        exactly, settled = (
            held.solve(penalty, 1e-8),
            held.solve(penalty, 1e-8, settled=True),
        )
        wrong = exactly.predictions.targets - exactly.predictions.predicted
        left = settled.predictions.predicted - exactly.predictions.predicted
        assert 1e-8 < settled.error < 0.5
        assert 0 < np.linalg.norm(left) < 0.2 * np.linalg.norm(wrong)

    def test_patience_ends_it(self, one_fold):
        """On a target without noise or curvature all is found at once."""
        X, _ = rows()
        held = held_on(LinearFeatures(), X, X[:, :1])
        assert held.trace(np.array([100.0]), 0.0).n_iter <= POLICY.patience + 1

    def test_rows_of_weight_zero_are_not_scored(self):
        X, Y = rows()
        weight = np.random.default_rng(1).integers(0, 3, N).astype(float)
        far = np.where(weight[:, None] > 0, Y, 1e6)
        penalties = np.array([[0.1], [10.0]])
        expected = held_on(BINS, X, Y, weight).scores(penalties)
        np.testing.assert_allclose(
            held_on(BINS, X, far, weight).scores(penalties), expected, rtol=1e-9
        )

    def test_weights_are_repeats(self):
        X, Y = rows()
        repeats = np.random.default_rng(1).integers(1, 4, N)
        penalties = np.array([[0.1], [10.0]])
        weighted = held_on(FOURIER, X, Y, repeats.astype(float)).scores(penalties)
        repeated = held_on(
            FOURIER, np.repeat(X, repeats, axis=0), np.repeat(Y, repeats, axis=0)
        ).scores(penalties)
        # The preconditioners are of other sums of the same rows; to stop at 1e-3 moves
        # a score by twice its root.
        np.testing.assert_allclose(weighted, repeated, rtol=2 * 1e-3)

    def test_of_three_classes_are_not_those_of_their_sum(self):
        """Which is a constant. Of three orthogonal directions two are seen, and the
        third may hold a third or so.
        """
        X, y = rows()
        Y = np.where(np.digitize(y, [-0.5, 0.5]) == np.arange(3), 1.0, -1.0)
        held, penalties = held_on(BINS, X, Y), np.array([[0.1], [10.0]])
        each = np.sum(
            [held_on(BINS, X, Y[:, k : k + 1]).scores(penalties) for k in range(3)],
            axis=0,
        )
        ratio = held.scores(penalties) / each
        assert np.all((ratio > 0.3) & (ratio < 1.5 * 1.1))

    @pytest.mark.slow
    def test_of_many_outputs_are_estimated_without_bias(self, policy):
        """By two combinations, which keep the sum of squares in the mean over
        independent outputs.

        Ridge terms are so large that to stop early gains nothing.
        """
        ratios = []
        for seed in range(25):
            X, Y = rows(100, K=12, seed=seed)
            ridge, penalties = ridge_on(FOURIER, X, Y), np.array([[20.0], [100.0]])
            policy(mixtures=2)
            found = HeldOut(ridge, seed).scores(penalties)
            policy(mixtures=12)
            ratios.append(found / HeldOut(ridge, seed).scores(penalties))
        error = np.std(ratios, axis=0, ddof=1) / np.sqrt(len(ratios))
        assert np.all(np.abs(np.mean(ratios, axis=0) - 1) <= 4 * error)
        assert error.max() < 0.1

    def test_of_a_constant_target_are_zero(self):
        X, _ = rows()
        held = held_on(BINS, X, np.zeros((N, 1)))
        penalty, scores = choose_penalty(held, ALPHAS)
        np.testing.assert_array_equal(scores, 0)
        np.testing.assert_array_equal(
            penalty, ALPHAS[-1]
        )  # of equally good ones the largest
        n_iter, held_out_predictions, *_ = held.trace(penalty, 1e-2)
        assert n_iter == 1
        np.testing.assert_array_equal(held_out_predictions.predicted, 0)


class TestChoice:
    def test_candidates_of_dense_features_are_shares_of_the_trace(self):
        X, Y = rows()
        ridge = ridge_on(FOURIER, X, Y)
        Z = matrix(ridge)
        np.testing.assert_allclose(
            alphas_to_try(ridge), SHARES * N * Z.var(axis=0).sum(), rtol=1e-12
        )
        np.testing.assert_allclose(
            alphas_to_try(ridge, 7.0 * N), 7 * alphas_to_try(ridge), rtol=1e-12
        )
        assert np.all(alphas_to_try(ridge_on(FOURIER, np.ones((5, 3)), Y[:5])) > 0)

    def test_candidates_of_bins_are_in_the_unit_of_kernel_and_weights(self):
        X, Y = rows()
        for features in (BINS, MIXED):
            np.testing.assert_array_equal(
                alphas_to_try(ridge_on(features, X, Y)), ALPHAS
            )
            np.testing.assert_array_equal(
                alphas_to_try(ridge_on(features, X, Y, np.full(N, 1e-3))), ALPHAS * 1e-3
            )
        scaled = BinningFeatures(7.0 * Laplacian(8.0), 30, random_state=1)
        np.testing.assert_allclose(
            alphas_to_try(ridge_on(scaled, X, Y)), 7 * ALPHAS, rtol=1e-8
        )
        repeats = np.random.default_rng(1).integers(0, 4, N)
        repeated = ridge_on(
            BINS, np.repeat(X, repeats, axis=0), np.repeat(Y, repeats, axis=0)
        )
        weighted = ridge_on(BINS, X, Y, repeats.astype(float))
        np.testing.assert_array_equal(alphas_to_try(repeated), alphas_to_try(weighted))

    @MAPS
    def test_the_ridge_term_is_that_of_the_least_score(self, features):
        held = held_on(features, *rows())
        held.ridge.design.features.weights = [1.0, 1.0]  # given: not to be learned
        alphas = np.array([1e-3, 0.3, 1.0, 1e3])
        penalty, scores = choose_penalty(held, alphas)
        np.testing.assert_allclose(
            scores,
            held.scores(np.tile(alphas[:, None], (1, len(held.ridge.maps)))),
            rtol=1e-9,
        )
        np.testing.assert_array_equal(penalty, alphas[scores.argmin()])
        assert scores.argmin() < 3

    def test_weights_favour_the_map_that_tells_of_the_target(self):
        """One map of a kernel that sees the one column that matters, and one that
        sees noise.
        """
        X, _ = rows()
        maps = [
            FourierFeatures(Gaussian([100.0, 0.5, 0.5]), 60, random_state=0),
            FourierFeatures(Gaussian([1.0, 100.0, 100.0]), 60, random_state=1),
        ]
        y = np.sin(2 * X[:, :1]) + 0.1 * np.random.default_rng(1).standard_normal(
            (N, 1)
        )
        held = held_on(ConcatenatedFeatures(maps), X, y)
        alphas = np.array([0.1, 1.0])
        penalty, scores = choose_penalty(held, alphas)
        assert penalty[1] < penalty[0]
        assert held.scores(penalty[np.newaxis])[0] <= scores.min()

    def test_no_finite_score(self, monkeypatch):
        held = held_on(BINS, *rows())
        monkeypatch.setattr(
            held, "scores", lambda penalties: np.full(len(penalties), np.nan)
        )
        with pytest.raises(ValueError, match="No ridge penalty gives finite errors"):
            choose_penalty(held, ALPHAS)

    def test_compared_rows(self, policy):
        X, Y = rows()
        design = Design(ArraySource(X, Y), clone(BINS).draw(3), np.float64)
        assert compared(design, 0) is None
        policy(compared_rows=100)
        smaller = compared(design, 0)
        assert smaller.source.n_rows == 100
        assert smaller.features is not design.features
        np.testing.assert_array_equal(compared(design, 0).source.X, smaller.source.X)
        model = KernelMachineRegressor(features="binning", random_state=0).fit(
            X, Y[:, 0]
        )
        assert model.score(X, Y[:, 0]) > 0.5
