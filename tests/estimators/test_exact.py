"""The exact kernel machine, solver="exact"."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge

import bochner.solvers.kernel_matrix as exact_solver
from bochner import (
    BinningFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    load,
    save,
)
from bochner.data.array_source import ArraySource, Block
from bochner.design.design import Design
from bochner.estimators.ridge.exact import solve_exactly
from bochner.estimators.ridge.ridge_problem import Needs, RidgeProblem
from bochner.features import ConcatenatedFeatures, MetricFeatures
from bochner.features.nystroem import KernelRows
from bochner.kernels import Gaussian, Laplacian, Linear, Matern, Periodic
from bochner.selection import learn_metric

RNG = np.random.default_rng(0)
X, NEW = RNG.standard_normal((300, 3)), RNG.standard_normal((40, 3))
Y = np.column_stack(
    [np.sin(2 * X[:, 0]) + X[:, 1], X[:, 2] ** 2]
) + 0.1 * RNG.standard_normal((300, 2))
WEIGHT = RNG.uniform(0.1, 3.0, 300)
KERNELS = [
    Gaussian(1.5),
    Laplacian([1.0, 2.0, 3.0]),
    2.0 * Matern(2.0) + Periodic(1.0, 4.0),
    Linear(Gaussian(), X[:2]),
]


def dense(kernel, alpha, X, y, new, weight=None):
    """The saddle point system of f = b + sum c_i k(., x_i), as it stands."""
    n, weight = len(X), np.ones(len(X)) if weight is None else weight
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = kernel(X) + alpha * np.diag(1 / weight)
    system[n, :n] = system[:n, n] = 1
    c = np.linalg.solve(system, np.vstack([y, np.zeros((1, y.shape[1]))]))
    return kernel(new, X) @ c[:n] + c[n]


@pytest.fixture(params=["cholesky", "cg held", "cg again"])
def way(request, monkeypatch):
    """Each of the ways to solve."""
    if request.param != "cholesky":
        monkeypatch.setattr(exact_solver, "LARGEST_FACTORISED", 10)
        monkeypatch.setattr(exact_solver, "LANDMARKS", 50)
        monkeypatch.setattr(
            exact_solver, "STORED_SHARE", 0.6 if request.param == "cg held" else 0.0
        )
    return request.param


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
def test_truth(kernel, weight, way):
    model = KernelMachineRegressor(
        kernel, alpha=0.3, solver="exact", tol=1e-9, random_state=0
    )
    model.fit(X, Y, sample_weight=weight)
    np.testing.assert_allclose(
        model.predict(NEW), dense(kernel, 0.3, X, Y, NEW, weight), atol=1e-7
    )
    assert (model.n_iter_ is None) == (way == "cholesky")
    assert model.solver_ == "exact"


def test_scikit_learn():
    """Of targets of mean 0 in a kernel whose rows sum to the same, a circle's, there
    is no intercept to tell apart.
    """
    angle = 2 * np.pi * np.arange(100) / 100
    rows, y = np.column_stack([np.cos(angle), np.sin(angle)]), np.sin(3 * angle)
    kernel = Gaussian(0.5)
    theirs = KernelRidge(alpha=0.7, kernel="precomputed").fit(kernel(rows), y)
    ours = KernelMachineRegressor(kernel, alpha=0.7, solver="exact").fit(rows, y)
    np.testing.assert_allclose(
        ours.predict(NEW[:, :2]), theirs.predict(kernel(NEW[:, :2], rows)), atol=1e-12
    )


def test_is_the_limit_of_many_features():
    options = {"kernel": Gaussian(1.5), "alpha": 1.0, "random_state": 0}
    oracle = KernelMachineRegressor(solver="exact", **options).fit(X, Y).predict(NEW)
    errors = [
        np.abs(
            KernelMachineRegressor(n_components=D, **options).fit(X, Y).predict(NEW)
            - oracle
        ).mean()
        for D in (100, 10_000)
    ]
    assert errors[1] < 0.02
    assert errors[1] < errors[0] / 5


def test_the_tolerance_holds(monkeypatch):
    """In the norm of the matrix, of one target without an intercept's part in it."""
    monkeypatch.setattr(exact_solver, "LARGEST_FACTORISED", 10)
    monkeypatch.setattr(exact_solver, "LANDMARKS", 20)
    kernel, n = Laplacian(2.0), 300
    truth = dense(kernel, 0.01, X, Y, X)
    for tol in (1e-2, 1e-4, 1e-6):  # the first is 1e-3 here
        model = KernelMachineRegressor(
            kernel, alpha=0.01, solver="exact", tol=tol, random_state=0
        ).fit(X, Y)
        assert np.sqrt(
            ((model.predict(X) - truth) ** 2).sum() / n / (Y**2).mean()
        ) < 10 * min(tol, 1e-3)


