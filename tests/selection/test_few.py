"""One lengthscale for few rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_softmax
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_wine,
    make_friedman1,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bochner import KernelMachineClassifier, KernelMachineRegressor, load, save
from bochner.data.array_source import ArraySource
from bochner.data.hashes import row_hashes, uniform
from bochner.kernels import Gaussian, Laplacian
from bochner.kernels.catalogue import NAMED
from bochner.selection.choose import choose
from bochner.selection.few_rows import (
    LengthscaleSearch,
    _cross_chosen,
    best_losses,
    choose_for_few,
)
from bochner.selection.lengthscale import COMMON_UNIT, SCALED
from bochner.selection.policy import POLICY


def circle(n=80, seed=0, K=2):
    """Classes by the distance from the origin, targets of -1 and 1."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = np.digitize(
        np.linalg.norm(X, axis=1) + 0.1 * rng.standard_normal(n),
        np.linspace(0.8, 1.8, K - 1),
    )
    return X, np.where(y[:, None] == np.arange(K), 1.0, -1.0)[:, 1 if K == 2 else 0 :]


def chosen(X, y, name="auto", column_units=None, alphas=None, weight=None):
    source = ArraySource(X, y, weight)
    return choose_for_few(source, name, column_units, alphas, True, POLICY.few_rows, 0)


def test_rows_that_tell_nothing_of_many_classes_have_a_machine():
    """Their likelihood is some exp(-600), the square of which is no number."""
    y = np.arange(240) % 12
    X = np.random.default_rng(0).normal(size=(240, 3))
    model = KernelMachineClassifier(random_state=0).fit(X, y)
    found = model.predict_proba(np.random.default_rng(1).normal(size=(200, 3)))
    assert found.max() < 0.3


class TestLosses:
    @pytest.mark.parametrize("K", [2, 3, 10])
    def test_against_softmax(self, K):
        rng = np.random.default_rng(0)
        scores, weight = rng.standard_normal((4, 30, K)), rng.random(30)
        truth = rng.dirichlet(np.ones(K), 30)
        f = np.clip(scores, -2, 2)
        slopes = [
            first * 2**k for first in (1, 1.5) for k in range(POLICY.few_doublings)
        ]
        each = np.array(
            [-(truth * log_softmax(slope * f, axis=2)).sum(axis=2) for slope in slopes]
        )
        best = (each @ weight).argmin(axis=0)
        np.testing.assert_allclose(
            best_losses(scores, truth, weight), each[best, np.arange(4)], rtol=1e-12
        )

    @pytest.mark.parametrize("is_classifier", [True, False])
    def test_choices_without_a_tenth_of_the_rows(self, is_classifier):
        """A row's prediction is by the trial of the greatest posterior weight given the
        rows of other tenths alone.
        """
        X, y = circle(25, K=3)
        weight = np.random.default_rng(1).uniform(0.5, 2, 25)
        rows = ArraySource(X, y, weight).whole()
        alphas = np.geomspace(0.01, 3, 6)
        way = LengthscaleSearch(
            rows, "gaussian", SCALED, np.ones(2), X.std(axis=0), alphas, is_classifier
        )
        trials = [way.trial(power) for power in range(-3, 4)]
        fold, share = np.empty(25, int), weight / weight.sum()
        fold[np.argsort(uniform(row_hashes(X), 0))] = np.arange(25) * 10 // 25
        expected = np.empty_like(y)
        for k in range(10):
            others, tried = fold != k, {}
            for trial in trials:
                prior = (
                    -(((trial.power - POLICY.few_power[0]) / POLICY.few_power[1]) ** 2)
                    / 2
                )
                for losses, predicted in zip(
                    trial.losses, trial.predicted, strict=True
                ):
                    likelihood = -25 * (share[others] @ losses[others])
                    if not is_classifier:
                        # Normal errors of three outputs with the variance that fits
                        errors = np.square(y - predicted).sum(axis=1)[others]
                        variance = np.average(errors / 3, weights=weight[others])
                        n_others = 25 * share[others].sum()
                        # Their mean log density is minus the entropy
                        entropy = np.log(2 * np.pi * np.e * variance) / 2
                        likelihood = -3 * n_others * entropy
                    tried[prior + likelihood] = predicted
            expected[~others] = tried[max(tried)][~others]
        np.testing.assert_array_equal(_cross_chosen(trials, way).predicted, expected)

    def test_of_one_score_for_two_classes(self):
        scores, truth = (
            np.random.default_rng(0).standard_normal((2, 9, 1)),
            np.tile([[0.9, 0.1]], (9, 1)),
        )
        both = np.concatenate([-scores, scores], axis=2)
        np.testing.assert_array_equal(
            best_losses(scores, truth, np.ones(9)), best_losses(both, truth, np.ones(9))
        )

    def test_leave_one_out_by_refits(self):
        """A trial's scores are those of machines fitted without the row, weights and
        all.
        """
        X, y = circle(25, K=3)
        weight = np.random.default_rng(1).uniform(0.5, 2, 25)
        rows = ArraySource(X, y, weight).whole()
        way = LengthscaleSearch(
            rows, "gaussian", SCALED, np.ones(2), X.std(axis=0), np.array([0.3])
        )
        left = np.empty_like(y)
        for i in range(25):
            others = np.arange(25) != i
            share = weight[others] / weight[others].sum()
            root = np.sqrt(weight[others])[:, None]
            K = way.kernel(1.0)(X)
            mean = share @ K[others]
            centred = (
                K
                - mean
                - (K[:, others] @ share)[:, None]
                + share @ K[np.ix_(others, others)] @ share
            )
            dual = KernelRidge(alpha=0.3, kernel="precomputed")
            dual.fit(
                centred[np.ix_(others, others)] * root * root.T,
                (y[others] - share @ y[others]) * root,
            )
            left[i] = (
                share @ y[others] + centred[i, others] * root[:, 0] @ dual.dual_coef_
            )
        expected = best_losses(left[np.newaxis], way.probabilities, weight)
        np.testing.assert_allclose(way.trial(1.0).losses, expected, rtol=1e-8)


