"""Rows are split once, candidates compared, and a model chosen that knows no rows."""

import ast
import dataclasses
import re
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

import bochner.selection
from bochner import BinningFeatures, KernelMachineRegressor
from bochner.data.array_source import ArraySource
from bochner.data.hashes import row_hashes
from bochner.features.leaves import leaves
from bochner.loops.clock import CLOCK
from bochner.selection import candidates as candidates_module
from bochner.selection import learning as learning_module
from bochner.selection.budget import Budget
from bochner.selection.candidates import (
    FOURIER,
    HYBRID,
    LINEAR,
    LearnedMetrics,
    candidates,
    fit_bins,
)
from bochner.selection.choose import choose
from bochner.selection.comparison import CandidateResult, Race
from bochner.selection.metric_learning import learning_sample
from bochner.selection.policy import POLICY, Policy
from bochner.selection.problem import SearchSpace, prepare
from bochner.selection.report import RowsCurve, of_no_candidates
from bochner.selection.split import rows_held_out, split
from bochner.selection.validation import ValidationResult, Validator

PACKAGE = Path(bochner.selection.__file__).parent


def rows(n=400, copies=1):
    rng = np.random.default_rng(0)
    X = np.tile(rng.standard_normal((n, 3)).astype(np.float32), (copies, 1))
    return X, np.sin(2 * X[:, :1]) + X[:, 1:2] + 0.1 * rng.standard_normal((len(X), 1))


def problem_of(classes=False, budget=None, n=400, **space):
    X, y = rows(n)
    y = np.where(y > 0, 1.0, -1.0) if classes else y
    return prepare(
        ArraySource(X, y),
        np.arange(3),
        None,
        SearchSpace(**space),
        classes,
        0,
        budget or Budget(),
    )


class TestSplit:
    def test_every_row_is_fitted_or_judges(self):
        X, y = rows()
        found = split(ArraySource(X, y), 20, 0)
        np.testing.assert_array_equal(
            found.held_out, rows_held_out(row_hashes(X), np.ones(400), 0)
        )
        np.testing.assert_array_equal(found.out.X, X[found.held_out])
        np.testing.assert_array_equal(found.fit.X, X[~found.held_out])
        assert (
            found.n_rows,
            found.n_solved,
            found.row_weight,
            found.largest_weight,
        ) == (400, 400, 1.0, 1.0)

    def test_many_repeats_are_one(self):
        X, y = rows(300, copies=3)
        found = split(ArraySource(X, y), 20, 0)
        fitted = 900 - found.held_out.sum()
        assert found.fit.n_rows == fitted / 3
        np.testing.assert_array_equal(found.fit.weights, 3)
        assert found.out.n_rows == found.held_out.sum()
        assert found.row_weight == 3

    def test_weights_are_measured_by_the_largest(self):
        X, y = rows()
        weight = np.random.default_rng(1).uniform(0, 8, 400)
        weight[:50] = 0
        found = split(ArraySource(X, y, weight), 20, 0)
        assert found.largest_weight == weight.max()
        assert not found.held_out[:50].any()
        np.testing.assert_allclose(
            found.fit.weights * found.largest_weight, weight[50:][~found.held_out[50:]]
        )

    def test_too_few_rows(self):
        X, y = rows()
        assert split(ArraySource(X, y), 401, 0) is None
        assert split(ArraySource(X, y), 400, 0) is not None
        assert split(ArraySource(X[:1].repeat(400, axis=0), y), 2, 0) is None

    def test_a_million_are_enough(self, policy):
        policy(sampled_rows=100)
        X, y = rows()
        found = split(ArraySource(X, y), 20, 0)
        assert found.fit.n_rows == 100
        assert found.n_solved == 400


