"""Models whose metric, map, size and ridge penalty are learned inside fit."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

from bochner import KernelMachineClassifier, KernelMachineRegressor, load, save
from bochner.data.table import TableEncoder
from bochner.estimators.interpretation import relevance_in_distance
from bochner.features import ConcatenatedFeatures, FourierFeatures, MetricFeatures
from bochner.features.leaves import leaves
from bochner.inputs import training
from bochner.inputs.training import KEPT_ENTRIES
from bochner.kernels import Gaussian, Laplacian

QUICK = {"n_components": 150, "random_state": 0}


def smooth(n=800, junk=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3 + junk))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)


def stairs(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 6))
    return X, np.floor(4 * X[:, 0]) + np.floor(3 * X[:, 1]) + 0.1 * rng.standard_normal(
        n
    )


@pytest.fixture(scope="module")
def smooth_model():
    return KernelMachineRegressor(n_components=400, random_state=0).fit(*smooth())


@pytest.mark.slow
def test_junk_columns_do_not_hurt(smooth_model):
    """The isotropic kernel drowns in 20 columns of noise; learned scales do not, and
    boosting is far behind.
    """
    X, y = smooth(2000, seed=1)
    isotropic = KernelMachineRegressor(
        metric="isotropic", n_components=400, random_state=0
    ).fit(*smooth())
    boosted = HistGradientBoostingRegressor(random_state=0).fit(*smooth())
    assert smooth_model.score(X, y) > 0.97
    assert (
        smooth_model.score(X, y)
        > max(isotropic.score(X, y), boosted.score(X, y)) + 0.05
    )
    assert smooth_model.feature_importances_[:3].sum() > 0.9
    assert smooth_model.feature_importances_.sum() == pytest.approx(1)


@pytest.mark.slow
def test_steps_are_left_to_bins():
    X, y = stairs()
    model = KernelMachineRegressor(random_state=0).fit(X, y)
    assert "random binning" in model.report_.chosen
    later = stairs(2000, seed=1)
    isotropic = KernelMachineRegressor(
        "gaussian", random_state=0, metric="isotropic"
    ).fit(X, y)
    assert 1 - model.score(*later) < 0.5 * (1 - isotropic.score(*later))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sparse", "noise"),
    [
        (False, 0.3),
        (False, 0.0),
        (True, 0.3),
        (True, 0.0),
    ],
)
def test_a_linear_target_has_a_linear_model(sparse, noise):
    """That of least squares, and exact without noise; columns count as their slopes."""
    rng = np.random.default_rng(0)
    X, slopes = (
        rng.standard_normal((700, 5)) * (rng.uniform(size=(700, 5)) < 0.5),
        np.array([3.0, -1.0, 0.5, 0.1, 0.0]),
    )
    rows = sp.csr_array(X) if sparse else X
    y = X @ slopes + 2 + noise * rng.standard_normal(700)
    model = KernelMachineRegressor(random_state=0).fit(rows[:400], y[:400])
    assert model.report_.chosen == "linear model"
    expected = LinearRegression().fit(X[:400], y[:400]).predict(X[400:])
    assert_allclose(model.predict(rows[400:]), expected, atol=0.02 * noise + 1e-4)
    if not noise:
        distances = np.abs(X[:400, np.newaxis] - X[:400]).mean(axis=(0, 1))
        distances *= np.abs(slopes)
        relevance = distances / distances.sum()
        assert_allclose(model.metric_.relevance_, relevance, atol=0.02)


@pytest.mark.slow
def test_a_linear_logit_has_a_linear_model(tmp_path):
    """That of logistic regression, also of other rows and in a file."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12_000, 6))
    y = (
        rng.uniform(size=12_000) < 1 / (1 + np.exp(5 - X @ [2.0, -1.0, 0.5, 0, 0, 0]))
    ).astype(int)
    model = KernelMachineClassifier(random_state=0).fit(X[:6000], y[:6000])
    assert (model.report_.chosen, model.loss_) == ("linear model", "logistic")
    assert model.feature_importances_[:3].sum() > 0.9
    assert model.importance_.rows == "validation rows"
    new = model.importance(X[6000:], y[6000:], random_state=0)
    assert model.importance_.baseline == pytest.approx(new.baseline, rel=0.25)
    for part in (slice(0, 6000), slice(6000, 12_000)):
        expected = LogisticRegression().fit(X[part], y[part]).decision_function(X)
        assert (
            np.abs(model.refit(X[part], y[part]).decision_function(X) - expected).mean()
            < 0.15
        )
    save(model, tmp_path / "model.safetensors")
    assert_array_equal(
        load(tmp_path / "model.safetensors").predict_proba(X), model.predict_proba(X)
    )
    given = KernelMachineClassifier(
        features=FourierFeatures(random_state=0), loss="auto"
    ).fit(X[:2000], y[:2000])
    assert given.report_ is None
    assert not isinstance(given.features_, MetricFeatures)