class TestChoice:
    def test_longer_waves_longer_lengthscales(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (200, 1))
        scales = [
            chosen(X, np.sign(np.sin(f * X))).kernel.lengthscale
            for f in (40.0, 24.0, 12.0)
        ]
        assert scales[0] < scales[1] < scales[2]

    def test_moves_with_the_unit(self):
        X, y = circle()
        assert chosen(8 * X, y).kernel.lengthscale == pytest.approx(
            8 * chosen(X, y).kernel.lengthscale
        )

    def test_noise_asks_for_a_larger_ridge_term(self):
        X, y = circle(150)
        flipped = np.where(np.random.default_rng(1).random(y.shape) < 0.2, -y, y)
        assert chosen(X, flipped).alpha_per_weight > chosen(X, y).alpha_per_weight

    @pytest.mark.parametrize("name", NAMED)
    def test_every_name(self, name):
        X, y = circle(30)
        assert type(chosen(X, y, name).kernel) is type(NAMED[name]())

    def test_weights_are_repeats_and_only_their_ratios_matter(self):
        X, y = circle(K=3)
        repeats = np.random.default_rng(1).integers(0, 4, len(X))
        weighted = chosen(X, y, weight=repeats.astype(float))
        repeated = chosen(np.repeat(X, repeats, axis=0), np.repeat(y, repeats, axis=0))
        scaled = chosen(X, y, weight=1e-3 * repeats)
        for other in (repeated, scaled):
            assert weighted.kernel.lengthscale == pytest.approx(
                other.kernel.lengthscale
            )
            assert weighted.alpha_per_weight == pytest.approx(other.alpha_per_weight)

    def test_sparse_is_dense(self):
        X, y = circle()
        X = np.where(np.abs(X) > 0.7, X, 0.0)
        assert chosen(sp.csr_array(X), y).kernel.lengthscale == pytest.approx(
            chosen(X, y).kernel.lengthscale
        )

    def test_common_unit_where_columns_are_alike(self):
        """Faint noise in the same unit had better stay faint."""
        rng = np.random.default_rng(0)
        X, y = circle(100)
        X = np.hstack([X, 0.05 * rng.standard_normal((100, 30))])
        scales = X.std(axis=0)
        found = chosen(X / scales, y, column_units=scales)
        assert found.report.chosen == COMMON_UNIT
        np.testing.assert_allclose(
            found.kernel.lengthscale * scales, found.kernel.lengthscale[0] * scales[0]
        )

    def test_laplacian_kernel_where_numbers_are_names(self):
        """Codes of categories, whose order says nothing: the classes of 200 new rows."""
        rng = np.random.default_rng(0)
        X = rng.integers(0, 12, (400, 4)).astype(float)
        scores = rng.standard_normal((4, 12))[np.arange(4), X.astype(int)].sum(axis=1)
        y = np.where(scores > 0, 1, 0)
        by_kernel = {
            kernel: KernelMachineClassifier(kernel, random_state=0).fit(
                X[:200], y[:200]
            )
            for kernel in ("auto", "gaussian")
        }
        assert by_kernel["auto"].report_.chosen == f"{COMMON_UNIT}, laplacian kernel"
        shares = {
            kernel: model.score(X[200:], y[200:]) for kernel, model in by_kernel.items()
        }
        assert shares["auto"] > shares["gaussian"] + 0.02

    def test_given_ridge_terms(self):
        X, y = circle()
        found = chosen(X, y, alphas=np.array([0.1, 1.0]))
        assert found.alpha_per_weight == 0
        assert found.report.criterion == "log loss"

    @pytest.mark.parametrize(
        ("X", "y"),
        [
            (np.zeros((50, 2)), np.tile([[1.0], [-1.0]], (25, 1))),
            (np.random.default_rng(0).standard_normal((50, 2)), np.ones((50, 1))),
            (
                np.random.default_rng(0).standard_normal((4, 2)),
                np.array([[1.0], [-1.0], [1.0], [-1.0]]),
            ),
            (
                np.random.default_rng(0).standard_normal((251, 2)),
                np.tile([[1.0]], (251, 1)) * np.sign(np.arange(251) - 9.5)[:, None],
            ),
        ],
        ids=["equal rows", "one class", "four rows", "too many rows"],
    )
    def test_nothing_to_choose(self, X, y):
        assert chosen(X, y) is None