class TestProblem:
    def test_does_not_change(self):
        with pytest.raises(dataclasses.FrozenInstanceError):
            problem_of().seed = 1
        with pytest.raises(dataclasses.FrozenInstanceError):
            POLICY.clear = 1.0

    def test_equal_targets(self):
        X, _ = rows()
        found = prepare(
            ArraySource(X, np.ones((400, 1))),
            np.arange(3),
            None,
            SearchSpace(),
            False,
            0,
            Budget(),
        )
        assert found is None

    def test_many_outputs_have_fewer_grids(self, policy):
        """Coefficients are K x D: hundreds of classes on 800 grids would take
        gigabytes.
        """
        policy(final_entries=320_000)
        X, y = rows()
        found = []
        for K in (1, 256):
            targets = np.tile(y, (1, K)) + np.arange(K) * X[:, :1]
            problem = prepare(
                ArraySource(X, targets),
                np.arange(3),
                None,
                SearchSpace(),
                False,
                0,
                Budget(),
            )
            found.append(problem.n_grids(0.1))
        assert found == [800, 50]

    def test_a_limit_counts_all_outputs(self, policy):
        """A trial fits a few combinations of many outputs, and the model all of
        them.
        """
        policy(final_grids=(1, 10**6), final_entries=10**12, rows_for_full_learning=0)
        X, y = rows()
        found = []
        for K in (4, 100):
            targets = np.tile(y, (1, K)) + np.arange(K) * X[:, :1]
            problem = prepare(
                ArraySource(X, targets),
                np.arange(3),
                None,
                SearchSpace(),
                False,
                0,
                Budget(1000.0),
            )
            found.append(problem.n_grids(0.5))
        ratio = POLICY.mixtures / 100
        assert found[1] == pytest.approx(ratio * found[0], rel=0.05, abs=1)

    def test_more_columns_have_fewer_rows(self, policy):
        policy(timed_cells=20_000)
        assert [Budget(2.0).n_rows(d) for d in (1, 20, 200)] == [40_000, 2_000, 200]
        assert Budget().n_rows(20_000) == np.inf

    def test_trials_under_a_limit_have_bins_by_the_time_for_them(
        self, policy, monkeypatch
    ):
        """Those that ten trials number in half of it, of which more columns take
        longer.
        """
        monkeypatch.setattr(CLOCK, "seconds", lambda: 7.0)
        grids = POLICY.trial_grids[0]
        policy(trial_entries=800 * grids, rows_for_full_learning=100)
        rng = np.random.default_rng(0)
        for d, most in ((16, 200), (48, 100)):
            X = rng.standard_normal((1000, d))
            problem = prepare(
                ArraySource(X, X[:, :1]),
                np.arange(d),
                None,
                SearchSpace(),
                False,
                0,
                Budget(1.0, ("learning", "trials")),
            )
            assert problem.validator.n_rows == most
            assert problem.trial_entries == 400 * grids

    def test_more_time_has_more_grids(self, policy):
        """Two trials of that number of grids take the part of the time left that is for
        the solution.
        """
        stages = {"solution": 3.0, "calibration": 1.0}
        policy(final_grids=(1, 10**6), final_entries=10**12, stages=stages)
        stages = "solution", "calibration"
        problem = problem_of(budget=Budget(1000.0))
        each = (
            0.5
            / problem.n_trial_grids
            * problem.split.n_solved
            / problem.validator.n_rows
        )
        for left in (10.0, 40.0):
            now = dataclasses.replace(problem, budget=Budget(1000.0, stages))
            now.budget.start -= 1000 - left
            expected = 0.75 * left / each / 2
            assert now.n_grids(0.5) == pytest.approx(expected, rel=0.05, abs=1)
        assert expected > 20

    def test_a_limit_has_no_more_grids_than_none(self):
        problem = problem_of(budget=Budget(1e6))
        assert problem.n_grids(0.01) == problem_of(budget=Budget()).n_grids(0.01)

    def test_one_clock(self):
        texts = {path.name: path.read_text() for path in PACKAGE.rglob("*.py")}
        readers = [
            name
            for name, text in texts.items()
            if "perf_counter" in text or "CLOCK" in text
        ]
        assert readers == ["budget.py"]

    @pytest.mark.parametrize("n_grids", [20, 10_000])
    def test_bins_are_compared_near_their_final_size(self, n_grids, monkeypatch):
        """With as many grids as the model, or a few times those of a trial."""
        sizes, bins = [], [(1.0, BinningFeatures())]
        monkeypatch.setattr(
            candidates_module,
            "grids",
            lambda metrics, n_grids, seed: sizes.append(n_grids) or bins,
        )
        monkeypatch.setattr(Validator, "iterate", lambda self, *rest, **more: None)
        race = Race(problem_of())
        known = LearnedMetrics({}, SimpleNamespace(alpha=1.0), n_grids=n_grids)
        fit_bins(lambda known: known.bins, HYBRID, race, known)
        assert sizes == [min(n_grids, POLICY.growth * race.problem.n_trial_grids)]

    @pytest.mark.parametrize("limit", [None, 60.0, 0.0])
    def test_no_trial_is_cut_short(self, limit, monkeypatch):
        """Without time left the one of few grids, which told the size, is taken."""
        race = Race(problem_of(budget=Budget(limit)))
        race.problem.validator.budget = Budget(limit)
        ones = np.ones(len(race.validator.weight_out))
        bins = [(1.0, BinningFeatures())]
        monkeypatch.setattr(candidates_module, "grids", lambda *args, seed: bins)
        cut = ValidationResult(3 * ones, np.ones(1), 1, ones[:, np.newaxis], 0.1)
        monkeypatch.setattr(Validator, "iterate", lambda self, *rest, **more: cut)
        sized = SimpleNamespace(alpha=1.0, trial=cut._replace(losses=ones))
        known = LearnedMetrics({}, sized, n_grids=50)
        entry = fit_bins(lambda known: known.bins, HYBRID, race, known)
        assert race.loss(entry) == (1 if limit == 0 else 3)
        expected = race.problem.n_trial_grids if limit == 0 else 50
        assert entry.size == expected

    def test_every_constant_says_what_it_is(self):
        lines = (PACKAGE / "policy.py").read_text().splitlines()
        fields = [
            (above, line)
            for above, line in pairwise(lines)
            if re.match(r"    \w+: .* = ", line)
        ]
        assert len(fields) == len(dataclasses.fields(Policy))
        for above, line in fields:
            assert "  # " in line or above.startswith("    # "), line

    @pytest.mark.slow
    def test_every_constant_is_used(self):
        used = {
            node.attr
            for path in PACKAGE.parent.rglob("*.py")
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "POLICY"
        }
        assert used == {field.name for field in dataclasses.fields(Policy)}