@pytest.mark.slow
def test_no_linear_model_of_what_is_curved():
    report = KernelMachineRegressor(random_state=0).fit(*smooth(400, 0)).report_
    assert report.chosen != "linear model"
    assert [
        one.name for one in report.candidates if "standard errors worse" in one.lost
    ].count("linear model") == 1


@pytest.mark.slow
def test_repeated_rows_of_different_classes():
    """10,000 rows of 500 points, each point of both classes: the probabilities,
    which a table of counts tells too.
    """
    rng = np.random.default_rng(0)
    points = rng.uniform(-2, 2, (500, 2))
    chance = 1 / (1 + np.exp(-3 * np.sin(2 * points[:, 0]) * points[:, 1]))
    drawn = rng.integers(500, size=10_000)
    y = rng.uniform(size=10_000) < chance[drawn]
    model = KernelMachineClassifier(
        random_state=0, features="binning", n_components=100
    ).fit(points[drawn], y)
    counted = np.bincount(drawn, y, minlength=500) / np.maximum(
        np.bincount(drawn, minlength=500), 1
    )
    ours = model.predict_proba(points)[:, 1]
    assert np.sqrt(np.mean((ours - chance) ** 2)) < 0.08
    assert np.sqrt(np.mean((ours - chance) ** 2)) < np.sqrt(
        np.mean((counted - chance) ** 2)
    )


def test_report_tells_of_every_candidate(smooth_model):
    report = smooth_model.report_
    names = [candidate.name for candidate in report.candidates]
    assert len(names) == len(set(names)) >= 3
    assert report.chosen in names
    assert 110 < report.rows_held_out < 420  # or twice as many, of two folds
    losses = {candidate.name: candidate.loss for candidate in report.candidates}
    errors = {
        candidate.name: candidate.standard_error for candidate in report.candidates
    }
    isotropic = "one lengthscale"
    assert losses[report.chosen] <= losses[isotropic] + errors[isotropic]
    text = " ".join(str(report).split())
    assert report.reason in text
    assert all(name in text for name in names)
    assert all(seconds >= 0 for seconds in report.seconds.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"features": "fourier", "metric": "ard"}, "fourier"),
        ({"features": "fourier", "metric": "full"}, "fourier"),
        ({"features": "fourier", "kernel": "laplacian", "metric": "ard"}, "fourier"),
        ({"features": "fourier", "kernel": "matern32", "metric": "ard"}, "fourier"),
        ({"features": "binning", "metric": "ard"}, "bins"),
        ({"features": "hybrid"}, "both"),
        ({"solver": "direct", "metric": "ard"}, "fourier"),
    ],
)
def test_what_is_fixed_stays(options, kind):
    X, y = smooth(500, 3)
    model = KernelMachineRegressor(**options, **QUICK).fit(X, y)
    parts = model.features_.parts
    assert all(isinstance(part, MetricFeatures) for part in parts)
    dense = [part.is_dense for part in parts]
    assert {
        "fourier": all(dense),
        "bins": not any(dense),
        "both": any(dense) and not all(dense),
    }[kind]
    for part in parts:
        size = len(part.features_.values_) if not part.is_dense else part.n_features_out
        assert size == 150 or kind == "both"
    mixes = any(part.metric.linear_.size for part in parts)
    assert mixes == (options.get("metric") == "full")
    assert model.score(*smooth(1000, 3, seed=1)) > 0.8


