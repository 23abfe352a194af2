"""Prediction intervals and quantiles: against dense algebra, and by their coverage
over draws.
"""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from bochner import (
    BinningFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    load,
    save,
)
from bochner.data.array_source import ArraySource
from bochner.estimators.cross_fitting import cross_fitted
from bochner.inputs.targets import Standardised
from bochner.inputs.training import Target, TrainingRows
from bochner.kernels import Gaussian, Laplacian
from bochner.loops.clock import CLOCK
from bochner.scores import interval_score
from bochner.selection.budget import Budget
from bochner.selection.split import rows_held_out

GAUSSIAN = {
    "kernel": Gaussian(1.0),
    "n_components": 100,
    "alpha": 1.0,
    "random_state": 0,
}


def noisy(n, seed=0, outputs=1):
    """Rows whose noise is six times as large where the first column is positive;
    targets, and their deviations.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    sd = np.where(X[:, 0] > 0, 0.6, 0.1)
    y = np.sin(2 * X[:, 0]) + X[:, 1] + sd * rng.standard_normal(n)
    return (
        X,
        (
            y
            if outputs == 1
            else np.stack([y, 5 - 3 * y + rng.standard_normal(n)], axis=1)
        ),
        sd,
    )


X, Y, SD = noisy(3000)
FIT, NEW = slice(0, 900), slice(900, None)


def uncertain(**options):
    return KernelMachineRegressor(**{"uncertainty": "intervals", **GAUSSIAN, **options})


def covered(model, X, y, coverage=0.9):
    ends = model.predict_interval(X, coverage)
    return np.mean((ends[..., 0] <= y) & (y <= ends[..., 1]), axis=0)


def left_out(Z, y, alpha, rows):
    """Predictions of rows by ridge regressions with an intercept without each of
    them.
    """
    found = []
    for i in rows:
        kept = np.arange(len(y)) != i
        mean, centre = y[kept].mean(), Z[kept].mean(axis=0)
        A = Z[kept] - centre
        coef = np.linalg.solve(
            A.T @ A + alpha * np.eye(Z.shape[1]), A.T @ (y[kept] - mean)
        )
        found.append(mean + (Z[i] - centre) @ coef)
    return np.array(found)


@pytest.mark.parametrize("n", [60, 99], ids=["fewer rows than features", "more"])
def test_few_rows_have_quantiles_of_their_leave_one_out_errors(n):
    model = uncertain(tol=1e-6, n_components=80).fit(X[:n], Y[:n])
    Z = model.features_.transform(model.encoder_.encode(X[:n], dtype=np.float64))
    errors = Y[:n] - left_out(Z, Y[:n], 1.0, range(n))
    # Interpolated, as no theorem holds
    ends = np.quantile(errors, [0.05, 0.95], method="weibull")
    expected = model.predict(X[NEW])[:, np.newaxis] + ends
    np.testing.assert_allclose(model.predict_interval(X[NEW]), expected, atol=1e-6)


@pytest.mark.slow
def test_rows_that_calibrate_are_new_to_the_centre_of_the_intervals():
    """Of more than 5,000 rows, by conjugate gradients: a dense ridge regression
    without them.
    """
    X, y, _ = noisy(5200)
    model = uncertain(solver="cg", tol=1e-8, n_components=40).fit(X, y)
    spread = model.spread_
    Z = model.features_.transform(model.encoder_.encode(X, dtype=np.float64))
    m = len(spread.scores.values)
    assert 900 < m < 1200
    standardised = (y - model.target_mean_) / model.target_scale_
    judge = rows_held_out(ArraySource(X, y).row_hashes(), np.ones(len(y)), spread.seed)
    assert judge.sum() == m
    A = Z[~judge] - Z[~judge].mean(axis=0)
    mean = standardised[~judge].mean()
    coef = np.linalg.solve(A.T @ A + np.eye(40), A.T @ (standardised[~judge] - mean))
    np.testing.assert_allclose(spread.centre.coef[:, 0], coef, atol=1e-5)
    errors = standardised[judge] - mean - (Z[judge] - Z[~judge].mean(axis=0)) @ coef
    size = spread.size
    Z_new = size.features.transform(model.encoder_.encode(X[judge], dtype=np.float64))
    scale = size.of_roots(Z_new @ size.roots.coef + size.roots.intercept)[:, 0]
    np.testing.assert_allclose(
        spread.scores.values[:, 0], np.sort(errors / scale), atol=1e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"solver": "cg"},
        {"features": BinningFeatures(Laplacian(2.0), 30), "kernel": "auto"},
        {"solver": "exact"},
    ],
    ids=["direct", "cg", "bins", "exact"],
)
def test_coverage_over_draws(options):
    """The mean over draws, by its standard error; tight, for the scores are
    continuous.
    """
    found = []
    for seed in range(12):
        rows, y, _ = noisy(1400, seed)
        found.append(
            covered(uncertain(**options).fit(rows[:400], y[:400]), rows[400:], y[400:])
        )
    assert (
        abs(np.mean(found) - 0.9)
        < 4 * np.std(found, ddof=1) / np.sqrt(len(found)) + 0.005
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"solver": "cg"}, {"kernel": "auto", "features": "binning"}],
    ids=str,
)
def test_widths_follow_the_noise(options):
    model = uncertain(**options).fit(X[FIT], Y[FIT])
    width = np.ptp(model.predict_interval(X[NEW]), axis=1)
    assert np.median(width[SD[NEW] > 0.3]) > 2 * np.median(width[SD[NEW] < 0.3])
    assert abs(covered(model, X[NEW], Y[NEW]) - 0.9) < 0.06


def test_quantiles_are_in_order_and_ends_of_intervals():
    model = uncertain().fit(X[FIT], Y[FIT])
    levels = [0.03, 0.05, 0.5, 0.501, 0.95, 0.96]
    found = model.predict_quantile(X[NEW], levels)
    assert found.shape == (2100, 6)
    assert (np.diff(found, axis=1) >= 0).all()
    np.testing.assert_array_equal(found[:, [1, 4]], model.predict_interval(X[NEW], 0.9))
    np.testing.assert_array_equal(
        found[:, 2], model.predict_quantile(X[NEW], 0.5, n_jobs=1)
    )
    assert abs(np.mean(Y[NEW] <= found[:, 2]) - 0.5) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"kernel": "auto", "features": "binning"}], ids=["direct", "bins"]
)
def test_several_targets_have_their_own(options):
    rows, y, _ = noisy(1200, outputs=2)
    model = uncertain(**options).fit(rows[:700], y[:700])
    found = model.predict_interval(rows[700:])
    assert found.shape == (500, 2, 2)
    assert model.predict_quantile(rows[700:], 0.3).shape == (500, 2)
    assert model.predict_quantile(rows[700:], [0.3, 0.4, 0.5]).shape == (500, 2, 3)
    assert (abs(covered(model, rows[700:], y[700:]) - 0.9) < 0.08).all()
    first = uncertain(**options).fit(rows[:700], y[:700, :1])
    if not options:  # of bins the metric is learned for both
        ends = first.predict_interval(rows[700:])[
            :, 0
        ]  # the lengthscale of the noise is that of both
        assert np.isclose(ends, found[:, 0], rtol=0.1, atol=0.3).mean() > 0.95


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"solver": "cg"}, {"kernel": "auto", "features": "binning"}],
    ids=["direct", "cg", "bins"],
)
def test_predictions_are_what_they_are_without(options):
    model = uncertain(**options).fit(X[FIT], Y[FIT])
    bare = clone(model).set_params(uncertainty=False).fit(X[FIT], Y[FIT])
    np.testing.assert_allclose(model.predict(X[NEW]), bare.predict(X[NEW]), atol=0.02)
    with pytest.raises(ValueError, match="uncertainty=True"):
        bare.predict_interval(X[NEW])
    with pytest.raises(ValueError, match="uncertainty=True"):
        bare.predict_quantile(X[NEW], 0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"solver": "cg"}, {"kernel": "auto", "features": "binning"}],
    ids=str,
)
def test_saved_models_have_them(options, tmp_path):
    model = uncertain(**options).fit(X[FIT], Y[FIT])
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(
        again.predict_interval(X[NEW]), model.predict_interval(X[NEW])
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"solver": "exact"}, {"kernel": "auto", "features": "binning"}],
    ids=str,
)
def test_a_refit_to_the_same_rows_has_the_same(options):
    model = uncertain(**options).fit(X[:600], Y[:600])
    before = model.predict_interval(X[NEW])
    np.testing.assert_allclose(
        model.refit(X[:600], Y[:600]).predict_interval(X[NEW]), before, atol=0.02
    )


@pytest.mark.slow
def test_a_refit_to_more_rows_holds_the_same_ones_out():
    model = uncertain(kernel="auto", features="binning").fit(X[:600], Y[:600])
    model.refit(X[:2000], Y[:2000])
    assert 340 < len(model.spread_.scores.values) < 460
    assert abs(covered(model, X[2000:], Y[2000:]) - 0.9) < 0.06


def test_rows_without_weight_are_as_none():
    rows, y = np.vstack([X[:300], X[:100] + 50]), np.append(Y[:300], 1e3 * Y[:100])
    weight = np.append(np.ones(300), np.zeros(100))
    model = uncertain().fit(rows, y, sample_weight=weight)
    np.testing.assert_allclose(
        model.predict_interval(X[NEW]),
        uncertain().fit(X[:300], Y[:300]).predict_interval(X[NEW]),
        atol=0.02,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"kernel": "auto", "features": "binning"}, {"solver": "exact"}],
    ids=["direct", "bins", "exact"],
)
def test_equal_rows_keep_the_spread_of_their_targets(options):
    """Solvers take equal rows as one, with their mean target, whose spread is much
    smaller.
    """
    rng = np.random.default_rng(0)
    rows = np.round(rng.uniform(-2, 2, (2000, 2)))  # 25 different ones
    y = rows[:, 0] + rng.standard_normal(2000)
    model = uncertain(**options).fit(rows[:1000], y[:1000])
    assert abs(covered(model, rows[1000:], y[1000:]) - 0.9) < 0.05


def test_no_end_is_beyond_a_limit_of_the_targets():
    y = np.maximum(Y, 0.0)
    model = uncertain().fit(X[FIT], y[FIT])
    ends = model.predict_interval(X[NEW])
    assert ends.min() == pytest.approx(0.0, abs=1e-9)
    assert np.isinf(model.spread_.limits[1, 0])  # one row alone is at the other end
    assert abs(covered(model, X[NEW], y[NEW]) - 0.9) < 0.06


@pytest.mark.parametrize("floor", [0.0, 0.1, 1 / 3, -7.25, 1e6 + 0.1, 0.1 + 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_targets_at_a_limit_are_within(floor, seed):
    """Limits are of standardised targets, and rounding takes them back beside the
    targets that lie there.
    """
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((1000, 2))
    size = rng.uniform(0.5, 2)
    excess = size * np.maximum(rows[:, 0] + 0.5 * rng.standard_normal(1000), 0)
    for y in (floor + excess, floor - excess):
        model = uncertain().fit(rows[:400], y[:400])
        low, high = model.predict_interval(rows).T
        is_there = y == floor
        assert is_there.sum() > 300
        reaches = (low < floor + 1e-9) & (high > floor - 1e-9)
        assert ((low <= floor) & (floor <= high))[is_there & reaches].all()
        assert abs(covered(model, rows[400:], y[400:]) - 0.9) < 0.06


def test_too_few_rows_are_told_with_the_number_that_is_needed():
    model = uncertain().fit(X[:30], Y[:30])
    assert model.predict_interval(X[:2]).shape == (2, 2)
    with pytest.raises(
        ValueError, match=r"needs 39 rows that the model has not seen .* there are 30"
    ):
        model.predict_interval(X[:2], 0.95)
    with pytest.raises(ValueError, match="needs 99 rows"):
        model.predict_quantile(X[:2], 0.99)


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 90, np.nan])
def test_a_coverage_is_a_probability(coverage):
    model = uncertain().fit(X[:30], Y[:30])
    with pytest.raises(
        ValueError, match="coverage must be a probability between 0 and 1"
    ):
        model.predict_interval(X[:2], coverage)
    with pytest.raises(ValueError, match="q must be one or several probabilities"):
        model.predict_quantile(X[:2], [0.5, coverage])


def test_who_has_none():
    with pytest.raises(NotFittedError):
        uncertain().predict_interval(X[:2])
    assert not hasattr(KernelMachineClassifier(), "predict_interval")


@pytest.mark.slow
def test_few_rows_are_validated_on_machines_that_chose_without_them():
    """Scores are errors of fits without a fold, from the encoding to the penalty;
    copies are in one fold.
    """
    rows, y, _ = noisy(60)
    rows, y = np.vstack([rows, rows[:20]]), np.append(y, y[:20])
    given = {"kernel": "gaussian", "n_components": 30}
    model = KernelMachineRegressor(
        uncertainty="intervals", random_state=0, **given
    ).fit(rows, y)
    source = ArraySource(
        rows, y, targets=Standardised(model.target_mean_, model.target_scale_)
    )
    own = TrainingRows(rows, Target(y))
    _, found = cross_fitted(model, own, source, model.spread_.seed, Budget())
    fold = found.fold
    assert len(fold) == 60
    np.testing.assert_array_equal(np.bincount(fold), np.full(10, 6))
    errors = np.empty(60)
    for k in range(10):
        kept = fold[np.arange(80) % 60] != k  # the last 20 rows are copies of the first
        other = KernelMachineRegressor(random_state=model.spread_.seed, **given).fit(
            rows[kept], y[kept]
        )
        errors[fold == k] = y[:60][fold == k] - other.predict(rows[:60][fold == k])
    values = model.spread_.scores.values[:, 0] * model.target_scale_
    np.testing.assert_allclose(values, np.sort(errors), atol=1e-10)
    weight = np.append(np.full(20, 2.0), np.ones(40))
    assert model.spread_.scores.n_effective == pytest.approx(
        weight.sum() ** 2 / (weight**2).sum()
    )


def test_machines_without_a_fold_choose_as_the_machine_does():
    """With a part of its time they would choose otherwise, and their errors would be
    others: of 100 to 500 rows intervals of 90 % held all targets. Each takes as long as
    the machine, which had a second.
    """
    limits = []

    class Timed(KernelMachineRegressor):
        def fit(self, X, y, *others, **named):
            limits.append(self.time_limit)
            return super().fit(X, y, *others, **named)

    rows, y, _ = noisy(300)
    for n, seconds, fits in (
        (30, 220.0, 10),
        (30, 10.0, 0),
        (300, 60.0, 5),
        (300, 6.0, 0),
    ):
        model = Timed("gaussian", n_components=20, time_limit=seconds)
        model.fit(rows[:30], y[:30])
        limits.clear()
        given = TrainingRows(rows[:n], Target(y[:n]))
        source = ArraySource(rows[:n], y[:n])
        budget = Budget(seconds, start=CLOCK.seconds() - 1.0)
        predicted = cross_fitted(model, given, source, 0, budget)
        assert (predicted is not None) == (fits > 0)
        assert limits == [seconds] * fits


@pytest.mark.slow
@pytest.mark.parametrize("levels", [0, 4])
def test_units_of_the_target_do_not_matter_where_rows_are_few(levels):
    """Nor its sign, where no inputs are equal."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    X = np.round(X * levels / 4) if levels else X
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=120)
    options = {"uncertainty": True, "random_state": 0}
    model = KernelMachineRegressor(**options).fit(X, y)
    expected = np.diff(model.predict_interval(X, 0.9))
    std = model.predict(X, return_std=True)[1]
    for factor, origin in [(2.0, 0.0), (100.0, 1.0), (1.0, -7.0), (-1.0, 0.0)]:
        if levels and factor < 0:
            continue
        other = KernelMachineRegressor(**options).fit(X, factor * y + origin)
        widths = np.diff(other.predict_interval(X, 0.9))
        np.testing.assert_allclose(np.abs(widths / factor), expected, rtol=1e-4)
        other_std = other.predict(X, return_std=True)[1]
        np.testing.assert_allclose(other_std / abs(factor), std, rtol=1e-4)