def entry(name, rank, losses, n_iter=1):
    trial = ValidationResult(
        np.asarray(losses), np.ones(1), n_iter, np.zeros((len(losses), 1)), 0.1
    )
    return CandidateResult(name, rank, 10, trial, lambda size: [])


def above_the_mean(race):
    """All candidates with losses below ten are clearly better than the mean."""
    race.losses_of_mean = 10 + np.random.default_rng(1).uniform(
        size=len(race.validator.weight_out)
    )
    return race


class TestDecision:
    @pytest.mark.parametrize(
        ("classes", "n", "chosen"),
        [(False, 1200, "large"), (False, 400, "small"), (True, 400, "small")],
    )
    def test_within_the_noise(self, classes, n, chosen):
        """The simplest for classes and few rows, else that of most parts; the middle
        one is best by next to nothing.
        """
        compared = above_the_mean(Race(problem_of(classes, n=n)))
        noise = np.random.default_rng(0).standard_normal(
            (2, len(compared.validator.weight_out))
        )
        near = [
            ("small", 0, 5 + noise[0]),
            ("middle", 1, 5 + noise[1] - noise[1].mean() - 0.01),
            ("large", 2, 5 - noise[0]),
        ]
        near[0] = ("small", 0, near[0][2] - noise[0].mean())
        near[2] = ("large", 2, near[2][2] + noise[0].mean())
        compared.entries += [entry(*one) for one in near]
        found, reason = compared.decide()
        assert found.name == chosen
        assert (
            reason
            == "within the noise of the lowest validation loss (middle), and preferred"
        )

    @pytest.mark.parametrize("classes", [False, True])
    def test_a_linear_model_within_the_noise(self, classes):
        """It is preferred to simpler and larger ones, and not where it is clearly
        worse.
        """
        compared = Race(problem_of(classes))
        base = np.random.default_rng(0).uniform(
            1, 2, len(compared.validator.weight_out)
        )
        compared.entries += [
            entry("best", 0, base),
            entry("large", 4, base),
            entry("linear", -1, base),
        ]
        assert compared.decide()[0].name == "linear"
        compared.entries[-1] = entry("linear", -1, base + 1)
        assert compared.decide()[0].name != "linear"

    @pytest.mark.parametrize(
        ("classes", "behind", "chosen"),
        [
            (False, 0.9, "bins"),
            (False, 1.1, "waves"),
            (True, 0.4, "bins"),
            (True, 0.6, "waves"),
        ],
    )
    def test_fourier_features_alone_must_be_clearly_better(
        self, classes, behind, chosen
    ):
        """Up to a standard error of the paired losses bins beside them are preferred
        for numbers, up to half of one bins alone for classes.
        """
        race = above_the_mean(Race(problem_of(classes, n=1500)))
        noise = np.random.default_rng(0).standard_normal(len(race.validator.weight_out))
        noise -= noise.mean()
        gap = behind * race.validator.mean_and_error(noise)[1]
        race.entries += [
            entry("waves", 1, np.full(len(noise), 1.0), n_iter=0),
            entry("bins", 2 if classes else 4, 1 + gap + noise),
        ]
        assert race.decide()[0].name == chosen

    def test_simple_ones_where_nothing_is_clearly_better_than_the_mean(self):
        """The best one is by 1.5 standard errors, too little to be no chance."""
        race = Race(problem_of())
        mean = race.losses_of_mean = 10 + race.losses_of_mean
        noise = np.random.default_rng(0).standard_normal(len(mean))
        noise -= np.average(noise, weights=race.validator.weight_out)
        gain = 1.5 * race.validator.mean_and_error(noise)[1]
        race.entries += [
            entry("linear", -1, mean),
            entry("bins", 4, mean - gain + noise),
        ]
        assert race.decide()[0].name == "linear"
        assert "mean of the targets" in race.decide()[1]
        race.entries[1] = entry("bins", 4, mean - 2 * gain + noise)
        assert race.decide()[0].name == "bins"

    @pytest.mark.parametrize("classes", [False, True])
    def test_infinite_losses_are_never_as_good(self, classes):
        """Of a candidate whose predictions overflow."""
        compared = above_the_mean(Race(problem_of(classes)))
        base = np.random.default_rng(0).uniform(
            1, 2, len(compared.validator.weight_out)
        )
        overflown = base.copy()
        overflown[:3] = np.inf
        compared.entries += [
            entry("linear", -1, overflown),
            entry("small", 0, overflown),
            entry("finite", 2, base),
            entry("large", 4, overflown),
        ]
        assert compared.decide()[0].name == "finite"

    def test_the_least_loss(self):
        compared = Race(problem_of())
        base = np.random.default_rng(0).uniform(
            1, 2, len(compared.validator.weight_out)
        )
        compared.entries += [entry("good", 0, base), entry("bad", 5, base + 1)]
        assert compared.decide()[0].name == "good"
        assert str(compared.report("good", "why")).startswith("good: why.")