def test_what_does_not_converge_warns(monkeypatch):
    monkeypatch.setattr(exact_solver, "LARGEST_FACTORISED", 10)
    monkeypatch.setattr(exact_solver, "LANDMARKS", 2)
    monkeypatch.setattr(exact_solver, "MOST_ITERATIONS", 3)
    with pytest.warns(ConvergenceWarning, match="stopped after 3 iterations"):
        KernelMachineRegressor(
            Laplacian(), alpha=1e-3, solver="exact", random_state=0
        ).fit(X, Y)


def test_targets_of_classes_have_leave_one_out_predictions():
    features = FourierFeatures(KERNELS[0], 20, random_state=0).fit(X)
    design, task = (
        Design(ArraySource(X[:30], Y[:30], WEIGHT[:30]), features),
        RidgeProblem(0.3, 1e-9, 0, needs=Needs(True)),
    )
    found = solve_exactly(design, task).held_out_predictions
    kept = ~np.eye(30, dtype=bool)
    without = [
        dense(KERNELS[0], 0.3, X[:30][k], Y[:30][k], X[i : i + 1], WEIGHT[:30][k])[0]
        for i, k in enumerate(kept)
    ]
    np.testing.assert_allclose(found.predicted, without, atol=1e-6)
    np.testing.assert_array_equal(found.weight, WEIGHT[:30])


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
def test_alpha_by_leaving_out_each_row(weight):
    alphas = [0.01, 0.1, 1.0]
    model = KernelMachineRegressor(Gaussian(1.5), alpha=alphas, solver="exact").fit(
        X[:60], Y[:60], weight if weight is None else weight[:60]
    )
    own = np.ones(60) if weight is None else weight[:60]
    mean = own @ Y[:60] / own.sum()
    y = (Y[:60] - mean) / np.sqrt(own @ (Y[:60] - mean) ** 2 / own.sum())
    expected = []
    for alpha in alphas:
        errors = np.array(
            [
                y[i]
                - dense(
                    Gaussian(1.5),
                    alpha,
                    np.delete(X[:60], i, 0),
                    np.delete(y, i, 0),
                    X[i : i + 1],
                    np.delete(own, i),
                )[0]
                for i in range(60)
            ]
        )
        expected.append(own @ (errors**2).sum(axis=1) / own.sum())
    np.testing.assert_allclose(model.alpha_scores_, expected, rtol=1e-9)
    assert model.alpha_ == alphas[int(np.argmin(expected))]


@pytest.mark.parametrize("criterion", ["auto", "loo", "gcv"])
def test_alpha_of_a_path(criterion):
    noisy = KernelMachineRegressor(Gaussian(1.5), alpha=criterion, solver="exact").fit(
        X, Y
    )
    assert 0.001 < noisy.alpha_ < 1
    assert noisy.score(X, Y) > 0.95


@pytest.mark.parametrize("alphas", ["gcv", "auto"])
def test_alpha_of_repeated_rows(alphas):
    """Chosen as by many features, whose leave-one-out errors and generalised
    cross-validation they share.
    """
    rows, y = (
        np.repeat(X[:60], 5, axis=0),
        np.repeat(Y[:60, 0], 5) + 0.5 * np.random.default_rng(1).standard_normal(300),
    )
    options = {"kernel": Gaussian(1.5), "alpha": alphas, "random_state": 0}
    exact = KernelMachineRegressor(solver="exact", **options).fit(rows, y)
    direct = KernelMachineRegressor(
        solver="direct", n_components=20_000, **options
    ).fit(rows, y)
    assert exact.alpha_scores_.min() == pytest.approx(
        direct.alpha_scores_.min(), rel=0.02
    )
    assert 1 / 1.6 < exact.alpha_ / direct.alpha_ < 1.6  # a step of the path


@pytest.mark.slow
def test_alpha_of_weighted_rows_of_which_some_are_looked_at(monkeypatch):
    """Errors count by weight once, though rows are drawn by weight too: as those of
    all rows.
    """
    rng = np.random.default_rng(0)
    rows, heavy = rng.standard_normal((1500, 2)), np.arange(1500) % 10 == 0
    y = np.sin(2 * rows[:, 0]) + np.where(heavy, 0.1, 2.0) * rng.standard_normal(1500)
    weight = np.where(heavy, 1.0, 0.02)
    monkeypatch.setattr("bochner.estimators.ridge.exact.EXACT_ROWS", 300)
    scores = []
    for seed in range(8):
        model = KernelMachineRegressor(
            Gaussian(), alpha=[0.1, 1.0], solver="exact", random_state=seed
        )
        scores.append(model.fit(rows, y, sample_weight=weight).alpha_scores_[1])
    variance = np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)
    noise = np.average(np.where(heavy, 0.1, 2.0) ** 2, weights=weight) / variance
    assert (
        np.mean(scores) > 0.8 * noise
    )  # the noise of light rows too, which is most of it