class TestMachine:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("load_data", "scaled", "n"),
        [
            (load_digits, False, 100),
            (load_digits, False, 200),
            (load_breast_cancer, True, 200),
            (load_wine, True, 100),
        ],
    )
    def test_as_good_as_a_support_vector_machine(self, load_data, scaled, n):
        """Means of a few draws; the benchmarks have 20."""
        X, y = load_data(return_X_y=True)
        peer = SVC(C=10, gamma="scale")
        peer = make_pipeline(StandardScaler(), peer) if scaled else peer
        ours, theirs = [], []
        for train, test in StratifiedShuffleSplit(
            6, train_size=n, test_size=len(y) - n, random_state=0
        ).split(X, y):
            model = KernelMachineClassifier(random_state=0).fit(X[train], y[train])
            ours.append(model.score(X[test], y[test]))
            theirs.append(peer.fit(X[train], y[train]).score(X[test], y[test]))
        assert np.mean(ours) >= np.mean(theirs) - 0.002

    @pytest.mark.slow
    def test_races_learned_metrics_of_more_rows(self):
        """Images, whose pixels count alike, take the exact machine; a product of two
        columns among twenty takes a learned metric.
        """
        X, y = load_digits(return_X_y=True)
        model = KernelMachineClassifier(random_state=0).fit(X[:400], y[:400])
        assert model.report_.chosen == "one lengthscale"
        assert model.solver_ == "exact"
        assert len(model.features_.rows_) == 400
        peer = SVC(C=10, gamma="scale").fit(X[:400], y[:400])
        assert model.score(X[400:], y[400:]) > peer.score(X[400:], y[400:]) - 0.01
        curve = model.report_.rows
        assert curve.losses[0] > curve.losses[2]
        X = np.random.default_rng(0).standard_normal((1600, 20))
        y = X[:, 0] * X[:, 1] > 0
        model = KernelMachineClassifier(random_state=0).fit(X[:400], y[:400])
        assert "learned" in model.report_.chosen
        assert model.score(X[400:], y[400:]) > 0.8

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "options",
        [
            {"solver": "direct"},
            {"n_components": 64},
            {"loss": "logistic"},
            {"alpha": 0.1},
            {"alpha": "gcv"},
            {"metric": "ard"},
            {"cv": 3},
        ],
    )
    def test_rows_are_not_kept_where_more_is_asked(self, options):
        X, y = load_digits(return_X_y=True)
        model = KernelMachineClassifier(random_state=0, **options)
        assert model.fit(X[:300], y[:300]).solver_ != "exact"

    @pytest.mark.slow
    @pytest.mark.parametrize(("n", "most"), [(40, 1.1), (160, 1.0)])
    def test_as_good_as_a_gaussian_process(self, n, most):
        """Numbers: means of a few draws against the greatest marginal likelihood."""
        X, y = make_friedman1(600, noise=1.0, random_state=0)
        kernel = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(1.0)
        process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
        peer = make_pipeline(StandardScaler(), process)
        splits = ShuffleSplit(6, train_size=n, test_size=600 - n, random_state=0)
        ours, theirs = [], []
        for train, test in splits.split(X):
            model = KernelMachineRegressor(random_state=0).fit(X[train], y[train])
            ours.append(model.score(X[test], y[test]))
            theirs.append(peer.fit(X[train], y[train]).score(X[test], y[test]))
        assert 1 - np.mean(ours) <= most * (1 - np.mean(theirs))

    def test_is_the_exact_machine(self, tmp_path):
        X, y = load_digits(return_X_y=True)
        model = KernelMachineClassifier(random_state=0).fit(X[:150], y[:150])
        assert model.solver_ == "exact"
        assert "so few rows" in model.solver_reason_
        assert isinstance(model.kernel_, Gaussian)
        assert model.report_.chosen in (SCALED, COMMON_UNIT)
        assert "log loss" in str(model.report_)
        encoded = model.encoder_.transform(X)
        alpha = model.alpha_
        kernel = Gaussian(model.kernel_.lengthscale)  # of encoded rows
        same = KernelMachineClassifier(kernel, alpha=alpha, solver="exact").fit(
            encoded[:150], y[:150]
        )
        np.testing.assert_allclose(
            model.decision_function(X), same.decision_function(encoded), atol=1e-6
        )
        save(model, tmp_path / "model.safetensors")
        np.testing.assert_array_equal(
            load(tmp_path / "model.safetensors").predict_proba(X),
            model.predict_proba(X),
        )

    @pytest.mark.parametrize(
        ("options", "solver", "size"),
        [
            ({"features": "fourier"}, "direct", POLICY.n_components[1]),
            ({"n_components": 64}, "direct", 64),
            ({"solver": "direct"}, "direct", POLICY.n_components[1]),
            ({"solver": "cg", "n_components": 100}, "cg", 100),
            ({"alpha": "loo"}, "direct", POLICY.n_components[1]),
            ({"alpha": [0.1, 1.0]}, "exact", 120),
            ({"solver": "exact"}, "exact", 120),
        ],
    )
    def test_what_is_asked_for(self, options, solver, size):
        X, y = load_digits(return_X_y=True)
        model = KernelMachineClassifier(**options, random_state=0).fit(X[:120], y[:120])
        assert (model.solver_, model.features_.n_features_out) == (solver, size)
        assert model.score(X[120:], y[120:]) > 0.7

    @pytest.mark.slow
    def test_bins_and_given_kernels_are_left_alone(self):
        X, y = load_digits(return_X_y=True)
        for options in ({"features": "binning"}, {"kernel": Laplacian(300.0)}):
            assert (
                KernelMachineClassifier(**options, random_state=0)
                .fit(X[:120], y[:120])
                .report_
                is None
            )