def test_there_are_seven_candidates():
    found = set()
    for classes, budget in ((True, None), (False, None)):
        race = Race(problem_of(classes, budget))
        known = LearnedMetrics(
            {"fourier": None}, "scaled", "mapped", "halves", None, 50
        )
        found |= {one.name for one in candidates(race, known)}
    assert len(found) == 7


@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize("features", ["auto", "hybrid"])
def test_bins_and_fourier_features_side_by_side(classes, features):
    """For numbers, and for classes on request."""
    race = Race(problem_of(classes=classes, features=features))
    base = SimpleNamespace(learned=SimpleNamespace(n_mixed=0))
    known = LearnedMetrics({"fourier": None}, base, n_grids=50)
    tried = HYBRID in candidates(race, known)
    assert tried == (features == "hybrid" or not classes)


@pytest.mark.parametrize("classes", [True, False])
def test_a_linear_map_and_halves_are_learned_for_classes(policy, monkeypatch, classes):
    policy(rows_for_full_learning=300)
    race, learn, learned = Race(problem_of(classes)), learning_module.learn, []

    def learn_briefly(task):
        learned.append((task.kernel, task.schedule.steps))
        return learn(
            dataclasses.replace(
                task, schedule=dataclasses.replace(task.schedule, steps=6)
            )
        )

    monkeypatch.setattr(learning_module, "learn", learn_briefly)
    sample = learning_sample(race.validator.fitted, 0)
    known = learning_module.learn_metrics(race, sample, None)
    # Bins of classes are alone, and learned for longer than what is tried beside them
    steps = (2 * 450, 2 * POLICY.window) if classes else (450, 450)
    assert learned == list(zip(("laplacian", "gaussian"), steps, strict=True))
    names = {name.removeprefix("random binning, ") for name, *_ in race.sizes}
    assert ("linear map" in names) == classes
    assert (known.mapped is not None) == classes
    assert known.leader is None
    assert [one.name for one in race.entries] == [FOURIER.name]