def test_equal_rows_and_rows_without_weight():
    counts = RNG.integers(0, 4, 300)
    options = {"kernel": Gaussian(1.5), "alpha": 0.3, "solver": "exact"}
    repeated = KernelMachineRegressor(**options).fit(
        np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0)
    )
    weighted = KernelMachineRegressor(**options).fit(X, Y, sample_weight=counts)
    np.testing.assert_allclose(repeated.predict(NEW), weighted.predict(NEW), atol=1e-9)
    assert (
        len(repeated.feature_weights_)
        == len(weighted.feature_weights_)
        == np.count_nonzero(counts)
    )


def test_a_ridge_term_below_rounding():
    rows = np.linspace(0, 1, 50)[:, np.newaxis]
    model = KernelMachineRegressor(Gaussian(2.0), alpha=1e-25, solver="exact").fit(
        rows, np.sin(rows[:, 0])
    )
    assert model.score(rows, np.sin(rows[:, 0])) > 1 - 1e-9


class TestClasses:
    @pytest.mark.slow
    def test_truth_and_calibration(self):
        y = X[:, 0] + 0.3 * X[:, 1] > 0
        model = KernelMachineClassifier(Gaussian(1.5), alpha=0.5, solver="exact").fit(
            X, y
        )
        expected = dense(
            Gaussian(1.5), 0.5, X, np.where(y, 1.0, -1.0)[:, np.newaxis], NEW
        )[:, 0]
        np.testing.assert_allclose(model.decision_function(NEW), expected, atol=1e-9)
        direct = KernelMachineClassifier(
            Gaussian(1.5), alpha=0.5, n_components=20_000, random_state=0
        ).fit(X, y)
        np.testing.assert_allclose(
            model.predict_proba(NEW), direct.predict_proba(NEW), atol=0.02
        )

    def test_one_row_that_counts(self):
        for rows, y, weight in (
            (np.ones((60, 3)), np.arange(60) % 3 > 0, None),
            (X[:60], np.arange(60) > 30, np.eye(60)[0]),
        ):
            model = KernelMachineClassifier(Gaussian(), solver="exact").fit(
                rows, y, sample_weight=weight
            )
            assert np.isfinite(model.predict_proba(NEW)).all()

    def test_rows_that_a_metric_has_not_seen_calibrate(self, monkeypatch):
        monkeypatch.setattr("bochner.estimators.ridge.exact.SAMPLE_ROWS", 100)
        seen = []
        original = exact_solver.solve_exact

        def spy(features, rows, alpha, tol, seed, scored=None, evaluated=None):
            seen.append((len(rows.y), len(scored)))
            return original(features, rows, alpha, tol, seed, scored, evaluated)

        monkeypatch.setattr("bochner.estimators.ridge.exact.solve_exact", spy)
        rows = np.random.default_rng(2).standard_normal((400, 3))
        model = KernelMachineClassifier(solver="exact", random_state=0).fit(
            rows, rows[:, 0] > 0
        )
        assert model.report_ is not None
        ((n_rows, n_seen),) = seen
        assert n_rows == 400
        assert 50 < n_seen <= 100

    def test_calibration_of_many_rows(self, monkeypatch):
        monkeypatch.setattr(exact_solver, "LARGEST_FACTORISED", 10)
        y = np.digitize(X[:, 0], [-0.5, 0.5])
        model = KernelMachineClassifier("gaussian", solver="exact", random_state=0).fit(
            X, y
        )
        assert model.score(X, y) > 0.9
        np.testing.assert_allclose(model.predict_proba(NEW).sum(axis=1), 1)