@pytest.mark.slow
def test_alpha_is_kept():
    X, y = stairs(400)
    for features in ("fourier", "binning", "hybrid"):
        model = KernelMachineRegressor(
            features=features, metric="ard", alpha=0.7, **QUICK
        ).fit(X, y)
        assert model.alpha_ == pytest.approx(0.7)
    for features in ("binning", "hybrid"):
        path = KernelMachineRegressor(
            features=features, metric="ard", alpha=[2.0, 0.5], **QUICK
        ).fit(X, y)
        assert path.alpha_ in (0.5, 2.0)
        assert_array_equal(path.alphas_, [0.5, 2.0])


@pytest.mark.slow
def test_full_metric_finds_a_rotation():
    rng = np.random.default_rng(0)

    def rows(n):
        X = rng.standard_normal((n, 4))
        return X, np.floor(1.5 * (X[:, 0] + X[:, 1])) % 2 + 0.05 * rng.standard_normal(
            n
        )

    train, test = rows(2500), rows(2000)
    options = {"features": "binning", "n_components": 100, "random_state": 0}
    scales = KernelMachineRegressor(metric="ard", **options).fit(*train)
    mapped = KernelMachineRegressor(metric="full", **options).fit(*train)
    assert 1 - mapped.score(*test) < 0.7 * (1 - scales.score(*test))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": Gaussian(), "metric": "ard"}, "give the kernel by name"),
        ({"features": FourierFeatures(), "metric": "full"}, "give the kernel by name"),
        ({"features": "hybrid", "solver": "direct"}, "conjugate gradients"),
        ({"features": "hybrid", "alpha": "loo"}, "conjugate gradients"),
        ({"features": "hybrid", "kernel": "gaussian"}, "kernel='auto'"),
        ({"features": "hybrid", "metric": "isotropic"}, "ConcatenatedFeatures"),
        (
            {"features": "binning", "metric": "ard", "alpha": "gcv"},
            "conjugate gradients",
        ),
        ({"time_limit": 0}, "time_limit"),
        ({"time_limit": -1.0}, "time_limit"),
    ],
)
def test_refusals(options, message):
    X, y = smooth(300, 0)
    with pytest.raises(ValueError, match=message):
        KernelMachineRegressor(**options).fit(X, y)


def test_too_few_rows_to_learn_from():
    X, y = smooth(15, 0)
    with pytest.raises(
        ValueError, match=r"at least 20 distinct rows.*metric='isotropic'"
    ):
        KernelMachineRegressor(metric="ard").fit(X, y)
    model = KernelMachineRegressor(random_state=0).fit(X, y)
    assert model.report_.chosen.startswith("one lengthscale")
    assert model.metric_.relevance_.shape == (3,)
    repeated = KernelMachineRegressor(random_state=0).fit(
        np.repeat(X, 9, axis=0), np.repeat(y, 9)
    )
    assert repeated.report_.chosen.startswith("one lengthscale")


def test_rows_that_repeat_do_not_leak():
    """Each row ten times, under noise: copies on both sides of the split would
    favour the smallest lengthscales.
    """
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((300, 4)), 10, axis=0)
    y = np.sin(X[:, 0]) + rng.standard_normal(300).repeat(10)
    later = rng.standard_normal((2000, 4))
    model = KernelMachineRegressor(
        features="binning", metric="ard", n_components=100, random_state=0
    ).fit(X, y)
    assert np.mean((model.predict(later) - np.sin(later[:, 0])) ** 2) < 0.5


@pytest.mark.slow
def test_imbalance_and_class_weight():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((1500, 5))
    y = X[:, 0] + X[:, 1] ** 2 + 2 * rng.standard_normal(1500) > 4.0
    later = rng.standard_normal((4000, 5))
    truth = later[:, 0] + later[:, 1] ** 2 > 4.0
    options = {"features": "binning", "metric": "ard", **QUICK}
    plain = KernelMachineClassifier(**options).fit(X, y)
    balanced = KernelMachineClassifier(class_weight="balanced", **options).fit(X, y)
    assert (
        balanced.predict(later)[truth].mean() > plain.predict(later)[truth].mean() + 0.1
    )
    X, y = X[:500], y[:500]
    weight = np.where(y, 2.0, 1.0)
    given = KernelMachineClassifier(
        class_weight={False: 1.0, True: 2.0}, **options
    ).fit(X, y)
    assert_allclose(
        given.decision_function(later),
        KernelMachineClassifier(**options).fit(X, y, weight).decision_function(later),
    )