def test_more_classes_than_are_validated_one_by_one_are_classes():
    """Bins alone are tried, as they may have the logistic loss."""
    X, _ = rows(1500)
    K = POLICY.mixed_outputs + 1
    labels = np.random.default_rng(0).integers(K, size=1500)
    signs = np.where(labels[:, np.newaxis] == np.arange(K), 1.0, -1.0)
    source = ArraySource(X, signs)
    problem = prepare(source, np.arange(3), None, SearchSpace(), True, 0, Budget())
    assert problem.allows_bins_alone
    race = Race(problem)
    scaled = SimpleNamespace(learned=SimpleNamespace(n_mixed=0))
    known = LearnedMetrics({"fourier": None}, scaled, None, "halves", None, 50)
    names = [one.name for one in candidates(race, known)]
    assert "random binning, learned lengthscales" in names


def test_the_report_says_why_a_candidate_was_not_tried():
    race = Race(problem_of(classes=True))
    base = SimpleNamespace(learned=SimpleNamespace(n_mixed=0))
    candidates(race, LearnedMetrics({"fourier": None}, base, n_grids=50))
    report = race.report("bins", "why")
    name = "random binning, learned lengthscales and linear map"
    assert (
        report.not_tried[name]
        == "for bins it needs 2,000 to 200,000 rows, and there are 400"
    )
    assert f"{name}: not tried, as for bins it needs" in " ".join(str(report).split())
    assert f"{name}: not tried, as for bins" in report._repr_html_()
    other = Race(problem_of(classes=True, features="fourier"))
    candidates(other, LearnedMetrics({"fourier": None}, n_grids=50))
    assert not other.not_tried  # for what the arguments exclude is no news


@pytest.mark.parametrize("features", ["fourier", "binning"])
def test_the_model_knows_no_rows(features):
    problem = problem_of(features=features, metric="ard", n_components=20)
    choice = choose(problem)
    model, outcome = choice.model, choice.outcome
    assert not any(
        len(value) == 400
        for value in vars(model).values()
        if isinstance(value, np.ndarray)
    )
    assert not hasattr(model.features, "n_features_in_")
    assert outcome.split is problem.split
    assert (
        sum(
            getattr(one.features, "n_grids", 0) or one.features.n_components
            for one in leaves(model.features)
        )
        == 20
    )
    targets = problem.validator.targets
    assert outcome.losses(targets.T).max() < 1e-12