class TestMaps:
    def test_learned_metrics(self):
        rng = np.random.default_rng(1)
        rows = rng.standard_normal((700, 6))
        y = np.sin(3 * rows[:, 0]) + 0.1 * rng.standard_normal(700)
        model = KernelMachineRegressor(solver="exact", random_state=0).fit(
            rows[:500], y[:500]
        )
        assert isinstance(model.features_, MetricFeatures)
        assert model.report_ is not None
        assert model.score(rows[500:], y[500:]) > 0.95
        assert model.feature_importances_[0] > 0.5

    def test_maps_with_a_kernel(self):
        metric = learn_metric(X, Y[:, 0], "gaussian", random_state=0)
        maps = [
            FourierFeatures(Gaussian(1.5), 10),
            BinningFeatures(Laplacian(2.0), 5),
            MetricFeatures(metric, FourierFeatures(Gaussian(1.5), 10)),
        ]
        # As the encoder of an estimator leaves them
        centred = (X - X.mean(axis=0), NEW - X.mean(axis=0))
        coordinates = [
            (X, NEW),
            (X, NEW),
            tuple(metric.coordinates(rows) for rows in centred),
        ]
        for features, (rows, new), kernel in zip(
            maps,
            coordinates,
            [Gaussian(1.5), Laplacian(2.0), Gaussian(1.5)],
            strict=True,
        ):
            model = KernelMachineRegressor(
                features=features, alpha=0.5, solver="exact"
            ).fit(X, Y)
            np.testing.assert_allclose(
                model.predict(NEW), dense(kernel, 0.5, rows, Y, new), atol=1e-6
            )

    def test_sparse_rows(self):
        rows, new = X * (np.abs(X) > 0.5), NEW * (np.abs(NEW) > 0.5)
        one, other = (
            KernelMachineRegressor(Gaussian(1.5), alpha=0.5, solver="exact")
            .fit(make(rows), Y)
            .predict(make(new))
            for make in (np.asarray, sp.csr_array)
        )
        np.testing.assert_allclose(one, other, atol=1e-9)

    def test_save_and_load(self, tmp_path):
        for model in (
            KernelMachineRegressor(Gaussian(1.5), alpha=0.5, solver="exact").fit(X, Y),
            KernelMachineRegressor(solver="exact", random_state=0).fit(X, Y),
        ):
            save(model, tmp_path / "model")
            np.testing.assert_array_equal(
                load(tmp_path / "model").predict(NEW), model.predict(NEW)
            )

    @pytest.mark.parametrize("solver", ["auto", "cg", "direct"])
    def test_kernel_rows_are_for_the_exact_solver(self, solver):
        rows = (
            KernelMachineRegressor(Gaussian(1.5), alpha=0.5, solver="exact")
            .fit(X, Y)
            .features_
        )
        metric = learn_metric(X, Y[:, 0], "gaussian", random_state=0)
        for features in (
            rows,
            ConcatenatedFeatures([rows]),
            MetricFeatures(metric, rows),
        ):
            with pytest.raises(ValueError, match="use solver='exact'"):
                KernelMachineRegressor(features=features, solver=solver).fit(X, Y)
        with pytest.raises(
            TypeError, match="maps must be a list"
        ):  # not a word of the look into them
            KernelMachineRegressor(features=ConcatenatedFeatures(3), solver=solver).fit(
                X, Y
            )
        again = KernelMachineRegressor(features=rows, alpha=0.5, solver="exact").fit(
            X, Y
        )
        np.testing.assert_allclose(
            again.predict(NEW), dense(Gaussian(1.5), 0.5, X, Y, NEW), atol=1e-9
        )
        assert list(rows.get_feature_names_out()[:2]) == ["kernelrows0", "kernelrows1"]

    @pytest.mark.parametrize(
        ("options", "match"),
        [
            (
                {
                    "features": ConcatenatedFeatures(
                        [FourierFeatures(), BinningFeatures()]
                    )
                },
                "needs a known kernel",
            ),
            ({"features": BinningFeatures(column_share=0.5)}, "needs a known kernel"),
            ({"features": "binning"}, "kernel='laplacian'"),
            ({"features": "hybrid"}, "kernel='laplacian'"),
        ],
    )
    def test_refuses(self, options, match):
        with pytest.raises(ValueError, match=match):
            KernelMachineRegressor(solver="exact", alpha=1.0, **options).fit(X, Y)

    def test_bins_with_an_open_alpha(self):
        model = KernelMachineRegressor(
            features=BinningFeatures(Laplacian(2.0)), solver="exact", tol=1e-9
        ).fit(X, Y)
        rows, new = (model.encoder_.transform(Z) for Z in (X, NEW))
        expected = dense(Laplacian(2.0), model.alpha_, rows, Y, new)
        np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-6)


def test_little_memory(little_memory, monkeypatch):
    monkeypatch.setattr(exact_solver, "available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match=r"exact kernel machine of 300 rows.*fewer"):
        exact_solver.solve_exact(
            KernelRows(Gaussian()).fit(X), Block(X, Y, np.ones(len(X))), 1.0, 1e-3, 0
        )


def test_one_row():
    model = KernelMachineRegressor(Gaussian(), solver="exact").fit([[1.0, 2.0]], [3.0])
    assert model.predict([[0.0, 0.0]]) == pytest.approx([3.0])