def test_rows_that_are_too_long_to_choose_again(policy):
    """The lengthscale stays that of the rows to fit, of which there are fewer."""
    policy(final_entries=340 * 64)
    X, y = load_digits(return_X_y=True)
    model = KernelMachineClassifier(random_state=0).fit(X[:400], y[:400])
    assert model.report_.chosen == "one lengthscale"
    assert len(model.features_.rows_) == 400
    assert model.score(X[400:], y[400:]) > 0.92


def test_a_short_limit_tries_what_is_preferred_alone():
    X, y = circle(100)
    model = KernelMachineClassifier(random_state=0, time_limit=1e-3)
    assert len(model.fit(X, y[:, 0] > 0).report_.candidates) == 1
    model.set_params(time_limit=60)
    assert len(model.fit(X, y[:, 0] > 0).report_.candidates) == 4


@pytest.mark.parametrize("machine", [KernelMachineRegressor, KernelMachineClassifier])
def test_a_refit_to_many_rows_has_random_features(machine, policy):
    """Of the same kernel; that of few rows stays exact, as where it is asked for."""
    policy(folded_rows=300)
    X, y = circle(1000)
    y = (y[:, 0] > 0).astype(int)
    model = machine(random_state=0).fit(X[:100], y[:100])
    kernel = model.kernel_
    assert model.refit(X[:200], y[:200]).solver_ == "exact"
    assert model.refit(X[:800], y[:800]).solver_ == "direct"
    assert repr(model.features_.kernel) == repr(kernel)
    asked = machine(solver="exact", random_state=0).fit(X[:100], y[:100])
    assert asked.refit(X[:800], y[:800]).solver_ == "exact"
    ours, theirs = (one.predict(X[800:]) for one in (model, asked))
    assert np.mean(np.abs(ours - theirs)) < 0.1 * y.std()