def test_copies_do_not_count_as_rows():
    rows, y, _ = noisy(30)
    model = uncertain(alpha="auto").fit(np.repeat(rows, 10, axis=0), np.repeat(y, 10))
    with pytest.raises(
        ValueError, match=r"needs 39 rows that the model has not seen .* there are 30"
    ):
        model.predict_interval(X[:2], 0.95)


def test_rows_of_equal_inputs_judge_one_another_as_new_ones_would():
    """With a map so fine that each place stands for itself, half of the targets are
    between the quartiles.
    """
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        place, new = rng.integers(0, 25, 100), rng.integers(0, 25, 1000)
        places, means = rng.uniform(-5, 5, (25, 2)), rng.standard_normal(25)
        model = uncertain(
            features=FourierFeatures(Gaussian(0.3), 200, random_state=0),
            kernel="auto",
            alpha=0.1,
        )
        model.fit(places[place], means[place] + 0.3 * rng.standard_normal(100))
        found.append(
            covered(
                model, places[new], means[new] + 0.3 * rng.standard_normal(1000), 0.5
            )
        )
    assert abs(np.mean(found) - 0.5) < 3 * np.std(found, ddof=1) / np.sqrt(10) + 1 / 101


@pytest.mark.slow
def test_widths_follow_a_column_that_moves_the_noise_alone():
    rng = np.random.default_rng(0)
    rows = rng.uniform(-2, 2, (8000, 2))
    y = np.sin(3 * rows[:, 0]) + 0.1 * np.exp(rows[:, 1]) * rng.standard_normal(8000)
    given = {
        "kernel": Gaussian(1.0),
        "n_components": 200,
        "uncertainty": True,
        "random_state": 0,
    }
    model = KernelMachineRegressor(**given).fit(rows[:2000], y[:2000])
    low, high = model.predict_interval(rows[2000:]).T
    inside = (low <= y[2000:]) & (y[2000:] <= high)
    mean, std = model.predict(rows[2000:], return_std=True)
    normal = np.abs(y[2000:] - mean) < 1.645 * std
    for column in rows[2000:].T:
        quarter = np.digitize(column, [-1, 0, 1])
        for within in (inside, normal):
            shares = np.bincount(quarter, within) / np.bincount(quarter)
            assert ((shares > 0.8) & (shares < 0.97)).all(), shares