@pytest.mark.slow
@pytest.mark.parametrize("machine", [KernelMachineRegressor, KernelMachineClassifier])
def test_a_given_penalty_is_in_the_unit_of_weights(machine):
    """Five times the weight of each row and of the penalty change nothing."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400, 3))
    truth = np.sin(6 * X[:, 0]) + X[:, 1]
    y = truth > 1
    if machine is KernelMachineRegressor:
        y = truth + 0.1 * rng.standard_normal(400)
    one = machine(alpha=0.4, random_state=0).fit(X, y)
    five = machine(alpha=2.0, random_state=0).fit(X, y, np.full(400, 5.0))
    assert_allclose(five.predict(X), one.predict(X), atol=1e-9)
    assert five.report_.chosen == one.report_.chosen
    if machine is KernelMachineClassifier:
        assert_allclose(five.predict_proba(X), one.predict_proba(X), atol=1e-9)


@pytest.mark.slow
def test_columns_as_they_come():
    rng = np.random.default_rng(0)
    n = 900
    latent = rng.standard_normal(n)
    town = rng.integers(300, size=n)
    height = rng.standard_normal(300)
    frame = pd.DataFrame(
        {
            "skewed": np.exp(3 * latent),
            "code": rng.integers(12, size=n),
            "flag": rng.random(n) < 0.3,
            "town": [f"town {k}" for k in town],
            "gaps": np.where(rng.random(n) < 0.3, np.nan, rng.standard_normal(n)),
            "same": 7.0,
            "copy": np.exp(3 * latent),
        }
    )
    y = latent + frame["flag"] + 0.5 * frame["gaps"].isna() + 0.1 * height[town]
    model = KernelMachineRegressor(random_state=0).fit(frame[:700], y[:700])
    assert model.score(frame[700:], y[700:]) > 0.9
    shares = dict(zip(frame.columns, model.feature_importances_, strict=True))
    assert shares["same"] == 0
    assert shares["skewed"] + shares["copy"] > shares["code"]


@pytest.mark.slow
def test_sparse_rows_are_learned_from():
    rng = np.random.default_rng(0)
    X = sp.random_array((700, 60), density=0.2, rng=rng, format="csr")
    y = X[:, [0]].toarray().ravel() * 3 + np.sin(6 * X[:, [1]].toarray().ravel())
    for features in ("fourier", "binning", "hybrid"):
        model = KernelMachineRegressor(features=features, **QUICK).fit(X, y)
        assert model.feature_importances_[:2].sum() > 0.4
        assert model.predict(X[:5]).shape == (5,)


@pytest.mark.slow
def test_images_keep_their_unit_and_are_mixed():
    """Blurred noise: more columns than 100, with a common unit, of which a few
    directions matter.
    """
    rng = np.random.default_rng(0)
    basis = rng.standard_normal((4, 120)) * np.linspace(0.1, 10, 120)
    latent = rng.standard_normal((900, 4))
    X = latent @ basis + 0.05 * rng.standard_normal((900, 120))
    y = np.sin(2 * latent[:, 0]) + latent[:, 1]
    model = KernelMachineRegressor(random_state=0).fit(X[:700], y[:700])
    assert model.score(X[700:], y[700:]) > 0.9


def test_many_classes():
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((30, 5)) * 3
    y = rng.integers(30, size=600)
    X = centres[y] + 0.4 * rng.standard_normal((600, 5))
    model = KernelMachineClassifier(
        features="binning", metric="ard", n_components=40, random_state=0
    ).fit(X, y)
    assert model.score(X, y) > 0.9
    assert_allclose(model.predict_proba(X[:20]).sum(axis=1), 1)


def test_relevances_of_given_kernels():
    X, y = smooth(100, 0)
    model = KernelMachineRegressor(Laplacian([1.0, 1.0, 100.0]), random_state=0).fit(
        X, y
    )
    assert_allclose(relevance_in_distance(model).sum(), 1)
    assert relevance_in_distance(model)[2] < 0.05
    summed = KernelMachineRegressor(Gaussian() + Laplacian(), random_state=0).fit(X, y)
    assert summed.metric_ is None
    assert relevance_in_distance(summed) is None


@pytest.mark.slow
@pytest.mark.parametrize("features", ["fourier", "hybrid"])
def test_saved_models_predict_the_same(features, tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    model = KernelMachineClassifier(features=features, metric="ard", **QUICK).fit(X, y)
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert_array_equal(again.feature_importances_, model.feature_importances_)
    assert again.report_ == model.report_


def n_grids(model):
    return sum(leaf.features.n_grids for leaf in leaves(model.features_))


@pytest.mark.parametrize("features", ["auto", "hybrid"])
def test_a_time_limit_that_is_long_enough_changes_nothing(features):
    X, y = make_friedman1(300, random_state=0)
    plain, limited = (
        KernelMachineRegressor(features=features, random_state=0, time_limit=limit)
        for limit in (None, 1e4)
    )
    np.testing.assert_array_equal(
        limited.fit(X, y).predict(X), plain.fit(X, y).predict(X)
    )


@pytest.mark.slow
def test_a_time_limit_saves_candidates_and_grids(monkeypatch):
    """By a clock that says that hardly any time is left, and none for trials."""
    from bochner.selection.budget import Budget
    from bochner.selection.problem import Problem

    X, y = make_friedman1(600, random_state=0)
    whole = KernelMachineRegressor(random_state=0, features="binning").fit(X, y)
    monkeypatch.setattr(
        Budget,
        "seconds_left",
        property(lambda self: np.inf if self.limit is None else 0.05 * self.limit),
    )
    monkeypatch.setattr(Problem, "has_time", False)
    hasty = KernelMachineRegressor(
        random_state=0, features="binning", time_limit=0.5
    ).fit(X, y)
    assert n_grids(hasty) < n_grids(whole) <= 800
    tried = (
        KernelMachineRegressor(random_state=0, time_limit=0.5)
        .fit(X, y)
        .report_.candidates
    )
    names = [candidate.name for candidate in tried]
    assert names == ["random binning, learned lengthscales"]
    assert hasty.score(X, y) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "names"), [(1.0, ["bins"]), (100.0, ["bins", "fourier"])]
)
def test_a_short_limit_buys_one_metric(policy, monkeypatch, limit, names):
    """Of tables of enough rows: what is left of it goes into grids. The clock is
    slow, as the machine may be.
    """
    from bochner.loops.clock import CLOCK
    from bochner.selection import learning

    tasks, seconds = [], CLOCK.seconds
    monkeypatch.setattr(CLOCK, "seconds", lambda: seconds() / 20)
    inner = learning.metric_tasks
    monkeypatch.setattr(
        learning, "metric_tasks", lambda *rest: tasks.append(inner(*rest)) or tasks[-1]
    )
    policy(rows_for_full_learning=400)
    X, y = make_friedman1(500, random_state=0)
    assert (
        KernelMachineRegressor(random_state=0, time_limit=limit).fit(X, y).score(X, y)
        > 0.9
    )
    assert list(tasks[0]) == names


def test_a_short_limit_tries_on_few_rows(policy, monkeypatch):
    from bochner.loops.clock import CLOCK
    from bochner.selection.validation import Validator

    seconds = CLOCK.seconds
    monkeypatch.setattr(CLOCK, "seconds", lambda: seconds() / 20)
    seen = set()
    iterate = Validator.iterate
    monkeypatch.setattr(
        Validator,
        "iterate",
        lambda self, *rest, **more: (
            seen.add(self.n_rows),
            iterate(self, *rest, **more),
        )[1],
    )
    policy(rows_for_full_learning=300, trial_entries=12_000)
    X, y = make_friedman1(600, random_state=0)
    model = KernelMachineRegressor(
        features="binning", metric="ard", random_state=0, time_limit=1.0
    ).fit(X, y)
    # By the time that is left; parts of these rows where little is left of it
    assert 300 <= max(seen) <= 370
    assert model.score(X, y) > 0.8


def test_no_time_left_leaves_as_many_features_as_trials_have(monkeypatch, policy):
    from bochner.selection.budget import Budget

    policy(rows_a_feature=0)  # as of many rows
    monkeypatch.setattr(
        Budget,
        "seconds_left",
        property(lambda self: np.inf if self.limit is None else 0.0),
    )
    model = KernelMachineRegressor(
        features="fourier", random_state=0, time_limit=0.5
    ).fit(*smooth())
    assert model.features_.n_features_out >= 128
    plain = KernelMachineRegressor(
        features="fourier", metric="isotropic", random_state=0, time_limit=1e-9
    )
    with pytest.warns(
        UserWarning, match="too short for this table: the fit takes .* seconds at least"
    ):
        plain.fit(*smooth())
    assert plain.features_.n_features_out >= 128


def test_a_time_limit_counts_the_entries_of_sparse_rows():
    """Five of a hundred a row: all rows are fitted in a time in which dense ones would
    be too many.
    """
    rng = np.random.default_rng(0)
    X = sp.random(3000, 100, 0.05, "csr", random_state=0)
    # Far from zero, lest the least of few rows makes the others look like outliers
    X.data += 1.0
    y = X[:, :5].toarray().sum(axis=1) + 0.1 * rng.standard_normal(3000)
    model = KernelMachineRegressor(
        features="fourier", kernel="gaussian", n_components=20, time_limit=0.01
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)
    with pytest.warns(UserWarning, match="too short for this table"):
        model.fit(X.toarray(), y)


def test_little_time_is_spent_on_fewer_rows(monkeypatch, policy):
    from bochner.selection.budget import Budget
    from bochner.selection.validation import Validator

    seen = []
    solve = Validator.solve
    monkeypatch.setattr(
        Validator,
        "solve",
        lambda self, *rest: (seen.append(self.n_rows), solve(self, *rest))[1],
    )
    policy(rows_for_full_learning=300)
    monkeypatch.setattr(
        Budget,
        "seconds_left",
        property(lambda self: np.inf if self.limit is None else 0.0),
    )
    X, y = smooth()
    hasty = KernelMachineRegressor(
        features="fourier", random_state=0, time_limit=0.5
    ).fit(X, y)
    assert set(seen) == {300}
    assert hasty.score(*smooth(seed=1)) > 0.8


@pytest.fixture
def many(policy):
    """Tables of more than 2,000 rows are compared on a thousand of them."""
    policy(
        most_raced=2000,
        raced_rows=1000,
        compared_rows=500,
        screened_rows=1000,
    )


@pytest.mark.slow
def test_many_rows_of_a_smooth_target_have_fourier_features(many):
    X, y = smooth(3000, 2)
    model = KernelMachineRegressor(random_state=0).fit(X, y)
    assert "Fourier features" in model.report_.chosen
    later, truth = smooth(2000, 2, seed=1)
    assert (
        np.sqrt(np.mean((model.predict(later) - truth) ** 2)) < 0.14
    )  # of a noise of .1


@pytest.mark.slow
def test_many_rows_of_steps_have_bins(many):
    model = KernelMachineRegressor(random_state=0).fit(*stairs(3000))
    assert "random binning" in model.report_.chosen
    later, truth = stairs(2000, seed=1)
    assert np.sqrt(np.mean((model.predict(later) - truth) ** 2)) < 0.25
    losers = [
        one for one in model.report_.candidates if one.name != model.report_.chosen
    ]
    assert losers
    assert all(
        "standard errors worse" in one.lost or "as good" in one.lost for one in losers
    )
    assert all(f"{one.behind:.2g} (" in str(model.report_) for one in losers)


@pytest.mark.slow
def test_many_rows_whose_maps_are_given_are_not_compared(many):
    model = KernelMachineRegressor(
        features="binning", metric="ard", n_components=50, random_state=0
    ).fit(*stairs(3000))
    assert model.report_.reason == "the only candidate that the arguments allow"


@pytest.mark.filterwarnings("ignore:time_limit=0.01 is too short")
def test_a_hybrid_that_is_asked_for_is_fitted():
    """Also where the defaults would not try one, for want of time."""
    X, y = stairs(400)
    hasty = KernelMachineRegressor(features="hybrid", time_limit=0.01, **QUICK).fit(
        X, y
    )
    assert hasty.report_.chosen == "Fourier features and random binning"


@pytest.mark.slow
def test_several_outputs_and_constant_ones():
    X, y = smooth(400, 2)
    Y = np.stack([y, np.full(len(y), 3.0), -100 * y], axis=1)
    model = KernelMachineRegressor(random_state=0).fit(X, Y)
    predicted = model.predict(X)
    assert_allclose(predicted[:, 1], 3.0, atol=1e-6)
    assert_allclose(predicted[:, 2], -100 * predicted[:, 0], atol=2.0)
    assert isinstance(model.features_, MetricFeatures | ConcatenatedFeatures)


def some_zeros(n):
    return sp.random_array(
        (n, 3), density=0.3, rng=np.random.default_rng(0), format="csr"
    )


def one_number(n):
    X = smooth(n, 3)[0]
    return np.where(np.arange(X.shape[1]) == 0, X, X > 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "rows", "why"),
    [
        (
            {"features": "binning"},
            lambda: smooth(500, 3)[0],
            "needs 2,000 to 200,000 rows, and there are 500",
        ),
        (
            {"features": "binning"},
            lambda: one_number(2500),
            "fewer than two numeric columns",
        ),
        ({}, lambda: some_zeros(2500), "the rows are sparse"),
        ({"features": "fourier"}, lambda: some_zeros(500), "the rows are sparse"),
    ],
)
def test_full_metric_that_is_none_says_why(options, rows, why):
    X = rows()[:, :3]
    y = X @ np.array([1.0, 2.0, 0.5])
    with pytest.warns(
        UserWarning, match=f"metric='full' learned no linear map: .*{why}"
    ) as caught:
        model = KernelMachineRegressor(metric="full", **options, **QUICK).fit(X, y)
    assert caught[0].filename == __file__
    assert not any(part.metric.linear_.size for part in model.features_.parts)


def test_a_budget_is_divided_among_stages(monkeypatch, policy):
    """By a clock that is set: a stage ends when its share of the time left is over, a
    stage after it begins with what that has left, and what has no limit never ends.
    """
    from bochner.loops.clock import WorkClock
    from bochner.selection.budget import Budget

    now = [100.0]
    monkeypatch.setattr(WorkClock, "seconds", lambda self: now[0])
    policy(stages={"learning": 1.0, "trials": 2.0, "solution": 5.0})
    whole = Budget(10.0, ("learning", "trials", "solution"))
    now[0] += 2
    learning = whole.stage("learning")
    assert (whole.seconds_left, learning.seconds_left, learning.is_over) == (
        8.0,
        1.0,
        False,
    )
    assert whole.stage("learning", "trials").seconds_left == 3.0
    assert whole.stage("loss") is whole
    now[0] += 1
    assert (learning.seconds_left, learning.is_over) == (0.0, True)
    assert whole.stage("trials").seconds_left == 2.0
    assert whole.stage("solution").seconds_left == 7.0
    assert whole.first_of(4).seconds_left == 1.75
    within = Budget(whole.limit, ("learning", "solution"), whole.start)
    assert within.stage("learning").seconds_left == pytest.approx(7 / 6)
    now[0] += 3
    assert whole.seconds_left == 4.0
    unlimited = Budget(None, ("learning", "trials"))
    assert (
        unlimited.stage("learning").seconds_left
        == unlimited.first_of(3).seconds_left
        == np.inf
    )
    assert not unlimited.is_over
    policy(short_limit=32.0)
    assert whole.shrunk((1024, 8192), 3) == [512, 4096]
    assert whole.work_share == 10 / 32
    assert Budget().shrunk((1024,)) == [1024]
    assert Budget().work_share == 1.0


def test_iterations_end_with_the_time(monkeypatch):
    """Where none is left a run has no more iterations than a trial, and another loss no
    more than a step of a trial and of the fit.
    """
    from bochner.selection.budget import Budget
    from bochner.selection.policy import POLICY

    X, y = make_friedman1(700, random_state=0)
    monkeypatch.setattr(
        Budget,
        "seconds_left",
        property(lambda self: np.inf if self.limit is None else 0.0),
    )
    model = KernelMachineRegressor(
        features="binning", random_state=0, time_limit=5.0
    ).fit(X, y)
    assert model.n_iter_ <= POLICY.trial_steps
    other = KernelMachineRegressor(
        features="binning", loss="huber", random_state=0, time_limit=5.0
    ).fit(X, y)
    assert other.n_steps_ <= 1


def test_a_limit_fits_a_sample_of_many_rows(policy):
    """Of the classes of all rows, those also that the sample may lack."""
    policy(timed_cells=500.0, rows_for_full_learning=300)
    X, y = make_friedman1(900, random_state=0)
    y = np.where(y > np.median(y), "high", "low").astype(object)
    y[0] = "only"
    model = KernelMachineClassifier(
        metric="isotropic", features="fourier", random_state=0, time_limit=8.0
    )
    model.fit(X, y)
    assert model.classes_.tolist() == ["high", "low", "only"]
    assert model.score(X, y) > 0.6


def test_bins_of_too_many_classes_are_not_tried(policy):
    policy(final_entries=10_000)
    X, y = make_friedman1(400, random_state=0)
    twentieth = np.argsort(np.argsort(y)) * 20 // 400
    model = KernelMachineClassifier(random_state=0).fit(X, twentieth)
    assert model.features_.is_dense
    assert all(
        "binning" not in candidate.name for candidate in model.report_.candidates
    )
    assert np.corrcoef(model.predict(X), twentieth)[0, 1] > 0.5


@pytest.mark.slow
def test_many_numbers_as_classes_are_told_of_regression():
    X, y = make_friedman1(240, random_state=0)
    with pytest.warns(UserWarning, match="120 different numbers.*use regression"):
        KernelMachineClassifier(random_state=0).fit(X, np.argsort(np.argsort(y)) // 2)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "most"), [(20_000, 0.02), (220_000, 0.003)])
def test_targets_without_noise_on_few_cells_are_learned(n, most):
    """The mean of each cell of the columns is the target itself: with a penalty of a
    tenth of a row .1 is missed.
    """
    fixed = np.random.default_rng(5)
    one, two = fixed.standard_normal((8, 5)), fixed.standard_normal((6, 4))

    def cells(n, seed):
        rng = np.random.default_rng(seed)
        X = np.stack([rng.integers(size, size=n) for size in (8, 6, 5, 4)], axis=1)
        return X.astype(float), one[X[:, 0], X[:, 2]] + two[X[:, 1], X[:, 3]]

    X, y = cells(5_000, 1)
    model = KernelMachineRegressor(random_state=0).fit(*cells(n, 0))
    assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < most * y.std()


@pytest.mark.slow
def test_frames_that_are_kept_as_numbers_give_the_same_model(monkeypatch):
    """To the bit, with text, levels, missing values and weights; blocks are encoded
    in every pass, or once.
    """
    rng, n = np.random.default_rng(0), 700
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": rng.choice(["x", "y", "zz"], n),
            "c": rng.integers(0, 9, n),
        }
    )
    X["d"] = X["c"].astype("category")
    X.loc[::7, "a"] = np.nan
    y, weight = X["c"] + 3.0 * (X["b"] == "x"), rng.uniform(0.5, 2.0, n)
    found, encode, calls = [], TableEncoder.encode, []
    monkeypatch.setattr(
        TableEncoder,
        "encode",
        lambda *args, **options: calls.append(1) or encode(*args, **options),
    )
    for kept in (0, KEPT_ENTRIES):
        calls.clear()
        monkeypatch.setattr(training, "KEPT_ENTRIES", kept)
        model = KernelMachineRegressor(n_components=60, random_state=0).fit(
            X, y, sample_weight=weight
        )
        found.append(
            (
                model.feature_weights_,
                model.predict(X),
                model.importance_.values,
                len(calls),
            )
        )
    (*before, often), (*after, seldom) = found
    for one, other in zip(before, after, strict=True):
        assert_array_equal(one, other)
    assert seldom < often