def test_many_targets_have_random_features():
    """Predictions of all trials would not fit in memory."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    Y = np.sin(X @ rng.standard_normal((2, 20)))
    assert KernelMachineRegressor(random_state=0).fit(X, Y).solver_ == "direct"
    assert KernelMachineRegressor(random_state=0).fit(X, Y[:, :3]).solver_ == "exact"


@pytest.mark.slow
def test_numbers_have_lengthscales_of_each_column_where_these_are_better():
    """Of many columns that say nothing one lengthscale learns little; of columns that
    all count alike it is as good, and nothing is lost by others.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2200, 20))
    few = KernelMachineRegressor(metric="isotropic", random_state=0)
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(2200)
    model = KernelMachineRegressor(random_state=0).fit(X[:200], y[:200])
    ours = 1 - model.score(X[200:], y[200:])
    theirs = 1 - few.fit(X[:200], y[:200]).score(X[200:], y[200:])
    assert ours < 0.5 * theirs
    # All columns alike; and too few rows
    alike = np.sin(X[:, :3]).sum(axis=1) + 0.3 * rng.standard_normal(2200)
    scores = [
        model.fit(X[:150, :3], alike[:150]).score(X[150:, :3], alike[150:])
        for model in (KernelMachineRegressor(random_state=0), few)
    ]
    assert scores[0] > scores[1] - 0.02
    assert KernelMachineRegressor().fit(X[:99], y[:99]).solver_ == "exact"


@pytest.mark.slow
@pytest.mark.parametrize("d", [10, 8300])
def test_metrics_of_very_many_columns_are_not_learned_from_few_rows(d, monkeypatch):
    problems = []

    def chosen(problem):
        problems.append(problem)
        return choose(problem)

    monkeypatch.setattr("bochner.estimators.machine.choose", chosen)
    X = np.random.default_rng(0).standard_normal((120, d))
    model = KernelMachineRegressor(random_state=0).fit(X, X[:, 0])
    assert len(problems) == (d == 10)
    assert d == 10 or model.solver_ == "exact"