class TestRowsCurve:
    def test_losses_are_those_of_ridge_regression_on_parts_of_the_rows(self):
        race = Race(problem_of(n=800))
        entry = LINEAR.fit(LINEAR, race, LearnedMetrics({}))
        curve = race.rows_curve(entry)
        n, rows = race.validator.n_rows, race.validator
        assert curve.n_rows == [n // 4, n // 2, n]
        for size, loss, noise in zip(
            curve.n_rows, curve.losses, curve.standard_errors, strict=True
        ):
            some = rows.subsample(size)
            scale = StandardScaler().fit(some.X.astype(float))
            ridge = Ridge(alpha=entry.trial.share * 3 * n).fit(
                scale.transform(some.X.astype(float)), some.y
            )
            predicted = ridge.predict(scale.transform(rows.X_out.astype(float)))
            errors = np.square(rows.y_out[:, 0] - predicted.ravel())
            assert loss == pytest.approx(errors.mean(), rel=1e-4)
            assert noise == pytest.approx(errors.std() / np.sqrt(len(errors)), rel=1e-3)

    @pytest.mark.slow
    @pytest.mark.parametrize("features", ["fourier", "binning", "hybrid"])
    @pytest.mark.parametrize("classes", [False, True])
    def test_losses_fall_where_the_target_is_without_noise(self, features, classes):
        """None rises by more than its standard error."""
        X = np.random.default_rng(1).uniform(-3, 3, (1600, 2)).astype(np.float32)
        y = np.sin(2 * X[:, :1]) * X[:, 1:]
        source = ArraySource(X, np.sign(y) if classes else y)
        space = SearchSpace(features=features)
        report = choose(
            prepare(source, np.arange(2), None, space, classes, 0, Budget())
        ).model.report
        assert report.rows.n_rows[-1] == 1600 - report.rows_held_out
        errors = report.rows.standard_errors[1:]
        assert (np.diff(report.rows.losses) < errors).all()
        _, before, after = report.rows.losses
        assert report.rows.gain == pytest.approx((before - after) / before)
        assert report.rows.verdict != "unlikely to help"
        assert f"More rows: {report.rows}." in " ".join(str(report).split())
        assert report.rows.verdict in report._repr_html_()

    def test_nothing_is_fitted_again_where_there_is_no_time(self):
        assert choose(problem_of(budget=Budget(0.05))).model.report.rows is None

    @pytest.mark.parametrize(
        ("gain", "error", "verdict"),
        [
            (0.1, 0.02, "likely to help"),
            (0.1, 0.06, "cannot tell"),
            (-0.1, 0.06, "cannot tell"),
            (0.005, 0.001, "unlikely to help"),
            (0.0, 0.001, "unlikely to help"),
            (-0.1, 0.01, "unlikely to help"),
        ],
    )
    def test_a_verdict_needs_a_gain_beyond_its_noise(self, gain, error, verdict):
        curve = RowsCurve([10, 20, 40], [0.3, 0.2, 0.1], [0.0, 0.0, 0.0], gain, error)
        assert str(curve).startswith(
            f"{verdict}. From 20 to 40 rows the loss "
            f"{'falls' if gain >= 0 else 'rises'} by "
        )


@pytest.mark.parametrize("waves", [True, False])
def test_report_without_candidates_names_the_features(waves):
    told = " ".join(str(of_no_candidates(waves, "columns are many")).split())
    assert ("Fourier features" in told, "random binning" in told) == (waves, not waves)
    assert "one lengthscale: nothing is compared, as columns are many." in told
    assert "learned lengthscales: not tried, as columns are many." in told


def test_targets_that_are_seldom_large_are_signal():
    """Few rows have most of the squared errors, whose mean then tells little."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, 2))
    y = np.exp(1.3 * X[:, 0] + 0.7 * X[:, 1])
    model = KernelMachineRegressor(random_state=0).fit(X[:500], y[:500])
    assert "mean of the targets" not in model.report_.reason
    assert model.score(X[500:], y[500:]) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.01])
def test_outliers_among_the_targets_are_told_of(share):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.standard_normal(1500)
    y[rng.uniform(size=1500) < share] *= 100
    report = KernelMachineRegressor(random_state=0).fit(X, y).report_
    assert (report.outliers > 0.9) == (share > 0)
    assert ("loss='huber'" in str(report)) == (share > 0)
    robust = KernelMachineRegressor(loss="huber", random_state=0).fit(X, y).report_
    assert "huber" not in str(robust)


def test_the_share_of_the_worst_hundredth():
    """Two of 200 rows have half of the squared error, by weights too."""
    losses = np.r_[np.ones(198), 99.0, 99.0]
    for weight in (np.ones(200), np.full(200, 7.0)):
        validator = SimpleNamespace(is_classifier=False, weight_out=weight)
        race = SimpleNamespace(validator=validator)
        entry = SimpleNamespace(losses=losses)
        assert Race._worst_hundredth(race, entry) == pytest.approx(0.5)