@pytest.mark.parametrize("seed", range(3))
def test_intervals_of_few_rows_are_as_wide_as_the_noise(seed):
    """Against the quantiles of the noise itself, by Winkler's score."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (1200, 2))
    sd = 0.1 * np.exp(X[:, 0])
    mean = np.sin(2 * X[:, 1])
    y = mean + sd * rng.standard_normal(1200)
    model = KernelMachineRegressor(
        "gaussian", uncertainty="intervals", random_state=0
    ).fit(X[:200], y[:200])
    y = y[200:]
    ends = model.predict_interval(X[200:])
    true = (mean[:, np.newaxis] + sd[:, np.newaxis] * norm.ppf([0.05, 0.95]))[200:]
    assert interval_score(y, ends, 0.9) < 1.7 * interval_score(y, true, 0.9)
    is_inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
    assert is_inside[X[200:, 0] > 1].mean() > 0.8


@pytest.mark.parametrize("seed", range(5))
def test_intervals_of_few_rows_with_one_size_of_noise_have_one_width(seed):
    noise = np.random.default_rng(seed).standard_normal(200)
    model = uncertain().fit(X[:200], np.sin(X[:200, 0]) + 0.3 * noise)
    assert np.ptp(np.diff(model.predict_interval(X[NEW]))) < 1e-9


def test_intervals_of_a_constant_target_are_that_target():
    rows = np.random.default_rng(0).standard_normal((2500, 2))
    model = KernelMachineRegressor(
        "gaussian",
        n_components=32,
        metric="isotropic",
        uncertainty="intervals",
        random_state=0,
    ).fit(rows, np.full(2500, 3.0))
    np.testing.assert_array_equal(model.predict_interval(rows[:2]), 3.0)
